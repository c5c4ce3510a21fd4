"""Search for runs that end with seismograms of zero, for plans that differ from one another, and for faults of kernels.

    python benchmarks/search_zero_records.py sequences [--points 4e8 3e8 2e8] [--elements 1.68e6] [--repeats 5]
    python benchmarks/search_zero_records.py plans [--repeats 50] [--threads 16] [--points 2e6] [--elements 1e5]
    compute-sanitizer --tool memcheck python benchmarks/search_zero_records.py small [--only NAME ...]

All take --backend (default: auto), and --json FILE, to which they write the summary that they print.

sequences : in one process, three runs by finite differences with receivers, of these numbers of points, then a run of
LOH.1 by spectral elements of degree 4 (44 x 44 x 16.5 km) whose source is given by samples and whose receivers are
near the source; repeated. The seismograms of each run must differ from zero and equal those of its first repetition,
except for the order of atomic additions.

plans : the plan of each method and, on the CPU, all arrays of its solver, built many times by the same number of
threads; all arrays must be the same, by their hash.

small : short runs that together launch every kernel of all methods, for the tools of compute-sanitizer (memcheck,
racecheck, initcheck, synccheck).

The exit status is 1 if something was found.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

METHODS = ("finite_difference", "spectral_element", "discontinuous_galerkin")
LAYERS = [
    {"top": 0, "vp": 4000, "vs": 2000, "rho": 2600}, {"top": -1000, "vp": 6000, "vs": 3464, "rho": 2700},
]  # fmt: skip
WIDTH, DEPTH = 44_000.0, 16_500.0  # m, of LOH.1
SOURCE = (0.0, 0.0, -2000.0)
INTERVAL = 0.005  # s, between samples of the source
CLOSENESS = 1e-4  # relative difference of seismograms that the order of additions in single precision explains
PLAIN = {"formats": [], "snapshots": [], "peak_motion": False}


def brune(rise_time: float = 0.1, count: int = 400) -> dict[str, Any]:
    """The moment rate of LOH.1, as samples."""
    since = INTERVAL * np.arange(count)
    return {"samples": {"values": (since / rise_time**2 * np.exp(-since / rise_time)).tolist(), "interval": INTERVAL}}


def receivers() -> list[dict[str, Any]]:
    """Lines from next to the source outward, at its depth and at the surface."""
    return [
        {"network": "XX", "name": f"{name}{n:02d}", "position": [150.0 * (n + 1), 100.0 * (n + 1), depth]}
        for name, depth in (("D", SOURCE[2]), ("S", 0.0)) for n in range(20)
    ]  # fmt: skip


def loh1(backend: str, solver: dict[str, Any], width: float, depth: float) -> dict[str, Any]:
    """The description but for its duration."""
    half = 0.5 * width
    return {
        "title": "LOH.1, source by samples",
        "domain": {"x": [-half, half], "y": [-half, half], "z": [-depth, 0]},
        "material": {"layers": LAYERS},
        "sources": [{"position": list(SOURCE), "moment_tensor": {"xy": 1e18}, "time_function": brune()}],
        "receivers": receivers(),
        "solver": solver,
        "compute": {"backend": backend},
        "output": PLAIN,
    }


def spectral_elements(backend: str, elements: float) -> dict[str, Any]:
    """LOH.1 with about this number of elements."""
    spacing = (WIDTH**2 * DEPTH / elements) ** (1 / 3)
    return loh1(backend, {"method": "spectral_element", "degree": 4, "spacing": spacing}, WIDTH, DEPTH)


def finite_differences(backend: str, points: float) -> dict[str, Any]:
    """The layers of LOH.1 on about this number of points, in the same domain."""
    spacing = (WIDTH**2 * DEPTH / points) ** (1 / 3)
    return loh1(backend, {"method": "finite_difference", "order": 4, "spacing": spacing}, WIDTH, DEPTH)


def tetrahedra(backend: str, elements: float) -> dict[str, Any]:
    """LOH.1 with about this number of tetrahedra."""
    spacing = (6 * WIDTH**2 * DEPTH / elements) ** (1 / 3)
    return loh1(backend, {"method": "discontinuous_galerkin", "order": 3, "spacing": spacing}, WIDTH, DEPTH)


def with_steps(description: dict[str, Any], steps: int) -> Any:
    """The simulation, as long as this number of steps."""
    import lithowave
    from lithowave.backends import make_backend
    from lithowave.solvers import load_method

    simulation = lithowave.Simulation(**description | {"duration": 1.0})
    compute = simulation.compute
    backend = make_backend(compute.backend, compute.precision, compute.threads)
    made = load_method(simulation.solver.method).plan(simulation, backend)
    return simulation.with_overrides({"duration": steps * made.schedule.time_step})


# ------------------------------------------------------------------------------------------------------- sequences


def run_sequences(chosen: argparse.Namespace) -> tuple[list[dict[str, Any]], bool]:
    """Entries of all runs, and whether all are well."""
    runs = {
        f"finite differences {n}": (finite_differences(chosen.backend, points), chosen.grid_steps)
        for n, points in enumerate(chosen.points, 1)
    }
    runs["spectral elements"] = spectral_elements(chosen.backend, chosen.elements), chosen.steps
    simulations = {name: with_steps(*run) for name, run in runs.items()}
    first: dict[str, np.ndarray] = {}
    entries = []
    for turn in range(chosen.repeats):
        for name, simulation in simulations.items():
            entries.append({"turn": turn, "run": name} | compared(simulation, first, name))
            print(entries[-1], flush=True)
    return entries, all(entry["well"] for entry in entries)


def compared(simulation: Any, first: dict[str, np.ndarray], name: str) -> dict[str, Any]:
    """A run, and its seismograms compared with zero and with those of the first run of this name."""
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        try:
            result = simulation.run(output=Path(folder) / "run")
        except Exception as error:
            return {"well": False, "error": f"{type(error).__name__}: {error}"}
        data, report = result.seismograms.data.astype(float), result.report
    reference = first.setdefault(name, data)
    largest = float(np.abs(data).max())
    difference = float(np.abs(data - reference).max() / max(np.abs(reference).max(), 1e-300))
    zero = [index for index, one in enumerate(data) if not one.any()]
    return {
        "well": largest > 0.0 and np.isfinite(largest) and difference <= CLOSENESS,
        "largest": largest, "difference": difference, "identical": bool(np.array_equal(data, reference)),
        "receivers_of_zero": zero, "unit_total": unit_total(report), "steps": report["plan"]["steps"],
        "loop_s": report["loop_s"], "total_s": time.perf_counter() - begin,
    }  # fmt: skip


def unit_total(report: dict[str, Any]) -> int:
    """Points or elements of a run."""
    return report["plan"].get("point_count") or report["plan"].get("element_count")


# ----------------------------------------------------------------------------------------------------------- plans


def compare_plans(chosen: argparse.Namespace) -> tuple[list[dict[str, Any]], bool]:
    """Entries of all methods, and whether all arrays were the same each time."""
    descriptions = {
        "finite_difference": finite_differences("cpu", chosen.points[0]),
        "spectral_element": spectral_elements("cpu", chosen.elements),
        "discontinuous_galerkin": tetrahedra("cpu", chosen.elements),
    }
    entries = []
    for method in chosen.only or METHODS:
        simulation = with_steps(descriptions[method], 100)
        expected, different, begin = built(simulation), [], time.perf_counter()
        for _ in range(1, chosen.repeats):
            found = built(simulation)
            names = expected.keys() | found.keys()
            different += sorted(name for name in names if expected.get(name) != found.get(name))
        entries.append({
            "method": method, "well": not different, "arrays": len(expected), "builds": chosen.repeats,
            "different": different, "seconds": time.perf_counter() - begin,
        })  # fmt: skip
        print(entries[-1], flush=True)
    return entries, all(entry["well"] for entry in entries)


def built(simulation: Any) -> dict[str, str]:
    """Hashes of all arrays of a plan and of its solver on the CPU, by name."""
    from lithowave.backends import make_backend
    from lithowave.solvers import load_method

    method = load_method(simulation.solver.method)
    backend = make_backend("cpu", "single")
    plan = method.plan(simulation, backend)
    solver = method.Solver(plan, simulation, backend)
    return dict(hashes(plan, "plan", set())) | dict(hashes(solver, "solver", set()))


def hashes(item: Any, name: str, seen: set[int]) -> Iterator[tuple[str, str]]:
    """Names and hashes of the arrays in an object of lithowave and in what it refers to."""
    if isinstance(item, np.ndarray):
        if item.dtype != object:
            yield name, hashlib.sha1(np.ascontiguousarray(item).tobytes()).hexdigest()
        return
    if id(item) in seen:
        return
    seen.add(id(item))
    if isinstance(item, dict):
        parts = {str(key): value for key, value in item.items()}
    elif isinstance(item, (list, tuple)):
        parts = {str(number): value for number, value in enumerate(item)}
    else:
        ours = type(item).__module__.startswith("lithowave.") and "description" not in type(item).__module__
        parts = getattr(item, "__dict__", {}) if ours else {}
    for key, value in list(parts.items()):
        yield from hashes(value, f"{name}.{key}", seen)


# ----------------------------------------------------------------------------------------------------------- small

BASE: dict[str, Any] = {
    "title": "every kernel",
    "domain": {"x": [-900, 900], "y": [-900, 900], "z": [-1200, 0]},
    "material": {"layers": [
        {"top": 0, "vp": 4000, "vs": 2000, "rho": 2300}, {"top": -400, "vp": 5000, "vs": 2900, "rho": 2600},
    ]},
    "sources": [
        {
            "position": [30, -20, -410], "moment_tensor": {"xx": 1e15, "xy": -2e15, "zz": 5e14},
            "time_function": brune(0.05),
        },
        {"position": [-201, 33, -57], "force": [1e12, -2e12, 3e12], "time_function": brune(0.05)},
    ],
    "receivers": [{"name": f"S{n}", "position": [100 + 60 * n, 90, -80 * n]} for n in range(6)],
    "output": {
        "formats": [], "peak_motion": True, "stress": True, "checkpoint": {"interval": 0.05},
        "snapshots": [
            {"interval": 0.05, "plane": {"z": 0}, "fields": ["velocity"]},
            {"interval": 0.05, "volume": True, "stride": 2, "fields": ["stress", "pressure"]},
        ],
    },
}  # fmt: skip
FD, SEM, DG = ({"method": method} for method in METHODS)
WATER = {"layers": [{"top": 0, "vp": 1500, "vs": 0, "rho": 1000}, {"top": -400, "vp": 5000, "vs": 2900, "rho": 2600}]}
WEAK = {"epsilon": 0.1, "delta": 0.05, "gamma": 0.1}
TILTED = {"homogeneous": {"vp": 5000, "vs": 2900, "rho": 2600, "anisotropy": WEAK | {"axis": [1, 0, 1]}}}
CASES: dict[str, dict[str, Any]] = {
    **{f"grid order {order}": {"solver": FD | {"spacing": 60, "order": order}} for order in (2, 4, 6, 8)},
    "grid double": {"solver": FD | {"spacing": 60, "order": 4}, "compute.precision": "double"},
    "grid compact": {"solver": FD | {"spacing": 60, "order": 4}, "compute.moduli": "compact"},
    "grid rigid": {
        "solver": FD | {"spacing": 60, "order": 4}, "boundaries": {"top": "rigid", "sides": "rigid"},
    },
    "grid one pass": {
        "solver": FD | {"spacing": 20, "order": 4, "passes": "one"}, "sources": BASE["sources"][:1],
    },
    "elements": {"solver": SEM | {"spacing": 150, "degree": 4}},
    "elements degree 5": {"solver": SEM | {"spacing": 200, "degree": 5}, "compute.precision": "double"},
    "elements deterministic": {"solver": SEM | {"spacing": 150, "degree": 4}, "compute.deterministic": True},
    "elements anisotropic": {"solver": SEM | {"spacing": 150, "degree": 4}, "material": TILTED},
    "tetrahedra order 3": {"solver": DG | {"spacing": 250, "order": 3}},
    "tetrahedra order 5": {"solver": DG | {"spacing": 300, "order": 5}, "compute.precision": "double"},
    "tetrahedra water": {"solver": DG | {"spacing": 250, "order": 3, "local_time_steps": True}, "material": WATER},
    "tetrahedra anisotropic": {"solver": DG | {"spacing": 250, "order": 3}, "material": TILTED},
}


def run_small(chosen: argparse.Namespace) -> tuple[list[dict[str, Any]], bool]:
    """Entries of all cases, and whether all are well."""
    import lithowave

    entries = []
    from lithowave.backends import make_backend

    device = make_backend(chosen.backend, "single").name
    for name in chosen.only or [case for case in CASES if device == "cuda" or case != "grid one pass"]:
        changes = {"compute.backend": chosen.backend, "duration": 0.2} | CASES[name]
        base = BASE | {"solver": {"method": "finite_difference", "spacing": 60}, "duration": 0.2}
        simulation = lithowave.Simulation(**base).with_overrides(changes)
        entries.append({"run": name} | compared(simulation, {}, name))
        print(entries[-1], flush=True)
    return entries, all(entry["well"] for entry in entries)


MODES = {"sequences": run_sequences, "plans": compare_plans, "small": run_small}
DEFAULTS: dict[str, dict[str, Any]] = {
    "sequences": {"points": [4e8, 3e8, 2e8], "elements": 1.68e6, "repeats": 5},
    "plans": {"points": [2e6], "elements": 1e5, "repeats": 50},
    "small": {},
}


def main() -> int:
    """Search, print the summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=MODES)
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--points", type=float, nargs="+", help="of the runs by finite differences")
    parser.add_argument("--elements", type=float, help="of the runs on elements")
    parser.add_argument("--steps", type=int, default=150, help="of the run by spectral elements")
    parser.add_argument("--grid-steps", type=int, default=30, help="of the runs by finite differences")
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--threads", type=int, default=16, help="of plans")
    parser.add_argument("--only", nargs="+", help="methods of plans, or names of small runs")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    for name, value in DEFAULTS[chosen.mode].items():
        if getattr(chosen, name) is None:
            setattr(chosen, name, value)
    if chosen.mode == "plans":
        os.environ["NUMBA_NUM_THREADS"] = str(chosen.threads)  # before lithowave loads Numba
    warnings.filterwarnings("ignore", module="lithowave")
    entries, well = MODES[chosen.mode](chosen)
    summary = {"benchmark": "search_zero_records", "mode": chosen.mode, "well": well, "entries": entries}
    text = json.dumps(summary, indent=1)
    print(text)
    if chosen.json:
        chosen.json.write_text(text + "\n", encoding="utf-8")
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
