"""CSV tables of receivers: a first line that names the columns, then one line per receiver.

Columns, in any order, of which those in parentheses are other names:

``station`` (name, sta)             required
``network`` (net), ``location`` (loc)
``longitude`` (lon), ``latitude`` (lat)    degrees
``x`` (easting), ``y`` (northing)          m, or the unit of their coordinate reference system
``z``                                      m, positive upwards; or
``depth`` (burial)                         m below the surface
``elevation``                              m, of the surface above sea level

A unit may follow the name: ``x [km]``, ``depth (ft)``. Columns are separated by commas, semicolons or tabs. Lines that
begin with # are comments.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from pathlib import Path

from lithowave.errors import InputError
from lithowave.readers.receiver_records import ReceiverRecord, ReceiverTable, place_of, raise_together
from lithowave.readers.text import parse_number, read_lines
from lithowave.readers.units import LENGTH, si_factor

_WHAT = "receivers"
_NAMES = {
    "station": ("name", "sta"), "network": ("net",), "location": ("loc",), "longitude": ("lon",), "latitude": ("lat",),
    "x": ("easting",), "y": ("northing",), "z": (), "depth": ("burial",), "elevation": ("elev",),
}  # fmt: skip
_COLUMNS = {spelling: name for name, others in _NAMES.items() for spelling in (name, *others)}
_TEXTS = ("station", "network", "location")
_DEGREES = ("longitude", "latitude")
_DEGREE_UNITS = ("deg", "degree", "degrees", "°")
_LIMITS = {"longitude": 360.0, "latitude": 90.0}
_HEADER = re.compile(r"(.*?)\s*(?:\[(.*)\]|\((.*)\))?")
_CODE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class _Column:
    """A column. name : None if unknown. factor : to m. unit : True if the header states one."""

    name: str | None
    title: str
    factor: float = 1.0
    unit: bool = False


def read_station_table(path: str | Path) -> ReceiverTable:
    """Read a CSV table of receivers.

    Raises
    ------
    InputError : columns that do not define a position, and with the line every invalid line or repeated name.
    """
    path = Path(path)
    lines = [(number, line) for number, line in enumerate(read_lines(path, _WHAT), start=1)]
    lines = [(number, line) for number, line in lines if line.strip() and not line.lstrip().startswith("#")]
    if not lines:
        raise InputError(_WHAT, "the file has no receiver", _expected(), file=path)
    (head, titles), *rows = lines
    delimiter = max(",;\t", key=titles.count)
    columns = _columns(_cells(titles, delimiter, path, head), path, head)
    records: list[ReceiverRecord] = []
    problems: list[InputError] = []
    seen: dict[tuple[str, str, str], int] = {}
    for number, line in rows:
        try:
            record = _record(columns, _cells(line, delimiter, path, number), path, number)
            key = (record.network, record.station, record.location)
            if key in seen:
                got = f"the receiver {'.'.join(part for part in key if part)} is already on line {seen[key]}"
                raise InputError(_WHAT, got, "names must differ", file=path, line=number)
            seen[key] = number
            records.append(record)
        except InputError as error:
            problems.append(error)
    raise_together(problems, path)
    if not records:
        raise InputError(_WHAT, "the file has no receiver", "a line for each follows that of the columns", file=path)
    unknown = [column.title for column in columns if column.name is None]
    notes = (f"columns that are not used: {', '.join(unknown)}",) if unknown else ()
    horizontal = [column for column in columns if column.name in ("x", "y")]
    native = not any(column.unit for column in horizontal)
    return ReceiverTable(tuple(records), not horizontal, native, notes, unstated=bool(horizontal) and native)


def _expected() -> str:
    return "expected a line of columns: station, longitude and latitude (or x and y), and others"


def _cells(line: str, delimiter: str, path: Path, number: int) -> list[str]:
    try:
        reader = csv.reader([line], delimiter=delimiter, skipinitialspace=True, strict=True)
        return [cell.strip() for cell in next(reader)]
    except csv.Error as error:
        raise InputError(_WHAT, f"the line cannot be split into columns: {error}", file=path, line=number) from None


def _columns(titles: list[str], path: Path, line: int) -> list[_Column]:
    columns = [_column(title, path, line) for title in titles]
    names = [column.name for column in columns if column.name]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise InputError(_WHAT, f"the column {twice} appears twice", file=path, line=line)
    places = [pair for pair in (("longitude", "latitude"), ("x", "y")) if set(pair) & set(names)]
    got = ""
    if "station" not in names:
        got = "no column names the station"
    elif len(places) != 1:
        got = "no column defines a position" if not places else "longitude, latitude and x, y are both given"
    elif set(places[0]) - set(names):
        got = f"the column {(set(places[0]) - set(names)).pop()} is missing"
    elif {"z", "depth"} <= set(names):
        got = "z and depth are both given"
    if got:
        raise InputError(_WHAT, got, _expected(), f"found: {', '.join(titles)}", file=path, line=line)
    units = {column.unit for column in columns if column.name in ("x", "y")}
    if len(units) == 2:
        raise InputError(_WHAT, "only one of x and y has a unit", "both, or none", file=path, line=line)
    return columns


def _column(title: str, path: Path, line: int) -> _Column:
    match = _HEADER.fullmatch(title)
    assert match is not None
    name = _COLUMNS.get(match[1].lower())
    unit = (match[2] or match[3] or "").strip()
    if name is None or not unit:
        return _Column(name, title)
    if name in _DEGREES and unit.lower() in _DEGREE_UNITS:
        return _Column(name, title, unit=True)
    factor = None if name in (*_TEXTS, *_DEGREES) else si_factor(unit, LENGTH)
    if factor is None:
        allowed = "degrees" if name in _DEGREES else "none" if name in _TEXTS else "m, km, ft and other lengths"
        got = f"the column {title!r} has the unit {unit!r}"
        raise InputError(_WHAT, got, f"allowed: {allowed}", file=path, line=line)
    return _Column(name, title, factor, True)


def _record(columns: list[_Column], cells: list[str], path: Path, line: int) -> ReceiverRecord:
    if len(cells) != len(columns):
        got = f"the line has {len(cells)} columns, the first line {len(columns)}"
        raise InputError(_WHAT, got, file=path, line=line)
    texts = {"network": "", "location": ""}
    values: dict[str, float] = {}
    for column, cell in zip(columns, cells, strict=True):
        if column.name in _TEXTS:
            texts[column.name] = _checked_code(column.name, cell, path, line)
        elif column.name is not None:
            values[column.name] = _value(column, cell, path, line)
    first, second = ("x", "y") if "x" in values else ("longitude", "latitude")
    burial = values.get("depth", 0.0)
    if burial < 0.0:
        raise InputError("depth", f"{burial:.12g} m is negative", "0 or more, below the surface", file=path, line=line)
    return ReceiverRecord(
        **texts,
        horizontal=(values[first], values[second]),
        place=place_of(path, line),
        burial=burial,
        z=values.get("z"),
        elevation=values.get("elevation", 0.0),
    )


def _checked_code(name: str, cell: str, path: Path, line: int) -> str:
    if (cell or name == "station") and _CODE.fullmatch(cell) is None:
        got = f"{cell!r} is not a valid {name} code" if cell else f"the {name} is empty"
        raise InputError(name, got, "use letters, digits, '-' and '_' only", file=path, line=line)
    return cell


def _value(column: _Column, cell: str, path: Path, line: int) -> float:
    value, name = parse_number(cell), str(column.name)
    if value is None:
        hint = "decimals are separated by a point" if "," in cell else ""
        raise InputError(name, f"{cell!r} is not a finite number", "", hint, file=path, line=line)
    limit = _LIMITS.get(name)
    if limit is not None and abs(value) > limit:
        hint = "for coordinates in m name the columns x and y"
        got = f"{value:.12g} degrees is out of range"
        raise InputError(name, got, f"allowed: {-limit:g} to {limit:g}", hint, file=path, line=line)
    return value * column.factor
