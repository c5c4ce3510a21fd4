"""The description of an experiment as one object, which corresponds to one file: `Simulation`.

Reading it from YAML text and writing it as such; replaced entries; the simulations of the shots of a survey.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeVar

import numpy as np
import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticKnownError

from lithowave.checks.description import find_warnings
from lithowave.description.base import DescriptionModel
from lithowave.description.boundaries import Boundaries
from lithowave.description.coordinates import Point, depth_origin
from lithowave.description.domain import Domain
from lithowave.description.experiment import Experiment, with_mesh
from lithowave.description.material import Material
from lithowave.description.outputs import Output
from lithowave.description.receivers import Receiver, Receivers, expand_inventories
from lithowave.description.solver import PARAMETERS_BY_METHOD, Compute, ImportedMesh, Physics, Solver
from lithowave.description.sources import PointSource, Source, is_obspy_event
from lithowave.description.survey import Shot, Shots, Survey
from lithowave.description.text import (
    LISTS,
    Document,
    Problem,
    input_error,
    parse_path,
    read_document,
    refusal,
    refusals,
    shown,
)
from lithowave.description.units import PositiveDuration
from lithowave.description.validation import find_problems, misplacement, refused, surface_heights
from lithowave.errors import InputError
from lithowave.labels import first_names
from lithowave.process import no_collection
from lithowave.readers.budget import DESCRIPTION_BYTES
from lithowave.readers.gridded_model import GriddedModel
from lithowave.readers.segy import default_interval
from lithowave.version import __version__

if TYPE_CHECKING:
    from lithowave.json_types import Entries, ReadEntries


# In these a key without a value means "another way was chosen"; elsewhere null is a choice worth showing.
_WITHOUT_EMPTY = ("domain", "material", "sources", "receivers")


class _Dumper(yaml.SafeDumper):
    """SafeDumper without anchors: repeated values are written repeatedly."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def resolved_yaml(simulation: Simulation) -> str:
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


def stored_model(simulation: Simulation) -> GriddedModel | None:
    """Return the gridded model that a run must write to `MODEL_FILE`, because its description has arrays; else None."""
    dataset = simulation.material.dataset
    return None if dataset is None else dataset.models[0]


def recorded_yaml(simulation: Simulation) -> str:
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


def _yaml(data: Entries, simulation: Simulation) -> str:
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
        _sections(_plain(data)), Dumper=_Dumper, sort_keys=False, default_flow_style=None, width=110,
        allow_unicode=True,
    )  # fmt: skip
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


SCHEMA_VERSION = 1

SAMPLES_PER_PERIOD = 10
"""Seismogram samples in the shortest period, where the sampling interval is not given."""

def _schema_version(value: object) -> object:
    if not isinstance(value, (int, float)) or value != SCHEMA_VERSION or isinstance(value, bool):
        raise refusal(f"{shown(value)} is not a version that this lithowave reads", f"expected {SCHEMA_VERSION}")
    return SCHEMA_VERSION


MAX_LISTED = 5
"""How many misplaced shots are listed one by one."""

FileState = tuple[int, int] | None

AnySimulation = TypeVar("AnySimulation", bound="Simulation")


def shot_simulation(simulation: AnySimulation, shot: Shot) -> AnySimulation:
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
    return type(simulation)._from_document(Document(parts), simulation.directory, files=simulation._files)


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


def _shift(simulation: Simulation, shot: Shot) -> tuple[float, float]:
    """Return the distance of the shot from the source of the description to the East and to the North, m."""
    x, y, _ = simulation.acquisition.source_positions[0].tolist()
    return (shot.position[0] - x, shot.position[1] - y)


def _moved_receivers(simulation: Simulation, shot: Shot) -> list[Any]:
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


def _spread_receivers(simulation: Simulation, file: Path, names: frozenset[str]) -> list[Any]:
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


def survey_problems(simulation: Simulation) -> list[Problem]:
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


def _misplaced_shots(simulation: Simulation, shots: list[Shot]) -> Iterator[Problem]:
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


def _misplaced_receivers(simulation: Simulation, shots: list[Shot]) -> Iterator[Problem]:
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




_MAX_NAMES = 4


