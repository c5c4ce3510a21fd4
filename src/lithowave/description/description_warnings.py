"""Warnings about a description: what is allowed but may not be meant, one sentence for each kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from lithowave.description.accuracy import TARGETS, error_text
from lithowave.description.attenuation_warnings import attenuation_warnings
from lithowave.description.axes_warnings import mixed_axes
from lithowave.description.input_warnings import (
    earth_notes,
    model_placement,
    projection_distortion,
    receiver_file_notes,
    unused_variables,
)
from lithowave.description.method_limits import find_unused_keys
from lithowave.description.model_below import model_below
from lithowave.description.receiver import Receiver
from lithowave.description.slip_rates import SlipRates, SubfaultFunction
from lithowave.description.sources import PointSource
from lithowave.description.swapped_coordinates import distant_places
from lithowave.description.time_function_warnings import time_function_warnings

if TYPE_CHECKING:
    from lithowave.description.entries import Description

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


def find_warnings(simulation: Description) -> list[str]:
    """Return warnings about entries that are allowed but may not be intended, one sentence each."""
    found: list[str] = []
    for index, entry in enumerate(simulation.sources):
        if entry.event_key is not None and entry.delay and "delay" not in entry.model_fields_set:
            found.append(
                f"sources[{index}].{entry.event_key}: the time function begins before the origin time; everything "
                f"happens {entry.delay:g} s later (sources[{index}].delay), so time 0 is {entry.delay:g} s before "
                "the origin time."
            )
        if any(not event.geographic for event in entry.events_of_file()) and entry.coordinates is None:
            if all(event.geographic for event in entry.placed_events(simulation.domain)):
                found.append(
                    f"sources[{index}].file: latorUTM and longorUTM are degrees in the domain, and were taken as "
                    f"latitude and longitude; sources[{index}].coordinates: cartesian takes them as m."
                )
    sources = _labelled_sources(simulation)
    summed = list(_with_summed_faults(sources))
    found.extend(time_function_warnings(simulation, summed))
    found.extend(attenuation_warnings(simulation, summed))
    found.extend(_fluid_warnings(simulation, [(label, source) for label, _, source in sources]))
    receivers = simulation.acquisition.receivers
    found.extend(_elevation_warnings(simulation, receivers))
    found.extend(_sea_floor_warnings(simulation, receivers))
    found.extend(_receiver_side_notes(simulation, receivers))
    found.extend(_source_side_notes(simulation, [(label, source) for label, _, source in sources]))
    found.extend(distant_places(simulation))
    if not simulation.sources:
        found.append("sources: the simulation has no sources, so all motion is zero.")
    if not receivers and not simulation.output.snapshots and not simulation.output.peak_motion:
        found.append(
            "receivers: the simulation has no receivers, snapshots or peak motion, and would produce no results."
        )
    found.extend(_resolution_warnings(simulation))
    found.extend(find_unused_keys(simulation))
    found.extend(unused_variables(simulation))
    found.extend(receiver_file_notes(simulation))
    if "asdf" in simulation.output.formats and not simulation.domain.is_geographic:
        found.append(
            "output.formats: without domain.crs, ASDF files contain waveforms, but no QuakeML and StationXML, which "
            "require longitudes and latitudes."
        )
    found.extend(model_placement(simulation))
    found.extend(model_below(simulation))
    found.extend(earth_notes(simulation))
    found.extend(projection_distortion(simulation))
    found.extend(mixed_axes(simulation))
    return list(dict.fromkeys(found))


def _elevation_warnings(simulation: Description, receivers: Sequence[Receiver]) -> Iterator[str]:
    """Yield warnings about stations whose elevation differs from that of the surface."""
    surface, mesh = simulation.domain.surface, simulation.solver.mesh
    if surface is None:
        raised = [receiver for receiver in receivers if receiver.elevation != 0.0]
        if raised:
            shape = "is flat" if simulation.domain.chunk is None else "has no topography"
            why = f"the surface {shape}, so they" if mesh is None else "they"
            yield (
                f"receivers: {len(raised)} stations have an elevation (first {raised[0].name}, "
                f"{raised[0].elevation:g} m); {why} are placed at their burial below z = 0."
            )
        return
    entries = [index for index, entry in enumerate(simulation.receivers) if entry.file is not None]
    stations = [
        station for index in entries
        for station in simulation.acquisition.receiver_groups[index]
    ]  # fmt: skip
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


def _labelled_sources(simulation: Description) -> list[tuple[str, bool, PointSource]]:
    """Return all point sources, each with a label (its key and, in a file of several events, its name) and a flag that
    is True for sources from a file."""
    labelled = []
    for index, entry in enumerate(simulation.sources):
        sources = simulation.acquisition.source_groups[index]
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


def _fluid_warnings(simulation: Description, sources: list[tuple[str, PointSource]]) -> Iterator[str]:
    """Yield a warning about moment tensors with shear in a fluid; material groups are located by the mesh only."""
    sheared = [(label, source) for label, source in sources if source.moment is not None and _has_shear(source.moment)]
    if not sheared or simulation.material_extremes["vs_min"] > 0.0 or simulation.material.groups is not None:
        return
    positions = np.array([source.position for _, source in sheared], dtype=float)
    wet = np.flatnonzero(simulation.material.sample(*positions.T)[1] == 0.0)
    if wet.size:
        first = sheared[wet[0]][0]
        one = f"{first}: it is"
        several = f"sources: {wet.size} of {len(sources)} point sources (first: {first}) are"
        where = one if wet.size == 1 else several
        yield f"{where} in a fluid, where only the isotropic part of a moment tensor makes waves."


def _sea_floor_warnings(simulation: Description, receivers: Sequence[Receiver]) -> Iterator[str]:
    """Yield a warning about receivers between a fluid and a solid layer, whose elements have separate motion."""
    if simulation.material_extremes["vs_min"] > 0.0:
        return
    above, below = _media_beside(simulation, receivers, _SAME_LEVEL)
    between = np.flatnonzero(_is_sea_floor(above, below))
    if between.size:
        first = receivers[between[0]].name
        yield (
            f"receivers: {between.size} of {len(receivers)} between a fluid and a solid (first: {first}): their "
            "motion, strain and stress are those of the solid, and their pressure is that of the fluid. For the other "
            "side, move the receiver into it, for example by 1 m."
        )


def _media_beside(
    simulation: Description, points: Sequence[Receiver | PointSource], distance: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return vp, vs and density (3, n) a distance, m, above and below points; those of no point without layers."""
    if not points or simulation.material.layers is None and simulation.material.earth is None:
        return np.zeros((3, 0)), np.zeros((3, 0))
    x, y, z = np.array([one.position for one in points], dtype=float).T
    above, below = (np.stack(simulation.material.sample(x, y, z + side * distance)) for side in (1.0, -1.0))
    return above, below


