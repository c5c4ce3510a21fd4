"""Uniform grid of the finite-difference method: positions of its nodes, its absorbing layers, and its partition.

A grid is divided into blocks, one per rank, by planes through the global grid across x, y and z. The work of a node is
1, plus `layer_work` for each absorbing layer that contains it. Planes across an axis give all slices of this axis the
same work. If layers cross, the blocks still differ, so the planes are then moved as long as the work of the largest
block decreases.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
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


Cuts = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True)
class BlockPartition:
    """Blocks of a grid, one for each rank. cuts : first nodes of the slices along x, y, z, and the end."""

    grid: Grid
    cuts: Cuts

    @property
    def counts(self) -> tuple[int, int, int]:
        """Numbers of slices along x, y, z."""
        return tuple(len(line) - 1 for line in self.cuts)

    @property
    def size(self) -> int:
        """Number of blocks."""
        return int(np.prod(self.counts))

    def place(self, rank: int) -> tuple[int, int, int]:
        """Return the slices of a rank along x, y, z; x increases fastest with the rank."""
        z, y, x = np.unravel_index(rank, self.counts[::-1])
        return int(x), int(y), int(z)

    def rank(self, place: Sequence[int]) -> int:
        """Return the rank of a block, the inverse of `place`."""
        return int(np.ravel_multi_index(tuple(place)[::-1], self.counts[::-1]))

    def own(self, rank: int) -> NodeRanges:
        """Return the nodes of a rank."""
        return [(line[at], line[at + 1]) for line, at in zip(self.cuts, self.place(rank), strict=True)]

    def with_ghost_layers(self, rank: int, width: int) -> NodeRanges:
        """Return the nodes of a rank and `width` ghost layers around them, clipped to the grid."""
        return [
            (max(0, first - width), min(nodes, end + width))
            for (first, end), nodes in zip(self.own(rank), self.grid.shape, strict=True)
        ]

    def neighbors(self, rank: int) -> Iterator[tuple[int, tuple[int, int, int]]]:
        """Yield the neighbors of a rank, including those at corners, and the direction to each, in ascending order."""
        here = self.place(rank)
        for offset in itertools.product((-1, 0, 1), repeat=3):
            step = offset[::-1]
            there = [at + one for at, one in zip(here, step, strict=True)]
            if any(step) and all(0 <= at < count for at, count in zip(there, self.counts, strict=True)):
                yield self.rank(there), step

    def work(self, layer_work: float) -> np.ndarray:
        """Return the work of each rank, in nodes outside absorbing layers."""
        counts = [np.diff(line).astype(float) for line in self.cuts]
        parts = [
            np.add.reduceat(layer_line(self.grid, axis), line[:-1]) / count
            for axis, (line, count) in enumerate(zip(self.cuts, counts, strict=True))
        ]
        x, y, z = counts
        nodes = z[:, None, None] * y[None, :, None] * x
        layers = parts[2][:, None, None] + parts[1][None, :, None] + parts[0]
        return (nodes * (1.0 + layer_work * layers)).ravel()

    def sides(self, axis: int) -> np.ndarray:
        """Return the number of nodes of each rank on sides towards other ranks across an axis."""
        counts = [np.diff(line).astype(float) for line in self.cuts]
        inner = np.full(self.counts[axis], 2.0)
        inner[0] -= 1.0
        inner[-1] -= 1.0
        counts[axis] = inner
        x, y, z = counts
        return (z[:, None, None] * y[None, :, None] * x).ravel()


def layer_line(grid: Grid, axis: int) -> np.ndarray:
    """Return, for each node along an axis, 1 if it is in an absorbing layer of this axis, else 0."""
    low, high = grid.layers[axis]
    line = np.zeros(grid.shape[axis])
    line[:low] = 1.0
    line[grid.shape[axis] - high :] = 1.0
    return line


def cut_grid(grid: Grid, counts: Sequence[int], layer_work: float, least: int) -> BlockPartition | None:
    """Return blocks of about equal work; None if a slice would have fewer than `least` nodes.

    counts : slices along x, y, z. layer_work : additional work of a node for each absorbing layer that contains it.
    """
    lines = [layer_line(grid, axis) for axis in range(3)]
    shares = [line.mean() for line in lines]
    cuts = []
    for axis, count in enumerate(counts):
        if count > 1 and grid.shape[axis] < count * least:
            return None
        others = sum(shares) - shares[axis]
        cuts.append(_even_cuts(1.0 + layer_work * (lines[axis] + others), count, least))
    return _improved(grid, cuts, layer_work, least)


def _even_cuts(work: np.ndarray, count: int, least: int) -> list[int]:
    """Return cuts that give each slice the same share of the work, and at least `least` nodes."""
    sums = np.concatenate([[0.0], np.cumsum(work)])
    wanted = sums[-1] * np.arange(1, count) / count
    cuts = [0, *np.searchsorted(sums, wanted).tolist(), len(work)]
    for place in range(1, count):
        cuts[place] = min(max(cuts[place], cuts[place - 1] + least), len(work) - (count - place) * least)
    return cuts


def _improved(grid: Grid, cuts: list[list[int]], layer_work: float, least: int) -> BlockPartition:
    """Move cuts by decreasing steps as long as this reduces the largest work."""

    def largest(tried: list[list[int]]) -> float:
        return float(BlockPartition(grid, tuple(map(tuple, tried))).work(layer_work).max())

    best = largest(cuts)
    for step in (16, 8, 4, 2, 1):
        moved = True
        while moved:
            moved = False
            for axis, line in enumerate(cuts):
                for place, change in itertools.product(range(1, len(line) - 1), (-step, step)):
                    tried = [list(other) for other in cuts]
                    tried[axis][place] += change
                    if min(np.diff(tried[axis])) >= least and (found := largest(tried)) < best * (1 - 1e-9):
                        cuts, best, moved = tried, found, True
                        break
    return BlockPartition(grid, tuple(map(tuple, cuts)))


def best_blocks(
    grid: Grid, size: int, layer_work: float, least: int, side_work: Sequence[float]
) -> BlockPartition | None:
    """Return the blocks for `size` ranks with the lowest maximum cost; None if no partition is possible.

    side_work : additional cost of a node on a side between ranks, for sides across x, y, z.
    """
    best, found = np.inf, None
    for counts in products_of_three(size):
        blocks = cut_grid(grid, counts, layer_work, least)
        if blocks is not None:
            sides = sum(work * blocks.sides(axis) for axis, work in enumerate(side_work))
            cost = float((blocks.work(layer_work) + sides).max())
            if cost < best * (1 - 1e-9):
                best, found = cost, blocks
    return found


def products_of_three(size: int) -> Iterator[tuple[int, int, int]]:
    """Yield all (a, b, c) with a b c = size, in ascending order."""
    divisors = [number for number in range(1, size + 1) if size % number == 0]
    for a, b in itertools.product(divisors, repeat=2):
        if size % (a * b) == 0:
            yield a, b, size // (a * b)
