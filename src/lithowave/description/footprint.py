"""Where a domain is in a gridded model: coordinates, coverage, and the part of the model that counts in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from lithowave.description.gridded_medium import trilinear_cells
from lithowave.errors import InputError
from lithowave.readers.gridded_model import GriddedModel
from lithowave.readers.missing_values import nearest_complete

if TYPE_CHECKING:
    from lithowave.description.domain import Domain

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
            f"material.{self.key}",
            f"{model.path} covers {name} = {first:z.12g} to {last:z.12g} {unit}{more}",
            f"it must cover the domain, {low:z.12g} to {high:z.12g} {unit}",
            hint,
        )

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
