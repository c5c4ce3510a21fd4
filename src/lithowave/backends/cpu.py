"""The CPU backend: NumPy arrays, Numba kernels."""

from __future__ import annotations

import importlib
import math
import os
import platform
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np

from lithowave.backends.pending import HostMirror, PendingCopy


class CpuBackend:
    """Arrays in main memory and kernels compiled by Numba (cached on disk beside the package or in the user's cache).

    Parameters
    ----------
    precision : ``single`` or ``double``.
    threads : number of threads; by default all that this process may use. processes : of the run that share its cores.
    """

    name = "cpu"
    stores_codes = False
    own_memory = False  # arrays lie in main memory
    device_count = 0  # devices with their own memory
    aligned_columns = 1  # rows of fields may be cut anywhere
    shared = False  # whether other ranks of the run use this device
    sample_points = 4_000_000  # of a grid that is too large for a cache: what a short measurement needs

    def __init__(self, precision: str = "single", threads: int | None = None, processes: int = 1) -> None:
        # Unless told otherwise GNU OpenMP lets idle threads spin so long that, on a busy machine, they take the cores
        # from those that work: a small step then takes five times as long. It reads this when Numba loads it.
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")
        import numba

        self.precision, self.device = precision, processor_name()
        self.dtype = np.dtype(np.float32 if precision == "single" else np.float64)
        available = max(1, min(usable_cores() // processes, numba.config.NUMBA_NUM_THREADS))
        self.threads = min(threads or available, numba.config.NUMBA_NUM_THREADS)
        numba.set_num_threads(self.threads)

    def kernels(self, package: str, *modules: str, **sizes: Any) -> SimpleNamespace:
        """The kernels of a solver package, gathered from its modules by name.

        They work for all sizes, but for what a module's ``make_kernels(**sizes)`` returns by name.
        """
        found: dict[str, Any] = {}
        for module in modules:
            names = vars(importlib.import_module(f"{package}.{module}"))
            found |= names | (names["make_kernels"](**sizes) if "make_kernels" in names else {})
        return SimpleNamespace(**{name: kernel for name, kernel in found.items() if not name.startswith("_")})

    def zeros(self, shape: int | tuple[int, ...], dtype: Any = None) -> np.ndarray:
        """An array of zeros, in the run's precision unless told otherwise."""
        return np.zeros(shape, dtype or self.dtype)

    def field(self, shape: tuple[int, int, int], halo: int, dtype: Any = None) -> np.ndarray:
        """Zeros (z, y, x), in the run's precision unless told otherwise."""
        return self.zeros(shape, dtype)

    def field_strides(self, shape: tuple[int, int, int], halo: int) -> tuple[int, int, int]:
        """Steps in elements along the axes of a `field` of this shape."""
        return shape[1] * shape[2], shape[2], 1

    def field_bytes(self, shape: tuple[int, int, int], halo: int) -> int:
        """Memory that `field` takes for this shape."""
        return math.prod(shape) * self.dtype.itemsize

    def upload(self, array: np.ndarray, dtype: np.dtype | None = None) -> np.ndarray:
        """The array on this device, in the run's precision unless told otherwise."""
        return np.ascontiguousarray(array, dtype or self.dtype)

    def download(self, array: np.ndarray) -> np.ndarray:
        """The array in main memory; not a copy."""
        return array

    def assign(self, array: np.ndarray, host: Any) -> None:
        """``array[...] = host``, in the order of the device's work."""
        array[...] = host

    def fetch(self, array: np.ndarray) -> PendingCopy:
        """A copy as the array is now."""
        return PendingCopy(array.copy())

    def capture_graph(self, function: Callable[[], None]) -> Callable[[], None]:
        """The function, which always runs the same kernels with the same arrays."""
        return function

    def on_side_stream(self, behind: bool = True) -> AbstractContextManager[None]:
        """What is asked for inside is done at once: there is nothing beside the host's own work."""
        return nullcontext()

    def join_side_stream(self) -> None:
        """Work beside the rest has been done."""

    def mirror(self, array: np.ndarray) -> HostMirror:
        """The array itself: it is in main memory."""
        return HostMirror(array)

    def scalar(self, value: float) -> np.floating:
        """A number in the run's precision."""
        return self.dtype.type(value)

    def free_memory(self) -> int:
        """Bytes that a run could take now."""
        return free_memory()

    def facts(self) -> dict[str, Any]:
        """What a run tells of its device."""
        return {"backend": self.name, "device": self.device, "precision": self.precision, "threads": self.threads}

    def peak_facts(self, rate: float) -> dict[str, float]:
        """What so many operations a second are of the most that the processor does."""
        from lithowave.backends.peak import multiply_add_peak

        peak = multiply_add_peak(self.precision, self.threads)
        return {"operations_rate": rate, "multiply_add_peak": peak, "peak_fraction": rate / peak}

    def synchronize(self) -> None:
        """Wait until the device has done everything asked for: here it has."""


def usable_cores() -> int:
    """Cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def processor_name() -> str:
    """The processor's model name, as far as the system tells it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def free_memory() -> int:
    """Bytes of main memory that are free for a new program, as far as the system tells (Linux, macOS)."""
    limit = _control_group_free()
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return min(int(line.split()[1]) * 1024, limit)
    except OSError:
        pass
    return min(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), limit)


def _control_group_free() -> int:
    """What a memory limit on this process's group (containers, batch systems) leaves; huge where there is none."""
    try:
        with open("/sys/fs/cgroup/memory.max", encoding="ascii") as limit:
            text = limit.read().strip()
        with open("/sys/fs/cgroup/memory.current", encoding="ascii") as used:
            return max(0, int(text) - int(used.read())) if text != "max" else 1 << 62
    except (OSError, ValueError):
        return 1 << 62
