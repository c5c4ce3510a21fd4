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

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path

from lithowave.errors import InputError
from lithowave.labels import first_names
from lithowave.readers.foreign_formats import naming_foreign
from lithowave.readers.text import (
    LENGTH,
    Element,
    LineErrors,
    digit_pattern,
    finite_number,
    located,
    parse_number,
    read_lines,
    read_table,
    read_xml,
    si_factor,
)

_STATIONS = "stations"
_COLUMNS = ("name", "network", "latitude (or y)", "longitude (or x)", "elevation", "burial")



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
    errors = LineErrors(path)
    seen: dict[tuple[str, ...], int] = {}
    for number, line in enumerate(lines, start=1):
        words = _words(line)
        if words:
            with errors.at(number):
                record = _parse_record(words, number)
                _refuse_second((record.network, record.name), seen, number, _STATIONS)
                records.append(record)
    if not errors.errors and records and lines[-1].strip():
        with errors.at(len(lines)):
            _refuse_cut(lines, records)
    errors.raise_any()
    if not records:
        raise InputError(_STATIONS, "the file has no station", f"expected lines of {' '.join(_COLUMNS)}", file=path)
    return records


def _words(line: str) -> list[str]:
    """Return the words of a line without its comment."""
    return line.partition("#")[0].partition("!")[0].split()


def _parse_record(words: list[str], line: int) -> StationRecord:
    if len(words) < len(_COLUMNS):
        missing = ", ".join(_COLUMNS[len(words) :])
        got = f"the line ends after {len(words)} of {len(_COLUMNS)} columns: no {missing}"
        raise InputError(_STATIONS, got, f"expected {' '.join(_COLUMNS)}")
    if len(words) > len(_COLUMNS):
        allowed = f"expected {len(_COLUMNS)}: {' '.join(_COLUMNS)}"
        raise InputError(_STATIONS, f"the line has {len(words)} columns", allowed, "begin a comment with #")
    first, second, elevation, burial = map(finite_number, words[2:], _COLUMNS[2:])
    if burial < 0.0:
        hint = "burial is the depth below the surface; the height of the surface is the elevation"
        raise InputError("burial", f"{burial:.12g} m is negative", "must be 0 or more", hint)
    return StationRecord(words[0], words[1], first, second, elevation, burial, line)


def _refuse_second(codes: tuple[str, ...], seen: dict[tuple[str, ...], int], line: int, what: str) -> None:
    """Refuse codes that are on an earlier line."""
    if codes in seen:
        got = f"the {what.removesuffix('s')} {'.'.join(filter(None, codes))} is already on line {seen[codes]}"
        raise InputError(what, got, "names must differ")
    seen[codes] = line


def _refuse_cut(lines: list[str], records: list[StationRecord]) -> None:
    """Refuse a last line that has no line end and whose last number has fewer decimals than the one before."""
    if records[-1].line_number != len(lines) or len(records) < 2:
        return
    burial, before = (_words(lines[record.line_number - 1])[5] for record in (records[-1], records[-2]))
    if digit_pattern(burial)[0] < digit_pattern(before)[0]:
        got = f"the file ends within the last line: the burial {burial!r} is shorter than {before!r} a line before"
        raise InputError(_STATIONS, got, hint="complete it, with a line end")


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


def place_of(path: Path, line: int) -> str:
    """Return a line of a file as text: ``stations.csv:12``."""
    return f"{path.name}:{line}"


INSTRUMENTS = "HLMNPGSX"
"""Instrument codes, the second letter of a channel code, of sensors of ground motion, and of synthetic seismograms."""

SAME_PLACE = 1.0
"""Distance, m, up to which sensors of a station count as one receiver."""

_METERS_PER_DEGREE = 111_195.0


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
            station.network, station.station, location, (first.longitude, first.latitude), first.place,
            burial=first.depth, elevation=station.elevation,
        )  # fmt: skip


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
        yield f"channels of other instruments were ignored: {first_names(others)}"
    if any(channel.oriented for channel in channels):
        yield "azimuth and dip of the channels are not used: receivers record East, North and Up"


