"""The complete description of an experiment as one object, which corresponds to one file.

The mesh file of a simulation, in a domain: its ends and its free surface take the place of those of the box.

A simulation as YAML that reads back as an equal simulation.

The shots of a survey: the simulation of each, and the problems of their positions.

The complete description of an experiment as one object, which corresponds to one file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
import yaml
from pydantic import ValidationInfo, model_validator

from lithowave.checks.description import find_warnings
from lithowave.description.boundaries import Boundaries
from lithowave.description.coordinates import Point, depth_origin
from lithowave.description.domain import Domain
from lithowave.description.entries import Description
from lithowave.description.receivers import Receivers
from lithowave.description.solver import Solver
from lithowave.description.sources import Source
from lithowave.description.survey import Shot, Shots
from lithowave.description.text import Document, Problem, refusals
from lithowave.description.validation import find_problems, misplacement, refused, surface_heights
from lithowave.errors import InputError
from lithowave.readers.gridded_model import GriddedModel
from lithowave.readers.meshes import SURFACE_NAMES
from lithowave.version import __version__

if TYPE_CHECKING:
    from lithowave.json_types import Entries
    from lithowave.mesh.imported import MeshOfFile


SHAPES = {"spectral_element": "hexahedra", "discontinuous_galerkin": "tetrahedra"}
"""Shape of the elements of each method that imports meshes."""


def mesh_of(solver: Solver, boundaries: Boundaries) -> MeshOfFile | None:
    """Return the mesh file of a solver, which is not read yet; None without one, and for methods without meshes."""
    if solver.mesh is None or solver.method not in SHAPES:
        return None
    from lithowave.mesh.imported import MeshOfFile

    states = ((file, file.stat()) for file in solver.mesh.files)
    return MeshOfFile(
        SHAPES[solver.method],
        solver.mesh.file,
        tuple((str(file), state.st_mtime_ns, state.st_size) for file, state in states),
        tuple(solver.mesh.surfaces.items()),
        frozenset(name for name in SURFACE_NAMES if boundaries.kind_of(name) == "free"),
    )


def with_mesh(domain: Domain, solver: Solver, boundaries: Boundaries) -> Domain:
    """Return a domain whose surface and ends are those of the mesh file of a solver; the same domain without one."""
    if domain.topography is not None or domain.chunk is not None:
        return domain  # together with a mesh they are refused
    return domain.with_mesh(mesh_of(solver, boundaries))


# In these a key without a value means "another way was chosen"; elsewhere null is a choice worth showing.
_WITHOUT_EMPTY = ("domain", "material", "sources", "receivers")


class _Dumper(yaml.SafeDumper):
    """SafeDumper without anchors: repeated values are written repeatedly."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def resolved_yaml(simulation: Description) -> str:
    """See :meth:`Simulation.to_yaml`."""
    key = simulation.material.python_key
    if key:
        what = "arrays in Python" if simulation.material.kind == "dataset" else "a Python function"
        raise InputError(
            key,
            f"{what} cannot be written to a simulation file",
            "layers, homogeneous and file can; the top of a layer can be a file",
        )
    return _yaml(simulation.model_dump(by_alias=True), simulation)


MODEL_FILE = "material_model.h5"
"""Name of the file in a run folder with a gridded model that was given as arrays in Python."""


def stored_model(simulation: Description) -> GriddedModel | None:
    """Return the gridded model that a run must write to `MODEL_FILE`, because its description has arrays; else None."""
    dataset = simulation.material.dataset
    return None if dataset is None else dataset.models[0]


def recorded_yaml(simulation: Description) -> str:
    """Return the YAML of :func:`resolved_yaml`, also for materials that only Python can express.

    Instead of a function it contains its name only. Arrays are replaced by the file `MODEL_FILE` next to the YAML file.
    """
    material = simulation.material
    if not material.python_key:
        return resolved_yaml(simulation)
    data = simulation.model_dump(by_alias=True)
    if material.kind == "dataset":
        del data["material"]["dataset"]
        data["material"] = {"file": MODEL_FILE, **data["material"]}
        return _yaml(data, simulation)
    if material.function is not None:
        data["material"] = {"function": _name(material.function)}
    for layer in data["material"].get("layers", []):
        layer["top"] = _name(layer["top"]) if callable(layer["top"]) else layer["top"]
    note = "# The material contained a Python function, which a file cannot hold: this file cannot be run.\n"
    return note + _yaml(data, simulation)


def _name(function: object) -> str:
    return getattr(function, "__qualname__", type(function).__qualname__)


