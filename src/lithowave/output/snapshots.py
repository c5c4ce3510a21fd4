"""Wavefield snapshots: written by one or by all ranks, joined, and read.

**Parts.** If each rank writes its own points, without communication, `join_snapshots` joins them to one file, in blocks
that fit into memory. Instead of ``volume.vtkhdf`` there is a folder ``volume.parts``, with a subfolder for the start of
the run and for each restart on different ranks: ``from_000012`` contains the snapshots from 12 to the first one of the
next subfolder. Layout of ``from_000012/rank_0000.h5``, which is preallocated::

    /                       attributes (see attributes.py); first, step_count, ranks, fields, point_counts (nz, ny, nx),
                            point_spacing and point_origin (x, y, z) m
    /points (n,)            indices in the snapshot grid, x fastest, in ascending order
    /written ()             number of complete snapshots
    /times (room,)          s
    /fields/<field>         (room, n[, components])

**One file.** Snapshots of a plane or a volume are VTKHDF files with time steps, for ParaView and PyVista: see `vtkhdf`
for the layouts of image data, and of unstructured grids in a chunk of the globe. Space for all steps is allocated at
the start; ``NSteps`` is the number of written steps. The file has the attributes of `attributes`, and ``plane`` (x, y,
z or none), ``point_counts``, ``point_spacing``, ``fields`` and ``step_count``; in a chunk also ``point_origin``, the
local coordinates of the first point.
"""

from __future__ import annotations

import math
import os
import resource
import shutil
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lithowave.backends.interface import PendingCopy
from lithowave.errors import InputError, OutputError, require_package
from lithowave.output import files
from lithowave.output.attributes import (
    COMPONENTS,
    TENSOR_COMPONENTS,
    UNITS,
    chunk_map,
    completed,
    geographic_origin,
    read_attributes,
    write_attributes,
)
from lithowave.output.files import replaced
from lithowave.output.results import kept
from lithowave.output.run_folder import read_report
from lithowave.output.vtkhdf import (
    FIELD_COMPONENTS,
    Storage,
    geometry_bytes,
    lay_out,
    lay_out_chunk,
    plane_normal,
    stored_arrays,
    write_geometry,
)
from lithowave.parallel.ranks import Ranks, collective_section

if TYPE_CHECKING:
    from types import EllipsisType

    from xarray import Dataset

    from lithowave.json_types import Entries, ReadEntries

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
    attributes: ReadEntries


def parts_folder(path: Path) -> Path:
    """Return the folder in which ranks write their parts of a snapshot file."""
    return path.with_suffix(PARTS_SUFFIX)


class PartWriter(files.DatasetWriter):
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

    kind = "a part of a lithowave snapshot file"

    def __init__(self, path: Path, head: SnapshotHead, points: np.ndarray, first: int, ranks: int) -> None:
        self.path, room = path, head.step_count - first
        self._order = _rising(points)
        points = np.asarray(points if self._order is None else points[self._order], np.int64)
        shapes = {name: (room, len(points), *_components(name)) for name in head.fields}
        files.require_space(path, sum(int(np.prod(shape)) for shape in shapes.values()) * PRECISION.itemsize)
        with files.creating(path) as file:
            own = {
                "first": first, "step_count": head.step_count, "ranks": ranks, "fields": ",".join(head.fields),
                "point_counts": np.array(head.shape, np.int64), "point_spacing": np.array(head.spacing, float),
                "point_origin": np.array(head.origin, float),
            }  # fmt: skip
            write_attributes(file, {**completed(head.attributes), **own})
            files.preallocate(file, "points", points.shape, np.int64)
            files.preallocate(file, "written", (), np.int64)
            files.preallocate(file, "times", (room,), float, units="s")
            for name, shape in shapes.items():
                files.preallocate(file, f"fields/{name}", shape, PRECISION, units=UNITS[name])
        self._open()
        with files.writing(path):
            self._pieces["points"].write(self._descriptor, points)
        self._new = True

    def _open(self) -> None:
        with files.open_file(self.path) as file:
            self._fields = _texts(file.attrs["fields"])
            names = ("points", "written", "times", *(f"fields/{name}" for name in self._fields))
            self._pieces = {name: files.ContiguousDataset.of(file[name]) for name in names}
            self.written = int(file["written"][()])
        self._open_for_writing()
        self._new = False

    @classmethod
    def resume(cls, path: Path, points: np.ndarray, count: int) -> PartWriter:
        """Open an incomplete file for writing after its first `count` snapshots.

        Raises
        ------
        OutputError : the file is missing or damaged.
        """
        writer = cls.reopened(path)
        writer._order = _rising(points)
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
        with files.writing(self.path):
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
        with files.writing(self.path, f"Its first {step} snapshots remain"):
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
        super().sync()
        if self._descriptor is not None and self._new:
            for folder in list(self.path.parents)[:4]:
                files.sync_folder(folder)
            self._new = False


