"""Generation of the machine code of parallel kernels once instead of four times.

Numba compiles a kernel with a parallel loop as four libraries, each of which contains the preceding one: the body of
the loop, two functions that call it, and the kernel. It generates machine code for each of them, but only that of the
last library is stored and executed. For kernels with many arrays this is most of the compile time, since LLVM's
optimization of addresses (loop strength reduction) takes seconds for each loop. Without that optimization kernels of
finite differences are slower by a factor of 1.7, so it must not be disabled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.cpu import CPUContext
from numba.core.dispatcher import Dispatcher

# Parts of the names of the first three libraries.
INNER_LIBRARIES = ("__numba_parfor_gufunc", "_GufuncWrapper", "parallelgufuncwrapper")


def generated_once(dispatcher: Dispatcher) -> None:
    """Generate machine code of this parallel kernel only for the library that contains all others.

    The functions replaced here do not belong to the public interface of Numba. If a version lacks one of them, or if
    its libraries have other names, nothing changes except the compile time.
    """
    compiler = getattr(dispatcher, "_compiler", None)
    compile_core = getattr(compiler, "_compile_core", None)
    if compile_core is None or not all(
        (hasattr(JITCodeLibrary, "_finalize_final_module"), hasattr(CPUContext, "get_executable"))
    ):
        return

    def compile_once(arguments: Any, return_type: Any) -> Any:
        with _inner_libraries_without_machine_code():
            return compile_core(arguments, return_type)

    compiler._compile_core = compile_once


@contextmanager
def _inner_libraries_without_machine_code() -> Iterator[None]:
    """In this context, which Numba's lock of the compiler protects, inner libraries are optimized and linked, but not
    passed to the execution engine."""
    finalize, executable = JITCodeLibrary._finalize_final_module, CPUContext.get_executable

    def finalize_outer(library: Any) -> None:
        if _is_inner(library):
            library._finalized = True
        else:
            finalize(library)

    def executable_of_outer(context: Any, library: Any, *description: Any) -> Callable | None:
        return None if _is_inner(library) else executable(context, library, *description)

    JITCodeLibrary._finalize_final_module = finalize_outer
    CPUContext.get_executable = executable_of_outer
    try:
        yield
    finally:
        JITCodeLibrary._finalize_final_module = finalize
        CPUContext.get_executable = executable


def _is_inner(library: Any) -> bool:
    return any(name in library.name for name in INNER_LIBRARIES)
