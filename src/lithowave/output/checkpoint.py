"""Checkpoints: the complete state of a run, in one file per rank and a manifest.

``checkpoint/step_000000120/rank_0000.h5`` ... contain the fields of each rank, and their positions in the global arrays
(`lithowave.solvers.interface`). ``checkpoint/checkpoint.h5`` contains the data that all ranks share and the names
of those files. It is replaced atomically after all of them are complete and on the disk: a run that is killed at any
moment leaves its last checkpoint intact. All files end with a checksum (`lithowave.output.files`), which is verified
before a run resumes from them. The checkpoint before, ``checkpoint/previous.h5`` and its files, remains until the next
one is begun, so that a run whose last checkpoint is damaged can resume from it.
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import numpy as np

from lithowave.errors import OutputError
from lithowave.output import files
from lithowave.output.files import (
    DAMAGE,
    SEAL_BYTES,
    laying_out,
    open_file,
    preallocate,
    replaced,
    require_sealed,
    require_space,
    seal,
    sync_folder,
    writing,
)
from lithowave.parallel.ranks import SINGLE_RANK, Ranks, collective_section
from lithowave.solvers.interface import ArraySection, Hyperslab, RowSelection, Selection

if TYPE_CHECKING:
    import h5py

FOLDER, FILE_NAME, PREVIOUS = "checkpoint", "checkpoint/checkpoint.h5", "checkpoint/previous.h5"
FORMAT_VERSION = 7
BLOCK_BYTES = 32 << 20  # copied at a time

RERUN_HINT = "Run the simulation again."
UNCHANGED = "The previous checkpoint, if any, is unchanged"

State = dict[str, dict[str, np.ndarray]]


@dataclass(frozen=True)
class Checkpoint:
    """An existing checkpoint. common : arrays by part (``clock``, ``seismograms``, ...) and name."""

    folder: Path
    common: State
    files: tuple[str, ...]
    fingerprint: str

    @property
    def step(self) -> int:
        """Number of completed steps at the checkpoint."""
        return int(self.common["clock"]["step"])

    def pieces(self, places: Mapping[str, Selection]) -> dict[str, np.ndarray]:
        """Return the values of these selections, written by any ranks; zeros for values of a hyperslab in no file.

        Only the requested parts of the files are read.

        Raises
        ------
        OutputError : a file is missing, damaged or of another checkpoint, or requested rows are in no file.
        """
        readers = {
            name: _HyperslabReader(place) if isinstance(place, Hyperslab) else _RowReader(name, place)
            for name, place in places.items()
        }
        for file_name in self.files:
            path = self.folder / FOLDER / file_name
            with open_file(path) as file:
                try:
                    known = file.attrs.get("fingerprint") == self.fingerprint and file.attrs.get("step") == self.step
                    for name, reader in readers.items() if known else ():
                        if name in file and not reader.complete:
                            reader.take(file[name])
                except DAMAGE as error:
                    raise OutputError(f"{path}: is damaged: {error}. {remedy(self.folder)}") from error
                if not known:
                    text = f"{path}: does not belong to the checkpoint of step {self.step}"
                    raise OutputError(f"{text}. {remedy(self.folder)}")
            if all(reader.complete for reader in readers.values()):
                break
        for name, reader in readers.items():
            if reader.is_incomplete:
                text = f"{self.folder / FOLDER}: the checkpoint lacks values of {name}"
                raise OutputError(f"{text}. {remedy(self.folder)}")
        return {name: reader.result() for name, reader in readers.items()}


class _HyperslabReader:
    """A hyperslab of an array, read from the files of several ranks."""

    def __init__(self, place: Hyperslab) -> None:
        self.place = place
        self.values: np.ndarray | None = None
        inside = zip(place.first, place.shape, place.whole, strict=True)
        self.left = math.prod(max(0, min(low + count, end) - max(low, 0)) for low, count, end in inside)

    @property
    def is_incomplete(self) -> bool:
        """True if no file contains the array; parts of it outside the domain may be in no file."""
        return self.values is None and math.prod(self.place.shape) > 0

    @property
    def complete(self) -> bool:
        """True if all values are read: hyperslabs in files do not overlap."""
        return self.values is not None and self.left == 0

    def result(self) -> np.ndarray:
        return np.zeros(self.place.shape) if self.values is None else self.values

    def take(self, group: h5py.Group) -> None:
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
    """Rows of an array, selected by keys, read from the files of several ranks."""

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
        """True if requested rows are still missing."""
        return bool(self.missing.any())

    @property
    def complete(self) -> bool:
        """True if all rows are read."""
        return self.values is not None and not self.is_incomplete

    def result(self) -> np.ndarray:
        return np.zeros((0, 1)) if self.values is None else self.values

    def take(self, group: h5py.Group) -> None:
        data, keys = group["values"], group["keys"]
        if self.values is None and (len(data) or not len(self.sorted)):  # without rows, the other axes are arbitrary
            self.values = np.zeros((len(self.sorted), *data.shape[1:]), data.dtype)
        if not len(data) or not len(self.sorted):
            return
        low, high = (int(one) for one in keys.attrs["range"])
        if high < self.sorted[0] or low > self.sorted[-1]:
            return
        block = max(1, BLOCK_BYTES // max(8, data.dtype.itemsize * math.prod(data.shape[1:])))
        for start in range(0, len(data), block):
            self._take_block(data, keys[start : start + block], start)

    def _take_block(self, data: h5py.Dataset, keys: np.ndarray, start: int) -> None:
        end = start + len(keys)
        if np.array_equal(keys, self.keys[start:end]):  # the rank has the same rows as before
            self.values[start:end] = data[start:end]
            self.missing[start:end] = False
            return
        order = np.argsort(keys)  # lookups in order are several times faster
        rising = keys[order]
        at = np.minimum(np.searchsorted(self.sorted, rising), len(self.sorted) - 1)
        there = self.sorted[at] == rising
        if there.any():
            wanted, rows = order[there], self.order[at[there]]
            first, last = wanted.min(), wanted.max()
            self.values[rows] = data[start + first : start + last + 1][wanted - first]
            self.missing[rows] = False


class CheckpointWriter:
    """A checkpoint that is being written, while the last one remains valid, also after `complete`.

    Creating and completing it are collective calls of all ranks; another thread may call the other methods.

    Parameters
    ----------
    folder : the run folder. step : completed steps. state : fields of this rank. size : their bytes, approximately.
    fingerprint : hash of the description, so that only the same run can resume from the checkpoint.

    Raises
    ------
    OutputError : on all ranks, if the disk lacks space.
    """

    def __init__(
        self, folder: Path, step: int, state: Mapping[str, ArraySection], size: int, fingerprint: str,
        ranks: Ranks = SINGLE_RANK,
    ) -> None:  # fmt: skip
        self.folder, self.step, self.fingerprint, self.ranks = folder, step, fingerprint, ranks
        self._place, self._name, self._size = folder / FOLDER, "", 0
        self._state: Mapping[str, ArraySection] = state
        self._problem: Exception | None = None
        needed = ranks.total(size)
        with collective_section(ranks):
            if ranks.is_root:
                with writing(self._place):
                    self._place.mkdir(parents=True, exist_ok=True)
                (folder / PREVIOUS).unlink(missing_ok=True)
                _remove_unnamed(self._place)
                require_space(folder / FILE_NAME, needed)
                self._name = _new_folder(self._place, f"step_{step:09d}")
        self._name = ranks.broadcast(self._name)

    def store(self) -> None:
        """Write the state, which may change afterwards; `complete` raises the errors."""
        try:
            self._size = _write_pieces(self._path, self._state, self.fingerprint, self.step)
        except Exception as problem:
            self._problem = problem
        self._state = {}

    def sync(self) -> None:
        """Add the checksum and wait until the state is on the disk; `complete` raises the errors."""
        if self._problem is None:
            try:
                with writing(self._path, UNCHANGED):
                    seal(self._path)
                    with open(self._path, "rb") as file:
                        os.fsync(file.fileno())
            except OutputError as problem:
                self._problem = problem

    def complete(self, common: State) -> None:
        """Replace the last checkpoint, which remains as the previous one, now that this one is complete on all ranks.

        common : arrays by part and name, with ``clock``, of rank 0.

        Raises
        ------
        OutputError : on all ranks, if one of them cannot write; the last checkpoint remains.
        """
        problem, self._problem = self._problem, None
        try:
            with collective_section(self.ranks):
                if problem is not None:
                    raise problem
            sizes = self.ranks.gather(self._size)
            with collective_section(self.ranks):
                if sizes is not None:
                    sync_folder(self._place / self._name)
                    sync_folder(self._place)
                    _keep_previous(self.folder)
                    _write_manifest(self.folder / FILE_NAME, common, self._name, sizes, self.fingerprint)
                    sync_folder(self._place)
        finally:
            problem = None  # its traceback refers to this frame
            if self.ranks.is_root:
                _remove_unnamed(self._place)  # the rest of this checkpoint if it failed

    @property
    def _path(self) -> Path:
        return self._place / _file_name(self._name, self.ranks.rank)


def open_checkpoint(folder: Path, fingerprint: str, ranks: Ranks = SINGLE_RANK) -> Checkpoint | None:
    """Open the last checkpoint and verify its files, a part of them on each rank; return None without a checkpoint.

    Raises
    ------
    OutputError : on all ranks, if the checkpoint is damaged, belongs to another description, or lacks files; the text
        names the previous checkpoint if it is intact.
    """
    found: Checkpoint | None = None
    with collective_section(ranks):
        try:
            found = _read_checkpoint(folder, folder / FILE_NAME, fingerprint, ranks)
        except _DamageError as error:
            raise OutputError(f"{error}. {remedy(folder)}") from error
    return found


class _DamageError(Exception):
    """A file of a checkpoint is missing or damaged; the text names it."""


def _read_checkpoint(folder: Path, path: Path, fingerprint: str, ranks: Ranks) -> Checkpoint | None:
    """Return the checkpoint of a manifest, after a verification of this rank's share of its files."""
    if not path.exists():
        return None
    _verify(path)
    try:
        with open_file(path) as file:
            version, written_by = file.attrs.get("format_version"), file.attrs.get("fingerprint")
            common: State = {}
            for name, array in _arrays(file["common"]) if version == FORMAT_VERSION else ():
                part, _, rest = name.partition("/")
                common.setdefault(part, {})[rest] = array
            sizes = {_file_name(file.attrs["folder"], rank): int(size) for rank, size in enumerate(file["sizes"][()])}
            checkpoint = Checkpoint(folder, common, tuple(sizes), fingerprint)
            checkpoint.step  # noqa: B018
    except (OutputError, *DAMAGE) as error:
        raise _DamageError(f"{path}: is damaged: {error}") from error
    if version != FORMAT_VERSION or written_by != fingerprint:
        raise OutputError(
            f"{path}: this checkpoint belongs to another description or another version of lithowave. "
            "Run the simulation again in another folder."
        )
    _require_files(folder / FOLDER, sizes)
    for name in [*sizes][ranks.rank :: ranks.size]:
        _verify(folder / FOLDER / name)
    return checkpoint


