"""Deformation of a mesh with flat levels such that they become surfaces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from lithowave.backends.host_threads import over_parts

PART = 32_768  # points that are moved at a time
Elevation = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class LevelMap:
    """Map along z of flat levels to surfaces, linear between two levels.

    Points above the first level move with it; points below the last one do not move.

    Attributes
    ----------
    levels : z, m, in descending order.
    surfaces : functions z(x, y) of arrays, m, of all levels except the last one, which does not move.
    concurrent : several threads may evaluate the surfaces at the same time.
    """

    levels: Sequence[float]
    surfaces: Sequence[Elevation]
    concurrent: bool = False

    def displacement(self, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> tuple[float, float, np.ndarray]:
        """Return the displacement (0, 0, dz), m, of points; x, y, z : arrays of one shape."""
        found = np.empty(z.shape)

        def move(part: slice) -> None:
            found[part] = self._elevation(x[part], y[part], z[part])

        over_parts(move, len(z), PART, None if self.concurrent else 1)
        return 0.0, 0.0, found

    def _elevation(self, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        found = np.zeros(np.broadcast_shapes(x.shape, y.shape, z.shape))
        above: np.ndarray | float = 0.0
        for level, below, surface in zip(self.levels, self.levels[1:], self.surfaces, strict=False):
            part = np.clip((z - below) / (level - below), 0.0, 1.0)
            found += (part - above) * (surface(x, y) - level)
            above = part
        return found

    def flattened(self, positions: np.ndarray) -> np.ndarray:
        """Return positions (n, 3), m, before they were moved."""
        x, y, z = positions.T
        tops = [surface(x, y) for surface in self.surfaces] + [np.full(len(z), self.levels[-1])]
        found = z.copy()
        above = z > tops[0]
        found[above] += (self.levels[0] - tops[0])[above]
        for (high, low), (level, below) in zip(_pairs(tops), _pairs(self.levels), strict=True):
            here = (z <= high) & (z > low)
            found[here] = (below + (z - low) * (level - below) / (high - low))[here]
        return np.column_stack([x, y, found])


def _pairs(values: Sequence) -> list[tuple]:
    return list(zip(values, values[1:], strict=False))
