"""The script that measures how a step goes on several ranks, and the model that carries it on to more."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mpi_runs import rank_command

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
TINY = ["--backend", "cpu", "--steps", "2", "--rounds", "1", "--layer-cells", "3", "--order", "4"]


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of the model."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("scaling_model")


@pytest.fixture
def script(model: Any) -> Any:
    """The module of the script."""
    return importlib.import_module("scaling")


def truth(model: Any, **changes: Any) -> Any:
    """What records are made of: a GPU of 20 thousand million points a second."""
    entries = {
        "unit": "points", "unit_s": 5e-11, "fixed_s": 2e-5, "cut_s": 3e-5, "cut_s_per_byte": 1e-12, "exchange_s": 8e-6,
        "latency_s": 4e-6, "s_per_byte": 1 / 270e9, "exposed": 0.05, "face_bytes": 48.0, "units": 512.0**3,
        "separate": True,
    }  # fmt: skip
    return model.Model(**(entries | changes))


def record(model: Any, made: Any, ranks: int, side: int, kind: str = "weak") -> dict[str, Any]:
    """What `measure` would find if the model were true."""
    counts = model.cubic_counts(ranks)
    each = side**3 if kind == "weak" else side**3 / ranks
    sent, others = model.faces_of(counts) * made.face_bytes * each ** (2 / 3), model.neighbors_of(counts)
    alone = made.alone_time(each)
    silent = alone + made.cut_s + made.cut_s_per_byte * sent
    exchange = made.exchange_time(others, sent)
    best = {"alone": alone} if ranks == 1 else {
        "overlapped": silent + made.exposed * exchange, "waited": silent + exchange, "silent": silent,
    }  # fmt: skip
    return {
        "method": "finite_difference", "accuracy": "order 4", "precision": "single", "device": "GPU", "options": {},
        "kind": kind, "ranks": ranks, "size": [side] * 3, "whole": [side * count for count in counts],
        "parts": list(counts) if ranks > 1 else None, "unit": "points", "units": ranks * each, "updates": ranks * each,
        "sent_bytes": 0 if ranks == 1 else sent, "neighbors": 0 if ranks == 1 else others, "best_s": best,
    }  # fmt: skip


# --- blocks


# --- the fit


def test_the_fit_finds_what_the_records_were_made_of(model: Any) -> None:
    made = truth(model)
    records = [record(model, made, ranks, side) for ranks in (1, 2, 4, 8) for side in (128, 256, 512)]
    found = model.fit_model(records)
    for name in ("unit_s", "fixed_s", "cut_s", "cut_s_per_byte", "exchange_s", "latency_s", "s_per_byte", "exposed",
                 "face_bytes", "units"):  # fmt: skip
        assert getattr(found, name) == pytest.approx(getattr(made, name), rel=1e-6), name
    assert found.separate and dict(found.lines())["bandwidth"] == "270 GB/s each way"


# --- the prediction


def test_a_prediction_by_hand(model: Any) -> None:
    made, units = truth(model), 512.0**3
    area = 48.0 * 512.0**2
    work = units * 5e-11
    inside = made.predict(8, units)
    exchange = 8e-6 + 7 * 4e-6 + 3 * area / 270e9
    assert inside.exchange_s == pytest.approx(exchange)
    assert inside.exposed_s == pytest.approx(0.05 * exchange)
    assert inside.step_s == pytest.approx(2e-5 + work + 3e-5 + 1e-12 * 3 * area + 0.05 * exchange)
    outside = made.predict(64, units)  # 4 x 4 x 4, hosts of 4 x 2 x 1: 3 of 6 faces and 5 of 26 others in the host
    exchange = 8e-6 + 26 * 4e-6 + 21 * 3e-6 + 3 * area / 270e9 + 3 * area / 50e9
    assert outside.exchange_s == pytest.approx(exchange)
    alone = made.predict(1, units)
    assert (alone.exchange_s, alone.exposed_s) == (0, 0) and alone.step_s == pytest.approx(made.alone_time(units) + 0)


# --- the script


def test_tables_figures_and_predictions(
    script: Any, model: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made, file, figure = truth(model), tmp_path / "records.json", tmp_path / "scaling.png"
    records = [record(model, made, ranks, side) for ranks in (1, 2, 4) for side in (128, 512)]
    records += [record(model, made, ranks, 512, "strong") for ranks in (1, 2)]
    file.write_text(json.dumps(records))
    script.main(["table", str(file)])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + len(records) and sum("| 100.0% |" in line for line in lines) == 3
    script.main(["figure", str(file), "--output", str(figure)])
    assert figure.stat().st_size > 10_000
    script.main(["fit", str(file)])
    assert "2e+10 points/s" in capsys.readouterr().out
    script.main(["predict", str(file), "--ranks", "8", "4096"])
    text = capsys.readouterr().out
    assert "assumed between hosts of 8 devices: 50 GB/s for each device, 3 us more" in text
    assert "| 4096 | 16 x 16 x 16 |" in text


def assert_measured(found: dict[str, Any], ranks: int) -> None:
    assert found["ranks"] == ranks and found["finite"] and found["method"] == "finite_difference"
    assert {"device", "versions", "commit", "date", "precision"} <= set(found)
    assert all(len(times) == 1 and times[0] > 0 for times in found["times_s"].values())


@pytest.mark.mpi
def test_two_ranks_are_measured_in_three_ways(tmp_path: Path) -> None:
    file = tmp_path / "records.json"
    command, environment = rank_command(2, [])
    start = command[: command.index(sys.executable) + 1]
    words = ["measure", "--method", "finite_difference", "--kind", "weak", "--size", "20x16x16", "--json", str(file)]
    done = subprocess.run(
        [*start, str(BENCHMARKS / "scaling.py"), *words, *TINY], env=environment, capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    (found,) = json.loads(file.read_text())
    assert_measured(found, 2)
    assert set(found["best_s"]) == {"overlapped", "waited", "silent"} and found["whole"] == [20, 32, 16]
    assert found["parts"] == [1, 2, 1] and found["neighbors"] == 1
    assert found["sent_bytes"] == 4 * 3 * 4 * 20 * 16, "three velocities in four layers (order 4)"
