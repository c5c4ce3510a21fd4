"""Benchmarks: kernels, whole steps and whole runs against what the memory of this machine or device allows.

The bandwidth is measured in the same process. On a CPU it is that of two loops over arrays far larger than a cache,
with the same threads as the kernels: a copy (b = a, 2 words an element) and an update (a += s b, 3 words); on a CUDA
device that of a copy within its memory. The limit of a step is the largest of them over the bytes that its model says
must move where a step makes two passes over the grid: each field that a kernel reads or changes, once.
"""

from __future__ import annotations

import dataclasses
import gc
import itertools
import json
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from lithowave.backends import make_backend
from lithowave.errors import ResourceError
from lithowave.experiment.simulation import Simulation
from lithowave.output.run_folder import package_versions, source_commit
from lithowave.run import run_simulation
from lithowave.solvers.finite_difference.measure import best_time, fill_with_noise, synthetic_plan
from lithowave.solvers.finite_difference.plan import FiniteDifferencePlan, plan
from lithowave.solvers.finite_difference.schemes import OnePassScheme
from lithowave.solvers.finite_difference.solver import FiniteDifferenceSolver

CASES = ("interior", "full", "run")
# Words a point and step: velocities read and written (6), stresses read (6), density; stresses read and written (12),
# velocities read (3), two moduli.
STEP_WORDS = 6 + 6 + 1 + 12 + 3 + 2
# Words for a point of a layer and step. CUDA kernels do the layers in the same sweep: six memory variables read and
# written. On a CPU the fields they change are read and written again (3 + 5 of them twice), and the material (2 + 2).
LAYER_WORDS = {"cuda": 12, "cpu": 12 + 2 * (3 + 5) + 4}
BANDWIDTH_ELEMENTS = 48_000_000
DEVICE_SECONDS = 0.5  # of the device's time for a rate
FEWEST_CALLS = 5
NOISY_PLANES = 8  # on a device one plane in so many begins with noise, which spreads: filling all takes long
RECORDS = 64  # kept on the device; further ones replace them

Record = dict[str, Any]
Shape = tuple[int, int, int]


@dataclass(frozen=True)
class Setting:
    """What is measured unless told otherwise.

    size : points along each side. layer_cells, receivers : of `full` and `run`. steps, sample_every, snapshot_every,
    peak_motion : of `run`, whose snapshots are of the surface.
    """

    size: int
    layer_cells: int
    receivers: int
    steps: int
    sample_every: int
    snapshot_every: int
    peak_motion: bool


SETTINGS = {
    "cpu": Setting(200, 10, 18, 60, 10, 10, False),
    "cuda": Setting(512, 16, 1000, 400, 1, 50, True),
}


def run_benchmarks(
    cases: Iterable[str] = ("interior", "full"),
    sizes: Iterable[Shape] | None = None,
    orders: Iterable[int] = (4,),
    precisions: Iterable[str] = ("single",),
    backend: str = "auto",
    threads: int | None = None,
    passes: str = "auto",
    moduli: str = "full",
    layer_cells: int | None = None,
    receivers: int | None = None,
    steps: int | None = None,
    json_path: str | Path | None = None,
    tell: Callable[[str], None] | None = None,
) -> list[Record]:
    """Measure and return one record for each case, order, size and precision.

    Parameters
    ----------
    cases : ``interior`` (no layers), ``full`` (whole steps with a free surface, five absorbing faces inside the given
    size, two sources, receivers recorded at each step), ``run`` (a whole run with outputs, on the grid of ``full``).
    sizes : grid points along x, y, z, layers included; by default a cube, of 200 on a CPU, 512 on a CUDA device.
    backend : ``auto`` takes a CUDA device where there is one. passes, moduli : as
    ``solver.passes`` and ``compute.moduli`` of a simulation.
    layer_cells, receivers, steps : see `Setting`. json_path : the records are written there as a JSON list.
    tell : takes a line for each size that does not fit into the memory, and is left out.
    """
    given = {"layer_cells": layer_cells, "receivers": receivers, "steps": steps}
    changes = {name: value for name, value in given.items() if value is not None}
    sizes, orders, cases = (None if one is None else list(one) for one in (sizes, orders, cases))
    records = []
    for precision in precisions:
        device = make_backend(backend, precision, threads)
        setting = dataclasses.replace(SETTINGS[device.name], **changes)
        bandwidth = measure_bandwidth(device)
        for shape, order, case in itertools.product(sizes or [(setting.size,) * 3], orders, cases):
            try:
                task = Task(case, tuple(shape), order, precision, device, passes, moduli, setting)
                records.append(task.record(bandwidth))
            except NoRoomError as error:
                if tell:
                    tell(f"{case}, {'x'.join(map(str, shape))}, order {order}, {precision} is left out: {error}")
    if json_path is not None:
        Path(json_path).write_text(json.dumps(records, indent=2) + "\n", encoding="utf-8")
    return records


