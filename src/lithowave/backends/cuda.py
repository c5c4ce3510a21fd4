"""The CUDA backend: arrays on an NVIDIA device, kernels compiled at run time, one main stream.

It contains descriptors for the copy engine (TMA, compute capability 9.0 and above), which copies boxes of a field
(`tensor_map`), kernels that are compiled, loaded, and launched with arguments bound by name (`Program`), graphs of
launches (`CapturedGraph`), and the backend.
"""

from __future__ import annotations

import ctypes
import importlib
import itertools
import math
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np

from lithowave.backends.cuda_copies import (
    ExportedBlock,
    Peers,
    PiecewiseCopy,
    PinnedHostMirror,
    Staging,
    Unfinished,
    can_export,
    copy,
    copy_on_device,
    extent_bytes,
    pinned_array,
    poison,
    require_arrival,
)
from lithowave.backends.cuda_driver import (
    cuda_versions,
    device_errors,
    driver_library,
    kernel_nodes,
    parameter_sizes,
    require_device,
)
from lithowave.backends.cuda_source import (
    Defines,
    Parameter,
    bind,
    compile_ahead,
    compile_source,
    kernel_signatures,
    source_path,
)
from lithowave.backends.interface import PendingCopy
from lithowave.errors import KernelBuildError, ResourceError, SelfCheckError
from lithowave.process import no_collection

if TYPE_CHECKING:
    from types import ModuleType

    import numpy.typing as npt
    from cupy.cuda import Event, Graph, MemoryPointer, Stream

    from lithowave.backends.cuda_source import Bound
    from lithowave.backends.interface import DeviceArray

BYTES, ALIGNMENT = 128, 64
TYPES = {"uint16": 1, "float32": 7, "float64": 8}  # CUtensorMapDataType
NO_PROMOTION, PROMOTION_128B = 0, 2  # CUtensorMapL2promotion
LARGEST_BOX = 256


def tensor_map(array: DeviceArray, first_column: int, box: tuple[int, int], whole_lines: bool = True) -> np.ndarray:
    """Return the descriptor of a 3-D tiled map over a field (z, y, x): 128 bytes, passed to a kernel by value.

    Elements outside the map are read as zero; coordinates count from element (0, 0, first_column).

    Parameters
    ----------
    array : field on the device; its strides may be padded. first_column : negative columns may extend over the
    field's lead. box : columns and rows of one copy. whole_lines : whether the second-level cache loads whole lines of
    128 bytes, for neighboring boxes, or only the sectors of 32 bytes that a box touches.

    Raises
    ------
    ValueError : the copy engine does not support the address, the strides or the box. ResourceError : the driver
    rejects the descriptor.
    """
    address, sizes, pitches = map_geometry(array, first_column, box)
    room = np.zeros(BYTES + ALIGNMENT, np.uint8)
    encoded = room[-room.ctypes.data % ALIGNMENT :][:BYTES]
    status = _encoder()(
        ctypes.c_void_p(encoded.ctypes.data), TYPES[array.dtype.name], 3, ctypes.c_void_p(address),
        (ctypes.c_uint64 * 3)(*sizes), (ctypes.c_uint64 * 2)(*pitches), (ctypes.c_uint32 * 3)(*box, 1),
        (ctypes.c_uint32 * 3)(1, 1, 1), 0, 0, PROMOTION_128B if whole_lines else NO_PROMOTION, 0,
    )  # fmt: skip
    if status != 0:
        raise ResourceError(
            f"the driver refuses a tensor map of {sizes} elements, strides {pitches} bytes, box {box} (error {status})"
        )
    return encoded.copy()


