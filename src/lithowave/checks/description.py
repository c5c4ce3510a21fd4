"""Warnings about a description, one sentence for each kind: what is allowed but may not be meant."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lithowave.checks.limits import find_unused_keys
from lithowave.checks.materials import attenuation_warnings, model_below
from lithowave.checks.time_functions import time_function_warnings
from lithowave.description.domain import SWAP_QUESTION, place_text
from lithowave.description.experiment import Experiment
from lithowave.description.fault_sources import SlipRates, SubfaultFunction
from lithowave.description.receivers import Receiver
from lithowave.description.solver import TARGETS, error_text
from lithowave.description.sources import PointSource
from lithowave.globe_coordinates import directions
from lithowave.labels import first_names
from lithowave.media.bounded_layers import BoundedLayers
from lithowave.media.earth import EarthMedium
from lithowave.media.gridded import GriddedMedium, PlacedMedium
from lithowave.readers.surfaces import Surface

if TYPE_CHECKING:
    from lithowave.json_types import Entries

_EARTH_RADIUS = 6_371_000.0  # m, mean

_LARGEST_REACH = 300_000.0
"""Distance (m) from x = y = 0 up to which one projection and a flat surface are not worth a warning."""

_ATTENUATION = {"qp", "qs", "qmu", "qkappa", "q_p", "q_s", "q_mu", "q_kappa", "q"}



def unused_variables(experiment: Experiment) -> Iterator[str]:
    """Yield a warning for each model, topography or surface file with variables that lithowave does not use."""
    medium, surface = experiment.material.medium, experiment.domain.surface
    if isinstance(medium, (GriddedMedium, PlacedMedium)) and medium.model.unused:
        yield _unused("material.file", medium.model.path, medium.model.unused, "vp, vs, rho and quality factors")
    for index, top in enumerate(medium.tops if isinstance(medium, BoundedLayers) else ()):
        if isinstance(top, Surface) and top.unused:
            yield _unused(f"material.layers[{index}].top", top.path, top.unused, "elevation")
    if surface is not None and surface.unused:
        yield _unused("domain.topography", surface.path, surface.unused, "elevation")


def model_placement(experiment: Experiment) -> Iterator[str]:
    """Yield the notes on a model file, and a warning for each side of the domain beyond its model."""
    medium = experiment.material.medium
    if not isinstance(medium, (GriddedMedium, PlacedMedium)):
        return
    for note in medium.model.notes:
        yield f"material.file: {medium.model.path}: {note}."
    if not isinstance(medium, PlacedMedium):
        return
    if medium.footprint.depth_below_top > 0.0:
        yield (
            f"material.file: the surface at the top of {medium.model.path} is up to "
            f"{medium.footprint.depth_below_top:.4g} m below the top of the domain; the values between them are those "
            "at this surface."
        )
    units = dict(zip(medium.model.frame.names, medium.model.frame.units, strict=True))
    for (name, end), distance in medium.footprint.gaps().items():
        side = {"min": "below its smallest", "max": "above its largest"}[end]
        yield (
            f"material.extrapolate: the domain reaches {distance:.4g} {units[name]} beyond {medium.model.path}, {side} "
            f"{name}; the values there are those of its edge."
        )


def earth_notes(experiment: Experiment) -> Iterator[str]:
    """Yield the notes on a radial model and on its perturbations, and their variables that are not used."""
    earth = experiment.material.earth
    if earth is None:
        return
    for note in earth.radial_model.notes:
        yield f"material.earth: {note}."
    for index, one in enumerate(earth.perturbations):
        key = f"material.earth.perturbations[{index}].file"
        for note in one.model.notes:
            yield f"{key}: {one.file}: {note}."
        if one.model.unused:
            yield _unused(key, one.file, one.model.unused, "absolute or relative vp, vs and rho")
    medium = experiment.material.medium
    for index, placed in enumerate(medium.perturbations if isinstance(medium, EarthMedium) else ()):
        covered = placed.coverage(experiment.domain)
        if covered < 1.0:
            yield (
                f"material.earth.perturbations[{index}].file: {placed.source.file} has values in "
                f"{math.floor(100.0 * covered)}% of the domain ({placed.source.model.extent_text()}). The radial model "
                "applies elsewhere, and the material may change abruptly at the edge of the file."
            )


def _unused(key: str, path: Path, names: tuple[str, ...], used: str) -> str:
    quality = [name for name in names if name.rpartition("/")[2].lower() in _ATTENUATION]
    text = f"{key}: {path} has variables that are not used: {', '.join(names)}; lithowave reads {used} and their axes."
    if quality:
        text += f" Quality factors must be named qp and qs, or qkappa and qmu: {', '.join(quality)} have no effect."
    return text


def receiver_file_notes(experiment: Experiment) -> Iterator[str]:
    """Yield a warning for each remark on a file of receivers or shots: content that is not used, or was interpreted."""
    for index, entry in enumerate(experiment.receivers):
        if entry.file is not None and ("receivers", index) not in experiment.acquisition.errors:
            where = f"receivers[{index}]"
            for note in entry.placed_file(experiment.domain, where).notes:
                yield f"{where}.file: {entry.file}: {note}."
    for index, shots in enumerate([] if experiment.survey is None else experiment.survey.shots):
        yield from (f"survey.shots[{index}].file: {shots.file}: {note}." for note in shots.notes())


def projection_distortion(experiment: Experiment) -> Iterator[str]:
    """Yield a warning if the box reaches so far from the origin of its projection that distances are distorted.

    On a sphere of radius R, the scale of the transverse Mercator projection at a distance x from its central meridian
    is cosh(x / R).
    """
    domain = experiment.domain
    if domain.crs is None:
        return
    reach = {name: max(map(abs, getattr(domain, name))) for name in "xy"}
    if max(reach.values()) <= _LARGEST_REACH:
        return
    scale = 100.0 * (math.cosh(reach["x"] / _EARTH_RADIUS) - 1.0)
    drop = (reach["x"] ** 2 + reach["y"] ** 2) / (2.0 * _EARTH_RADIUS)
    yield (
        f"domain.crs: the box reaches {max(reach.values()) / 1e3:.4g} km from x = y = 0; at its edges the transverse "
        f"Mercator projection lengthens distances by up to {scale:.2g}%, and the curvature of the Earth, which is "
        f"neglected, amounts to {drop / 1e3:.2g} km of depth. Put x = y = 0 into the middle of the box, or use a box "
        f"of at most {2e-3 * _LARGEST_REACH:g} km; spectral_element computes a piece of the globe (domain.chunk)."
    )


FAR = 20.0
"""Distance (degrees) of a point from all others above which its coordinates may be exchanged."""

NEARER = 1.0 / 3.0
"""Ratio of the distances with and without exchanged coordinates up to which there is a warning."""

MOST_POINTS = 3000  # with which each receiver is compared


def distant_places(experiment: Experiment) -> Iterator[str]:
    """Yield a warning if receivers are far from all other points, but close to them with exchanged coordinates.

    In a chunk of the globe both places may be inside. If most receivers are so relative to the sources, they are
    compared with the sources only.
    """
    domain, receivers = experiment.domain, experiment.acquisition.receivers
    if domain.chunk is None or not receivers:
        return
    longitude, latitude = domain.to_geographic(*experiment.acquisition.receiver_positions[:, :2].T)
    swapped = np.flatnonzero(domain.contains_places(latitude, longitude))
    if not swapped.size:
        return
    here = directions(longitude, latitude)
    there = directions(latitude[swapped], longitude[swapped])
    sources = np.zeros((0, 3))
    if len(experiment.acquisition.source_positions):
        sources = directions(*domain.to_geographic(*experiment.acquisition.source_positions[:, :2].T))
    others = np.unique(np.linspace(0, len(here) - 1, MOST_POINTS).astype(int))
    points = np.concatenate([here[others], sources])
    same = np.concatenate([others, np.full(len(sources), -1)])
    from_others = _exchanged(here[swapped], there, points, swapped[:, None] == same)
    from_sources = _exchanged(here[swapped], there, sources, np.zeros((len(swapped), len(sources)), bool))
    suspects = from_sources if 2 * from_sources.sum() >= len(here) else from_others
    if suspects.any():
        first = int(swapped[np.argmax(suspects)])
        yield _warning([receivers[index].name for index in swapped[suspects]], longitude[first], latitude[first])


def _exchanged(here: np.ndarray, there: np.ndarray, points: np.ndarray, itself: np.ndarray) -> np.ndarray:
    """Return a mask (n,) of places that are far from all points, and much closer to one of them if exchanged.

    here, there : (n, 3) unit vectors of the places and of the exchanged ones. points : (m, 3). itself : (n, m) True for
    the place itself, with which it is not compared.
    """
    if not len(points):
        return np.zeros(len(here), bool)
    cosines = [np.where(itself, -2.0, place @ points.T).max(axis=1) for place in (here, there)]
    distances, exchanged = (np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0))) for cosine in cosines)
    alone = itself.all(axis=1)
    return ~alone & (distances > FAR) & (exchanged < NEARER * distances)


def _warning(names: Sequence[str], longitude: float, latitude: float) -> str:
    return (
        f"receivers: {len(names)} are more than {FAR:g}° from the others or from the sources, and close to them with "
        f"longitude and latitude exchanged: {first_names(names)} (the first at {place_text(longitude, latitude)}); "
        f"{SWAP_QUESTION}"
    )


LARGEST_CONVERGENCE = 0.5
"""Convergence (degrees) at which true and grid axes are used together without a warning: an error of 0.9%."""


def axes_summary(experiment: Experiment) -> Entries:
    """Return the axes of mechanisms and components in a projection, for run.json; empty without one.

    Entries: ``sources`` and ``receivers``, each ``true``, ``grid`` or ``mixed``; ``convergence_degrees``, the least and
    the largest azimuth of y at them.
    """
    angles = [one.convergence for one in _points(experiment)]
    if experiment.domain.crs is None or not angles:
        return {}
    names = {frozenset((True,)): "true", frozenset((False,)): "grid"}
    acquisition = experiment.acquisition
    kinds = {
        "sources": frozenset(source.geographic for source in acquisition.sources),
        "receivers": frozenset(receiver.geographic for receiver in acquisition.receivers),
    }
    found: Entries = {key: names.get(kind, "mixed") for key, kind in kinds.items() if kind}
    return found | {"convergence_degrees": [min(angles), max(angles)]}


def axes_line(summary: Entries) -> str:
    """Return the text of `axes_summary` that `check` prints."""
    texts = {"true": "true East and North", "grid": "x and y of the grid", "mixed": "true East and North or x and y"}
    parts = [f"{key} along {texts[summary[key]]}" for key in ("sources", "receivers") if key in summary]
    low, high = summary["convergence_degrees"]
    return f"{', '.join(parts)}; y is {low:z.3g} to {high:z.3g}° clockwise from true North there"


def mixed_axes(experiment: Experiment) -> Iterator[str]:
    """Yield a warning if mechanisms or components along true and along grid axes are used where they differ."""
    points = _points(experiment)
    on_earth, on_grid = ([one for one in points if one.geographic is kind] for kind in (True, False))
    worst = max(points, key=lambda one: abs(one.convergence), default=None)
    if not on_earth or not on_grid or worst is None or abs(worst.convergence) <= LARGEST_CONVERGENCE:
        return
    yield (
        f"domain.crs: mechanisms and components of {_entries(on_earth)}, whose positions are on the Earth, are along "
        f"true East and North, but those of {_entries(on_grid)}, whose positions are in m, along the axes x and y of "
        f"the grid; at {worst.where} y is {worst.convergence:.3g}° from true North. Give all positions by longitude "
        "and latitude, or all in m."
    )


def _points(experiment: Experiment) -> list[PointSource | Receiver]:
    return [*experiment.acquisition.sources, *experiment.acquisition.receivers]


def _entries(points: Sequence[PointSource | Receiver]) -> str:
    """Return the different entries of the description, without the line of a file."""
    names = list(dict.fromkeys(one.where.split(".")[0] for one in points))
    return first_names(names)


_MISSED = 2.0
"""Factor by which the estimated error may exceed that of the level fine without a warning."""

_ROUNDING = 1e-9
"""Fraction by which round-off may make a moment tensor differ from an isotropic one."""

_SAME_LEVEL = 1e-3
"""Distance (m) of a receiver from an interface within which it is on it."""

_SAME_SOURCE_LEVEL = 1e-4
"""Distance (m) of a source, or of a receiver of stress, from an interface between solids within which it is on it."""

_INTERFACE = 0.02
"""Relative change of a velocity or density at an interface."""

_ELEVATION_DIFFERENCE = 50.0
"""Difference (m) between the elevations of a station and of the topography above which a warning is issued."""


def find_warnings(experiment: Experiment) -> list[str]:
    """Return warnings about entries that are allowed but may not be intended, one sentence each."""
    labelled = _labelled_sources(experiment)
    sources, summed = [(label, source) for label, _, source in labelled], list(_with_summed_faults(labelled))
    receivers = experiment.acquisition.receivers
    return list(dict.fromkeys(chain(
        _event_warnings(experiment), time_function_warnings(experiment, summed),
        attenuation_warnings(experiment, summed), _fluid_warnings(experiment, sources),
        _elevation_warnings(experiment, receivers), _sea_floor_warnings(experiment, receivers),
        _receiver_side_notes(experiment, receivers), _source_side_notes(experiment, sources),
        distant_places(experiment), _missing_entries(experiment), _resolution_warnings(experiment),
        find_unused_keys(experiment), unused_variables(experiment), receiver_file_notes(experiment),
        _bare_waveforms(experiment), model_placement(experiment), model_below(experiment), earth_notes(experiment),
        projection_distortion(experiment), mixed_axes(experiment),
    )))  # fmt: skip


def _event_warnings(experiment: Experiment) -> Iterator[str]:
    """Yield warnings about times and coordinates of events that were not stated, but chosen."""
    for index, entry in enumerate(experiment.sources):
        if entry.event_key is not None and entry.delay and "delay" not in entry.model_fields_set:
            yield (
                f"sources[{index}].{entry.event_key}: the time function begins before the origin time; everything "
                f"happens {entry.delay:g} s later (sources[{index}].delay), so time 0 is {entry.delay:g} s before "
                "the origin time."
            )
        if any(not event.geographic for event in entry.events_of_file()) and entry.coordinates is None:
            if all(event.geographic for event in entry.placed_events(experiment.domain)):
                yield (
                    f"sources[{index}].file: latorUTM and longorUTM are degrees in the domain, and were taken as "
                    f"latitude and longitude; sources[{index}].coordinates: cartesian takes them as m."
                )


def _missing_entries(experiment: Experiment) -> Iterator[str]:
    if not experiment.sources:
        yield "sources: the simulation has no sources, so all motion is zero."
    output = experiment.output
    if not experiment.acquisition.receivers and not output.snapshots and not output.peak_motion:
        yield "receivers: the simulation has no receivers, snapshots or peak motion, and would produce no results."


def _bare_waveforms(experiment: Experiment) -> Iterator[str]:
    if "asdf" in experiment.output.formats and not experiment.domain.is_geographic:
        yield (
            "output.formats: without domain.crs, ASDF files contain waveforms, but no QuakeML and StationXML, which "
            "require longitudes and latitudes."
        )


def _elevation_warnings(experiment: Experiment, receivers: Sequence[Receiver]) -> Iterator[str]:
    """Yield warnings about stations whose elevation differs from that of the surface."""
    surface, mesh = experiment.domain.surface, experiment.solver.mesh
    if surface is None:
        raised = [receiver for receiver in receivers if receiver.elevation != 0.0]
        if raised:
            shape = "is flat" if experiment.domain.chunk is None else "has no topography"
            why = f"the surface {shape}, so they" if mesh is None else "they"
            yield (
                f"receivers: {len(raised)} stations have an elevation (first {raised[0].name}, "
                f"{raised[0].elevation:g} m); {why} are placed at their burial below z = 0."
            )
        return
    entries = [index for index, entry in enumerate(experiment.receivers) if entry.file is not None]
    stations = [station for index in entries for station in experiment.acquisition.receiver_groups[index]]
    if not stations:
        return
    x, y, _ = np.array([station.position for station in stations]).T
    heights = surface(x, y)
    differences = np.abs(heights - [station.elevation for station in stations])
    apart = np.flatnonzero(differences > _ELEVATION_DIFFERENCE)
    if apart.size:
        worst = int(differences.argmax())
        where = f"receivers[{entries[0]}].file" if len(entries) == 1 else "receivers"
        shape = "topography" if mesh is None else "surface of the mesh"
        yield (
            f"{where}: the elevation of {apart.size} of {len(stations)} stations differs by more "
            f"than {_ELEVATION_DIFFERENCE:g} m from the {shape}, on which they are placed (most at  "
            f"{stations[worst].name}: {stations[worst].elevation:zg} m, the surface is at {heights[worst]:z.6g} m)."
        )


def _labelled_sources(experiment: Experiment) -> list[tuple[str, bool, PointSource]]:
    """Return all point sources, each with a label (its key and, in a file of several events, its name) and a flag that
    is True for sources from a file."""
    labelled = []
    for index, entry in enumerate(experiment.sources):
        sources = experiment.acquisition.source_groups[index]
        for source in sources:
            label = f"sources[{index}]" + (f" ({source.name})" if len(sources) > 1 else "")
            labelled.append((label, entry.event_key is not None, source))
    return labelled


def _with_summed_faults(sources: list[tuple[str, bool, PointSource]]) -> Iterator[tuple[str, bool, PointSource]]:
    """Yield the sources, but one instead of the subfaults of each finite fault, with the sum of their moment rates."""
    faults: dict[SlipRates, list[tuple[str, PointSource]]] = {}
    for label, from_file, source in sources:
        if isinstance(source.time_function, SubfaultFunction):
            faults.setdefault(source.time_function.table, []).append((label, source))
        else:
            yield label, from_file, source
    for table, members in faults.items():
        moments = np.array([source.moment for _, source in members], float)
        total = table.total(np.linalg.norm(moments, axis=1))
        yield members[0][0].partition(" (")[0], True, replace(members[0][1], time_function=total)


def _fluid_warnings(experiment: Experiment, sources: list[tuple[str, PointSource]]) -> Iterator[str]:
    """Yield a warning about moment tensors with shear in a fluid; material groups are located by the mesh only."""
    sheared = [(label, source) for label, source in sources if source.moment is not None and _has_shear(source.moment)]
    if not sheared or experiment.material_extremes["vs_min"] > 0.0 or experiment.material.groups is not None:
        return
    positions = np.array([source.position for _, source in sheared], dtype=float)
    wet = np.flatnonzero(experiment.material.sample(*positions.T)[1] == 0.0)
    if wet.size:
        first = sheared[wet[0]][0]
        one = f"{first}: it is"
        several = f"sources: {wet.size} of {len(sources)} point sources (first: {first}) are"
        where = one if wet.size == 1 else several
        yield f"{where} in a fluid, where only the isotropic part of a moment tensor makes waves."


def _sea_floor_warnings(experiment: Experiment, receivers: Sequence[Receiver]) -> Iterator[str]:
    """Yield a warning about receivers between a fluid and a solid layer, whose elements have separate motion."""
    if experiment.material_extremes["vs_min"] > 0.0:
        return
    above, below = _media_beside(experiment, receivers, _SAME_LEVEL)
    between = np.flatnonzero(_is_sea_floor(above, below))
    if between.size:
        first = receivers[between[0]].name
        yield (
            f"receivers: {between.size} of {len(receivers)} between a fluid and a solid (first: {first}): their "
            "motion, strain and stress are those of the solid, and their pressure is that of the fluid. For the other "
            "side, move the receiver into it, for example by 1 m."
        )


def _media_beside(
    experiment: Experiment, points: Sequence[Receiver | PointSource], distance: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return vp, vs and density (3, n) a distance, m, above and below points; those of no point without layers."""
    if not points or experiment.material.layers is None and experiment.material.earth is None:
        return np.zeros((3, 0)), np.zeros((3, 0))
    x, y, z = np.array([one.position for one in points], dtype=float).T
    above, below = (np.stack(experiment.material.sample(x, y, z + side * distance)) for side in (1.0, -1.0))
    return above, below


