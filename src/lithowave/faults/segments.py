"""Sums over consecutive segments of one flat array, such as the samples of each subfault."""

from __future__ import annotations

import numpy as np


def segment_sums(values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return the sum of each segment ``values[offsets[i]:offsets[i + 1]]`` in double precision; 0 if it is empty.

    Parameters
    ----------
    values : shape (total,).
    offsets : shape (n + 1,), ascending from 0 to ``total``.
    """
    sums = np.zeros(offsets.size - 1)
    filled = offsets[1:] > offsets[:-1]
    if filled.any():
        # The end of a segment with samples is the start of the next one with samples.
        sums[filled] = np.add.reduceat(values, offsets[:-1][filled], dtype=np.float64)
    return sums


def trapezoids(values: np.ndarray, offsets: np.ndarray, intervals: np.ndarray) -> np.ndarray:
    """Return the integral of each segment by the trapezoidal rule, shape (n,), for sampling ``intervals`` (n,)."""
    ends = np.zeros(offsets.size - 1)
    filled = offsets[1:] > offsets[:-1]
    ends[filled] = values[offsets[:-1][filled]].astype(np.float64) + values[offsets[1:][filled] - 1]
    return intervals * (segment_sums(values, offsets) - 0.5 * ends)


def selected_segments(values: np.ndarray, offsets: np.ndarray, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a copy of the segments for which ``chosen`` (n,) is True, and their offsets."""
    counts = np.diff(offsets)
    kept = np.concatenate([[0], np.cumsum(counts[chosen])])
    if chosen.all():
        return values.copy(), kept
    return values[np.repeat(chosen, counts)], kept
