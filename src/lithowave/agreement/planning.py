"""The runs of an agreement: one description for each method, and control runs that isolate single causes of error.

All runs resolve the same frequency and sample the seismograms at the same times. A *base* run has the resolution of the
file (its own method) or the recommended points per wavelength (other methods). A *finer* run has more points per
wavelength, with absorbing layers of the same thickness in meters. A *wider* run has the resolution of the base run, but
its absorbing faces are further out. Runs that an earlier call has computed are found in its folder.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lithowave.description.domain import FACES
from lithowave.description.simulation import Simulation, recorded_yaml
from lithowave.description.solver import METHODS
from lithowave.description.text import nearest
from lithowave.errors import OVERWRITE, InputError, ResourceError
from lithowave.output.run_folder import (
    DESCRIPTION,
    existing_outputs,
    fingerprint,
    input_hashes,
    read_report,
    read_text,
    source_commit,
)
from lithowave.run.check import CheckReport, check_simulation
from lithowave.run.progress import rate_key
from lithowave.run.status import FINISHED, WAITING, run_state
from lithowave.version import __version__

if TYPE_CHECKING:
    from lithowave.json_types import Entries, ReadEntries

BASE, FINER, WIDER = "base", "finer", "wider"
REFINEMENT = 1.4  # default ratio of the points per wavelength of finer and base runs
MARGIN = 0.15  # of the longest horizontal edge: minimum outward shift of absorbing faces in wider runs
RELAXED: Mapping[str, object] = {"boundaries.absorption": "auto", "compute.parts": None, "compute.moduli": "full"}
"""Keys that do not change the experiment, and the values that they have for methods that reject them."""

Key = tuple[str, str]  # (method, kind)
Settings = Mapping[str, Mapping[str, object]]


@dataclass(frozen=True)
class PlannedRun:
    """A run of an agreement. name : of its folder. kind : ``base``, ``finer`` or ``wider``."""

    method: str
    kind: str
    simulation: Simulation

    @property
    def name(self) -> str:
        """Name of the run folder: the method, and the kind of a control run."""
        return self.method if self.kind == BASE else f"{self.method}_{self.kind}"

    @property
    def directory(self) -> Path:
        """The run folder."""
        return Path(self.simulation.output.directory or "")

    @property
    def points(self) -> float | None:
        """Points per shortest wavelength at the maximum frequency; None for an imported mesh."""
        return points_per_wavelength(self.simulation)

    @property
    def label(self) -> str:
        """Method with its order or degree, and the kind of a control run: ``spectral element (degree 4), finer``."""
        label = f"{self.method.replace('_', ' ')} ({self.simulation.solver.order_text})"
        return label if self.kind == BASE else f"{label}, {self.kind}"


@dataclass(frozen=True)
class AgreementPlan:
    """The runs of an agreement.

    Attributes
    ----------
    directory : folder that contains all run folders and the results.
    own_method : the method of the file.
    methods : the compared methods, the method of the file first.
    requested : True if the user has selected the methods.
    frequency : the frequency that all runs resolve, Hz.
    refinement : ratio of the points per wavelength of finer and base runs.
    runs : each planned run by (method, kind).
    excluded : the reason, for each method that does not support the description.
    untested : the reason, for each (method, kind) of a control run that is not possible.
    notes : changes that were necessary for single methods.
    """

    directory: Path
    own_method: str
    methods: tuple[str, ...]
    requested: bool
    frequency: float
    refinement: float
    runs: Mapping[Key, PlannedRun]
    excluded: Mapping[str, str] = field(default_factory=dict)
    untested: Mapping[Key, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def simulation(self) -> Simulation:
        """The base run of the file's own method, or of the first method."""
        return self.runs[self.methods[0], BASE].simulation


