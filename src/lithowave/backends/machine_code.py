"""Compilation of kernels without the machine code that is never executed.

Numba compiles a kernel with a parallel loop as four libraries, each of which contains the preceding one: the body of
the loop, two functions that call it, and the kernel. It generates machine code for each of them, but only that of the
last library is stored and executed. For kernels with many arrays this is most of the compile time, since LLVM's
optimization of addresses (loop strength reduction) takes seconds for each loop. Without that optimization kernels of
finite differences are slower by a factor of 1.7, so it must not be disabled.

Numba also generates machine code, and functions that convert arguments from Python, for each function that a kernel
calls, although the kernel contains its own copy. The optimized code that is linked into the kernel does not depend on
them. The garbage collector, which the many objects of the compiler would start again and again, waits until the kernel
is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numba
from numba.core.codegen import JITCodeLibrary
from numba.core.cpu import CPUContext
from numba.core.dispatcher import Dispatcher

from lithowave.garbage import no_collection

# Parts of the names of the first three libraries.
INNER_LIBRARIES = ("__numba_parfor_gufunc", "_GufuncWrapper", "parallelgufuncwrapper")
REPLACED = (
    (JITCodeLibrary, "_finalize_final_module"), (CPUContext, "get_executable"), (CPUContext, "create_cpython_wrapper"),
    (CPUContext, "create_cfunc_wrapper"),
)  # fmt: skip

# Functions that Numba compiles now, each for the preceding one, and whether their machine code is stored.
_compiled: list[tuple[Dispatcher, bool]] = []


class PartOfKernels:
    """The entry point of a function that has been compiled as part of a kernel. Numba distinguishes functions by it.

    A call from Python compiles the function again, with machine code.
    """

    def __init__(self, function: Dispatcher) -> None:
        self.function = function

    @cached_property
    def _separate(self) -> Dispatcher:
        return numba.jit(**self.function.targetoptions)(self.function.py_func)

    def __call__(self, *arguments: Any) -> Any:
        """Call the function from Python."""
        return self._separate(*arguments)


def generated_once(dispatcher: Dispatcher, stored: bool) -> None:
    """Generate machine code of this function only for the library that contains all others.

    The functions replaced here do not belong to the public interface of Numba. If a version lacks one of them, or if
    its libraries have other names, nothing changes except the compile time.

    Parameters
    ----------
    dispatcher : a kernel, or a function that kernels call. stored : True if its machine code is stored on disk.
    """
    compiler = getattr(dispatcher, "_compiler", None)
    compile_core, insert = getattr(compiler, "_compile_core", None), getattr(dispatcher, "add_overload", None)
    if compile_core is None or insert is None or not all(hasattr(owner, name) for owner, name in REPLACED):
        return

    def compile_once(arguments: Any, return_type: Any) -> Any:
        with _inner_libraries_without_machine_code(), no_collection():
            _compiled.append((dispatcher, stored))
            try:
                return compile_core(arguments, return_type)
            finally:
                _compiled.pop()

    def insert_executable(result: Any) -> None:
        if isinstance(result.entry_point, PartOfKernels):
            dispatcher.overloads[tuple(result.signature.args)] = result
        else:
            insert(result)

    compiler._compile_core = compile_once
    if not stored:
        dispatcher.add_overload = insert_executable


@contextmanager
def _inner_libraries_without_machine_code() -> Iterator[None]:
    """In this context, which Numba's lock of the compiler protects, inner libraries are optimized and linked, but not
    passed to the execution engine."""
    if _compiled:  # for another function
        yield
        return
    before = {(owner, name): getattr(owner, name) for owner, name in REPLACED}
    finalize, executable, *_ = before.values()

    def finalize_outer(library: Any) -> None:
        if _is_inner(library) or getattr(library, "is_part_of_kernels", False):
            library._finalized = True
        else:
            finalize(library)

    def executable_of_outer(context: Any, library: Any, *description: Any) -> Any:
        if _is_part(library):
            library.is_part_of_kernels = True  # it is optimized later, when it is linked into a kernel
            return PartOfKernels(_compiled[-1][0])
        return None if _is_inner(library) else executable(context, library, *description)

    def of_outer(create: Callable[..., None]) -> Callable[..., None]:
        def create_for_outer(context: Any, library: Any, *description: Any, **options: Any) -> None:
            if not _is_part(library):
                create(context, library, *description, **options)

        return create_for_outer

    replacements = (finalize_outer, executable_of_outer, *(of_outer(before[key]) for key in REPLACED[2:]))
    for (owner, name), replacement in zip(REPLACED, replacements, strict=True):
        setattr(owner, name, replacement)
    try:
        yield
    finally:
        for (owner, name), function in before.items():
            setattr(owner, name, function)


def _is_inner(library: Any) -> bool:
    return any(name in library.name for name in INNER_LIBRARIES)


def _is_part(library: Any) -> bool:
    """True for the library of a function that is compiled for a kernel and is not stored."""
    function, stored = _compiled[-1]
    return len(_compiled) > 1 and not stored and library.name == function.py_func.__qualname__
