"""Attenuation: bodies with relaxation mechanisms that are fitted to a quality factor, and their moduli.

The module requires NumPy only; it depends on no solver, device or description.

**Body** of a model: common relaxation rates, and weights for every quality factor.

    sigma = M_U (eps - sum_j xi_j),     d xi_j / dt + w_j xi_j = w_j Y_j eps,
    M(w) = M_U (1 - sum_j Y_j w_j / (w_j + i w)),        Y_j >= 0,  sum_j Y_j < 1,

with the unrelaxed modulus M_U (Emmerich & Korn 1987, Geophysics 52(9), 1252-1264) and time dependence exp(i w t).

**Minimax fit** of relaxation mechanisms to a quality factor. A generalized Zener body with relaxation rates w_j and
strengths a_j > 0 has, in units of its relaxed modulus,

    M(w) = 1 + sum_j a_j i w / (w_j + i w),
    1/Q(w) = sum_j a_j w w_j / (w^2 + w_j^2)  /  (1 + sum_j a_j w^2 / (w^2 + w_j^2)).

The fit minimizes the p-norm of ln(Q_fit / Q_target) over frequencies in the band for p = 2, 4, 8, ..., so that the last
norm is close to the maximum. Its unknowns are ln a_j and, if the rates are free, ln w_j: strengths are positive, and
the body is stable, without constraints (cf. the positive weights of Blanc et al. 2016, GJI 205, 427-439).

It also contains the quality factor as a function of frequency, the quality factors of bulk and shear, and the unrelaxed
moduli from phase velocities at a reference frequency.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import ArrayLike

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


NORMS = (2, 4, 8, 16, 32, 64, 128, 256)
"""Exponents of the norms, each of which starts from the result of the one before."""

_FREE_STEPS = 30  # iterations per norm with free rates
_FIXED_STEPS = 8
_LARGEST_STEP = 1.0  # change of a logarithm in one iteration
_RATE_MARGIN = np.log(10.0)
"""Largest distance of ln w_j from the band, so that unneeded mechanisms do not have extreme rates."""

_STRENGTH_RANGE = 12.0
"""Largest change of ln a_j from its initial value, which is sufficient to remove a mechanism."""


def collocation_points(low: float, high: float, count: int) -> np.ndarray:
    """Return points from ln(low) to ln(high), both included, that are denser towards the ends."""
    middle, half = 0.5 * np.log(low * high), 0.5 * np.log(high / low)
    return middle - half * np.cos(np.linspace(0.0, np.pi, count))


def log_attenuation(points: np.ndarray, rates: np.ndarray, strengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ln(1/Q) of bodies and its derivatives with respect to ln a_j and ln w_j.

    Parameters
    ----------
    points : (k,) ln w. rates, strengths : (b, n) ln w_j and ln a_j of b bodies.

    Returns
    -------
    (b, k) values, (b, k, 2 n) derivatives.
    """
    distance = points[:, None] - rates[:, None, :]
    amount = np.exp(strengths)[:, None, :]
    loss = 0.5 * amount / np.cosh(distance)
    step = 0.5 * (1.0 + np.tanh(distance))
    imaginary = loss.sum(-1, keepdims=True)
    real = 1.0 + (amount * step).sum(-1, keepdims=True)
    by_strength = loss / imaginary - amount * step / real
    by_rate = loss * np.tanh(distance) / imaginary + 2.0 * amount * step * (1.0 - step) / real
    return np.log(imaginary / real)[..., 0], np.concatenate([by_strength, by_rate], axis=-1)


