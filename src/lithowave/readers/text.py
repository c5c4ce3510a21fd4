"""Functions shared by readers of text files: numbered lines, and numbers in the notation of other programs."""

from __future__ import annotations

import math
import re
from pathlib import Path

from lithowave.errors import InputError
from lithowave.readers.budget import LINE_BYTES

UTF8_MARK = b"\xef\xbb\xbf"
"""Bytes with which some programs begin files of UTF-8."""

_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eEdD][-+]?\d+)?")


def read_lines(path: Path, what: str) -> list[str]:
    """Return the lines of a text file, without line ends; the last item is empty if the file ends with a line end.

    Raises
    ------
    InputError
        if the file cannot be opened, is empty or is not text; ``what`` is the purpose of the file.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(what, f"cannot be read: {error.strerror or error}", file=path) from None
    if not data.strip():
        raise InputError(what, "the file is empty", file=path)
    if b"\0" in data:
        raise InputError(what, "the file is not text", file=path)
    require_lines(data, what, path)
    return re.split(r"\r\n|\n|\r", decoded(data))


def decoded(data: bytes) -> str:
    """Return text in UTF-8, with or without its mark, or else in Latin-1, of which every byte is a character."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:  # place names in old catalogs
        return data.removeprefix(UTF8_MARK).decode("latin-1")


def is_text(head: bytes) -> bool:
    """True if the first bytes of a file are text, which has no control characters other than blanks and line ends."""
    return bool(head) and all(byte in b"\t\n\r\f" or (byte >= 32 and byte != 127) for byte in head)


def require_lines(data: bytes, what: str, path: Path) -> None:
    """Refuse text with a line that is longer than the budget."""
    start = 0
    while len(data) - start > LINE_BYTES:
        end = max(data.rfind(mark, start, start + LINE_BYTES) for mark in (b"\n", b"\r"))
        if end < 0:
            number = data.count(b"\n", 0, start) + 1
            raise InputError(what, f"the line has more than {LINE_BYTES} characters", file=path, line=number)
        start = end + 1


def parse_number(text: str) -> float | None:
    """Return the value of a number, with Fortran's exponent letter ``D`` allowed; None if it is not a finite number."""
    if _NUMBER.fullmatch(text) is None:
        return None
    value = float(text.lower().replace("d", "e"))
    return value if math.isfinite(value) else None


def digit_pattern(text: str) -> tuple[int, int]:
    """Return the digits after the point and in the exponent, as a program has formatted its numbers."""
    mantissa, _, exponent = text.lower().replace("d", "e").partition("e")
    return len(mantissa.partition(".")[2]), len(exponent.lstrip("+-"))
