"""Errors of sources and of receivers beside a dipping interface with finite differences, against spectral elements.

    python benchmarks/interface_dips.py [--dips 0 15 30 45] [--cells -1 -0.5 0.5 1] [--depth 250] [--backend cuda]
        [--json FILE]

The media are those of `interface_sources.py`, a ratio of shear moduli of 3.7. The interface dips to the east; its depth
is 1000 m (--depth) at x = 0 and tends to 0.5 and 1.5 times that. Sources: double couples at x = 0, with receivers at
the free surface. Receivers: stresses at x = 0 of a double couple 600 m above the interface, or below a shallow one.
Printed are relative L2 errors, per cent, by the distance along z from the interface in cells of the default grid, 62.5
m. The reference is spectral elements with 9 points per wavelength, whose faces lie on the interface.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import warnings
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

import lithowave as lw
from lithowave.errors import LithowaveWarning
from lithowave.output.run_folder import package_versions, source_commit

CELL, DURATION = 62.5, 1.7
UPPER = {"vp": 2500.0, "vs": 1300.0, "rho": 2100.0}
LOWER = {"vp": 4000.0, "vs": 2300.0, "rho": 2500.0}
MECHANISMS = {
    "oblique": {"strike": 30, "dip": 60, "rake": 40, "mw": 3.0},
    "dip slip": {"strike": 20, "dip": 90, "rake": 90, "mw": 3.0},
}
SURFACE = [(600.0, 300.0), (-500.0, -200.0), (100.0, 900.0), (-200.0, 100.0)]
REFERENCE = {"method": "spectral_element", "degree": 4, "points_per_wavelength": 9.0}


def interface(dip: float, depth: float) -> Callable[..., np.ndarray]:
    """Return z of the interface as a function of x and y, m; its dip, degrees, and its depth, m, are those of x = 0."""
    slope, half = np.tan(np.radians(dip)), 0.5 * depth
    return lambda x, y: -depth - half * np.tanh(slope * x / half) + 0.0 * y


def experiment(
    dip: float, depth: float, cells: list[str], mechanism: str | None, backend: str = "cpu", **solver: Any
) -> lw.Simulation:
    """Return the simulation of a source at a distance (one of `cells`), or of receivers at distances."""
    beside = [-depth + CELL * float(one) for one in cells]
    far = -depth + 600.0 if depth > 600.0 else -depth - 600.0
    places = [(*one, 0.0) for one in SURFACE] if mechanism else [(0.0, y, z) for z in beside for y in (-300.0, 500.0)]
    return lw.Simulation(
        domain={"x": [-1800, 1800], "y": [-1800, 1800], "z": [-2400, 0]},
        material={"layers": [{"top": 0.0, **UPPER}, {"top": interface(dip, depth) if dip else -depth, **LOWER}]},
        sources=[{
            "position": [0.0, 0.0, beside[0]] if mechanism else [-300.0, 0.0, far],
            "double_couple": MECHANISMS[mechanism or "oblique"],
            "time_function": {"gaussian": {"sigma": 0.12, "delay": 0.72}},
        }],
        receivers=[{"name": f"R{number}", "position": list(place)} for number, place in enumerate(places)],
        duration=DURATION,
        solver={"max_frequency": 2.6, **solver},
        compute={"backend": backend},
        output={"sampling_interval": 0.01, "stress": mechanism is None},
    )  # fmt: skip


def records(simulation: lw.Simulation) -> np.ndarray:
    """Run: velocity or, if it is recorded, stress (receivers, components, times) every 10 ms."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", LithowaveWarning)
        found = simulation.run(output=folder).seismograms
    values = found.data if found.stress is None else found.stress
    return np.stack([[np.interp(np.arange(0.0, DURATION, 0.01), found.time, row) for row in one] for one in values])


def relative(found: np.ndarray, expected: np.ndarray) -> float:
    """Return the relative L2 difference."""
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def errors(dip: float, depth: float, cells: list[str], backend: str) -> dict[str, dict[str, float]]:
    """Return the errors of the sources of each mechanism and of the receivers, by distance."""
    table: dict[str, dict[str, float]] = {name: {} for name in MECHANISMS}
    for one in cells:
        for name in MECHANISMS:
            pair = (records(experiment(dip, depth, [one], name, backend, **more)) for more in ({}, REFERENCE))
            table[name][one] = relative(*pair)
    grid, exact = (records(experiment(dip, depth, cells, None, backend, **more)) for more in ({}, REFERENCE))
    rows = zip(cells, np.split(grid, len(cells)), np.split(exact, len(cells)), strict=True)
    table["stress"] = {one: relative(*pair) for one, *pair in rows}
    return table


def main() -> None:
    """Run, print a table, write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dips", type=float, nargs="+", default=[0.0, 15.0, 30.0, 45.0])
    parser.add_argument("--cells", nargs="+", default=["-1", "-0.5", "0.5", "1"])
    parser.add_argument("--depth", type=float, default=1000.0, help="of the interface at x = 0, m")
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    table = {}
    print(f"{'dip':>4} {'':10} " + " ".join(f"{one:>8}" for one in chosen.cells))
    for dip in chosen.dips:
        table[f"{dip:g}"] = errors(dip, chosen.depth, chosen.cells, chosen.backend)
        for name, row in table[f"{dip:g}"].items():
            print(f"{dip:4g} {name:10} " + " ".join(f"{100 * value:8.2f}" for value in row.values()), flush=True)
    if chosen.json:
        facts = {"date": date.today().isoformat(), "commit": source_commit(), "versions": package_versions()}
        text = json.dumps({**facts, "depth": chosen.depth, "errors": table}, indent=1)
        chosen.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
