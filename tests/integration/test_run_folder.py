"""The run folder: what it tells, that no run overwrites another, and that a failing run stops clearly."""

from __future__ import annotations

import hashlib
import importlib
import json

import pytest

import lithowave as lw
from lithowave.output import RunFolder, load_snapshots
from lithowave.run import run_simulation
from lithowave.solvers import Schedule
from lithowave.solvers.finite_difference import FiniteDifferenceSolver
from small_machine import limit_disk, limit_memory
from small_run import lithowave, log_of, report_of, settings, spawn, write_small

# The package has a function of this name too.
plan_module = importlib.import_module("lithowave.solvers.finite_difference.plan")


def contents(folder):
    """Every file below a folder with its bytes."""
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_what_a_run_leaves(tmp_path):
    (tmp_path / "STATIONS").write_text("A XX 100.0 200.0 0.0 0.0\n")
    point = "{network: XX, name: S01, position: [330, 250, 0]}"
    file = write_small(tmp_path, (point, "{file: STATIONS, coordinates: cartesian}"))
    folder = tmp_path / "run"
    seen = []

    def show(entries):
        seen.append(entries)
        if entries["step"]:
            assert json.loads((folder / "progress.json").read_text())["steps"] == entries["steps"]

    result = run_simulation(lw.Simulation.from_file(file), folder, show=show)
    assert result.complete and result.seismograms.complete
    names = {
        "simulation.yaml",
        "run.json",
        "log.txt",
        "seismograms.h5",
        "peak_motion.h5",
        "snapshots",
        "checkpoint",
    }
    assert {path.name for path in folder.iterdir()} == names, (
        "progress.json is there only while the run goes on"
    )

    report = report_of(folder)
    assert report == result.report
    assert report["exit_state"] == "finished" and report["lithowave"] == lw.__version__
    assert report["inputs"] == {
        str(tmp_path / "STATIONS"): hashlib.sha256((tmp_path / "STATIONS").read_bytes()).hexdigest()
    }
    assert report["packages"]["numpy"] and report["processor"] and report["cores"] >= 1 and report["command"]
    plan = report["plan"]
    assert plan["point_count"] == 23 * 23 * 14 and 11 <= plan["steps"] - 0.8 / plan["time_step_s"] < 13
    assert 0 < report["loop_s"] < report["wall_s"] and report["rate_points_per_s"] > 1e4
    assert (report["threads"], report["precision"], report["backend"]) == (1, "single", "cpu")

    again = lw.Simulation.from_file(folder / "simulation.yaml")
    assert again.with_overrides({"output.directory": "out"}) == lw.Simulation.from_file(file)
    assert "step 0 of" in log_of(folder) and "complete" in log_of(folder)
    steps = [entries["step"] for entries in seen]
    assert steps == sorted(steps) and steps[0] == 0 and steps[-1] == plan["steps"]
    assert seen[-1]["remaining_s"] == 0 and seen[-1]["rate_points_per_s"] > 0


def test_another_run_is_not_overwritten_unless_told(tmp_path):
    file, folder = write_small(tmp_path), tmp_path / "run"
    lithowave("run", file, "--output", folder)
    before = contents(folder)
    text = lithowave("run", file, "--output", folder, "--set", "duration=0.4", status=2)
    assert f"output.directory: {folder} contains another run" in text
    assert "--overwrite" in text and "in Python overwrite=True" in text and "lithowave restart" in text
    assert contents(folder) == before

    (folder / "notes.txt").write_text("mine")
    changes = settings(
        "duration=0.4", "output.snapshots=[]", "output.peak_motion=false", "output.checkpoint=null"
    )
    lithowave("run", file, "--output", folder, "--overwrite", *changes)
    assert report_of(folder)["plan"]["steps"] < json.loads(before[folder / "run.json"])["plan"]["steps"]
    names = {"simulation.yaml", "run.json", "log.txt", "seismograms.h5", "notes.txt"}
    assert {path.name for path in folder.iterdir()} == names, (
        "nothing of the old run is left, what is not of it stays"
    )
    assert log_of(folder).count("begin") == 1


def test_a_folder_without_a_run_is_not_cleared(tmp_path):
    """A user's own files may have the names that runs use, the description above all."""
    file = write_small(tmp_path, name="simulation.yaml")
    before = contents(tmp_path)
    for more in ([], ["--overwrite"]):
        text = lithowave("run", file, "--output", tmp_path, *more, status=2)
        assert "output.directory" in text and "(simulation.yaml)" in text
        assert contents(tmp_path) == before


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "run").write_text("text")
    text = lithowave("run", write_small(tmp_path), "--output", tmp_path / "run", status=2)
    assert "run is a file; expected a directory" in text
    assert "PROBLEM" in lithowave(
        "check",
        write_small(tmp_path),
        "--no-measure",
        "--set",
        f"output.directory={tmp_path}/run/in",
        status=1,
    )