def _verify(path: Path) -> None:
    try:
        require_sealed(path)
    except OutputError as error:
        raise _DamageError(f"{path}: is damaged, or from another version of lithowave: {error}") from error


def checkpoint_step(folder: Path) -> int | None:
    """Return the step of the last checkpoint without reading its state; None if it is missing or damaged."""
    path = folder / FILE_NAME
    try:
        require_sealed(path)
        with open_file(path) as file:
            return int(str(file.attrs["folder"]).split("_")[1])
    except (OutputError, *DAMAGE):
        return None


def remedy(folder: Path) -> str:
    """Return how a run continues whose last checkpoint is damaged: from the previous one if it is intact."""
    path = folder / PREVIOUS
    try:
        with open_file(path) as file:
            fingerprint = str(file.attrs.get("fingerprint"))
        previous = _read_checkpoint(folder, path, fingerprint, SINGLE_RANK)
        assert previous is not None
    except (OutputError, _DamageError, *DAMAGE):
        return RERUN_HINT
    return (
        f"The previous checkpoint, of step {previous.step}, is intact: "
        f"`mv {quote(str(path))} {quote(str(folder / FILE_NAME))}`, then `lithowave restart {quote(str(folder))}`."
    )


def remove_previous(folder: Path) -> None:
    """Remove the previous checkpoint of a complete run."""
    with suppress(OSError):
        (folder / PREVIOUS).unlink(missing_ok=True)
        _remove_unnamed(folder / FOLDER)


