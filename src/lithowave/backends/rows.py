"""Functions of CPU kernels over rows of vectors, whose vector instructions are generated here.

`lane_rows` transposes between values of elements and rows of lanes, `matrix_rows` multiplies small sparse matrices and
many vectors, and `prefetch` loads cache lines ahead.

A row of lanes has one value of each of `lanes` elements side by side. The values of an element are contiguous, anywhere
in memory: they are moved 16 bytes at a time and transposed in registers, which takes a fraction of the instructions of
a loop over single values.

A matrix acts on rows of `together` vectors of `lanes` elements, side by side. Unlike compiled loops over lists of
entries, the sums of a matrix row stay in registers until they are complete, and an entry is loaded once for all
vectors of a row. Zeros cost nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

if TYPE_CHECKING:
    from numba.core.base import BaseContext
    from numba.core.typing.context import Context
    from numba.core.typing.templates import Signature

    from lithowave.backends.rounding import Typed

CHUNK = 16  # bytes that are moved at a time: the unit of the shuffle instructions of x86-64
INDEX, BYTE, FLAG = ir.IntType(64), ir.IntType(8), ir.IntType(32)


@intrinsic
def address(_context: Context, array: types.Array, index: types.Type) -> Typed:
    """Return the address of an entry of a flat array."""

    def make_code(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Sequence[ir.Value]
    ) -> ir.Value:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return builder.ptrtoint(builder.gep(data, [arguments[1]]), INDEX)

    return types.uint64(array, types.uint64), make_code


@intrinsic
def prefetch(_context: Context, place: types.Type) -> Typed:
    """Load the cache line at an address into the second-level cache."""

    def make_code(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Sequence[ir.Value]
    ) -> ir.Value:
        pointer = builder.inttoptr(arguments[0], BYTE.as_pointer())
        kinds = [BYTE.as_pointer(), FLAG, FLAG, FLAG]
        function = builder.module.declare_intrinsic("llvm.prefetch", [kinds[0]], ir.FunctionType(ir.VoidType(), kinds))
        read, second_level, data = (ir.Constant(FLAG, value) for value in (0, 2, 1))
        builder.call(function, [pointer, read, second_level, data])
        return context.get_dummy_value()

    return types.void(types.uint64), make_code


def lane_rows(lanes: int, count: int, stride: int | None = None) -> tuple[Callable[..., object], ...]:
    """Return the functions ``gather(out, o, places, offset)``, ``scatter(x, i, places, offset)`` and ``accumulate``,
    with the arguments of `scatter`, for kernels.

    places : addresses of the values of the elements, (lanes,). offset : of value 0 behind the addresses, in values.
    stride : of the rows; default: `lanes`. For m < count and w < lanes, in multiples of 16 bytes,
    gather : out[o + m stride + w] = value m of element w; scatter : value m of element w = x[i + m stride + w];
    accumulate : this is added to the value, one element after the other, so that several may have the same address.
    The values up to the next multiple of 16 bytes must exist; they are read, and set to zero or left unchanged. Rows
    and values must not overlap; indices are not checked.
    """
    sizes = lanes, count, lanes if stride is None else stride

    def function(name: str) -> Callable[..., object]:
        def typed(
            _context: Context, rows: types.Array, first: types.Type, places: types.Array, offset: types.Type
        ) -> Typed:
            def make_code(
                context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Sequence[ir.Value]
            ) -> ir.Value:
                pointers = []
                for kind, array, index in zip(signature.args[::2], arguments[::2], (arguments[1], None), strict=True):
                    data = context.make_array(kind)(context, builder, array).data
                    pointers.append(data if index is None else builder.gep(data, [index]))
                real = context.get_value_type(signature.args[0].dtype)
                builder.call(_Transposition(builder.module, real, *sizes).function(name), [*pointers, arguments[3]])
                return context.get_dummy_value()

            return types.void(rows, types.uint64, places, types.uint64), make_code

        return intrinsic(typed)

    return function("gather"), function("scatter"), function("accumulate")


class _Transposition:
    """Functions void (real* rows, const i64* places, i64 offset)."""

    def __init__(self, module: ir.Module, real: ir.Type, lanes: int, count: int, stride: int) -> None:
        self.module, self.real, self.lanes, self.count, self.stride = module, real, lanes, count, stride
        self.size = 4 if real == ir.FloatType() else 8
        self.width = CHUNK // self.size
        self.chunk, self.vector = ir.VectorType(real, self.width), ir.VectorType(real, lanes)

    def function(self, name: str) -> ir.Function:
        """Return a function, created once per module."""
        full = f"{name}_rows_{self.lanes}_{self.count}_{self.stride}_{self.real}"
        if full in self.module.globals:
            return self.module.globals[full]
        kinds = [self.real.as_pointer(), INDEX.as_pointer(), INDEX]
        made = ir.Function(self.module, ir.FunctionType(ir.VoidType(), kinds), full)
        made.linkage = "internal"
        for attribute in ("noinline", "nounwind"):
            made.attributes.add(attribute)
        for argument in made.args[:2]:
            argument.add_attribute("noalias")
        self.builder = ir.IRBuilder(made.append_basic_block("entry"))
        self._fill(name, *made.args)
        self.builder.ret_void()
        return made

    def _fill(self, name: str, rows: ir.Value, places: ir.Value, offset: ir.Value) -> None:
        builder, shift = self.builder, self.builder.mul(offset, ir.Constant(INDEX, self.size))
        bases = []
        for w in range(self.lanes):
            place = builder.load(builder.gep(places, [ir.Constant(INDEX, w)]))
            bases.append(builder.add(place, shift))
        for first in range(0, self.count, self.width):
            begin = ir.Constant(INDEX, first * self.size)
            chunks = [builder.inttoptr(builder.add(base, begin), self.chunk.as_pointer()) for base in bases]
            present = range(first, min(first + self.width, self.count))
            ends = [builder.gep(rows, [ir.Constant(INDEX, m * self.stride)]) for m in present]
            vectors = [builder.bitcast(end, self.vector.as_pointer()) for end in ends]
            if name == "gather":
                loaded = [builder.load(chunk, align=self.size) for chunk in chunks]
                for vector, value in zip(vectors, self._transposed(self._joined(loaded)), strict=False):
                    builder.store(value, vector, align=self.size)
                continue
            loaded = [builder.load(vector, align=self.size) for vector in vectors]
            loaded += [ir.Constant(self.vector, [0.0] * self.lanes)] * (self.width - len(loaded))
            for chunk, value in zip(chunks, self._split(self._transposed(loaded)), strict=True):
                if name == "accumulate":
                    value = builder.fadd(builder.load(chunk, align=self.size), value)
                builder.store(value, chunk, align=self.size)

    def _shuffle(self, a: ir.Value, b: ir.Value, order: list[int]) -> ir.Value:
        mask = ir.Constant(ir.VectorType(FLAG, len(order)), order)
        return self.builder.shuffle_vector(a, b, mask)

    def _joined(self, chunks: list[ir.Value]) -> list[ir.Value]:
        """Return vectors 0 <= a < width: the chunks of the lanes a, a + width, a + 2 width, ...."""
        parts = [chunks[a :: self.width] for a in range(self.width)]
        while len(parts[0]) > 1:
            size = parts[0][0].type.count * 2
            parts = [
                [self._shuffle(one, two, list(range(size))) for one, two in zip(part[::2], part[1::2], strict=True)]
                for part in parts
            ]
        return [part[0] for part in parts]

    def _split(self, vectors: list[ir.Value]) -> list[ir.Value]:
        """Invert `_joined`."""
        width = self.width
        return [
            self._shuffle(vectors[w % width], vectors[w % width], [w - w % width + n for n in range(width)])
            for w in range(self.lanes)
        ]

    def _transposed(self, vectors: list[ir.Value]) -> list[ir.Value]:
        """Transpose the square matrices in the chunks of `width` vectors: its own inverse."""
        half = self.width // 2
        low = [n // self.width * self.width + n % self.width // 2 for n in range(self.lanes)]
        low = [n + (self.lanes if place % 2 else 0) for place, n in enumerate(low)]
        high = [n + half for n in low]
        for _ in range(half.bit_length()):
            pairs = zip(vectors[:half], vectors[half:], strict=True)
            vectors = [self._shuffle(a, b, order) for a, b in pairs for order in (low, high)]
        return vectors


ROW_INDEX = ir.IntType(64)


def matrix_rows(
    matrix: np.ndarray, lanes: int, stride: int, together: int, adding: bool = False
) -> Callable[..., object]:
    """Return a function ``rows(out, o, x, i)`` for compiled functions, where ``out`` and ``x`` are flat arrays.

    For every row r of the matrix, g < together and w < lanes:
    out[o + r stride + g lanes + w] = sum over c of matrix[r, c] x[i + c stride + g lanes + w], added to the previous
    value if `adding`. The arrays must not overlap; indices are not checked.
    """
    content = [np.ascontiguousarray(matrix).tobytes(), repr((matrix.shape, lanes, stride, together, adding)).encode()]
    identity = hashlib.sha256(b"".join(content)).hexdigest()[:32]

    def make_code(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Sequence[ir.Value]
    ) -> ir.Value:
        out_type, _, x_type, _ = signature.args
        real = context.get_value_type(out_type.dtype)
        function = _Rows(builder.module, real, matrix, lanes, stride, together, adding).function(identity)
        pointers = []
        for n, kind in ((0, out_type), (2, x_type)):
            data = context.make_array(kind)(context, builder, arguments[n]).data
            pointers.append(builder.gep(data, [arguments[n + 1]]))
        builder.call(function, pointers)
        return context.get_dummy_value()

    def typed(_context: Context, out: types.Array, o: types.Type, x: types.Array, i: types.Type) -> Typed:
        return types.void(out, types.uint64, x, types.uint64), make_code

    return intrinsic(typed)


class _Rows:
    """Function void (real* out, const real* x) of a matrix."""

    def __init__(
        self, module: ir.Module, real: ir.Type, matrix: np.ndarray, lanes: int, stride: int, together: int, adding: bool
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
        self.begins = self._table(f"{name}_begin", ROW_INDEX, begins.tolist())
        self.columns = self._table(f"{name}_column", ROW_INDEX, (columns * self.stride).tolist())
        self.values = self._table(f"{name}_value", self.real, self.matrix[rows, columns].tolist())
        self._loop_over_rows(made)
        return made

    def _table(self, name: str, kind: ir.Type, values: list) -> ir.GlobalVariable:
        table = ir.GlobalVariable(self.module, ir.ArrayType(kind, len(values)), name)
        table.initializer = ir.Constant(table.value_type, [ir.Constant(kind, value) for value in values])
        table.global_constant, table.linkage = True, "internal"
        return table

    def _entry(self, builder: ir.IRBuilder, table: ir.Value, n: ir.Value) -> ir.Value:
        return builder.load(builder.gep(table, [ir.Constant(ROW_INDEX, 0), n]))

    def _vectors(self, builder: ir.IRBuilder, base: ir.Value, at: ir.Value) -> list[ir.Value]:
        starts = [builder.add(at, ir.Constant(ROW_INDEX, g * self.lanes)) for g in range(self.together)]
        return [builder.bitcast(builder.gep(base, [start]), self.vector.as_pointer()) for start in starts]

    def _loop_over_rows(self, function: ir.Function) -> None:
        builder = ir.IRBuilder(function.append_basic_block("entry"))
        out, x = function.args
        row, finish = function.append_basic_block("row"), function.append_basic_block("finish")
        start, one = builder.block, ir.Constant(ROW_INDEX, 1)
        builder.branch(row)
        builder.position_at_end(row)
        r = builder.phi(ROW_INDEX)
        r.add_incoming(ir.Constant(ROW_INDEX, 0), start)
        places = self._vectors(builder, out, builder.mul(r, ir.Constant(ROW_INDEX, self.stride)))
        zero = ir.Constant(self.vector, [0.0] * self.lanes)
        sums = [builder.load(place, align=self.size) if self.adding else zero for place in places]
        begin, end = self._entry(builder, self.begins, r), self._entry(builder, self.begins, builder.add(r, one))
        sums = self._loop_over_entries(builder, function, x, begin, end, sums)
        for place, total in zip(places, sums, strict=True):
            builder.store(total, place, align=self.size)
        following = builder.add(r, one)
        r.add_incoming(following, builder.block)
        builder.cbranch(builder.icmp_unsigned("<", following, ir.Constant(ROW_INDEX, len(self.matrix))), row, finish)
        builder.position_at_end(finish)
        builder.ret_void()

    def _loop_over_entries(
        self, builder: ir.IRBuilder, function: ir.Function, x: ir.Value, begin: ir.Value, end: ir.Value,
        sums: list[ir.Value],
    ) -> list[ir.Value]:  # fmt: skip
        """Return the sums with all entries of a row; leave the builder after the loop."""
        before = builder.block
        entry, behind = function.append_basic_block("entry_of_row"), function.append_basic_block("behind")
        builder.cbranch(builder.icmp_unsigned("<", begin, end), entry, behind)
        builder.position_at_end(entry)
        n = builder.phi(ROW_INDEX)
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
        following = builder.add(n, ir.Constant(ROW_INDEX, 1))
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
