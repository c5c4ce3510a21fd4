"""The CUDA backend's interface over NumPy arrays and kernels that were compiled for the host."""

from __future__ import annotations

import ctypes
import importlib
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from lithowave import KernelBuildError
from lithowave.backends import (
    CpuBackend,
    CudaBackend,
    Parameter,
    PendingCopy,
    bind,
    free_memory,
    kernel_signatures,
    map_geometry,
    padded_layout,
    poison,
    require_arrival,
    require_whole_graph,
    source_path,
)

from .arrays import DeviceArray, EmulationError, Memory
from .compiler import compile_for_host

MAP_MARK = 0x7E4504A9
ERROR_LENGTH = 8192
LARGEST_GRID = (2**31 - 1, 65535, 65535)
LARGEST_BLOCK, MOST_THREADS = (1024, 1024, 64), 1024
ONE_AT_A_TIME = threading.Lock()  # each library has one scheduler


class Options(ctypes.Structure):
    """As in scheduler.h."""

    _fields_ = (
        ("capability", ctypes.c_uint), ("blocks_at_once", ctypes.c_uint), ("seed", ctypes.c_uint),
        ("flush", ctypes.c_uint), ("seconds", ctypes.c_double),
    )  # fmt: skip


class EmulatedMirror:
    """An image of an array that holds what was last pulled; not a number before."""

    def __init__(self, backend: EmulatedCudaBackend, array: DeviceArray) -> None:
        self._backend, self._array = backend, array
        self.host = np.full(array.shape, np.nan, array.dtype)

    def pull(self) -> None:
        """See `lithowave.backends.interface.HostMirror`."""
        self.host[...] = self._backend.download(self._array)

    def wait(self) -> None:
        """See `lithowave.backends.interface.HostMirror`."""

    def push(self) -> None:
        """See `lithowave.backends.interface.HostMirror`."""
        self._backend.assign(self._array, self.host)