def map_geometry(
    array: DeviceArray, first_column: int, box: tuple[int, int]
) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """Return the address, sizes (x, y, z) in elements and strides (y, z) in bytes of a map; see `tensor_map`."""
    if array.ndim != 3 or array.dtype.name not in TYPES or array.strides[2] != array.itemsize:
        raise ValueError(f"a tensor map needs a field (z, y, x) of {', '.join(TYPES)} with contiguous rows")
    address = array.data.ptr + first_column * array.itemsize
    pitches = (array.strides[1], array.strides[0])
    if address % 16 or any(pitch % 16 for pitch in pitches):
        raise ValueError(f"column {first_column} or the rows of the field are not aligned to 16 bytes")
    if address < array.data.mem.ptr or first_column >= array.shape[2]:
        raise ValueError(f"column {first_column} lies outside the memory of the field")
    if box[0] * array.itemsize % 16 or not all(1 <= side <= LARGEST_BOX for side in box):
        raise ValueError(f"box {box}: sides of 1 to {LARGEST_BOX}, rows of whole 16 bytes are possible")
    return address, (array.shape[2] - first_column, array.shape[1], array.shape[0]), pitches


def _encoder() -> Callable[..., int]:
    encode = getattr(driver_library(), "cuTensorMapEncodeTiled", None)
    if encode is None:
        raise ResourceError("the NVIDIA driver has no tensor maps: it is older than CUDA 12. Update it.")
    encode.restype = ctypes.c_int
    return encode


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
        arguments: Mapping[str, object],
        shared_bytes: int = 0,
        carveout: int = -1,
    ) -> None:
        """Queue a kernel; do nothing if the grid is empty.

        Parameters
        ----------
        name : of the kernel. grid, block : blocks and threads along x, y, z; default: 1. arguments : values by
        parameter name. shared_bytes : dynamic shared memory of a block. carveout : preferred shared memory of a
        multiprocessor, in percent of the possible one; the rest of its memory is the first-level cache. -1 : as much
        as the blocks need that can run at the same time.

        Raises
        ------
        TypeError : an argument is missing or has the wrong type. KernelBuildError : no such kernel. ResourceError :
        the device rejects the launch, or has failed before.
        """
        if self._backend.only_compiles:
            return
        kernel = self._kernels.get(name) or self._load(name)
        values = bind(name, kernel.parameters, arguments, self._backend.dtype)
        slots, _storage = kernel.packed(
            [self._passed(name, *pair) for pair in zip(kernel.parameters, values, strict=True)]
        )
        if 0 in grid:
            return
        self._backend.launch_count += 1
        with device_errors():
            kernel.configure(shared_bytes, carveout)
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

    def _passed(self, kernel: str, parameter: Parameter, value: Bound) -> Bound:
        """Return the value for a kernel: the address of an array on the device, numbers and structs unchanged."""
        if not parameter.is_pointer:
            return value
        if not isinstance(value, self._backend.array_type):
            raise TypeError(f"kernel {kernel}: argument {parameter.name} is in main memory; upload it first")
        return np.uint64(value.data.ptr)


class _Kernel:
    """A loaded kernel."""

    def __init__(self, name: str, function: int, parameters: list[Parameter], driver: ModuleType) -> None:
        self.name, self.function, self.parameters = name, function, parameters
        self._driver, self._sizes = driver, parameter_sizes(function)
        self._shared_bytes, self._carveout = PLAIN_SHARED_BYTES, -1

    def packed(self, values: Sequence[Bound]) -> tuple[ctypes.Array, ctypes.Array]:
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

    def configure(self, shared_bytes: int, carveout: int) -> None:
        """Permit blocks this much dynamic shared memory; prefer this division of a multiprocessor's memory."""
        if shared_bytes > self._shared_bytes:
            attribute = self._driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._driver.funcSetAttribute(self.function, attribute, shared_bytes)
            self._shared_bytes = shared_bytes
        if carveout != self._carveout:
            attribute = self._driver.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT
            self._driver.funcSetAttribute(self.function, attribute, carveout)
            self._carveout = carveout

    def _raise_size_error(self, parts: list[bytes]) -> None:
        given = [f"{p.ctype} {p.name}: {len(part)}" for p, part in zip(self.parameters, parts, strict=True)]
        raise TypeError(
            f"kernel {self.name}: its parameters have {self._sizes} bytes, the arguments {', '.join(given)}"
        )


