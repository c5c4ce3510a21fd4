"""Checks that need several parts of a description: positions, names, resolution, times."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from lithowave.checks.limits import find_limits, implausible_values
from lithowave.description.coordinates import Point
from lithowave.description.domain import AXES, Domain
from lithowave.description.material import Attenuation
from lithowave.description.receivers import Receiver, Receivers
from lithowave.description.sources import ONSET_LIMIT, PointSource
from lithowave.description.text import Problem, parse_path
from lithowave.description.units import with_unit
from lithowave.errors import InputError
from lithowave.globe_coordinates import angular_distance
from lithowave.readers.segy import LARGEST, default_interval, interval_problem

if TYPE_CHECKING:
    from lithowave.description.experiment import Experiment

_MOST_OF_A_KIND = 5
"""Number of sources, or of receivers, with the same problem that are listed one by one."""

_ROUNDING = 1e-9
"""Fraction of the depth of the domain by which round-off may place a point above the topography."""

REFERENCE_REACH = 100.0
"""Largest ratio of the reference frequency to the band above it, and of the band to a reference frequency below it."""


def find_problems(experiment: Experiment) -> list[Problem]:
    """Yield all contradictions among the parts of the description."""
    surface = [*_surface(experiment), *_mesh(experiment)]
    if surface:
        return surface  # with the box in the wrong place every other place would be refused as well
    checks = (find_limits, _material, _sources, _event_times, _receivers, _resolution, _outputs)
    return [problem for check in checks for problem in check(experiment)]


def refused(error: Exception, path: tuple[str | int, ...]) -> Problem:
    """Return the problem of an error of a validator or a reader, with a key of the description."""
    if isinstance(error, InputError):
        keys = parse_path(error.where) if error.where.startswith(str(path[0])) else ()
        path = keys if keys[: len(path)] == path else path
        return Problem(path, error.got, error.allowed, error.hint)
    context = getattr(error, "context", None) or {}
    if "got" not in context:
        return Problem(path, str(error))
    return Problem((*path, *context["at"]), context["got"], context["allowed"], context["hint"])


def _surface(experiment: Experiment) -> Iterator[Problem]:
    low, high = experiment.domain.z
    top = experiment.boundaries.face("z_max")
    if experiment.domain.topography is not None and top != "free":
        yield Problem(
            ("domain", "topography"),
            f"a topography is given, but the top of the box is {top}",
            "a topography is a free surface: boundaries: {top: free}",
        )
    if top != "free" or high == 0.0 or experiment.solver.mesh is not None:
        return
    if low >= 0.0:
        hint = f"depth is negative z; did you mean [{-high:.12g}, {0.0 - low:.12g}]?"
    else:
        hint = f"did you mean [{low:.12g}, 0]? For a box without a surface set boundaries: {{top: absorbing}}"
    yield Problem(
        ("domain", "z"), f"the box ends at z = {with_unit(high, 'length')}, but its top is the free surface",
        "a free surface is at z = 0", hint,
    )  # fmt: skip


def _mesh(experiment: Experiment) -> Iterator[Problem]:
    """Yield a problem if the file of an imported mesh cannot be read."""
    try:
        _ = experiment.domain.ground
    except InputError as error:
        problem = refused(error, ("solver", "mesh"))
        yield problem._replace(got=f"{error.file}: {problem.got}") if error.file is not None else problem


def _material(experiment: Experiment) -> Iterator[Problem]:
    try:
        experiment.material.validate_domain(experiment.domain)
        _ = experiment.material_extremes
    except (ValueError, InputError) as error:
        yield refused(error, ("material",))
        return
    yield from implausible_values(experiment)
    yield from _attenuation(experiment)


def surface_heights(domain: Domain, points: list[Point]) -> list[float | None]:
    """Return z of the topography, or of the surface of an imported mesh, at each point; None for all without one."""
    if domain.surface is None or not points:
        return [None] * len(points)
    x, y, _ = np.array(points).T
    return domain.surface(x, y).tolist()


def misplacement(
    point: Point, domain: Domain, faces: Mapping[str, str], height: float | None = None, by_depth: bool = False
) -> tuple[str, str, str] | None:
    """Return why a point cannot hold a source or a receiver (got, allowed, hint); None if it can.

    ``height`` is z of the topography at the point, None without one. ``by_depth`` is True if the description states the
    depth below the surface instead of z.
    """
    x, y, z = point
    if domain.chunk is not None:
        return _misplacement_in_chunk(point, domain, faces, height)
    if domain.is_meshed:
        return _misplacement_in_mesh(point, domain, height, by_depth)
    if height is None and faces["z_max"] == "free" and z > 0.0:
        level = f"depth = {with_unit(-z, 'length')}" if by_depth else f"z = {with_unit(z, 'length')}"
        surface = "depth" if by_depth else "z"
        return f"{level} is above the free surface ({surface} = 0)", "", _other_sign(z, 0.0, domain, by_depth)
    outside, beyond = [], []
    top = domain.z[1] if height is None else max(z, domain.z[0])
    for axis, value, (low, high) in zip(AXES, point, (domain.x, domain.y, (domain.z[0], top)), strict=True):
        if not low <= value <= high:
            upper = f"{high:z.12g} m" if axis != "z" or height is None else f"the surface, {height:z.6g} m"
            outside.append(
                f"{axis} = {with_unit(value, 'length')} is outside the domain ({axis} from {low:z.12g} to {upper})"
            )
            beyond.append(f"{axis}_min" if value < low else f"{axis}_max")
    if outside:
        absorbing = [name for name in beyond if faces[name] == "absorbing"]
        allowed = f"Beyond {' and '.join(absorbing)} lies the absorbing layer" if absorbing else ""
        return " and ".join(outside), allowed, ""
    if height is not None and z > height + _ROUNDING * (domain.z[1] - domain.z[0]):
        return _above_ground(point, domain, height, by_depth)
    return None


def _above_ground(point: Point, domain: Domain, height: float, by_depth: bool) -> tuple[str, str, str]:
    """Return why a point above the surface, whose z is `height`, is misplaced."""
    x, y, z = point
    level = f"depth = {with_unit(height - z, 'length')}" if by_depth else f"z = {with_unit(z, 'length')}"
    allowed = f"The surface is at z = {height:z.6g} m at x = {x:z.12g} m, y = {y:z.12g} m"
    return f"{level} is above the ground", allowed, _other_sign(z, height, domain, by_depth)


def _misplacement_in_mesh(
    point: Point, domain: Domain, height: float | None, by_depth: bool
) -> tuple[str, str, str] | None:
    """Return what `misplacement` does, for points beyond the ends of an imported mesh and above its surface.

    Whether other points are in an element is known after the mesh is planned.
    """
    ends = domain.ground
    rounding = _ROUNDING * max(high - low for low, high in (ends.x, ends.y, ends.z))
    outside = []
    for axis, value, (low, high) in zip(AXES, point, (ends.x, ends.y, ends.z), strict=True):
        if axis == "z" and value > high and height is not None:
            continue  # above the surface
        if not low - rounding <= value <= high + rounding:
            text = f"{low:z.12g} to {high:z.12g} m"
            outside.append(f"{axis} = {with_unit(value, 'length')} is outside the mesh ({axis} from {text})")
    if outside:
        return " and ".join(outside), "", ""
    surface, (x, y, z) = domain.surface, point
    if surface is None or height is None or z <= height + rounding:
        return None
    known = z > ends.z[1] + rounding or surface.is_top and surface.covers(x, y)  # type: ignore[union-attr]
    return _above_ground(point, domain, height, by_depth) if known else None


def _other_sign(z: float, height: float, domain: Domain, by_depth: bool) -> str:
    """Return the hint for a point above the surface: the number with the other sign, if it is in the domain.

    z, height : of the point and of the surface there, m. by_depth : True if the number is a depth, False if it is z.
    """
    rule = "depth is positive downwards" if by_depth else "Depth is negative z"
    mirrored = 2.0 * height - z if by_depth else -z
    if not domain.ground.z[0] <= mirrored <= height:
        return rule
    return f"{rule}; did you mean {z - height if by_depth else -z:.12g}?"


def _misplacement_in_chunk(
    point: Point, domain: Domain, faces: Mapping[str, str], height: float | None
) -> tuple[str, str, str] | None:
    """Return what `misplacement` does, in longitude, latitude and depth."""
    chunk = domain.chunk
    assert chunk is not None
    low, high = domain.z[0], domain.z[1] if height is None else height
    outside = any(not ends[0] <= value <= ends[1] for value, ends in zip(point, (domain.x, domain.y), strict=False))
    above = point[2] > high + _ROUNDING * (domain.z[1] - low)
    if not (outside or above or point[2] < low or chunk.map.at_pole(point[0], point[1])):
        return None
    place = chunk.position_text(point)
    if outside:
        longitude, latitude = chunk.map.to_geographic(point[0], point[1])
        distance = float(angular_distance(longitude, latitude, chunk.center))
        return f"{place} is {distance:.4g}° from the center and outside the chunk", chunk.extent_text(), ""
    if above and (height is not None or faces["z_max"] == "free"):
        surface = "depth 0" if height is None else f"an elevation of {height:z.6g} m"
        hint = _other_sign(point[2], height or 0.0, domain, True)
        return f"{place} is above the surface", f"the surface is at {surface}", hint
    if above:
        return f"{place} is above the chunk", "it begins at depth 0", _other_sign(point[2], 0.0, domain, True)
    if point[2] < low:
        return f"{place} is below the chunk", f"it ends at a depth of {chunk.depth / 1e3:.6g} km", ""
    return f"{place} is at a pole, where East and North are not defined", "", "move it by a meter"


def _sources(experiment: Experiment) -> Iterator[Problem]:
    faces, misplaced = experiment.boundaries.faces, 0
    for index, entry in enumerate(experiment.sources):
        path: tuple[str | int, ...] = ("sources", index)
        if (error := experiment.acquisition.errors.get(("sources", index))) is not None:
            yield refused(error, path)
            continue
        sources = experiment.acquisition.source_groups[index]
        by_depth = entry.position is None
        heights = surface_heights(experiment.domain, [source.position for source in sources])
        for source, height in zip(sources, heights, strict=True):
            trouble = misplacement(source.position, experiment.domain, faces, height, by_depth)
            if trouble is None:
                continue
            misplaced += 1
            if misplaced <= _MOST_OF_A_KIND:
                got, allowed, hint = trouble
                hint = hint or (experiment.domain.swap_question_at(*source.position[:2]) if by_depth else "")
                above = by_depth and "is above" in got
                key = entry.event_key or ("position" if not by_depth else "depth" if above else None)
                got = f"{source.name}: {got}" if source.name else got
                yield Problem((*path, key) if key else path, got, allowed, hint)
        if entry.event_key is not None:
            yield from _onset(experiment, index, sources)
    if misplaced > _MOST_OF_A_KIND:
        yield Problem(("sources",), f"{misplaced - _MOST_OF_A_KIND} more sources are outside the domain")


def _onset(experiment: Experiment, index: int, sources: Sequence[PointSource]) -> Iterator[Problem]:
    cut = max(source.time_function.onset_amplitude() for source in sources)
    if cut <= ONSET_LIMIT:
        return
    needed = max(entry.needed_delay() for entry in experiment.sources if entry.event_key is not None)
    entry = experiment.sources[index]
    states_delay = entry.delay is not None and "delay" in entry.model_fields_set
    hint = f"Use delay: {needed:.12g}"
    if len(experiment.sources) > 1:
        hint += "; give it to every entry with events, and start other sources later too"
    yield Problem(
        ("sources", index, "delay" if states_delay else entry.event_key or "file"),
        f"the time function reaches {percent(cut)} of its peak before time 0, where the simulation starts",
        f"At most {percent(ONSET_LIMIT)} may be cut off", hint,
    )  # fmt: skip


def percent(part: float) -> str:
    """Return a fraction as text, in percent with two digits."""
    return f"{100.0 * part:.0f}%" if part >= 0.1 else f"{100.0 * part:.2g}%"


def _event_times(experiment: Experiment) -> Iterator[Problem]:
    """Yield a problem if events have different origin times for time 0."""
    delay: float | None = None
    origin: str | None = None
    for index, entry in enumerate(experiment.sources):
        if entry.event_key is None:
            continue
        try:
            stated = entry.origin_times()
        except (ValueError, InputError):
            continue  # reported by the check of the source
        if delay is None:
            delay = entry.delay
        elif entry.delay != delay:
            yield Problem(
                ("sources", index, "delay"), f"{entry.delay:g} s, while another entry has {delay:g} s",
                "time 0 is the same for all sources", "use the same delay for all events",
            )  # fmt: skip
        for time in stated:
            if origin is None:
                origin = time
            elif time != origin:
                yield Problem(
                    ("sources", index, entry.event_key), f"an origin time is {time}, another one {origin}",
                    "time 0 is the same for all sources", "state one origin time, and time shifts after it",
                )  # fmt: skip
                return


def _receivers(experiment: Experiment) -> Iterator[Problem]:
    faces = experiment.boundaries.faces
    first: dict[str, Receiver] = {}
    twice = 0
    for index, entry in enumerate(experiment.receivers):
        path: tuple[str | int, ...] = ("receivers", index)
        if (error := experiment.acquisition.errors.get(("receivers", index))) is not None:
            yield refused(error, path)
            continue
        receivers = experiment.acquisition.receiver_groups[index]
        if not experiment.domain.is_meshed:  # whose free faces have names of their own
            yield from _without_surface(entry, (*path, entry.kind), faces)
        yield from _misplaced_receivers(entry, receivers, path, experiment.domain, faces)
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


def _without_surface(entry: Receivers, path: tuple[str | int, ...], faces: Mapping[str, str]) -> Iterator[Problem]:
    if entry.on_surface and faces["z_max"] != "free":
        yield Problem(
            path,
            "two numbers are a point on the free surface, and there is none",
            f"the top of the box is {faces['z_max']}: give three numbers, [x, y, z]",
        )


def _misplaced_receivers(
    entry: Receivers,
    receivers: Sequence[Receiver],
    path: tuple[str | int, ...],
    domain: Domain,
    faces: Mapping[str, str],
) -> Iterator[Problem]:
    by_depth = entry.kind == "longitude"
    heights = surface_heights(domain, [receiver.position for receiver in receivers])
    found = (
        (receiver, misplacement(receiver.position, domain, faces, height, by_depth))
        for receiver, height in zip(receivers, heights, strict=True)
    )
    misplaced = [(receiver, trouble) for receiver, trouble in found if trouble is not None]
    for receiver, (got, allowed, hint) in misplaced[:_MOST_OF_A_KIND]:
        line = f" ({receiver.where.partition('(')[2]}" if "(" in receiver.where else ""
        key = "depth" if entry.depth is not None and "is above" in got else entry.kind
        if not hint and entry.kind in ("longitude", "file"):
            hint = domain.swap_question_at(*receiver.position[:2])
        yield Problem((*path, key), f"{receiver.name}{line}: {got}", allowed, hint)
    if len(misplaced) > _MOST_OF_A_KIND:
        more = len(misplaced) - _MOST_OF_A_KIND
        yield Problem(
            (*path, entry.kind), f"{more} more of these {len(receivers)} receivers are outside the domain as well"
        )


def _resolution(experiment: Experiment) -> Iterator[Problem]:
    solver = experiment.solver
    if solver.spacing is None or solver.max_frequency is None:
        return
    wavelength = experiment.shortest_wavelength
    if wavelength is None:
        return
    points, smallest = solver.resolution_points(wavelength), solver.smallest_points
    if points < smallest * (1.0 - 1e-6):
        largest = solver.steps_per_spacing * wavelength
        yield Problem(
            ("solver", "spacing"),
            f"{with_unit(solver.spacing, 'length')} gives {points:.3g} points in the shortest wavelength, "
            f"{wavelength:.6g} m ({experiment.material_extremes['slowest']:.6g} m/s at "
            f"{solver.max_frequency:g} Hz)",
            f"{solver.order_text} needs at least {smallest:g}, that is spacing: {largest / smallest:.4g}",
            f"{largest / solver.recommended_points:.4g} is usual; a lower max_frequency or a higher "
            f"{solver.order_text.split()[0]} helps as well",
        )


def _outputs(experiment: Experiment) -> Iterator[Problem]:
    output, domain = experiment.output, experiment.domain
    if output.sampling_interval is not None and output.sampling_interval > experiment.duration:
        yield Problem(
            ("output", "sampling_interval"),
            f"{with_unit(output.sampling_interval, 'time')} is longer than the simulation",
            f"at most the duration, {with_unit(experiment.duration, 'time')}",
        )
    yield from _segy(experiment)
    for index, snapshots in enumerate(output.snapshots):
        if snapshots.plane is None:
            continue
        axis, value = snapshots.plane.axis, snapshots.plane.coordinate
        low, high = getattr(domain.ground, axis)
        if not low <= value <= high:
            meaning = " (angles times 6371 km)" if domain.chunk is not None and axis != "z" else ""
            yield Problem(
                ("output", "snapshots", index, "plane"),
                f"{axis} = {with_unit(value, 'length')} is outside the domain",
                f"{axis} from {low:z.12g} to {high:z.12g} m{meaning}",
            )


def _segy(experiment: Experiment) -> Iterator[Problem]:
    """Yield a problem if SEG-Y cannot store the sampling interval, or if it is missing."""
    output, path = experiment.output, ("output", "sampling_interval")
    if "segy" not in output.formats:
        return
    interval, duration = output.sampling_interval, experiment.duration
    if interval is not None:
        trouble = interval_problem(interval, round(duration / interval) + 1)
        if trouble is not None:
            yield Problem(path, *trouble)
        return
    try:
        frequency = experiment.resolved_frequency
    except (ValueError, InputError):
        return  # the check of the material reports it
    allowed = f"segy has 1 to {LARGEST} whole microseconds between two samples, and at most {LARGEST} samples"
    example = default_interval(2e-3, math.inf, duration)
    if example is not None and frequency is None:
        got = "is not given, nor is solver.max_frequency, from which it follows"
        yield Problem(path, got, allowed, f"give one of them, for example sampling_interval: {example:g}")
        return
    hint = "shorten the duration, lower solver.max_frequency, or use miniseed or sac, which hold any interval"
    yield Problem(path, f"is not given, and no interval suits traces of {duration:g} s", allowed, hint)


def _attenuation(experiment: Experiment) -> Iterator[Problem]:
    """Yield a problem if the band of a material with attenuation is unknown, or far from the reference frequency."""
    if not experiment.has_attenuation:
        return
    keys = experiment.material.attenuation or Attenuation()
    band = keys.resolved_band(experiment.resolved_frequency)
    if band is None:
        yield Problem(
            ("material", "attenuation", "band"),
            "is not given, nor is solver.max_frequency, from which it follows",
            "attenuation is approximated in a band of frequencies",
            "give band: [low, high] in Hz, or solver.max_frequency",
        )
        return
    low, high = band[0] / REFERENCE_REACH, band[1] * REFERENCE_REACH
    reference = keys.resolved_reference(band)
    if not low <= reference <= high:
        yield Problem(
            ("material", "attenuation", "reference_frequency"),
            f"{reference:.12g} Hz is far outside the band, {band[0]:.6g} to {band[1]:.6g} Hz",
            f"allowed: {low:.6g} to {high:.6g} Hz",
            "Q is approximated in the band only, so that velocities far outside it are unknown",
        )
