"""Error and cost of all methods by order or degree and points per wavelength, on four problems.

    python benchmarks/cost_and_error.py measure --backend cuda --json cost_and_error.json
    python benchmarks/cost_and_error.py measure --problems box --cases fd:4:6,8,11 se:4:5,7 dg:5:4,7 --references folder
    python benchmarks/cost_and_error.py measure --backend cpu --threads 1 --problems box --cost 0.2 --json cpu.json
    python benchmarks/cost_and_error.py table cost_and_error.json cpu.json
    python benchmarks/cost_and_error.py draw cost_and_error.json --figure docs/figures/cost_and_error.png

Errors are relative L2 differences of all velocities from the exact solution (full space), or from spectral elements of
degree 6 with 12 points per wavelength in a box that is larger on five sides, so that they include what the absorbing
layers reflect. `--references` stores these seismograms, which later measurements read. `seconds` is the time of the
steps except the first one; `cpu_seconds` that of all threads of the process, which other programs disturb less. With
`--cost`, runs end at this time (s), no error is computed, and these times are scaled to the duration of the problem.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import lithowave as lw
from lithowave.description.solver import METHODS
from lithowave.errors import LithowaveWarning
from lithowave.output.run_folder import package_versions, source_commit

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
from exact_solutions.full_space import full_space_moment

SHORT = {"fd": "finite_difference", "se": "spectral_element", "dg": "discontinuous_galerkin"}
CASES = ["fd:4:5,6,8,11,16", "fd:6:6,8,12", "fd:8:5,8,12", "se:4:4,5,6,7,9,11", "se:6:4,5.5,7", "dg:4:5,6,8",
         "dg:5:4,5,6,7,9", "dg:6:5,7"]  # fmt: skip
SOFT, ROCK = {"vp": 3200, "vs": 1600, "rho": 2300}, {"vp": 5000, "vs": 2800, "rho": 2600}
HARD = {"vp": 6000, "vs": 3464, "rho": 2700}
MARGIN = 4000.0  # of the box of the reference around the box, m
REFERENCE = {"method": "spectral_element", "degree": 6, "points_per_wavelength": 12}
INTERVAL = 0.02  # s, of samples
AROUND = [[1000, 1500, 0], [-2500, 1000, 0], [3000, -2000, 0], [-3500, -3500, 0], [5500, 1000, 0], [4200, 4200, 0]]

STYLES = {"finite_difference": "o-", "spectral_element": "s-", "discontinuous_galerkin": "^-"}

Record = dict[str, Any]


def problem(name: str) -> Record:
    """Return the description without its method."""
    quake = {"double_couple": {"strike": 30, "dip": 60, "rake": 90, "mw": 4.0},
             "time_function": {"gaussian": {"sigma": 0.15, "delay": 0.9}}}  # fmt: skip
    box = {"x": [-6000, 6000], "y": [-6000, 6000], "z": [-6000, 0]}
    made: Record = {"boundaries": {}, "duration": 6.0}
    if name == "box":  # the layers of the README
        made |= {"domain": box, "material": {"layers": [{"top": 0, **SOFT}, {"top": -1000, **ROCK}]}}
        made |= {"sources": [{"position": [0, 0, -2000], **quake}], "receivers": AROUND, "max_frequency": 2.6}
    elif name == "half-space":
        domain = {"x": [-4000, 4000], "y": [-4000, 4000], "z": [-4000, 0]}
        made |= {"domain": domain, "material": {"homogeneous": SOFT}, "max_frequency": 2.6}
        made |= {"sources": [{"position": [0, 0, -2000], **quake}], "receivers": AROUND[:4]}
    elif name == "full space":
        domain = {axis: [-4000, 4000] for axis in "xyz"}
        made |= {"domain": domain, "material": {"homogeneous": HARD}, "max_frequency": 2.6}
        made |= {"boundaries": {"top": "absorbing"}, "duration": 4.0}
        made |= {"sources": [{"position": [70, -40, 110], **quake}]}
        made |= {"receivers": [[1500, 700, 900], [-900, 2100, 1500], [2100, -1800, -2300], [100, 50, 3100]]}
    else:  # LOH.1
        domain = {"x": [-1500, 4700], "y": [-1500, 5600], "z": [-4000, 0]}
        made |= {"domain": domain, "material": {"layers": [
            {"top": 0, "vp": 4000, "vs": 2000, "rho": 2600}, {"top": -1000, **HARD},
        ]}}  # fmt: skip
        made |= {"sources": [{"position": [0, 0, -2000], "moment_tensor": {"xy": 1e18},
                              "time_function": {"gaussian": {"sigma": 0.12, "delay": 0.72}}}]}  # fmt: skip
        made |= {"receivers": [[600, 800, 0], [1200, 1600, 0], [1800, 2400, 0], [2400, 3200, 0], [3000, 4000, 0]]}
        made |= {"max_frequency": 2.5, "duration": 4.0}
    return made


def simulation(name: str, options: argparse.Namespace, larger: bool = False, **solver: Any) -> lw.Simulation:
    """Return the simulation of a problem; larger : in the box of the reference."""
    made = problem(name)
    frequency = made.pop("max_frequency")
    if larger:
        made["domain"] = {
            axis: [low - MARGIN, high + MARGIN * (axis != "z" or name == "full space")]
            for axis, (low, high) in made["domain"].items()
        }
    made["duration"] = options.cost or made["duration"]
    made["receivers"] = [{"name": f"R{n}", "position": place} for n, place in enumerate(made["receivers"])]
    return lw.Simulation(
        **made, solver={"max_frequency": frequency, **solver},
        compute={"backend": options.backend, "threads": options.threads}, output={"sampling_interval": INTERVAL},
    )  # fmt: skip


def computed(made: lw.Simulation) -> tuple[Record, np.ndarray]:
    """Return run.json, and velocities (receivers, 3, samples)."""
    with tempfile.TemporaryDirectory() as folder:
        result = made.run(output=Path(folder) / "run")
        return result.report, np.asarray(result.seismograms.data, float)


def truth(name: str, options: argparse.Namespace) -> np.ndarray:
    """Return the velocities (receivers, 3, samples) with which others are compared."""
    made = simulation(name, options, larger=True, **REFERENCE)
    if name == "full space":
        times = np.arange(round(made.duration / INTERVAL) + 1) * INTERVAL
        source = made.point_sources()[0]
        rock = HARD["vp"], HARD["vs"], HARD["rho"], "velocity"
        return np.stack([
            full_space_moment(one.position, source.position, source.moment, source.time_function.rate, times, *rock)
            for one in made.receivers
        ])  # fmt: skip
    stored = options.references and options.references / f"{name}.npy"
    if stored and stored.exists():
        return np.load(stored)
    report, found = computed(made)
    print(f"reference of {name}: {report['loop_s']:.1f} s, {report['plan']['element_count']} elements", flush=True)
    if stored:
        stored.parent.mkdir(parents=True, exist_ok=True)
        np.save(stored, found)
    return found


def errors(found: np.ndarray, exact: np.ndarray) -> Record:
    """Return the relative error of all seismograms, and of the receiver with the largest one."""
    count = min(found.shape[-1], exact.shape[-1])
    misfit, size = found[..., :count] - exact[..., :count], exact[..., :count]
    return {
        "error": float(np.linalg.norm(misfit) / np.linalg.norm(size)),
        "worst": max(float(np.linalg.norm(a) / np.linalg.norm(b)) for a, b in zip(misfit, size, strict=True)),
    }


def measured(name: str, method: str, solver: Record, exact: np.ndarray | None, options: argparse.Namespace) -> Record:
    """Return the record of a run; exact : None to measure only its cost."""
    report, found = computed(simulation(name, options, method=SHORT[method], **solver))
    plan, steps = report["plan"], next(one for one in report["phases"] if one["name"] == "other steps")
    count, scale = plan["steps"], 1.0
    if exact is None:
        count = round(problem(name)["duration"] / plan.get("largest_time_step_s", plan["time_step_s"]))
        scale = count / (plan["steps"] - 1)
    return {
        "problem": name, "method": SHORT[method], **{key: solver[key] for key in ("order", "degree") if key in solver},
        "points": solver["points_per_wavelength"],
        **({} if exact is None else errors(found, exact)),
        "seconds": scale * steps["wall_s"], "cpu_seconds": scale * steps["cpu_s"], "preparation_s": report["setup_s"],
        "units": plan.get("point_count", plan.get("element_count")), "steps": count,
        "time_step_s": plan["time_step_s"], "backend": report["backend"], "device": report["device"],
    }  # fmt: skip


def runs(cases: Sequence[str]) -> list[tuple[str, Record]]:
    """Return the short name of the method and the keys of the solver for texts such as ``fd:4:6,8``."""
    found = []
    for case in cases:
        method, order, points = case.split(":")
        key = METHODS[SHORT[method]].accuracy
        found += [(method, {key: int(order), "points_per_wavelength": float(one)}) for one in points.split(",")]
    return found


def measure(options: argparse.Namespace) -> None:
    """Measure the cases on the problems, those of one problem in ascending number of points, within the time limit."""
    warnings.simplefilter("ignore", LithowaveWarning)
    begin, records = time.perf_counter(), []
    for name in options.problems:
        exact = None if options.cost else truth(name, options)
        for method, solver in runs(options.cases):
            if time.perf_counter() - begin > options.limit:
                print("the time limit is reached; further cases are omitted", flush=True)
                return
            one = measured(name, method, solver, exact, options)
            records.append(one | {"versions": package_versions(), "commit": source_commit()})
            order = one.get("order", one.get("degree"))
            print(
                f"{name:>10} {method} {order} {one['points']:>5g} points: {one.get('error', np.nan):.3%}, worst "
                f"{one.get('worst', np.nan):.2%}, {one['seconds']:.3f} s, {one['cpu_seconds']:.2f} s of CPU, "
                f"{one['steps']} steps, {one['units']}",
                flush=True,
            )
            if options.json:
                options.json.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")


def identity(one: Record) -> tuple[Any, ...]:
    """Return method, order or degree, and points of a record."""
    return one["method"], one.get("order", one.get("degree")), one["points"]


def table(options: argparse.Namespace) -> None:
    """Print the rows of a Markdown table: error, and the time of each record file."""
    files = [{identity(one): one for one in json.loads(file.read_text(encoding="utf-8"))
              if one["problem"] == options.problem} for file in options.records]  # fmt: skip
    for key in sorted({key for records in files for key in records}):
        found = [records.get(key) for records in files]
        error = next((one["error"] for one in found if one and "error" in one), None)
        times = ("" if one is None else f"{one['cpu_seconds' if one['backend'] == 'cpu' else 'seconds']:.2f}"
                 for one in found)  # fmt: skip
        name = f"{key[0].replace('_', ' ')}, {METHODS[key[0]].accuracy} {key[1]}"
        text = "" if error is None else f"{100 * error:.2f}"
        print(f"| {name} | {key[2]:g} | {text} | {' | '.join(times)} |")


def draw(options: argparse.Namespace) -> None:
    """Draw the error against the time of the steps, one panel per record file; errors may be in another file."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    files = [[one for one in json.loads(file.read_text(encoding="utf-8")) if one["problem"] == options.problem]
             for file in options.records]  # fmt: skip
    colors = {one: f"C{n}" for n, one in enumerate(sorted({identity(one)[:2] for one in sum(files, [])}))}
    errors = {identity(one): 100 * one["error"] for records in files for one in records if "error" in one}
    figure, axes = pyplot.subplots(1, len(files), figsize=(5.2 * len(files), 4.2), squeeze=False)
    for axis, records in zip(axes[0], files, strict=True):
        on_cpu = records[0]["backend"] == "cpu"
        key = "cpu_seconds" if on_cpu else "seconds"
        for method, order in sorted({identity(one)[:2] for one in records}):
            own = [one for one in records if identity(one)[:2] == (method, order)]
            own.sort(key=lambda one: one["points"])
            name = f"{method.replace('_', ' ')}, {METHODS[method].accuracy} {order}"
            curve = [(one[key], errors[identity(one)]) for one in own]
            axis.loglog(*zip(*curve, strict=True), STYLES[method], color=colors[method, order], label=name)
            for one, place in zip(own, curve, strict=True):
                axis.annotate(f"{one['points']:g}", place, (3, 3), textcoords="offset points", fontsize=7)
        axis.set(xlabel="CPU time of the steps, s" if on_cpu else "time of the steps, s",
                 ylabel="error of the seismograms, %", title=records[0]["device"])  # fmt: skip
        axis.grid(which="both", alpha=0.3)
    axes[0][0].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(options.figure, dpi=110)


def main() -> None:
    """Measure, print or draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("measure", help="run the cases")
    one.add_argument("--backend", default="auto")
    one.add_argument("--threads", type=int)
    one.add_argument("--problems", nargs="+", default=["box", "half-space", "full space", "LOH.1"])
    one.add_argument("--cases", nargs="+", default=CASES, metavar="METHOD:ORDER:POINTS", help="[%(default)s]")
    one.add_argument("--references", type=Path, help="folder of the seismograms of the reference")
    one.add_argument("--cost", type=float, help="measure only the cost, by runs of this duration, s")
    one.add_argument("--limit", type=float, default=np.inf, help="begin no case after these seconds")
    one.add_argument("--json", type=Path)
    one.set_defaults(function=measure)
    for name, function in (("table", table), ("draw", draw)):
        two = commands.add_parser(name, help=function.__doc__)
        two.add_argument("records", nargs="+", type=Path)
        two.add_argument("--problem", default="box")
        two.set_defaults(function=function)
    two.add_argument("--figure", type=Path, required=True)
    options = parser.parse_args()
    options.function(options)


if __name__ == "__main__":
    main()
