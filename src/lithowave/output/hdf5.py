"""HDF5 files that survive a crash or a full disk.

h5py creates and closes a file with its complete layout: each array is one contiguous range at a known position. Data
are then written to this position with system calls, bypassing the HDF5 library, which buffers data and aborts the
process if the buffers do not fit on the disk (therefore the layout is also made in memory, see `paged`). Besides the
data, only a counter changes, after the data that it counts. The files have the oldest format version (without marks of
open files) and no locks: they can be read at any time, also after their writer was killed.
"""

from __future__ import annotations

import errno
import math
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lithowave.backends.pending import PendingCopy
from lithowave.errors import OutputError
from lithowave.output.paged import PagedFile, write_fully
from lithowave.readers.hdf5_files import open_shared, refuse_references

DAMAGE = (
    OSError, RuntimeError, ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError, MemoryError,
    ZeroDivisionError,
)  # fmt: skip
"""Exceptions that h5py, and code that interprets the entries of a file, raise for damaged files."""

DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
PRECISIONS = {"single": np.float32, "double": np.float64}


def readable_size(size: float) -> str:
    """Return a size in bytes with a suitable unit: ``1.5 MB``."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def is_disk_full(error: OSError) -> bool:
    """True if `error` means that nothing more can be written: the limit of disk, quota or file size is reached."""
    # In errors from several layers of HDF5, h5py has the error number in the text only.
    text = str(error)
    return error.errno in DISK_FULL or any(f"errno = {number}," in text for number in DISK_FULL)


def output_error(path: Path, error: OSError, readable: str = "") -> OutputError:
    """Return the error of a failed write: the cause, the free space, and the part of the file that remains readable."""
    if is_disk_full(error):
        with suppress(OSError):
            free = readable_size(shutil.disk_usage(path.parent).free)
            return OutputError(_sentences(f"{path}: the disk or quota is full ({free} free there)", readable))
        return OutputError(_sentences(f"{path}: the disk or quota is full", readable))
    return OutputError(_sentences(f"{path}: cannot be written: {error}", readable))


def _sentences(*parts: str) -> str:
    return ". ".join(part.rstrip(".") for part in parts if part) + "."


@contextmanager
def writing(path: Path, readable: str = "") -> Iterator[None]:
    """Convert an OSError (also from HDF5) raised inside the block to an OutputError that names `path`."""
    try:
        yield
    except OSError as error:
        raise output_error(path, error, readable) from error


def require_space(path: Path, size: int) -> None:
    """Raise OutputError if the file system of `path` has less than `size` bytes free."""
    folder = path.absolute().parent
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        return
    if size > free:
        raise OutputError(
            f"{path}: requires {readable_size(size)} of disk space, {readable_size(free)} are free. "
            "Free some space, choose another output directory, or write fewer samples, steps or points."
        )


@contextmanager
def creating(path: Path) -> Iterator[Any]:
    """Create an HDF5 file, and its folder, in the oldest format version; its layout is made inside the block.

    The file is in memory until the block ends: `preallocate` makes large arrays, which are written afterwards.

    Raises
    ------
    OutputError : the file cannot be written; it does not exist then.
    """
    with writing(path), laying_out(path) as file:
        yield file


@contextmanager
def laying_out(path: Path) -> Iterator[Any]:
    """Create a file as `creating` does, but raise OSError unchanged."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with _paged(path, "w") as file:
            yield file
    except BaseException:
        path.unlink(missing_ok=True)
        raise


@contextmanager
def changing(path: Path) -> Iterator[Any]:
    """Open an existing HDF5 file for changes inside the block; its changed pages are in memory.

    Raises
    ------
    OutputError : the file cannot be written, or the disk lacks space; the file is then unchanged.
    """
    with writing(path), _paged(path, "r+") as file:
        yield file


@contextmanager
def _paged(path: Path, mode: str) -> Iterator[Any]:
    import h5py

    with PagedFile(path, create=mode == "w") as pages:
        with h5py.File(pages, mode, libver="earliest") as file:
            yield file
        pages.commit()


