"""The efficiency of the time loop that `lithowave run` prints and stores."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from small_run import lithowave, write_small


def test_a_run_states_its_efficiency_after_a_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LITHOWAVE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    file = write_small(tmp_path)
    text = lithowave("run", file, "--output", tmp_path / "first", "--backend", "cpu")
    assert "efficiency: unknown, as no rate of this device is stored" in text
    report = json.loads((tmp_path / "first" / "run.json").read_text())
    assert report["loop_efficiency"] is None and report["ideal_updates"] > 0 and "stored_rate" not in report
    lithowave("check", file, "--backend", "cpu")
    text = lithowave("run", file, "--output", tmp_path / "second", "--backend", "cpu")
    report = json.loads((tmp_path / "second" / "run.json").read_text())
    assert report["stored_rate_origin"] == "lithowave check"
    assert report["ideal_loop_s"] == pytest.approx(report["ideal_updates"] / report["stored_rate"])
    assert report["loop_efficiency"] == pytest.approx(report["ideal_loop_s"] / report["loop_s"])
    [line] = [line for line in text.splitlines() if line.startswith("efficiency: ")]
    assert line.startswith(f"efficiency: {report['loop_efficiency']:.0%} (loop ")
    assert line.endswith(f"largest loss: {report['loop_losses'][0]['text']}")
