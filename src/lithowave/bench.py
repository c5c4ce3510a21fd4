"""Benchmarks of kernels, time steps and runs relative to the memory bandwidth of this machine or device.

The bandwidth is measured in the same process. On a CPU, it is that of two loops over arrays much larger than the
caches, with the threads of the kernels: a copy (b = a, 2 words per element) and an update (a += s b, 3 words); on a
CUDA device, that of a copy within its memory. The limit of a time step is the largest bandwidth divided by the minimum
memory traffic from the model in the method's `bench`.

The case of `lithowave bench --case default` is the first example of the README in a larger domain, at its defaults. It
measures entire runs, with absorbing layers, preparation and outputs, instead of kernels.
"""

from __future__ import annotations

import itertools
import json
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from lithowave.backends import make_backend
from lithowave.description.simulation import Simulation
from lithowave.description.solver import METHODS as METHOD_KEYS
from lithowave.errors import InputError, LithowaveWarning, ResourceError
from lithowave.output.run_folder import package_versions, source_commit
from lithowave.run.launch import run_simulation
from lithowave.run.machine_rates import BENCH, store_rate
from lithowave.run.progress import rate_key
from lithowave.solvers import METHODS, load_bench_cases
from lithowave.solvers.interface import BenchTask

if TYPE_CHECKING:
    from lithowave.backends.interface import Backend
    from lithowave.json_types import Entries as Record

DEFAULT = "default"
"""Case of entire runs at their defaults, by all methods."""

RUN_CASES = ("full", "run")
"""Cases whose rates include absorbing layers."""

Shape = tuple[int, int, int]


def run_benchmarks(
    cases: Iterable[str] | None = None,
    sizes: Iterable[Shape] | None = None,
    orders: Iterable[int] | None = None,
    precisions: Iterable[str] = ("single",),
    backend: str = "auto",
    threads: int | None = None,
    *,
    methods: Iterable[str] | None = None,
    json_path: str | Path | None = None,
    report: Callable[[str], None] | None = None,
    **options: object,
) -> list[Record]:
    """Measure each case, size, order or degree, and precision; return one record for each.

    Parameters
    ----------
    cases : for finite differences ``interior`` (no absorbing layers), ``full`` (time steps with a free surface, five
    absorbing faces inside the given size, two sources, receivers recorded at each step), ``run`` (a complete run with
    outputs, on the grid of ``full``); for spectral elements ``affine``, ``deformed``, ``attenuating``,
    ``affine_attenuating``, ``curved``, ``trilinear`` and ``fluid``; for discontinuous Galerkin ``global`` (one time
    step), ``local`` (local time stepping), ``attenuating`` and ``anisotropic``; for all methods ``default`` (entire
    runs of `lithowave.bench`; no other case, order or option). Default: all except ``run``, ``affine_attenuating``,
    ``curved``, ``trilinear``, ``fluid``, ``anisotropic`` and ``default``.
    sizes : grid points along x, y, z, including absorbing layers; or elements; or cubes of twelve tetrahedra; of
    ``default`` the sides of the domain, km. Default: a size suitable for the device; the rates that were measured are
    stored (see `lithowave.run.progress`).
    backend : ``auto`` selects a CUDA device if one is usable. methods : default: all methods that support the cases,
    sizes and options. json_path : file for the records, as a JSON list, which is written after each measurement.
    report : called with a line for each size that does not fit into the memory and is omitted.
    orders, options : for finite differences orders, passes and moduli, as ``solver.passes`` and ``compute.moduli`` of a
    simulation, layer_cells, receivers, steps (see `BenchSettings` there); for spectral elements degrees and
    deterministic; for discontinuous Galerkin orders.
    """
    sizes, cases, orders = (None if one is None else list(one) for one in (sizes, cases, orders))
    options = {name: value for name, value in {"orders": orders, **options}.items() if value is not None}
    if cases and DEFAULT in cases:
        _require_only_default(cases, options)
        devices = [make_backend(backend, precision, threads) for precision in precisions]
        return run_default(list(METHODS if methods is None else methods), sizes, devices, json_path)
    chosen = choose_methods(methods, cases, sizes, options)
    records: list[Record] = []
    for precision in precisions:
        device = make_backend(backend, precision, threads)
        bandwidth = device.bandwidths()
        for method in chosen:
            own = load_bench_cases(method)
            wanted = [case for case in cases or own.USUAL_CASES if case in own.CASES]
            given = {name: value for name, value in options.items() if name in own.OPTIONS}
            for task in own.make_tasks(device, wanted, sizes, **given):
                try:
                    records.append(measure_task(task, bandwidth))
                except TaskTooLargeError as error:
                    if report:
                        report(f"{task.name}, {precision} is omitted: {error}")
                    continue
                if sizes is None and task.case not in (*RUN_CASES, "local"):
                    store_rate(method, task.plan, device, records[-1]["rate"], BENCH)
                _write(json_path, records)
    return records


