"""Checks that need several parts of a description: places, names, resolution, times.

:func:`find_problems` tells what must be refused, :func:`find_warnings` what a user should know.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ..errors import InputError
from ..formats.segy_limits import interval_problem
from .base import Problem
from .document import parse_path
from .domain import AXES, Domain
from .method_limits import find_limits, find_unused_keys
from .places import Point
from .receivers import Receiver, Receivers
from .sources import ONSET_LIMIT, PointSource
from .units import with_unit

if TYPE_CHECKING:
    from .simulation import Simulation

_MOST_OF_A_KIND = 5
"""How many receivers with the same trouble are listed one by one."""

_ROUNDING = 1e-9
"""Part of the depth of the box by which a point may lie above the topography, and of a moment tensor by which it may
differ from an isotropic one: rounding of what it was made from."""

_ELEVATION_DIFFERENCE = 50.0
"""Difference (m) between a station's elevation and the topography from which on it is told."""


def find_problems(simulation: Simulation) -> list[Problem]:
    """Everything in which the parts do not fit each other."""
    surface = list(_surface(simulation))
    if surface:
        return surface  # with the box in the wrong place every other place would be refused as well
    checks = (find_limits, _material, _sources, _event_times, _receivers, _resolution, _outputs)
    return [problem for check in checks for problem in check(simulation)]


def refused(error: Exception, path: tuple[str | int, ...]) -> Problem:
    """The problem that an error of a validator or a reader tells, at a place of the description."""
    if isinstance(error, InputError):
        told = parse_path(error.where) if error.where.startswith(str(path[0])) else ()
        path = told if told[: len(path)] == path else path
        return Problem(path, error.got, error.allowed, error.hint)
    context = getattr(error, "context", None) or {}
    if "got" not in context:
        return Problem(path, str(error))
    return Problem((*path, *context["at"]), context["got"], context["allowed"], context["hint"])


def _surface(simulation: Simulation) -> Iterator[Problem]:
    low, high = simulation.domain.z
    top = simulation.boundaries.face("z_max")
    if simulation.domain.topography is not None and top != "free":
        yield Problem(
            ("domain", "topography"),
            f"a topography is given, but the top of the box is {top}",
            "a topography is a free surface: boundaries: {top: free}",
        )
    if top != "free" or high == 0.0 or simulation.solver.mesh is not None:
        return
    if low >= 0.0:
        hint = f"depth is negative z; did you mean [{-high:.12g}, {0.0 - low:.12g}]?"
    else:
        hint = f"did you mean [{low:.12g}, 0]? For a box without a surface set boundaries: {{top: absorbing}}"
    yield Problem(
        ("domain", "z"),
        f"the box ends at z = {with_unit(high, 'length')}, but its top is the free surface",
        "a free surface is at z = 0",
        hint,
    )


def _material(simulation: Simulation) -> Iterator[Problem]:
    try:
        simulation.material.validate_domain(simulation.domain)
        _ = simulation.material_extremes
    except (ValueError, InputError) as error:
        yield refused(error, ("material",))


def surface_heights(domain: Domain, points: list[Point]) -> list[float | None]:
    """z of the topography at each point; None for all without one."""
    if domain.surface is None or not points:
        return [None] * len(points)
    x, y, _ = np.array(points).T
    return domain.surface(x, y).tolist()


def misplacement(
    point: Point, domain: Domain, faces: dict[str, str], height: float | None = None
) -> tuple[str, str, str] | None:
    """Why a point cannot hold a source or a receiver (got, allowed, hint); None where it can.

    ``height`` is z of the topography at the point, None without one.
    """
    x, y, z = point
    if height is None and faces["z_max"] == "free" and z > 0.0:
        hint = f"Depth is negative z; did you mean {-z:.12g}?" if -z >= domain.z[0] else "Depth is negative z"
        return f"z = {with_unit(z, 'length')} is above the free surface (z = 0)", "", hint
    outside, beyond = [], []
    top = domain.z[1] if height is None else max(z, domain.z[0])
    for axis, value, (low, high) in zip(AXES, point, (domain.x, domain.y, (domain.z[0], top)), strict=True):
        if not low <= value <= high:
            upper = f"{high:.12g} m" if axis != "z" or height is None else f"the surface, {height:.6g} m"
            outside.append(
                f"{axis} = {with_unit(value, 'length')} is outside the domain ({axis} from {low:.12g} to {upper})"
            )
            beyond.append(f"{axis}_min" if value < low else f"{axis}_max")
    if outside:
        absorbing = [name for name in beyond if faces[name] == "absorbing"]
        allowed = f"Beyond {' and '.join(absorbing)} lies the absorbing layer" if absorbing else ""
        return " and ".join(outside), allowed, ""
    if height is not None and z > height + _ROUNDING * (domain.z[1] - domain.z[0]):
        got = f"z = {with_unit(z, 'length')} is above the ground"
        return got, f"The surface is at z = {height:.6g} m at x = {x:.12g} m, y = {y:.12g} m", ""
    return None


