"""Receivers, rasters and the surface: places in elements at which the fields are read, and what is made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lithowave.mesh.tetrahedra import TetrahedralMesh
from lithowave.parallel.ranks import Ranks
from lithowave.solvers.discontinuous_galerkin.basis import basis_values
from lithowave.solvers.discontinuous_galerkin.places import (
    TOLERANCE,
    SharedPlaces,
    find_places,
    place_points,
    require_places,
    settle,
)
from lithowave.solvers.interface import Coming, Raster


class PlacedSamples:
    """Places of a device's kernel `sample`, and the blocks that must be complete for it. Points in no element of this
    rank are left out; where elements share a point, of whatever rank, the mean of all counts: here is this rank's part.

    Parameters
    ----------
    solver : plan, backend, tables. placed : the points, numbered.
    """

    def __init__(self, solver: Any, placed: SharedPlaces) -> None:
        plan, backend, tables = solver.plan, solver.backend, solver.tables
        self.places = placed.places
        self.count = len(self.places.element)
        self.point, self._first = np.unique(self.places.point, return_index=True)
        self._holders = placed.holders[self._first, None].astype(float)
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

    def shares(self) -> np.ndarray:
        """Fraction (points,) of the elements that share each point which are on this rank."""
        return np.diff(np.append(self._first, self.count)) / self._holders[:, 0]

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
        if not self.count or self._holders.max() == 1:
            return values.copy()
        return np.add.reduceat(values, self._first, axis=1) / self._holders

    def fields(self, rows: np.ndarray, names: tuple[str, ...]) -> dict[str, np.ndarray]:
        """Fields at the points, (points, components), from one record of `sample`."""
        motion = {name: values[0].astype(rows.dtype) for name, values in self.motion(rows).items()}
        if "stress" in motion:
            motion["pressure"] = -motion["stress"][:, :3].mean(axis=1)
        return {name: motion[name] for name in names}


def place_raster(mesh: TetrahedralMesh, raster: Raster, ranks: Ranks) -> SharedPlaces:
    """The points of a raster, each in one element of all ranks."""
    axes, strides = [], np.cumprod([1, *raster.shape[:2]])
    for axis, values in enumerate(zip(raster.origin, raster.spacing, raster.shape, strict=True)):
        origin, spacing, count = values
        line = origin + spacing * np.arange(count)
        low, high = mesh.vertices[:, axis].min(), mesh.vertices[:, axis].max()
        margin = TOLERANCE * (high - low)
        axes.append(np.flatnonzero((line >= low - margin) & (line <= high + margin)))
    z, y, x = (part.ravel() for part in np.meshgrid(*axes[::-1], indexing="ij"))
    numbers = x + y * strides[1] + z * strides[2]
    places = np.stack([x, y, z], axis=1)
    found = find_places(mesh, np.array(raster.origin) + np.array(raster.spacing) * places)
    placed = settle(mesh, found, numbers, int(np.prod(raster.shape)), ranks, everywhere=False)
    own = placed.places
    return replace(placed, places=replace(own, point=numbers[own.point]))


class Records:
    """Receivers and room for their records, twice: one fills while the other is brought to the host."""

    def __init__(self, solver: Any, receivers: Sequence[Any]) -> None:
        self.backend = solver.backend
        plan = solver.plan
        positions = np.array([receiver.position for receiver in receivers], float).reshape(-1, 3)
        placed = place_points(plan.mesh, positions, plan.tolerance, solver.halo.ranks)
        require_places(placed.missing, [receiver.name for receiver in receivers], positions, "receivers")
        self.samples = PlacedSamples(solver, placed)

    def start(self, capacity: int, stress: bool) -> None:
        """Make room for `capacity` records."""
        shape = (capacity, 9 if stress else 3, max(1, self.samples.count))
        self._rooms = [self.backend.zeros(shape) for _ in range(2)]
        self.filling = 0  # which of them

    @property
    def room(self) -> Any:
        """Where records go now."""
        return self._rooms[self.filling]

    def fetch(self, count: int) -> Coming:
        """Begin to bring the first records to the host; further ones go elsewhere."""
        full, self.filling = self.filling, 1 - self.filling
        part = self.backend.fetch(self._rooms[full][:count])
        return Coming({"rows": part}, lambda parts: self.samples.motion(parts["rows"]))
