"""Products of small sparse matrices and many vectors on the CPU, in vector instructions.

A matrix acts on rows of `together` vectors of `lanes` elements, side by side. Unlike compiled loops over lists of
entries, the sums of a matrix row stay in registers until they are complete, and an entry is loaded once for all
vectors of a row. Zeros cost nothing.
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

INDEX = ir.IntType(64)


def matrix_rows(
    matrix: np.ndarray, lanes: int, stride: int, together: int, adding: bool = False
) -> Callable[..., Any]:
    """Return a function ``rows(out, o, x, i)`` for compiled functions, where ``out`` and ``x`` are flat arrays.

    For every row r of the matrix, g < together and w < lanes:
    out[o + r stride + g lanes + w] = sum over c of matrix[r, c] x[i + c stride + g lanes + w], added to the previous
    value if `adding`. The arrays must not overlap; indices are not checked.
    """
    content = [np.ascontiguousarray(matrix).tobytes(), repr((matrix.shape, lanes, stride, together, adding)).encode()]
    identity = hashlib.sha256(b"".join(content)).hexdigest()[:32]

    def make_code(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        out_type, _, x_type, _ = signature.args
        real = context.get_value_type(out_type.dtype)
        function = _Rows(builder.module, real, matrix, lanes, stride, together, adding).function(identity)
        pointers = []
        for n, kind in ((0, out_type), (2, x_type)):
            data = context.make_array(kind)(context, builder, arguments[n]).data
            pointers.append(builder.gep(data, [arguments[n + 1]]))
        builder.call(function, pointers)
        return context.get_dummy_value()

    def typed(_typing: Any, out: Any, o: Any, x: Any, i: Any) -> Any:
        return types.void(out, types.uint64, x, types.uint64), make_code

    return intrinsic(typed)


class _Rows:
    """Function void (real* out, const real* x) of a matrix."""

    def __init__(
        self, module: ir.Module, real: Any, matrix: np.ndarray, lanes: int, stride: int, together: int, adding: bool
    ) -> None:
        self.module, self.real, self.matrix = module, real, matrix
        self.lanes, self.stride, self.together, self.adding = lanes, stride, together, adding
        self.size = 4 if real == ir.FloatType() else 8
        self.vector = ir.VectorType(real, lanes)

    def function(self, identity: str) -> ir.Function:
        """Return the function, created once per module."""
        name = f"matrix_rows_{identity}_{self.real}"
        if name in self.module.globals:
            return self.module.globals[name]
        pointer = self.real.as_pointer()
        made = ir.Function(self.module, ir.FunctionType(ir.VoidType(), [pointer, pointer]), name)
        made.linkage = "internal"
        for attribute in ("noinline", "nounwind"):
            made.attributes.add(attribute)
        for argument in made.args:
            argument.add_attribute("noalias")
        self.multiply_add = cgutils.get_or_insert_function(
            self.module, ir.FunctionType(self.vector, [self.vector] * 3), f"llvm.fma.v{self.lanes}f{8 * self.size}"
        )
        rows, columns = np.nonzero(self.matrix)
        begins = np.searchsorted(rows, np.arange(len(self.matrix) + 1))
        self.begins = self._table(f"{name}_begin", INDEX, begins.tolist())
        self.columns = self._table(f"{name}_column", INDEX, (columns * self.stride).tolist())
        self.values = self._table(f"{name}_value", self.real, self.matrix[rows, columns].tolist())
        self._loop_over_rows(made)
        return made

    def _table(self, name: str, kind: Any, values: list) -> ir.GlobalVariable:
        table = ir.GlobalVariable(self.module, ir.ArrayType(kind, len(values)), name)
        table.initializer = ir.Constant(table.value_type, [ir.Constant(kind, value) for value in values])
        table.global_constant, table.linkage = True, "internal"
        return table

    def _entry(self, builder: ir.IRBuilder, table: Any, n: Any) -> Any:
        return builder.load(builder.gep(table, [ir.Constant(INDEX, 0), n]))

    def _vectors(self, builder: ir.IRBuilder, base: Any, at: Any) -> list[Any]:
        starts = [builder.add(at, ir.Constant(INDEX, g * self.lanes)) for g in range(self.together)]
        return [builder.bitcast(builder.gep(base, [start]), self.vector.as_pointer()) for start in starts]

    def _loop_over_rows(self, function: ir.Function) -> None:
        builder = ir.IRBuilder(function.append_basic_block("entry"))
        out, x = function.args
        row, finish = function.append_basic_block("row"), function.append_basic_block("finish")
        start, one = builder.block, ir.Constant(INDEX, 1)
        builder.branch(row)
        builder.position_at_end(row)
        r = builder.phi(INDEX)
        r.add_incoming(ir.Constant(INDEX, 0), start)
        places = self._vectors(builder, out, builder.mul(r, ir.Constant(INDEX, self.stride)))
        zero = ir.Constant(self.vector, [0.0] * self.lanes)
        sums = [builder.load(place, align=self.size) if self.adding else zero for place in places]
        begin, end = self._entry(builder, self.begins, r), self._entry(builder, self.begins, builder.add(r, one))
        sums = self._loop_over_entries(builder, function, x, begin, end, sums)
        for place, total in zip(places, sums, strict=True):
            builder.store(total, place, align=self.size)
        following = builder.add(r, one)
        r.add_incoming(following, builder.block)
        builder.cbranch(builder.icmp_unsigned("<", following, ir.Constant(INDEX, len(self.matrix))), row, finish)
        builder.position_at_end(finish)
        builder.ret_void()

    def _loop_over_entries(
        self, builder: ir.IRBuilder, function: ir.Function, x: Any, begin: Any, end: Any, sums: list[Any]
    ) -> list[Any]:
        """Return the sums with all entries of a row; leave the builder after the loop."""
        before = builder.block
        entry, behind = function.append_basic_block("entry_of_row"), function.append_basic_block("behind")
        builder.cbranch(builder.icmp_unsigned("<", begin, end), entry, behind)
        builder.position_at_end(entry)
        n = builder.phi(INDEX)
        n.add_incoming(begin, before)
        running = [builder.phi(self.vector) for _ in sums]
        value = self._entry(builder, self.values, n)
        single = builder.insert_element(ir.Constant(self.vector, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
        mask = ir.Constant(ir.VectorType(ir.IntType(32), self.lanes), [0] * self.lanes)
        spread = builder.shuffle_vector(single, ir.Constant(self.vector, ir.Undefined), mask)
        terms = self._vectors(builder, x, self._entry(builder, self.columns, n))
        added = [
            builder.call(self.multiply_add, [spread, builder.load(term, align=self.size), total])
            for term, total in zip(terms, running, strict=True)
        ]
        following = builder.add(n, ir.Constant(INDEX, 1))
        n.add_incoming(following, entry)
        for phi, start, more in zip(running, sums, added, strict=True):
            phi.add_incoming(start, before)
            phi.add_incoming(more, entry)
        builder.cbranch(builder.icmp_unsigned("<", following, end), entry, behind)
        builder.position_at_end(behind)
        results = []
        for start, more in zip(sums, added, strict=True):
            phi = builder.phi(self.vector)
            phi.add_incoming(start, before)
            phi.add_incoming(more, entry)
            results.append(phi)
        return results
