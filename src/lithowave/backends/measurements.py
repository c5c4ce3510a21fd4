"""Measurements of a CPU: the peak rate of multiply-adds, and the memory bandwidth.

Chains of multiply-adds on vectors in registers, and two loops over arrays much larger than the caches, on all threads.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
from llvmlite import ir
from numba import prange, types
from numba.core import cgutils
from numba.extending import intrinsic

from lithowave.backends.kernel_cache import njit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numba.core.base import BaseContext
    from numba.core.typing.context import Context
    from numba.core.typing.templates import Signature

    from lithowave.backends.rounding import Typed

CHAINS = 12  # concurrent multiply-adds: enough for two units with a latency of four or five cycles
BYTES = 64  # of a vector
STEPS = 2_000_000
REPEATS = 5


@intrinsic
def chains(_context: Context, steps: types.Type, factor: types.Type) -> Typed:
    """Return the sum of `CHAINS` vectors after this number of steps x = x * factor + factor."""

    def make_code(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Sequence[ir.Value]
    ) -> ir.Value:
        real = context.get_value_type(signature.args[1])
        lanes = BYTES // (4 if real == ir.FloatType() else 8)
        vector = ir.VectorType(real, lanes)
        count, factor_value = arguments
        multiply_add = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(vector, [vector] * 3), f"llvm.fma.v{lanes}f{8 * BYTES // lanes}"
        )
        single = builder.insert_element(ir.Constant(vector, ir.Undefined), factor_value, ir.Constant(ir.IntType(32), 0))
        mask = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
        spread = builder.shuffle_vector(single, ir.Constant(vector, ir.Undefined), mask)
        places = [cgutils.alloca_once_value(builder, spread) for _ in range(CHAINS)]
        with cgutils.for_range(builder, count):
            for place in places:
                builder.store(builder.call(multiply_add, [builder.load(place), spread, spread]), place)
        total = builder.load(places[0])
        for place in places[1:]:
            total = builder.fadd(total, builder.load(place))
        return builder.extract_element(total, ir.Constant(ir.IntType(32), 0))

    return factor(types.intp, factor), make_code


@njit(parallel=True)
def spin(out: np.ndarray, steps: int, factor: np.floating) -> None:
    """Run one set of chains for each entry of `out`."""
    for n in prange(out.size):
        out[n] = chains(steps, factor)


def multiply_add_peak(precision: str, threads: int) -> float:
    """Measure the operations per second (a multiply-add is two) of this many threads, the best of `REPEATS`."""
    dtype = np.dtype(np.float32 if precision == "single" else np.float64)
    out, factor = np.zeros(threads, dtype), dtype.type(0.5)
    spin(out, 1, factor)
    best = np.inf
    for _ in range(REPEATS):
        begin = time.perf_counter()
        spin(out, STEPS, factor)
        best = min(best, time.perf_counter() - begin)
    return threads * STEPS * CHAINS * (BYTES // dtype.itemsize) * 2 / best


ELEMENTS = 48_000_000  # of four bytes: arrays much larger than the caches


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
