"""Time and memory before the first step on meshes: the plan of a box, and the tables of its solver.

    python benchmarks/mesh_setup.py
    python benchmarks/mesh_setup.py --elements 100000 --degree 5 --json setup.json
    python benchmarks/mesh_setup.py --method discontinuous_galerkin

A box of two layers, each of constant material, in about as many elements as asked for, on one thread, after a small box
has had everything compiled. Of spectral elements the plan is the mesh, the numbers of its points, the survey and the
time step; the tables are everything that a run holds on its device, here the CPU. Of discontinuous Galerkin the plan is
the mesh, its neighbours and materials, and the clusters of time steps; the tables (`ElementTables`) are the elastic
laws and faces in the order of the device, and where each face finds its neighbour; the solver has the arrays of the
fields beside them. Exit status 1 where the plan, with discontinuous Galerkin the plan and the tables, takes more than
60 s for a million elements, and in proportion for more or fewer, or where more memory is taken at one time than 12 KiB
an element of spectral elements, and 2 KiB and the arrays of a tetrahedron.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

for name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import lithowave as lw  # noqa: E402
from lithowave.backends import make_backend  # noqa: E402
from lithowave.output.run_folder import package_versions, source_commit  # noqa: E402
from lithowave.solvers import load_method  # noqa: E402

SIZE, INTERVAL = 100.0, 0.01
WARM_UP, BASE_BYTES = 512, 300 << 20
SECONDS = 60e-6  # for an element
IN_A_CUBE = 12  # tetrahedra


def experiment(cubes: int, solver: dict[str, Any]) -> lw.Simulation:
    """A box about as wide as it is long and deep, of cubes of SIZE."""
    side = max(4, round(cubes ** (1 / 3)))
    half = max(2, round(cubes / side**2 / 2))
    width, depth = side * SIZE, 2 * half * SIZE
    source = {
        "position": [0.51 * width, 0.49 * width, -depth / 3],
        "moment_tensor": {"xy": 1e15},
        "time_function": {"gaussian": {"sigma": 0.3, "delay": 2.0}},
    }
    layers = [
        {"top": 0, "vp": 5000, "vs": 2900, "rho": 2500},
        {"top": -depth / 2, "vp": 5500, "vs": 3100, "rho": 2600},
    ]
    return lw.Simulation(
        domain={"x": [0, width], "y": [0, width], "z": [-depth, 0]},
        material={"layers": layers},
        sources=[source],
        receivers=[{"network": "XX", "name": "R1", "position": [0.3 * width, 0.4 * width, 0]}],
        duration=10 * INTERVAL,
        solver={"spacing": SIZE, **solver},
        output={"sampling_interval": INTERVAL},
    )


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    """What a function gives, and the seconds that it takes."""
    begin = time.perf_counter()
    return function(), time.perf_counter() - begin


def peak_bytes() -> int:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def common(plan: Any, backend: Any, solver: dict[str, Any]) -> dict[str, Any]:
    """What the records of both methods say of the mesh and the machine."""
    return {
        **solver, "case": "setup", "elements": plan.element_count, "precision": backend.precision,
        "device": backend.device, "threads": backend.threads, "peak_bytes": peak_bytes(),
        "predicted_bytes": plan.plan_bytes() + plan.memory_bytes(backend), "versions": package_versions(),
        "commit": source_commit(),
    }  # fmt: skip


def measure(elements: int, solver: dict[str, Any], backend: Any) -> dict[str, Any]:
    """Seconds of the plan, of what `check` tells beyond it, and of the tables; the most memory until now."""
    method, simulation = load_method("spectral_element"), experiment(elements, solver)
    plan, plan_s = timed(lambda: method.plan(simulation, backend))
    _, lines_s = timed(plan.lines)
    _, tables_s = timed(lambda: method.Solver(plan, simulation, backend))
    told = common(plan, backend, solver)
    limits = {"limit_s": SECONDS * plan.element_count, "limit_bytes": BASE_BYTES + (12 << 10) * plan.element_count}
    return told | {"plan_s": plan_s, "lines_s": lines_s, "tables_s": tables_s, "limited_s": plan_s, **limits}


def measure_tetrahedra(elements: int, solver: dict[str, Any], backend: Any) -> dict[str, Any]:
    """The same of discontinuous Galerkin, and seconds of the whole solver, whose tables are made again in it."""
    from lithowave.solvers.discontinuous_galerkin.solver import KERNELS, PACKAGE
    from lithowave.solvers.discontinuous_galerkin.tables import ElementTables

    method, simulation = load_method("discontinuous_galerkin"), experiment(round(elements / IN_A_CUBE), solver)
    plan, plan_s = timed(lambda: method.plan(simulation, backend))
    _, lines_s = timed(plan.lines)
    kernels = backend.kernels(PACKAGE, *KERNELS, order=plan.order, precision=backend.precision)
    tables, tables_s = timed(lambda: ElementTables(backend, plan, kernels.layout, kernels.pack_faces))
    told = common(plan, backend, solver) | {"peak_bytes_of_tables": peak_bytes()}
    del tables
    _, solver_s = timed(lambda: method.Solver(plan, simulation, backend))
    told |= {"peak_bytes": peak_bytes(), "clusters": plan.clustering.sizes}
    limits = {
        "limit_s": SECONDS * plan.element_count,
        "limit_bytes": BASE_BYTES + (2 << 10) * plan.element_count + told["predicted_bytes"],
    }
    seconds = {"plan_s": plan_s, "lines_s": lines_s, "tables_s": tables_s, "solver_s": solver_s}
    return told | seconds | {"limited_s": plan_s + tables_s, **limits}


MEASURES: dict[str, Callable[..., dict[str, Any]]] = {
    "spectral_element": measure, "discontinuous_galerkin": measure_tetrahedra,
}  # fmt: skip


def allowed(record: dict[str, Any]) -> bool:
    """Whether time and memory are within their limits."""
    return record["limited_s"] <= record["limit_s"] and record["peak_bytes"] <= record["limit_bytes"]


def parse_arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--elements", default="100000,1000000", help="rising numbers, separated by commas")
    parser.add_argument("--method", choices=MEASURES, default="spectral_element")
    parser.add_argument("--degree", type=int, default=4, help="of spectral elements")
    parser.add_argument("--order", type=int, default=5, help="of discontinuous Galerkin")
    parser.add_argument("--precision", default="single")
    parser.add_argument("--json", type=Path, help="write the records there")
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> int:
    arguments = parse_arguments(words)
    backend = make_backend("cpu", arguments.precision, 1)
    accuracy = {"spectral_element": "degree", "discontinuous_galerkin": "order"}[arguments.method]
    solver = {"method": arguments.method, accuracy: getattr(arguments, accuracy)}
    measured = MEASURES[arguments.method]
    measured(WARM_UP, solver, backend)
    records = []
    for text in arguments.elements.split(","):
        record = measured(int(text), solver, backend)
        records.append(record)
        whole = f", solver {record['solver_s']:.2f} s" if "solver_s" in record else ""
        print(
            f"{record['elements']:>9,} elements: plan {record['plan_s']:.2f} s, what check tells of it "
            f"{record['lines_s']:.2f} s, tables {record['tables_s']:.2f} s{whole}; "
            f"{record['peak_bytes'] / 2**30:.2f} GiB at most, "
            f"{record['predicted_bytes'] / 2**30:.2f} GiB predicted for the arrays",
            flush=True,
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(records, indent=2) + "\n", encoding="utf-8")
    return 0 if all(map(allowed, records)) else 1


if __name__ == "__main__":
    sys.exit(main())
