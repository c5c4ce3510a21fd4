"""Surfaces: elevations on a rectilinear grid, from NetCDF, HDF5 or NumPy ``.npz`` files.

The file contains ``elevation`` (m, positive upwards) and its ascending axes ``x`` (East) and ``y`` (North) in m. The
dimensions of ``elevation`` may be in any order if the file names them: NetCDF does, ``.npz`` and plain HDF5 files do
with an entry ``axes``, for example ``["y", "x"]``. Without names the order must follow from the shape, so x and y must
have different numbers of points. The default unit is the meter; ``units`` attributes override it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from lithowave.errors import InputError
from lithowave.readers.array_files import DAMAGE, ArrayEntry, dimension_names, open_arrays, unused_names
from lithowave.readers.units import LENGTH, si_factor

_WHAT = "surface"
_NAMES = ("x", "y", "elevation")
_SHAPE = ("y", "x")


@dataclass(frozen=True, eq=False)
class Surface:
    """A smooth surface z(x, y) through elevations on a grid.

    Between the points it is a piecewise cubic along each axis, whose slopes at the points are those of the parabola
    through three neighbors (Catmull-Rom on equal steps): elevation and slope are continuous, and parabolas exact.
    Beyond the grid the elevation is that of the nearest edge point.

    Attributes
    ----------
    path : the file.
    x, y : the axes in m, ascending.
    elevation : elevations in m, of shape (ny, nx).
    unused : names of the other variables of the file.
    """

    path: Path
    x: np.ndarray
    y: np.ndarray
    elevation: np.ndarray
    unused: tuple[str, ...] = ()

    def __call__(self, x: ArrayLike, y: ArrayLike) -> np.ndarray:
        """Return the elevation in m at points in m: an array of the broadcast shape of x and y."""
        points_x, points_y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
        first_x, weights_x = cubic_weights(points_x, self.x)
        first_y, weights_y = cubic_weights(points_y, self.y)
        height = np.zeros(np.broadcast_shapes(points_x.shape, points_y.shape))
        for j, weight_y in enumerate(weights_y):
            row = np.zeros_like(height)
            for i, weight_x in enumerate(weights_x):
                row += weight_x * self.elevation[first_y + j, first_x + i]
            height += weight_y * row
        return height

    @property
    def extent(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """((x_min, x_max), (y_min, y_max)) of the grid, m."""
        return (float(self.x[0]), float(self.x[-1])), (float(self.y[0]), float(self.y[-1]))

    @property
    def low(self) -> float:
        """Lowest elevation in the file, m; between its points the surface may be slightly lower."""
        return float(self.elevation.min())

    @property
    def high(self) -> float:
        """Highest elevation in the file, m; between its points the surface may be slightly higher."""
        return float(self.elevation.max())

    def range_in(self, x: tuple[float, float], y: tuple[float, float]) -> tuple[float, float]:
        """Return the lowest and highest elevation in a rectangle with these ends (m), on its rim and at file points."""
        parts = tuple(
            slice(*np.searchsorted(axis, ends, side="left")) for axis, ends in ((self.y, y), (self.x, x))
        )
        along_x = np.unique(np.append(self.x[parts[1]], x))
        along_y = np.unique(np.append(self.y[parts[0]], y))[:, None]
        heights = [self.elevation[parts].ravel()]
        heights += [self(along_x, end).ravel() for end in y] + [self(end, along_y).ravel() for end in x]
        found = np.concatenate(heights)
        return float(found.min()), float(found.max())


def cubic_weights(points: np.ndarray, axis: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the index of the first of up to four axis points of a cubic, and their weights, for an ascending axis.

    Points beyond the axis are moved to its ends.
    """
    inside = np.clip(points, axis[0], axis[-1])
    width, slope_width = min(4, axis.size), min(3, axis.size)
    left = np.clip(np.searchsorted(axis, inside, side="right") - 1, 0, axis.size - 2)
    step = axis[left + 1] - axis[left]
    t = (inside - axis[left]) / step
    first = np.clip(left - 1, 0, axis.size - width)
    weights = [np.zeros(points.shape) for _ in range(width)]
    at_left, at_right = (1.0 + 2.0 * t) * (1.0 - t) * (1.0 - t), t * t * (3.0 - 2.0 * t)
    terms = [(left, at_left), (left + 1, at_right)]
    slope_weights = (t * (1.0 - t) * (1.0 - t) * step, t * t * (t - 1.0) * step)
    slopes = _slope_weights(axis, slope_width)
    for end, factor in zip((left, left + 1), slope_weights, strict=True):
        begin = np.clip(end - 1, 0, axis.size - slope_width)
        terms += [(begin + k, factor * slopes[end, k]) for k in range(slope_width)]
    for index, weight in terms:
        for k in range(width):
            weights[k] += np.where(index - first == k, weight, 0.0)
    return first, weights


