"""Distinct rows of arrays: what is equal for many elements of a mesh is computed once."""

from __future__ import annotations

import numpy as np


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
