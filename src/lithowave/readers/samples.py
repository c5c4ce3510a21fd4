"""Samples of a time function in a text file: one column (values), or two (time in s, value)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lithowave.errors import InputError
from lithowave.readers.text import parse_number, read_lines

_WHAT = "samples"


@dataclass(frozen=True, eq=False)
class SampleTable:
    """The columns of the file: ``values`` of shape (n,), and ``times`` in s of shape (n,) or None."""

    values: np.ndarray
    times: np.ndarray | None


def read_samples(path: str | Path) -> SampleTable:
    """Read samples, one or two numbers per line, separated by blanks or commas.

    Blank lines, and text after ``#``, ``!`` or ``%``, are ignored.

    Raises
    ------
    InputError
        with the line: a word is not a number, lines have different numbers of columns, times do not increase, or there
        are fewer than two samples.
    """
    path = Path(path)
    rows: list[tuple[int, list[float]]] = []
    for number, line in enumerate(read_lines(path, _WHAT), start=1):
        words = _without_comment(line).replace(",", " ").split()
        if words:
            rows.append((number, _parse_row(words, path, number)))
    if len(rows) < 2:
        count = "1 sample" if rows else "no samples"
        raise InputError(_WHAT, f"the file has {count}", "at least 2 are needed", file=path)
    width = len(rows[0][1])
    for number, row in rows:
        if len(row) != width:
            raise InputError(
                _WHAT,
                f"{_counted(len(row))} on this line",
                f"the first line has {width}",
                file=path,
                line=number,
            )
    table = np.array([row for _, row in rows])
    if width == 1:
        return SampleTable(table[:, 0], None)
    backward = np.flatnonzero(np.diff(table[:, 0]) <= 0)
    if backward.size:
        line, row = rows[int(backward[0]) + 1]
        raise InputError(
            _WHAT,
            f"the time {row[0]:.12g} s does not follow the one before it",
            "times must increase",
            file=path,
            line=line,
        )
    return SampleTable(table[:, 1], table[:, 0])


def _without_comment(line: str) -> str:
    for mark in "#!%":
        line = line.partition(mark)[0]
    return line


def _parse_row(words: list[str], path: Path, line: int) -> list[float]:
    if len(words) > 2:
        raise InputError(
            _WHAT,
            f"{len(words)} columns",
            "expected one (value) or two (time in s, value)",
            file=path,
            line=line,
        )
    values = [parse_number(word) for word in words]
    for word, value in zip(words, values, strict=True):
        if value is None:
            raise InputError(_WHAT, f"{word!r} is not a finite number", file=path, line=line)
    return [value for value in values if value is not None]


def _counted(count: int) -> str:
    return f"{count} number" + ("" if count == 1 else "s")
