"""Surveys on Dask Distributed, started as users do: a killed worker, a killed scheduler; results as of a local run."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import lithowave as lw
from lithowave.shots import survey_state
from small_run import lithowave, report_of, spawn
from small_survey import write_survey

pytestmark = pytest.mark.slow
SLOW_STEPS = Path(__file__).parents[1] / "support" / "slow_steps"


@contextmanager
def dask(tmp_path: Path, port: int) -> Iterator[tuple[subprocess.Popen, list[subprocess.Popen]]]:
    """A scheduler and two workers of one thread, whose shots run for ten seconds."""
    pytest.importorskip("distributed", reason="Dask Distributed is not installed")
    paths = os.pathsep.join([str(SLOW_STEPS), *sys.path])
    environment = {**os.environ, "PYTHONPATH": paths, "LITHOWAVE_STEP_PAUSE": "0.08"}
    programs: list[subprocess.Popen] = []

    def start(name: str, *arguments: str) -> subprocess.Popen:
        with open(tmp_path / f"{name}_{len(programs)}.txt", "w") as said:
            command = [sys.executable, "-m", f"distributed.cli.dask_{name}", *arguments, "--no-dashboard"]
            programs.append(subprocess.Popen(command, stdout=said, stderr=said, env=environment, cwd=tmp_path))
        return programs[-1]

    try:
        scheduler = start("scheduler", "--host", "127.0.0.1", "--port", str(port))
        worker = ("--nthreads", "1", "--no-nanny", "--death-timeout", "60")
        yield scheduler, [start("worker", f"tcp://127.0.0.1:{port}", *worker) for _ in range(2)]
    finally:
        for program in programs:
            program.kill()
            program.wait()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def wait_until(condition: Callable[[], Any], patience: float = 60) -> None:
    last = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < last
        time.sleep(0.05)


def has_checkpoint(folder: Path) -> bool:
    return (folder / "checkpoint" / "checkpoint.h5").exists()


@pytest.fixture(scope="module")
def local(tmp_path_factory) -> tuple[Path, Path]:
    """The survey of three shots, and its results on this machine."""
    folder = tmp_path_factory.mktemp("local")
    file = write_survey(folder)
    lithowave("run", file, "--output", folder / "out")
    return file, folder / "out"


def assert_same(folder: Path, reference: Path) -> None:
    for number in (1, 2, 3):
        one, other = (lw.load_seismograms(path / f"shot_000{number}") for path in (folder, reference))
        assert one.complete and one.data.tobytes() == other.data.tobytes()


def test_a_worker_that_is_killed(tmp_path, local):
    file, reference = local
    port, folder = free_port(), tmp_path / "out"
    with dask(tmp_path, port) as (_, workers):
        process = spawn("run", file, "--output", folder, "--scheduler", f"tcp://127.0.0.1:{port}", wait=False)
        wait_until(lambda: has_checkpoint(folder / "shot_0001") and has_checkpoint(folder / "shot_0002"))
        workers[0].send_signal(signal.SIGKILL)
        output, errors = process.communicate(timeout=120)
    assert process.returncode == 0 and "finished: all 3 shots" in output, errors
    resumed = [number for number in (1, 2, 3) if report_of(folder / f"shot_000{number}").get("restarts")]
    assert len(resumed) == 1
    assert_same(folder, reference)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_scheduler_that_is_killed(tmp_path, local, number):
    """One error, no traceback, states that are true when the command ends; another scheduler resumes the survey."""
    file, reference = local
    port, folder = free_port(), tmp_path / "out"
    with dask(tmp_path, port) as (scheduler, _):
        process = spawn("run", file, "--output", folder, "--scheduler", f"tcp://127.0.0.1:{port}", wait=False)
        wait_until(lambda: has_checkpoint(folder / "shot_0003") and "stopped" not in states(folder))
        finished = states(folder).count("finished")
        scheduler.send_signal(number)
        output, errors = process.communicate(timeout=60)
        assert process.returncode == 1 and "Traceback" not in errors, errors
        assert errors.count("error: ") == 1 and f"the connection to the Dask scheduler tcp://127.0.0.1:{port}" in errors
        assert "restart" in errors and "running" not in states(folder) and "failed" not in states(folder)
        assert states(folder).count("finished") >= finished >= 1 and states(folder)[2] == "stopped"
    before = [report_of(folder / f"shot_000{number}") for number in (1, 2)]
    with dask(tmp_path, port):
        lithowave("restart", folder, "--scheduler", f"tcp://127.0.0.1:{port}")
    assert report_of(folder / "shot_0003")["restarts"][0]["step"] > 0
    for number, report in zip((1, 2), before, strict=True):
        if report["exit_state"] == "finished":
            assert report_of(folder / f"shot_000{number}") == report, "a finished shot is kept"
    assert_same(folder, reference)


def states(folder: Path) -> list[str]:
    """States of the three shots."""
    return [shot.state for shot in survey_state(folder).shots]
