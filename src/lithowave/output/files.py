"""Files of a run: HDF5 files that survive a crash or a full disk, sealed files, and JSON files.

`disk_rate` measures the speed at which one thread writes to a folder.

**HDF5.** h5py creates and closes a file with its complete layout: each array is one contiguous range at a known
position. Data are then written to this position with system calls, bypassing the HDF5 library, which buffers data and
aborts the process if the buffers do not fit on the disk (therefore the layout is also made in memory, see `PagedFile`).
Besides the data, only a counter changes, after the data that it counts. The files have the oldest format version
(without marks of open files) and no locks: they can be read at any time, also after their writer was killed.

A `PagedFile` is changed in memory, and is written to the disk afterwards, or not at all. After a failed write, the HDF5
library has data that it cannot write and may abort the process. Here no write of the library fails: it reads and writes
pages in memory, and :meth:`PagedFile.commit` writes the pages to the file. Bytes beyond the end of the file are written
first, so that a full disk is detected before readable data are changed.

**Sealed files** end with a checksum of all bytes before it, so that damage is detected before the content is used.
The checksum follows the end of an HDF5 file, where the HDF5 library ignores it. It covers the arrays and everything
that describes them. It is computed from the written file, which is usually in the page cache of the system, in threads.

**JSON files** of run and survey folders are read with the types of the entries that lithowave uses.
"""

from __future__ import annotations

import errno
import io
import json
import math
import os
import shutil
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from lithowave.backends.cpu import usable_cores
from lithowave.backends.interface import PendingCopy
from lithowave.errors import OutputError
from lithowave.readers.foreign_formats import open_shared, refuse_references

if TYPE_CHECKING:
    import h5py
    import numpy.typing as npt

    from lithowave.json_types import Entries

Part = TypeVar("Part")
Result = TypeVar("Result")

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
def creating(path: Path) -> Iterator[h5py.File]:
    """Create an HDF5 file, and its folder, in the oldest format version; its layout is made inside the block.

    The file is in memory until the block ends: `preallocate` makes large arrays, which are written afterwards.

    Raises
    ------
    OutputError : the file cannot be written; it does not exist then.
    """
    with writing(path), laying_out(path) as file:
        yield file


@contextmanager
def laying_out(path: Path) -> Iterator[h5py.File]:
    """Create a file as `creating` does, but raise OSError unchanged."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with _paged(path, "w") as file:
            yield file
    except BaseException:
        path.unlink(missing_ok=True)
        raise


@contextmanager
def changing(path: Path) -> Iterator[h5py.File]:
    """Open an existing HDF5 file for changes inside the block; its changed pages are in memory.

    Raises
    ------
    OutputError : the file cannot be written, or the disk lacks space; the file is then unchanged.
    """
    with writing(path), _paged(path, "r+") as file:
        yield file


@contextmanager
def _paged(path: Path, mode: str) -> Iterator[h5py.File]:
    import h5py

    with PagedFile(path, create=mode == "w") as pages:
        with h5py.File(pages, mode, libver="earliest") as file:
            yield file
        pages.commit()


def open_file(path: Path) -> h5py.File:
    """Open an existing HDF5 file for reading, without a lock; raise OutputError if it is missing or damaged."""
    if not path.is_file():
        raise OutputError(f"{path}: the file does not exist.")
    try:
        return _checked(open_shared(path))
    except DAMAGE as error:
        raise OutputError(f"{path}: is damaged or not an HDF5 file: {error}") from error


def _checked(file: h5py.File) -> h5py.File:
    """Return an HDF5 file, which refers to no other files; else close it."""
    try:
        refuse_references(file)
    except BaseException:
        file.close()
        raise
    return file


def preallocate(
    group: h5py.Group, name: str, shape: tuple[int, ...], dtype: npt.DTypeLike, **attributes: object
) -> h5py.Dataset:
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
    def of(cls, dataset: h5py.Dataset) -> ContiguousDataset:
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

    def write(self, descriptor: int, values: npt.ArrayLike) -> None:
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


class DatasetWriter:
    """The base class of writers of contiguous data sets to an open file; what they have written remains readable.

    path : the file. kind : what it is, for messages.
    """

    path: Path
    kind: str
    _descriptor: int | None

    @classmethod
    def reopened(cls, path: Path) -> Self:
        """Open an incomplete file for writing.

        Raises
        ------
        OutputError : the file is missing or damaged.
        """
        writer = cls.__new__(cls)
        writer.path = path
        try:
            writer._open()
        except DAMAGE as error:
            raise OutputError(f"{path}: is not {cls.kind}: {error}") from error
        return writer

    def _open(self) -> None:
        """Find the data sets of the file, and open it for writing."""
        raise NotImplementedError

    def _open_for_writing(self) -> None:
        with writing(self.path):
            self._descriptor = os.open(self.path, os.O_RDWR)

    def sync(self) -> None:
        """Wait until the written data are on the disk; required before a checkpoint that relies on them.

        Raises
        ------
        OutputError : the data cannot be written (network file systems report a full disk only now).
        """
        if self._descriptor is not None:
            with writing(self.path):
                os.fsync(self._descriptor)

    def close(self) -> None:
        """Close the file, if it is open."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with writing(self.path):
                os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


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
                os.fsync(file.fileno())  # otherwise a power failure may leave the name without content
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def replacing(path: Path) -> Iterator[h5py.File]:
    """Create an HDF5 file as `creating` does, which replaces `path` at the end of the block: see `replaced`."""
    with replaced(path) as temporary, laying_out(temporary) as file:
        yield file


