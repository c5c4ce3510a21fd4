"""Media with gridded values on rectilinear axes, in the coordinates of the domain or placed in it.

A point (x, y, z) of the domain is projected to longitude and latitude, then to the coordinates of the model, in which
values are interpolated trilinearly. Beyond the edges of the model they are those of the nearest edge.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from lithowave.errors import InputError
from lithowave.media.elasticity import unit_question
from lithowave.media.medium import (
    MODULI,
    WAVES,
    DomainExtent,
    InverseQuality,
    Medium,
    RecentResults,
    Sample,
    inverse_quality_of,
    quality_problem,
    value_problem,
)
from lithowave.readers.array_files import cover_problem, nearest_complete
from lithowave.readers.gridded_model import GriddedModel

if TYPE_CHECKING:
    from lithowave.description.domain import Domain


Cell = tuple[np.ndarray, np.ndarray]
"""Index of the axis point below each point, and the part of the way to the next one."""


@dataclass(frozen=True, eq=False)
class GriddedMedium(Medium):
    """Values on a rectilinear grid; trilinear between its points, constant beyond its edges.

    In a cell that has both fluid (vs = 0) and solid points, all values are those of the nearest point: between the two
    there is no medium.

    Attributes
    ----------
    model : along an axis of one point its values are the same everywhere.
    key : the key of ``material`` that it comes from.
    """

    model: GriddedModel
    key: str = "file"

    def __post_init__(self) -> None:
        model = self.model

        def place(index: tuple[int, ...]) -> str:
            return f"at {model.place(index)}"

        # Between the points values are as good as at them: vp > sqrt(4/3) vs is kept by linear interpolation.
        problem = value_problem(model.vp, model.vs, model.rho, place)
        if problem is None and model.quality:
            problem = quality_problem(*self._quality, model.vp, model.vs, place)
        if problem:
            raise InputError("values", problem[0], problem[1], self._suspected_units(), file=model.path)

    @property
    def concurrent(self) -> bool:
        return True

    def _suspected_units(self) -> str:
        """Return the unit that explains implausible values, as a question; empty if they are plausible."""
        for name in ("vp", "vs", "rho"):
            values = getattr(self.model, name)
            question = unit_question(name, float(np.nanmedian(values)))
            if question:
                stated = f"(units in the file: {self.model.units.get(name, 'none')})"
                si = "kg/m^3" if name == "rho" else "m/s"
                return f"The median of {name} is {np.nanmedian(values):.6g} {si} {stated}; {question}"
        return ""

    @property
    def _quality(self) -> tuple[tuple[str, str], np.ndarray, np.ndarray | None]:
        """Names of the pair of quality factors, the first of them, and the second; None in a model of fluids only."""
        names = WAVES if WAVES[0] in self.model.quality else MODULI
        return names, self.model.quality[names[0]], self.model.quality.get(names[1])

    @cached_property
    def _losses(self) -> InverseQuality | None:
        """1/Qkappa and 1/Qmu of the model, which are interpolated; None in an elastic model."""
        if not self.model.quality:
            return None
        return inverse_quality_of(*self._quality, self.model.vp, self.model.vs)

    def attenuates(self, box: DomainExtent) -> bool:
        return bool(self.model.quality)

    def inverse_quality(self, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> InverseQuality:
        if self._losses is None:
            return super().inverse_quality(x, y, z)
        return self._interpolated(self._losses, x, y, z)  # type: ignore[return-value]

    def inverse_quality_in(self, box: DomainExtent) -> InverseQuality:
        if self._losses is None:
            return super().inverse_quality_in(box)
        parts = tuple(_around(axis, getattr(box, name)) for name, axis in self.model.axes.items())
        bulk, shear = (array[parts].reshape(-1) for array in self._losses)
        return bulk, shear

    def losses_at(self, points: np.ndarray) -> InverseQuality:
        """Return 1/Qkappa and 1/Qmu of a model with quality factors at some of its grid points, given by a mask."""
        assert self._losses is not None
        return self._losses[0][points], self._losses[1][points]

    def sample(self, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> Sample:
        arrays = (self.model.vp, self.model.vs, self.model.rho)
        return self._interpolated(arrays, x, y, z)  # type: ignore[return-value]

    def _interpolated(
        self, arrays: Sequence[np.ndarray], x: np.ndarray, y: np.ndarray, z: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        points = (x, y, z)
        cells = [trilinear_cells(p, axis) for p, axis in zip(points, self.model.axes.values(), strict=True)]
        shape = np.broadcast_shapes(*(p.shape for p in points))
        order = _product_order(points, len(shape))
        if order is None and z.size == 1:
            found = tuple(_on_level(values, cells).reshape(shape) for values in arrays)
        elif order is None:
            found = trilinear_values(arrays, cells)
        else:
            flat = [(index.reshape(-1), weight.reshape(-1)) for index, weight in cells]
            found = tuple(_on_product_grid(values, flat).transpose(order).reshape(shape) for values in arrays)
        self._separate_fluids(arrays, found, cells, shape)
        return found

    @cached_property
    def _mixed_cells(self) -> np.ndarray | None:
        """Which cells have fluid and solid points; None where there is no such cell."""
        fluid = self.model.vs == 0.0
        if not fluid.any() or fluid.all():
            return None
        some = every = fluid
        for axis, count in enumerate(fluid.shape):
            if count > 1:
                some = some.take(range(count - 1), axis) | some.take(range(1, count), axis)
                every = every.take(range(count - 1), axis) & every.take(range(1, count), axis)
        return some & ~every

    def _separate_fluids(
        self, arrays: Sequence[np.ndarray], found: Sequence[np.ndarray], cells: Sequence[Cell], shape: tuple[int, ...]
    ) -> None:
        """Replace values interpolated between a fluid and a solid by those of the nearest point."""
        mixed = self._mixed_cells
        if mixed is None:
            return
        here = np.broadcast_to(mixed[tuple(index for index, _ in cells)], shape)
        if not here.any():
            return
        nearest = tuple(np.broadcast_to(index + (weight > 0.5), shape)[here] for index, weight in cells)
        for values, result in zip(arrays, found, strict=True):
            result[here] = values[nearest]

    def validate_domain(self, box: DomainExtent) -> None:
        bounds = {"x": box.x, "y": box.y, "z": box.z}
        axes = {name: axis for name, axis in self.model.axes.items() if axis.size > 1}
        if problem := cover_problem(self.model.path, axes.items(), bounds):
            name, got, allowed = problem
            hint = _AXIS_HINTS[self.key](name, axes[name], bounds[name])
            raise InputError(f"material.{self.key}", got, allowed, hint)

    def values_in(self, box: DomainExtent) -> tuple[Sample, Callable[[int], str]]:
        axes = self.model.axes
        parts = tuple(_around(axis, getattr(box, name)) for name, axis in axes.items())
        values = tuple(array[parts] for array in (self.model.vp, self.model.vs, self.model.rho))

        def place(index: int) -> str:
            where = np.unravel_index(index, values[0].shape)
            named = zip(axes.items(), parts, where, strict=True)
            return ", ".join(f"{name} = {axis[part][i]:.12g} m" for (name, axis), part, i in named)

        return tuple(array.reshape(-1) for array in values), place  # type: ignore[return-value]


def trilinear_cells(points: np.ndarray, axis: np.ndarray) -> Cell:
    """Return the axis interval around each point; points beyond the axis are moved to its ends."""
    if axis.size == 1:
        return np.zeros(points.shape, dtype=int), np.zeros(points.shape)
    inside = np.clip(points, axis[0], axis[-1])
    index = np.clip(np.searchsorted(axis, inside, side="right") - 1, 0, axis.size - 2)
    return index, (inside - axis[index]) / (axis[index + 1] - axis[index])


def trilinear_values(arrays: Sequence[np.ndarray], cells: Sequence[Cell]) -> tuple[np.ndarray, ...]:
    """Interpolate trilinearly at any points, from the eight corners of the cell around each."""
    from lithowave.media.interpolation import add_corners

    shape = np.broadcast_shapes(*(index.shape for index, _ in cells))
    flat = [np.broadcast_to(part, shape).reshape(-1) for cell in cells for part in cell]
    results = np.zeros((len(arrays), math.prod(shape)))
    for values, result in zip(arrays, results, strict=True):
        add_corners(values, *flat, result)
    return tuple(results.reshape(-1, *shape))


def _on_level(values: np.ndarray, cells: Sequence[Cell]) -> np.ndarray:
    """Interpolate at points of one z: first all values along z, then the four corners around each point."""
    (i, wx), (j, wy), (k, wz) = cells
    level, part = int(k.reshape(-1)[0]), wz.reshape(-1)[0]
    above = min(level + 1, values.shape[2] - 1)
    plane = values[:, :, level] * (1.0 - part) + values[:, :, above] * part
    beside = [np.minimum(index + 1, count - 1) for index, count in zip((i, j), plane.shape, strict=True)]
    low = plane[i, j] * (1.0 - wy) + plane[i, beside[1]] * wy
    high = plane[beside[0], j] * (1.0 - wy) + plane[beside[0], beside[1]] * wy
    return low * (1.0 - wx) + high * wx


def _on_product_grid(values: np.ndarray, cells: Sequence[Cell]) -> np.ndarray:
    """Interpolate at all combinations of coordinates, axis by axis, that with the smallest result first."""
    for axis in sorted(range(3), key=lambda axis: cells[axis][0].size / values.shape[axis]):
        index, weight = cells[axis]
        weight = weight.reshape([-1 if other == axis else 1 for other in range(3)])
        above = np.minimum(index + 1, values.shape[axis] - 1)
        values = values.take(index, axis) * (1.0 - weight) + values.take(above, axis) * weight
    return values


def _product_order(points: Sequence[np.ndarray], dimensions: int) -> list[int] | None:
    """Return the order of x, y and z along the axes of the broadcast shape, if each has a separate axis; else None."""
    varying = [[dimensions - p.ndim + axis for axis, count in enumerate(p.shape) if count > 1] for p in points]
    used = [axis for axes in varying for axis in axes]
    if any(len(axes) > 1 for axes in varying) or len(set(used)) < len(used):
        return None
    return sorted(range(3), key=lambda number: varying[number] or [-1])


def _around(axis: np.ndarray, ends: tuple[float, float]) -> slice:
    """Return the points of an axis on which values between two ends depend."""
    if axis.size == 1:
        return slice(None)
    first = np.clip(np.searchsorted(axis, ends[0], side="right") - 1, 0, axis.size - 2)
    last = np.clip(np.searchsorted(axis, ends[1], side="left"), first + 1, axis.size - 1)
    return slice(int(first), int(last) + 1)


def _axis_hint(name: str, axis: np.ndarray, ends: tuple[float, float]) -> str:
    """Return a hint about the probable error of an axis that does not cover the domain."""
    if name == "z" and axis[0] >= 0.0 and ends[1] <= 0.0 and axis[-1] > 0.0:
        return "z is positive upwards; if the file counts depth, name the axis depth or give it positive = down"
    if 500.0 * (axis[-1] - axis[0]) <= ends[1] - ends[0]:
        return "if the axis is in km, give it the attribute units = km"
    return "extend the model, or make the domain smaller"


_AXIS_HINTS: Mapping[str, Callable[[str, np.ndarray, tuple[float, float]], str]] = {
    "file": _axis_hint,
    "dataset": _axis_hint,
    "section": lambda *_: "spacing and origin of the section say where it is",
}


_PROBES = 257
"""Largest number of points along each side of the domain at which its place in the model is computed."""

_MARGIN = 1.0
"""Width around the domain, in units of its own width, in which the values of a model are kept."""


@dataclass(frozen=True, eq=False)
class Footprint:
    """The domain in the coordinates of a model.

    Attributes
    ----------
    domain : the domain, of an imported mesh the box around it.
    models : the blocks, from the top down, with longitudes around the domain.
    first, second : coordinates of points on a regular grid over the domain, (n, m).
    z : the range of z of the model in the domain, m.
    key : the key of ``material`` that the model comes from.
    """

    domain: Domain
    models: tuple[GriddedModel, ...]
    first: np.ndarray
    second: np.ndarray
    z: tuple[float, float]
    key: str = "file"

    @classmethod
    def of(cls, domain: Domain, models: Sequence[GriddedModel], below_surface: bool, key: str = "file") -> Footprint:
        """Return the footprint of a domain with a geographic origin, or of any domain in a local model."""
        frame, extent = models[0].frame, domain.ground
        counts = (_probe_count(domain, axis, models) for axis in "xy")
        x, y = (np.linspace(*ends, count) for ends, count in zip((extent.x, extent.y), counts, strict=True))
        first, second = model_coordinates(domain, models[0], x[:, None], y)
        first, second = (np.array(np.broadcast_to(each, (x.size, y.size))) for each in (first, second))
        if frame.kind == "geographic":
            models = [_around_longitude(model, _center_longitude(domain)) for model in models]
        low, high = _height_range(domain)
        if below_surface:
            heights = domain.surface_height(x[:, None], y)
            low, high = low - float(heights.max()), 0.0
        return cls(domain, tuple(models), first, second, (low, high), key)

    @cached_property
    def ends(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Range of the first two coordinates in the domain."""
        return (
            (float(self.first.min()), float(self.first.max())),
            (float(self.second.min()), float(self.second.max())),
        )

    def covers(self) -> list[tuple[float, float]]:
        """Return the range that the model covers of each axis of its frame."""
        model = self.models[0]
        ends = [(-np.inf, np.inf) if axis.size == 1 else (axis[0], axis[-1]) for axis in (model.x, model.y)]
        return [*((float(low), float(high)) for low, high in ends), self._vertical_range()]

    def gaps(self) -> dict[tuple[str, str], float]:
        """Return how far the domain reaches beyond the model, by axis and end (``min``, ``max``), in the axis' unit."""
        found = {}
        needed = (*self.ends, self.z)
        for name, (low, high), ends in zip(self.models[0].frame.names, self.covers(), needed, strict=True):
            tolerance = 1e-6 * (ends[1] - ends[0])
            if low > ends[0] + tolerance:
                found[name, "min"] = low - ends[0]
            if high < ends[1] - tolerance:
                found[name, "max"] = ends[1] - high
        return found

    def _vertical_range(self) -> tuple[float, float]:
        """Return the range of z that the model covers everywhere in the domain."""
        first, last = self.models[0], self.models[-1]
        high = float(first.z[-1]) if first.top is None else float(self._at_probes(first, first.top).min())
        low = float(last.z[0]) if last.bottom is None else float(self._at_probes(last, last.bottom).max())
        if first.top is not None:  # such models begin at the surface of the Earth, wherever it is
            high = max(high, self.z[1])
        return low, high

    @property
    def depth_below_top(self) -> float:
        """Largest distance, m, of the surface at the top of a model below the top of the domain; 0 without one."""
        model = self.models[0]
        return 0.0 if model.top is None else max(0.0, self.z[1] - float(self._at_probes(model, model.top).min()))

    def _at_probes(self, model: GriddedModel, surface: np.ndarray) -> np.ndarray:
        return bilinear(surface, model, self.first, self.second)

    def require_cover(self) -> None:
        """Raise InputError if the domain reaches beyond the model."""
        gaps = self.gaps()
        if not gaps:
            return
        model = self.models[0]
        (name, _), *_ = gaps
        number = model.frame.names.index(name)
        unit, (low, high) = model.frame.units[number], (*self.ends, self.z)[number]
        first, last = self.covers()[number]
        more = f" ({len(gaps)} ends of its axes are in the domain)" if len(gaps) > 1 else ""
        hint = (
            "extend the model, make the domain smaller, or set material.extrapolate: true to use the values of its edge"
        )
        if name == "z" and 500.0 * (last - first) <= high - low:
            hint = "if the vertical axis is in km, give it the attribute units = km"
        raise InputError(
            f"material.{self.key}", f"{model.path} covers {name} = {first:z.12g} to {last:z.12g} {unit}{more}",
            f"it must cover the domain, {low:z.12g} to {high:z.12g} {unit}", hint,
        )  # fmt: skip

    def cut(self, model: GriddedModel) -> GriddedModel:
        """Return the part of a model in and around the domain."""
        parts = []
        for axis, (low, high) in zip((model.x, model.y), self.ends, strict=True):
            margin = _MARGIN * (high - low)
            start = max(int(np.searchsorted(axis, low - margin, side="right")) - 2, 0)
            stop = min(int(np.searchsorted(axis, high + margin, side="left")) + 2, axis.size)
            parts.append(slice(min(start, axis.size - 1), max(stop, min(start, axis.size - 1) + 1)))
        i, j = parts
        arrays = {name: values[i, j] for name, values in model.properties.items()}
        surfaces = {name: None if (z := getattr(model, name)) is None else z[i, j] for name in ("top", "bottom")}
        return model.with_values(arrays, x=model.x[i], y=model.y[j], **surfaces)

    def columns(self, model: GriddedModel) -> np.ndarray:
        """Return which columns of a model's grid have values that count in the domain, (nx, ny)."""
        inside = np.zeros(model.vp.shape[:2], dtype=bool)
        (i, _), (j, _) = (trilinear_cells(p, axis) for p, axis in ((self.first, model.x), (self.second, model.y)))
        for di in range(2):
            for dj in range(2):
                inside[np.minimum(i + di, model.x.size - 1), np.minimum(j + dj, model.y.size - 1)] = True
        return inside | self._around_nodes(model) if max(self.first.shape) == _PROBES else inside

    def _around_nodes(self, model: GriddedModel) -> np.ndarray:
        """Return which columns are in the domain or next to such a column, for models finer than the probes."""
        x, y = np.broadcast_arrays(model.x[:, None], model.y)
        if model.frame.kind != "local":
            x, y = (np.asarray(each) for each in self.domain.to_local_grid(*model.frame.to_geographic(x, y)))
        (west, east), (south, north) = self.domain.ground.x, self.domain.ground.y
        inside = (x >= west) & (x <= east) & (y >= south) & (y <= north)
        for axis in (0, 1):
            grown = np.insert(inside, (0, inside.shape[axis]), False, axis=axis)
            count = inside.shape[axis]
            inside = inside | grown.take(range(count), axis) | grown.take(range(2, count + 2), axis)
        return inside

    def levels(self, model: GriddedModel) -> slice:
        """Return the levels of a model's grid whose values count in the domain."""
        if model.top is not None or model.z.size == 1:
            return slice(None)
        low = int(np.clip(np.searchsorted(model.z, self.z[0], side="right") - 1, 0, model.z.size - 2))
        high = int(np.clip(np.searchsorted(model.z, self.z[1], side="left"), low + 1, model.z.size - 1))
        return slice(low, high + 1)


