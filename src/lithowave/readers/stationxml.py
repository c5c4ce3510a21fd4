"""FDSN StationXML 1.0, 1.1 and 1.2: positions of stations and channels.

Reference: FDSN StationXML schema, http://www.fdsn.org/xml/station/. Latitudes and longitudes are in degrees (WGS 84),
elevations in m above sea level; the depth of a channel is that of its sensor below the surface, m. Instrument
responses are not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from lithowave.errors import InputError
from lithowave.readers.receiver_records import ReceiverTable, place_of, raise_together
from lithowave.readers.station_places import Channel, Epoch, StationEpoch, sensor_places, utc
from lithowave.readers.text import parse_number
from lithowave.readers.xml_tree import Element, read_xml

NAMESPACE = "http://www.fdsn.org/xml/station/1"
VERSIONS = ("1.0", "1.1", "1.2")
_WHAT = "StationXML"
_SKIPPED = ("Response", "Comment", "Equipment", "Sensor", "DataLogger", "PreAmplifier")
_CODE = re.compile(r"[A-Za-z0-9_-]+")
_UNITS = {
    "Latitude": ("DEGREES",), "Longitude": ("DEGREES",), "Elevation": ("METERS", "m"), "Depth": ("METERS", "m"),
}  # fmt: skip
_RANGES = {"Latitude": 90.0, "Longitude": 360.0}


def read_stationxml(
    path: str | Path, time: datetime | None = None, channels: Sequence[str] = ()
) -> ReceiverTable:
    """Read the receivers of a StationXML file, see `station_places`.

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
    root = read_xml(path, _WHAT, _SKIPPED)
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
        raise InputError(_WHAT, "the file has no station", "expected Network elements with Station elements", file=path)
    try:
        records, notes = sensor_places(stations, _WHAT, time, channels)
    except InputError as error:
        raise_together([error, *error.others], path)
        raise
    return ReceiverTable(tuple(records), True, notes=tuple(notes))


def _check_root(root: Element, path: Path) -> None:
    if root.name != "FDSNStationXML":
        raise InputError(
            _WHAT, f"the root element is {root.name}", "expected FDSNStationXML", file=path, line=root.line
        )
    if root.namespace != NAMESPACE:
        got = f"the namespace is {root.namespace!r}"
        raise InputError(_WHAT, got, f"expected {NAMESPACE!r}", file=path, line=root.line)
    version = root.attributes.get("schemaVersion", "")
    if version not in VERSIONS:
        got = f"schemaVersion is {version!r}" if version else "schemaVersion is missing"
        raise InputError(_WHAT, got, f"readable versions: {', '.join(VERSIONS)}", file=path, line=root.line)


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
            raise InputError(_WHAT, got, "letters, digits, '-' and '_'", file=path, line=element.line)
        where = f"{name}.{location}.{code}"
        depth = _number(element, "Depth", where, path)
        if depth < 0.0:
            got, line = f"the depth of {where}, {depth:.12g} m, is negative", element.line
            raise InputError(_WHAT, got, "must be 0 or more, below the surface", file=path, line=line)
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
        raise InputError(_WHAT, got, allowed, file=path, line=element.line)
    return code


def _number(element: Element, key: str, name: str, path: Path) -> float:
    child = element.first(key)
    if child is None:
        raise InputError(_WHAT, f"{name} has no {key}", "it is required", file=path, line=element.line)
    text = child.text.strip()
    value = parse_number(text)
    if value is None:
        raise InputError(_WHAT, f"{key} of {name} is {text!r}", "expected a finite number", file=path, line=child.line)
    unit = child.attributes.get("unit")
    if unit is not None and unit not in _UNITS[key]:
        got = f"{key} of {name} has the unit {unit!r}"
        raise InputError(_WHAT, got, f"expected {_UNITS[key][0]}", file=path, line=child.line)
    limit = _RANGES.get(key)
    if limit is not None and abs(value) > limit:
        got = f"{key} of {name} is {value:.12g} degrees"
        raise InputError(_WHAT, got, f"allowed: {-limit:g} to {limit:g}", file=path, line=child.line)
    return value


def _epoch(element: Element, name: str, path: Path) -> Epoch:
    times: list[datetime | None] = []
    for key in ("startDate", "endDate"):
        text = element.attributes.get(key, "").strip()
        try:
            times.append(utc(datetime.fromisoformat(text)) if text else None)
        except (ValueError, OverflowError):
            got, allowed = f"{key} of {name} is {text!r}", "expected a time such as 2008-07-29T18:42:15"
            raise InputError(_WHAT, got, allowed, file=path, line=element.line) from None
    return Epoch(*times)
