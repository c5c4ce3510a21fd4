"""Kernels over points that all methods share, on the CPU."""

from __future__ import annotations

import numpy as np

from lithowave.backends.kernel_cache import njit
from lithowave.backends.loops import row


@njit(cache=True)
def count_step(row):
    """Increment the row of a table: of amplitudes, of records."""
    row[0] += 1


@row
def raise_peaks(peaks, place, east, north, up):
    """Raise the horizontal, vertical and total peak, peaks (3, places), of a location to those of this vector."""
    horizontal = east * east + north * north
    peaks[0, place] = max(peaks[0, place], np.sqrt(horizontal))
    peaks[1, place] = max(peaks[1, place], abs(up))
    peaks[2, place] = max(peaks[2, place], np.sqrt(horizontal + up * up))
