"""The relaxation body of a model: common relaxation rates, and weights for every quality factor.

    sigma = M_U (eps - sum_j xi_j),     d xi_j / dt + w_j xi_j = w_j Y_j eps,
    M(w) = M_U (1 - sum_j Y_j w_j / (w_j + i w)),        Y_j >= 0,  sum_j Y_j < 1,

with the unrelaxed modulus M_U (Emmerich & Korn 1987, Geophysics 52(9), 1252-1264) and time dependence exp(i w t).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import ArrayLike

from lithowave.rheology.fit import collocation_points, fit_rates, fit_strengths
from lithowave.rheology.quality import QualityLaw

MOST_MECHANISMS = 8

LARGEST_INVERSE_QUALITY = 1.0
"""Largest 1/Q for which a body has weights."""

SMALLEST_BAND = 1.5
"""Smallest ratio of the ends of a band."""

_NODES = 65
"""Values of 1/Q in the table of weights, denser towards 0."""

_WEAK = 1e-6
"""1/Q at which the ratio of weights to 1/Q is that of weak attenuation."""

_STEPS = 64
"""Steps of the integral over frequency outside the band; of a constant Q, every number is exact."""

_TESTED = 1001
"""Frequencies at which the deviation is measured."""


@dataclass(frozen=True, eq=False)
class RelaxationBody:
    """Mechanisms with common rates and weights Y_j as functions of 1/Q0, fitted to a law of Q in a band.

    The table contains the strengths a_j of the mechanisms relative to the relaxed modulus, M = M_R (1 + sum_j a_j i w /
    (w_j + i w)), and is interpolated linearly in 1/Q0. The weights Y_j = a_j / (1 + sum_k a_k) are therefore positive
    with a sum below 1 for every Q0. `fit_body` creates the table.

    Attributes
    ----------
    law : target Q(f) / Q0.
    band : lowest and highest frequency of the fit, Hz.
    rates : (n,) relaxation rates w_j, rad/s, ascending.
    nodes : (m,) ascending 1/Q0 of the table, from 0 to `LARGEST_INVERSE_QUALITY`.
    table : (m, n) a_j Q0.
    """

    law: QualityLaw
    band: tuple[float, float]
    rates: np.ndarray
    nodes: np.ndarray
    table: np.ndarray

    @property
    def mechanisms(self) -> int:
        """Number of mechanisms n."""
        return self.rates.size

    def weights(self, inverse_quality: ArrayLike) -> np.ndarray:
        """Return Y_j, (n, ...), for 1/Q0 of any shape; zeros where it is 0.

        Raises
        ------
        ValueError : a value is below 0, above `LARGEST_INVERSE_QUALITY`, or not a number.
        """
        strengths = self._interpolated(self.table, self._checked(inverse_quality))
        return strengths / (1.0 + strengths.sum(axis=0))

    def modulus_ratio(self, angular_frequency: ArrayLike, inverse_quality: ArrayLike) -> np.ndarray:
        """Return M(w) / M_U, complex, for frequencies in rad/s and 1/Q0 that broadcast together.

        Frequencies may be complex with a negative imaginary part, as in damped Fourier transforms.
        """
        omega, inverse = np.asarray(angular_frequency), self._checked(inverse_quality)
        if omega.ndim == 0:  # sums over the mechanisms are linear in the table, and then need no arrays of n values
            factors = np.stack([1j * omega / (self.rates + 1j * omega), np.ones(self.mechanisms)])
            relaxing, unrelaxed = 1.0 + self._interpolated(self.table @ factors.T, inverse)
            return np.asarray(relaxing / unrelaxed.real)
        weights = self.weights(inverse)
        return np.asarray(
            1.0 - sum(weight * rate / (rate + 1j * omega) for weight, rate in zip(weights, self.rates, strict=True))
        )

    def law_ratio(self, frequency: float, inverse_quality: ArrayLike) -> np.ndarray:
        r"""Return M / M_U at a frequency in Hz: of the body in its band, and of the law of Q outside.

        The mechanisms do not follow the law outside the band. There M is that in the middle of the band, where they
        follow it best, times

        .. math:: \exp \int \frac{2}{\pi} \arctan \frac{1}{Q(f)} \, d \ln f ,

        from the middle to the frequency: the modulus of a constant Q grows as f^(2 arctan(1/Q) / pi) (Kjartansson 1979,
        J. Geophys. Res. 84, 4737-4748).
        """
        inverse = self._checked(inverse_quality)
        low, high = self.band
        if low <= frequency <= high:
            return self.modulus_ratio(2.0 * np.pi * frequency, inverse)
        middle = float(np.sqrt(low * high))
        path = np.geomspace(middle, frequency, 2 * _STEPS + 1)[1::2]
        angles = sum(np.arctan(inverse * np.exp(-self.law.log_ratio(one))) for one in path)
        growth = np.exp(2.0 / np.pi * angles * np.log(frequency / middle) / _STEPS)
        return self.modulus_ratio(2.0 * np.pi * middle, inverse) * growth

    def quality(self, frequency: ArrayLike, inverse_quality: ArrayLike) -> np.ndarray:
        """Return Q of the body, Re M / Im M, at frequencies in Hz and for 1/Q0 > 0 that broadcast together."""
        ratio = self.modulus_ratio(2.0 * np.pi * np.asarray(frequency, float), inverse_quality)
        return ratio.real / ratio.imag

    def deviation(self, inverse_quality: ArrayLike) -> np.ndarray:
        """Return the maximum of |Q / Q_target - 1| over the band, including its ends, for values of 1/Q0 > 0."""
        inverse = np.asarray(inverse_quality, float)[..., None]
        target = np.exp(self.law.log_ratio(self._tested)) / inverse
        return np.abs(self.quality(self._tested, inverse) / target - 1.0).max(axis=-1)

    def dispersion(self, inverse_quality: ArrayLike) -> np.ndarray:
        """Return the relative increase of the phase velocity c = 1 / Re(M^-1/2) from the lowest to the highest
        frequency of the band."""
        low, high = (1.0 / (self.modulus_ratio(2.0 * np.pi * end, inverse_quality) ** -0.5).real for end in self.band)
        return high / low - 1.0

    def _interpolated(self, table: np.ndarray, inverse: np.ndarray) -> np.ndarray:
        """Return the columns of a table of values times Q0 for 1/Q0: (columns, ...)."""
        return np.stack([inverse * np.interp(inverse, self.nodes, column) for column in table.T])

    @cached_property
    def _tested(self) -> np.ndarray:
        return np.geomspace(*self.band, _TESTED)

    @staticmethod
    def _checked(inverse_quality: ArrayLike) -> np.ndarray:
        inverse = np.asarray(inverse_quality, float)
        if not ((inverse >= 0.0) & (inverse <= LARGEST_INVERSE_QUALITY)).all():
            raise ValueError(f"1/Q = {inverse.min():g} to {inverse.max():g}: must be 0 to {LARGEST_INVERSE_QUALITY:g}")
        return inverse


def fit_body(
    law: QualityLaw, band: tuple[float, float], mechanisms: int, inverse_qualities: tuple[float, float]
) -> RelaxationBody:
    """Return the body that is fitted to a law of Q in a band.

    The rates are those of the best fit for the middle of the range of 1/Q0, and the weights of every Q0 those of the
    best fit with these rates, both in the maximum norm of ln(Q / Q_target). Equal arguments return the same object.

    Parameters
    ----------
    law : target Q(f) / Q0.
    band : lowest and highest frequency, Hz.
    mechanisms : number of mechanisms n, 1 to 8.
    inverse_qualities : smallest and largest 1/Q0 > 0 of the model.

    Raises
    ------
    ValueError : the band is narrower than `SMALLEST_BAND`, or another argument is out of range.
    """
    low, high = float(band[0]), float(band[1])
    if not (0.0 < low and SMALLEST_BAND * low <= high < np.inf):
        raise ValueError(f"band = {low:g} to {high:g} Hz: must be above 0, with a ratio of at least {SMALLEST_BAND}")
    if not 1 <= mechanisms <= MOST_MECHANISMS:
        raise ValueError(f"mechanisms = {mechanisms}: must be 1 to {MOST_MECHANISMS}")
    middle = 0.5 * (float(inverse_qualities[0]) + float(inverse_qualities[1]))
    if not 0.0 < inverse_qualities[0] <= inverse_qualities[1] <= LARGEST_INVERSE_QUALITY:
        raise ValueError(f"1/Q0 = {inverse_qualities}: must be above 0 and at most {LARGEST_INVERSE_QUALITY:g}")
    return _fitted(law, (low, high), mechanisms, middle)


@lru_cache(maxsize=32)
def _fitted(law: QualityLaw, band: tuple[float, float], mechanisms: int, middle: float) -> RelaxationBody:
    points = collocation_points(*band, 24 * mechanisms + 41)
    shape = -law.log_ratio(np.exp(points))
    points = points + np.log(2.0 * np.pi)
    rates, strengths = fit_rates(points, shape + np.log(middle), mechanisms)
    nodes = LARGEST_INVERSE_QUALITY * np.linspace(0.0, 1.0, _NODES) ** 2
    fitted = np.maximum(nodes, _WEAK)
    logs = np.log(fitted)[:, None]
    found = np.exp(fit_strengths(points, shape + logs, rates, strengths + logs - np.log(middle)))
    return RelaxationBody(law, band, np.exp(rates), nodes, found / fitted[:, None])
