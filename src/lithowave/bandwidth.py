"""Two loops that measure the memory bandwidth of a machine."""

from __future__ import annotations

import numpy as np
from numba import prange

from lithowave.backends.kernel_cache import njit


@njit(parallel=True, cache=True)
def copy(a: np.ndarray, b: np.ndarray) -> None:
    """Copy an array: b = a."""
    for i in prange(a.size):
        b[i] = a[i]


@njit(parallel=True, cache=True, fastmath=True)
def update(a: np.ndarray, b: np.ndarray, factor: float) -> None:
    """Update an array: a += factor b."""
    for i in prange(a.size):
        a[i] += factor * b[i]