def plan_agreement(
    simulation: Simulation,
    methods: Sequence[str] | None = None,
    *,
    output: str | Path | None = None,
    solver: Settings | None = None,
    refinement: float = REFINEMENT,
) -> AgreementPlan:
    """Return the runs that compare several methods; see :func:`lithowave.agree` for the parameters.

    Raises
    ------
    InputError : fewer than two methods support the description, a requested method does not, or an argument is invalid.
    """
    settings = _checked_settings(solver)
    own = simulation.solver.method
    requested = _checked_methods(methods, own)
    _refuse_unsuitable(simulation, refinement)
    frequency = _frequency(simulation)
    own_folder = Path(simulation.output.directory or "simulation")
    directory = Path(output) if output is not None else own_folder.with_name(f"{own_folder.name}_agree")
    runs: dict[Key, PlannedRun] = {}
    excluded: dict[str, str] = {}
    untested: dict[Key, str] = {}
    notes: list[str] = []
    for method in requested:
        try:
            base = _base(simulation, method, frequency, directory, settings.get(method, {}), notes)
        except InputError as error:
            if methods is not None or method == own or method in settings:
                raise
            excluded[method] = str(error).splitlines()[0]
            continue
        runs[method, BASE] = PlannedRun(method, BASE, base)
        for kind, changes in ((FINER, finer_changes(base, refinement)), (WIDER, wider_changes(base, frequency))):
            made = _control(base, method, kind, changes, directory)
            if isinstance(made, PlannedRun):
                runs[method, kind] = made
            else:
                untested[method, kind] = made
    compared = tuple(method for method in requested if (method, BASE) in runs)
    require_two_methods(compared, excluded)
    return AgreementPlan(
        directory, own, compared, methods is not None, frequency, refinement, runs, excluded,
        untested, tuple(notes),
    )  # fmt: skip


def require_two_methods(methods: Sequence[str], excluded: Mapping[str, str]) -> None:
    """Refuse an agreement of fewer than two methods. excluded : the reason for each method that is not possible."""
    if len(methods) < 2:
        reasons = "; ".join(f"{method}: {reason.rstrip('.')}" for method, reason in excluded.items())
        raise InputError(
            "solver.method", f"only {methods[0]} can run this description ({reasons})",
            "an agreement requires at least two methods", "remove what the other methods do not support",
        )  # fmt: skip


def points_per_wavelength(simulation: Simulation) -> float | None:
    """Return the points per shortest wavelength that a description requests; None for an imported mesh."""
    solver, wavelength = simulation.solver, simulation.shortest_wavelength
    if solver.mesh is not None or wavelength is None:
        return None
    return solver.resolution_points(wavelength) or solver.points_per_wavelength


def finer_changes(base: Simulation, refinement: float) -> Entries | str:
    """Return the entries of a finer run, or the reason why it is not possible.

    The thickness of absorbing layers in meters is retained, and so is a given time step relative to the spacing.
    """
    solver, layer = base.solver, base.boundaries.layer
    if solver.mesh is not None:
        return "solver.mesh: the elements of an imported mesh cannot be refined"
    key = "elements" if METHODS[solver.method].in_elements else "cells"
    changes: Entries = {}
    if (thickness := getattr(layer, key)) is not None:
        changes[f"boundaries.layer.{key}"] = math.ceil(thickness * refinement)
    if solver.spacing is not None:
        changes["solver.spacing"] = solver.spacing / refinement
    else:
        changes["solver.points_per_wavelength"] = (solver.points_per_wavelength or 0.0) * refinement
    if solver.time_step is not None:
        changes["solver.time_step"] = solver.time_step / refinement
    return changes


