"""The memory bandwidth of a machine, measured by two loops."""

from __future__ import annotations

import time

import numpy as np
from numba import prange

from lithowave.backends.kernel_cache import njit

ELEMENTS = 48_000_000  # of four bytes: arrays much larger than the caches
REPEATS = 5


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


def memory_bandwidths(dtype: np.dtype) -> dict[str, float]:
    """Return the bytes per second that ``copy`` and ``update`` move, the best of `REPEATS`."""
    first = np.ones(ELEMENTS * 4 // dtype.itemsize, dtype)
    second = np.full_like(first, 0.5)
    loops = {"copy": (2, lambda: copy(first, second)), "update": (3, lambda: update(first, second, dtype.type(1e-6)))}
    found = {}
    for name, (arrays, loop) in loops.items():
        loop()
        times = []
        for _ in range(REPEATS):
            begin = time.perf_counter()
            loop()
            times.append(time.perf_counter() - begin)
        found[name] = arrays * first.nbytes / min(times)
    return found
