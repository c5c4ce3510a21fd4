"""Times that many receivers add to the description, the check and the preparation of a run of a small box.

    python benchmarks/many_receivers.py
    python benchmarks/many_receivers.py --receivers 10000,100000 --method finite_difference --depth 130 --limit 60

The receivers are a square grid on the surface, or at a depth, m; their distance is not a multiple of the grid spacing.
Each run is compared with a run with one receiver in the same process, after a run whose times are not counted, in which
kernels are compiled. The time of the preparation is the sum of the phases of the run until its first step; the CPU time
is that of all threads. Exit status 1 if the CPU time of the preparation per receiver is above --limit, in microseconds.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import lithowave as lw
from lithowave.output.run_folder import package_versions, source_commit

METHODS = {"finite_difference": 100.0, "spectral_element": 250.0, "discontinuous_galerkin": 400.0}  # spacing, m
TIME_FUNCTION = {"gaussian": {"sigma": 0.3, "delay": 1.2}}


def experiment(method: str, count: int, depth: float | None, threads: int | None, folder: Path) -> lw.Simulation:
    """Return the simulation of a box of 4 x 4 x 2.4 km with a square grid of receivers; depth : m, None for the
    surface."""
    side, z = max(2, math.isqrt(count)), [] if depth is None else [-depth]
    plane = {"prefix": "P", "start": [203.0, 207.0, *z], "end": [3801.0, 3803.0, *z], "counts": [side, side]}
    one = {"network": "XX", "name": "A", "position": [1003.0, 1007.0, *z]}
    return lw.Simulation(
        domain={"x": [0, 4000], "y": [0, 4000], "z": [-2400, 0]},
        material={"homogeneous": {"vp": 4000, "vs": 2300, "rho": 2500}}, duration=0.05,
        sources=[
            {"position": [2010, 1990, -1200], "moment_tensor": {"xy": 1e15}, "time_function": TIME_FUNCTION}
        ],
        receivers=[{"network": "XX", "plane": plane} if count > 1 else one],
        solver={"method": method, "spacing": METHODS[method]}, compute={"backend": "cpu", "threads": threads},
        output={"checkpoint": None, "directory": str(folder / "run")},
    )  # fmt: skip


def measure(method: str, count: int, depth: float | None = None, threads: int | None = None) -> dict[str, Any]:
    """Return the times of the description, the check and the preparation of a run, s."""
    with tempfile.TemporaryDirectory() as folder:
        clock = [time.perf_counter()]
        simulation = experiment(method, count, depth, threads, Path(folder))
        receivers = len(simulation.acquisition.receivers)
        clock.append(time.perf_counter())
        simulation.check()
        clock.append(time.perf_counter())
        report = simulation.run(overwrite=True).report
    phases = [one for one in report["phases"] if one["name"] not in ("first step", "other steps")]
    return {
        "case": "many_receivers", "method": method, "receivers": receivers, "depth": depth,
        "threads": report.get("threads"), "description_s": clock[1] - clock[0], "check_s": clock[2] - clock[1],
        "wall_s": sum(one["wall_s"] for one in phases), "cpu_s": sum(one["cpu_s"] for one in phases),
        "phases": report["phases"], "versions": package_versions(), "commit": source_commit(),
    }  # fmt: skip


def parse_arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--receivers", default="10000", help="numbers of receivers, separated by commas (10000)")
    parser.add_argument("--method", choices=METHODS, action="append", help="default: all methods")
    parser.add_argument("--depth", type=float, help="m; default: on the surface")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--limit", type=float, help="microseconds of CPU time per receiver")
    parser.add_argument("--json", type=Path, help="write the records there")
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> int:
    arguments = parse_arguments(words)
    records, largest = [], 0.0
    names = ("description_s", "check_s", "wall_s", "cpu_s")
    headings = ("description", "check", "preparation", "its CPU time")
    print(f"{'method':<24} {'receivers':>9}" + "".join(f" {heading + ', s':>16}" for heading in headings))
    for method in arguments.method or METHODS:
        for _ in range(2):
            single = measure(method, 1, arguments.depth, arguments.threads)
        for count in map(int, arguments.receivers.split(",")):
            record = measure(method, count, arguments.depth, arguments.threads)
            added = [record[name] - single[name] for name in names]
            print(f"{method:<24} {record['receivers']:>9,}" + "".join(f" {value:>16.3f}" for value in added))
            records.append(record)
            largest = max(largest, 1e6 * added[-1] / record["receivers"])
    print(f"largest CPU time of the preparation per receiver: {largest:.3g} us")
    if arguments.json:
        arguments.json.write_text(json.dumps(records, indent=2) + "\n", encoding="utf-8")
    return int(arguments.limit is not None and largest > arguments.limit)


if __name__ == "__main__":
    sys.exit(main())
