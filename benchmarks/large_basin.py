"""A basin of 1024 x 1024 x 1024 points with absorbing layers, a free surface and a rupture of 980 point sources.

    mpiexec -n 8 python benchmarks/large_basin.py [--points 1024] [--steps 2000] [--attenuation] [--json FILE]

Runs it as `lithowave run` does (seismograms of 400 stations, peak motion of the surface), one GPU a rank, and tells the
time of a step and what 75,000 steps would take. The size is that of the run of the 2008 Chino Hills earthquake with
which AWP-ODC-GPU was shown (Zhou et al. 2013, ICCS). With --attenuation, Qs is 50 times vs in km/s, and Qp = 2 Qs.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

import lithowave
from lithowave.parallel.ranks import make_ranks

SPACING, CELLS = 40.0, 16  # m; of the absorbing layers
ALONG, DOWN = 35, 28  # point sources of the rupture
LONG_RUN = 75_000  # steps
LAYERS = (  # depth of the top, m, vp, vs, m/s, rho, kg/m3
    (0, 1900, 600, 2000), (300, 2500, 1100, 2150), (1000, 3800, 2000, 2350), (3000, 5000, 2900, 2600),
    (8000, 5800, 3350, 2700), (16000, 6400, 3700, 2850),
)  # fmt: skip


def description(points: int, steps: int, directory: str, attenuation: bool = False) -> dict[str, Any]:
    """The experiment on a cube of so many points, layers included."""
    width, depth = SPACING * (points - 1 - 2 * CELLS), SPACING * (points - 1 - CELLS)
    step = 0.9 * SPACING / (6400 * np.sqrt(3.0) * 7 / 6)  # 7 / 6: sum of the coefficients of order 4
    stations = np.linspace(0.05 * width, 0.95 * width, 20)
    return {
        "title": "large basin",
        "domain": {"x": [0, width], "y": [0, width], "z": [-depth, 0]},
        "boundaries": {"layer": {"cells": CELLS}},
        "material": {"layers": [layer(*values, attenuation) for values in LAYERS]},
        "sources": list(rupture(width, depth)),
        "receivers": [
            {"name": f"S{n:03d}", "position": [float(x), float(y), 0.0]}
            for n, (x, y) in enumerate((x, y) for x in stations for y in stations)
        ],
        "duration": float(steps * step),
        "solver": {"method": "finite_difference", "order": 4, "spacing": SPACING, "time_step": float(step)},
        "compute": {"backend": "cuda"},
        "output": {"directory": directory, "sampling_interval": float(10 * step), "peak_motion": True},
    }


def layer(top: float, vp: float, vs: float, rho: float, attenuation: bool) -> dict[str, float]:
    """Return a layer of the model."""
    quality = {"qp": 0.1 * vs, "qs": 0.05 * vs} if attenuation else {}
    return {"top": -top, "vp": vp, "vs": vs, "rho": rho} | quality


def rupture(width: float, depth: float) -> Any:
    """Point sources on a dipping plane that fail as a front of 2.4 km/s passes them."""
    for n in range(ALONG * DOWN):
        along, down = (n % ALONG - ALONG / 2) * 200.0, n // ALONG * 150.0
        dip = np.radians(60.0)
        place = [0.5 * width + along, 0.5 * width + down * np.cos(dip), -0.35 * depth + 2000.0 - down * np.sin(dip)]
        delay = 1.0 + np.hypot(along, down - 2000.0) / 2400.0
        yield {
            "position": [float(value) for value in place],
            "moment_tensor": {"yz": 3e13, "yy": -2e13, "zz": 2e13},
            "time_function": {"gaussian": {"sigma": 0.25, "delay": float(delay)}},
        }


def main() -> None:
    """Run, and tell."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--attenuation", action="store_true")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    ranks = make_ranks()
    folder = ranks.broadcast(tempfile.mkdtemp() if ranks.is_root else None)
    described = description(given.points, given.steps, f"{folder}/run", given.attenuation)
    simulation = lithowave.Simulation.model_validate(described)
    report = simulation.run().report
    if not ranks.is_root:
        return
    seconds = report["plan"]["point_count"] / report["rate_points_per_s"]
    record = {
        "case": "large basin", "ranks": ranks.size, "parts": report["plan"].get("parts", [1, 1, 1]),
        "device": report["device"], "transport": report.get("transport"), "cuda": report["cuda"],
        "grid_points": report["plan"]["grid_points"], "passes": report["plan"]["passes"], "steps": given.steps,
        "attenuation": given.attenuation,
        "setup_s": report["setup_s"], "loop_s": report["loop_s"], "wall_s": report["wall_s"], "step_s": seconds,
        "rate_points_per_s": report["rate_points_per_s"], "projected_75000_steps_s": LONG_RUN * seconds,
        "lithowave": lithowave.__version__, "commit": report["commit"],
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
    }  # fmt: skip
    print(json.dumps(record, indent=2))
    if given.json:
        given.json.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