PAGE = 4096


class PagedFile(io.RawIOBase):
    """A file of which only the accessed pages are in memory, for the driver for file objects of h5py.

    Parameters
    ----------
    path : the file. create : True to begin with an empty file; otherwise the file must exist.
    """

    def __init__(self, path: Path, create: bool) -> None:
        super().__init__()
        self._descriptor = os.open(path, os.O_RDWR | (os.O_CREAT | os.O_TRUNC if create else 0), 0o666)
        self._size = os.fstat(self._descriptor).st_size
        self._position = 0
        self._pages: dict[int, bytearray] = {}
        self._changed: set[int] = set()

    def readable(self) -> bool:
        """Return True."""
        return True

    def writable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Set the position."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = start + offset
        return self._position

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def truncate(self, size: int | None = None) -> int:
        """Set the size; new bytes are zero."""
        self._size = self._position if size is None else int(size)
        return self._size

    def readinto(self, buffer: memoryview) -> int:
        """Read into a buffer from the current position; bytes beyond the end are zero."""
        view = memoryview(buffer).cast("B")
        for page, inside, outside in self._parts(len(view)):
            view[outside] = self._page(page)[inside]
        self._position += len(view)
        return len(view)

    def write(self, data: bytes | memoryview) -> int:
        """Write at the current position, in memory."""
        view = memoryview(data).cast("B")
        for page, inside, outside in self._parts(len(view)):
            self._page(page)[inside] = view[outside]
            self._changed.add(page)
        self._position += len(view)
        self._size = max(self._size, self._position)
        return len(view)

    def commit(self) -> None:
        """Write the changed pages to the file.

        Raises
        ------
        OSError : the disk lacks space; a file that existed before is then unchanged.
        """
        before = os.fstat(self._descriptor).st_size
        try:
            os.ftruncate(self._descriptor, self._size)
            for page in sorted(self._changed, key=lambda page: (page * PAGE < before, page)):
                content = self._pages[page][: max(0, self._size - page * PAGE)]
                write_fully(self._descriptor, memoryview(content), page * PAGE)
        except OSError:
            os.ftruncate(self._descriptor, before)
            raise
        self._changed.clear()

    def close(self) -> None:
        """Close the file, without a commit."""
        if not self.closed:
            os.close(self._descriptor)
        super().close()

    def _parts(self, length: int) -> Iterator[tuple[int, slice, slice]]:
        """Yield page, slice of the page and slice of the buffer for `length` bytes from the current position."""
        done = 0
        while done < length:
            page, first = divmod(self._position + done, PAGE)
            count = min(PAGE - first, length - done)
            yield page, slice(first, first + count), slice(done, done + count)
            done += count

    def _page(self, page: int) -> bytearray:
        if page not in self._pages:
            content = os.pread(self._descriptor, PAGE, page * PAGE)
            self._pages[page] = bytearray(content.ljust(PAGE, b"\0"))
        return self._pages[page]


