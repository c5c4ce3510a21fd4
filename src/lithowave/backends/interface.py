"""Backend members that a run uses, apart from the kernels of its solver."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np


class Backend(Protocol):
    """A device on which arrays are stored and kernels run; implemented by `CpuBackend` and `CudaBackend`.

    name : ``cpu`` or ``cuda``. device : name of the processor or GPU. precision : ``single`` or ``double``.
    dtype : type of a floating-point value of the run. own_memory : True if the arrays are not in main memory.
    shared : True if other ranks use the same device. device_count : devices with their own memory on this machine.
    """

    name: str
    device: str
    precision: str
    dtype: np.dtype
    own_memory: bool
    shared: bool
    device_count: int

    def free_memory(self) -> int:
        """Return the bytes of the device's memory that a run could allocate now."""

    def facts(self) -> dict[str, Any]:
        """Return the entries of run.json on the device; ``threads`` on a CPU."""

    def synchronize(self) -> None:
        """Wait until the device has completed all work.

        Raises
        ------
        ResourceError : the device has failed.
        """
