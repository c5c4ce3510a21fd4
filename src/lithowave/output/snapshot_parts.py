"""Snapshots of which each rank writes its own points, without communication; `joining` joins them to one file.

Instead of ``volume.vtkhdf`` there is a folder ``volume.parts``, with a subfolder for the start of the run and for each
restart on different ranks: ``from_000012`` contains the snapshots from 12 to the first one of the next subfolder.
Layout of ``from_000012/rank_0000.h5``, which is preallocated::

    /                       attributes (see attributes.py); first, step_count, ranks, fields, point_counts (nz, ny, nx),
                            point_spacing and point_origin (x, y, z) m
    /points (n,)            indices in the snapshot grid, x fastest, in ascending order
    /written ()             number of complete snapshots
    /times (room,)          s
    /fields/<field>         (room, n[, components])
"""

from __future__ import annotations

import math
import os
import shutil
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lithowave.backends.pending import PendingCopy
from lithowave.errors import OutputError
from lithowave.output import hdf5
from lithowave.output.attributes import UNITS, completed, read_attributes, write_attributes
from lithowave.output.vtkhdf import FIELD_COMPONENTS
from lithowave.parallel.collective import collective_section
from lithowave.parallel.ranks import Ranks

PARTS_SUFFIX, GONE_SUFFIX = ".parts", ".gone"  # the second is added, hidden, during removal
PRECISION = np.dtype(np.float32)  # as in snapshot files


@dataclass(frozen=True)
class SnapshotHead:
    """The properties of a snapshot file.

    origin, spacing : (x, y, z), m. shape : (nz, ny, nx). step_count : snapshots of the complete run. attributes : see
    `attributes.standard_attributes`.
    """

    origin: tuple[float, ...]
    spacing: tuple[float, ...]
    shape: tuple[int, ...]
    fields: tuple[str, ...]
    step_count: int
    attributes: Mapping[str, Any]


def parts_folder(path: Path) -> Path:
    """Return the folder in which ranks write their parts of a snapshot file."""
    return path.with_suffix(PARTS_SUFFIX)


