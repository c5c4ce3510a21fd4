"""What the time loop, the outputs and the dry run know of a numerical method: nothing but this."""

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
    from lithowave.description.receivers import Receiver
    from lithowave.description.simulation import Simulation
    from lithowave.description.sources import PointSource


@dataclass(frozen=True)
class SnapshotGrid:
    """A regular set of points on which a method can give its fields.

    origin : (x, y, z) of the first point, m. spacing : m, along x, y, z. shape : number of points along x, y, z; a
    plane has one point along its normal.
    """

    origin: tuple[float, float, float]
    spacing: tuple[float, float, float]
    shape: tuple[int, int, int]


@dataclass(frozen=True)
class PendingFields:
    """Arrays that a device still has to hand over.

    parts : what the backend's `fetch` gave, by name. finish : makes the result of the arrays.
    """

    parts: dict[str, Any]
    finish: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]

    def wait(self) -> dict[str, np.ndarray]:
        """The result, once it is there."""
        return self.finish({name: part.wait() for name, part in self.parts.items()})


class PlaneCoordinates(Protocol):
    """A plane normal to an axis: one of the coordinates is given, m, the others are None."""

    @property
    def x(self) -> float | None: ...
    @property
    def y(self) -> float | None: ...
    @property
    def z(self) -> float | None: ...


class SnapshotSelection(Protocol):
    """The points of a snapshot: on a plane, or with None in the volume; every stride-th along each axis."""

    @property
    def plane(self) -> PlaneCoordinates | None: ...
    @property
    def stride(self) -> int: ...


class Plan(Protocol):
    """A discretization, known before anything is allocated; of several ranks each has its own, for its part.

    unit : what rates count, ``points`` or ``elements``. memory_hint : what a user can change so that a run needs less
    memory, the beginning of a sentence. schedule, unit_total, unit_count, snapshot_point_count, summary and lines
    describe the whole run; bytes are those of this rank.
    """

    schedule: Schedule
    unit: str
    memory_hint: str

    @property
    def unit_total(self) -> int:
        """Points (or elements) of the grid or mesh."""

    @property
    def unit_count(self) -> int:
        """Points (or elements) that one step updates; rates count these."""

    def memory_bytes(self, backend: Backend | None = None) -> int:
        """Bytes that the solver's arrays will take, with what a backend adds to them."""

    def plan_bytes(self) -> int:
        """Bytes of main memory that the plan itself holds as long as the run lasts."""

    def state_bytes(self) -> int:
        """Bytes of what `Solver.state` gives."""

    def setup_bytes(self) -> int:
        """Bytes of main memory that making the arrays takes for a while, wherever they are."""

    def sampling_bytes(self, simulation: Simulation) -> int:
        """Bytes of what reading receivers, snapshots and peaks takes beside the records themselves."""

    def snapshot_point_count(self, selection: SnapshotSelection) -> int:
        """Points of one snapshot of a selection."""

    def summary(self) -> dict[str, Any]:
        """What `check --json` and run.json keep: names, numbers, and units in the names.

        All methods have ``method``, ``degrees_of_freedom``, ``faces``, ``time_step_s``, ``time_step_limit_s``,
        ``time_step_limited_by``, ``points_per_wavelength``, ``points_per_wavelength_at``, ``steps``,
        ``sampling_interval_s`` and ``memory_bytes``; the rest is the method's own.
        """

    def lines(self) -> list[tuple[str, str]]:
        """What `check` prints of the plan: name and value."""

    def warnings(self, simulation: Simulation) -> list[str]:
        """Return one sentence for each point in which this discretization may be less accurate than the user expects.

        Each sentence states the key of the simulation file, the value, the estimated error and the remedy. All ranks
        must call this method together.
        """

    def instability_causes(self) -> list[str]:
        """What, beside the time step, may make a run of this method unstable, and what to try."""


