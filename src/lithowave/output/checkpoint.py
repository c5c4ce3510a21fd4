"""Checkpoints: all that determines the future of a run, a file from each rank and one that says which belong together.

``checkpoint/step_000000120/rank_0000.h5`` ... hold what each rank has of the fields, and where that belongs in the
whole run (`lithowave.solvers.array_sections`). ``checkpoint/checkpoint.h5`` holds what the ranks have in common and
names those files. It is replaced atomically when all of them are complete and on the disk, and only then are the
earlier ones deleted: a run that is killed at any moment leaves its last checkpoint intact.
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lithowave.errors import OutputError
from lithowave.output import hdf5
from lithowave.output.hdf5 import laying_out, open_file, preallocate, replaced, require_space, sync_folder, writing
from lithowave.parallel.collective import collective_section
from lithowave.parallel.ranks import SINGLE_RANK, Ranks
from lithowave.solvers.array_sections import ArraySection, Hyperslab, RowSelection, Selection

FOLDER, FILE_NAME = "checkpoint", "checkpoint/checkpoint.h5"
FORMAT_VERSION = 2
BLOCK_BYTES = 32 << 20  # of an array that are copied at a time

RERUN_HINT = "Run the simulation anew."

State = dict[str, dict[str, np.ndarray]]


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that was found. common : arrays by part (``clock``, ``seismograms``, ...) and name."""

    folder: Path
    common: State
    files: tuple[str, ...]
    fingerprint: str

    @property
    def step(self) -> int:
        """Steps made when it was written."""
        return int(self.common["clock"]["step"])

    def pieces(self, places: Mapping[str, Selection]) -> dict[str, np.ndarray]:
        """Values at these places, whichever ranks wrote them; zeros where nobody did in a box.

        Of the files only that is read which belongs there.

        Raises
        ------
        OutputError : a file is missing, damaged or of another checkpoint, or rows that are wanted are in none.
        """
        found = {name: _gathering(name, place) for name, place in places.items()}
        for file_name in self.files:
            path = self.folder / FOLDER / file_name
            with open_file(path) as file:
                if file.attrs.get("fingerprint") != self.fingerprint or file.attrs.get("step") != self.step:
                    raise OutputError(f"{path}: is not of the checkpoint of step {self.step}. {RERUN_HINT}")
                try:
                    for name, gathering in found.items():
                        if name in file and not gathering.complete:
                            gathering.take(file[name])
                except (KeyError, OSError, ValueError) as error:
                    raise OutputError(f"{path}: is damaged: {error}. {RERUN_HINT}") from error
            if all(gathering.complete for gathering in found.values()):
                break
        for name, gathering in found.items():
            if gathering.is_incomplete:
                raise OutputError(f"{self.folder / FOLDER}: the checkpoint lacks values of {name}. {RERUN_HINT}")
        return {name: gathering.result() for name, gathering in found.items()}


class _HyperslabReader:
    """A box of an array, put together from the files of several ranks."""

    def __init__(self, place: Hyperslab) -> None:
        self.place = place
        self.values: np.ndarray | None = None
        inside = zip(place.first, place.shape, place.whole, strict=True)
        self.left = math.prod(max(0, min(low + count, end) - max(low, 0)) for low, count, end in inside)

    @property
    def is_incomplete(self) -> bool:
        """Whether no file has the array; parts of it, around the domain, may be in none."""
        return self.values is None and math.prod(self.place.shape) > 0

    @property
    def complete(self) -> bool:
        """Whether nothing more can come: boxes in files do not overlap."""
        return self.values is not None and self.left == 0

    def result(self) -> np.ndarray:
        return np.zeros(self.place.shape) if self.values is None else self.values

    def take(self, group: Any) -> None:
        data, axes = group["values"], len(self.place.shape)
        if self.values is None:
            self.values = np.zeros((*self.place.shape, *data.shape[axes:]), data.dtype)
        source, target, count = [], [], 1
        first = [int(one) for one in data.attrs["first"]]
        for low, there, own, wanted in zip(first, data.shape[:axes], self.place.first, self.place.shape, strict=True):
            begin, end = max(low, own), min(low + there, own + wanted)
            if begin >= end:
                return
            source.append(slice(begin - low, end - low))
            target.append(slice(begin - own, end - own))
            count *= end - begin
        if data.size:
            data.read_direct(self.values, tuple(source), tuple(target))
        self.left -= count


