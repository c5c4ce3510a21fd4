"""Errors of seismograms of sources beside an interface, by distance and method, against wavenumber integration.

    python benchmarks/interface_sources.py [--methods finite_difference:4 ...] [--cells -2 0 1] [--mechanisms ...]
        [--spacing 60] [--set KEY=VALUE ...] [--backend cuda] [--json FILE]

A layer of 1000 m (vp 2500 m/s, vs 1300 m/s, rho 2100 kg/m^3) over a half-space (4000, 2300, 2500), a ratio of shear
moduli of 3.7; sources 125 m above to 125 m below the interface, and on it, on either side; four receivers at the free
surface. Printed are relative L2 errors, per cent, of all receivers together, by distance from the interface in cells of
the default grid, 62.5 m; +0 and -0 are sources on the interface that act above and below it. The reference was computed
by wavenumber integration (pyprop8 1.1.5).
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

REFERENCE = Path(__file__).parents[1] / "tests" / "data" / "interface_sources.npz"
METHODS = ["finite_difference:4", "spectral_element:4", "discontinuous_galerkin:5"]
CELL, INTERFACE = 62.5, -1000.0
LAYERS = [
    {"top": 0.0, "vp": 2500.0, "vs": 1300.0, "rho": 2100.0},
    {"top": INTERFACE, "vp": 4000.0, "vs": 2300.0, "rho": 2500.0},
]
DOMAIN = {"x": [-3000, 3000], "y": [-3000, 3000], "z": [-3000, 0]}
# For tests: a smaller domain, the nearest receivers, and a duration, s, before reflections from the sides matter.
SMALL = {"x": [-1500, 1750], "y": [-1500, 1500], "z": [-1750, 0]}, (0, 1), 2.0


def place_of(cells: str) -> tuple[float, str]:
    """Return z, m, and the side of a source at a distance from the interface; +0 and -0 are on it."""
    return INTERFACE + CELL * float(cells), "below" if cells.startswith("-") else "above"


def experiment(
    method: str, cells: str, mechanism: str, backend: str = "cpu", small: bool = False, **solver: Any
) -> lw.Simulation:
    """Return the simulation of a source; method : its name and order, as in `METHODS`; small : see `SMALL`."""
    reference, (name, order), (z, side) = np.load(REFERENCE), method.split(":"), place_of(cells)
    domain, receivers, duration = SMALL if small else (DOMAIN, range(4), float(reference["t"][-1]))
    moment = dict(zip(("xx", "yy", "zz", "xy", "xz", "yz"), reference[mechanism].tolist(), strict=True))
    return lw.Simulation(
        domain=domain,
        material={"layers": LAYERS},
        sources=[{
            "position": [0, 0, z], "moment_tensor": moment, "side": side,
            "time_function": {"gaussian": {"sigma": 0.12, "delay": 0.72}},
        }],
        receivers=[{"name": f"R{n}", "position": reference["receivers"][n].tolist()} for n in receivers],
        duration=duration,
        solver={
            "method": name, "degree" if name == "spectral_element" else "order": int(order), "max_frequency": 2.6,
            **solver,
        },
        compute={"backend": backend},
        output={"sampling_interval": 0.01},
    )  # fmt: skip


def error(method: str, cells: str, mechanism: str, backend: str = "cpu", small: bool = False, **solver: Any) -> float:
    """Return the relative L2 error of all receivers together."""
    simulation, reference = experiment(method, cells, mechanism, backend, small, **solver), np.load(REFERENCE)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", LithowaveWarning)
        found = simulation.run(output=folder).seismograms
    chosen = [int(one.name[-1]) for one in simulation.receiver_list()]
    expected = reference["v"][list(reference["cells"]).index(cells), list(reference["mechanisms"]).index(mechanism)]
    times = reference["t"][reference["t"] < simulation.duration + 1e-9]
    expected = expected[chosen, :, : len(times)]
    values = np.stack([[np.interp(times, found.time, row) for row in one] for one in found.data])
    return float(np.linalg.norm(values - expected) / np.linalg.norm(expected))


def main() -> None:
    """Run all, print a table, write it."""
    reference = np.load(REFERENCE)
    known = reference["cells"].tolist(), reference["mechanisms"].tolist()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--cells", nargs="+", default=known[0], help=f"distances: {', '.join(known[0])}")
    parser.add_argument("--mechanisms", nargs="+", default=known[1], choices=known[1])
    parser.add_argument("--spacing", type=float, help="of the grid, m; other positions of the interface in its cell")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="of the solver")
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    solver = {key: json.loads(value) for key, value in (one.split("=") for one in chosen.set)}
    if chosen.spacing:
        solver["spacing"] = chosen.spacing
    table: dict[str, Any] = {}
    print(f"{'method':26} {'cells':>6} " + " ".join(f"{name:>12}" for name in chosen.mechanisms))
    for method in chosen.methods:
        for cells in chosen.cells:
            found = {name: error(method, cells, name, chosen.backend, **solver) for name in chosen.mechanisms}
            table.setdefault(method, {})[cells] = found
            print(f"{method:26} {cells:>6} " + " ".join(f"{100 * one:12.2f}" for one in found.values()), flush=True)
    if chosen.json:
        facts = {"date": date.today().isoformat(), "commit": source_commit(), "versions": package_versions()}
        text = json.dumps({**facts, "solver": solver, "errors": table}, indent=1)
        chosen.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
