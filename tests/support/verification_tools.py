"""Tools of the verification tests: small experiments, relative errors, and the record that the docs show."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

import lithowave as lw
from lithowave.backends import make_backend
from lithowave.media import rotated_stiffness, rotation_to
from lithowave.output import Sampling
from lithowave.solvers import load_method

DOCS = Path(__file__).parents[2] / "docs" / "verification"
ABSORBING_TOP = {"top": "absorbing"}


def relative_l2(values: np.ndarray, exact: np.ndarray) -> float:
    """sqrt(sum (values - exact)^2 / sum exact^2) over all traces."""
    return float(np.linalg.norm(values - exact) / np.linalg.norm(exact))


def general_stiffness() -> np.ndarray:
    """21 moduli, none of them zero or equal to another: an orthorhombic rock turned, with a little of anything."""
    stiffness = np.diag([60e9, 72e9, 55e9, 17e9, 20e9, 23e9])
    stiffness[0, 1] = stiffness[1, 0] = 19e9
    stiffness[0, 2] = stiffness[2, 0] = 16e9
    stiffness[1, 2] = stiffness[2, 1] = 21e9
    noise = np.random.default_rng(3).normal(scale=1.2e9, size=(6, 6))
    return rotated_stiffness(stiffness, rotation_to((0.6, 0.3, 0.5))) + 0.5 * (noise + noise.T)


def make(simulation: lw.Simulation) -> tuple[Any, Any]:
    """Plan and solver, for tests that look inside."""
    method, compute = load_method(simulation.solver.method), simulation.compute
    backend = make_backend(compute.backend, compute.precision, compute.threads)
    plan = method.plan(simulation, backend)
    return plan, method.Solver(plan, simulation, backend)


def velocities(simulation: lw.Simulation) -> tuple[np.ndarray, np.ndarray]:
    """Times (n,) and velocities (n_receivers, 3, n) at the samples, without a run folder."""
    plan, solver = make(simulation)
    return sampled_velocities(plan, solver)


def sampled_velocities(plan: Any, solver: Any) -> tuple[np.ndarray, np.ndarray]:
    """Times (n,) and velocities (n_receivers, 3, n) at the samples of a plan."""
    schedule = plan.schedule
    solver.start_records(schedule.steps + 1, stress=False)
    solver.record(0)
    for step in range(schedule.steps):
        solver.advance(step)
        solver.record(step + 1)
    values = {"motion": solver.records(schedule.steps + 1).wait()["velocity"]}
    sampling = Sampling(schedule, False, {"motion": values["motion"].shape[1:]})
    parts = sampling.samples(values, schedule.steps, 1), sampling.remaining()
    records = np.concatenate([part["motion"] for part in parts if len(part["motion"])])
    return np.arange(schedule.sample_count) * schedule.sampling_interval, np.moveaxis(records, 0, 2)


def record(name: str, **figures: Any) -> None:
    """Keep measured figures for the docs, when LITHOWAVE_WRITE_FIGURES=1."""
    if os.environ.get("LITHOWAVE_WRITE_FIGURES") != "1":
        return
    DOCS.mkdir(parents=True, exist_ok=True)
    path = DOCS / "results.json"
    with path.open("a+") as file:  # closing it releases the lock: tests run in several processes
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        results = json.loads(file.read() or "{}") | {name: figures}
        file.truncate(0)
        file.write(json.dumps(dict(sorted(results.items())), indent=2) + "\n")


def draw(name: str, plot: Any) -> None:
    """Let `plot(figure)` draw a figure for the docs, when LITHOWAVE_WRITE_FIGURES=1."""
    if os.environ.get("LITHOWAVE_WRITE_FIGURES") != "1":
        return
    from matplotlib.figure import Figure

    DOCS.mkdir(parents=True, exist_ok=True)
    figure = Figure(figsize=(7.5, 4.2), dpi=110, layout="constrained")
    plot(figure)
    figure.savefig(DOCS / f"{name}.png")


def traces_against(figure: Any, time: np.ndarray, computed: np.ndarray, exact: np.ndarray, label: str) -> None:
    """Computed over exact traces, one row a receiver, one column a component, each scaled by its receiver's peak."""
    axes = figure.subplots(1, 3, sharey=True)
    for component, (axis, letter) in enumerate(zip(axes, "ENZ", strict=True)):
        for number in range(len(computed)):
            scale = 0.5 / np.abs(exact[number]).max()
            axis.plot(time, number + scale * exact[number, component], color="0.6", linewidth=2.4)
            axis.plot(time, number + scale * computed[number, component], color="tab:red", linewidth=0.8)
        axis.set_title(letter)
        axis.set_xlabel("time (s)")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_yticks(range(len(computed)), [f"receiver {n + 1}" for n in range(len(computed))])
    figure.suptitle(f"{label}: computed (red) over exact (grey)")
