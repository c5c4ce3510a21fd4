"""What readers of text files share: lines with their numbers, and numbers as other programs write them."""

from __future__ import annotations

import math
import re
from pathlib import Path

from lithowave.errors import InputError

_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eEdD][-+]?\d+)?")


def read_lines(path: Path, what: str) -> list[str]:
    """The lines of a text file, without line ends; the last item is empty when the file ends in a line end.

    Raises
    ------
    InputError
        when the file cannot be opened, is empty, or is no text; ``what`` names what it should be.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(what, f"cannot be read: {error.strerror or error}", file=path) from None
    if not data.strip():
        raise InputError(what, "the file is empty", file=path)
    if b"\0" in data:
        raise InputError(what, "the file is not text", file=path)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        # Names of places in old catalogues; every byte is a character of this encoding.
        text = data.decode("latin-1")
    return re.split(r"\r\n|\n|\r", text)


def parse_number(text: str) -> float | None:
    """The value of a number, Fortran's exponent letter ``D`` included; None when it is no finite number."""
    if _NUMBER.fullmatch(text) is None:
        return None
    value = float(text.lower().replace("d", "e"))
    return value if math.isfinite(value) else None


def digit_pattern(text: str) -> tuple[int, int]:
    """Count of digits after the point and in the exponent: how a program has formatted its numbers."""
    mantissa, _, exponent = text.lower().replace("d", "e").partition("e")
    return len(mantissa.partition(".")[2]), len(exponent.lstrip("+-"))
