"""Flush-to-zero on x86-64: ahead of a wave front values decay through denormal numbers, which slow processors down.

A time step of a wave front then takes two to three times as long. The bits FTZ and DAZ of the control register MXCSR
replace such numbers by zero. They are set at the beginning of a kernel's task and restored at its end, since NumPy and
other libraries in the same thread expect the default arithmetic. On other processors both functions do nothing.
"""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numba.core.base import BaseContext
    from numba.core.typing.context import Context
    from numba.core.typing.templates import Signature

    Typed = tuple[Signature, Callable[..., ir.Value]]  # what a function that generates code returns to Numba

FLUSH_BITS = 0x8040  # FTZ (bit 15) and DAZ (bit 6)
ON_X86 = platform.machine().lower() in ("x86_64", "amd64")


def _control_register(builder: ir.IRBuilder, name: str, place: ir.Value) -> None:
    """Call llvm.x86.sse.stmxcsr or ldmxcsr with the address of a 32-bit word."""
    pointer = ir.PointerType(ir.IntType(8))
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(ir.VoidType(), [pointer]), f"llvm.x86.sse.{name}"
    )
    builder.call(function, [builder.bitcast(place, pointer)])


@intrinsic
def flush_denormals(_context: Context) -> Typed:
    """Treat denormal numbers as zero from now on in this thread; return the register's previous value."""

    def generate(
        _context: BaseContext, builder: ir.IRBuilder, _signature: Signature, _arguments: Sequence[ir.Value]
    ) -> ir.Value:
        word = ir.IntType(32)
        place = cgutils.alloca_once(builder, word)
        if not ON_X86:
            return ir.Constant(word, 0)
        _control_register(builder, "stmxcsr", place)
        before = builder.load(place)
        builder.store(builder.or_(before, ir.Constant(word, FLUSH_BITS)), place)
        _control_register(builder, "ldmxcsr", place)
        return before

    return types.uint32(), generate


@intrinsic
def restore_rounding(_context: Context, before: types.Type) -> Typed:
    """Restore the register value that `flush_denormals` returned."""

    def generate(
        _context: BaseContext, builder: ir.IRBuilder, _signature: Signature, arguments: Sequence[ir.Value]
    ) -> ir.Value:
        if ON_X86:
            place = cgutils.alloca_once(builder, ir.IntType(32))
            builder.store(arguments[0], place)
            _control_register(builder, "ldmxcsr", place)
        return cgutils.get_null_value(ir.IntType(8).as_pointer())

    return types.void(types.uint32), generate
