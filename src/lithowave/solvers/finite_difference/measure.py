"""Short measurements of the finite-difference kernels for `check` and `bench`."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from lithowave.description.simulation import Simulation
from lithowave.solvers.common.timing import typical_time
from lithowave.solvers.finite_difference.attenuation import GridAttenuation, choose_attenuation
from lithowave.solvers.finite_difference.plan import FiniteDifferencePlan
from lithowave.solvers.finite_difference.point_lists import ReceiverList
from lithowave.solvers.finite_difference.solver import FiniteDifferenceSolver
from lithowave.solvers.interface import LoopPrediction

MOST_RECEIVERS = 256
UNIFORM = """
title: measurement
domain: {x: [0, 1000], y: [0, 1000], z: [-1000, 0]}
boundaries: {top: absorbing}
material: {homogeneous: {vp: 5000, vs: 2900, rho: 2500}}
sources: []
receivers: []
duration: 1
solver: {spacing: 100}
"""
"""Description of a uniform medium, of which measurements change single entries."""


def fill_with_noise(solver: FiniteDifferenceSolver, every: int = 1) -> None:
    """Fill every n-th plane with small random fields: zeros and denormal numbers change the speed."""
    generator = np.random.default_rng(1)
    plane = 1e-3 * generator.standard_normal(solver.plan.padded_shape()[1:], dtype=np.float32)
    for field in solver.fields_by_name.values():
        for k in range(0, field.shape[0], every):
            solver.backend.assign(field[k], plane * np.float32(1 + 0.1 * np.sin(k)))


def uniform_simulation(plan: FiniteDifferencePlan) -> Simulation:
    """Return a uniform medium on the grid of a plan, without sources and receivers, whose waves are slower than the
    fastest one of the plan, so that its time step is stable."""
    nodes = (plan.grid.nodes(axis) for axis in range(3))
    bounds = {f"domain.{axis}": [float(line[0]), float(line[-1])] for axis, line in zip("xyz", nodes, strict=True)}
    return Simulation.from_text(UNIFORM).with_overrides({
        **bounds, "solver.spacing": plan.grid.spacing,
        "material.homogeneous.vp": 0.9 * plan.extremes.fastest, "material.homogeneous.vs": 0.5 * plan.extremes.fastest,
    })  # fmt: skip


def _uniform_attenuation(plan: FiniteDifferencePlan, given: GridAttenuation) -> GridAttenuation | None:
    """Return the attenuation of a uniform medium on the grid of a plan, stored as the given one."""
    return choose_attenuation(uniform_simulation(plan).with_overrides({
        "material.homogeneous.qp": 100.0, "material.homogeneous.qs": 50.0,
        "material.attenuation": {"band": list(given.body.band), "mechanisms": given.body.mechanisms},
        "solver.memory_variables": "coarse" if given.coarse else "full",
    }))  # fmt: skip


def predict_loop_time(plan: FiniteDifferencePlan, backend: Any, receiver_count: int) -> LoopPrediction:
    """Predict the time of the loop: scale a few steps on a smaller grid with and without its layers.

    Interior points and memory variables of the layers are scaled separately: a small grid has a larger layer fraction.
    """
    small = _smaller(plan, _sample_points(plan, backend))
    if plan.attenuation is not None and not plan.equal_columns:  # whose quality factors take time to sample
        small = dataclasses.replace(small, attenuation=_uniform_attenuation(plan, plan.attenuation))
    bare = without_layers(small)
    bare_step, record = _times(bare, backend, receiver_count)
    per_point, per_step = bare_step / bare.point_count, record + bare_step / bare.point_count * plan.point_count
    if small.layer_values():
        extra = max(0.0, _times(small, backend, 0)[0] - per_point * small.point_count)
        per_step += extra * plan.layer_values() / small.layer_values()
    return LoopPrediction(plan.schedule.steps * per_step, 1.0 / per_point)


def _times(plan: FiniteDifferencePlan, backend: Any, receiver_count: int) -> tuple[float, float]:
    """Return the seconds of a step, and of a record of this many receivers."""
    solver = FiniteDifferenceSolver(plan, uniform_simulation(plan), backend)
    fill_with_noise(solver)
    step, record = typical_time(lambda: solver.advance(0), backend), 0.0
    if receiver_count:
        count = min(receiver_count, MOST_RECEIVERS)
        ends = np.array([(axis[0], axis[-1]) for axis in map(plan.grid.nodes, range(3))])
        positions = np.random.default_rng(2).uniform(*ends.T, (count, 3))
        solver.receivers = ReceiverList(backend, solver.stencil, positions)
        solver.start_records(1, stress=False)
        record = typical_time(lambda: solver.record(0), backend) * receiver_count / count
    return step, record


def _sample_points(plan: FiniteDifferencePlan, backend: Any) -> int:
    """Return a number of points that is representative of this device and needs at most a third of its free memory."""
    room = backend.free_memory() // 3
    return max(1, min(backend.sample_points, room * plan.point_count // plan.memory_bytes(backend)))


def _smaller(plan: FiniteDifferencePlan, ceiling: int) -> FiniteDifferencePlan:
    """Return the same kind of grid with about `ceiling` points, reduced in z first: rows retain their length."""
    nx, ny, nz = plan.grid.shape
    depth = max(60, round(0.38 * ceiling ** (1 / 3)))
    nx = min(nx, max(400, round(ceiling ** (1 / 3))))
    ny = min(ny, max(ceiling // (nx * depth), 60))
    nz = min(nz, max(ceiling // (nx * ny), 60))
    layers = tuple(
        tuple(min(cells, count // 3) for cells in pair)
        for pair, count in zip(plan.grid.layers, (nx, ny, nz), strict=True)
    )
    return dataclasses.replace(plan, grid=dataclasses.replace(plan.grid, shape=(nx, ny, nz), layers=layers))


def without_layers(plan: FiniteDifferencePlan) -> FiniteDifferencePlan:
    """Return the plan without absorbing layers, which every description has, on a grid of the same size."""
    return dataclasses.replace(plan, grid=dataclasses.replace(plan.grid, layers=((0, 0), (0, 0), (0, 0))))
