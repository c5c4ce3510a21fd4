"""Joining of snapshot parts, written by several ranks, to one file, in blocks that fit into memory."""

from __future__ import annotations

import math
import resource
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from lithowave.errors import OutputError
from lithowave.output.hdf5 import replaced
from lithowave.output.run_folder import read_report
from lithowave.output.snapshot_parts import (
    GONE_SUFFIX,
    PARTS_SUFFIX,
    PRECISION,
    PartFolder,
    PartReader,
    SnapshotHead,
    part_folders,
    parts_folder,
    remove_parts,
)
from lithowave.output.snapshots import FILE_SUFFIX, SnapshotWriter
from lithowave.output.vtkhdf import FIELD_COMPONENTS

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
    folders = part_folders(parts_folder(path))
    if not folders or folders[0].first:
        raise OutputError(f"{parts_folder(path)}: the parts of the first snapshots are missing.")
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
