"""Benchmarks: records on the CPU and on an emulated CUDA device, and the scripts in `benchmarks`."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lithowave.bench as bench
from cuda_devices import emulate
from cuda_emulation import EmulatedCudaBackend
from finite_difference_plans import plan_on_grid
from lithowave import InputError, ResourceError
from lithowave import bench as default_case
from lithowave.backends import make_backend
from lithowave.backends import measurements as bandwidth
from lithowave.bench import default_simulation
from lithowave.cli import print_benchmarks
from lithowave.run import stored_rates
from lithowave.solvers import METHODS, load_bench_cases, load_method
from lithowave.solvers.common import kernels as timing
from lithowave.solvers.discontinuous_galerkin import bench as discontinuous_galerkin
from lithowave.solvers.finite_difference import bench as finite_difference
from reference_backend import CPU
from slow_variants import slow_except

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
KEYS = {
    "method", "case", "size", "order", "precision", "backend", "device", "devices", "rate", "unit", "limit",
    "limit_fraction", "versions", "commit", "date", "bandwidth", "bytes_per_point", "memory_bytes_per_point", "passes",
}  # fmt: skip
CASES = finite_difference.CASES
BEST_TIME, CALL_TIME = timing.best_time, timing.call_time
SMALL = {"sizes": [(44, 42, 40)], "layer_cells": 5}


class Device(EmulatedCudaBackend):
    """The emulation, with memory and a bandwidth as they are wanted."""

    room = 1 << 40

    def bandwidths(self) -> dict[str, float]:
        return {"copy": 4e12}

    def free_memory(self) -> int:
        return self.room


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure for a short time only."""
    for owner, name, value in (
        (bandwidth, "ELEMENTS", 100_000), (timing, "DEVICE_SECONDS", 0.0), (timing, "FEWEST_CALLS", 1),
        (timing, "best_time", lambda function, *_: BEST_TIME(function, 1)),
        (discontinuous_galerkin, "call_time", lambda call, device, minimum: CALL_TIME(call, device)),
    ):  # fmt: skip
        monkeypatch.setattr(owner, name, value)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA backends are emulated, with memory and a bandwidth as they are wanted."""
    emulate(monkeypatch, make=Device, modules=("bench", "run.launch"))


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports a script of `benchmarks` by name."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module


def assert_record(record: dict[str, Any]) -> None:
    assert set(record) >= KEYS
    assert record["rate"] > 0 and record["unit"] == "points/s" and record["devices"] == 1
    assert record["limit"] == pytest.approx(max(record["bandwidth"].values()) / record["bytes_per_point"])
    assert record["limit_fraction"] == pytest.approx(record["rate"] / record["limit"])
    json.dumps(record, allow_nan=False)


def test_records_on_the_cpu(tmp_path: Path) -> None:
    file = tmp_path / "records.json"
    records = bench.run_benchmarks(
        CASES, **SMALL, backend="cpu", threads=1, receivers=3, steps=20, json_path=file
    )
    assert json.loads(file.read_text()) == records
    assert [record["case"] for record in records] == ["interior", "full", "run"]
    for record in records:
        assert_record(record)
        assert record["size"] == [44, 42, 40] and (record["backend"], record["threads"]) == ("cpu", 1)
    interior, full, run = records
    assert interior["bytes_per_point"] == 120 < full["bytes_per_point"]
    assert set(interior["kernels"]) == {"update_stress", "update_velocity"} and "cupy" not in interior["versions"]
    assert full["layer_cells"] == 5 and full["receivers"] == 3
    assert run["steps"] == 20 and run["fraction_of_bare_kernels"] == run["rate"] / run["bare_kernels_rate"]


def test_records_of_an_interrupted_benchmark_remain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, measured = tmp_path / "records.json", [{"case": "interior"}]

    def measure(*_: object) -> dict[str, Any]:
        if not measured:
            raise KeyboardInterrupt
        return measured.pop()

    monkeypatch.setattr(bench, "measure_task", measure)
    with pytest.raises(KeyboardInterrupt):
        bench.run_benchmarks(CASES, **SMALL, backend="cpu", threads=1, json_path=file)
    assert json.loads(file.read_text()) == [{"case": "interior"}]


@pytest.mark.parametrize("precision", slow_except(["single"], ["single", "double"]))
def test_records_on_a_device(device: None, precision: str) -> None:
    records = bench.run_benchmarks(
        CASES, **SMALL, precisions=[precision], backend="cuda", receivers=7, steps=4
    )
    assert len(records) == 3
    for record in records:
        assert_record(record)
        assert record["backend"] == "cuda" and record["device"] == Device.device and "threads" not in record
        assert record["bandwidth"] == {"copy": 4e12} and record["versions"]["runtime"] == "13.0"
    interior, full, run = records
    assert interior["bytes_per_point"] == (120 if precision == "single" else 240)
    layers = 10 / 44 + 10 / 42 + 5 / 40
    assert full["bytes_per_point"] == pytest.approx(interior["bytes_per_point"] * (1 + layers * 12 / 30))
    assert full["receivers"] == 7 and run["steps"] == 4 and run["loop_s"] > 0


def test_what_does_not_fit_is_left_out(device: None, monkeypatch: pytest.MonkeyPatch) -> None:
    small = plan_on_grid((40, 40, 40), 4, "single").memory_bytes(Device("single"))
    monkeypatch.setattr(Device, "room", 2 * small)
    messages: list[str] = []
    sizes = [(80, 80, 80), (40, 40, 40)]
    records = bench.run_benchmarks(["interior"], sizes, backend="cuda", report=messages.append)
    assert [record["size"] for record in records] == [[40, 40, 40]]
    assert len(messages) == 1 and "80x80x80" in messages[0] and "GB of memory are free" in messages[0]


@pytest.mark.parametrize("cause", [MemoryError, RuntimeError])
def test_only_a_lack_of_memory_is_left_out(device: None, monkeypatch: pytest.MonkeyPatch, cause: type) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ResourceError("as the device said") from cause()

    monkeypatch.setattr(Device, "field", fail)
    messages: list[str] = []
    if cause is MemoryError:
        assert bench.run_benchmarks(["interior"], [(40, 40, 40)], backend="cuda", report=messages.append) == []
        assert "as the device said" in messages[0]
    else:
        with pytest.raises(ResourceError, match="as the device said"):
            bench.run_benchmarks(["interior"], [(40, 40, 40)], backend="cuda", report=messages.append)


@pytest.mark.parametrize("backend", slow_except(["cuda"], ["cpu", "cuda"]))
def test_records_of_spectral_elements(device: None, backend: str) -> None:
    records = bench.run_benchmarks(
        methods=["spectral_element"], sizes=[(4, 5, 4)], degrees=[2, 3], backend=backend, threads=1
    )
    assert [(record["case"], record["degree"]) for record in records] == [
        ("affine", 2), ("deformed", 2), ("attenuating", 2), ("affine", 3), ("deformed", 3), ("attenuating", 3)
    ]  # fmt: skip
    for record in records:
        degree = record["degree"]
        points = (4 * degree + 1) * (5 * degree + 1) * (4 * degree + 1)
        assert set(record) >= (KEYS - {"order", "bytes_per_point", "memory_bytes_per_point", "passes"})
        assert record["unit"] == "elements/s" and record["size"] == [4, 5, 4] and record["gll_points"] == points
        assert record["dof_rate"] == pytest.approx(record["rate"] * 3 * points / 80)
        assert record["limit"] == pytest.approx(max(record["bandwidth"].values()) / record["bytes_per_element"])
        assert record["memory_bytes_per_element"] > 4 * (degree + 1) ** 3
        assert set(record["kernels"]) == {"add_forces", "absorb"}
        json.dumps(record, allow_nan=False)


@pytest.mark.parametrize(
    ("backend", "cases"), [pytest.param("cpu", None, marks=pytest.mark.slow), ("cuda", ["global"])]
)
def test_records_of_discontinuous_galerkin(device: None, backend: str, cases: list[str] | None) -> None:
    records = bench.run_benchmarks(
        cases, [(5, 4, 4)], [2], backend=backend, threads=1, methods=["discontinuous_galerkin"]
    )
    assert [record["case"] for record in records] == (cases or ["global", "local", "attenuating"])
    for record in records:
        assert set(record) >= (KEYS - {"bytes_per_point", "memory_bytes_per_point", "passes"})
        assert record["unit"] == "elements/s" and record["size"] == [5, 4, 4] and record["order"] == 2
        assert record["limit"] == pytest.approx(max(record["bandwidth"].values()) / record["bytes_per_element"])
        assert sum(record["clusters"]) == record["elements"]
        if record["case"] != "attenuating":
            assert record["operations_rate"] == pytest.approx(record["rate"] * record["operations_per_element"])
        json.dumps(record, allow_nan=False)
    assert records[0]["elements"] == 12 * 5 * 4 * 4 and len(records[0]["clusters"]) == 1
    if cases is not None:
        return
    local = records[1]
    assert len(local["clusters"]) > 1 and local["update_gain"] > 1
    assert local["fraction_of_gain"] == pytest.approx(local["time_gain"] / local["update_gain"])


@pytest.mark.parametrize(
    ("cases", "sizes", "options", "methods"),
    [
        (None, None, {}, ["finite_difference", "spectral_element", "discontinuous_galerkin"]),
        (None, None, {"orders": [4]}, ["finite_difference", "discontinuous_galerkin"]),
        (None, None, {"orders": [8]}, ["finite_difference"]),
        (None, None, {"orders": [4, 5]}, ["discontinuous_galerkin"]),
        (None, [(8, 8, 8)], {"orders": [3]}, ["discontinuous_galerkin"]),
        (["local"], [(8, 8, 8)], {}, ["discontinuous_galerkin"]),
        (None, [(64, 64, 64)], {}, ["finite_difference"]),
        (["deformed"], [(8, 8, 8)], {}, ["spectral_element"]),
        (["run"], None, {}, ["finite_difference"]),
        (None, None, {"passes": "one"}, ["finite_difference"]),
        (None, None, {"degrees": [5]}, ["spectral_element"]),
    ],
)
def test_methods_are_those_to_which_the_choices_apply(cases: Any, sizes: Any, options: Any, methods: list[str]) -> None:
    assert bench.choose_methods(None, cases, sizes, options) == methods


# --- scripts


def test_gpu_table(device: None, script: Any, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    setting = finite_difference.BenchSettings(40, 5, 3, steps=4, sample_every=1, snapshot_every=2, peak_motion=True)
    monkeypatch.setitem(finite_difference.SETTINGS, "cuda", setting)
    file = tmp_path / "gpu.json"
    words = ["--sizes", "40", "--orders", "4", "--precisions", "single", "--json", str(file)]
    records = script("gpu").main(words)
    assert [record["case"] for record in records] == ["interior", "full", "run"]
    assert json.loads(file.read_text()) == records
    assert "of its bare kernels" in capsys.readouterr().out


def test_gpu_largest(device: None, script: Any, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = script("gpu")
    room = plan_on_grid((80, 80, 80), 4, "single").memory_bytes(Device("single"))
    monkeypatch.setattr(Device, "room", room)
    monkeypatch.setattr(gpu, "make_backend", lambda *_: Device())
    (record,) = gpu.main(["--largest", "--first", "40"])
    assert record["size"] == [72, 72, 72] and record["memory_bytes"] <= room == record["free_memory_bytes"]
    assert gpu.main(["--largest", "--first", "90"]) == []
    assert "no cube of 90 points or more fits" in capsys.readouterr().out


def test_model_of_the_paper_is_timed(script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(BENCHMARKS.parent / "src"))
    file = tmp_path / "paper.json"
    words = ["--backend", "cpu", "--runs", "1", "--json", str(file), "--at-most", "0"]
    words += ["--set", "duration=0.08", "--set", "solver.spacing=800", "--set", "compute.threads=1"]
    assert script("cpml_paper_model").main(words) == 1
    (record,) = json.loads(file.read_text())
    assert record["command_s"] > record["run_s"] > record["loop_s"] > 0 and record["steps"] == 10


def test_the_ratio_of_two_versions_is_that_of_each_round(
    script: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """The machine becomes slower after the first measurement, which is of the old version."""
    compare = script("compare_versions")
    rates = {"old": iter([400e6, 200e6, 200e6]), "new": iter([220e6, 220e6, 210e6])}
    order = []

    def measure(source: Path, options: str, backend: str) -> list[dict[str, Any]]:
        order.append(source.name)
        return [{"method": "finite_difference", "case": options.split()[-1], "rate": next(rates[source.name])}]

    monkeypatch.setattr(compare, "measure", measure)
    compare.main(["old", "new", "--cases", "cpu", "--only", "FD", "--rounds", "3"])
    assert order == ["old", "new", "new", "old", "old", "new"]
    text = "finite_difference interior,full: 400 -> 220 M/s, 0.5500; rounds 1.0500 (0.5500 to 1.1000)"
    assert capsys.readouterr().out.strip() == text
    with pytest.raises(SystemExit):
        compare.main(["old", "new", "--only", "interior"])
    assert "--only: interior: not among FD one pass" in capsys.readouterr().err


def test_the_own_side_of_the_comparison_with_peers(script: Any) -> None:
    peers, backend = script("peers"), make_backend("cpu", "single", 1)
    layered = peers.Problem(24, 8, 5, "cpu", 1)
    own = peers.Lithowave(layered, backend)
    lam = own.solver.material.arrays["lam"]
    assert np.array_equal(lam[2, 10:-10, 10:-10], lam[10, 10:-10, 10:-10])  # the layers continue the medium
    assert np.array_equal(lam[10, 10:-10, 10:-10], layered.medium["lam"][0])
    seismograms = own.seismograms()
    assert seismograms.shape == (peers.RECEIVERS, layered.record_steps) and own.run(5) > 0
    closed = peers.Lithowave(peers.Problem(24, 0, 5, "cpu", 1), backend)
    early = closed.seismograms()  # nothing returns from the faces
    assert closed.solver.plan.padded_shape() == (28, 28, 28)
    assert peers.relative_difference(seismograms[:, : early.shape[1]], early) < 1e-5
    assert peers.relative_difference(early, 0.0 * early) == np.inf


def test_peers_that_are_missing_are_skipped(script: Any, tmp_path: Path, capsys: Any) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')  # without installed packages
    python.chmod(0o755)
    assert script("peers").main(["--size", "64", "--threads", "1", "--peer-python", str(python)]) == 2
    text = capsys.readouterr().out
    assert text.count("skipped") == 3 and "pip install deepwave" in text and "pip install devito" in text


def test_times_of_the_preparation(script: Any, tmp_path: Path, capsys: Any) -> None:
    file = tmp_path / "preparation.json"
    words = ["--model", "layers", "--elements", "12x8x6", "--threads", "1", "--limit", "1e6", "--json", str(file)]
    assert script("preparation").main(words) == 0
    record = json.loads(file.read_text())
    assert record["elements"] == 12 * 8 * 6 and record["threads"] == 1
    names = [one["name"] for one in record["phases"]]
    assert {"numbers of points", "statistics of elements", "tables of elements", "first step"} <= set(names)
    text = capsys.readouterr().out
    assert all(f"\n{name} " in text for name in names)
    assert record["wall_s"] == pytest.approx(sum(one["wall_s"] for one in record["phases"]))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("attenuating", [False, True])
def test_the_ideal_loop_of_the_default_case_has_the_kernels_of_the_run(method: str, attenuating: bool) -> None:
    compute = {"backend": "cpu", "threads": 1}
    case = default_simulation(method, "attenuating" if attenuating else "elastic", (4, 4, 3), 0.1, compute)
    made = load_method(method).plan(case, CPU)
    name, options = default_case.RATE_CASES[method, attenuating]
    law = {"law": made.law} if method == "finite_difference" else {}
    [task] = load_bench_cases(method).make_tasks(CPU, [name], [(12, 12, 12)], **options, **law)
    assert task.plan.unit_kind == made.unit_kind
    assert 0 < made.domain_count < made.unit_count and task.plan.domain_count == task.plan.unit_count


def test_the_default_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(default_case, "DURATIONS", {"cpu": 0.05})
    monkeypatch.setattr(bench, "kernel_rate", lambda method, device, attenuating, law: (f"{attenuating}, {law}", 1e8))
    file = tmp_path / "default.json"
    records = bench.run_benchmarks(["default"], [(3, 3, 3)], backend="cpu", threads=1, json_path=file,
                                   methods=["finite_difference"])  # fmt: skip
    assert json.loads(file.read_text()) == records
    assert [record["variant"] for record in records] == ["elastic", "attenuating", "outputs"]
    assert [record["kernel_case"].split(",")[0] for record in records] == ["False", "True", "False"]
    for record in records:
        assert record["case"] == "default" and record["size_km"] == [3, 3, 3] and record["order"] == 4
        assert record["time_step_fraction"] == pytest.approx(0.98)
        points = record["ideal_updates"] * record["time_step_s"] / record["time_step_fraction"] / 0.05
        assert points == pytest.approx(40**3), "those of the domain, 39 spacings long"
        assert record["ideal_loop_s"] == pytest.approx(record["ideal_updates"] / 1e8)
        assert record["loop_efficiency"] == pytest.approx(record["ideal_loop_s"] / record["loop_s"])
        assert record["loop_s"] < record["whole_s"] and "other steps" in record["longest_phases"]
    print_benchmarks(records)
    head, *rows, last = capsys.readouterr().out.splitlines()
    assert "ideal loop, s" in head and len(rows) == 3 and "the second one in this process" in last
    assert rows[2].split()[:3] == ["finite_difference", "outputs", "3x3x3"]


@pytest.mark.parametrize(
    ("cases", "options", "words"),
    [(["default", "full"], {}, "combined with other cases"), (["default"], {"orders": [6]}, "--order: does not apply")],
)
def test_the_default_case_has_no_other_options(cases: list[str], options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        bench.run_benchmarks(cases, backend="cpu", **options)


def test_rates_of_usual_sizes_are_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LITHOWAVE_CACHE_DIR", str(tmp_path))
    bench.run_benchmarks(["interior"], [(20, 20, 20)], backend="cpu", threads=1)
    assert stored_rates() == {}, "of another size"
    monkeypatch.setitem(discontinuous_galerkin.SIZES, "cpu", (3, 3, 3))
    [record] = bench.run_benchmarks(["global"], None, [3], backend="cpu", threads=1)
    [(name, rate)] = stored_rates().items()
    assert name.endswith("1 threads, single, discontinuous_galerkin, order 3, isotropic")
    assert rate == {"rate": record["rate"], "origin": "lithowave bench"}