class EmulatedCudaBackend:
    """A CUDA device in the host's memory. All work is done at once, by one thread.

    Parameters
    ----------
    precision : ``single`` (which makes denormal numbers zero, as on the device) or ``double``. capability : compute
    capability. multiprocessors : how many blocks can be under way at once. shared_memory_limit : bytes for a block.
    seed : order of the threads. With 0 they take turns in ascending, then in descending order, and copies arrive as
    late as they may; any other number shuffles the threads from turn to turn, lets some copies arrive at once, and if
    odd begins with the last block. A block begins when those before it cannot go on; if the second bit of the seed is
    set, as soon as it fits, and blocks take turns in any order. seconds : of processor time, after which a launch is
    stopped. graphs : whether `capture_graph` behaves as a CUDA graph. padding_stays_zero : whether writes into the
    padding of fields are errors.

    All of these may be changed between launches.
    """

    name = "cuda"
    stores_codes = True
    device = identity = "CUDA emulated on the host"
    threads = 1
    own_memory, shared, aligned_columns, spared_multiprocessors = True, True, 32, 0
    sample_points = 10_000
    array_type = DeviceArray

    def __init__(
        self, precision: str = "single", *, capability: tuple[int, int] = (9, 0), multiprocessors: int = 4,
        shared_memory_limit: int = 232448, seed: int = 0, seconds: float = 60.0, graphs: bool = False,
        padding_stays_zero: bool = True, portable: bool = False,
    ) -> None:  # fmt: skip
        self.precision = precision
        self.dtype = np.dtype(np.float32 if precision == "single" else np.float64)
        self.capability, self.multiprocessors = capability, multiprocessors
        self.copy_engine = capability >= (9, 0)
        self.shared_memory_limit, self.seed, self.seconds = shared_memory_limit, seed, seconds
        self.graphs, self.padding_stays_zero, self.portable = graphs, padding_stays_zero, portable
        self.launches: list[tuple[str, tuple[int, ...], tuple[int, ...]]] = []  # kernel, grid, block of each so far
        self._memory = Memory()
        self._programs: dict[tuple, Program] = {}
        self._captured: list[tuple[str, Callable[[], None]]] | None = None

    # ------------------------------------------------------------------------------------------------ kernels

    def kernels(self, package: str, *_modules: str, **sizes: Any) -> SimpleNamespace:
        """The kernels of a solver package: what ``make_kernels`` of its ``launches`` returns."""
        return importlib.import_module(f"{package}.launches").make_kernels(self, **sizes)

    def compile_ahead(self, package: str, **sizes: Any) -> None:
        """List the sources, without compiling them."""
        list(importlib.import_module(f"{package}.launches").programs(self.precision, **sizes))

    def begin_programs(self, function: Callable[[], None]) -> None:
        """Nothing: programs are compiled when they are launched."""

    def program(
        self, package: str | Path, file: str, defines: Mapping[str, str | int],
        generated: Mapping[str, str] | None = None,
    ) -> Program:  # fmt: skip
        """A CUDA source of a package, or of a folder, compiled once for each set of definitions."""
        key = (package, file, self.capability, *sorted(defines.items()))
        if key not in self._programs:
            path = package / file if isinstance(package, Path) else source_path(package, file)
            self._programs[key] = Program(self, path, defines, generated or {})
        return self._programs[key]

    def capture_graph(self, function: Callable[[], None]) -> Callable[[], None]:
        """The function; with ``graphs`` its second call is recorded, and from then on its launches are replayed."""
        return _Graph(self, function) if self.graphs else function

    def on_side_stream(self, behind: bool = True) -> AbstractContextManager[None]:
        """All work is done at once."""
        return nullcontext()

    def join_side_stream(self) -> None:
        """All work has been done."""

    def side_by_side(self, queues: Sequence[Sequence[Callable[[], None]]]) -> None:
        """All work is done at once."""
        CpuBackend.side_by_side(self, queues)

    def mirror(self, array: DeviceArray) -> EmulatedMirror:
        """An image of the array."""
        return EmulatedMirror(self, array)

    def field_strides(self, shape: tuple[int, int, int], halo: int) -> tuple[int, int, int]:
        """As of the device."""
        return CudaBackend.field_strides(self, shape, halo)

    def tensor_map(
        self, array: DeviceArray, first_column: int, box: tuple[int, int], whole_lines: bool = True
    ) -> np.ndarray:
        """What copy_box of the emulated hopper.cuh understands; checked as on the device."""
        address, sizes, pitches = map_geometry(array, first_column, box)
        words = np.zeros(16, np.uint64)
        words[:9] = address, *sizes, *pitches, *box, array.itemsize
        words[15] = MAP_MARK
        return words.view(np.uint8)

    def scalar(self, value: float) -> np.floating:
        """A number in the run's precision."""
        return self.dtype.type(value)

    # ------------------------------------------------------------------------------------------------- arrays

    def zeros(self, shape: int | tuple[int, ...], dtype: Any = None) -> DeviceArray:
        """An array of zeros."""
        self._not_in_a_graph("zeros")
        shape = (shape,) if isinstance(shape, int) else tuple(map(int, shape))
        return self._memory.array(shape, np.dtype(dtype or self.dtype))

    def field(self, shape: tuple[int, int, int], halo: int, dtype: Any = None, shift: int = 0) -> DeviceArray:
        """Zeros (z, y, x) with padded rows, as those of `CudaBackend`, between zones of NaN."""
        self._not_in_a_graph("field")
        unit = 128 // self.dtype.itemsize
        return self._memory.field(tuple(map(int, shape)), halo, np.dtype(dtype or self.dtype), unit, shift)

    def field_bytes(self, shape: tuple[int, int, int], halo: int, dtype: Any = None) -> int:
        """Memory that `field` takes for this shape, padding included."""
        return padded_layout(shape, halo, np.dtype(dtype or self.dtype).itemsize, self.dtype.itemsize)[2]

    def upload(self, host: Any, dtype: Any = None) -> DeviceArray:
        """A copy on the device."""
        host = np.ascontiguousarray(host, dtype or self.dtype)
        array = self.zeros(host.shape, host.dtype)
        np.copyto(array.view(np.ndarray), host)
        return array

    def download(self, array: DeviceArray) -> np.ndarray:
        """A copy in main memory."""
        self._not_in_a_graph("download")
        return np.array(self._checked(array), order="C", subok=False)

    def assign(self, array: DeviceArray, host: Any) -> None:
        """``array[...] = host``."""
        self._not_in_a_graph("assign")
        self._checked(array).view(np.ndarray)[...] = host

    def fetch(self, array: DeviceArray, temporary: bool = False) -> PendingCopy:
        """A copy as the array is now."""
        self._not_in_a_graph("fetch")
        host = np.empty(array.shape, array.dtype)
        poison(host)
        self.copy_to_host(host, self._checked(array))
        return PendingCopy(host, lambda: require_arrival(host))

    def has_room(self, size: int) -> bool:
        """True: there is always room."""
        return True

    def freeze(self, array: DeviceArray, temporary: bool = False) -> PendingCopy:
        """As `fetch`."""
        return self.fetch(array, temporary)

    def copy_to_host(self, host: np.ndarray, array: DeviceArray) -> None:
        """The copy of a `fetch`."""
        host[...] = array.view(np.ndarray)

    def _checked(self, array: Any) -> DeviceArray:
        if not isinstance(array, DeviceArray):
            raise TypeError(f"{type(array).__name__} is no array on the device")
        return array

    # ------------------------------------------------------------------------------------------------- device

    def peak_facts(self, rate: float) -> dict[str, float]:
        """As of the device."""
        return {"operations_rate": rate}

    def allocated_bytes(self) -> int:
        """Bytes of all arrays on the device."""
        return self._memory.size()

    def free_memory(self) -> int:
        """Bytes that a run could take now."""
        return free_memory()

    def facts(self) -> dict[str, Any]:
        """What a run tells of its device."""
        return {"backend": self.name, "device": self.device, "precision": self.precision, "cuda": {"runtime": "13.0"}}

    def synchronize(self) -> None:
        """Everything asked for is done."""

    def _not_in_a_graph(self, what: str) -> None:
        if self._captured is not None:
            raise EmulationError(f"{what} in a function that is captured as a graph")

    def run(self, kernel: str, launch: Callable[[], None]) -> None:
        """Launch now, or as part of the graph that is being captured."""
        if self._captured is not None:
            self._captured.append((kernel, launch))
            return
        launch()
        damage = self._memory.damage(self.padding_stays_zero)
        if damage:
            raise EmulationError(f"kernel {kernel}: {damage}")

    def capture(self, function: Callable[[], None]) -> list[tuple[str, Callable[[], None]]]:
        """The launches of a function, which are not carried out."""
        self._captured = found = []
        try:
            function()
        finally:
            self._captured = None
        return found