def summary(simulation: Simulation) -> str:
    """Return title, domain, method, sources, receivers and output of a simulation."""
    domain, solver, output = simulation.domain, simulation.solver, simulation.output
    origin = f", origin at {domain.crs.longitude:g}, {domain.crs.latitude:g}" if domain.crs is not None else ""
    size = " x ".join(f"{(high - low) / 1e3:.4g}" for low, high in domain.bounds.values()) + f" km{origin}"
    resolution = f"max_frequency {solver.max_frequency:g} Hz" if solver.max_frequency else ""
    resolution = resolution or (f"spacing {solver.spacing:g} m" if solver.spacing else "mesh from a file")
    names = simulation.acquisition.receiver_names
    listed = f" ({first_names(names, _MAX_NAMES)})" if names else ""
    shots = "" if simulation.survey is None else f", {len(simulation.survey.shot_list(domain))} shots"
    lines = [
        f"<Simulation {simulation.title!r}",
        f"  domain:    {size if domain.chunk is None else domain.chunk.text()}",
        f"  solver:    {solver.method}, {resolution}, {simulation.duration:g} s",
        f"  sources:   {len(simulation.acquisition.sources)} point sources{shots}",
        f"  receivers: {len(names)}{listed}",
        f"  output:    {output.directory}, {output.quantity}>",
    ]
    return "\n".join(lines)


def file_state(path: Path) -> FileState:
    """Return time of change, ns, and size of a file; None if it is not there."""
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_mtime_ns, state.st_size


def _resolved(name: str) -> property:
    """Return a property of a simulation that is that of its experiment."""
    return property(lambda self: getattr(self.experiment, name), doc=getattr(Experiment, name).__doc__)


