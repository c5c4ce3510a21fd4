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
POLLING_INTERVAL = 0.005  # s


def launched() -> bool:
    """True if the environment shows that a launcher started this process as one of several ranks."""
    sizes = [int(os.environ[name]) for name in SIZE_VARIABLES if os.environ.get(name, "").isdigit()]
    return max(sizes) > 1 if sizes else any(name in os.environ for name in RANK_VARIABLES)


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
