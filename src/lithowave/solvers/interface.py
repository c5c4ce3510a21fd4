"""Interface of a numerical method for the time loop, the outputs and the dry run.

It contains the protocols of plans and solvers; sections of the arrays of a run on each rank, which checkpoints write
and read; the time step, the sampling and the clock of the loop; checks of the positions and weights by which a solver
represents sources and receivers; and the solver for outputs, with results gathered from all ranks on the first rank.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np

from lithowave.description.acquisition import Acquisition
from lithowave.description.outputs import SnapshotPlane
from lithowave.description.receivers import Receiver, component_turns
from lithowave.description.sources import PointSource
from lithowave.errors import InputError, SelfCheckError
from lithowave.parallel.ranks import Ranks
from lithowave.projection import turned

if TYPE_CHECKING:
    from lithowave.backends.interface import Backend, PendingCopy
    from lithowave.description.experiment import Experiment
    from lithowave.description.simulation import Simulation
    from lithowave.json_types import Entries


@dataclass(frozen=True)
class Hyperslab:
    """Section array[first : first + shape] of an array of the run, along its first axes.

    first, shape, whole : of the same length; whole : shape of the array of the run along these axes. Further axes are
    identical on all ranks. Hyperslabs that different ranks write do not overlap; those that they read may.
    """

    first: tuple[int, ...]
    shape: tuple[int, ...]
    whole: tuple[int, ...]


@dataclass(frozen=True)
class RowSelection:
    """Rows of an array of the run, identified by keys that do not depend on its partition.

    source : the keys, or a function that returns them: any thread may call it, once.
    """

    source: np.ndarray | Callable[[], np.ndarray]

    @cached_property
    def keys(self) -> np.ndarray:
        """Keys (n,), int64, all different, in any order. When rows are written, each key of the run is on one rank."""
        return self.source() if callable(self.source) else self.source


Selection = Hyperslab | RowSelection


@dataclass(frozen=True)
class ArraySection:
    """Values of the selected section of an array; for a `RowSelection` values[n] belongs to keys[n].

    source : the values, or a function that returns them: any thread may call it, once.
    """

    selection: Selection
    source: np.ndarray | Callable[[], np.ndarray]

    @cached_property
    def values(self) -> np.ndarray:
        """The values, after the copies from the device."""
        values = self.source() if callable(self.source) else self.source
        object.__setattr__(self, "source", values)  # the function, with the copies from which it computes, is released
        return values


@dataclass(frozen=True)
class Schedule:
    """Time steps of a run, and the times of its samples, which need not fall on steps.

    time_step : s. limit : largest stable time step, s. sampling_interval : s. sample_count : samples, the one at t = 0
    included. corrected_frequency : Hz; the error of the time steps is removed from records up to about this frequency
    (see `lithowave.solvers.common.resampling`); None: from none.
    """

    time_step: float
    limit: float
    sampling_interval: float
    sample_count: int
    corrected_frequency: float | None = None

    @property
    def end(self) -> float:
        """Time of the last sample, s."""
        return (self.sample_count - 1) * self.sampling_interval

    @property
    def last_step(self) -> int:
        """Steps to the time of the last sample, or to the first one after it."""
        return math.ceil(self.end / self.time_step * (1.0 - _SAME) - _SAME)

    @property
    def steps(self) -> int:
        """Steps of the run: some more, if the last samples are computed from the steps around them."""
        if self.sample_every:
            return self.last_step
        return self.last_step + (LATER_STEPS if self.corrected_frequency is None else LATER_STEPS_CORRECTED)

    @property
    def sample_every(self) -> int | None:
        """Steps between two samples if records at steps are the samples; None if these are computed from them."""
        every = round(self.sampling_interval / self.time_step)
        on_steps = every > 0 and abs(every * self.time_step / self.sampling_interval - 1.0) < _SAME
        return every if on_steps and self.corrected_frequency is None else None


LATER_STEPS, LATER_STEPS_CORRECTED = 4, 12
"""Steps after the last sample, without which rounding errors in the last samples would be up to 100 times larger."""

_SAME = 1e-9
"""Relative difference of equal intervals."""

_MOST_STEPS = 1_000_000_000
"""Most steps of a run: even at a millisecond per step, more take longer than eleven days."""


def make_schedule(
    limit: float,
    duration: float,
    safety: float,
    time_step: float | None = None,
    sampling_interval: float | None = None,
    corrected_frequency: float | None = None,
) -> Schedule:
    """Choose the time step, safety * limit if none is given, and the samples, at each step without an interval.

    corrected_frequency : see `Schedule`.

    Raises
    ------
    InputError
        if the given time step is above the limit, or if there are more than a billion steps or samples.
    """
    if time_step is not None and time_step > limit:
        raise InputError(
            "solver.time_step",
            f"{time_step:g} s is above the stability limit of {limit:.6g} s",
            f"allowed: at most {limit:.6g} s",
            "omit time_step to use the largest stable one",
        )
    step = time_step if time_step is not None else safety * limit
    _require_steps(duration, step, time_step is not None, sampling_interval, safety * limit)
    interval = sampling_interval or step
    count = int(math.floor(duration / interval + 1e-6)) + 1
    return Schedule(step, limit, interval, max(count, 2), corrected_frequency)


def _require_steps(duration: float, step: float, given: bool, sampling_interval: float | None, stable: float) -> None:
    """Raise InputError if there are too many steps or samples.

    step : s. given : True if the user states it. stable : the default time step, s.
    """
    shortest = min(step, sampling_interval or step)
    count = duration / shortest if shortest > 0 else math.inf
    if count <= _MOST_STEPS:
        return
    if shortest < step:
        key, hint = "output.sampling_interval", f"omit it, or use at least {duration / _MOST_STEPS:.3g} s"
    elif given:
        key, hint = "solver.time_step", f"omit it to use {stable:.6g} s, which is stable"
    else:
        key, hint = "duration", f"use a shorter duration; the stable time step is {stable:.6g} s"
    got = f"a duration of {duration:g} s has {count:.3g} steps of {shortest:g} s"
    raise InputError(key, got, f"allowed: at most {_MOST_STEPS:.0e} steps", hint)


@dataclass
class Clock:
    """Time of the loop.

    time_step : s. steps : steps of the complete run. step : steps done. stop_reason : why a callback ends the run
    early, else None. interrupted_by : name of the signal that ends the loop before the run is complete, else None.
    """

    time_step: float
    steps: int
    step: int = 0
    stop_reason: str | None = None
    interrupted_by: str | None = None

    @property
    def time(self) -> float:
        """Simulated time, s."""
        return self.step * self.time_step

    @property
    def finished(self) -> bool:
        """True if no further step follows."""
        return self.step >= self.steps or self.stop_reason is not None or self.interrupted_by is not None

    def tick(self) -> None:
        """Count a step."""
        self.step += 1

    def stop(self, reason: str) -> None:
        """End the run after this step; it is then complete, and its files end at this time.

        reason : one sentence for the log and run.json; the first one counts.

        Raises
        ------
        ValueError : the reason is empty.
        """
        if not reason:
            raise ValueError("clock.stop needs a reason")
        self.stop_reason = self.stop_reason or reason

    def interrupt(self, signal_name: str) -> None:
        """End the loop after this step; the run is not complete, and is resumed from its checkpoint."""
        self.interrupted_by = signal_name


TOLERANCE = 1e-6  # of the weights, relative to the largest component of a force or moment tensor
MOMENT, FORCE = slice(0, 6), slice(6, 9)


@dataclass
class Placement:
    """Sources and receivers of a solver on one rank.

    receivers : (receivers,) fraction of each receiver that this rank has. totals : (sources, 9) moment tensor (xx, yy,
    zz, xy, xz, yz), N m, and force, N, that the weights of this rank represent. acts : (sources,) True if a weight acts
    on a value that is free to change. fluid : (sources,) True if only the isotropic part of a moment tensor acts.
    inexact : (sources,) True if the weights may not sum to the force, since a velocity vanishes nearby.
    """

    receivers: np.ndarray
    totals: np.ndarray
    acts: np.ndarray
    fluid: np.ndarray
    inexact: np.ndarray

    @classmethod
    def empty(cls, receiver_count: int, source_count: int) -> Placement:
        """Return the placement of a rank without sources and receivers."""
        flags = (np.zeros(source_count, bool) for _ in range(3))
        return cls(np.zeros(receiver_count), np.zeros((source_count, 9)), *flags)

    def summed(self, ranks: Ranks) -> Placement:
        """Return the sum over all ranks (collective call)."""
        numbers = (ranks.total(array) for array in (self.receivers, self.totals))
        return Placement(*numbers, *(ranks.total(one.astype(int)) > 0 for one in (self.acts, self.fluid, self.inexact)))


def check_placement(placement: Placement, sources: Sequence[PointSource], receivers: Sequence[Receiver]) -> None:
    """Compare the placement on all ranks with the simulation file.

    Raises
    ------
    SelfCheckError : a receiver is on no rank or on several ranks, or the weights of a source do not represent its force
    or moment tensor.
    """
    if len(placement.receivers) != len(receivers) or len(placement.totals) != len(sources):
        raise SelfCheckError(
            f"the solver has {len(placement.totals)} sources and {len(placement.receivers)} receivers, the simulation "
            f"file {len(sources)} and {len(receivers)}."
        )
    wrong = np.flatnonzero(~(np.abs(placement.receivers - 1.0) <= TOLERANCE))
    if wrong.size:
        name, share = receivers[wrong[0]].name, placement.receivers[wrong[0]]
        raise SelfCheckError(
            f"{wrong.size} of {len(receivers)} receivers are not read exactly once; the ranks have {share:.6g} of the "
            f"first one, {name}."
        )
    expected = expected_totals(sources)
    found = placement.totals.copy()
    for totals in (found, expected):
        totals[placement.fluid, MOMENT] = totals[placement.fluid, 0:3].mean(axis=1, keepdims=True)
    error = np.abs(found - expected).max(axis=1, initial=0.0)
    size = np.abs(expected_totals(sources)).max(axis=1, initial=0.0)
    wrong = np.flatnonzero(~(error <= TOLERANCE * size) & ~placement.inexact)
    if wrong.size:
        raise SelfCheckError(_source_text(wrong, sources, placement.totals, expected))


def expected_totals(sources: Sequence[PointSource]) -> np.ndarray:
    """Return the moment tensors and forces of the simulation file, (sources, 9)."""
    found = np.zeros((len(sources), 9))
    for row, source in zip(found, sources, strict=True):
        row[MOMENT if source.force is None else FORCE] = source.moment if source.force is None else source.force
    return found


def _source_text(wrong: np.ndarray, sources: Sequence[PointSource], found: np.ndarray, expected: np.ndarray) -> str:
    first = int(wrong[0])
    source = sources[first]
    part, what = (MOMENT, "moment tensor") if source.force is None else (FORCE, "force")
    shown = ["[" + ", ".join(f"{value:.6g}" for value in row[first, part]) + "]" for row in (found, expected)]
    return (
        f"the weights of {wrong.size} of {len(sources)} sources do not represent them; the first one, "
        f"{source.name or source.where}, has the {what} {shown[0]} instead of {shown[1]}."
    )


@dataclass(frozen=True)
class LoopPrediction:
    """Prediction for the time loop from a short measurement.

    seconds : time of the loop, s. domain_rate : points (or elements) per second outside of absorbing layers.
    """

    seconds: float
    domain_rate: float


@dataclass(frozen=True)
class SnapshotGrid:
    """Regular set of points on which a method returns its fields.

    origin : (x, y, z) of the first point, m. spacing : m, along x, y, z. shape : number of points along x, y, z; a
    plane has one point along its normal.
    """

    origin: tuple[float, float, float]
    spacing: tuple[float, float, float]
    shape: tuple[int, int, int]


@dataclass(frozen=True)
class PendingFields:
    """Field arrays whose device-to-host copy is still in progress.

    parts : results of the backend's `fetch`, by name. finish : function that computes the result from the arrays.
    communicates : True if this function exchanges messages with other ranks: only the main thread may call `wait`.
    plain : names of the parts that this function returns unchanged, apart from their shape.
    """

    parts: dict[str, PendingCopy]
    finish: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]
    communicates: bool = False
    plain: tuple[str, ...] = ()

    def wait(self) -> dict[str, np.ndarray]:
        """Return the result after the copies have finished."""
        return self.finish({name: part.wait() for name, part in self.parts.items()})

    def arriving(self) -> dict[str, np.ndarray | PendingCopy]:
        """Return the result as `wait` does, but with the copies of `plain` parts that can be read in pieces."""
        large = {name: self.parts[name] for name in self.plain if name in self.parts and self.parts[name].in_pieces}
        rest = {name: part.wait() for name, part in self.parts.items() if name not in large}
        return {**(self.finish(rest) if rest or not large else {}), **large}


class PlaneCoordinates(Protocol):
    """Plane normal to an axis: one of the coordinates is a value in m, the others are None."""

    @property
    def x(self) -> float | None: ...
    @property
    def y(self) -> float | None: ...
    @property
    def z(self) -> float | None: ...


class SnapshotSelection(Protocol):
    """Points of a snapshot: on a plane, or with None in the volume; every stride-th along each axis."""

    @property
    def plane(self) -> PlaneCoordinates | None: ...
    @property
    def stride(self) -> int: ...


class Plan(Protocol):
    """Discretization of a simulation, before any allocation; each rank has the plan of its subdomain.

    unit : unit of rates, ``points`` or ``elements``. memory_hint : advice on how to reduce the memory of a run, an
    imperative sentence without its period. schedule, unit_total, unit_count, snapshot_point_count, summary and lines
    describe the entire run; bytes are those of this rank.
    """

    schedule: Schedule
    unit: str
    memory_hint: str

    @property
    def unit_total(self) -> int:
        """Number of points (or elements) of the grid or mesh."""

    @property
    def unit_count(self) -> int:
        """Number of points (or elements) that one step updates, the unit of rates."""

    @property
    def domain_count(self) -> int:
        """Number of points (or elements) outside of absorbing layers that one step updates."""

    @property
    def unit_kind(self) -> str:
        """Kernel that updates most points (or elements) of the domain, as text: rates of one kind are comparable."""

    def memory_bytes(self, backend: Backend | None = None) -> int:
        """Return the bytes of the solver's arrays, including the padding of a backend."""

    def plan_bytes(self) -> int:
        """Return the bytes of main memory that the plan occupies during the run."""

    def state_bytes(self) -> int:
        """Return the bytes of `Solver.state`."""

    def setup_bytes(self) -> int:
        """Return the bytes of main memory temporarily required to create the arrays, on any device."""

    def sampling_bytes(self, experiment: Experiment) -> int:
        """Return the bytes required for reading receivers, snapshots and peaks, in addition to the records."""

    def snapshot_point_count(self, selection: SnapshotSelection) -> int:
        """Return the number of points of one snapshot of a selection."""

    def summary(self) -> Entries:
        """Return the entries of `check --json` and run.json: names (with units) and values.

        All methods have ``method``, ``degrees_of_freedom``, ``faces``, ``time_step_s``, ``time_step_limit_s``,
        ``time_step_limited_by``, ``points_per_wavelength``, ``points_per_wavelength_at``, ``steps``,
        ``sampling_interval_s`` and ``memory_bytes``; further entries depend on the method.
        """

    def lines(self) -> list[tuple[str, str]]:
        """Return the lines that `check` prints about the plan: name and value."""

    def require_points(self, experiment: Experiment) -> None:
        """Raise the error of a run for sources and receivers in no element of an imported mesh (collective call).

        The validation has located those of grids and generated meshes.
        """

    def warnings(self, experiment: Experiment) -> list[str]:
        """Return one sentence for each point in which this discretization may be less accurate than the user expects.

        Each sentence states the key of the simulation file, the value, the estimated error and the remedy. All ranks
        must call this method together.
        """

    def instability_causes(self) -> list[str]:
        """Return likely causes of an instability in addition to the time step, with remedies."""