class Simulation(DescriptionModel):
    """A complete, validated description of an experiment, independent of any device, MPI or grid.

    Create it from a file, from text, or in Python from objects or dictionaries. Each of these raises
    :class:`lithowave.errors.InputError` with all problems found. ``lithowave.Simulation`` is this class with the
    methods ``run`` and ``check``.
    """

    schema_version: Annotated[int, BeforeValidator(_schema_version)] = Field(
        default=SCHEMA_VERSION,
        description="Version of the file format.",
        json_schema_extra={"const": SCHEMA_VERSION},
    )
    title: str = Field(default="", description="A title for figures and files.")
    domain: Domain = Field(description="The box of the simulation.")
    boundaries: Boundaries = Field(default_factory=Boundaries, description="Boundary conditions of the box.")
    material: Material = Field(description="Material model: wave speeds and density.")
    physics: Physics = Field(default_factory=Physics, description="Terms of the equations of motion.")
    sources: list[Source] = Field(description="Sources of the waves.")
    receivers: list[Receivers] = Field(default=[], description="Positions where the waves are recorded.")
    survey: Survey | None = Field(
        default=None, description="Many shots: the source at several positions, each a separate run."
    )
    duration: PositiveDuration = Field(description="Simulated time, s.")
    solver: Solver = Field(description="Numerical method and resolution.")
    compute: Compute = Field(default_factory=Compute, description="Device and parallel execution.")
    output: Output = Field(default_factory=Output, description="Output files.")

    _directory: Path = PrivateAttr(default_factory=Path.cwd)
    _experiment: Experiment | None = PrivateAttr(default=None)
    _files: dict[Path, FileState] = PrivateAttr(default_factory=dict)  # when they were read

    absorption = _resolved("absorption")
    acquisition = _resolved("acquisition")
    anelasticity = _resolved("anelasticity")
    has_attenuation = _resolved("has_attenuation")
    highest_frequency = _resolved("highest_frequency")
    material_extremes = _resolved("material_extremes")
    origin_delay = _resolved("origin_delay")
    origin_time = _resolved("origin_time")
    resolved_frequency = _resolved("resolved_frequency")
    shortest_wavelength = _resolved("shortest_wavelength")
    start_time = _resolved("start_time")
    unrelaxed = _resolved("unrelaxed")

    @classmethod
    def from_file(cls, path: str | Path, overrides: ReadEntries | None = None) -> Self:
        """Read a simulation file (YAML).

        Parameters
        ----------
        path : the file; relative file names in it refer to its directory.
        overrides : entries that replace those of the file, by dotted key: ``{"solver.order": 8}``. If they change
        ``solver.method``, the keys ``order``, ``passes``, ``degree``, ``local_time_steps`` and ``refine_sources``
        of the file are ignored. ``solver.accuracy`` and the other keys of the resolution replace
        each other.

        Raises
        ------
        InputError
            if the file cannot be read or contains errors; the message lists all problems with their line
            numbers.
        """
        path = Path(path)
        try:
            with path.open(encoding="utf-8") as file:
                text = file.read(DESCRIPTION_BYTES + 1)
        except UnicodeDecodeError:
            raise InputError("description", "is not text in UTF-8", file=path) from None
        except OSError as error:
            raise InputError("description", f"cannot be read: {error.strerror or error}", file=path) from None
        document = _replaced(read_document(text, path), overrides or {})
        return cls._from_document(document, path.resolve().parent, path.stem)

    @classmethod
    def from_text(cls, text: str, directory: str | Path | None = None) -> Self:
        """Read a simulation from YAML text; file names are relative to ``directory`` (default: current directory)."""
        folder = Path.cwd() if directory is None else Path(directory).resolve()
        return cls._from_document(read_document(text), folder)

    @classmethod
    @no_collection()
    def _from_document(
        cls, document: Document, directory: Path, stem: str = "", files: Mapping[Path, FileState] | None = None
    ) -> Self:
        """Return the simulation of a document. files : states of the files from which parts in it have been read."""
        try:
            context = {"directory": directory, "stem": stem, "files": files or {}}
            return cls.model_validate(document.data, context=context)
        except ValidationError as error:
            raise input_error(error, document.data, cls, document) from None

    @field_validator(*LISTS, mode="before")
    @classmethod
    def _is_list(cls, value: object, info: ValidationInfo) -> object:
        if is_obspy_event(value):
            return [value]
        if info.field_name == "receivers":
            value = expand_inventories(value)
        # pydantic accepts every iterable, whose items then have no index in messages.
        if not isinstance(value, (list, tuple)):
            raise PydanticKnownError("list_type")
        return value

    @model_validator(mode="after")
    def _fits_together(self, info: ValidationInfo) -> Self:
        context = info.context or {}
        self._directory = context.get("directory", self._directory)
        self._settle(domain=with_mesh(self.domain, self.solver, self.boundaries))
        with suppress(InputError):  # the checks of the mesh and of the material report these
            self._settle(material=self.material.in_domain(self.domain))
        self._settle(output=self._filled_output(context.get("stem", "")), sources=list(map(self._filled, self.sources)))
        self._experiment = Experiment.of(self)
        self._files = {path: file_state(path) for path in self.input_files()} | dict(context.get("files", {}))
        problems = find_problems(self._experiment) or survey_problems(self)
        if problems:
            raise refusals(problems)
        return self

    def _filled_output(self, stem: str) -> Output:
        """Return the output with the entries that the user has omitted, which follow from others."""
        values: Entries = {}
        if self.output.directory is None:
            name = re.sub(r"[^a-z0-9]+", "_", (self.title or stem).lower()).strip("_")
            values["directory"] = Path("out") / (name or "simulation")
        if self.output.sampling_interval is None:
            values["sampling_interval"] = self._default_interval()
        return self.output._settled(**values)

    def _default_interval(self) -> float | None:
        """Return the sampling interval, s, that follows from the frequency; None: the time step."""
        if "segy" in self.output.formats:
            with suppress(ValueError, InputError):  # the check of the material reports these
                if (frequency := Experiment.of(self).resolved_frequency) is not None:
                    preferred = 1.0 / (SAMPLES_PER_PERIOD * frequency)
                    return default_interval(_round_below(preferred), 0.5 / frequency, self.duration)
        if self.solver.max_frequency is None:
            return None
        return min(_round_below(1.0 / (SAMPLES_PER_PERIOD * self.solver.max_frequency)), self.duration)

    def _filled(self, source: Source) -> Source:
        if source.event_key is None or source.delay is not None:
            return source
        # With other sources beside it events moved on their own would come out of step with them.
        return source._settled(delay=source.needed_delay() if len(self.sources) == 1 else 0.0)

    def __repr__(self) -> str:
        return summary(self)

    __str__ = __repr__

    __hash__ = None  # type: ignore[assignment]

    @property
    def directory(self) -> Path:
        """Directory to which relative names of input files refer."""
        return self._directory

    @property
    def experiment(self) -> Experiment:
        """What follows from the description, which solvers read."""
        if self._experiment is None:
            self._experiment = Experiment.of(self)
        return self._experiment

    def point_sources(self) -> list[PointSource]:
        """Return all sources in local coordinates, those of `acquisition`."""
        return list(self.acquisition.sources)

    def receiver_list(self) -> list[Receiver]:
        """Return all receivers in local coordinates, in the order of the description, those of `acquisition`."""
        return list(self.acquisition.receivers)

    def model_copy(self, *, update: ReadEntries | None = None, deep: bool = False) -> Self:
        """Return a copy with replaced parts, which are not checked."""
        copied = super().model_copy(update=update, deep=deep)
        copied._experiment = None
        return copied

    def input_files(self) -> list[Path]:
        """Return all files to which the simulation refers, without duplicates."""
        described = (getattr(self, name) for name in type(self).model_fields if name != "output")
        return list(dict.fromkeys(path for part in described for path in _paths_in(part)))

    def changed_files(self) -> list[Path]:
        """Return the input files that have changed since they were read."""
        return [path for path, state in self._files.items() if file_state(path) != state]

    def with_overrides(self, overrides: ReadEntries) -> Self:
        """Return a validated copy of the simulation in which single entries are replaced.

        Keys are dotted and contain the indices of list items: ``{"solver.order": 8, "sources.0.double_couple.mw": 6}``.
        Defaults that depend on other entries are derived again, and files that have changed are read again. If
        ``solver.method`` changes, the keys of ``solver`` that only apply to the old method are ignored, except for the
        mesh. ``solver.accuracy`` and the other keys of the resolution (``points_per_wavelength``, ``spacing``) replace
        each other.

        Raises
        ------
        InputError
            if the new simulation has errors.
        """
        paths = [parse_path(key) for key in overrides]
        if self.changed_files():  # all parts are read again
            stated = self.model_dump(exclude_unset=True, by_alias=True)
        else:
            stated = self._stated({str(path[0]) for path in paths}, ("solver", "mesh") in (path[:2] for path in paths))
        return self._from_document(_replaced(Document(stated), overrides), self.directory)

    def _stated(self, changed: set[str], other_mesh: bool) -> Entries:
        """Return the parts that change, and those that depend on them, as stated; others as they are, so that their
        files are not read again."""
        changed = changed | {"output"}
        if changed & {"domain"} or other_mesh or (self.solver.mesh is not None and changed & {"solver", "boundaries"}):
            changed |= {"domain", "material"}
        kept = self.model_fields_set - changed
        return self.model_dump(exclude_unset=True, by_alias=True, include=changed) | {
            name: getattr(self, name) for name in kept
        }

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
        changed = (
            f"{path}: the file has changed since the description was read; the run may have the former content. "
            "Read the description again."
            for path in self.changed_files()
        )
        return [*find_warnings(self.experiment), *changed]

    def to_yaml(self) -> str:
        """Return the simulation file as YAML with all defaults and absolute names of input files.

        Reading this text gives an equal simulation.

        Raises
        ------
        InputError
            if the material is a Python function, which cannot be stored in a file.
        """
        return resolved_yaml(self)


