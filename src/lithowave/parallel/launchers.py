"""Programs that start the ranks of a run, such as `mpiexec`."""

from __future__ import annotations

import os
import stat
import sys
import time
from contextlib import suppress
from typing import TextIO

# Environment variables that launchers set: the number of ranks, or at least the rank of each process.
SIZE_VARIABLES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE")
RANK_VARIABLES = ("PMIX_RANK", "PMI_RANK", "MPI_LOCALRANKID")
# Environment variables of the tasks of a Slurm step. A batch script itself has SLURM_NTASKS, but no step.
STEP_VARIABLES = ("SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS")
POLLING_INTERVAL = 0.005  # s


def launched() -> bool:
    """True if the environment shows that a launcher started this process as one of several ranks."""
    return started() > 1 or (not _sizes() and any(name in os.environ for name in RANK_VARIABLES))


def started() -> int:
    """Return the number of processes that the launcher started, by its variables; 1 if they do not state it.

    The tasks of a Slurm step count if no MPI launcher has set a number: `srun` starts them even if it does not connect
    them.
    """
    return max(_sizes(), default=step_tasks())


def step_tasks() -> int:
    """Return the number of tasks of the Slurm step of which this process is one; 1 outside of steps.

    A process with a terminal is not such a task: it runs in the shell that ``srun --pty`` starts, once.
    """
    number, tasks = (os.environ.get(name, "") for name in STEP_VARIABLES)
    return int(tasks) if number.isdigit() and tasks.isdigit() and not _has_terminal() else 1


def _sizes() -> list[int]:
    return [int(os.environ[name]) for name in SIZE_VARIABLES if os.environ.get(name, "").isdigit()]


def _has_terminal() -> bool:
    """True if this process belongs to a terminal, also if its input and output are redirected."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def wait_for_reader(streams: tuple[TextIO, ...] | None = None, patience: float = 5.0) -> None:
    """Flush standard output and standard error, or other streams, and wait until no text remains in their pipes.

    A launcher reads the output of the ranks from pipes and discards the rest when a rank aborts. Streams that are not
    pipes need no wait, nor do they on systems that do not report the content of a pipe.
    """
    last = time.monotonic() + patience
    for stream in streams or (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # closed streams, and those without a descriptor
            stream.flush()
            while _unread_bytes(stream.fileno()) > 0 and time.monotonic() < last:
                time.sleep(POLLING_INTERVAL)


def _unread_bytes(descriptor: int) -> int:
    """Return the number of bytes in a pipe; 0 for other files and on systems that do not report it."""
    try:
        from fcntl import ioctl
        from termios import FIONREAD
    except ImportError:
        return 0
    if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        return 0
    return int.from_bytes(ioctl(descriptor, FIONREAD, bytes(4)), sys.byteorder)