def measure_bandwidth(backend: Any) -> dict[str, float]:
    """Bandwidth in bytes/s, on arrays far larger than a cache: ``copy`` and, on a CPU, ``update``."""
    if backend.name == "cuda":
        return {"copy": backend.copy_bandwidth()}
    from lithowave.bandwidth import copy, update

    first = np.ones(BANDWIDTH_ELEMENTS * 4 // backend.dtype.itemsize, backend.dtype)
    second = np.full_like(first, 0.5)
    factor = backend.scalar(1e-6)
    return {
        "copy": 2 * first.nbytes / best_time(lambda: copy(first, second), 5),
        "update": 3 * first.nbytes / best_time(lambda: update(first, second, factor), 5),
    }


def step_bytes(plan: FiniteDifferencePlan, backend_name: str) -> float:
    """Bytes that one step must move, by the model above."""
    grid = plan.grid
    layer_points = sum(sum(pair) * grid.point_count // n for pair, n in zip(grid.layers, grid.shape, strict=True))
    return plan.value_bytes * (STEP_WORDS * plan.point_count + LAYER_WORDS[backend_name] * layer_points)


def call_time(backend: Any, function: Callable[[], object], minimum: float = 0.0) -> float:
    """Time of a call, s: the shortest on a CPU; on a device the mean of many, between which it has no pause."""
    if backend.name == "cpu":
        return best_time(function, FEWEST_CALLS, minimum)
    _span(backend, function, 3)  # graphs are captured in the second call
    once = _span(backend, function, FEWEST_CALLS)
    return _span(backend, function, max(FEWEST_CALLS, int(DEVICE_SECONDS / once)))


def _span(backend: Any, function: Callable[[], object], calls: int) -> float:
    backend.synchronize()
    begin = time.perf_counter()
    for _ in range(calls):
        function()
    backend.synchronize()
    return (time.perf_counter() - begin) / calls


class NoRoomError(Exception):
    """A grid does not fit into the memory."""


@dataclass(frozen=True)
class Task:
    """One measurement: a case on a grid (points along x, y, z) of a device; passes: auto, one or two; moduli: full or
    compact."""

    case: str
    shape: Shape
    order: int
    precision: str
    backend: Any
    passes: str
    moduli: str
    setting: Setting

    def record(self, bandwidth: dict[str, float]) -> Record:
        """Measure, against this bandwidth.

        Raises
        ------
        NoRoomError : the grid does not fit into the memory.
        """
        gc.collect()  # solvers and their graphs refer to one another
        simulation = None if self.case == "interior" else self.simulation()
        made = plan(simulation) if simulation else synthetic_plan(self.shape, self.order, self.precision)
        made = dataclasses.replace(made, passes=self.passes, moduli=self.moduli)
        self._require_room(made)
        try:
            rate, extra = getattr(self, f"_measure_{self.case}")(made, simulation)
        except ResourceError as error:
            if isinstance(error.__cause__, MemoryError):
                raise NoRoomError(str(error)) from error
            raise
        return self._complete(made, rate, bandwidth, extra)

    def _require_room(self, made: FiniteDifferencePlan) -> None:
        needed, free = made.memory_bytes(self.backend), self.backend.free_memory()
        if needed > free:
            raise NoRoomError(f"its arrays need {needed / 1e9:.1f} GB, {free / 1e9:.1f} GB of memory are free")

    def _memory(self, made: FiniteDifferencePlan, passes: int) -> int:
        """Bytes of all arrays; one pass has the fields twice."""
        return dataclasses.replace(made, passes="one" if passes == 1 else "two").memory_bytes(self.backend)

    def _complete(
        self, made: FiniteDifferencePlan, rate: float, bandwidth: dict[str, float], extra: Record
    ) -> Record:
        """The record, with all that belongs to a rate."""
        bytes_per_point = step_bytes(made, self.backend.name) / made.point_count
        limit = max(bandwidth.values()) / bytes_per_point
        threads = {} if self.backend.own_memory else {"threads": self.backend.threads}
        return {
            "method": "finite_difference",
            "case": self.case,
            "size": list(made.grid.shape),
            "order": self.order,
            "precision": self.precision,
            "moduli": self.moduli,
            "backend": self.backend.name,
            "device": self.backend.device,
            "devices": 1,
            **threads,
            "rate": rate,
            "unit": "points/s",
            "bytes_per_point": bytes_per_point,
            "bandwidth": bandwidth,
            "limit": limit,
            "limit_fraction": rate / limit,
            "memory_bytes_per_point": self._memory(made, extra["passes"]) / made.point_count,
            **extra,
            "versions": package_versions() | self.backend.facts().get("cuda", {}),
            "commit": source_commit(),
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
        }

    # ------------------------------------------------------------------------------------------------ the cases

    def _measure_interior(self, made: FiniteDifferencePlan, _: None) -> tuple[float, Record]:
        """Steps of the two kernels alone."""
        solver = self._noisy(FiniteDifferenceSolver(made, None, self.backend))
        seconds = call_time(self.backend, Steps(solver), minimum=2.0)
        return made.point_count / seconds, self._facts(solver)

    def _measure_full(self, made: FiniteDifferencePlan, simulation: Simulation) -> tuple[float, Record]:
        """Whole steps: layers, free surface, sources, and a record of all receivers."""
        solver = self._noisy(FiniteDifferenceSolver(made, simulation, self.backend))
        solver.start_records(RECORDS, False)
        seconds = call_time(self.backend, Steps(solver, recording=True), minimum=2.0)
        return made.point_count / seconds, self._facts(solver) | self._extent()

    def _measure_run(self, made: FiniteDifferencePlan, simulation: Simulation) -> tuple[float, Record]:
        """The time loop of a whole run, and its fraction of the bare kernels' rate, measured just after."""
        with tempfile.TemporaryDirectory() as folder:
            report = run_simulation(simulation, Path(folder) / "run").report
        gc.collect()
        bare = self._noisy(FiniteDifferenceSolver(made, None, self.backend))
        bare_rate = made.point_count / call_time(self.backend, Steps(bare), minimum=2.0)
        rate = report["rate_points_per_s"]
        spans = {name: report[name] for name in ("setup_s", "loop_s", "wall_s")}
        beside = {"bare_kernels_rate": bare_rate, "fraction_of_bare_kernels": rate / bare_rate}
        return rate, {"passes": pass_count(bare), **beside, **self._extent(), "steps": self.setting.steps, **spans}

    def _extent(self) -> Record:
        return {"layer_cells": self.setting.layer_cells, "receivers": self.setting.receivers}

    def _noisy(self, solver: FiniteDifferenceSolver) -> FiniteDifferenceSolver:
        fill_with_noise(solver, 1 if self.backend.name == "cpu" else NOISY_PLANES)
        return solver

    def _facts(self, solver: FiniteDifferenceSolver) -> Record:
        """Passes over the grid that a step makes, and the seconds of the two kernels that could make it in two."""
        halves = ("update_stress", "update_velocity")
        return {
            "passes": pass_count(solver),
            "kernels": {name: call_time(self.backend, getattr(solver, name)) for name in halves},
        }

    # ---------------------------------------------------------------------------------------------- the experiment

    def simulation(self) -> Simulation:
        """An experiment on exactly this grid: two sources, receivers all over the surface, and outputs."""
        cells = self.setting.layer_cells
        model = synthetic_plan(self.shape, self.order, self.precision)
        spacing, step = model.grid.spacing, 0.95 * model.schedule.time_step  # closed faces limit it further
        x, y, z = (spacing * (n - 1 - k * cells) for n, k in zip(self.shape, (2, 2, 1), strict=True))
        pulse = {"gaussian": {"sigma": 20 * step, "delay": 100 * step}}
        return Simulation.model_validate({
            "title": "benchmark",
            "domain": {"x": [0, x], "y": [0, y], "z": [-z, 0]},
            "boundaries": {"layer": {"cells": cells}},
            "material": {"homogeneous": {"vp": model.survey.fastest, "vs": model.survey.slowest, "rho": 2500.0}},
            "sources": [
                {"position": [0.51 * x, 0.49 * y, -0.3 * z], "moment_tensor": {"xy": 1e15}, "time_function": pulse},
                {"position": [0.3 * x, 0.6 * y, -0.2 * z], "moment_tensor": {"zz": 1e15}, "time_function": pulse},
            ],
            "receivers": list(scattered(self.setting.receivers, x, y)),
            "duration": self.setting.steps * step,
            "solver": {"order": self.order, "spacing": spacing, "time_step": step, "passes": self.passes},
            "compute": {
                "backend": self.backend.name, "precision": self.precision, "threads": self.backend.threads,
                "moduli": self.moduli,
            },
            "output": {
                "sampling_interval": self.setting.sample_every * step,
                "snapshots": {"interval": self.setting.snapshot_every * step, "plane": {"z": 0}},
                "peak_motion": self.setting.peak_motion,
            },
        })  # fmt: skip


def pass_count(solver: FiniteDifferenceSolver) -> int:
    """How often a step of this solver goes over the grid."""
    return 1 if isinstance(solver.scheme, OnePassScheme) else 2


class Steps:
    """Each call is the next step of a solver, and a record if wanted."""

    def __init__(self, solver: FiniteDifferenceSolver, recording: bool = False) -> None:
        self.solver, self.recording, self.done = solver, recording, 0

    def __call__(self) -> None:
        self.solver.advance(self.done)
        if self.recording:
            self.solver.record(self.done % RECORDS)
        self.done += 1


def scattered(count: int, x: float, y: float) -> Iterable[dict[str, Any]]:
    """Receivers that cover the surface of a box evenly, and none on a grid point."""
    for number in range(count):
        place = [x * (0.7548776662 * number % 1), y * (0.5698402910 * number % 1), 0.0]
        yield {"network": "XX", "name": f"R{number}", "position": place}
