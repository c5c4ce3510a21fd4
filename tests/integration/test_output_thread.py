"""The thread that writes outputs: the loop does not wait for it, its memory is bounded, and its errors end a run."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import lithowave as lw
from fake_ranks import on_ranks
from fake_solver import SCHEDULE, FakeSolver, part_of_a_run, simulation_of
from lithowave import OutputError
from lithowave.output import (
    DESCRIPTION,
    FILE_NAME,
    MAX_PENDING,
    CheckpointWriter,
    PartWriter,
    SnapshotWriter,
    WriterThread,
    checkpoint,
    disk_rate,
    fingerprint,
    load_snapshots,
    open_checkpoint,
    read_report,
    recorders,
)
from lithowave.parallel import Ranks
from lithowave.run import check, check_simulation, duration_text, restart_run
from lithowave.solvers import Clock, GatheredSolver, PendingFields
from small_run import assert_same_results, write_small

PATIENCE = 30.0  # s; a test that waits longer fails
PLANE = {"interval": 0.05, "plane": {"z": 0}, "fields": ["velocity"]}
VOLUME = {"interval": 0.08, "volume": True, "fields": ["pressure", "stress"]}


class ObservedThread(WriterThread):
    """Calls a function before the time loop waits."""

    def __init__(self, observe: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self.observe = observe

    def _wait_until(self, condition: Callable[[], bool]) -> None:
        if not condition():
            self.observe()
        super()._wait_until(condition)


def hold_writers(monkeypatch: pytest.MonkeyPatch, gate: threading.Event, written: list[float]) -> None:
    """Let snapshot files wait for the gate, as on a slow disk."""
    write = SnapshotWriter.write

    def late(writer: SnapshotWriter, time: float, values: object) -> None:
        assert gate.wait(PATIENCE)
        write(writer, time, values)
        written.append(time)

    monkeypatch.setattr(SnapshotWriter, "write", late)


def test_the_loop_does_not_wait_for_a_slow_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop passes the first two snapshots of a plane, at steps 0 and 5, while the file accepts nothing."""
    gate, written, waits, steps = threading.Event(), [], [], []
    hold_writers(monkeypatch, gate, written)
    jobs = ObservedThread(lambda: waits.append(len(steps)))

    def each_step(_rank: int, _recorders: object) -> None:
        steps.append(len(written))
        if len(steps) == 9:
            gate.set()

    part_of_a_run(tmp_path / "run", 1, simulation_of([PLANE]), each_step=each_step, jobs=lambda: jobs)
    assert steps[:9] == [0] * 9 and len(steps) == 24
    assert all(step >= 9 for step in waits)
    with load_snapshots(tmp_path / "run" / "snapshots" / "plane_z_0.vtkhdf") as snapshots:
        assert snapshots.times.tolist() == pytest.approx([0.0, 0.05, 0.1, 0.15, 0.2])


