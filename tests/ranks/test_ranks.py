"""Several ranks: how they are started, and that none waits for one that is gone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fake_ranks import on_ranks as on_threads
from lithowave import ResourceError
from lithowave.parallel import SINGLE_RANK, Watchdog, device_index, launched, launchers, make_ranks, require_own_device
from lithowave.parallel import ranks as ranks_module
from lithowave.run import SignalHandler, SignalRequests
from lithowave.shots import shot_environment
from lithowave.solvers import Clock
from mpi_runs import on_ranks, rank_command, write_description

LAUNCHERS = (*launchers.SIZE_VARIABLES, *launchers.RANK_VARIABLES, *launchers.STEP_VARIABLES)
STEP = {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "1", "SLURM_NTASKS": "2"}
LONG: dict[str, Any] = {
    "domain": {"x": [0, 2400], "y": [0, 1800], "z": [-1500, 0]},
    "boundaries": {"layer": {"cells": 4}},
    "material": {"homogeneous": {"vp": 4000, "vs": 2300, "rho": 2500}},
    "sources": [{"position": [1210, 910, -620], "moment_tensor": {"xy": 1e15},
                 "time_function": {"gaussian": {"sigma": 0.1, "delay": 0.5}}}],
    "receivers": [{"name": "A", "position": [1200, 900, 0]}],
    "duration": 120,
    "solver": {"method": "finite_difference", "order": 4, "spacing": 60},
    "compute": {"backend": "cpu"},
    "output": {"checkpoint": {"interval": 100}},
}  # fmt: skip


@pytest.fixture
def no_launcher(monkeypatch) -> None:
    for name in LAUNCHERS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(launchers, "_has_terminal", lambda: False)
    make_ranks.cache_clear()
    yield
    make_ranks.cache_clear()


@pytest.mark.parametrize(
    ("environment", "several"),
    [
        ({}, False), ({"PMI_SIZE": "1", "PMI_RANK": "0"}, False), ({"PMI_SIZE": "4", "PMI_RANK": "0"}, True),
        ({"OMPI_COMM_WORLD_SIZE": "2"}, True), ({"PMIX_RANK": "0"}, True),
        (STEP, True), (STEP | {"PMI_SIZE": "1"}, False), (STEP | {"SLURM_STEP_NUM_TASKS": "1"}, False),
        ({"SLURM_NTASKS": "4", "SLURM_PROCID": "0", "SLURM_JOB_ID": "7"}, False),
        ({"SLURM_ARRAY_TASK_ID": "2", "SLURM_ARRAY_TASK_COUNT": "3", "SLURM_NTASKS": "1"}, False),
    ],
)  # fmt: skip
def test_launchers_are_known_by_what_they_leave(no_launcher, monkeypatch, environment, several) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert launched() == several
    if not several:
        assert make_ranks() is SINGLE_RANK


def test_an_mpiexec_of_another_mpi_is_found_out(no_launcher, monkeypatch) -> None:
    class Lonely(SINGLE_RANK.__class__):
        pass

    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "3")
    monkeypatch.setattr("lithowave.errors.find_spec", lambda name: name)
    monkeypatch.setattr(ranks_module, "MpiRanks", Lonely)
    with pytest.raises(ResourceError, match="3 processes were started, but each finds only 1"):
        make_ranks()


@pytest.mark.parametrize("interface", [{}, {"PMIX_RANK": "1"}, {"PMI_RANK": "1", "PMI_SIZE": "2"}])
def test_tasks_of_srun_that_mpi_does_not_connect_are_refused(no_launcher, monkeypatch, interface) -> None:
    class Lonely(SINGLE_RANK.__class__):
        def facts(self) -> dict[str, Any]:
            return {"mpi": "MPICH Version: 5.0"}

    for name, value in (STEP | interface).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("lithowave.errors.find_spec", lambda name: name)
    monkeypatch.setattr(ranks_module, "MpiRanks", Lonely)
    with pytest.raises(ResourceError, match=r"2 tasks of this step.*MPICH Version: 5.0.*--mpi=pmix.*--mpi=pmi2"):
        make_ranks()
    monkeypatch.setattr(launchers, "_has_terminal", lambda: True)
    if not interface:
        assert make_ranks() is SINGLE_RANK, "a command in the shell of srun --pty"


def test_shots_of_a_survey_are_no_tasks_of_its_step(no_launcher, monkeypatch) -> None:
    for name, value in STEP.items():
        monkeypatch.setenv(name, value)
    assert launched() and not set(launchers.STEP_VARIABLES) & set(shot_environment({}))


def test_each_rank_needs_a_device(monkeypatch) -> None:
    """By what the devices are, not by their numbers: a launcher may show each rank one device only."""

    def tell(ranks: Any, devices: int) -> tuple[int, bool]:
        number = device_index(ranks, devices)
        backend = SimpleNamespace(own_memory=True, shared=False, identity=f"0:{number}:0")
        require_own_device(ranks, backend)
        return number, backend.shared

    monkeypatch.delenv("LITHOWAVE_SHARED_DEVICES", raising=False)
    assert on_threads(3, lambda ranks: tell(ranks, 4)) == [(0, False), (1, False), (2, False)]
    with pytest.raises(ResourceError, match="4 ranks share 2 CUDA devices"):
        on_threads(4, lambda ranks: tell(ranks, 2))
    monkeypatch.setenv("LITHOWAVE_SHARED_DEVICES", "1")
    assert on_threads(4, lambda ranks: tell(ranks, 2)) == [(0, True), (1, True), (0, True), (1, True)]


def test_the_watchdog_barks_once_and_only_when_nothing_is_noted() -> None:
    heard: list[tuple[int, float]] = []
    dog = Watchdog(0.4, lambda step, seconds: heard.append((step, seconds)))
    for step in range(6):
        time.sleep(0.1)
        dog.note(step)
    assert heard == []
    time.sleep(1.0)
    dog.stop()
    assert [step for step, _ in heard] == [5] and heard[0][1] > 0.4


def test_wishes_are_granted_on_all_ranks_at_one_step() -> None:
    """One rank gets the signal; all find out at the same step, and which signal it was."""

    def work(ranks: Any) -> tuple[int, str | None]:
        signals, clock = SignalHandler(), Clock(0.01, 200)
        wishes = SignalRequests(signals, ranks, interval=0.02)
        while not clock.finished:
            time.sleep(0.001 * (1 + ranks.rank))
            clock.tick()
            if clock.step == 30 and ranks.rank == 1:
                signals.receive(signal.SIGTERM, None)
            if wishes.pending(clock):
                break
        return clock.step, wishes.stopped_by

    found = on_threads(3, work)
    assert len(set(found)) == 1 and found[0][1] == "SIGTERM" and 30 <= found[0][0] < 200


@pytest.fixture(scope="module")
def compiled(tmp_path_factory) -> None:
    """The kernels of the long run are in the cache: their compilation would take longer than the ranks wait."""
    folder = tmp_path_factory.mktemp("compiled")
    description = write_description(folder / "short.yaml", LONG, duration=0.05)
    command, environment = rank_command(3, ["run", str(description), "--output", str(folder / "run")])
    subprocess.run(command, env=environment, capture_output=True, check=True)


def start(folder: Path, size: int) -> subprocess.Popen:
    """A long run under way, whose ranks wait for 3 s."""
    description = write_description(folder / "long.yaml", LONG)
    command, environment = rank_command(size, ["run", str(description), "--output", str(folder / "run")], "waits 3")
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1
    )
    for line in process.stdout:
        if line.startswith("step "):
            return process
    raise AssertionError("the run did not begin")


def ranks_of(folder: Path) -> list[int]:
    """Process numbers of the ranks of the run in a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        words = path.read_bytes().split(b"\0") if path.exists() else []
        if str(folder / "run").encode() in words and any(word.endswith(b"mpi_worker.py") for word in words[:3]):
            found.append(int(path.parent.name))
    return sorted(found)


