"""Planted growth after the sources ends a run with the time, the place and the remedy; the records before it remain."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import lithowave as lw
from growing_motion import SOLVERS, closed_box, grow
from lithowave import InstabilityError
from lithowave.run import check_simulation, restart_run
from mpi_runs import on_ranks, write_description
from small_run import StopAt, log_of, report_of, result_of

BEGIN = 1.5  # s


def assert_reported(text: str) -> None:
    """Time, place, and a remedy."""
    assert "unstable at step" in text and " (t = " in text and "after the sources" in text
    assert " m/s near (" in text or " m/s in " in text, text
    assert re.search(r"vs = (1800|2900) m/s|velocities are 1800 to 3000 m/s", text), text
    assert "Likely causes, most likely first:" in text and ("try solver.safety" in text or "move the" in text)


def assert_failed(folder: Path, duration: float = 4.0) -> None:
    """The run has failed soon after the growth began; all records up to then are there, and marked."""
    report = report_of(folder)
    assert report["exit_state"] == "failed"
    assert_reported(report["error"])
    assert "failed: unstable" in log_of(folder)
    with pytest.warns(lw.LithowaveWarning, match="incomplete"):
        records = lw.load_seismograms(folder)
    assert not records.complete
    failed_at = float(re.search(r"t = (\S+) s\)", report["error"])[1])
    assert BEGIN < failed_at < BEGIN + 1.5 < duration
    assert failed_at - 0.021 < records.time[-1] <= failed_at + 1e-9, "up to the last sample before the error"
    assert np.isfinite(records.data).all() and np.abs(records.data[..., records.time > BEGIN]).max() > 0


@pytest.mark.parametrize("method", SOLVERS)
def test_growth_ends_the_run(method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grow(BEGIN, replace=monkeypatch.setattr)
    with pytest.raises(InstabilityError) as caught:
        lw.Simulation(**closed_box(method)).run(output=tmp_path / "run")
    assert_reported(str(caught.value))
    assert_failed(tmp_path / "run")


@pytest.mark.mpi
@pytest.mark.parametrize("method", SOLVERS)
def test_growth_ends_all_ranks(method: str, tmp_path: Path) -> None:
    file = write_description(tmp_path / "box.yaml", closed_box(method))
    text = on_ranks(2, "run", str(file), "--output", str(tmp_path / "run"), device=f"grows at {BEGIN}", status=1)
    assert text.count("error: unstable at step") == 1
    assert_failed(tmp_path / "run")
    assert log_of(tmp_path / "run").count("failed: unstable") == 1
    assert "failed_on_rank" not in report_of(tmp_path / "run"), "no rank is to blame"


@pytest.mark.parametrize("method", SOLVERS)
def test_growth_that_began_before_a_restart_is_found(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Motion that becomes 25 times as large: five times before the restart, and five times after it."""
    middle, end = BEGIN + np.log(5) / 3, BEGIN + np.log(25) / 3
    simulation = lw.Simulation(**closed_box(method))
    grow(BEGIN, end, replace=monkeypatch.setattr)
    plan = check_simulation(simulation, measure=False).plan
    stop = StopAt({round(middle / plan.get("largest_time_step_s", plan["time_step_s"]))})
    assert not result_of(simulation.run, output=tmp_path / "run", callbacks=[stop]).complete
    with pytest.raises(InstabilityError) as caught:
        restart_run(tmp_path / "run", callbacks=[stop])
    assert_reported(str(caught.value))
    assert_failed(tmp_path / "run")
    assert report_of(tmp_path / "run")["failed_at_step"] > report_of(tmp_path / "run")["restarts"][0]["step"]