def run_default(
    methods: Sequence[str], sizes: Sequence[Shape] | None, devices: Sequence[Backend], json_path: str | Path | None
) -> list[Record]:
    """Measure all variants of the default case by each method; return one record for each.

    The ideal loop has the rate of the kernels that is measured in this process, with the law of the run.
    """
    records: list[Record] = []
    for device, method in itertools.product(devices, methods):
        rates: dict[object, tuple[str, float]] = {}
        for size, variant in itertools.product(sizes or [SIZES[device.name]], VARIANTS):
            found = measure_variant(method, variant, size, device)
            kind = variant == "attenuating", found.get("law")
            if kind not in rates:
                rates[kind] = kernel_rate(method, device, *kind)
            records.append({"method": method, "case": DEFAULT} | found | default_entries(found, *rates[kind], device))
            _write(json_path, records)
    return records


def default_entries(found: Record, case: str, rate: float, device: Backend) -> Record:
    """Return the entries of a record of the default case on the ideal loop, with the rate of the kernels of a case, and
    on its origin."""
    ideal = found["ideal_updates"] / rate
    return {
        "kernel_case": case, "kernel_rate": rate, "ideal_loop_s": ideal, "loop_efficiency": ideal / found["loop_s"],
        **_origin(device),
    }  # fmt: skip


def kernel_rate(method: str, device: Backend, attenuating: bool, law: str | None) -> tuple[str, float]:
    """Return the case and the rate, points or elements per second, of the kernels of a run at its defaults."""
    case, options = RATE_CASES[method, attenuating]
    own = load_bench_cases(method)
    [task] = own.make_tasks(device, [case], None, **options, **({} if law is None else {"law": law}))
    rate, _ = measure_steps(task)
    store_rate(method, task.plan, device, rate, BENCH)
    return case, rate


def _require_only_default(cases: Sequence[str], options: Mapping[str, object]) -> None:
    if len(cases) > 1:
        raise InputError("--case", f"{DEFAULT} is combined with other cases", f"allowed: {DEFAULT} alone")
    if options:
        name = next(iter(options)).removesuffix("s").replace("_", "-")
        allowed = "allowed: --method, --size, --precision, --backend, --threads, --json"
        raise InputError(f"--{name}", f"does not apply to the case {DEFAULT}, which runs at its defaults", allowed)


def _write(json_path: str | Path | None, records: Sequence[Record]) -> None:
    if json_path is not None:
        Path(json_path).write_text(json.dumps(records, indent=2) + "\n", encoding="utf-8")


def choose_methods(
    methods: Iterable[str] | None,
    cases: Sequence[str] | None,
    sizes: Sequence[Shape] | None,
    options: Mapping[str, object],
) -> list[str]:
    """Return the methods to measure: `methods`, or by default all methods that support the cases and options.

    Sizes apply to the first of these methods only.

    Raises
    ------
    InputError : no method remains, none of the methods has a case or an option, or a selected method lacks an order.
    """
    named = list(METHODS if methods is None else methods)
    for kind, given, attribute in (("--case", cases or (), "CASES"), ("--method", options, "OPTIONS")):
        for item in given:
            owners = [method for method in named if item in getattr(load_bench_cases(method), attribute)]
            if not owners:
                raise InputError(kind, f"{item} is not supported by {', '.join(named)}", "it belongs to another method")
    orders = list(options.get("orders", ()))
    if methods is not None:
        for method in named:
            _refuse_foreign_orders(method, orders)
        return named
    left = []
    for method in named:
        own = load_bench_cases(method)
        applies = all(name in own.OPTIONS for name in options) and set(orders) <= set(orders_of(method))
        if applies and (not cases or any(case in own.CASES for case in cases)):
            left.append(method)
    if not left:
        raise InputError(
            "--method", "these options and cases belong to different methods", "name one method",
            f"orders are {'; '.join(f'{_choices(m)} of {m}' for m in named if orders_of(m))}" if orders else "",
        )  # fmt: skip
    return left[:1] if sizes else left


