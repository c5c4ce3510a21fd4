"""Arguments, launches and timing of kernels that all methods share.

It contains arguments of kernels by name, from one table per method for the CPU and the CUDA version; kernels over
points on the CPU; launches of CUDA kernels with a thread for each of a number of points; lists of launches that are
repeated: built once, captured by a device as one graph (`Programs`); the maximum of a field from partial maxima that a
kernel computes; and the timing of kernels for predictions (`check`) and for `bench`.

A launch is a function without arguments, usually `functools.partial` of a kernel and its arrays. It must not refer to
the solver that stores it: a solver is then freed with its last reference, without a garbage collection.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from lithowave.backends.kernel_cache import njit
from lithowave.backends.loops import row

if TYPE_CHECKING:
    from lithowave.backends.interface import Array, Backend, DeviceBackend

ArgumentTable = Mapping[str, tuple[str, ...]]
Arguments = dict[str, Any]
"""Arguments of a kernel by name: arrays, numbers and tuples of them, as its signature states."""


def named_arguments(table: ArgumentTable, kernel: str, arguments: Sequence[object]) -> Arguments:
    """Return the arguments of a call by name.

    Parameters
    ----------
    table : names of the arguments of each kernel, in order.
    kernel : name of the kernel.
    arguments : values of all its arguments.

    Raises
    ------
    TypeError : the number of arguments is not that of the table.
    """
    names = table[kernel]
    if len(arguments) != len(names):
        raise TypeError(f"{kernel} takes {len(names)} arguments ({', '.join(names)}), not {len(arguments)}")
    return dict(zip(names, arguments, strict=True))


@njit(cache=True)
def count_step(row):
    """Increment the row of a table: of amplitudes, of records."""
    row[0] += 1


@row
def raise_peaks(peaks, place, east, north, up):
    """Raise the horizontal, vertical and total peak, peaks (3, places), of a location to those of this vector."""
    horizontal = east * east + north * north
    peaks[0, place] = max(peaks[0, place], np.sqrt(horizontal))
    peaks[1, place] = max(peaks[1, place], abs(up))
    peaks[2, place] = max(peaks[2, place], np.sqrt(horizontal + up * up))


WARP = 32  # threads
BLOCK = (256,)
FEW = (64,)  # threads of a block for kernels with much work per thread


class KernelLauncher:
    """Launch kernels of CUDA sources of a package, called with the argument lists of their CPU versions.

    Parameters
    ----------
    backend : the device.
    package : package of the sources.
    table : argument lists of the kernels, see `kernels`.
    defines : preprocessor definitions of all sources.
    """

    def __init__(
        self, backend: DeviceBackend, package: str, table: ArgumentTable,
        defines: Mapping[str, str | int] = MappingProxyType({}),
    ) -> None:  # fmt: skip
        self.backend, self.package, self.table, self.defines = backend, package, table, defines

    def named(self, kernel: str, arguments: tuple[object, ...]) -> Arguments:
        """Return the arguments of a call by name."""
        return named_arguments(self.table, kernel, arguments)

    def launch(
        self, file: str, kernel: str, size: tuple[int, ...], arguments: Mapping[str, object],
        block: tuple[int, ...] = BLOCK,
    ) -> None:  # fmt: skip
        """Launch one thread for each of `size` points along x, y, z in blocks of `block` threads; none if a size is 0.

        arguments : values by parameter name, at least those of the kernel.
        """
        if min(size) > 0:
            grid = tuple(-(-count // width) for count, width in zip(size, (*block, 1, 1), strict=False))
            self.backend.program(self.package, file, self.defines).launch(kernel, grid, block, arguments)

    def by_name(self) -> dict[str, Callable[..., None]]:
        """Return the methods that launch kernels of the table."""
        return {name: getattr(self, name) for name in self.table if hasattr(self, name)}


class PointKernels(KernelLauncher):
    """Kernels over points that all element methods have, in one source.

    file : name of the source.
    """

    file = "points.cu"

    def points(self, kernel: str, count: int, arguments: Mapping[str, object], block: tuple[int, ...] = BLOCK) -> None:
        """Launch a thread for each of `count` points."""
        self.launch(self.file, kernel, (count,), arguments, block)

    def inject(self, *arguments: object) -> None:
        """See `kernels.inject`."""
        named = self.named("inject", arguments)
        count = named["target"].size
        self.points("inject", count, named | {"count": count, "sources": named["amplitude"].shape[1]}, FEW)

    def count_step(self, row: Array) -> None:
        """See `count_step`."""
        self.points("count_step", 1, {"row": row}, (1,))

    def surface_peaks(self, *arguments: object) -> None:
        """See `kernels.surface_peaks`."""
        named = self.named("surface_peaks", arguments)
        size = named["displacement"].shape[1]
        self.points("surface_peaks", size, named | {"size": size})


Launch = Callable[[], None]


def run_launches(launches: Iterable[Launch]) -> None:
    """Call all launches in order."""
    for launch in launches:
        launch()


def captured(backend: Backend, launches: Iterable[Launch]) -> Launch:
    """Return a function that runs the launches, which must always use the same kernels and arrays."""
    launches = tuple(launches)
    return backend.capture_graph(partial(run_launches, launches)) if launches else partial(run_launches, ())


class Programs:
    """Captured lists of launches by key."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._captured: dict[Hashable, Launch] = {}

    def run(self, key: Hashable, make: Callable[[], Iterable[Launch]]) -> None:
        """Run the launches of a key; `make` returns them when the key is used for the first time."""
        if key not in self._captured:
            self._captured[key] = captured(self._backend, make())
        self._captured[key]()

    def clear(self) -> None:
        """Release all lists, whose arrays may have been replaced."""
        self._captured.clear()


