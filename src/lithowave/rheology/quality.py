"""Quality factor as a function of frequency, and the quality factors of bulk and shear."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

CORNER_FREQUENCY = 1.0
"""Default of `QualityLaw.corner_frequency`, Hz (Withers, Olsen & Day 2015, BSSA 105(6), 3129-3142)."""

ROUNDING = 0.01
"""Negative bulk attenuation above this fraction of -1/Qp is regarded as rounding of Qp and Qs, and replaced by 0."""


@dataclass(frozen=True)
class QualityLaw:
    """Q(f) = Q0 below the corner frequency, Q0 (f / corner_frequency)^exponent above it; exponent 0: constant Q."""

    exponent: float = 0.0
    corner_frequency: float = CORNER_FREQUENCY

    def __post_init__(self) -> None:
        if not 0.0 <= self.exponent < 1.0:
            raise ValueError(f"exponent = {self.exponent}: must be at least 0 and below 1")
        if not 0.0 < self.corner_frequency < np.inf:
            raise ValueError(f"corner_frequency = {self.corner_frequency} Hz: must be above 0")

    def log_ratio(self, frequency: ArrayLike) -> np.ndarray:
        """Return ln(Q(f) / Q0) at frequencies in Hz."""
        octaves = np.log(np.asarray(frequency, float) / self.corner_frequency)
        return self.exponent * np.maximum(octaves, 0.0)


def inverse_bulk_quality(inverse_qp: ArrayLike, inverse_qs: ArrayLike, vp: ArrayLike, vs: ArrayLike) -> np.ndarray:
    """Return 1/Qkappa = (1/Qp - L/Qs) / (1 - L) with L = 4/3 vs^2/vp^2; 0 where rounding makes it slightly negative.

    The rule is that of weak attenuation, in which Im M_P = Im kappa + 4/3 Im mu (Anderson & Hart 1978, JGR 83(B12),
    5869-5882). Values below -1% of 1/Qp / (1 - L) remain negative; no medium has them.

    Parameters
    ----------
    inverse_qp, inverse_qs : 1/Qp and 1/Qs, 0 without attenuation.
    vp, vs : m/s; vs = 0 in a fluid, where Qkappa is Qp.
    """
    share = 4.0 / 3.0 * (np.asarray(vs, float) / np.asarray(vp, float)) ** 2
    excess = np.asarray(inverse_qp, float) - share * np.asarray(inverse_qs, float)
    rounded = (excess < 0.0) & (excess >= -ROUNDING * np.asarray(inverse_qp, float))
    return np.where(rounded, 0.0, excess) / (1.0 - share)


def largest_qp(qs: float, vp: float, vs: float) -> float:
    """Return the largest Qp that is possible with Qs: 1/Qp = L/Qs, without bulk attenuation."""
    return float(qs / (4.0 / 3.0 * (vs / vp) ** 2))
