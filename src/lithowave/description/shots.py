"""The shots of a survey: the simulation of each, and the problems of their positions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from lithowave.description.domain import Domain
from lithowave.description.entries import Description
from lithowave.description.point_input import Point, depth_origin
from lithowave.description.receivers import Receivers
from lithowave.description.refusals import Problem
from lithowave.description.sources import Source
from lithowave.description.survey import Shot, Shots
from lithowave.description.validation import misplacement, refused, surface_heights
from lithowave.description.yaml_text import Document
from lithowave.errors import InputError

MAX_LISTED = 5
"""How many misplaced shots are listed one by one."""

AnyDescription = TypeVar("AnyDescription", bound=Description)


def shot_simulation(simulation: AnyDescription, shot: Shot) -> AnyDescription:
    """Return the complete simulation of one shot, whose run folder is in that of the survey.

    Raises
    ------
    InputError : as for a new simulation.
    """
    parts: dict[str, Any] = {name: getattr(simulation, name) for name in type(simulation).model_fields}
    survey = parts.pop("survey")
    parts["title"] = ", ".join(text for text in (simulation.title, shot.label) if text)
    parts["sources"] = [_moved_source(simulation.sources[0], shot, simulation.domain)]
    if survey.moving_receivers:
        parts["receivers"] = _moved_receivers(simulation, shot)
    elif shot.spread is not None:
        parts["receivers"] = _spread_receivers(simulation, *shot.spread)
    directory = Path(simulation.output.directory or "") / shot.folder
    parts["output"] = simulation.output.model_copy(update={"directory": directory})
    return type(simulation)._from_document(Document(parts), simulation.directory)


def _point_keys(domain: Domain, point: Point, geographic: bool) -> dict[str, Any]:
    """Return the keys of a position, on the Earth where mechanisms and components are along true East and North."""
    if not geographic or domain.crs is None:
        return {"position": point}
    x, y, z = point
    longitude, latitude = (float(value) for value in domain.to_geographic(x, y))
    return {"longitude": longitude, "latitude": latitude, "depth": depth_origin(domain, x, y) - z}


def _moved_source(source: Source, shot: Shot, domain: Domain) -> Source:
    entries: dict[str, Any] = {"name": shot.name or source.name}
    entries |= _point_keys(domain, shot.position, shot.geographic)
    entries |= {"time_function": shot.time_function or source.time_function, "side": source.side}
    if source.force is not None:
        entries["force"] = tuple(shot.scale * component for component in source.force)
    elif source.double_couple is not None:
        couple, scaled = source.double_couple, shot.scale != 1.0
        stronger = {"m0": shot.scale * couple.scalar_moment, "mw": None}
        entries["double_couple"] = couple.model_copy(update=stronger) if scaled else couple
    elif source.moment_tensor is not None:
        tensor = source.moment_tensor
        components = {name: shot.scale * value for name, value in tensor.model_dump().items()}
        entries["moment_tensor"] = tensor.model_copy(update=components)
    return Source(**entries)


def _shift(simulation: Description, shot: Shot) -> tuple[float, float]:
    """Return the distance of the shot from the source of the description to the East and to the North, m."""
    x, y, _ = simulation.acquisition.source_positions[0].tolist()
    return (shot.position[0] - x, shot.position[1] - y)


def _moved_receivers(simulation: Description, shot: Shot) -> list[Any]:
    """Return the entries moved horizontally; files and geographic positions become points."""
    east, north = _shift(simulation, shot)
    moved: list[Any] = []
    for index, entry in enumerate(simulation.receivers):
        if entry.kind in ("file", "longitude"):
            for receiver in simulation.acquisition.receiver_groups[index]:
                x, y, z = receiver.position
                place = _point_keys(simulation.domain, (x + east, y + north, z), receiver.geographic)
                codes = {"network": receiver.network, "name": receiver.station}
                moved.append(codes | {"location": receiver.location or None} | place)
        else:
            moved.append(_moved_entry(entry, (east, north)))
    return moved


def _spread_receivers(simulation: Description, file: Path, names: frozenset[str]) -> list[Any]:
    """Return the entries with only these receivers of a SEG-Y file, as points if the file has others."""
    entries: list[Any] = []
    for entry, group in zip(simulation.receivers, simulation.acquisition.receiver_groups, strict=True):
        recorded = [receiver for receiver in group if receiver.station in names]
        if entry.file != file or len(recorded) == len(group):
            entries.append(entry)
        else:
            for one in recorded:
                place = _point_keys(simulation.domain, one.position, one.geographic)
                entries.append({"network": one.network, "name": one.station} | place)
    return entries


def _moved_entry(entry: Receivers, shift: tuple[float, float]) -> Any:
    def at(point: tuple[float, ...]) -> tuple[float, ...]:
        return (point[0] + shift[0], point[1] + shift[1], *point[2:])

    if entry.position is not None:
        return entry.model_copy(update={"position": at(entry.position)})
    kind = entry.kind
    shape = getattr(entry, kind)
    return entry.model_copy(update={kind: shape.model_copy(update={"start": at(shape.start), "end": at(shape.end)})})


def survey_problems(simulation: Description) -> list[Problem]:
    """Yield the problems of the shots of a description that is valid without them."""
    survey = simulation.survey
    if survey is None:
        return []
    if len(simulation.sources) != 1 or simulation.sources[0].event_key is not None:
        got = "it is an event" if len(simulation.sources) == 1 else f"there are {len(simulation.sources)}"
        return [Problem(("sources",), f"a survey moves one source, but {got}", "give one source with its position")]
    spread = next((index for index, entry in enumerate(survey.shots) if entry._is_segy), None)
    if survey.moving_receivers and spread is not None:
        got = f"survey.shots[{spread}] is a SEG-Y file, whose traces state the receivers of each shot"
        hint = "give this file in receivers too"
        return [Problem(("survey", "moving_receivers"), got, "omit moving_receivers", hint)]
    problems: list[Problem] = []
    shots: list[Shot] = []
    for index, entry in enumerate(survey.shots):
        try:
            alone = survey.model_copy(update={"shots": [entry]}).shot_list(simulation.domain)
            shots += [Shot(**{**vars(shot), "where": ("survey", "shots", index)}) for shot in alone]
            _moved_source(simulation.sources[0], alone[0], simulation.domain)
        except (ValueError, InputError) as error:
            problems.append(_placed(refused(error, ("survey", "shots", index)), entry, index))
    if problems:
        return problems
    return [*_misplaced_shots(simulation, shots), *_misplaced_receivers(simulation, shots)]


def _placed(problem: Problem, entry: Shots, index: int) -> Problem:
    """Return the error of a time function with the key of the entry."""
    own = entry.time_function is not None and "time_function" not in problem.path
    return problem._replace(path=("survey", "shots", index, "time_function")) if own and not entry.file else problem


def _misplaced_shots(simulation: Description, shots: list[Shot]) -> Iterator[Problem]:
    faces = simulation.boundaries.faces
    heights = surface_heights(simulation.domain, [shot.position for shot in shots])
    survey, count = simulation.survey, 0
    assert survey is not None
    for number, (shot, height) in enumerate(zip(shots, heights, strict=True), start=1):
        entry = survey.shots[int(shot.where[-1])]
        by_depth = entry.depth is not None or entry.longitude is not None
        trouble = misplacement(shot.position, simulation.domain, faces, height, by_depth)
        if trouble is not None:
            count += 1
            if count <= MAX_LISTED:
                got, allowed, hint = trouble
                if not hint and (entry.longitude is not None or entry.file is not None):
                    hint = simulation.domain.swap_question_at(*shot.position[:2])
                yield Problem(shot.where, f"shot {number}: {got}", allowed, hint)
    if count > MAX_LISTED:
        yield Problem(("survey", "shots"), f"{count - MAX_LISTED} more shots are outside")


def _misplaced_receivers(simulation: Description, shots: list[Shot]) -> Iterator[Problem]:
    """Yield a problem for each shot that moves receivers out of the domain."""
    receivers, ground = simulation.acquisition.receivers, simulation.domain.ground
    if not (simulation.survey and simulation.survey.moving_receivers and receivers):
        return
    places = np.array([receiver.position for receiver in receivers])
    count = 0
    for number, shot in enumerate(shots, start=1):
        moved = places[:, :2] + _shift(simulation, shot)
        outside = np.zeros(len(moved), bool)
        for values, (low, high) in zip(moved.T, (ground.x, ground.y), strict=True):
            outside |= (values < low) | (values > high)
        if outside.any():
            count += 1
            if count <= MAX_LISTED:
                first = int(np.argmax(outside))
                x, y = moved[first]
                yield Problem(
                    shot.where,
                    f"shot {number} moves {receivers[first].name} to x = {x:z.12g} m, y = {y:z.12g} m, outside the "
                    f"domain (x from {ground.x[0]:z.12g} to {ground.x[1]:z.12g} m, y from {ground.y[0]:z.12g} to "
                    f"{ground.y[1]:z.12g} m)",
                    "receivers move with their shot (survey.moving_receivers)",
                )
    if count > MAX_LISTED:
        yield Problem(("survey", "shots"), f"{count - MAX_LISTED} more shots move receivers out of the domain")
