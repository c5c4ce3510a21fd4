"""HDF5 files are laid out in memory: a full disk is met by us, never by the HDF5 library."""

from __future__ import annotations

import errno
import os

import h5py
import numpy as np
import pytest

from checkpoints import write_checkpoint
from lithowave import OutputError
from lithowave.output import (
    FILE_NAME,
    PAGE,
    ContiguousDataset,
    PagedFile,
    changing,
    creating,
    open_checkpoint,
    open_file,
    preallocate,
    replacing,
)


@pytest.fixture
def full_disk(monkeypatch):
    """Call it, and files cannot grow any more."""
    truncate = os.ftruncate

    def no_growth(descriptor, size):
        if size > os.fstat(descriptor).st_size:
            raise OSError(errno.ENOSPC, "No space left on device")
        truncate(descriptor, size)

    return lambda: monkeypatch.setattr(os, "ftruncate", no_growth)


def test_pages_hold_what_is_written_across_their_ends(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(range(200)) * 50)
    expected = bytearray(path.read_bytes())
    random = np.random.default_rng(1)
    with PagedFile(path, create=False) as file:
        for _ in range(50):
            start, data = int(random.integers(0, 30_000)), random.bytes(int(random.integers(1, 3 * PAGE)))
            expected.extend(bytes(max(0, start + len(data) - len(expected))))
            expected[start : start + len(data)] = data
            file.seek(start)
            file.write(data)
        file.seek(0)
        assert file.read(len(expected)) == expected
        assert file.seek(-5, os.SEEK_END) == len(expected) - 5
        assert len(path.read_bytes()) == 10_000, "nothing has been written yet"
        file.commit()
    assert path.read_bytes() == expected


def test_a_large_array_is_not_held_in_memory(tmp_path):
    with creating(tmp_path / "a.h5") as file:
        preallocate(file, "large", (1 << 30,), np.float64)
    with open_file(tmp_path / "a.h5") as file:
        assert file["large"].shape == (1 << 30,)
        assert ContiguousDataset.of(file["large"]).start > 0
    assert (tmp_path / "a.h5").stat().st_blocks * 512 < 1 << 20


def test_a_file_without_room_is_not_there(tmp_path, full_disk):
    full_disk()
    with pytest.raises(OutputError, match=r"a\.h5: the disk or quota is full"):
        with creating(tmp_path / "a.h5") as file:
            file["x"] = np.arange(10)
    assert not (tmp_path / "a.h5").exists()


def test_a_change_without_room_leaves_the_file_as_it_was(tmp_path, full_disk):
    path = tmp_path / "a.h5"
    with creating(path) as file:
        file["x"] = np.arange(10)
    before = path.read_bytes()
    full_disk()
    with pytest.raises(OutputError, match="is full"), changing(path) as file:
        file["x"][:] = 0
        file["y"] = np.arange(100_000)
    assert path.read_bytes() == before
    with changing(path) as file:
        file["x"][3] = 33
    with h5py.File(path) as file:
        assert file["x"][3] == 33


def test_a_fault_while_laying_out_leaves_nothing(tmp_path):
    with pytest.raises(ZeroDivisionError), creating(tmp_path / "a.h5") as file:
        file["x"] = 1 / 0
    with pytest.raises(ZeroDivisionError), replacing(tmp_path / "a.h5") as file:
        file["x"] = 1 / 0
    assert list(tmp_path.iterdir()) == []


def test_a_piece_without_a_place_is_not_taken_for_the_beginning(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("chunked", (10,), "f4", chunks=(5,))
    with open_file(tmp_path / "a.h5") as file, pytest.raises(ValueError, match="no position"):
        ContiguousDataset.of(file["chunked"])


def state(value):
    """What a checkpoint holds: single values, empty arrays, arrays of several types."""
    return {
        "clock": {"step": np.array(7), "time": np.array(0.5)},
        "seismograms": {
            "field/vx": np.full((3, 4, 5), value, np.float32),
            "layer/none": np.zeros((0, 3, 4, 0), np.float32),
            "peaks": np.arange(6.0).reshape(2, 3)[:, ::2],
        },
    }


def test_a_checkpoint_comes_back(tmp_path):
    write_checkpoint(tmp_path, state(1.5), {}, "identity")
    found = open_checkpoint(tmp_path, "identity").common
    for part, arrays in state(1.5).items():
        for name, array in arrays.items():
            assert np.array_equal(found[part][name], array) and found[part][name].dtype == array.dtype
    with pytest.raises(OutputError, match="belongs to another description"):
        open_checkpoint(tmp_path, "another")


def test_an_earlier_checkpoint_outlives_a_full_disk(tmp_path, full_disk):
    write_checkpoint(tmp_path, state(1.5), {}, "identity")
    full_disk()
    with pytest.raises(OutputError, match=r"rank_0000\.h5: the disk or quota is full.*is unchanged"):
        write_checkpoint(tmp_path, state(2.5), {}, "identity")
    assert open_checkpoint(tmp_path, "identity").common["seismograms"]["field/vx"][0, 0, 0] == 1.5
    folder = (tmp_path / FILE_NAME).parent
    assert sorted(path.name for path in folder.iterdir()) == ["checkpoint.h5", "step_000000007"]
