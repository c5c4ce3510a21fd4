"""Benchmarks: kernels and whole steps against what this machine's memory allows, measured in the same process.

The bandwidth is that of two loops over arrays far larger than a cache, with the same threads as the kernels: a copy
(b = a, 2 words an element) and an update (a += s b, 3 words). The limit of a step is the larger of the two over the
bytes that its model says must move: each field that a kernel reads or changes, once.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from lithowave.backends import make_backend
from lithowave.output.run_folder import package_versions, processor_name, source_commit
from lithowave.solvers.finite_difference.measure import best_time, fill_with_noise, synthetic_plan
from lithowave.solvers.finite_difference.plan import FiniteDifferencePlan
from lithowave.solvers.finite_difference.solver import FiniteDifferenceSolver

CASES = ("interior", "full", "run")
# Words a point and step: velocities read and written (6), stresses read (6), density; stresses read and written (12),
# velocities read (3), two moduli.
STEP_WORDS = 6 + 6 + 1 + 12 + 3 + 2
# Words for a point of a layer and step: six memory variables read and written, the fields they change read and written
# again (3 + 5 of them twice), the material (2 + 2).
LAYER_WORDS = 12 + 2 * (3 + 5) + 4
BANDWIDTH_ELEMENTS = 48_000_000
LAYER_CELLS = 10
RUN_STEPS = 60

Record = dict[str, Any]


def run_benchmarks(
    cases: Iterable[str] = ("interior", "full"),
    size: Iterable[int] = (200, 200, 200),
    orders: Iterable[int] = (4,),
    precisions: Iterable[str] = ("single",),
    threads: int | None = None,
    json_path: str | Path | None = None,
) -> list[Record]:
    """Measure and return one record for each case, order and precision.

    Parameters
    ----------
    cases : ``interior`` (no layers), ``full`` (free surface, five absorbing faces of ten cells inside the given size, a
    source, 18 receivers), ``run`` (a whole run with outputs every ten steps, on the grid of ``full``).
    size : grid points along x, y, z, layers included.
    json_path : the records are written there as a JSON list.
    """
    shape = tuple(size)
    records = []
    for precision in precisions:
        bandwidth = measure_bandwidth(make_backend("cpu", precision, threads))
        for order in orders:
            for case in cases:
                records.append(_measure(case, shape, order, precision, threads, bandwidth))
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


def step_bytes(plan: FiniteDifferencePlan) -> float:
    """Bytes that one step must move, by the model above."""
    layer_points = plan.layer_values() / 6
    return plan.value_bytes * (STEP_WORDS * plan.point_count + LAYER_WORDS * layer_points)


def _measure(
    case: str, shape: tuple[int, ...], order: int, precision: str, threads: int | None, bandwidth: dict[str, float]
) -> Record:
    backend = make_backend("cpu", precision, threads)
    layered = case != "interior"
    plan = synthetic_plan(shape, order, precision, LAYER_CELLS if layered else 0, free_top=layered)
    if case == "run":
        rate, extra = _run_rate(plan, precision, threads)
    else:
        solver = FiniteDifferenceSolver(plan, None, backend)
        fill_with_noise(solver)
        seconds = best_time(lambda: solver.advance(0), 5, minimum=2.0)
        rate, extra = plan.point_count / seconds, {"kernels": _kernel_times(solver)}
    limit = max(bandwidth.values()) / (step_bytes(plan) / plan.point_count)
    return {
        "method": "finite_difference",
        "case": case,
        "size": list(shape),
        "order": order,
        "precision": precision,
        "backend": "cpu",
        "device": processor_name(),
        "devices": 1,
        "threads": backend.threads,
        "rate": rate,
        "unit": "points/s",
        "bytes_per_point": step_bytes(plan) / plan.point_count,
        "bandwidth": bandwidth,
        "limit": limit,
        "limit_fraction": rate / limit,
        "memory_bytes_per_point": plan.memory_bytes() / plan.point_count,
        **extra,
        "versions": package_versions(),
        "commit": source_commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _kernel_times(solver: FiniteDifferenceSolver) -> dict[str, float]:
    """Seconds of the two halves of a step."""
    return {
        "update_stress": best_time(solver.update_stress, 5),
        "update_velocity": best_time(solver.update_velocity, 5),
    }


def _run_rate(plan: FiniteDifferencePlan, precision: str, threads: int | None) -> tuple[float, Record]:
    """Rate of the time loop of a whole run, and its fraction of the bare kernels' rate, measured just after."""
    from lithowave.experiment.simulation import Simulation
    from lithowave.run import run_simulation

    simulation = Simulation.model_validate(_run_description(plan, precision, threads))
    with tempfile.TemporaryDirectory() as folder:
        result = run_simulation(simulation, Path(folder) / "run")
        rate = result.report["rate_points_per_s"]
        shape = tuple(result.report["plan"]["grid_points"])
    backend = make_backend("cpu", precision, threads)
    bare = FiniteDifferenceSolver(
        synthetic_plan(shape, plan.order, precision, LAYER_CELLS, free_top=True), None, backend
    )
    fill_with_noise(bare)

    def kernels() -> None:
        bare.update_stress()
        bare.apply_free_surface()
        bare.update_velocity()

    bare_rate = bare.plan.point_count / best_time(kernels, 5, minimum=2.0)
    return rate, {"bare_kernels_rate": bare_rate, "fraction_of_bare_kernels": rate / bare_rate}


def _run_description(plan: FiniteDifferencePlan, precision: str, threads: int | None) -> dict[str, Any]:
    """A run on the grid of a plan: one source, 18 receivers, samples, a surface snapshot every ten steps, peaks."""
    nx, ny, nz = plan.grid.shape
    cells, spacing = LAYER_CELLS, plan.grid.spacing
    extent = [spacing * (nx - 1 - 2 * cells), spacing * (ny - 1 - 2 * cells), spacing * (nz - 1 - cells)]
    step = plan.schedule.time_step
    receivers = [
        {"network": "XX", "name": f"R{n}", "position": [extent[0] * (n + 0.5) / 18, 0.3 * extent[1], 0.0]}
        for n in range(18)
    ]
    return {
        "title": "benchmark",
        "domain": {"x": [0, extent[0]], "y": [0, extent[1]], "z": [-extent[2], 0]},
        "material": {"homogeneous": {"vp": plan.survey.fastest, "vs": plan.survey.slowest, "rho": 2500.0}},
        "sources": [
            {
                "position": [0.51 * extent[0], 0.49 * extent[1], -0.3 * extent[2]],
                "moment_tensor": {"xy": 1e15},
                "time_function": {"gaussian": {"sigma": 20 * step, "delay": 100 * step}},
            }
        ],
        "receivers": receivers,
        "duration": RUN_STEPS * step,
        "solver": {"order": plan.order, "spacing": spacing, "time_step": step},
        "compute": {"backend": "cpu", "precision": precision, "threads": threads},
        "output": {
            "sampling_interval": 10 * step,
            "snapshots": {"interval": 10 * step, "plane": {"z": 0}},
        },
    }
