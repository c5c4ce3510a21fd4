"""Indices of points as the element kernels of a GPU read them, and the points that blocks move for later ones."""

from __future__ import annotations

import numpy as np
import pytest
from test_numbering import box, curved, doubled, shuffled

from lithowave.errors import SelfCheckError
from lithowave.mesh import number_points
from lithowave.solvers.spectral_element import block_moves, device_layout


def unpacked(arranged: np.ndarray, degree: int) -> np.ndarray:
    """The indices (slots, k, j, i) of the entities (slots, 27, columns), point by point."""
    part = [0, *[1] * (degree - 1), 2]  # of each point along an axis
    found = np.empty((len(arranged), *[degree + 1] * 3), np.int64)
    for k, j, i in np.ndindex(found.shape[1:]):
        entity = arranged[:, 9 * part[k] + 3 * part[j] + part[i]].astype(np.int64)
        steps = entity[:, 1] if arranged.shape[2] > 1 else np.zeros(len(arranged), np.int64)
        signed = [((steps >> shift) & 255 ^ 128) - 128 for shift in (0, 8, 16)]
        found[:, k, j, i] = entity[:, 0] + (i - 1) * signed[0] + (j - 1) * signed[1] + (k - 1) * signed[2]
    return found


@pytest.mark.parametrize("degree", range(2, 9))
@pytest.mark.parametrize("seed", [None, 1, 2])
def test_entities_give_the_index_of_every_point(degree: int, seed: int | None) -> None:
    layout = device_layout("cuda", degree)
    for mesh in (box(3, 2, 4), curved(), doubled()):
        mesh = mesh if seed is None else shuffled(mesh, seed)
        numbers, count = number_points(mesh.elements, degree)
        slots = np.append(np.random.default_rng(3).permutation(len(numbers)), [-1, -1, -1])
        arranged = layout.of_indices(numbers, slots, count)
        assert arranged.shape == layout.index_shape(len(slots)) and arranged.dtype == np.uint32
        found = unpacked(arranged, degree)
        np.testing.assert_array_equal(found[:-3][: len(numbers)], numbers[slots[:-3]])
        assert (found[len(numbers) :] == count).all()


def test_indices_without_steps_are_refused() -> None:
    numbers, count = number_points(box(2, 2, 2).elements, 4)
    one, other = numbers[3, 2, 2, 1], numbers[3, 2, 2, 2]
    numbers[3, 2, 2, 1], numbers[3, 2, 2, 2] = other, one
    with pytest.raises(SelfCheckError, match="not numbered in steps"):
        device_layout("cuda", 4).of_indices(numbers, np.arange(8), count)


def test_each_block_moves_as_late_as_possible() -> None:
    random = np.random.default_rng(1)
    for capacity in (20, 35, 100):
        reach = np.cumsum(random.integers(0, 40, 200))
        horizon = np.minimum(np.arange(200) + 7, 199)
        moves = block_moves(reach, horizon, capacity, int(reach[-1]) + 5)
        assert moves[-1] == reach[-1] + 5 and (moves[:-1] >= reach[horizon]).all()
        taken = np.diff(moves)
        assert taken.min() >= 0 and taken.max() <= capacity
        later = (moves[:-1] > reach[horizon]) & (taken < capacity)  # earlier than necessary, and not for lack of room
        assert not later.any()
