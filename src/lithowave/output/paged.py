"""A file that HDF5 changes in memory, and that is written to the disk afterwards, or not at all.

After a failed write, the HDF5 library has data that it cannot write and may abort the process. Here no write of the
library fails: it reads and writes pages in memory, and :meth:`PagedFile.commit` writes the pages to the file. Bytes
beyond the end of the file are written first, so that a full disk is detected before readable data are changed.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path

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
