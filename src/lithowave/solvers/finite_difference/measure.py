"""Short measurements of the finite-difference kernels: for predictions (`check`) and for `bench`."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from lithowave.mesh.grid import Grid
from lithowave.solvers.clock import Schedule
from lithowave.solvers.finite_difference.coefficients import taylor_coefficients
from lithowave.solvers.finite_difference.cpml import LayerParameters
from lithowave.solvers.finite_difference.plan import FiniteDifferencePlan, Survey
from lithowave.solvers.finite_difference.points import HALF_WIDTH
from lithowave.solvers.finite_difference.solver import FiniteDifferenceSolver

# Large enough that the fields do not fit into a cache, small enough for two seconds.
SAMPLE_POINTS = 4_000_000
RECEIVER_SECONDS = 3 * (2 * HALF_WIDTH) ** 3 * 1.5e-9


def best_time(function: Callable[[], object], repeats: int = 3, minimum: float = 0.0) -> float:
    """Shortest wall time of a call, s, after one call that warms up; calls go on until `minimum` seconds are spent."""
    function()
    shortest, spent, done = math.inf, 0.0, 0
    while done < repeats or spent < minimum:
        begin = time.perf_counter()
        function()
        elapsed = time.perf_counter() - begin
        shortest, spent, done = min(shortest, elapsed), spent + elapsed, done + 1
    return shortest


def fill_with_noise(solver: FiniteDifferenceSolver) -> None:
    """Small random fields: zeros and denormal numbers have speeds of their own."""
    generator = np.random.default_rng(1)
    plane = 1e-3 * generator.standard_normal(solver.plan.padded_shape()[1:], dtype=np.float32)
    for field in solver.fields_by_name.values():
        for k in range(field.shape[0]):
            solver.backend.assign(field[k], plane * np.float32(1 + 0.1 * np.sin(k)))


def predict_loop_time(plan: FiniteDifferencePlan, backend: Any, receiver_count: int) -> float:
    """Predicted time of the loop, s: a few steps on a smaller grid with and without its layers, scaled.

    Interior points and memory variables of the layers are scaled apart, since a small grid has more layer.
    """
    small = _smaller(plan)
    bare = _without_layers(small)
    per_point = _step_time(bare, backend) / bare.point_count
    layer_values = small.layer_values()
    extra = max(0.0, _step_time(small, backend) - per_point * small.point_count) if layer_values else 0.0
    per_step = per_point * plan.point_count + (extra * plan.layer_values() / layer_values if layer_values else 0.0)
    return plan.schedule.steps * (per_step + receiver_count * RECEIVER_SECONDS / backend.threads)


def _step_time(plan: FiniteDifferencePlan, backend: Any) -> float:
    solver = FiniteDifferenceSolver(plan, None, backend)
    fill_with_noise(solver)
    # The median of a few: the run will not see only the best moments of the machine.
    solver.advance(0)
    times = []
    for _ in range(7):
        begin = time.perf_counter()
        solver.advance(0)
        times.append(time.perf_counter() - begin)
    return float(np.median(times))


def _smaller(plan: FiniteDifferencePlan) -> FiniteDifferencePlan:
    """The same kind of grid with at most SAMPLE_POINTS points, cut in z first: rows keep their length."""
    nx, ny, nz = plan.grid.shape
    ceiling = max(SAMPLE_POINTS, 1)
    nx = min(nx, 400)
    ny = min(ny, max(ceiling // (nx * 60), 60))
    nz = min(nz, max(ceiling // (nx * ny), 60))
    layers = tuple(
        tuple(min(cells, count // 3) for cells in pair)
        for pair, count in zip(plan.grid.layers, (nx, ny, nz), strict=True)
    )
    return dataclasses.replace(plan, grid=dataclasses.replace(plan.grid, shape=(nx, ny, nz), layers=layers))


def _without_layers(plan: FiniteDifferencePlan) -> FiniteDifferencePlan:
    return dataclasses.replace(plan, grid=dataclasses.replace(plan.grid, layers=((0, 0), (0, 0), (0, 0))))


def synthetic_plan(
    shape: tuple[int, int, int], order: int, precision: str, cells: int = 0, free_top: bool = False
) -> FiniteDifferencePlan:
    """A plan for measurements: a grid of this shape, `cells` of absorbing layer inside it on five faces."""
    spacing, vp, vs = 100.0, 5000.0, 2900.0
    pair = (cells, cells)
    grid = Grid(spacing, shape, (0.0, 0.0, 0.0), (pair, pair, (cells, 0 if free_top else cells)))
    coefficients = taylor_coefficients(order)
    step = 0.9 * spacing / (vp * math.sqrt(3.0) * float(np.abs(coefficients).sum()))
    faces = {f"{axis}_{side}": "absorbing" for axis in "xyz" for side in ("min", "max")}
    faces["z_max"] = "free" if free_top else "absorbing"
    return FiniteDifferencePlan(
        grid=grid,
        schedule=Schedule(step, step / 0.9, 10, 2),
        order=order,
        coefficients=(coefficients,) * 3,
        faces=faces,
        layer=LayerParameters(1e-4, 1.0, 2.0, vp),
        survey=Survey(vp, "the whole grid", vs, "the whole grid"),
        max_frequency=None,
        value_bytes=4 if precision == "single" else 8,
    )