def open_file(path: Path) -> Any:
    """Open an existing HDF5 file for reading, without a lock; raise OutputError if it is missing or damaged."""
    if not path.is_file():
        raise OutputError(f"{path}: the file does not exist.")
    try:
        return _checked(open_shared(path))
    except DAMAGE as error:
        raise OutputError(f"{path}: is damaged or not an HDF5 file: {error}") from error


def _checked(file: Any) -> Any:
    """Return an HDF5 file, which refers to no other files; else close it."""
    try:
        refuse_references(file)
    except BaseException:
        file.close()
        raise
    return file


def preallocate(group: Any, name: str, shape: tuple[int, ...], dtype: Any, **attributes: Any) -> Any:
    """Create a contiguous data set with a fixed position in the file, without writing values."""
    import h5py

    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    properties.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    dataset = group.create_dataset(name, shape, dtype=dtype, dcpl=properties)
    if shape == ():
        dataset[()] = 0  # HDF5 allocates scalars only when they are written
    for key, value in attributes.items():
        dataset.attrs[key] = value
    return dataset


@dataclass(frozen=True)
class ContiguousDataset:
    """Position (byte), shape and type of a contiguous array in a file."""

    start: int
    shape: tuple[int, ...]
    dtype: np.dtype

    @classmethod
    def of(cls, dataset: Any) -> ContiguousDataset:
        """Return the position of an HDF5 data set made by `preallocate`."""
        offset = dataset.id.get_offset()
        if offset is None and dataset.size:
            raise ValueError(f"{dataset.name} has no position in its file; expected an array made by preallocate")
        return cls(offset or 0, dataset.shape, dataset.dtype)

    def write_columns(self, descriptor: int, start: int, values: np.ndarray) -> None:
        """Write `values` (..., n) to the indices `start` to `start` + n of the last axis."""
        values = self._prepared(values, (*self.shape[:-1], values.shape[-1]))
        rows = values.reshape(-1, values.shape[-1])
        for row, samples in enumerate(rows):
            _write_array(descriptor, samples, self._byte(row * self.shape[-1] + start))

    def write_step(self, descriptor: int, index: int, values: np.ndarray) -> None:
        """Write `values` to index `index` of the first axis."""
        values = self._prepared(values, self.shape[1:])
        _write_array(descriptor, values, self._byte(index * values.size))

    def write_range(self, descriptor: int, first: int, values: np.ndarray | PendingCopy) -> None:
        """Write `values` to the elements from index `first` of the flattened array, last axis fastest."""
        if first < 0 or first + values.size > math.prod(self.shape):
            raise ValueError(f"{values.size} values from index {first} exceed an array of shape {self.shape}")
        for piece in values.pieces() if isinstance(values, PendingCopy) else (values,):
            _write_array(descriptor, np.ascontiguousarray(piece, dtype=self.dtype), self._byte(first))
            first += piece.size

    def write(self, descriptor: int, values: Any) -> None:
        """Write the entire array."""
        _write_array(descriptor, self._prepared(np.asarray(values), self.shape), self.start)

    def _byte(self, element: int) -> int:
        return self.start + element * self.dtype.itemsize

    def _prepared(self, values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        if values.shape != shape:
            raise ValueError(f"values have shape {values.shape}, expected {shape}")
        # ascontiguousarray converts a scalar to an array with one axis.
        return np.ascontiguousarray(values, dtype=self.dtype).reshape(shape)


def _write_array(descriptor: int, values: np.ndarray, position: int) -> None:
    if values.size:
        write_fully(descriptor, memoryview(values.reshape(-1)).cast("B"), position)


def sync_folder(folder: Path) -> None:
    """Wait until the names of the files in a folder are on the disk, if the file system supports it."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """Yield the name of a new file that replaces `path` if the block succeeds.

    Raises
    ------
    OutputError : the new file cannot be written; the old file remains.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with writing(path, "The previous file, if any, is unchanged"):
            yield temporary
            with open(temporary, "rb") as file:
                os.fsync(
                    file.fileno()
                )  # otherwise a power failure may leave the name without content
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def replacing(path: Path) -> Iterator[Any]:
    """Create an HDF5 file as `creating` does, which replaces `path` at the end of the block: see `replaced`."""
    with replaced(path) as temporary, laying_out(temporary) as file:
        yield file