class Program:
    """The kernels of one source, compiled with one set of definitions."""

    def __init__(
        self, backend: EmulatedCudaBackend, path: Path, defines: Mapping[str, str | int], generated: Mapping[str, str]
    ) -> None:
        self._backend, self._path = weakref.proxy(backend), path  # the backend has this program
        defines = {"REAL": "float" if backend.precision == "single" else "double", **defines}
        self._library = compile_for_host(path, defines, backend.capability, backend.portable, generated)
        try:
            self._signatures = kernel_signatures(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise KernelBuildError(f"{path}: {error}") from error

    def launch(
        self, name: str, grid: tuple[int, ...], block: tuple[int, ...], arguments: Mapping[str, Any],
        shared_bytes: int = 0, carveout: int = -1,
    ) -> None:  # fmt: skip
        """Run a kernel; an empty grid is no work.

        Raises
        ------
        TypeError : an argument is missing or of the wrong type. KernelBuildError : no such kernel. ValueError : the
        device could not launch this. EmulationError : the kernel made a mistake.
        """
        if name not in self._signatures:
            known = ", ".join(self._signatures) or "none"
            raise KernelBuildError(f"{self._path} has no kernel {name}; it has: {known}")
        parameters = self._signatures[name]
        values = bind(name, parameters, arguments, self._backend.dtype)
        parts = [_passed(name, *pair) for pair in zip(parameters, values, strict=True)]
        self._check_sizes(name, parameters, parts)
        grid, block = ((*map(int, sides), 1, 1)[:3] for sides in (grid, block))
        if 0 in grid:
            return
        self._check_shape(name, grid, block, shared_bytes)
        self._backend.run(name, lambda: self._run(name, grid, block, parts, shared_bytes))

    def _run(
        self, name: str, grid: tuple[int, ...], block: tuple[int, ...], parts: list[bytes], shared_bytes: int
    ) -> None:
        backend = self._backend
        backend.launches.append((name, grid, block))
        storage = [ctypes.create_string_buffer(part, len(part)) for part in parts]
        addresses = (ctypes.c_void_p * max(1, len(parts)))(*map(ctypes.addressof, storage))
        error = ctypes.create_string_buffer(ERROR_LENGTH)
        options = Options(
            10 * backend.capability[0] + backend.capability[1], backend.multiprocessors, backend.seed,
            backend.precision == "single", backend.seconds,
        )  # fmt: skip
        sides = [(ctypes.c_uint * 3)(*three) for three in (grid, block)]
        with ONE_AT_A_TIME:
            failed = getattr(self._library, f"launch_{name}")(
                *sides, ctypes.c_uint(shared_bytes), addresses, ctypes.byref(options), error
            )
        if failed:
            raise EmulationError(error.value.decode(errors="replace"))

    def _check_sizes(self, name: str, parameters: list[Parameter], parts: list[bytes]) -> None:
        sizes = (ctypes.c_ulonglong * max(1, len(parts)))()
        getattr(self._library, f"parameters_{name}")(sizes)
        for parameter, part, size in zip(parameters, parts, sizes, strict=False):
            if len(part) != size:
                raise TypeError(
                    f"kernel {name}: argument {parameter.name}: {parameter.ctype} has {size} bytes, not {len(part)}"
                )

    def _check_shape(
        self, name: str, grid: tuple[int, ...], block: tuple[int, ...], shared_bytes: int
    ) -> None:
        most = getattr(self._library, f"most_threads_{name}")()
        if any(not 0 < side <= limit for side, limit in zip(grid, LARGEST_GRID, strict=True)):
            raise ValueError(f"kernel {name}: no grid of {grid} blocks is possible")
        if any(not 0 < side <= limit for side, limit in zip(block, LARGEST_BLOCK, strict=True)):
            raise ValueError(f"kernel {name}: no block of {block} threads is possible")
        if np.prod(block) > min(most, MOST_THREADS):
            raise ValueError(f"kernel {name}: a block has {np.prod(block)} threads, at most {most} are possible")
        if not 0 <= shared_bytes <= self._backend.shared_memory_limit:
            limit = self._backend.shared_memory_limit
            raise ValueError(f"kernel {name}: {shared_bytes} bytes of shared memory; the device has {limit}")


class _Graph:
    """A function whose second call is captured; from then on the same launches are repeated, arguments and all."""

    def __init__(self, backend: EmulatedCudaBackend, function: Callable[[], None]) -> None:
        self._backend, self._function = backend, function
        self._calls, self._launches, self._first = 0, [], 0

    def __call__(self) -> None:
        self._calls += 1
        if self._calls == 1:
            before = len(self._backend.launches)
            self._function()
            self._first = len(self._backend.launches) - before
            return
        if self._calls == 2:
            self._launches = self._backend.capture(self._function)
            require_whole_graph(self._first, len(self._launches))
        for name, launch in self._launches:
            self._backend.run(name, launch)


def _passed(kernel: str, parameter: Parameter, value: Any) -> bytes:
    """The bytes that a kernel gets: the address of an array, a number or struct itself."""
    if not parameter.is_pointer:
        return value.tobytes()
    if not isinstance(value, DeviceArray):
        raise TypeError(f"kernel {kernel}: argument {parameter.name} is in main memory; upload it first")
    return np.uint64(value.data.ptr).tobytes()
