"""Copies between main memory and a CUDA device, and device memory into which other processes of this machine write.

Copies are row by row if an array on the device is padded. Only the copies of the CUDA runtime are used: kernels of CuPy
would need to be compiled with CUDA's headers first.

Other processes write with copy engines, without kernels. They open an exported block through CUDA's interprocess
handles. A writer copies its data and then a number into a flag after them, on one stream; the reader's stream waits
until the flag has that number.
"""

from __future__ import annotations

import ctypes
import itertools
import math
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from types import ModuleType
from typing import TYPE_CHECKING, Protocol

import numpy as np

from lithowave.backends.cuda_driver import device_errors, driver_library
from lithowave.backends.interface import HostMirror, PendingCopy
from lithowave.errors import ResourceError, SelfCheckError

if TYPE_CHECKING:
    import numpy.typing as npt
    from cupy.cuda import Event, PinnedMemoryPointer, Stream

    from lithowave.backends.interface import DeviceArray

SMALLEST = 4096
PAGE = 4096
# Quiet NaNs with payloads that arithmetic does not produce.
POISON = {"float32": np.uint32(0x7FC5A5A5), "float64": np.uint64(0x7FF8A5A5A5A5A5A5)}
PIECE_BYTES, PIECES = 8 << 20, 3  # of a `PiecewiseCopy`: they remain in the caches of the host while they are written
MOST_BUFFERS = 32  # per size; if more are in use, the host waits for the device


def copy(runtime: ModuleType, array: DeviceArray, host: np.ndarray, to_device: bool, stream: int) -> None:
    """Start a copy between an array on the device, possibly strided, and a contiguous one in main memory."""
    if array.size == 0:
        return
    kind = runtime.memcpyHostToDevice if to_device else runtime.memcpyDeviceToHost
    place = host.ctypes.data
    width, axes = merged_axes(array.shape, array.strides, array.itemsize)
    if not axes:
        ends = (array.data.ptr, place) if to_device else (place, array.data.ptr)
        runtime.memcpyAsync(*ends, width, kind, stream)
        return
    *outer, (rows, pitch) = axes
    for offset in offsets(outer):
        device, packed = (array.data.ptr + offset, pitch), (place, width)
        ends = (*device, *packed) if to_device else (*packed, *device)
        runtime.memcpy2DAsync(*ends, width, rows, kind, stream)
        place += width * rows


def copy_on_device(runtime: ModuleType, array: DeviceArray, source: DeviceArray, stream: int) -> None:
    """Start a copy between two arrays on the device, possibly strided, of the same shape, strides and type."""
    if (array.shape, array.strides, array.dtype) != (source.shape, source.strides, source.dtype):
        raise ValueError("copies on the device are between arrays with the same layout")
    if array.size == 0:
        return
    kind = runtime.memcpyDeviceToDevice
    width, axes = merged_axes(array.shape, array.strides, array.itemsize)
    *outer, (rows, pitch) = axes or [(1, width)]
    for offset in offsets(outer):
        places = (array.data.ptr + offset, pitch, source.data.ptr + offset, pitch)
        runtime.memcpy2DAsync(*places, width, rows, kind, stream)


