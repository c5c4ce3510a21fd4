"""Time and memory before the first step of spectral elements: the plan of a box, and the tables of its solver.

    python benchmarks/mesh_setup.py
    python benchmarks/mesh_setup.py --elements 100000 --degree 5 --json setup.json

A box of two layers, each of constant material, in about as many elements as asked for, on one thread, after a small box
has had everything compiled. The plan is the mesh, the numbers of its points, the survey and the time step; the tables
are everything that a run holds on its device, here the CPU. Exit status 1 where the plan takes more than 60 s for a
million elements, and in proportion for more or fewer, or where more than 12 KiB an element are in memory at one time.
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
SECONDS, BYTES = 60e-6, 12 << 10  # for an element


def experiment(elements: int, degree: int) -> lw.Simulation:
    """A box about as wide as it is long and deep."""
    side = max(4, round(elements ** (1 / 3)))
    half = max(2, round(elements / side**2 / 2))
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
        solver={"method": "spectral_element", "spacing": SIZE, "degree": degree},
        output={"sampling_interval": INTERVAL},
    )


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    """What a function gives, and the seconds that it takes."""
    begin = time.perf_counter()
    return function(), time.perf_counter() - begin


def measure(elements: int, degree: int, backend: Any) -> dict[str, Any]:
    """Seconds of the plan, of what `check` tells beyond it, and of the tables; the most memory until now."""
    method, simulation = load_method("spectral_element"), experiment(elements, degree)
    plan, plan_s = timed(lambda: method.plan(simulation))
    _, lines_s = timed(plan.lines)
    _, tables_s = timed(lambda: method.Solver(plan, simulation, backend))
    held = plan.plan_bytes() + plan.memory_bytes(backend)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return {
        "method": "spectral_element", "case": "setup", "elements": plan.element_count, "degree": degree,
        "precision": backend.precision, "device": backend.device, "threads": backend.threads,
        "plan_s": plan_s, "lines_s": lines_s, "tables_s": tables_s, "peak_bytes": peak, "predicted_bytes": held,
        "versions": package_versions(), "commit": source_commit(),
    }  # fmt: skip


def allowed(record: dict[str, Any]) -> bool:
    """Whether time and memory are within their limits."""
    count = record["elements"]
    return record["plan_s"] <= SECONDS * count and record["peak_bytes"] <= BASE_BYTES + BYTES * count


def parse_arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--elements", default="100000,1000000", help="rising numbers, separated by commas")
    parser.add_argument("--degree", type=int, default=4)
    parser.add_argument("--precision", default="single")
    parser.add_argument("--json", type=Path, help="write the records there")
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> int:
    arguments = parse_arguments(words)
    backend = make_backend("cpu", arguments.precision, 1)
    measure(WARM_UP, arguments.degree, backend)
    records = []
    for text in arguments.elements.split(","):
        record = measure(int(text), arguments.degree, backend)
        records.append(record)
        print(
            f"{record['elements']:>9,} elements: plan {record['plan_s']:.2f} s, what check tells of it "
            f"{record['lines_s']:.2f} s, tables {record['tables_s']:.2f} s; {record['peak_bytes'] / 2**30:.2f} GiB at "
            f"most, {record['predicted_bytes'] / 2**30:.2f} GiB predicted for the arrays",
            flush=True,
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(records, indent=2) + "\n", encoding="utf-8")
    return 0 if all(map(allowed, records)) else 1


if __name__ == "__main__":
    sys.exit(main())
