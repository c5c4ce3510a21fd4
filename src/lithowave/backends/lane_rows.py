"""Transposition between values of elements and rows of lanes, in vector instructions, and prefetching.

A row has one value of each of `lanes` elements side by side. The values of an element are contiguous, anywhere in
memory: they are moved 16 bytes at a time and transposed in registers, which takes a fraction of the instructions of a
loop over single values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

CHUNK = 16  # bytes that are moved at a time: the unit of the shuffle instructions of x86-64
INDEX, BYTE, FLAG = ir.IntType(64), ir.IntType(8), ir.IntType(32)


@intrinsic
def address(_context: Any, array: Any, index: Any) -> Any:
    """Return the address of an entry of a flat array."""

    def make_code(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return builder.ptrtoint(builder.gep(data, [arguments[1]]), INDEX)

    return types.uint64(array, types.uint64), make_code


@intrinsic
def prefetch(_context: Any, place: Any) -> Any:
    """Load the cache line at an address into the second-level cache."""

    def make_code(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], BYTE.as_pointer())
        kinds = [BYTE.as_pointer(), FLAG, FLAG, FLAG]
        function = builder.module.declare_intrinsic(
            "llvm.prefetch", [kinds[0]], ir.FunctionType(ir.VoidType(), kinds)
        )
        read, second_level, data = (ir.Constant(FLAG, value) for value in (0, 2, 1))
        builder.call(function, [pointer, read, second_level, data])
        return context.get_dummy_value()

    return types.void(types.uint64), make_code


def lane_rows(lanes: int, count: int, stride: int | None = None) -> tuple[Callable[..., Any], ...]:
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

    def function(name: str) -> Any:
        def typed(_typing: Any, rows: Any, first: Any, places: Any, offset: Any) -> Any:
            def make_code(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
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

    def __init__(self, module: ir.Module, real: Any, lanes: int, count: int, stride: int) -> None:
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

    def _fill(self, name: str, rows: Any, places: Any, offset: Any) -> None:
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

    def _shuffle(self, a: Any, b: Any, order: list[int]) -> Any:
        mask = ir.Constant(ir.VectorType(FLAG, len(order)), order)
        return self.builder.shuffle_vector(a, b, mask)

    def _joined(self, chunks: list[Any]) -> list[Any]:
        """Return vectors 0 <= a < width: the chunks of the lanes a, a + width, a + 2 width, ...."""
        parts = [chunks[a :: self.width] for a in range(self.width)]
        while len(parts[0]) > 1:
            size = parts[0][0].type.count * 2
            parts = [
                [self._shuffle(one, two, list(range(size))) for one, two in zip(part[::2], part[1::2], strict=True)]
                for part in parts
            ]
        return [part[0] for part in parts]

    def _split(self, vectors: list[Any]) -> list[Any]:
        """Invert `_joined`."""
        width = self.width
        return [
            self._shuffle(vectors[w % width], vectors[w % width], [w - w % width + n for n in range(width)])
            for w in range(self.lanes)
        ]

    def _transposed(self, vectors: list[Any]) -> list[Any]:
        """Transpose the square matrices in the chunks of `width` vectors: its own inverse."""
        half = self.width // 2
        low = [n // self.width * self.width + n % self.width // 2 for n in range(self.lanes)]
        low = [n + (self.lanes if place % 2 else 0) for place, n in enumerate(low)]
        high = [n + half for n in low]
        for _ in range(half.bit_length()):
            pairs = zip(vectors[:half], vectors[half:], strict=True)
            vectors = [self._shuffle(a, b, order) for a, b in pairs for order in (low, high)]
        return vectors