def _sources(simulation: Simulation) -> Iterator[Problem]:
    faces = simulation.boundaries.faces
    for index, entry in enumerate(simulation.sources):
        path: tuple[str | int, ...] = ("sources", index)
        try:
            sources = entry.point_sources(simulation.domain, f"sources[{index}]")
        except (ValueError, InputError) as error:
            yield refused(error, path)
            continue
        key = "file" if entry.file is not None else "position" if entry.position is not None else None
        heights = surface_heights(simulation.domain, [source.position for source in sources])
        for source, height in zip(sources, heights, strict=True):
            trouble = misplacement(source.position, simulation.domain, faces, height)
            if trouble is not None and simulation.solver.mesh is None:  # a mesh has its own ends
                got, *rest = trouble
                yield Problem(
                    (*path, key) if key else path, f"{source.name}: {got}" if source.name else got, *rest
                )
        if entry.file is not None:
            yield from _onset(simulation, index, sources)


def _onset(simulation: Simulation, index: int, sources: list[PointSource]) -> Iterator[Problem]:
    cut = max(source.time_function.onset_amplitude() for source in sources)
    if cut <= ONSET_LIMIT:
        return
    needed = max(entry.needed_delay() for entry in simulation.sources if entry.file is not None)
    given = simulation.sources[index].delay
    alone = len(simulation.sources) == 1
    yield Problem(
        (
            "sources",
            index,
            "delay"
            if given is not None and "delay" in simulation.sources[index].model_fields_set
            else "file",
        ),
        f"the time function reaches {_percent(cut)} of its peak before time 0, where the simulation starts",
        f"At most {_percent(ONSET_LIMIT)} may be cut off",
        f"delay: {needed:.12g} would do"
        + ("" if alone else "; give it to every file, and start other sources later too"),
    )


def _percent(part: float) -> str:
    return f"{100.0 * part:.0f}%" if part >= 0.1 else f"{100.0 * part:.2g}%"


def _event_times(simulation: Simulation) -> Iterator[Problem]:
    """All events must agree on what time 0 is."""
    delay: float | None = None
    origin: str | None = None
    for index, entry in enumerate(simulation.sources):
        if entry.file is None:
            continue
        try:
            stated = entry.origin_times()
        except (ValueError, InputError):
            continue  # told by the check of the source
        if delay is None:
            delay = entry.delay
        elif entry.delay != delay:
            yield Problem(
                ("sources", index, "delay"),
                f"{entry.delay:g} s, while another file has {delay:g} s",
                "time 0 is the same for all sources",
                "use the same delay for every file",
            )
        for time in stated:
            if origin is None:
                origin = time
            elif time != origin:
                yield Problem(
                    ("sources", index, "file"),
                    f"an origin time is {time}, another one {origin}",
                    "time 0 is the same for all sources",
                    "state one origin time, and time shifts after it",
                )
                return


def _receivers(simulation: Simulation) -> Iterator[Problem]:
    faces = simulation.boundaries.faces
    first: dict[str, Receiver] = {}
    twice = 0
    for index, entry in enumerate(simulation.receivers):
        path: tuple[str | int, ...] = ("receivers", index)
        try:
            receivers = entry.receivers(simulation.domain, f"receivers[{index}]")
        except (ValueError, InputError) as error:
            yield refused(error, path)
            continue
        if simulation.solver.mesh is None:  # a mesh has its own ends
            yield from _without_surface(entry, (*path, entry.kind), faces)
            yield from _misplaced_receivers(receivers, (*path, entry.kind), simulation.domain, faces)
        for receiver in receivers:
            other = first.setdefault(receiver.name, receiver)
            if other is receiver:
                continue
            twice += 1
            if twice <= _MOST_OF_A_KIND:
                place = f"; here {receiver.where}" if entry.file is not None else ""
                yield Problem(
                    path,
                    f"{receiver.name} is the name of two receivers, first in {other.where}{place}",
                    "names must differ",
                )


