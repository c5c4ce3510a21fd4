"""How CPU kernels are compiled: options of Numba that make loops over arrays as fast as those of C.

Three things make Numba vectorize loops: every index and offset is unsigned (no wraparound test), errors follow NumPy
(no test for division by zero), and functions that hold loops are inlined by force into the parallel kernel, where the
compiler knows that its arrays do not overlap.
"""

from __future__ import annotations

import numpy as np
from numba import njit

U = np.uint64
# Everything but the assumption that infinities and NaN never occur: the watch must be able to see them.
FAST = {"contract", "reassoc", "nsz", "arcp"}
row = njit(fastmath=FAST, error_model="numpy", forceinline=True)
parallel = njit(fastmath=FAST, error_model="numpy", cache=True, parallel=True)