def test_the_number_of_buffers_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the file accepts nothing, the loop waits before it computes the fields of a third snapshot."""
    gate, written, asked, waits = threading.Event(), [], [], []
    hold_writers(monkeypatch, gate, written)
    fields = FakeSolver.fields

    def counted(solver: FakeSolver, *arguments: object) -> PendingFields:
        asked.append(solver.now)
        assert len(asked) - len(written) <= MAX_PENDING
        return fields(solver, *arguments)

    monkeypatch.setattr(FakeSolver, "fields", counted)

    def observe() -> None:
        waits.append(len(asked))
        gate.set()

    part_of_a_run(tmp_path / "run", 1, simulation_of([PLANE]), jobs=lambda: ObservedThread(observe))
    assert waits[0] == MAX_PENDING == 2
    assert asked == [0, 5, 10, 15, 20] and len(written) == 5


@pytest.mark.parametrize("ranks", [1, 3])
def test_files_are_the_same_with_and_without_the_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ranks: int
) -> None:
    """The bytes of all files, over a checkpoint with steps after it that are computed again."""
    monkeypatch.setattr(recorders, "MAX_RECORDS", 5)
    simulation = simulation_of([PLANE, VOLUME], stress=True)
    for name, changes in (("thread", {"jobs": WriterThread}), ("loop", {})):
        part_of_a_run(tmp_path / name, ranks, simulation, until=13, beyond=4, **changes)
        part_of_a_run(tmp_path / name, ranks, simulation, **changes)
    files = sorted(path.relative_to(tmp_path / "loop") for path in (tmp_path / "loop").rglob("*") if path.is_file())
    assert {path.name for path in files} >= {"seismograms.h5", "plane_z_0.vtkhdf", "volume.vtkhdf"}
    for path in files:
        assert (tmp_path / "thread" / path).read_bytes() == (tmp_path / "loop" / path).read_bytes(), path


@pytest.mark.parametrize("rank", [0, 2])
def test_all_ranks_learn_that_the_last_snapshot_was_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rank: int
) -> None:
    write = PartWriter.write

    def full(writer: PartWriter, time: float, values: dict) -> None:
        if writer.path.name == f"rank_{rank:04d}.h5" and writer.written == 3:
            raise OutputError(f"{writer.path}: the disk or quota is full.")
        write(writer, time, values)

    monkeypatch.setattr(PartWriter, "write", full)

    def attempt(ranks: Ranks) -> str:
        jobs, simulation = WriterThread(), simulation_of([VOLUME])
        solver = GatheredSolver(FakeSolver(ranks.rank, ranks.size), ranks, simulation.acquisition)
        recorder = recorders.make_recorders(simulation, SCHEDULE, solver, tmp_path, {}, None, jobs)[1]
        for step in range(0, 25, 8):
            recorder(solver, Clock(SCHEDULE.time_step, SCHEDULE.steps, step))
        with pytest.raises(OutputError, match="is full") as caught:
            recorder.finish(solver, Clock(SCHEDULE.time_step, SCHEDULE.steps, SCHEDULE.steps))
        jobs.close()
        return str(caught.value)

    texts = on_ranks(3, attempt)
    assert [text.startswith(f"rank {rank}: ") for text in texts] == [number != rank for number in range(3)]


class Slow(lw.Callback):
    """Counts the steps after an event, and sleeps in each of them."""

    def __init__(self, event: threading.Event) -> None:
        self.event, self.later, self.last = event, 0, False

    def __call__(self, solver: object, clock: object) -> None:
        if self.event.is_set():
            self.later += 1
            self.last = clock.finished
            time.sleep(0.02)


def test_a_full_disk_ends_the_run_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of the second snapshot ends the run before the next one, and the first one remains readable."""
    write, failed = SnapshotWriter.write, threading.Event()

    def full(writer: SnapshotWriter, time: float, values: object) -> None:
        if writer.steps_written == 1:
            failed.set()
            raise OutputError(f"{writer.path}: the disk or quota is full. Its first 1 snapshots remain readable.")
        write(writer, time, values)

    monkeypatch.setattr(SnapshotWriter, "write", full)
    changes = {"output.snapshots": [{"interval": 0.2, "plane": {"z": 0}}]}
    simulation = lw.Simulation.from_file(write_small(tmp_path), changes)
    slow = Slow(failed)
    with pytest.raises(OutputError, match="disk or quota is full"):
        simulation.run(output=tmp_path / "out", callbacks=[slow])
    report = read_report(tmp_path / "out")
    assert slow.later < round(0.2 / report["plan"]["time_step_s"]) and not slow.last
    assert report["exit_state"] == "failed" and "is full" in report["error"]
    with load_snapshots(tmp_path / "out" / "snapshots" / "plane_z_0.vtkhdf") as snapshots:
        assert len(snapshots) == 1


def time_step(simulation: lw.Simulation) -> float:
    return check_simulation(simulation, measure=False).plan["time_step_s"]


class Steps(lw.Callback):
    """Calls a function after each step."""

    def __init__(self, work: Callable[[int], None]) -> None:
        self.work = work

    def __call__(self, solver: object, clock: object) -> None:
        self.work(clock.step)


