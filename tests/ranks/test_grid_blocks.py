"""Blocks of a grid, one for each rank: they cover it, share the work, and know their neighbors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from lithowave.mesh import BlockPartition, Grid, best_blocks, cut_grid, layer_line


def grid(shape: tuple[int, int, int] = (60, 50, 40), cells: int = 10) -> Grid:
    pair = (cells, cells)
    return Grid(10.0, shape, (0.0, 0.0, 0.0), (pair, pair, (cells, 0)))


@pytest.mark.parametrize("size", [2, 3, 4, 6, 7, 8])
def test_blocks_cover_the_grid_and_share_the_work(size) -> None:
    blocks = best_blocks(grid((120, 100, 80)), size, 1.6, 8, (4.0, 3.0, 3.0))
    seen = np.zeros(blocks.grid.shape, int)
    for rank in range(size):
        seen[tuple(slice(*pair) for pair in blocks.own(rank))] += 1
    assert (seen == 1).all()
    work = blocks.work(1.6)
    assert work.max() <= 1.08 * work.mean()


def test_the_work_of_blocks_counts_layers() -> None:
    whole = grid()
    blocks = cut_grid(whole, (2, 2, 1), 0.7, 8)
    lines = [layer_line(whole, axis) for axis in range(3)]
    work = 1.0 + 0.7 * (lines[0][:, None, None] + lines[1][:, None] + lines[2])
    for rank, found in enumerate(blocks.work(0.7)):
        assert found == pytest.approx(work[tuple(slice(*pair) for pair in blocks.own(rank))].sum())


def test_layers_that_cost_more_make_outer_blocks_smaller() -> None:
    blocks = cut_grid(grid((120, 40, 40)), (3, 1, 1), 2.0, 8)
    widths = np.diff(blocks.cuts[0])
    assert widths[1] > widths[0] + 3 and widths[1] > widths[2] + 3
    assert cut_grid(grid(), (8, 1, 1), 1.0, 8) is None


def test_neighbors_are_all_around() -> None:
    blocks = BlockPartition(grid(), ((0, 20, 40, 60), (0, 25, 50), (0, 20, 40)))
    for rank in range(blocks.size):
        near = dict(blocks.neighbors(rank))
        for other, step in itertools.product(range(blocks.size), itertools.product((-1, 0, 1), repeat=3)):
            beside = np.subtract(blocks.place(other), blocks.place(rank)).tolist() == list(step)
            assert (near.get(other) == step) == (beside and any(step)) or not beside
