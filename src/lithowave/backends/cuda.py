"""The CUDA backend: arrays on an NVIDIA device, kernels compiled at run time, one main stream."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np

from lithowave.backends import tensor_map
from lithowave.backends.cuda_copies import (
    PiecewiseCopy,
    PinnedHostMirror,
    Staging,
    Unfinished,
    copy,
    copy_on_device,
    pinned_array,
    poison,
    require_arrival,
)
from lithowave.backends.cuda_driver import cuda_versions, device_errors, require_device
from lithowave.backends.cuda_peers import ExportedBlock, Peers, can_export
from lithowave.backends.cuda_program import CapturedGraph, Program
from lithowave.backends.nvrtc import Defines, compile_ahead, source_path
from lithowave.backends.pending import PendingCopy

LINE = 128  # bytes that the device reads in one transaction
WHOLE_BYTES = 64 << 20  # larger temporary arrays are copied to main memory in pieces
STAGED_BYTES = 256 << 20  # larger copies use pageable memory directly, and the host waits for them
RING_BYTES = 220 << 10  # of shared memory; data-center devices from Hopper on have 227 KiB, others 99 KiB
RESERVE = 256 << 20  # bytes reserved for compiled kernels, graphs and the driver


class CudaBackend:
    """Arrays and kernels on a visible CUDA device (``CUDA_VISIBLE_DEVICES`` selects the visible ones).

    Work is queued on one main stream and completed in order, while the host continues; only ``upload``, ``download``,
    ``synchronize`` and the end of a ``fetch`` wait. Work inside ``on_side_stream`` is queued on a second stream. An
    error of the device is raised as `ResourceError` by the next call that detects it.

    Parameters
    ----------
    precision : ``single`` or ``double``. number : index of the device.

    Raises
    ------
    MissingPackageError : CuPy is not installed. ResourceError : no driver, a driver that is too old, or no device.
    """

    name = "cuda"
    threads = 1
    stores_codes = True  # kernels read the material as 16-bit codes
    own_memory = True
    spared_multiprocessors = 0  # multiprocessors that persistent kernels leave to other work
    aligned_columns = 32  # rows of fields are split at memory lines
    sample_points = 60_000_000  # grid points that occupy all multiprocessors

    def __init__(self, precision: str = "single", number: int = 0) -> None:
        self.cupy, self.shared = require_device(), False  # shared : True if other ranks of the run use this device
        self._runtime, self.driver, self.number = self.cupy.cuda.runtime, self.cupy.cuda.driver, number
        self.array_type = self.cupy.ndarray
        self.precision = precision
        self.dtype = np.dtype(np.float32 if precision == "single" else np.float64)
        with device_errors():
            self._runtime.setDevice(number)
            self.device_count: int = self._runtime.getDeviceCount()
            self.stream = self._main = self.cupy.cuda.Stream(non_blocking=True)
            self._second: Any = None
            self._streams: dict[str, Any] = {}  # for copies of temporary arrays, and of `side_by_side`
            found = self._runtime.getDeviceProperties(self._runtime.getDevice())
        self.device: str = found["name"].decode()
        self.identity = "{:x}:{:x}:{:x}".format(*(found.get(f"pci{part}ID", 0) for part in ("Domain", "Bus", "Device")))
        self.capability: tuple[int, int] = (found["major"], found["minor"])
        self.multiprocessors: int = found["multiProcessorCount"]
        self.shared_memory_limit: int = found["sharedMemPerBlockOptin"]
        # True if kernels may use bulk tensor copies and enough shared memory for them; callers may set it to False.
        self.copy_engine = self.capability >= (9, 0) and self.shared_memory_limit >= RING_BYTES
        self._staging, self._unfinished = Staging(self.cupy.cuda), Unfinished()
        self.launch_count = 0
        self._programs: dict[tuple, Program] = {}

    # ------------------------------------------------------------------------------------------------ kernels

    def kernels(self, package: str, *_modules: str, **sizes: Any) -> SimpleNamespace:
        """Return the kernels of a solver package for these sizes, from ``make_kernels`` of its module ``launches``."""
        return importlib.import_module(f"{package}.launches").make_kernels(self, **sizes)

    def compile_ahead(self, package: str, **sizes: Any) -> None:
        """Begin to compile the sources that ``programs(precision, **sizes)`` of the package's module ``launches``
        yields, as (file, definitions, generated headers), in threads; later calls of `program` wait for them."""
        for file, defines, generated in importlib.import_module(f"{package}.launches").programs(
            self.precision, **sizes
        ):
            compile_ahead(source_path(package, file), defines, self.precision, self.capability, generated)

    def program(
        self, package: str, file: str, defines: Defines, generated: Mapping[str, str] = MappingProxyType({})
    ) -> Program:
        """Return the program of a CUDA source, compiled once per set of definitions; `generated` must depend only on
        the definitions."""
        key = (package, file, *sorted(defines.items()))
        if key not in self._programs:
            self._programs[key] = Program(self, package, file, defines, generated)
        return self._programs[key]

    def capture_graph(self, function: Callable[[], None]) -> Callable[[], None]:
        """Return the function, which is replayed as a CUDA graph from its second call on.

        It must launch the same kernels with the same arrays and numbers in every call, and must not create, upload,
        assign or fetch arrays.
        """
        return CapturedGraph(function, self)

    @contextmanager
    def on_side_stream(self, behind: bool = True) -> Iterator[None]:
        """Queue the enclosed work on the side stream, to overlap with later work of the main stream.

        behind : True: it starts after all work queued so far; False: after earlier work of the side stream only.
        """
        with device_errors():
            if self._second is None:
                self._second = self.cupy.cuda.Stream(non_blocking=True, priority=-1)
            if behind:
                self._follow(self._second, self._main)
        self.stream = self._second
        try:
            yield
        finally:
            self.stream = self._main

    def join_side_stream(self) -> None:
        """Make later work of the main stream wait for the work of the side stream."""
        with device_errors():
            self._follow(self._main, self._second)

    def side_by_side(self, queues: Sequence[Sequence[Callable[[], None]]]) -> None:
        """Call the functions of independent lists, each list in order, on streams of their own that begin after all
        work queued so far; later work waits for all of them."""
        main = self.stream
        sides = [self._new_stream(f"side {number}", priority=-1) for number in range(1, len(queues))]
        with device_errors():
            for side in sides:
                self._follow(side, main)
        try:
            for stream, queue in zip([*sides, main], [*queues[1:], queues[0]], strict=True):
                self.stream = stream
                for function in queue:
                    function()
        finally:
            self.stream = main
        with device_errors():
            for side in sides:
                self._follow(main, side)

    def _follow(self, later: Any, earlier: Any) -> None:
        event = self.cupy.cuda.Event(disable_timing=True)
        event.record(earlier)
        later.wait_event(event)

    def mirror(self, array: Any) -> PinnedHostMirror:
        """Return a page-locked image of the array in main memory."""
        return PinnedHostMirror(self, array)

    def can_export(self) -> bool:
        """Return True if other processes can write into memory of this device."""
        return can_export(self)

    def export(self, size: int) -> ExportedBlock:
        """Return zeroed memory of this many bytes into which other processes can write."""
        return ExportedBlock(self, size)

    def peers(self) -> Peers:
        """Return the access to memory that other processes have exported."""
        return Peers(self)

    def tensor_map(
        self, array: Any, first_column: int, box: tuple[int, int], whole_lines: bool = True
    ) -> np.ndarray:
        """Return a descriptor for the copy engine; see `lithowave.backends.tensor_map.tensor_map`."""
        return tensor_map.tensor_map(array, first_column, box, whole_lines)

    def scalar(self, value: float) -> np.floating:
        """Return a number in the precision of the run."""
        return self.dtype.type(value)

    # ------------------------------------------------------------------------------------------------- arrays

    def zeros(self, shape: int | tuple[int, ...], dtype: Any = None) -> Any:
        """Return an array of zeros; default type: the precision of the run."""
        shape, dtype = _tuple(shape), np.dtype(dtype or self.dtype)
        return self.cupy.ndarray(shape, dtype, self._zeroed(math.prod(shape) * dtype.itemsize))

    def field(self, shape: tuple[int, int, int], halo: int, dtype: Any = None, shift: int = 0) -> Any:
        """Return zeros (z, y, x) with rows padded so that the first element after the halo is `shift` elements behind
        an address that is aligned to 128 bytes; 0 <= shift < 128 bytes.

        ``128 bytes - halo`` readable zeros precede the first element, and 128 bytes follow the last one. Fields of one
        shape have the same strides in elements for every type; rows of a type shorter than that of the run are aligned
        to fewer bytes.
        """
        dtype = np.dtype(dtype or self.dtype)
        lead, pitch, size = padded_layout(shape, halo, dtype.itemsize, self.dtype.itemsize)
        lead += shift
        strides = tuple(count * dtype.itemsize for count in (shape[1] * pitch, pitch, 1))
        return self.cupy.ndarray(shape, dtype, self._zeroed(size) + lead * dtype.itemsize, strides)

    def field_strides(self, shape: tuple[int, int, int], halo: int) -> tuple[int, int, int]:
        """Return the strides of a `field` of this shape, in elements; they do not depend on its type."""
        pitch = -(-shape[2] // (LINE // self.dtype.itemsize)) * (LINE // self.dtype.itemsize)
        return shape[1] * pitch, pitch, 1

    def field_bytes(self, shape: tuple[int, int, int], halo: int) -> int:
        """Return the device memory of a `field` of this shape, including padding, bytes."""
        return padded_layout(shape, halo, self.dtype.itemsize, self.dtype.itemsize)[2]

    def upload(self, host: Any, dtype: Any = None) -> Any:
        """Return the array on the device; default type: the precision of the run."""
        host = np.ascontiguousarray(host, dtype or self.dtype)
        array = self.cupy.ndarray(host.shape, host.dtype, self._allocate(host.nbytes))
        self._copy_and_wait(array, host, True)
        return array

    def download(self, array: Any) -> np.ndarray:
        """Return a copy in main memory, after all work queued so far is complete."""
        host = np.empty(array.shape, array.dtype)
        poison(host)
        self._copy_and_wait(array, host, False)
        require_arrival(host)
        return host

    def assign(self, array: Any, host: Any) -> None:
        """Assign ``array[...] = host`` in stream order; the host continues and may change its array. `host` may also be
        an array on the device with the same layout."""
        if isinstance(host, self.array_type):
            with device_errors():
                copy_on_device(self._runtime, array, host, self.stream.ptr)
            return
        if array.nbytes > STAGED_BYTES:
            host = np.ascontiguousarray(np.broadcast_to(host, array.shape), array.dtype)
            self._copy_and_wait(array, host, True)
            return
        with device_errors(), self.stream:
            staged, event = self._staging.take(array.shape, array.dtype)
            staged[...] = host
            copy(self._runtime, array, staged, True, self.stream.ptr)
            event.record(self.stream)

    def fetch(self, array: Any, temporary: bool = False) -> PendingCopy:
        """Start a copy to main memory, after the work queued so far.

        temporary : True if nothing changes the array later: it is copied on a stream of its own, while later work of
        the main stream continues, and a large contiguous array in pieces. Any thread may wait for the copy.
        """
        if temporary and array.nbytes > WHOLE_BYTES:
            with device_errors():
                return PiecewiseCopy(self, array, self._new_stream("pieces"))
        if array.nbytes > STAGED_BYTES:
            return PendingCopy(self.download(array))
        with device_errors(), self.stream:
            self._unfinished.release()
            buffer = self.cupy.cuda.alloc_pinned_memory(max(1, array.nbytes))
            host = pinned_array(buffer, array.shape, array.dtype)
            poison(host)
            event = self.cupy.cuda.Event(block=True, disable_timing=True)
            stream = self._copy_stream() if temporary else self.stream
            copy(self._runtime, array, host, False, stream.ptr)
            event.record(stream)
            self._unfinished.add(event, array, host)
        return PendingCopy(host, lambda: self._arrived(event, host))

    def _copy_stream(self) -> Any:
        """Return the stream of temporary arrays, whose next work begins after the work queued so far."""
        stream = self._new_stream("copies")
        self._follow(stream, self.stream)
        return stream

    def _new_stream(self, name: str, priority: int = 0) -> Any:
        """Return the stream with this name, which the first call creates. priority : the lowest number is served first.
        """
        if name not in self._streams:
            self._streams[name] = self.cupy.cuda.Stream(non_blocking=True, priority=priority)
        return self._streams[name]

    def _copy_and_wait(self, array: Any, host: np.ndarray, to_device: bool) -> None:
        with device_errors(), self.stream:
            copy(self._runtime, array, host, to_device, self.stream.ptr)
            self.stream.synchronize()

    def _zeroed(self, size: int) -> Any:
        memory = self._allocate(size)
        with device_errors():
            memory.memset_async(0, size, self.stream)
        return memory

    def _allocate(self, size: int) -> Any:
        with device_errors(size), self.stream:
            return self.cupy.cuda.alloc(max(1, size))

    # ------------------------------------------------------------------------------------------------- device

    def free_memory(self) -> int:
        """Return the bytes of device memory that a run can allocate now."""
        with device_errors():
            free = self._runtime.memGetInfo()[0]
        return max(0, free + self.cupy.get_default_memory_pool().free_bytes() - RESERVE)

    def peak_facts(self, rate: float) -> dict[str, float]:
        """Return this rate of operations per second; the peak of the device is not measured."""
        return {"operations_rate": rate}

    def bandwidths(self, size: int = 4 << 30, repeats: int = 8) -> dict[str, float]:
        """Return the measured bytes per second that a copy within device memory reads and writes."""
        size = min(size, self.free_memory() // 3)
        source, target = self._zeroed(size), self._allocate(size)
        with device_errors(), self.stream:
            begin, end = self.cupy.cuda.Event(), self.cupy.cuda.Event()
            for turn in range(repeats + 1):
                if turn == 1:
                    begin.record(self.stream)
                target.copy_from_device_async(source, size, self.stream)
            end.record(self.stream)
            end.synchronize()
            seconds = self.cupy.cuda.get_elapsed_time(begin, end) * 1e-3
        return {"copy": 2 * size * repeats / seconds}

    def facts(self) -> dict[str, Any]:
        """Return the entries of run.json on the device."""
        versions = {"capability": "{}.{}".format(*self.capability), **cuda_versions(self.cupy)}
        return {"backend": self.name, "device": self.device, "precision": self.precision, "cuda": versions}

    def synchronize(self) -> None:
        """Wait until the device has completed all work."""
        with device_errors():
            self._main.synchronize()
            if self._second is not None:
                self._second.synchronize()
            for stream in self._streams.values():
                stream.synchronize()
            self._unfinished.clear()

    def _arrived(self, event: Any, host: np.ndarray) -> None:
        with device_errors():
            self._runtime.setDevice(self.number)  # in each thread that waits
            event.synchronize()
        require_arrival(host)


def padded_layout(shape: tuple[int, int, int], halo: int, itemsize: int, run_itemsize: int) -> tuple[int, int, int]:
    """Return the elements before a field's first one (without a shift) and per row, and the total bytes; see
    `CudaBackend.field`."""
    line, unit = LINE // itemsize, LINE // run_itemsize
    planes, rows, columns = shape
    lead, pitch = line - halo % line, -(-columns // unit) * unit
    return lead, pitch, (lead + line + planes * rows * pitch + line) * itemsize


def _tuple(shape: int | tuple[int, ...]) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)
