"""lithowave's finite differences next to other programs: the same problem, on the same machine, in alternating runs.

    python3 -m venv /tmp/programs && /tmp/programs/bin/pip install deepwave devito
    python benchmarks/peers.py --peer-python /tmp/programs/bin/python --size 128 --threads 2 --json peers.json
    python benchmarks/peers.py --backend cuda --peers deepwave-elastic --size 512

The problem is a cube of a smoothly varying elastic solid with an explosion in the middle and ten receivers of one
velocity component each, at the grid points of that component. Order 4 in space and 2 in time, single precision, time
step, arrays of the medium and samples of the source are identical for all programs; all use the standard staggered
grid, so that no interpolation is necessary. The moment is a Gaussian that returns to zero: velocities in the far field
are Ricker wavelets, and no static stress remains, whose rounding errors would accumulate. The peers are:

deepwave-elastic : the elastic propagator of deepwave, forward modeling only, on a CPU or a CUDA device. Both programs
    add C-PML with the same profile around all faces (`--layer-cells`).
devito : the elastic propagator as in the examples of Devito, with two time levels of each field, on a CPU.
devito-in-place : the same with one time level, the memory layout of lithowave, which is unusual in Devito.

Devito has no absorbing layers here, nor has lithowave in comparison with it; the compared seismograms end before waves
could return from the faces.

First, both programs compute seismograms from rest; the exit status is 1 if their relative L2 difference exceeds
`LIMIT`, because the programs then do not solve the same problem. Then the programs run alternately (A B A B ...). The
time of a step is that of a long run minus that of a short run, which excludes the setup and compilation; the rate is
the number of points of the cube, without layers, times the steps per second. The table shows the medians over the
rounds, also of the ratio.

deepwave's acoustic propagator has no counterpart: lithowave's finite differences do not support fluids (vs = 0), and
the elastic update of nine fields is not the same work as an acoustic update of four. SPECFEM3D, SW4, SeisSol and
OpenSWPC are not compared because they are available neither from PyPI nor as Debian packages.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from lithowave.backends import make_backend
from lithowave.description.simulation import Simulation
from lithowave.output.run_folder import package_versions, source_commit
from lithowave.solvers.finite_difference.bench import with_passes
from lithowave.solvers.finite_difference.plan import plan
from lithowave.solvers.finite_difference.solver import FiniteDifferenceSolver

SCRIPT = Path(__file__).with_name("peer_programs.py")
PEERS = {"deepwave-elastic": "deepwave", "devito": "devito", "devito-in-place": "devito"}  # and their packages
SPACING, FASTEST, RECEIVERS = 100.0, 5000.0, 10
COURANT = 0.45  # below the 0.6 at which deepwave divides the time step
STEP = COURANT * SPACING / (FASTEST * math.sqrt(3.0))  # s
SIGMA, DELAY = 20, 120  # steps, of the Gaussian moment
MOMENT = 1e15  # N m
RICKER = 1.0 / (math.sqrt(2.0) * math.pi * SIGMA * STEP)  # Hz, of velocities in the far field: 18 points per wavelength
REFLECTION = 1e-3  # of the C-PML, as in deepwave
FARTHEST = 0.25  # receiver from the source, in sides of the cube
SHORT = 20  # steps of the short run
LIMIT = 1e-4  # relative L2 difference of the seismograms

Record = dict[str, Any]


@dataclass(frozen=True)
class Problem:
    """The problem of a comparison.

    size : points along each side of the cube. layer_cells : of the C-PML around it; 0: none. steps : of the long run in
    addition to those of the short run.
    """

    size: int
    layer_cells: int
    steps: int
    backend: str
    threads: int

    @property
    def source(self) -> np.ndarray:
        """Grid point (z, y, x) of the explosion."""
        return np.full(3, self.size // 2)

    @property
    def components(self) -> np.ndarray:
        """Axis of the velocity at each receiver: 0, 1, 2 for x, y, z."""
        return np.arange(RECEIVERS) % 3

    @property
    def receivers(self) -> np.ndarray:
        """Grid points (n, 3) of the receivers, (z, y, x); the velocity is half a cell further along its axis."""
        directions = np.random.default_rng(1).standard_normal((RECEIVERS, 3))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        distances = self.size * np.linspace(0.12, FARTHEST, RECEIVERS)
        return self.source + np.rint(distances[:, None] * directions).astype(np.int64)

    @property
    def record_steps(self) -> int:
        """Steps of the compared seismograms: without layers, until the first wave returns from a face."""
        cells = self.size + 40 if self.layer_cells else self.size * (1.0 - FARTHEST) - 2.0
        return int(cells * SPACING / (FASTEST * STEP))

    @cached_property
    def medium(self) -> dict[str, np.ndarray]:
        """lambda and mu, Pa, and density, kg/m^3, (z, y, x) in single precision: vp from 4000 to 5000 m/s."""
        z, y, x = np.ogrid[tuple(slice(self.size) for _ in range(3))]
        wave = (np.sin(x / 7.0 + 0.3) * np.cos(y / 9.0) * np.sin(z / 11.0 + 1.0)).astype(np.float32)
        vp, rho = FASTEST - 500.0 * (1.0 + wave), 2500.0 + 200.0 * wave
        mu = rho * (vp / (1.8 + 0.1 * wave)) ** 2
        return {"lam": rho * vp**2 - 2.0 * mu, "mu": mu, "density": rho}

    def save(self, file: Path) -> None:
        """Write the problem for `peer_programs.py`; amplitudes are rates of pressure, Pa/s, at each time step."""
        samples = max(self.record_steps, SHORT + self.steps) + 2
        since = (np.arange(samples) - DELAY) / SIGMA
        rate = -since / (SIGMA * STEP) * np.exp(-0.5 * since**2)
        np.savez(
            file, **self.medium, source=self.source, receivers=self.receivers, components=self.components,
            amplitudes=MOMENT / SPACING**3 * rate, spacing=SPACING, time_step=STEP, fastest=FASTEST,
            layer_cells=self.layer_cells, layer_frequency=RICKER, backend=self.backend, threads=self.threads,
        )  # fmt: skip


# ------------------------------------------------------------------------------------------------------- lithowave


class Lithowave:
    """lithowave's solver of a problem; runs continue from the state of the previous run."""

    def __init__(self, problem: Problem, backend: Any) -> None:
        self.problem, self.backend, self.done = problem, backend, 0
        self.solver = make_solver(problem, backend)
        self.solver.start_records(problem.record_steps, False)

    def run(self, steps: int) -> float:
        """Make steps, record all receivers at each of them, and return the time, s."""
        begin = time.perf_counter()
        for _ in range(steps):
            self.solver.advance(self.done)
            self.solver.record(self.done % self.problem.record_steps)
            self.done += 1
        self.backend.synchronize()
        return time.perf_counter() - begin

    def seismograms(self) -> np.ndarray:
        """Return the velocities (receivers, steps) of a run from rest; to be called first."""
        self.run(self.problem.record_steps)
        velocity = np.asarray(self.solver.records(self.problem.record_steps).wait()["velocity"])
        return velocity[:, np.arange(RECEIVERS), self.problem.components].T


