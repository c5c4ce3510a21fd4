"""The solvers of all ranks as outputs see them: one solver, whose results are whole on the first rank."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lithowave.parallel.ranks import Ranks
from lithowave.solvers.interface import Coming, Raster, Solver


class GatheredSolver:
    """Hands on to the solver of this rank, and gathers what is read.

    All ranks must ask for the same things in the same order. On ranks other than the first one the results have no
    receivers and no points.
    """

    def __init__(self, solver: Solver, ranks: Ranks, receiver_count: int) -> None:
        self.solver, self.ranks, self.plan = solver, ranks, solver.plan
        self.staggered, self.receiver_count = solver.staggered, receiver_count
        self._points: dict[Raster, np.ndarray] = {}

    def start_records(self, capacity: int, stress: bool) -> None:
        """See `Solver`."""
        self.solver.start_records(capacity, stress)

    def record(self, slot: int) -> None:
        """See `Solver`."""
        self.solver.record(slot)

    def records(self, count: int) -> Coming:
        """As of `Solver`, of all receivers: (count, n_receivers, ...)."""
        coming, numbers = self.solver.records(count), self.solver.receiver_numbers
        return Coming(coming.parts, lambda parts: self._summed(numbers, coming.finish(parts)))

    def _summed(self, numbers: np.ndarray, own: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """What ranks have of a receiver adds up, in their order."""
        gathered = self.ranks.gather((numbers, own))
        receivers = self.receiver_count if gathered is not None else 0
        found = {}
        for name, values in own.items():
            total = np.zeros((values.shape[0], receivers, values.shape[2]))
            for their_numbers, theirs in gathered or []:
                total[:, their_numbers] += theirs[name]
            found[name] = total
        return found

    def raster(self, selection: Any) -> Raster:
        """See `Solver`."""
        return self.solver.raster(selection)

    def fields(self, raster: Raster, names: tuple[str, ...]) -> Coming:
        """Fields at all points of a raster: ``velocity`` (nz, ny, nx, 3), ``stress`` (..., 6), ``pressure`` (...)."""
        coming, points = self.solver.fields(raster, names), self.raster_points(raster)

        def finish(parts: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            gathered = self.ranks.gather((points, coming.finish(parts)))
            if gathered is None:
                return {}
            return {name: _spread([(at, own[name]) for at, own in gathered], raster.shape[::-1]) for name in names}

        return Coming(coming.parts, finish)

    def raster_points(self, raster: Raster) -> np.ndarray:
        """See `Solver`; of this rank."""
        if raster not in self._points:  # they are asked for with every snapshot
            self._points[raster] = self.solver.raster_points(raster)
        return self._points[raster]

    def local_fields(self, raster: Raster, names: tuple[str, ...]) -> tuple[np.ndarray, Coming]:
        """Numbers of the points of a raster that this rank has, and fields there, as of `Solver`; not gathered."""
        return self.raster_points(raster), self.solver.fields(raster, names)

    def start_peaks(self) -> None:
        """See `Solver`."""
        self.solver.start_peaks()

    def update_peaks(self) -> None:
        """See `Solver`."""
        self.solver.update_peaks()

    def peaks(self) -> dict[str, np.ndarray]:
        """``x``, ``y``, and ``velocity`` and ``displacement`` (3, ny, nx): horizontal, vertical, total."""
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
        """See `Solver`; of all ranks."""
        return self.ranks.largest(self.solver.largest_velocity())

    def diagnose(self) -> str:
        """See `Solver`; by the rank with the largest velocity."""
        found = self.ranks.all_gather((self.solver.largest_velocity(), self.solver.diagnose()))
        return max(found, key=lambda one: one[0] if math.isfinite(one[0]) else math.inf)[1]


def _spread(parts: list[tuple[np.ndarray, np.ndarray]], shape: tuple[int, ...]) -> np.ndarray:
    """Values (n, ...) at points of a raster of this shape, from each rank; not a number where nobody has one."""
    values = parts[0][1]
    whole = np.full((math.prod(shape), *values.shape[1:]), np.nan, values.dtype)
    for points, own in parts:
        whole[points] = own
    return whole.reshape(*shape, *values.shape[1:])
