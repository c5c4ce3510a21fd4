"""Times of the phases of a run."""

from __future__ import annotations

import ast
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from lithowave.process import phase, record_phases, recorded_phases


def test_times_of_nested_phases_add_up() -> None:
    with record_phases() as phases:
        begin = time.perf_counter()
        with phase("outer"):
            time.sleep(0.02)
            with phase("inner"):
                time.sleep(0.04)
        phase("outer")(time.sleep)(0.03)
        elapsed = time.perf_counter() - begin
    assert list(phases.seconds) == ["outer", "inner"]
    assert 0.05 <= phases.seconds["outer"] <= elapsed - 0.04
    assert 0.04 <= phases.seconds["inner"] <= elapsed - 0.05
    assert sum(phases.seconds.values()) == pytest.approx(elapsed, abs=2e-3)
    assert [one["name"] for one in phases.table()] == ["outer", "inner"]


def test_phases_are_those_of_one_thread() -> None:
    with record_phases() as phases:
        other = threading.Thread(target=phase("other")(lambda: None))
        other.start()
        other.join()
        assert recorded_phases() is phases
    assert phases.seconds == {} and recorded_phases() is not phases


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system does not report the start of a process")
def test_the_start_of_a_process_is_a_phase() -> None:
    code = "import time; time.sleep(0.2); from lithowave.process import start_of_process; print(start_of_process())"
    begin = time.perf_counter()
    text = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    elapsed = time.perf_counter() - begin
    [found] = ast.literal_eval(text)
    assert found["name"] == "start" and 0.19 <= found["wall_s"] <= elapsed + 0.02
    assert 0 < found["cpu_s"] <= found["wall_s"]
