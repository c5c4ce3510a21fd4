"""Benchmarks of the finite differences for `lithowave bench`: kernels, entire steps and entire runs on a cube.

The lower bound of a step's time is the memory traffic of two passes over the grid, in which each field that a kernel
reads or changes moves once, divided by the memory bandwidth.

Short measurements of the kernels predict the loop for `check`.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from lithowave.description.simulation import Simulation
from lithowave.solvers.common.kernels import RECORDS, Steps, call_time, typical_time
from lithowave.solvers.finite_difference.attenuation import GridAttenuation, choose_attenuation
from lithowave.solvers.finite_difference.coefficients import taylor_coefficients
from lithowave.solvers.finite_difference.plan import FiniteDifferencePlan, pass_box, plan
from lithowave.solvers.finite_difference.solver import FiniteDifferenceSolver
from lithowave.solvers.finite_difference.sources import ReceiverList
from lithowave.solvers.finite_difference.step import TwoPasses
from lithowave.solvers.interface import LoopPrediction

if TYPE_CHECKING:
    from lithowave.backends.interface import Backend

CASES = ("interior", "full", "run")
USUAL_CASES = ("interior", "full")
OPTIONS = ("orders", "passes", "moduli", "law", "attenuation", "layer_cells", "receivers", "steps")
SMALLEST_SIZE = 40  # points
LAYER_WORDS = 12  # values per layer point and step: six memory variables are read and written
NOISY_PLANES = 8  # on a GPU only every n-th plane is initialized with noise, which spreads: filling all planes is slow

Record = dict[str, object]
Shape = tuple[int, int, int]


@dataclass(frozen=True)
class BenchSettings:
    """Default settings of a benchmark.

    size : points along each side. layer_cells, receivers : values for `full` and `run`. steps, sample_every,
    snapshot_every, peak_motion : values for `run`, which writes snapshots of the surface.
    """

    size: int
    layer_cells: int
    receivers: int
    steps: int
    sample_every: int
    snapshot_every: int
    peak_motion: bool


SETTINGS = {
    "cpu": BenchSettings(200, 10, 18, 60, 10, 10, False),
    "cuda": BenchSettings(512, 16, 1000, 400, 1, 50, True),
}


def make_tasks(
    backend: Backend,
    cases: Iterable[str],
    sizes: Iterable[Shape] | None,
    orders: Iterable[int] = (4,),
    passes: str = "auto",
    moduli: str = "full",
    law: str = "isotropic",
    attenuation: str = "none",
    **changes: int,
) -> Iterator[FiniteDifferenceTask]:
    """Yield a task for each size (points along x, y, z), order and case. changes : settings to replace."""
    settings = dataclasses.replace(SETTINGS[backend.name], **changes)
    for shape, order, case in itertools.product(sizes or [(settings.size,) * 3], orders, cases):
        yield FiniteDifferenceTask(case, tuple(shape), order, backend, passes, moduli, law, attenuation, settings)


def step_bytes(plan: FiniteDifferencePlan) -> float:
    """Return the bytes that one step must move, by the model in the module docstring."""
    grid = plan.grid
    layer_points = sum(sum(pair) * grid.point_count // n for pair, n in zip(grid.layers, grid.shape, strict=True))
    words = plan.law_fields.step_words() * plan.point_count + LAYER_WORDS * layer_points
    return plan.value_bytes * words


@dataclass(frozen=True)
class FiniteDifferenceTask:
    """Measurement of a case on a grid (points along x, y, z) of a device; passes: auto, one or two; moduli: full or
    compact; law: a name in `law.LAWS`; attenuation: none, coarse or full. See
    `lithowave.solvers.interface.BenchTask`."""

    case: str
    shape: Shape
    order: int
    backend: Backend
    passes: str
    moduli: str
    law: str
    attenuation: str
    settings: BenchSettings

    method = "finite_difference"

    @property
    def name(self) -> str:
        """Name for messages."""
        return f"{self.case}, {'x'.join(map(str, self.shape))}, order {self.order}"

    @cached_property
    def plan(self) -> FiniteDifferencePlan:
        """Plan of the grid, with the requested passes; that of `interior` is for any medium, without layers."""
        made = plan(self.simulation, self.backend)
        if self.case != "interior":
            return made
        return with_passes(dataclasses.replace(without_layers(made), equal_columns=False), self.backend, self.passes)

    @property
    def precision(self) -> str:
        """Floating-point precision of the device."""
        return self.backend.precision

    def entries(self) -> Record:
        """Return the entries of the benchmark record that describe the case."""
        return {
            "size": list(self.plan.grid.shape), "order": self.order, "moduli": self.moduli, "law": self.law,
            "attenuation": self.attenuation,
        }  # fmt: skip

    def step_bytes(self) -> float:
        """Return the bytes that one step must move."""
        return step_bytes(self.plan)

    def measure(self) -> tuple[float, Record]:
        """Return the seconds per step: only the two kernels (`interior`), or everything (`full`): layers, free surface,
        sources and the recording of all receivers."""
        full = self.case == "full"
        solver = self.solver(self.simulation)
        if full:
            solver.start_records(RECORDS, False)
        seconds = call_time(Steps(solver, recording=full), self.backend, minimum=2.0)
        halves = ("update_stress", "update_velocity")
        kernels = {name: call_time(getattr(solver, name), self.backend) for name in halves}
        return seconds, {"passes": pass_count(solver), "kernels": kernels, **(self._extent() if full else {})}

    def measure_bare(self) -> tuple[float, Record]:
        """Return the seconds per step of the interior kernels on the grid of `run`."""
        solver = self.solver(self.simulation.with_overrides({"sources": [], "receivers": []}))
        seconds = call_time(Steps(solver), self.backend, minimum=2.0)
        return seconds, {"passes": pass_count(solver), **self._extent(), "steps": self.settings.steps}

    def _extent(self) -> Record:
        return {"layer_cells": self.settings.layer_cells, "receivers": self.settings.receivers}

    def solver(self, simulation: Simulation) -> FiniteDifferenceSolver:
        """Return a solver with small random fields."""
        made = FiniteDifferenceSolver(self.plan, simulation, self.backend)
        fill_with_noise(made, NOISY_PLANES if self.backend.own_memory else 1)
        return made

    @cached_property
    def simulation(self) -> Simulation:
        """Simulation on exactly this grid: two sources, receivers on the entire surface, and outputs; for `interior`
        without these."""
        interior, spacing = self.case == "interior", 100.0
        cells = 1 if interior else self.settings.layer_cells
        simulation = Simulation.from_text(UNIFORM)
        stable = spacing / (math.sqrt(3.0) * float(np.abs(taylor_coefficients(self.order)).sum()))
        step = 0.85 * stable / simulation.material_extremes["vp_max"]  # closed faces reduce the stable time step
        sides = [spacing * (n - 1 - 2 * cells) for n in self.shape]
        sides[2] += 0.0 if interior else spacing * cells  # no layer above a free surface
        changes = {
            "title": "benchmark", "domain.x": [0, sides[0]], "domain.y": [0, sides[1]], "domain.z": [-sides[2], 0],
            "boundaries": {"top": "absorbing" if interior else "free", "layer": {"cells": cells}},
            "duration": self.settings.steps * step,
            "solver": {
                "order": self.order, "spacing": spacing, "time_step": step, "passes": self.passes,
                "effective_medium": self.law, "time_dispersion_correction": False,
                "memory_variables": "auto" if self.attenuation == "none" else self.attenuation,
            },
            "compute": {
                "backend": self.backend.name, "precision": self.precision, "threads": self.backend.threads,
                "moduli": self.moduli,
            },
        }  # fmt: skip
        if self.attenuation != "none":
            changes |= {"material.homogeneous.qp": 100.0, "material.homogeneous.qs": 50.0}
            changes["material.attenuation"] = {"band": [2e-4 / step, 2e-2 / step]}
        return simulation.with_overrides(changes if interior else changes | self._acquisition(*sides, step))

    def _acquisition(self, x: float, y: float, z: float, step: float) -> dict[str, object]:
        """Return the sources, receivers and outputs in a domain with these sides, m, and for this time step, s."""
        pulse = {"gaussian": {"sigma": 20 * step, "delay": 100 * step}}
        return {
            "sources": [
                {"position": [0.51 * x, 0.49 * y, -0.3 * z], "moment_tensor": {"xy": 1e15}, "time_function": pulse},
                {"position": [0.3 * x, 0.6 * y, -0.2 * z], "moment_tensor": {"zz": 1e15}, "time_function": pulse},
            ],
            "receivers": list(scattered(self.settings.receivers, x, y)),
            "output": {
                "sampling_interval": self.settings.sample_every * step,
                "snapshots": {"interval": self.settings.snapshot_every * step, "plane": {"z": 0}},
                "peak_motion": self.settings.peak_motion,
            },
        }  # fmt: skip


def pass_count(solver: FiniteDifferenceSolver) -> int:
    """Return the number of passes over the grid in a step of this solver."""
    return 2 if isinstance(solver.scheme, TwoPasses) else 1


def scattered(count: int, x: float, y: float) -> Iterator[dict[str, object]]:
    """Yield receivers that cover the surface of a box uniformly, none of them on a grid point."""
    for number in range(count):
        place = [x * (0.7548776662 * number % 1), y * (0.5698402910 * number % 1), 0.0]
        yield {"network": "XX", "name": f"R{number}", "position": place}


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


def predict_loop_time(plan: FiniteDifferencePlan, backend: Backend, receiver_count: int) -> LoopPrediction:
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


def _times(plan: FiniteDifferencePlan, backend: Backend, receiver_count: int) -> tuple[float, float]:
    """Return the seconds of a step, and of a record of this many receivers."""
    solver = FiniteDifferenceSolver(with_passes(plan, backend, plan.passes), uniform_simulation(plan), backend)
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


def _sample_points(plan: FiniteDifferencePlan, backend: Backend) -> int:
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


def with_passes(plan: FiniteDifferencePlan, backend: Backend, requested: str) -> FiniteDifferencePlan:
    """Return the plan with the box of one pass that its grid allows. requested : as ``solver.passes``."""
    return dataclasses.replace(plan, box=pass_box(plan, requested, backend)[0])


def without_layers(plan: FiniteDifferencePlan) -> FiniteDifferencePlan:
    """Return the plan without absorbing layers, which every description has, on a grid of the same size."""
    return dataclasses.replace(plan, grid=dataclasses.replace(plan.grid, layers=((0, 0), (0, 0), (0, 0))))