class PartReader:
    """Reader of one part: point indices, and fields in contiguous ranges."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = files.open_file(path)
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
    with files.writing(path):
        path.unlink(missing_ok=True)
    remove_parts(path)


def remove_parts(path: Path) -> None:
    """Remove the parts of a snapshot file, atomically for readers, though the removal may take some time."""
    folder = parts_folder(path)
    gone = folder.with_name(f".{folder.name}{GONE_SUFFIX}")
    shutil.rmtree(gone, ignore_errors=True)  # of a process that was killed
    with files.writing(folder), suppress(FileNotFoundError):
        os.rename(folder, gone)
    shutil.rmtree(gone, ignore_errors=True)


def _complete_folders(path: Path) -> list[PartFolder]:
    """Return the folders with the parts of a snapshot file; an error if its first snapshots are missing."""
    folders = part_folders(parts_folder(path))
    if not folders or folders[0].first:
        raise OutputError(f"{parts_folder(path)}: the parts of the first snapshots are missing.")
    return folders


def _cut_folders(path: Path, kept: int) -> PartFolder:
    """Drop what is later than the snapshots that are kept; returns the last of the folders."""
    with files.writing(path):
        path.unlink(missing_ok=True)  # a copy, of a run that was stopped: the parts have it all
        for folder in part_folders(parts_folder(path)):
            if folder.first >= kept:
                shutil.rmtree(folder.path)
    last = _complete_folders(path)[-1]
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
    """Return the last axis of the values of a field: none of a scalar."""
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


FILE_SUFFIX = ".vtkhdf"


class SnapshotWriter(files.DatasetWriter):
    """Writer of fields on a regular grid at successive times.

    Parameters
    ----------
    path : the file; an existing file is replaced. ParaView requires the suffix ``.vtkhdf``.
    origin : (x, y, z) of the first point, m.
    spacing : (dx, dy, dz), m; along the normal of a plane any positive number.
    shape : (nz, ny, nx) numbers of points; one of them is 1 for a plane.
    fields : names from FIELD_COMPONENTS.
    attributes : see `attributes.standard_attributes`; default values replace missing ones.
    step_count : number of snapshots of the complete run, for which space is allocated now.
    precision : ``single`` (float32, the default for any precision of the run) or ``double``.

    Raises
    ------
    InputError : a field is unknown.
    OutputError : the disk lacks space for all steps, or the file cannot be written.
    """

    kind = "a lithowave snapshot file"

    def __init__(
        self,
        path: str | Path,
        origin: Sequence[float],
        spacing: Sequence[float],
        shape: Sequence[int],
        fields: Sequence[str],
        attributes: ReadEntries | None = None,
        *,
        step_count: int,
        precision: str = "single",
    ) -> None:
        for name in fields:
            if name not in FIELD_COMPONENTS:
                raise InputError("output.snapshots.fields", repr(name), f"one of {', '.join(FIELD_COMPONENTS)}")
        if len(shape) != 3 or min(shape) < 1 or min(spacing) <= 0 or step_count < 1:
            raise ValueError("shape and step_count must be at least 1, spacing positive, shape of length 3")
        self.path = Path(path)
        dtype = np.dtype(files.PRECISIONS[precision])
        chunk = chunk_map(geographic_origin(attributes or {}))
        storage = Storage(shape, spacing, chunk is not None)
        components = sum(FIELD_COMPONENTS[name] for name in fields)
        size = step_count * components * math.prod(storage.dimensions) * dtype.itemsize
        files.require_space(self.path, size + (0 if chunk is None else geometry_bytes(shape, dtype)))
        with files.creating(self.path) as file:
            head = {
                "plane": plane_normal(shape),
                "point_counts": np.array(shape, dtype=np.int64),
                "point_spacing": np.array(spacing, dtype=float),
                "fields": ",".join(fields),
                "step_count": int(step_count),
                "units": "m (coordinates), s (time); fields carry their own",
            }
            write_attributes(file, {**completed(attributes), **head})
            if chunk is None:
                file.attrs["steps_group"] = lay_out(file, storage, origin, fields, step_count, dtype)
            else:
                file.attrs["point_origin"] = np.array(origin, dtype=float)
                file.attrs["steps_group"] = lay_out_chunk(file, storage, fields, step_count, dtype)
        self._open()
        if chunk is not None:
            with files.writing(self.path):
                write_geometry(self.path, self._descriptor, chunk, origin, spacing, shape)

    def _open(self) -> None:
        with files.open_file(self.path) as file:
            self._fields = [name for name in str(file.attrs["fields"]).split(",") if name]
            curved = "point_origin" in file.attrs
            self._storage = Storage(file.attrs["point_counts"], file.attrs["point_spacing"], curved)
            self.step_count = int(file.attrs["step_count"])
            self._steps_name = file.attrs["steps_group"]
            self._pieces = {name: files.ContiguousDataset.of(array) for name, array in file["VTKHDF/PointData"].items()}
            self._times = list(file[self._steps_name]["Values"])
        self._open_for_writing()

    @property
    def steps_written(self) -> int:
        """Number of snapshots in the file."""
        return len(self._times)

    @classmethod
    def resume(cls, path: str | Path, time: float | None = None) -> SnapshotWriter:
        """Open an incomplete file for writing, and remove steps later than `time` (s).

        Raises
        ------
        OutputError : the file is missing, damaged or not a snapshot file.
        """
        writer = cls.reopened(Path(path))
        if time is not None:
            latest = time + 1e-9 * max(1.0, abs(time))
            with files.writing(writer.path):
                writer._set_times([value for value in writer._times if value <= latest])
        return writer

    def write(self, time: float, values: Mapping[str, np.ndarray | PendingCopy]) -> None:
        """Append the fields at `time` (s): each (nz, ny, nx, components), or (nz, ny, nx) for a scalar.

        Of a `PendingCopy`, pieces are written when they arrive.

        Raises
        ------
        ValueError : a field is missing or has a wrong shape, or the file is full.
        OutputError : the disk is full; earlier steps remain readable.
        """
        step = self.steps_written
        if step >= self.step_count:
            raise ValueError(f"{self.path}: the file has space for {self.step_count} steps only")
        if missing := set(self._fields) - values.keys():
            raise ValueError(f"the snapshot lacks {', '.join(sorted(missing))}")
        with files.writing(self.path, f"Its first {step} snapshots remain readable"):
            for field in self._fields:
                arriving = values[field]
                self._write_field(step, field, arriving if isinstance(arriving, PendingCopy) else np.asarray(arriving))
            self._set_times([*self._times, float(time)])

    def _write_field(self, step: int, field: str, values: np.ndarray | PendingCopy) -> None:
        count = FIELD_COMPONENTS[field]
        expected = (*self._storage.shape, *_components(field))
        if values.shape != expected:
            raise ValueError(f"{field} has shape {values.shape}, expected {expected}")
        first = step * math.prod(self._storage.dimensions)
        if isinstance(values, PendingCopy) and self._storage.doubled is None:
            for piece in values.pieces():
                points = piece.reshape(-1, count)
                self._write_points(field, first, points)
                first += len(points)
        else:
            whole = values.wait() if isinstance(values, PendingCopy) else values
            self._write_points(field, first, self._storage.to_file(whole).reshape(-1, count))

    def _write_points(self, field: str, first: int, values: np.ndarray) -> None:
        """Write values (points, components) to the stored points from index `first`."""
        parts = list(values.T) if len(stored_arrays(field)) > 1 else [values]
        for name, part in zip(stored_arrays(field), parts, strict=True):
            self._pieces[name].write_range(self._descriptor, first * (part.size // len(part)), part)

    def write_rows(self, step: int, field: str, first: int, values: np.ndarray) -> None:
        """Write part of a snapshot: rows (n, nx[, components]) of points along x.

        first : index of the first row, along y and then z. Readers see the step only after `count`.
        """
        parts = [values[..., index] for index in range(6)] if FIELD_COMPONENTS[field] == 6 else [values]
        with files.writing(self.path):
            for name, part in zip(stored_arrays(field), parts, strict=True):
                before, stored = self._storage.rows_to_file(first, part)
                piece, size = self._pieces[name], math.prod(stored.shape[2:])
                step_size = math.prod(piece.shape) // self.step_count
                piece.write_range(self._descriptor, step * step_size + before * size, stored)

    def count(self, times: Sequence[float]) -> None:
        """Set the number and the times, s, of the complete snapshots."""
        with files.writing(self.path):
            self._set_times([float(time) for time in times])

    def _set_times(self, times: list[float]) -> None:
        with files.changing(self.path) as file:
            steps = file[self._steps_name]
            steps["Values"].resize((len(times),))
            steps["Values"][:] = times
            # The attribute is changed in place: a new assignment would delete and create it, and a crash between would
            # lose it.
            steps.attrs.modify("NSteps", np.int64(len(times)))
        self._times = times


class Snapshots:
    """Reader of a snapshot file, step by step, also while it is being written.

    times : (n_steps,) s.
    origin, spacing : (x, y, z), m; in a chunk of the globe in its local coordinates.
    shape : (nz, ny, nx).
    plane : normal of the plane, ``x``, ``y`` or ``z``; ``none`` for a volume.
    fields : names; `units` gives the unit of each.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        require_joined([self.path])
        self._file = files.open_file(self.path)
        try:
            self._read_head()
        except files.DAMAGE as error:
            self._file.close()
            raise OutputError(f"{path}: is damaged or not a lithowave snapshot file: {error}") from error

    def _read_head(self) -> None:
        self.attributes = read_attributes(self._file)
        self.plane = self.attributes["plane"]
        self.shape = tuple(int(count) for count in self.attributes["point_counts"])
        self.spacing = tuple(float(step) for step in self.attributes["point_spacing"])
        self.fields = [name for name in self.attributes["fields"].split(",") if name]
        self.units = {name: UNITS[name] for name in self.fields}
        curved = "point_origin" in self.attributes
        self._storage = Storage(self.shape, self.spacing, curved)
        self._single = int(self.attributes["step_count"]) == 1
        root = self._file["VTKHDF"]
        origin = self.attributes["point_origin"] if curved else root.attrs["Origin"]
        self.origin = tuple(float(value) for value in origin)
        self._arrays = root["PointData"]
        steps = self._file[self.attributes["steps_group"]]
        self.times = steps["Values"][: int(steps.attrs["NSteps"])]

    def __len__(self) -> int:
        return len(self.times)

    def axis(self, name: str) -> np.ndarray:
        """Return the coordinates of the points along ``x``, ``y`` or ``z``, m."""
        index = "xyz".index(name)
        return self.origin[index] + self.spacing[index] * np.arange(self.shape[2 - index])

    def read(self, step: int, field: str) -> np.ndarray:
        """Return `field` at step `step`: (nz, ny, nx, components), or (nz, ny, nx) for a scalar."""
        if not -len(self) <= step < len(self):
            raise IndexError(f"step {step} of {len(self)}")
        place: int | slice | EllipsisType = ... if self._single else step % len(self)
        if len(self._storage.stored_shape) == 1:  # the steps of an unstructured grid follow each other
            count = self._storage.stored_shape[0]
            place = slice(step % len(self) * count, (step % len(self) + 1) * count)
        arrays = [self._storage.from_file(self._arrays[name][place]) for name in stored_arrays(field)]
        return arrays[0] if len(arrays) == 1 else np.stack(arrays, axis=-1)

    def __repr__(self) -> str:
        place = "volume" if self.plane == "none" else f"plane normal to {self.plane}"
        count = " x ".join(str(number) for number in self.shape[::-1])
        times = f"t = {self.times[0]:.4g} to {self.times[-1]:.4g} s" if len(self) else "no times yet"
        return f"<Snapshots of {', '.join(self.fields)}: {place}, {count} points, {len(self)} steps, {times}>"

    def to_xarray(self, steps: Sequence[int] | slice | None = None, fields: Sequence[str] | None = None) -> Dataset:
        """Return an xarray Dataset with dimensions time, z, y, x and component, in memory.

        Parameters
        ----------
        steps : indices of the snapshots to read; default: all.
        fields : default: all.

        Raises
        ------
        MissingPackageError : xarray is not installed.
        """
        return snapshot_dataset(self, steps, self.fields if fields is None else fields)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Snapshots:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def load_snapshots(path: str | Path) -> Snapshots:
    """Open a snapshot file for reading; use it in a ``with`` statement, or close it.

    Raises
    ------
    OutputError : the file is missing, damaged or not a snapshot file, or exists in parts only.
    """
    return Snapshots(path)


