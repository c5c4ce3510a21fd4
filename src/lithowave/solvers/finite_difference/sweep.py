"""Blocks of a step in one sweep on a CPU, and the rows whose velocities must be updated after the sweep.

The kernel `update_both` updates velocities as soon as the stresses within reach of the stencil have been updated. Those
that depend on other changes of the stresses (closures of faces, moment tensors, the free surface), or that these
changes read, are *late*: they are updated after these changes, as are the rows next to blocks of other threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lithowave.mesh.grid import AXES, NodeRanges
from lithowave.solvers.finite_difference.coefficients import face_closure
from lithowave.solvers.finite_difference.regions import box_table

if TYPE_CHECKING:
    from lithowave.solvers.finite_difference.plan import FiniteDifferencePlan

FEWEST_ROWS = 24  # of a block
CACHE_BYTES = 2**25  # of the last level: on grids that fit into it, one sweep is not faster
MOST_LATE = 0.5  # fraction of late rows above which two sweeps are used


@dataclass(frozen=True)
class Sweep:
    """Arguments of `update_both`, and the boxes of late rows.

    blocks (n, 4) : rows and planes of each block. late (planes, rows) : 1 for late rows. late_boxes : argument of
    `update_velocity`.
    """

    blocks: np.ndarray
    late: np.ndarray
    late_boxes: np.ndarray


def plan_sweep(plan: FiniteDifferencePlan, bricks: np.ndarray, threads: int) -> Sweep | None:
    """Return the sweep of a grid on one rank, or None if it is small or too many rows are late.

    bricks (n, 6) : first and end nodes along x, y, z of the boxes in which moment tensors change stresses.
    """
    columns, rows, planes = plan.grid.shape
    if plan.memory_bytes() < CACHE_BYTES:
        return None
    blocks = sweep_blocks(rows, planes, threads)
    late = late_rows(plan, bricks, blocks)
    if late.mean() > MOST_LATE:
        return None
    boxes = [[(0, columns), *rectangle] for rectangle in rectangles(late)]
    return Sweep(np.array(blocks, np.int64), late.astype(np.uint8), box_table(boxes))


def sweep_blocks(rows: int, planes: int, threads: int) -> list[tuple[int, int, int, int]]:
    """Return a block for each thread: first and end row, first and end plane."""
    slabs = 1
    while threads > slabs * max(1, rows // FEWEST_ROWS) and slabs < planes // FEWEST_ROWS:
        slabs *= 2
    across = min(-(-threads // slabs), rows)
    y = [n * rows // across for n in range(across + 1)]
    z = [n * planes // slabs for n in range(slabs + 1)]
    return [(y[n], y[n + 1], z[m], z[m + 1]) for m in range(slabs) for n in range(across)]


def late_rows(
    plan: FiniteDifferencePlan, bricks: np.ndarray, blocks: Sequence[tuple[int, int, int, int]]
) -> np.ndarray:
    """Return True for late rows, (planes, rows)."""
    _, rows, planes = plan.grid.shape
    reach, late = plan.halo, np.zeros((planes, rows), bool)
    for y, y_end, z, z_end in blocks:
        late[z:z_end, y : y + reach * (y > 0)] = True
        late[z:z_end, y_end - reach * (y_end < rows) : y_end] = True
        late[z : z + reach * (z > 0), y:y_end] = True
        late[z_end - reach * (z_end < planes) : z_end, y:y_end] = True
    for y, z, y_end, z_end in bricks[:, [1, 2, 4, 5]]:
        late[max(z - reach, 0) : z_end + reach, max(y - reach, 0) : y_end + reach] = True
    width = closed_width(plan)
    for axis, letter in enumerate(AXES):
        low, high = (width * (plan.faces[f"{letter}_{side}"] != "absorbing") for side in ("min", "max"))
        if axis == 0:
            late |= bool(low or high)
        else:
            line = late if axis == 2 else late.T
            line[:low] = line[line.shape[0] - high :] = True
    return late


def closed_width(plan: FiniteDifferencePlan) -> int:
    """Return the rows next to a closed face whose velocities its closure reads, or that its closure changes."""
    closure = face_closure(plan.order)
    changes = (closure.node_change, closure.half_change)
    reach, depths = max(one.shape[1] for one in changes), max(one.shape[0] for one in changes)
    return max(reach, depths + plan.halo) + 1  # half nodes at a high side are half a cell farther inside


def rectangles(mask: np.ndarray) -> list[NodeRanges]:
    """Return rectangles ((first, end) row, (first, end) plane) that cover the True values (planes, rows) once."""
    edges = np.diff(np.pad(mask, ((0, 1), (1, 1))).astype(np.int8), axis=1)
    found, growing = [], {}
    for plane, edge in enumerate(edges):
        runs = list(zip(np.flatnonzero(edge > 0).tolist(), np.flatnonzero(edge < 0).tolist(), strict=True))
        found += [(run, (start, plane)) for run, start in growing.items() if run not in runs]
        growing = {run: growing.get(run, plane) for run in runs}
    return found
