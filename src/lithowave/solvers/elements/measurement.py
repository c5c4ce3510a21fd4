"""Short measurements: code that element methods share."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lithowave.solvers.common.timing import typical_time

SIZE, VP, VS, RHO = 100.0, 5000.0, 2900.0, 2700.0  # of elements or cubes, m, and their material, m/s, kg/m^3
MAX_RECEIVERS = 256


def affordable_size(
    backend: Any, sample: Any, counts: tuple[int, int, int], smallest: int, elements_per_cell: int = 1
) -> tuple[int, int, int]:
    """Return cells along x, y and z: at most `counts`, fewer if they do not fit into the memory.

    Parameters
    ----------
    sample : plan of a small box of the same elements.
    smallest : number of cells along each axis, at least.
    """
    cell_bytes = elements_per_cell * sample.memory_bytes(backend) / sample.element_count
    while math.prod(counts) * cell_bytes > backend.free_memory() and min(counts) > smallest:
        counts = tuple(max(smallest, count * 4 // 5) for count in counts)
    return counts


def affordable_elements(plan: Any, backend: Any) -> int:
    """Return the number of elements like those of a plan that take a third of the free memory."""
    return backend.free_memory() // 3 * plan.element_count // plan.memory_bytes(backend)


def record_time(solver: Any, receiver_count: int) -> float:
    """Return the time of a record, s, of a number of receivers in a small box."""
    if not receiver_count:
        return 0.0
    count = min(receiver_count, MAX_RECEIVERS)
    vertices = solver.plan.mesh.vertices
    low, high = vertices.min(axis=0), vertices.max(axis=0)
    inside = 0.5 * (low + high) + 0.4 * (high - low) * np.random.default_rng(2).uniform(-1, 1, (count, 3))
    solver.receivers = solver.make_samples(solver, solver.plan.locate(inside, solver.plan.inside_tolerance))
    solver.start_records(1, stress=False)
    return typical_time(lambda: solver.record(0), solver.backend) * receiver_count / count
