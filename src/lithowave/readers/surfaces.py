"""Surfaces: elevations on rectilinear grids, from NetCDF, HDF5 or NumPy ``.npz`` files, and on grids of GMT.

**Grids of GMT** and other software are ``z(lat, lon)`` or ``z(y, x)``, or have the format of GMT 3. Axes are identified
by their names and attributes. GMT writes the centers of the cells as coordinates also for pixel registration
(``node_offset = 1``); the format of GMT 3 (``x_range``, ``y_range``, ``dimension`` and ``z``) has no coordinates, only
the ends of the region, and rows from North to South.

**Other files** contain ``elevation`` (m, positive upwards) and its ascending axes ``x`` (East) and ``y`` (North) in m.
The dimensions of ``elevation`` may be in any order if the file names them: NetCDF does, ``.npz`` and plain HDF5 files
do with an entry ``axes``, for example ``["y", "x"]``. Without names the order must follow from the shape, so x and y
must have different numbers of points. The default unit is the meter; ``units`` attributes override it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from lithowave.errors import InputError
from lithowave.readers.array_files import (
    ArrayEntry,
    ArrayFile,
    dimension_names,
    named_by_coordinates,
    nearest_complete,
    open_arrays,
    unused_names,
)
from lithowave.readers.geographic_model import axis_role
from lithowave.readers.gridded_model import require_monotonic, stated_units, stored_axis, stored_values, unit_factor
from lithowave.readers.text import LENGTH

_OLD = ("x_range", "y_range", "dimension", "z")
_HEIGHTS = ("elevation", "z", "topography", "topo", "altitude", "height", "bathymetry", "depth")
_NO_UNITS = ("user_x_unit", "user_y_unit", "user_z_unit", "")


@dataclass(frozen=True)
class Grid:
    """Elevations in m, (second, first), on ascending axes: longitude and latitude in degrees, or x and y in m.

    Values may be missing (NaN). unstated : True for axes x and y without a unit, which may be degrees.
    """

    first: np.ndarray
    second: np.ndarray
    elevation: np.ndarray
    is_geographic: bool
    unused: tuple[str, ...]
    unstated: bool = False


def find_grid(entries: ArrayFile, path: Path) -> Grid | None:
    """Return the grid in a file that is not a surface on named axes x and y in a length; else None.

    Raises
    ------
    InputError : several grids, unknown axes or units, inconsistent sizes, or a damaged file.
    """
    by_name = {name.lower(): entry for name, entry in entries.items()}
    if all(name in by_name for name in _OLD):
        return _old_grid(entries, by_name)
    name = _height_name(by_name)
    if name is None:
        return None
    entry = by_name[name]
    lines = [each for each, other in by_name.items() if len(other.shape) == 1]
    candidates = [each.lower() for each in entry.dimensions or lines]
    roles = {role: each for each in candidates if (role := _role(each, by_name.get(each)))}
    if name == "elevation" and set(roles) <= {"x", "y"}:
        return None
    for pair in (("longitude", "latitude"), ("x", "y")):
        if all(role in roles for role in pair):
            degrees = "longitude" in pair
            axes = {roles[role]: _axis(by_name, roles[role], entries, degrees) for role in pair}
            values = _heights(entry, name, axes)
            used = [entry, *(by_name[each] for each in axes)]
            first, second = axes.values()
            grid = _ascending(first, second, values, degrees, unused_names(entries, used))
            return replace(grid, unstated=not degrees and not any(_stated(by_name[each]) for each in axes))
    there = ", ".join(candidates)
    raise InputError(name, f"has the axes {there}", "expected longitude and latitude, or x and y")


def _height_name(by_name: Mapping[str, ArrayEntry]) -> str | None:
    """Return the name of the variable with the elevations; None without any."""
    grids = [name for name, entry in by_name.items() if len(entry.shape) == 2]
    known = [name for name in _HEIGHTS if name in grids]
    if known:
        return known[0]
    if len(grids) > 1:
        got = f"the file has several grids: {', '.join(grids)}"
        raise InputError("elevation", got, "expected one, or one of the name elevation or z")
    return grids[0] if grids else None


def _role(name: str, entry: ArrayEntry | None) -> str:
    role = axis_role(name, entry)
    return role if role in ("longitude", "latitude") else name if name in ("x", "y") else ""


def _axis(by_name: Mapping[str, ArrayEntry], name: str, entries: ArrayFile, in_degrees: bool) -> np.ndarray:
    """Return the coordinates of an axis in the order of the file, in degrees or m."""
    values, entry = stored_axis(by_name, name), by_name[name]
    require_monotonic(values, name)
    steps = np.diff(values)
    pixels = int(np.atleast_1d(entries.attributes.get("node_offset", 0))[0]) == 1
    edges = np.sort(np.atleast_1d(np.asarray(entry.attributes.get("actual_range", []), dtype=float)))
    ends, tolerance = [values.min(), values.max()], 1e-3 * float(np.abs(steps).min())
    if pixels and edges.size == 2 and np.allclose(edges, ends, rtol=0.0, atol=tolerance):
        got = "node_offset = 1 (pixel registration), but the coordinates are the ends of the region (actual_range)"
        raise InputError(name, got, "expected the centers of the cells")
    return values if in_degrees else values * _factor(entry, name)


def _heights(entry: ArrayEntry, name: str, axes: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return elevations in m, (second axis, first axis)."""
    dimensions = dimension_names(entry, name, {axis: values.size for axis, values in axes.items()})
    values = stored_values(entry, name).astype(np.float64) * _factor(entry, name)
    stated = str(entry.attributes.get("positive", "down" if name == "depth" else "up")).strip().lower()
    if stated not in ("up", "down"):
        raise InputError(name, f"has positive = {stated!r}", "expected up or down")
    first, second = axes
    ordered = values.transpose([dimensions.index(second), dimensions.index(first)])
    return 0.0 - ordered if stated == "down" else ordered