def _slope_weights(axis: np.ndarray, width: int) -> np.ndarray:
    """Return weights (n, width) of the nearest axis points for the slope of the parabola, or line, through them."""
    if width == 2:
        return np.array([[-1.0, 1.0]] * 2) / (axis[1] - axis[0])
    begin = np.clip(np.arange(axis.size) - 1, 0, axis.size - 3)
    a, b, c = (axis[begin + k] for k in range(3))
    return np.column_stack(
        [
            (2.0 * axis - b - c) / ((a - b) * (a - c)),
            (2.0 * axis - a - c) / ((b - a) * (b - c)),
            (2.0 * axis - a - b) / ((c - a) * (c - b)),
        ]
    )


def read_surface(path: str | Path) -> Surface:
    """Read a surface.

    Raises
    ------
    InputError
        with the file and the variable: missing variables, unknown units, axes in degrees or not ascending, an
        inconsistent shape, points without a value, a damaged file.
    """
    path = Path(path)
    with open_arrays(path, _WHAT) as entries:
        by_name = {name.lower(): entry for name, entry in entries.items()}
        for name in _NAMES:
            if name not in by_name:
                there = f"it has: {', '.join(entries) or 'nothing'}"
                raise InputError(
                    name, "the variable is missing", f"expected x, y and elevation; {there}", file=path
                )
        x, y = (_read_axis(by_name[name], name, path) for name in ("x", "y"))
        elevation = _read_elevation(by_name["elevation"], {"x": x, "y": y}, path)
        unused = unused_names(entries, [by_name[name] for name in _NAMES])
    return Surface(path, x, y, elevation, unused)


def _values(entry: ArrayEntry, name: str, path: Path) -> np.ndarray:
    """Return the values in meters."""
    units = str(entry.attributes.get("units", "")).strip()
    factor = si_factor(units, LENGTH) if units else 1.0
    if factor is None:
        hint = "domain.to_geographic converts degrees" if "degree" in units.lower() else ""
        raise InputError(
            name, f"has the units {units!r}", "expected a length such as m or km", hint, file=path
        )
    try:
        return entry.values().astype(np.float64) * factor
    except DAMAGE as error:
        raise InputError(name, f"cannot be read: {error}", hint="check that the file is complete", file=path) from None


def _read_axis(entry: ArrayEntry, name: str, path: Path) -> np.ndarray:
    if len(entry.shape) != 1 or entry.shape[0] < 2:
        raise InputError(
            name, f"has the shape {entry.shape}", "expected one axis of two points or more", file=path
        )
    values = _values(entry, name, path)
    if not np.isfinite(values).all():
        raise InputError(name, "has a coordinate without a value", "all must be finite", file=path)
    steps = np.diff(values)
    if not (steps > 0.0).all():
        at = int(np.flatnonzero(steps <= 0.0)[0]) + 1
        hint = "reverse the axis and the elevations" if (steps < 0.0).all() else ""
        got = f"the coordinates do not increase: {values[at - 1]:z.12g} m, then {values[at]:z.12g} m at index {at}"
        raise InputError(name, got, "each must be greater than the one before", hint, file=path)
    return values


def _read_elevation(entry: ArrayEntry, axes: Mapping[str, np.ndarray], path: Path) -> np.ndarray:
    """Return elevations in meters of shape (ny, nx)."""
    dimensions = dimension_names(entry, "elevation", {name: axes[name].size for name in _SHAPE}, path)
    if str(entry.attributes.get("positive", "up")).strip().lower() != "up":
        raise InputError(
            "elevation", f"has positive = {entry.attributes['positive']!r}", "heights are positive up", file=path
        )
    values = _values(entry, "elevation", path)
    heights = values.transpose([dimensions.index(name) for name in _SHAPE])
    lacking = ~np.isfinite(heights)
    if lacking.any():
        j, i = np.unravel_index(int(lacking.argmax()), heights.shape)
        place = f"x = {axes['x'][i]:z.12g} m, y = {axes['y'][j]:z.12g} m"
        got = f"has no value at {place} ({int(lacking.sum())} of {lacking.size} points)"
        raise InputError("elevation", got, "every point needs one", file=path)
    return np.ascontiguousarray(heights)
