"""How CPU kernels are compiled: options of Numba that make loops over arrays as fast as those of C.

Three things make Numba vectorize loops: every index and offset is unsigned (no wraparound test), errors follow NumPy
(no test for division by zero), and functions that hold loops are inlined by force into the parallel kernel, where the
compiler knows that its arrays do not overlap.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from lithowave.backends.kernel_cache import njit

U = np.uint64
# Everything but the assumption that infinities and NaN never occur: the watch must be able to see them. A dictionary,
# unlike a set, has the same order in every process, which the cache of `row_of` needs.
FAST = dict.fromkeys(("contract", "reassoc", "nsz", "arcp"), True)
parallel = njit(fastmath=FAST, error_model="numpy", cache=True, parallel=True)
# Without these options every operation is rounded by itself, as IEEE 754 prescribes, so that the vector loop, its
# remainder and a loop that begins at another point of a row compute the same bits. The compiler must then be told
# which products and sums to fuse: see `multiply_add`.
exact_parallel = njit(error_model="numpy", cache=True, parallel=True)


@intrinsic
def multiply_add(_context: Any, a: Any, b: Any, c: Any) -> Any:
    """Return a * b + c, with one rounding on processors that fuse the two operations and two on others.

    It is the same instruction in vector loops and their remainders. a, b, c : of one floating-point type.
    """
    if not (isinstance(a, types.Float) and a == b == c):
        return None

    def generate(_context: Any, builder: ir.IRBuilder, _signature: Any, arguments: Any) -> Any:
        real = arguments[0].type
        function = builder.module.declare_intrinsic("llvm.fmuladd", [real], ir.FunctionType(real, [real] * 3))
        return builder.call(function, arguments)

    return a(a, b, c), generate


def row(function: Callable) -> Any:
    """A function of loops that is inlined by force."""
    return row_of()(function)


def exact_row(function: Callable) -> Any:
    """As `row`, with every operation rounded by itself: for kernels of `exact_parallel`."""
    return row_of(exact=True)(function)


def row_of(*key: Any, inline: bool = True, exact: bool = False) -> Callable[[Callable], Any]:
    """`row` for functions that are made anew for each set of constants, told by `key`.

    Numba keeps a compiled kernel under the bytes of all that it refers to, in which compiled functions appear with a
    random identity: a kernel made by a function would be compiled anew in every process. The key is their identity.
    inline : False for long code that is called from several places, which would be compiled for each of them. exact :
    see `exact_row`.
    """

    def compiled(function: Callable) -> Any:
        dispatcher = njit(fastmath={} if exact else FAST, error_model="numpy", forceinline=inline)(function)
        identify = getattr(dispatcher, "_set_uuid", None)  # not of Numba's public interface: nothing but speed needs it
        if identify is not None:
            identify(f"{function.__module__}.{function.__qualname__}{key}")
        return dispatcher

    return compiled
