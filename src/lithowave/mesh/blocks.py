"""A grid cut into blocks for several ranks: straight cuts through the whole grid along x, y and z.

The work of a node is 1, and `layer_work` more for each absorbing layer that it lies in. Cuts along an axis give all
slices the same work; where layers cross that is not yet the same work for all blocks, so the cuts are then moved as
long as the largest block becomes smaller.
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
        """Slices along x, y, z."""
        return tuple(len(line) - 1 for line in self.cuts)

    @property
    def size(self) -> int:
        """Number of blocks."""
        return int(np.prod(self.counts))

    def place(self, rank: int) -> tuple[int, int, int]:
        """Slices of a rank along x, y, z; x rises fastest with the rank."""
        z, y, x = np.unravel_index(rank, self.counts[::-1])
        return int(x), int(y), int(z)

    def rank(self, place: Sequence[int]) -> int:
        """The inverse of `place`."""
        return int(np.ravel_multi_index(tuple(place)[::-1], self.counts[::-1]))

    def own(self, rank: int) -> NodeRanges:
        """Nodes of a rank."""
        return [(line[at], line[at + 1]) for line, at in zip(self.cuts, self.place(rank), strict=True)]

    def with_ghost_layers(self, rank: int, width: int) -> NodeRanges:
        """The nodes of a rank and so many around them, as far as the grid goes."""
        return [
            (max(0, first - width), min(nodes, end + width))
            for (first, end), nodes in zip(self.own(rank), self.grid.shape, strict=True)
        ]

    def neighbors(self, rank: int) -> Iterator[tuple[int, tuple[int, int, int]]]:
        """Ranks around a rank, at its corners too, rising, and the direction to each."""
        here = self.place(rank)
        for offset in itertools.product((-1, 0, 1), repeat=3):
            step = offset[::-1]
            there = [at + one for at, one in zip(here, step, strict=True)]
            if any(step) and all(0 <= at < count for at, count in zip(there, self.counts, strict=True)):
                yield self.rank(there), step

    def work(self, layer_work: float) -> np.ndarray:
        """Work of each rank, in nodes without layer."""
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
        """Nodes on the sides of each rank towards others across an axis."""
        counts = [np.diff(line).astype(float) for line in self.cuts]
        inner = np.full(self.counts[axis], 2.0)
        inner[0] -= 1.0
        inner[-1] -= 1.0
        counts[axis] = inner
        x, y, z = counts
        return (z[:, None, None] * y[None, :, None] * x).ravel()


def layer_line(grid: Grid, axis: int) -> np.ndarray:
    """Of each node along an axis, whether (1) it lies in a layer of this axis."""
    low, high = grid.layers[axis]
    line = np.zeros(grid.shape[axis])
    line[:low] = 1.0
    line[grid.shape[axis] - high :] = 1.0
    return line


def cut_grid(grid: Grid, counts: Sequence[int], layer_work: float, least: int) -> BlockPartition | None:
    """Blocks with about the same work, or None where a slice would have fewer than `least` nodes.

    counts : slices along x, y, z. layer_work : of a node in a layer beyond that of others, for each of its layers.
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
    """Cuts that give each slice the same part of the work, and `least` nodes."""
    sums = np.concatenate([[0.0], np.cumsum(work)])
    wanted = sums[-1] * np.arange(1, count) / count
    cuts = [0, *np.searchsorted(sums, wanted).tolist(), len(work)]
    for place in range(1, count):
        cuts[place] = min(max(cuts[place], cuts[place - 1] + least), len(work) - (count - place) * least)
    return cuts


def _improved(grid: Grid, cuts: list[list[int]], layer_work: float, least: int) -> BlockPartition:
    """Cuts moved by ever smaller steps as long as that makes the largest work smaller."""

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
    """The blocks for so many ranks whose largest one is done first; None where there are none.

    side_work : what a node of a side between ranks costs beyond its own work, for sides across x, y, z.
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
    """All (a, b, c) with a b c = size, rising."""
    divisors = [number for number in range(1, size + 1) if size % number == 0]
    for a, b in itertools.product(divisors, repeat=2):
        if size % (a * b) == 0:
            yield a, b, size // (a * b)
