"""Speed of Devito's elastic velocity-stress propagator on the problem of `lithowave bench`, case "interior".

A grid of n^3 points, staggered, without boundary layers, sources or receivers; density, lambda and 1/mu at
the nodes and averaged on the fly: density arithmetically over two nodes, rigidity harmonically over four.
Run it with an interpreter that has Devito (`pip install devito`; it needs a C compiler):

    python benchmarks/devito_elastic.py --threads 2 --json devito.json

Two forms are measured, for Devito knows both. "buffered" is the propagator as Devito's own examples write it
(time_order=1): two time levels of every field, 21 arrays. "in_place" overwrites the only time level
(time_order=0), 12 arrays, as lithowave does. Both: OpenMP, advanced optimization, block shapes by Devito's
aggressive autotuning. The time is that of the operator's time loop alone, as Devito's own timers report it.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

SPACING = 100.0
VP, VS, RHO = 6000.0, 3464.0, 2700.0
TIME_ORDERS = {"buffered": 1, "in_place": 0}


class ElasticPropagator:
    """Devito's operator with its fields, filled with noise, and a time step of 0.45 h / vp."""

    def __init__(self, size: int, order: int, dtype: Any, form: str, threads: int) -> None:
        import devito

        # SymPy reports on Devito's use of its matrices, and switches that report on at import.
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        devito.configuration["log-level"] = "WARNING"
        devito.configuration["language"] = "openmp"
        grid = devito.Grid(shape=(size,) * 3, extent=((size - 1) * SPACING,) * 3, dtype=dtype)
        kind = {"grid": grid, "space_order": order}
        self.velocity = devito.VectorTimeFunction(name="v", time_order=TIME_ORDERS[form], **kind)
        self.stress = devito.TensorTimeFunction(name="tau", time_order=TIME_ORDERS[form], **kind)
        self.density = devito.Function(name="density", **kind)
        self.lame_lambda = devito.Function(name="lam", **kind)
        self.compliance = devito.Function(name="compliance", **kind)
        self.points, self.threads = size**3, threads
        self.time_step = dtype(0.45 * SPACING / VP)
        self.blocks: dict[str, int] = {}

        step = grid.time_dim.spacing
        v, tau = self.velocity, self.stress
        divergence = devito.div(tau)
        # Devito averages density and compliance to where the left-hand side lives: over two and over four
        # nodes.
        equations = [devito.Eq(v[i].forward, v[i] + step / self.density * divergence[i]) for i in range(3)]
        new = v.forward
        strain = devito.grad(new) + devito.grad(new).transpose(inner=False)
        rate = self.lame_lambda * devito.diag(devito.div(new)) + 1 / self.compliance * strain
        equations += [
            devito.Eq(tau[i, j].forward, tau[i, j] + step * rate[i, j]) for i in range(3) for j in range(i, 3)
        ]
        options = ("advanced", {"openmp": True})
        self.operator = devito.Operator(
            equations, subs=grid.spacing_map, opt=options, name="ElasticBenchmark"
        )
        self._fill()

    def _fill(self) -> None:
        """Heterogeneous parameters (halo too: the averages read it) and a velocity of noise."""
        random = np.random.default_rng(1)

        def noisy(function: Any, mean: float) -> None:
            values = function.data_with_halo
            values[:] = mean * random.uniform(0.9, 1.1, values.shape)

        noisy(self.density, RHO)
        noisy(self.lame_lambda, RHO * (VP**2 - 2.0 * VS**2))
        noisy(self.compliance, 1.0 / (RHO * VS**2))
        for component in self.velocity:
            component.data[:] = random.uniform(-1e-3, 1e-3, component.data.shape)

    def advance(self, steps: int, **options: Any) -> float:
        """Make steps; the seconds spent in the time loop."""
        summary = self.operator.apply(
            time_m=0, time_M=steps - 1, dt=self.time_step, nthreads=self.threads, **{**self.blocks, **options}
        )
        return sum(section.time for section in summary.values())

    def tune(self, blocks: dict[str, int] | None) -> None:
        """Settle the block shapes: those given, else the best that Devito's autotuner finds."""
        if blocks is None:
            self.advance(2, autotune=("aggressive", "preemptive"))
            found = self.operator._state["autotuning"]
            blocks = (
                {name: size for name, size in found[-1]["tuned"].items() if name != "nthreads"}
                if found
                else {}
            )
        self.blocks = blocks


