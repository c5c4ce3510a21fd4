"""The interface of backends: what solvers and runs use of a device on which arrays are stored and kernels run.

It contains the arrays of a device, the two protocols of backends, and copies between devices and main memory that may
be in progress.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt


class Array(Protocol):
    """An array of a backend: of NumPy on a CPU, of CuPy on a CUDA device.

    Indices are integers, slices and arrays; what an index returns is a number or an array, as in NumPy.
    """

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def strides(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype: ...
    @property
    def ndim(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def itemsize(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    def __len__(self) -> int: ...
    def tobytes(self) -> bytes: ...
    def __getitem__(self, index: Any, /) -> Any: ...
    def __setitem__(self, index: Any, value: Any, /) -> None: ...


class DeviceMemory(Protocol):
    """Memory of a CUDA device, from some byte on. ptr : its address. mem : the memory from its first byte on."""

    @property
    def ptr(self) -> int: ...
    @property
    def mem(self) -> DeviceMemory: ...
    def __add__(self, count: int, /) -> DeviceMemory: ...


class DeviceArray(Array, Protocol):
    """An array of CuPy. data : its memory, from the first element on."""

    @property
    def data(self) -> DeviceMemory: ...


class Stream(Protocol):
    """A queue of work of a CUDA device. ptr : its handle."""

    @property
    def ptr(self) -> int: ...


class Program(Protocol):
    """The kernels of a source file, compiled for one set of definitions."""

    def launch(
        self, kernel: str, grid: tuple[int, ...], block: tuple[int, ...], arguments: Mapping[str, object],
        shared_bytes: int = 0, carveout: int = -1,
    ) -> None:  # fmt: skip
        """Launch a kernel, with its arguments by name. carveout : see `CudaBackend`'s `Program.launch`."""


class ExportedMemory(Protocol):
    """Memory of a device into which other processes can write. handle : with which they open it."""

    address: int
    handle: bytes

    def free(self) -> None:
        """Release the memory."""


class PeerAccess(Protocol):
    """Access to memory that other processes have exported; the work is queued in the present stream."""

    def open(self, handle: bytes) -> int:
        """Return the address of exported memory in this process."""

    def put(self, target: int, source: int, size: int) -> None:
        """Copy `size` bytes to an address."""

    def raise_flag(self, address: int, value: int) -> None:
        """Write a number after all copies queued so far."""

    def wait_flag(self, address: int, value: int) -> None:
        """Let later work wait for this number, or a larger one."""

    def close(self) -> None:
        """Close the memory of other processes."""


class Backend(Protocol):
    """A device on which arrays are stored and kernels run; implemented by `CpuBackend` and `CudaBackend`.

    name : ``cpu`` or ``cuda``. device : name of the processor or GPU. precision : ``single`` or ``double``.
    dtype : type of a floating-point value of the run. threads : of the loops on the host. own_memory : True if the
    arrays are not in main memory. shared : True if other ranks use the same device. device_count : devices with their
    own memory on this machine. stores_codes : True if kernels read the material as 16-bit codes. copy_engine : True if
    kernels may use bulk copies of boxes. aligned_columns : columns at which a row of a field is divided among kernels.
    sample_points : grid points of a short measurement.
    """

    name: str
    device: str
    precision: str
    dtype: np.dtype
    threads: int
    own_memory: bool
    shared: bool
    device_count: int
    stores_codes: bool
    copy_engine: bool
    aligned_columns: int
    sample_points: int

    def kernels(self, package: str, *modules: str, **sizes: object) -> SimpleNamespace:
        """Return the kernels of a solver package for these sizes; modules : those with CPU kernels."""

    def compile_ahead(self, package: str, **sizes: object) -> None:
        """Begin to compile the kernels of a package that a run needs, if a device compiles them before they run."""

    def begin_programs(self, function: Callable[[], None]) -> None:
        """Begin to compile the programs of which a function launches kernels, and launch none. It must only launch
        kernels, as for `capture_graph`."""

    def zeros(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike | None = None) -> Array:
        """Return an array of zeros; default type: the precision of the run."""

    def field(
        self, shape: tuple[int, int, int], halo: int, dtype: npt.DTypeLike | None = None, shift: int = 0
    ) -> Array:
        """Return zeros (z, y, x), with rows padded and placed as the kernels of a device read them."""

    def field_strides(self, shape: tuple[int, int, int], halo: int) -> tuple[int, int, int]:
        """Return the strides of a `field` of this shape, in elements."""

    def field_bytes(self, shape: tuple[int, int, int], halo: int, dtype: npt.DTypeLike | None = None) -> int:
        """Return the memory of a `field` of this shape and type, padding included, bytes."""

    def upload(self, array: npt.ArrayLike, dtype: npt.DTypeLike | None = None) -> Array:
        """Return the array on this device; default type: the precision of the run."""

    def download(self, array: Array) -> np.ndarray:
        """Return the array in main memory, after all work queued so far is complete."""

    def assign(self, array: Array, host: npt.ArrayLike) -> None:
        """Assign ``array[...] = host`` in device order."""

    def fetch(self, array: Array, temporary: bool = False) -> PendingCopy:
        """Start a copy of the present values to main memory; temporary : True if nothing changes the array later."""

    def has_room(self, size: int) -> bool:
        """Return True if values for a checkpoint, in this many bytes, can remain on a device until they are written."""

    def freeze(self, array: Array, temporary: bool = False) -> PendingCopy:
        """Return the present values for a checkpoint. Later work does not change them if the arrays are in the memory
        of a device (`own_memory`); on a CPU they are the array itself, to be read before the next step. temporary : as
        for `fetch`."""

    def mirror(self, array: Array) -> HostMirror:
        """Return an image of the array in main memory, which other processes can read."""

    def scalar(self, value: float) -> np.floating:
        """Return a number in the precision of the run."""

    def capture_graph(self, function: Callable[[], None]) -> Callable[[], None]:
        """Return a function that does the same in fewer launches, on the conditions of `CudaBackend`."""

    def on_side_stream(self, behind: bool = True) -> AbstractContextManager[None]:
        """Queue the enclosed work so that it may overlap with later work; behind : after all work queued so far."""

    def join_side_stream(self) -> None:
        """Make later work wait for the work of the side stream."""

    def side_by_side(self, queues: Sequence[Sequence[Callable[[], None]]]) -> None:
        """Call the functions of independent lists, each list in order."""

    def free_memory(self) -> int:
        """Return the bytes of the device's memory that a run could allocate now."""

    def facts(self) -> dict[str, object]:
        """Return the entries of run.json on the device; ``threads`` on a CPU."""

    def peak_facts(self, rate: float) -> dict[str, float]:
        """Return a rate of operations per second, and its ratio to the measured peak, where a peak is measured."""

    def bandwidths(self) -> dict[str, float]:
        """Return the measured bytes per second of copies of arrays much larger than the caches, and of other loops."""

    def synchronize(self) -> None:
        """Wait until the device has completed all work.

        Raises
        ------
        ResourceError : the device has failed.
        """


