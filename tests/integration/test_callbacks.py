"""Callbacks of users in the time loop: what they read, how they end a run, and what the run folder then holds."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import lithowave as lw
from fake_ranks import on_ranks
from fake_solver import RECEIVERS, SCHEDULE, STEP, STEPS, FakeSolver, simulation_of
from lithowave.output import load_snapshots, make_recorders, read_seismograms
from lithowave.parallel import Ranks
from lithowave.run import Integration, UserCallback, restart_run, run_state
from lithowave.shots import run_survey
from lithowave.solvers import Clock, GatheredSolver
from mpi_runs import rank_command
from small_run import SMALL, assert_same_results, log_of, report_of, result_of, stop_at, write_small

PAGE = Path(__file__).parents[2] / "docs" / "callbacks.md"


def simulation(**changes: Any) -> lw.Simulation:
    return lw.Simulation.from_text(SMALL).with_overrides(changes)


class Reader(lw.Callback):
    """Reads at intervals of steps; at the end, if there is one, it stops the run."""

    def __init__(self, every: int, end: int | None = None) -> None:
        self.every, self.end = every, end
        self.calls: list[str] = []
        self.times: list[float] = []
        self.velocities: list[np.ndarray] = []
        self.planes: list[dict[str, np.ndarray]] = []
        self.largest: list[float] = []

    def start(self, solver: GatheredSolver, clock: Clock) -> None:
        self.calls.append(f"start {clock.step}")

    def due(self, clock: Clock) -> bool:
        return clock.step % self.every == 0

    def __call__(self, solver: GatheredSolver, clock: Clock) -> None:
        self.times.append(clock.time)
        self.velocities.append(solver.receiver_velocities())
        self.planes.append(solver.plane("z", 0.0, ("velocity", "pressure")))
        self.largest.append(solver.largest_velocity())
        if clock.step == self.end:
            clock.stop("seen enough")

    def finish(self, solver: GatheredSolver, clock: Clock) -> None:
        self.calls.append(f"finish {clock.step}")

    def close(self) -> None:
        self.calls.append("close")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> lw.Result:
    """A run without callbacks."""
    return simulation().run(output=tmp_path_factory.mktemp("whole") / "out")


def test_reading_changes_nothing(whole: lw.Result, tmp_path: Path) -> None:
    reader = Reader(1)
    result = simulation().run(output=tmp_path / "out", callbacks=[reader])
    assert_same_results(result.directory, whole.directory)
    assert result.complete and result.stop_reason is None and result.report["callbacks"] == ["Reader"]
    steps = result.report["plan"]["steps"]
    assert reader.calls == ["start 0", f"finish {steps}", "close"] and len(reader.times) == steps


@pytest.mark.parametrize("method", ["finite_difference", "spectral_element", "discontinuous_galerkin"])
def test_values_are_those_of_the_files(tmp_path: Path, method: str) -> None:
    """Also beside stress and acceleration, which are recorded at every step, and between two samples."""
    sizes = {
        "finite_difference": {"spacing": 100, "time_dispersion_correction": False},
        "spectral_element": {"spacing": 200, "time_dispersion_correction": False},
        "discontinuous_galerkin": {"spacing": 150, "order": 2, "local_time_steps": False, "time_step": 0.0005},
    }
    solver = {"method": method, "time_step": 0.0025, **sizes[method]}
    boundaries = {} if method == "finite_difference" else {"absorption": "stacey"}
    changes = {"solver": solver, "boundaries": boundaries, "output.peak_motion": False, "output.stress": True}
    changes["output.snapshots"] = [{"interval": 0.08, "plane": {"z": 0}, "fields": ["velocity", "pressure"]}]
    reader = Reader(1)
    result = simulation(**changes).run(output=tmp_path / "out", callbacks=[reader])
    seismograms = result.seismograms
    times = np.array(reader.times)
    for sample in range(1, len(seismograms.time)):
        number = int(np.abs(times - seismograms.time[sample]).argmin())
        np.testing.assert_array_equal(reader.velocities[number].astype(np.float32), seismograms.data[..., sample])
    assert np.abs(reader.velocities[-1]).max() > 0
    with load_snapshots(result.directory / "snapshots" / "plane_z_0.vtkhdf") as snapshots:
        for step in range(1, len(snapshots)):
            number = int(np.abs(times - snapshots.times[step]).argmin())
            plane = reader.planes[number]
            np.testing.assert_array_equal(plane["velocity"].astype(np.float32), snapshots.read(step, "velocity"))
            np.testing.assert_array_equal(plane["pressure"].astype(np.float32), snapshots.read(step, "pressure"))
            assert all(np.allclose(plane[axis], snapshots.axis(axis)) for axis in "xyz")
            assert reader.largest[number] > 0.5 * np.abs(plane["velocity"]).max() > 0  # which is between nodes, too


@pytest.mark.parametrize("quantity", ["velocity", "acceleration"])
def test_a_stopped_run_is_complete_and_shorter(whole: lw.Result, tmp_path: Path, quantity: str) -> None:
    reader, after = Reader(5, end=45), Reader(5)
    changes = {"output.quantity": quantity, "output.formats": ["segy"]} if quantity == "acceleration" else {}
    result = simulation(**changes).run(output=tmp_path / "out", callbacks=[reader, after])
    step = result.report["plan"]["time_step_s"]
    assert result.complete and result.stop_reason == "seen enough"
    ending = ("exit_state", "stopped_by", "stop_reason", "stopped_at_step", "stopped_at_time_s")
    assert [result.report[key] for key in ending] == ["finished", "Reader", "seen enough", 45, pytest.approx(45 * step)]
    assert report_of(result.directory) == result.report
    assert after.calls == ["start 0", "finish 45", "close"] and len(after.times) == 8  # not when it has been stopped
    seismograms = result.seismograms
    lag = 1 if quantity == "acceleration" else 0
    assert seismograms.complete and seismograms.time[-1] <= (45 - lag) * step + 1e-9
    assert seismograms.time[-1] + seismograms.sampling_interval > (45 - lag) * step
    with h5py.File(result.directory / "seismograms.h5") as file:
        assert file["motion"].shape[-1] == file["time"].size == file["samples_written"][()] == len(seismograms.time)
    if quantity == "velocity":
        count = len(seismograms.time)
        full = whole.seismograms
        # A complete run corrects the last samples by later steps.
        difference = np.abs(seismograms.data - full.data[..., :count])
        assert (difference[..., : count // 2] == 0).all() and difference.max() < 3e-3 * np.abs(full.data).max()
        np.testing.assert_array_equal(seismograms.time, full.time[:count])
        assert seismograms.names == full.names and (seismograms.positions == full.positions).all()
        assert seismograms.attributes.keys() == full.attributes.keys()
        assert (seismograms.sources.moments == full.sources.moments).all()
        with (
            load_snapshots(result.directory / "snapshots" / "volume.vtkhdf") as short,
            load_snapshots(whole.directory / "snapshots" / "volume.vtkhdf") as long,
        ):
            assert 0 < len(short) < len(long) and short.times[-1] <= 45 * step
            np.testing.assert_array_equal(short.read(-1, "stress"), long.read(len(short) - 1, "stress"))
    assert (result.directory / "peak_motion.h5").is_file() and not (result.directory / "progress.json").exists()
    assert "step 45: stopped by Reader" in log_of(result.directory)
    text = run_state(result.directory).text()
    assert text.startswith("finished: ") and "stopped by Reader at t = " in text and "seen enough" in text
    with pytest.raises(lw.InputError, match="complete"):
        restart_run(result.directory)


def example() -> dict[str, Any]:
    """The names that the example of the documentation defines, when it is run here."""
    [code] = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(code, PAGE.name, "exec"), names)
    return names


def test_the_example_stops_when_the_coda_has_decayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    write_small(tmp_path, ("duration: 0.8", "duration: 20"), ("cells: 5", "cells: 20"), name="simulation.yaml")
    monkeypatch.chdir(tmp_path)
    result = example()["result"]
    assert result.report["stopped_by"] == "StopAfterCoda" and result.report["exit_state"] == "finished"
    assert "all 4 receivers have been quiet for 1.0 s" in capsys.readouterr().out
    seismograms = result.seismograms
    end = seismograms.time[-1]
    assert 1.3 < end < 20 and seismograms.complete
    speed = np.linalg.norm(seismograms.data, axis=1)
    late = seismograms.time > end - 0.9
    assert (speed[:, late].max(axis=1) < 2e-2 * speed.max(axis=1)).all()  # the example looks every 0.05 s only


def test_a_run_can_be_stopped_before_its_first_step(tmp_path: Path) -> None:
    class Never(lw.Callback):
        def start(self, solver: GatheredSolver, clock: Clock) -> None:
            clock.stop("not today")

        def __call__(self, solver: GatheredSolver, clock: Clock) -> None:
            raise AssertionError("there is no step")

    with pytest.warns(lw.LithowaveWarning, match="all seismograms are zero"):
        result = simulation().run(output=tmp_path / "out", callbacks=[Never()])
    assert result.report["stopped_at_step"] == 0 and result.seismograms.data.shape[-1] == 1


def test_a_stop_needs_a_reason() -> None:
    clock = Clock(0.1, 10)
    with pytest.raises(ValueError, match="reason"):
        clock.stop("")
    clock.stop("one")
    clock.stop("two")
    assert clock.stop_reason == "one" and clock.finished


def test_an_error_in_a_callback_is_that_of_the_run(tmp_path: Path) -> None:
    class Broken(Reader):
        def __call__(self, solver: GatheredSolver, clock: Clock) -> None:
            raise ZeroDivisionError("oh")

    broken = Broken(10)
    with pytest.raises(ZeroDivisionError):
        simulation().run(output=tmp_path / "out", callbacks=[broken])
    assert broken.calls == ["start 0", "close"]
    report = report_of(tmp_path / "out")
    assert report["exit_state"] == "failed" and report["error"] == "ZeroDivisionError: oh"
    assert report["failed_at_step"] == 10


@pytest.mark.parametrize("wrong", [Reader, print, object()])
def test_what_is_no_callback_is_refused_before_any_work(tmp_path: Path, wrong: Any) -> None:
    with pytest.raises(lw.InputError, match=r"callbacks\[1\].*is not a callback"):
        simulation().run(output=tmp_path / "out", callbacks=[Reader(5), wrong])
    assert not (tmp_path / "out").exists()


def test_surveys_refuse_callbacks(tmp_path: Path) -> None:
    survey = simulation(survey={"shots": [{"position": [0, 0, -400]}]}, **{"output.directory": str(tmp_path / "out")})
    for run in (lambda **keywords: run_survey(survey, **keywords), survey.run):
        with pytest.raises(lw.InputError, match="separate processes"):
            run(callbacks=[Reader(5)])
    assert not (tmp_path / "out").exists()


def test_a_restart_with_other_callbacks_warns(
    whole: lw.Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = Reader(3)
    with monkeypatch.context() as patched:
        stop_at(patched, 40)
        stopped = result_of(simulation().run, output=tmp_path / "out", callbacks=[reader])
    assert not stopped.complete and reader.calls == ["start 0", "close"]
    with monkeypatch.context() as patched:
        stop_at(patched, 60)
        with pytest.warns(lw.LithowaveWarning, match="began with Reader, but is resumed with none"):
            result_of(restart_run, tmp_path / "out")
    reader = Reader(3)
    result = restart_run(tmp_path / "out", callbacks=[reader])
    assert reader.calls[0] == "start 60" and not any("callbacks" in text for text in result.warnings)
    assert_same_results(result.directory, whole.directory)


def test_a_truncated_file_gets_its_room_back(whole: lw.Result, tmp_path: Path) -> None:
    """A run that fails after a callback has stopped it may be restarted from a checkpoint, without the callback."""

    class Failing(Reader):
        def finish(self, solver: GatheredSolver, clock: Clock) -> None:
            raise lw.OutputError("the disk is full.")

    with pytest.raises(lw.OutputError, match="the disk is full"):
        simulation().run(output=tmp_path / "out", callbacks=[Failing(5, end=60)])
    with pytest.warns(lw.LithowaveWarning, match="incomplete: failed, ends at"):
        failed = lw.load_seismograms(tmp_path / "out")
    assert failed.time.size < whole.seismograms.time.size and not failed.complete
    with pytest.warns(lw.LithowaveWarning, match="is resumed with none"):
        result = restart_run(tmp_path / "out")
    assert result.report["restarts"][0]["step"] > 0
    assert_same_results(result.directory, whole.directory)


# --- several ranks


class Moving(FakeSolver):
    """The solver without physics, in the loop."""

    def advance(self, step: int) -> None:
        self.now = step + 1


class StopsOn(lw.Callback):
    """Stops on one rank only, and keeps what was read."""

    def __init__(self, rank: int | None, step: int) -> None:
        self.rank, self.step = rank, step
        self.read: list[np.ndarray] = []
        self.planes: list[np.ndarray] = []

    def due(self, clock: Clock) -> bool:
        return clock.step % 3 == 0

    def __call__(self, solver: GatheredSolver, clock: Clock) -> None:
        self.read.append(solver.receiver_velocities())
        self.planes.append(solver.plane("x", 1.0, ("velocity",))["velocity"])
        if solver.ranks.rank == self.rank and clock.step == self.step:
            clock.stop(f"rank {self.rank} has had enough")


def loop(folder: Path, size: int, make: Callable[[], StopsOn]) -> list[tuple[Clock, UserCallback]]:
    """Run the loop on ranks that are threads."""

    def work(ranks: Ranks) -> tuple[Clock, UserCallback]:
        simulation = simulation_of([], quantity="displacement")
        solver = GatheredSolver(Moving(ranks.rank, ranks.size), ranks, simulation.acquisition)
        recorders = make_recorders(simulation, SCHEDULE, solver, folder, {"title": "fake"})
        user, clock = UserCallback(make(), ranks), Clock(STEP, STEPS)
        Integration(solver, clock, [*recorders, user]).run()
        for recorder in recorders:
            recorder.close()
        return clock, user

    return on_ranks(size, work)


def test_ranks_read_the_same_values(tmp_path: Path) -> None:
    [(_, single)] = loop(tmp_path / "one", 1, lambda: StopsOn(None, 0))
    several = [user for _, user in loop(tmp_path / "three", 3, lambda: StopsOn(None, 0))]
    assert len(single.callback.read) == STEPS // 3
    for user in several:
        for own, other in zip(single.callback.read, user.callback.read, strict=True):
            assert own.shape == (RECEIVERS, 3)
            np.testing.assert_allclose(other, own, rtol=1e-14, atol=1e-15)
        for own, first in zip(user.callback.planes, several[0].callback.planes, strict=True):
            np.testing.assert_array_equal(own, first)
    one, three = (read_seismograms(tmp_path / name) for name in ("one", "three"))
    np.testing.assert_allclose(one.data, three.data, rtol=1e-12, atol=1e-15)


SCRIPT = """
import sys
import lithowave as lw

