"""Workload of each rank, for the dry run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lithowave.solvers.common.workload import RankWorkload
from lithowave.solvers.finite_difference.grid_partition import shares
from lithowave.solvers.finite_difference.plan import FiniteDifferencePlan

if TYPE_CHECKING:
    from lithowave.description.simulation import Simulation


def partition_report(
    simulation: Simulation, plan: FiniteDifferencePlan, ranks_count: int, device: str
) -> list[RankWorkload]:
    """Return the workload of each of the given number of ranks.

    Raises
    ------
    InputError : the grid cannot be divided into this many subdomains.
    """
    return shares(plan, device, ranks_count, simulation.compute.parts)
