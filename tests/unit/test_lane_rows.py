"""Values of elements are transposed to rows of lanes and back."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from lithowave.backends import U, address, lane_rows, prefetch


@pytest.mark.parametrize("dtype, lanes, count", [(np.float32, 16, 7), (np.float64, 8, 3), (np.float32, 16, 4)])
def test_values_are_gathered_and_scattered(dtype: type, lanes: int, count: int) -> None:
    gather, scatter, _ = lane_rows(lanes, count)
    width, offset, o = -(-count * np.dtype(dtype).itemsize // 16) * 16 // np.dtype(dtype).itemsize, 2, 5

    @njit
    def call(first, second, starts, out, target):
        places, targets = np.empty(lanes, np.uint64), np.empty(lanes, np.uint64)
        for w in range(lanes):
            places[w] = address(second if w & 1 else first, starts[w])
            targets[w] = address(target, starts[w])
            prefetch(places[w])
        gather(out, U(o), places, U(offset))
        scatter(out, U(o), targets, U(offset))

    random = np.random.default_rng(1)
    starts = np.uint64(width + 3) * random.permutation(lanes).astype(np.uint64)
    first, second = random.normal(size=(2, offset + lanes * (width + 3))).astype(dtype)
    out, target = np.full(o + count * lanes + 3, 7, dtype), np.full(len(first), 8, dtype)
    call(first, second, starts, out, target)
    expected, scattered = np.full(len(out), 7, dtype), np.full(len(first), 8, dtype)
    for w, start in enumerate(starts.astype(int) + offset):
        values = (second if w & 1 else first)[start : start + count]
        expected[o + w : o + w + count * lanes : lanes] = values
        scattered[start : start + width] = np.append(values, np.zeros(width - count, dtype))
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(target, scattered)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_elements_with_the_same_address_are_added_in_order(dtype: type) -> None:
    lanes, count, stride = 16, 3, 19
    accumulate = lane_rows(lanes, count, stride)[2]

    @njit
    def call(x, target, starts):
        places = np.empty(lanes, np.uint64)
        for w in range(lanes):
            places[w] = address(target, starts[w])
        accumulate(x, U(2), places, U(0))

    random = np.random.default_rng(1)
    starts = np.uint64(4) * np.array([*range(12), 3, 3, 7, 11], np.uint64)
    x, target = random.normal(size=60).astype(dtype), random.normal(size=50).astype(dtype)
    expected = target.copy()
    call(x, target, starts)
    for w, start in enumerate(starts.astype(int)):
        for m in range(count):
            expected[start + m] += x[2 + m * stride + w]
    np.testing.assert_array_equal(target, expected)