def snapshot_dataset(snapshots: Snapshots, steps: Sequence[int] | slice | None, fields: Sequence[str]) -> Dataset:
    """See `Snapshots.to_xarray`."""
    require_package("xarray", "A Dataset", "data")
    from xarray import Dataset

    numbers = np.arange(len(snapshots))[slice(None) if steps is None else steps]
    coordinates: Entries = {"time": ("time", np.asarray(snapshots.times)[numbers], {"units": "s"})}
    for axis in "zyx":
        coordinates[axis] = (axis, snapshots.axis(axis), {"units": "m"})
    variables = {}
    for name in fields:
        values = np.zeros((0, *snapshots.shape, *_components(name)))
        if len(numbers):
            values = np.stack([snapshots.read(int(step), name) for step in numbers])
        axes = ("time", "z", "y", "x")
        if FIELD_COMPONENTS[name] > 1:
            label = "component" if FIELD_COMPONENTS[name] == 3 else "tensor_component"
            coordinates[label] = (COMPONENTS if label == "component" else TENSOR_COMPONENTS).split(",")
            axes = (*axes, label)
        variables[name] = (axes, values, {"units": UNITS[name]})
    return Dataset(variables, coordinates, kept(snapshots.attributes))


BLOCK_POINTS = 2_000_000  # per block in memory: 24 MB of velocities
# A run joins smaller parts when it ends, in a few seconds. Larger parts would keep all ranks waiting.
JOINED_BY_RUNS = 10**9  # bytes


