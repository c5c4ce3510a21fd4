"""Cost of an element of the absorbing layers of spectral elements: ``python benchmarks/layer_cost.py``.

A step of a box with layers beyond five sides, less a step of the same box with Stacey sides, is divided by the number
of elements in the layers, and by the time of an element of the box. The ratio of the modeled bytes (see
`lithowave.solvers.spectral_element.bench`) is printed next to it. Cases: an elastic solid, one with attenuation,
and a sea over a solid.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

import lithowave as lw
from lithowave.backends import make_backend
from lithowave.solvers.common.kernels import Steps, call_time, captured
from lithowave.solvers.spectral_element import plan as make_plan
from lithowave.solvers.spectral_element.bench import fill_with_noise, step_bytes
from lithowave.solvers.spectral_element.solver import SpectralElementSolver

VP, VS, RHO, SIZE = 6000.0, 3464.0, 2700.0, 500.0
SOLID = {"vp": VP, "vs": VS, "rho": RHO}
CASES = ("elastic", "attenuating", "sea")
SIZES = {"cpu": (20, 20, 10), "cuda": (72, 72, 40)}


def material(case: str, depth: float) -> dict[str, Any]:
    """Return the material of a case; the sea fills the upper quarter."""
    if case == "sea":
        water = {"top": 0, "vp": 3600.0, "vs": 0, "rho": 1000}
        return {"layers": [water, {"top": -0.25 * depth, **SOLID}]}
    return {"homogeneous": SOLID | ({"qp": 200.0, "qs": 100.0} if case == "attenuating" else {})}


def solver_of(
    case: str, counts: tuple[int, int, int], boundaries: dict[str, Any], degree: int, backend: Any
) -> SpectralElementSolver:
    """Return the solver of a box of so many elements along x, y and z."""
    x, y, z = (SIZE * count for count in counts)
    simulation = lw.Simulation(
        domain={"x": [0, x], "y": [0, y], "z": [-z, 0]}, boundaries=boundaries, material=material(case, z),
        sources=[], receivers=[], duration=1.0, compute={"precision": backend.precision},
        solver={"method": "spectral_element", "degree": degree, "spacing": SIZE, "max_frequency": 1.0},
        output={"sampling_interval": 1.0},
    )  # fmt: skip
    solver = SpectralElementSolver(make_plan(simulation, backend), simulation, backend)
    fill_with_noise(solver)
    return solver


def kernel_times(solver: SpectralElementSolver) -> dict[str, float]:
    """Return the seconds of each launch of a step, in order; the kernels of elements have the code of their kind."""
    groups = solver.tables.groups
    moving, forces, damping = solver.displacement_launches(), solver.force_launches(groups), solver.damping_launches()
    names = [f"move {number}" for number in range(len(moving))]
    for kind in (group.kind for group in groups):
        names.append(f"forces {kind.layer}{' fluid' * kind.fluid}{f' Q{kind.carriers}' * (kind.carriers > 0)}")
    names += [f"absorb {number}" for number in range(len(damping))]
    launches = [*moving, *forces, *damping]
    return {
        name: call_time(captured(solver.backend, [launch]), solver.backend)
        for name, launch in zip(names, launches, strict=True)
    }


def measure(case: str, counts: tuple[int, int, int], degree: int, backend: Any, each: bool) -> dict[str, Any]:
    """Return the record of a case."""
    times, elements, moved, kernels = [], [], [], []
    for absorption in ("stacey", "layer"):
        solver = solver_of(case, counts, {"absorption": absorption}, degree, backend)
        times.append(call_time(Steps(solver), backend, minimum=2.0))
        layers = int(np.count_nonzero(solver.plan.layer_masks))
        elements.append((solver.plan.element_count - layers, layers))
        moved.append(step_bytes(solver.plan, solver.backend))
        kernels.append(kernel_times(solver) if each else {})
        del solver
    (interior, _), (domain, layers) = elements
    own = times[0] / interior
    added = times[1] - own * domain
    more = moved[1] - moved[0] * domain / interior
    return {
        "case": case, "size": list(counts), "degree": degree, "precision": backend.precision, "backend": backend.name,
        "step_s": times, "elements": [interior, layers], "element_s": own, "layer_element_s": added / layers,
        "ratio": added / layers / own, "bytes": [moved[0] / interior, more / layers],
        "bytes_ratio": more / layers / (moved[0] / interior), "kernels": kernels,
    }  # fmt: skip


def main() -> None:
    """Print one line for each case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="auto", choices=("auto", "cpu", "cuda"))
    parser.add_argument("--cases", nargs="+", default=CASES, choices=CASES)
    parser.add_argument("--size", type=int, nargs=3, help="elements along x, y and z")
    parser.add_argument("--degree", type=int, default=4)
    parser.add_argument("--precision", default="single", choices=("single", "double"))
    parser.add_argument("--threads", type=int)
    parser.add_argument("--kernels", action="store_true", help="also the time of each kernel")
    parser.add_argument("--json", type=Path, help="file for the records")
    chosen = parser.parse_args()
    backend = make_backend(chosen.backend, chosen.precision, chosen.threads)
    records = []
    for case in chosen.cases:
        counts = tuple(chosen.size or SIZES[backend.name])
        found = measure(case, counts, chosen.degree, backend, chosen.kernels)
        records.append(found)
        print(
            f"{case:12s} step {1e3 * found['step_s'][0]:.3f} ms with Stacey sides, {1e3 * found['step_s'][1]:.3f} ms "
            f"with layers; element {1e9 * found['element_s']:.2f} ns, of a layer {1e9 * found['layer_element_s']:.2f} "
            f"ns: ratio {found['ratio']:.2f}, of bytes {found['bytes_ratio']:.2f}", flush=True,
        )  # fmt: skip
        for name, times in zip(("Stacey", "layers"), found["kernels"], strict=True):
            for kernel, seconds in times.items():
                print(f"    {name}: {kernel:24s} {1e6 * seconds:.1f} us", flush=True)
    if chosen.json:
        chosen.json.write_text(json.dumps(records, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
