"""Speed of the time loop with snapshots of the entire volume, or with checkpoints, relative to that without them.

    python benchmarks/outputs.py --cells 200 --steps 100 --every 20
    python benchmarks/outputs.py --checkpoints --method spectral_element --cells 64 --steps 1000 --every 500
    python benchmarks/outputs.py --backend cuda --cells 512 --steps 400 --every 50 --layer-cells 16 --folder /scratch

Runs with finite differences in a cube of this number of nodes along each side, layers included: one that loads all
kernels, one without snapshots, one with snapshots of velocity every ``--every`` steps, and one in which their bytes
arrive in main memory, but are not written to the file. The speed of the disk is measured with a file of the same bytes,
written by one thread in the same folder: ``ratio_of_the_disk`` is the ratio that this speed permits. ``ratio`` is that
of the run; ``ratio_unwritten`` shows what the snapshots cost apart from the file.

With ``--checkpoints``, runs by any method are compared with and without a checkpoint every ``--every`` steps; elements
have ``--cells`` cells along each side of the domain, and their layers are outside.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import statistics
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

import lithowave as lw
from lithowave.output import CheckpointWriter
from lithowave.output import files as hdf5
from lithowave.output.files import disk_rate, write_fully
from lithowave.output.run_folder import package_versions, source_commit

SPACING, SPEED = 100.0, 5000.0


def simulation(cells: int, steps: int, every: int, backend: str, layer_cells: int) -> lw.Simulation:
    """Return a cube of `cells` nodes along each side, layers included; every : steps between snapshots, 0 for none."""
    inside = (cells - 1 - 2 * layer_cells) * SPACING
    depth = (cells - 1 - layer_cells) * SPACING
    time_step = 0.4 * SPACING / SPEED
    snapshots: list[dict[str, Any]] = [{"interval": every * time_step, "volume": True}] if every else []
    return lw.Simulation(
        domain={"x": [0, inside], "y": [0, inside], "z": [-depth, 0]},
        boundaries={"layer": {"cells": layer_cells}},
        material={"homogeneous": {"vp": SPEED, "vs": SPEED / 1.75, "rho": 2600}},
        sources=[
            {
                "position": [0.5 * inside, 0.5 * inside, -0.5 * depth],
                "moment_tensor": {"xy": 1e15},
                "time_function": {"gaussian": {"sigma": 10 * time_step, "delay": 0}},
            }
        ],
        receivers=[{"network": "XX", "name": "R1", "position": [0.3 * inside, 0.4 * inside, 0]}],
        duration=steps * time_step,
        solver={"spacing": SPACING, "order": 4, "time_step": time_step},
        compute={"backend": backend},
        output={"sampling_interval": time_step, "snapshots": snapshots},
    )


def run(simulation: lw.Simulation, folder: Path) -> dict[str, Any]:
    """Run a simulation, and return its report without its files."""
    result = simulation.run(output=folder, overwrite=True)
    shutil.rmtree(folder)
    return result.report


def run_unwritten(simulation: lw.Simulation, folder: Path) -> dict[str, Any]:
    """Run a simulation whose large arrays are not written."""
    hdf5.write_fully = lambda descriptor, remaining, position: (
        None if len(remaining) > 1 << 20 else write_fully(descriptor, remaining, position)
    )
    try:
        return run(simulation, folder)
    finally:
        hdf5.write_fully = write_fully


def elements(method: str, cells: int, steps: int, backend: str) -> lw.Simulation:
    """Return a cube of cells of elements, with damped sides and this number of the largest stable time steps."""
    size, pulse = cells * SPACING, {"gaussian": {"sigma": 0.1, "delay": 0}}
    described = lw.Simulation(
        domain={"x": [0, size], "y": [0, size], "z": [-size, 0]}, boundaries={"absorption": "stacey"},
        material={"homogeneous": {"vp": SPEED, "vs": SPEED / 1.75, "rho": 2600}},
        sources=[{"position": [0.5 * size, 0.5 * size, -0.5 * size], "force": [0, 0, 1e12], "time_function": pulse}],
        receivers=[{"network": "XX", "name": "R1", "position": [0.3 * size, 0.4 * size, 0]}], duration=1.0,
        solver={"method": method, "spacing": SPACING}, compute={"backend": backend}, output={"checkpoint": None},
    )  # fmt: skip
    plan = lw.check_simulation(described, measure=False).plan
    return described.with_overrides({"duration": steps * plan["time_step_s"]})


@contextmanager
def checkpoint_times() -> Iterator[dict[str, list[float]]]:
    """In this context, note the times in which checkpoints are arranged and written (``store``), and in which their
    checksum is computed and the file reaches the disk (``sync``), s."""
    found: dict[str, list[float]] = {"store": [], "sync": []}
    before = {name: getattr(CheckpointWriter, name) for name in found}

    def timed(name: str) -> Any:
        def call(writer: CheckpointWriter) -> None:
            begin = time.perf_counter()
            before[name](writer)
            found[name].append(time.perf_counter() - begin)

        return call

    for name in found:
        setattr(CheckpointWriter, name, timed(name))
    try:
        yield found
    finally:
        for name, function in before.items():
            setattr(CheckpointWriter, name, function)


def compare_checkpoints(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Return the times of the loops without and with checkpoints, and their ratio."""
    if given.method == "finite_difference":
        bare = simulation(given.cells, given.steps, 0, given.backend, given.layer_cells)
        bare = bare.with_overrides({"output.checkpoint": None})
    else:
        bare = elements(given.method, given.cells, given.steps, given.backend)
    interval = bare.duration * given.every / given.steps
    stored = bare.with_overrides({"output.checkpoint": {"interval": interval}})
    reports = [run(one, folder / "run") for one in (bare, bare, stored)]
    with checkpoint_times() as times:
        reports.append(run(stored, folder / "run"))
    loops = [report["loop_s"] for report in reports]
    names = ("outputs_s", "waiting_for_outputs_s")
    return {
        "device": reports[-1]["device"], "method": given.method, "steps": reports[-1]["plan"]["steps"],
        "loop_s_without": loops[1], "loop_s": loops[3], "ratio": loops[1] / loops[3],
        **{name: reports[-1][name] for name in names},
        **{f"{name}_s": statistics.median(seconds) for name, seconds in times.items()},
    }  # fmt: skip


