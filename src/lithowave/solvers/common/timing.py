"""How long kernels take: the loops in which everything is timed, for predictions (`check`) and for `bench`."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

REPEATS = 7
SHORTEST = 2e-3  # s, of what is timed at once: waiting for a device takes some microseconds
DEVICE_SECONDS = 0.5  # of the device's time for a rate
FEWEST_CALLS = 5
RECORDS = 64  # kept on the device by `Steps`; further ones replace them


def best_time(function: Callable[[], object], repeats: int = 3, minimum: float = 0.0) -> float:
    """Shortest wall time of a call, s, after one call that warms up; calls go on until `minimum` seconds are spent."""
    function()
    shortest, spent, done = math.inf, 0.0, 0
    while done < repeats or spent < minimum:
        begin = time.perf_counter()
        function()
        elapsed = time.perf_counter() - begin
        shortest, spent, done = min(shortest, elapsed), spent + elapsed, done + 1
    return shortest


def mean_time(function: Callable[[], object], backend: Any, calls: int) -> float:
    """Mean time of so many calls, s, between which the device has no pause."""
    backend.synchronize()
    begin = time.perf_counter()
    for _ in range(calls):
        function()
    backend.synchronize()
    return (time.perf_counter() - begin) / calls


def typical_time(function: Callable[[], object], backend: Any) -> float:
    """Median time of a call, s: a run will not see only the best moments of the machine.

    What is timed ends when the device has done it. The first calls compile, and load a graph where there are graphs.
    """
    warm = min(mean_time(function, backend, 1) for _ in range(3))
    calls = min(100, math.ceil(SHORTEST / max(warm, 1e-9)))
    return float(np.median([mean_time(function, backend, calls) for _ in range(REPEATS)]))


def call_time(function: Callable[[], object], backend: Any, minimum: float = 0.0) -> float:
    """Time of a call for a rate, s: the shortest on a CPU; on a device the mean of many without a pause."""
    if not backend.own_memory:
        return best_time(function, FEWEST_CALLS, minimum)
    mean_time(function, backend, 3)  # graphs are captured in the second call
    once = mean_time(function, backend, FEWEST_CALLS)
    return mean_time(function, backend, max(FEWEST_CALLS, int(DEVICE_SECONDS / once)))


class Steps:
    """Each call is the next step of a solver, and a record if wanted."""

    def __init__(self, solver: Any, recording: bool = False) -> None:
        self.solver, self.recording, self.done = solver, recording, 0

    def __call__(self) -> None:
        self.solver.advance(self.done)
        if self.recording:
            self.solver.record(self.done % RECORDS)
        self.done += 1
