r"""Material stored in 16-bit integers, which reduces memory traffic and has a stated error.

A linear scale stores low + step * code (density and moduli), a logarithmic one two to the power of that (1/mu), so that
low velocities retain their relative precision next to high ones:

.. math:: |\delta\rho| \le \tfrac12 \frac{\rho_{max} - \rho_{min}}{65534}, \qquad
    |\delta\lambda| \le \tfrac12 \frac{\lambda_{max} - \lambda_{min}}{65534}, \qquad
    \left|\frac{\delta\mu}{\mu}\right| \le \frac{\ln(\mu_{max} / \mu_{min})}{2 \cdot 65534}.

The last code is the value `outside` of the table of fields, beyond the far ends of the grid.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from lithowave.parallel.ranks import SINGLE_RANK, Ranks
from lithowave.solvers.finite_difference.fields import Field

STEPS = 65534
LAST = 65535


@dataclass(frozen=True)
class Quantization:
    """Codes of one material array.

    low, step : in single precision, as on the device. logarithmic : True if the codes are exponents of two. outside :
    value of the last code; infinite without such a value.
    """

    low: np.float32
    step: np.float32
    logarithmic: bool
    outside: float

    def encode(self, values: np.ndarray) -> np.ndarray:
        """Return 16-bit codes."""
        inside = np.where(values < self.outside, values, 1.0)
        line = np.log2(inside) if self.logarithmic else inside
        steps = (line - float(self.low)) / float(self.step) if self.step else np.zeros(np.shape(line))
        return np.where(values < self.outside, np.clip(np.rint(steps), 0, STEPS), LAST).astype(np.uint16)

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """Return the values of codes."""
        line = float(self.low) + float(self.step) * codes.astype(float)
        values = np.exp2(line) if self.logarithmic else line
        return np.where((codes == LAST) & np.isfinite(self.outside), self.outside, values)

    def error(self) -> float:
        """Return the largest error of a value: half a step in its unit, relative if the scale is logarithmic."""
        half = 0.5 * float(self.step)
        return float(np.exp2(half) - 1.0) if self.logarithmic else half


def quantize(
    planes: Iterable[dict[str, np.ndarray]], fields: Sequence[Field], ranks: Ranks = SINGLE_RANK
) -> dict[str, Quantization]:
    """Return the quantization of each material array, with codes that span the values of these planes on all ranks."""
    limits = np.array([math.inf if field.outside is None else field.outside for field in fields])
    lows, highs = np.full(len(fields), np.inf), np.full(len(fields), -np.inf)
    for plane in planes:
        for number, field in enumerate(fields):
            inside = np.where(plane[field.name] < limits[number], plane[field.name], np.nan)
            if not np.isnan(inside).all():
                lows[number] = min(lows[number], np.nanmin(inside))
                highs[number] = max(highs[number], np.nanmax(inside))
    lows = np.min(ranks.all_gather(lows), axis=0)
    highs = np.max(ranks.all_gather(highs), axis=0)
    quantizations = {}
    for field, low, high, limit in zip(fields, lows, highs, limits, strict=True):
        logarithmic = field.scale == "logarithmic"
        first, last = (np.log2(low), np.log2(high)) if logarithmic else (low, high)
        step = np.float32((last - first) / STEPS)
        quantizations[field.name] = Quantization(np.float32(first), step, logarithmic, float(limit))
    return quantizations
