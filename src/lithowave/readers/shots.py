"""CSV files of shots: a first line with the column names, then one line per shot.

Positions are ``x, y, z`` or ``x, y`` in m, or ``longitude, latitude`` in degrees; ``depth``, in m below the surface,
may be added to the latter two. ``name`` and ``scale`` are optional. Lines that begin with # are comments.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from lithowave.errors import InputError
from lithowave.readers.text import parse_number, read_lines

_WHAT = "shots"
_COLUMNS = ("x", "y", "z", "longitude", "latitude", "depth", "name", "scale")
_PLACES = (
    ("x", "y", "z"), ("x", "y"), ("x", "y", "depth"), ("longitude", "latitude"), ("longitude", "latitude", "depth"),
)  # fmt: skip
_MOST_PROBLEMS = 20


@dataclass(frozen=True)
class ShotRecord:
    """A shot in the file. place : (x, y, z) or (x, y) in m, or (longitude, latitude) in degrees."""

    name: str
    place: tuple[float, ...]
    geographic: bool
    depth: float
    scale: float


def read_shots(path: str | Path) -> list[ShotRecord]:
    """Read a file of shots.

    Raises
    ------
    InputError
        for columns that are unknown or do not define a position, and with the line for every invalid line.
    """
    path = Path(path)
    lines = [(number, line) for number, line in enumerate(read_lines(path, _WHAT), start=1)]
    rows = [(number, _cells(line)) for number, line in lines if line.strip() and not line.lstrip().startswith("#")]
    if not rows:
        raise InputError(_WHAT, "the file has no shot", f"expected columns from: {', '.join(_COLUMNS)}", file=path)
    (first_line, names), *rows = rows
    columns = _columns([name.lower() for name in names], path, first_line)
    records: list[ShotRecord] = []
    problems: list[InputError] = []
    for number, cells in rows:
        try:
            records.append(_record(columns, cells, path, number))
        except InputError as error:
            problems.append(error)
    if problems:
        first, *others = problems[:_MOST_PROBLEMS]
        raise InputError(first.where, first.got, first.allowed, first.hint, file=path, line=first.line, others=others)
    if not records:
        raise InputError(_WHAT, "the file has no shot", "a line for each follows that of the columns", file=path)
    return records


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in next(csv.reader([line], skipinitialspace=True))]


def _columns(names: list[str], path: Path, line: int) -> list[str]:
    unknown = [name for name in names if name not in _COLUMNS]
    twice = [name for name in names if names.count(name) > 1]
    if unknown or twice:
        got = f"{unknown[0]!r} is not a column" if unknown else f"the column {twice[0]!r} appears twice"
        allowed = f"the first line must name columns from: {', '.join(_COLUMNS)}"
        raise InputError(_WHAT, got, allowed, file=path, line=line)
    place = tuple(name for name in _COLUMNS if name in names and name not in ("name", "scale"))
    if place not in _PLACES:
        expected = "; ".join(", ".join(columns) for columns in _PLACES)
        got = f"the columns {', '.join(place)} do not define a position" if place else "no column defines a position"
        raise InputError(_WHAT, got, f"expected one of: {expected}", file=path, line=line)
    return names


def _record(columns: list[str], cells: list[str], path: Path, line: int) -> ShotRecord:
    if len(cells) != len(columns):
        got = f"the line has {len(cells)} columns, the first line {len(columns)}"
        raise InputError(_WHAT, got, file=path, line=line)
    texts = dict(zip(columns, cells, strict=True))
    name = texts.pop("name", "")
    values: dict[str, float] = {}
    for column, text in texts.items():
        value = parse_number(text)
        if value is None:
            raise InputError(column, f"{text!r} is not a finite number", file=path, line=line)
        values[column] = value
    scale = values.pop("scale", 1.0)
    if scale <= 0.0:
        raise InputError("scale", f"{scale:.12g} is out of range", "must be greater than 0", file=path, line=line)
    if abs(values.get("latitude", 0.0)) > 90.0 or abs(values.get("longitude", 0.0)) > 360.0:
        allowed = "latitude is -90 to 90, longitude -360 to 360"
        raise InputError(_WHAT, "these are not degrees", allowed, file=path, line=line)
    place = tuple(values[name] for name in ("x", "y", "z", "longitude", "latitude") if name in values)
    return ShotRecord(name, place, "latitude" in values, values.get("depth", 0.0), scale)
