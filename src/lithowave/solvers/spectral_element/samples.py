"""Receivers, rasters and the surface: places in elements at which the fields are read, and what is made of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lithowave.solvers.interface import Coming
from lithowave.solvers.spectral_element.places import TOLERANCE, inverse_jacobians, strain_of, stress_of
from lithowave.solvers.spectral_element.shared_places import require_everywhere, share_places


class PlacedSamples:
    """Places of a device's kernel `sample`, of several ranks in this one's elements. Points in no element are left out.

    point : numbers (n,) of the points, rising.

    Parameters
    ----------
    solver : plan, backend, tables. positions : (points, 3), m. tolerance : see `find_places`. everywhere : read a point
    that elements share in all of them, and take the mean: its strains differ; ranks that share it have parts of the
    mean, which add up. Otherwise a point is on one rank. numbers : of the points, see `share_places`.
    """

    def __init__(
        self,
        solver: Any,
        positions: np.ndarray,
        tolerance: float = TOLERANCE,
        everywhere: bool = False,
        numbers: np.ndarray | None = None,
    ) -> None:
        plan, backend, tables = solver.plan, solver.backend, solver.tables
        self.plan = plan
        self.shared = share_places(plan, positions, tolerance, numbers)
        if not everywhere:
            self.shared = self.shared.alone()
        self.places = self.shared.places
        self.count = len(self.places.element)
        self.point, self._first = np.unique(self.places.point, return_index=True)
        self._lists = (
            backend.upload(tables.base(self.places.element), np.int64),
            backend.upload(np.array(tables.arrangement.strides), np.int64),
            backend.upload(self.places.values), backend.upload(self.places.slopes),
            backend.scalar(1.0 / plan.schedule.time_step),
        )  # fmt: skip

    def arguments(self) -> tuple[Any, ...]:
        """Of `sample`, between the points and `out`."""
        return self._lists

    def material(self) -> np.ndarray:
        """Voigt's matrix at each place (places, 6, 6), Pa."""
        found = []
        for element, (x, y, z) in zip(self.places.element, self.places.values, strict=True):
            found.append(self.plan.materials.within(int(element), np.einsum("k,j,i->kji", z, y, x))[0])
        return np.array(found).reshape(-1, 6, 6)

    def motion(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """From rows of `sample` (times, 3 or 12, places): velocity (times, points, 3) and, with 12, strain and stress
        (times, points, 6)."""
        rows = rows[..., : self.count].astype(float)
        found = {"velocity": np.moveaxis(rows[:, :3], 1, 2).copy()}
        if rows.shape[1] > 3:
            if not hasattr(self, "_tables"):
                self._tables = inverse_jacobians(self.plan.mesh, self.places), self.material()
            strain = strain_of(rows[:, 3:], self._tables[0])
            found |= {"strain": strain, "stress": stress_of(strain, self._tables[1])}
        return {name: self._mean(values) for name, values in found.items()}

    def _mean(self, values: np.ndarray) -> np.ndarray:
        """This rank's part of the mean over the places of each point: (times, places, c) to (times, points, c)."""
        if (self.shared.sharing == 1).all():
            return values
        return np.add.reduceat(values, self._first, axis=1) / self.shared.sharing[self._first][:, None]

    def fields(self, rows: np.ndarray, names: tuple[str, ...]) -> dict[str, np.ndarray]:
        """Fields of a snapshot, (points, components), from one record of `sample`; ``pressure`` (points,)."""
        motion = {name: values[0].astype(rows.dtype) for name, values in self.motion(rows).items()}
        if "stress" in motion:
            motion["pressure"] = -motion["stress"][..., :3].mean(axis=-1)
        return {name: motion[name] for name in names}


class Records:
    """Receivers and room for their records, twice: one fills while the other is brought to the host."""

    def __init__(self, solver: Any, receivers: Sequence[Any]) -> None:
        self.backend = solver.backend
        positions = np.array([receiver.position for receiver in receivers], float).reshape(-1, 3)
        self.samples = PlacedSamples(solver, positions, solver.plan.tolerance, everywhere=True)
        names = [receiver.name for receiver in receivers]
        require_everywhere(self.samples.shared, solver.plan.ranks, names, positions, "receivers")

    def start(self, capacity: int, stress: bool) -> None:
        """Make room for `capacity` records."""
        shape = (capacity, 12 if stress else 3, max(1, self.samples.count))
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