class Solver(Protocol):
    """Arrays of one run, or of one rank's subdomain, and the time step.

    A package's `Solver(plan, experiment, backend, halo)` exchanges data with neighboring ranks by `halo`. Readings are
    those of this rank; `interface.GatheredSolver` gathers them.

    staggered : True if stress and strain are those of half a step before the velocities. receiver_numbers : indices of
    the receivers in `records`. sea_floor : indices of the receivers of all ranks between a fluid and a solid, whose
    records are those of the solid, and of the fluid for the pressure.
    """

    plan: Plan
    staggered: bool
    sea_floor: tuple[int, ...]
    receiver_numbers: np.ndarray

    def advance(self, step: int) -> None:
        """Advance from step to step + 1."""

    def placement(self, sources: Sequence[PointSource], receivers: Sequence[Receiver]) -> Placement:
        """Return the sources and receivers that the weights of this rank represent."""

    def facts(self) -> dict[str, object]:
        """Return the entries of run.json in addition to the plan: errors of quantized material."""

    def start_records(self, capacity: int, stress: bool) -> None:
        """Allocate space on the device for `capacity` records of the receivers."""

    def record(self, slot: int) -> None:
        """Store velocity and, on request, stress at the receivers."""

    def records(self, count: int) -> PendingFields:
        """Return the first records: ``velocity`` (count, n, 3) m/s, ``stress`` (count, n, 6) Pa, of the n receivers in
        `receiver_numbers`; the contributions of several ranks to one receiver add up.

        Later records do not change these.
        """

    def snapshot_grid(self, selection: SnapshotSelection) -> SnapshotGrid:
        """Return the points of a snapshot selection (a plane, a volume, a stride); identical on all ranks."""

    def snapshot_points(self, snapshot: SnapshotGrid) -> np.ndarray:
        """Return the indices, x fastest, of this rank's points of a snapshot grid; each is on at most one rank.

        They are in ascending order if this rank has all points.
        """

    def fields(self, snapshot: SnapshotGrid, names: tuple[str, ...]) -> PendingFields:
        """Return fields at n `snapshot_points`: ``velocity`` (n, 3), ``stress`` (n, 6), ``pressure`` (n,)."""

    def start_peaks(self) -> None:
        """Start to compute the peaks of velocity and displacement at the surface."""

    def update_peaks(self) -> None:
        """Update the peaks with the present velocities; called once per step."""

    def peaks(self) -> dict[str, np.ndarray]:
        """Return ``x``, ``y`` of the global surface; ``points`` (n,), indices, x fastest, of this rank's points; their
        ``velocity`` and ``displacement`` (3, n): horizontal, vertical, total."""

    def largest_velocity(self) -> float:
        """Return the largest |component| of the velocity, m/s; infinite if a value is infinite or NaN."""

    def diagnose(self) -> str:
        """Return the location of the largest fields and the material there, for the report of an instability."""

    def state(self) -> dict[str, ArraySection]:
        """Return all arrays that determine later steps, by name, as sections that only this rank owns."""

    def state_selections(self) -> dict[str, Selection]:
        """Return the selections that `restore` requires, by name, including sections that other ranks also have."""

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Resume from a state. state : values at `state_selections`, for any number of ranks that wrote them."""


class BenchTask(Protocol):
    """Measurement of `lithowave bench`.

    case : its name; ``run`` is that of an entire run. name : case, size and order or degree, for messages. simulation :
    description of an entire run.
    """

    method: str
    case: str
    name: str
    backend: Backend
    plan: Plan
    simulation: Simulation

    def entries(self) -> dict[str, object]:
        """Return the entries of the benchmark record about the case: ``size``, ``order`` or ``degree``, and others."""

    def step_bytes(self) -> float:
        """Return the bytes that one step must move in memory."""

    def measure(self) -> tuple[float, Entries]:
        """Return the seconds per step, and further entries of the record."""

    def measure_bare(self) -> tuple[float, Entries]:
        """Return the same for only the interior kernels on the grid of an entire run, if there is such a case."""


class GatheredSolver:
    """Solver of this rank for the loop, recorders and callbacks, with results gathered from all ranks.

    All ranks must call the same methods in the same order. The results of `receiver_velocities`, `plane` and
    `largest_velocity`, which are for users' callbacks, are identical on all ranks; `records`, `fields` and `peaks` are
    complete on the first rank and have no receivers and no points on the others.

    acquisition : sources and receivers. plan : discretization of this rank. staggered, sea_floor : see
    `Solver`.
    """

    def __init__(self, solver: Solver, ranks: Ranks, acquisition: Acquisition) -> None:
        self.solver, self.ranks, self.plan = solver, ranks, solver.plan
        self.staggered, self.sea_floor, self.acquisition = solver.staggered, solver.sea_floor, acquisition
        self._points: dict[SnapshotGrid, np.ndarray] = {}
        self._slots = 0  # records of the present block, those fetched early included
        self._early: list[PendingFields] = []  # sections of the present block that were fetched before it was complete
        self._fetched = 0  # records in these sections

    def advance(self, step: int) -> None:
        """See `Solver`."""
        self.solver.advance(step)

    def receiver_velocities(self) -> np.ndarray:
        """Return the velocities at all receivers now, (n_receivers, 3), E, N, Z, m/s; the same on all ranks.

        The receivers are those of ``acquisition.receivers``, and the axes those of their seismograms.
        """
        slot = self._slots - self._fetched
        self.solver.record(slot)
        coming = self._gathered(self.solver.records(slot + 1))
        found = coming.wait()
        if slot:  # the records that belong to the block of the recorder
            early = {name: values[:slot] for name, values in found.items()}
            self._early.append(PendingFields({}, lambda _: early))
            self._fetched = self._slots
        velocity = self.ranks.broadcast(found["velocity"][slot])
        return turned(velocity, component_turns(self.acquisition.receivers))

    def plane(
        self, axis: str, coordinate: float, fields: tuple[str, ...] = ("velocity",), stride: int = 1
    ) -> dict[str, np.ndarray]:
        """Return fields on a plane now; the same on all ranks.

        Parameters
        ----------
        axis : "x", "y" or "z", the normal of the plane. coordinate : its position along this axis, m.
        fields : of "velocity", "stress" and "pressure". stride : use every stride-th point along both directions.

        Returns
        -------
        dict : ``x`` (nx,), ``y`` (ny,), ``z`` (nz,), m, one of them of length 1; ``velocity`` (nz, ny, nx, 3), m/s;
        ``stress`` (nz, ny, nx, 6), Pa, in the order xx, yy, zz, xy, xz, yz; ``pressure`` (nz, ny, nx), Pa. Values are
        NaN at points outside the mesh.

        Raises
        ------
        InputError : there is no such axis or field.
        """
        unknown = [name for name in fields if name not in ("velocity", "stress", "pressure")]
        if axis not in ("x", "y", "z") or unknown:
            raise InputError(
                "GatheredSolver.plane", f"axis {axis!r}, fields {', '.join(map(repr, fields))}",
                "allowed: axis x, y or z; fields velocity, stress, pressure",
            )  # fmt: skip
        grid = self.snapshot_grid(PlaneSelection(SnapshotPlane(**{axis: float(coordinate)}), stride))
        values = self.ranks.broadcast(self.fields(grid, tuple(fields)).wait())
        axes = zip("xyz", grid.origin, grid.spacing, grid.shape, strict=True)
        return {name: origin + step * np.arange(count) for name, origin, step, count in axes} | values

    def start_records(self, capacity: int, stress: bool) -> None:
        """See `Solver`; a record that is overwritten loads the kernel before the time loop."""
        self.solver.start_records(capacity, stress)
        self.solver.record(0)
        self._slots = self._fetched = 0
        self._early = []

    def record(self, slot: int) -> None:
        """See `Solver`; the slots of a block are filled sequentially.

        Raises
        ------
        ValueError : this is not the next slot.
        """
        if slot != self._slots:
            raise ValueError(f"slot {slot} follows slot {self._slots - 1}")
        self.solver.record(slot - self._fetched)
        self._slots = slot + 1

    def records(self, count: int) -> PendingFields:
        """Return the first `count` records as `Solver` does, for all receivers: (count, n_receivers, ...)."""
        parts = self._early
        if count > self._fetched:
            parts = [*parts, self._gathered(self.solver.records(count - self._fetched))]
        self._slots = self._fetched = 0
        self._early = []
        return parts[0] if len(parts) == 1 else _joined(parts)

    def _gathered(self, coming: PendingFields) -> PendingFields:
        numbers = self.solver.receiver_numbers
        return PendingFields(
            coming.parts, lambda parts: self._summed(numbers, coming.finish(parts)), self.ranks.size > 1
        )

    def _summed(self, numbers: np.ndarray, own: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the sum of the contributions of all ranks to each receiver, in rank order."""
        gathered = self.ranks.gather((numbers, own))
        receivers = len(self.acquisition.receivers) if gathered is not None else 0
        found = {}
        for name, values in own.items():
            total = np.zeros((values.shape[0], receivers, values.shape[2]))
            for their_numbers, theirs in gathered or []:
                total[:, their_numbers] += theirs[name]
            found[name] = total
        return found

    def snapshot_grid(self, selection: SnapshotSelection) -> SnapshotGrid:
        """See `Solver`."""
        return self.solver.snapshot_grid(selection)

    def fields(self, snapshot: SnapshotGrid, names: tuple[str, ...]) -> PendingFields:
        """Return fields on the entire grid: ``velocity`` (nz, ny, nx, 3), ``stress`` (..., 6), ``pressure`` (...)."""
        coming, shape = self.solver.fields(snapshot, names), snapshot.shape[::-1]

        def finish(parts: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            own = coming.finish(parts)
            if self.ranks.size == 1 and all(len(values) == math.prod(shape) for values in own.values()):
                return {name: values.reshape(*shape, *values.shape[1:]) for name, values in own.items()}
            gathered = self.ranks.gather((self.snapshot_points(snapshot), own))
            if gathered is None:
                return {}
            return {name: _spread([(at, theirs[name]) for at, theirs in gathered], shape) for name in names}

        plain = coming.plain if self.ranks.size == 1 else ()
        return PendingFields(coming.parts, finish, self.ranks.size > 1, plain)

    def snapshot_points(self, snapshot: SnapshotGrid) -> np.ndarray:
        """See `Solver`; of this rank."""
        if snapshot not in self._points:  # requested for every snapshot
            self._points[snapshot] = self.solver.snapshot_points(snapshot)
        return self._points[snapshot]

    def local_fields(self, snapshot: SnapshotGrid, names: tuple[str, ...]) -> tuple[np.ndarray, PendingFields]:
        """Return the indices of this rank's points of the grid, and fields there, as `Solver` does; not gathered."""
        return self.snapshot_points(snapshot), self.solver.fields(snapshot, names)

    def start_peaks(self) -> None:
        """See `Solver`."""
        self.solver.start_peaks()

    def update_peaks(self) -> None:
        """See `Solver`."""
        self.solver.update_peaks()

    def peaks(self) -> dict[str, np.ndarray]:
        """Return ``x``, ``y``, and ``velocity`` and ``displacement`` (3, ny, nx): horizontal, vertical, total."""
        own = self.solver.peaks()
        gathered = self.ranks.gather(own)
        if gathered is None:
            return {}
        shape = (len(own["y"]), len(own["x"]))
        found = {"x": own["x"], "y": own["y"]}
        for name in ("velocity", "displacement"):
            whole = _spread([(one["points"], one[name].T) for one in gathered], shape)
            found[name] = np.moveaxis(whole, -1, 0)
        return found

    def largest_velocity(self) -> float:
        """See `Solver`; the maximum over all ranks."""
        return self.ranks.largest(self.solver.largest_velocity())

    def diagnose(self) -> str:
        """See `Solver`; from the rank with the largest velocity."""
        found = self.ranks.all_gather((self.solver.largest_velocity(), self.solver.diagnose()))
        return max(found, key=lambda one: one[0] if math.isfinite(one[0]) else math.inf)[1]


@dataclass(frozen=True)
class PlaneSelection:
    """Points of a plane on which a solver returns fields, as a `SnapshotSelection`."""

    plane: SnapshotPlane
    stride: int


def _joined(parts: list[PendingFields]) -> PendingFields:
    """Return consecutive blocks of records as one block."""

    def finish(_: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        blocks = [part.wait() for part in parts]
        return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}

    return PendingFields({}, finish, any(part.communicates for part in parts))


def _spread(parts: list[tuple[np.ndarray, np.ndarray]], shape: tuple[int, ...]) -> np.ndarray:
    """Return values (n, ...) of all ranks on a snapshot grid of this shape; NaN at points that no rank has."""
    values = parts[0][1]
    whole = np.full((math.prod(shape), *values.shape[1:]), np.nan, values.dtype)
    for points, own in parts:
        whole[points] = own
    return whole.reshape(*shape, *values.shape[1:])
