"""The uniform grid of the finite-difference method: where its nodes are, and which belong to absorbing layers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

AXES = ("x", "y", "z")


@dataclass(frozen=True)
class Grid:
    """A box of nodes.

    spacing : grid step, m, the same in x, y and z.
    shape : number of nodes along x, y, z, absorbing layers included.
    origin : position of node (0, 0, 0), m.
    layers : cells of absorbing layer (low side, high side) along x, y, z; the layers lie outside the described domain.
    """

    spacing: float
    shape: tuple[int, int, int]
    origin: tuple[float, float, float]
    layers: tuple[tuple[int, int], tuple[int, int], tuple[int, int]] = ((0, 0), (0, 0), (0, 0))

    @property
    def point_count(self) -> int:
        """Number of nodes, layers included."""
        return self.shape[0] * self.shape[1] * self.shape[2]

    @property
    def interior_point_count(self) -> int:
        """Number of nodes that lie in no layer."""
        counts = [count - low - high for count, (low, high) in zip(self.shape, self.layers, strict=True)]
        return counts[0] * counts[1] * counts[2]

    def nodes(self, axis: int) -> np.ndarray:
        """Coordinates of the nodes along an axis, m."""
        return self.origin[axis] + self.spacing * np.arange(self.shape[axis])

    def interior(self, axis: int) -> slice:
        """The nodes along an axis that lie in no layer."""
        low, high = self.layers[axis]
        return slice(low, self.shape[axis] - high)

    def index(self, axis: int, coordinate: float) -> float:
        """Position along an axis in grid steps from node 0."""
        return (coordinate - self.origin[axis]) / self.spacing


def build_grid(
    bounds: tuple[tuple[float, float], tuple[float, float], tuple[float, float]],
    spacing: float,
    layers: tuple[tuple[int, int], tuple[int, int], tuple[int, int]],
) -> Grid:
    """Cover the domain with nodes from the low x and y and from the top down, and add the layers outside.

    Where an extent is no multiple of the spacing the grid reaches past the domain, by less than one step, at high x, at
    high y and at the bottom.
    """
    cells = [int(np.ceil((high - low) / spacing - 1e-6)) for low, high in bounds]
    shape = tuple(count + 1 + sum(pair) for count, pair in zip(cells, layers, strict=True))
    corner = [bounds[0][0], bounds[1][0], bounds[2][1] - cells[2] * spacing]
    origin = tuple(start - pair[0] * spacing for start, pair in zip(corner, layers, strict=True))
    return Grid(float(spacing), shape, origin, layers)
