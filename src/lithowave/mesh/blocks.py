"""Partition of a grid into blocks, one per rank, by planes through the global grid across x, y and z.

The work of a node is 1, plus `layer_work` for each absorbing layer that contains it. Planes across an axis give all
slices of this axis the same work. If layers cross, the blocks still differ, so the planes are then moved as long as the
work of the largest block decreases.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from lithowave.mesh.grid import Grid, NodeRanges

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
