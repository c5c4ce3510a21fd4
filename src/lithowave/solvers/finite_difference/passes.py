"""Conditions for a step in one pass over memory: the devices, and the box of a grid."""

from __future__ import annotations

from collections.abc import Sequence

from lithowave.solvers.finite_difference.coefficients import face_closure
from lithowave.solvers.finite_difference.fields import LawFields
from lithowave.solvers.finite_difference.grid_plan import GridPlan
from lithowave.solvers.finite_difference.line_weights import HALF_WIDTH
from lithowave.solvers.finite_difference.tiles import line_shift, whole_lines

Box = Sequence[tuple[int, int]]


def possible(precision: str, order: int, law: LawFields) -> bool:
    """True if the shared memory and the registers that a block needs are available."""
    return precision == "single" and order <= 4 and law.mechanisms <= 1


def inner_box(left_out: Sequence[tuple[int, int]], shape: Sequence[int], shift: int) -> Box:
    """Return a grid without some nodes at the low and the high side along x, y, z, and along x without incomplete
    memory lines at these sides."""
    x, y, z = ((low, nodes - high) for (low, high), nodes in zip(left_out, shape, strict=True))
    return [whole_lines(x, shape[0], shift), y, z]


def margins(plan: GridPlan) -> list[tuple[int, int]]:
    """Return the nodes at the low and the high side along x, y, z whose velocities a layer or a closed face changes or
    other ranks need or own, plus the reach of the stencil."""
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


def column_shift(plan: GridPlan) -> int:
    """Return the columns by which the first memory line begins before the grid."""
    return line_shift(*margins(plan)[0], plan.grid.shape[0])


def touches(plan: GridPlan, box: Box, position: Sequence[float]) -> bool:
    """True if the velocities that a force at a position changes are in the box or within reach of it."""
    reach = 2 * HALF_WIDTH + plan.halo  # the stencil may be shifted next to a face
    places = (plan.grid.index(axis, position[axis]) for axis in range(3))
    return all(first - reach <= place < end + reach for place, (first, end) in zip(places, box, strict=True))
