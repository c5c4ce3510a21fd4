"""Points in elements at which the fields are read: receivers, snapshots and the surface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lithowave.solvers.common.programs import Launch
from lithowave.solvers.elements.point_location import SharedLocations


class Samples:
    """Arguments of a method's kernel `sample`, and its results, for the points in elements of this rank.

    If elements share a point, on any rank, the mean over all of them is returned: each rank has its fraction of the
    mean, and the fractions add up.

    Parameters
    ----------
    solver : plan, backend, tables.
    shared : the points in elements.
    axes : directions of the components at each row of `shared` (rows, 3, 3), see `ElementPlan.axes_at`; None: x, y, z.

    Attributes
    ----------
    locations : the points in elements, one row for each element.
    count : number of these rows.
    point : (n,) indices of the points, ascending.
    """

    def __init__(self, solver: Any, shared: SharedLocations, axes: np.ndarray | None = None) -> None:
        self.locations = shared.locations
        self.count = len(self.locations.element)
        self.point, self._first = np.unique(self.locations.point, return_index=True)
        self._sharing = shared.sharing[self._first]
        self.axes = axes
        self.prepare(solver)

    def prepare(self, solver: Any) -> None:
        """Upload the arguments of the kernel."""
        raise NotImplementedError

    def launches(self, solver: Any, out: Any, slot: Any) -> list[Launch]:
        """Return the launches that write out[slot[0], row, location]: velocity, and further rows for the stress."""
        raise NotImplementedError

    def tensors(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Return ``stress`` and further tensors (times, locations, 6).

        rows : (times, locations, rows), the rows of `sample` that follow the velocity.
        """
        raise NotImplementedError

    def shares(self) -> np.ndarray:
        """Return the fraction (points,) of the elements that share each point which are on this rank."""
        return np.diff(np.append(self._first, self.count)) / self._sharing

    def motion(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Return velocity (times, points, 3) and, if there are rows for it, stress (times, points, 6).

        rows : output of `sample`, (times, rows, locations).
        """
        rows = np.moveaxis(rows[..., : self.count].astype(float), 1, 2)
        found = {"velocity": rows[..., :3]}
        if rows.shape[2] > 3:
            found |= self.tensors(rows[..., 3:])
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
            motion["pressure"] = -motion["stress"][..., :3].mean(axis=-1)
        return {name: motion[name] for name in names}
