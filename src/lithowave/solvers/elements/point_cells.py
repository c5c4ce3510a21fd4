"""Points sorted into the cells of a regular grid, to find those in boxes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lithowave.backends.loops import exact_part


@dataclass(frozen=True)
class PointCells:
    """Points in the cells of a regular grid around them, on average about one in each.

    points : (p, 3), m. origin, width : of the grid and its cells, (3,), m. shape : number of cells along x, y, z.
    starts : points of all cells before each, z fastest, and of all. order : indices of the points by cell.
    """

    points: np.ndarray
    origin: np.ndarray
    width: np.ndarray
    shape: np.ndarray
    starts: np.ndarray
    order: np.ndarray

    @classmethod
    def of(cls, points: np.ndarray) -> PointCells:
        """Sort points (p, 3), at least one."""
        origin, extent = points.min(axis=0), np.ptp(points, axis=0)
        shape = _grid_shape(extent, len(points))
        width = np.where(extent > 0, extent, 1.0) / shape
        x, y, z = np.clip(np.floor((points - origin) / width), 0, shape - 1).astype(np.int64).T
        cells = (x * shape[1] + y) * shape[2] + z
        starts = np.append(0, np.cumsum(np.bincount(cells, minlength=shape.prod())))
        return cls(points, origin, width, shape, starts, np.argsort(cells, kind="stable"))

    def inside(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (box, point) of all points within boxes with these corners (n, 3), m, by box."""
        grid = self.points, self.origin, self.width, self.shape, self.starts, self.order
        pairs = np.empty((2, _pairs_inside(low, high, *grid, np.empty((2, 0), np.int64))), np.int64)
        _pairs_inside(low, high, *grid, pairs)
        return pairs[0], pairs[1]


def _grid_shape(extent: np.ndarray, count: int) -> np.ndarray:
    """Return numbers of cells (3,) along the sides of a box: about `count` cells with equal edges, one across sides
    shorter than an edge."""
    shape = np.ones(3, np.int64)
    axes = [int(axis) for axis in np.argsort(extent) if extent[axis] > 0]
    while axes:
        edge = (extent[axes].prod() / count) ** (1 / len(axes))
        if extent[axes[0]] >= edge:
            shape[axes] = np.ceil(extent[axes] / edge)
            break
        axes = axes[1:]
    return shape


@exact_part
def _pairs_inside(
    low, high, points, origin, width, shape, starts, order, pairs
):  # pragma: no cover - compiled
    """Store the pairs of `PointCells.inside` in pairs (2, n) as far as there is space; return their number."""
    count = 0
    first, last = np.empty(3, np.int64), np.empty(3, np.int64)
    for box in range(len(low)):
        apart = False
        for axis in range(3):
            begin = np.floor((low[box, axis] - origin[axis]) / width[axis])
            end = np.floor((high[box, axis] - origin[axis]) / width[axis])
            apart |= end < 0 or begin > shape[axis]
            first[axis] = min(max(begin, 0), shape[axis] - 1)
            last[axis] = min(max(end, 0), shape[axis] - 1)
        if apart:
            continue
        for x in range(first[0], last[0] + 1):
            for y in range(first[1], last[1] + 1):
                row = (x * shape[1] + y) * shape[2]
                for place in range(starts[row + first[2]], starts[row + last[2] + 1]):
                    point = order[place]
                    within = True
                    for axis in range(3):
                        within &= low[box, axis] <= points[point, axis] <= high[box, axis]
                    if within:
                        if count < pairs.shape[1]:
                            pairs[0, count], pairs[1, count] = box, point
                        count += 1
    return count
