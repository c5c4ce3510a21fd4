"""Levels of accuracy (``solver.accuracy``): points per wavelength, and measured errors of seismograms.

Errors are relative L2 differences from a reference, the largest of several problems with waves up to
``max_frequency`` along paths of about ten wavelengths: layers below a free surface, a half-space and a full space
(`benchmarks/cost_and_error.py`; table in docs/performance.md). They include reflections of absorbing layers at their
default thickness.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

LEVELS = ("draft", "standard", "fine")

TARGETS: Mapping[str, float] = {"draft": 0.02, "standard": 0.003, "fine": 0.0005}
"""Relative errors at which the levels aim; with finite differences, the standard level at 0.005."""

Table = Mapping[int, tuple[tuple[float, float], ...]]

MEASURED: Mapping[str, Table] = {
    "finite_difference": {
        4: ((5.4, 0.0177), (6, 0.0136), (8, 0.0070), (11, 0.0037), (16, 0.0018)),
        6: ((6, 0.0168), (9, 0.0073), (12, 0.0037)),
        8: ((5, 0.0296), (8, 0.0081), (12, 0.0037)),
    },
    "spectral_element": {
        4: ((5, 0.0155), (6, 0.0060), (7, 0.0040), (9, 0.0014), (11, 0.0005)),
    },
    "discontinuous_galerkin": {
        5: ((4, 0.0196), (5, 0.0108), (6, 0.0075), (7, 0.0028)),
    },
}
"""(points per wavelength, relative error) by method and by order or degree, in ascending order of points."""

POINTS: Mapping[str, Mapping[int, tuple[float, float, float]]] = {
    "finite_difference": {4: (5.4, 8.0, 16.0)},
    "spectral_element": {4: (5.0, 7.0, 11.0)},
    "discontinuous_galerkin": {5: (4.0, 7.0, 9.0)},
}
"""Points per wavelength of the levels, by method and by order or degree; standard: the default."""


def level_points(method: str, order: int, level: str) -> float | None:
    """Return the points per wavelength of a level for an order or degree; None if it was not measured."""
    points = POINTS[method].get(order)
    return None if points is None else points[LEVELS.index(level)]


def estimated_error(method: str, order: int, points: float) -> float | None:
    """Return the relative error of seismograms, interpolated between measurements; None beyond them.

    The logarithm of the error is a linear function of that of the points per wavelength between two measurements.
    """
    table = MEASURED[method].get(order, ())
    if not table or not 0.99 * table[0][0] <= points <= 1.01 * table[-1][0]:
        return None
    pairs = list(zip(table, table[1:], strict=False))
    (low, high) = next(((a, b) for a, b in pairs if points <= b[0]), pairs[-1])
    part = math.log(points / low[0]) / math.log(high[0] / low[0])
    return math.exp((1 - part) * math.log(low[1]) + part * math.log(high[1]))


def error_text(error: float) -> str:
    """Return an error as text: ``0.3%``, ``2%``."""
    return f"{100 * error:.1g}%"
