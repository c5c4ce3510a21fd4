"""Points in elements at which the fields are read: receivers, snapshots and the surface."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lithowave.parallel.ranks import Ranks
from lithowave.solvers.common.programs import Launch
from lithowave.solvers.elements.point_location import SharedLocations


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
        self, solver: Any, shared: SharedLocations, axes: np.ndarray | None = None, sea_floor: SeaFloor | None = None
    ) -> None:
        self.locations = shared.locations
        self.count = len(self.locations.element)
        self.point, self._first = np.unique(self.locations.point, return_index=True)
        self._sharing = shared.sharing[self._first]
        self.axes, self._sea_floor = axes, sea_floor
        self.prepare(solver)

    def prepare(self, solver: Any) -> None:
        """Upload the arguments of the kernel."""
        raise NotImplementedError

    def launches(self, solver: Any, out: Any, slot: Any) -> list[Launch]:
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