def compare_snapshots(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Return the times of the loops without and with snapshots, their ratio, and what the disk permits."""
    common = (given.backend, given.layer_cells)
    run(simulation(given.cells, 2, 0, *common), folder / "run")
    without = run(simulation(given.cells, given.steps, 0, *common), folder / "run")
    size = 12 * (given.cells - 2 * given.layer_cells) ** 2 * (given.cells - given.layer_cells)
    count = given.steps // given.every + 1
    rate = disk_rate(folder, count * size, sync=False, limit=math.inf)
    snapshots = simulation(given.cells, given.steps, given.every, *common)
    with_snapshots, unwritten = run(snapshots, folder / "run"), run_unwritten(snapshots, folder / "run")
    bare, disk_s = without["loop_s"], count * size / rate
    return {
        "device": with_snapshots["device"],
        "loop_s_without": bare,
        "loop_s": with_snapshots["loop_s"],
        "loop_s_unwritten": unwritten["loop_s"],
        "ratio": bare / with_snapshots["loop_s"],
        "ratio_unwritten": bare / unwritten["loop_s"],
        "ratio_of_the_disk": min(1.0, bare / disk_s),
        "snapshots": count,
        "snapshot_bytes": size,
        "disk_bytes_per_s": rate,
        "disk_s": disk_s,
        **{name: with_snapshots[name] for name in ("outputs_s", "waiting_for_outputs_s", "output_share")},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=200)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--every", type=int, default=20)
    parser.add_argument("--layer-cells", type=int, default=10)
    parser.add_argument("--checkpoints", action="store_true", help="checkpoints instead of snapshots")
    parser.add_argument("--method", default="finite_difference", help="of the runs with checkpoints")
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--folder", type=Path, help="folder for the files of the runs; default: a temporary one")
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # the waves of these short runs do not reach the receiver
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        entries = (compare_checkpoints if given.checkpoints else compare_snapshots)(given, Path(name))
    rounded = {name: value if isinstance(value, str) else float(f"{value:.4g}") for name, value in entries.items()}
    origin = {"versions": package_versions(), "commit": source_commit(), "date": str(date.today())}
    print(json.dumps(rounded | origin, indent=1))


if __name__ == "__main__":
    main()
