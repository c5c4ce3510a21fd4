"""Checkpoints of several ranks: read by any number of ranks, whole at any moment, and clear about what is wrong."""

from __future__ import annotations

import errno
import math
import os
import shutil
import signal
import weakref
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path

import h5py
import numpy as np
import pytest

from checkpoints import write_checkpoint
from fake_ranks import on_ranks
from lithowave import OutputError
from lithowave.output import FILE_NAME, FOLDER, open_checkpoint
from lithowave.output import checkpoint as module
from lithowave.parallel import SINGLE_RANK
from lithowave.solvers import ArraySection, Hyperslab, RowSelection
from small_machine import limit_disk

WHOLE, ROWS = (7, 6, 11), 23
FIELD = np.arange(math.prod(WHOLE) * 2, dtype=np.float32).reshape(*WHOLE, 2)
LAYER = np.arange(WHOLE[0] * 4.0).reshape(WHOLE[0], 4)
# keys in no order and with gaps, as those of shared nodes are
KEYS = np.random.default_rng(3).permutation(10 * ROWS)[:ROWS]
NODES = np.sin(np.arange(ROWS * 3.0)).reshape(ROWS, 3)


def common(step: int = 120) -> dict[str, dict[str, np.ndarray]]:
    return {
        "clock": {"step": np.array(step), "time": np.array(0.01 * step)},
        "seismograms": {"samples": np.array(31), "nested/velocity": np.ones((2, 5, 3))},
    }


def cut(count: int, rank: int, parts: int) -> tuple[int, int]:
    """First and number of the numbers that a part has of `count`."""
    first, end = (count * part // parts for part in (rank, rank + 1))
    return first, end - first


def state_of(rank: int, ranks: int, factor: float = 1.0) -> dict[str, ArraySection]:
    """What a rank has: a slab along the last axis, a slab of a layer that may be empty, some of the rows."""
    first, count = cut(WHOLE[2], rank, ranks)
    box = Hyperslab((0, 0, first), (*WHOLE[:2], count), WHOLE)
    begin, length = cut(WHOLE[0], rank, ranks)
    nodes = np.flatnonzero(np.arange(ROWS) % max(1, ranks - 1) == rank)[::-1]  # the last of several has none
    return {
        "field/velocity": ArraySection(box, factor * FIELD[:, :, first : first + count]),
        "layer": ArraySection(Hyperslab((begin,), (length,), WHOLE[:1]), factor * LAYER[begin : begin + length]),
        "nodes": ArraySection(RowSelection(KEYS[nodes]), factor * NODES[nodes]),
    }


def places_of(rank: int, ranks: int, ghosts: int = 2) -> dict[str, Hyperslab | RowSelection]:
    """What a rank reads: a slab along the first axis with its neighbours' ends, beyond the domain, too; rows."""
    first, count = cut(WHOLE[0], rank, ranks)
    field = Hyperslab((first - ghosts, 0, 0), (count + 2 * ghosts, *WHOLE[1:]), WHOLE)
    layer, rows = Hyperslab((0,), WHOLE[:1], WHOLE[:1]), RowSelection(KEYS[rank::ranks][::-1])
    return {"field/velocity": field, "layer": layer, "nodes": rows}


def write(folder: Path, ranks: int = 3, step: int = 120, factor: float = 1.0) -> None:
    on_ranks(
        ranks, lambda one: write_checkpoint(folder, common(step), state_of(one.rank, ranks, factor), "identity", one)
    )


def expected(place: Hyperslab | RowSelection, whole: np.ndarray, factor: float = 1.0) -> np.ndarray:
    if isinstance(place, RowSelection):
        return factor * whole[[int(np.flatnonzero(key == KEYS)[0]) for key in place.keys]]
    padded = np.pad(whole, [(4, 4)] * len(place.shape) + [(0, 0)] * (whole.ndim - len(place.shape)))
    within = tuple(slice(low + 4, low + 4 + count) for low, count in zip(place.first, place.shape, strict=True))
    return factor * padded[within]


def assert_whole(folder: Path, ranks: int, step: int = 120, factor: float = 1.0) -> None:
    for rank in range(ranks):
        found = open_checkpoint(folder, "identity")
        assert found is not None and found.step == step
        values = found.pieces(places_of(rank, ranks))
        for name, whole in {"field/velocity": FIELD, "layer": LAYER, "nodes": NODES}.items():
            assert np.array_equal(values[name], expected(places_of(rank, ranks)[name], whole, factor)), name
            assert values[name].dtype == whole.dtype and values[name].flags.c_contiguous


def steps_kept(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / FOLDER).iterdir())


