"""Colors of blocks of elements: blocks of one color share no point, so that threads can update them concurrently."""

from __future__ import annotations

import numpy as np

from lithowave.backends.kernel_cache import njit

LIMIT = 64  # colors: a vertex stores those of its blocks in one 64-bit word


def color_greedily(corners: np.ndarray) -> np.ndarray:
    """Return colors, from 0, for sets of vertices (n, m); sets of one color are disjoint. -1 marks an unused entry.

    Each set gets, in the given order, the lowest color that is free. Intended for blocks of elements with many
    neighbors. ValueError: more than 64 colors are needed.
    """
    colors = _greedy(np.ascontiguousarray(corners, np.int64), int(corners.max(initial=-1)) + 1)
    if colors.max(initial=-1) >= LIMIT:
        raise ValueError(f"the blocks need more than {LIMIT} colors: too many of them share a vertex")
    return colors


@njit(cache=True)
def _greedy(corners: np.ndarray, vertices: int) -> np.ndarray:
    used = np.zeros(vertices, np.uint64)
    colors = np.empty(corners.shape[0], np.int64)
    for n in range(corners.shape[0]):
        taken = np.uint64(0)
        for corner in corners[n]:
            if corner >= 0:
                taken |= used[corner]
        color = 0
        while color < LIMIT and (taken >> np.uint64(color)) & np.uint64(1):
            color += 1
        colors[n] = color
        for corner in corners[n]:
            if corner >= 0 and color < LIMIT:
                used[corner] |= np.uint64(1) << np.uint64(color)
    return colors
