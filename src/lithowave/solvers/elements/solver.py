"""Readings of a solver on elements: records of receivers, snapshots, and peaks of velocity and displacement.

The fields are read at points in elements: receivers, regular sets of points for snapshots, and points of the surface.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from lithowave.parallel.ranks import Ranks
from lithowave.solvers.common.kernels import Launch, PartialMaxima, Programs
from lithowave.solvers.common.reports import Records
from lithowave.solvers.elements.locations import SharedLocations, point_positions, reach, require_located, within_reach
from lithowave.solvers.interface import ArraySection, PendingFields, RowSelection, Selection, SnapshotGrid

if TYPE_CHECKING:
    from types import SimpleNamespace

    from lithowave.backends.interface import Array, Backend
    from lithowave.description.experiment import Experiment
    from lithowave.solvers.elements.locations import LocatedPlan
    from lithowave.solvers.interface import SnapshotSelection


@dataclass(frozen=True)
class StateRows:
    """Rows of an array of a checkpoint.

    name : of the array. keys : function of the keys of all rows of this rank, see `RowSelection`. freeze : function
    that returns a function of these rows, (rows, ...), with their present values. write : function of such rows that
    restores them. own : (rows,), True for the rows that this rank writes to a checkpoint; None: all. Any thread may
    call the functions of keys and of rows.
    """

    name: str
    keys: Callable[[], np.ndarray]
    freeze: Callable[[], Callable[[], np.ndarray]]
    write: Callable[[np.ndarray], None]
    own: np.ndarray | None = None

    def section(self) -> ArraySection:
        """Return the rows that this rank writes, with their present values."""
        keys, rows, own = self.keys, self.freeze(), self.own
        if own is None or own.all():
            return ArraySection(RowSelection(keys), rows)
        return ArraySection(RowSelection(lambda: keys()[own]), lambda: rows()[own])


class ElementSolver:
    """Base of the element solvers, with the readings; a method adds the fields, their step and their state.

    Attributes
    ----------
    plan, backend, kernels : objects of the run.
    receivers : samples of the receivers.
    record_rows : rows of `sample` with the values from which stress is computed.
    displacement_rows : see `SurfacePeaks`.
    sea_floor : see `lithowave.solvers.interface.Solver`.
    """

    plan: LocatedPlan
    backend: Backend
    kernels: SimpleNamespace
    record_rows: ClassVar[int]
    displacement_rows: ClassVar[int]
    make_samples: ClassVar[type[Samples]]

    def prepare_readings(self, experiment: Experiment) -> None:
        """Locate the receivers, after the arrays are allocated (collective call)."""
        plan, receivers, tensors = self.plan, experiment.acquisition.receivers, experiment.output.tensors
        positions = point_positions(receivers)
        shared = plan.locate(positions, plan.tolerance, owners=receivers if tensors else None)
        require_located(shared, plan.ranks, [receiver.name for receiver in receivers], positions, "receivers")
        fluid = plan.materials.is_fluid[shared.locations.element]
        sides = SeaFloor.among(shared, fluid, plan.ranks)
        self.sea_floor = sides.points if sides is not None else ()
        self.receivers = self._sampled(shared, positions, sides)
        self._records, self._programs = Records(self.backend), Programs(self.backend)
        self._maxima = PartialMaxima(self.backend)
        self._snapshot_grids: dict[SnapshotGrid, Samples] = {}
        self._peaks: SurfacePeaks | None = None

    @property
    def moment(self) -> tuple[object, ...]:
        """Return the values that determine which kernels read the present fields, besides their arrays."""
        return ()

    def facts(self) -> dict[str, object]:
        """See `lithowave.solvers.interface.Solver`."""
        return {}

    # ------------------------------------------------------------------------------------------------ records

    @property
    def receiver_numbers(self) -> np.ndarray:
        """See `lithowave.solvers.interface.Solver`."""
        return self.receivers.point

    def start_records(self, capacity: int, stress: bool) -> None:
        """See `lithowave.solvers.interface.Solver`."""
        self._records.start((capacity, self.record_rows if stress else 3, max(1, self.receivers.columns)))
        self._programs.clear()

    def record(self, slot: int) -> None:
        """See `lithowave.solvers.interface.Solver`."""
        self._records.seek(slot)
        self._programs.run(("record", self._records.filling, *self.moment), self._record_launches)

    def _record_launches(self) -> list[Launch]:
        slot = self._records.slot
        sampling = self.receivers.launches(self, self._records.array, slot)
        return [*sampling, partial(self.kernels.count_step, slot)]

    def records(self, count: int) -> PendingFields:
        """See `lithowave.solvers.interface.Solver`."""
        receivers = self.receivers
        return PendingFields({"rows": self._records.fetch(count)}, lambda parts: receivers.motion(parts["rows"]))

    # ---------------------------------------------------------------------------------------------- snapshots

    def snapshot_grid(self, selection: SnapshotSelection) -> SnapshotGrid:
        """See `lithowave.solvers.interface.Solver`; the points are located now, also in a restarted run."""
        grid = select_snapshot_grid(self.plan, selection)
        self._samples(grid)
        return grid

    def snapshot_points(self, snapshot: SnapshotGrid) -> np.ndarray:
        """See `lithowave.solvers.interface.Solver`; points outside the mesh are on no rank."""
        return self._samples(snapshot).point

    def _samples(self, snapshot: SnapshotGrid) -> Samples:
        if snapshot not in self._snapshot_grids:
            numbers = points_within(snapshot, *reach(self.plan))
            shared = self.plan.locate(positions_of(snapshot, numbers), self.plan.inside_tolerance, numbers)
            positions = partial(positions_of, snapshot)
            self._snapshot_grids[snapshot] = self._sampled(shared.first_only(), positions)
        return self._snapshot_grids[snapshot]

    def _sampled(
        self, shared: SharedLocations, positions: np.ndarray | Callable[[np.ndarray], np.ndarray],
        sea_floor: SeaFloor | None = None,
    ) -> Samples:  # fmt: skip
        """Return the samples of points in elements. positions : of all points (points, 3), m, or of given points."""
        point = shared.locations.point
        axes = self.plan.axes_at(positions(point) if callable(positions) else positions[point])
        return self.make_samples(self, shared, axes, sea_floor)

    def fields(self, snapshot: SnapshotGrid, names: tuple[str, ...]) -> PendingFields:
        """See `lithowave.solvers.interface.Solver`."""
        samples = self._samples(snapshot)
        rows = 3 if names == ("velocity",) else self.record_rows
        out = self.backend.zeros((1, rows, max(1, samples.columns)))
        for launch in samples.launches(self, out, self.backend.zeros((1,), np.int64)):
            launch()
        coming = {"rows": self.backend.fetch(out, temporary=True)}
        return PendingFields(coming, lambda parts: samples.fields(parts["rows"], names))

    # ---------------------------------------------------------------------------------------------- the state

    def state_rows(self) -> Iterator[StateRows]:
        """Yield all arrays of a checkpoint, the same on all ranks."""
        raise NotImplementedError

    def state(self) -> dict[str, ArraySection]:
        """See `lithowave.solvers.interface.Solver`."""
        return {rows.name: rows.section() for rows in self.state_rows()}

    def state_selections(self) -> dict[str, Selection]:
        """See `lithowave.solvers.interface.Solver`."""
        return {rows.name: RowSelection(rows.keys) for rows in self.state_rows()}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """See `lithowave.solvers.interface.Solver`."""
        for rows in self.state_rows():
            rows.write(state[rows.name])

    # -------------------------------------------------------------------------------------------------- peaks

    def start_peaks(self) -> None:
        """See `lithowave.solvers.interface.Solver`."""
        x, y, positions = surface_grid(self.plan)
        near = np.flatnonzero(within_reach(self.plan, positions))
        samples = self._sampled(self.plan.locate(positions[near], self.plan.tolerance, near).first_only(), positions)
        self._peaks = SurfacePeaks(self.backend, x, y, samples, self.displacement_rows)
        self._programs.clear()

    def update_peaks(self) -> None:
        """Update the peaks with the present velocities; called once per step."""
        assert self._peaks is not None
        peaks = self._peaks
        self._programs.run(("peaks", *self.moment), lambda: peaks.launches(self))

    def peaks(self) -> dict[str, np.ndarray]:
        """See `lithowave.solvers.interface.Solver`."""
        assert self._peaks is not None
        return self._peaks.results()


@dataclass(frozen=True)
class SeaFloor:
    """Points between a fluid and a solid.

    points : their indices, on all ranks. motion, pressure : (rows,) factors of the values in each element, by which the
    mean over all elements of a point becomes that over those in the solid, or in the fluid.
    """

    points: tuple[int, ...]
    motion: np.ndarray
    pressure: np.ndarray

    @classmethod
    def among(cls, shared: SharedLocations, fluid: np.ndarray, ranks: Ranks) -> SeaFloor | None:
        """Return the points of all ranks with elements on both sides, None if there are none (collective call).

        fluid : (rows,) True for elements in a fluid.
        """
        several = shared.sharing > 1
        own = np.column_stack([shared.locations.point[several], fluid[several]]).astype(np.int64)
        point, wet = np.concatenate(ranks.all_gather(own)).T
        known, number = np.unique(point, return_inverse=True)
        counts = np.stack([np.bincount(number, wet == kind, len(known)) for kind in (0, 1)])
        mixed = (counts > 0).all(axis=0)
        if not mixed.any():
            return None
        motion, pressure = np.ones((2, len(fluid)))
        row = np.searchsorted(known[mixed], shared.locations.point)
        beside = np.flatnonzero(np.isin(shared.locations.point, known[mixed]))
        dry, wet = counts[:, mixed][:, row[beside]]
        motion[beside] = np.where(fluid[beside], 0.0, (dry + wet) / dry)
        pressure[beside] = np.where(fluid[beside], (dry + wet) / wet, 0.0)
        return cls(tuple(known[mixed].tolist()), motion, pressure)


class Samples:
    """Arguments of a method's kernel `sample`, and its results, for the points in elements of this rank.

    If elements share a point, on any rank, the mean over all of them is returned: each rank has its fraction of the
    mean, and the fractions add up. On the boundary between a fluid and a solid, motion, strain and stress are those of
    the solid, and the pressure is that of the fluid.

    Parameters
    ----------
    solver : plan, backend, tables.
    shared : the points in elements.
    axes : directions of the components at each row of `shared` (rows, 3, 3), see `ElementPlan.axes_at`; None: x, y, z.
    sea_floor : elements on both sides of points between a fluid and a solid; None if there are none.

    Attributes
    ----------
    locations : the points in elements, one row for each element.
    count : number of these rows.
    point : (n,) indices of the points, ascending.
    """

    def __init__(
        self, solver: ElementSolver, shared: SharedLocations, axes: np.ndarray | None = None,
        sea_floor: SeaFloor | None = None,
    ) -> None:  # fmt: skip
        self.locations = shared.locations
        self.count = len(self.locations.element)
        self.point, self._first = np.unique(self.locations.point, return_index=True)
        self._sharing = shared.sharing[self._first]
        self.axes, self._sea_floor = axes, sea_floor
        self.prepare(solver)

    def prepare(self, solver: ElementSolver) -> None:
        """Upload the arguments of the kernel."""
        raise NotImplementedError

    def launches(self, solver: ElementSolver, out: Array, slot: Array) -> list[Launch]:
        """Return the launches that write out[slot[0], row, location]: velocity, and further rows for the stress.

        out has `count` or `columns` columns.
        """
        raise NotImplementedError

    def tensors(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Return ``stress`` and further tensors (times, locations, 6).

        rows : (times, locations, rows), the rows of `sample` that follow the velocity.
        """
        raise NotImplementedError

    def shares(self) -> np.ndarray:
        """Return the fraction (points,) of the elements that share each point which are on this rank."""
        return np.diff(np.append(self._first, self.count)) / self._sharing

    @property
    def columns(self) -> int:
        """Columns of an output from which `velocity` is most accurate: those of the locations, and further ones."""
        return self.count

    def velocity(self, rows: np.ndarray) -> np.ndarray:
        """Return the velocity (times, locations, 3). rows : (times, rows, `count` or `columns`)."""
        return np.moveaxis(rows[:, :3, : self.count].astype(float), 1, 2)

    def motion(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Return velocity (times, points, 3) and, if there are rows for it, stress (times, points, 6) and pressure
        (times, points, 1).

        rows : output of `sample`, (times, rows, `count` or `columns`).
        """
        found = {"velocity": self.velocity(rows)}
        if rows.shape[1] > 3:
            found |= self.tensors(np.moveaxis(rows[:, 3:, : self.count].astype(float), 1, 2))
            found["pressure"] = -found["stress"][..., :3].mean(axis=-1, keepdims=True)
        if self._sea_floor is not None:
            for name, values in found.items():
                weight = self._sea_floor.pressure if name == "pressure" else self._sea_floor.motion
                found[name] = values * weight[:, None]
        return {name: self._mean(values) for name, values in found.items()}

    def _mean(self, values: np.ndarray) -> np.ndarray:
        """Return this rank's part of the mean over the elements of each point: (times, locations, c) to (times, points,
        c)."""
        if (self._sharing == 1).all():
            return np.ascontiguousarray(values)
        return np.add.reduceat(values, self._first, axis=1) / self._sharing[:, None]

    def fields(self, rows: np.ndarray, names: Sequence[str]) -> dict[str, np.ndarray]:
        """Return fields of a snapshot, (points, components), or (points,) of the pressure, of one record."""
        motion = {name: values[0].astype(rows.dtype) for name, values in self.motion(rows).items()}
        if "stress" in motion:
            motion["pressure"] = motion["pressure"][..., 0]
        return {name: motion[name] for name in names}


class SurfacePeaks:
    """Peaks on a regular grid of points on the surface.

    Parameters
    ----------
    backend : the device.
    x, y : lines of the grid, m.
    samples : those of its points that this rank has.
    displacement_rows : values that `surface_peaks` stores at a point to integrate the velocity.

    Attributes
    ----------
    arrays : by name, (rows, points) on the device: displacement, peak_velocity, peak_displacement.
    """

    def __init__(
        self, backend: Backend, x: np.ndarray, y: np.ndarray, samples: Samples, displacement_rows: int
    ) -> None:
        self._backend, self._x, self._y, self._samples = backend, x, y, samples
        count = max(1, samples.count)
        sizes = {"displacement": displacement_rows, "peak_velocity": 3, "peak_displacement": 3}
        self.arrays = {name: backend.zeros((size, count)) for name, size in sizes.items()}
        self._velocity, self._slot = backend.zeros((1, 3, count)), backend.zeros((1,), np.int64)

    @property
    def point(self) -> np.ndarray:
        """Indices (n,), x fastest, of the points of the grid that this rank has."""
        return self._samples.point

    def launches(self, solver: ElementSolver) -> list[Launch]:
        """Return the launches that read the present velocities and update the peaks."""
        step = self._backend.scalar(solver.plan.schedule.time_step)
        update = partial(solver.kernels.surface_peaks, self._velocity, step, *self.arrays.values())
        return [*self._samples.launches(solver, self._velocity, self._slot), update]

    def results(self) -> dict[str, np.ndarray]:
        """See `lithowave.solvers.interface.Solver.peaks`."""
        velocity, displacement = (self.downloaded(name) for name in ("peak_velocity", "peak_displacement"))
        return {
            "x": self._x, "y": self._y, "points": self.point, "velocity": velocity, "displacement": displacement
        }  # fmt: skip

    def downloaded(self, name: str) -> np.ndarray:
        """Return an array (rows, n) of the points that this rank has."""
        return self._backend.download(self.arrays[name])[:, : self._samples.count]

    def freeze(self, name: str) -> Callable[[], np.ndarray]:
        """Return a function of the present values by points, (n, rows)."""
        values, count = self._backend.freeze(self.arrays[name]), self._samples.count
        return lambda: np.ascontiguousarray(values.wait()[:, :count].T)

    def restore(self, name: str, values: np.ndarray) -> None:
        """Set an array from values (n, rows)."""
        if self._samples.count:
            self._backend.assign(self.arrays[name], np.ascontiguousarray(values.T))


def _axis(low: float, high: float, spacing: float, stride: int) -> tuple[float, int]:
    """Return the spacing near a given one that divides the extent, times the stride, and the number of points."""
    steps = max(1, math.ceil((high - low) / spacing - 1e-6))
    return (high - low) / steps * stride, steps // stride + 1


def box_of(plan: LocatedPlan) -> tuple[tuple[float, float], ...]:
    """Return the domain: from the simulation file, or around the mesh, up to the highest point of the surface.

    Of an imported mesh it is the box around it, without an absorbing layer.
    """
    if plan.domain is None and getattr(plan, "bounds", None) is not None:
        return plan.bounds  # of the global mesh, if a rank has only a part of it
    vertices = plan.mesh.vertices
    if plan.domain is None:
        return tuple((float(vertices[:, axis].min()), float(vertices[:, axis].max())) for axis in range(3))
    if plan.domain.is_meshed:
        ends = plan.domain.ground
        return ends.x, ends.y, ends.z
    sides = [tuple(getattr(plan.domain, axis)) for axis in "xyz"]
    if plan.domain.surface is not None:
        sides[2] = (sides[2][0], max(sides[2][1], plan.domain.surface.high))
    return tuple(sides)


def select_snapshot_grid(plan: LocatedPlan, selection: SnapshotSelection) -> SnapshotGrid:
    """Return the points of a snapshot selection, about as close to each other as the unknowns."""
    origin, spacing, shape = [], [], []
    for letter, (low, high) in zip("xyz", box_of(plan), strict=True):
        fixed = None if selection.plane is None else getattr(selection.plane, letter)
        if fixed is not None:
            origin.append(float(fixed))
            spacing.append(plan.surface_spacing)
            shape.append(1)
        else:
            step, count = _axis(low, high, plan.surface_spacing, selection.stride)
            origin.append(low)
            spacing.append(step)
            shape.append(count)
    return SnapshotGrid(tuple(origin), tuple(spacing), tuple(shape))


def points_within(snapshot: SnapshotGrid, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return ascending indices, x fastest, of points of a snapshot grid between corners `low`, `high` (3,), m."""
    ranges = []
    for axis in range(3):
        place = snapshot.origin[axis] + snapshot.spacing[axis] * np.arange(snapshot.shape[axis])
        ranges.append(np.flatnonzero((place >= low[axis]) & (place <= high[axis])))
    x, y, z = ranges
    nx, ny, _ = snapshot.shape
    return ((z[:, None, None] * ny + y[:, None]) * nx + x).reshape(-1)


def positions_of(snapshot: SnapshotGrid, numbers: np.ndarray) -> np.ndarray:
    """Return positions (n, 3), m, of points of a snapshot grid by their indices, x fastest."""
    x, y, z = (o + d * np.arange(n) for o, d, n in zip(snapshot.origin, snapshot.spacing, snapshot.shape, strict=True))
    nx, ny, _ = snapshot.shape
    return np.stack([x[numbers % nx], y[numbers // nx % ny], z[numbers // (nx * ny)]], axis=-1)


def surface_grid(plan: LocatedPlan) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return x, y and positions (points, 3) of a regular grid on the surface of the domain, x fastest."""
    (x_low, x_high), (y_low, y_high), (_, top) = box_of(plan)
    lines = []
    for low, high in ((x_low, x_high), (y_low, y_high)):
        step, count = _axis(low, high, plan.surface_spacing, 1)
        lines.append(low + step * np.arange(count))
    x, y = np.meshgrid(*lines)
    surface = None if plan.domain is None else plan.domain.surface
    z = np.full(x.shape, top) if surface is None else surface(x, y)
    return *lines, np.stack([x, y, z], axis=-1).reshape(-1, 3)
