"""The CUDA backend: arrays on an NVIDIA device, kernels compiled at run time, all work on one stream."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np

from lithowave.backends import tensor_map
from lithowave.backends.cuda_copies import (
    PinnedHostMirror,
    Staging,
    Unfinished,
    copy,
    pinned_array,
    poison,
    require_arrival,
)
from lithowave.backends.cuda_driver import cuda_versions, device_errors, require_device
from lithowave.backends.cuda_peers import ExportedBlock, Peers, can_export
from lithowave.backends.cuda_program import CapturedGraph, Program
from lithowave.backends.nvrtc import Defines
from lithowave.backends.pending import PendingCopy

LINE = 128  # bytes that the device reads at once
STAGED_BYTES = 256 << 20  # larger copies go straight from or to pageable memory, and are waited for
RING_BYTES = 220 << 10  # of shared memory; data-centre devices from Hopper on have 227 KiB, others 99 KiB
RESERVE = 256 << 20  # bytes left for compiled kernels, graphs and the driver


class CudaBackend:
    """Arrays on a visible CUDA device (``CUDA_VISIBLE_DEVICES`` chooses which are) and kernels compiled for it.

    Work is done in the order in which it is asked for, on one stream of this backend, while the host goes on; only
    ``upload``, ``download``, ``synchronize`` and the end of a ``fetch`` wait. What is asked for inside ``on_side_stream``
    done on a second stream. Errors of the device are raised as `ResourceError` by whichever call comes after them.

    Parameters
    ----------
    precision : ``single`` or ``double``. number : of the device.

    Raises
    ------
    MissingPackageError : CuPy is not installed. ResourceError : no driver, one that is too old, or no device.
    """

    name = "cuda"
    threads = 1
    stores_codes = True  # kernels read the material in 16 bits
    own_memory = True
    spared_multiprocessors = 0  # that kernels which hold theirs for long leave to other work
    aligned_columns = 32  # rows of fields are cut at whole lines of memory
    sample_points = 60_000_000  # of a grid that keeps all multiprocessors at work

    def __init__(self, precision: str = "single", number: int = 0) -> None:
        self.cupy, self.shared = require_device(), False  # shared : whether other ranks of the run use it, too
        self._runtime, self.driver = self.cupy.cuda.runtime, self.cupy.cuda.driver
        self.array_type = self.cupy.ndarray
        self.precision = precision
        self.dtype = np.dtype(np.float32 if precision == "single" else np.float64)
        with device_errors():
            self._runtime.setDevice(number)
            self.device_count: int = self._runtime.getDeviceCount()
            self.stream = self._main = self.cupy.cuda.Stream(non_blocking=True)
            self._second: Any = None
            found = self._runtime.getDeviceProperties(self._runtime.getDevice())
        self.device: str = found["name"].decode()
        self.identity = "{:x}:{:x}:{:x}".format(*(found.get(f"pci{part}ID", 0) for part in ("Domain", "Bus", "Device")))
        self.capability: tuple[int, int] = (found["major"], found["minor"])
        self.multiprocessors: int = found["multiProcessorCount"]
        self.shared_memory_limit: int = found["sharedMemPerBlockOptin"]
        # Whether kernels may count on bulk tensor copies and room for them in shared memory; may be turned off.
        self.copy_engine = self.capability >= (9, 0) and self.shared_memory_limit >= RING_BYTES
        self._staging, self._unfinished = Staging(self.cupy.cuda), Unfinished()
        self.launch_count = 0
        self._programs: dict[tuple, Program] = {}

    # ------------------------------------------------------------------------------------------------ kernels

    def kernels(self, package: str, *_modules: str, **sizes: Any) -> SimpleNamespace:
        """The kernels of a solver package for these sizes: what ``make_kernels`` of its ``launches`` returns."""
        return importlib.import_module(f"{package}.launches").make_kernels(self, **sizes)

    def program(
        self, package: str, file: str, defines: Defines, generated: Mapping[str, str] = MappingProxyType({})
    ) -> Program:
        """A CUDA source of a package, compiled once for each set of definitions, on which `generated` headers depend
        alone."""
        key = (package, file, *sorted(defines.items()))
        if key not in self._programs:
            self._programs[key] = Program(self, package, file, defines, generated)
        return self._programs[key]

    def capture_graph(self, function: Callable[[], None]) -> Callable[[], None]:
        """The function, replayed as a CUDA graph from its second call on.

        It must always launch the same kernels with the same arrays and numbers, and do nothing else: no arrays are
        made, uploaded, assigned or fetched in it.
        """
        return CapturedGraph(function, self)

    @contextmanager
    def on_side_stream(self, behind: bool = True) -> Iterator[None]:
        """What is asked for inside is queued on a second stream, to be done beside what is asked for afterwards.

        behind : only when everything asked for so far is done; else behind what was asked for beside before.
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
        """What is asked for from now on is done behind what was asked for beside."""
        with device_errors():
            self._follow(self._main, self._second)

    def _follow(self, later: Any, earlier: Any) -> None:
        event = self.cupy.cuda.Event(disable_timing=True)
        event.record(earlier)
        later.wait_event(event)

    def mirror(self, array: Any) -> PinnedHostMirror:
        """A page-locked image of the array in main memory."""
        return PinnedHostMirror(self, array)

    def can_export(self) -> bool:
        """Whether other processes can write into memory of this device."""
        return can_export(self)

    def export(self, size: int) -> ExportedBlock:
        """Zeroed memory of so many bytes into which other processes can write."""
        return ExportedBlock(self, size)

    def peers(self) -> Peers:
        """The way to memory that other processes have exported."""
        return Peers(self)

    def tensor_map(self, array: Any, first_column: int, box: tuple[int, int]) -> np.ndarray:
        """A descriptor for the copy engine; see `lithowave.backends.tensor_map.tensor_map`."""
        return tensor_map.tensor_map(array, first_column, box)

    def scalar(self, value: float) -> np.floating:
        """A number in the run's precision."""
        return self.dtype.type(value)

    # ------------------------------------------------------------------------------------------------- arrays

    def zeros(self, shape: int | tuple[int, ...], dtype: Any = None) -> Any:
        """An array of zeros, in the run's precision unless told otherwise."""
        shape, dtype = _tuple(shape), np.dtype(dtype or self.dtype)
        return self.cupy.ndarray(shape, dtype, self._zeroed(math.prod(shape) * dtype.itemsize))

    def field(self, shape: tuple[int, int, int], halo: int, dtype: Any = None) -> Any:
        """Zeros (z, y, x) whose rows are padded so that the element behind the halo is aligned to 128 bytes.

        Before the first element there are ``128 bytes - halo`` readable elements, behind the last one 128 bytes; they
        are zero. Fields of one shape have the same strides in elements whatever their type; rows of a type shorter than
        the run's are aligned to fewer bytes.
        """
        dtype = np.dtype(dtype or self.dtype)
        lead, pitch, size = padded_layout(shape, halo, dtype.itemsize, self.dtype.itemsize)
        strides = tuple(count * dtype.itemsize for count in (shape[1] * pitch, pitch, 1))
        return self.cupy.ndarray(shape, dtype, self._zeroed(size) + lead * dtype.itemsize, strides)

    def field_strides(self, shape: tuple[int, int, int], halo: int) -> tuple[int, int, int]:
        """Steps in elements along the axes of a `field` of this shape, whatever its type."""
        pitch = -(-shape[2] // (LINE // self.dtype.itemsize)) * (LINE // self.dtype.itemsize)
        return shape[1] * pitch, pitch, 1

    def field_bytes(self, shape: tuple[int, int, int], halo: int) -> int:
        """Device memory that `field` takes for this shape, padding included."""
        return padded_layout(shape, halo, self.dtype.itemsize, self.dtype.itemsize)[2]

    def upload(self, host: Any, dtype: Any = None) -> Any:
        """The array on the device, in the run's precision unless told otherwise."""
        host = np.ascontiguousarray(host, dtype or self.dtype)
        array = self.cupy.ndarray(host.shape, host.dtype, self._allocate(host.nbytes))
        self._copy_and_wait(array, host, True)
        return array

    def download(self, array: Any) -> np.ndarray:
        """A copy in main memory, once everything asked for before is done."""
        host = np.empty(array.shape, array.dtype)
        poison(host)
        self._copy_and_wait(array, host, False)
        require_arrival(host)
        return host

    def assign(self, array: Any, host: Any) -> None:
        """``array[...] = host``, in the order of the device's work; the host goes on and may change its array."""
        if array.nbytes > STAGED_BYTES:
            host = np.ascontiguousarray(np.broadcast_to(host, array.shape), array.dtype)
            self._copy_and_wait(array, host, True)
            return
        with device_errors(), self.stream:
            staged, event = self._staging.take(array.shape, array.dtype)
            staged[...] = host
            copy(self._runtime, array, staged, True, self.stream.ptr)
            event.record(self.stream)

    def fetch(self, array: Any) -> PendingCopy:
        """Begin to bring a copy to main memory, behind the work asked for so far."""
        if array.nbytes > STAGED_BYTES:
            return PendingCopy(self.download(array))
        with device_errors(), self.stream:
            buffer = self.cupy.cuda.alloc_pinned_memory(max(1, array.nbytes))
            host = pinned_array(buffer, array.shape, array.dtype)
            poison(host)
            event = self.cupy.cuda.Event(disable_timing=True)
            copy(self._runtime, array, host, False, self.stream.ptr)
            event.record(self.stream)
            self._unfinished.add(event, host)
        return PendingCopy(host, lambda: self._arrived(event, host))

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
        """Bytes of device memory that a run could take now."""
        with device_errors():
            free = self._runtime.memGetInfo()[0]
        return max(0, free + self.cupy.get_default_memory_pool().free_bytes() - RESERVE)

    def peak_facts(self, rate: float) -> dict[str, float]:
        """So many operations a second; the device's peak is not measured."""
        return {"operations_rate": rate}

    def copy_bandwidth(self, size: int = 4 << 30, repeats: int = 8) -> float:
        """Bytes read and written a second by a copy within the device's memory."""
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
        return 2 * size * repeats / seconds

    def facts(self) -> dict[str, Any]:
        """What a run tells of its device."""
        versions = {"capability": "{}.{}".format(*self.capability), **cuda_versions(self.cupy)}
        return {"backend": self.name, "device": self.device, "precision": self.precision, "cuda": versions}

    def synchronize(self) -> None:
        """Wait until the device has done everything asked for."""
        with device_errors():
            self._main.synchronize()
            if self._second is not None:
                self._second.synchronize()

            self._unfinished.clear()

    def _arrived(self, event: Any, host: np.ndarray) -> None:
        with device_errors():
            event.synchronize()
        require_arrival(host)


def padded_layout(shape: tuple[int, int, int], halo: int, itemsize: int, run_itemsize: int) -> tuple[int, int, int]:
    """Elements before a field's first one and from row to row, and bytes of the whole; see `CudaBackend.field`."""
    line, unit = LINE // itemsize, LINE // run_itemsize
    planes, rows, columns = shape
    lead, pitch = line - halo % line, -(-columns // unit) * unit
    return lead, pitch, (lead + planes * rows * pitch + line) * itemsize


def _tuple(shape: int | tuple[int, ...]) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)
