"""Interface of a numerical method for the time loop, the outputs and the dry run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from lithowave.solvers.array_sections import ArraySection, Selection
from lithowave.solvers.clock import Schedule
from lithowave.solvers.placement import Placement

if TYPE_CHECKING:
    from lithowave.backends.interface import Backend
    from lithowave.description.receiver import Receiver
    from lithowave.description.simulation import Simulation
    from lithowave.description.sources import PointSource


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

    parts: dict[str, Any]
    finish: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]
    communicates: bool = False
    plain: tuple[str, ...] = ()

    def wait(self) -> dict[str, np.ndarray]:
        """Return the result after the copies have finished."""
        return self.finish({name: part.wait() for name, part in self.parts.items()})

    def arriving(self) -> dict[str, Any]:
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

    def sampling_bytes(self, simulation: Simulation) -> int:
        """Return the bytes required for reading receivers, snapshots and peaks, in addition to the records."""

    def snapshot_point_count(self, selection: SnapshotSelection) -> int:
        """Return the number of points of one snapshot of a selection."""

    def summary(self) -> dict[str, Any]:
        """Return the entries of `check --json` and run.json: names (with units) and values.

        All methods have ``method``, ``degrees_of_freedom``, ``faces``, ``time_step_s``, ``time_step_limit_s``,
        ``time_step_limited_by``, ``points_per_wavelength``, ``points_per_wavelength_at``, ``steps``,
        ``sampling_interval_s`` and ``memory_bytes``; further entries depend on the method.
        """

    def lines(self) -> list[tuple[str, str]]:
        """Return the lines that `check` prints about the plan: name and value."""

    def require_points(self, simulation: Simulation) -> None:
        """Raise the error of a run for sources and receivers in no element of an imported mesh (collective call).

        The validation has located those of grids and generated meshes.
        """

    def warnings(self, simulation: Simulation) -> list[str]:
        """Return one sentence for each point in which this discretization may be less accurate than the user expects.

        Each sentence states the key of the simulation file, the value, the estimated error and the remedy. All ranks
        must call this method together.
        """

    def instability_causes(self) -> list[str]:
        """Return likely causes of an instability in addition to the time step, with remedies."""


class Solver(Protocol):
    """Arrays of one run, or of one rank's subdomain, and the time step.

    A package's `Solver(plan, simulation, backend, halo)` exchanges data with neighboring ranks by `halo`. Readings are
    those of this rank; `gathered.GatheredSolver` gathers them.

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

    def facts(self) -> dict[str, Any]:
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
    simulation of an entire run.
    """

    method: str
    case: str
    name: str
    backend: Backend
    plan: Plan
    simulation: Simulation

    def entries(self) -> dict[str, Any]:
        """Return the entries of the benchmark record about the case: ``size``, ``order`` or ``degree``, and others."""

    def step_bytes(self) -> float:
        """Return the bytes that one step must move in memory."""

    def memory_bytes(self, measured: dict[str, Any]) -> int:
        """Return the bytes of the measured arrays."""

    def measure(self) -> tuple[float, dict[str, Any]]:
        """Return the seconds per step, and further entries of the record."""

    def measure_bare(self) -> tuple[float, dict[str, Any]]:
        """Return the same for only the interior kernels on the grid of an entire run, if there is such a case."""
