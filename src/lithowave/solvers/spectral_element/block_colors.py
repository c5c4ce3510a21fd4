"""Colours of blocks of elements: threads that work on blocks of one colour never meet at a point."""

from __future__ import annotations

import numpy as np

from lithowave.backends.kernel_cache import njit

LIMIT = 64  # colours: a vertex keeps those of its blocks in one 64-bit word


def color_greedily(corners: np.ndarray) -> np.ndarray:
    """Colours, from 0, for sets of vertices (n, m), so that sets of one colour have none in common; -1 is no vertex.

    In the order given each set takes the lowest colour that is free. For blocks of elements, of which each meets many.
    ValueError: more than 64 colours are needed.
    """
    colors = _greedy(np.ascontiguousarray(corners, np.int64), int(corners.max(initial=-1)) + 1)
    if colors.max(initial=-1) >= LIMIT:
        raise ValueError(f"a colouring with at most {LIMIT} colours was not found: too many blocks share a vertex")
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
