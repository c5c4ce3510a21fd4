"""Receivers as files describe them, before they are placed in the domain: STATIONS, CSV, FDSN text and StationXML.

**STATIONS** files have one station per line: ``name network latitude longitude elevation burial``. With Cartesian
coordinates the third column is y (North) and the fourth x (East), in m: y replaces latitude. Text after ``#`` or ``!``
is a comment.

**Positions** of sensors are one per station, or one per location code where they differ. StationXML files and ObsPy
inventories list stations with epochs, and in each the channels with their epochs. The receivers are the distinct
positions of the seismometers and accelerometers (instrument codes H, L, M, N, P, G, S and X of SEED), or the position
of a station without such channels.

**CSV tables** have a first line that names the columns, then one line per receiver. Columns, in any order, of which
those in parentheses are other names:

``station`` (name, sta)             required
``network`` (net), ``location`` (loc)
``longitude`` (lon), ``latitude`` (lat)    degrees
``x`` (easting), ``y`` (northing)          m, or the unit of their coordinate reference system
``z``                                      m, positive upwards; or
``depth`` (burial)                         m below the surface
``elevation``                              m, of the surface above sea level

A unit may follow the name: ``x [km]``, ``depth (ft)``. Columns are separated by commas, semicolons or tabs. Lines that
begin with # are comments.

**Text of FDSN web services** has columns separated by ``|``, at the level of stations or channels.

    #Network | Station | Latitude | Longitude | Elevation | SiteName | StartTime | EndTime
    #Network | Station | Location | Channel | Latitude | Longitude | Elevation | Depth | Azimuth | Dip | ...

Without the first line, the number of columns shows the level. Latitude and longitude are in degrees, elevation and
depth in m, times in UTC. Lines that begin with ``#`` are comments.

**StationXML** 1.0, 1.1 and 1.2 of the FDSN: positions of stations and channels. Reference: FDSN StationXML schema,
http://www.fdsn.org/xml/station/. Latitudes and longitudes are in degrees (WGS 84), elevations in m above sea level; the
depth of a channel is that of its sensor below the surface, m. Instrument responses are not read.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path

from lithowave.errors import InputError
from lithowave.readers.foreign_formats import naming_foreign
from lithowave.readers.text import LENGTH, Element, digit_pattern, parse_number, read_lines, read_xml, si_factor

_STATIONS = "stations"
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
    with naming_foreign(path, _STATIONS):
        return _read(path)


def _read(path: Path) -> list[StationRecord]:
    lines = read_lines(path, _STATIONS)
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
            _STATIONS, "the file has no station", f"expected lines of {' '.join(_COLUMNS)}", file=path
        )
    return records


def _parse_record(words: list[str], path: Path, line: int) -> StationRecord:
    if len(words) < len(_COLUMNS):
        missing = ", ".join(_COLUMNS[len(words) :])
        raise InputError(
            _STATIONS,
            f"the line ends after {len(words)} of {len(_COLUMNS)} columns: no {missing}",
            f"expected {' '.join(_COLUMNS)}",
            file=path,
            line=line,
        )
    if len(words) > len(_COLUMNS):
        raise InputError(
            _STATIONS,
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
            _STATIONS,
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
    return [InputError(_STATIONS, got, hint="complete it, with a line end", file=path, line=last.line_number)]


MOST_PROBLEMS = 20
"""Number of problems of one file that are listed."""


@dataclass(frozen=True)
class ReceiverRecord:
    """A receiver in a file.

    Attributes
    ----------
    network : code; empty if the file has none.
    location : location code, which distinguishes sensors of one station at different positions; else empty.
    horizontal : (longitude, latitude) in degrees, or (x, y).
    burial : depth below the surface, m.
    z : height relative to the reference level, m, instead of a burial; None: the burial counts.
    elevation : height of the surface above sea level according to the file, m.
    place : location in the file: ``line 12``, ``trace 3``.
    """

    network: str
    station: str
    location: str
    horizontal: tuple[float, float]
    place: str
    burial: float = 0.0
    z: float | None = None
    elevation: float = 0.0


@dataclass(frozen=True)
class ReceiverTable:
    """The receivers of a file.

    Attributes
    ----------
    geographic : True for longitudes and latitudes, False for x and y.
    native : True if x and y are in the unit of their coordinate reference system, False if they are in m.
    unstated : True if the file states no unit of x and y, which may then be longitudes and latitudes.
    notes : clauses on content of the file that is not used, or was interpreted.
    """

    records: tuple[ReceiverRecord, ...]
    geographic: bool
    native: bool = False
    notes: tuple[str, ...] = ()
    unstated: bool = False


def raise_together(problems: list[InputError], path: Path) -> None:
    """Raise the problems of a file as one error; do nothing without any."""
    if problems:
        first, *others = problems[:MOST_PROBLEMS]
        raise InputError(first.where, first.got, first.allowed, first.hint, file=path, line=first.line, others=others)


def place_of(path: Path, line: int) -> str:
    """Return a line of a file as text: ``stations.csv:12``."""
    return f"{path.name}:{line}"


INSTRUMENTS = "HLMNPGSX"
"""Instrument codes, the second letter of a channel code, of sensors of ground motion, and of synthetic seismograms."""

SAME_PLACE = 1.0
"""Distance, m, up to which sensors of a station count as one receiver."""

_METERS_PER_DEGREE = 111_195.0
_MOST_LISTED = 3


@dataclass(frozen=True)
class Epoch:
    """A period of time, UTC, without limit where an end is None."""

    start: datetime | None = None
    end: datetime | None = None

    def contains(self, time: datetime) -> bool:
        """True if the time is in the period, whose end is excluded."""
        return (self.start is None or self.start <= time) and (self.end is None or time < self.end)

    def __str__(self) -> str:
        first, last = ("" if time is None else f"{time:%Y-%m-%d}" for time in (self.start, self.end))
        return f"{first or '...'} to {last or '...'}"


@dataclass(frozen=True)
class Channel:
    """A channel: longitude, latitude in degrees, depth below the surface and elevation in m."""

    code: str
    location: str
    longitude: float
    latitude: float
    depth: float
    elevation: float
    epoch: Epoch
    oriented: bool
    place: str


@dataclass(frozen=True)
class StationEpoch:
    """A station during an epoch, with its channels. line : of the file, or None."""

    network: str
    station: str
    longitude: float
    latitude: float
    elevation: float
    epoch: Epoch
    channels: tuple[Channel, ...]
    place: str
    line: int | None = None


def utc(time: datetime) -> datetime:
    """Return a time with the zone UTC; a time without a zone is UTC."""
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def sensor_places(
    stations: Sequence[StationEpoch], what: str, time: datetime | None = None, channels: Sequence[str] = ()
) -> tuple[list[ReceiverRecord], list[str]]:
    """Return the receivers of stations, and notes about what is not used.

    Parameters
    ----------
    what : source of the stations, for messages.
    time : only the epochs that contain this time; None: all epochs.
    channels : patterns of channel codes (``BH?``), of which one must match; empty: sensors of ground motion.

    Raises
    ------
    InputError : a station has sensors with one location code at different positions, or no station remains.
    """
    names: dict[tuple[str, str], list[StationEpoch]] = {}
    closed: list[str] = []
    for station in stations:
        epochs = names.setdefault((station.network, station.station), [])
        if time is None or station.epoch.contains(time):
            epochs.append(station)
    records: list[ReceiverRecord] = []
    problems: list[InputError] = []
    unmatched: list[str] = []
    for (network, code), epochs in names.items():
        name = f"{network}.{code}"
        if not epochs:
            closed.append(name)
            continue
        sensors = [sensor for epoch in epochs for sensor in _sensors(epoch, time, channels)]
        if not sensors and any(epoch.channels for epoch in epochs):
            if channels:
                unmatched.append(name)
                continue
            if time is not None and not any(channel.epoch.contains(time) for e in epochs for channel in e.channels):
                closed.append(name)
                continue
        try:
            records += _receivers(epochs, sensors or [_bare(epoch) for epoch in epochs], what)
        except InputError as error:
            problems.append(error)
    if problems:
        first, *others = problems
        raise InputError(first.where, first.got, first.allowed, first.hint, line=first.line, others=others[:19])
    notes = list(_notes(stations, time, closed, unmatched, channels))
    if not records:
        raise InputError(what, f"no station remains of {len(names)}", hint="; ".join(notes))
    return records, notes


def _sensors(station: StationEpoch, time: datetime | None, patterns: Sequence[str]) -> Iterator[Channel]:
    for channel in station.channels:
        if time is not None and not channel.epoch.contains(time):
            continue
        if patterns and any(fnmatchcase(channel.code, pattern) for pattern in patterns):
            yield channel
        elif not patterns and channel.code[1:2] in INSTRUMENTS:
            yield channel


def _bare(station: StationEpoch) -> Channel:
    """Return the position of a station as a channel on the surface, for stations without sensors."""
    return Channel(
        "", "", station.longitude, station.latitude, 0.0, station.elevation, station.epoch, False, station.place
    )


def _receivers(epochs: Sequence[StationEpoch], sensors: Sequence[Channel], what: str) -> Iterator[ReceiverRecord]:
    places: list[list[Channel]] = []
    for sensor in sensors:
        known = next((place for place in places if _distance(place[0], sensor) <= SAME_PLACE), None)
        if known is None:
            places.append([sensor])
        else:
            known.append(sensor)
    station = epochs[0]
    if len(places) > 1:
        _require_own_codes(station, places, what)
    for place in places:
        location = min({sensor.location for sensor in place}) if len(places) > 1 else ""
        first = place[0]
        yield ReceiverRecord(
            station.network,
            station.station,
            location,
            (first.longitude, first.latitude),
            first.place,
            burial=first.depth,
            elevation=station.elevation,
        )


def _require_own_codes(station: StationEpoch, places: Sequence[Sequence[Channel]], what: str) -> None:
    """Refuse positions that share a location code and thus cannot be distinguished."""
    for index, place in enumerate(places):
        for other in places[:index]:
            common = {sensor.location for sensor in place} & {sensor.location for sensor in other}
            if common:
                code = min(common)
                first, second = (
                    next(sensor for sensor in group if sensor.location == code) for group in (other, place)
                )
                got = (
                    f"{station.network}.{station.station} has sensors with the location code {code!r} at two "
                    f"positions: {_described(first)}, and {_described(second)}"
                )
                allowed = f"sensors with one location code must be within {SAME_PLACE:g} m"
                hint = "select an epoch with time, or channels with channels (for an Inventory: its method select)"
                raise InputError(what, got, allowed, hint, line=station.line)


def _described(channel: Channel) -> str:
    code = f"{channel.code} " if channel.code else ""
    return (
        f"{code}at longitude {channel.longitude:.12g}, latitude {channel.latitude:.12g}, depth {channel.depth:g} m "
        f"({channel.epoch})"
    )


def _distance(a: Channel, b: Channel) -> float:
    """Return the distance of near points, m; the channels' depths count, not their elevations."""
    east = (a.longitude - b.longitude + 180.0) % 360.0 - 180.0
    east *= _METERS_PER_DEGREE * math.cos(math.radians(a.latitude))
    return math.hypot(east, _METERS_PER_DEGREE * (a.latitude - b.latitude), a.depth - b.depth)


