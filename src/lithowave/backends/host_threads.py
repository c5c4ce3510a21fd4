"""Threads for the preparation of a run on the host: functions over parts of arrays.

The threads are those of the CPU kernels. NumPy releases the interpreter lock in its loops. Parts do not depend on the
number of threads, so that results are bitwise identical for any number. A function for parts must not call a Numba
kernel that is itself parallel.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from functools import cache
from typing import TypeVar

from numba import get_num_threads

T = TypeVar("T")
here = threading.local()  # is_worker : set in the threads of a pool


def over_parts(function: Callable[[slice], T], count: int, size: int, threads: int | None = None) -> list[T]:
    """Return the results of a function for the slices of at most `size` items of `count`, in order; no slice if count
    is 0.

    threads : number of threads; default: those of the CPU kernels. The error of the first part that fails is raised.
    """
    return list(parts_in_order(function, count, size, threads))


def parts_in_order(
    function: Callable[[slice], T], count: int, size: int, threads: int | None = None
) -> Iterator[T]:
    """Yield the results of `over_parts`, while later parts are computed; at most two for each thread are in memory."""
    parts = [slice(first, min(first + size, count)) for first in range(0, count, size)]
    workers = threads or get_num_threads()
    if min(workers, len(parts)) < 2 or getattr(here, "is_worker", False):  # or they could wait for each other
        yield from map(function, parts)
        return
    waiting: deque[Future[T]] = deque()
    try:
        for part in parts:
            if len(waiting) >= 2 * workers:
                yield waiting.popleft().result()
            # Each part has the warning filters and error states of NumPy of the caller.
            waiting.append(pool(workers).submit(copy_context().run, function, part))
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()
        wait(waiting)


@cache
def pool(workers: int) -> ThreadPoolExecutor:
    """Return a pool of threads, which remain: starting them takes longer than many parts."""
    return ThreadPoolExecutor(workers, "lithowave part", initializer=lambda: setattr(here, "is_worker", True))


os.register_at_fork(after_in_child=pool.cache_clear)  # the child has none of the threads
