"""The process: time without the garbage collector, and wall times of the phases of a run up to the first step.

Phases may be nested: the time of an inner phase is not part of the outer one, so that the times add up.
"""

from __future__ import annotations

import gc
import os
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field


@contextmanager
def no_collection() -> Iterator[None]:
    """Disable the garbage collector.

    Imports and validation create many objects, which all remain; and freed arrays, streams and events of earlier runs
    must not enter the capture of a graph.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


_recorded: ContextVar[Phases | None] = ContextVar("phases", default=None)


@dataclass
class Phases:
    """Times of the phases of a run.

    seconds : wall times by name, in the order of their first begin. cpu_seconds : times of all threads of the process.
    peak_bytes : the largest memory of the process until the last end of a phase.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    cpu_seconds: dict[str, float] = field(default_factory=dict)
    peak_bytes: dict[str, int] = field(default_factory=dict)
    _inner: tuple[float, float] = (0.0, 0.0)  # times of the phases that ended within the present one

    @contextmanager
    def measured(self, name: str) -> Iterator[None]:
        """Add the times of the enclosed work to a phase."""
        before, self._inner, begin = self._inner, (0.0, 0.0), _clocks()
        for times in (self.seconds, self.cpu_seconds):
            times.setdefault(name, 0.0)
        try:
            yield
        finally:
            elapsed = [end - start for start, end in zip(begin, _clocks(), strict=True)]
            self.seconds[name] += elapsed[0] - self._inner[0]
            self.cpu_seconds[name] += elapsed[1] - self._inner[1]
            self.peak_bytes[name] = peak_bytes()
            self._inner = before[0] + elapsed[0], before[1] + elapsed[1]

    def table(self) -> list[dict[str, object]]:
        """Return the phases: name, wall_s, cpu_s and peak_bytes of each."""
        return [
            {"name": name, "wall_s": round(seconds, 6), "cpu_s": round(self.cpu_seconds[name], 6),
             "peak_bytes": self.peak_bytes[name]}
            for name, seconds in self.seconds.items() if name in self.peak_bytes
        ]  # fmt: skip


def _clocks() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


@contextmanager
def record_phases() -> Iterator[Phases]:
    """Record the phases of the enclosed work in this thread."""
    phases = Phases()
    token = _recorded.set(phases)
    try:
        yield phases
    finally:
        _recorded.reset(token)


def recorded_phases() -> Phases:
    """Return the phases that are recorded in this thread; new ones if none are."""
    return _recorded.get() or Phases()


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Measure the enclosed work, or as a decorator a function, as a phase; if none are recorded, do nothing."""
    phases = _recorded.get()
    if phases is None:
        yield
        return
    with phases.measured(name):
        yield


def start_of_process() -> list[dict[str, object]]:
    """Return the time since the start of this process as a phase of `Phases.table`; none if the system does not report
    it."""
    try:
        with open("/proc/self/stat", encoding="ascii", errors="replace") as file:
            ticks = int(file.read().rpartition(")")[2].split()[19])
        wall = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError, ValueError, IndexError):
        return []
    return [{"name": "start", "wall_s": wall, "cpu_s": time.process_time(), "peak_bytes": peak_bytes()}]


def peak_bytes() -> int:
    """Return the largest memory of this process until now, bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