def _count(names: list[str]) -> str:
    return f"{len(names)} stations ({first_names(names)})"


_TABLE = "receivers"
_EXPECTED = "expected a line of columns: station, longitude and latitude (or x and y), and others"
_NAMES = {
    "station": ("name", "sta"), "network": ("net",), "location": ("loc",), "longitude": ("lon",), "latitude": ("lat",),
    "x": ("easting",), "y": ("northing",), "z": (), "depth": ("burial",), "elevation": ("elev",),
}  # fmt: skip
_TABLE_COLUMNS = {spelling: name for name, others in _NAMES.items() for spelling in (name, *others)}
_TEXTS = ("station", "network", "location")
_DEGREES = ("longitude", "latitude")
_IN_METERS = "for coordinates in m name the columns x and y"
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
    seen: dict[tuple[str, ...], int] = {}

    def record_of(columns: list[_Column], cells: list[str], line: int) -> ReceiverRecord:
        record = _record(columns, cells, place_of(path, line))
        _refuse_second((record.network, record.station, record.location), seen, line, _TABLE)
        return record

    columns, records = read_table(path, _TABLE, _EXPECTED, _columns, record_of)
    unknown = [column.title for column in columns if column.name is None]
    notes = (f"columns that are not used: {', '.join(unknown)}",) if unknown else ()
    horizontal = [column for column in columns if column.name in ("x", "y")]
    native = not any(column.unit for column in horizontal)
    return ReceiverTable(tuple(records), not horizontal, native, notes, unstated=bool(horizontal) and native)


def _columns(titles: list[str]) -> list[_Column]:
    columns = [_column(title) for title in titles]
    names = [column.name for column in columns if column.name]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise InputError(_TABLE, f"the column {twice} appears twice")
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
        raise InputError(_TABLE, got, _EXPECTED, f"found: {', '.join(titles)}")
    units = {column.unit for column in columns if column.name in ("x", "y")}
    if len(units) == 2:
        raise InputError(_TABLE, "only one of x and y has a unit", "both, or none")
    return columns


def _column(title: str) -> _Column:
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
        raise InputError(_TABLE, got, f"allowed: {allowed}")
    return _Column(name, title, factor, True)


def _record(columns: list[_Column], cells: list[str], place: str) -> ReceiverRecord:
    texts = {"network": "", "location": ""}
    values: dict[str, float] = {}
    for column, cell in zip(columns, cells, strict=True):
        if column.name in _TEXTS:
            texts[column.name] = _checked_code(column.name, cell)
        elif column.name is not None:
            values[column.name] = _value(column.name, cell, _IN_METERS) * column.factor
    first, second = ("x", "y") if "x" in values else ("longitude", "latitude")
    burial = values.get("depth", 0.0)
    if burial < 0.0:
        raise InputError("depth", f"{burial:.12g} m is negative", "0 or more, below the surface")
    return ReceiverRecord(
        **texts, horizontal=(values[first], values[second]), place=place, burial=burial, z=values.get("z"),
        elevation=values.get("elevation", 0.0),
    )  # fmt: skip


def _checked_code(name: str, cell: str) -> str:
    if (cell or name == "station") and _CODE.fullmatch(cell) is None:
        got = f"{cell!r} is not a valid {name} code" if cell else f"the {name} is empty"
        raise InputError(name, got, "use letters, digits, '-' and '_' only")
    return cell


def _value(name: str, cell: str, remedy: str = "") -> float:
    """Return the number in a column, in degrees within its limits."""
    value = parse_number(cell)
    if value is None:
        hint = "decimals are separated by a point" if "," in cell else ""
        raise InputError(name, f"{cell!r} is not a finite number", "", hint)
    limit = _LIMITS.get(name)
    if limit is not None and abs(value) > limit:
        got, allowed = f"{value:.12g} degrees is out of range", f"allowed: {-limit:g} to {limit:g}"
        raise InputError(name, got, allowed, remedy)
    return value


