"""Minimax fit of relaxation mechanisms to a quality factor.

A generalized Zener body with relaxation rates w_j and strengths a_j > 0 has, in units of its relaxed modulus,

    M(w) = 1 + sum_j a_j i w / (w_j + i w),
    1/Q(w) = sum_j a_j w w_j / (w^2 + w_j^2)  /  (1 + sum_j a_j w^2 / (w^2 + w_j^2)).

The fit minimizes the p-norm of ln(Q_fit / Q_target) over frequencies in the band for p = 2, 4, 8, ..., so that the last
norm is close to the maximum. Its unknowns are ln a_j and, if the rates are free, ln w_j: strengths are positive, and
the body is stable, without constraints (cf. the positive weights of Blanc et al. 2016, GJI 205, 427-439).
"""

from __future__ import annotations

import numpy as np

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
