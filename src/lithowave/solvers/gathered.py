"""Solver interface for outputs, with results gathered from all ranks on the first rank."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lithowave.description.acquisition import Acquisition
from lithowave.description.outputs import SnapshotPlane
from lithowave.description.receiver import component_turns
from lithowave.errors import InputError
from lithowave.parallel.ranks import Ranks
from lithowave.projection import turned
from lithowave.solvers.interface import PendingFields, SnapshotGrid, SnapshotSelection, Solver


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