class PartWriter:
    """Writer of the points of one rank at successive times.

    Parameters
    ----------
    path : the file; an existing file is replaced. head : of the complete file. points : (n,) indices of the points in
        the
    snapshot grid, x fastest, in any order. first : number of snapshots before this file. ranks : number of parts.

    Raises
    ------
    OutputError : the disk lacks space for all snapshots, or the file cannot be written.
    """

    def __init__(self, path: Path, head: SnapshotHead, points: np.ndarray, first: int, ranks: int) -> None:
        self.path, room = path, head.step_count - first
        self._order = _rising(points)
        points = np.asarray(points if self._order is None else points[self._order], np.int64)
        shapes = {name: (room, len(points), *_components(name)) for name in head.fields}
        hdf5.require_space(path, sum(int(np.prod(shape)) for shape in shapes.values()) * PRECISION.itemsize)
        with hdf5.creating(path) as file:
            own = {
                "first": first, "step_count": head.step_count, "ranks": ranks, "fields": ",".join(head.fields),
                "point_counts": np.array(head.shape, np.int64), "point_spacing": np.array(head.spacing, float),
                "point_origin": np.array(head.origin, float),
            }  # fmt: skip
            write_attributes(file, {**completed(head.attributes), **own})
            hdf5.preallocate(file, "points", points.shape, np.int64)
            hdf5.preallocate(file, "written", (), np.int64)
            hdf5.preallocate(file, "times", (room,), float, units="s")
            for name, shape in shapes.items():
                hdf5.preallocate(file, f"fields/{name}", shape, PRECISION, units=UNITS[name])
        self._open()
        with hdf5.writing(path):
            self._pieces["points"].write(self._descriptor, points)
        self._new = True

    def _open(self) -> None:
        with hdf5.open_file(self.path) as file:
            self._fields = _texts(file.attrs["fields"])
            names = ("points", "written", "times", *(f"fields/{name}" for name in self._fields))
            self._pieces = {name: hdf5.ContiguousDataset.of(file[name]) for name in names}
            self.written = int(file["written"][()])
        with hdf5.writing(self.path):
            self._descriptor: int | None = os.open(self.path, os.O_RDWR)
        self._new = False

    @classmethod
    def resume(cls, path: Path, points: np.ndarray, count: int) -> PartWriter:
        """Open an incomplete file for writing after its first `count` snapshots.

        Raises
        ------
        OutputError : the file is missing or damaged.
        """
        writer = cls.__new__(cls)
        writer.path, writer._order = path, _rising(points)
        try:
            writer._open()
        except KeyError as error:
            raise OutputError(f"{path}: is not a part of a lithowave snapshot file: {error}") from error
        writer.cut(count)
        return writer

    def cut(self, count: int) -> None:
        """Retain only the first `count` snapshots of the file.

        Raises
        ------
        OutputError : the file has fewer snapshots.
        """
        if count > self.written:
            raise OutputError(f"{self.path}: contains {self.written} snapshots; the restart requires {count}.")
        with hdf5.writing(self.path):
            self._count(count)

    def write(self, time: float, values: Mapping[str, np.ndarray | PendingCopy]) -> None:
        """Append the fields (n, components), or (n,), of the points at `time` (s).

        Of a `PendingCopy`, of any shape, pieces are written when they arrive.

        Raises
        ------
        ValueError : a field is missing or has a wrong shape, or the file is full.
        OutputError : the disk is full; earlier snapshots remain.
        """
        step = self.written
        if step >= self._pieces["times"].shape[0]:
            raise ValueError(f"{self.path}: the file has space for {step} snapshots only")
        with hdf5.writing(self.path, f"Its first {step} snapshots remain"):
            for name in self._fields:
                self._write_field(step, name, values[name])
            self._pieces["times"].write_range(self._descriptor, step, np.array(float(time)))
            self._count(step + 1)

    def _write_field(self, step: int, name: str, values: np.ndarray | PendingCopy) -> None:
        piece = self._pieces[f"fields/{name}"]
        if isinstance(values, PendingCopy):
            if self._order is None and values.size == math.prod(piece.shape[1:]):
                piece.write_range(self._descriptor, step * values.size, values)
                return
            values = values.wait().reshape(-1, *piece.shape[2:])
        piece.write_step(self._descriptor, step, values if self._order is None else values[self._order])

    def _count(self, written: int) -> None:
        self._pieces["written"].write(self._descriptor, np.int64(written))
        self.written = written

    def sync(self) -> None:
        """Wait until the written data, and the names of their folders, are on the disk.

        Raises
        ------
        OutputError : the data cannot be written.
        """
        if self._descriptor is not None:
            with hdf5.writing(self.path):
                os.fsync(self._descriptor)
            if self._new:
                for folder in list(self.path.parents)[:4]:
                    hdf5.sync_folder(folder)
                self._new = False

    def close(self) -> None:
        """Close the file, if it is open."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with hdf5.writing(self.path):
                os.close(descriptor)


class PartReader:
    """Reader of one part: point indices, and fields in contiguous ranges."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = hdf5.open_file(path)
        try:
            attributes = read_attributes(self._file)
            own = ("first", "step_count", "ranks", "fields", "point_counts", "point_spacing", "point_origin")
            self.first, step_count, self.ranks, fields, shape, spacing, origin = (attributes.pop(name) for name in own)
            self.head = SnapshotHead(
                tuple(map(float, origin)), tuple(map(float, spacing)), tuple(map(int, shape)), _texts(fields),
                step_count, attributes,
            )  # fmt: skip
            self.points, self.written = self._file["points"], int(self._file["written"][()])
            self.times = self._file["times"][: self.written]
            self._fields = {name: self._file[f"fields/{name}"] for name in self.head.fields}
        except (KeyError, OSError) as error:
            self.close()
            raise OutputError(f"{path}: is not a part of a lithowave snapshot file: {error}") from error

    def stretch(self, begin: int, stop: int, low: int) -> tuple[int, np.ndarray]:
        """Return the end and the indices of the points from index `begin` to before `stop`; `low` is the first
        position."""
        high = bisect_left(self.points, stop, low)
        return high, self.points[low:high] - begin

    def read(self, field: str, step: int, low: int, high: int) -> np.ndarray:
        """Return a field of a snapshot in the file, for the positions from `low` to before `high`."""
        try:
            return self._fields[field][step, low:high]
        except OSError as error:
            raise OutputError(f"{self.path}: is damaged: {error}") from error

    def close(self) -> None:
        """Close the file."""
        self._file.close()


@dataclass(frozen=True)
class PartFolder:
    """The parts of one set of ranks. first : number of snapshots before them."""

    path: Path
    first: int

    def file(self, rank: int) -> Path:
        """Return the path of the part of a rank."""
        return self.path / f"rank_{rank:04d}.h5"

    def rank_count(self) -> int:
        """Return the number of parts.

        Raises
        ------
        OutputError : the first part is missing or damaged.
        """
        reader = PartReader(self.file(0))
        reader.close()
        return int(reader.ranks)