class DeviceBackend(Backend, Protocol):
    """A backend whose kernels are launched from programs, and whose memory other processes may reach.

    identity : of the device, equal in all processes. capability, multiprocessors : of the device.
    spared_multiprocessors : those that persistent kernels leave to other work. stream : of the work queued now.
    """

    identity: str
    capability: tuple[int, int]
    multiprocessors: int
    spared_multiprocessors: int
    stream: Stream

    def program(
        self, package: str, file: str, defines: Mapping[str, str | int], generated: Mapping[str, str] = ...
    ) -> Program:
        """Return the program of a source file, compiled once per set of definitions."""

    def tensor_map(self, array: Array, first_column: int, box: tuple[int, int], whole_lines: bool = True) -> np.ndarray:
        """Return a descriptor for bulk copies of boxes."""

    def can_export(self) -> bool:
        """Return True if other processes can write into memory of this device."""

    def export(self, size: int) -> ExportedMemory:
        """Return zeroed memory of this many bytes into which other processes can write."""

    def peers(self) -> PeerAccess:
        """Return the access to memory that other processes have exported."""


class PendingCopy:
    """Copy to main memory that may be in progress, returned by `fetch` of a backend.

    Parameters
    ----------
    array : destination in main memory. finish : waits for the end of the copy; None if the copy is complete.

    Attributes
    ----------
    shape, size : of the array. in_pieces : True if `pieces` requires less main memory than `wait`.
    """

    in_pieces = False

    def __init__(self, array: np.ndarray, finish: Callable[[], None] | None = None) -> None:
        self._array, self._finish = array, finish
        self.shape, self.size = array.shape, array.size

    def wait(self) -> np.ndarray:
        """Return the array after the copy is complete; may be called repeatedly.

        Raises
        ------
        ResourceError : the device has failed.
        """
        if self._finish is not None:
            self._finish()
            self._finish = None
        return self._array

    def pieces(self) -> Iterator[np.ndarray]:
        """Yield the values in order, in flat pieces along the first axes; each is valid until the next one is taken.

        Raises
        ------
        ResourceError : the device has failed.
        """
        yield self.wait().reshape(-1)


class HostMirror:
    """An array of a device and its image in main memory, which other processes can read; on a CPU they are one array.

    host : the image.
    """

    def __init__(self, array: np.ndarray) -> None:
        self.host = array

    def pull(self) -> None:
        """Start copying the array to the image, in device order."""

    def wait(self) -> None:
        """Wait until the last `pull` is complete."""

    def push(self) -> None:
        """Start copying the image to the array, in device order."""