@pytest.mark.parametrize("block", [module.BLOCK_BYTES, 64])
@pytest.mark.parametrize("readers", [3, 2, 1, 5])
@pytest.mark.parametrize("writers", [3, 1, 9])
def test_any_number_of_ranks_reads_what_any_number_wrote(tmp_path, monkeypatch, writers, readers, block):
    monkeypatch.setattr(module, "BLOCK_BYTES", block)
    write(tmp_path, writers)
    assert_whole(tmp_path, readers)
    found = open_checkpoint(tmp_path, "identity")
    assert found.common["clock"] == common()["clock"] and len(found.files) == writers
    assert np.array_equal(found.common["seismograms"]["nested/velocity"], np.ones((2, 5, 3)))


def test_one_checkpoint_takes_the_place_of_another(tmp_path):
    assert open_checkpoint(tmp_path, "identity") is None
    write(tmp_path, 3)
    write(tmp_path, 2, step=150, factor=3.0)
    assert_whole(tmp_path, 2, 150, 3.0)
    assert steps_kept(tmp_path) == ["checkpoint.h5", "previous.h5", "step_000000120", "step_000000150"]
    # of the same step: never into the files that the checkpoint names
    write(tmp_path, 4, step=150, factor=5.0)
    assert_whole(tmp_path, 3, 150, 5.0)
    assert steps_kept(tmp_path) == ["checkpoint.h5", "previous.h5", "step_000000150", "step_000000150_2"]
    module.remove_previous(tmp_path)
    assert_whole(tmp_path, 3, 150, 5.0)
    assert steps_kept(tmp_path) == ["checkpoint.h5", "step_000000150_2"]


def test_nothing_wanted_is_nothing_found(tmp_path):
    write(tmp_path, 3)
    found = open_checkpoint(tmp_path, "identity")
    nothing = np.zeros(0, np.int64)
    field = Hyperslab((7, 0, 0), (0, 6, 11), WHOLE)
    places = {"nodes": RowSelection(nothing), "none": RowSelection(nothing), "field/velocity": field}
    values = found.pieces(places | {"no layer": Hyperslab((0,), (0,), (0,))})
    assert {name: len(one) for name, one in values.items()} == {
        "nodes": 0, "none": 0, "field/velocity": 0, "no layer": 0
    }  # fmt: skip


@pytest.mark.parametrize(
    "place", [RowSelection(np.array([int(KEYS[0]), 10_000])), RowSelection(np.array([-1])), Hyperslab((0,), (3,), (3,))]
)
def test_what_is_in_no_file_is_missed(tmp_path, place):
    write(tmp_path)
    name = "nodes" if isinstance(place, RowSelection) else "unknown"
    with pytest.raises(OutputError, match=f"the checkpoint lacks values of {name}"):
        open_checkpoint(tmp_path, "identity").pieces({name: place})


def cut_short(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 40)


def spoil(path: Path) -> None:
    path.write_bytes(b"\0" * path.stat().st_size)


def forget_rows(path: Path) -> None:
    size = path.stat().st_size
    with h5py.File(path, "r+") as file:
        del file["nodes/values"]
    os.truncate(path, size)


def of_another_run(path: Path) -> None:
    size = path.stat().st_size
    with h5py.File(path, "r+") as file:
        file.attrs.modify("step", 110)
    os.truncate(path, size)


@pytest.mark.parametrize("harm", [os.unlink, cut_short, spoil, forget_rows, of_another_run])
def test_damaged_and_missing_files_are_named(tmp_path, harm: Callable[[Path], None]):
    write(tmp_path)
    harm(tmp_path / FOLDER / "step_000000120" / "rank_0001.h5")
    with pytest.raises(OutputError, match=r"rank_0001\.h5: "):
        open_checkpoint(tmp_path, "identity").pieces(places_of(0, 1))


def test_a_damaged_or_foreign_checkpoint_is_named(tmp_path):
    write(tmp_path)
    with pytest.raises(OutputError, match="belongs to another description"):
        open_checkpoint(tmp_path, "another")
    spoil(tmp_path / FILE_NAME)
    with pytest.raises(OutputError, match=r"checkpoint\.h5: is damaged"):
        open_checkpoint(tmp_path, "identity")


