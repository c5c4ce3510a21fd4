"""Devices that store arrays and run kernels. A backend does not depend on meshes, materials or ranks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING

from lithowave.backends import cuda_driver
from lithowave.errors import InputError, MissingPackageError, ResourceError
from lithowave.rooms import public_names

if TYPE_CHECKING:
    from lithowave.backends.interface import Backend


def first_device(_count: int) -> int:
    """Return the index of the first device."""
    return 0


def make_backend(
    name: str,
    precision: str,
    threads: int | None = None,
    choose_device: Callable[[int], int] = first_device,
    processes: int = 1,
) -> Backend:
    """Return the backend of this name; ``auto`` selects CUDA if CuPy is installed and a device responds, else the CPU.

    Parameters
    ----------
    choose_device : returns the device index for a number of devices. processes : number that share these cores.

    Raises
    ------
    InputError : the name is unknown. MissingPackageError, ResourceError : ``cuda`` is requested and cannot be used; a
    requested backend is never replaced by another one.
    """
    if name not in ("auto", "cpu", "cuda"):
        raise InputError("compute.backend", f"{name} is not a backend", "Allowed: auto, cpu, cuda")
    from lithowave.backends.cpu import CpuBackend, set_threads

    if name == "cuda" or (name == "auto" and _device_is_likely()):
        from lithowave.backends.cuda import CudaBackend

        if name == "cuda" or _device_answers():
            set_threads(threads, processes)  # of the preparation
            return CudaBackend(precision, choose_device(cuda_driver.require_device().cuda.runtime.getDeviceCount()))
    return CpuBackend(precision, threads, processes)


def _device_answers() -> bool:
    with suppress(MissingPackageError, ResourceError):
        return bool(cuda_driver.require_device())
    return False


def _device_is_likely() -> bool:
    """Return True if importing CuPy, which takes a second, can be of use."""
    return find_spec("cupy") is not None and cuda_driver.driver_library() is not None

__getattr__, __all__ = public_names(__name__, {
    "cpu": "CpuBackend PAGE free_memory",
    "cuda": "CudaBackend STAGED_BYTES map_geometry padded_layout require_whole_graph",
    "cuda_copies": "MOST_BUFFERS merged_axes poison require_arrival",
    "cuda_source": "COMMENTS HEAD Parameter bind header_folders kernel_signatures read_headers source_path",
    "interface": "PendingCopy",
    "kernel_cache": "BusyError INNER_LIBRARIES REPLACED Selection VariantFiles claim code_digest njit release_claim",
    "loops": "U over_parts",
    "rows": "address lane_rows matrix_rows prefetch",
})
