"""Error and cost of discontinuous Galerkin by order and points per wavelength, on four problems.

    python benchmarks/galerkin_points.py --device cuda --orders 4 5 6 --points 5 6 7 8

Errors are relative L2 differences of all velocities from the exact solution (full space), or from spectral elements of
degree 6 with 10 points per wavelength in a box that is larger on five sides, so that they include what the absorbing
layers reflect. `updates` is the number of element updates per simulated second, the cost on any device; `seconds` the
time of the steps, without the compilation of kernels.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np

import lithowave as lw
from lithowave.backends import make_backend
from lithowave.solvers import load_method
from lithowave.verification.full_space import full_space_moment

SOFT, ROCK = {"vp": 3200, "vs": 1600, "rho": 2300}, {"vp": 5000, "vs": 2800, "rho": 2600}
HARD = {"vp": 6000, "vs": 3464, "rho": 2700}
MARGIN = 4000.0  # of the box of the reference around the box, m
REFERENCE = {"method": "spectral_element", "degree": 6, "points_per_wavelength": 10}
AROUND = [[1000, 1500, 0], [-2500, 1000, 0], [3000, -2000, 0], [-3500, -3500, 0], [5500, 1000, 0], [4200, 4200, 0]]


def problem(name: str) -> dict[str, Any]:
    """Return the description without its method."""
    quake = {"double_couple": {"strike": 30, "dip": 60, "rake": 90, "mw": 4.0},
             "time_function": {"gaussian": {"sigma": 0.15, "delay": 0.9}}}  # fmt: skip
    box = {"x": [-6000, 6000], "y": [-6000, 6000], "z": [-6000, 0]}
    made: dict[str, Any] = {"boundaries": {}, "duration": 6.0}
    if name == "box":  # the layers of the README
        made |= {"domain": box, "material": {"layers": [{"top": 0, **SOFT}, {"top": -1000, **ROCK}]}}
        made |= {"sources": [{"position": [0, 0, -2000], **quake}], "receivers": AROUND, "max_frequency": 2.6}
    elif name == "half-space":
        domain = {"x": [-4000, 4000], "y": [-4000, 4000], "z": [-4000, 0]}
        made |= {"domain": domain, "material": {"homogeneous": SOFT}, "max_frequency": 2.6}
        made |= {"sources": [{"position": [0, 0, -2000], **quake}], "receivers": AROUND[:4]}
    elif name == "full space":
        domain = {axis: [-4000, 4000] for axis in "xyz"}
        made |= {"domain": domain, "material": {"homogeneous": HARD}, "max_frequency": 2.6}
        made |= {"boundaries": {"top": "absorbing"}, "duration": 4.0}
        made |= {"sources": [{"position": [70, -40, 110], **quake}]}
        made |= {"receivers": [[1500, 700, 900], [-900, 2100, 1500], [2100, -1800, -2300], [100, 50, 3100]]}
    else:  # LOH.1
        domain = {"x": [-1500, 4700], "y": [-1500, 5600], "z": [-4000, 0]}
        made |= {"domain": domain, "material": {"layers": [
            {"top": 0, "vp": 4000, "vs": 2000, "rho": 2600}, {"top": -1000, **HARD},
        ]}}  # fmt: skip
        made |= {"sources": [{"position": [0, 0, -2000], "moment_tensor": {"xy": 1e18},
                              "time_function": {"gaussian": {"sigma": 0.12, "delay": 0.72}}}]}  # fmt: skip
        made |= {"receivers": [[600, 800, 0], [1200, 1600, 0], [1800, 2400, 0], [2400, 3200, 0], [3000, 4000, 0]]}
        made |= {"max_frequency": 2.5, "duration": 4.0}
    return made


def simulation(name: str, device: str, scale: float, larger: bool = False, **solver: Any) -> lw.Simulation:
    """Return the simulation of a problem; with scale s, at s times its highest frequency."""
    made = problem(name)
    frequency = made.pop("max_frequency") * scale
    pulse = made["sources"][0]["time_function"]["gaussian"]
    made["sources"][0]["time_function"] = {"gaussian": {key: value / scale for key, value in pulse.items()}}
    made["duration"] += 7.0 * 0.15 * (1 / scale - 1)
    if larger:
        made["domain"] = {
            axis: [low - MARGIN, high + MARGIN * (axis != "z" or name == "full space")]
            for axis, (low, high) in made["domain"].items()
        }
    made["receivers"] = [{"name": f"R{n}", "position": place} for n, place in enumerate(made["receivers"])]
    return lw.Simulation(
        **made, solver={"max_frequency": frequency, **solver}, compute={"backend": device},
        output={"sampling_interval": 0.02},
    )  # fmt: skip


def computed(made: lw.Simulation) -> tuple[dict[str, Any], np.ndarray]:
    """Return the summary of the plan with the seconds of the steps, and velocities (samples, receivers, 3)."""
    method, compute = load_method(made.solver.method), made.compute
    backend = make_backend(compute.backend, compute.precision, compute.threads)
    begin = time.perf_counter()
    plan = method.plan(made, backend)
    solver = method.Solver(plan, made, backend)
    schedule, prepared = plan.schedule, time.perf_counter() - begin
    solver.start_records(schedule.sample_count, stress=False)
    solver.record(0)
    first = 0.0
    for step in range(schedule.steps):
        if step == 1:
            backend.synchronize()
            first = time.perf_counter()
        solver.advance(step)
        slot, rest = divmod(step + 1, schedule.sample_every)
        if rest == 0:
            solver.record(slot)
    found = solver.records(schedule.sample_count).wait()["velocity"]
    seconds = time.perf_counter() - first
    return plan.summary() | {"seconds": seconds, "prepared": prepared, "updates": plan.unit_count / schedule.time_step,
                             "interval": schedule.sampling_interval}, np.asarray(found, float)  # fmt: skip


def truth(name: str, device: str, scale: float) -> np.ndarray:
    """Return the velocities (samples, receivers, 3) with which others are compared."""
    made = simulation(name, device, scale, larger=True, **REFERENCE)
    if name != "full space":
        summary, found = computed(made)
        print(json.dumps({"reference": name, "seconds": summary["seconds"], "elements": summary["element_count"]}))
        return found
    times = np.arange(round(made.duration / 0.02) + 1) * 0.02
    source = made.point_sources()[0]
    rock = HARD["vp"], HARD["vs"], HARD["rho"], "velocity"
    return np.moveaxis([
        full_space_moment(one.position, source.position, source.moment, source.time_function.rate, times, *rock)
        for one in made.receivers
    ], 2, 0)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--problems", nargs="+", default=["box", "half-space", "full space", "LOH.1"])
    parser.add_argument("--orders", nargs="+", type=int, default=[5])
    parser.add_argument("--points", nargs="+", type=float, default=[5, 6, 7, 8])
    parser.add_argument("--scale", type=float, default=1.0, help="highest frequency over that of the problem")
    parser.add_argument("--set", nargs="*", default=[], help="further keys of solver, such as local_time_steps=true")
    parser.add_argument("--output", help="file of JSON lines")
    options = parser.parse_args()
    more = {key: json.loads(value) for key, value in (entry.split("=") for entry in options.set)}
    for name in options.problems:
        exact = truth(name, options.device, options.scale)
        for order in options.orders:
            for points in options.points:
                solver = {"method": "discontinuous_galerkin", "order": order, "points_per_wavelength": points, **more}
                summary, found = computed(simulation(name, options.device, options.scale, **solver))
                count = min(len(found), len(exact))
                each = [float(np.linalg.norm(a - b) / np.linalg.norm(b)) for a, b in zip(
                    np.moveaxis(found[:count], 1, 0), np.moveaxis(exact[:count], 1, 0), strict=True
                )]  # fmt: skip
                error = float(np.linalg.norm(found[:count] - exact[:count]) / np.linalg.norm(exact[:count]))
                row = {
                    "problem": name, "order": order, "points": points, "error_percent": round(100 * error, 3),
                    "each": [round(100 * one, 2) for one in each], "elements": summary["element_count"],
                    "time_step_ms": round(1e3 * summary["time_step_s"], 3),
                    "clusters": [one["elements"] for one in summary["clusters"]],
                    "million_updates": round(summary["updates"] / 1e6, 2), "seconds": round(summary["seconds"], 3),
                    "prepared": round(summary["prepared"], 2),
                }  # fmt: skip
                print(json.dumps(row), flush=True)
                if options.output:
                    with open(options.output, "a", encoding="utf-8") as file:
                        file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
