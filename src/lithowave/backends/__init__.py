"""Devices: where arrays live and kernels run. A backend knows nothing of meshes, materials or ranks."""

from __future__ import annotations

from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING

from lithowave.errors import InputError, MissingPackageError, ResourceError

if TYPE_CHECKING:
    from lithowave.backends.cpu import CpuBackend
    from lithowave.backends.cuda import CudaBackend


def make_backend(name: str, precision: str, threads: int | None = None) -> CpuBackend | CudaBackend:
    """The backend of that name; ``auto`` takes CUDA where CuPy is installed and a device answers, else the CPU.

    Raises
    ------
    InputError : for a name that is none. MissingPackageError, ResourceError : for ``cuda`` where it cannot be used;
    what was asked for is never replaced in silence.
    """
    if name not in ("auto", "cpu", "cuda"):
        raise InputError("compute.backend", f"{name} is no backend", "Available: auto, cpu, cuda")
    if name == "cuda" or (name == "auto" and _device_is_likely()):
        from lithowave.backends.cuda import CudaBackend

        if name == "cuda":
            return CudaBackend(precision)
        with suppress(MissingPackageError, ResourceError):
            return CudaBackend(precision)
    from lithowave.backends.cpu import CpuBackend

    return CpuBackend(precision, threads)


def _device_is_likely() -> bool:
    """Whether it is worth the second that it takes to import CuPy."""
    from lithowave.backends.cuda_driver import driver_library

    return find_spec("cupy") is not None and driver_library() is not None