def wider_changes(base: Simulation, frequency: float) -> Entries | str:
    """Return the entries of a run with absorbing faces further out, or the reason why it is not possible.

    Each absorbing face is moved by `outward_shift`, rounded up to a multiple of the grid spacing, so that the points of
    a grid remain at the same positions.
    """
    solver, domain = base.solver, base.domain
    if solver.mesh is not None:
        return "solver.mesh: the faces of an imported mesh cannot be moved"
    if not absorbing_faces(base):
        return "boundaries: no face is absorbing"
    shift, spacing = outward_shift(base, frequency), _grid_spacing(base)
    changes: Entries = {}
    if spacing is not None:
        shift = spacing * math.ceil(shift / spacing - 1e-9)
        changes["solver.spacing"], changes["solver.points_per_wavelength"] = spacing, None
    for axis, (low, high) in domain.bounds.items():
        low -= shift if base.boundaries.face(f"{axis}_min") == "absorbing" else 0.0
        high += shift if base.boundaries.face(f"{axis}_max") == "absorbing" else 0.0
        changes[f"domain.{axis}"] = [low, high]
    return changes


def absorbing_faces(simulation: Simulation) -> list[str]:
    """Return the names of the absorbing faces: ``x_min``, ..."""
    return [name for name in FACES if simulation.boundaries.face(name) == "absorbing"]


def outward_shift(simulation: Simulation, frequency: float) -> float:
    """Return the distance, m, by which absorbing faces are moved in wider runs.

    It is one wavelength of the fastest wave at the maximum frequency, so that the reflections of the moved faces arrive
    at least a dominant period later, and at least 0.15 times the longest horizontal edge; but not more than the
    distance beyond which no reflection returns before the end of the run.
    """
    fastest = simulation.material_extremes["vp_max"]
    longest = max(high - low for low, high in (simulation.domain.x, simulation.domain.y))
    return min(max(fastest / frequency, MARGIN * longest), 0.5 * fastest * simulation.duration)


def _grid_spacing(simulation: Simulation) -> float | None:
    """Return the spacing of a uniform grid, m; None for methods with elements."""
    solver, (bottom, top) = simulation.solver, simulation.domain.z
    if METHODS[solver.method].in_elements:
        return None
    return solver.grid_spacing(simulation.material_extremes["slowest"], top - bottom)


def _base(
    simulation: Simulation, method: str, frequency: float, directory: Path, settings: ReadEntries,
    notes: list[str],
) -> Simulation:  # fmt: skip
    """Return the base run of a method; append a note for each entry that was changed because the method rejects it."""
    own = simulation.solver.method
    changes: Entries = {
        "output.directory": str(directory / method), "output.snapshots": [], "output.peak_motion": False,
        "output.formats": [], "output.stress": False, "output.pressure": False, "output.strain": False,
        "solver.max_frequency": frequency, "solver.method": method,
    }  # fmt: skip
    if method != own:
        interval = simulation.with_overrides({"solver.max_frequency": frequency}).output.sampling_interval
        changes |= {"solver.spacing": None, "solver.points_per_wavelength": None, "solver.time_step": None}
        changes["output.sampling_interval"] = interval
    if {"spacing", "points_per_wavelength"} & settings.keys():
        changes |= {"solver.spacing": None, "solver.points_per_wavelength": None}
    changes |= {f"solver.{key}": value for key, value in settings.items()}
    while True:
        try:
            return simulation.with_overrides(changes)
        except InputError as error:
            places = {problem.where for problem in (error, *error.others)}
            if not places <= RELAXED.keys() - changes.keys():
                raise
            for place in sorted(places):
                changes[place] = RELAXED[place]
                value = "null" if RELAXED[place] is None else RELAXED[place]
                notes.append(f"{place}: {value} with {method}, which does not support the value of the file.")


def _control(base: Simulation, method: str, kind: str, changes: Entries | str, directory: Path) -> PlannedRun | str:
    """Return a control run, or the reason why it is not possible."""
    if isinstance(changes, str):
        return changes
    name = PlannedRun(method, kind, base).name
    try:
        return PlannedRun(method, kind, base.with_overrides({**changes, "output.directory": str(directory / name)}))
    except InputError as error:
        return str(error).splitlines()[0].rstrip(".")


def _frequency(simulation: Simulation) -> float:
    frequency = simulation.resolved_frequency
    if frequency is None:
        raise InputError(
            "solver.max_frequency", "is not given, and the mesh does not determine it",
            "an agreement compares methods that resolve the same frequency", "set solver.max_frequency",
        )  # fmt: skip
    return frequency


