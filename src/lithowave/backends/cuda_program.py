"""CUDA kernels that are compiled, loaded, and launched with arguments bound by name."""

from __future__ import annotations

import ctypes
import itertools
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from lithowave.backends.cuda_driver import device_errors, kernel_nodes, parameter_sizes
from lithowave.backends.cuda_source import Parameter, bind, kernel_signatures
from lithowave.backends.nvrtc import Defines, compile_source, source_path
from lithowave.errors import KernelBuildError, SelfCheckError
from lithowave.garbage import no_collection

if TYPE_CHECKING:
    from lithowave.backends.cuda import CudaBackend

PLAIN_SHARED_BYTES = 48 * 1024  # a kernel must request more explicitly
SLOT = 16  # bytes to which the storage of each parameter is aligned


class Program:
    """Kernels of one source, compiled with one set of definitions for one device.

    Parameters
    ----------
    backend : the device. package, file : location of the source. defines : preprocessor definitions by name.
    generated : text of generated headers by name.

    Raises
    ------
    KernelBuildError : the source does not compile, or one of its signatures cannot be read.
    """

    def __init__(
        self, backend: CudaBackend, package: str, file: str, defines: Defines, generated: Mapping[str, str]
    ) -> None:
        path = source_path(package, file)
        code = compile_source(path, defines, backend.precision, backend.capability, generated)
        try:
            signatures = kernel_signatures(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise KernelBuildError(f"{path}: {error}") from error
        with device_errors():
            self._module = backend.driver.moduleLoadData(code)
        self._backend = weakref.proxy(backend)  # a proxy, since the backend owns this program
        self._path, self._signatures = path, signatures
        self._kernels: dict[str, _Kernel] = {}

    def launch(
        self,
        name: str,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        arguments: Mapping[str, Any],
        shared_bytes: int = 0,
    ) -> None:
        """Queue a kernel; do nothing if the grid is empty.

        Parameters
        ----------
        name : of the kernel. grid, block : blocks and threads along x, y, z; default: 1. arguments : values by
        parameter name. shared_bytes : dynamic shared memory of a block.

        Raises
        ------
        TypeError : an argument is missing or has the wrong type. KernelBuildError : no such kernel. ResourceError :
        the device rejects the launch, or has failed before.
        """
        kernel = self._kernels.get(name) or self._load(name)
        values = bind(name, kernel.parameters, arguments, self._backend.dtype)
        slots, _storage = kernel.packed(
            [self._passed(name, *pair) for pair in zip(kernel.parameters, values, strict=True)]
        )
        if 0 in grid:
            return
        self._backend.launch_count += 1
        with device_errors():
            kernel.allow(shared_bytes)
            self._backend.driver.launchKernel(
                kernel.function, *_three(grid), *_three(block), shared_bytes, self._backend.stream.ptr,
                ctypes.addressof(slots), 0,
            )  # fmt: skip

    def _load(self, name: str) -> _Kernel:
        if name not in self._signatures:
            known = ", ".join(self._signatures) or "none"
            raise KernelBuildError(f"{self._path} has no kernel {name}; it has: {known}")
        with device_errors():
            function = self._backend.driver.moduleGetFunction(self._module, name)
        self._kernels[name] = _Kernel(name, function, self._signatures[name], self._backend.driver)
        return self._kernels[name]

    def _passed(self, kernel: str, parameter: Parameter, value: Any) -> Any:
        """Return the value for a kernel: the address of an array on the device, numbers and structs unchanged."""
        if not parameter.is_pointer:
            return value
        if not isinstance(value, self._backend.array_type):
            raise TypeError(f"kernel {kernel}: argument {parameter.name} is in main memory; upload it first")
        return np.uint64(value.data.ptr)


class _Kernel:
    """A loaded kernel."""

    def __init__(self, name: str, function: int, parameters: list[Parameter], driver: Any) -> None:
        self.name, self.function, self.parameters = name, function, parameters
        self._driver, self._sizes = driver, parameter_sizes(function)
        self._shared_bytes = PLAIN_SHARED_BYTES

    def packed(self, values: list[Any]) -> tuple[ctypes.Array, Any]:
        """Return the addresses of the values, as cuLaunchKernel requires them, and the storage of the values."""
        parts = [value.tobytes() for value in values]
        if self._sizes is not None and [len(part) for part in parts] != self._sizes:
            self._raise_size_error(parts)
        slots = [part.ljust(-(-len(part) // SLOT) * SLOT, b"\0") for part in parts]
        begins = itertools.accumulate(map(len, slots), initial=0)
        storage = ctypes.create_string_buffer(b"".join(slots))
        base = ctypes.addressof(storage)
        places = [base + begin for begin, _ in zip(begins, slots, strict=False)]
        return (ctypes.c_void_p * len(places))(*places), storage

    def allow(self, shared_bytes: int) -> None:
        """Permit blocks this much dynamic shared memory."""
        if shared_bytes > self._shared_bytes:
            attribute = self._driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._driver.funcSetAttribute(self.function, attribute, shared_bytes)
            self._shared_bytes = shared_bytes

    def _raise_size_error(self, parts: list[bytes]) -> None:
        given = [f"{p.ctype} {p.name}: {len(part)}" for p, part in zip(self.parameters, parts, strict=True)]
        raise TypeError(
            f"kernel {self.name}: its parameters have {self._sizes} bytes, the arguments {', '.join(given)}"
        )


class CapturedGraph:
    """A function that launches the same kernels in every call, from its second call on as one CUDA graph."""

    def __init__(self, function: Callable[[], None], backend: CudaBackend) -> None:
        self._function, self._backend, self._stream = function, backend, backend.stream
        self._graph: Any = None
        self._launches: int | None = None  # of the first call

    def __call__(self) -> None:
        if self._launches is None:  # compiles and loads the kernels, which a stream capture does not permit
            self._launches = self._counted()
            return
        if self._graph is None:
            self._graph = self._captured()
        with device_errors():
            self._graph.launch(self._stream)

    def _counted(self) -> int:
        """Call the function, and return the number of kernels that it launched."""
        before = self._backend.launch_count
        self._function()
        return self._backend.launch_count - before

    def _captured(self) -> Any:
        with device_errors(), self._stream, no_collection():
            self._stream.begin_capture()
            try:
                launches = self._counted()
            except BaseException:
                with suppress(Exception):  # the first error is the one to report
                    self._stream.end_capture()
                raise
            graph = self._stream.end_capture()
        nodes = kernel_nodes(getattr(graph, "graph", 0))
        require_whole_graph(self._launches or 0, launches if nodes is None else nodes)
        return graph


def require_whole_graph(launches: int, captured: int) -> None:
    """Compare the number of kernels in a graph with that of the first, direct call of its function.

    Raises
    ------
    SelfCheckError : kernels are missing.
    """
    if captured < launches:
        raise SelfCheckError(f"a captured CUDA graph has {captured} kernels; its function launched {launches}.")


def _three(sides: tuple[int, ...]) -> tuple[int, int, int]:
    """Blocks or threads along x, y, z."""
    return (*map(int, sides), 1, 1)[:3]