def unjoined(directory: Path) -> list[Path]:
    """Return the snapshot files of a run folder that exist as parts."""
    return sorted(path.with_suffix(FILE_SUFFIX) for path in (directory / "snapshots").glob(f"*{PARTS_SUFFIX}"))


def joined_bytes(head: SnapshotHead) -> int:
    """Return the bytes of the values of all snapshots."""
    components = sum(FIELD_COMPONENTS[name] for name in head.fields)
    return math.prod(head.shape) * components * head.step_count * PRECISION.itemsize


def join_run(directory: Path, keep: bool = False, report: Callable[[str], None] = lambda _: None) -> list[Path]:
    """Join the parts of all snapshots of a run; return the joined files.

    The parts are deleted when their file is complete, unless `keep` is set or the run is not finished, since a restart
    requires them. report : called with one line per file.

    Raises
    ------
    OutputError : the folder contains no run, parts are missing or damaged, or a file cannot be written; the parts
        remain.
    """
    finished = read_report(directory).get("exit_state") == "finished"
    made = []
    for path in unjoined(directory):
        count = join_snapshots(path)
        kept = "" if finished else ", parts retained since the run is not complete"
        report(f"{path}: {count} snapshots{kept}")
        if finished and not keep:
            remove_parts(path)
        made.append(path)
    if finished:
        for gone in (directory / "snapshots").glob(f".*{PARTS_SUFFIX}{GONE_SUFFIX}"):  # left by a killed process
            shutil.rmtree(gone, ignore_errors=True)
    return made