def _replaced(document: Document, overrides: ReadEntries) -> Document:
    """Return a document with replaced entries; if the method changes, without the parameters of the old method; if the
    resolution changes, without the other keys that state it."""
    changed = _without_replaced_resolution(document.with_overrides(overrides), overrides)
    methods = []
    for data in (document.data, changed.data):
        solver = data.get("solver")
        methods.append(solver.get("method", "finite_difference") if isinstance(solver, Mapping) else None)
    old, new = methods
    given = {parse_path(key) for key in overrides}
    if old == new or not isinstance(old, str) or new is None or ("solver",) in given:
        return changed
    foreign = {key for key in PARAMETERS_BY_METHOD.get(old, ()) if ("solver", key) not in given}
    kept = {key: value for key, value in changed.data["solver"].items() if key not in foreign}
    return replace(changed, data={**changed.data, "solver": kept})


def _without_replaced_resolution(document: Document, overrides: ReadEntries) -> Document:
    """Return a document in which overrides of the resolution replace ``solver.accuracy``, or the reverse."""
    paths = (parse_path(key) for key, value in overrides.items() if value is not None)
    names = {path[1] for path in paths if path[0] == "solver" and len(path) > 1}
    solver = document.data.get("solver")
    dropped = {"spacing", "points_per_wavelength"} if "accuracy" in names else set()
    dropped |= {"accuracy"} if names & {"spacing", "points_per_wavelength", "mesh"} else set()
    dropped -= names
    if not isinstance(solver, Mapping) or not dropped & solver.keys():
        return document
    kept = {key: value for key, value in solver.items() if key not in dropped}
    return replace(document, data={**document.data, "solver": kept})


def _round_below(value: float) -> float:
    """Return the largest of 1, 2, 5 times a power of ten that does not exceed the value."""
    exponent = math.floor(math.log10(value))
    # Decimal text, so that a hundredth is the float nearest to 0.01.
    steps = [float(f"{digit}e{power}") for power in (exponent - 1, exponent, exponent + 1) for digit in (1, 2, 5)]
    return max(step for step in steps if step <= value * (1.0 + 1e-9))


def _paths_in(part: object) -> Iterator[Path]:
    if isinstance(part, Path):
        yield part
    elif isinstance(part, ImportedMesh):
        yield from part.files
    elif isinstance(part, BaseModel):
        for name in type(part).model_fields:
            yield from _paths_in(getattr(part, name))
    elif isinstance(part, (list, tuple)):
        for item in part:
            yield from _paths_in(item)