def _without_surface(
    entry: Receivers, path: tuple[str | int, ...], faces: dict[str, str]
) -> Iterator[Problem]:
    if entry.on_surface and faces["z_max"] != "free":
        yield Problem(
            path,
            "two numbers are a point on the free surface, and there is none",
            f"the top of the box is {faces['z_max']}: give three numbers, [x, y, z]",
        )


def _misplaced_receivers(
    receivers: list[Receiver], path: tuple[str | int, ...], domain: Domain, faces: dict[str, str]
) -> Iterator[Problem]:
    heights = surface_heights(domain, [receiver.position for receiver in receivers])
    found = (
        (receiver, misplacement(receiver.position, domain, faces, height))
        for receiver, height in zip(receivers, heights, strict=True)
    )
    misplaced = [(receiver, trouble) for receiver, trouble in found if trouble is not None]
    for receiver, (got, allowed, hint) in misplaced[:_MOST_OF_A_KIND]:
        line = f" ({receiver.where.partition('(')[2]}" if "(" in receiver.where else ""
        yield Problem(path, f"{receiver.name}{line}: {got}", allowed, hint)
    if len(misplaced) > _MOST_OF_A_KIND:
        more = len(misplaced) - _MOST_OF_A_KIND
        yield Problem(path, f"{more} more of these {len(receivers)} receivers are outside the domain as well")


def _resolution(simulation: Simulation) -> Iterator[Problem]:
    solver = simulation.solver
    if solver.spacing is None or solver.max_frequency is None:
        return
    wavelength = simulation.shortest_wavelength
    if wavelength is None:
        return
    points, smallest = solver.resolution_points(wavelength), solver.smallest_points
    if points < smallest * (1.0 - 1e-6):
        largest = solver.steps_per_spacing * wavelength
        yield Problem(
            ("solver", "spacing"),
            f"{with_unit(solver.spacing, 'length')} gives {points:.3g} points in the shortest wavelength, "
            f"{wavelength:.6g} m ({simulation.material_extremes['slowest']:.6g} m/s at "
            f"{solver.max_frequency:g} Hz)",
            f"{solver.accuracy} needs at least {smallest:g}, that is spacing: {largest / smallest:.4g}",
            f"{largest / solver.recommended_points:.4g} is usual; a lower max_frequency or a higher "
            f"{solver.accuracy.split()[0]} helps as well",
        )


def _outputs(simulation: Simulation) -> Iterator[Problem]:
    output, domain = simulation.output, simulation.domain
    if output.sampling_interval is not None and output.sampling_interval > simulation.duration:
        yield Problem(
            ("output", "sampling_interval"),
            f"{with_unit(output.sampling_interval, 'time')} is longer than the simulation",
            f"at most the duration, {with_unit(simulation.duration, 'time')}",
        )
    yield from _segy(simulation)
    for index, snapshots in enumerate(output.snapshots):
        if snapshots.plane is None:
            continue
        axis, value = snapshots.plane.axis, snapshots.plane.coordinate
        low, high = getattr(domain.ground, axis)
        if not low <= value <= high and simulation.solver.mesh is None:
            yield Problem(
                ("output", "snapshots", index, "plane"),
                f"{axis} = {with_unit(value, 'length')} is outside the domain",
                f"{axis} from {low:.12g} to {high:.12g} m",
            )


def _segy(simulation: Simulation) -> Iterator[Problem]:
    """A sampling interval that SEG-Y cannot hold."""
    interval, path = simulation.output.sampling_interval, ("output", "sampling_interval")
    if "segy" not in simulation.output.formats:
        return
    if interval is None:
        got = "none is given, and without max_frequency it is the time step"
        yield Problem(path, got, "segy has whole microseconds between two samples", "give one, such as 0.002")
        return
    trouble = interval_problem(interval, round(simulation.duration / interval) + 1)
    if trouble is not None:
        yield Problem(path, *trouble)


def find_warnings(simulation: Simulation) -> list[str]:
    """What is allowed but may not be meant, a sentence each."""
    found: list[str] = []
    for index, entry in enumerate(simulation.sources):
        if entry.file is not None and entry.delay and "delay" not in entry.model_fields_set:
            found.append(
                f"sources[{index}].file: the time function begins before the origin time; everything happens "
                f"{entry.delay:g} s later (sources[{index}].delay), so time 0 is {entry.delay:g} s before "
                "the origin time."
            )
        sources = entry.point_sources(simulation.domain, f"sources[{index}]")
        for source in sources:
            found.extend(_source_warnings(simulation, f"sources[{index}]", source))
        found.extend(_fluid_warnings(simulation, f"sources[{index}]", sources))
    receivers = simulation.receiver_list()
    found.extend(_elevation_warnings(simulation, receivers))
    if not simulation.sources:
        found.append("sources: there are none, so nothing will move.")
    if not receivers and not simulation.output.snapshots and not simulation.output.peak_motion:
        found.append(
            "receivers: there are none, nor snapshots or peak motion: the run would leave no result."
        )
    found.extend(_resolution_warnings(simulation))
    found.extend(find_unused_keys(simulation))
    return found


