"""HDF5 files that survive a crash or a full disk.

A file is laid out completely by h5py when it is created, and closed: each array is one contiguous piece whose
place in the file is known. Data then go straight to their place by the operating system's own write, past the
HDF5 library: it keeps unwritten data of its own, and brings the process down when these find no room (so that
the layout itself is made in memory, see `paged`). What changes beside the data is a counter, updated after
what it counts. The first format version is used (no marks of being open) and no lock is taken: a reader may
look at any time, and a file whose writer was killed opens like any other.
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

from lithowave.errors import OutputError
from lithowave.output.paged import PagedFile, write_fully

DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
PRECISIONS = {"single": np.float32, "double": np.float64}


def readable_size(size: float) -> str:
    """`size` bytes in the unit that suits it: ``1.5 MB``."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def is_disk_full(error: OSError) -> bool:
    """Whether `error` says that nothing more can be written: no space, quota or file size reached."""
    # h5py keeps the number only inside the text of errors that come up through several layers of HDF5
    text = str(error)
    return error.errno in DISK_FULL or any(f"errno = {number}," in text for number in DISK_FULL)


def output_error(path: Path, error: OSError, readable: str = "") -> OutputError:
    """The error for a failed write to `path`: the cause, what is free, what of the file stays readable."""
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
    """Turn an OSError (also HDF5's own) raised inside into an OutputError that names `path`."""
    try:
        yield
    except OSError as error:
        raise output_error(path, error, readable) from error


def require_space(path: Path, size: int) -> None:
    """Raise OutputError when the file system of `path` has less than `size` bytes free."""
    folder = path.absolute().parent
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        return
    if size > free:
        raise OutputError(
            f"{path}: needs {readable_size(size)} on a disk where {readable_size(free)} are free. "
            "Free some space, choose another output directory, or write fewer samples, steps or points."
        )


@contextmanager
def creating(path: Path) -> Iterator[Any]:
    """A new HDF5 file to be laid out inside the block, in the oldest format version; its folder is made.

    It is held in memory until the block ends: large arrays are made by `preallocate`, and written afterwards.

    Raises
    ------
    OutputError : when it cannot be written; there is no file then.
    """
    with writing(path), laying_out(path) as file:
        yield file


@contextmanager
def laying_out(path: Path) -> Iterator[Any]:
    """As `creating`, but an OSError stays one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with _paged(path, "w") as file:
            yield file
    except BaseException:
        path.unlink(missing_ok=True)
        raise


@contextmanager
def changing(path: Path) -> Iterator[Any]:
    """An existing HDF5 file to be changed inside the block, in memory as far as it is touched.

    Raises
    ------
    OutputError : when it cannot be written, or there is no room for what is new; it is then as it was.
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
    """Open an existing HDF5 file for reading, without a lock; OutputError when missing or damaged."""
    import h5py

    if not path.is_file():
        raise OutputError(f"{path}: there is no such file.")
    try:
        return h5py.File(path, "r", locking=False)
    except OSError as error:
        raise OutputError(f"{path}: is damaged or not an HDF5 file: {error}") from error


def preallocate(group: Any, name: str, shape: tuple[int, ...], dtype: Any, **attributes: Any) -> Any:
    """A contiguous data set whose place in the file is fixed now; nothing is written into it."""
    import h5py

    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    properties.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    dataset = group.create_dataset(name, shape, dtype=dtype, dcpl=properties)
    if shape == ():
        dataset[()] = 0  # HDF5 makes room for a single value only when it is written
    for key, value in attributes.items():
        dataset.attrs[key] = value
    return dataset


@dataclass(frozen=True)
class ContiguousDataset:
    """Place of a contiguous array in a file: where it starts (bytes), its shape and type."""

    start: int
    shape: tuple[int, ...]
    dtype: np.dtype

    @classmethod
    def of(cls, dataset: Any) -> ContiguousDataset:
        """The place of an HDF5 data set made by `preallocate`."""
        offset = dataset.id.get_offset()
        if offset is None and dataset.size:
            raise ValueError(f"{dataset.name} has no place in its file; was it made by preallocate?")
        return cls(offset or 0, dataset.shape, dataset.dtype)

    def write_columns(self, descriptor: int, start: int, values: np.ndarray) -> None:
        """Write `values` (..., n) to the places `start` to `start` + n of the last axis."""
        values = self._prepared(values, (*self.shape[:-1], values.shape[-1]))
        rows = values.reshape(-1, values.shape[-1])
        for row, samples in enumerate(rows):
            _write_array(descriptor, samples, self._byte(row * self.shape[-1] + start))

    def write_step(self, descriptor: int, index: int, values: np.ndarray) -> None:
        """Write `values` to place `index` of the first axis."""
        values = self._prepared(values, self.shape[1:])
        _write_array(descriptor, values, self._byte(index * values.size))

    def write_range(self, descriptor: int, first: int, values: np.ndarray) -> None:
        """Write `values` to the elements from number `first` on, counted through the whole array, last axis fastest."""
        if first < 0 or first + values.size > math.prod(self.shape):
            raise ValueError(f"{values.size} values from {first} on leave an array of shape {self.shape}")
        _write_array(descriptor, np.ascontiguousarray(values, dtype=self.dtype), self._byte(first))

    def write(self, descriptor: int, values: Any) -> None:
        """Write the whole array."""
        _write_array(descriptor, self._prepared(np.asarray(values), self.shape), self.start)

    def _byte(self, element: int) -> int:
        return self.start + element * self.dtype.itemsize

    def _prepared(self, values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        if values.shape != shape:
            raise ValueError(f"values have shape {values.shape}, expected {shape}")
        # ascontiguousarray makes an array of no axes one of one
        return np.ascontiguousarray(values, dtype=self.dtype).reshape(shape)


def _write_array(descriptor: int, values: np.ndarray, position: int) -> None:
    if values.size:
        write_fully(descriptor, memoryview(values.reshape(-1)).cast("B"), position)


def sync_folder(folder: Path) -> None:
    """Wait until the names of the files in a folder have reached the disk, where its file system can tell."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """The name of a new file that takes the place of `path` when the block has ended well.

    Raises
    ------
    OutputError : when it cannot be written; what stood at `path` before stays.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with writing(path, "The file that stood there before, if any, is unchanged"):
            yield temporary
            with open(temporary, "rb") as file:
                os.fsync(
                    file.fileno()
                )  # else a machine that loses power may keep the name without the content
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def replacing(path: Path) -> Iterator[Any]:
    """A new HDF5 file, made as by `creating`, that takes the place of `path` at the end: see `replaced`."""
    with replaced(path) as temporary, laying_out(temporary) as file:
        yield file