def make_solver(problem: Problem, backend: Any) -> FiniteDifferenceSolver:
    """Return a solver with the medium of the problem, continued in the layers as at their inner edges."""
    simulation = Simulation.model_validate(description(problem, backend))
    made = plan(simulation, backend)
    if not problem.layer_cells:  # a description always has layers
        made = dataclasses.replace(made, grid=without_layers(made.grid))
    made = with_passes(dataclasses.replace(made, equal_columns=False), backend, "auto")
    solver = FiniteDifferenceSolver(made, simulation, backend)
    size, cells = problem.size, problem.layer_cells
    inner = slice(made.halo, made.halo + size + 2 * cells)
    medium = problem.medium
    for place, k in enumerate(np.pad(np.arange(size), cells, mode="edge")):
        values = {"lam": medium["lam"][k], "compliance": 1.0 / medium["mu"][k], "density": medium["density"][k]}
        for name, plane in values.items():
            padded = np.pad(plane, cells, mode="edge")
            backend.assign(solver.material.arrays[name][made.halo + place, inner, inner], padded)
    return solver


def description(problem: Problem, backend: Any) -> Record:
    """Return the simulation file of the problem, with a uniform medium and absorbing layers on six faces."""
    extent = SPACING * (problem.size - 1)
    shifts = 0.5 * np.eye(3)[problem.components]
    corner = np.array([0.0, 0.0, -extent])
    positions = corner + SPACING * (problem.receivers[:, ::-1] + shifts)
    layer = {"reflection": REFLECTION, "frequency": RICKER, "cells": problem.layer_cells or 1}
    return {
        "domain": {"x": [0, extent], "y": [0, extent], "z": [-extent, 0]},
        "boundaries": {"top": "absorbing", "sides": "absorbing", "bottom": "absorbing", "layer": layer},
        "material": {"homogeneous": {"vp": FASTEST, "vs": FASTEST / 1.8, "rho": 2500.0}},
        "sources": [{
            "position": (corner + SPACING * problem.source[::-1]).tolist(),
            "moment_tensor": {"xx": MOMENT, "yy": MOMENT, "zz": MOMENT},
            "time_function": {"gaussian": {"sigma": SIGMA * STEP, "delay": DELAY * STEP, "quantity": "moment"}},
        }],
        "receivers": [
            {"network": "XX", "name": f"R{n}", "position": place} for n, place in enumerate(positions.tolist())
        ],
        "duration": problem.record_steps * STEP,
        "solver": {"order": 4, "spacing": SPACING, "time_step": STEP, "time_dispersion_correction": False},
        "compute": {"backend": backend.name, "precision": "single"},
    }  # fmt: skip