_TEXT = "FDSN text"
_NEEDED = ("network", "station", "latitude", "longitude", "elevation", "sitename", "starttime", "endtime")
_CHANNELS = (
    *("network", "station", "location", "channel", "latitude", "longitude", "elevation", "depth", "azimuth", "dip"),
    *("sensordescription", "scale", "scalefreq", "scaleunits", "samplerate", "starttime", "endtime"),
)
_REQUIRED = ("network", "station", "latitude", "longitude")


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
    errors = LineErrors(path)
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
        with errors.at(number):
            if len(cells) != len(names):
                allowed = f"expected {len(names) or '8 (stations) or 17 (channels)'}"
                raise InputError(_TEXT, f"the line has {len(cells)} columns", allowed)
            _add(stations, dict(zip(names, cells, strict=True)), place_of(path, number), number)
    errors.raise_any()
    if not stations:
        raise InputError(_TEXT, "the file has no station", f"expected columns {' | '.join(_NEEDED)}", file=path)
    return _receivers_of(path, list(stations.values()), _TEXT, time, channels)


def _receivers_of(
    path: Path, stations: list[StationEpoch], what: str, time: datetime | None, channels: Sequence[str]
) -> ReceiverTable:
    """Return the receivers of the stations of a file; see `sensor_places`."""
    with located(path):
        records, notes = sensor_places(stations, what, time, channels)
    return ReceiverTable(tuple(records), True, notes=tuple(notes))


def _add(stations: dict[tuple[object, ...], StationEpoch], cells: dict[str, str], place: str, line: int) -> None:
    """Add a station, or the channel of a line to its station."""
    for name in ("network", "station"):
        if not cells[name]:
            raise InputError(name, "is empty", "expected a code")
    longitude, latitude = (_value(name, cells[name]) for name in ("longitude", "latitude"))
    elevation, depth = (_value(name, cells[name]) if cells.get(name) else 0.0 for name in ("elevation", "depth"))
    epoch = Epoch(*(_time(cells.get(name, ""), name) for name in ("starttime", "endtime")))
    station = StationEpoch(cells["network"], cells["station"], longitude, latitude, elevation, epoch, (), place, line)
    if "channel" not in cells:
        stations[line,] = station
        return
    key = cells["network"], cells["station"]
    location = cells.get("location", "").removeprefix("--")
    oriented = bool(cells.get("azimuth") or cells.get("dip"))
    channel = Channel(cells["channel"], location, longitude, latitude, depth, elevation, epoch, oriented, place)
    known = stations.get(key, replace(station, epoch=Epoch()))  # the epochs are those of the channels
    stations[key] = replace(known, channels=(*known.channels, channel))


def _time(text: str, where: str, prefix: str = "") -> datetime | None:
    """Return a time; None for an empty text. prefix : of the problem in the error."""
    try:
        return utc(datetime.fromisoformat(text)) if text else None
    except (ValueError, OverflowError):
        got, allowed = f"{prefix}{text!r} is not a time", "expected for example 2008-07-29T18:42:15"
        raise InputError(where, got, allowed) from None


NAMESPACE = "http://www.fdsn.org/xml/station/1"
VERSIONS = ("1.0", "1.1", "1.2")
_XML = "StationXML"
_SKIPPED = ("Response", "Comment", "Equipment", "Sensor", "DataLogger", "PreAmplifier")
_PLACE = ("Longitude", "Latitude", "Elevation")
_UNITS = {
    "Latitude": ("DEGREES",), "Longitude": ("DEGREES",), "Elevation": ("METERS", "m"), "Depth": ("METERS", "m"),
}  # fmt: skip