@pytest.mark.mpi
def test_sigterm_to_the_launcher_writes_a_checkpoint_and_ends(compiled, tmp_path) -> None:
    process = start(tmp_path, 3)
    process.send_signal(signal.SIGTERM)
    text, _ = process.communicate(timeout=30)
    assert process.returncode == 143 and "checkpoint written" in text
    report = json.loads((tmp_path / "run/run.json").read_text())
    assert report["exit_state"] == "stopped" and report["stopped_by"] == "SIGTERM"
    assert len(list((tmp_path / "run/checkpoint").glob("step_*/rank_*.h5"))) == 3


@pytest.mark.mpi
@pytest.mark.parametrize("how", [pytest.param(signal.SIGKILL, marks=pytest.mark.slow), signal.SIGSTOP])
def test_a_rank_that_dies_or_hangs_ends_the_run(compiled, tmp_path, how) -> None:
    """Within ten seconds, and of one that hangs run.json tells."""
    process = start(tmp_path, 3)
    victim = ranks_of(tmp_path)[-1]
    os.kill(victim, how)
    begin = time.monotonic()
    text, _ = process.communicate(timeout=60)
    assert time.monotonic() - begin < 10.0 and process.returncode != 0
    if how == signal.SIGSTOP:
        report = json.loads((tmp_path / "run/run.json").read_text())
        assert report["exit_state"] == "failed" and "another rank does not respond" in report["error"]
        assert "error: no step for" in text
        with suppress(ProcessLookupError):
            os.kill(victim, signal.SIGCONT)  # what is stopped does not even end
    while ranks_of(tmp_path):
        assert time.monotonic() - begin < 20.0
        time.sleep(0.1)


@pytest.mark.mpi
def test_what_all_ranks_refuse_is_told_once(tmp_path) -> None:
    description = write_description(tmp_path / "refused.yaml", LONG, compute__parts=[2, 2, 1])
    text = on_ranks(3, "run", str(description), "--output", str(tmp_path / "run"), status=2)
    assert text.count("compute.parts: 2 x 2 x 1 parts for 3 ranks") == 1 and "rank 0 of 3: error" in text
    assert not (tmp_path / "run").exists()


@pytest.mark.mpi
def test_an_error_on_one_rank_ends_all_and_is_told(tmp_path) -> None:
    description = write_description(tmp_path / "long.yaml", LONG)
    text = on_ranks(3, "run", str(description), "--output", str(tmp_path / "run"), device="fails at 0.5", status=1)
    assert "rank 2 of 3: error: this rank was told to fail" in text
    report = json.loads((tmp_path / "run/run.json").read_text())
    assert report["exit_state"] == "failed" and report["failed_on_rank"] == 2