def join_snapshots(path: Path) -> int:
    """Join the parts of a snapshot file to the file that one rank would have written; return the number of snapshots.

    An existing file is replaced when the new file is complete; the parts remain.

    Raises
    ------
    OutputError : parts are missing or damaged, or the file cannot be written.
    """
    folders = _complete_folders(path)
    times: list[float] = []
    with replaced(path) as temporary:
        writer: SnapshotWriter | None = None
        try:
            for folder, following in zip(folders, [*folders[1:], None], strict=True):
                with _readers(folder) as readers:
                    if writer is None:
                        writer = new_snapshot_file(temporary, readers[0].head)
                    count = _count(readers, None if following is None else following.first)
                    _join_folder(writer, readers, count)
                    times += readers[0].times[:count].tolist()
            writer.count(times)
        finally:
            if writer is not None:
                writer.close()
    return len(times)


def new_snapshot_file(path: Path, head: SnapshotHead) -> SnapshotWriter:
    """Return a writer of complete snapshots."""
    return SnapshotWriter(
        path, head.origin, head.spacing, head.shape, head.fields, head.attributes, step_count=head.step_count
    )


@contextmanager
def _readers(folder: PartFolder) -> Iterator[list[PartReader]]:
    """Open all parts of a folder."""
    ranks = folder.rank_count()
    with suppress(ValueError, OSError):  # systems allow about 1000 open files by default
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft < 2 * ranks + 100:
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(2 * ranks + 100, hard), hard))
    readers: list[PartReader] = []
    try:
        for rank in range(ranks):
            readers.append(PartReader(folder.file(rank)))
        yield readers
    finally:
        for reader in readers:
            reader.close()


