"""How well a step goes on several ranks: measured, set beside each other, drawn, and carried on to more ranks.

    mpiexec -n 4 python benchmarks/scaling.py measure --method finite_difference --kind weak --size 512 --json fd.json
    python benchmarks/scaling.py table fd.json
    python benchmarks/scaling.py figure fd.json --output fd.png
    python benchmarks/scaling.py fit fd.json
    python benchmarks/scaling.py predict fd.json --ranks 64 256 1024 4096

A step is a whole one: absorbing layers or sides, a free surface, a source; no output. It is timed in four ways, as
papers do it: alone (on one rank); with messages hidden behind work (overlapped); with messages that all work waits for
(waited); and with none sent (silent: wrong results, of which nothing but the time is used). Then waited - silent is
what the exchange takes, overlapped - silent what of it is not hidden, and silent - alone what it costs to be cut.

The ways take turns, on the same arrays. Fields begin with small noise: on a CPU arithmetic with zeros and, once waves
have faded, with denormal numbers has speeds of its own; on a GPU it makes no difference.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import statistics
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lithowave.backends import make_backend
from lithowave.description.simulation import Simulation
from lithowave.errors import InputError
from lithowave.output.run_folder import package_versions, source_commit
from lithowave.parallel.halo import Halo, device_index, require_own_device
from lithowave.parallel.ranks import Ranks, make_ranks
from lithowave.solvers import METHODS, load_method
from scaling_model import (
    NETWORK_BANDWIDTH,
    NETWORK_LATENCY,
    Model,
    cubic_counts,
    efficiency,
    fit_model,
    group_of,
    grouped,
    require_records,
)

Record = dict[str, Any]
SINGLE_RANK = {"alone": (True, True)}
WAYS = {"overlapped": (True, False), "waited": (False, False), "silent": (True, True)}  # halo.overlap, halo.silent
WARM, FEWEST, MOST = 6, 4, 5000  # steps
SPACING = {"finite_difference": 100.0, "spectral_element": 400.0, "discontinuous_galerkin": 400.0}
SIZE_OF = {"finite_difference": "points", "spectral_element": "elements", "discontinuous_galerkin": "cubes"}
NOISY_PLANES = {"finite_difference": {"every": 8}}  # on a device, where filling all planes takes long


# ------------------------------------------------------------------------------------------------------- measure


def triple(text: str) -> tuple[int, int, int]:
    """``512`` or ``512x512x256``."""
    parts = [int(part) for part in text.split("x")]
    if len(parts) not in (1, 3) or min(parts) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no size: expected 512, or 512x512x256")
    return tuple(parts * (3 if len(parts) == 1 else 1))


def description(arguments: argparse.Namespace, whole: tuple[int, ...], ranks: int) -> dict[str, Any]:
    """A half-space with a source inside; whole : points, layers included, or elements, or cubes, along x, y, z."""
    method, h = arguments.method, SPACING[arguments.method]
    solver: dict[str, Any] = {"method": method, "spacing": h}
    compute = {"backend": arguments.backend, "precision": arguments.precision, "transport": arguments.transport}
    boundaries: dict[str, Any] = {}
    if method == "finite_difference":
        boundaries["layer"] = {"cells": arguments.layer_cells}
        sides = [h * (n - 1 - k * arguments.layer_cells) for n, k in zip(whole, (2, 2, 1), strict=True)]
        solver |= {"order": arguments.order or 4, "passes": arguments.passes}
        if arguments.parts and ranks > 1:
            compute["parts"] = list(arguments.parts)
    else:
        sides = [h * n for n in whole]
        if method == "spectral_element":
            solver["degree"] = arguments.degree
        else:
            solver |= {"order": arguments.order or 5, "local_time_steps": arguments.local_time_steps}
    x, y, z = sides
    return {
        "title": "scaling", "domain": {"x": [0, x], "y": [0, y], "z": [-z, 0]}, "boundaries": boundaries,
        "material": {"homogeneous": {"vp": 5000.0, "vs": 2900.0, "rho": 2500.0}},
        "sources": [
            {
                "position": [0.51 * x, 0.49 * y, -0.3 * z], "moment_tensor": {"xy": 1e15},
                "time_function": {"gaussian": {"sigma": 0.5, "delay": 2.5}},
            }
        ],
        "receivers": [{"network": "XX", "name": "A", "position": [0.25 * x, 0.25 * y, 0.0]}],
        "duration": 100.0, "solver": solver, "compute": compute, "output": {"directory": "scaling"},
    }  # fmt: skip


class CountingHalo(Halo):
    """A halo that knows what was sent, and to whom; overlap : False to receive messages before any further work."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.overlap, self.sent_bytes, self.others = True, 0, set()

    def message(self, sends: Any, receives: Any) -> Any:
        """See `Halo`."""
        made = super().message(sends, receives)
        start, finish = made.start, made.finish

        def counted(pack: Any) -> None:
            self.sent_bytes += made.nbytes
            self.others |= set(made.sends)
            start(pack)
            if not self.overlap:
                finish(lambda: None)

        def finished(unpack: Any) -> None:
            finish(unpack) if self.overlap else unpack()

        made.start, made.finish = counted, finished
        return made


