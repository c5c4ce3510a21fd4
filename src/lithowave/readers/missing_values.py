"""Values for grid points that have none, where they do not matter."""

from __future__ import annotations

import numpy as np


def nearest_complete(lacking: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return for each grid point the index of a complete point near it.

    This is the point itself if it is complete; otherwise the nearest complete point along the last axis, or if there is
    none, that of the nearest point along the axis before, and so on.

    Parameters
    ----------
    lacking : True at points without a value; there must be others.
    """
    index = [np.array(each) for each in np.indices(lacking.shape)]
    missing, far = lacking.copy(), np.iinfo(int).max // 2
    for axis in reversed(range(lacking.ndim)):
        count = lacking.shape[axis]
        positions = np.arange(count).reshape([-1 if other == axis else 1 for other in range(lacking.ndim)])
        before = np.maximum.accumulate(np.where(missing, -1, positions), axis=axis)
        reverse = np.flip(np.where(missing, count, positions), axis)
        after = np.flip(np.minimum.accumulate(reverse, axis=axis), axis)
        to_before = np.where(before < 0, far, positions - before)
        to_after = np.where(after >= count, far, after - positions)
        source = np.clip(np.where(to_before <= to_after, before, after), 0, count - 1)
        found = missing & ((before >= 0) | (after < count))
        index = [np.where(found, np.take_along_axis(each, source, axis), each) for each in index]
        missing &= ~found
    return tuple(index)