@pytest.fixture
def disk_accepts(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Until this event, no checkpoint is on the disk."""
    gate, sync = threading.Event(), CheckpointWriter.sync

    def late(writer: CheckpointWriter) -> None:
        assert gate.wait(PATIENCE)
        sync(writer)

    monkeypatch.setattr(CheckpointWriter, "sync", late)
    return gate


def test_the_loop_does_not_wait_for_a_checkpoint(tmp_path: Path, disk_accepts: threading.Event) -> None:
    """The disk accepts the first checkpoint four steps later; the loop completes it then."""
    saved: list[bool] = []
    simulation = lw.Simulation.from_file(write_small(tmp_path), {"output.snapshots": []})
    every = round(0.3 / time_step(simulation))

    def look(step: int) -> None:
        saved.append((tmp_path / "out" / FILE_NAME).exists())
        if step == every + 4:
            disk_accepts.set()
        if disk_accepts.is_set():
            time.sleep(0.01)

    simulation.run(output=tmp_path / "out", callbacks=[Steps(look)])
    assert not any(saved[: every + 4]) and saved[2 * every]
    steps = [line for line in (tmp_path / "out" / "log.txt").read_text().splitlines() if line.endswith(": checkpoint")]
    assert [int(line.split("step ")[1].split(":")[0]) for line in steps][:2] == [every, 2 * every]


@pytest.mark.parametrize("late", [False, True])
def test_a_failed_checkpoint_ends_the_run_and_the_previous_one_remains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    """late : True if the system reports the full disk only when it is asked to sync."""
    fill, fsync, synced = checkpoint._fill, os.fsync, []

    def full(path: Path, arrays: dict) -> None:
        if path.name == "rank_0000.h5" and (tmp_path / "out" / FILE_NAME).exists():
            synced.append(path)
            if not late:
                raise OSError(errno.ENOSPC, "No space left on device")
        fill(path, arrays)

    def unsynced(descriptor: int) -> None:
        if late and synced and os.path.samefile(f"/proc/self/fd/{descriptor}", synced[0]):
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(descriptor)

    monkeypatch.setattr(checkpoint, "_fill", full)
    monkeypatch.setattr(os, "fsync", unsynced)
    simulation = lw.Simulation.from_file(write_small(tmp_path), {"output.checkpoint": {"interval": 0.2}})
    with pytest.raises(OutputError, match="rank_0000.h5: the disk or quota is full.*is unchanged"):
        simulation.run(output=tmp_path / "out", callbacks=[Steps(lambda step: time.sleep(0.01))])
    report = read_report(tmp_path / "out")
    every = round(0.2 / report["plan"]["time_step_s"])
    assert 2 * every <= report["failed_at_step"] < 3 * every
    monkeypatch.undo()
    assert open_checkpoint(tmp_path / "out", fingerprint((tmp_path / "out" / DESCRIPTION).read_text())).step == every
    restarted = restart_run(tmp_path / "out")
    assert_same_results(restarted.directory, simulation.run(output=tmp_path / "whole").directory)


def test_a_run_that_fails_completes_its_checkpoint(tmp_path: Path, disk_accepts: threading.Event) -> None:
    """An error in the step after the checkpoint, which is not on the disk then."""
    simulation = lw.Simulation.from_file(write_small(tmp_path))
    every = round(0.3 / time_step(simulation))

    def fail(step: int) -> None:
        if step == every + 1:
            disk_accepts.set()
            raise RuntimeError("a mistake")

    with pytest.raises(RuntimeError, match="a mistake"):
        simulation.run(output=tmp_path / "out", callbacks=[Steps(fail)])
    restarted = restart_run(tmp_path / "out")
    assert restarted.report["restarts"][0]["step"] == every
    assert_same_results(restarted.directory, simulation.run(output=tmp_path / "whole").directory)


def test_the_dry_run_predicts_the_time_of_outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a disk of 1 kB/s; the bytes are about those of the files of the run, and of all of its checkpoints."""
    changes = ("interval: 0.08", "interval: 0.02"), ("interval: 0.3", "interval: 0.4")
    simulation = lw.Simulation.from_file(write_small(tmp_path, *changes))
    monkeypatch.setattr(check, "disk_rate", lambda *_, **__: 1e3)
    slow = check_simulation(simulation)
    result = simulation.run(output=tmp_path / "out")
    files = [path for path in (tmp_path / "out").rglob("*.*") if path.suffix in (".h5", ".vtkhdf")]
    size = sum(path.stat().st_size for path in files)
    written = sum(path.stat().st_size for path in files if path.parts[-3] == "checkpoint")
    # One of the two checkpoints remains. The plan estimates their size with the padding of the arrays.
    assert 1.0 < 1e3 * slow.outputs_s / (size + written) < 1.2
    assert slow.loop_s == slow.outputs_s > 100 * result.report["loop_s"]
    assert any(text.startswith("output: writing") and "during" not in text for text in slow.warnings)
    assert ("time of outputs", f"{duration_text(slow.outputs_s)} to write, during the time loop") in slow.lines()
    monkeypatch.setattr(check, "disk_rate", lambda *_, **__: 1e12)
    fast = check_simulation(simulation)
    assert fast.outputs_s == pytest.approx(1e-9 * slow.outputs_s) and fast.loop_s > 100 * fast.outputs_s
    assert "time of outputs" not in dict(fast.lines()) and not any("output: writing" in text for text in fast.warnings)


def test_the_speed_of_the_disk_is_measured(tmp_path: Path) -> None:
    rate = disk_rate(tmp_path, 20 << 20)
    assert 1e6 < rate < 1e12 and not list(tmp_path.iterdir())
    with pytest.raises(OSError):
        disk_rate(tmp_path / "missing", 100)
