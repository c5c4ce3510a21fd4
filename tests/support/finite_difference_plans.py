"""Plans of finite differences on any grid, and solvers of a uniform medium on them."""

from __future__ import annotations

import dataclasses
from typing import Any

from lithowave.backends import make_backend
from lithowave.mesh import Grid
from lithowave.solvers.finite_difference import (
    FiniteDifferencePlan,
    FiniteDifferenceSolver,
    make_tasks,
    uniform_simulation,
)

NO_LAYERS = ((0, 0),) * 3


def plan_on_grid(
    shape: tuple[int, int, int], order: int, precision: str, layers: Any = NO_LAYERS, **faces: str
) -> FiniteDifferencePlan:
    """The plan of a uniform medium; layers : cells at both ends of each axis. faces : kinds of those not absorbing."""
    [task] = make_tasks(make_backend("cpu", precision, 1), ["interior"], [(40, 40, 40)], [order])
    grid = Grid(task.plan.grid.spacing, shape, (0.0, 0.0, 0.0), layers)
    return dataclasses.replace(task.plan, grid=grid, faces=task.plan.faces | faces)


def uniform_solver(plan: FiniteDifferencePlan, backend: Any) -> FiniteDifferenceSolver:
    """The solver of a plan, of a uniform medium without sources and receivers."""
    return FiniteDifferenceSolver(plan, uniform_simulation(plan), backend)
