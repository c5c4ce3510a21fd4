"""What the ranks of a run would do, for the dry run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lithowave.solvers.common.workload import RankWorkload
from lithowave.solvers.finite_difference.division import shares, slices
from lithowave.solvers.finite_difference.plan import plan

if TYPE_CHECKING:
    from lithowave.description.simulation import Simulation


def partition_report(simulation: Simulation, ranks_count: int, backend_name: str) -> list[RankWorkload]:
    """The share of each of so many ranks.

    Raises
    ------
    InputError : the grid cannot be cut into so many parts.
    """
    return shares(plan(simulation), backend_name, ranks_count, simulation.compute.parts)


def parts(simulation: Simulation, ranks_count: int, backend_name: str) -> list[int]:
    """Slices along x, y, z that the ranks have."""
    return slices(plan(simulation), backend_name, ranks_count, simulation.compute.parts)