def _require_files(place: Path, sizes: Mapping[str, int]) -> None:
    """Check all files on all ranks, so that no rank continues if a file of another rank is missing."""
    for name, size in sizes.items():
        try:
            found = (place / name).stat().st_size
        except OSError as error:
            raise _DamageError(f"{place / name}: the checkpoint requires this file: {error.strerror}") from error
        if found != size:
            raise _DamageError(f"{place / name}: is damaged: it has {found} bytes, not {size}")


def _file_name(folder: str, rank: int) -> str:
    return f"{folder}/rank_{rank:04d}.h5"


def _new_folder(place: Path, stem: str) -> str:
    """Create a folder with a new name, so that files of a previous checkpoint of this step are not changed."""
    names = [stem, *(f"{stem}_{number}" for number in range(2, 1000))]
    name = next(name for name in names if not (place / name).exists())
    with writing(place / name):
        (place / name).mkdir()
    return name


def _write_pieces(path: Path, state: Mapping[str, ArraySection], fingerprint: str, step: int) -> int:
    """Write the file of this rank; return its size."""
    rows = {name: piece.selection for name, piece in state.items() if isinstance(piece.selection, RowSelection)}
    values = files.in_threads(lambda piece: piece.values, [*state.values()])
    arrays = {f"{name}/values": own for name, own in zip(state, values, strict=True)}
    arrays |= {f"{name}/keys": np.asarray(selection.keys, np.int64) for name, selection in rows.items()}
    with writing(path, UNCHANGED):
        path.parent.mkdir(exist_ok=True)  # the folder made by rank 0 may not be visible yet
        with laying_out(path) as file:
            file.attrs["fingerprint"], file.attrs["step"] = fingerprint, step
            for name, array in arrays.items():
                preallocate(file, name, array.shape, array.dtype)
            for name, piece in state.items():
                _note_place(name, file[name], piece)
        _fill(path, arrays)
        return path.stat().st_size + SEAL_BYTES