class Solver(Protocol):
    """The arrays of one run, or of one rank's part of it, and its step.

    A package's `Solver(plan, simulation, backend, halo)` exchanges what neighbouring ranks need by `halo`. What is read
    is of this rank; `gathered.GatheredSolver` makes whole results of it.

    staggered : whether stress and strain are those of half a step before the velocities. receiver_numbers : of the
    receivers that `records` tells of.
    """

    plan: Plan
    staggered: bool
    receiver_numbers: np.ndarray

    def advance(self, step: int) -> None:
        """From step to step + 1."""

    def placement(self, sources: Sequence[PointSource], receivers: Sequence[Receiver]) -> Placement:
        """What the weights of this rank represent of the sources and receivers of the description."""

    def facts(self) -> dict[str, Any]:
        """What run.json is to say beyond the plan: the error of rounded numbers of the material."""

    def start_records(self, capacity: int, stress: bool) -> None:
        """Make room on the device for `capacity` records of the receivers."""

    def record(self, slot: int) -> None:
        """Keep velocity and, if asked for, stress at the receivers."""

    def records(self, count: int) -> PendingFields:
        """The first records: ``velocity`` (count, n, 3) m/s, ``stress`` (count, n, 6) Pa, of the n receivers in
        `receiver_numbers`; what several ranks have of one receiver adds up.

        Records taken from now on do not touch these.
        """

    def snapshot_grid(self, selection: SnapshotSelection) -> SnapshotGrid:
        """The points that a snapshot selection (a plane, a volume, a stride) stands for; the same on all ranks."""

    def snapshot_points(self, snapshot: SnapshotGrid) -> np.ndarray:
        """Numbers, x fastest, of the points of a snapshot grid that this rank has; each is on one rank at most."""

    def fields(self, snapshot: SnapshotGrid, names: tuple[str, ...]) -> PendingFields:
        """Fields at the n points in `snapshot_points`: ``velocity`` (n, 3), ``stress`` (n, 6), ``pressure`` (n,)."""

    def start_peaks(self) -> None:
        """From now on keep the peaks of velocity and displacement at the surface."""

    def update_peaks(self) -> None:
        """Take the present velocities into the peaks; once for each step."""

    def peaks(self) -> dict[str, np.ndarray]:
        """``x``, ``y`` of the whole surface; ``points`` (n,), numbers, x fastest, of those that this rank has; their
        ``velocity`` and ``displacement`` (3, n): horizontal, vertical, total."""

    def largest_velocity(self) -> float:
        """Largest |component| anywhere, m/s; infinite if a value is infinite or NaN."""

    def diagnose(self) -> str:
        """Where the fields are largest and what the material is there: for the report of an instability."""

    def state(self) -> dict[str, ArraySection]:
        """All arrays that determine the future, by name, as far as this rank alone has them."""

    def state_selections(self) -> dict[str, Selection]:
        """What `restore` wants, by name: with what this rank has beside others, too."""

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go on from a state. state : values at `state_selections`, whatever number of ranks wrote them."""


class BenchTask(Protocol):
    """One measurement of `lithowave bench`.

    case : its name; ``run`` is that of a whole run. name : case, size and order or degree, for messages. simulation :
    the experiment of a whole run.
    """

    method: str
    case: str
    name: str
    backend: Backend
    plan: Plan
    simulation: Simulation

    def entries(self) -> dict[str, Any]:
        """What the record says of the case: ``size``, ``order`` or ``degree``, and the like."""

    def step_bytes(self) -> float:
        """Bytes that one step must move in memory."""

    def memory_bytes(self, measured: dict[str, Any]) -> int:
        """Bytes of the arrays of what was measured."""

    def measure(self) -> tuple[float, dict[str, Any]]:
        """Seconds of a step, and what else the record tells."""

    def measure_bare(self) -> tuple[float, dict[str, Any]]:
        """The same of the bare kernels on the grid of a whole run; where there is such a case."""
