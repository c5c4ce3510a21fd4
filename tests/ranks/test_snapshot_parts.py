"""Snapshots of which each rank writes its part: joined they are what one rank would have written."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import h5py
import numpy as np
import pytest
from typer.testing import CliRunner

from fake_ranks import on_ranks
from fake_solver import SHAPE, STEPS, part_of_a_run, simulation_of
from lithowave import OutputError
from lithowave.cli import app, print_run_summary
from lithowave.figures import snapshot_files
from lithowave.output import (
    PartReader,
    PartWriter,
    SnapshotHead,
    join_run,
    join_snapshots,
    load_snapshots,
    part_writer,
    parts_folder,
    recorders,
    unjoined,
)
from lithowave.output import snapshots as joining
from lithowave.run import Result

FIELDS = ["velocity", "stress", "pressure"]
VOLUME = {"interval": 0.03, "volume": True, "fields": FIELDS}


def content(path: Path) -> dict[str, object]:
    """All attributes and arrays of a file, and in which place these begin."""
    found: dict[str, object] = {}

    def take(name: str, item: h5py.Group | h5py.Dataset) -> None:
        found.update({f"{name}@{key}": np.asarray(value).tolist() for key, value in item.attrs.items()})
        if isinstance(item, h5py.Dataset):
            found[name] = (item.shape, item.dtype, item[()].tobytes())

    with h5py.File(path) as file:
        file.visititems(take)
        found.update({f"@{key}": np.asarray(value).tolist() for key, value in file.attrs.items()})
    return found


@pytest.fixture
def whole(tmp_path) -> Path:
    """The volume as one rank writes it."""
    part_of_a_run(tmp_path / "whole", 1, simulation_of([VOLUME]))
    return tmp_path / "whole" / "snapshots" / "volume.vtkhdf"


@pytest.fixture
def kept_apart(monkeypatch):
    """Everything is too large to be joined when a run ends."""
    monkeypatch.setattr(recorders, "JOINED_BY_RUNS", 0)


def report(folder: Path, state: str) -> None:
    (folder / "run.json").write_text(json.dumps({"exit_state": state}), encoding="utf-8")


@pytest.mark.parametrize("block", [1, 7, 20, 2_000_000])
@pytest.mark.parametrize("size", [2, 3, 4])
def test_joined_by_the_run_it_is_the_file_of_one_rank(tmp_path, monkeypatch, whole, size, block):
    monkeypatch.setattr(joining, "BLOCK_POINTS", block)
    folder = tmp_path / "run"
    assert part_of_a_run(folder, size, simulation_of([VOLUME])) == [(), ()]
    path = folder / "snapshots" / "volume.vtkhdf"
    assert content(path) == content(whole)
    assert [one.name for one in path.parent.iterdir()] == ["volume.vtkhdf"], "the parts are gone"
    with load_snapshots(path) as snapshots:
        assert len(snapshots) == STEPS // 3 + 1
        velocity = snapshots.read(2, "velocity")
        assert np.isnan(velocity.reshape(-1, 3)[7]).all() and np.isnan(velocity).sum() == 3
        assert np.allclose(velocity[1, 2, 3], np.cos(0.6 + 45.0) * np.arange(1, 4), atol=1e-6)


@pytest.mark.parametrize("plane", ["x", "y", "z"])
@pytest.mark.parametrize("interval", [0.03, 1.0])
@pytest.mark.parametrize("block", [1, 8, 2_000_000])
def test_large_planes_are_written_in_parts_too(tmp_path, monkeypatch, plane, interval, block):
    """Vertical ones are stored two points thick, and a single snapshot without the axis of time."""
    simulation = simulation_of([{"interval": interval, "plane": {plane: 0.0}, "fields": FIELDS}])
    monkeypatch.setattr(joining, "BLOCK_POINTS", block)
    monkeypatch.setattr(recorders, "MAX_GATHERED_POINTS", 10)
    for size in (1, 3):
        part_of_a_run(tmp_path / str(size), size, simulation)
    one, several = (tmp_path / size / "snapshots" / f"plane_{plane}_0.vtkhdf" for size in "13")
    assert content(several) == content(one)


def test_planes_are_gathered(tmp_path, kept_apart):
    simulation = simulation_of([{"interval": 0.03, "plane": {"z": 0.0}, "fields": FIELDS}])
    for size in (1, 3):
        part_of_a_run(tmp_path / str(size), size, simulation)
    one, several = (tmp_path / size / "snapshots" / "plane_z_0.vtkhdf" for size in "13")
    assert content(several) == content(one) and unjoined(tmp_path / "3") == []


@pytest.mark.parametrize(
    ("sizes", "folders"),
    [
        ((3, 3, 3), ["from_000000"]),
        ((3, 2, 4), ["from_000000", "from_000003", "from_000006"]),
        ((2, 1, 1), ["from_000000", "from_000003"]),
        ((1, 3, 2), None),
    ],
)
def test_runs_go_on_on_another_number_of_ranks(tmp_path, kept_apart, whole, sizes, folders):
    """Each part is killed some steps behind its checkpoint; what was written there is written anew."""
    folder, simulation = tmp_path / "run", simulation_of([VOLUME])
    path = folder / "snapshots" / "volume.vtkhdf"
    part_of_a_run(folder, sizes[0], simulation, until=7, beyond=8)
    # killed once more before the next checkpoint, on a number of ranks of its own
    part_of_a_run(folder, sizes[1], simulation, until=17, beyond=7)
    remarks = part_of_a_run(folder, sizes[2], simulation)[1]
    if folders is None:
        assert content(path) == content(whole) and remarks == ()
        return
    assert sorted(one.name for one in parts_folder(path).iterdir()) == folders
    assert remarks == (
        f"volume.vtkhdf consists of the parts that the ranks have written; `lithowave join {folder}` joins them",
    )
    assert join_snapshots(path) == STEPS // 3 + 1
    assert content(path) == content(whole)


def test_killed_before_a_checkpoint_it_goes_on_from_the_one_before(tmp_path, kept_apart, whole):
    """On two ranks, on five that are killed before their first checkpoint, on three."""
    folder, simulation = tmp_path / "run", simulation_of([VOLUME])
    path = folder / "snapshots" / "volume.vtkhdf"
    part_of_a_run(folder, 2, simulation, until=7)
    part_of_a_run(folder, 5, simulation, until=100, beyond=-80)
    assert (parts_folder(path) / "from_000003" / "rank_0004.h5").exists()
    part_of_a_run(folder, 3, simulation)
    assert not (parts_folder(path) / "from_000003" / "rank_0003.h5").exists()
    join_snapshots(path)
    assert content(path) == content(whole)


@pytest.mark.parametrize("size", [1, 2])
def test_begun_anew_nothing_of_before_is_left(tmp_path, kept_apart, whole, size):
    folder, simulation = tmp_path / "run", simulation_of([VOLUME])
    path = folder / "snapshots" / "volume.vtkhdf"
    part_of_a_run(folder, 3, simulation, until=100, beyond=-90)
    join_snapshots(path)
    part_of_a_run(folder, size, simulation)
    if size == 1:
        assert not parts_folder(path).exists()
    else:
        assert not path.exists() and len(list(parts_folder(path).glob("*/*.h5"))) == 2
        join_snapshots(path)
    assert content(path) == content(whole)


def test_the_command_joins_and_removes(tmp_path, kept_apart, whole):
    folder, simulation = tmp_path / "run", simulation_of([VOLUME, VOLUME | {"interval": 0.1}])
    part_of_a_run(folder, 3, simulation)
    paths = [folder / "snapshots" / name for name in ("volume.vtkhdf", "volume_2.vtkhdf")]
    assert unjoined(folder) == paths
    for read in (lambda: snapshot_files(folder), lambda: load_snapshots(paths[0])):
        with pytest.raises(OutputError, match=f"volume.vtkhdf: .*Make one file of them: lithowave join {folder}"):
            read()
    report(folder, "finished")
    result = CliRunner().invoke(app, ["join", str(folder), "--keep"])
    assert result.exit_code == 0 and f"{paths[0]}: 9 snapshots\n" in result.output
    assert unjoined(folder) == paths and snapshot_files(folder) == paths
    result = CliRunner().invoke(app, ["join", str(folder)])
    assert result.exit_code == 0 and content(paths[0]) == content(whole)
    assert sorted(paths[0].parent.iterdir()) == paths and unjoined(folder) == []
    assert "no snapshot parts to join" in CliRunner().invoke(app, ["join", str(folder)]).output
    result = CliRunner().invoke(app, ["join", str(tmp_path)])
    assert result.exit_code == 1 and "is not a run folder" in result.output


def test_whoever_ran_it_is_told_what_to_type(tmp_path, capsys, kept_apart):
    done = Result(tmp_path, {"unit": "points", "rate_points_per_s": 1e6, "wall_s": 3.0})
    print_run_summary(done)
    assert "join" not in capsys.readouterr().out
    part_of_a_run(tmp_path, 2, simulation_of([VOLUME]))
    print_run_summary(done)
    assert f"join:    lithowave join {tmp_path} " in capsys.readouterr().out


def test_what_a_process_that_was_killed_had_not_removed_goes_later(tmp_path, kept_apart):
    part_of_a_run(tmp_path, 2, simulation_of([VOLUME]))
    report(tmp_path, "finished")
    gone = tmp_path / "snapshots" / ".volume.parts.gone"
    parts_folder(tmp_path / "snapshots" / "volume.vtkhdf").rename(gone)
    join_run(tmp_path)
    assert not gone.exists()


def test_of_a_run_that_was_stopped_the_parts_stay(tmp_path, kept_apart, whole):
    folder, simulation = tmp_path / "run", simulation_of([VOLUME])
    path = folder / "snapshots" / "volume.vtkhdf"
    part_of_a_run(folder, 3, simulation, until=10)
    report(folder, "stopped")
    said: list[str] = []
    assert join_run(folder, report=said.append) == [path]
    assert said == [f"{path}: 4 snapshots, parts retained since the run is not complete"]
    with load_snapshots(path) as snapshots, load_snapshots(whole) as expected:
        assert snapshots.times.tolist() == expected.times[:4].tolist()
        assert np.array_equal(snapshots.read(3, "stress"), expected.read(3, "stress"), equal_nan=True)
    part_of_a_run(folder, 2, simulation, until=20)
    assert not path.exists(), "the copy lacks what comes now"
    part_of_a_run(folder, 3, simulation)
    join_run(folder)
    assert content(path) == content(whole)


def test_a_joined_file_can_be_gone_on_with(tmp_path, whole):
    """A run that failed behind its last snapshots, when its parts were joined."""
    folder, simulation = tmp_path / "run", simulation_of([VOLUME])
    part_of_a_run(folder, 3, simulation, until=10)
    checkpoint = {path: path.read_bytes() for path in (folder / "checkpoint").rglob("*.h5")}
    part_of_a_run(folder, 3, simulation)
    assert unjoined(folder) == []
    for path, data in checkpoint.items():
        assert path.read_bytes() == data
    part_of_a_run(folder, 2, simulation)
    assert content(folder / "snapshots" / "volume.vtkhdf") == content(whole)


def test_a_part_that_is_missing_short_or_foreign_is_named(tmp_path, kept_apart):
    folder, simulation = tmp_path / "run", simulation_of([VOLUME])
    path = folder / "snapshots" / "volume.vtkhdf"
    part_of_a_run(folder, 3, simulation, until=13)
    part_of_a_run(folder, 2, simulation, until=20)
    parts = parts_folder(path)
    last = parts / "from_000000" / "rank_0002.h5"
    good = last.read_bytes()
    harms = {
        "the file does not exist": last.unlink,
        "is damaged": lambda: last.write_bytes(good[:-100]),
        "is not a part of a lithowave snapshot file": lambda: h5py.File(last, "w").close(),
    }
    for text, harm in harms.items():
        harm()
        with pytest.raises(OutputError, match=f"{last}: {text}"):
            join_snapshots(path)
        assert not path.exists() and not list(path.parent.glob(".*"))
        last.write_bytes(good)
    writer = PartWriter.resume(last, np.arange(0), 2)
    writer.close()
    with pytest.raises(OutputError, match=f"{last}: contains 2 snapshots, but the next part begins after 5"):
        join_snapshots(path)
    last = parts / "from_000005" / "rank_0001.h5"
    writer = PartWriter.resume(last, np.arange(0), 1)
    writer.close()
    with pytest.raises(OutputError, match=f"{last}: contains 1 snapshots; the restart requires 2"):
        part_of_a_run(folder, 3, simulation)
    for one in (parts / "from_000000").iterdir():
        one.unlink()
    os.rmdir(parts / "from_000000")
    for go in (lambda: join_snapshots(path), lambda: part_of_a_run(folder, 3, simulation)):
        with pytest.raises(OutputError, match="the parts of the first snapshots are missing"):
            go()


def test_a_run_does_not_fail_where_only_joining_does(tmp_path, monkeypatch, whole):
    folder, simulation = tmp_path / "run", simulation_of([VOLUME])

    def no_room(_: Path) -> int:
        raise OutputError("there is no room.")

    monkeypatch.setattr(recorders, "join_snapshots", no_room)
    (remark,) = part_of_a_run(folder, 3, simulation)[1]
    assert "there is no room" in remark and f"lithowave join {folder}" in remark
    path = folder / "snapshots" / "volume.vtkhdf"
    join_snapshots(path)
    assert content(path) == content(whole)


def head(step_count: int = 3) -> SnapshotHead:
    return SnapshotHead((0.0,) * 3, (1.0,) * 3, SHAPE[::-1], ("velocity", "pressure"), step_count, {})


def values(points: np.ndarray, time: float) -> dict[str, np.ndarray]:
    return {"velocity": np.stack([points + time] * 3, axis=-1), "pressure": points - time}


def test_a_part_counts_what_is_complete(tmp_path, monkeypatch):
    """A disk that is full in the midst of a snapshot; then there is room again."""
    path, points = tmp_path / "from_000000" / "rank_0000.h5", np.array([5, 3, 90, 4])
    writer = PartWriter(path, head(), points, 0, 1)
    writer.write(0.0, values(points, 0.0))
    original, calls = os.pwrite, []

    def full(*arguments: object) -> int:
        calls.append(arguments)
        if len(calls) > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return original(*arguments)

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OutputError, match="is full.*Its first 1 snapshots remain"):
        writer.write(9.0, values(points, 9.0))
    monkeypatch.undo()
    reader = PartReader(path)
    assert reader.times.tolist() == [0.0] and reader.points[()].tolist() == [3, 4, 5, 90]
    reader.close()
    writer.write(1.0, values(points, 1.0))
    writer.sync()
    writer.close()
    writer.close()
    reader = PartReader(path)
    assert reader.times.tolist() == [0.0, 1.0]
    high, at = reader.stretch(4, 80, 1)
    assert (high, at.tolist()) == (3, [0, 1])
    assert reader.read("pressure", 1, 1, high).tolist() == [3.0, 4.0]
    reader.close()


def test_wrong_calls_are_refused(tmp_path):
    path, points = tmp_path / "rank_0000.h5", np.arange(4)
    writer = PartWriter(path, head(1), points, 0, 1)
    with pytest.raises(KeyError, match="pressure"):
        writer.write(0.0, {"velocity": np.zeros((4, 3))})
    with pytest.raises(ValueError, match=r"shape \(3, 3\), expected \(4, 3\)"):
        writer.write(0.0, {"velocity": np.zeros((3, 3)), "pressure": np.zeros(4)})
    writer.write(0.0, values(points, 0.0))
    with pytest.raises(ValueError, match="the file has space for 1 snapshots"):
        writer.write(1.0, values(points, 1.0))
    writer.close()
    (tmp_path / "rank_0001.h5").write_bytes(b"nothing of the kind")
    with pytest.raises(OutputError, match="rank_0001.h5: is damaged"):
        PartWriter.resume(tmp_path / "rank_0001.h5", points, 0)
    h5py.File(tmp_path / "rank_0002.h5", "w").close()
    with pytest.raises(OutputError, match="rank_0002.h5: is not a part"):
        PartWriter.resume(tmp_path / "rank_0002.h5", points, 0)


def test_all_ranks_learn_that_one_has_no_room(tmp_path, monkeypatch):
    original = PartWriter.__init__

    def no_room(self: PartWriter, path: Path, *arguments: object) -> None:
        if path.name == "rank_0001.h5":
            raise OutputError(f"{path}: the disk or quota is full.")
        original(self, path, *arguments)

    monkeypatch.setattr(PartWriter, "__init__", no_room)

    def attempt(ranks) -> str:
        with pytest.raises(OutputError, match=r"rank_0001\.h5: the disk or quota is full") as caught:
            part_writer(tmp_path / "volume.vtkhdf", head(), np.arange(ranks.rank, 9, 3), ranks, None)
        return str(caught.value)

    texts = on_ranks(3, attempt)
    assert [text.startswith("rank 1: ") for text in texts] == [True, False, True]
