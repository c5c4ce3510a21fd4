r"""The material in 16 bits a number: less memory to move, at a stated error.

Density and lambda become low + step * code, 1/mu two to the power of that, so that soft ground keeps its relative
precision beside hard rock:

.. math:: |\delta\rho| \le \tfrac12 \frac{\rho_{max} - \rho_{min}}{65534}, \qquad
    |\delta\lambda| \le \tfrac12 \frac{\lambda_{max} - \lambda_{min}}{65534}, \qquad
    \left|\frac{\delta\mu}{\mu}\right| \le \frac{\ln(\mu_{max} / \mu_{min})}{2 \cdot 65534}.

The last code of density and 1/mu is that of the immense values beyond the far ends of the grid.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from lithowave.parallel.ranks import ALONE, Ranks
from lithowave.solvers.finite_difference.medium import IMMENSE_COMPLIANCE, IMMENSE_DENSITY

STEPS = 65534
LAST = 65535
IMMENSE = {"lam": np.inf, "compliance": IMMENSE_COMPLIANCE, "density": IMMENSE_DENSITY}


@dataclass(frozen=True)
class Code:
    """How one number of the material becomes a code, and back.

    low, step : in single precision, as the device has them. logarithmic : whether they count powers of two.
    """

    low: np.float32
    step: np.float32
    logarithmic: bool
    immense: float

    def encode(self, values: np.ndarray) -> np.ndarray:
        """Codes, 16 bits."""
        plain = np.where(values < self.immense, values, 1.0)
        line = np.log2(plain) if self.logarithmic else plain
        steps = (line - float(self.low)) / float(self.step) if self.step else np.zeros(np.shape(line))
        return np.where(values < self.immense, np.clip(np.rint(steps), 0, STEPS), LAST).astype(np.uint16)

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """The numbers that the codes stand for."""
        line = float(self.low) + float(self.step) * codes.astype(float)
        found = np.exp2(line) if self.logarithmic else line
        return np.where((codes == LAST) & np.isfinite(self.immense), self.immense, found)

    def error(self) -> float:
        """The largest change of a number: half a step, in its unit; of one that counts powers of two, relative."""
        half = 0.5 * float(self.step)
        return float(np.exp2(half) - 1.0) if self.logarithmic else half


def make_codes(planes: Iterable[tuple[np.ndarray, ...]], ranks: Ranks = ALONE) -> dict[str, Code]:
    """Codes for lambda, 1/mu and density that span what is in these planes, on all ranks."""
    lows, highs = np.full(3, np.inf), np.full(3, -np.inf)
    for plane in planes:
        for number, (values, immense) in enumerate(zip(plane, IMMENSE.values(), strict=True)):
            plain = np.where(values < immense, values, np.nan)
            if not np.isnan(plain).all():
                lows[number] = min(lows[number], np.nanmin(plain))
                highs[number] = max(highs[number], np.nanmax(plain))
    lows = np.min(ranks.all_gather(lows), axis=0)
    highs = np.max(ranks.all_gather(highs), axis=0)
    found = {}
    for name, low, high in zip(IMMENSE, lows, highs, strict=True):
        logarithmic = name == "compliance"
        first, last = (np.log2(low), np.log2(high)) if logarithmic else (low, high)
        found[name] = Code(
            np.float32(first), np.float32((last - first) / STEPS), logarithmic, IMMENSE[name]
        )
    return found