def _refuse_unsuitable(simulation: Simulation, refinement: float) -> None:
    if simulation.survey is not None:
        raise InputError(
            "survey", "the description has a survey", "an agreement compares single shots",
            "remove the key survey, or call lw.agree(simulation.shot(n)) in Python",
        )  # fmt: skip
    if not simulation.acquisition.receivers:
        raise InputError("receivers", "there are no receivers", "an agreement compares seismograms", "add receivers")
    if not simulation.acquisition.sources:
        raise InputError("sources", "there are no sources", "an agreement compares waves", "add a source")
    if not 1.1 <= refinement <= 4.0:
        raise InputError("--refinement", f"{refinement:g} is out of range", "allowed: 1.1 to 4")


def _require_method(name: str, where: str) -> None:
    if name not in METHODS:
        raise InputError(where, f"{name!r} is not a method", f"allowed: {', '.join(METHODS)}", nearest(name, METHODS))


def _checked_methods(methods: Sequence[str] | None, own: str) -> list[str]:
    """Return the methods to compare, the file's own method first."""
    names = list(dict.fromkeys(METHODS if methods is None else methods))
    for name in names:
        _require_method(name, "--methods")
    if len(names) < 2:
        raise InputError("--methods", f"{', '.join(names) or 'no method'} given", "at least two methods are compared")
    return sorted(names, key=lambda name: name != own)


def _checked_settings(solver: Settings | None) -> Settings:
    for method in solver or {}:
        _require_method(method, "--solver")
        for key in ("method", "max_frequency", "mesh"):
            if key in (solver or {})[method]:
                raise InputError("--solver", f"{method}.{key} would change the experiment", "allowed: other keys")
    return solver or {}


@dataclass(frozen=True)
class RunForecast:
    """The requirements of a planned run.

    Attributes
    ----------
    run : the planned run.
    state : of its folder: ``waiting``, ``finished``, ``stopped``, ... ; ``other`` if it contains another run.
    report : the dry run, as of ``lithowave check``.
    loop_s : predicted time in the time loop, s: measured for base runs, and for control runs in proportion to the
        number of points or elements and of steps; None if unknown.
    """

    run: PlannedRun
    state: str
    report: CheckReport
    loop_s: float | None

    @property
    def units(self) -> int:
        """Number of points or elements."""
        return int(self.report.plan[f"{self.report.unit.removesuffix('s')}_count"])

    @property
    def work(self) -> int:
        """Number of updates of points or elements."""
        return self.units * int(self.report.plan["steps"])

    def as_dict(self) -> Entries:
        """Return all entries as plain values for JSON."""
        return {
            "name": self.run.name, "method": self.run.method, "kind": self.run.kind, "state": self.state,
            "points_per_wavelength": self.run.points, "unit": self.report.unit, "units": self.units,
            "steps": self.report.plan["steps"], "memory_bytes": self.report.memory_bytes, "loop_s": self.loop_s,
            "directory": str(self.run.directory), "warnings": self.report.warnings,
        }  # fmt: skip


@dataclass(frozen=True)
class AgreementForecast:
    """The requirements of all runs of an agreement.

    Attributes
    ----------
    plan : the runs; methods whose base run is not possible here are excluded unless they were requested.
    runs : the forecast of each run by (method, kind).
    untested : the reason for each control run that is not possible.
    """

    plan: AgreementPlan
    runs: Mapping[Key, RunForecast]
    untested: Mapping[Key, str]

    def required(self, full: bool = False) -> list[Key]:
        """Return the runs that are always computed: base runs, and the control runs of one method (all if `full`)."""
        control = self.control_method
        return [key for key in self.runs if key[1] == BASE or full or key[0] == control]

    @property
    def control_method(self) -> str:
        """The method whose control runs are always computed: one with finished ones, else the cheapest."""

        def cost(method: str) -> tuple[bool, bool, float, int]:
            controls = [self.runs[key] for key in ((method, FINER), (method, WIDER)) if key in self.runs]
            finished = bool(controls) and all(one.state == FINISHED for one in controls)
            loop = self.runs[method, BASE].loop_s
            return not controls, not finished, 0.0 if loop is None else loop, self.plan.methods.index(method)

        return min(self.plan.methods, key=cost)

    def remaining_time(self, keys: Iterable[Key]) -> float | None:
        """Return the predicted time of those of the given runs that are not finished, s; None if it is unknown."""
        times = [0.0 if self.runs[key].state == FINISHED else self.runs[key].loop_s for key in keys]
        return None if None in times else sum(time for time in times if time is not None)