PARTS = 1024


class PartialMaxima:
    """Partial maxima on a device. parts : (PARTS,), filled by a kernel."""

    def __init__(self, backend: Backend) -> None:
        self._backend, self.parts = backend, backend.zeros(PARTS)

    def largest(self) -> float:
        """Return the largest of the partial maxima; infinite if one of them is infinite or NaN."""
        values = self._backend.download(self.parts)
        return values.max() if np.isfinite(values).all() else np.inf


REPEATS = 7
SHORTEST = 2e-3  # s, per measurement: waiting for a device takes some microseconds
DEVICE_SECONDS = 0.5  # of the device's time for a rate
FEWEST_CALLS = 5
RECORDS = 64  # stored on the device by `Steps`; further ones replace them


def best_time(function: Callable[[], object], repeats: int = 3, minimum: float = 0.0) -> float:
    """Return the shortest wall time of a call, s, after one warm-up call; calls are repeated for `minimum` seconds."""
    function()
    shortest, spent, done = math.inf, 0.0, 0
    while done < repeats or spent < minimum:
        begin = time.perf_counter()
        function()
        elapsed = time.perf_counter() - begin
        shortest, spent, done = min(shortest, elapsed), spent + elapsed, done + 1
    return shortest


def mean_time(function: Callable[[], object], backend: Backend, calls: int) -> float:
    """Return the mean time of `calls` calls without a pause of the device, s."""
    backend.synchronize()
    begin = time.perf_counter()
    for _ in range(calls):
        function()
    backend.synchronize()
    return (time.perf_counter() - begin) / calls


def typical_time(function: Callable[[], object], backend: Backend) -> float:
    """Return the median time of a call, s, which represents a run better than the minimum.

    The time includes the completion of work on the device. The first calls compile kernels and load graphs.
    """
    warm = min(mean_time(function, backend, 1) for _ in range(3))
    calls = min(100, math.ceil(SHORTEST / max(warm, 1e-9)))
    return float(np.median([mean_time(function, backend, calls) for _ in range(REPEATS)]))


def call_time(function: Callable[[], object], backend: Backend, minimum: float = 0.0) -> float:
    """Return the time of a call for a rate, s: the minimum on a CPU; on a device the mean of many without a pause."""
    if not backend.own_memory:
        return best_time(function, FEWEST_CALLS, minimum)
    mean_time(function, backend, 3)  # graphs are captured in the second call
    once = mean_time(function, backend, FEWEST_CALLS)
    return mean_time(function, backend, max(FEWEST_CALLS, int(DEVICE_SECONDS / once)))


class Stepping(Protocol):
    """What `Steps` calls of a solver."""

    def advance(self, step: int) -> None: ...
    def record(self, slot: int) -> None: ...


class Steps:
    """Next step of a solver on each call, and a record on request."""

    def __init__(self, solver: Stepping, recording: bool = False) -> None:
        self.solver, self.recording, self.done = solver, recording, 0

    def __call__(self) -> None:
        self.solver.advance(self.done)
        if self.recording:
            self.solver.record(self.done % RECORDS)
        self.done += 1
