"""Programs that start the ranks of a run, such as `mpiexec`."""

from __future__ import annotations

import os

# Environment variables that launchers set: the number of ranks, or at least the rank of each process.
SIZE_VARIABLES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE")
RANK_VARIABLES = ("PMIX_RANK", "PMI_RANK", "MPI_LOCALRANKID")


def launched() -> bool:
    """True if the environment shows that a launcher started this process as one of several ranks."""
    sizes = [int(os.environ[name]) for name in SIZE_VARIABLES if os.environ.get(name, "").isdigit()]
    return max(sizes) > 1 if sizes else any(name in os.environ for name in RANK_VARIABLES)
