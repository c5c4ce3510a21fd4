"""The CPU backend: NumPy arrays, Numba kernels."""

from __future__ import annotations

import importlib
import math
import os
import platform
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np

from lithowave.backends.interface import HostMirror, PendingCopy
from lithowave.forks import refuse_fork

if TYPE_CHECKING:
    import numpy.typing as npt

PAGE = 4096  # bytes; caches of the first level select a set of lines by the position in a page
FIELD_SHIFT = 5 * 64  # bytes between the positions of two fields in their pages: an odd number of cache lines


class CpuBackend:
    """NumPy arrays and kernels compiled by Numba, which are cached on disk with the package or in the user's cache.

    Parameters
    ----------
    precision : ``single`` or ``double``.
    threads : number of threads; default: all available cores. processes : processes of the run that share these cores.
    """

    name = "cpu"
    stores_codes = False
    copy_engine = False
    own_memory = False  # arrays are in main memory
    device_count = 0  # devices with separate memory
    aligned_columns = 1  # rows of fields may be split at any column
    shared = False  # True if other ranks of the run use this device
    sample_points = 4_000_000  # grid points of a short measurement: the grid is larger than the caches

    def __init__(self, precision: str = "single", threads: int | None = None, processes: int = 1) -> None:
        self.precision, self.device = precision, processor_name()
        self.dtype = np.dtype(np.float32 if precision == "single" else np.float64)
        self.threads = set_threads(threads, processes)
        self._fields = 0  # number of fields created

    def kernels(self, package: str, *modules: str, **sizes: object) -> SimpleNamespace:
        """Return the kernels of a solver package, collected from its modules by name.

        They support all sizes, except for those that a module's ``make_kernels(**sizes)`` returns by name.
        """
        found: dict[str, object] = {}
        for module in modules:
            names = vars(importlib.import_module(f"{package}.{module}"))
            found |= names | (names["make_kernels"](**sizes) if "make_kernels" in names else {})
        return SimpleNamespace(**{name: kernel for name, kernel in found.items() if not name.startswith("_")})

    def compile_ahead(self, package: str, **sizes: object) -> None:
        """Do nothing: kernels are compiled by their first calls."""

    def begin_programs(self, function: Callable[[], None]) -> None:
        """Do nothing; see `Backend`."""

    def zeros(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike | None = None) -> np.ndarray:
        """Return an array of zeros; default type: the precision of the run."""
        return np.zeros(shape, dtype or self.dtype)

    def field(
        self, shape: tuple[int, int, int], halo: int, dtype: npt.DTypeLike | None = None, shift: int = 0
    ) -> np.ndarray:
        """Return an array of zeros (z, y, x); default type: the precision of the run. `shift` is for devices whose
        memory lines the kernels read as a whole.

        The system begins large arrays at the same position of a page, so that the same point of all fields belongs to
        one set of cache lines, which holds fewer lines than there are fields. Here each field begins at another one.
        """
        values = self.zeros(math.prod(shape) + PAGE, dtype)
        self._fields += 1
        first = (self._fields * FIELD_SHIFT - values.ctypes.data) % PAGE // values.itemsize
        return values[first : first + math.prod(shape)].reshape(shape)

    def field_strides(self, shape: tuple[int, int, int], halo: int) -> tuple[int, int, int]:
        """Return the strides of a `field` of this shape, in elements."""
        return shape[1] * shape[2], shape[2], 1

    def field_bytes(self, shape: tuple[int, int, int], halo: int, dtype: npt.DTypeLike | None = None) -> int:
        """Return the memory of a `field` of this shape and type, bytes."""
        return math.prod(shape) * np.dtype(dtype or self.dtype).itemsize

    def upload(self, array: npt.ArrayLike, dtype: npt.DTypeLike | None = None) -> np.ndarray:
        """Return the array on this device; default type: the precision of the run."""
        return np.ascontiguousarray(array, dtype or self.dtype)

    def download(self, array: np.ndarray) -> np.ndarray:
        """Return the array in main memory, without a copy."""
        return array

    def assign(self, array: np.ndarray, host: npt.ArrayLike) -> None:
        """Assign ``array[...] = host`` in device order."""
        array[...] = host

    def fetch(self, array: np.ndarray, temporary: bool = False) -> PendingCopy:
        """Return a copy of the present values; of a temporary array, which nothing changes later, the array itself."""
        return PendingCopy(array if temporary else array.copy())

    def has_room(self, size: int) -> bool:
        """Return False: values for a checkpoint are read before the next step."""
        return False

    def freeze(self, array: np.ndarray, temporary: bool = False) -> PendingCopy:
        """Return the array itself; see `Backend`."""
        return PendingCopy(array)

    def capture_graph(self, function: Callable[[], None]) -> Callable[[], None]:
        """Return the function, which must launch the same kernels with the same arrays in every call."""
        return function

    def on_side_stream(self, behind: bool = True) -> AbstractContextManager[None]:
        """Run the enclosed work at once: a CPU has no side stream."""
        return nullcontext()

    def join_side_stream(self) -> None:
        """Return at once: work of the side stream is complete."""

    def side_by_side(self, queues: Sequence[Sequence[Callable[[], None]]]) -> None:
        """Call the functions of independent lists, one after the other."""
        for queue in queues:
            for function in queue:
                function()

    def mirror(self, array: np.ndarray) -> HostMirror:
        """Return the array itself, which is in main memory."""
        return HostMirror(array)

    def scalar(self, value: float) -> np.floating:
        """Return a number in the precision of the run."""
        return self.dtype.type(value)

    def free_memory(self) -> int:
        """Return the bytes of memory that a run can allocate now."""
        return free_memory()

    def facts(self) -> dict[str, object]:
        """Return the entries of run.json on the device."""
        return {"backend": self.name, "device": self.device, "precision": self.precision, "threads": self.threads}

    def peak_facts(self, rate: float) -> dict[str, float]:
        """Return this rate of operations per second, the measured peak of the processor, and their ratio."""
        from lithowave.backends.measurements import multiply_add_peak

        peak = multiply_add_peak(self.precision, self.threads)
        return {"operations_rate": rate, "multiply_add_peak": peak, "peak_fraction": rate / peak}

    def bandwidths(self) -> dict[str, float]:
        """Return the measured bytes per second of copies and updates of arrays much larger than the caches."""
        from lithowave.backends.measurements import memory_bandwidths

        return memory_bandwidths(self.dtype)

    def synchronize(self) -> None:
        """Wait until the device has completed all work: on a CPU it has."""


