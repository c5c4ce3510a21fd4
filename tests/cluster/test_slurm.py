"""Jobs of `lithowave submit` on a real Slurm: time limits, cancellation, arrays, launchers; results as of local runs.

The jobs of a test run at the same time, because the shortest time limit of Slurm is a minute.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import lithowave as lw
from mpi_runs import on_ranks
from slurm_cluster import LAUNCHERS, Job, launcher_options, slurm_cluster, submit, submit_text, wait_for
from small_run import lithowave, log_of, report_of, write_small
from small_survey import write_survey

pytestmark = pytest.mark.slow
LITHOWAVE = f"{sys.executable} -m lithowave"


@pytest.fixture(scope="module", autouse=True)
def slurm(tmp_path_factory) -> Iterator[None]:
    with slurm_cluster(tmp_path_factory.mktemp("slurm")):
        yield


@pytest.fixture
def file(tmp_path) -> Path:
    """A run of 120 steps without a checkpoint at intervals."""
    return write_small(tmp_path, ("  checkpoint: {interval: 0.3}\n", ""))


def slow(monkeypatch: pytest.MonkeyPatch, pause: float, fast: str = "") -> None:
    """Jobs from now on pause after each step."""
    monkeypatch.setenv("LITHOWAVE_STEP_PAUSE", str(pause))
    monkeypatch.setenv("LITHOWAVE_FAST_ELEMENTS", fast)


def assert_same_seismograms(folder: Path, reference: Path) -> None:
    first, second = lw.load_seismograms(folder), lw.load_seismograms(reference)
    assert first.complete and np.abs(second.data).max() > 0
    assert first.data.tobytes() == second.data.tobytes()


def submit_all(tmp_path: Path, file: Path, minutes: int) -> dict[str, Job]:
    """A job with each launcher that is installed."""
    jobs = {}
    for name in LAUNCHERS:
        try:
            jobs[name] = submit(tmp_path / name, file, *launcher_options(name), "--time", minutes)
        except pytest.skip.Exception:
            continue
    return jobs


def test_time_limits_requeue_and_resume(tmp_path, monkeypatch, file):
    """Each launcher writes a checkpoint before the limit, and the results are bitwise those of a local run."""
    for ranks in (1, 2):  # which also compile the kernels
        on_ranks(ranks, "run", str(file), "--output", str(tmp_path / f"local_{ranks}"))
    slow(monkeypatch, 0.5)
    jobs = submit_all(tmp_path, file, 1)
    wait_for(lambda: all(job.ended() for job in jobs.values()), list(jobs.values()), 400)
    for name, job in jobs.items():
        folder = tmp_path / name / "out"
        report = report_of(folder)
        assert job.state == "COMPLETED" and job.requeues == len(report["restarts"]) >= 1, (name, job.text())
        assert all(part["step"] > 0 for part in report["restarts"]), name
        assert "stopped by SIGUSR1, checkpoint written" in log_of(folder), name
        assert report["ranks"] == (1 if name == "one_rank" else 2)
        assert_same_seismograms(folder, tmp_path / f"local_{report['ranks']}")


def test_scancel_cancels(tmp_path, monkeypatch, file):
    slow(monkeypatch, 0.5)
    jobs = submit_all(tmp_path, file, 5)
    wait_for(lambda: all((tmp_path / name / "out/progress.json").exists() for name in jobs), list(jobs.values()), 90)
    for job in jobs.values():
        job.cancel()
    wait_for(lambda: all(job.ended() for job in jobs.values()), list(jobs.values()), 60)
    for name, job in jobs.items():
        assert (job.state, job.requeues) == ("CANCELLED", 0), name
        assert "requeue" not in job.text()
        report, done = report_of(tmp_path / name / "out"), "checkpoint written" in log_of(tmp_path / name / "out")
        if name != "mpiexec_openmpi":  # which ends its ranks within a second
            assert report["exit_state"] == "stopped" and report["stopped_by"] == "SIGTERM" and done, name


def test_elements_of_an_array_are_requeued_alone(tmp_path, monkeypatch):
    """The last element has the number of the array: to requeue that would start all elements again."""
    file = write_survey(tmp_path)
    lithowave("run", file, "--output", tmp_path / "local")
    slow(monkeypatch, 0.5, fast="2")
    array = submit(tmp_path / "jobs", file, "--time", 1)
    elements = {n: Job(f"{array.number}_{n}", tmp_path / "jobs" / f"small_{array.number}_{n}.txt") for n in (1, 2, 3)}
    wait_for(lambda: all(job.ended() for job in elements.values()), list(elements.values()), 400)
    assert array.number in [job.facts()["JobId"] for job in elements.values()]
    for number, job in elements.items():
        folder = tmp_path / "jobs/out" / f"shot_000{number}"
        assert job.state == "COMPLETED" and (job.requeues > 0) == (number != 2), (number, job.requeues)
        assert len(report_of(folder).get("restarts", [])) == job.requeues
        assert_same_seismograms(folder, tmp_path / "local" / folder.name)


def test_canceled_elements_and_failed_runs_are_not_requeued(tmp_path, monkeypatch, file):
    slow(monkeypatch, 0.5, fast="1,2")
    array = submit(tmp_path / "jobs", write_survey(tmp_path), "--time", 1)
    (tmp_path / "failed" / "out").mkdir(parents=True)
    (tmp_path / "failed/out/seismograms.h5").write_text("mine")
    failed = submit(tmp_path / "failed", file, "--time", 1)
    third = Job(f"{array.number}_3", tmp_path / "jobs" / f"small_{array.number}_3.txt")
    wait_for(lambda: (tmp_path / "jobs/out/shot_0003/progress.json").exists(), [third], 60)
    third.cancel()
    wait_for(lambda: third.ended() and failed.ended(), [third, failed], 60)
    assert (third.state, third.requeues) == ("CANCELLED", 0)
    assert (failed.state, failed.requeues) == ("FAILED", 0)
    assert report_of(tmp_path / "jobs/out/shot_0003")["stopped_by"] == "SIGTERM"
    assert '"finished": 2' in lithowave("status", tmp_path / "jobs/out", "--json")


def test_tasks_that_nothing_connects(tmp_path, file):
    """They are refused, unless they are separate steps, shots of a survey, or started by the batch script itself."""
    def run(*command: object) -> subprocess.CompletedProcess:
        words = [str(word) for word in command]
        return subprocess.run(words, capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path)

    start = ("srun", "--mpi=none")
    lone = run(*start, "-n", 2, *LITHOWAVE.split(), "run", file, "--output", "lone")
    assert lone.returncode == 1 and lone.stderr.count("did not connect the 2 tasks of this step") == 2
    assert "srun --mpi=pmi2" in lone.stderr and not (tmp_path / "lone").exists()
    script = f"""#!/bin/bash
#SBATCH --ntasks=2 --output=small_%j.txt
{LITHOWAVE} run {file} --output direct || exit 3
srun -n 1 {LITHOWAVE} run {file} --output step || exit 4
srun -n 1 {LITHOWAVE} run {write_survey(tmp_path)} --set survey.at_once=2 --output survey || exit 5
"""
    job = submit_text(tmp_path, script)
    wait_for(job.ended, [job], 120)
    assert job.state == "COMPLETED", job.text()
    assert all(report_of(tmp_path / name)["ranks"] == 1 for name in ("direct", "step", "survey/shot_0003"))