def _elevation_warnings(simulation: Simulation, receivers: list[Receiver]) -> Iterator[str]:
    """Stations whose elevation is not that of the surface on which, or below which, they stand."""
    surface, mesh = simulation.domain.surface, simulation.solver.mesh
    if surface is None:
        raised = [receiver for receiver in receivers if receiver.elevation != 0.0]
        if raised:
            why = "the surface is flat, so they" if mesh is None else "they"
            yield (
                f"receivers: {len(raised)} stations have an elevation (first {raised[0].name}, "
                f"{raised[0].elevation:g} m); {why} stand at their burial below z = 0."
            )
        return
    for index, entry in enumerate(simulation.receivers):
        if entry.file is None:
            continue
        stations = entry.receivers(simulation.domain, f"receivers[{index}]")
        x, y, _ = np.array([station.position for station in stations]).T
        heights = surface(x, y)
        differences = np.abs(heights - [station.elevation for station in stations])
        apart = np.flatnonzero(differences > _ELEVATION_DIFFERENCE)
        if apart.size:
            worst = int(differences.argmax())
            yield (
                f"receivers[{index}].file: the elevation of {apart.size} of {len(stations)} stations differs by more "
                f"than {_ELEVATION_DIFFERENCE:g} m from the topography, on which they stand (most at "
                f"{stations[worst].name}: {stations[worst].elevation:g} m, the surface is at {heights[worst]:.6g} m)."
            )


def _source_warnings(simulation: Simulation, where: str, source: PointSource) -> Iterator[str]:
    function, highest = source.time_function, simulation.resolved_frequency
    cut = function.onset_amplitude()
    if cut > ONSET_LIMIT:
        yield (
            f"{where}.time_function: it is cut off at time 0, before which it reaches {_percent(cut)} of "
            "its peak; a longer delay helps."
        )
    reaches = function.maximum_frequency()
    if highest is not None and reaches > highest * (1.0 + 1e-6):
        yield (
            f"{where}.time_function: its spectrum falls to 5% only at {reaches:.3g} Hz, above the "
            f"{highest:.3g} Hz that the grid resolves; the higher part will be dispersed."
        )
    start = function.support()[0]
    if start >= simulation.duration:
        yield f"{where}.time_function: it begins at {start:g} s, after the end of the simulation."


def _fluid_warnings(simulation: Simulation, where: str, sources: list[PointSource]) -> Iterator[str]:
    """Moment tensors with shear that stand in a fluid; of groups only the mesh knows where they are."""
    sheared = [source for source in sources if source.moment is not None and _has_shear(source.moment)]
    if not sheared or simulation.material_extremes["vs_min"] > 0.0 or simulation.material.groups is not None:
        return
    vs = simulation.material.sample(*np.array([source.position for source in sheared], dtype=float).T)[1]
    count = int((vs == 0.0).sum())
    if count:
        one = "it stands" if len(sources) == 1 else f"{count} of {len(sources)} point sources stand"
        yield f"{where}: {one} in a fluid, where only the isotropic part of a moment tensor makes waves."


def _has_shear(moment: tuple[float, ...]) -> bool:
    """Whether a moment tensor (xx, yy, zz, xy, xz, yz) is more than isotropic."""
    mean = sum(moment[:3]) / 3.0
    others = [abs(part - mean) for part in moment[:3]] + [abs(part) for part in moment[3:]]
    return max(others) > _ROUNDING * max(abs(part) for part in moment)


def _resolution_warnings(simulation: Simulation) -> Iterator[str]:
    solver = simulation.solver
    wavelength = simulation.shortest_wavelength
    points = solver.points_per_wavelength
    if points is None and wavelength is not None:
        points = solver.resolution_points(wavelength)
    usual = solver.recommended_points
    if points is not None and points < usual * (1.0 - 1e-6):
        yield f"solver: {points:.3g} points per wavelength; {usual:g} are usual at {solver.accuracy}."
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
