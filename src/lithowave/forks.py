"""Processes made by a fork, in which threads and devices of the parent do not exist.

A fork copies the memory of a process, but only one of its threads. The child therefore cannot use the threads of GNU
OpenMP, on which Numba runs parallel loops, nor the CUDA driver, if the parent has used them before. Numba then raises
SIGTERM in the child instead of computing a loop. This module is loaded with the package, so that it sees each fork.
"""

from __future__ import annotations

import os
import sys

from lithowave.errors import InputError

SPAWN = (
    "start a new process: ProcessPoolExecutor(mp_context=multiprocessing.get_context(\"spawn\")), "
    "multiprocessing.get_context(\"spawn\").Pool(), or joblib with its backend loky"
)
NUMBA, CUDA = "the threads of Numba (GNU OpenMP)", "the CUDA driver"
parents: list[int] = []  # processes from which this one was forked since it loaded lithowave
unusable: set[str] = set()  # what they had used before


def _note_fork() -> None:
    """Record in a new child what the parent has used."""
    parents.append(os.getppid())
    if _has_launched_openmp():
        unusable.add(NUMBA)


def _has_launched_openmp() -> bool:
    """True if Numba runs parallel loops in threads of GNU OpenMP; its other threading layers permit forks."""
    numba, layer = sys.modules.get("numba"), sys.modules.get("numba.np.ufunc.omppool")
    if numba is None or getattr(layer, "openmp_vendor", "") != "GNU":
        return False
    try:
        return numba.threading_layer() == "omp"
    except ValueError:  # not launched yet
        return False


def refuse_fork() -> None:
    """Refuse to run in a forked process that cannot use what its parent has used.

    Raises
    ------
    InputError : the process must be started in another way.
    """
    if unusable:
        used = " and ".join(sorted(unusable))
        raise InputError(
            "process", f"process {os.getpid()} was forked from one that had used {used}, which no fork can use again",
            "allowed: a new process, or one that was forked before the first run", SPAWN,
        )  # fmt: skip


os.register_at_fork(after_in_child=_note_fork)
