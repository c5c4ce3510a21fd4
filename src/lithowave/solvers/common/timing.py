"""Timing of kernels for predictions (`check`) and for `bench`."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

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


def mean_time(function: Callable[[], object], backend: Any, calls: int) -> float:
    """Return the mean time of `calls` calls without a pause of the device, s."""
    backend.synchronize()
    begin = time.perf_counter()
    for _ in range(calls):
        function()
    backend.synchronize()
    return (time.perf_counter() - begin) / calls


def typical_time(function: Callable[[], object], backend: Any) -> float:
    """Return the median time of a call, s, which represents a run better than the minimum.

    The time includes the completion of work on the device. The first calls compile kernels and load graphs.
    """
    warm = min(mean_time(function, backend, 1) for _ in range(3))
    calls = min(100, math.ceil(SHORTEST / max(warm, 1e-9)))
    return float(np.median([mean_time(function, backend, calls) for _ in range(REPEATS)]))


def call_time(function: Callable[[], object], backend: Any, minimum: float = 0.0) -> float:
    """Return the time of a call for a rate, s: the minimum on a CPU; on a device the mean of many without a pause."""
    if not backend.own_memory:
        return best_time(function, FEWEST_CALLS, minimum)
    mean_time(function, backend, 3)  # graphs are captured in the second call
    once = mean_time(function, backend, FEWEST_CALLS)
    return mean_time(function, backend, max(FEWEST_CALLS, int(DEVICE_SECONDS / once)))


class Steps:
    """Next step of a solver on each call, and a record on request."""

    def __init__(self, solver: Any, recording: bool = False) -> None:
        self.solver, self.recording, self.done = solver, recording, 0

    def __call__(self) -> None:
        self.solver.advance(self.done)
        if self.recording:
            self.solver.record(self.done % RECORDS)
        self.done += 1
