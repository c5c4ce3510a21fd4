"""Readings of a solver on elements: records, snapshots and peaks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from lithowave.solvers.common.maxima import PartialMaxima
from lithowave.solvers.common.programs import Launch, Programs
from lithowave.solvers.common.records import Records
from lithowave.solvers.elements.peaks import SurfacePeaks
from lithowave.solvers.elements.point_location import (
    SharedLocations,
    point_positions,
    reach,
    require_located,
    within_reach,
)
from lithowave.solvers.elements.samples import Samples, SeaFloor
from lithowave.solvers.elements.snapshot_grids import points_within, positions_of, select_snapshot_grid, surface_grid
from lithowave.solvers.interface import PendingFields, SnapshotGrid

if TYPE_CHECKING:
    from lithowave.description.simulation import Simulation


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

    plan: Any
    backend: Any
    kernels: Any
    record_rows: ClassVar[int]
    displacement_rows: ClassVar[int]
    make_samples: ClassVar[type[Samples]]

    def prepare_readings(self, simulation: Simulation | None) -> None:
        """Locate the receivers, after the arrays are allocated (collective call)."""
        plan, receivers = self.plan, () if simulation is None else simulation.acquisition.receivers
        positions = point_positions(receivers)
        tensors = simulation is not None and simulation.output.tensors
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
    def moment(self) -> tuple[Any, ...]:
        """Return the values that determine which kernels read the present fields, besides their arrays."""
        return ()

    def facts(self) -> dict[str, Any]:
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

    def snapshot_grid(self, selection: Any) -> SnapshotGrid:
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