def orders_of(method: str) -> tuple[int, ...]:
    """Return the orders of a method; empty if its accuracy is set by a degree."""
    keys = METHOD_KEYS[method]
    return tuple(keys.smallest) if keys.accuracy == "order" else ()


def _choices(method: str) -> str:
    return ", ".join(map(str, orders_of(method)))


def _refuse_foreign_orders(method: str, orders: Sequence[int]) -> None:
    for order in orders:
        if orders_of(method) and order not in orders_of(method):
            raise InputError("--order", f"{order} is not an order of {method}", f"allowed: {_choices(method)}")


class TaskTooLargeError(Exception):
    """A grid or mesh that does not fit into the memory."""


def measure_task(task: BenchTask, bandwidth: dict[str, float]) -> Record:
    """Measure a task and return its record, relative to this bandwidth.

    Raises
    ------
    TaskTooLargeError : its arrays do not fit into the memory.
    """
    needed, free = task.plan.memory_bytes(task.backend), task.backend.free_memory()
    if needed > free:
        raise TaskTooLargeError(f"its arrays require {needed / 1e9:.1f} GB, {free / 1e9:.1f} GB of memory are free")
    try:
        rate, measured = measure_run(task) if task.case == "run" else measure_steps(task)
    except ResourceError as error:
        if isinstance(error.__cause__, MemoryError):
            raise TaskTooLargeError(str(error)) from error
        raise
    return complete(task, rate, bandwidth, measured)


def measure_steps(task: BenchTask) -> tuple[float, Record]:
    """Return the rate of time steps without a time loop, and further measurements."""
    seconds, measured = task.measure()
    return task.plan.unit_count / seconds, measured


