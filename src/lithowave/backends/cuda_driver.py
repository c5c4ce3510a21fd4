"""Access to CUDA devices: CuPy, the driver, and their errors raised as errors of lithowave."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from types import ModuleType
from typing import Protocol

from lithowave import forks
from lithowave.errors import MissingPackageError, ResourceError

OUT_OF_MEMORY = 2
REFUSED = {1, 9, 98, 200, 201, 209, 218, 221, 300, 301, 400, 500, 701, 801}  # the call is invalid; the device is intact
NOT_INITIALIZED, INSUFFICIENT_DRIVER, NO_DEVICE = 3, 35, 100
KERNEL_NODE = 0  # CU_GRAPH_NODE_TYPE_KERNEL
CPU_HINT = "or set compute.backend: cpu"
DEVICE_LOST_HINT = (
    "Results on the device are invalid; files written before remain valid. Resume from the last checkpoint with "
    "lithowave restart. If this happens again, look for device errors (nvidia-smi -q, dmesg | grep -i xid) "
    "or set compute.backend: cpu."
)


class DriverError(Protocol):
    """An error of the driver or of the CUDA runtime. status : its number."""

    @property
    def status(self) -> int: ...


def require_device() -> ModuleType:
    """Return CuPy, after a CUDA device has responded.

    Raises
    ------
    MissingPackageError : CuPy is not installed. ResourceError : no driver, a driver that is too old, or no device.
    InputError : this process was forked from one that had used the driver.
    """
    try:
        import cupy
    except ModuleNotFoundError as error:
        if error.name != "cupy":
            raise ResourceError(f"CuPy cannot be loaded ({error}): reinstall it, {CPU_HINT}.") from error
        raise MissingPackageError("cupy", "compute.backend: cuda", "cuda13") from error
    except ImportError as error:
        raise ResourceError(f"CuPy cannot be loaded ({error}): reinstall it, {CPU_HINT}.") from error
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        _refuse_fork(error)
        raise ResourceError(_unreachable(cupy.cuda.runtime, error)) from error
    if count == 0:
        raise ResourceError(_no_device())
    return cupy


def _refuse_fork(error: DriverError) -> None:
    """Raise an `InputError` if an error shows that this process was forked from one that had used the driver."""
    if forks.parents and error.status == NOT_INITIALIZED:
        forks.unusable.add(forks.CUDA)
        forks.refuse_fork()


def driver_library() -> ctypes.CDLL | None:
    """Return the driver's library; None on a machine without it."""
    with suppress(OSError):
        return ctypes.CDLL("libcuda.so.1")
    return None


def begin_context() -> threading.Thread | None:
    """Create the context of the first device in a thread; return the thread, or None without a driver or CuPy.

    The process continues: the driver needs no interpreter lock. CuPy uses the same context, or waits for it. An error
    is ignored here, since `require_device` raises it. The end of the process waits for the thread.
    """
    library = driver_library() if find_spec("cupy") is not None else None
    if library is None:
        return None

    def create() -> None:
        device, context = ctypes.c_int(), ctypes.c_void_p()
        if library.cuInit(0) == 0 and library.cuDeviceGet(ctypes.byref(device), 0) == 0:
            library.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)

    thread = threading.Thread(target=create, name="lithowave context")
    thread.start()
    return thread


def driver_version() -> str | None:
    """Return the version of the NVIDIA driver, such as 580.65.06; None if its management library does not report it."""
    text = ctypes.create_string_buffer(96)
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL("libnvidia-ml.so.1")
        if library.nvmlInit_v2() == 0 and library.nvmlSystemGetDriverVersion(text, len(text)) == 0:
            return text.value.decode()
    return None


def cuda_versions(cupy: ModuleType) -> dict[str, str | None]:
    """Return the versions of the driver, of the CUDA that it supports, of CUDA, CuPy and the compiler."""
    runtime = cupy.cuda.runtime
    return {
        "driver": driver_version(),
        "driver_cuda": _version(runtime.driverGetVersion()),
        "runtime": _version(runtime.runtimeGetVersion()),
        "cupy": cupy.__version__,
        "nvrtc": "{}.{}".format(*cupy.cuda.nvrtc.getVersion()),
    }