class _LaterProgram:
    """A program that is being compiled, in `CudaBackend.begin_programs`."""

    def launch(self, *_arguments: object, **_more: object) -> None:
        """Do nothing."""


LATER = _LaterProgram()


class CapturedGraph:
    """A function that launches the same kernels in every call, from its second call on as one CUDA graph."""

    def __init__(self, function: Callable[[], None], backend: CudaBackend) -> None:
        self._function, self._backend, self._stream = function, backend, backend.stream
        self._graph: Graph | None = None
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

    def _captured(self) -> Graph:
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


LINE = 128  # bytes that the device reads in one transaction
WHOLE_BYTES = 64 << 20  # larger temporary arrays are copied to main memory in pieces
FROZEN_BYTES = 1 << 20  # larger arrays of a checkpoint are copied on the device, and in pieces to main memory
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
            self._second: Stream | None = None
            self._streams: dict[str, Stream] = {}  # for copies of temporary arrays, and of `side_by_side`
            found = self._runtime.getDeviceProperties(self._runtime.getDevice())
        self.device: str = found["name"].decode()
        self.identity = "{:x}:{:x}:{:x}".format(*(found.get(f"pci{part}ID", 0) for part in ("Domain", "Bus", "Device")))
        self.capability: tuple[int, int] = (found["major"], found["minor"])
        self.multiprocessors: int = found["multiProcessorCount"]
        self.shared_memory_limit: int = found["sharedMemPerBlockOptin"]
        # True if kernels may use bulk tensor copies and enough shared memory for them; callers may set it to False.
        self.copy_engine = self.capability >= (9, 0) and self.shared_memory_limit >= RING_BYTES
        self._staging, self._unfinished = Staging(self.cupy.cuda), Unfinished()
        self.launch_count, self.only_compiles = 0, False
        self._programs: dict[tuple, Program] = {}

    # ------------------------------------------------------------------------------------------------ kernels

    def kernels(self, package: str, *_modules: str, **sizes: object) -> SimpleNamespace:
        """Return the kernels of a solver package for these sizes, from ``make_kernels`` of its module ``launches``."""
        return importlib.import_module(f"{package}.launches").make_kernels(self, **sizes)

    def compile_ahead(self, package: str, **sizes: object) -> None:
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
        if key not in self._programs and self.only_compiles:
            compile_ahead(source_path(package, file), defines, self.precision, self.capability, generated)
            return LATER
        if key not in self._programs:
            self._programs[key] = Program(self, package, file, defines, generated)
        return self._programs[key]

    def begin_programs(self, function: Callable[[], None]) -> None:
        """Begin to compile the programs of which a function launches kernels, and launch none; see `capture_graph`.

        The first call then waits for the longest compilation, instead of one after the other.
        """
        self.only_compiles = True
        try:
            function()
        finally:
            self.only_compiles = False

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

    def _follow(self, later: Stream, earlier: Stream) -> None:
        event = self.cupy.cuda.Event(disable_timing=True)
        event.record(earlier)
        later.wait_event(event)

    def mirror(self, array: DeviceArray) -> PinnedHostMirror:
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
        self, array: DeviceArray, first_column: int, box: tuple[int, int], whole_lines: bool = True
    ) -> np.ndarray:
        """Return a descriptor for the copy engine; see `lithowave.backends.cuda.tensor_map`."""
        return tensor_map(array, first_column, box, whole_lines)

    def scalar(self, value: float) -> np.floating:
        """Return a number in the precision of the run."""
        return self.dtype.type(value)

    # ------------------------------------------------------------------------------------------------- arrays

    def zeros(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike | None = None) -> DeviceArray:
        """Return an array of zeros; default type: the precision of the run."""
        shape, dtype = _tuple(shape), np.dtype(dtype or self.dtype)
        return self.cupy.ndarray(shape, dtype, self._zeroed(math.prod(shape) * dtype.itemsize))

    def field(
        self, shape: tuple[int, int, int], halo: int, dtype: npt.DTypeLike | None = None, shift: int = 0
    ) -> DeviceArray:
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

    def field_bytes(self, shape: tuple[int, int, int], halo: int, dtype: npt.DTypeLike | None = None) -> int:
        """Return the device memory of a `field` of this shape and type, including padding, bytes."""
        return padded_layout(shape, halo, np.dtype(dtype or self.dtype).itemsize, self.dtype.itemsize)[2]

    def upload(self, host: npt.ArrayLike, dtype: npt.DTypeLike | None = None) -> DeviceArray:
        """Return the array on the device; default type: the precision of the run."""
        host = np.ascontiguousarray(host, dtype or self.dtype)
        array = self.cupy.ndarray(host.shape, host.dtype, self._allocate(host.nbytes))
        self._copy_and_wait(array, host, True)
        return array

    def download(self, array: DeviceArray) -> np.ndarray:
        """Return a copy in main memory, after all work queued so far is complete."""
        host = np.empty(array.shape, array.dtype)
        poison(host)
        self._copy_and_wait(array, host, False)
        require_arrival(host)
        return host

    def assign(self, array: DeviceArray, host: npt.ArrayLike) -> None:
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

    def fetch(self, array: DeviceArray, temporary: bool = False) -> PendingCopy:
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

    def freeze(self, array: DeviceArray, temporary: bool = False) -> PendingCopy:
        """Return the present values for a checkpoint; see `Backend`.

        Large arrays are first copied on the device, if it has room: the next steps need not wait for the host.
        """
        if array.nbytes <= FROZEN_BYTES or not (temporary or self.has_room(extent_bytes(array))):
            return self.fetch(array, temporary)
        copied = array if temporary else self._duplicate(array)
        with device_errors():
            return PiecewiseCopy(self, copied, self._new_stream("pieces"))

    def _duplicate(self, array: DeviceArray) -> DeviceArray:
        """Return a copy on the device with the same strides, in stream order."""
        size = extent_bytes(array)
        memory = self._allocate(size)
        with device_errors():
            self._runtime.memcpyAsync(
                memory.ptr, array.data.ptr, size, self._runtime.memcpyDeviceToDevice, self.stream.ptr
            )
        return self.cupy.ndarray(array.shape, array.dtype, memory, array.strides)

    def _copy_stream(self) -> Stream:
        """Return the stream of temporary arrays, whose next work begins after the work queued so far."""
        stream = self._new_stream("copies")
        self._follow(stream, self.stream)
        return stream

    def _new_stream(self, name: str, priority: int = 0) -> Stream:
        """Return the stream with this name, which the first call creates. priority : the lowest number is served first.
        """
        if name not in self._streams:
            self._streams[name] = self.cupy.cuda.Stream(non_blocking=True, priority=priority)
        return self._streams[name]

    def _copy_and_wait(self, array: DeviceArray, host: np.ndarray, to_device: bool) -> None:
        with device_errors(), self.stream:
            copy(self._runtime, array, host, to_device, self.stream.ptr)
            self.stream.synchronize()

    def _zeroed(self, size: int) -> MemoryPointer:
        memory = self._allocate(size)
        with device_errors():
            memory.memset_async(0, size, self.stream)
        return memory

    def _allocate(self, size: int) -> MemoryPointer:
        with device_errors(size), self.stream:
            return self.cupy.cuda.alloc(max(1, size))

    # ------------------------------------------------------------------------------------------------- device

    def free_memory(self) -> int:
        """Return the bytes of device memory that a run can allocate now."""
        with device_errors():
            free = self._runtime.memGetInfo()[0]
        return max(0, free + self.cupy.get_default_memory_pool().free_bytes() - RESERVE)

    def has_room(self, size: int) -> bool:
        """Return True if the device can store this many bytes for a while; an eighth of its memory must remain free,
        for outputs in the meantime."""
        with device_errors():
            total = self._runtime.memGetInfo()[1]
        return self.free_memory() - size > total // 8

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

    def facts(self) -> dict[str, object]:
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

    def _arrived(self, event: Event, host: np.ndarray) -> None:
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
