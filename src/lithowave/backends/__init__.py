"""Devices: where arrays live and kernels run. A backend knows nothing of meshes, materials or ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lithowave.errors import InputError

if TYPE_CHECKING:
    from lithowave.backends.cpu import CpuBackend


def make_backend(name: str, precision: str, threads: int | None = None) -> CpuBackend:
    """The backend of that name; ``auto`` takes the fastest one that this version and this machine have.

    Raises
    ------
    InputError
        for a backend that this version does not have: nothing is replaced in silence.
    """
    if name not in ("auto", "cpu"):
        raise InputError("compute.backend", f"{name} is not available in this version", "Available: auto, cpu")
    from lithowave.backends.cpu import CpuBackend

    return CpuBackend(precision, threads)