def flip(path: Path, position: int, bit: int = 0) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1 << bit
    path.write_bytes(content)


def zero(path: Path, position: int) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:position] + bytes(512) + content[position + 512 :])


@pytest.mark.parametrize("name", ["checkpoint.h5", "step_000000150/rank_0001.h5"])
def test_any_changed_bit_is_found_and_the_previous_checkpoint_is_the_remedy(tmp_path, name):
    """Values, positions of values, names and the checksum itself."""
    write(tmp_path, 3)
    write(tmp_path, 3, 150, 2.0)
    path = tmp_path / FOLDER / name
    content = path.read_bytes()
    values = content.index(np.float64(1.5).tobytes() if name == "checkpoint.h5" else (2 * LAYER[3, 1]).tobytes())
    positions = [*np.random.default_rng(0).integers(0, len(content), 40).tolist(), values + 6, len(content) - 1]
    for position in positions:
        flip(path, position, position % 8)
        with pytest.raises(OutputError, match=rf"{path.name}: is damaged") as found:
            open_checkpoint(tmp_path, "identity")
        assert "The previous checkpoint, of step 120, is intact: `mv " in str(found.value), position
        path.write_bytes(content)
    for harm in (lambda path: zero(path, values - values % 512), cut_short, spoil, lambda path: path.write_bytes(b"")):
        harm(path)
        with pytest.raises(OutputError, match=rf"{path.name}: .*previous checkpoint, of step 120"):
            open_checkpoint(tmp_path, "identity")
        path.write_bytes(content)
    assert_whole(tmp_path, 2, 150, 2.0)
    spoil(path)
    os.replace(tmp_path / module.PREVIOUS, tmp_path / FILE_NAME)
    assert_whole(tmp_path, 2)


def test_a_damaged_previous_checkpoint_is_no_remedy(tmp_path):
    write(tmp_path, 2)
    write(tmp_path, 2, 150)
    flip(tmp_path / FOLDER / "step_000000150" / "rank_0000.h5", 3000)
    flip(tmp_path / FOLDER / "step_000000120" / "rank_0001.h5", 3000)
    with pytest.raises(OutputError, match=r"rank_0000\.h5: is damaged.*Run the simulation again"):
        open_checkpoint(tmp_path, "identity")


@pytest.mark.parametrize("readers", [1, 2, 3])
def test_ranks_share_the_verification_and_all_learn_of_damage(tmp_path, readers):
    write(tmp_path, 3)
    flip(tmp_path / FOLDER / "step_000000120" / "rank_0002.h5", 3000)

    def attempt(ranks) -> str:
        with pytest.raises(OutputError) as caught:
            open_checkpoint(tmp_path, "identity", ranks)
        return str(caught.value)

    assert all("rank_0002.h5: is damaged" in text for text in on_ranks(readers, attempt))


