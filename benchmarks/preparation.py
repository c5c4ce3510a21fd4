"""Times of the phases from the plan of a run with spectral elements to its first step, and the peak memory.

    python benchmarks/preparation.py --elements 64x64x40 --threads 2
    python benchmarks/preparation.py --model layers --elements 128x128x102 --json preparation.json

The models: ``gradient``, a layer whose velocities increase with depth below a topography, with elements of 27 nodes and
moduli at every point; ``grid``, the same with a gridded model; ``layers``, a box of two homogeneous layers with a flat
surface. The sides are absorbing by Stacey's condition, and maps of peak motion are recorded. A small box is computed
first, so that all kernels are compiled; its times are not counted. The CPU time is that of all threads. Exit status 1
if the CPU time per element, without that of the small box, is above --limit, in microseconds.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import lithowave as lw
from lithowave.output.run_folder import package_versions, source_commit
from lithowave.process import peak_bytes

SIZE, STEP, STEPS = 100.0, 2e-4, 2  # m, of the elements; s; steps of a run
WARM_UP = (8, 8, 6)
MODELS = ("gradient", "grid", "layers")

Counts = tuple[int, int, int]


def topography(counts: Counts, folder: Path) -> str:
    """Write hills as high as 1.5 elements; return the file."""
    width, length = (SIZE * count for count in counts[:2])
    x, y = np.linspace(0, width, 201), np.linspace(0, length, 201)
    elevation = 1.5 * SIZE * np.sin(2 * np.pi * x / width) * np.cos(4 * np.pi * y[:, None] / length)
    path = folder / f"hills_{'x'.join(map(str, counts))}.npz"
    np.savez(path, x=x, y=y, elevation=elevation, axes=["y", "x"])
    return str(path)


def material(model: str, counts: Counts) -> dict[str, Any]:
    """Return the material of a model."""
    depth = SIZE * counts[2]
    if model == "layers":
        upper = {"top": 0, "vp": 5000, "vs": 2900, "rho": 2500}
        return {"layers": [upper, {"top": -depth / 2, "vp": 5500, "vs": 3100, "rho": 2600}]}
    if model == "gradient":
        return {"layers": [{"top": 0, "vp": 4000, "vs": 2300, "rho": 2500, "gradient": {"vp": 0.3, "vs": 0.2}}]}
    x, y = (np.linspace(-1e3, SIZE * count + 1e3, 101) for count in counts[:2])
    z = np.linspace(-depth - 1e3, 1e3, 61)
    vs = 2500 + 200 * np.sin(x[:, None, None] / 900) * np.cos(y[:, None] / 1100) - 0.2 * z
    return {"x": x, "y": y, "z": z, "vp": 1.8 * vs, "vs": vs, "rho": 2300 + 0 * vs, "axes": ["x", "y", "z"]}


def experiment(model: str, counts: Counts, threads: int | None, backend: str, folder: Path) -> lw.Simulation:
    """Return the simulation of a box of this many elements along x, y and z."""
    width, length, depth = (SIZE * count for count in counts)
    domain: dict[str, Any] = {"x": [0, width], "y": [0, length], "z": [-depth, 0]}
    if model != "layers":
        domain["topography"] = topography(counts, folder)
    time_function = {"gaussian": {"sigma": 0.3, "delay": 2.0}}
    source = {"position": [0.51 * width, 0.49 * length, -depth / 3], "moment_tensor": {"xy": 1e15}}
    return lw.Simulation(
        domain=domain, material=material(model, counts), sources=[source | {"time_function": time_function}],
        receivers=[{"network": "XX", "name": "R1", "position": [0.3 * width, 0.4 * length, -3 * SIZE]}],
        duration=STEPS * STEP, boundaries={"absorption": "stacey"},
        solver={"method": "spectral_element", "degree": 4, "spacing": SIZE, "time_step": STEP},
        compute={"backend": backend, "threads": threads},
        output={"sampling_interval": STEP, "peak_motion": True, "checkpoint": None, "directory": str(folder / "run")},
    )  # fmt: skip


def measure(model: str, counts: Counts, threads: int | None = None, backend: str = "cpu") -> dict[str, Any]:
    """Return the times of the phases of a run, s, and the peak memory of the process, bytes."""
    with tempfile.TemporaryDirectory() as folder:
        simulation = experiment(model, counts, threads, backend, Path(folder))
        begin = peak_bytes()
        report = simulation.run(overwrite=True).report
    phases = [one for one in report["phases"] if one["name"] != "other steps"]
    wall, cpu = (sum(one[name] for one in phases) for name in ("wall_s", "cpu_s"))
    elements = report["plan"]["element_count"]
    return {
        "case": "preparation", "model": model, "elements": elements, "points": report["plan"]["gll_points"],
        "device": report["device"], "threads": report.get("threads"), "phases": phases, "wall_s": wall, "cpu_s": cpu,
        "begin_bytes": begin, "peak_bytes": peak_bytes(),
        "predicted_bytes": report["plan"]["memory_bytes"], "versions": package_versions(), "commit": source_commit(),
    }  # fmt: skip


def lines(record: dict[str, Any]) -> list[str]:
    """Return the table of the phases."""
    found = [f"{'phase':<24} {'time, s':>9} {'us/element':>11} {'share':>7} {'CPU time, s':>12} {'memory, GB':>11}"]
    for one in [*record["phases"], record | {"name": "total"}]:
        wall, memory = one["wall_s"], one["peak_bytes"] / 1e9
        each, share = 1e6 * wall / record["elements"], wall / record["wall_s"]
        found.append(
            f"{one['name']:<24} {wall:>9.3f} {each:>11.2f} {share:>7.1%} {one['cpu_s']:>12.3f} {memory:>11.2f}"
        )
    elements, points, threads = (record[name] for name in ("elements", "points", "threads"))
    memory = "{:.2f} GB before the run".format(record["begin_bytes"] / 1e9)
    return [*found, f"{elements:,} elements, {points:,} points, {threads} threads, {memory}"]


def parse_counts(text: str) -> Counts:
    """Return the numbers of elements along x, y and z."""
    x, y, z = map(int, text.split("x"))
    return x, y, z


def parse_arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--elements", type=parse_counts, default=(64, 64, 40), help="along x, y and z (64x64x40)")
    parser.add_argument("--model", choices=MODELS, default="gradient")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--backend", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--limit", type=float, help="microseconds of CPU time per element")
    parser.add_argument("--json", type=Path, help="write the record there")
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> int:
    arguments = parse_arguments(words)
    for _ in range(2):
        small = measure(arguments.model, WARM_UP, arguments.threads, arguments.backend)
    record = measure(arguments.model, arguments.elements, arguments.threads, arguments.backend)
    each = 1e6 * (record["cpu_s"] - small["cpu_s"]) / (record["elements"] - small["elements"])
    print("\n".join(lines(record)))
    print(f"CPU time per additional element: {each:.3g} us")
    if arguments.json:
        arguments.json.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return int(arguments.limit is not None and each > arguments.limit)


if __name__ == "__main__":
    sys.exit(main())