def _note_place(name: str, group: h5py.Group, piece: ArraySection) -> None:
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
        seal(temporary)


def _keep_previous(folder: Path) -> None:
    """Copy the manifest of the last checkpoint, which is about to be replaced. Without it, its files are deleted."""
    temporary = folder / FOLDER / ".previous.part"
    with suppress(OSError):
        shutil.copyfile(folder / FILE_NAME, temporary)
        os.replace(temporary, folder / PREVIOUS)


def _fill(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays into a preallocated file."""
    with open_file(path) as file:
        places = {name: files.ContiguousDataset.of(file[name]) for name in arrays}
    descriptor = os.open(path, os.O_WRONLY)
    try:
        files.in_threads(
            lambda part: places[part[0]].write_range(descriptor, *part[1:]),
            [(name, first, block) for name, array in arrays.items() for first, block in _blocks(array)],
        )
    finally:
        os.close(descriptor)


def _blocks(array: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Yield blocks of an array along its first axis with their start."""
    if array.ndim == 0 or array.flags.c_contiguous:
        array = array.reshape(-1)
    row = array[:1].size
    count = max(1, BLOCK_BYTES // max(1, row * array.itemsize))
    for start in range(0, len(array), count):
        yield start * row, array[start : start + count]


def _arrays(group: h5py.Group) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the arrays below a group with their names."""
    names: list[str] = []
    group.visititems(lambda name, item: names.append(name) if hasattr(item, "shape") else None)
    for name in names:
        yield name, group[name][()]


def _remove_unnamed(place: Path) -> None:
    """Remove the files that no checkpoint names: those of earlier checkpoints, and of incomplete ones."""
    kept = set()
    for manifest in (place.parent / FILE_NAME, place.parent / PREVIOUS):
        if manifest.exists():
            try:
                with open_file(manifest) as file:
                    kept.add(file.attrs.get("folder"))
            except (OutputError, *DAMAGE):
                return  # the files that it names may still be valid
    for path in place.glob("step_*"):
        if path.name not in kept:
            with suppress(OSError):
                shutil.rmtree(path)
    for path in place.glob(".*.part"):  # left by a killed process
        with suppress(OSError):
            path.unlink()
