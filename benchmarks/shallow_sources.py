"""Errors of seismograms near shallow explosions, by depth and method, against wavenumber integration.

    python benchmarks/shallow_sources.py [--methods finite_difference:4 spectral_element:4 ...] [--depths 400 1000]
        [--moment explosion] [--set KEY=VALUE ...] [--each] [--backend cuda] [--json FILE]

Explosions at several depths of a homogeneous half-space (vp 3200 m/s, vs 1600 m/s, rho 2300 kg/m^3), recorded at four
receivers at the free surface, the nearest almost above the source, and one at a depth of 77 m. Finite differences have
10 points per wavelength of 1.3 Hz, the other methods as many as they recommend. Printed are relative L2 errors, per
cent, of all receivers together; with --each also of each receiver. With --moment it is another moment tensor or a
force, and the reference finite differences on a grid four times finer, for which only a GPU has room and time.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import warnings
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

import lithowave as lw
from lithowave.errors import LithowaveWarning
from lithowave.output.run_folder import package_versions, source_commit

REFERENCE = Path(__file__).parents[1] / "tests" / "data" / "shallow_explosion.npz"
METHODS = ["finite_difference:4", "finite_difference:6", "finite_difference:8", "spectral_element:4",
           "discontinuous_galerkin:5"]  # fmt: skip
DOMAIN = {"x": [-7000, 8000], "y": [-8000, 7000], "z": [-8000, 0]}  # reflections come late, and small
# For tests: a smaller domain, the receivers nearest to the source, and a duration, s, before reflections matter.
SMALL = {"x": [-2600, 3200], "y": [-3100, 2700], "z": [-3400, 0]}, (0, 1, 4), 4.0
MOMENTS = {
    "explosion": {"xx": 1e15, "yy": 1e15, "zz": 1e15}, "xy": {"xy": 1e15}, "xz": {"xz": 1e15},
    "dip": {"xx": -1e15, "zz": 1e15},
}  # fmt: skip
FORCES = {"fz": [0, 0, 1e12], "fx": [1e12, 0, 0]}
FINE = {"points_per_wavelength": 40.0}  # of finite differences of order 8, the reference of other moment tensors


def experiment(
    method: str, depth: float, moment: str, backend: str, small: bool = False, **solver: Any
) -> lw.Simulation:
    """The simulation of one depth; method : its name and order, as in `METHODS`; small : see `SMALL`."""
    reference, (name, order) = np.load(REFERENCE), method.split(":")
    domain, receivers, duration = SMALL if small else (DOMAIN, range(5), float(reference["t"][-1]))
    if name == "finite_difference":
        solver = {"points_per_wavelength": 10.0, **solver}
    return lw.Simulation(
        domain=domain,
        boundaries={"absorption": "stacey"} if small and not method.startswith("finite") else {},
        material={"homogeneous": {"vp": 3200, "vs": 1600, "rho": 2300}},
        sources=[{
            "position": [0, 0, -depth],
            **({"force": FORCES[moment]} if moment in FORCES else {"moment_tensor": MOMENTS[moment]}),
            "time_function": {"gaussian": {"sigma": 0.3, "delay": 1.5}},
        }],
        receivers=[{"name": f"R{n}", "position": reference["receivers"][n].tolist()} for n in receivers],
        duration=duration,
        solver={
            "method": name, "degree" if name == "spectral_element" else "order": int(order), "max_frequency": 1.3,
            **solver,
        },
        compute={"backend": backend},
        output={"sampling_interval": float(reference["t"][1])},
    )  # fmt: skip


def records(simulation: lw.Simulation, times: np.ndarray) -> tuple[np.ndarray, dict[str, Any]]:
    """Run: velocities (receivers, 3, times), and what there is to tell."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", LithowaveWarning)
        start = time.perf_counter()
        result = simulation.run(output=folder)
        elapsed = time.perf_counter() - start
        found = result.seismograms
    told = [str(one.message) for one in caught if issubclass(one.category, LithowaveWarning)]
    values = np.stack([[np.interp(times, found.time, row) for row in one] for one in found.data])
    return values, {"elapsed_s": elapsed, "loop_s": result.report["loop_s"], "warnings": told}


def errors(
    method: str, depth: float, moment: str = "explosion", backend: str = "cpu", small: bool = False, **solver: Any
) -> dict[str, Any]:
    """Run one depth: relative L2 errors of all receivers together and of each."""
    reference, simulation = np.load(REFERENCE), experiment(method, depth, moment, backend, small, **solver)
    times = reference["t"][reference["t"] < simulation.duration + 1e-9]
    if moment == "explosion":
        expected = reference["v"][list(reference["depths"]).index(depth), :, :, : len(times)]
        expected = expected[[int(one.name[-1]) for one in simulation.receiver_list()]]
    else:
        expected = records(experiment("finite_difference:8", depth, moment, backend, small, **FINE), times)[0]
    values, told = records(simulation, times)
    each = np.linalg.norm(values - expected, axis=(1, 2)) / np.linalg.norm(expected, axis=(1, 2))
    whole = np.linalg.norm(values - expected) / np.linalg.norm(expected)
    return {"error": float(whole), "receivers": each.tolist(), **told}


def main() -> None:
    """Run all, print a table, write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--depths", type=float, nargs="+", default=np.load(REFERENCE)["depths"].tolist())
    parser.add_argument("--moment", choices=[*MOMENTS, *FORCES], default="explosion")
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="of the solver")
    parser.add_argument("--each", action="store_true", help="print the error of each receiver and the warnings")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    solver = {key: json.loads(value) for key, value in (one.split("=") for one in chosen.set)}
    table: dict[str, Any] = {}
    for method in chosen.methods:
        table[method] = {}
        for depth in chosen.depths:
            found = table[method][f"{depth:g}"] = errors(
                method, depth, chosen.moment, chosen.backend, **solver
            )  # fmt: skip
            print(f"{method:26} {depth:6g} m {100 * found['error']:8.2f}% {found['elapsed_s']:6.1f} s", flush=True)
            if chosen.each:
                each = " ".join(f"{100 * one:.2f}" for one in found["receivers"])
                print("", each, *found["warnings"], sep="\n    ")
    if chosen.json:
        facts = {"date": date.today().isoformat(), "commit": source_commit(), "versions": package_versions()}
        text = json.dumps({**facts, "moment": chosen.moment, "errors": table}, indent=1)
        chosen.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
