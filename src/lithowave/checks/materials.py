"""Checks and report of the material: attenuation, ranges and coverage of models, waves from below the domain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lithowave.checks.time_functions import velocity_outside
from lithowave.description.sources import PointSource
from lithowave.description.validation import percent
from lithowave.errors import InputError
from lithowave.globe_coordinates import RADIUS
from lithowave.media.gridded import GriddedMedium, PlacedMedium
from lithowave.media.medium import FunctionMedium, Medium

if TYPE_CHECKING:
    from lithowave.description.experiment import Experiment
    from lithowave.json_types import Entries
    from lithowave.readers.gridded_model import GriddedModel


_LOW_QUALITY = 5.0
"""Q below this value is rare, and often a mistake."""

_DEVIATION_LIMIT = 0.1
"""Relative deviation of Q from its law from which on there is a warning."""

_OUTSIDE_LIMIT = 0.2
"""Part of the radiated velocity outside the band from which on there is a warning."""


def attenuation_warnings(experiment: Experiment, sources: list[tuple[str, bool, PointSource]]) -> Iterator[str]:
    """Yield warnings about the attenuation of the material.

    Parameters
    ----------
    sources : label, whether it is from a file, and the source.
    """
    keys, found = experiment.material.attenuation, experiment.anelasticity
    if found is None:
        if keys is not None:
            yield (
                "material.attenuation: without effect, because the material has no quality factors; give qp and qs of "
                "its media."
            )
        return
    if keys is not None and keys.exponent == 0.0 and "corner_frequency" in keys.model_fields_set:
        yield "material.attenuation.corner_frequency: without effect with exponent 0, which is a constant Q."
    smallest = 1.0 / found.inverse_qualities[1]
    if smallest < _LOW_QUALITY:
        yield (
            f"material: the smallest quality factor of a bulk or shear modulus is {smallest:.3g}; values below "
            f"{_LOW_QUALITY:g} are unusual, and their approximation is less accurate."
        )
    yield from _more_bulk_than_shear(experiment)
    if found.deviation > _DEVIATION_LIMIT:
        yield (
            f"material.attenuation: with {found.body.mechanisms} mechanisms, Q deviates by up to "
            f"{percent(found.deviation)} from the given one between {found.body.band[0]:.4g} and "
            f"{found.body.band[1]:.4g} Hz. Use more mechanisms or a narrower band."
        )
    yield from _outside_band(found.body.band, experiment.resolved_frequency, sources)


def _more_bulk_than_shear(experiment: Experiment) -> Iterator[str]:
    """Yield warnings about solids with qp < qs, which means that 1/Qkappa is larger than 1/Qmu."""
    material = experiment.material
    why = (
        "so that compression loses more energy than shear; in most rocks qp is larger (without loss in compression, "
        "qp = qs / (4/3 vs^2/vp^2)). Check whether qp and qs are exchanged; if they are meant, ignore this warning."
    )
    for path, properties in material.properties.items():
        if properties.qp is not None and properties.qs is not None and properties.qp < properties.qs:
            bulk, _ = properties.inverse_quality
            yield (
                f"{'.'.join(('material', *map(str, path)))}.qp: {properties.qp:g} is less than qs = {properties.qs:g}: "
                f"the quality factor of the bulk modulus is {1.0 / bulk:.3g}, {why}"
            )
    if not material.properties:
        losses, shear = (np.asarray(values) for values in material.medium.inverse_quality_in(experiment.domain.ground))
        reverse = (losses > (1.0 + 1e-6) * shear) & (shear > 0.0)
        if reverse.any():
            ratios = np.where(reverse, losses / np.where(reverse, shear, 1.0), 0.0)
            worst = np.unravel_index(int(ratios.argmax()), losses.shape)
            share = percent(float(reverse.mean()))
            yield (
                f"material.{material.kind}: qp is less than qs at {share} of the points of the model (most where the "
                f"quality factor of the bulk modulus is {1.0 / losses[worst]:.3g} and that of the shear modulus "
                f"{1.0 / shear[worst]:.3g}), {why}"
            )


def _outside_band(
    band: tuple[float, float], highest: float | None, sources: list[tuple[str, bool, PointSource]]
) -> Iterator[str]:
    known: dict[tuple[int, bool], float] = {}
    for _, _, source in sources:
        key = (id(source.time_function), source.moment is not None)
        if key not in known:  # many sources may share one function
            known[key] = velocity_outside(source, band, highest)
    if not known or max(known.values()) <= _OUTSIDE_LIMIT:
        return
    parts = [known[id(source.time_function), source.moment is not None] for _, _, source in sources]
    worst = max(range(len(parts)), key=parts.__getitem__)
    yield (
        f"material.attenuation.band: {percent(parts[worst])} of the velocity radiated by {sources[worst][0]} (relative "
        f"L2 norm) is outside the band, {band[0]:.4g} to {band[1]:.4g} Hz, where attenuation is weaker than given. "
        "Use a band that contains the spectra of the sources."
    )


_LARGE_RATIO = 10.0
"""vp/vs above which values are remarkable even in soft sediments."""

_UNITS = {"vp": "m/s", "vs": "m/s", "rho": "kg/m^3"}


@dataclass(frozen=True)
class ModelReport:
    """Ranges and coverage of a model.

    Attributes
    ----------
    kind : the key of ``material``, such as ``layers`` or ``file``.
    ranges : smallest and largest value in the domain of ``vp``, ``vs``, ``rho``, ``vp/vs`` (solids) and, with
        attenuation, ``qkappa`` and ``qmu``.
    grids : for gridded models, a text for each block of the model, from the top down.
    stated_units : units that the file states, by variable.
    extrapolated : ends of the domain beyond the model, with the distance in the unit of the axis.
    remarks : remarkable values, one sentence each.
    """

    kind: str
    ranges: dict[str, tuple[float, float]]
    grids: list[str]
    stated_units: dict[str, str]
    extrapolated: dict[str, float]
    remarks: list[str]

    def as_dict(self) -> Entries:
        """Return all entries as plain values."""
        return {name: value for name, value in vars(self).items() if value}

    def lines(self) -> list[tuple[str, str]]:
        """Return (name, text) of each entry for printing."""
        texts = []
        for name, (low, high) in self.ranges.items():
            unit = _UNITS.get(name, "")
            span = f"{low:.5g}" if low == high else f"{low:.5g} to {high:.5g}"
            texts.append(f"{name} {span} {unit}".rstrip())
        rows = [("model", ", ".join(texts))]
        rows += [("model grid", text) for text in self.grids]
        if self.grids:
            ends = [f"{name} by {distance:.4g}" for name, distance in self.extrapolated.items()]
            covered = f"extrapolated beyond {', '.join(ends)}" if ends else "covers the domain"
            stated = ", ".join(f"{name}: {unit}" for name, unit in self.stated_units.items())
            rows.append(("model extent", f"{covered}; units in the file: {stated or 'none, taken as SI'}"))
        return rows + [("model values", text) for text in self.remarks]


def model_report(experiment: Experiment) -> ModelReport:
    """Return the report of the material of a simulation."""
    material, ground = experiment.material, experiment.domain.ground
    medium = material.medium
    (vp, vs, rho), place = medium.values_in(ground)
    ranges = {name: _range(values) for name, values in (("vp", vp), ("vs", vs), ("rho", rho))}
    solid = np.flatnonzero(vs > 0.0)
    remarks = []
    if solid.size:
        ratio = vp[solid] / vs[solid]
        ranges["vp/vs"] = _range(ratio)
        remarks = _remarks(ratio, [place(int(solid[find(ratio)])) for find in (np.argmin, np.argmax)])
    if experiment.has_attenuation:
        for name, losses in zip(("qkappa", "qmu"), medium.inverse_quality_in(ground), strict=True):
            if (finite := losses[losses > 0.0]).size:
                ranges[name] = _range(1.0 / finite)
    grids, units, gaps = [], {}, {}
    if isinstance(medium, PlacedMedium):
        grids = [_grid(model) for model in medium.footprint.models]
        gaps = {" ".join(end): distance for end, distance in medium.footprint.gaps().items()}
        units = dict(medium.model.units)
    elif isinstance(medium, GriddedMedium):
        grids, units = [_grid(medium.model)], dict(medium.model.units)
    return ModelReport(material.kind, ranges, grids, units, gaps, remarks)


def _range(values: np.ndarray) -> tuple[float, float]:
    return float(values.min()), float(values.max())


def _remarks(ratio: np.ndarray, places: list[str]) -> list[str]:
    """Return sentences on unusual ratios of the wave speeds. places : of the smallest and the largest one."""
    remarks = []
    if ratio.min() < np.sqrt(2.0):
        remarks.append(
            f"vp/vs = {ratio.min():.3g} is below 1.414, so that Poisson's ratio is negative ({places[0]}); rocks have "
            "larger ratios"
        )
    if ratio.max() > _LARGE_RATIO:
        remarks.append(f"vp/vs = {ratio.max():.3g} is unusually large ({places[1]}); check vs there")
    return remarks


def _grid(model: GriddedModel) -> str:
    """Return the extent and the number of points of a block."""
    parts = []
    for name, axis, unit in zip(model.frame.names, model.axes.values(), model.frame.units, strict=True):
        if name == "z" and model.top is not None and model.bottom is not None:
            parts.append(f"z {float(model.bottom.min()):.6g} to {float(model.top.max()):.6g} m between surfaces")
        else:
            parts.append(f"{name} {float(axis[0]):.6g} to {float(axis[-1]):.6g} {unit}")
    size = " x ".join(str(count) for count in model.vp.shape)
    where = "" if model.frame.kind != "projected" else f", azimuth {model.frame.azimuth:g} degrees"
    return f"{Path(model.path).name}: {size} points, {', '.join(parts)}{where}"


_CELLS = 128
"""Intervals of depth in the domain, and as many below it, in which the velocities are taken as linear."""

_BESIDE = 1e-6
"""Distance from the ends of an interval, relative to the depth of the domain, at which the model is sampled."""

_PARTS = (1.0, 0.3, 0.1, 0.03)
"""Parts of the depth below the domain that are tried, since models may have no valid values far below it."""

_COLUMNS = 3
"""Columns along x and y at which the model is examined."""

_POINTS = 300
"""Largest number of sources, and of receivers, whose distances are examined."""

_INCREASE = 0.02
"""Relative difference of a velocity below the domain from which on waves that turn there are reported."""

_CHANGE = 1e-6
"""Relative difference of the velocities of two intervals up to which the model is constant there."""

_REFLECTED = 0.02
"""Amplitude of a reflection relative to the direct wave from which on it is reported."""


class Geometry(NamedTuple):
    """Horizontal distances (n,), m, of receivers from sources, the depths of both, m, the duration, s, and the highest
    frequency, Hz."""

    distances: np.ndarray
    depths: tuple[float, float]
    duration: float
    frequency: float


class Returned(NamedTuple):
    """A wave that turns or is reflected: how, and the depth below the domain that it depends on, m; the distance of the
    first receiver that records it, m; time, s."""

    kind: str
    depth: float
    distance: float
    time: float


@dataclass(frozen=True)
class Column:
    """A vertical profile of the model, in intervals from the top down.

    Attributes
    ----------
    depth : (n + 1,) ends of the intervals below the top of the domain, m.
    first : the first interval below the domain.
    speeds : vp and vs (2, n, 2), m/s, at both ends of each interval, with vp instead of vs in a fluid.
    rho : (n, 2), kg/m^3.
    end : vp, vs and rho (3,) with which the absorbing boundary continues the model.
    """

    depth: np.ndarray
    first: int
    speeds: np.ndarray
    rho: np.ndarray
    end: np.ndarray

    def returned(self, geometry: Geometry) -> Iterator[Returned]:
        """Yield the waves from below the domain that arrive at a receiver within the duration."""
        for speed, end in zip(self.speeds, self.end[:2], strict=True):
            yield from self._turned(speed, end, geometry)
            yield from self._reflected(speed, end, geometry)

    def legs(self, depths: tuple[float, float]) -> np.ndarray:
        """Return the lengths (n,), m, of both vertical legs of a ray in the intervals, between points and the deep."""
        low = self.depth[1:]
        return sum(np.clip(low - depth, 0.0, np.diff(self.depth)) for depth in depths)  # type: ignore[return-value]

    def _turned(self, speed: np.ndarray, end: float, geometry: Geometry) -> Iterator[Returned]:
        """Rays along the upper end of an interval m, of slowness p = 1 / v_m, over all intervals above it:

        X = sum h p (v_1 + v_2) / (c_1 + c_2),  T = p X + sum h / 2 (c_1 / v_1 + c_2 / v_2),  c = sqrt(1 - p^2 v^2),

        with the velocities v_1 and v_2 at both ends of an interval and the length h of both legs in it. Waves that turn
        at a depth also depend on the model down to about one wavelength below it.
        """
        legs, farthest = self.legs(geometry.depths), geometry.distances
        passed = np.flatnonzero(legs > 0.0)
        largest = np.maximum.accumulate(np.where(legs > 0.0, speed.max(axis=1), 0.0))
        turning = speed[:, 0] >= np.append(0.0, largest[:-1]) * (1.0 - 1e-9)
        changed = np.append(False, np.abs(speed[1:, 0] / speed[:-1, 0] - 1.0) > _CHANGE)
        for m in np.flatnonzero(turning & (speed.max(axis=1) > 0.0)):
            reached = self.depth[m] + speed[m, 0] / geometry.frequency
            lowest = min(int(np.searchsorted(self.depth[:-1], reached)) + 1, len(speed) - 1)
            inside = np.flatnonzero(changed[: lowest + 1])
            last = int(inside[-1]) if inside.size else 0
            if last < self.first or abs(speed[last, 0] / end - 1.0) < _INCREASE:
                continue
            above = passed[passed < m]
            h, v, p = legs[above], speed[above], 1.0 / speed[m, 0]
            cosine = np.sqrt(np.maximum(1.0 - (p * v) ** 2, 1e-14))
            distance = float((h * p * v.sum(axis=1) / cosine.sum(axis=1)).sum())
            number = np.searchsorted(farthest, distance)
            if number < farthest.size:
                time = p * farthest[number] + 0.5 * (h * (cosine / v).sum(axis=1)).sum()
                if time <= geometry.duration:
                    yield Returned("reach", float(self.depth[last]), float(farthest[number]), float(time))

    def _reflected(self, speed: np.ndarray, end: float, geometry: Geometry) -> Iterator[Returned]:
        """Rays that an abrupt change reflects, straight with the mean velocity; amplitude relative to the direct wave
        from the coefficient at normal incidence and the lengths of both rays."""
        legs, first = self.legs(geometry.depths), self.first
        heights, times = np.maximum(np.cumsum(legs), 1e-9), np.cumsum(legs / speed.mean(axis=1))
        impedance = (speed * self.rho)[:, 1]
        before = np.append(end * self.end[2], impedance[first:-1])
        coefficient = np.abs(impedance[first:] - before) / (impedance[first:] + before)
        direct = np.hypot(geometry.distances, geometry.depths[0] - geometry.depths[1])
        for m in np.flatnonzero(coefficient > _REFLECTED) + first:
            length = np.hypot(geometry.distances, heights[m - 1])
            arrival = length * times[m - 1] / heights[m - 1]
            seen = (coefficient[m - first] * direct >= _REFLECTED * length) & (arrival <= geometry.duration)
            if seen.any():
                number = int(seen.argmax())
                nearest = float(geometry.distances[number])
                yield Returned("are reflected at", float(self.depth[m]), nearest, float(arrival[number]))


def model_below(experiment: Experiment) -> Iterator[str]:
    """Yield a warning if the bottom absorbs waves that the model would send back to receivers within the duration."""
    if experiment.boundaries.face("z_min") != "absorbing" or experiment.material.groups is not None:
        return
    geometry = _geometry(experiment)
    if geometry is None:
        return
    found = [(one, column) for column in _columns(experiment, geometry) for one in column.returned(geometry)]
    if found:
        deepest, column = max(found, key=lambda pair: pair[0].depth)
        soonest = min((one for one, other in found if other is column), key=lambda one: one.time)
        yield _warning(experiment, deepest, soonest, column)


def _warning(experiment: Experiment, deepest: Returned, soonest: Returned, column: Column) -> str:
    domain, below = experiment.domain, int(np.searchsorted(column.depth, deepest.depth))
    true = np.ones_like(column.depth) if domain.chunk is None else np.exp(-column.depth / RADIUS)
    speeds = np.array([column.end[:2] * true[column.first], column.speeds[:, below, 0] * true[below]])
    solid = speeds[0, 0] != speeds[0, 1]
    values = "; ".join(
        f"{name} {end:.5g} m/s at the bottom, {there:.5g} m/s there"
        for name, end, there in zip(("vp", "vs") if solid else ("vp",), *speeds, strict=False)
    )
    if domain.chunk is None:
        key, bottom = "domain.z", f"z = {domain.z[0]:z.6g} m"
        place = f"z = {domain.z[1] - column.depth[below]:z.6g} m"
        distance = f"{soonest.distance:.6g} m"
    else:
        key, bottom = "domain.chunk.depth", f"{domain.chunk.depth / 1e3:.6g} km"
        place = f"{RADIUS * (1.0 - true[below]) / 1e3:.5g} km"
        distance = f"{np.degrees(soonest.distance / RADIUS):.4g} degrees"
    more = " or more" if below == len(column.rho) - 1 else ""
    return (
        f"{key}: the model changes below the bottom of the domain ({bottom}), where the absorbing boundary continues "
        f"the values at the bottom. Waves that {deepest.kind} {place} ({values}) would return to receivers, and are "
        f"missing in the seismograms, from {soonest.time:.3g} s after the source on at a distance of {distance}. "
        f"Deepen the domain to below {place}{more}, or shorten the duration."
    )


def _geometry(experiment: Experiment) -> Geometry | None:
    """Return the distances and depths of sources and receivers; the surface of the domain without receivers."""
    domain = experiment.domain
    sources = np.array([one.position for one in experiment.acquisition.sources], float).reshape(-1, 3)
    receivers = np.array([one.position for one in experiment.acquisition.receivers], float).reshape(-1, 3)
    if not receivers.size and (experiment.output.snapshots or experiment.output.peak_motion):
        x, y = (np.linspace(*ends, 5) for ends in (domain.x, domain.y))
        receivers = np.stack(np.broadcast_arrays(x, y[:, None], domain.z[1]), axis=-1).reshape(-1, 3)
    if not sources.size or not receivers.size:
        return None
    deepest = (max(domain.z[1] - points[:, 2].min(), 0.0) for points in (sources, receivers))
    depths = next(deepest), next(deepest)
    sources, receivers = (points[:: -(-len(points) // _POINTS)] for points in (sources, receivers))
    if domain.chunk is not None:
        first, second = (domain.cartesian(points) for points in (sources, receivers))
        first, second = (points / np.linalg.norm(points, axis=1)[:, None] for points in (first, second))
        distances = RADIUS * np.arccos(np.clip(first @ second.T, -1.0, 1.0))
        depths = -RADIUS * np.log1p(-depths[0] / RADIUS), -RADIUS * np.log1p(-depths[1] / RADIUS)
    else:
        distances = np.linalg.norm(sources[:, None, :2] - receivers[None, :, :2], axis=2)
    return Geometry(np.sort(distances, axis=None), depths, experiment.duration, experiment.resolved_frequency or np.inf)


def _columns(experiment: Experiment, geometry: Geometry) -> Iterator[Column]:
    """Yield the different columns of the model, down to one depth of the domain below it, or half of the largest
    distance.

    In a chunk, depths and velocities are those of a flat Earth with the same travel times.
    """
    domain, medium = experiment.domain, experiment.material.medium
    if isinstance(medium, FunctionMedium):
        medium = FunctionMedium(medium.function)  # a failure below the domain must not affect that in the domain
    height = domain.z[1] - domain.z[0]
    reach = max(height, 0.5 * float(geometry.distances[-1]))
    if domain.chunk is not None:
        reach = min(reach, 0.9 * (RADIUS - height))
    places = [(float(x), float(y)) for x in _inner(domain.x) for y in _inner(domain.y)]
    for part in _PARTS:
        depth = _depths(medium, domain.z, height + part * reach)
        # Finite differences continue the value at the bottom, elements that of the layer above it.
        inside = 0.0 if experiment.solver.method == "finite_difference" else _BESIDE * height
        ends = np.stack([depth[:-1] + _BESIDE * height, depth[1:] - _BESIDE * height], axis=1)
        levels = np.append(domain.z[1] - ends, domain.z[0] + inside)
        values = [found for x, y in places if (found := _sampled(medium, x, y, levels)) is not None]
        if len(values) == len(places):
            break
    else:
        return
    factor, first = np.ones(levels.size), int(np.searchsorted(depth, height * (1.0 - _BESIDE)))
    if domain.chunk is not None:
        factor, depth = RADIUS / (RADIUS + levels), -RADIUS * np.log1p(-depth / RADIUS)
    for number, (vp, vs, rho) in enumerate(values):
        if any(np.array_equal(values[number], other) for other in values[:number]):  # all of a model of flat layers
            continue
        speeds = factor * np.stack([vp, np.where(vs > 0.0, vs, vp)])
        yield Column(
            depth, first, speeds[:, :-1].reshape(2, -1, 2), rho[:-1].reshape(-1, 2), np.append(speeds[:, -1], rho[-1])
        )


def _depths(medium: Medium, z: tuple[float, float], lowest: float) -> np.ndarray:
    """Return the ends of the intervals below the top of the domain, m, among them the flat tops of layers."""
    height = z[1] - z[0]
    tops = [z[1] - float(top) for top in getattr(medium, "tops", ()) if not callable(top)]
    regular = np.append(np.linspace(0.0, height, _CELLS + 1), np.linspace(height, lowest, _CELLS + 1))
    depths = np.unique(np.append(regular, [top for top in tops if 0.0 < top < lowest]))
    return depths[np.append(True, np.diff(depths) > 10.0 * _BESIDE * height)]


def _inner(ends: tuple[float, float]) -> np.ndarray:
    """Return the positions of the columns along an axis of the domain."""
    return np.linspace(*ends, _COLUMNS + 2)[1:-1]


def _sampled(medium: Medium, x: float, y: float, z: np.ndarray) -> np.ndarray | None:
    """Return vp, vs and rho (3, n) at levels of a column; None if a model has no such values below the domain."""
    try:
        with np.errstate(all="ignore"):
            values = np.stack(medium.sample(np.full(z.size, x), np.full(z.size, y), z))
    except InputError:
        return None
    return values if np.isfinite(values).all() and (values[[0, 2]] > 0.0).all() else None