def without_layers(grid: Any) -> Any:
    """Return the part of a grid that is in no layer."""
    shape = tuple(count - low - high for count, (low, high) in zip(grid.shape, grid.layers, strict=True))
    origin = tuple(start + grid.spacing * low for start, (low, _) in zip(grid.origin, grid.layers, strict=True))
    return dataclasses.replace(grid, shape=shape, origin=origin, layers=((0, 0),) * 3)


# ------------------------------------------------------------------------------------------------------ comparison


class Peer:
    """Another program in a process of `peer_programs.py`. facts : its name, version and setup, or why it is missing."""

    def __init__(self, name: str, python: str, file: Path, threads: int) -> None:
        environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
        environment.pop("PYTHONPATH", None)
        self._process = subprocess.Popen(
            [python, str(SCRIPT), name, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8",
            env=environment,
        )  # fmt: skip
        self.facts = self._answer()

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stdin.close()
        self._process.wait()

    def run(self, steps: int, **entries: str) -> float:
        """Make steps and return the time, s. entries : the file in which to `save` the seismograms."""
        print(json.dumps({"steps": steps, **entries}), file=self._process.stdin, flush=True)
        return self._answer()["seconds"]

    def _answer(self) -> Record:
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"the process of the peer ended with status {self._process.wait()}")
        return json.loads(line)


