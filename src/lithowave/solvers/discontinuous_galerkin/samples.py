"""Receivers, rasters and the surface: places in elements at which the fields are read, and what is made of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lithowave.solvers.base import Coming
from lithowave.solvers.discontinuous_galerkin.basis import basis_values
from lithowave.solvers.discontinuous_galerkin.places import TOLERANCE, find_places, require_places


class PlacedSamples:
    """Places of a device's kernel `sample`, and the blocks that must be complete for it. Points in no element are left
    out; where elements share a point the mean of all counts.

    Parameters
    ----------
    solver : plan, backend, tables. positions : (points, 3), m. tolerance : see `find_places`. everywhere : read a
    point in all elements that share it, and take the mean: they differ there.
    """

    def __init__(
        self, solver: Any, positions: np.ndarray, tolerance: float = TOLERANCE, everywhere: bool = False
    ) -> None:
        plan, backend, tables = solver.plan, solver.backend, solver.tables
        self.size = len(positions)
        every = find_places(plan.mesh, positions, tolerance)
        self.places = every if everywhere else every.first()
        self.count = len(self.places.element)
        self.point, self._first = np.unique(self.places.point, return_index=True)
        arrangement = tables.arrangement
        block, lane = np.divmod(arrangement.place[self.places.element], arrangement.layout.lanes)
        blocks = np.unique(block)
        self.parts = []
        for group in arrangement.groups:
            first, end = np.searchsorted(blocks, [group.first, group.end])
            if end > first:
                self.parts.append((group, backend.upload(blocks[first:end], np.int32), int(first)))
        self.completed = backend.zeros(arrangement.layout.coefficients(max(1, len(blocks)), tables.modes))
        self._base = backend.upload(tables.index(np.searchsorted(blocks, block), lane, 0, 0), np.int64)
        self._values = backend.upload(basis_values(plan.order, self.places.reference).T)

    def arguments(self) -> tuple[Any, ...]:
        """Of `sample`, before `out`."""
        return self.completed, self._base, self._values

    def motion(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """From rows of `sample` (times, 3 or 9, places): velocity (times, points, 3) and, with 9, stress (times,
        points, 6)."""
        rows = np.moveaxis(rows[..., : self.count].astype(float), 1, 2)
        found = {"velocity": self._mean(rows[..., :3])}
        if rows.shape[2] > 3:
            found["stress"] = self._mean(rows[..., 3:])
        return found

    def _mean(self, values: np.ndarray) -> np.ndarray:
        """Over the places of each point: (times, places, c) to (times, points, c)."""
        if len(self.point) == self.count:
            return values.copy()
        counts = np.diff(np.append(self._first, self.count))
        return np.add.reduceat(values, self._first, axis=1) / counts[:, None]

    def spread(self, values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """Values (..., places) at all points; not a number where there is no element."""
        full = np.full((*values.shape[:-1], self.size), np.nan, values.dtype)
        full[..., self.point] = values[..., : len(self.point)]
        return full.reshape(shape)

    def fields(self, rows: np.ndarray, names: tuple[str, ...], shape: tuple[int, ...]) -> dict[str, np.ndarray]:
        """Fields of a snapshot, (nz, ny, nx, components), from one record of `sample`."""
        motion = self.motion(rows)
        if "stress" in motion:
            motion["pressure"] = -motion["stress"][..., :3].mean(axis=-1, keepdims=True)
        found = {}
        for name in names:
            components = motion[name][0].T
            full = self.spread(components.astype(rows.dtype), (len(components), *shape))
            found[name] = full[0] if name == "pressure" else np.moveaxis(full, 0, -1)
        return found


class Records:
    """Receivers and room for their records, twice: one fills while the other is brought to the host."""

    def __init__(self, solver: Any, receivers: Sequence[Any]) -> None:
        self.solver, self.backend = solver, solver.backend
        positions = np.array([receiver.position for receiver in receivers], float).reshape(-1, 3)
        self.samples = PlacedSamples(solver, positions, solver.plan.tolerance, everywhere=True)
        names = [receiver.name for receiver in receivers]
        require_places(self.samples.places, names, positions, "receivers")

    def start(self, capacity: int, stress: bool) -> None:
        """Make room for `capacity` records."""
        shape = (capacity, 9 if stress else 3, max(1, self.samples.count))
        self._rooms = [self.backend.zeros(shape) for _ in range(2)]
        self._filling = 0

    @property
    def room(self) -> Any:
        """Where records go now."""
        return self._rooms[self._filling]

    def fetch(self, count: int) -> Coming:
        """Begin to bring the first records to the host; further ones go elsewhere."""
        full, self._filling = self._filling, 1 - self._filling
        part = self.backend.fetch(self._rooms[full][:count])
        return Coming({"rows": part}, lambda parts: self.samples.motion(parts["rows"]))