def _notes(
    stations: Sequence[StationEpoch], time: datetime | None, closed: list[str], unmatched: list[str], patterns: object
) -> Iterator[str]:
    if closed:
        yield f"{_count(closed)} had no open epoch at {time:%Y-%m-%dT%H:%M:%S} and were omitted"
    if unmatched:
        yield f"{_count(unmatched)} have no channel that matches and were omitted"
    channels = [channel for station in stations for channel in station.channels]
    if not patterns and (others := sorted({c.code for c in channels if c.code[1:2] not in INSTRUMENTS})):
        yield f"channels of other instruments were ignored: {_listed(others)}"
    if any(channel.oriented for channel in channels):
        yield "azimuth and dip of the channels are not used: receivers record East, North and Up"


def _count(names: list[str]) -> str:
    return f"{len(names)} stations ({_listed(names)})"


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    return ", ".join(names[:_MOST_LISTED]) + (" ..." if len(names) > _MOST_LISTED else "")


_TABLE = "receivers"
_NAMES = {
    "station": ("name", "sta"), "network": ("net",), "location": ("loc",), "longitude": ("lon",), "latitude": ("lat",),
    "x": ("easting",), "y": ("northing",), "z": (), "depth": ("burial",), "elevation": ("elev",),
}  # fmt: skip
_TABLE_COLUMNS = {spelling: name for name, others in _NAMES.items() for spelling in (name, *others)}
_TEXTS = ("station", "network", "location")
_DEGREES = ("longitude", "latitude")
_DEGREE_UNITS = ("deg", "degree", "degrees", "°")
_TABLE_LIMITS = {"longitude": 360.0, "latitude": 90.0}
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
    lines = [(number, line) for number, line in enumerate(read_lines(path, _TABLE), start=1)]
    lines = [(number, line) for number, line in lines if line.strip() and not line.lstrip().startswith("#")]
    if not lines:
        raise InputError(_TABLE, "the file has no receiver", _expected(), file=path)
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
                raise InputError(_TABLE, got, "names must differ", file=path, line=number)
            seen[key] = number
            records.append(record)
        except InputError as error:
            problems.append(error)
    raise_together(problems, path)
    if not records:
        raise InputError(_TABLE, "the file has no receiver", "a line for each follows that of the columns", file=path)
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
        raise InputError(_TABLE, f"the line cannot be split into columns: {error}", file=path, line=number) from None