class Clockwork:
    """Times steps of a solver on all ranks."""

    def __init__(self, ranks: Ranks, backend: Any, solver: Any) -> None:
        self.ranks, self.backend, self.solver, self.step = ranks, backend, solver, 0

    def __call__(self, steps: int) -> float:
        """Seconds of a step, of the slowest rank."""
        self.backend.synchronize()
        self.ranks.barrier()
        begin = time.perf_counter()
        for _ in range(steps):
            self.solver.advance(self.step)
            self.step += 1
        self.backend.synchronize()
        return self.ranks.largest((time.perf_counter() - begin) / steps)


def measure(arguments: argparse.Namespace, ranks: Ranks) -> Record:
    """One record, the same on all ranks."""
    whole = arguments.size
    parts = arguments.parts or cubic_counts(ranks.size)
    if math.prod(parts) != ranks.size:
        raise InputError("--parts", f"{' x '.join(map(str, parts))} parts for {ranks.size} ranks", "Each has one")
    if arguments.kind == "weak":
        whole = tuple(n * count for n, count in zip(arguments.size, parts, strict=True))
    simulation = Simulation.model_validate(description(arguments, whole, ranks.size))
    method, compute = load_method(arguments.method), simulation.compute
    backend = make_backend(
        compute.backend, compute.precision, arguments.threads, lambda count: device_index(ranks, count)
    )
    require_own_device(ranks, backend)
    plan = method.plan(simulation, backend, ranks)
    with CountingHalo(ranks, backend, compute.transport) as halo:
        solver = method.Solver(plan, simulation, backend, halo)
        noise = importlib.import_module(f"{METHODS[arguments.method]}.bench").fill_with_noise
        noise(solver, **(NOISY_PLANES.get(arguments.method, {}) if backend.own_memory else {}))
        times, steps = take_turns(arguments, halo, Clockwork(ranks, backend, solver))
        sent = ranks.largest(halo.sent_bytes / max(1, sum(len(one) for one in times.values()) * steps))
        finite = bool(ranks.smallest(float(abs(solver.largest_velocity()) < float("inf"))))
        facts = backend.facts() | halo.facts()
        neighbors = int(ranks.largest(len(halo.others)))
    summary = plan.summary()
    return {
        "method": arguments.method, "kind": arguments.kind, "ranks": ranks.size, "size": list(arguments.size),
        "size_of": SIZE_OF[arguments.method], "whole": list(whole), "parts": summary.get("parts"), "unit": plan.unit,
        "units": plan.unit_total, "updates": plan.unit_count, "accuracy": accuracy(simulation),
        "options": options(arguments), "passes": summary.get("passes"), "steps": steps, "neighbors": neighbors,
        "sent_bytes": round(sent),
        "best_s": {way: min(seconds) for way, seconds in times.items()},
        "median_s": {way: statistics.median(seconds) for way, seconds in times.items()}, "times_s": times,
        "finite": finite, **facts, "versions": package_versions(), "commit": source_commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }  # fmt: skip


