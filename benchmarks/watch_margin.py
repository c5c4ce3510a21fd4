"""Sound runs under the instability watch: how near do they come to its limit?

    python benchmarks/watch_margin.py [--windows 20] [--methods NAME ...] [--cases NAME ...] [--json FILE]
    python benchmarks/watch_margin.py --examples       # small forms of the examples, ten times their duration
    python benchmarks/watch_margin.py --cost           # share of the watch in the time loop, on one thread

After the sources, the watch compares the largest velocity with its maximum in each earlier window, in which the
slowest wave crosses the domain, and ends a run in which it is 10 times as large. The cases are boxes in which motion
remains, is focused again, or moves from rock into soft ground and back, with closed sides (rigid, free at the top) or
absorbing ones. For each run, the table shows the largest ratio of the velocity to its maximum in any earlier window,
without values below 1e-4 of the maximum of the run, which the watch ignores, and the motion at the end, relative to
that maximum.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import lithowave as lw
from lithowave.backends import make_backend
from lithowave.errors import InputError
from lithowave.run.loop import CHECK_INTERVAL, WINDOW_GROWTH, InstabilityWatch, crossing_time
from lithowave.solvers import load_method
from lithowave.solvers.interface import Clock

METHODS: dict[str, dict[str, Any]] = {
    "finite_difference": {"order": 4, "max_frequency": 2.0}, "spectral_element": {"degree": 4, "max_frequency": 2.0},
    "discontinuous_galerkin": {"order": 3, "points_per_wavelength": 7, "max_frequency": 1.0},  # which cost more
}  # fmt: skip
COST_BOXES: dict[str, tuple[float, dict[str, Any]]] = {
    "finite_difference": (2000.0, {"spacing": 25}), "spectral_element": (1800.0, {"max_frequency": 1.5}),
    "discontinuous_galerkin": (1200.0, {"max_frequency": 1.0}),
}  # fmt: skip
CLOSED = {"top": "free", "sides": "rigid", "bottom": "rigid"}
SIDE, DEPTH = 600.0, 600.0  # m
SOFT, ROCK = {"vp": 1600, "vs": 400, "rho": 1800}, {"vp": 2400, "vs": 1200, "rho": 2300}
LAYERS = {"layers": [{"top": 0, **SOFT}, {"top": -100, **ROCK}]}
GROUND = {"vp": 1200, "vs": 600, "rho": 2000}
SHORT = {"gaussian": {"sigma": 0.2, "delay": 1.2}}


def basin(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, ...]:
    """A soft body of 200 x 200 x 100 m in a corner of rock, with a thousandth of the energy if motion is equal."""
    inside = (x > SIDE - 200) & (y > SIDE - 200) & (z > -100)
    return tuple(np.where(inside, SOFT[name], ROCK[name]) for name in ("vp", "vs", "rho"))


CASES: dict[str, dict[str, Any]] = {
    "homogeneous": {"material": {"homogeneous": GROUND}},
    "homogeneous, closed": {"material": {"homogeneous": GROUND}, "boundaries": CLOSED},
    "attenuation, closed": {
        "material": {"homogeneous": {**GROUND, "qp": 60, "qs": 30}}, "boundaries": CLOSED,
    },
    "soft layer": {"material": LAYERS},
    "soft layer, closed": {"material": LAYERS, "boundaries": CLOSED},
    "soft basin": {"material": {"function": basin}},
    "soft basin, closed": {"material": {"function": basin}, "boundaries": CLOSED},
    "water, closed": {
        "material": {"layers": [{"top": 0, "vp": 1500, "vs": 0, "rho": 1000}, {"top": -150, **ROCK}]},
        "boundaries": CLOSED,
    },
    "long source": {
        "material": LAYERS, "sources": [{"time_function": {"gaussian": {"sigma": 3.0, "delay": 18.0}}}],
    },
    "offset next to the source": {
        "material": {"homogeneous": GROUND}, "sources": [{"position": [310, 290, -20]}],
    },
    "two sources, the second one weak": {
        "material": LAYERS, "boundaries": CLOSED,
        "sources": [{}, {"position": [110, 140, -60], "double_couple": {"strike": 70, "dip": 40, "rake": 10, "mw": 1},
                         "time_function": {"gaussian": {"sigma": 0.2, "delay": 6.0}}}],
    },
}  # fmt: skip


def boxes(methods: list[str], cases: list[str]) -> Iterator[tuple[str, str, Callable[[], lw.Simulation]]]:
    """Yield the name, the method and the maker of each case."""
    source = {
        "position": [130, 110, -480], "double_couple": {"strike": 30, "dip": 60, "rake": 40, "mw": 3},
        "time_function": SHORT,
    }  # fmt: skip
    for name in cases:
        for method in methods:
            entries = {"sources": [{}], **CASES[name]}
            entries["sources"] = [source | changes for changes in entries["sources"]]

            def make(entries: dict[str, Any] = entries, method: str = method) -> lw.Simulation:
                return lw.Simulation(
                    domain={"x": [0, SIDE], "y": [0, SIDE], "z": [-DEPTH, 0]}, receivers=[], duration=1e6,
                    solver={"method": method, **METHODS[method]}, **entries,
                )  # fmt: skip

            yield name, method, make


def examples(folder: Path) -> Iterator[tuple[str, str, Callable[[], lw.Simulation]]]:
    """Yield the small forms of the examples of the tests, with ten times their duration."""
    root = Path(__file__).parents[1] / "tests"
    sys.path[:0] = [str(root / "verification"), str(root / "support")]
    from test_example_numbers import SMALL, small_form

    for name in SMALL:

        def make(name: str = name) -> lw.Simulation:
            small = small_form(name, folder / Path(name).stem)
            return small.with_overrides({"duration": 10 * small.duration})

        yield name, "", make


def margin(simulation: lw.Simulation, windows: float | None) -> dict[str, Any]:
    """Return the largest ratio, the motion left and the time simulated.

    windows : crossing times that are simulated after the sources; None: the duration of the simulation.
    """
    method, compute = load_method(simulation.solver.method), simulation.compute
    backend = make_backend("cpu", compute.precision)
    plan = method.plan(simulation, backend)
    solver: Any = method.Solver(plan, simulation, backend)
    window = crossing_time(simulation)
    watch = InstabilityWatch(plan.schedule, simulation.acquisition.sources, window)
    end = watch.sources_end + windows * window if windows is not None else simulation.duration
    clock = Clock(plan.schedule.time_step, round(end / plan.schedule.time_step))
    worst, velocity, started = 0.0, 0.0, time.perf_counter()
    while not clock.finished:
        solver.advance(clock.step)
        clock.tick()
        if watch.due(clock):
            limit, velocity = watch.limit, solver.largest_velocity()
            worst = max(worst, WINDOW_GROWTH * velocity / limit if limit > 0 else 0.0)
            watch.inspect(solver, clock)
    return {
        "largest_ratio": worst, "limit": WINDOW_GROWTH, "left": velocity / watch.largest, "windows": (clock.time -
        watch.sources_end) / window, "window_s": window, "steps": clock.step, "seconds": time.perf_counter() - started,
    }  # fmt: skip


def cost(method: str) -> dict[str, Any]:
    """Return the processor time of a step and of an inspection, ms, and the share of inspections in the time loop.

    Medians of 12 repetitions, in turn, so that other work on the machine affects both alike.
    """
    side, settings = COST_BOXES[method]
    simulation = lw.Simulation(
        domain={"x": [0, side], "y": [0, side], "z": [-side, 0]}, material={"homogeneous": GROUND}, receivers=[],
        sources=[{"position": [side / 2, side / 2, -side / 2], "force": [1e10, 0, 0], "time_function": SHORT}],
        duration=1e3, solver={**METHODS[method], "method": method, **settings},
    )  # fmt: skip
    module, backend = load_method(method), make_backend("cpu", "single", 1)
    plan = module.plan(simulation, backend)
    solver = module.Solver(plan, simulation, backend)
    steps, inspections = [], []
    for repetition in range(-1, 12):  # the first one compiles
        times = [time.process_time()]
        for step in range(5):
            solver.advance(5 * (repetition + 1) + step)
        times.append(time.process_time())
        solver.largest_velocity()
        times.append(time.process_time())
        if repetition >= 0:
            steps.append(1e3 * (times[1] - times[0]) / 5)
            inspections.append(1e3 * (times[2] - times[1]))
    step_ms, inspection_ms = float(np.median(steps)), float(np.median(inspections))
    share = inspection_ms / CHECK_INTERVAL / step_ms
    print(f"{method:24} step {step_ms:.2f} ms  inspection {inspection_ms:.3f} ms  share {100 * share:.3f}%", flush=True)
    return {"method": method, "step_ms": step_ms, "inspection_ms": inspection_ms, "share": share}


def main() -> None:
    """Run all cases and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--windows", type=float, default=20, help="crossing times after the sources [%(default)s]")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=CASES)
    parser.add_argument("--examples", action="store_true", help="small forms of the examples instead")
    parser.add_argument("--cost", action="store_true", help="share of the watch in the time loop instead")
    parser.add_argument("--json", type=Path, help="file for the records")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore", lw.LithowaveWarning)
    records: list[dict[str, Any]] = []
    if chosen.cost:
        records = [cost(method) for method in chosen.methods]
        write(chosen.json, records)
        return
    with tempfile.TemporaryDirectory() as folder:
        runs = examples(Path(folder)) if chosen.examples else boxes(chosen.methods, chosen.cases)
        for name, wanted, make in runs:
            try:
                simulation = make()
                found = margin(simulation, None if chosen.examples else chosen.windows)
            except InputError as problem:
                print(f"{name:34} {wanted:24} not available: {str(problem)[:90]}", flush=True)
                continue
            records.append({"case": name, "method": simulation.solver.method} | found)
            print(
                f"{name:34} {simulation.solver.method:24} {found['steps']:7,} steps  {found['windows']:5.1f} windows  "
                f"largest ratio {found['largest_ratio']:5.2f} of {WINDOW_GROWTH:g}  left {found['left']:8.2g}",
                flush=True,
            )
    print(f"largest ratio of {len(records)} runs: {max(one['largest_ratio'] for one in records):.3g}")
    write(chosen.json, records)


def write(path: Path | None, records: list[dict[str, Any]]) -> None:
    """Write the records, if a file is given."""
    if path is not None:
        path.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