def model_coordinates(
    domain: Domain, model: GriddedModel, x: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the coordinates of a model at points of the domain; longitudes within 180 degrees of its center."""
    if model.frame.kind == "local":
        return x, y
    shape = np.broadcast_shapes(x.shape, y.shape)
    points = (np.array(np.broadcast_to(each, shape), ndmin=1) for each in (x, y))
    longitude, latitude = (np.asarray(each).reshape(shape) for each in domain.to_geographic(*points))
    if model.frame.kind == "geographic":
        center = _center_longitude(domain)
        longitude = center + (longitude - center + 180.0) % 360.0 - 180.0
    return model.frame.from_geographic(longitude, latitude)


def bilinear(surface: np.ndarray, model: GriddedModel, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the values of a surface on the horizontal grid of a model at points."""
    (i, u), (j, v) = (trilinear_cells(p, axis) for p, axis in ((first, model.x), (second, model.y)))
    above, beside = np.minimum(i + 1, model.x.size - 1), np.minimum(j + 1, model.y.size - 1)
    low = surface[i, j] * (1.0 - v) + surface[i, beside] * v
    high = surface[above, j] * (1.0 - v) + surface[above, beside] * v
    return low * (1.0 - u) + high * u


def _height_range(domain: Domain) -> tuple[float, float]:
    """Return the range of z, m, that a model must cover; a surface above the top of the domain may be outside of it."""
    low, high = domain.ground.z
    return low, min(high, domain.z[1]) if low < domain.z[1] else high


def _center_longitude(domain: Domain) -> float:
    x, y, _ = domain.center
    return float(domain.to_geographic(x, y)[0])


def _around_longitude(model: GriddedModel, center: float) -> GriddedModel:
    """Return a model with the seam of its longitudes opposite to the domain; a full circle is closed there."""
    step, span = float(np.diff(model.x).max()), float(model.x[-1] - model.x[0])
    if span < 360.0 - 1.5 * step:  # a part of the globe
        middle = 0.5 * (float(model.x[0]) + float(model.x[-1]))
        return replace(model, x=model.x + 360.0 * np.round((center - middle) / 360.0))
    turned = center + (model.x - center + 180.0) % 360.0 - 180.0
    order = np.argsort(turned, kind="stable")
    order = order[np.append(True, np.diff(turned[order]) > 1e-6)]  # the first and the last meridian may be the same
    longitude = turned[order]
    longitude = np.concatenate([longitude[-1:] - 360.0, longitude, longitude[:1] + 360.0])
    order = np.concatenate([order[-1:], order, order[:1]])
    return model.with_values({name: values[order] for name, values in model.properties.items()}, x=longitude)


def _probe_count(domain: Domain, axis: str, models: Sequence[GriddedModel]) -> int:
    """Return the number of probes along an axis of the domain: two in each cell of the finest block, within limits."""
    low, high = getattr(domain.ground, axis)
    degrees = models[0].frame.kind == "geographic"
    origin = domain.geographic_origin
    meters = 111_000.0 * max(np.cos(np.radians(origin[1])), 0.01) if degrees and origin else 1.0
    finest = min(
        float(np.diff(each).min()) * meters for model in models for each in (model.x, model.y) if each.size > 1
    )
    return int(np.clip(2.0 * (high - low) / finest + 1.0, 33, _PROBES))


def filled(model: GriddedModel, footprint: Footprint) -> GriddedModel:
    """Return a model without missing values: outside the domain they become those of the nearest point with a value.

    Raises
    ------
    InputError : a value is missing in the domain.
    """
    inside = np.zeros(model.vp.shape, dtype=bool)
    inside[:, :, footprint.levels(model)] = footprint.columns(model)[:, :, None]
    lacking = np.zeros(model.vp.shape, dtype=bool)
    for name, values in model.properties.items():
        missing = np.isnan(values)
        lacking |= missing
        bad = missing & inside
        if bad.any():
            place = model.place([int(i) for i in np.unravel_index(int(bad.argmax()), bad.shape)])
            count = int(bad.sum())
            got = f"{name} of {model.path} has no value at {place}, in or next to the domain ({count} such points)"
            raise InputError(
                f"material.{footprint.key}", got, "every point in the domain needs one", "make the domain smaller"
            )
    if not lacking.any():
        return model
    nearest = nearest_complete(lacking)
    return model.with_values({name: values[nearest] for name, values in model.properties.items()})


DepthOrigin = Literal["sea_level", "surface"]

_REMEMBERED_POINTS = 4_000_000
"""Number of projected points that a medium stores for the next plane of a grid."""


@dataclass(frozen=True, eq=False)
class ModelOnEarth(Medium):
    """A gridded model before its domain is known: it has no values at points yet.

    Attributes
    ----------
    models : its blocks, from the top down.
    depth_origin : z of the model is measured from z = 0 (``sea_level``), or from the surface of the domain.
    extrapolate : allow a domain that the model does not cover.
    key : the key of ``material`` that the model comes from.
    """

    models: tuple[GriddedModel, ...]
    depth_origin: DepthOrigin = "sea_level"
    extrapolate: bool = False
    key: str = "file"

    @property
    def model(self) -> GriddedModel:
        """The uppermost block."""
        return self.models[0]

    def placed(self, domain: Domain) -> PlacedMedium:
        """Return the medium in a domain.

        Raises
        ------
        InputError
            the domain has no geographic origin, the model does not cover it, or has points without a value in it.
        """
        frame = self.model.frame
        if frame.kind != "local" and not domain.is_geographic:
            raise InputError(
                f"material.{self.key}",
                f"{self.model.path} is on "
                + ("longitudes and latitudes" if frame.kind == "geographic" else "a map with a geographic origin"),
                "the domain needs a geographic origin",
                "give domain: crs: {longitude: ..., latitude: ...}, the point at x = y = 0",
            )
        footprint = Footprint.of(domain, self.models, self.depth_origin == "surface", self.key)
        if not self.extrapolate:
            footprint.require_cover()
        try:
            blocks = tuple(GriddedMedium(filled(footprint.cut(model), footprint)) for model in footprint.models)
        except InputError as error:
            if error.file is None:
                raise
            raise InputError(f"material.{self.key}", f"{error.file}: {error.got}", error.allowed, error.hint) from None
        return PlacedMedium(blocks, footprint, self.depth_origin, self.extrapolate)

    def _unplaced(self) -> InputError:
        return InputError(
            f"material.{self.key}",
            f"{self.model.path} has no values at local coordinates without a domain",
            "the simulation places it by domain.crs",
        )

    def sample(self, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> Sample:
        raise self._unplaced()

    def values_in(self, box: DomainExtent) -> tuple[Sample, Callable[[int], str]]:
        raise self._unplaced()

    def attenuates(self, box: DomainExtent) -> bool:
        return bool(self.model.quality)

    def validate_domain(self, box: DomainExtent) -> None:
        self.placed(box)  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class PlacedMedium(Medium):
    """A gridded model in a domain."""

    blocks: tuple[GriddedMedium, ...]
    footprint: Footprint
    depth_origin: DepthOrigin = "sea_level"
    extrapolate: bool = False
    _known: RecentResults[tuple[np.ndarray, np.ndarray]] = field(
        default_factory=lambda: RecentResults(_REMEMBERED_POINTS, lambda found: found[0].size), repr=False
    )

    @property
    def model(self) -> GriddedModel:
        """The uppermost block."""
        return self.blocks[0].model

    @property
    def models(self) -> tuple[GriddedModel, ...]:
        """The blocks, from the top down."""
        return tuple(block.model for block in self.blocks)

    @property
    def concurrent(self) -> bool:
        surface = self.footprint.domain.surface
        return self.depth_origin != "surface" or surface is None or surface.concurrent

    def attenuates(self, box: DomainExtent) -> bool:
        return bool(self.model.quality)

    def sample(self, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> Sample:
        return self._evaluated(GriddedMedium.sample, 3, x, y, z)  # type: ignore[return-value]

    def inverse_quality(self, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> InverseQuality:
        return self._evaluated(GriddedMedium.inverse_quality, 2, x, y, z)  # type: ignore[return-value]

    def _evaluated(
        self, ask: Callable[..., tuple[np.ndarray, ...]], count: int, x: np.ndarray, y: np.ndarray, z: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        """Return the results of a method of the block at each point."""
        first, second = self._coordinates(x, y)
        if self.depth_origin == "surface":
            z = z - self.footprint.domain.surface_height(x, y)
        shape = np.broadcast_shapes(first.shape, second.shape, z.shape)
        bottoms = [self._bottom(block.model, first, second) for block in self.blocks[:-1]]
        number = sum((z < bottom).astype(int) for bottom in bottoms) if bottoms else np.zeros((), dtype=int)
        used = np.unique(number)
        if used.size == 1:
            block = self.blocks[int(used[0])]
            found = ask(block, first, second, self._level(block.model, first, second, z))
            return tuple(np.array(np.broadcast_to(each, shape)) for each in found)
        result = tuple(np.empty(shape) for _ in range(count))
        points = [np.broadcast_to(each, shape) for each in (number, first, second, z)]
        for index in used:
            here = points[0] == index
            a, b, c = (each[here] for each in points[1:])
            block = self.blocks[int(index)]
            for whole, part in zip(result, ask(block, a, b, self._level(block.model, a, b, c)), strict=True):
                whole[here] = part
        return result

    def _coordinates(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the coordinates of the model at points, which are stored for the next plane of a grid."""
        if self.model.frame.kind == "local":
            return x, y
        shape = np.broadcast_shapes(x.shape, y.shape)
        size = int(np.prod(shape))
        if x.size + y.size > size or size > _REMEMBERED_POINTS:
            return model_coordinates(self.footprint.domain, self.model, x, y)
        key = (x.shape, y.shape, x.tobytes(), y.tobytes())
        return self._known.get(key, lambda: model_coordinates(self.footprint.domain, self.model, x, y))

    @staticmethod
    def _bottom(model: GriddedModel, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        if model.bottom is None:
            return np.asarray(model.z[0])
        return bilinear(model.bottom, model, first, second)

    @staticmethod
    def _level(model: GriddedModel, first: np.ndarray, second: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return the coordinate on the third axis of a block."""
        if model.top is None or model.bottom is None:
            return z
        low, high = (bilinear(surface, model, first, second) for surface in (model.bottom, model.top))
        height = high - low
        return np.where(height > 0.0, (z - low) / np.where(height > 0.0, height, 1.0), 1.0)

    def validate_domain(self, box: DomainExtent) -> None:
        """Do nothing: the domain was compared with the model when the model was placed."""

    def values_in(self, box: DomainExtent) -> tuple[Sample, Callable[[int], str]]:
        parts = [self._columns_in(model) for model in self.models]
        values = tuple(
            np.concatenate([getattr(model, name)[inside] for model, inside in zip(self.models, parts, strict=True)])
            for name in ("vp", "vs", "rho")
        )
        ends = np.cumsum([int(inside.sum()) for inside in parts])

        def place(index: int) -> str:
            block = int(np.searchsorted(ends, index, side="right"))
            before = int(ends[block - 1]) if block else 0
            model = self.models[block]
            return model.place([int(each[index - before]) for each in np.nonzero(parts[block])])

        return values, place  # type: ignore[return-value]

    def inverse_quality_in(self, box: DomainExtent) -> InverseQuality:
        if not self.model.quality:
            return super().inverse_quality_in(box)
        found = [block.losses_at(self._columns_in(block.model)) for block in self.blocks]
        bulk, shear = (np.concatenate(each) for each in zip(*found, strict=True))
        return bulk, shear

    def _columns_in(self, model: GriddedModel) -> np.ndarray:
        """Return which points of a block count in the domain."""
        inside = np.zeros(model.vp.shape, dtype=bool)
        levels = self.footprint.levels(model)
        inside[:, :, levels] = self.footprint.columns(model)[:, :, None]
        return inside