def fit_rates(points: np.ndarray, target: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ln w_j (n,), ascending, and ln a_j (n,) of the body whose Q is closest to a target.

    Parameters
    ----------
    points : (k,) ln w, ascending. target : (k,) ln(1/Q). count : number of mechanisms n.
    """
    width = points[-1] - points[0]
    rates = points[0] + width * (0.5 + 1.1 * ((np.arange(count) + 0.5) / count - 0.5))
    strengths = np.interp(rates, points, target) + np.log(1.3 * (width + 2.0) / count)
    rates, strengths = _minimize(points, target[None], rates[None], strengths[None], True)
    order = np.argsort(rates[0])
    return rates[0, order], strengths[0, order]


def fit_strengths(points: np.ndarray, targets: np.ndarray, rates: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Return ln a_j (b, n) of bodies with given rates whose Q are closest to targets.

    Parameters
    ----------
    points : (k,) ln w. targets : (b, k) ln(1/Q). rates : (n,) ln w_j. start : (b, n) approximate ln a_j.
    """
    return _minimize(points, targets, np.broadcast_to(rates, start.shape), start, False)[1]


def _minimize(
    points: np.ndarray, targets: np.ndarray, rates: np.ndarray, strengths: np.ndarray, free: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Minimize the norms of all bodies at the same time by damped Gauss-Newton steps (Levenberg-Marquardt)."""
    count = rates.shape[1]
    unknowns = np.concatenate([strengths, rates], axis=1)
    active = 2 * count if free else count
    least, most = unknowns - _STRENGTH_RANGE, unknowns + _STRENGTH_RANGE
    least[:, count:], most[:, count:] = points[0] - _RATE_MARGIN, points[-1] + _RATE_MARGIN

    def size(rest: np.ndarray, scale: np.ndarray, norm: int) -> np.ndarray:
        with np.errstate(over="ignore"):
            return ((np.abs(rest) / scale) ** norm).sum(axis=1)

    def residuals(unknowns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        values, slopes = log_attenuation(points, unknowns[:, count:], unknowns[:, :count])
        return values - targets, slopes[..., :active]

    rest, slopes = residuals(unknowns)
    for norm in NORMS:
        damping = np.full(len(unknowns), 1e-3)
        for _ in range(_FREE_STEPS if free else _FIXED_STEPS):
            scale = np.abs(rest).max(axis=1, keepdims=True) + np.finfo(float).tiny
            change = _newton_step(rest, slopes, scale, norm, damping)
            trial = unknowns.copy()
            trial[:, :active] += change
            trial = np.clip(trial, least, most)
            new_rest, new_slopes = residuals(trial)
            better = size(new_rest, scale, norm) < size(rest, scale, norm)
            unknowns = np.where(better[:, None], trial, unknowns)
            rest = np.where(better[:, None], new_rest, rest)
            slopes = np.where(better[:, None, None], new_slopes, slopes)
            damping = np.where(better, np.maximum(0.3 * damping, 1e-13), np.minimum(5.0 * damping, 1e8))
    return unknowns[:, count:], unknowns[:, :count]


def _newton_step(rest: np.ndarray, slopes: np.ndarray, scale: np.ndarray, norm: int, damping: np.ndarray) -> np.ndarray:
    """Return the damped step (b, m) that reduces sum |rest|^norm, without second derivatives of the residuals."""
    weights = (np.abs(rest) / scale) ** (norm - 2)
    weighted = (slopes * weights[..., None]).swapaxes(1, 2)
    matrix = weighted @ slopes
    slope = (weighted @ rest[..., None]) / (norm - 1)
    diagonal = np.einsum("bii->bi", matrix)
    extra = damping[:, None] * diagonal + 1e-14 * diagonal.max(axis=1, keepdims=True)
    matrix = matrix + extra[..., None] * np.eye(matrix.shape[-1])
    return np.clip(-np.linalg.solve(matrix, slope)[..., 0], -_LARGEST_STEP, _LARGEST_STEP)


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


_ITERATIONS = 50
_LAST_CHANGE = 1e-8  # relative, of Newton's method: the error that remains is about its square


def unrelaxed_moduli(
    vp: np.ndarray,
    vs: np.ndarray,
    rho: np.ndarray,
    inverse_quality: tuple[np.ndarray, np.ndarray],
    body: RelaxationBody,
    reference_frequency: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the unrelaxed bulk and shear moduli, Pa, of media with phase velocities vp and vs at a frequency.

    The phase velocities are 1 / Re sqrt(rho / M) with M = kappa(w) + 4/3 mu(w) and M = mu(w), where kappa(w) =
    kappa_U m(w, 1/Qkappa) and mu(w) = mu_U m(w, 1/Qmu). mu_U follows directly, kappa_U by Newton's method. Where both
    inverse quality factors are 0, the moduli are the elastic ones.

    Parameters
    ----------
    vp, vs, rho : m/s, m/s, kg/m^3, of one shape; vs = 0 in a fluid.
    inverse_quality : 1/Qkappa and 1/Qmu, of this shape.
    reference_frequency : Hz; outside the band of the body, velocities follow its law of Q (`RelaxationBody.law_ratio`).
    """
    bulk, shear = (body.law_ratio(reference_frequency, inverse) for inverse in inverse_quality)
    mu = rho * vs**2 * (1.0 / np.sqrt(shear)).real ** 2
    # In units of rho vp^2, in which the slowness of P waves is 1.
    shear_part = 4.0 / 3.0 * mu * shear / (rho * vp**2)
    kappa = 1.0 - 4.0 / 3.0 * (vs / vp) ** 2
    half = 0.5 * bulk
    for _ in range(_ITERATIONS):
        modulus = kappa * bulk + shear_part
        slowness = 1.0 / np.sqrt(modulus)  # a complex power takes ten times as long
        excess = slowness.real - 1.0
        # The slowness is a convex, decreasing function of kappa, and its root is positive.
        change = excess / (half * slowness / modulus).real
        before, kappa = kappa, np.maximum(kappa + change, 0.0)
        if np.all(np.abs(kappa - before) <= _LAST_CHANGE * kappa):
            break
    elastic = (inverse_quality[0] == 0.0) & (inverse_quality[1] == 0.0)
    mu_elastic = rho * vs**2
    return (
        np.where(elastic, rho * vp**2 - 4.0 / 3.0 * mu_elastic, kappa * rho * vp**2),
        np.where(elastic, mu_elastic, mu),
    )
