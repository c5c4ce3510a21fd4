"""Errors of stress, pressure and velocity at receivers beside an interface, by distance, against spectral elements.

    python benchmarks/interface_receivers.py [--cells -2 0 1] [--order 4] [--spacing 60] [--slope 0] [--json FILE]

A layer of 1000 m (vp 2500 m/s, vs 1300 m/s, rho 2100 kg/m^3) over a half-space (4000, 2300, 2500), a ratio of shear
moduli of 3.7, with a double couple at a depth of 400 m; three receivers beside the interface at each distance. Printed
are relative L2 errors, per cent, of all three together, by distance in cells of the default grid of finite differences,
62.5 m; +0 and -0 are 0.1 m above and below the interface. The reference is spectral elements with 12 points per
wavelength. With --slope the interface dips along x by this many degrees; depths are then at the receivers.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import warnings
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

import lithowave as lw
from lithowave.errors import LithowaveWarning
from lithowave.output.run_folder import package_versions, source_commit

CELLS = ["-2", "-1", "-0.5", "-0.25", "-0", "+0", "+0.25", "+0.5", "+1", "+2"]
CELL, INTERFACE, NEAREST = 62.5, -1000.0, 0.1
PLACES = [(400.0, 300.0), (-700.0, 200.0), (100.0, -300.0)]
LAYERS = [
    {"top": 0.0, "vp": 2500.0, "vs": 1300.0, "rho": 2100.0},
    {"top": INTERFACE, "vp": 4000.0, "vs": 2300.0, "rho": 2500.0},
]
DURATION = 1.7  # s, before the weak reflections from the sides
REFERENCE = {"method": "spectral_element", "degree": 4, "points_per_wavelength": 12.0}


def depth_of(cells: str, interface: float = INTERFACE) -> float:
    """Return z, m, of receivers at a distance from the interface; +0 and -0 are just above and below."""
    distance = CELL * float(cells)
    return interface + (distance or (-NEAREST if cells.startswith("-") else NEAREST))


def experiment(cells: list[str], backend: str = "cpu", **solver: Any) -> lw.Simulation:
    """Return the simulation with receivers at distances from the interface."""
    return lw.Simulation(
        domain={"x": [-1800, 1800], "y": [-1800, 1800], "z": [-2400, 0]},
        material={"layers": LAYERS},
        sources=[{
            "position": [0, 0, -400], "double_couple": {"strike": 30, "dip": 60, "rake": 40, "mw": 3.0},
            "time_function": {"gaussian": {"sigma": 0.12, "delay": 0.72}},
        }],
        receivers=[
            {"name": f"R{row}-{number}", "position": [x, y, depth_of(one)]}
            for row, one in enumerate(cells) for number, (x, y) in enumerate(PLACES)
        ],
        duration=DURATION,
        solver={"max_frequency": 2.6, **solver},
        compute={"backend": backend},
        output={"sampling_interval": 0.01, "stress": True, "pressure": True},
    )  # fmt: skip


def records(simulation: lw.Simulation, cells: list[str]) -> dict[str, np.ndarray]:
    """Run: each quantity (distances, receivers, components, times) every 10 ms."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", LithowaveWarning)
        found = simulation.run(output=folder).seismograms
    times = np.arange(0.0, DURATION, 0.01)
    rows = {"velocity": found.data, "stress": found.stress, "pressure": found.pressure[:, None]}
    return {
        name: np.stack([[np.interp(times, found.time, row) for row in one] for one in values]).reshape(
            len(cells), len(PLACES), -1, len(times)
        )
        for name, values in rows.items()
    }


def errors(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the relative L2 errors (distances,) of each quantity, and of the horizontal stresses."""
    pairs = {name: (found[name], expected[name]) for name in found}
    pairs["horizontal stress"] = tuple(one["stress"][:, :, [0, 1, 3]] for one in (found, expected))
    return {
        name: np.linalg.norm((one - other).reshape(len(one), -1), axis=1)
        / np.linalg.norm(other.reshape(len(one), -1), axis=1)
        for name, (one, other) in pairs.items()
    }


def main() -> None:
    """Run, print a table, write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", nargs="+", default=CELLS)
    parser.add_argument("--order", type=int, default=4)
    parser.add_argument("--spacing", type=float, default=CELL, help="of the grid, m; other positions in its cells")
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    expected = records(experiment(chosen.cells, chosen.backend, **REFERENCE), chosen.cells)
    grid = experiment(chosen.cells, chosen.backend, order=chosen.order, spacing=chosen.spacing)
    table = errors(records(grid, chosen.cells), expected)
    print(f"{'cells':>6} " + " ".join(f"{name:>18}" for name in table))
    for number, cells in enumerate(chosen.cells):
        print(f"{cells:>6} " + " ".join(f"{100 * values[number]:18.2f}" for values in table.values()))
    if chosen.json:
        facts = {"date": date.today().isoformat(), "commit": source_commit(), "versions": package_versions()}
        rows = {name: dict(zip(chosen.cells, values.tolist(), strict=True)) for name, values in table.items()}
        text = json.dumps({**facts, "order": chosen.order, "spacing": chosen.spacing, "errors": rows}, indent=1)
        chosen.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
