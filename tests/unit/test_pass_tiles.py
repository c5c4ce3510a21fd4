"""Tiles of one pass over memory: every point once, and whole rounds before tiles that are divided along z."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from lithowave.solvers.finite_difference.fields import LAWS
from lithowave.solvers.finite_difference.one_pass import OnePass


@pytest.mark.parametrize(
    ("shape", "processors", "heights"),
    [
        ((96, 44, 140), 4, [140] * 4 + [70] * 4),  # six columns of tiles, the last two divided
        ((96, 44, 140), 6, [140] * 6),
        ((96, 44, 100), 4, [100] * 6),  # too few planes for a division
        ((70, 23, 200), 24, [66] * 6 + [67] * 12),  # fewer columns than processors
    ],
)
def test_tiles_cover_the_box_in_rounds(shape: tuple[int, int, int], processors: int, heights: list[int]) -> None:
    backend = SimpleNamespace(dtype=np.dtype(np.float32), multiprocessors=processors, spared_multiprocessors=0)
    first = (32, 19, 5)
    box = [(low, low + size) for low, size in zip(first, shape, strict=True)]
    tiles = OnePass(backend, 4, None, LAWS["isotropic"])._tiles(box)
    count = np.zeros(shape, int)
    for x, y, z, x_end, y_end, z_end, *_ in tiles - np.array([*first, *first, 0, 0]):
        assert min(x, y, z) >= 0 and x_end - x <= 32 and y_end - y <= 22
        count[x:x_end, y:y_end, z:z_end] += 1
    assert np.all(count == 1)
    assert list(tiles[:, 5] - tiles[:, 2]) == heights