def full_on(rank: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the files of a rank find no room, when half of them is written."""
    fill = module._fill

    def no_room(path: Path, arrays: dict[str, np.ndarray]) -> None:
        if path.name == f"rank_{rank:04d}.h5":
            with open(path, "r+b") as file:
                file.write(b"half of it")
            raise OSError(errno.ENOSPC, "No space left on device")
        fill(path, arrays)

    monkeypatch.setattr(module, "_fill", no_room)


@pytest.mark.parametrize("rank", [0, 2])
def test_all_ranks_learn_that_one_has_no_room(tmp_path, monkeypatch, rank):
    write(tmp_path, 3)
    full_on(rank, monkeypatch)

    def attempt(ranks) -> str:
        with pytest.raises(OutputError) as caught:
            write_checkpoint(tmp_path, common(150), state_of(ranks.rank, 3, 2.0), "identity", ranks)
        return str(caught.value)

    texts = on_ranks(3, attempt)
    for number, text in enumerate(texts):
        assert f"rank_{rank:04d}.h5: the disk or quota is full" in text and "is unchanged" in text
        assert text.startswith(f"rank {rank}: ") == (number != rank)
    assert_whole(tmp_path, 2)
    assert steps_kept(tmp_path) == ["checkpoint.h5", "step_000000120"], "the room of what failed is free again"
    monkeypatch.undo()
    write(tmp_path, 3, 180, 2.0)
    assert_whole(tmp_path, 2, 180, 2.0)


def test_one_that_cannot_fit_is_not_begun(tmp_path, monkeypatch):
    """What all ranks together need counts."""
    write(tmp_path, 3)
    own = sum(piece.values.nbytes for piece in state_of(1, 3).values())
    limit_disk(monkeypatch, 2 * own)
    with pytest.raises(OutputError, match=r"checkpoint\.h5: requires"):
        write(tmp_path, 3, 150)
    monkeypatch.undo()
    assert_whole(tmp_path, 1)


DISK_CALLS = ("mkdir", "unlink", "rmdir", "replace", "fsync")


def killed_at(folder: Path, number: int, behind: bool) -> bool:
    """Whether a process of its own that writes the checkpoint of step 150 came to its call of this number that changes
    the disk, before or behind which it is killed."""
    child = os.fork()
    if child:
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status in (0, -signal.SIGKILL)
        return status != 0
    calls = count()

    def killing(call: Callable) -> Callable:
        def called(*arguments, **options):
            here = next(calls) == number
            if here and not behind:
                os.kill(os.getpid(), signal.SIGKILL)
            try:
                return call(*arguments, **options)
            finally:
                if here:
                    os.kill(os.getpid(), signal.SIGKILL)

        return called

    for name in DISK_CALLS:
        setattr(os, name, killing(getattr(os, name)))
    try:
        write_checkpoint(folder, common(150), state_of(0, 1, 2.0), "identity", SINGLE_RANK)
    finally:
        os._exit(0)


@pytest.mark.parametrize("behind", [False, True])
def test_killed_at_any_moment_the_last_one_stays(tmp_path, behind):
    """At each call that changes the disk: the checkpoint before, and from some call on the new one."""
    steps: list[int] = []
    for number in count():
        folder = tmp_path / str(number)
        folder.mkdir()
        write(folder, 3)
        (folder / FOLDER / "step_000000130").mkdir()  # of a run that was killed earlier
        if not killed_at(folder, number, behind):
            break
        steps.append(open_checkpoint(folder, "identity").step)
        assert_whole(folder, 2, *((150, 2.0) if steps[-1] == 150 else (120, 1.0)))
        write(folder, 2, 150, 4.0)
        assert_whole(folder, 3, 150, 4.0)
        assert len(steps_kept(folder)) == 4, "what was left is gone, except two checkpoints"
    assert len(steps) > 7 and steps == sorted(steps) and set(steps) == {120, 150}


def test_the_names_are_on_the_disk_before_the_checkpoint_is(tmp_path, monkeypatch):
    """Machines lose power: first what is named, then the names, and what it replaces last."""
    order = []

    def note(name: str, original: Callable) -> Callable:
        def noted(*arguments):
            order.append(name)
            return original(*arguments)

        return noted

    write(tmp_path, 1)
    write(tmp_path, 1, 130)
    monkeypatch.setattr(os, "fsync", note("fsync", os.fsync))
    monkeypatch.setattr(os, "replace", note("replace", os.replace))
    monkeypatch.setattr(shutil, "rmtree", note("rmtree", shutil.rmtree))
    write(tmp_path, 1, 150)
    assert order == ["rmtree", *["fsync"] * 3, "replace", "fsync", "replace", "fsync"], (
        "the oldest checkpoint; the pieces and both folders; the copy of the last checkpoint.h5, and the new one"
    )


def test_pieces_that_do_not_fit_their_place_are_refused(tmp_path):
    for name, piece in {
        "box": ArraySection(Hyperslab((0, 0), (3, 2), (3, 2)), np.zeros((3, 3))),
        "rows": ArraySection(RowSelection(np.arange(4)), np.zeros((3, 2))),
    }.items():
        with pytest.raises(ValueError, match=name):
            write_checkpoint(tmp_path, common(), {name: piece}, "identity")
    write(tmp_path)
    with pytest.raises(ValueError, match="keys occur twice"):
        open_checkpoint(tmp_path, "identity").pieces({"nodes": RowSelection(KEYS[[1, 2, 1]])})


def test_values_are_computed_once_and_their_function_is_released() -> None:
    """It may refer to copies from a device as large as the values."""
    copies = np.arange(6.0).reshape(3, 2)
    released, section = weakref.ref(copies), ArraySection(RowSelection(np.arange(3)), partial(np.multiply, copies, 2))
    del copies
    assert np.array_equal(section.values, [[0, 2], [4, 6], [8, 10]]) and section.values is section.values
    assert released() is None