def _stated(entry: ArrayEntry) -> bool:
    """True if an axis has a unit."""
    return stated_units(entry).lower() not in _NO_UNITS


def _factor(entry: ArrayEntry, name: str) -> float:
    return unit_factor(entry, name, LENGTH) if _stated(entry) else 1.0


def _ascending(
    first: np.ndarray, second: np.ndarray, values: np.ndarray, is_geographic: bool, unused: tuple[str, ...]
) -> Grid:
    across, along = (slice(None, None, -1 if axis[0] > axis[-1] else 1) for axis in (second, first))
    return Grid(first[along], second[across], np.ascontiguousarray(values[across, along]), is_geographic, unused)


def _old_grid(entries: ArrayFile, by_name: Mapping[str, ArrayEntry]) -> Grid:
    """Return the grid of the format of GMT 3."""
    counts = stored_values(by_name["dimension"], "dimension").astype(np.float64)
    if counts.shape != (2,) or (counts < 2).any() or (counts != counts.round()).any():
        raise InputError("dimension", f"is {counts.tolist()}", "expected the numbers of points along x and y")
    nx, ny = (int(count) for count in counts)
    z = by_name["z"]
    if z.shape != (nx * ny,):
        raise InputError("z", f"has the shape {z.shape}", f"expected {nx} x {ny} = {nx * ny} values")
    offset = int(np.atleast_1d(z.attributes.get("node_offset", entries.attributes.get("node_offset", 0)))[0])
    if offset not in (0, 1):
        raise InputError("z", f"has node_offset = {offset}", "expected 0 (nodes) or 1 (pixels)")
    axes, geographic = [], []
    for name, count in (("x_range", nx), ("y_range", ny)):
        ends, entry = stored_values(by_name[name], name).astype(np.float64), by_name[name]
        if ends.shape != (2,) or not np.isfinite(ends).all() or ends[0] >= ends[1]:
            raise InputError(name, f"is {ends.tolist()}", "expected [minimum, maximum]")
        geographic.append("degree" in str(entry.attributes.get("units", "")).lower())
        ends = ends if geographic[-1] else ends * _factor(entry, name)
        step = (ends[1] - ends[0]) / (count if offset else count - 1)
        axes.append(ends[0] + step * (np.arange(count) + 0.5 * offset))
    if len(set(geographic)) > 1:
        raise InputError("y_range", "only one of x_range and y_range is in degrees")
    values = (stored_values(z, "z").astype(np.float64) * _factor(z, "z")).reshape(ny, nx)[::-1]
    used = [by_name[name] for name in (*_OLD, "z_range", "spacing") if name in by_name]
    unstated = not any(_stated(by_name[name]) for name in ("x_range", "y_range"))
    return Grid(axes[0], axes[1], np.ascontiguousarray(values), geographic[0], unused_names(entries, used), unstated)