class _RowReader:
    """RowSelection of an array by their keys, found in the files of several ranks."""

    def __init__(self, name: str, place: RowSelection) -> None:
        self.values: np.ndarray | None = None
        self.keys = np.asarray(place.keys, np.int64)
        self.order = np.argsort(self.keys, kind="stable")
        self.sorted = self.keys[self.order]
        if (self.sorted[1:] == self.sorted[:-1]).any():
            raise ValueError(f"{name}: keys occur twice")
        self.missing = np.ones(len(self.sorted), bool)

    @property
    def is_incomplete(self) -> bool:
        """Whether rows are wanted that no file had so far."""
        return bool(self.missing.any())

    @property
    def complete(self) -> bool:
        """Whether all are there."""
        return self.values is not None and not self.is_incomplete

    def result(self) -> np.ndarray:
        return np.zeros((0, 1)) if self.values is None else self.values

    def take(self, group: Any) -> None:
        data, keys = group["values"], group["keys"]
        if self.values is None and (len(data) or not len(self.sorted)):  # the further axes of no rows may be anything
            self.values = np.zeros((len(self.sorted), *data.shape[1:]), data.dtype)
        if not len(data) or not len(self.sorted):
            return
        low, high = (int(one) for one in keys.attrs["range"])
        if high < self.sorted[0] or low > self.sorted[-1]:
            return
        block = max(1, BLOCK_BYTES // max(8, data.dtype.itemsize * math.prod(data.shape[1:])))
        for start in range(0, len(data), block):
            self._take_block(data, keys[start : start + block], start)

    def _take_block(self, data: Any, keys: np.ndarray, start: int) -> None:
        end = start + len(keys)
        if np.array_equal(keys, self.keys[start:end]):  # a rank with the rows that it had before
            self.values[start:end] = data[start:end]
            self.missing[start:end] = False
            return
        order = np.argsort(keys)  # what is looked up in its order is found several times faster
        rising = keys[order]
        at = np.minimum(np.searchsorted(self.sorted, rising), len(self.sorted) - 1)
        there = self.sorted[at] == rising
        if there.any():
            wanted, rows = order[there], self.order[at[there]]
            first, last = wanted.min(), wanted.max()
            self.values[rows] = data[start + first : start + last + 1][wanted - first]
            self.missing[rows] = False


def _gathering(name: str, place: Selection) -> _HyperslabReader | _RowReader:
    return _HyperslabReader(place) if isinstance(place, Hyperslab) else _RowReader(name, place)


def write_checkpoint(
    folder: Path, common: State, state: Mapping[str, ArraySection], fingerprint: str, ranks: Ranks = SINGLE_RANK
) -> None:
    """Write the state; the checkpoint that stood there before goes only when this one is complete on all ranks.

    Parameters
    ----------
    folder : the run folder. common : arrays by part and name, with ``clock``; those of the first rank count. state :
    what this rank has of the fields. fingerprint : hash of the description, so that no other run goes on from here.

    Raises
    ------
    OutputError : on all ranks, when one of them cannot write; the earlier checkpoint stays.
    """
    place, step, name, size = folder / FOLDER, int(common["clock"]["step"]), "", 0
    needed = ranks.total(sum(piece.values.nbytes for piece in state.values()))
    with collective_section(ranks):
        if ranks.is_root:
            with writing(place):
                place.mkdir(parents=True, exist_ok=True)
            _remove_unnamed(place)
            require_space(folder / FILE_NAME, needed)
            name = _new_folder(place, f"step_{step:09d}")
    name = ranks.broadcast(name)
    try:
        with collective_section(ranks):
            size = _write_pieces(place / _file_name(name, ranks.rank), state, fingerprint, step)
        sizes = ranks.gather(size)
        with collective_section(ranks):
            if sizes is not None:
                sync_folder(place / name)
                sync_folder(place)
                _write_manifest(folder / FILE_NAME, common, name, sizes, fingerprint)
                sync_folder(place)
    finally:
        if ranks.is_root:
            _remove_unnamed(place)  # the earlier one, or, where this one failed, what is left of it


def open_checkpoint(folder: Path, fingerprint: str) -> Checkpoint | None:
    """The last checkpoint, or None where there is none.

    Raises
    ------
    OutputError : when it is damaged, belongs to another description, or files of it are missing.
    """
    path = folder / FILE_NAME
    if not path.exists():
        return None
    with open_file(path) as file:
        if file.attrs.get("format_version") != FORMAT_VERSION or file.attrs.get("fingerprint") != fingerprint:
            raise OutputError(
                f"{path}: this checkpoint belongs to another description or another version of lithowave. "
                "Run the simulation anew, into another folder."
            )
        common: State = {}
        try:
            for name, array in _arrays(file["common"]):
                part, _, rest = name.partition("/")
                common.setdefault(part, {})[rest] = array
            sizes = {_file_name(file.attrs["folder"], rank): int(size) for rank, size in enumerate(file["sizes"][()])}
        except (KeyError, OSError) as error:
            raise OutputError(f"{path}: is damaged: {error}. {RERUN_HINT}") from error
    _require_files(folder / FOLDER, sizes)
    return Checkpoint(folder, common, tuple(sizes), fingerprint)


def _require_files(place: Path, sizes: Mapping[str, int]) -> None:
    """All ranks look for all files, so that none goes on alone where one is missing that only another one needs."""
    for name, size in sizes.items():
        try:
            found = (place / name).stat().st_size
        except OSError as error:
            problem = f"the checkpoint needs this file: {error.strerror}"
            raise OutputError(f"{place / name}: {problem}. {RERUN_HINT}") from error
        if found != size:
            raise OutputError(f"{place / name}: is damaged: it has {found} bytes, not {size}. {RERUN_HINT}")


def _file_name(folder: str, rank: int) -> str:
    return f"{folder}/rank_{rank:04d}.h5"


def _new_folder(place: Path, stem: str) -> str:
    """Make a folder of a name that is not there: what an earlier checkpoint of this step names is not touched."""
    names = [stem, *(f"{stem}_{number}" for number in range(2, 1000))]
    name = next(name for name in names if not (place / name).exists())
    with writing(place / name):
        (place / name).mkdir()
    return name


def _write_pieces(path: Path, state: Mapping[str, ArraySection], fingerprint: str, step: int) -> int:
    """Write the file of this rank; returns its size."""
    arrays = {f"{name}/values": piece.values for name, piece in state.items()}
    rows = {name: piece for name, piece in state.items() if isinstance(piece.selection, RowSelection)}
    arrays |= {f"{name}/keys": np.asarray(piece.selection.keys, np.int64) for name, piece in rows.items()}
    with writing(path, "The checkpoint before this one, if any, is unchanged"):
        path.parent.mkdir(exist_ok=True)  # another machine may not see yet what the first rank made
        with laying_out(path) as file:
            file.attrs["fingerprint"], file.attrs["step"] = fingerprint, step
            for name, array in arrays.items():
                preallocate(file, name, array.shape, array.dtype)
            for name, piece in state.items():
                _note_place(name, file[name], piece)
        _fill(path, arrays)
        return path.stat().st_size


def _note_place(name: str, group: Any, piece: ArraySection) -> None:
    if isinstance(piece.selection, Hyperslab):
        if piece.values.shape[: len(piece.selection.shape)] != tuple(piece.selection.shape):
            raise ValueError(f"{name} has shape {piece.values.shape}, its box {piece.selection.shape}")
        group["values"].attrs["first"] = np.array(piece.selection.first, np.int64)
        return
    keys = piece.selection.keys
    if len(keys) != len(piece.values):
        raise ValueError(f"{name} has {len(piece.values)} rows and {len(keys)} keys")
    if len(keys):
        group["keys"].attrs["range"] = np.array([keys.min(), keys.max()], np.int64)


def _write_manifest(path: Path, common: State, folder: str, sizes: list[int], fingerprint: str) -> None:
    named = {"sizes": np.array(sizes, np.int64)}
    for part, arrays in common.items():
        named |= {f"common/{part}/{name}": np.asarray(array) for name, array in arrays.items()}
    with replaced(path) as temporary:
        with laying_out(temporary) as file:
            file.attrs["format_version"], file.attrs["fingerprint"] = FORMAT_VERSION, fingerprint
            file.attrs["folder"] = folder
            for name, array in named.items():
                preallocate(file, name, array.shape, array.dtype)
        _fill(temporary, named)


def _fill(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays into a file that was laid out for them, and wait until they have reached the disk."""
    with open_file(path) as file:
        places = {name: hdf5.ContiguousDataset.of(file[name]) for name in arrays}
    descriptor = os.open(path, os.O_WRONLY)
    try:
        for name, array in arrays.items():
            for first, block in _blocks(array):
                places[name].write_range(descriptor, first, block)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _blocks(array: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Parts of an array along its first axis, and where each begins; whole where no copy is needed to write it."""
    if array.ndim == 0 or array.flags.c_contiguous:
        yield 0, array
        return
    row = array[:1].size
    count = max(1, BLOCK_BYTES // max(1, row * array.itemsize))
    for start in range(0, len(array), count):
        yield start * row, array[start : start + count]


def _arrays(group: Any) -> Iterator[tuple[str, np.ndarray]]:
    """Names below a group, and its arrays."""
    names: list[str] = []
    group.visititems(lambda name, item: names.append(name) if hasattr(item, "shape") else None)
    for name in names:
        yield name, group[name][()]


def _remove_unnamed(place: Path) -> None:
    """Remove the pieces of earlier checkpoints, and of those that were never complete."""
    kept, manifest = None, place.parent / FILE_NAME
    if manifest.exists():
        try:
            with open_file(manifest) as file:
                kept = file.attrs.get("folder")
        except OutputError:
            return  # whatever it names may still be saved
    for path in place.glob("step_*"):
        if path.name != kept:
            with suppress(OSError):
                shutil.rmtree(path)
    for path in place.glob(".*.part"):  # of a process that was killed
        with suppress(OSError):
            path.unlink()
