"""Products of matrices for many threads: those of NumPy use the threads of a library, one product after the other."""

from __future__ import annotations

import numpy as np

from lithowave.backends.loops import exact_part, multiply_add


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
