"""The runs of an agreement: one description for each method, and control runs that isolate single causes of error.

All runs resolve the same frequency and sample the seismograms at the same times. A *base* run has the resolution of the
file (its own method) or the recommended points per wavelength (other methods). A *finer* run has more points per
wavelength, with absorbing layers of the same thickness in meters. A *wider* run has the resolution of the base run, but
its absorbing faces are further out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lithowave.description.domain import FACES
from lithowave.description.refusals import nearest
from lithowave.description.simulation import Simulation
from lithowave.description.solver import METHODS
from lithowave.errors import InputError

BASE, FINER, WIDER = "base", "finer", "wider"
REFINEMENT = 1.4  # default ratio of the points per wavelength of finer and base runs
MARGIN = 0.15  # of the longest horizontal edge: minimum outward shift of absorbing faces in wider runs
RELAXED: Mapping[str, Any] = {"boundaries.absorption": "auto", "compute.parts": None, "compute.moduli": "full"}
"""Keys that do not change the experiment, and the values that they have for methods that reject them."""

Key = tuple[str, str]  # (method, kind)
Settings = Mapping[str, Mapping[str, Any]]


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
    directory = Path(output) if output is not None else _default_directory(simulation)
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


def finer_changes(base: Simulation, refinement: float) -> dict[str, Any] | str:
    """Return the entries of a finer run, or the reason why it is not possible.

    The thickness of absorbing layers in meters is retained, and so is a given time step relative to the spacing.
    """
    solver, layer = base.solver, base.boundaries.layer
    if solver.mesh is not None:
        return "solver.mesh: the elements of an imported mesh cannot be refined"
    key = "elements" if METHODS[solver.method].in_elements else "cells"
    changes: dict[str, Any] = {}
    if (thickness := getattr(layer, key)) is not None:
        changes[f"boundaries.layer.{key}"] = math.ceil(thickness * refinement)
    if solver.spacing is not None:
        changes["solver.spacing"] = solver.spacing / refinement
    else:
        changes["solver.points_per_wavelength"] = (solver.points_per_wavelength or 0.0) * refinement
    if solver.time_step is not None:
        changes["solver.time_step"] = solver.time_step / refinement
    return changes


def wider_changes(base: Simulation, frequency: float) -> dict[str, Any] | str:
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
    changes: dict[str, Any] = {}
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
    simulation: Simulation, method: str, frequency: float, directory: Path, settings: Mapping[str, Any],
    notes: list[str],
) -> Simulation:  # fmt: skip
    """Return the base run of a method; append a note for each entry that was changed because the method rejects it."""
    own = simulation.solver.method
    changes: dict[str, Any] = {
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


def _control(
    base: Simulation, method: str, kind: str, changes: dict[str, Any] | str, directory: Path
) -> PlannedRun | str:
    """Return a control run, or the reason why it is not possible."""
    if isinstance(changes, str):
        return changes
    name = PlannedRun(method, kind, base).name
    try:
        return PlannedRun(method, kind, base.with_overrides({**changes, "output.directory": str(directory / name)}))
    except InputError as error:
        return str(error).splitlines()[0].rstrip(".")


def _default_directory(simulation: Simulation) -> Path:
    directory = Path(simulation.output.directory or "simulation")
    return directory.with_name(f"{directory.name}_agree")


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


def _checked_methods(methods: Sequence[str] | None, own: str) -> list[str]:
    """Return the methods to compare, the file's own method first."""
    names = list(dict.fromkeys(METHODS if methods is None else methods))
    for name in names:
        if name not in METHODS:
            raise InputError(
                "--methods", f"{name!r} is not a method", f"allowed: {', '.join(METHODS)}", nearest(name, METHODS)
            )
    if len(names) < 2:
        raise InputError("--methods", f"{', '.join(names) or 'no method'} given", "at least two methods are compared")
    return sorted(names, key=lambda name: name != own)


def _checked_settings(solver: Settings | None) -> Settings:
    for method in solver or {}:
        if method not in METHODS:
            raise InputError(
                "--solver", f"{method!r} is not a method", f"allowed: {', '.join(METHODS)}", nearest(method, METHODS)
            )
        for key in ("method", "max_frequency", "mesh"):
            if key in (solver or {})[method]:
                raise InputError("--solver", f"{method}.{key} would change the experiment", "allowed: other keys")
    return solver or {}