def measure_run(task: BenchTask) -> tuple[float, Record]:
    """Return the rate in the time loop of a run, and its ratio to the rate of the kernels, measured afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        report = run_simulation(task.simulation, Path(folder) / "run").report
    seconds, measured = task.measure_bare()
    bare = task.plan.unit_count / seconds
    rate = report[rate_key(task.plan.unit)]
    spans = {name: report[name] for name in ("setup_s", "loop_s", "wall_s")}
    return rate, {"bare_kernels_rate": bare, "fraction_of_bare_kernels": rate / bare, **measured, **spans}


def complete(task: BenchTask, rate: float, bandwidth: dict[str, float], measured: Record) -> Record:
    """Return the record of a measured rate."""
    count, backend, one = task.plan.unit_count, task.backend, task.plan.unit.removesuffix("s")
    bytes_moved = task.step_bytes() / count
    limit = max(bandwidth.values()) / bytes_moved
    return {
        "method": task.method,
        "case": task.case,
        **task.entries(),
        "precision": backend.precision,
        "backend": backend.name,
        "device": backend.device,
        "devices": 1,
        **({} if backend.own_memory else {"threads": backend.threads}),
        "rate": rate,
        "unit": f"{task.plan.unit}/s",
        f"bytes_per_{one}": bytes_moved,
        "bandwidth": bandwidth,
        "limit": limit,
        "limit_fraction": rate / limit,
        f"memory_bytes_per_{one}": task.plan.memory_bytes(task.backend) / count,
        **measured,
        **_origin(backend),
    }


def _origin(backend: Backend) -> Record:
    """Return the entries of a record on its origin."""
    return {
        "versions": package_versions() | backend.facts().get("cuda", {}),
        "commit": source_commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


VARIANTS = ("elastic", "attenuating", "outputs")
"""With quality factors; with snapshots, peak motion and 300 receivers."""

SIZES = {"cpu": (6, 6, 3), "cuda": (36, 36, 12)}  # of the domain, km
DURATIONS = {"cpu": 2.0, "cuda": 6.0}  # s
RECEIVERS = 300
PHASES = 5  # in a record: the longest

RATE_CASES: dict[tuple[str, bool], tuple[str, dict[str, object]]] = {
    ("finite_difference", False): ("interior", {}),
    ("finite_difference", True): ("interior", {"attenuation": "coarse"}),
    ("spectral_element", False): ("affine", {}),
    ("spectral_element", True): ("affine_attenuating", {}),
    ("discontinuous_galerkin", False): ("global", {}),
    ("discontinuous_galerkin", True): ("attenuating", {}),
}
"""Case and options of the bench with the rate of the ideal loop, by method and attenuation."""


def default_simulation(
    method: str, variant: str, size: tuple[float, float, float], duration: float, compute: dict[str, object]
) -> Simulation:
    """Return the simulation of a variant. size : of the domain along x, y, z, km. compute : entries of this section."""
    x, y, z = (1e3 * side for side in size)
    quality = {"qp": 100, "qs": 50} if variant == "attenuating" else {}
    places = [(1000.0, 1500.0)]
    if variant == "outputs":
        places = [(0.8 * x * (number / (RECEIVERS - 1) - 0.5), 0.25 * y) for number in range(RECEIVERS)]
    return Simulation.model_validate({
        "title": f"default, {variant}",
        "domain": {"x": [-x / 2, x / 2], "y": [-y / 2, y / 2], "z": [-z, 0]},
        "material": {"layers": [
            {"top": 0, "vp": 3200, "vs": 1600, "rho": 2300, **quality},
            {"top": -1000, "vp": 5000, "vs": 2800, "rho": 2600, **quality},
        ]},
        "sources": [{
            "position": [0, 0, -2000],
            "double_couple": {"strike": 30, "dip": 60, "rake": 90, "mw": 4.0},
            "time_function": {"gaussian": {"sigma": 0.15, "delay": 0.9}},
        }],
        "receivers": [
            {"network": "XX", "name": f"S{number:03d}", "position": [*place, 0]} for number, place in enumerate(places)
        ],
        "duration": duration,
        "solver": {"max_frequency": 2.6, "method": method},
        "compute": compute,
        "output": {"snapshots": {"interval": 0.1, "plane": {"z": 0}}, "peak_motion": True}
        if variant == "outputs" else {},
    })  # fmt: skip


def measure_variant(method: str, variant: str, size: tuple[float, float, float], device: Backend) -> Record:
    """Run a variant twice in this process, and return the entries of the second run for its record.

    The first run reads or compiles kernels; the second one is that of a notebook or a survey. size : see
    `default_simulation`. device : the backend.
    """
    threads = {} if device.own_memory else {"threads": device.threads}
    compute = {"backend": device.name, "precision": device.precision, **threads}
    simulation = default_simulation(method, variant, size, DURATIONS[device.name], compute)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", LithowaveWarning)
        for _ in range(2):
            begin = time.perf_counter()
            report = run_simulation(simulation, Path(folder) / "run", overwrite=True).report
            whole = time.perf_counter() - begin
    plan = report["plan"]
    phases = sorted(((one["name"], one["wall_s"]) for one in report["phases"]), key=lambda one: -one[1])
    return {
        "variant": variant, "size_km": list(size), "duration_s": simulation.duration, "precision": device.precision,
        "backend": device.name, "device": device.device, "devices": 1, **threads,
        "time_step_s": plan["time_step_s"],
        "time_step_fraction": plan["time_step_s"] / plan["time_step_limit_s"],
        "loop_s": report["loop_s"],
        "ideal_updates": report["ideal_updates"],
        "whole_s": whole,
        "rate": report[rate_key(report["unit"])],
        "unit": f"{report['unit']}/s",
        "longest_phases": {name: round(seconds, 4) for name, seconds in phases[:PHASES]},
        **({"law": plan["effective_medium"]} if "effective_medium" in plan else {}),
        **{key: plan[key] for key in ("order", "degree") if key in plan},
    }  # fmt: skip
