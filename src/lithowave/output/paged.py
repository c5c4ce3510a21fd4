"""A file that HDF5 may change at will in memory, and that reaches the disk only afterwards, or not at all.

Where a write fails, the HDF5 library is left with data that it cannot put anywhere and may bring the process
down. Here it never meets a failure: it reads and writes pages in memory, and what they hold is put into the
file by :meth:`PagedFile.commit`, past the library. The bytes beyond the end of the file come first, so that a
full disk is found before anything that was readable is touched.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path

PAGE = 4096


class PagedFile(io.RawIOBase):
    """A file of which only the pages that are touched are held in memory; for h5py's driver for file objects.

    Parameters
    ----------
    path : the file. create : begin with an empty one; else it must exist.
    """

    def __init__(self, path: Path, create: bool) -> None:
        super().__init__()
        self._descriptor = os.open(path, os.O_RDWR | (os.O_CREAT | os.O_TRUNC if create else 0), 0o666)
        self._size = os.fstat(self._descriptor).st_size
        self._position = 0
        self._pages: dict[int, bytearray] = {}
        self._changed: set[int] = set()

    def readable(self) -> bool:
        """Yes."""
        return True

    def writable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a place."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = start + offset
        return self._position

    def tell(self) -> int:
        """The present place."""
        return self._position

    def truncate(self, size: int | None = None) -> int:
        """Set the size; what is new is zero."""
        self._size = self._position if size is None else int(size)
        return self._size

    def readinto(self, buffer: memoryview) -> int:
        """Read into a buffer from the present place; what lies beyond the end is zero."""
        view = memoryview(buffer).cast("B")
        for page, inside, outside in self._parts(len(view)):
            view[outside] = self._page(page)[inside]
        self._position += len(view)
        return len(view)

    def write(self, data: bytes | memoryview) -> int:
        """Write at the present place, into memory."""
        view = memoryview(data).cast("B")
        for page, inside, outside in self._parts(len(view)):
            self._page(page)[inside] = view[outside]
            self._changed.add(page)
        self._position += len(view)
        self._size = max(self._size, self._position)
        return len(view)

    def commit(self) -> None:
        """Put what was changed into the file.

        Raises
        ------
        OSError : when there is no room; a file that existed before is then as it was.
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
        """Page, part of the page, and part of the buffer, for `length` bytes from the present place."""
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
    """Write all bytes at a place: one call may write less, on a disk about to be full."""
    while remaining:
        written = os.pwrite(descriptor, remaining, position)
        remaining, position = remaining[written:], position + written
