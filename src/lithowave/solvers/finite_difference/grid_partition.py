"""Partition of the grid among the ranks of a finite-difference run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lithowave.errors import InputError
from lithowave.mesh.blocks import BlockPartition, best_blocks, cut_grid
from lithowave.solvers.common.workload import RankWorkload
from lithowave.solvers.finite_difference.closures import SIZES
from lithowave.solvers.finite_difference.exchange import Subdomain

if TYPE_CHECKING:
    from lithowave.solvers.finite_difference.grid_plan import GridPlan

# Additional work of a point for each absorbing layer that contains it, in updates of an interior point, measured with
# and without layers (`lithowave bench --case interior --case full`; docs/parallel.md).
LAYER_WORK = {"cpu": 1.6, "cuda": 0.6}
# Additional work per point on a side between ranks, in updates, by axis: redundant computation of ghosts and packing; a
# side normal to x splits rows of memory, which a GPU reads in entire cache lines.
SIDE_WORK = {"cpu": (4.0, 3.0, 3.0), "cuda": (24.0, 4.0, 4.0)}


def min_slice_nodes(order: int) -> int:
    """Return the minimum nodes of a slice: the neighbors' ghosts, and closures of faces, which must not reach them."""
    return max(2 * order, SIZES[order][0] + order, SIZES[order][1] + order)


def make_subdomain(
    plan: GridPlan, backend: Any, ranks: tuple[int, int], parts: Sequence[int] | None
) -> Subdomain:
    """Return the subdomain of one rank.

    ranks : the rank and the number of ranks. parts : number of slices along x, y, z from the simulation file, or None.

    Raises
    ------
    InputError : the grid cannot be partitioned in this way.
    """
    rank, size = ranks
    return Subdomain(_blocks(plan, backend.name, size, parts), rank, plan.halo)


def _blocks(plan: GridPlan, backend_name: str, size: int, parts: Sequence[int] | None) -> BlockPartition:
    grid, minimum, work = plan.grid.whole, min_slice_nodes(plan.order), LAYER_WORK[backend_name]
    if parts is not None:
        if np.prod(parts) != size:
            raise InputError(
                "compute.parts", f"{' x '.join(map(str, parts))} parts for {size} ranks", "each rank has one part"
            )
        blocks = cut_grid(grid, parts, work, minimum)
    else:
        blocks = best_blocks(grid, size, work, minimum, SIDE_WORK[backend_name])
    if blocks is None:
        raise InputError(
            "compute.parts" if parts else "ranks",
            f"{' x '.join(map(str, grid.shape))} points cannot be partitioned among {size} ranks",
            f"each part needs at least {minimum} points along a partitioned axis", "use fewer ranks or a larger grid",
        )  # fmt: skip
    return blocks


def shares(plan: GridPlan, backend_name: str, size: int, parts: Sequence[int] | None) -> list[RankWorkload]:
    """Return the workload of each rank for this number of ranks."""
    blocks = _blocks(plan, backend_name, size, parts)
    work = blocks.work(LAYER_WORK[backend_name])
    workloads = []
    for rank in range(size):
        subdomain = Subdomain(blocks, rank, plan.halo)
        points = int(np.prod([end - first for first, end in subdomain.own]))
        extra = subdomain.grid().point_count - points  # stresses computed on both sides: half of an update
        neighbors = len({neighbor for neighbor, _, _ in subdomain.boxes_sent()})
        work_done = float(work[rank]) + 0.5 * extra
        workloads.append(RankWorkload(points, work_done, neighbors, subdomain.sent_values(), tuple(blocks.counts)))
    return workloads
