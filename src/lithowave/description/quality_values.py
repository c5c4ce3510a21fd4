"""Quality factors at points: whether they are possible, and their inverses for bulk and shear."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from lithowave.rheology.body import LARGEST_INVERSE_QUALITY
from lithowave.rheology.quality import inverse_bulk_quality, largest_qp

InverseQuality = tuple[np.ndarray, np.ndarray]
"""1/Qkappa and 1/Qmu; 0 without attenuation."""

WAVES = ("qp", "qs")
MODULI = ("qkappa", "qmu")

SMALLEST_QUALITY = 1.0 / LARGEST_INVERSE_QUALITY


def inverse_quality_of(
    names: Sequence[str], first: np.ndarray, second: np.ndarray | None, vp: np.ndarray, vs: np.ndarray
) -> InverseQuality:
    """Return 1/Qkappa and 1/Qmu from Qp and Qs (`WAVES`) or from Qkappa and Qmu (`MODULI`).

    second : Qs or Qmu, not used in a fluid; None if there are fluids only.
    """
    first = 1.0 / first
    if second is None:
        return first, np.zeros_like(first)
    solid = vs > 0.0
    inverse_shear = np.where(solid, 1.0 / np.where(solid, second, 1.0), 0.0)
    inverse_bulk = inverse_bulk_quality(first, inverse_shear, vp, vs) if tuple(names) == WAVES else first
    return inverse_bulk, inverse_shear


def quality_problem(
    names: Sequence[str],
    first: np.ndarray,
    second: np.ndarray | None,
    vp: np.ndarray,
    vs: np.ndarray,
    place: Callable[[tuple[int, ...]], str],
) -> tuple[str, str] | None:
    """Return the problem of quality factors and the allowed values; None if a medium can have them.

    ``place`` turns the index of the first bad point into text.
    """
    allowed = f"must be at least {SMALLEST_QUALITY:g}, or infinite without attenuation"
    for name, values in zip(names, (first, second), strict=True):
        if values is None:
            continue
        relevant = np.ones(vs.shape, bool) if name == names[0] else vs > 0.0
        bad = relevant & ~(values >= SMALLEST_QUALITY)
        if bad.any():
            index = np.unravel_index(int(bad.argmax()), bad.shape)
            return f"{name} = {values[index]:.12g} {place(index)}{_more(bad)}".rstrip(), allowed  # type: ignore
    if tuple(names) != WAVES or second is None:
        return None
    bulk, _ = inverse_quality_of(names, first, second, vp, vs)
    bad = (bulk < 0.0) | (bulk > LARGEST_INVERSE_QUALITY)
    if not bad.any():
        return None
    index = np.unravel_index(int(bad.argmax()), bad.shape)
    got = f"qp = {first[index]:.12g} and qs = {second[index]:.12g} {place(index)}{_more(bad)}".rstrip()  # type: ignore
    if bulk[index] < 0.0:
        limit = largest_qp(second[index], vp[index], vs[index])
        return (
            f"{got}: attenuation of the bulk modulus would be negative",
            f"with this qs, qp must be at most {limit:.6g}, which is qs / (4/3 vs^2/vp^2)",
        )
    return f"{got}: the quality factor of the bulk modulus is {1.0 / bulk[index]:.3g}", allowed


def _more(bad: np.ndarray) -> str:
    count = int(bad.sum()) - 1
    return f" (and {count} more points)" if count else ""