def _is_interface(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """True (n,) where the media (3, n) differ."""
    change = np.abs(above - below) / np.maximum(np.maximum(above, below), 1e-300)
    return (change > _INTERFACE).any(axis=0)


def _is_sea_floor(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """True (n,) where one of the media (3, n) is a fluid."""
    return (above[1] == 0.0) != (below[1] == 0.0)


def _receiver_side_notes(simulation: Description, receivers: Sequence[Receiver]) -> Iterator[str]:
    """Yield a note about receivers exactly on an interface between layers, whose stress is that of one side."""
    recorded = [name for name in ("stress", "pressure", "strain") if getattr(simulation.output, name)]
    if not recorded:
        return
    above, below = _media_beside(simulation, receivers, _SAME_SOURCE_LEVEL)
    between = np.flatnonzero(_is_interface(above, below) & ~_is_sea_floor(above, below))
    if between.size:
        yield (
            f"receivers: {between.size} of {len(receivers)} on an interface between layers (first: "
            f"{receivers[between[0]].name}): their values of {' and '.join(recorded)} are those of the layer below, "
            "since both sides differ. For the other side, move the receiver into it, for example by 1 m."
        )


def _source_side_notes(simulation: Description, sources: list[tuple[str, PointSource]]) -> Iterator[str]:
    """Yield a note about moment tensors exactly on an interface between layers, which act on one side of it."""
    moments = [(label, source) for label, source in sources if source.moment is not None]
    media = _media_beside(simulation, [source for _, source in moments], _SAME_SOURCE_LEVEL)
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


def _resolution_warnings(simulation: Description) -> Iterator[str]:
    solver = simulation.solver
    wavelength = simulation.shortest_wavelength
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
    interval = simulation.output.sampling_interval
    if (
        interval is not None
        and solver.max_frequency is not None
        and 2.0 * interval * solver.max_frequency > 1.0
    ):
        yield (
            f"output.sampling_interval: {interval:g} s holds frequencies up to {0.5 / interval:.3g} Hz, "
            "less than "
            f"solver.max_frequency ({solver.max_frequency:g} Hz)."
        )
    for index, snapshots in enumerate(simulation.output.snapshots):
        if snapshots.interval > simulation.duration:
            yield f"output.snapshots[{index}].interval: {snapshots.interval:g} s is longer than the duration."
