"""Points sorted into the cells of a grid, to find those in the boxes around elements."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class PointCells:
    """Points in the cells of a regular grid around them.

    points : (p, 3), m. origin, extent, width : of the grid and its cells, (3,), m. counts : points of each cell [x, y,
    z]. starts : points of all cells before each. order : indices of the points by cell. sums : points in all lower
    cells along x, y and z.
    """

    points: np.ndarray
    origin: np.ndarray
    extent: np.ndarray
    width: np.ndarray
    counts: np.ndarray
    starts: np.ndarray
    order: np.ndarray
    sums: np.ndarray

    @classmethod
    def of(cls, points: np.ndarray, size: np.ndarray) -> PointCells:
        """Sort points (p, 3), at least one, into cells of about this size (3,), m."""
        origin, extent = points.min(axis=0), np.ptp(points, axis=0)
        shape = np.clip(extent / np.maximum(size, 1e-300), 1, 100).astype(np.int64)
        width = np.where(extent > 0, extent, 1.0) / shape
        cells = np.ravel_multi_index(tuple(_cell(points, origin, width, shape).T), tuple(shape))
        counts = np.bincount(cells, minlength=shape.prod()).reshape(shape)
        sums = np.pad(counts, ((1, 0),) * 3).cumsum(0).cumsum(1).cumsum(2)
        starts = np.cumsum(counts) - counts.reshape(-1)
        return cls(points, origin, extent, width, counts, starts, np.argsort(cells, kind="stable"), sums)

    def inside(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (box, point) of all points within boxes with these corners (n, 3), m."""
        shape, counts = np.array(self.counts.shape), self.counts.reshape(-1)
        boxes = np.flatnonzero(((high >= self.origin) & (low <= self.origin + self.extent)).all(axis=1))
        first, last = (_cell(ends[boxes], self.origin, self.width, shape) for ends in (low, high))
        held = self._count(first, last) > 0
        boxes, first, last = boxes[held], first[held], last[held]
        size = last - first + 1
        row, rank = _ranges(size.prod(axis=1))
        x, rest = np.divmod(rank, size[row, 1] * size[row, 2])
        y, z = np.divmod(rest, size[row, 2])
        of_row = np.ravel_multi_index(tuple((first[row] + np.stack([x, y, z], axis=-1)).T), tuple(shape))
        pair, place = _ranges(counts[of_row])
        box, point = boxes[row[pair]], self.order[self.starts[of_row[pair]] + place]
        within = ((self.points[point] >= low[box]) & (self.points[point] <= high[box])).all(axis=1)
        return box[within], point[within]

    def _count(self, first: np.ndarray, last: np.ndarray) -> np.ndarray:
        """Return the number of points in the cells first..last (both included), by sums over all lower cells."""
        ends = np.stack([first, last + 1])
        total = np.zeros(len(first), dtype=np.int64)
        for a, b, c in np.ndindex(2, 2, 2):
            total += (-1) ** (3 - a - b - c) * self.sums[ends[a, :, 0], ends[b, :, 1], ends[c, :, 2]]
        return total


def _cell(position: np.ndarray, origin: np.ndarray, width: np.ndarray, shape: np.ndarray) -> np.ndarray:
    return np.clip(np.floor((position - origin) / width), 0, shape - 1).astype(np.int64)


def _ranges(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return row r counts[r] times, and 0, 1, ..., counts[r] - 1."""
    row = np.repeat(np.arange(len(counts)), counts)
    return row, np.arange(len(row)) - (np.cumsum(counts) - counts)[row]
