"""The rates of the finite differences on a CUDA device, in one go.

    python benchmarks/gpu.py --json gpu.json
    python benchmarks/gpu.py --sizes 1024 --precisions double --no-run
    python benchmarks/gpu.py --largest

Cubes of 256, 512 and 1024 points, orders 2 to 8, both precisions: `interior` and `full`; then a run on 512 points.
What does not fit into the device's memory is left out. `--largest` looks for the largest cube without layers, order 4,
single precision, that fits. Records are on disk as soon as they are there.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lithowave.backends import make_backend
from lithowave.bench import run_benchmarks
from lithowave.cli.printing import print_benchmarks
from lithowave.solvers.finite_difference.bench import make_tasks

Record = dict[str, Any]
RUN_SIZE = 512
FIRST, STEP = 1400, 32  # points along the sides of the cubes that `--largest` tries
MOST = 4000


def numbers(text: str) -> list[int]:
    """``256,512`` -> [256, 512]"""
    return [int(part) for part in text.split(",")]


def tell(text: str) -> None:
    """Print at once, for whoever reads a log."""
    print(text, flush=True)


def line(record: Record) -> str:
    """A record in short."""
    size = "x".join(map(str, record["size"]))
    beside = record.get("fraction_of_bare_kernels")
    more = "" if beside is None else f", {beside:.1%} of its bare kernels"
    return (
        f"{record['case']:>8} {size:>14} order {record['order']} {record['precision']}: {record['rate'] / 1e9:.2f} "
        f"Gpoint/s, {record['limit_fraction']:.1%} of the limit, passes: {record['passes']}{more}"
    )


def table(arguments: argparse.Namespace, keep: Callable[[list[Record]], None]) -> None:
    """`interior` and `full` for all sizes, precisions and orders, then the run."""
    grid = itertools.product(arguments.sizes, arguments.precisions, arguments.orders)
    tasks = [(("interior", "full"), size, precision, order) for size, precision, order in grid]
    if arguments.run:
        tasks.append((("run",), min(RUN_SIZE, max(arguments.sizes)), "single", 4))
    for cases, size, precision, order in tasks:
        keep(
            run_benchmarks(
                cases, [(size,) * 3], [order], [precision], "cuda", passes=arguments.passes, report=tell
            )
        )


def largest(arguments: argparse.Namespace, keep: Callable[[list[Record]], None]) -> None:
    """The largest cube that runs; what cannot fit is not tried, and smaller ones only where that one fails."""
    backend = make_backend("cuda", "single")
    free = backend.free_memory()
    candidates = range(arguments.first, MOST, STEP)
    tasks = make_tasks(backend, ["interior"], [(size,) * 3 for size in candidates])
    fitting = [task.shape[0] for task in tasks if task.plan.memory_bytes(backend) <= free]
    for size in reversed(fitting):
        records = run_benchmarks(
            ("interior",), [(size,) * 3], backend="cuda", passes=arguments.passes, report=tell
        )
        if records:
            memory = round(records[0]["memory_bytes_per_point"] * size**3)
            keep([record | {"memory_bytes": memory, "free_memory_bytes": free} for record in records])
            tell(f"largest cube: {size}, {memory / 1e9:.1f} GB of {free / 1e9:.1f} GB that were free")
            return
    tell(f"no cube of {arguments.first} points or more fits into {free / 1e9:.1f} GB")


def parse_arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=numbers, default=[256, 512, 1024])
    parser.add_argument("--orders", type=numbers, default=[2, 4, 6, 8])
    parser.add_argument("--precisions", type=lambda text: text.split(","), default=["single", "double"])
    parser.add_argument("--passes", choices=("auto", "one", "two"), default="auto")
    parser.add_argument("--run", action=argparse.BooleanOptionalAction, default=True, help="end with a whole run")
    parser.add_argument("--largest", action="store_true", help="look for the largest cube instead")
    parser.add_argument("--first", type=int, default=FIRST, help="smallest cube to try with --largest")
    parser.add_argument("--json", type=Path, help="write all records there")
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> list[Record]:
    arguments = parse_arguments(words)
    records: list[Record] = []

    def keep(new: list[Record]) -> None:
        records.extend(new)
        for record in new:
            tell(line(record))
        if arguments.json:
            arguments.json.write_text(json.dumps(records, indent=2) + "\n", encoding="utf-8")

    (largest if arguments.largest else table)(arguments, keep)
    if records:
        print_benchmarks(records)
    return records


if __name__ == "__main__":
    main()
