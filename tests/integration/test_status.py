"""What `lithowave status` tells of runs in every state."""

from __future__ import annotations

import json
import os
import re
import signal
import time

import pytest

from lithowave.run import HEARTBEAT_TIMEOUT, run_state
from small_run import lithowave, log_of, report_of, settings, signal_after, spawn, write_small

PLAIN = settings("output.snapshots=[]", "output.peak_motion=false")


def status(folder) -> dict:
    return json.loads(lithowave("status", folder, "--json"))


def test_a_finished_run(tmp_path):
    folder = tmp_path / "run"
    lithowave("run", write_small(tmp_path), "--output", folder, *PLAIN)
    assert lithowave("status", folder).startswith(f"{folder}: finished: in ")
    state = status(folder)
    assert (state["state"], state["unit"]) == ("finished", "points") and state["rate_points_per_s"] > 0
    assert "resumable_from_step" not in state


def test_no_run(tmp_path):
    assert "is not a run folder: run.json is missing" in lithowave("status", tmp_path, status=2)
    assert "the folder does not exist" in lithowave("status", tmp_path / "none", status=2)
    assert run_state(tmp_path).text() == "waiting"


def test_a_run_that_failed(tmp_path):
    folder = tmp_path / "run"
    before = """
        from lithowave import ResourceError
        from lithowave.solvers.finite_difference.solver import FiniteDifferenceSolver as Solver
        advance = Solver.advance
        def fail(self, step):
            advance(self, step)
            if step == 79:
                raise ResourceError("the device is gone.")
        Solver.advance = fail
    """
    process = spawn("run", write_small(tmp_path), "--output", folder, *PLAIN, before=before)
    assert process.returncode == 1
    step = int(log_of(folder).split(": checkpoint")[-2].split()[-1])
    assert step > 0
    text = lithowave("status", folder)
    assert f"failed at step 79: the device is gone; `lithowave restart {folder}` resumes from step {step}" in text
    assert status(folder)["error"] == "the device is gone."


def test_a_run_on_another_machine_is_known_by_its_progress(tmp_path):
    """Locks of another machine may not be seen here."""
    folder = tmp_path / "run"
    before = signal_after(60, signal.SIGKILL, pause=0.01)
    spawn("run", write_small(tmp_path), "--output", folder, *PLAIN, before=before)
    assert status(folder)["state"] == "lost"
    report = report_of(folder) | {"host": "another-machine"}
    (folder / "run.json").write_text(json.dumps(report))
    assert (folder / "progress.json").exists() and status(folder)["state"] == "running"
    long_ago = time.time() - 2 * HEARTBEAT_TIMEOUT
    for name in ("progress.json", "log.txt"):
        os.utime(folder / name, (long_ago, long_ago))
    assert status(folder)["state"] == "lost"
    words = "unless it still runs on another-machine, which last reported 2 min"
    assert words in lithowave("status", folder)


def test_a_running_run(tmp_path):
    folder = tmp_path / "run"
    file = write_small(tmp_path, ("duration: 0.8", "duration: 60"))
    process = spawn("run", file, "--output", folder, *PLAIN, wait=False)
    patience = time.monotonic() + 60
    while not (folder / "run.json").exists():
        assert process.poll() is None and time.monotonic() < patience
        time.sleep(0.01)
    seen = [lithowave("status", folder)]
    while not re.search(r" of \d{4} \(", seen[-1]):
        assert process.poll() is None and time.monotonic() < patience
        seen.append(lithowave("status", folder))
        time.sleep(0.02)
    state = status(folder)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert "running: preparing, no step completed" in seen[0]
    assert state["state"] == "running" and 6000 < state["steps"] < 9000
    assert status(folder)["state"] == "stopped"


@pytest.mark.parametrize("content", ["", "{"])
def test_progress_that_is_not_complete_is_no_error(tmp_path, content):
    (tmp_path / "run.json").write_text('{"exit_state": "running", "host": "another-machine"}')
    (tmp_path / "progress.json").write_text(content)
    assert run_state(tmp_path).text() == "running: preparing, no step completed"
