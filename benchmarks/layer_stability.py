"""Long runs with absorbing layers over soft ground: does motion grow after the waves have left?

    python benchmarks/layer_stability.py [--backend cuda] [--steps 200000] [--methods NAME ...]
        [--contrasts RATIO ...] [--limit SECONDS] [--json FILE]

Soft ground of vs = 400 m/s, 8 grid cells thick, over rock: contrasts of vs of 1 to 8, vp/vs of 1.8 to 6, layers of the
default width and of about half of it, small boxes. Motion begins with a source. For each run, the table shows the
growth of the largest velocity per second over the second half of the run, and the largest velocity at the end, relative
to that of the run. Growth counts if the motion at the end is above the rounding errors.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np

import lithowave as lw
from lithowave.backends import make_backend
from lithowave.run.loop import NOISE
from lithowave.solvers import load_method

METHODS = ("finite_difference", "spectral_element", "discontinuous_galerkin")
CONTRASTS, RATIOS, STIFF_RATIO = (1.0, 2.0, 3.0, 8.0), (1.8, 4.0, 6.0), 2.0
WIDTHS: dict[str, dict[str, Any]] = {"default": {}, "thin": {"cells": 6, "elements": 1}}
VS, FREQUENCY, CELLS = 400.0, 1.0, 8  # cells of soft ground, each an eighth of the shortest wavelength
OFTEN = 100  # steps between readings of the velocity
OVERFLOW = 1e30  # m/s, at which a run ends


def box(method: str, contrast: float, ratio: float, width: str) -> lw.Simulation:
    """Return a box 24 grid cells wide and deep."""
    cell = VS / FREQUENCY / 8
    layers = [{"top": 0, "vp": ratio * VS, "vs": VS, "rho": 1800}]
    if contrast > 1:
        stiff = contrast * VS
        layers.append({"top": -CELLS * cell, "vp": min(ratio, STIFF_RATIO) * stiff, "vs": stiff, "rho": 2300})
    side = [-12 * cell, 12 * cell]
    return lw.Simulation(
        domain={"x": side, "y": side, "z": [-24 * cell, 0]}, material={"layers": layers},
        boundaries={"layer": WIDTHS[width]},
        sources=[
            {
                "position": [1.5 * cell, 3.5 * cell, -6.5 * cell],
                "double_couple": {"strike": 30, "dip": 60, "rake": 40, "mw": 3},
                "time_function": {"gaussian": {"sigma": 0.39 / FREQUENCY, "delay": 2.4 / FREQUENCY}},
            }
        ],
        receivers=[], duration=1e6, solver={"method": method, "max_frequency": FREQUENCY},
    )  # fmt: skip


def run(simulation: lw.Simulation, backend_name: str, steps: int, seconds: float) -> dict[str, Any]:
    """Return growth, motion left and the number of steps, which is smaller if the time in seconds is over."""
    method = load_method(simulation.solver.method)
    backend = make_backend(backend_name, "single")
    plan = method.plan(simulation, backend)
    solver = method.Solver(plan, simulation, backend)
    found, started = [], time.perf_counter()
    for step in range(steps):
        solver.advance(step)
        if step % OFTEN == OFTEN - 1:
            found.append(float(solver.largest_velocity()))
            if not found[-1] < OVERFLOW or time.perf_counter() - started > seconds:
                break
    speeds, part = np.array(found), max(1, len(found) // 10)
    middle = (len(speeds) - part) // 2
    early, late = speeds[middle : middle + part].max(), speeds[-part:].max()
    elapsed = (len(speeds) - part - middle) * OFTEN * plan.schedule.time_step
    growth, left = math.log(late / early) / elapsed, late / speeds.max()
    grows = bool(growth > 0 and left > NOISE)
    return {"growth_per_s": growth, "left": left, "steps": OFTEN * len(speeds), "grows": grows}


def main() -> None:
    """Run all cases and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--steps", type=int, default=200_000, help="[%(default)s]")
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS)
    parser.add_argument("--contrasts", nargs="+", type=float, default=CONTRASTS, choices=CONTRASTS)
    parser.add_argument("--limit", type=float, default=math.inf, help="seconds per run")
    parser.add_argument("--json", type=Path, help="file for the records")
    chosen = parser.parse_args()
    records = []
    for method, contrast, ratio, width in itertools.product(chosen.methods, chosen.contrasts, RATIOS, WIDTHS):
        found = run(box(method, contrast, ratio, width), chosen.backend, chosen.steps, chosen.limit)
        records.append({"method": method, "contrast": contrast, "vp_over_vs": ratio, "layer": width} | found)
        print(
            f"{method:24} contrast {contrast:g}  vp/vs {ratio:3.1f}  {width:8} {found['steps']:7,} steps  "
            f"{found['growth_per_s']:+9.3g} per s  left {found['left']:8.2g}{'  grows' if found['grows'] else ''}",
            flush=True,
        )
    print(f"{sum(one['grows'] for one in records)} of {len(records)} runs grow")
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
