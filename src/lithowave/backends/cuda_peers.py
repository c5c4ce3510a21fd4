"""Device memory into which other processes of this machine write with copy engines, without kernels.

The other processes open an exported block through CUDA's interprocess handles. A writer copies its data and then a
number into a flag after them, on one stream; the reader's stream waits until the flag has that number.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from typing import Any

import numpy as np

from lithowave.backends.cuda_driver import device_errors, driver_library
from lithowave.errors import ResourceError

NUMBERS = 1 << 12  # distinct values of flags, used cyclically
EQUAL = 1  # CU_STREAM_WAIT_VALUE_EQ
OPEN_LAZILY = 1  # cudaIpcMemLazyEnablePeerAccess


class ExportedBlock:
    """Zeroed device memory of this process into which others may write, as long as this object exists.

    address : of its first byte. handle : with which other processes open it.
    """

    def __init__(self, backend: Any, size: int) -> None:
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

    def __init__(self, backend: Any) -> None:
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


def can_export(backend: Any) -> bool:
    """Return True if other processes can write into memory of this device."""
    with suppress(ResourceError):
        ExportedBlock(backend, 4).free()
        return True
    return False
