"""Measurement of the speed at which one thread writes to a folder."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import numpy as np

from lithowave.output.paged import write_fully

PIECE = 8 << 20  # bytes of one call
MEASURED_BYTES = 256 << 20  # of a prediction
LIMIT = 2.0  # s; a slower disk is measured with fewer bytes


def disk_rate(folder: Path, size: int, sync: bool = True, limit: float = LIMIT) -> float:
    """Return the bytes per second of writing at most `size` bytes, for at most `limit` s, to an unnamed file.

    sync : True to wait until they are on the disk; False: until the system has them in its page cache.

    Raises
    ------
    OSError : the folder cannot be written.
    """
    if size <= 0:
        return float("inf")
    data = memoryview(np.random.default_rng(0).bytes(min(size, PIECE)))
    with tempfile.TemporaryFile(dir=folder) as file:
        written, begin = 0, time.perf_counter()
        while written < size and time.perf_counter() - begin < limit:
            piece = data[: size - written]
            write_fully(file.fileno(), piece, written)
            written += len(piece)
        if sync:
            os.fsync(file.fileno())
        return written / max(1e-9, time.perf_counter() - begin)
