"""The processes (ranks) of a run: one process, or those started by `mpiexec`.

It contains sections that all ranks execute together, in which an error on one rank is raised on all ranks, and a thread
that acts when a run completes no step for a long time.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import TYPE_CHECKING, NoReturn, TypeVar

import numpy as np

from lithowave.errors import LithowaveError, OutputError, ResourceError, require_package
from lithowave.parallel.launchers import launched, started, step_tasks, wait_for_reader

if TYPE_CHECKING:
    from types import TracebackType

Note = Callable[[int, str], None]
Hook = Callable[[type[BaseException], BaseException, "TracebackType | None"], object]
T = TypeVar("T")
PATIENCE = 600.0  # s without a completed step on a rank, after which the run ends


class Ranks:
    """The processes of a run; this base class is the single rank of a standalone run.

    rank, size : index of this rank, and number of ranks. local_rank, local_size : the same among the ranks of this
    machine. Methods that exchange values are collective: all ranks must call them, in the same order.
    """

    rank, size, local_rank, local_size = 0, 1, 0, 1

    @property
    def is_root(self) -> bool:
        """True if this is rank 0, which writes reports and gathers results."""
        return self.rank == 0

    def gather(self, value: T) -> list[T] | None:
        """Return the values of all ranks, in rank order, on the root; None on the other ranks."""
        return [value]

    def all_gather(self, value: T) -> list[T]:
        """Return the values of all ranks, in rank order."""
        return [value]

    def all_to_all(self, values: Sequence[T]) -> list[T]:
        """Return the values that all ranks have for this rank. values : the values of this rank for each rank."""
        return list(values)

    def broadcast(self, value: T) -> T:
        """Return the value of the root."""
        return value

    def largest(self, value: float) -> float:
        """Return the maximum of the values of all ranks; infinite if a value is infinite or NaN."""
        return float(value) if np.isfinite(value) else float("inf")

    def smallest(self, value: float) -> float:
        """Return the minimum of the values of all ranks."""
        return value

    def total(self, value: T) -> T:
        """Return the sum of the values (numbers or arrays) of all ranks, added in rank order."""
        return value

    def barrier(self) -> None:
        """Wait for all ranks."""

    def watch(self, note: Note | None = None) -> None:
        """Start the watchdog: if a rank notes no step for `PATIENCE` seconds, it ends the run.

        note : function called before, with the last step and the error text.
        """

    def note_step(self, step: int) -> None:
        """Inform the watchdog that the run has completed a step."""

    def end_watch(self) -> None:
        """Stop the watchdog, after the time loop."""

    def abort(self, status: int) -> NoReturn:
        """Abort all ranks with this exit status."""
        sys.exit(status)

    def facts(self) -> dict[str, object]:
        """Return entries for run.json."""
        return {"ranks": self.size}


class MpiRanks(Ranks):
    """The processes started by an MPI launcher."""

    def __init__(self) -> None:
        from mpi4py import MPI

        self.mpi, self.world = MPI, MPI.COMM_WORLD
        self.rank, self.size = self.world.rank, self.world.size
        machine = self.world.Split_type(MPI.COMM_TYPE_SHARED)
        self.local_rank, self.local_size = machine.rank, machine.size
        self._watchdog: Watchdog | None = None

    def gather(self, value: T) -> list[T] | None:
        """See `Ranks`."""
        return self.world.gather(value)

    def all_gather(self, value: T) -> list[T]:
        """See `Ranks`."""
        return self.world.allgather(value)

    def all_to_all(self, values: Sequence[T]) -> list[T]:
        """See `Ranks`."""
        return self.world.alltoall(list(values))

    def broadcast(self, value: T) -> T:
        """See `Ranks`."""
        return self.world.bcast(value)

    def largest(self, value: float) -> float:
        """See `Ranks`."""
        return self.world.allreduce(super().largest(value), self.mpi.MAX)

    def smallest(self, value: float) -> float:
        """See `Ranks`."""
        return self.world.allreduce(value, self.mpi.MIN)

    def total(self, value: T) -> T:
        """See `Ranks`."""
        first, *others = self.world.allgather(value)
        return sum(others, start=first)

    def barrier(self) -> None:
        """See `Ranks`."""
        self.world.Barrier()

    def watch(self, note: Note | None = None) -> None:
        """See `Ranks`."""
        self._note = note
        self._watchdog = Watchdog(PATIENCE, self._give_up)

    def note_step(self, step: int) -> None:
        """See `Ranks`."""
        if self._watchdog is not None:
            self._watchdog.note(step)

    def end_watch(self) -> None:
        """See `Ranks`."""
        if self._watchdog is not None:
            self._watchdog.stop()
            self._watchdog = None

    def _give_up(self, step: int, seconds: float) -> None:
        text = (
            f"no step for {seconds:.0f} s after step {step}: another rank does not respond, or a device hangs. "
            "The run ends here; lithowave restart resumes it from the last checkpoint."
        )
        sys.stderr.write(f"rank {self.rank} of {self.size}: error: {text}\n")
        if self._note is not None:
            with suppress(LithowaveError):
                self._note(step, text)
        self.abort(1)

    def abort(self, status: int) -> NoReturn:
        """See `Ranks`."""
        wait_for_reader()
        self.world.Abort(status)
        os._exit(status)  # MPI may return before it ends the process

    def facts(self) -> dict[str, object]:
        """See `Ranks`."""
        return {"ranks": self.size, "mpi": self.mpi.Get_library_version().splitlines()[0].strip("\0 ")}


SINGLE_RANK = Ranks()


@lru_cache
def make_ranks() -> Ranks:
    """Return the ranks of this run: those started by `mpiexec` or `srun`, or a single rank.

    Raises
    ------
    MissingPackageError : several processes were started, but mpi4py is not installed. ResourceError : mpiexec and
    mpi4py use different MPI libraries, srun has started processes that MPI does not connect, or no MPI library is
    found.
    """
    if not launched():
        return SINGLE_RANK
    require_package("mpi4py", "a run on several ranks", "mpi")
    try:
        ranks = MpiRanks()
    except (ImportError, RuntimeError) as error:
        raise ResourceError(
            f"mpi4py cannot load its MPI library ({error}). Load the library (on a cluster, `module load`), or select "
            "another one (MPI4PY_MPIABI, MPI4PY_LIBMPI)."
        ) from error
    if ranks.size < started():
        raise ResourceError(_unconnected(ranks))
    if ranks.size == 1:
        return SINGLE_RANK
    sys.excepthook = _abort_on(ranks, sys.excepthook)
    return ranks


def _unconnected(ranks: Ranks) -> str:
    """Return the error of a process that MPI does not connect to the others, with the options that help."""
    found = f"{started()} processes were started, but each finds only {ranks.size}"
    if step_tasks() == started():
        library = ranks.facts().get("mpi", "")
        return (
            f"{found}: srun did not connect the {step_tasks()} tasks of this step by an interface that the MPI library "
            f"of mpi4py supports{f' ({library})' if library else ''}. Use `srun --mpi=pmix` (Open MPI) or `srun "
            "--mpi=pmi2` (MPICH, Intel MPI; `srun --mpi=list` lists the interfaces), or mpiexec of that library. Start "
            "runs that are independent of each other in separate steps (`srun --ntasks=1`)."
        )
    return (
        f"{found}: this mpiexec and mpi4py use different MPI libraries. Use the mpiexec of the "
        "environment of lithowave (see lithowave doctor), or select the MPI library of mpi4py (MPI4PY_MPIABI, "
        "MPI4PY_LIBMPI)."
    )


def _abort_on(ranks: Ranks, tell: Hook) -> Hook:
    """Install a hook by which an uncaught exception aborts all ranks, which would otherwise wait forever."""

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        tell(kind, error, trace)
        ranks.abort(1)

    return hook


def collective_call(ranks: Ranks, work: Callable[[], T]) -> T:
    """Return `work()`, which must not communicate; if it fails on some ranks, raise the first of these errors on all.

    Raises
    ------
    LithowaveError : the error of the lowest failed rank.
    """
    found, problem = None, None
    try:
        found = work()
    except LithowaveError as error:
        problem = error
    try:
        problems = [one for one in ranks.all_gather(problem) if one is not None]
        if problems:
            raise problems[0]
        return found  # type: ignore[return-value]
    finally:
        problem, problems = None, []  # the traceback of an error refers to this frame


@contextmanager
def collective_section(ranks: Ranks) -> Iterator[None]:
    """Execute the block on all ranks, and leave it when all ranks are done; an error on one rank is an error on all.

    The block must not communicate: a rank that fails would leave the other ranks waiting.

    Raises
    ------
    Exception : the error of this rank. OutputError : else the text of the lowest failed rank.
    """
    problem: Exception | None = None
    try:
        yield
    except Exception as error:
        problem = error
    texts = ranks.all_gather(None if problem is None else str(problem) or type(problem).__name__)
    try:
        if problem is not None:
            raise problem
    finally:
        problem = None  # the traceback of an error refers to this frame
    for rank, text in enumerate(texts):
        if text is not None:
            raise OutputError(f"rank {rank}: {text}")


class Watchdog:
    """Timer that calls act(step, seconds) if no step is noted for `patience` seconds; step : the last noted step."""

    def __init__(self, patience: float, act: Callable[[int, float], None]) -> None:
        self.patience, self._act = patience, act
        self._noted, self._step = time.monotonic(), 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._wait, daemon=True)
        self._thread.start()

    def note(self, step: int) -> None:
        """Note that the run has completed this step."""
        self._noted, self._step = time.monotonic(), step

    def stop(self) -> None:
        """Stop watching."""
        self._stopped.set()
        self._thread.join()

    def _wait(self) -> None:
        while not self._stopped.wait(min(1.0, self.patience / 4)):
            silent = time.monotonic() - self._noted
            if silent > self.patience:
                self._act(self._step, silent)
                return
