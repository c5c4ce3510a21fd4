"""Arrays of the emulated device, and the zones around them that no kernel may touch."""

from __future__ import annotations

import math
import weakref
from types import SimpleNamespace
from typing import Any

import numpy as np

GUARD = 4096  # bytes of poison before and behind an array
LINE = 128
# NaN that arithmetic changes (it becomes quiet), so that `a[n] += b` shows too; -1 in integers.
POISON = {"float32": bytes.fromhex("ffffbfff"), "float64": bytes.fromhex("fffffffffffff7ff")}


class EmulationError(RuntimeError):
    """A mistake of a kernel that ran, with kernel, block, thread and line as far as they are known."""


class Allocation:
    """Memory of one array: poison, `size` bytes of zeros, poison."""

    def __init__(self, size: int, dtype: np.dtype) -> None:
        self.raw = np.empty(size + 2 * GUARD + 256, np.uint8)
        self.poison = (POISON.get(dtype.name, b"\xff") * GUARD)[:GUARD]
        self.begin = GUARD + -(self.raw.ctypes.data + GUARD) % 256
        self.ptr, self.size = self.raw.ctypes.data + self.begin, size
        self.raw[self.begin : self.begin + size] = 0
        self.guards = (
            self.raw[self.begin - GUARD : self.begin],
            self.raw[self.begin + size : self.begin + size + GUARD],
        )
        for guard in self.guards:
            guard[...] = np.frombuffer(self.poison, np.uint8)
        self.padding: tuple[np.ndarray, ...] = ()  # must stay zero
        self.text = ""

    def damage(self, padding: bool) -> str:
        """What a kernel did where it must not write; empty if it did nothing. Mends it."""
        found = ""
        for guard, side in zip(self.guards, ("before", "beyond"), strict=True):
            if guard.tobytes() != self.poison:
                untouched = np.frombuffer(self.poison, np.uint8)
                first = int(np.argmax(guard != untouched))
                distance = GUARD - first if side == "before" else first
                found = f"wrote {distance} bytes {side} an array of {self.text}"
                guard[...] = untouched
        for zeros in self.padding if padding else ():
            if zeros.any():
                place = np.argwhere(zeros)[0].tolist()
                found = f"wrote into the padding of a field of {self.text} (element {place} of it)"
                zeros[...] = 0
        return found


class DeviceArray(np.ndarray):
    """An array of the emulated device; as with CuPy, it does not mix with arrays in main memory."""

    allocation: Allocation | None

    def __array_finalize__(self, source: Any) -> None:
        self.allocation = getattr(source, "allocation", None)

    @property
    def data(self) -> SimpleNamespace:
        """Where the array begins (``ptr``) and where its memory does (``mem.ptr``), as with CuPy."""
        pointer = self.__array_interface__["data"][0]
        owner = self.allocation
        own = owner is not None and owner.ptr <= pointer <= owner.ptr + owner.size
        return SimpleNamespace(ptr=pointer, mem=SimpleNamespace(ptr=owner.ptr if own else pointer))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **others: Any) -> Any:
        out = others.get("out", ())
        for value in (*inputs, *out):
            if isinstance(value, np.ndarray) and value.ndim and not isinstance(value, DeviceArray):
                raise TypeError(f"{ufunc.__name__} of an array on the device and one in main memory")
        if out:
            others["out"] = tuple(map(_plain, out))
        result = getattr(ufunc, method)(*map(_plain, inputs), **others)
        if out:
            return out[0] if len(out) == 1 else out
        return result.view(DeviceArray) if isinstance(result, np.ndarray) else result

    def __setitem__(self, key: Any, value: Any) -> None:
        if np.ndim(value) and not isinstance(value, DeviceArray):
            raise TypeError("an array on the device takes no values from main memory: use assign of the backend")
        super().__setitem__(key, value)


def _plain(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, DeviceArray) else value


class Memory:
    """All arrays of a device."""

    def __init__(self) -> None:
        self._allocations: weakref.WeakSet[Allocation] = weakref.WeakSet()

    def array(self, shape: tuple[int, ...], dtype: np.dtype) -> DeviceArray:
        """Zeros, contiguous."""
        allocation = self._allocate(math.prod(shape) * dtype.itemsize, shape, dtype)
        return _view(allocation, shape, dtype, 0, None)

    def field(self, shape: tuple[int, int, int], halo: int, dtype: np.dtype, unit: int, shift: int) -> DeviceArray:
        """Zeros with rows padded to multiples of `unit` elements, as `CudaBackend.field` lays them out."""
        line, item = LINE // dtype.itemsize, dtype.itemsize
        planes, rows, columns = shape
        lead, pitch = line - halo % line, -(-columns // unit) * unit
        allocation = self._allocate((lead + line + planes * rows * pitch + line) * item, shape, dtype)
        lead += shift
        whole = allocation.raw[allocation.begin : allocation.begin + allocation.size].view(dtype)
        lines = whole[lead : lead + planes * rows * pitch].reshape(planes * rows, pitch)
        allocation.padding = (whole[:lead], whole[lead + planes * rows * pitch :], lines[:, columns:])
        return _view(allocation, shape, dtype, lead * item, (rows * pitch * item, pitch * item, item))

    def damage(self, padding: bool = True) -> str:
        """What was written outside the arrays (and into their padding) since the last call; empty if nothing was."""
        return "; ".join(filter(None, [allocation.damage(padding) for allocation in list(self._allocations)]))

    def size(self) -> int:
        """Bytes of all arrays that exist."""
        return sum(allocation.size for allocation in list(self._allocations))

    def _allocate(self, size: int, shape: tuple[int, ...], dtype: np.dtype) -> Allocation:
        allocation = Allocation(size, dtype)
        allocation.text = f"{' x '.join(map(str, shape))} {dtype}"
        self._allocations.add(allocation)
        return allocation


def _view(
    allocation: Allocation, shape: tuple[int, ...], dtype: np.dtype, offset: int, strides: tuple[int, ...] | None
) -> DeviceArray:
    array = DeviceArray(shape, dtype, allocation.raw, allocation.begin + offset, strides)
    array.allocation = allocation
    return array
