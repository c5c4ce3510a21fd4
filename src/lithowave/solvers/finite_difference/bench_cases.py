"""Benchmarks of the finite differences for `lithowave bench`: kernels, entire steps and entire runs on a cube.

The lower bound of a step's time is the memory traffic of two passes over the grid, in which each field that a kernel
reads or changes moves once, divided by the memory bandwidth.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from lithowave.description.simulation import Simulation
from lithowave.solvers.common.timing import RECORDS, Steps, call_time
from lithowave.solvers.finite_difference.coefficients import taylor_coefficients
from lithowave.solvers.finite_difference.measure import UNIFORM, fill_with_noise, without_layers
from lithowave.solvers.finite_difference.plan import FiniteDifferencePlan, plan
from lithowave.solvers.finite_difference.schemes import TwoPasses
from lithowave.solvers.finite_difference.solver import FiniteDifferenceSolver

CASES = ("interior", "full", "run")
USUAL_CASES = ("interior", "full")
OPTIONS = ("orders", "passes", "moduli", "law", "attenuation", "layer_cells", "receivers", "steps")
SMALLEST_SIZE = 40  # points
# Values per layer point and step. CUDA kernels update the layers in the same sweep and read and write six memory
# variables. A CPU also reads and writes again the fields that the layers change (3 + 5 of them), and reads the material
# again (2 + 2).
LAYER_WORDS = {"cuda": 12, "cpu": 12 + 2 * (3 + 5) + 4}
NOISY_PLANES = 8  # on a GPU only every n-th plane is initialized with noise, which spreads: filling all planes is slow

Record = dict[str, Any]
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
    backend: Any,
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


def step_bytes(plan: FiniteDifferencePlan, backend_name: str) -> float:
    """Return the bytes that one step must move, by the model in the module docstring."""
    grid = plan.grid
    layer_points = sum(sum(pair) * grid.point_count // n for pair, n in zip(grid.layers, grid.shape, strict=True))
    words = plan.law_fields.step_words() * plan.point_count + LAYER_WORDS[backend_name] * layer_points
    return plan.value_bytes * words


@dataclass(frozen=True)
class FiniteDifferenceTask:
    """Measurement of a case on a grid (points along x, y, z) of a device; passes: auto, one or two; moduli: full or
    compact; law: a name in `fields.LAWS`; attenuation: none, coarse or full. See
    `lithowave.solvers.interface.BenchTask`."""

    case: str
    shape: Shape
    order: int
    backend: Any
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
        made = dataclasses.replace(plan(self.simulation, self.backend), passes=self.passes)
        return dataclasses.replace(without_layers(made), equal_columns=False) if self.case == "interior" else made

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
        return step_bytes(self.plan, self.backend.name)

    def memory_bytes(self, measured: Record) -> int:
        """Return the bytes of all arrays; one pass requires two sets of fields, except on a CPU."""
        passes = "one" if measured["passes"] == 1 and self.backend.own_memory else "two"
        return dataclasses.replace(self.plan, passes=passes).memory_bytes(self.backend)

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

    def _acquisition(self, x: float, y: float, z: float, step: float) -> dict[str, Any]:
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


def scattered(count: int, x: float, y: float) -> Iterator[dict[str, Any]]:
    """Yield receivers that cover the surface of a box uniformly, none of them on a grid point."""
    for number in range(count):
        place = [x * (0.7548776662 * number % 1), y * (0.5698402910 * number % 1), 0.0]
        yield {"network": "XX", "name": f"R{number}", "position": place}
