"""The processes (ranks) of a run: one, or those that `mpiexec` started."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, NoReturn

import numpy as np

from lithowave.errors import LithowaveError, MissingPackageError, ResourceError
from lithowave.parallel.watchdog import Watchdog

# What launchers tell the processes that they start: how many there are, or at least which one each is.
SIZE_VARIABLES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE")
RANK_VARIABLES = ("PMIX_RANK", "PMI_RANK", "MPI_LOCALRANKID")

Note = Callable[[int, str], None]


class Ranks:
    """The processes of a run; here the only one.

    rank : of this one. size : how many there are. local_rank, local_size : the same on this machine. All ranks must
    call each of the methods that hand values around, in the same order.
    """

    rank, size, local_rank, local_size = 0, 1, 0, 1

    @property
    def is_root(self) -> bool:
        """Whether this is the rank that writes reports and gathers results."""
        return self.rank == 0

    def gather(self, value: Any) -> list[Any] | None:
        """Values of all ranks, in their order, on the root; None elsewhere."""
        return [value]

    def all_gather(self, value: Any) -> list[Any]:
        """Values of all ranks, in their order."""
        return [value]

    def all_to_all(self, values: Sequence[Any]) -> list[Any]:
        """What every rank has for this one. values : what this one has for each."""
        return list(values)

    def broadcast(self, value: Any) -> Any:
        """The value of the root."""
        return value

    def largest(self, value: float) -> float:
        """The largest of the values of all ranks; infinite if one is infinite or not a number."""
        return float(value) if np.isfinite(value) else float("inf")

    def smallest(self, value: float) -> float:
        """The smallest of the values of all ranks."""
        return value

    def total(self, value: Any) -> Any:
        """The sum of the values (numbers, arrays) of all ranks, added in the order of the ranks."""
        return value

    def barrier(self) -> None:
        """Wait for all ranks."""

    def watch(self, patience: float, note: Note | None = None) -> None:
        """From now on a rank that notes no step for so many seconds ends the run.

        note : called before with the last step and what is to be told.
        """

    def note_step(self, step: int) -> None:
        """Tell the watchdog that the run goes on."""

    def end_watch(self) -> None:
        """The time loop is over."""

    def abort(self, status: int) -> NoReturn:
        """End all ranks at once, with this exit status."""
        sys.exit(status)

    def facts(self) -> dict[str, Any]:
        """What run.json tells of them."""
        return {"ranks": self.size}


class MpiRanks(Ranks):
    """The processes that an MPI launcher started."""

    def __init__(self) -> None:
        from mpi4py import MPI

        self.mpi, self.world = MPI, MPI.COMM_WORLD
        self.rank, self.size = self.world.rank, self.world.size
        machine = self.world.Split_type(MPI.COMM_TYPE_SHARED)
        self.local_rank, self.local_size = machine.rank, machine.size
        self._watchdog: Watchdog | None = None

    def gather(self, value: Any) -> list[Any] | None:
        """See `Ranks`."""
        return self.world.gather(value)

    def all_gather(self, value: Any) -> list[Any]:
        """See `Ranks`."""
        return self.world.allgather(value)

    def all_to_all(self, values: Sequence[Any]) -> list[Any]:
        """See `Ranks`."""
        return self.world.alltoall(list(values))

    def broadcast(self, value: Any) -> Any:
        """See `Ranks`."""
        return self.world.bcast(value)

    def largest(self, value: float) -> float:
        """See `Ranks`."""
        return self.world.allreduce(super().largest(value), self.mpi.MAX)

    def smallest(self, value: float) -> float:
        """See `Ranks`."""
        return self.world.allreduce(value, self.mpi.MIN)

    def total(self, value: Any) -> Any:
        """See `Ranks`."""
        first, *others = self.world.allgather(value)
        return sum(others, start=first)

    def barrier(self) -> None:
        """See `Ranks`."""
        self.world.Barrier()

    def watch(self, patience: float, note: Note | None = None) -> None:
        """See `Ranks`."""
        self._note = note
        self._watchdog = Watchdog(patience, self._give_up)

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
            f"nothing has happened for {seconds:.0f} s after step {step}: another rank does not answer, or a device "
            "hangs. The run ends here; lithowave restart goes on from its last checkpoint (compute.patience says how "
            "long ranks wait)."
        )
        sys.stderr.write(f"rank {self.rank} of {self.size}: error: {text}\n")
        if self._note is not None:
            with suppress(LithowaveError):
                self._note(step, text)
        self.abort(1)

    def abort(self, status: int) -> NoReturn:
        """See `Ranks`."""
        sys.stdout.flush()
        sys.stderr.flush()
        self.world.Abort(status)
        os._exit(status)  # an MPI may return before it ends the process

    def facts(self) -> dict[str, Any]:
        """See `Ranks`."""
        return {"ranks": self.size, "mpi": self.mpi.Get_library_version().splitlines()[0].strip("\0 ")}


SINGLE_RANK = Ranks()


def launched() -> bool:
    """Whether a launcher started this process as one of several, as far as the environment tells."""
    sizes = [int(os.environ[name]) for name in SIZE_VARIABLES if os.environ.get(name, "").isdigit()]
    return max(sizes) > 1 if sizes else any(name in os.environ for name in RANK_VARIABLES)


@lru_cache
def make_ranks() -> Ranks:
    """The ranks of this run: those that `mpiexec` started, or this process alone.

    Raises
    ------
    MissingPackageError : mpiexec started several processes, but mpi4py is not there. ResourceError : mpiexec belongs to
    another MPI than mpi4py.
    """
    if not launched():
        return SINGLE_RANK
    if find_spec("mpi4py") is None:
        raise MissingPackageError("mpi4py", "a run on more than one process", "mpi")
    ranks = MpiRanks()
    told = max((int(os.environ[name]) for name in SIZE_VARIABLES if os.environ.get(name, "").isdigit()), default=1)
    if ranks.size < told:
        raise ResourceError(
            f"{told} processes were started, but each finds only {ranks.size}: this mpiexec belongs to another MPI "
            "than mpi4py does. Start with the mpiexec of the environment that lithowave is in (lithowave doctor tells "
            "both), or choose the MPI for mpi4py (MPI4PY_MPIABI, MPI4PY_LIBMPI)."
        )
    if ranks.size == 1:
        return SINGLE_RANK
    sys.excepthook = _abort_on(ranks, sys.excepthook)
    return ranks


def _abort_on(ranks: Ranks, tell: Any) -> Any:
    """An exception that nobody catches ends all ranks: the others would wait for ever."""

    def hook(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        tell(kind, error, trace)
        ranks.abort(1)

    return hook
