"""Table of the arrays of a grid: state, material, and memory variables of the absorbing layers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from lithowave.mesh.grid import AXES
from lithowave.solvers.common.arrays import ArrayTable, FieldEntry
from lithowave.solvers.finite_difference.grid_plan import axis_layers, column_shift, smoothed_count
from lithowave.solvers.finite_difference.law import MEMORY, STATE

if TYPE_CHECKING:
    from lithowave.backends.interface import Backend
    from lithowave.solvers.finite_difference.grid_plan import GridPlan

FIELD_ROLES = ("velocity", "stress", "memory")  # of a set of fields; one pass over memory has two sets
MATERIAL_ROLES = ("density", "modulus")
STATE_ROLES = (*FIELD_ROLES, "layer")


def grid_arrays(plan: GridPlan, backend: Backend | None = None) -> ArrayTable:
    """Return the arrays of a rank with a value for each point of the grid or of its layers.

    The roles are those of `law.Field`; ``fraction``: codes of the fractions of mechanisms; ``layer``: memory variables
    of a layer; ``work``: intermediate values. backend : decides whether material is stored in codes; None: it is not.
    """
    real = np.dtype(f"f{plan.value_bytes}") if backend is None else backend.dtype
    table, law, two_sets = ArrayTable(real), plan.law_fields, plan.passes == "one"
    field = partial(FieldEntry, halo=plan.halo, shift=column_shift(plan))
    one, every = plan.padded_shape(), plan.memory_shape()
    codes = plan.moduli == "compact" and backend is not None and backend.stores_codes
    stored = np.dtype(np.uint16) if codes else table.real
    fields = [(part, one) for part in STATE] + [(part, every) for part in (MEMORY if law.mechanisms else ())]
    entries = [field(part.name, part.role, shape, table.real, 1 + two_sets) for part, shape in fields]
    entries += [field(part.name, part.role, one, stored) for part in law.material]
    if law.mechanisms:
        entries.append(field("fractions", "fraction", every, np.dtype(np.uint32)))
    table.entries.update((entry.name, entry) for entry in entries)
    for axis, letter in enumerate(AXES):
        layers = axis_layers(plan.grid, axis, plan.layer, plan.schedule.time_step)
        for kind in ("velocity", "stress"):
            table.add(f"layers/{letter}/{kind}", "layer", layers.memory)
    if smoothed := smoothed_count(plan):
        table.add("differences", "work", smoothed)
    return table
