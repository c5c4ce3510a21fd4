"""Errors of spectral elements and tetrahedra in a basin whose sediments pinch out, by distance from the pinch.

    python benchmarks/pinch_outs.py [--points 7 10] [--refined 32] [--backend cuda] [--json FILE]

Sediments (vp 2000 m/s, vs 1000 m/s, rho 2000 kg/m^3) over rock (3500, 2000, 2500) are 600 m thick in the west and pinch
out at x = 1000 m. Where they are thin, the interface crosses spectral elements. The points of these elements have the
effective medium of the interval that they represent, or, for comparison, the layer in which they lie. Tetrahedra do not
follow the interface anywhere. The source is a force 1400 m deep, the maximum frequency 1 Hz. Printed are relative L2
errors of the velocities at the free surface, per cent, by distance from the pinch, relative to finite differences with
--refined points per wavelength.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import lithowave as lw
from lithowave.errors import LithowaveWarning
from lithowave.output.run_folder import package_versions, source_commit
from lithowave.solvers.spectral_element import meshing

PINCH, DEEPEST, DURATION = 1000.0, 600.0, 5.0
DISTANCES = [-2500.0, -1500.0, -750.0, -250.0, 250.0, 1000.0]  # m from the pinch, positive where there is only rock
VARIANTS = {  # mixed, see `records`, and keys of the solver
    "effective": (None, {"method": "spectral_element", "degree": 4}),
    "layer": (False, {"method": "spectral_element", "degree": 4}),
    "tetrahedra": (None, {"method": "discontinuous_galerkin", "order": 5}),
}


def floor(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return z of the floor of the sediments, m; above the ground where there are none."""
    return np.maximum(-DEEPEST, 0.4 * (x - PINCH)) + 0.0 * y


def experiment(backend: str = "cpu", **solver: Any) -> lw.Simulation:
    """Return the simulation with a method."""
    return lw.Simulation(
        domain={"x": [-2500, 2500], "y": [-2000, 2000], "z": [-2000, 0]},
        material={"layers": [
            {"top": 0, "vp": 2000, "vs": 1000, "rho": 2000}, {"top": floor, "vp": 3500, "vs": 2000, "rho": 2500},
        ]},
        sources=[{
            "position": [-200, 0, -1400], "force": [1e9, 0.5e9, 1e9],
            "time_function": {"gaussian": {"sigma": 0.3, "delay": 1.8}},
        }],
        receivers=[{"name": f"R{n}", "position": [PINCH + one, 300, 0]} for n, one in enumerate(DISTANCES)],
        duration=DURATION,
        solver={"max_frequency": 1.0, **solver},
        compute={"backend": backend},
        output={"sampling_interval": 0.02},
    )  # fmt: skip


def records(simulation: lw.Simulation, mixed: bool | None = None) -> np.ndarray:
    """Run: velocities (receivers, 3, times) every 20 ms.

    mixed : False for the layer of each point in elements of several layers, in place of the effective medium.
    """
    layers: Callable[..., Any] = meshing.cell_layers

    def changed(*arguments: Any) -> Any:
        found = layers(*arguments)
        return found if mixed is None else replace(found, mixed=mixed)

    with (
        tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(),
        mock.patch.object(meshing, "cell_layers", changed),
    ):  # fmt: skip
        warnings.simplefilter("ignore", LithowaveWarning)
        found = simulation.run(output=folder).seismograms
    return np.stack([[np.interp(np.arange(0, DURATION, 0.02), found.time, row) for row in one] for one in found.data])


def errors(points: list[float], refined: float, backend: str) -> dict[str, list[float]]:
    """Return the relative L2 error of each receiver with each of `VARIANTS`, by points per wavelength and variant."""
    expected = records(experiment(backend, method="finite_difference", points_per_wavelength=refined))
    norm, table = np.linalg.norm(expected, axis=(1, 2)), {}
    for count in points:
        for name, (mixed, solver) in VARIANTS.items():
            keys = {**solver, "points_per_wavelength": count, "refine_sources": False}
            found = records(experiment(backend, **keys), mixed)
            table[f"{count:g} {name}"] = (np.linalg.norm(found - expected, axis=(1, 2)) / norm).tolist()
    return table


def main() -> None:
    """Run, print a table, write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=float, nargs="+", default=[7.0, 10.0], help="per wavelength of elements")
    parser.add_argument("--refined", type=float, default=32.0, help="points per wavelength of finite differences")
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    table = errors(chosen.points, chosen.refined, chosen.backend)
    print(f"{'distance, m':>12} " + " ".join(f"{name:>12}" for name in table))
    for distance, *row in zip(DISTANCES, *table.values(), strict=True):
        print(f"{distance:12g} " + " ".join(f"{100 * one:12.2f}" for one in row))
    if chosen.json:
        facts = {"date": date.today().isoformat(), "commit": source_commit(), "versions": package_versions()}
        text = json.dumps({**facts, "refined": chosen.refined, "distances": DISTANCES, "errors": table}, indent=1)
        chosen.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
