"""Stations in the text format of FDSN web services: columns separated by ``|``, at the level of stations or channels.

    #Network | Station | Latitude | Longitude | Elevation | SiteName | StartTime | EndTime
    #Network | Station | Location | Channel | Latitude | Longitude | Elevation | Depth | Azimuth | Dip | ...

Without the first line, the number of columns shows the level. Latitude and longitude are in degrees, elevation and
depth in m, times in UTC. Lines that begin with ``#`` are comments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from lithowave.errors import InputError
from lithowave.readers.receiver_records import ReceiverTable, place_of, raise_together
from lithowave.readers.station_places import Channel, Epoch, StationEpoch, sensor_places, utc
from lithowave.readers.text import parse_number, read_lines

_WHAT = "FDSN text"
_STATIONS = ("network", "station", "latitude", "longitude", "elevation", "sitename", "starttime", "endtime")
_CHANNELS = (
    *("network", "station", "location", "channel", "latitude", "longitude", "elevation", "depth", "azimuth", "dip"),
    *("sensordescription", "scale", "scalefreq", "scaleunits", "samplerate", "starttime", "endtime"),
)
_REQUIRED = ("network", "station", "latitude", "longitude")
_LIMITS = {"latitude": 90.0, "longitude": 360.0}


def is_fdsn_text(start: bytes) -> bool:
    """True if the first line of a file is separated by at least seven ``|``."""
    return start.lstrip(b"\xef\xbb\xbf \t\r\n").partition(b"\n")[0].count(b"|") >= len(_STATIONS) - 1


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
    for number, line in enumerate(read_lines(path, _WHAT), start=1):
        cells = [cell.strip() for cell in line.strip().lstrip("#").split("|")]
        header = "network" in (cell.lower() for cell in cells)
        if header and not names and len(cells) > 1:
            names = [cell.lower().replace(" ", "") for cell in cells]
            if missing := [name for name in _REQUIRED if name not in names]:
                raise InputError(_WHAT, f"no column is named {missing[0]}", file=path, line=number)
            continue
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        names = names or {len(_STATIONS): _STATIONS, len(_CHANNELS): _CHANNELS}.get(len(cells), ())
        try:
            if len(cells) != len(names):
                got = f"the line has {len(cells)} columns"
                allowed = f"expected {len(names) or '8 (stations) or 17 (channels)'}"
                raise InputError(_WHAT, got, allowed, file=path, line=number)
            _add(stations, dict(zip(names, cells, strict=True)), path, number)
        except InputError as error:
            problems.append(error)
    raise_together(problems, path)
    if not stations:
        raise InputError(_WHAT, "the file has no station", f"expected columns {' | '.join(_STATIONS)}", file=path)
    try:
        records, notes = sensor_places(list(stations.values()), _WHAT, time, channels)
    except InputError as error:
        raise_together([error, *error.others], path)
        raise
    return ReceiverTable(tuple(records), True, notes=tuple(notes))


def _add(stations: dict[tuple[object, ...], StationEpoch], cells: dict[str, str], path: Path, line: int) -> None:
    """Add a station, or the channel of a line to its station."""
    for name in ("network", "station"):
        if not cells[name]:
            raise InputError(name, "is empty", "expected a code", file=path, line=line)
    longitude, latitude = (_number(cells, name, path, line) for name in ("longitude", "latitude"))
    elevation, depth = (_number(cells, name, path, line) if cells.get(name) else 0.0 for name in ("elevation", "depth"))
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


def _number(cells: dict[str, str], name: str, path: Path, line: int) -> float:
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