def set_threads(threads: int | None = None, processes: int = 1) -> int:
    """Set and return the number of threads of loops on the host. threads, processes : see `CpuBackend`."""
    numba = launched_numba()
    available = max(1, min(usable_cores() // processes, numba.config.NUMBA_NUM_THREADS))
    threads = min(threads or available, numba.config.NUMBA_NUM_THREADS)
    numba.set_num_threads(threads)
    return threads


def launched_numba() -> ModuleType:
    """Return Numba, after it has started its threads.

    Raises
    ------
    InputError : this process was forked from one that had used these threads.
    """
    refuse_fork()
    # By default, idle threads of GNU OpenMP spin so long that on a busy machine they take the cores from working
    # threads: a small step then takes five times as long. Numba reads this variable when it loads GNU OpenMP.
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    import numba

    numba.get_num_threads()
    return numba


@cache
def _single_user() -> threading.RLock:
    """Return the lock of the one thread that runs a simulation, where Numba permits only one."""
    return threading.RLock()


os.register_at_fork(after_in_child=_single_user.cache_clear)  # the child lacks the thread that releases it


@contextmanager
def host_threads_in_use() -> Iterator[None]:
    """Permit the enclosed work to use the threads of Numba.

    Numba ends the process if two threads of Python use its layer workqueue, which is chosen where OpenMP is missing, at
    the same time: a second thread then waits for the first one. OpenMP and TBB permit it.

    Raises
    ------
    InputError : this process was forked from one that had used these threads.
    """
    with _single_user() if launched_numba().threading_layer() == "workqueue" else nullcontext():
        yield


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def processor_name() -> str:
    """Return the model name of the processor, if the system reports it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def free_memory() -> int:
    """Return the bytes of main memory available to a new program, if the system reports them (Linux, macOS)."""
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
    """Return the free bytes below the memory limit of this process's control group; 2^62 without a limit."""
    try:
        with open("/sys/fs/cgroup/memory.max", encoding="ascii") as limit:
            text = limit.read().strip()
        with open("/sys/fs/cgroup/memory.current", encoding="ascii") as used:
            return max(0, int(text) - int(used.read())) if text != "max" else 1 << 62
    except (OSError, ValueError):
        return 1 << 62