def _unreachable(runtime: ModuleType, error: DriverError) -> str:
    if error.status == NO_DEVICE:
        return _no_device()
    if error.status != INSUFFICIENT_DRIVER:
        return f"CUDA cannot be used: {error}. Check nvidia-smi, {CPU_HINT}."
    driver, needed = runtime.driverGetVersion(), runtime.runtimeGetVersion()
    if driver == 0:
        return f"no NVIDIA driver was found. Install it, {CPU_HINT}."
    return (
        f"the NVIDIA driver supports CUDA up to {_version(driver)}; this CuPy needs CUDA {_version(needed)}. Update "
        f'the driver, install a CuPy for an older CUDA (pip install "lithowave[cuda12]"), {CPU_HINT}.'
    )


def _no_device() -> str:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    why = "" if visible is None else f" (CUDA_VISIBLE_DEVICES is {visible!r})"
    return f"the NVIDIA driver finds no CUDA device{why}. Check nvidia-smi, {CPU_HINT}."


def _version(number: int) -> str:
    """Format 13020 as 13.2."""
    return f"{number // 1000}.{number % 1000 // 10}"


@contextmanager
def device_errors(asked: int = 0) -> Iterator[None]:
    """Raise CUDA errors as `ResourceError`; asked : bytes of device memory that the block allocates, if any."""
    import cupy

    cuda = cupy.cuda
    try:
        yield
    except cuda.memory.OutOfMemoryError as error:
        raise ResourceError(_out_of_memory(cuda.runtime, asked)) from error
    except (cuda.runtime.CUDARuntimeError, cuda.driver.CUDADriverError) as error:
        _refuse_fork(error)  # the runtime counts devices even there
        if error.status == OUT_OF_MEMORY:
            text = _out_of_memory(cuda.runtime, asked)
        elif error.status in REFUSED:
            text = f"the CUDA device rejected a call ({error}). Please report this error with the simulation file."
        else:
            text = f"the CUDA device failed ({error}). {DEVICE_LOST_HINT}"
        raise ResourceError(text) from error


def _out_of_memory(runtime: ModuleType, asked: int) -> str:
    free = 0
    with suppress(runtime.CUDARuntimeError):
        free = runtime.memGetInfo()[0]
    wanted = f"{asked / 1e9:.2f} GB were requested, " if asked else ""
    return (
        f"the memory of the CUDA device is insufficient: {wanted}{free / 1e9:.2f} GB are free. Use a coarser grid "
        "(solver.max_frequency, points_per_wavelength), a smaller domain or single precision, or end other "
        "programs on the device (nvidia-smi)."
    )


def kernel_nodes(graph: int) -> int | None:
    """Number of kernels in a CUDA graph (a cudaGraph_t); None if the driver or CuPy does not report it."""
    library = driver_library()
    get_nodes, get_type = (getattr(library, name, None) for name in ("cuGraphGetNodes", "cuGraphNodeGetType"))
    count, kind, kernels = ctypes.c_size_t(), ctypes.c_int(), 0
    if not graph or get_nodes is None or get_type is None:
        return None
    if get_nodes(ctypes.c_void_p(graph), None, ctypes.byref(count)) != 0:
        return None
    nodes = (ctypes.c_void_p * count.value)()
    if count.value and get_nodes(ctypes.c_void_p(graph), nodes, ctypes.byref(count)) != 0:
        return None
    for node in nodes:
        if get_type(ctypes.c_void_p(node), ctypes.byref(kind)) != 0:
            return None
        kernels += kind.value == KERNEL_NODE
    return kernels


def parameter_sizes(function: int) -> list[int] | None:
    """Return the bytes of each parameter of a loaded kernel; None if the driver does not report them (before 12.4)."""
    ask = getattr(driver_library(), "cuFuncGetParamInfo", None)
    if ask is None:
        return None
    offset, size, sizes = ctypes.c_size_t(), ctypes.c_size_t(), []
    while ask(ctypes.c_void_p(function), ctypes.c_size_t(len(sizes)), ctypes.byref(offset), ctypes.byref(size)) == 0:
        sizes.append(size.value)
    return sizes
