"""Uniform grid of the finite-difference method: positions of its nodes, and its absorbing layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lithowave.errors import InputError

AXES = ("x", "y", "z")
_MOST_NODES = 10_000_000  # along an axis
NodeRanges = Sequence[tuple[int, int]]  # (first, end) along x, y, z


@dataclass(frozen=True)
class Grid:
    """A box of nodes, or the subdomain of a rank.

    spacing : grid spacing, m, the same in x, y and z.
    shape : number of nodes along x, y, z, including absorbing layers.
    origin : position of node (0, 0, 0), m.
    layers : cells of absorbing layer (low side, high side) along x, y, z; the layers are outside the described domain.
    first, around : of a subdomain: the index of its first node in the global grid, and this grid.
    """

    spacing: float
    shape: tuple[int, int, int]
    origin: tuple[float, float, float]
    layers: tuple[tuple[int, int], tuple[int, int], tuple[int, int]] = ((0, 0), (0, 0), (0, 0))
    first: tuple[int, int, int] = (0, 0, 0)
    around: Grid | None = None

    @property
    def whole(self) -> Grid:
        """Global grid of a subdomain; this grid if it is not a subdomain."""
        return self.around or self

    def part(self, ranges: NodeRanges) -> Grid:
        """Return the subdomain with these nodes."""
        shape = tuple(end - first for first, end in ranges)
        layers = tuple(
            (min(count, max(0, low - first)), min(count, max(0, high - (nodes - end))))
            for (low, high), (first, end), nodes, count in zip(self.layers, ranges, self.shape, shape, strict=True)
        )
        first = tuple(first for first, _ in ranges)
        origin = tuple(start + self.spacing * number for start, number in zip(self.origin, first, strict=True))
        return Grid(self.spacing, shape, origin, layers, first, self)

    def is_end(self, axis: int, side: int) -> bool:
        """Return True if the low (0) or high (1) side is a side of the global grid."""
        return self.first[axis] == 0 if side == 0 else self.first[axis] + self.shape[axis] == self.whole.shape[axis]

    @property
    def point_count(self) -> int:
        """Number of nodes, including absorbing layers."""
        return self.shape[0] * self.shape[1] * self.shape[2]

    @property
    def interior_point_count(self) -> int:
        """Number of nodes outside absorbing layers."""
        counts = [count - low - high for count, (low, high) in zip(self.shape, self.layers, strict=True)]
        return counts[0] * counts[1] * counts[2]

    def nodes(self, axis: int) -> np.ndarray:
        """Return the coordinates of the nodes along an axis, m."""
        return self.coordinates(axis, 0)

    def coordinates(self, axis: int, halo: int) -> np.ndarray:
        """Return node coordinates along an axis with `halo` cells on both sides, m; identical in subdomains."""
        numbers = self.first[axis] + np.arange(-halo, self.shape[axis] + halo)
        return self.whole.origin[axis] + self.spacing * numbers

    def interior(self, axis: int) -> slice:
        """Return the nodes along an axis that are outside absorbing layers."""
        low, high = self.layers[axis]
        return slice(low, self.shape[axis] - high)

    def index(self, axis: int, coordinate: float) -> float:
        """Return a position along an axis in units of the grid spacing, from node 0."""
        return (coordinate - self.origin[axis]) / self.spacing


def build_grid(
    bounds: tuple[tuple[float, float], tuple[float, float], tuple[float, float]],
    spacing: float,
    layers: tuple[tuple[int, int], tuple[int, int], tuple[int, int]],
) -> Grid:
    """Cover the domain with nodes from low x, low y and the top, and add the absorbing layers outside.

    If an extent is not a multiple of the spacing, the grid extends beyond the domain at high x, high y and the bottom,
    by less than one grid spacing.

    Raises
    ------
    InputError : there are more nodes along an axis than any computer can store.
    """
    for axis, (low, high), pair in zip(AXES, bounds, layers, strict=True):
        count = (high - low) / spacing + sum(pair)
        if not count <= _MOST_NODES:
            got = f"the extent has {count:.3g} grid points at a spacing of {spacing:g} m"
            hint = "use a larger spacing (solver.max_frequency, points_per_wavelength or spacing) or a smaller domain"
            raise InputError(f"domain.{axis}", got, f"allowed: at most {_MOST_NODES:,} with the layers", hint)
    cells = [int(np.ceil((high - low) / spacing - 1e-6)) for low, high in bounds]
    shape = tuple(count + 1 + sum(pair) for count, pair in zip(cells, layers, strict=True))
    corner = [bounds[0][0], bounds[1][0], bounds[2][1] - cells[2] * spacing]
    origin = tuple(start - pair[0] * spacing for start, pair in zip(corner, layers, strict=True))
    return Grid(float(spacing), shape, origin, layers)