def _columns(titles: list[str], path: Path, line: int) -> list[_Column]:
    columns = [_column(title, path, line) for title in titles]
    names = [column.name for column in columns if column.name]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise InputError(_TABLE, f"the column {twice} appears twice", file=path, line=line)
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
        raise InputError(_TABLE, got, _expected(), f"found: {', '.join(titles)}", file=path, line=line)
    units = {column.unit for column in columns if column.name in ("x", "y")}
    if len(units) == 2:
        raise InputError(_TABLE, "only one of x and y has a unit", "both, or none", file=path, line=line)
    return columns


def _column(title: str, path: Path, line: int) -> _Column:
    match = _HEADER.fullmatch(title)
    assert match is not None
    name = _TABLE_COLUMNS.get(match[1].lower())
    unit = (match[2] or match[3] or "").strip()
    if name is None or not unit:
        return _Column(name, title)
    if name in _DEGREES and unit.lower() in _DEGREE_UNITS:
        return _Column(name, title, unit=True)
    factor = None if name in (*_TEXTS, *_DEGREES) else si_factor(unit, LENGTH)
    if factor is None:
        allowed = "degrees" if name in _DEGREES else "none" if name in _TEXTS else "m, km, ft and other lengths"
        got = f"the column {title!r} has the unit {unit!r}"
        raise InputError(_TABLE, got, f"allowed: {allowed}", file=path, line=line)
    return _Column(name, title, factor, True)