def compare(name: str, problem: Problem, python: str, rounds: int) -> Record | None:
    """Return the record of the comparison with one peer, or None if it is missing."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "problem.npz"
        problem.save(file)
        with Peer(name, python, file, problem.threads) as peer:
            if "missing" in peer.facts:
                reason = peer.facts["missing"]
                hint = f"; {python} -m pip install {PEERS[name]}" if "No module" in reason else ""
                print(f"{name}: skipped: {reason}{hint}", flush=True)
                return None
            backend = make_backend(problem.backend, "single", problem.threads)
            own = Lithowave(problem, backend)
            seismograms = own.seismograms()
            peer.run(problem.record_steps, save=f"{folder}/seismograms.npy")
            difference = relative_difference(seismograms, np.load(f"{folder}/seismograms.npy"))
            print(f"{name}: {peer.facts['program']}, difference of the seismograms {difference:.1e}", flush=True)
            rates, peer_rates = alternate(own, peer, problem, rounds)
    ratios = [rate / other for rate, other in zip(rates, peer_rates, strict=True)]
    return {
        "method": "finite_difference", "size": [problem.size] * 3, "order": 4, "precision": "single",
        "layer_cells": problem.layer_cells, "backend": backend.name, "device": backend.device, "devices": 1,
        "threads": problem.threads, "peer": peer.facts["program"], "form": name, "arrays": "9 fields, 3 moduli",
        "peer_arrays": peer.facts["arrays"], "difference": difference, "record_steps": problem.record_steps,
        "unit": "points/s", "rate": statistics.median(rates), "peer_rate": statistics.median(peer_rates),
        "ratio": statistics.median(ratios), "rates": rates, "peer_rates": peer_rates, "ratios": ratios,
        "steps": problem.steps, "load": os.getloadavg()[0], "versions": package_versions(),
        "peer_versions": peer.facts["versions"], "commit": source_commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }  # fmt: skip


def relative_difference(seismograms: np.ndarray, others: np.ndarray) -> float:
    """Return the relative L2 difference of all seismograms together; infinite if they are zero or not finite."""
    norm = np.linalg.norm(others)
    difference = float(np.linalg.norm(seismograms - others) / norm) if norm else math.inf
    return difference if math.isfinite(difference) else math.inf


def alternate(own: Lithowave, peer: Peer, problem: Problem, rounds: int) -> tuple[list[float], list[float]]:
    """Return the rates of lithowave and of the peer in each round, points/s."""
    rates: tuple[list[float], list[float]] = [], []
    for number in range(1, rounds + 1):
        for found, program in zip(rates, (own, peer), strict=True):
            short, long = program.run(SHORT), program.run(SHORT + problem.steps)
            if long <= short:
                raise SystemExit("the long run was not slower than the short run; use a larger --size or --steps")
            found.append(problem.size**3 * problem.steps / (long - short))
        both = ", ".join(f"{found[-1] / 1e6:.1f}" for found in rates)
        print(f"  round {number}: {both} million points/s, load {os.getloadavg()[0]:.1f}", flush=True)
    return rates


def table(records: list[Record]) -> str:
    """Return the table of the records."""
    lines = [f"{'peer':34} {'arrays':20} {'layers':>6} {'difference':>10} {'lithowave':>10} {'peer':>8} {'ratio':>6}"]
    for record in records:
        who = f"{record['peer']} ({record['form']})"
        rates = [record[key] / 1e6 for key in ("rate", "peer_rate")]
        lines.append(
            f"{who:34} {record['peer_arrays']:20} {record['layer_cells']:6} {record['difference']:10.1e} "
            f"{rates[0]:10.1f} {rates[1]:8.1f} {record['ratio']:6.2f}"
        )
    first = records[0]
    setup = f"{first['size'][0]}^3 points on {first['device']}, {first['threads']} threads, {first['date']}"
    return "\n".join([setup, *lines, "rates in million points/s; lithowave: 9 fields, 3 moduli"])


def parse_arguments(words: list[str] | None) -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, help="points along each side (128; with CUDA 512)")
    parser.add_argument("--steps", type=int, help="steps of the long run beyond the short one (50; with CUDA 200)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--layer-cells", type=int, default=10, help="C-PML of deepwave and lithowave (10); 0: none")
    parser.add_argument("--backend", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="threads of both on a CPU (all cores)")
    parser.add_argument("--peers", default=",".join(PEERS), help=f"names separated by commas ({','.join(PEERS)})")
    parser.add_argument("--peer-python", default=sys.executable, help="interpreter that has the peers (this one)")
    parser.add_argument("--json", type=Path, help="write the records to this file")
    arguments = parser.parse_args(words)
    arguments.peers = arguments.peers.split(",")
    if unknown := set(arguments.peers) - set(PEERS):
        parser.error(f"--peers: {', '.join(sorted(unknown))}; allowed: {', '.join(PEERS)}")
    if not shutil.which(arguments.peer_python):
        parser.error(f"--peer-python: {arguments.peer_python} is not an executable file")
    large = arguments.backend == "cuda"
    arguments.size = arguments.size or (512 if large else 128)
    if arguments.size < 64:
        parser.error("--size: allowed: at least 64, so that the waves pass all receivers before they return from faces")
    arguments.steps = arguments.steps or (200 if large else 50)
    return arguments


def main(words: list[str] | None = None) -> int:
    """Compare, print the table, and return the exit status: 1 if seismograms differ, 2 if all peers are missing."""
    arguments = parse_arguments(words)
    records = []
    for name in arguments.peers:
        cells = arguments.layer_cells if name == "deepwave-elastic" else 0
        problem = Problem(arguments.size, cells, arguments.steps, arguments.backend, arguments.threads)
        if record := compare(name, problem, arguments.peer_python, arguments.rounds):
            records.append(record)
    if not records:
        return 2
    print(table(records))
    if arguments.json:
        arguments.json.write_text(json.dumps(records, indent=2) + "\n", encoding="utf-8")
    differing = [record["form"] for record in records if record["difference"] > LIMIT]
    if differing:
        print(f"not the same work: the seismograms of {', '.join(differing)} differ by more than {LIMIT:g}")
    return 1 if differing else 0


if __name__ == "__main__":
    raise SystemExit(main())
