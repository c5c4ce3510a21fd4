"""STATIONS files: one station per line: ``name network latitude longitude elevation burial``.

With Cartesian coordinates the third column is y (North) and the fourth x (East), in m: y replaces latitude. Text after
``#`` or ``!`` is a comment.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lithowave.errors import InputError
from lithowave.readers.foreign_formats import naming_foreign
from lithowave.readers.text import digit_pattern, parse_number, read_lines

_WHAT = "stations"
_COLUMNS = ("name", "network", "latitude (or y)", "longitude (or x)", "elevation", "burial")
_MOST_PROBLEMS = 20


@dataclass(frozen=True)
class StationRecord:
    """A station in the file.

    Attributes
    ----------
    first : latitude in degrees, or y in m.
    second : longitude in degrees, or x in m.
    elevation : height of the surface above sea level in m.
    burial : depth of the instrument below the surface in m.
    line_number : line of the file, from 1.
    """

    name: str
    network: str
    first: float
    second: float
    elevation: float
    burial: float
    line_number: int


def read_stations(path: str | Path) -> list[StationRecord]:
    """Read a STATIONS file.

    Raises
    ------
    InputError
        with the line: invalid lines, repeated stations, and a truncated last line. A file truncated exactly between
        two lines cannot be distinguished from a shorter file.
    """
    path = Path(path)
    with naming_foreign(path, _WHAT):
        return _read(path)


def _read(path: Path) -> list[StationRecord]:
    lines = read_lines(path, _WHAT)
    records: list[StationRecord] = []
    problems: list[InputError] = []
    seen: dict[tuple[str, str], int] = {}
    for number, line in enumerate(lines, start=1):
        words = line.partition("#")[0].partition("!")[0].split()
        if not words:
            continue
        try:
            record = _parse_record(words, path, number)
            _refuse_second(record, seen, path)
            records.append(record)
        except InputError as error:
            problems.append(error)
    if not problems and records and lines[-1].strip():
        problems.extend(_cut_last_line(lines, records, path))
    if problems:
        first, *others = problems[:_MOST_PROBLEMS]
        raise InputError(
            first.where, first.got, first.allowed, first.hint, file=path, line=first.line, others=others
        )
    if not records:
        raise InputError(
            _WHAT, "the file has no station", f"expected lines of {' '.join(_COLUMNS)}", file=path
        )
    return records


def _parse_record(words: list[str], path: Path, line: int) -> StationRecord:
    if len(words) < len(_COLUMNS):
        missing = ", ".join(_COLUMNS[len(words) :])
        raise InputError(
            _WHAT,
            f"the line ends after {len(words)} of {len(_COLUMNS)} columns: no {missing}",
            f"expected {' '.join(_COLUMNS)}",
            file=path,
            line=line,
        )
    if len(words) > len(_COLUMNS):
        raise InputError(
            _WHAT,
            f"the line has {len(words)} columns",
            f"expected {len(_COLUMNS)}: {' '.join(_COLUMNS)}",
            "begin a comment with #",
            file=path,
            line=line,
        )
    numbers = [parse_number(word) for word in words[2:]]
    for column, word, value in zip(_COLUMNS[2:], words[2:], numbers, strict=True):
        if value is None:
            raise InputError(column, f"{word!r} is not a finite number", file=path, line=line)
    first, second, elevation, burial = (value for value in numbers if value is not None)
    if burial < 0.0:
        hint = "burial is the depth below the surface; the height of the surface is the elevation"
        raise InputError(
            "burial", f"{burial:.12g} m is negative", "must be 0 or more", hint, file=path, line=line
        )
    return StationRecord(words[0], words[1], first, second, elevation, burial, line)


def _refuse_second(record: StationRecord, seen: dict[tuple[str, str], int], path: Path) -> None:
    key = (record.network, record.name)
    if key in seen:
        raise InputError(
            _WHAT,
            f"the station {record.network}.{record.name} is already on line {seen[key]}",
            "each station may appear once",
            file=path,
            line=record.line_number,
        )
    seen[key] = record.line_number


def _cut_last_line(lines: list[str], records: list[StationRecord], path: Path) -> list[InputError]:
    """Return an error if the last line has no line end and its last number has fewer decimals than the one before."""
    last = records[-1]
    if last.line_number != len(lines) or len(records) < 2:
        return []
    burial, before = (
        lines[record.line_number - 1].partition("#")[0].partition("!")[0].split()[5]
        for record in (last, records[-2])
    )
    if digit_pattern(burial)[0] >= digit_pattern(before)[0]:
        return []
    got = (
        f"the file ends within the last line: the burial {burial!r} is shorter than {before!r} a line before"
    )
    return [InputError(_WHAT, got, hint="complete it, with a line end", file=path, line=last.line_number)]