def _record(columns: list[_Column], cells: list[str], path: Path, line: int) -> ReceiverRecord:
    if len(cells) != len(columns):
        got = f"the line has {len(cells)} columns, the first line {len(columns)}"
        raise InputError(_TABLE, got, file=path, line=line)
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
    limit = _TABLE_LIMITS.get(name)
    if limit is not None and abs(value) > limit:
        hint = "for coordinates in m name the columns x and y"
        got = f"{value:.12g} degrees is out of range"
        raise InputError(name, got, f"allowed: {-limit:g} to {limit:g}", hint, file=path, line=line)
    return value * column.factor


_TEXT = "FDSN text"
_NEEDED = ("network", "station", "latitude", "longitude", "elevation", "sitename", "starttime", "endtime")
_CHANNELS = (
    *("network", "station", "location", "channel", "latitude", "longitude", "elevation", "depth", "azimuth", "dip"),
    *("sensordescription", "scale", "scalefreq", "scaleunits", "samplerate", "starttime", "endtime"),
)
_REQUIRED = ("network", "station", "latitude", "longitude")
_LIMITS = {"latitude": 90.0, "longitude": 360.0}


def is_fdsn_text(start: bytes) -> bool:
    """True if the first line of a file is separated by at least seven ``|``."""
    return start.lstrip(b"\xef\xbb\xbf \t\r\n").partition(b"\n")[0].count(b"|") >= len(_NEEDED) - 1


def read_fdsn_text(path: str | Path, time: datetime | None = None, channels: Sequence[str] = ()) -> ReceiverTable:
    """Read the receivers of a file; parameters as `read_stationxml`.

    Raises
    ------
    InputError : with the line: columns that are not those of the format, coordinates that are missing or out of range,
        or a station with sensors of one location code at different positions.
    """
    path = Path(path)
    names: Sequence[str] = ()
    stations: dict[tuple[object, ...], StationEpoch] = {}
    problems: list[InputError] = []
    for number, line in enumerate(read_lines(path, _TEXT), start=1):
        cells = [cell.strip() for cell in line.strip().lstrip("#").split("|")]
        header = "network" in (cell.lower() for cell in cells)
        if header and not names and len(cells) > 1:
            names = [cell.lower().replace(" ", "") for cell in cells]
            if missing := [name for name in _REQUIRED if name not in names]:
                raise InputError(_TEXT, f"no column is named {missing[0]}", file=path, line=number)
            continue
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        names = names or {len(_NEEDED): _NEEDED, len(_CHANNELS): _CHANNELS}.get(len(cells), ())
        try:
            if len(cells) != len(names):
                got = f"the line has {len(cells)} columns"
                allowed = f"expected {len(names) or '8 (stations) or 17 (channels)'}"
                raise InputError(_TEXT, got, allowed, file=path, line=number)
            _add(stations, dict(zip(names, cells, strict=True)), path, number)
        except InputError as error:
            problems.append(error)
    raise_together(problems, path)
    if not stations:
        raise InputError(_TEXT, "the file has no station", f"expected columns {' | '.join(_NEEDED)}", file=path)
    try:
        records, notes = sensor_places(list(stations.values()), _TEXT, time, channels)
    except InputError as error:
        raise_together([error, *error.others], path)
        raise
    return ReceiverTable(tuple(records), True, notes=tuple(notes))