def part_folders(folder: Path) -> list[PartFolder]:
    """Return all folders of parts in the order of time."""
    return sorted(
        (PartFolder(path, int(path.name.partition("_")[2])) for path in folder.glob("from_*")),
        key=lambda one: one.first,
    )


def part_writer(path: Path, head: SnapshotHead, points: np.ndarray, ranks: Ranks, kept: int | None) -> PartWriter:
    """Return the writer of this rank, of a new or resumed run; a collective call of all ranks.

    Parameters
    ----------
    path : the joined file. points : of this rank, see `PartWriter`. kept : snapshots that a resumed run retains; None
    for a new run. Parts with the same points on the same number of ranks are continued; other parts end there.

    Raises
    ------
    OutputError : on all ranks, if one of them cannot write.
    """
    folder = parts_folder(path)
    last: PartFolder | None = None
    with collective_section(ranks):
        if ranks.is_root:
            if kept is None:
                remove_snapshots(path)
            else:
                last = _cut_folders(path, kept)
    last, same = ranks.broadcast(last), False
    with collective_section(ranks):
        same = last is not None and _has_points(last.file(ranks.rank), points, ranks.size)
    same = all(ranks.all_gather(same))
    with collective_section(ranks):
        if same:
            return PartWriter.resume(last.file(ranks.rank), points, kept - last.first)
        new = PartFolder(folder / f"from_{kept or 0:06d}", kept or 0)
        return PartWriter(new.file(ranks.rank), head, points, new.first, ranks.size)


def remove_snapshots(path: Path) -> None:
    """Remove a snapshot file and its parts, if they exist."""
    with hdf5.writing(path):
        path.unlink(missing_ok=True)
    remove_parts(path)


def remove_parts(path: Path) -> None:
    """Remove the parts of a snapshot file, atomically for readers, though the removal may take some time."""
    folder = parts_folder(path)
    gone = folder.with_name(f".{folder.name}{GONE_SUFFIX}")
    shutil.rmtree(gone, ignore_errors=True)  # of a process that was killed
    with hdf5.writing(folder), suppress(FileNotFoundError):
        os.rename(folder, gone)
    shutil.rmtree(gone, ignore_errors=True)


def _cut_folders(path: Path, kept: int) -> PartFolder:
    """Drop what is later than the snapshots that are kept; returns the last of the folders."""
    with hdf5.writing(path):
        path.unlink(missing_ok=True)  # a copy, of a run that was stopped: the parts have it all
        for folder in part_folders(parts_folder(path)):
            if folder.first >= kept:
                shutil.rmtree(folder.path)
    folders = part_folders(parts_folder(path))
    if not folders or folders[0].first:
        raise OutputError(f"{parts_folder(path)}: the parts of the first snapshots are missing.")
    last = folders[-1]
    for rank in range(last.rank_count()):
        writer = PartWriter.resume(last.file(rank), np.zeros(0, np.int64), kept - last.first)
        writer.sync()
        writer.close()
    return last


def _has_points(path: Path, points: np.ndarray, ranks: int) -> bool:
    """Whether a part is of as many ranks and has these points."""
    if not path.is_file():
        return False
    reader = PartReader(path)
    try:
        return reader.ranks == ranks and np.array_equal(reader.points[()], np.sort(points))
    finally:
        reader.close()


def _rising(points: np.ndarray) -> np.ndarray | None:
    """The order in which numbers rise, None where they do."""
    points = np.asarray(points)
    return None if (points[1:] > points[:-1]).all() else np.argsort(points, kind="stable")


def _components(field: str) -> tuple[int, ...]:
    count = FIELD_COMPONENTS[field]
    return () if count == 1 else (count,)


def _texts(joined: str) -> tuple[str, ...]:
    return tuple(name for name in joined.split(",") if name)


def require_joined(paths: Sequence[Path]) -> None:
    """Refuse snapshot files of which only the parts of several ranks are there.

    Raises
    ------
    OutputError : with what to type.
    """
    for path in paths:
        if not path.is_file() and parts_folder(path).is_dir():
            raise OutputError(
                f"{path}: each rank of the run has written its part of these snapshots. "
                f"Make one file of them: lithowave join {path.parent.parent}"
            )
