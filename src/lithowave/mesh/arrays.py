"""Distinct rows of arrays, and products of matrices for many threads.

What is equal for many elements of a mesh is computed once, for distinct rows. Products of NumPy use the threads of a
library, one product after the other.
"""

from __future__ import annotations

import numpy as np

from lithowave.backends.loops import exact_part, multiply_add


def distinct(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the index of the first of each distinct row of finite numbers (n, c), in ascending order of these indices,
    and the place of each row among them, (n,).

    Rows are compared by a weighted sum of their entries, then entirely. If two different rows have the same sum, which
    is as good as impossible, no two rows are taken as equal.
    """
    weights = np.random.default_rng(1).uniform(0.5, 1.0, rows.shape[1])
    sums = np.zeros(len(rows))
    for column, weight in zip(rows.T, weights, strict=True):  # the same operations for each row, unlike a product
        sums += column * weight
    _, first, place = np.unique(sums, return_index=True, return_inverse=True)
    if not (rows[first][place] == rows).all():
        return np.arange(len(rows)), np.arange(len(rows))
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return first[order], rank[place]


def product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return left @ right for a matrix `left` (n, k) and a small matrix `right` (k, m), in this thread.

    The terms are added in their order, each with a fused operation if the processor has one.
    """
    found = np.zeros((len(left), right.shape[1]))
    _add_products(np.ascontiguousarray(left, float), np.ascontiguousarray(right, float), found)
    return found


@exact_part
def _add_products(left, right, found):  # pragma: no cover - compiled
    """Add left @ right to `found`."""
    for row in range(left.shape[0]):
        for k in range(right.shape[0]):
            factor = left[row, k]
            for column in range(right.shape[1]):
                found[row, column] = multiply_add(factor, right[k, column], found[row, column])