_WHAT = "surface"
_NAMES = ("x", "y", "elevation")
_SHAPE = ("y", "x")
ToGeographic = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
_POINTS = 1025
"""Largest number of points along each axis at which the range of a surface on longitude and latitude is determined."""


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
    unstated : True if the file states no unit of the axes, which may then be degrees.
    """

    path: Path
    x: np.ndarray
    y: np.ndarray
    elevation: np.ndarray
    unused: tuple[str, ...] = ()
    unstated: bool = False

    @property
    def concurrent(self) -> bool:
        """True if several threads may evaluate the surface at the same time, which projections do not permit."""
        return type(self) is Surface

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
    def can_be_geographic(self) -> bool:
        """True if the axes are within the ranges of longitudes and latitudes."""
        span = self.x[-1] - self.x[0]
        return bool(np.abs(self.x).max() <= 540.0 and span <= 360.0 + 1e-6 and np.abs(self.y).max() <= 90.0)

    def covers(self, x: tuple[float, float], y: tuple[float, float]) -> bool:
        """True if the grid covers a rectangle with these ends, in the unit of its axes."""
        pairs = zip((self.x, self.y), (x, y), strict=True)
        return all(bool(axis[0] <= low and axis[-1] >= high) for axis, (low, high) in pairs)

    def is_in_degrees(self, x: tuple[float, float], y: tuple[float, float], to_geographic: ToGeographic) -> bool:
        """True if axes without a unit cover the center of a rectangle, in degrees, but not the rectangle in m.

        x, y : ends of the rectangle in m.
        """
        if not self.unstated or not self.can_be_geographic or self.covers(x, y):
            return False
        middle = np.array([0.5 * sum(x)]), np.array([0.5 * sum(y)])
        longitude, latitude = (float(np.asarray(each)[0]) for each in to_geographic(*middle))
        turned = self.x[0] + (longitude - self.x[0]) % 360.0
        return bool(turned <= self.x[-1] and self.y[0] <= latitude <= self.y[-1])

    @property
    def geographic(self) -> GeographicSurface:
        """The surface with its axes as longitude and latitude in degrees."""
        return GeographicSurface(self.path, self.x, self.y, self.elevation, self.unused)

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
        parts = tuple(slice(*np.searchsorted(axis, ends, side="left")) for axis, ends in ((self.y, y), (self.x, x)))
        along_x = np.unique(np.append(self.x[parts[1]], x))
        along_y = np.unique(np.append(self.y[parts[0]], y))[:, None]
        heights = [self.elevation[parts].ravel()]
        heights += [self(along_x, end).ravel() for end in y] + [self(end, along_y).ravel() for end in x]
        found = np.concatenate(heights)
        return float(found.min()), float(found.max())


@dataclass(frozen=True, eq=False)
class GeographicSurface(Surface):
    """A surface whose axes x and y are longitude and latitude in degrees.

    Its elevations may be missing (NaN) outside the domain. It has values at local coordinates after `placed`.

    Attributes
    ----------
    to_geographic : function of (x, y) in m that returns longitude and latitude in degrees; None before `placed`.
    center : longitude in degrees around which longitudes are counted.
    """

    to_geographic: ToGeographic | None = None
    center: float = 0.0

    def placed(self, to_geographic: ToGeographic, x: tuple[float, float], y: tuple[float, float]) -> GeographicSurface:
        """Return the surface for a rectangle of local coordinates with these ends, m.

        Raises
        ------
        InputError : the grid does not cover the rectangle, or has points without a value in it.
        """
        middle = np.array([0.5 * sum(x)]), np.array([0.5 * sum(y)])
        center = float(np.asarray(to_geographic(*middle)[0])[0])
        surface = replace(self._around(center), to_geographic=to_geographic, center=center)
        longitude, latitude = surface._coordinates(np.linspace(*x, 65), np.linspace(*y, 65)[:, None])
        parts = []
        for name, axis, points in (("longitude", surface.x, longitude), ("latitude", surface.y, latitude)):
            low, high = float(points.min()), float(points.max())
            tolerance = 1e-6 * (high - low)
            if axis[0] > low + tolerance or axis[-1] < high - tolerance:
                raise InputError(
                    name, f"the grid covers {name} = {axis[0]:.8g} to {axis[-1]:.8g} degrees",
                    f"it must cover the domain, {low:.8g} to {high:.8g} degrees", file=self.path,
                )  # fmt: skip
            # The cubic through a point depends on two grid points on each side.
            first = max(int(np.searchsorted(axis, low, side="right")) - 2, 0)
            parts.append(slice(first, int(np.searchsorted(axis, high, side="left")) + 2))
        return surface._complete(parts[0], parts[1])

    def _around(self, center: float) -> GeographicSurface:
        """Return the surface with longitudes near a longitude; a full circle is opened on the opposite side."""
        step, span = float(np.diff(self.x).max()), float(self.x[-1] - self.x[0])
        if span < 360.0 - 1.5 * step:
            middle = 0.5 * float(self.x[0] + self.x[-1])
            return replace(self, x=self.x + 360.0 * np.round((center - middle) / 360.0))
        turned = center + (self.x - center + 180.0) % 360.0 - 180.0
        order = np.argsort(turned, kind="stable")
        order = order[np.append(True, np.diff(turned[order]) > 1e-6)]
        ends = (turned[order][-1:] - 360.0, turned[order], turned[order][:1] + 360.0)
        order = np.concatenate([order[-1:], order, order[:1]])
        return replace(self, x=np.concatenate(ends), elevation=self.elevation[:, order])

    def _complete(self, columns: slice, rows: slice) -> GeographicSurface:
        """Return the surface without missing values: outside a part of the grid, those of points near them."""
        lacking = np.isnan(self.elevation)
        if lacking[rows, columns].any():
            j, i = np.argwhere(lacking[rows, columns])[0] + [rows.start, columns.start]
            place = f"longitude = {self.x[i]:.8g} degrees, latitude = {self.y[j]:.8g} degrees"
            count = int(lacking[rows, columns].sum())
            got = f"has no value at {place}, in or next to the domain ({count} such points)"
            raise InputError("elevation", got, "every point in the domain needs one", file=self.path)
        if not lacking.any():
            return self
        return replace(self, elevation=self.elevation[nearest_complete(lacking)])

    def _coordinates(self, x: ArrayLike, y: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Return longitude and latitude of points in m, of their broadcast shape."""
        if self.to_geographic is None:
            raise InputError(
                "elevation", "the surface is on longitudes and latitudes", "the domain needs a geographic origin",
                "give domain: crs: {longitude: ..., latitude: ...}, the point at x = y = 0", file=self.path,
            )  # fmt: skip
        shape = np.broadcast_shapes(np.shape(x), np.shape(y))
        points = (np.array(np.broadcast_to(np.asarray(each, dtype=float), shape), ndmin=1) for each in (x, y))
        longitude, latitude = (np.asarray(each).reshape(shape) for each in self.to_geographic(*points))
        return self.center + (longitude - self.center + 180.0) % 360.0 - 180.0, latitude

    def __call__(self, x: ArrayLike, y: ArrayLike) -> np.ndarray:
        """Return the elevation in m at points in m: an array of the broadcast shape of x and y."""
        return super().__call__(*self._coordinates(x, y))

    @property
    def extent(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """The whole plane: `placed` compares the grid with the domain."""
        return (-np.inf, np.inf), (-np.inf, np.inf)

    def range_in(self, x: tuple[float, float], y: tuple[float, float]) -> tuple[float, float]:
        """Return the lowest and highest elevation in a rectangle with these ends (m), at two points per grid cell."""
        longitude, latitude = self._coordinates(np.array(x), np.array(y))
        counts = [
            int(np.clip(2 * np.ptp(np.searchsorted(axis, points)) + 1, 65, _POINTS))
            for axis, points in ((self.x, longitude), (self.y, latitude))
        ]
        heights = self(np.linspace(*x, counts[0]), np.linspace(*y, counts[1])[:, None])
        return float(heights.min()), float(heights.max())


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
    """Read a surface; on longitude and latitude, it is a `GeographicSurface`, which must be placed in a domain.

    Raises
    ------
    InputError
        with the file and the variable: missing variables, unknown units or axes, axes that are not ascending, an
        inconsistent shape, points without a value (in a `GeographicSurface` they may be missing), a damaged file.
    """
    path = Path(path)
    with open_arrays(path, _WHAT) as entries:
        entries = named_by_coordinates(entries)
        grid = find_grid(entries, path)
        if grid is not None:
            return _surface_of(grid, path)
        by_name = {name.lower(): entry for name, entry in entries.items()}
        for name in _NAMES:
            if name not in by_name:
                there = f"it has: {', '.join(entries) or 'nothing'}"
                raise InputError(name, "the variable is missing", f"expected x, y and elevation; {there}")
        x, y = (_read_axis(by_name, name) for name in ("x", "y"))
        elevation = _read_elevation(by_name["elevation"], {"x": x, "y": y})
        unused = unused_names(entries, [by_name[name] for name in _NAMES])
        unstated = not any(stated_units(by_name[name]) for name in ("x", "y"))
    return Surface(path, x, y, elevation, unused, unstated)


def _read_axis(by_name: Mapping[str, ArrayEntry], name: str) -> np.ndarray:
    """Return ascending coordinates in meters."""
    values = stored_axis(by_name, name) * unit_factor(by_name[name], name, LENGTH)
    steps = np.diff(values)
    if not (steps > 0.0).all():
        at = int(np.flatnonzero(steps <= 0.0)[0]) + 1
        hint = "reverse the axis and the elevations" if (steps < 0.0).all() else ""
        got = f"the coordinates do not increase: {values[at - 1]:z.12g} m, then {values[at]:z.12g} m at index {at}"
        raise InputError(name, got, "each must be greater than the one before", hint)
    return values


def _read_elevation(entry: ArrayEntry, axes: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return elevations in meters of shape (ny, nx)."""
    dimensions = dimension_names(entry, "elevation", {name: axes[name].size for name in _SHAPE})
    if str(entry.attributes.get("positive", "up")).strip().lower() != "up":
        raise InputError("elevation", f"has positive = {entry.attributes['positive']!r}", "heights are positive up")
    values = stored_values(entry, "elevation").astype(np.float64) * unit_factor(entry, "elevation", LENGTH)
    heights = values.transpose([dimensions.index(name) for name in _SHAPE])
    _require_complete(heights, axes)
    return np.ascontiguousarray(heights)


def _surface_of(grid: Grid, path: Path) -> Surface:
    if grid.is_geographic:
        return GeographicSurface(path, grid.first, grid.second, grid.elevation, grid.unused)
    _require_complete(grid.elevation, {"x": grid.first, "y": grid.second})
    return Surface(path, grid.first, grid.second, grid.elevation, grid.unused, grid.unstated)


def _require_complete(heights: np.ndarray, axes: Mapping[str, np.ndarray]) -> None:
    lacking = ~np.isfinite(heights)
    if lacking.any():
        j, i = np.unravel_index(int(lacking.argmax()), heights.shape)
        place = f"x = {axes['x'][i]:z.12g} m, y = {axes['y'][j]:z.12g} m"
        got = f"has no value at {place} ({int(lacking.sum())} of {lacking.size} points)"
        raise InputError("elevation", got, "every point needs one")
