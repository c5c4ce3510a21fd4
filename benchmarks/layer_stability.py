"""Long runs of spectral elements with absorbing layers: the velocity that is left in a thin box with a free surface.

    python benchmarks/layer_stability.py [--backend cuda] [--steps 100000] [--degrees 4] [--elements N]

Waves graze the sides of the box, whose medium has vp / vs = 4, or is a soft layer on a rock with 22 times its shear
modulus. Prints the largest velocity in each eighth of the run, relative to that of the first.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import lithowave as lw
from lithowave.backends import make_backend
from lithowave.solvers import load_method

MATERIALS: dict[str, dict[str, Any]] = {
    "vp / vs = 4": {"homogeneous": {"vp": 4000, "vs": 1000, "rho": 2200}},
    "strong contrast": {
        "layers": [
            {"top": 0, "vp": 1700, "vs": 1000, "rho": 2000},
            {"top": -400, "vp": 6900, "vs": 4000, "rho": 2700},
        ]
    },
}
OFTEN = 100  # steps between readings of the velocity


def box(material: dict[str, Any], degree: int, elements: int | None) -> lw.Simulation:
    """Return the box with its source."""
    source = {
        "position": [330, 210, -170], "moment_tensor": {"xx": 1e15, "yy": 2e15, "xz": 1.5e15},
        "time_function": {"gaussian": {"sigma": 0.25, "delay": 1.5}},
    }  # fmt: skip
    return lw.Simulation(
        domain={"x": [0, 2400], "y": [0, 800], "z": [-800, 0]},
        boundaries={"layer": {"elements": elements}}, material=material, sources=[source], receivers=[],
        duration=1000.0, solver={"method": "spectral_element", "degree": degree, "max_frequency": 1.5},
    )  # fmt: skip


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--steps", type=int, default=100_000, help="at least 800 [%(default)s]")
    parser.add_argument("--degrees", type=int, nargs="+", default=[4])
    parser.add_argument("--elements", type=int, help="thickness of the layer [the default]")
    chosen = parser.parse_args()
    method = load_method("spectral_element")
    for degree in chosen.degrees:
        for name, material in MATERIALS.items():
            simulation = box(material, degree, chosen.elements)
            backend = make_backend(chosen.backend, "single")
            plan = method.plan(simulation, backend)
            solver = method.Solver(plan, simulation, backend)
            found = []
            for step in range(min(chosen.steps, plan.schedule.steps)):
                solver.advance(step)
                if step % OFTEN == OFTEN - 1:
                    found.append(solver.largest_velocity())
            parts = [part.max() for part in np.array_split(found, 8)]
            text = " ".join(f"{part / parts[0]:.0e}" for part in parts)
            print(f"degree {degree}, {name}, {OFTEN * len(found)} steps: {text}", flush=True)


if __name__ == "__main__":
    main()