def numpy_step(fields: dict[str, np.ndarray], order: int, ratio: float) -> None:
    """One step in double precision with plain slices, in place: what `check` holds Devito's operator against.

    Arrays carry a halo of `order` points; ratio = time step / spacing.
    """
    weights = {2: (1.0,), 4: (9 / 8, -1 / 24), 8: (1225 / 1024, -245 / 3072, 49 / 5120, -5 / 7168)}[order]
    inside = (slice(order, -order),) * 3

    def moved(array: np.ndarray, axis: int, offset: int) -> np.ndarray:
        return np.roll(array, -offset, axis=axis)

    def ahead(array: np.ndarray, axis: int) -> np.ndarray:
        return sum(w * (moved(array, axis, m + 1) - moved(array, axis, -m)) for m, w in enumerate(weights))

    def behind(array: np.ndarray, axis: int) -> np.ndarray:
        return moved(ahead(array, axis), axis, -1)

    for i in range(3):
        force = sum((ahead if i == j else behind)(fields[f"tau{min(i, j)}{max(i, j)}"], j) for j in range(3))
        density = 0.5 * (fields["density"] + moved(fields["density"], i, 1))
        fields[f"v{i}"][inside] += (ratio * force / density)[inside]
    divergence = sum(behind(fields[f"v{i}"], i) for i in range(3))
    for i in range(3):
        rate = fields["lam"] * divergence + 2.0 / fields["compliance"] * behind(fields[f"v{i}"], i)
        fields[f"tau{i}{i}"][inside] += (ratio * rate)[inside]
        for j in range(i + 1, 3):
            pair = fields["compliance"] + moved(fields["compliance"], i, 1)
            rigidity = 4.0 / (pair + moved(pair, j, 1))
            rate = rigidity * (ahead(fields[f"v{i}"], j) + ahead(fields[f"v{j}"], i))
            fields[f"tau{i}{j}"][inside] += (ratio * rate)[inside]


def check(order: int, form: str, threads: int) -> float:
    """Largest relative difference between Devito and `numpy_step` after four steps on 20^3 points."""
    steps = 4
    propagator = ElasticPropagator(20, order, np.float64, form, threads)
    names = {f"v{i}": propagator.velocity[i] for i in range(3)}
    names |= {f"tau{i}{j}": propagator.stress[i, j] for i in range(3) for j in range(i, 3)}
    fields = {name: np.array(function.data_with_halo[0]) for name, function in names.items()}
    fields["density"] = np.array(propagator.density.data_with_halo)
    fields["lam"] = np.array(propagator.lame_lambda.data_with_halo)
    fields["compliance"] = np.array(propagator.compliance.data_with_halo)
    propagator.advance(steps)
    for _ in range(steps):
        numpy_step(fields, order, float(propagator.time_step) / SPACING)
    level = steps % 2 if form == "buffered" else 0
    worst = 0.0
    for name, function in names.items():
        difference = np.abs(np.array(function.data_with_halo[level]) - fields[name]).max()
        worst = max(worst, float(difference / np.abs(fields[name]).max()))
    return worst


def measure(arguments: argparse.Namespace, form: str, blocks: dict[str, int] | None) -> dict[str, Any]:
    """One benchmark record: the median rate of the repeated runs."""
    dtype = {"single": np.float32, "double": np.float64}[arguments.precision]
    propagator = ElasticPropagator(arguments.size, arguments.order, dtype, form, arguments.threads)
    propagator.tune(blocks)
    propagator.advance(2)
    rates = [
        propagator.points * arguments.steps / propagator.advance(arguments.steps)
        for _ in range(arguments.repeats)
    ]
    return {
        "method": "finite_difference",
        "case": "interior",
        "size": [arguments.size] * 3,
        "order": arguments.order,
        "precision": arguments.precision,
        "backend": "cpu",
        "device": processor_name(),
        "devices": 1,
        "threads": arguments.threads,
        "rate": statistics.median(rates),
        "unit": "points/s",
        "rates": rates,
        "peer": f"devito {version('devito')}",
        "form": form,
        "blocks": propagator.blocks,
        "versions": {"python": sys.version.split()[0], "numpy": np.__version__, "compiler": compiler_name()},
        "commit": commit(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def processor_name() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


def compiler_name() -> str:
    compiler = os.environ.get("DEVITO_CXX", "gcc")
    return first_line([compiler, "--version"])


def commit() -> str:
    return first_line(["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"])


def first_line(command: list[str]) -> str:
    try:
        answer = subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return answer.splitlines()[0] if answer else "unknown"


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=200, help="points along each side (200)")
    parser.add_argument("--order", type=int, choices=(2, 4, 8), default=4, help="order in space (4)")
    parser.add_argument("--precision", choices=("single", "double"), default="single")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="OpenMP threads (all cores)")
    parser.add_argument("--steps", type=int, default=30, help="steps in one run (30)")
    parser.add_argument("--repeats", type=int, default=7, help="runs; the median counts (7)")
    parser.add_argument("--form", choices=(*TIME_ORDERS, "both"), default="both", help="see above (both)")
    parser.add_argument("--blocks", type=json.loads, default={}, help="JSON, form to block shape: no tuning")
    parser.add_argument("--json", type=Path, help="write the records there")
    parser.add_argument(
        "--check", action="store_true", help="compare with NumPy on a small grid, measure nothing"
    )
    return parser.parse_args()


def main() -> int:
    arguments = parse_arguments()
    forms = list(TIME_ORDERS) if arguments.form == "both" else [arguments.form]
    if arguments.check:
        differences = {form: check(arguments.order, form, arguments.threads) for form in forms}
        for form, difference in differences.items():
            print(f"{form}: largest relative difference from NumPy {difference:.1e}")
        return 0 if max(differences.values()) < 1e-10 else 1
    records = [measure(arguments, form, arguments.blocks.get(form)) for form in forms]
    for record in records:
        rate = record["rate"] / 1e6
        print(f"{record['peer']} {record['form']}: {rate:.1f} Mpoint/s (blocks {record['blocks']})")
    if arguments.json:
        arguments.json.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
