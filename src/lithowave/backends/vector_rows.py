"""Small sparse matrices times many vectors on the CPU: unrolled code with the entries as literals.

A matrix acts on rows of numbers, one for each of `lanes` elements side by side. What a compiler does not make of loops
over lists of entries it gets here as vector instructions: the sum of a row of the matrix stays in registers, its zeros
cost nothing, and an entry is loaded once for `together` rows of numbers that lie behind each other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


def matrix_rows(
    matrix: np.ndarray, lanes: int, stride: int, together: int, adding: bool = False
) -> Callable[..., Any]:
    """A function ``rows(out, o, x, i)`` for use within compiled functions, where ``out`` and ``x`` are flat arrays.

    For every row r of the matrix, g < together and w < lanes:
    out[o + r stride + g lanes + w] = sum over c of matrix[r, c] x[i + c stride + g lanes + w], added to what is there
    if `adding`. The arrays must not overlap; no index is checked.
    """
    content = [np.ascontiguousarray(matrix).tobytes(), repr((matrix.shape, lanes, stride, together, adding)).encode()]
    identity = hashlib.sha256(b"".join(content)).hexdigest()[:32]

    def make_code(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        out_type, _, x_type, _ = signature.args
        real = context.get_value_type(out_type.dtype)
        function = _function(builder.module, f"matrix_rows_{identity}_{real}", real, matrix, lanes, stride, together, adding)
        pointers = []
        for n, kind in ((0, out_type), (2, x_type)):
            data = context.make_array(kind)(context, builder, arguments[n]).data
            pointers.append(builder.gep(data, [arguments[n + 1]]))
        builder.call(function, pointers)
        return context.get_dummy_value()

    def typed(_typing: Any, out: Any, o: Any, x: Any, i: Any) -> Any:
        return types.void(out, types.uint64, x, types.uint64), make_code

    made = intrinsic(typed)
    identify = getattr(made, "_set_uuid", None)  # what a cache on disk knows it by: see `loops.row_of`
    if identify is not None:
        identify(f"{__name__}.{identity}")
    return made


def _function(
    module: ir.Module, name: str, real: Any, matrix: np.ndarray, lanes: int, stride: int, together: int, adding: bool
) -> ir.Function:
    """void name(real* out, const real* x), once in a module."""
    if name in module.globals:
        return module.globals[name]
    pointer = real.as_pointer()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [pointer, pointer]), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    function.attributes.add("nounwind")
    for argument in function.args:
        argument.add_attribute("noalias")
    builder = ir.IRBuilder(function.append_basic_block())
    vector = ir.VectorType(real, lanes)
    size = 4 if real == ir.FloatType() else 8
    multiply_add = cgutils.get_or_insert_function(
        module, ir.FunctionType(vector, [vector] * 3), f"llvm.fma.v{lanes}f{8 * size}"
    )

    def place(base: Any, row: int, group: int) -> Any:
        at = builder.gep(base, [ir.Constant(ir.IntType(64), row * stride + group * lanes)])
        return builder.bitcast(at, vector.as_pointer())

    out, x = function.args
    for r, row in enumerate(matrix):
        columns = np.flatnonzero(row)
        if adding and not len(columns):
            continue
        sums = [ir.Constant(vector, [0.0] * lanes)] * together
        if adding:
            sums = [builder.load(place(out, r, g), align=size) for g in range(together)]
        for column in columns.tolist():
            literal = ir.Constant(vector, [ir.Constant(real, float(row[column]))] * lanes)
            for g in range(together):
                term = builder.load(place(x, column, g), align=size)
                sums[g] = builder.call(multiply_add, [literal, term, sums[g]])
        for g in range(together):
            builder.store(sums[g], place(out, r, g), align=size)
    builder.ret_void()
    return function
