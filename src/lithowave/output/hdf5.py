"""HDF5 files that survive a crash or a full disk.

A file is laid out completely by h5py when it is created, and closed: each array is one contiguous piece whose
place in the file is known. Data then go straight to their place by the operating system's own write, past the
HDF5 library: it keeps unwritten data of its own, and brings the process down when these find no room. What
changes beside the data is a counter, updated after what it counts. The first format version is used (no marks
of being open) and no lock is taken: a reader may look at any time, and a file whose writer was killed opens
like any other.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lithowave.errors import OutputError

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
    try:
        free = shutil.disk_usage(path.parent).free
    except OSError:
        return
    if size > free:
        raise OutputError(
            f"{path}: needs {readable_size(size)} on a disk where {readable_size(free)} are free. "
            "Free some space, choose another output directory, or write fewer samples, steps or points."
        )


def create_file(path: Path) -> Any:
    """A new HDF5 file at `path`, in the oldest format version and without a lock; its folder is made."""
    import h5py

    path.parent.mkdir(parents=True, exist_ok=True)
    return h5py.File(path, "w", libver="earliest", locking=False)


@contextmanager
def creating(path: Path) -> Iterator[Any]:
    """A new HDF5 file to be laid out inside the block, closed after it."""
    with writing(path), create_file(path) as file:
        yield file


def open_file(path: Path, mode: str = "r") -> Any:
    """Open an existing HDF5 file without a lock; OutputError when it is missing, damaged or foreign."""
    import h5py

    if not path.is_file():
        raise OutputError(f"{path}: there is no such file.")
    try:
        if mode == "r":
            return h5py.File(path, "r", locking=False)
        return h5py.File(path, mode, libver="earliest", locking=False)
    except OSError as error:
        raise OutputError(f"{path}: is damaged or not an HDF5 file: {error}") from error


def preallocate(group: Any, name: str, shape: tuple[int, ...], dtype: Any, **attributes: Any) -> Any:
    """A contiguous data set whose place in the file is fixed now; nothing is written into it."""
    import h5py

    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    properties.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    dataset = group.create_dataset(name, shape, dtype=dtype, dcpl=properties)
    for key, value in attributes.items():
        dataset.attrs[key] = value
    return dataset


@dataclass(frozen=True)
class Piece:
    """Place of a contiguous array in a file: where it starts (bytes), its shape and type."""

    start: int
    shape: tuple[int, ...]
    dtype: np.dtype

    @classmethod
    def of(cls, dataset: Any) -> Piece:
        """The place of an HDF5 data set made by `preallocate`."""
        return cls(dataset.id.get_offset() or 0, dataset.shape, dataset.dtype)

    def write_columns(self, descriptor: int, start: int, values: np.ndarray) -> None:
        """Write `values` (..., n) to the places `start` to `start` + n of the last axis."""
        values = self._prepared(values, (*self.shape[:-1], values.shape[-1]))
        rows = values.reshape(-1, values.shape[-1])
        for row, samples in enumerate(rows):
            _write_fully(descriptor, samples, self._byte(row * self.shape[-1] + start))

    def write_step(self, descriptor: int, index: int, values: np.ndarray) -> None:
        """Write `values` to place `index` of the first axis."""
        values = self._prepared(values, self.shape[1:])
        _write_fully(descriptor, values, self._byte(index * values.size))

    def write(self, descriptor: int, values: Any) -> None:
        """Write the whole array."""
        _write_fully(descriptor, self._prepared(np.asarray(values), self.shape), self.start)

    def _byte(self, element: int) -> int:
        return self.start + element * self.dtype.itemsize

    def _prepared(self, values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        if values.shape != shape:
            raise ValueError(f"values have shape {values.shape}, expected {shape}")
        # ascontiguousarray makes an array of no axes one of one
        return np.ascontiguousarray(values, dtype=self.dtype).reshape(shape)


def _write_fully(descriptor: int, values: np.ndarray, position: int) -> None:
    """Write all bytes of `values` at `position`: one call may write less, on a disk about to be full."""
    if not values.size:
        return
    remaining = memoryview(values.reshape(-1)).cast("B")
    while remaining:
        written = os.pwrite(descriptor, remaining, position)
        remaining, position = remaining[written:], position + written


@contextmanager
def replacing(path: Path) -> Iterator[Any]:
    """A new HDF5 file that takes the place of `path` only once it is complete.

    Raises
    ------
    OutputError : when it cannot be written; what stood at `path` before stays.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with writing(path, "The file that stood there before, if any, is unchanged"):
            with create_file(temporary) as file:
                yield file
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