def take_turns(
    arguments: argparse.Namespace, halo: CountingHalo, clockwork: Clockwork
) -> tuple[dict[str, list[float]], int]:
    """Seconds of a step in each way, one for each round; and the steps in which each was taken."""
    ways = SINGLE_RANK if halo.alone else WAYS
    for halo.overlap, halo.silent in ways.values():  # compile, and capture graphs
        clockwork(WARM)
    halo.overlap, halo.silent = next(iter(ways.values()))
    steps = arguments.steps or min(MOST, max(FEWEST, round(arguments.seconds / clockwork(WARM))))
    times: dict[str, list[float]] = {way: [] for way in ways}
    sent = 0
    for _ in range(arguments.rounds):
        for way, (halo.overlap, halo.silent) in ways.items():
            clockwork(WARM)
            before = halo.sent_bytes
            times[way].append(clockwork(steps))
            sent += halo.sent_bytes - before
    halo.sent_bytes = sent
    return times, steps


def accuracy(simulation: Simulation) -> str:
    """``order 4``, ``degree 5``."""
    solver = simulation.solver
    return f"degree {solver.degree}" if solver.degree is not None else f"order {solver.order}"


def options(arguments: argparse.Namespace) -> dict[str, Any]:
    """What else makes records comparable."""
    if arguments.method == "finite_difference":
        return {"layer_cells": arguments.layer_cells, "passes": arguments.passes}
    if arguments.method == "discontinuous_galerkin":
        return {"local_time_steps": arguments.local_time_steps}
    return {}


def append(path: Path, record: Record) -> None:
    """Put a record behind those of a JSON list."""
    records = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    path.write_text(json.dumps([*records, record], indent=2) + "\n", encoding="utf-8")


def tell_record(record: Record) -> None:
    """One line for each way."""
    whole = " x ".join(map(str, record["whole"]))
    print(
        f"{record['method']}, {record['accuracy']}, {record['kind']}, {record['ranks']} ranks, {whole} "
        f"{record['size_of']}, {record['device']}: {record['sent_bytes'] / 1e6:.3g} MB a step to at most "
        f"{record['neighbors']} others"
    )
    for way, best in record["best_s"].items():
        rate = f"{record['updates'] / best:.4g} {record['unit']}/s"
        print(f"  {way:>10} {1e3 * best:9.4g} ms (median {1e3 * record['median_s'][way]:.4g}), {rate}")
    if not record["finite"]:
        print("  the fields are not finite: do not trust the times of a CPU")


# --------------------------------------------------------------------------------------- tables, figures, the model


def table_rows(records: Iterable[Record]) -> list[list[str]]:
    """Of records, those that can be compared below each other."""
    rows = []
    for _, members in grouped(records).items():
        alone = next((one for one in members if one["ranks"] == 1), None)
        for one in members:
            best = one["best_s"]
            silent, shown = best.get("silent"), best.get("overlapped", best.get("alone"))
            exchange = None if silent is None else best["waited"] - silent
            left = None if silent is None else best["overlapped"] - silent
            rows.append(
                [
                    one["method"], one["accuracy"], one["kind"], str(one["ranks"]), "x".join(map(str, one["whole"])),
                    f"{1e3 * shown:.4g}", _milliseconds(best.get("waited")), _milliseconds(silent),
                    _milliseconds(exchange), _milliseconds(left), f"{one['sent_bytes'] / 1e6:.3g}",
                    f"{efficiency(one, alone):.1%}" if alone else "-",
                ]
            )  # fmt: skip
    return rows


