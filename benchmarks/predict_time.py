"""What `lithowave check` predicts for the time loop against what a run takes, for several grids.

    python benchmarks/predict_time.py

Each run is made twice, so that compilation is not counted. Exit status 1 where a prediction is off by more than 30%.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import lithowave as lw

# (extent in m along x, y, z), grid step in m, order, precision, receivers, steps
CASES = [
    ((28_000, 28_000, 19_000), 100.0, 4, "single", 18, 40),
    ((9_000, 9_000, 9_000), 100.0, 4, "single", 18, 200),
    ((9_000, 9_000, 9_000), 100.0, 4, "single", 1000, 60),
    ((12_000, 6_000, 6_000), 100.0, 8, "single", 18, 200),
    ((12_000, 12_000, 6_000), 100.0, 4, "double", 18, 60),
    ((4_000, 4_000, 4_000), 100.0, 4, "single", 18, 400),
]
INTERVAL = 0.01


def experiment(
    extent: tuple[float, float, float], spacing: float, order: int, precision: str, receivers: int, steps: int
) -> lw.Simulation:
    x, y, z = extent
    return lw.Simulation(
        domain={"x": [0, x], "y": [0, y], "z": [-z, 0]},
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
        duration=steps * INTERVAL,
        solver={"spacing": spacing, "order": order},
        compute={"precision": precision},
        output={"sampling_interval": INTERVAL},
    )


def main() -> int:
    worst = 0.0
    for case in CASES:
        simulation = experiment(*case)
        report = simulation.check()
        with tempfile.TemporaryDirectory() as folder:
            for name in ("first", "second"):
                result = simulation.run(output=Path(folder) / name)
        points, steps = report.plan["point_count"], report.plan["steps"]
        taken = points * steps / result.report["rate_points_per_s"]
        worst = max(worst, abs(report.loop_s / taken - 1))
        grid = " x ".join(map(str, report.plan["grid_points"]))
        print(
            f"{grid}, order {case[2]}, {case[3]}, {case[4]} receivers: predicted {report.loop_s:.2f} s, "
            f"taken {taken:.2f} s ({100 * (report.loop_s / taken - 1):+.0f}%)",
            flush=True,
        )
    return 0 if worst <= 0.3 else 1


if __name__ == "__main__":
    sys.exit(main())
