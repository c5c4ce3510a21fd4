"""Shots on executors: pools of processes, Dask Distributed, mpi4py; workers and processes that disappear."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

import numpy as np
import pytest

import lithowave as lw
from lithowave.shots import (
    ReceivedRequests,
    SentRequests,
    ShotExecutor,
    SurveyFolder,
    restart_survey,
    run_survey,
    survey_state,
)
from lithowave.shots import running as scheduling
from lithowave.shots import tasks as executors
from lithowave.shots import tasks as task
from mpi_runs import find_mpiexec
from small_machine import hide_packages
from small_run import lithowave, log_of, report_of, settings, spawn
from small_survey import survey_text, write_survey

TWO = "{line: {start: [-200, 0, -300], end: [200, 0, -300], count: 2}}"
SHORT, LONGER = (("duration: 0.8", f"duration: {seconds}") for seconds in (0.2, 6.0))


def survey(shots: str = TWO, more: str = "", *changes: tuple[str, str]) -> lw.Simulation:
    return lw.Simulation.from_text(survey_text(shots, more, *changes))


def wait_until(condition: Callable[[], bool]) -> None:
    patience = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < patience
        time.sleep(0.02)


def has_checkpoint(folder: Path) -> bool:
    return (folder / "checkpoint").exists() and "checkpoint" in log_of(folder)


@pytest.fixture(scope="module")
def expected(tmp_path_factory) -> np.ndarray:
    """Seismograms of the first shot, computed in this process without interruption."""
    shot = survey(TWO, "", LONGER).shot(1)
    return shot.run(output=tmp_path_factory.mktemp("alone") / "out").seismograms.data


class Interruption:
    """A display of progress that acts once, when a checkpoint of the first shot exists."""

    def __init__(self, act: Callable[[], None]) -> None:
        self.act, self.events, self.done = act, [], False

    def __call__(self, entries: dict[str, Any]) -> None:
        self.events.append((entries["event"], entries["shot"]))
        if entries["event"] == "begin" and entries["shot"] == 1 and not self.done:
            self.done = True
            wait_until(lambda: has_checkpoint(Path(entries["folder"])))
            self.act()


def assert_resumed(result, expected: np.ndarray) -> None:
    """The first shot was resumed from a checkpoint, and its result does not depend on that."""
    assert result.complete and result.failures == {}
    folder = result.shots[0].directory
    (restart,) = report_of(folder)["restarts"]
    assert restart["step"] > 0
    assert np.array_equal(result.seismograms(1).data, expected)


# --- processes of this machine


def test_a_killed_process_of_a_shot_is_resumed(tmp_path, monkeypatch, expected):
    started = []

    class Recorded(subprocess.Popen):
        def __init__(self, *arguments: Any, **keywords: Any) -> None:
            super().__init__(*arguments, **keywords)
            started.append(self)

    monkeypatch.setattr(task.subprocess, "Popen", Recorded)
    show = Interruption(lambda: started[0].kill())
    result = run_survey(survey(TWO, "", LONGER), tmp_path / "out", show=show)
    assert_resumed(result, expected)
    assert show.events[:3] == [("begin", 1), ("lost", 1), ("begin", 1)]
    assert "shot 1: lost: the process was ended by SIGKILL" in (tmp_path / "out" / "survey.log").read_text()
    assert not (tmp_path / "out" / "survey.requests").exists()


def test_shots_stop_with_a_survey_that_was_killed(tmp_path):
    """They write checkpoints, which the same command resumes."""
    file = write_survey(tmp_path, "{position: [0, 0, -300]}", "", ("duration: 0.8", "duration: 20"))
    folder = tmp_path / "out"
    process = spawn("run", file, "--output", folder, wait=False)
    wait_until(lambda: has_checkpoint(folder / "shot_0001"))
    process.kill()
    process.communicate(timeout=60)
    wait_until(lambda: report_of(folder / "shot_0001").get("exit_state") == "stopped")
    assert report_of(folder / "shot_0001")["stopped_by"] == "SIGTERM"


# --- the interface


class Failing(Executor):
    """An executor whose workers do not run any shot."""

    def __init__(self, error: Exception) -> None:
        self.error, self.submitted = error, 0

    def submit(self, function: Callable, /, *arguments: Any, **keywords: Any) -> Future:
        self.submitted += 1
        future: Future = Future()
        future.set_exception(self.error)
        return future


def test_a_shot_whose_workers_disappear_is_tried_three_times(tmp_path):
    executor = Failing(BrokenExecutor("the worker died"))
    result = run_survey(survey(), tmp_path / "out", executor=executor)
    assert executor.submitted == 2 * scheduling.MAX_ATTEMPTS == 6
    assert result.failures == dict.fromkeys((1, 2), "its worker was lost (the worker died), 3 times")
    executor = Failing(ValueError("no place"))
    result = run_survey(survey(), tmp_path / "out", executor=executor)
    assert executor.submitted == 2
    assert result.failures[2] == "the executor failed: ValueError: no place"


def test_a_stopped_survey_does_not_wait_for_lost_workers(tmp_path, monkeypatch):
    class Silent(Executor):
        """A worker that begins the shot and then disappears."""

        def submit(self, function: Callable, shot: task.ShotTask, /, *_: Any, **__: Any) -> Future:
            shot.path.mkdir()
            self.output = shot.path / "output.txt"
            return Future()

    executor = Silent()
    monkeypatch.setattr(scheduling, "STOP_PATIENCE", 0.3)
    threading.Timer(0.5, lambda: executor.output.touch()).start()
    events = []

    def stop(entries: dict[str, Any]) -> None:
        events.append((entries["event"], entries["state"]))
        if entries["event"] == "begin":
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(lw.RunKeyboardInterrupt) as stopped:
        run_survey(survey("{position: [0, 0, -300]}"), tmp_path / "out", executor=executor, show=stop)
    result = stopped.value.result
    assert not result.complete and stopped.value.checkpoint is None
    assert result.stopped_by == "SIGINT" and events == [("begin", "running"), ("end", "stopped")]


def test_a_broken_executor_that_cannot_be_replaced(tmp_path):
    class Broken(Executor):
        def submit(self, function: Callable, /, *arguments: Any, **keywords: Any) -> Future:
            raise BrokenExecutor("a process died")

    with pytest.raises(lw.ResourceError, match=r"is broken \(a process died\)\. Run the survey again"):
        run_survey(survey(), tmp_path / "out", executor=Broken())


class Disconnected(Executor):
    """An executor of Dask whose scheduler is lost when the first shot runs."""

    __module__ = "distributed.cfexecutor"

    def __init__(self) -> None:
        self._client = SimpleNamespace(status="running", nthreads=dict, _start_arg="tcp://host:8786")

    def submit(self, function: Callable, shot: task.ShotTask, /, *_: Any, **__: Any) -> Future:
        future: Future = Future()
        if shot.number == 1:
            threading.Thread(target=function, args=(shot,)).start()
            threading.Thread(target=self._lose, args=(shot.path,)).start()
        self._futures = [*getattr(self, "_futures", []), future]
        return future

    def _lose(self, path: Path) -> None:
        wait_until(lambda: has_checkpoint(path))
        self._client.status = "connecting"
        for future in self._futures:
            future.cancel()


def test_a_lost_scheduler_is_one_error_and_leaves_states_that_are_true(tmp_path, expected):
    folder = tmp_path / "out"
    with pytest.raises(lw.ResourceError, match="connection to the Dask scheduler tcp://host:8786 was lost.*restart"):
        run_survey(survey(TWO, "", LONGER), folder, executor=Disconnected())
    assert [shot.state for shot in survey_state(folder).shots] == ["stopped", "waiting"]
    assert "failed: the connection to the Dask scheduler" in (folder / "survey.log").read_text()
    result = restart_survey(folder)
    assert_resumed(result, expected)


def test_an_executor_of_threads_takes_the_shots_in_turn(tmp_path):
    """The executor stays usable, the shots share the cores, and `at_once` limits the number of submitted shots."""
    counts = []

    class Counting(ThreadPoolExecutor):
        running = 0

        def submit(self, function: Callable, /, *arguments: Any, **keywords: Any) -> Future:
            self.running += 1
            counts.append(self.running)
            future = super().submit(function, *arguments, **keywords)
            future.add_done_callback(lambda _: setattr(self, "running", self.running - 1))
            return future

    with Counting(2) as executor:
        simulation = survey(TWO, "  at_once: 1\n", SHORT)
        result = simulation.run(output=tmp_path / "out", executor=executor)
        assert executor.submit(lambda: 3).result() == 3
    assert result.complete and counts == [1, 1, 1]


def test_objects_that_are_not_executors(tmp_path):
    with pytest.raises(lw.InputError, match="executor: int has no method submit; allowed: a concurrent.futures.Exec"):
        survey().run(output=tmp_path / "out", executor=4)


def test_workers_without_the_survey_folder_and_tasks_of_an_earlier_survey(tmp_path):
    missing = task.ShotTask(tmp_path / "away", "shot_0001", 1, "id", "cpu")
    outcome = task.run_task(missing)
    assert outcome.state == "failed" and "all workers need access to the survey folder" in outcome.error
    folder = SurveyFolder.prepare(survey().with_overrides({"output.directory": str(tmp_path)}))
    first = SentRequests(folder.path)
    received = ReceivedRequests(folder.path, first.run_id)
    first.send(signal.SIGUSR2)
    assert received.take() == [signal.SIGUSR2] and received.take() == [] and not received.stopping
    SentRequests(folder.path)
    received = ReceivedRequests(folder.path, first.run_id)
    assert received.take() == [signal.SIGTERM] and received.stopping
    stopped = task.run_task(task.ShotTask(folder.path, "shot_0001", 1, first.run_id, "cpu"))
    assert stopped.state == "stopped" and not (folder.path / "shot_0001").exists()


# --- Dask Distributed


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """A client of two workers of one thread each."""
    distributed = pytest.importorskip("distributed", reason="Dask Distributed is not installed")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster:
        with distributed.Client(cluster) as connected:
            yield connected


def shots_on_dashboard(client: Any) -> dict[str, list[str]]:
    """The tasks that the pages of the workers show, without the identifiers at the end of their keys."""
    port, shown = client.scheduler_info()["services"]["dashboard"], {}
    for address in client.nthreads():
        with urlopen(f"http://127.0.0.1:{port}/info/worker/{quote(address, safe='')}.html", timeout=20) as page:
            shown[address] = re.findall(r">(shot_[^<]*)-[0-9a-f]{32}<", page.read().decode())
    return shown


@pytest.mark.slow
def test_shots_on_dask_are_resumed_after_a_worker_was_lost(client, tmp_path, expected):
    shown: set[str] = set()

    def kill_worker() -> None:
        by_worker = shots_on_dashboard(client)
        shown.update(name for names in by_worker.values() for name in names)
        (address,) = [address for address, names in by_worker.items() if "shot_0001 (first)" in names]
        os.kill(client.run(os.getpid)[address], signal.SIGKILL)

    shots = "[{position: [-200, 0, -300], name: first}, {position: [200, 0, -300]}]"
    show = Interruption(kill_worker)
    result = survey(shots, "", LONGER).run(output=tmp_path / "out", executor=client, show=show)
    assert shown == {"shot_0001 (first)", "shot_0002"}
    assert_resumed(result, expected)
    assert ShotExecutor(client.get_executor()).shots_per_machine() == 2


def test_the_command_line_uses_a_dask_scheduler(client, tmp_path):
    file, folder = write_survey(tmp_path, TWO, "", SHORT), tmp_path / "out"
    blocking = folder / "shot_0002" / "seismograms.h5"
    blocking.parent.mkdir(parents=True)
    blocking.write_text("mine")
    address = client.scheduler.address
    text = lithowave("run", file, "--output", folder, "--scheduler", address, status=1)
    assert "shot 1 of 2: running" in text and "shot 1 of 2: finished" in text
    assert "error: shot 2 of 2: " in text and "contains files with these names (seismograms.h5)" in text
    blocking.unlink()
    assert "finished: all 2 shots" in lithowave("restart", folder, "--scheduler", address)


def test_schedulers_that_are_refused(tmp_path, monkeypatch):
    pytest.importorskip("distributed", reason="Dask Distributed is not installed")
    file, folder = write_survey(tmp_path), tmp_path / "out"
    monkeypatch.setattr(executors, "CONNECTION_TIMEOUT", 0.2)
    text = lithowave("run", file, "--output", folder, "--scheduler", "tcp://127.0.0.1:9", status=1)
    assert "--scheduler tcp://127.0.0.1:9: the Dask scheduler does not respond" in text
    text = lithowave("run", file, "--output", folder, "--scheduler", "a:1", "--shot", 1, status=2)
    assert "--scheduler: a single shot runs in this process" in text
    text = lithowave("run", file, "--scheduler", "a:1", *settings("survey=null"), status=2)
    assert "--scheduler: the description has no survey" in text
    hide_packages(monkeypatch, "distributed")
    text = lithowave("run", file, "--output", folder, "--scheduler", "tcp://127.0.0.1:9", status=1)
    assert 'needs the package distributed: pip install "lithowave[dask]"' in text


# --- mpi4py


MPI_SURVEY = """
import lithowave as lw
from mpi4py.futures import MPIPoolExecutor
if __name__ == "__main__":
    with MPIPoolExecutor() as executor:
        result = lw.Simulation.from_file("survey.yaml").run(output="out", executor=executor)
        print("workers", executor.num_workers, "complete", result.complete)
"""


@pytest.mark.mpi
def test_shots_on_mpi4py_futures(tmp_path):
    pytest.importorskip("mpi4py", reason="mpi4py is not installed")
    launcher = find_mpiexec()
    if launcher is None:
        pytest.skip("there is no mpiexec")
    write_survey(tmp_path, TWO, "", SHORT)
    (tmp_path / "main.py").write_text(MPI_SURVEY)
    source = str(Path(lw.__file__).parents[1])
    done = subprocess.run(
        [launcher, "-n", "3", sys.executable, "-m", "mpi4py.futures", "main.py"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": source}, capture_output=True, text=True, timeout=100,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert "workers 2 complete True" in done.stdout
    assert report_of(tmp_path / "out" / "shot_0002")["ranks"] == 1
