"""Opening SEG-Y files of either byte order with segyio."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_FORMATS = frozenset(range(1, 17))
_FORMAT_CODE = slice(3224, 3226)
_ENDIANNESS = slice(3296, 3300)
_CONSTANT = 16909060


def byte_order(path: Path) -> str:
    """Return the byte order of a file, ``big`` or ``little``.

    Since revision 2, bytes 3297-3300 contain a constant; otherwise the format of the samples, bytes 3225-3226, is valid
    in one order only.
    """
    with path.open("rb") as file:
        header = file.read(3600)
    if int.from_bytes(header[_ENDIANNESS], "little") == _CONSTANT:
        return "little"
    code = header[_FORMAT_CODE]
    swapped = int.from_bytes(code, "big") not in _FORMATS and int.from_bytes(code, "little") in _FORMATS
    return "little" if swapped else "big"


@contextmanager
def open_segy(path: Path) -> Iterator[Any]:
    """Open a file for reading, without an assumption about its geometry; errors as those of segyio."""
    import segyio

    with warnings.catch_warnings():  # segyio's remarks on unused headers
        warnings.simplefilter("ignore")
        with segyio.open(str(path), ignore_geometry=True, endian=byte_order(path)) as file:
            yield file
