"""lithowave beside deepwave's elastic propagator on one CUDA device: the two in turn (A B A B ...) in one process.

    python benchmarks/compare_deepwave.py --size 512 --json deepwave.json

It needs `deepwave` and a PyTorch that reaches the device. Both have the same random medium on a cube, order 4, single
precision, an explosion in its middle and ten receivers of three velocities, forward only. They run without layers and
with C-PML of `--layers` cells, which both add around all six faces of the cube. Rates count the points of the cube
times the steps, not the points of the layers. deepwave may divide the time step: its inner steps are what is counted.

A time is that of a long run less that of a short one, so that set-up does not count. What is reported is the median
over the rounds of (lithowave / deepwave).
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import statistics
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from lithowave.backends import make_backend
from lithowave.description.simulation import Simulation
from lithowave.output.run_folder import package_versions, source_commit
from lithowave.solvers.common.kernels import RECORDS, Steps
from lithowave.solvers.finite_difference.bench import pass_count
from lithowave.solvers.finite_difference.plan import plan
from lithowave.solvers.finite_difference.solver import FiniteDifferenceSolver

ORDER, SPACING, RECEIVERS = 4, 100.0, 10
FASTEST = 5000.0
COURANT = 0.45  # below the 0.6 of deepwave, so that it need not divide the time step
MISSING = (
    "this comparison needs deepwave and PyTorch in the environment that runs it ({error}).\n"
    "Install them, for instance: pip install torch deepwave==0.1.0"
)

Record = dict[str, Any]
Run = Callable[[int], int]  # makes so many steps, to their end on the device, and tells how many it has made inside


def medium(size: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """lambda, mu and density of plane after plane (y, x) in single precision, from random vp, vs and density."""
    for k in range(size):
        vp, ratio, rho = np.random.default_rng(k).random((3, size, size), np.float32)
        vp, rho = FASTEST - 500.0 * vp, 2300.0 + 400.0 * rho
        mu = rho * (vp / (1.7 + 0.2 * ratio)) ** 2
        yield rho * vp**2 - 2.0 * mu, mu, rho


def time_step() -> float:
    """Time step of both, s."""
    return COURANT * SPACING / (FASTEST * math.sqrt(3.0))


def places(size: int) -> list[tuple[int, int, int]]:
    """Grid points (x, y, z) of the receivers."""
    return [((n + 1) * size // (RECEIVERS + 1), size // 3, size // 4) for n in range(RECEIVERS)]


# ------------------------------------------------------------------------------------------------------- lithowave


def own_run(size: int, cells: int, backend: Any) -> tuple[Run, Record]:
    """Our side, ready to run; and what the records tell of it."""
    solver = own_solver(size, cells, backend)
    steps = Steps(solver, recording=True)

    def run(count: int) -> int:
        for _ in range(count):
            steps()
        backend.synchronize()
        return count

    return run, {"passes": pass_count(solver)}


def own_solver(size: int, cells: int, backend: Any) -> FiniteDifferenceSolver:
    """With the random medium inside; in the layers it goes on as it is at their inner edge."""
    simulation = Simulation.model_validate(own_description(size, cells, backend))
    made = plan(simulation, backend)
    if not cells:  # a description always has layers
        made = dataclasses.replace(made, grid=without_layers(made.grid))
    solver = FiniteDifferenceSolver(made, simulation, backend)
    inner = slice(made.halo, made.halo + size + 2 * cells)
    for k, (lam, mu, rho) in enumerate(medium(size)):
        values = {"lam": lam, "compliance": 1.0 / mu, "density": rho}
        planes = {name: np.pad(value, cells, mode="edge") for name, value in values.items()}
        first, last = (0 if k == 0 else cells + k), (size + 2 * cells if k == size - 1 else cells + k + 1)
        for name, plane in planes.items():
            for place in range(first, last):
                backend.assign(solver.material.arrays[name][made.halo + place, inner, inner], plane)
    solver.start_records(RECORDS, False)
    return solver


def own_description(size: int, cells: int, backend: Any) -> Record:
    """A box with `size` points along each side, absorbing on six faces."""
    extent, middle = SPACING * (size - 1), SPACING * (size // 2)
    step = time_step()
    return {
        "domain": {"x": [0, extent], "y": [0, extent], "z": [-extent, 0]},
        "boundaries": {"top": "absorbing", "sides": "absorbing", "bottom": "absorbing", "layer": {"cells": cells or 1}},
        "material": {"homogeneous": {"vp": FASTEST, "vs": FASTEST / 1.8, "rho": 2500.0}},
        "sources": [{
            "position": [middle, middle, middle - extent],
            "moment_tensor": {"xx": 1e15, "yy": 1e15, "zz": 1e15},
            "time_function": {"gaussian": {"sigma": 20 * step, "delay": 100 * step}},
        }],
        "receivers": [
            {"network": "XX", "name": f"R{n}", "position": [SPACING * x, SPACING * y, SPACING * z - extent]}
            for n, (x, y, z) in enumerate(places(size))
        ],
        "duration": 1000 * step,
        "solver": {"order": ORDER, "spacing": SPACING, "time_step": step},
        "compute": {"backend": backend.name, "precision": "single"},
    }  # fmt: skip


def without_layers(grid: Any) -> Any:
    """The part of a grid that is in no layer."""
    shape = tuple(count - low - high for count, (low, high) in zip(grid.shape, grid.layers, strict=True))
    origin = tuple(start + grid.spacing * low for start, (low, _) in zip(grid.origin, grid.layers, strict=True))
    return dataclasses.replace(grid, shape=shape, origin=origin, layers=((0, 0),) * 3)


# -------------------------------------------------------------------------------------------------------- deepwave


def load_peer() -> tuple[Any, Any]:
    """PyTorch and deepwave."""
    try:
        import deepwave
        import torch
    except (ImportError, OSError) as error:
        raise SystemExit(MISSING.format(error=error)) from error
    if not torch.cuda.is_available():
        raise SystemExit(f"PyTorch {torch.__version__} reaches no CUDA device (built for CUDA {torch.version.cuda})")
    return torch, deepwave


def peer_models(size: int, torch: Any) -> list[Any]:
    """lambda, mu and buoyancy (z, y, x) on the device, the same medium as ours."""
    arrays = [np.empty((size, size, size), np.float32) for _ in range(3)]
    for k, (lam, mu, rho) in enumerate(medium(size)):
        for array, plane in zip(arrays, (lam, mu, 1.0 / rho), strict=True):
            array[k] = plane
    return [torch.from_numpy(array).cuda() for array in arrays]


def peer_run(size: int, cells: int, models: list[Any], torch: Any, deepwave: Any) -> tuple[Run, Record]:
    """deepwave's side, ready to run; what the records tell of it is there after the first run."""
    facts: Record = {}
    step = time_step()
    received = torch.tensor([[place[::-1] for place in places(size)]], device="cuda")
    source = torch.full((1, 1, 3), size // 2, dtype=torch.long, device="cuda")

    def run(count: int) -> int:
        time_of = torch.arange(count, device="cuda", dtype=torch.float32)
        amplitude = 1e6 * torch.exp(-0.5 * ((time_of - 100.0) / 20.0) ** 2)
        with torch.no_grad():
            out = deepwave.elastic(
                *models, grid_spacing=SPACING, dt=step, accuracy=ORDER, pml_width=cells, pml_freq=5.0,
                source_amplitudes_pressure_rate=amplitude[None, None], source_locations_pressure_rate=source,
                receiver_locations_z=received, receiver_locations_y=received, receiver_locations_x=received,
                check_output_finite=False,
            )  # fmt: skip
        torch.cuda.synchronize()
        info = out.info
        facts.update(
            step_ratio=int(info.step_ratio), inner_time_step=float(info.internal_dt), pml_width=list(info.pml_width),
            boundary=list(info.boundary), largest_velocity=float(out.receiver_amplitudes_z.abs().max()),
        )  # fmt: skip
        return count * facts["step_ratio"]

    return run, facts


# ---------------------------------------------------------------------------------------------------- in turn


def step_seconds(run: Run, short: int, long: int) -> float:
    """Seconds of an inner step, from two lengths of runs."""
    spans = []
    for count in (short, long):
        begin = time.perf_counter()
        inner = run(count)
        spans.append((time.perf_counter() - begin, inner))
    (first, few), (second, many) = spans
    return (second - first) / (many - few)


def compare(arguments: argparse.Namespace, cells: int, peer: tuple[Any, Any, list[Any]]) -> tuple[list[Record], float]:
    """The records of all rounds, and the median of the ratios."""
    torch, deepwave, models = peer
    backend = make_backend("cuda", "single")
    ours, theirs = own_run(arguments.size, cells, backend), peer_run(arguments.size, cells, models, torch, deepwave)
    common = common_entries(arguments.size, cells, backend)
    versions = package_versions() | backend.facts()["cuda"] | {"torch": torch.__version__}
    name = f"deepwave {deepwave.__version__}"
    for (run, _), who in ((ours, "lithowave"), (theirs, name)):
        begin = time.perf_counter()
        run(3)
        print(f"{who}: first steps after {time.perf_counter() - begin:.1f} s (kernels loaded or compiled)", flush=True)
    print(f"{name}: {theirs[1]}", flush=True)
    records, ratios = [], []
    for number in range(1, arguments.rounds + 1):
        lengths = arguments.short, arguments.short + arguments.steps
        own, other = (step_seconds(run, *lengths) for run, _ in (ours, theirs))
        ratios.append(other / own)
        for seconds, extra in ((own, ours[1]), (other, {"peer": name, **theirs[1]})):
            rate = arguments.size**3 / seconds
            records.append({**common, "rate": rate, **extra, "round": number, "versions": versions})
        rates = [arguments.size**3 / seconds / 1e9 for seconds in (own, other)]
        print(
            f"round {number}, {cells} cells of layer: lithowave {rates[0]:.2f} Gpoint/s, {name} {rates[1]:.2f} "
            f"(ratio {ratios[-1]:.2f})", flush=True,
        )  # fmt: skip
    return records, statistics.median(ratios)


def common_entries(size: int, cells: int, backend: Any) -> Record:
    """What the records of both share."""
    return {
        "method": "finite_difference",
        "case": "six_layers" if cells else "interior",
        "size": [size] * 3,
        "order": ORDER,
        "precision": "single",
        "backend": backend.name,
        "device": backend.device,
        "devices": 1,
        "unit": "points/s",
        "layer_cells": cells,
        "commit": source_commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def parse_arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=512, help="points along each side, without layers (512)")
    parser.add_argument("--layers", type=int, default=16, help="cells of the layers (16)")
    parser.add_argument("--short", type=int, default=20, help="steps of the short run (20)")
    parser.add_argument("--steps", type=int, default=200, help="steps that the long run has more (200)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--at-least", type=float, default=0.0, help="ratio to reach without and with layers")
    parser.add_argument("--json", type=Path, help="write all records there")
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> int:
    arguments = parse_arguments(words)
    torch, deepwave = load_peer()
    print(f"deepwave {deepwave.__version__}, PyTorch {torch.__version__}, {torch.cuda.get_device_name()}", flush=True)
    peer = torch, deepwave, peer_models(arguments.size, torch)
    records, medians = [], {}
    for cells in (0, arguments.layers):
        new, medians[cells] = compare(arguments, cells, peer)
        records += new
        if arguments.json:
            arguments.json.write_text(json.dumps(records, indent=2) + "\n", encoding="utf-8")
    for cells, ratio in medians.items():
        print(f"lithowave / deepwave, {cells} cells of layer: {ratio:.2f}")
    return 0 if min(medians.values()) >= arguments.at_least else 1


if __name__ == "__main__":
    raise SystemExit(main())
