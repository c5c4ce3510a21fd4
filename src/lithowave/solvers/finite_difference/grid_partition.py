"""How the ranks of a finite-difference run share the grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lithowave.errors import InputError
from lithowave.mesh.blocks import Blocks, best_blocks, cut_grid
from lithowave.solvers.common.workload import RankWorkload
from lithowave.solvers.finite_difference.closures import SIZES
from lithowave.solvers.finite_difference.exchange import Subdomain

if TYPE_CHECKING:
    from lithowave.solvers.finite_difference.plan import FiniteDifferencePlan

# Work of a point in an absorbing layer beyond that of others, in updates of a plain point, for each layer that it lies
# in: from steps with and without layers (`lithowave bench --case interior --case full`; docs/parallel.md).
LAYER_WORK = {"cpu": 1.6, "cuda": 0.6}
# What a point on a side between ranks costs beyond its own update, by axis: ghosts computed twice and packed numbers;
# along x rows of memory are cut, and a device takes whole lines of them.
SIDE_WORK = {"cpu": (4.0, 3.0, 3.0), "cuda": (24.0, 4.0, 4.0)}


def fewest_nodes(order: int) -> int:
    """Nodes that a slice must have: its neighbours' ghosts, and closures of faces, which must not reach them."""
    return max(2 * order, SIZES[order][0] + order, SIZES[order][1] + order)


def make_subdomain(
    plan: FiniteDifferencePlan, backend: Any, ranks: tuple[int, int], parts: Sequence[int] | None
) -> Subdomain:
    """The part of one rank.

    ranks : the rank and their number. parts : slices along x, y, z that the user wants, or None.

    Raises
    ------
    InputError : the grid cannot be cut so.
    """
    rank, size = ranks
    return Subdomain(_blocks(plan, backend.name, size, parts), rank, plan.halo)


def _blocks(plan: FiniteDifferencePlan, backend_name: str, size: int, parts: Sequence[int] | None) -> Blocks:
    grid, least, work = plan.grid.whole, fewest_nodes(plan.order), LAYER_WORK[backend_name]
    if parts is not None:
        if np.prod(parts) != size:
            raise InputError(
                "compute.parts", f"{' x '.join(map(str, parts))} parts for {size} ranks", "Each rank has one part"
            )
        blocks = cut_grid(grid, parts, work, least)
    else:
        blocks = best_blocks(grid, size, work, least, SIDE_WORK[backend_name])
    if blocks is None:
        raise InputError(
            "compute.parts" if parts else "ranks", f"{size} ranks for {' x '.join(map(str, grid.shape))} points",
            f"Each part needs {least} points along an axis that is cut", "fewer ranks, or a larger grid",
        )  # fmt: skip
    return blocks


def shares(plan: FiniteDifferencePlan, backend_name: str, size: int, parts: Sequence[int] | None) -> list[RankWorkload]:
    """What each of so many ranks would do."""
    blocks = _blocks(plan, backend_name, size, parts)
    work = blocks.work(LAYER_WORK[backend_name])
    found = []
    for rank in range(size):
        subdomain = Subdomain(blocks, rank, plan.halo)
        points = int(np.prod([end - first for first, end in subdomain.own]))
        extra = subdomain.grid().point_count - points  # stresses computed on both sides: half of an update
        neighbors = len({neighbor for neighbor, _, _ in subdomain.boxes_sent()})
        work_done = float(work[rank]) + 0.5 * extra
        found.append(RankWorkload(points, work_done, neighbors, subdomain.sent_values(), tuple(blocks.counts)))
    return found