def read_stationxml(path: str | Path, time: datetime | None = None, channels: Sequence[str] = ()) -> ReceiverTable:
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
    stations: list[StationEpoch] = []
    errors = LineErrors(path)
    with located(path):
        _check_root(root)
    for network in root.all("Network"):
        for station in network.all("Station"):
            with errors.at(0):
                stations.append(_station(network, station, path))
    errors.raise_any()
    if not stations:
        raise InputError(_XML, "the file has no station", "expected Network elements with Station elements", file=path)
    return _receivers_of(path, stations, _XML, time, channels)


def _check_root(root: Element) -> None:
    if root.name != "FDSNStationXML":
        raise root.error(_XML, f"the root element is {root.name}", "expected FDSNStationXML")
    if root.namespace != NAMESPACE:
        raise root.error(_XML, f"the namespace is {root.namespace!r}", f"expected {NAMESPACE!r}")
    version = root.attributes.get("schemaVersion", "")
    if version not in VERSIONS:
        got = f"schemaVersion is {version!r}" if version else "schemaVersion is missing"
        raise root.error(_XML, got, f"readable versions: {', '.join(VERSIONS)}")


def _station(network: Element, station: Element, path: Path) -> StationEpoch:
    codes = _code(network), _code(station)
    name = ".".join(codes)
    longitude, latitude, elevation = (_number(station, key, name) for key in _PLACE)
    return StationEpoch(
        *codes, longitude, latitude, elevation, _epoch(station, name), tuple(_channels(station, name, path)),
        place_of(path, station.line), station.line,
    )  # fmt: skip


def _channels(station: Element, name: str, path: Path) -> Iterator[Channel]:
    for element in station.all("Channel"):
        code, location = _code(element), element.attributes.get("locationCode", "").strip()
        if location and _CODE.fullmatch(location) is None:
            got = f"the location code {location!r} of {name} is not valid"
            raise element.error(_XML, got, "letters, digits, '-' and '_'")
        where = f"{name}.{location}.{code}"
        depth = _number(element, "Depth", where)
        if depth < 0.0:
            got = f"the depth of {where}, {depth:.12g} m, is negative"
            raise element.error(_XML, got, "must be 0 or more, below the surface")
        longitude, latitude, elevation = (_number(element, key, where) for key in _PLACE)
        oriented = element.first("Azimuth") is not None or element.first("Dip") is not None
        yield Channel(
            code, "" if location == "--" else location, longitude, latitude, depth, elevation, _epoch(element, where),
            oriented, place_of(path, element.line),
        )  # fmt: skip


def _code(element: Element) -> str:
    code = element.attributes.get("code", "").strip()
    if _CODE.fullmatch(code) is None:
        got = f"the code {code!r} of a {element.name} is not valid" if code else f"a {element.name} has no code"
        raise element.error(_XML, got, "expected the attribute code with letters, digits, '-' and '_'")
    return code


def _number(element: Element, key: str, name: str) -> float:
    child = element.first(key)
    if child is None:
        raise element.error(_XML, f"{name} has no {key}", "it is required")
    text = child.text.strip()
    value = parse_number(text)
    if value is None:
        raise child.error(_XML, f"{key} of {name} is {text!r}", "expected a finite number")
    unit = child.attributes.get("unit")
    if unit is not None and unit not in _UNITS[key]:
        raise child.error(_XML, f"{key} of {name} has the unit {unit!r}", f"expected {_UNITS[key][0]}")
    limit = _LIMITS.get(key.lower())
    if limit is not None and abs(value) > limit:
        raise child.error(_XML, f"{key} of {name} is {value:.12g} degrees", f"allowed: {-limit:g} to {limit:g}")
    return value


def _epoch(element: Element, name: str) -> Epoch:
    with located(None, element.line):
        times = {key: element.attributes.get(key, "").strip() for key in ("startDate", "endDate")}
        return Epoch(*(_time(text, _XML, f"{key} of {name}: ") for key, text in times.items()))
