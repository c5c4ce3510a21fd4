"""Files that end with a checksum of all bytes before it, so that damage is detected before the content is used.

The checksum follows the end of an HDF5 file, where the HDF5 library ignores it. It covers the arrays and everything
that describes them. It is computed from the written file, which is usually in the page cache of the system.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path

from lithowave.errors import OutputError

_MARK = b"lithowave CRC32 "
SEAL_BYTES = len(_MARK) + 4
_BLOCK = 8 << 20


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
    buffer = memoryview(bytearray(min(_BLOCK, max(size, 1))))
    checksum, position = 0, 0
    while position < size:
        count = os.preadv(descriptor, [buffer[: size - position]], position)
        if not count:
            raise OSError(0, "it is shorter than expected")
        checksum = zlib.crc32(buffer[:count], checksum)
        position += count
    return checksum
