"""Element colors for assembly without write conflicts, and the elements that share points with other ranks."""

from __future__ import annotations

import numpy as np

from lithowave.mesh.numbering import number_faces

SEED = 20100617
LIMIT = 64  # a vertex stores the colors of its elements in one 64-bit word


def color_elements(elements: np.ndarray, passes: int = 2) -> np.ndarray:
    """Return a color, from 0, for each element, such that no two elements of one color share a vertex.

    elements : vertices (n, 8). After Jones and Plassmann (1993, SIAM J. Sci. Comput. 14, 654-669): in each round, all
    elements with the highest priority at all their vertices take the lowest color that is free there. Elements at even
    positions along all three local axes have priority, and so on: in a regular grid, the eight classes become eight
    colors. Equal priorities are ordered at random, with a fixed seed.
    Then `passes` rounds of iterated greedy coloring (Culberson, 1992) process entire colors, the last first, which
    never increases the number of colors; they are used if they reduce it. The result depends on the elements only.
    ValueError: more than 64 colors are needed.
    """
    first = colors = first_colors(elements)
    for _ in range(passes):
        colors = recolored(elements, colors)
    return colors if colors.max(initial=-1) < first.max(initial=-1) else first


def first_colors(elements: np.ndarray) -> np.ndarray:
    """Return colors by the rounds of Jones and Plassmann."""
    colors = np.full(len(elements), -1, np.int64)
    vertex_count = int(elements.max(initial=-1)) + 1
    used = np.zeros(vertex_count, np.uint64)
    best = np.empty(vertex_count, np.int64)
    # Elements are sorted by ascending priority: for repeated indices, NumPy stores the value assigned last.
    waiting = np.random.default_rng(SEED).permutation(len(elements))
    waiting = waiting[np.argsort(-place_parities(elements)[waiting], kind="stable")]
    while len(waiting):
        corners = elements[waiting]
        priority = np.arange(len(waiting))
        best[corners] = priority[:, None]
        wins = (best[corners] == priority[:, None]).all(axis=1)
        colors[waiting[wins]] = take_colors(corners[wins], used)
        waiting = waiting[~wins]
    return colors


def place_parities(elements: np.ndarray) -> np.ndarray:
    """Return a number, 0 to 7, for each element: bit a is the parity of the number of elements after it along axis a.

    An element follows another if its low side is the other's high side along the same local axis; rows are followed in
    steps of doubling length. Counting starts at the high end of a row, since columns of elements that grow with depth
    begin side by side at the top.
    """
    faces, face_count = number_faces(elements)
    everyone = np.arange(len(elements))
    parities = np.zeros(len(elements), np.int64)
    for axis in range(3):
        owner = np.full(face_count, -1, np.int64)
        owner[faces[:, 2 * axis]] = everyone
        beyond = np.append(owner[faces[:, 2 * axis + 1]], -1)  # the last entry is a sentinel for -1, no neighbor
        odd = beyond >= 0
        for _ in range(len(elements).bit_length()):  # a cyclic row has no end
            odd ^= odd[beyond]
            beyond = beyond[beyond]
        parities |= odd[:-1].astype(np.int64) << axis
    return parities


def recolored(elements: np.ndarray, colors: np.ndarray) -> np.ndarray:
    """Return new colors, assigned to one previous color after the other, the last first."""
    used = np.zeros(int(elements.max(initial=-1)) + 1, np.uint64)
    new = np.empty_like(colors)
    for group in groups_of_color(colors)[::-1]:
        new[group] = take_colors(elements[group], used)
    return new


def take_colors(corners: np.ndarray, used: np.ndarray) -> np.ndarray:
    """Assign the lowest colors free at all corners (n, 8) of elements without shared vertices; update `used`."""
    taken = np.bitwise_or.reduce(used[corners], axis=1)
    if (taken == ~np.uint64(0)).any():
        raise ValueError(f"a coloring with at most {LIMIT} colors was not found: too many elements share a vertex")
    bit = ~taken & (taken + np.uint64(1))
    used[corners] |= bit[:, None]
    return np.log2(bit.astype(float)).astype(np.int64)  # exact: powers of two


def groups_of_color(colors: np.ndarray) -> list[np.ndarray]:
    """Return the elements of each color, in ascending order."""
    if not len(colors):
        return []
    order = np.argsort(colors, kind="stable")
    return np.split(order, np.cumsum(np.bincount(colors))[:-1])