def _add(stations: dict[tuple[object, ...], StationEpoch], cells: dict[str, str], path: Path, line: int) -> None:
    """Add a station, or the channel of a line to its station."""
    for name in ("network", "station"):
        if not cells[name]:
            raise InputError(name, "is empty", "expected a code", file=path, line=line)
    longitude, latitude = (_fdsn_number(cells, name, path, line) for name in ("longitude", "latitude"))
    elevation, depth = (
        _fdsn_number(cells, name, path, line) if cells.get(name) else 0.0 for name in ("elevation", "depth")
    )
    epoch = Epoch(*(_time(cells.get(name, ""), name, path, line) for name in ("starttime", "endtime")))
    place = place_of(path, line)
    station = StationEpoch(cells["network"], cells["station"], longitude, latitude, elevation, epoch, (), place, line)
    if "channel" not in cells:
        stations[line,] = station
        return
    key = cells["network"], cells["station"]
    location = cells.get("location", "").removeprefix("--")
    oriented = bool(cells.get("azimuth") or cells.get("dip"))
    channel = Channel(
        cells["channel"], location, longitude, latitude, depth, elevation, epoch, oriented, place
    )
    known = stations.get(key, replace(station, epoch=Epoch()))  # the epochs are those of the channels
    stations[key] = replace(known, channels=(*known.channels, channel))


def _fdsn_number(cells: dict[str, str], name: str, path: Path, line: int) -> float:
    value = parse_number(cells[name])
    if value is None:
        raise InputError(name, f"{cells[name]!r} is not a finite number", file=path, line=line)
    limit = _LIMITS.get(name)
    if limit is not None and abs(value) > limit:
        got = f"{value:.12g} degrees is out of range"
        raise InputError(name, got, f"allowed: {-limit:g} to {limit:g}", file=path, line=line)
    return value


def _time(text: str, name: str, path: Path, line: int) -> datetime | None:
    try:
        return utc(datetime.fromisoformat(text)) if text else None
    except (ValueError, OverflowError):
        got, allowed = f"{text!r} is not a time", "expected for example 2008-07-29T18:42:15"
        raise InputError(name, got, allowed, file=path, line=line) from None


NAMESPACE = "http://www.fdsn.org/xml/station/1"
VERSIONS = ("1.0", "1.1", "1.2")
_XML = "StationXML"
_SKIPPED = ("Response", "Comment", "Equipment", "Sensor", "DataLogger", "PreAmplifier")
_UNITS = {
    "Latitude": ("DEGREES",), "Longitude": ("DEGREES",), "Elevation": ("METERS", "m"), "Depth": ("METERS", "m"),
}  # fmt: skip
_RANGES = {"Latitude": 90.0, "Longitude": 360.0}


def read_stationxml(
    path: str | Path, time: datetime | None = None, channels: Sequence[str] = ()
) -> ReceiverTable:
    """Read the receivers of a StationXML file, see `stations`.

    Parameters
    ----------
    time : only epochs that contain this time, UTC; None: all.
    channels : patterns of channel codes; empty: sensors of ground motion.

    Raises
    ------
    InputError : with the line: the file is not StationXML of a known version, a coordinate is missing or out of range,
        or a station has sensors of one location code at different positions.
    """
    path = Path(path)
    root = read_xml(path, _XML, _SKIPPED)
    _check_root(root, path)
    stations: list[StationEpoch] = []
    problems: list[InputError] = []
    for network in root.all("Network"):
        for station in network.all("Station"):
            try:
                stations.append(_station(network, station, path))
            except InputError as error:
                problems.append(error)
    raise_together(problems, path)
    if not stations:
        raise InputError(_XML, "the file has no station", "expected Network elements with Station elements", file=path)
    try:
        records, notes = sensor_places(stations, _XML, time, channels)
    except InputError as error:
        raise_together([error, *error.others], path)
        raise
    return ReceiverTable(tuple(records), True, notes=tuple(notes))


