"""What `lithowave check` predicts for the time loop against what a run takes, for several grids and meshes.

    python benchmarks/predict_time.py
    python benchmarks/predict_time.py --method spectral_element

Each run is made twice, so that compilation is not counted. Exit status 1 where a prediction is off by more than 30%.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

import lithowave as lw
from lithowave.run.progress import rate_key

# (extent in m along x, y, z), solver, precision, receivers, samples, and how faces absorb
CASES = {
    "finite_difference": [
        ((28_000, 28_000, 19_000), {"spacing": 100, "order": 4}, "single", 18, 40),
        ((9_000, 9_000, 9_000), {"spacing": 100, "order": 4}, "single", 18, 200),
        ((9_000, 9_000, 9_000), {"spacing": 100, "order": 4}, "single", 1000, 60),
        ((12_000, 6_000, 6_000), {"spacing": 100, "order": 8}, "single", 18, 200),
        ((12_000, 12_000, 6_000), {"spacing": 100, "order": 4}, "double", 18, 60),
        ((4_000, 4_000, 4_000), {"spacing": 100, "order": 4}, "single", 18, 400),
    ],
    "spectral_element": [
        ((12_000, 12_000, 12_000), {"spacing": 400, "degree": 4}, "single", 18, 100),
        ((12_000, 12_000, 12_000), {"spacing": 400, "degree": 4}, "single", 18, 60, "layer"),
        ((8_000, 8_000, 8_000), {"spacing": 400, "degree": 4}, "single", 1000, 200),
        ((12_000, 12_000, 6_000), {"spacing": 500, "degree": 6}, "single", 18, 60),
        ((12_000, 12_000, 6_000), {"spacing": 400, "degree": 4}, "double", 18, 100),
    ],
}
INTERVAL = 0.01


def experiment(
    method: str,
    extent: tuple[float, float, float],
    solver: dict[str, Any],
    precision: str,
    receivers: int,
    samples: int,
    absorption: str = "auto",
) -> lw.Simulation:
    """A half-space; the time step is at most the sampling interval."""
    x, y, z = extent
    return lw.Simulation(
        domain={"x": [0, x], "y": [0, y], "z": [-z, 0]},
        boundaries={"absorption": absorption},
        material={"homogeneous": {"vp": 5000, "vs": 2900, "rho": 2500}},
        sources=[
            {
                "position": [x / 2, y / 2, -z / 3],
                "moment_tensor": {"xy": 1e15},
                "time_function": {"gaussian": {"sigma": 0.3, "delay": 2.0}},
            }
        ],
        receivers=[
            {"network": "XX", "name": f"R{n}", "position": [x * (n + 0.5) / receivers, 0.4 * y, 0]}
            for n in range(receivers)
        ],
        duration=samples * INTERVAL,
        solver={"method": method, **solver},
        compute={"precision": precision},
        output={"sampling_interval": INTERVAL},
    )


def deviation(simulation: lw.Simulation, name: str) -> float:
    """Predicted over taken time, less 1."""
    report = simulation.check()
    with tempfile.TemporaryDirectory() as folder:
        for run in ("first", "second"):
            result = simulation.run(output=Path(folder) / run)
    # The rate leaves out the first step, in which kernels are loaded.
    taken = report.rate * report.loop_s / result.report[rate_key(report.unit)]
    off = report.loop_s / taken - 1
    print(f"{name}: predicted {report.loop_s:.2f} s, taken {taken:.2f} s ({100 * off:+.0f}%)", flush=True)
    return off


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--method", choices=tuple(CASES), help="only this one")
    chosen = parser.parse_args().method
    worst = 0.0
    for method, cases in CASES.items():
        for case in cases if chosen in (None, method) else ():
            extent, solver, precision, receivers, _, *absorption = case
            size = " x ".join(f"{side / 1000:g}" for side in extent)
            words = [f"{key} {value}" for key, value in solver.items()] + absorption
            name = f"{method}, {size} km, {', '.join(words)}, {precision}, {receivers} receivers"
            worst = max(worst, abs(deviation(experiment(method, *case), name)))
    return 0 if worst <= 0.3 else 1


if __name__ == "__main__":
    sys.exit(main())
