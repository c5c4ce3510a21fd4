"""Elevations on grids of GMT and other software: ``z(lat, lon)`` or ``z(y, x)``, and the format of GMT 3.

Axes are identified by their names and attributes. GMT writes the centers of the cells as coordinates also for pixel
registration (``node_offset = 1``); the format of GMT 3 (``x_range``, ``y_range``, ``dimension`` and ``z``) has no
coordinates, only the ends of the region, and rows from North to South.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from lithowave.errors import InputError
from lithowave.readers.array_files import DAMAGE, ArrayEntry, ArrayFile, dimension_names, unused_names
from lithowave.readers.geographic_model import axis_role
from lithowave.readers.units import LENGTH, si_factor

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
        return _old_grid(entries, by_name, path)
    name = _height_name(by_name, path)
    if name is None:
        return None
    entry = by_name[name]
    lines = [each for each, other in by_name.items() if len(other.shape) == 1]
    candidates = [each.lower() for each in entry.dimensions or lines]
    roles = {role: each for each in candidates if (role := _role(each, by_name.get(each), path))}
    if name == "elevation" and set(roles) <= {"x", "y"}:
        return None
    for pair in (("longitude", "latitude"), ("x", "y")):
        if all(role in roles for role in pair):
            axes = {roles[role]: _axis(by_name, roles[role], entries, path, pair[0] == "longitude") for role in pair}
            values = _heights(entry, name, axes, path)
            used = [entry, *(by_name[each] for each in axes)]
            grid = _ascending(*axes.values(), values, pair[0] == "longitude", unused_names(entries, used))
            return replace(grid, unstated=pair[0] == "x" and not any(_stated(by_name[each]) for each in axes))
    there = ", ".join(candidates)
    raise InputError(name, f"has the axes {there}", "expected longitude and latitude, or x and y", file=path)


def _height_name(by_name: Mapping[str, ArrayEntry], path: Path) -> str | None:
    """Return the name of the variable with the elevations; None without any."""
    grids = [name for name, entry in by_name.items() if len(entry.shape) == 2]
    known = [name for name in _HEIGHTS if name in grids]
    if known:
        return known[0]
    if len(grids) > 1:
        got = f"the file has several grids: {', '.join(grids)}"
        raise InputError("elevation", got, "expected one, or one of the name elevation or z", file=path)
    return grids[0] if grids else None


def _role(name: str, entry: ArrayEntry | None, path: Path) -> str:
    role = axis_role(name, entry, path)
    return role if role in ("longitude", "latitude") else name if name in ("x", "y") else ""


def _axis(by_name: Mapping[str, ArrayEntry], name: str, entries: ArrayFile, path: Path, in_degrees: bool) -> np.ndarray:
    """Return the coordinates of an axis in the order of the file, in degrees or m."""
    if name not in by_name:
        raise InputError(name, "the axis has no coordinates", f"expected a variable {name}({name})", file=path)
    entry = by_name[name]
    if len(entry.shape) != 1 or entry.shape[0] < 2:
        raise InputError(name, f"has the shape {entry.shape}", "expected one axis of two points or more", file=path)
    values = _values(entry, name, path)
    if not np.isfinite(values).all():
        raise InputError(name, "has a coordinate without a value", "all must be finite", file=path)
    steps = np.diff(values)
    if not ((steps > 0).all() or (steps < 0).all()):
        at = int(np.flatnonzero(steps * np.sign(steps[0]) <= 0)[0]) + 1 if steps[0] else 1
        raise InputError(name, f"the coordinates are not monotonic: {values[at]:.12g} at index {at}", file=path)
    pixels = int(np.atleast_1d(entries.attributes.get("node_offset", 0))[0]) == 1
    edges = np.sort(np.atleast_1d(np.asarray(entry.attributes.get("actual_range", []), dtype=float)))
    ends, tolerance = [values.min(), values.max()], 1e-3 * float(np.abs(steps).min())
    if pixels and edges.size == 2 and np.allclose(edges, ends, rtol=0.0, atol=tolerance):
        got = "node_offset = 1 (pixel registration), but the coordinates are the ends of the region (actual_range)"
        raise InputError(name, got, "expected the centers of the cells", file=path)
    return values if in_degrees else values * _factor(entry, name, path)


def _heights(entry: ArrayEntry, name: str, axes: Mapping[str, np.ndarray], path: Path) -> np.ndarray:
    """Return elevations in m, (second axis, first axis)."""
    dimensions = dimension_names(entry, name, {axis: values.size for axis, values in axes.items()}, path)
    values = _values(entry, name, path) * _factor(entry, name, path)
    stated = str(entry.attributes.get("positive", "down" if name == "depth" else "up")).strip().lower()
    if stated not in ("up", "down"):
        raise InputError(name, f"has positive = {stated!r}", "expected up or down", file=path)
    first, second = axes
    ordered = values.transpose([dimensions.index(second), dimensions.index(first)])
    return 0.0 - ordered if stated == "down" else ordered


def _values(entry: ArrayEntry, name: str, path: Path) -> np.ndarray:
    try:
        return entry.values().astype(np.float64)
    except DAMAGE as error:
        raise InputError(name, f"cannot be read: {error}", hint="check that the file is complete", file=path) from None


def _stated(entry: ArrayEntry) -> bool:
    """True if an axis has a unit."""
    return str(entry.attributes.get("units", "")).strip().lower() not in _NO_UNITS


def _factor(entry: ArrayEntry, name: str, path: Path) -> float:
    units = str(entry.attributes.get("units", "")).strip()
    if units.lower() in _NO_UNITS:
        return 1.0
    factor = si_factor(units, LENGTH)
    if factor is None:
        raise InputError(name, f"has the units {units!r}", "expected a length such as m or km", file=path)
    return factor


def _ascending(
    first: np.ndarray, second: np.ndarray, values: np.ndarray, is_geographic: bool, unused: tuple[str, ...]
) -> Grid:
    across, along = (slice(None, None, -1 if axis[0] > axis[-1] else 1) for axis in (second, first))
    return Grid(first[along], second[across], np.ascontiguousarray(values[across, along]), is_geographic, unused)


def _old_grid(entries: ArrayFile, by_name: Mapping[str, ArrayEntry], path: Path) -> Grid:
    """Return the grid of the format of GMT 3."""
    counts = _values(by_name["dimension"], "dimension", path)
    if counts.shape != (2,) or (counts < 2).any() or (counts != counts.round()).any():
        raise InputError(
            "dimension", f"is {counts.tolist()}", "expected the numbers of points along x and y", file=path
        )
    nx, ny = (int(count) for count in counts)
    z = by_name["z"]
    if z.shape != (nx * ny,):
        raise InputError("z", f"has the shape {z.shape}", f"expected {nx} x {ny} = {nx * ny} values", file=path)
    offset = int(np.atleast_1d(z.attributes.get("node_offset", entries.attributes.get("node_offset", 0)))[0])
    if offset not in (0, 1):
        raise InputError("z", f"has node_offset = {offset}", "expected 0 (nodes) or 1 (pixels)", file=path)
    axes, geographic = [], []
    for name, count in (("x_range", nx), ("y_range", ny)):
        ends, entry = _values(by_name[name], name, path), by_name[name]
        if ends.shape != (2,) or not np.isfinite(ends).all() or ends[0] >= ends[1]:
            raise InputError(name, f"is {ends.tolist()}", "expected [minimum, maximum]", file=path)
        geographic.append("degree" in str(entry.attributes.get("units", "")).lower())
        ends = ends if geographic[-1] else ends * _factor(entry, name, path)
        step = (ends[1] - ends[0]) / (count if offset else count - 1)
        axes.append(ends[0] + step * (np.arange(count) + 0.5 * offset))
    if len(set(geographic)) > 1:
        raise InputError("y_range", "only one of x_range and y_range is in degrees", file=path)
    values = (_values(z, "z", path) * _factor(z, "z", path)).reshape(ny, nx)[::-1]
    used = [by_name[name] for name in (*_OLD, "z_range", "spacing") if name in by_name]
    unstated = not any(_stated(by_name[name]) for name in ("x_range", "y_range"))
    return Grid(axes[0], axes[1], np.ascontiguousarray(values), geographic[0], unused_names(entries, used), unstated)