def test_one_run_at_a_time(tmp_path):
    file, folder = write_small(tmp_path), tmp_path / "run"
    lithowave("run", file, "--output", folder)
    with RunFolder.create(folder, "title: going on\n", overwrite=True):
        assert "a run is running in" in lithowave("restart", folder, status=2)
        assert "a run is running in" in lithowave("run", file, "--output", folder, "--overwrite", status=2)
        assert (folder / "simulation.yaml").read_text() == "title: going on\n"
    lithowave("run", file, "--output", folder, "--overwrite")


# --- failures on the way


def test_an_instability_is_told_with_step_place_and_causes(tmp_path, monkeypatch):
    def too_long(stable, *arguments):
        return Schedule(1.5 * stable, stable, sampling_interval=1.5 * stable, sample_count=400)

    monkeypatch.setattr(plan_module, "make_schedule", too_long)
    folder = tmp_path / "run"
    text = lithowave("run", write_small(tmp_path), "--output", folder, status=1)
    assert "error: unstable at step" in text and "Traceback" not in text
    assert "the largest velocity is" in text and " m/s near (" in text and "vp = 5000 m/s" in text
    assert "Likely causes" in text and "is 150% of the stability limit" in text
    assert f"partial results: {folder}" in text
    report = report_of(folder)
    assert report["exit_state"] == "failed" and "unstable" in report["error"]
    assert 0 < report["failed_at_step"] < 400, "the run stopped on the way"
    assert "failed: unstable" in log_of(folder)
    lw.load_seismograms(folder)


def test_no_checkpoint_is_written_of_fields_gone_wrong(tmp_path, monkeypatch):
    advance = FiniteDifferenceSolver.advance

    def spoiled(solver, step):
        advance(solver, step)
        if step == 20:
            solver.fields_by_name["vx"][8, 8, 8] = float("nan")

    monkeypatch.setattr(FiniteDifferenceSolver, "advance", spoiled)
    folder = tmp_path / "run"
    lithowave("run", write_small(tmp_path, ("interval: 0.3", "interval: 0.2")), "--output", folder, status=1)
    report = report_of(folder)
    assert report["failed_at_step"] <= 50 and not (folder / "checkpoint" / "checkpoint.h5").exists()


LIMITED = """
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, resource.RLIM_INFINITY))
"""


@pytest.mark.parametrize(
    ("size", "file"),
    [(500, None), (9000, "seismograms.h5"), (20_000, "plane_z_0.vtkhdf"), (100_000, "rank_0000.h5")],
)
def test_a_full_disk_stops_the_run_clearly(tmp_path, size, file):
    folder = tmp_path / "run"
    more = settings("output.stress=true", "output.snapshots=[{interval: 0.04, plane: {z: 0}}]")
    process = spawn("run", write_small(tmp_path), "--output", folder, *more, before=LIMITED.format(size=size))
    assert process.returncode == 1, process.errors
    assert "the disk or quota is full" in process.errors and "Traceback" not in process.errors
    if file is None:
        assert not folder.exists(), "a run that could not begin leaves nothing"
        return
    assert file in process.errors
    report = report_of(folder)
    assert report["exit_state"] == "failed" and file in report["error"]
    if file == "rank_0000.h5":
        assert not list(folder.rglob("*.part")) and not list(folder.glob("checkpoint/*"))
        assert len(lw.load_seismograms(folder).time) > 1
        with load_snapshots(folder / "snapshots" / "plane_z_0.vtkhdf") as snapshots:
            assert len(snapshots) > 1 and snapshots.read(1, "velocity").shape == (1, 13, 13, 3)
        # with room again the run goes on
        lithowave("restart", folder)
        assert lw.load_seismograms(folder).complete


def test_what_has_no_room_is_refused_before_the_start(tmp_path, monkeypatch):
    file, folder = write_small(tmp_path), tmp_path / "run"
    limit_disk(monkeypatch, 10_000)
    text = lithowave("run", file, "--output", folder, status=1)
    assert "of disk space, 10 kB are free" in text
    monkeypatch.undo()
    limit_memory(monkeypatch, 1000)
    text = lithowave("run", file, "--output", folder, status=1)
    assert "GB of memory" in text and "0.00 GB are free" in text
    assert not folder.exists()
    (folder / "log.txt").parent.mkdir()
    (folder / "log.txt").write_text("of an earlier run")
    (folder / "run.json").write_text('{"exit_state": "finished"}')
    text = lithowave("run", file, "--output", folder, status=1)
    assert "what was written" not in text, "the folder was not touched"