def _yaml(data: Entries, simulation: Description) -> str:
    for name in _WITHOUT_EMPTY:
        data[name] = _without_empty(data[name])
    data["boundaries"] = {key: value for key, value in data["boundaries"].items() if value is not None}
    if data["survey"] is None:
        del data["survey"]
    else:
        data["survey"] = _without_empty(data["survey"])
    data["output"]["snapshots"] = _without_empty(data["output"]["snapshots"])
    foreign = simulation.solver.foreign_keys
    data["solver"] = {key: value for key, value in data["solver"].items() if key not in foreign}
    header = (
        f"# Written by lithowave {__version__}: every default is there. SI units; x East, y North, z Up.\n"
    )
    body = yaml.dump(
        _sections(_plain(data)),
        Dumper=_Dumper,
        sort_keys=False,
        default_flow_style=None,
        width=110,
        allow_unicode=True,
    )
    return header + body


class _Section(dict):  # type: ignore[type-arg]
    """A group that is written with a line for each key."""


_Dumper.add_representer(
    _Section,
    lambda dumper, data: dumper.represent_mapping("tag:yaml.org,2002:map", data.items(), flow_style=False),
)


def _sections(data: object) -> Entries:
    assert isinstance(data, dict)
    return {key: _Section(value) if isinstance(value, dict) else value for key, value in data.items()}


def _without_empty(data: object) -> object:
    if isinstance(data, Mapping):
        return {key: _without_empty(value) for key, value in data.items() if value is not None}
    if isinstance(data, (list, tuple)):
        return [_without_empty(item) for item in data]
    return data


def _plain(data: object) -> object:
    """Return a value in types of YAML only: groups, lists, text and numbers."""
    if isinstance(data, Mapping):
        return {str(key): _plain(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_plain(item) for item in data]
    if isinstance(data, (np.generic, np.ndarray)):
        return data.tolist()
    return str(data) if isinstance(data, Path) else data


MAX_LISTED = 5
"""How many misplaced shots are listed one by one."""

AnyDescription = TypeVar("AnyDescription", bound=Description)


def shot_simulation(simulation: AnyDescription, shot: Shot) -> AnyDescription:
    """Return the complete simulation of one shot, whose run folder is in that of the survey.

    Raises
    ------
    InputError : as for a new simulation.
    """
    parts: Entries = {name: getattr(simulation, name) for name in type(simulation).model_fields}
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


def _point_keys(domain: Domain, point: Point, geographic: bool) -> Entries:
    """Return the keys of a position, on the Earth where mechanisms and components are along true East and North."""
    if not geographic or domain.crs is None:
        return {"position": point}
    x, y, z = point
    longitude, latitude = (float(value) for value in domain.to_geographic(x, y))
    return {"longitude": longitude, "latitude": latitude, "depth": depth_origin(domain, x, y) - z}


def _moved_source(source: Source, shot: Shot, domain: Domain) -> Source:
    entries: Entries = {"name": shot.name or source.name}
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


def _moved_entry(entry: Receivers, shift: tuple[float, float]) -> object:
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


class Simulation(Description):
    """A complete, validated experiment, independent of any device, MPI or grid.

    Create it from a file, from text, or in Python from objects or dictionaries. Each of these raises
    :class:`lithowave.errors.InputError` with all problems found. ``lithowave.Simulation`` is this class with the
    methods ``run`` and ``check``.
    """

    @model_validator(mode="after")
    def _fits_together(self, info: ValidationInfo) -> Self:
        self.__dict__["domain"] = with_mesh(self.domain, self.solver, self.boundaries)
        with suppress(InputError):  # the checks of the mesh and of the material report these
            self.__dict__["material"] = self.material.in_domain(self.domain)
        self._fill_in((info.context or {}).get("stem", ""))
        problems = find_problems(self) or survey_problems(self)
        if problems:
            raise refusals(problems)
        return self

    def shot(self, number: int) -> Self:
        """Return the simulation of one shot of the survey, numbered from 1; this simulation has no survey.

        Raises
        ------
        InputError : if there is no shot with this number.
        """
        shots = [] if self.survey is None else self.survey.shot_list(self.domain)
        if not 1 <= number <= len(shots):
            count = f"the survey has shots 1 to {len(shots)}" if shots else "the description has no survey"
            raise InputError("survey", f"there is no shot {number}", count)
        return shot_simulation(self, shots[number - 1])

    def shots(self) -> Iterator[Self]:
        """Yield the simulations of all shots of the survey in ascending order; nothing without a survey."""
        for shot in () if self.survey is None else self.survey.shot_list(self.domain):
            yield shot_simulation(self, shot)

    def warnings(self) -> list[str]:
        """Return warnings about entries that are valid but probably not intended, one sentence each."""
        return find_warnings(self)

    def to_yaml(self) -> str:
        """Return the simulation file as YAML with all defaults and absolute names of input files.

        Reading this text gives an equal simulation.

        Raises
        ------
        InputError
            if the material is a Python function, which cannot be stored in a file.
        """
        return resolved_yaml(self)
