"""HDF5 files of other programs, opened for reading; they must not refer to other files.

External links, external storage and virtual datasets would read any file of this machine, or wait for a pipe.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import SEEK_END
from pathlib import Path
from typing import Any

from lithowave.readers.budget import ExpandedSize

_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_HEAP = b"GCOL\1"
_SEARCHED = 64 << 20
"""Bytes from the start of a file in which heaps are examined."""
_MOST_TEXTS = 1_000_000


@contextmanager
def open_hdf5(path: Path) -> Iterator[Any]:
    """Open a file.

    Raises
    ------
    ValueError : the file refers to other files. OSError : it cannot be read.
    """
    require_heaps(path)
    with open_shared(path) as file:
        refuse_references(file)
        yield file


def open_shared(path: Path) -> Any:
    """Open a file for reading without a lock, also while the same process has it open in another mode.

    HDF5 then refuses to open it by name; a Python file has no name for HDF5. OSError : the file cannot be read.
    """
    import h5py

    try:
        return h5py.File(path, "r", locking=False)
    except OSError as error:
        if path.is_file():
            with suppress(Exception):
                return _open_stream(path)
        raise error from None


def _open_stream(path: Path) -> Any:
    """Open a file for reading through a Python file."""
    import h5py

    class StreamedFile(h5py.File):
        def close(self) -> None:
            super().close()
            stream.close()

    stream = open(path, "rb")
    try:
        return StreamedFile(stream, "r")
    except BaseException:
        stream.close()
        raise


def is_hdf5(path: Path) -> bool:
    """True if a file has the signature of HDF5 at its start, or after a user block of 512, 1024, ... bytes."""
    with path.open("rb") as file:
        end, place = file.seek(0, SEEK_END), 0
        while place < end:
            file.seek(place)
            if file.read(len(_SIGNATURE)) == _SIGNATURE:
                return True
            place = max(512, 2 * place)
    return False


def require_heaps(path: Path) -> None:
    """Raise ValueError for a damaged heap of texts, in which the HDF5 library would search without end.

    A heap begins with GCOL, its version and its size, followed by objects: number (0: free space), three other entries
    and size, which is 0 only for objects in use. Heaps are near the start of a file.
    """
    with path.open("rb") as file:
        data = file.read(_SEARCHED)
    start, count = data.find(_HEAP), 0
    while start >= 0:
        position, end = start + 16, start + min(int.from_bytes(data[start + 8 : start + 16], "little"), len(data))
        while position + 16 <= min(end, len(data)):
            number = int.from_bytes(data[position : position + 2], "little")
            size = int.from_bytes(data[position + 8 : position + 16], "little")
            count += 1
            if (number == 0 and size == 0) or count > _MOST_TEXTS:
                raise ValueError("it is damaged: a heap has free space without a size, or too many texts")
            position += size if number == 0 else 16 + size + -size % 8
        start = data.find(_HEAP, start + 4)


def refuse_references(file: Any) -> None:
    """Raise ValueError if a link or a dataset of an open file refers to another file; no link is followed.

    Attributes that declare more bytes than the file are refused, too.
    """
    from h5py import h5d, h5l, h5o

    _require_attributes(file.id, file)
    links: list[tuple[bytes, int]] = []
    file.id.links.visit(lambda name, info: links.append((name, info.type)), info=True)
    for name, kind in links:
        refused = kind not in (h5l.TYPE_HARD, h5l.TYPE_SOFT)
        if kind == h5l.TYPE_HARD:
            item = h5o.open(file.id, name)
            _require_attributes(item, file)
            if isinstance(item, h5d.DatasetID):
                properties = item.get_create_plist()
                refused = bool(properties.get_external_count()) or properties.get_layout() == h5d.VIRTUAL
        if refused:
            text = name.decode("utf-8", "replace")
            raise ValueError(f"{text} is in another file; expected a file that contains all of its data")


def _require_attributes(item: Any, file: Any) -> None:
    """Raise ValueError if an attribute of an object is larger than its file, which contains it without compression."""
    from h5py import h5a

    for index in range(h5a.get_num_attrs(item)):
        size = h5a.open(item, index=index).get_storage_size()
        if size > file.id.get_filesize():
            raise ValueError(f"an attribute declares {size} bytes, more than the file contains")


def read_dataset(dataset: Any, size: ExpandedSize) -> Any:
    """Return all values of a dataset.

    Raises
    ------
    ValueError : the dataset, or one of its chunks, is larger than the budget of its file.
    """
    count = max(dataset.size or 0, math.prod(dataset.chunks or (0,)))
    size.add(count * dataset.dtype.itemsize)
    return dataset[()]