class Stop(lw.Callback):
    def due(self, clock):
        return clock.step % 4 == 0

    def __call__(self, solver, clock):
        velocities = solver.receiver_velocities()
        assert velocities.shape == (4, 3) and solver.plane("z", 0.0)["velocity"].shape[-1] == 3
        assert len(set(solver.ranks.all_gather(velocities.tobytes()))) == 1
        if clock.step == 40 and solver.ranks.rank == solver.ranks.size - 1:
            clock.stop("the last rank stops all")

result = lw.Simulation.from_file(sys.argv[1]).run(output=sys.argv[2], callbacks=[Stop()])
assert result.complete and result.report["stopped_at_step"] == 40 and result.report["stopped_by"] == "Stop"
"""


def test_processes_stop_together(whole: lw.Result, tmp_path: Path) -> None:
    file = write_small(tmp_path)
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    command, environment = rank_command(2, [])
    command = [*command[: command.index(sys.executable) + 1], str(tmp_path / "script.py"), str(file)]
    done = subprocess.run(
        [*command, str(tmp_path / "out")], env=environment, capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert report_of(tmp_path / "out")["stop_reason"] == "the last rank stops all"
    seismograms = lw.load_seismograms(tmp_path / "out")
    assert seismograms.complete
    count = len(seismograms.time) // 2  # a complete run corrects the last samples by later steps
    data = whole.seismograms.data
    np.testing.assert_allclose(seismograms.data[..., :count], data[..., :count], atol=1e-5 * np.abs(data).max())
