"""The entries of a description as one object, and what follows from them; a summary in a few lines.

A simulation in a few lines, for notebooks and interactive sessions.

The entries of a description as one object, and what follows from them: the parent of `simulation.Simulation`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, Field, PrivateAttr, ValidationError, ValidationInfo, field_validator
from pydantic_core import PydanticKnownError

from lithowave.description.acquisition import Acquisition, resolve
from lithowave.description.base import DescriptionModel
from lithowave.description.boundaries import Boundaries
from lithowave.description.domain import Domain
from lithowave.description.material import Material
from lithowave.description.outputs import Output
from lithowave.description.receivers import Receiver, Receivers, expand_inventories
from lithowave.description.solver import PARAMETERS_BY_METHOD, Compute, ImportedMesh, Physics, Solver
from lithowave.description.sources import PointSource, Source, is_obspy_event
from lithowave.description.survey import Survey
from lithowave.description.text import LISTS, Document, input_error, parse_path, read_document, refusal, shown
from lithowave.description.units import PositiveDuration
from lithowave.errors import InputError
from lithowave.labels import shifted_time
from lithowave.media.anelasticity import Anelasticity, make_anelasticity
from lithowave.process import no_collection
from lithowave.readers.budget import DESCRIPTION_BYTES
from lithowave.readers.segy import default_interval

if TYPE_CHECKING:
    from lithowave.json_types import Entries, ReadEntries

_MOST_NAMES = 4


def summary(simulation: Description) -> str:
    """Return title, domain, method, sources, receivers and output of a simulation."""
    domain, solver, output = simulation.domain, simulation.solver, simulation.output
    origin = f", origin at {domain.crs.longitude:g}, {domain.crs.latitude:g}" if domain.crs is not None else ""
    size = " x ".join(f"{(high - low) / 1e3:.4g}" for low, high in domain.bounds.values()) + f" km{origin}"
    resolution = f"max_frequency {solver.max_frequency:g} Hz" if solver.max_frequency else ""
    resolution = resolution or (f"spacing {solver.spacing:g} m" if solver.spacing else "mesh from a file")
    names = simulation.acquisition.receiver_names
    listed = f" ({', '.join(names[:_MOST_NAMES])}{', ...' if len(names) > _MOST_NAMES else ''})" if names else ""
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


SCHEMA_VERSION = 1

SAMPLES_PER_PERIOD = 10
"""Seismogram samples in the shortest period, where the sampling interval is not given."""

Part = TypeVar("Part", bound=BaseModel)


def _schema_version(value: object) -> object:
    if not isinstance(value, (int, float)) or value != SCHEMA_VERSION or isinstance(value, bool):
        raise refusal(
            f"{shown(value)} is not a version that this lithowave reads", f"expected {SCHEMA_VERSION}"
        )
    return SCHEMA_VERSION


class Description(DescriptionModel):
    """All entries of a description, which the checks that need several of them read; see `simulation.Simulation`."""

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
    def _from_document(cls, document: Document, directory: Path, stem: str = "") -> Self:
        try:
            simulation = cls.model_validate(document.data, context={"directory": directory, "stem": stem})
        except ValidationError as error:
            raise input_error(error, document.data, cls, document) from None
        simulation._directory = directory
        return simulation

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

    def _fill_in(self, stem: str) -> None:
        """Set the entries that the user has omitted to values that follow from the others."""
        output: Entries = {}
        if self.output.directory is None:
            name = re.sub(r"[^a-z0-9]+", "_", (self.title or stem).lower()).strip("_")
            output["directory"] = Path("out") / (name or "simulation")
        if self.output.sampling_interval is None:
            output["sampling_interval"] = self._default_interval()
        self.__dict__["output"] = _filled(self.output, output)
        self.__dict__["sources"] = [self._filled_source(source) for source in self.sources]

    def _default_interval(self) -> float | None:
        """Return the sampling interval, s, that follows from the frequency; None: the time step."""
        if "segy" in self.output.formats:
            with suppress(ValueError, InputError):  # the check of the material reports these
                if (frequency := self.resolved_frequency) is not None:
                    preferred = 1.0 / (SAMPLES_PER_PERIOD * frequency)
                    return default_interval(_round_below(preferred), 0.5 / frequency, self.duration)
        if self.solver.max_frequency is None:
            return None
        return min(_round_below(1.0 / (SAMPLES_PER_PERIOD * self.solver.max_frequency)), self.duration)

    def _filled_source(self, source: Source) -> Source:
        if source.event_key is None or source.delay is not None:
            return source
        # With other sources beside it events moved on their own would come out of step with them.
        return _filled(source, {"delay": source.needed_delay() if len(self.sources) == 1 else 0.0})

    def __repr__(self) -> str:
        return summary(self)

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Description):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in type(self).model_fields)

    __hash__ = None  # type: ignore[assignment]

    @property
    def directory(self) -> Path:
        """Directory to which relative names of input files refer."""
        return self._directory

    @cached_property
    def material_extremes(self) -> Mapping[str, float]:
        """Minimum and maximum wave speeds and density of the model: ``vp_min``, ``vp_max``, ``slowest`` ..."""
        return self.material.extremes(self.domain.ground)

    @cached_property
    def has_attenuation(self) -> bool:
        """True if the material has quality factors."""
        return self.material.medium.attenuates(self.domain.ground)

    @cached_property
    def anelasticity(self) -> Anelasticity | None:
        """The attenuation of the material: relaxation mechanisms and unrelaxed material; None if it is elastic."""
        return make_anelasticity(self.material, self.domain.ground, self.resolved_frequency)

    @property
    def shortest_wavelength(self) -> float | None:
        """Shortest wavelength at ``solver.max_frequency``, m; None without a frequency or a valid material."""
        try:
            slowest = self.material_extremes["slowest"]
        except (ValueError, InputError):
            return None
        return None if self.solver.max_frequency is None else slowest / self.solver.max_frequency

    @property
    def resolved_frequency(self) -> float | None:
        """``solver.max_frequency``, or the frequency that ``solver.spacing`` resolves, Hz; None without both."""
        if self.solver.max_frequency is not None:
            return self.solver.max_frequency
        if self.solver.spacing is None:
            return None
        shortest = self.solver.recommended_points * self.solver.spacing / self.solver.steps_per_spacing
        return self.material_extremes["slowest"] / shortest

    @property
    def highest_frequency(self) -> float:
        """Frequency, Hz, of the shortest relevant wavelength: of the simulation file, or of its sources."""
        if self.resolved_frequency:
            return self.resolved_frequency
        return max((one.time_function.maximum_frequency() for one in self.acquisition.sources), default=1.0)

    @property
    def absorption(self) -> Literal["layer", "stacey"]:
        """Type of absorbing boundaries; in a chunk of the globe, whose sides converge, there are no layers."""
        return "stacey" if self.domain.chunk is not None else self.boundaries.resolved_absorption()

    @property
    def origin_time(self) -> str | None:
        """UTC origin time of the event in ISO format, from the source files; None without such a file."""
        return next((stated for source in self.sources for stated in source.origin_times()), None)

    @property
    def origin_delay(self) -> float:
        """Origin time on the time axis of the simulation, s: the ``delay`` of the source files, or 0 without them."""
        return next((source.delay or 0.0 for source in self.sources if source.event_key is not None), 0.0)

    @property
    def start_time(self) -> str | None:
        """UTC time of t = 0 in ISO format, ``origin_delay`` before the origin time; None if the event has no date."""
        return None if self.origin_time is None else shifted_time(self.origin_time, -self.origin_delay)

    @cached_property
    def acquisition(self) -> Acquisition:
        """All point sources and receivers in local coordinates, resolved once."""
        return resolve(self.domain, self.material, self.sources, self.receivers)

    def point_sources(self) -> list[PointSource]:
        """Return all sources in local coordinates, those of `acquisition`."""
        return list(self.acquisition.sources)

    def receiver_list(self) -> list[Receiver]:
        """Return all receivers in local coordinates, in the order of the description, those of `acquisition`."""
        return list(self.acquisition.receivers)

    def model_copy(self, *, update: ReadEntries | None = None, deep: bool = False) -> Self:
        """Return a copy, without the properties that were derived from entries which may be replaced."""
        copied = super().model_copy(update=update, deep=deep)
        for name in ("acquisition", "material_extremes", "has_attenuation", "anelasticity"):
            copied.__dict__.pop(name, None)
        return copied

    def input_files(self) -> list[Path]:
        """Return all files to which the simulation refers, without duplicates."""
        described = (getattr(self, name) for name in type(self).model_fields if name != "output")
        return list(dict.fromkeys(path for part in described for path in _paths_in(part)))

    def with_overrides(self, overrides: ReadEntries) -> Self:
        """Return a validated copy of the simulation in which single entries are replaced.

        Keys are dotted and contain the indices of list items: ``{"solver.order": 8, "sources.0.double_couple.mw": 6}``.
        Defaults that depend on other entries are derived again. If ``solver.method`` changes, the keys of ``solver``
        that only apply to the old method are ignored, except for the mesh. ``solver.accuracy`` and the other keys of
        the resolution (``points_per_wavelength``, ``spacing``) replace each other.

        Raises
        ------
        InputError
            if the new simulation has errors.
        """
        given = Document(self.model_dump(exclude_unset=True, by_alias=True))
        return self._from_document(_replaced(given, overrides), self.directory)


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


def _filled(part: Part, values: ReadEntries) -> Part:
    """Return a copy with values that do not count as set by the user."""
    copied = part.model_copy()
    copied.__dict__.update(values)
    return copied


def _round_below(value: float) -> float:
    """Return the largest of 1, 2, 5 times a power of ten that does not exceed the value."""
    exponent = math.floor(math.log10(value))
    # Decimal text, so that a hundredth is the float nearest to 0.01.
    steps = [
        float(f"{digit}e{power}") for power in (exponent - 1, exponent, exponent + 1) for digit in (1, 2, 5)
    ]
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