HEAD = (
    "method", "accuracy", "kind", "ranks", "size", "step ms", "waited ms", "silent ms", "exchange ms", "not hidden ms",
    "MB sent", "efficiency",
)  # fmt: skip


def _milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1e3 * seconds:.4g}"


def print_table(head: Iterable[str], rows: list[list[str]]) -> None:
    """As Markdown."""
    print("| " + " | ".join(head) + " |")
    print("| " + " | ".join("---" for _ in head) + " |")
    for row in rows:
        print("| " + " | ".join(row) + " |")


def draw(records: list[Record], path: Path) -> None:
    """Efficiency over ranks, and the parts of a step."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 3.8), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    groups = [(group, members) for group, members in grouped(records).items() if len(members) > 1]
    for group, members in groups:
        alone = next((one for one in members if one["ranks"] == 1), None)
        size = "x".join(map(str, group.size))
        label = f"{group.method.replace('_', ' ')}, {group.accuracy}, {group.kind}, {size}"
        ranks = [one["ranks"] for one in members]
        if alone:
            left.plot(ranks, [efficiency(one, alone) for one in members], "o-", label=label)
        several = [one for one in members if one["ranks"] > 1]
        exchange = [1e3 * (one["best_s"]["waited"] - one["best_s"]["silent"]) for one in several]
        exposed = [1e3 * (one["best_s"]["overlapped"] - one["best_s"]["silent"]) for one in several]
        (line,) = right.plot([one["ranks"] for one in several], exchange, "o-", label=f"{label}: exchange")
        right.plot([one["ranks"] for one in several], exposed, "o:", color=line.get_color(), label="not hidden")
    numbers = sorted({one["ranks"] for one in records})
    for axes, what in ((left, "efficiency"), (right, "ms in a step")):
        axes.set(xlabel="ranks", ylabel=what, xscale="log")
        axes.set_xticks(numbers, map(str, numbers))
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize=7)
    left.set_ylim(0, 1.1)
    figure.savefig(path, dpi=160)


def of_one_transport(records: list[Record]) -> list[Record]:
    """Those of one rank, and those of several whose messages go the way of most."""
    ways = [record.get("transport") for record in records if record["ranks"] > 1]
    usual = max(ways, key=ways.count, default=None)
    return [record for record in records if record["ranks"] == 1 or record.get("transport") == usual]


def models(records: Iterable[Record]) -> list[tuple[Any, Model]]:
    """The model of each method, accuracy and device that has records of one and of several ranks."""
    found, reasons = [], []
    for key, members in grouped(records, by=group_of).items():
        members = of_one_transport(members)
        try:
            require_records(members, str(key))
        except SystemExit as lacking:  # the others may have all that is needed
            reasons.append(str(lacking))
            continue
        found.append((key, fit_model(members)))
    if not found:
        raise SystemExit("\n".join(reasons))
    for reason in reasons:
        print(reason)
    return found


def tell_models(arguments: argparse.Namespace) -> None:
    """What was fitted."""
    for key, model in models(load(arguments.files)):
        print(key)
        for name, value in model.lines():
            print(f"  {name:>26}  {value}")


def tell_predictions(arguments: argparse.Namespace) -> None:
    """Weak and strong scaling by the model."""
    for key, model in models(load(arguments.files)):
        each, total = arguments.units or model.units, arguments.total or 8 * (arguments.units or model.units)
        print(
            f"{key}\nassumed between hosts of {arguments.devices} devices: {arguments.bandwidth / 1e9:g} GB/s for each "
            f"device, {1e6 * arguments.latency:g} us more\n"
            f"weak: {each:.4g} {model.unit} a rank; strong: {total:.4g} in all"
        )
        rows = []
        for ranks in arguments.ranks:
            network = (arguments.devices, arguments.latency, arguments.bandwidth)
            weak, strong = model.predict(ranks, each, *network), model.predict(ranks, total / ranks, *network)
            rows.append(
                [
                    str(ranks), " x ".join(map(str, cubic_counts(ranks))), f"{1e3 * weak.step_s:.4g}",
                    f"{1e3 * weak.exchange_s:.3g}", f"{1e3 * weak.exposed_s:.3g}",
                    f"{model.alone_time(each) / weak.step_s:.1%}", f"{1e3 * strong.step_s:.4g}",
                    f"{model.alone_time(total) / (ranks * strong.step_s):.1%}",
                ]
            )  # fmt: skip
        print_table(
            ("ranks", "parts", "weak: step ms", "exchange ms", "not hidden ms", "efficiency", "strong: step ms",
             "efficiency"), rows,
        )  # fmt: skip


def load(files: Iterable[Path]) -> list[Record]:
    """The records of all files."""
    return [record for path in files for record in json.loads(path.read_text(encoding="utf-8"))]


# ------------------------------------------------------------------------------------------------- command line


def parse_arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("measure", help="on the ranks of mpiexec; appends a record")
    one.add_argument("--method", choices=tuple(METHODS), required=True)
    one.add_argument("--kind", choices=("weak", "strong"), required=True, help="size of each rank, or of all together")
    one.add_argument("--size", type=triple, required=True, help="points, elements or cubes of twelve tetrahedra")
    one.add_argument("--parts", type=triple, help="ranks along x, y, z; default: as cubic as can be, most along y")
    one.add_argument("--order", type=int, help="default: 4 of finite differences, 5 of discontinuous Galerkin")
    one.add_argument("--degree", type=int, default=4, help="of spectral elements")
    one.add_argument("--layer-cells", type=int, default=16, help="of finite differences, inside the size")
    one.add_argument("--passes", choices=("auto", "one", "two"), default="auto")
    one.add_argument("--local-time-steps", action="store_true", help="of discontinuous Galerkin, around the source")
    one.add_argument("--backend", choices=("auto", "cpu", "cuda"), default="auto")
    one.add_argument("--precision", choices=("single", "double"), default="single")
    one.add_argument("--transport", choices=("auto", "peer", "nccl", "host"), default="auto")
    one.add_argument("--threads", type=int, default=1, help="of each rank on a CPU")
    one.add_argument("--seconds", type=float, default=1.0, help="about, for each way in each round")
    one.add_argument("--steps", type=int, help="for each way in each round, in place of --seconds")
    one.add_argument("--rounds", type=int, default=5)
    one.add_argument("--json", type=Path, help="append the record there")
    for name, what in (("table", "efficiencies"), ("figure", "draw them"), ("fit", "fit the model"),
                       ("predict", "carry the model on to more ranks")):  # fmt: skip
        commands.add_parser(name, help=what).add_argument("files", type=Path, nargs="+")
    commands.choices["figure"].add_argument("--output", type=Path, default=Path("scaling.png"))
    more = commands.choices["predict"]
    more.add_argument("--ranks", type=int, nargs="+", default=[64, 256, 1024, 4096])
    more.add_argument("--units", type=float, help="of each rank (weak); default: the most that was measured")
    more.add_argument("--total", type=float, help="of all ranks (strong); default: eight times that")
    more.add_argument("--devices", type=int, default=8, help="of a host")
    more.add_argument("--bandwidth", type=float, default=NETWORK_BANDWIDTH, help="bytes/s of a device between hosts")
    more.add_argument("--latency", type=float, default=NETWORK_LATENCY, help="s, of a message between hosts, added")
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> None:
    arguments = parse_arguments(words)
    if arguments.command == "measure":
        ranks = make_ranks()
        record = measure(arguments, ranks)
        if ranks.is_root:
            tell_record(record)
            if arguments.json:
                append(arguments.json, record)
    elif arguments.command == "table":
        print_table(HEAD, table_rows(load(arguments.files)))
    elif arguments.command == "figure":
        draw(load(arguments.files), arguments.output)
        print(arguments.output)
    elif arguments.command == "fit":
        tell_models(arguments)
    else:
        tell_predictions(arguments)


if __name__ == "__main__":
    main()