def _count(readers: list[PartReader], following: int | None) -> int:
    """Return the number of valid snapshots in a folder: those before the next folder, or those that all ranks have."""
    have = min(readers, key=lambda reader: reader.written)
    if following is None:
        return have.written
    needed = following - have.first
    if have.written < needed:
        raise OutputError(f"{have.path}: contains {have.written} snapshots, but the next part begins after {needed}.")
    return needed


def _join_folder(writer: SnapshotWriter, readers: list[PartReader], count: int) -> None:
    """Copy the snapshots of a folder to the file, block after block with all times of each block."""
    head, first = readers[0].head, readers[0].first
    nz, ny, nx = head.shape
    rows, lows = max(1, BLOCK_POINTS // nx), [0] * len(readers)
    for row in range(0, nz * ny, rows):
        end = min(nz * ny, row + rows)
        stretches = []
        for number, reader in enumerate(readers):
            low, (high, at) = lows[number], reader.stretch(row * nx, end * nx, lows[number])
            lows[number] = high
            if high > low:
                stretches.append((reader, low, high, _as_slice(at)))
        for step in range(count):
            for name in head.fields:
                components = FIELD_COMPONENTS[name]
                shape = (end - row, nx, components) if components > 1 else (end - row, nx)
                values = np.full(shape, np.nan, PRECISION)
                flat = values.reshape((end - row) * nx, *shape[2:])
                for reader, low, high, at in stretches:
                    flat[at] = reader.read(name, step, low, high)
                writer.write_rows(first + step, name, row, values)


def _as_slice(at: np.ndarray) -> np.ndarray | slice:
    """Return consecutive ascending indices as a slice, which is several times faster."""
    return slice(int(at[0]), int(at[-1]) + 1) if at[-1] - at[0] == len(at) - 1 else at