def forecast_agreement(plan: AgreementPlan, *, measure: bool = True) -> AgreementForecast:
    """Return the requirements of all runs.

    measure : measure the speed of each method on this machine (a few seconds each), unless a finished run states it.

    Raises
    ------
    InputError, ResourceError : the base run of the file's own method or of a requested method is not possible here, or
        fewer than two methods remain.
    """
    runs: dict[Key, RunForecast] = {}
    untested, excluded = dict(plan.untested), dict(plan.excluded)
    for method in plan.methods:
        try:
            base = _base_forecast(plan.runs[method, BASE], measure)
        except (InputError, ResourceError) as error:
            if plan.requested or method == plan.own_method:
                raise
            excluded[method] = str(error).splitlines()[0]
            continue
        runs[method, BASE] = base
        for key in (key for key in plan.runs if key[0] == method and key[1] != BASE):
            try:
                control = _scaled(_forecast(plan.runs[key], False), base)
            except InputError as error:
                untested[key] = str(error).splitlines()[0].rstrip(".")
                continue
            if control.report.problems and control.state != FINISHED:
                untested[key] = control.report.problems[0]
            elif reason := _not_finer(control, base, plan.refinement):
                untested[key] = reason
            else:
                runs[key] = control
    methods = tuple(method for method in plan.methods if (method, BASE) in runs)
    require_two_methods(methods, excluded)
    untested = {key: reason for key, reason in untested.items() if key[0] in methods}
    return AgreementForecast(replace(plan, methods=methods, excluded=excluded), runs, untested)


def _not_finer(control: RunForecast, base: RunForecast, refinement: float) -> str:
    """Return why a finer run is none, from the actual numbers of points or elements; empty if it is one, or another.

    Its number grows with the third power of the refinement, by less in thin layers; much less if the meshes differ, for
    example because the elements of one of them do not follow an interface.
    """
    if control.run.kind != FINER or control.units > refinement * base.units:
        return ""
    return (
        f"the finer run has {control.units:,} {control.report.unit}, the base run {base.units:,}: its mesh is not "
        "finer everywhere, for example because it does not follow the same interfaces (see the warnings of both runs)"
    )


def _base_forecast(run: PlannedRun, measure: bool) -> RunForecast:
    forecast = _forecast(run, measure)
    if forecast.report.problems and forecast.state != FINISHED:
        raise ResourceError(f"{run.label}: {'; '.join(forecast.report.problems)}.")
    return forecast


def _forecast(run: PlannedRun, measure: bool) -> RunForecast:
    state = stored_state(run)
    stored = read_report(run.directory) if state == FINISHED else {}
    rate = stored.get(rate_key(stored["unit"])) if "unit" in stored else None
    report = check_simulation(run.simulation, measure=measure and rate is None)
    forecast = RunForecast(run, state, report, report.loop_s)
    return forecast if rate is None else replace(forecast, loop_s=forecast.work / rate)


def _scaled(forecast: RunForecast, base: RunForecast) -> RunForecast:
    """Return a forecast with the time of the base run in proportion to the work."""
    return forecast if base.loop_s is None else replace(forecast, loop_s=base.loop_s * forecast.work / base.work)


OTHER = "other"  # state of a folder with another run


