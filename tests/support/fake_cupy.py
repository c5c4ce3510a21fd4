"""As much of CuPy as the CUDA backend uses, over main memory: for tests of its bookkeeping and of its errors.

Work is done at once. ``state`` tells what the device answers: set its entries to let calls fail.
"""

from __future__ import annotations

import ctypes
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import numpy as np

ALIGNMENT = 512
PROPERTIES = {"name": b"Paper GPU", "major": 9, "minor": 0, "multiProcessorCount": 4, "sharedMemPerBlockOptin": 232448}


class DeviceError(RuntimeError):
    """Both CUDARuntimeError and CUDADriverError."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.status = status


class OutOfMemoryError(MemoryError):
    """Raised by `alloc`."""


class Memory:
    """Aligned memory, filled with what a device may leave in it, and places in it."""

    def __init__(self, size: int) -> None:
        self._room = np.full(size + ALIGNMENT, 0xA5, np.uint8)
        self.ptr, self.mem = -(-self._room.ctypes.data // ALIGNMENT) * ALIGNMENT, self

    def __add__(self, offset: int) -> SimpleNamespace:
        return SimpleNamespace(ptr=self.ptr + offset, mem=self)

    def memset_async(self, value: int, size: int, _stream: object) -> None:
        ctypes.memset(self.ptr, value, size)


class Array:
    """What of cupy.ndarray the backend asks for."""

    def __init__(self, shape, dtype, data, strides=None) -> None:
        self.shape, self.dtype, self.data = shape, np.dtype(dtype), data
        self.ndim, self.itemsize, self.size = len(shape), self.dtype.itemsize, int(np.prod(shape))
        self.nbytes = self.size * self.itemsize
        self.strides = strides or tuple(int(np.prod(shape[n + 1 :])) * self.itemsize for n in range(self.ndim))

    def __getitem__(self, key) -> Array:
        offset = 0
        for part, stride in zip(key, self.strides, strict=True):
            offset += (part.start or 0) * stride
        shape = tuple(len(range(*part.indices(n))) for part, n in zip(key, self.shape, strict=True))
        strides = tuple(stride * (part.step or 1) for part, stride in zip(key, self.strides, strict=True))
        return Array(shape, self.dtype, SimpleNamespace(ptr=self.data.ptr + offset, mem=self.data.mem), strides)


def fake_cupy() -> ModuleType:
    """A module to be put into ``sys.modules`` as cupy."""
    state = {
        "devices": 1, "count_error": 0, "set_error": 0, "driver": 13020, "full": False, "error": 0, "launches": [],
        "pinned": 0,
    }  # fmt: skip

    def raising() -> None:
        if state["error"]:
            raise DeviceError(state["error"])

    class Stream:
        ptr = 77

        def __init__(self, non_blocking: bool, priority: int = 0) -> None:
            assert non_blocking

        def __enter__(self) -> None: ...
        def __exit__(self, *_: object) -> None: ...

        def wait_event(self, _event: object) -> None: ...

        def synchronize(self) -> None:
            raising()

        def begin_capture(self) -> None:
            state["launches"].append("begin")

        def end_capture(self) -> SimpleNamespace:
            state["launches"].append("end")
            return SimpleNamespace(launch=lambda stream: state["launches"].append("graph"))

    class Event:
        done = False

        def __init__(self, block: bool = False, disable_timing: bool = False) -> None: ...
        def record(self, _stream: object) -> None: ...

        def synchronize(self) -> None:
            raising()

    def set_device(_number: int) -> None:
        if state["set_error"]:
            raise DeviceError(state["set_error"])

    def device_count() -> int:
        if state["count_error"]:
            raise DeviceError(state["count_error"])
        return state["devices"]

    def alloc(size: int) -> Memory:
        if state["full"]:
            raise OutOfMemoryError("full")
        return Memory(size)

    def alloc_pinned(size: int) -> bytearray:
        state["pinned"] += 1
        return bytearray(size)

    def copy(to: int, origin: int, size: int, _kind: int, stream: int) -> None:
        assert stream == Stream.ptr
        ctypes.memmove(to, origin, size)

    def copy_rows(
        to: int, to_pitch: int, origin: int, pitch: int, width: int, rows: int, kind: int, stream: int
    ) -> None:
        assert to_pitch >= width and pitch >= width
        for row in range(rows):
            copy(to + row * to_pitch, origin + row * pitch, width, kind, stream)

    def launch(function: str, *shape_and_stream: int) -> None:
        raising()
        state["launches"].append((function, *shape_and_stream))

    cupy = ModuleType("cupy")
    cupy.__spec__ = ModuleSpec("cupy", None)
    cupy.state, cupy.ndarray, cupy.__version__ = state, Array, "14.0.1"
    cupy.get_default_memory_pool = lambda: SimpleNamespace(free_bytes=lambda: 10**9)
    runtime = SimpleNamespace(
        CUDARuntimeError=DeviceError, getDeviceCount=device_count, driverGetVersion=lambda: state["driver"],
        runtimeGetVersion=lambda: 13020, memGetInfo=lambda: (2 * 10**9, 10**10), getDevice=lambda: 0,
        setDevice=set_device,
        getDeviceProperties=lambda _number: PROPERTIES, memcpyAsync=copy, memcpy2DAsync=copy_rows,
        memcpyHostToDevice=1, memcpyDeviceToHost=2, memcpyDeviceToDevice=3,
    )  # fmt: skip
    driver = SimpleNamespace(
        CUDADriverError=DeviceError, moduleLoadData=lambda code: 1, moduleGetFunction=lambda module, name: name,
        launchKernel=launch, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8,
        CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT=9,
        funcSetAttribute=lambda *what: state["launches"].append(what),
    )  # fmt: skip
    cupy.cuda = SimpleNamespace(
        runtime=runtime, driver=driver, memory=SimpleNamespace(OutOfMemoryError=OutOfMemoryError), Stream=Stream,
        Event=Event, alloc=alloc, alloc_pinned_memory=alloc_pinned, nvrtc=SimpleNamespace(getVersion=lambda: (13, 2)),
    )  # fmt: skip
    return cupy
