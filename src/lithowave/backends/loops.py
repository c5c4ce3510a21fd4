"""How CPU kernels are compiled: options of Numba that make loops over arrays as fast as those of C.

Three things make Numba vectorize loops: every index and offset is unsigned (no wraparound test), errors follow NumPy
(no test for division by zero), and functions that hold loops are inlined by force into the parallel kernel, where the
compiler knows that its arrays do not overlap.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

U = np.uint64
# Everything but the assumption that infinities and NaN never occur: the watch must be able to see them. A dictionary,
# unlike a set, has the same order in every process, which the cache of `row_of` needs.
FAST = dict.fromkeys(("contract", "reassoc", "nsz", "arcp"), True)
parallel = njit(fastmath=FAST, error_model="numpy", cache=True, parallel=True)


def row(function: Callable) -> Any:
    """A function of loops that is inlined by force."""
    return row_of()(function)


def row_of(*key: Any, inline: bool = True) -> Callable[[Callable], Any]:
    """`row` for functions that are made anew for each set of constants, told by `key`.

    Numba keeps a compiled kernel under the bytes of all that it refers to, in which compiled functions appear with a
    random identity: a kernel made by a function would be compiled anew in every process. The key is their identity.
    inline : False for long code that is called from several places, which would be compiled for each of them.
    """

    def compiled(function: Callable) -> Any:
        dispatcher = njit(fastmath=FAST, error_model="numpy", forceinline=inline)(function)
        identify = getattr(dispatcher, "_set_uuid", None)  # not of Numba's public interface: nothing but speed needs it
        if identify is not None:
            identify(f"{function.__module__}.{function.__qualname__}{key}")
        return dispatcher

    return compiled
