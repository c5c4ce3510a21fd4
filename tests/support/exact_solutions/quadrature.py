"""Integrals and derivatives of time functions, nearly to round-off, with error estimates."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

TimeCurve = Callable[[np.ndarray], np.ndarray]

INTEGRAL_TOLERANCE = 1e-9
"""Largest change on doubling the panels, relative to the largest requested integral."""
DERIVATIVE_TOLERANCE = 1e-6
"""Largest estimated error of a derivative, relative to the largest derivative."""

_NODE_COUNT = 16
_PANEL_LIMIT = 4096
_EVALUATIONS_AT_ONCE = 1 << 20


def integrate(
    function: TimeCurve,
    lower: np.ndarray,
    upper: np.ndarray,
    panel_length: float,
    breakpoints: Sequence[float] = (),
    *,
    reference: np.ndarray | float = 0.0,
    power: int = 0,
) -> np.ndarray:
    """Return ∫ (reference − s)^power function(s) ds from each ``lower`` to each ``upper``.

    Gauss-Legendre rules of 16 nodes are used on panels that are initially at most `panel_length` long and are halved
    until the integrals change by less than `INTEGRAL_TOLERANCE`. Intervals are split at the breakpoints, where the
    function or its derivatives may jump.

    Parameters
    ----------
    function : maps an array of times (s) to an array of the same shape.
    lower, upper : (n,) limits, s; ``lower`` not above ``upper``.
    panel_length : a length over which the function is smooth, s.
    breakpoints : times of jumps, s.
    reference : (n,) or a scalar, s.
    power : 0, 1, 2 ...

    Returns
    -------
    (n,) integrals, in the function's unit times s^(power + 1).

    Raises
    ------
    ValueError : no convergence within 4096 panels per interval: a jump is not among the breakpoints.
    """
    limits = _split(lower, upper, breakpoints)
    references = np.broadcast_to(reference, lower.shape)

    def panel_sum(panel_count: int) -> np.ndarray:
        return _panel_sum(function, limits, panel_count, references, power)

    longest = float(np.max(limits[:, 1:] - limits[:, :-1], initial=0.0))
    if longest == 0.0:
        return np.zeros(len(limits))
    panel_count = min(max(1, int(np.ceil(longest / panel_length))), _PANEL_LIMIT // 4)
    coarse = panel_sum(panel_count)
    while panel_count < _PANEL_LIMIT:
        panel_count *= 2
        fine = panel_sum(panel_count)
        change = float(np.max(np.abs(fine - coarse)))
        scale = float(np.max(np.abs(fine)))
        if change <= INTEGRAL_TOLERANCE * scale:
            return fine
        coarse = fine
    raise ValueError(
        f"the integral of the time function still changes by {change:.1e} (of {scale:.1e}) "
        f"with {panel_count} panels. Name the times where it jumps as breakpoints"
    )


def _split(lower: np.ndarray, upper: np.ndarray, breakpoints: Sequence[float]) -> np.ndarray:
    """Return (n, m + 2) ascending limits: intervals split at the breakpoints inside, else with empty sections."""
    pieces = [lower, *(np.clip(point, lower, upper) for point in sorted(breakpoints)), upper]
    return np.stack(pieces, axis=1)


def _panel_sum(
    function: TimeCurve, limits: np.ndarray, panel_count: int, references: np.ndarray, power: int
) -> np.ndarray:
    """Return the composite rule with `panel_count` panels per section, in batches of rows that limit the memory."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODE_COUNT)
    places = ((np.arange(panel_count)[:, None] + 0.5 * (nodes + 1.0)) / panel_count).ravel()
    shares = np.tile(0.5 * weights / panel_count, panel_count)
    block = max(1, _EVALUATIONS_AT_ONCE // places.size)
    sums = np.zeros(len(limits))
    for piece in range(limits.shape[1] - 1):
        start, length = limits[:, piece], limits[:, piece + 1] - limits[:, piece]
        used = np.flatnonzero(length > 0.0)
        for first in range(0, used.size, block):
            rows = used[first : first + block]
            times = start[rows, None] + length[rows, None] * places
            values = np.asarray(function(times))
            if power:
                values = values * (references[rows, None] - times) ** power
            sums[rows] += length[rows] * (values @ shares)
    return sums


def antiderivative(
    function: TimeCurve,
    times: np.ndarray,
    start: float,
    panel_length: float,
    breakpoints: Sequence[float] = (),
) -> np.ndarray:
    """Return ∫ function(s) ds from ``start`` to each time; zero for times before ``start``. Errors as `integrate`.

    The times are sorted and the integrals between neighbors summed, so that no interval is integrated twice.
    """
    order = np.argsort(times, kind="stable")
    ordered = np.maximum(times[order], start)
    lower = np.concatenate(([start], ordered[:-1]))
    result = np.empty(len(times))
    result[order] = np.cumsum(integrate(function, lower, ordered, panel_length, breakpoints))
    return result


def differentiate(function: TimeCurve, times: np.ndarray, first_step: float) -> np.ndarray:
    """Return the derivative at each time, by central differences extrapolated to step zero (Ridders 1982).

    Steps ``first_step``, half of it, a quarter ... (12 of them) form Richardson's table; at each time the entry that
    differs least from its neighbors is used, and this difference is the error estimate.

    Raises
    ------
    ValueError : an estimated error above `DERIVATIVE_TOLERANCE` of the largest derivative: the function has
        a kink or a jump near one of the times, or its derivative must be passed.
    """
    best = np.zeros_like(times, dtype=float)
    error = np.full(best.shape, np.inf)
    previous: list[np.ndarray] = []
    for level in range(12):
        step = first_step / 2.0**level
        row = [(function(times + step) - function(times - step)) / (2.0 * step)]
        for column, older in enumerate(previous):
            factor = 4.0 ** (column + 1)
            row.append((factor * row[column] - older) / (factor - 1.0))
            estimate = np.maximum(np.abs(row[-1] - row[-2]), np.abs(row[-1] - older))
            better = estimate < error
            best = np.where(better, row[-1], best)
            error = np.where(better, estimate, error)
        previous = row
    scale = float(np.max(np.abs(best), initial=0.0))
    worst = float(np.max(error, initial=0.0))
    if worst > DERIVATIVE_TOLERANCE * scale:
        raise ValueError(
            f"the derivative of the time function is uncertain by {worst:.1e} (of {scale:.1e}). "
            "Pass the derivative as a separate function"
        )
    return best