def _is_interface(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """True (n,) where the media (3, n) differ."""
    change = np.abs(above - below) / np.maximum(np.maximum(above, below), 1e-300)
    return (change > _INTERFACE).any(axis=0)


def _is_sea_floor(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """True (n,) where one of the media (3, n) is a fluid."""
    return (above[1] == 0.0) != (below[1] == 0.0)


def _receiver_side_notes(experiment: Experiment, receivers: Sequence[Receiver]) -> Iterator[str]:
    """Yield a note about receivers exactly on an interface between layers, whose stress is that of one side."""
    recorded = [name for name in ("stress", "pressure", "strain") if getattr(experiment.output, name)]
    if not recorded:
        return
    above, below = _media_beside(experiment, receivers, _SAME_SOURCE_LEVEL)
    between = np.flatnonzero(_is_interface(above, below) & ~_is_sea_floor(above, below))
    if between.size:
        yield (
            f"receivers: {between.size} of {len(receivers)} on an interface between layers (first: "
            f"{receivers[between[0]].name}): their values of {' and '.join(recorded)} are those of the layer below, "
            "since both sides differ. For the other side, move the receiver into it, for example by 1 m."
        )


def _source_side_notes(experiment: Experiment, sources: list[tuple[str, PointSource]]) -> Iterator[str]:
    """Yield a note about moment tensors exactly on an interface between layers, which act on one side of it."""
    moments = [(label, source) for label, source in sources if source.moment is not None]
    media = _media_beside(experiment, [source for _, source in moments], _SAME_SOURCE_LEVEL)
    between = np.flatnonzero(_is_interface(*media))
    if between.size:
        label, source = moments[between[0]]
        several = f" ({between.size} of {len(moments)} moment tensors, the first one)" if between.size > 1 else ""
        yield (
            f"{label}: it is on an interface at z = {source.position[2]:z.6g} m{several}, and acts {source.side} it "
            f"(side: {source.side}); the waves of a moment tensor differ on both sides."
        )


def _has_shear(moment: tuple[float, ...]) -> bool:
    """True if a moment tensor (xx, yy, zz, xy, xz, yz) is more than isotropic."""
    mean = sum(moment[:3]) / 3.0
    others = [abs(part - mean) for part in moment[:3]] + [abs(part) for part in moment[3:]]
    return max(others) > _ROUNDING * max(abs(part) for part in moment)


def _resolution_warnings(experiment: Experiment) -> Iterator[str]:
    solver = experiment.solver
    wavelength = experiment.shortest_wavelength
    points = solver.points_per_wavelength
    if points is None and wavelength is not None:
        points = solver.resolution_points(wavelength)
    usual = solver.recommended_points
    if points is not None and points < usual * (1.0 - 1e-6) and solver.accuracy is None:
        error = solver.estimated_error(points)
        more = "" if error is None else f", and the error of seismograms is about {error_text(error)}"
        yield f"solver: {points:.3g} points per wavelength; {usual:g} are usual at {solver.order_text}{more}."
    elif solver.accuracy == "fine" and points is not None:
        error = solver.estimated_error(points)
        if error is not None and error > _MISSED * TARGETS["fine"]:
            yield (
                f"solver.accuracy: fine aims at an error of {error_text(TARGETS['fine'])}, but {points:g} points per "
                f"wavelength of {solver.method} with {solver.order_text} reach about {error_text(error)}. Use "
                "spectral_element with degree 4 to reach it."
            )
    interval = experiment.output.sampling_interval
    if interval is not None and solver.max_frequency is not None and 2.0 * interval * solver.max_frequency > 1.0:
        yield (
            f"output.sampling_interval: {interval:g} s holds frequencies up to {0.5 / interval:.3g} Hz, less than "
            f"solver.max_frequency ({solver.max_frequency:g} Hz)."
        )
    for index, snapshots in enumerate(experiment.output.snapshots):
        if snapshots.interval > experiment.duration:
            yield f"output.snapshots[{index}].interval: {snapshots.interval:g} s is longer than the duration."
