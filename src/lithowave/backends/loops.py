"""Compilation of CPU kernels, and threads for the preparation of a run on the host.

The options of Numba here make loops over arrays as fast as those of C. Three conditions let Numba vectorize loops:
every index and offset is unsigned (no wraparound test), errors follow NumPy (no test for division by zero), and
functions with loops are always inlined into the parallel kernel, where the compiler knows that its arrays do not
overlap.

`over_parts` calls functions for parts of arrays in threads. The threads are those of the CPU kernels. NumPy releases
the interpreter lock in its loops. Parts do not depend on the number of threads, so that results are bitwise identical
for any number. A function for parts must not call a Numba kernel that is itself parallel. Products of matrices take one
thread each: the threads of a BLAS library would compete with those of the parts, and took ten times the processor time
on 16 cores.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import copy_context
from functools import cache
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from llvmlite import ir
from numba import get_num_threads, types
from numba.extending import intrinsic, overload

from lithowave.backends.kernel_cache import njit

if TYPE_CHECKING:
    from numba.core.base import BaseContext
    from numba.core.typing.context import Context
    from numba.core.typing.templates import Signature
    from threadpoolctl import ThreadpoolController

    from lithowave.backends.rounding import Typed

U = np.uint64
# All options except the assumption that infinities and NaN never occur, since instability checks must detect them. A
# dictionary, unlike a set, has the same order in every process.
FAST = dict.fromkeys(("contract", "reassoc", "nsz", "arcp"), True)
parallel = njit(fastmath=FAST, error_model="numpy", cache=True, parallel=True)
# Without these options every operation is rounded separately, as IEEE 754 prescribes, so that the vector loop, its
# remainder and a loop that begins at another point of a row give bitwise identical results. Products and sums to fuse
# must then be specified explicitly: see `multiply_add`.
exact_parallel = njit(error_model="numpy", cache=True, parallel=True)
# Loops over a part of the data, which `loops.over_parts` calls in several threads. They compile faster.
exact_part = njit(error_model="numpy", cache=True, nogil=True)
# Functions with loops that are always inlined into kernels. `exact_row` sets `fastmath` explicitly: Numba compiles
# a function without this option with that of the function that calls it.
row = njit(fastmath=FAST, error_model="numpy", forceinline=True)
exact_row = njit(fastmath={}, error_model="numpy", forceinline=True)
# Long code that is called at several locations, which would be compiled for each of them.
shared_row = njit(fastmath=FAST, error_model="numpy")


@intrinsic
def multiply_add(_context: Context, a: types.Type, b: types.Type, c: types.Type) -> Typed | None:
    """Return a * b + c, with one rounding on processors that fuse the two operations and two on others.

    Vector loops and their remainders use the same instruction. a, b, c : of one floating-point type.
    """
    if not (isinstance(a, types.Float) and a == b == c):
        return None

    def generate(
        _context: BaseContext, builder: ir.IRBuilder, _signature: Signature, arguments: Sequence[ir.Value]
    ) -> ir.Value:
        real = arguments[0].type
        function = builder.module.declare_intrinsic("llvm.fmuladd", [real], ir.FunctionType(real, [real] * 3))
        return builder.call(function, arguments)

    return a(a, b, c), generate


def array_count(values: Sequence[object]) -> int:
    """Return the number of arrays in a tuple, or in the type of a tuple."""
    return sum(getattr(value, "ndim", 0) > 0 for value in values)


def chosen_row(argument: str, bodies: dict[int, Callable]) -> Callable:
    """Return a function for kernels that is compiled as `exact_row` from the body for the arrays in a tuple.

    Parameters
    ----------
    argument : name of the argument that is a tuple. bodies : function by the number of arrays in the tuple; all have
    the same parameters.
    """
    first = next(iter(bodies.values()))
    place = first.__code__.co_varnames.index(argument)

    def stub(*arguments: Sequence[object]) -> object:
        return bodies[array_count(arguments[place])](*arguments)

    stub.__name__ = stub.__qualname__ = first.__name__
    options = {"fastmath": {}, "error_model": "numpy", "forceinline": True}

    @overload(stub, jit_options=options, strict=False)
    def choose(*arguments: Sequence[object]) -> Callable:
        return bodies[array_count(arguments[place])]

    return stub


T = TypeVar("T")
here = threading.local()  # is_worker : set in the threads of a pool


def over_parts(function: Callable[[slice], T], count: int, size: int, threads: int | None = None) -> list[T]:
    """Return the results of a function for the slices of at most `size` items of `count`, in order; no slice if count
    is 0.

    threads : number of threads; default: those of the CPU kernels. The error of the first part that fails is raised.
    """
    return list(parts_in_order(function, count, size, threads))


def parts_in_order(function: Callable[[slice], T], count: int, size: int, threads: int | None = None) -> Iterator[T]:
    """Yield the results of `over_parts`, while later parts are computed; at most two for each thread are in memory."""
    parts = [slice(first, min(first + size, count)) for first in range(0, count, size)]
    workers = threads or get_num_threads()
    if min(workers, len(parts)) < 2 or getattr(here, "is_worker", False):  # or they could wait for each other
        yield from map(function, parts)
        return
    waiting: deque[Future[T]] = deque()
    with blas_in_one_thread():
        try:
            for part in parts:
                if len(waiting) >= 2 * workers:
                    yield waiting.popleft().result()
                # Each part has the warning filters and error states of NumPy of the caller.
                waiting.append(pool(workers).submit(copy_context().run, function, part))
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
            wait(waiting)


class _BlasUsers:
    """Number of callers that need BLAS in one thread, and the function that ends it for the last one."""

    lock, count, end = threading.Lock(), 0, staticmethod(lambda: None)


@contextmanager
def blas_in_one_thread() -> Iterator[None]:
    """Let the libraries BLAS that are loaded use one thread for the enclosed work."""
    users = _BlasUsers
    with users.lock:
        if users.count == 0:
            users.end = _blas_libraries("scipy.linalg" in sys.modules).limit(limits=1).restore_original_limits
        users.count += 1
    try:
        yield
    finally:
        with users.lock:
            users.count -= 1
            if users.count == 0:
                users.end()


@cache
def _blas_libraries(_loaded: bool) -> ThreadpoolController:
    """Return the controller of the libraries BLAS of NumPy and, once it is loaded, of SciPy."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


@cache
def pool(workers: int) -> ThreadPoolExecutor:
    """Return a pool of threads, which remain: starting them takes longer than many parts."""
    return ThreadPoolExecutor(workers, "lithowave part", initializer=lambda: setattr(here, "is_worker", True))


os.register_at_fork(after_in_child=pool.cache_clear)  # the child has none of the threads