def write_fully(descriptor: int, remaining: memoryview, position: int) -> None:
    """Write all bytes at a position: a single call may write fewer bytes if the disk is almost full."""
    while remaining:
        written = os.pwrite(descriptor, remaining, position)
        remaining, position = remaining[written:], position + written


_MARK = b"lithowave CRC32 "
SEAL_BYTES = len(_MARK) + 4
_BLOCK, _PART = 1 << 20, 32 << 20  # bytes read at once; of a part with a checksum of its own
_THREADS = 8  # more read and write no faster


def seal(path: Path) -> None:
    """Append the checksum to a complete file."""
    with open(path, "r+b", buffering=0) as file:
        checksum = _checksum(file.fileno(), os.fstat(file.fileno()).st_size)
        file.seek(0, os.SEEK_END)
        file.write(_MARK + checksum.to_bytes(4, "little"))


def require_sealed(path: Path) -> None:
    """Compare the checksum of a file with its content.

    Raises
    ------
    OutputError : the file cannot be read, or its content has changed since `seal`; the text is the reason as a clause.
    """
    try:
        with open(path, "rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size - SEAL_BYTES
            end = os.pread(file.fileno(), SEAL_BYTES, max(0, size))
            if not end.startswith(_MARK):
                raise OutputError("its end is missing")
            checksum = int.from_bytes(end[len(_MARK) :], "little")
            if _checksum(file.fileno(), size) != checksum:
                raise OutputError("its content does not agree with its checksum")
    except OSError as error:
        raise OutputError(f"it cannot be read: {error.strerror or error}") from error


def _checksum(descriptor: int, size: int) -> int:
    """Return the CRC-32 of the first `size` bytes; other threads continue meanwhile."""
    parts = [(first, min(_PART, size - first)) for first in range(0, size, _PART)]
    checksum = 0
    for (_, length), own in zip(parts, in_threads(lambda part: _checksum_of(descriptor, *part), parts), strict=True):
        checksum = _joined_checksum(checksum, own, length)
    return checksum


def _checksum_of(descriptor: int, first: int, size: int) -> int:
    """Return the CRC-32 of `size` bytes from the position `first`."""
    buffer = memoryview(bytearray(min(_BLOCK, size)))
    checksum, position, end = 0, first, first + size
    while position < end:
        count = os.preadv(descriptor, [buffer[: end - position]], position)
        if not count:
            raise OSError(0, "it is shorter than expected")
        checksum = zlib.crc32(buffer[:count], checksum)
        position += count
    return checksum


def _joined_checksum(first: int, second: int, length: int) -> int:
    """Return the CRC-32 of two sequences of bytes, one behind the other, from that of each; length : of the second.

    A CRC-32 is a polynomial over GF(2) modulo that of the code. With n bytes behind it, it is multiplied by x^(8 n).
    """
    return _multiply(first, _power_of_byte(length)) ^ second


@lru_cache
def _power_of_byte(exponent: int) -> int:
    """Return x^(8 exponent); the highest of 32 bits is the coefficient of 1, the lowest that of x^31."""
    result, square = 1 << 31, 1 << 23
    while exponent:
        if exponent & 1:
            result = _multiply(result, square)
        square, exponent = _multiply(square, square), exponent >> 1
    return result


def _multiply(a: int, b: int) -> int:
    """Return the product of two polynomials modulo that of CRC-32."""
    product = 0
    for power in range(32):
        if a >> (31 - power) & 1:
            product ^= b
        b = b >> 1 ^ (0xEDB88320 if b & 1 else 0)
    return product


def in_threads(function: Callable[[Part], Result], parts: Sequence[Part]) -> list[Result]:
    """Return the results of a function that mostly reads, writes or computes without the interpreter lock, in order."""
    threads = min(usable_cores(), len(parts), _THREADS)
    if threads < 2:
        return list(map(function, parts))
    with ThreadPoolExecutor(threads, "lithowave file") as pool:
        return list(pool.map(function, parts))


Number = int | float


class _Entries(BaseModel):
    """Entries with other entries between them; each may be missing if it has a default."""

    model_config = ConfigDict(extra="allow", strict=True)


class _Sources(_Entries):
    count: int = 0
    begin_s: Number = 0
    end_s: Number = 0
    depth_m: list[Number] = []
    frequency_hz: Number = 0
    moment_n_m: Number = 0
    moment_magnitude: Number = 0


class _Plan(_Entries):
    method: str = ""
    order: int | None = None
    degree: int | None = None
    passes: str = ""
    grid_points: list[int] = []
    spacing_m: Number | None = None
    element_count: int = 0
    element_size_m: tuple[Number, Number] | None = None
    degrees_of_freedom: int = 0
    steps: int = 0
    points_per_wavelength: Number | None = None
    time_step_s: Number | None = None
    time_step_limit_s: Number | None = None
    memory_bytes: Number | None = None
    sources: _Sources = _Sources()


class _Phase(_Entries):
    name: str
    wall_s: Number


class _Restart(_Entries):
    step: int
    time: str


class RunEntries(_Entries):
    """Entries of run.json."""

    exit_state: str = ""
    error: str = ""
    failed_at_step: int = 0
    stopped_by: str = ""
    stopped_at_step: int = 0
    stop_reason: str = ""
    stopped_at_time_s: Number = 0
    setup_s: Number = 0
    loop_s: Number = 0
    wall_s: Number = 0
    rate_points_per_s: Number | None = None
    rate_elements_per_s: Number | None = None
    unit: str = ""
    host: str = ""
    ranks: int = 1
    threads: int = 1
    precision: str = ""
    restartable: bool = True
    plan: _Plan = _Plan()
    phases: list[_Phase] = []
    restarts: list[_Restart] = []
    warnings: list[str] = []
    callbacks: list[str] = []
    command: list[str] = []
    inputs: dict[str, str] = {}
    packages: dict[str, str] = {}
    cuda: dict[str, object] = {}


class ProgressEntries(_Entries):
    """Entries of progress.json."""

    step: int
    steps: int
    time_s: Number
    end_s: Number
    unit: str
    rate_points_per_s: Number | None = None
    rate_elements_per_s: Number | None = None
    remaining_s: Number | None = None


class _Shot(_Entries):
    shot: int
    folder: str
    name: str | None
    position: tuple[Number, Number, Number]


class SurveyEntries(_Entries):
    """Entries of survey.json."""

    shots: list[_Shot]
    fingerprint: str
    inputs: dict[str, str]
    failures: dict[str, str] = {}


def read_entries(path: Path, kind: type[BaseModel]) -> Entries:
    """Return the content of a JSON file.

    Raises
    ------
    FileNotFoundError : the file is missing.
    OutputError : the file is damaged, or an entry has a wrong type.
    """
    try:
        text = path.read_text(encoding="utf-8")
        kind.model_validate_json(text)
        return json.loads(text)
    except FileNotFoundError:
        raise
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise OutputError(f"{path}: is damaged: {place and place + ': '}{first['msg']}.") from None
    except (OSError, ValueError, RecursionError) as error:  # ValueError: not UTF-8, or a number without end
        raise OutputError(f"{path}: is damaged: {error}.") from error


PIECE = 8 << 20  # bytes of one call
MEASURED_BYTES = 256 << 20  # of a prediction
LIMIT = 2.0  # s; a slower disk is measured with fewer bytes


def disk_rate(folder: Path, size: int, sync: bool = True, limit: float = LIMIT) -> float:
    """Return the bytes per second of writing at most `size` bytes, for at most `limit` s, to an unnamed file.

    sync : True to wait until they are on the disk; False: until the system has them in its page cache.

    Raises
    ------
    OSError : the folder cannot be written.
    """
    if size <= 0:
        return float("inf")
    data = memoryview(np.random.default_rng(0).bytes(min(size, PIECE)))
    with tempfile.TemporaryFile(dir=folder) as file:
        written, begin = 0, time.perf_counter()
        while written < size and time.perf_counter() - begin < limit:
            piece = data[: size - written]
            write_fully(file.fileno(), piece, written)
            written += len(piece)
        if sync:
            os.fsync(file.fileno())
        return written / max(1e-9, time.perf_counter() - begin)
