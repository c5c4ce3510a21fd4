"""Sparse matrices as vector code give what NumPy gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import njit

from lithowave.backends import U, matrix_rows


def sparse(rows: int, columns: int) -> np.ndarray:
    """Random, with many zeros, an empty row among the first and an empty last one."""
    random = np.random.default_rng(rows)
    found = random.normal(size=(rows, columns)) * (random.random((rows, columns)) < 0.4)
    found[[1, -1]] = 0
    found[0] = random.normal(size=columns)
    return found


def compiled(matrix: np.ndarray, lanes: int, stride: int, together: int, adding: bool) -> Any:
    product = matrix_rows(matrix, lanes, stride, together, adding)

    @njit
    def call(out, o, x, i):
        product(out, U(o), x, U(i))

    return call


@pytest.mark.parametrize(
    "dtype, lanes, together, adding", [(np.float64, 8, 9, False), (np.float32, 16, 3, True), (np.float64, 4, 1, True)]
)
def test_a_matrix_acts_on_rows(dtype: type, lanes: int, together: int, adding: bool) -> None:
    matrix, random = sparse(7, 5), np.random.default_rng(1)
    stride, o, i = lanes * together + 3, 5, 2  # rows that are apart, and begin anywhere
    x = random.normal(size=i + 5 * stride).astype(dtype)
    out = random.normal(size=o + 7 * stride + 4).astype(dtype)
    expected = out.astype(float)
    for g in range(together * lanes):
        column = x[i + g + stride * np.arange(5)].astype(float)
        place = o + g + stride * np.arange(7)
        expected[place] = matrix @ column + (expected[place] if adding else 0)
    call = compiled(matrix, lanes, stride, together, adding)
    call(out, o, x, i)
    np.testing.assert_allclose(out, expected, rtol=0, atol=20 * np.finfo(dtype).eps)
    # What lies between the rows, before and behind them is left alone.
    gaps = np.ones(len(out), bool)
    gaps[o + (stride * np.arange(7)[:, None] + np.arange(lanes * together)).ravel()] = False
    np.testing.assert_array_equal(out[gaps], expected[gaps].astype(dtype))


def test_matrices_in_one_function_do_not_take_the_place_of_each_other() -> None:
    one, two = sparse(4, 4), 2 * sparse(4, 4)
    first, second = (matrix_rows(matrix, 4, 4, 1) for matrix in (one, two))
    third = matrix_rows(one, 4, 4, 1, adding=True)

    @njit
    def call(out, x):
        first(out, U(0), x, U(0))
        second(out, U(16), x, U(0))
        third(out, U(0), x, U(0))

    x, out = np.random.default_rng(2).normal(size=16), np.zeros(32)
    call(out, x)
    expected = np.concatenate([2 * one, two]) @ x.reshape(4, 4)
    np.testing.assert_allclose(out.reshape(8, 4), expected, rtol=0, atol=1e-14)
