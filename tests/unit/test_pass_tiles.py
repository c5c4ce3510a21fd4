"""Tiles of one pass over memory: every point once, and whole rounds before tiles that are divided along z."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from lithowave.solvers.finite_difference import (
    LAWS,
    OnePass,
    TileShape,
    fill_sectors,
    line_shift,
    tile_box,
    whole_lines,
)


@pytest.mark.parametrize(
    ("shape", "processors", "heights"),
    [
        ((96, 44, 140), 4, [140] * 4 + [70] * 4),  # six columns of tiles, the last two divided
        ((96, 44, 140), 6, [140] * 6),
        ((96, 44, 40), 4, [40] * 6),  # too few planes for a division
        ((70, 23, 200), 24, [50] * 24),  # fewer columns than processors
    ],
)
def test_tiles_cover_the_box_in_rounds(shape: tuple[int, int, int], processors: int, heights: list[int]) -> None:
    backend = SimpleNamespace(dtype=np.dtype(np.float32), multiprocessors=processors, spared_multiprocessors=0)
    first = (32, 19, 5)
    box = [(low, low + size) for low, size in zip(first, shape, strict=True)]
    tiles = OnePass(backend, 4, None, LAWS["isotropic"])._tiles(box)
    count = np.zeros(shape, int)
    for x, y, z, x_end, y_end, z_end in tiles[:, :6] - np.array([*first, *first]):
        assert min(x, y, z) >= 0 and x_end - x <= 32 and y_end - y <= 22
        count[x:x_end, y:y_end, z:z_end] += 1
    assert np.all(count == 1)
    assert list(tiles[:, 5] - tiles[:, 2]) == heights


def test_strips_beside_the_box_touch_few_memory_lines() -> None:
    assert line_shift(0, 13, 489) == 0  # the box begins at the first column
    for columns in range(100, 140):
        shift = line_shift(13, 13, columns)
        low, high = whole_lines((13, columns - 13), columns, shift)
        assert shift % 8 == 0 and 13 <= low and 13 <= columns - high and (low + shift) % 32 == (high + shift) % 32 == 0
        assert low + shift <= 32 and columns - high <= 32  # one line at either end
    assert line_shift(13, 13, 489) == 8 and whole_lines((13, 476), 489, 8) == (24, 472)


def test_tiles_begin_at_memory_lines() -> None:
    tiles = tile_box([(0, 489), (0, 1), (0, 1)], TileShape(64, 1), 1, True, 8)
    assert tiles[:, 0].tolist() == [*range(-8, 489, 64)] and tiles[-1, 3] == 489
    assert set(tiles[:, 7]) == {0}  # columns before it are not updated
    assert fill_sectors(tiles, 489, 8, 8)[:, 8].tolist() == [*tiles[:-1, 3], 496]