def _check_root(root: Element, path: Path) -> None:
    if root.name != "FDSNStationXML":
        raise InputError(
            _XML, f"the root element is {root.name}", "expected FDSNStationXML", file=path, line=root.line
        )
    if root.namespace != NAMESPACE:
        got = f"the namespace is {root.namespace!r}"
        raise InputError(_XML, got, f"expected {NAMESPACE!r}", file=path, line=root.line)
    version = root.attributes.get("schemaVersion", "")
    if version not in VERSIONS:
        got = f"schemaVersion is {version!r}" if version else "schemaVersion is missing"
        raise InputError(_XML, got, f"readable versions: {', '.join(VERSIONS)}", file=path, line=root.line)


def _station(network: Element, station: Element, path: Path) -> StationEpoch:
    codes = _code(network, path), _code(station, path)
    name = ".".join(codes)
    return StationEpoch(
        *codes,
        longitude=_number(station, "Longitude", name, path),
        latitude=_number(station, "Latitude", name, path),
        elevation=_number(station, "Elevation", name, path),
        epoch=_epoch(station, name, path),
        channels=tuple(_channels(station, name, path)),
        place=place_of(path, station.line),
        line=station.line,
    )


def _channels(station: Element, name: str, path: Path) -> Iterator[Channel]:
    for element in station.all("Channel"):
        code, location = _code(element, path), element.attributes.get("locationCode", "").strip()
        if location and _CODE.fullmatch(location) is None:
            got = f"the location code {location!r} of {name} is not valid"
            raise InputError(_XML, got, "letters, digits, '-' and '_'", file=path, line=element.line)
        where = f"{name}.{location}.{code}"
        depth = _number(element, "Depth", where, path)
        if depth < 0.0:
            got, line = f"the depth of {where}, {depth:.12g} m, is negative", element.line
            raise InputError(_XML, got, "must be 0 or more, below the surface", file=path, line=line)
        yield Channel(
            code,
            "" if location == "--" else location,
            longitude=_number(element, "Longitude", where, path),
            latitude=_number(element, "Latitude", where, path),
            depth=depth,
            elevation=_number(element, "Elevation", where, path),
            epoch=_epoch(element, where, path),
            oriented=element.first("Azimuth") is not None or element.first("Dip") is not None,
            place=place_of(path, element.line),
        )


def _code(element: Element, path: Path) -> str:
    code = element.attributes.get("code", "").strip()
    if _CODE.fullmatch(code) is None:
        got = f"the code {code!r} of a {element.name} is not valid" if code else f"a {element.name} has no code"
        allowed = "expected the attribute code with letters, digits, '-' and '_'"
        raise InputError(_XML, got, allowed, file=path, line=element.line)
    return code


def _number(element: Element, key: str, name: str, path: Path) -> float:
    child = element.first(key)
    if child is None:
        raise InputError(_XML, f"{name} has no {key}", "it is required", file=path, line=element.line)
    text = child.text.strip()
    value = parse_number(text)
    if value is None:
        raise InputError(_XML, f"{key} of {name} is {text!r}", "expected a finite number", file=path, line=child.line)
    unit = child.attributes.get("unit")
    if unit is not None and unit not in _UNITS[key]:
        got = f"{key} of {name} has the unit {unit!r}"
        raise InputError(_XML, got, f"expected {_UNITS[key][0]}", file=path, line=child.line)
    limit = _RANGES.get(key)
    if limit is not None and abs(value) > limit:
        got = f"{key} of {name} is {value:.12g} degrees"
        raise InputError(_XML, got, f"allowed: {-limit:g} to {limit:g}", file=path, line=child.line)
    return value


def _epoch(element: Element, name: str, path: Path) -> Epoch:
    times: list[datetime | None] = []
    for key in ("startDate", "endDate"):
        text = element.attributes.get(key, "").strip()
        try:
            times.append(utc(datetime.fromisoformat(text)) if text else None)
        except (ValueError, OverflowError):
            got, allowed = f"{key} of {name} is {text!r}", "expected a time such as 2008-07-29T18:42:15"
            raise InputError(_XML, got, allowed, file=path, line=element.line) from None
    return Epoch(*times)
