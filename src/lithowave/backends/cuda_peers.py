"""Memory that other processes of this machine write into: their devices' copy engines put data there, past all kernels.

An exported block is opened by the others through CUDA's interprocess handles. A writer copies its data and then a
number into a flag behind them, on one stream; the reader's stream waits until the flag has that number.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from typing import Any

import numpy as np

from lithowave.backends.cuda_driver import device_errors, driver_library
from lithowave.errors import ResourceError

NUMBERS = 1 << 12  # that flags take, one after the other, over and over
EQUAL = 1  # CU_STREAM_WAIT_VALUE_EQ
OPEN_LAZILY = 1  # cudaIpcMemLazyEnablePeerAccess


class ExportedBlock:
    """Zeroed device memory of this process that others may write into; as long as this object is kept.

    address : of its first byte. handle : by which others open it.
    """

    def __init__(self, backend: Any, size: int) -> None:
        self._runtime = backend.cupy.cuda.runtime
        with device_errors(size):
            self.address: int = self._runtime.malloc(max(1, size))
            self._runtime.memset(self.address, 0, max(1, size))
            self.handle: bytes = bytes(self._runtime.ipcGetMemHandle(self.address))

    def free(self) -> None:
        """Once nobody writes into it any more."""
        with device_errors():
            self._runtime.free(self.address)


class Peers:
    """Copies into blocks that other processes have exported, and the flags that tell of them."""

    def __init__(self, backend: Any) -> None:
        self._backend, self._runtime = backend, backend.cupy.cuda.runtime
        self._driver = driver_library()
        self._wait_value = getattr(self._driver, "cuStreamWaitValue32_v2", None)
        if self._wait_value is None:
            raise ResourceError("the NVIDIA driver is too old for copies between processes; compute.transport: nccl")
        self._numbers = backend.upload(np.arange(NUMBERS), np.uint32)
        self._opened: list[int] = []

    def open(self, handle: bytes) -> int:
        """Address in this process of a block of another one."""
        with device_errors():
            self._opened.append(self._runtime.ipcOpenMemHandle(handle, OPEN_LAZILY))
        return self._opened[-1]

    def put(self, address: int, source: int, size: int) -> None:
        """Copy bytes from this device to an address, in the order of the present stream."""
        with device_errors():
            self._runtime.memcpyAsync(
                address, source, size, self._runtime.memcpyDeviceToDevice, self._backend.stream.ptr
            )

    def raise_flag(self, address: int, number: int) -> None:
        """Set a flag, behind what was put on the present stream before."""
        self.put(address, self._numbers.data.ptr + 4 * (number % NUMBERS), 4)

    def wait_flag(self, address: int, number: int) -> None:
        """Let the present stream wait until a flag of this process has that number."""
        status = self._wait_value(
            ctypes.c_void_p(self._backend.stream.ptr), ctypes.c_uint64(address), ctypes.c_uint32(number % NUMBERS),
            ctypes.c_uint(EQUAL),
        )  # fmt: skip
        if status:
            raise ResourceError(f"the CUDA device refuses to wait for another one (error {status}).")

    def close(self) -> None:
        """Let go of the blocks of others."""
        for address in self._opened:
            with device_errors():
                self._runtime.ipcCloseMemHandle(address)
        self._opened = []


def can_export(backend: Any) -> bool:
    """Whether this device can let others write into its memory."""
    with suppress(ResourceError):
        ExportedBlock(backend, 4).free()
        return True
    return False