def merged_axes(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> tuple[int, list[tuple[int, int]]]:
    """Return the number of contiguous bytes, and (count, stride in bytes) of the axes around them, outermost first."""
    axes: list[tuple[int, int]] = []
    for count, stride in zip(reversed(shape), reversed(strides), strict=True):
        if count == 1:
            continue
        if stride < itemsize:
            raise ValueError("arrays with reversed or repeated elements cannot be copied from or to a device")
        if axes and stride == axes[-1][0] * axes[-1][1]:
            axes[-1] = (axes[-1][0] * count, axes[-1][1])
        else:
            axes.append((count, stride))
    width = axes.pop(0)[0] * itemsize if axes and axes[0][1] == itemsize else itemsize
    return width, axes[::-1]


def extent_bytes(array: DeviceArray) -> int:
    """Return the number of bytes from the first to the end of the last element of an array that is not empty."""
    return array.itemsize + sum((count - 1) * stride for count, stride in zip(array.shape, array.strides, strict=True))


def offsets(axes: Sequence[tuple[int, int]]) -> Iterator[int]:
    """Yield the offsets in bytes of all elements of these axes, the last axis fastest."""
    return map(sum, itertools.product(*(range(0, count * stride, stride) for count, stride in axes)))


def poison(host: np.ndarray) -> None:
    """Mark each page and the last element of a contiguous floating-point array, before a copy arrives."""
    if (words := _marked(host)) is not None:
        words[0][...] = words[1][...] = POISON[host.dtype.name]


def require_arrival(host: np.ndarray) -> None:
    """Check that a copy has replaced the marks of `poison`.

    Raises
    ------
    SelfCheckError : at least one mark is still there.
    """
    if (words := _marked(host)) is not None and any((part == POISON[host.dtype.name]).any() for part in words):
        raise SelfCheckError(f"a copy of {host.nbytes} bytes from the device did not arrive.")


def _marked(host: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the first word of each page and the last word of an array; None if its type has no pattern."""
    if host.dtype.name not in POISON or host.size == 0:
        return None
    words = host.reshape(-1).view(f"u{host.itemsize}")
    return words[:: PAGE // host.itemsize], words[-1:]


class CudaDevice(Protocol):
    """What copies use of `CudaBackend`. number : index of the device. stream : of the work queued now."""

    cupy: ModuleType
    number: int
    stream: Stream

    def upload(self, host: npt.ArrayLike, dtype: npt.DTypeLike | None = None) -> DeviceArray:
        """Return the array on the device."""


class Unfinished:
    """Arrays that are being copied, and their page-locked buffers: their memory must not be used again before."""

    def __init__(self) -> None:
        self._copies: list[tuple[Event, DeviceArray, np.ndarray]] = []

    def release(self) -> None:
        """Release arrays and buffers whose copies are complete."""
        self._copies[:] = [entry for entry in self._copies if not entry[0].done]

    def add(self, event: Event, array: DeviceArray, host: np.ndarray) -> None:
        """Store an array and its buffer until the event, which was recorded after the copy, is complete."""
        self._copies.append((event, array, host))

    def clear(self) -> None:
        """Release all buffers, after the device has completed all work."""
        self._copies.clear()


class PiecewiseCopy(PendingCopy):
    """Copy of a large array that nothing changes later, through few page-locked buffers, when a thread takes pieces.

    The device stores the array until all pieces are taken. Pieces of an array whose elements are not contiguous are
    slices of its first axis. stream : of the copies, which the calling thread may use.
    """

    in_pieces = True

    def __init__(self, backend: CudaDevice, array: DeviceArray, stream: Stream) -> None:
        self.shape, self.size, self._backend, self._stream = array.shape, array.size, backend, stream
        self._source: DeviceArray | None = array
        self._contiguous = not merged_axes(array.shape, array.strides, array.itemsize)[1]
        self._host: np.ndarray | None = None
        self._ready = backend.cupy.cuda.Event(disable_timing=True)
        self._ready.record(backend.stream)

    def wait(self) -> np.ndarray:
        """See `PendingCopy`."""
        if self._host is None:
            host, first = np.empty(self.size, self._source.dtype), 0
            for piece in self.pieces():
                host[first : first + piece.size] = piece
                first += piece.size
            self._host = host.reshape(self.shape)
        return self._host

    def pieces(self) -> Iterator[np.ndarray]:
        """See `PendingCopy`; the pieces can be taken once, unless `wait` has been called before."""
        if self._host is not None:
            yield self._host.reshape(-1)
            return
        cuda, dtype = self._backend.cupy.cuda, self._source.dtype
        unit = self.shape[-1] if self._contiguous else math.prod(self.shape[1:])
        length = max(1, PIECE_BYTES // (dtype.itemsize * unit)) * unit
        starts = range(0, self.size, length)
        with device_errors():
            cuda.runtime.setDevice(self._backend.number)
            self._stream.wait_event(self._ready)
            buffers = [cuda.alloc_pinned_memory(length * dtype.itemsize) for _ in starts[:PIECES]]
            events = [cuda.Event(block=True, disable_timing=True) for _ in buffers]
        try:
            hosts = [self._start(first, length, buffers[n], events[n]) for n, first in enumerate(starts[:PIECES])]
            for number in range(len(starts)):
                slot = number % PIECES
                with device_errors():
                    events[slot].synchronize()
                require_arrival(hosts[slot])
                yield hosts[slot]
                if number + PIECES < len(starts):
                    hosts[slot] = self._start(starts[number + PIECES], length, buffers[slot], events[slot])
        finally:
            with device_errors():
                self._stream.synchronize()  # before the buffers are released
        self._source = None

    def _start(self, first: int, length: int, buffer: PinnedMemoryPointer, event: Event) -> np.ndarray:
        """Start the copy of the elements from `first` into a buffer; return its array."""
        cupy, source = self._backend.cupy, self._source
        host = pinned_array(buffer, (min(length, self.size - first),), source.dtype)
        poison(host)
        with device_errors():
            if self._contiguous:
                piece = cupy.ndarray(host.shape, source.dtype, source.data + first * source.dtype.itemsize)
            else:
                unit, pitch = math.prod(self.shape[1:]), source.strides[0]
                shape = (host.size // unit, *self.shape[1:])
                piece = cupy.ndarray(shape, source.dtype, source.data + first // unit * pitch, source.strides)
            copy(cupy.cuda.runtime, piece, host, False, self._stream.ptr)
            event.record(self._stream)
        return host


class Staging:
    """Page-locked buffers that the device reads while the host continues; each is reused after it has been read."""

    def __init__(self, cuda: ModuleType) -> None:
        self._cuda = cuda
        self._used: dict[int, deque] = {}

    def take(self, shape: tuple[int, ...], dtype: np.dtype) -> tuple[np.ndarray, Event]:
        """Return a contiguous array to fill, and the event to record on the stream after the copy from the array."""
        size = dtype.itemsize * int(np.prod(shape))
        room = max(SMALLEST, 1 << (size - 1).bit_length())
        queue = self._used.setdefault(room, deque())
        if queue and (queue[0][1].done or len(queue) >= MOST_BUFFERS):
            buffer, event = queue.popleft()
            event.synchronize()
        else:
            buffer = self._cuda.alloc_pinned_memory(room)
            event = self._cuda.Event(disable_timing=True)
        queue.append((buffer, event))
        return pinned_array(buffer, shape, dtype), event


class PinnedHostMirror(HostMirror):
    """Page-locked `lithowave.backends.interface.HostMirror`, whose copies overlap with other work."""

    def __init__(self, backend: CudaDevice, array: DeviceArray) -> None:
        self._backend, self._array = backend, array
        self._cuda = backend.cupy.cuda
        self._buffer = self._cuda.alloc_pinned_memory(max(1, array.nbytes))
        self.host = pinned_array(self._buffer, array.shape, array.dtype)
        self._event = self._cuda.Event(disable_timing=True)

    def pull(self) -> None:
        """See `HostMirror`."""
        with device_errors():
            copy(self._cuda.runtime, self._array, self.host, False, self._backend.stream.ptr)
            self._event.record(self._backend.stream)

    def wait(self) -> None:
        """See `HostMirror`."""
        with device_errors():
            self._event.synchronize()

    def push(self) -> None:
        """See `HostMirror`."""
        with device_errors():
            copy(self._cuda.runtime, self._array, self.host, True, self._backend.stream.ptr)


def pinned_array(buffer: PinnedMemoryPointer, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return an array in a page-locked buffer, which exists as long as the array."""
    return np.frombuffer(buffer, dtype, int(np.prod(shape))).reshape(shape)


NUMBERS = 1 << 12  # distinct values of flags, used cyclically
EQUAL = 1  # CU_STREAM_WAIT_VALUE_EQ
OPEN_LAZILY = 1  # cudaIpcMemLazyEnablePeerAccess


class ExportedBlock:
    """Zeroed device memory of this process into which others may write, as long as this object exists.

    address : of its first byte. handle : with which other processes open it.
    """

    def __init__(self, backend: CudaDevice, size: int) -> None:
        self._runtime = backend.cupy.cuda.runtime
        with device_errors(size):
            self.address: int = self._runtime.malloc(max(1, size))
            self._runtime.memset(self.address, 0, max(1, size))
            self.handle: bytes = bytes(self._runtime.ipcGetMemHandle(self.address))

    def free(self) -> None:
        """Release the memory, after the last write of other processes."""
        with device_errors():
            self._runtime.free(self.address)


class Peers:
    """Copies into blocks that other processes have exported, and the flags that announce them."""

    def __init__(self, backend: CudaDevice) -> None:
        self._backend, self._runtime = backend, backend.cupy.cuda.runtime
        self._driver = driver_library()
        self._wait_value = getattr(self._driver, "cuStreamWaitValue32_v2", None)
        if self._wait_value is None:
            raise ResourceError("the driver is too old for copies between processes. Set compute.transport: nccl.")
        self._numbers = backend.upload(np.arange(NUMBERS), np.uint32)
        self._opened: list[int] = []

    def open(self, handle: bytes) -> int:
        """Return the address in this process of a block of another one."""
        with device_errors():
            self._opened.append(self._runtime.ipcOpenMemHandle(handle, OPEN_LAZILY))
        return self._opened[-1]

    def put(self, address: int, source: int, size: int) -> None:
        """Copy bytes from this device to an address, in order on the current stream."""
        with device_errors():
            self._runtime.memcpyAsync(
                address, source, size, self._runtime.memcpyDeviceToDevice, self._backend.stream.ptr
            )

    def raise_flag(self, address: int, number: int) -> None:
        """Set a flag, after the earlier copies of the current stream."""
        self.put(address, self._numbers.data.ptr + 4 * (number % NUMBERS), 4)

    def wait_flag(self, address: int, number: int) -> None:
        """Make the current stream wait until a flag of this process has this number."""
        status = self._wait_value(
            ctypes.c_void_p(self._backend.stream.ptr), ctypes.c_uint64(address), ctypes.c_uint32(number % NUMBERS),
            ctypes.c_uint(EQUAL),
        )  # fmt: skip
        if status:
            raise ResourceError(f"the CUDA device cannot wait for another device (error {status}).")

    def close(self) -> None:
        """Close the blocks of other processes."""
        for address in self._opened:
            with device_errors():
                self._runtime.ipcCloseMemHandle(address)
        self._opened = []


def can_export(backend: CudaDevice) -> bool:
    """Return True if other processes can write into memory of this device."""
    with suppress(ResourceError):
        ExportedBlock(backend, 4).free()
        return True
    return False
