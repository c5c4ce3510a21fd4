"""Conditions for a step in one pass over memory: the devices, and the box of a grid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lithowave.solvers.finite_difference.coefficients import face_closure
from lithowave.solvers.finite_difference.fields import LawFields
from lithowave.solvers.finite_difference.line_weights import HALF_WIDTH
from lithowave.solvers.finite_difference.tiles import line_shift, whole_lines

if TYPE_CHECKING:
    from lithowave.solvers.finite_difference.plan import FiniteDifferencePlan

Box = Sequence[tuple[int, int]]
MIN_FRACTION = 0.66  # minimum fraction of the grid: around the box two passes are slower than one


def possible(precision: str, order: int, law: LawFields) -> bool:
    """True if the shared memory and the registers that a block needs are available."""
    return precision == "single" and order <= 4 and law.mechanisms <= 1


def pass_box(plan: FiniteDifferencePlan, backend: Any, forces: Sequence[Any]) -> tuple[Box | None, str]:
    """Return the box for one pass, away from layers, faces and forces, or None and the reason.

    forces : positions, m. With ``passes: auto``, one pass must also fit into memory and be faster.
    """
    if plan.passes == "two":
        return None, "two passes are requested"
    if plan.law_fields.mechanisms > 1:
        return None, "it needs at most one relaxation mechanism per node (solver.memory_variables: coarse)"
    if not getattr(backend, "copy_engine", False) or not possible(backend.precision, plan.order, plan.law_fields):
        return None, "it needs a CUDA device of compute capability 9.0, single precision and order 2 or 4"
    if plan.passes == "auto" and replace(plan, passes="one").memory_bytes(backend) > backend.free_memory():
        return None, "the second set of fields does not fit into the device's memory"
    box = inner_box(margins(plan), plan.grid.shape, plan.column_shift)
    fraction = math.prod(max(0, end - first) for first, end in box) / plan.grid.point_count
    if fraction < (MIN_FRACTION if plan.passes == "auto" else 0.01):
        return None, "layers and faces leave too small a fraction of the grid"
    if any(touches(plan, box, position) for position in forces):
        return None, "a force acts inside the box (moment tensors are allowed there)"
    return box, ""


def inner_box(left_out: Sequence[tuple[int, int]], shape: Sequence[int], shift: int) -> Box:
    """Return a grid without some nodes at the low and the high side along x, y, z, and along x without incomplete
    memory lines at these sides."""
    x, y, z = ((low, nodes - high) for (low, high), nodes in zip(left_out, shape, strict=True))
    return [whole_lines(x, shape[0], shift), y, z]


def margins(plan: FiniteDifferencePlan) -> list[tuple[int, int]]:
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


def column_shift(plan: FiniteDifferencePlan) -> int:
    """Return the columns by which the first memory line begins before the grid."""
    return line_shift(*margins(plan)[0], plan.grid.shape[0])


def touches(plan: FiniteDifferencePlan, box: Box, position: Sequence[float]) -> bool:
    """True if the velocities that a force at a position changes are in the box or within reach of it."""
    reach = 2 * HALF_WIDTH + plan.halo  # the stencil may be shifted next to a face
    places = (plan.grid.index(axis, position[axis]) for axis in range(3))
    return all(first - reach <= place < end + reach for place, (first, end) in zip(places, box, strict=True))
