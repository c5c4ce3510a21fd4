"""Where one pass over memory can make a step: on which devices, and in which box of a grid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lithowave.solvers.finite_difference.coefficients import face_closure
from lithowave.solvers.finite_difference.points import HALF_WIDTH

if TYPE_CHECKING:
    from lithowave.solvers.finite_difference.plan import FiniteDifferencePlan

Box = Sequence[tuple[int, int]]
UNIT = 32  # columns: tiles begin at whole lines of memory
LEAST_PART = 0.66  # of the grid: around the box two passes are slow, and with less inside they win
SETS = 21 / 12  # arrays of one pass beside those of two


def possible(precision: str, order: int) -> bool:
    """Whether what a block needs fits into its shared memory."""
    return precision == "single" and order <= 4


def pass_box(plan: FiniteDifferencePlan, backend: Any, forces: Sequence[Any]) -> tuple[Box | None, str]:
    """The box for one pass, or None and why: clear of layers, faces and forces, and of what is next to them.

    forces : positions, m. Where the plan leaves the choice, one pass must also have room and be faster.
    """
    if plan.passes == "two":
        return None, "two passes are wanted"
    if not getattr(backend, "copy_engine", False) or not possible(backend.precision, plan.order):
        return None, "it needs a CUDA device of compute capability 9.0, single precision and order 2 or 4"
    if plan.passes == "auto" and SETS * plan.memory_bytes(backend) > backend.free_memory():
        return None, "the second set of fields does not fit into the device's memory"
    box = inner_box(margins(plan), plan.grid.shape)
    part = math.prod(max(0, end - first) for first, end in box) / plan.grid.point_count
    if part < (LEAST_PART if plan.passes == "auto" else 0.01):
        return None, "layers and faces leave too small a part of the grid for it"
    if any(touches(plan, box, position) for position in forces):
        return None, "a force acts inside the box for it (moment tensors may)"
    return box, ""


def inner_box(left_out: Sequence[tuple[int, int]], shape: Sequence[int]) -> Box:
    """A grid without some nodes at the low and the high side along x, y, z; along x in whole units."""
    found = []
    for axis, ((low, high), nodes) in enumerate(zip(left_out, shape, strict=True)):
        first, end = low, nodes - high
        if axis == 0:
            first, end = -(-first // UNIT) * UNIT, end if high == 0 else end // UNIT * UNIT
        found.append((first, end))
    return found


def margins(plan: FiniteDifferencePlan) -> list[tuple[int, int]]:
    """Nodes at the low and the high side along x, y, z whose velocities a layer or a closed face changes, or of which
    other ranks need the velocities or have them, and REACH."""
    closed = face_closure(plan.order).node_change.shape[0]
    shared = plan.subdomain.sent_width + plan.subdomain.reach if plan.subdomain else 0
    found = []
    for axis, letter in enumerate("xyz"):
        sides = []
        for side, end in enumerate(("min", "max")):
            cells = plan.grid.layers[axis][side]
            changed = cells + 1 if cells else 0
            if not plan.grid.is_end(axis, side):
                changed = max(changed, shared)
            elif plan.faces[f"{letter}_{end}"] != "absorbing":
                changed = closed
            sides.append(changed + plan.halo if changed else 0)
        found.append((sides[0], sides[1]))
    return found


def touches(plan: FiniteDifferencePlan, box: Box, position: Sequence[float]) -> bool:
    """Whether the velocities that a force changes at a position are in the box or within REACH of it."""
    reach = 2 * HALF_WIDTH + plan.halo  # the stencil may be moved to one side next to a face
    places = (plan.grid.index(axis, position[axis]) for axis in range(3))
    return all(first - reach <= place < end + reach for place, (first, end) in zip(places, box, strict=True))
