"""Workload of each rank, for the dry run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lithowave.solvers.common.workload import RankWorkload
from lithowave.solvers.discontinuous_galerkin.basis import face_mode_count
from lithowave.solvers.discontinuous_galerkin.mesh_partition import element_work, partition_elements, traces_sent
from lithowave.solvers.discontinuous_galerkin.plan import DiscontinuousGalerkinPlan

if TYPE_CHECKING:
    from lithowave.description.simulation import Simulation


def partition_report(
    simulation: Simulation, plan: DiscontinuousGalerkinPlan, ranks_count: int, device: str
) -> list[RankWorkload]:
    """Return the workload of each of this many ranks per step of the run, that of the largest cluster.

    Raises
    ------
    InputError : the mesh cannot be partitioned into this many parts.
    """
    cluster, ticks = plan.clustering.cluster, plan.clustering.ticks
    part = partition_elements(plan, cluster, ranks_count, device, graph=simulation.solver.mesh is not None)
    work = np.bincount(part, ticks * element_work(plan, cluster), ranks_count)
    units = np.bincount(part, minlength=ranks_count)
    across = plan.mesh.neighbors
    element, face = np.nonzero((across >= 0) & (part[across // 4] != part[:, None]))
    other = across[element, face] // 4
    # Traces sent from an element of one rank to an element of the other.
    numbers = ticks * traces_sent(cluster[other]) * 3 * face_mode_count(simulation.solver.order)
    sent = np.bincount(part[element], numbers, ranks_count)
    pairs = np.unique(np.column_stack([part[element], part[other]]), axis=0)
    neighbors = np.bincount(pairs[:, 0], minlength=ranks_count)
    return [
        RankWorkload(
            int(units[rank]), float(work[rank]), int(neighbors[rank]), round(float(sent[rank])), exchanges=ticks
        )
        for rank in range(ranks_count)
    ]