def difference_from(run: PlannedRun) -> str:
    """Return how the run in the folder differs from the planned run; an empty text if it is the planned run."""
    report = read_report(run.directory)
    if run.simulation.material.python_key:
        return "the material contains Python objects, which cannot be compared"
    stored = read_text(run.directory / DESCRIPTION)
    if fingerprint(stored) != fingerprint(recorded_yaml(run.simulation)):
        return "with another description"
    if report.get("inputs", {}) != input_hashes(run.simulation.input_files()):
        return "with other contents of its input files"
    if (report.get("lithowave"), report.get("commit")) != (__version__, source_commit()):
        return "by another version of lithowave"
    return ""


def stored_state(run: PlannedRun) -> str:
    """Return the state of the planned run (see `lithowave.run.status`); ``other`` if the folder contains another."""
    if not existing_outputs(run.directory):
        return WAITING
    state = run_state(run.directory).state
    return OTHER if state == WAITING or difference_from(run) else state


def require_same(run: PlannedRun) -> None:
    """Refuse a folder that contains another run.

    Raises
    ------
    InputError : the folder contains another run, or files that a run would replace.
    """
    if stored_state(run) != OTHER:
        return
    known = run_state(run.directory).state != WAITING
    how = difference_from(run) if known else "files that a run would replace"
    raise InputError(
        "--output", f"{run.directory} contains another run ({how})" if known else f"{run.directory} contains {how}",
        "runs are not overwritten by default",
        f"choose another folder (--output DIR, in Python output=DIR), or replace these runs ({OVERWRITE})",
    )  # fmt: skip


@dataclass(frozen=True)
class ReceiverPosition:
    """Distances of a receiver.

    Attributes
    ----------
    wavelength : shortest wavelength at the maximum frequency, m.
    source_distance : from the nearest source, m.
    face, face_distance : nearest absorbing face and the distance from it, m; None without absorbing faces.
    reflecting_face : absorbing face with the shortest path from the nearest source by way of the face to the receiver.
    """

    wavelength: float
    source_distance: float
    face: str | None = None
    face_distance: float | None = None
    reflecting_face: str | None = None

    def text(self) -> str:
        """Return the distances in wavelengths: ``1.4 wavelengths from x_max, 3 from the source``."""
        near = f"{self.source_distance / self.wavelength:.2g}"
        if self.face is None or self.face_distance is None:
            return f"{near} wavelengths from the source"
        return f"{self.face_distance / self.wavelength:.2g} wavelengths from {self.face}, {near} from the source"

    def as_dict(self) -> Entries:
        """Return all entries as plain values for JSON."""
        return {
            "wavelength_m": self.wavelength, "source_distance_m": self.source_distance, "nearest_face": self.face,
            "face_distance_m": self.face_distance, "reflecting_face": self.reflecting_face,
        }  # fmt: skip


def receiver_position(simulation: Simulation, position: np.ndarray, frequency: float) -> ReceiverPosition:
    """Return the distances of a receiver at `position`, (3,) in m."""
    sources = np.array([source.position for source in simulation.acquisition.sources], dtype=float)
    distances = np.linalg.norm(sources - position, axis=1)
    source = sources[int(distances.argmin())]
    wavelength = simulation.material_extremes["slowest"] / frequency
    near: dict[str, float] = {}
    paths: dict[str, float] = {}
    for face in absorbing_faces(simulation):
        axis = "xyz".index(face[0])
        end = simulation.domain.bounds[face[0]][0 if face.endswith("min") else 1]
        near[face] = abs(float(position[axis]) - end)
        image = source.copy()
        image[axis] = 2.0 * end - source[axis]
        paths[face] = float(np.linalg.norm(position - image))
    if not near or simulation.solver.mesh is not None:
        return ReceiverPosition(wavelength, float(distances.min()))
    nearest = min(near, key=lambda face: near[face])
    return ReceiverPosition(
        wavelength, float(distances.min()), nearest, near[nearest], min(paths, key=lambda face: paths[face])
    )
