"""Devices: where arrays live and kernels run. A backend knows nothing of meshes, materials or ranks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING

from lithowave.backends import cuda_driver
from lithowave.errors import InputError, MissingPackageError, ResourceError

if TYPE_CHECKING:
    from lithowave.backends.cpu import CpuBackend
    from lithowave.backends.cuda import CudaBackend


def first_device(_count: int) -> int:
    """The first of the devices."""
    return 0


def make_backend(
    name: str,
    precision: str,
    threads: int | None = None,
    choose_device: Callable[[int], int] = first_device,
    processes: int = 1,
) -> CpuBackend | CudaBackend:
    """The backend of that name; ``auto`` takes CUDA where CuPy is installed and a device answers, else the CPU.

    Parameters
    ----------
    choose_device : of the number of devices: which one to take. processes : of the run that share this one's cores.

    Raises
    ------
    InputError : for a name that is none. MissingPackageError, ResourceError : for ``cuda`` where it cannot be used;
    what was asked for is never replaced in silence.
    """
    if name not in ("auto", "cpu", "cuda"):
        raise InputError("compute.backend", f"{name} is no backend", "Available: auto, cpu, cuda")
    if name == "cuda" or (name == "auto" and _device_is_likely()):
        from lithowave.backends.cuda import CudaBackend

        if name == "cuda" or _device_answers():
            return CudaBackend(precision, choose_device(cuda_driver.require_device().cuda.runtime.getDeviceCount()))
    from lithowave.backends.cpu import CpuBackend

    return CpuBackend(precision, threads, processes)


def _device_answers() -> bool:
    with suppress(MissingPackageError, ResourceError):
        return bool(cuda_driver.require_device())
    return False


def _device_is_likely() -> bool:
    """Whether it is worth the second that it takes to import CuPy."""
    return find_spec("cupy") is not None and cuda_driver.driver_library() is not None
