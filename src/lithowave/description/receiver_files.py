"""Receivers from files: STATIONS, CSV tables, StationXML, FDSN text and SEG-Y, placed in local coordinates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import BeforeValidator

from lithowave.description.base import reading
from lithowave.description.domain import Domain
from lithowave.description.projected import to_local
from lithowave.description.receiver import DEFAULT_NETWORK, Receiver
from lithowave.description.refusals import refusal, shown
from lithowave.description.unstated_coordinates import Coordinates, are_degrees
from lithowave.readers.fdsn_text import is_fdsn_text, read_fdsn_text
from lithowave.readers.receiver_records import ReceiverRecord, ReceiverTable, place_of
from lithowave.readers.segy_geometry import segy_receivers
from lithowave.readers.station_places import utc
from lithowave.readers.station_table import read_station_table
from lithowave.readers.stations import read_stations
from lithowave.readers.stationxml import read_stationxml

if TYPE_CHECKING:
    from lithowave.description.receivers import Receivers

STATIONS, TABLE, STATIONXML, SEGY = "a STATIONS file", "a CSV table", "StationXML", "SEG-Y"
FDSN_TEXT = "FDSN text"
_SUFFIXES = {
    ".csv": TABLE, ".tsv": TABLE, ".xml": STATIONXML, ".stationxml": STATIONXML, ".segy": SEGY, ".sgy": SEGY,
}  # fmt: skip
KEYS_OF_KINDS = {
    "coordinates": (STATIONS, TABLE, SEGY), "network": (TABLE, SEGY), "crs": (TABLE, SEGY),
    "time": (STATIONXML, FDSN_TEXT), "channels": (STATIONXML, FDSN_TEXT), "at_surface": (SEGY,),
}  # fmt: skip
"""For each key of an entry the kinds of files to which it applies."""


def _time(value: Any) -> Any:
    try:
        if isinstance(value, date) and not isinstance(value, datetime):
            value = datetime(value.year, value.month, value.day)
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    except ValueError:
        raise refusal(f"{shown(value)} is not a time", "expected UTC time such as 2008-07-29T18:42:15") from None
    return utc(moment).replace(tzinfo=None).isoformat()


UtcTime = Annotated[str, BeforeValidator(_time)]
"""A UTC time in ISO 8601 text."""


def file_kind(path: Path) -> str:
    """Return the kind of a file of receivers, from its suffix or, for others and FDSN text, its first characters."""
    kind = _SUFFIXES.get(path.suffix.lower())
    if kind in (None, TABLE):
        with path.open("rb") as file:
            begins = file.read(512).lstrip(b"\xef\xbb\xbf \t\r\n")
        if is_fdsn_text(begins):
            return FDSN_TEXT
        if kind is None:
            kind = STATIONXML if begins.startswith((b"<?xml", b"<FDSN")) else STATIONS
    return kind


def check_file_keys(entry: Receivers) -> None:
    """Refuse keys of an entry that do not apply to its kind of file."""
    assert entry.file is not None
    kind = file_kind(entry.file)
    for key, kinds in KEYS_OF_KINDS.items():
        if getattr(entry, key) is not None and kind not in kinds:
            if key == "network":
                raise refusal(
                    "a network is given with a file", "the file names the network of each station", at=("network",)
                )
            raise refusal(
                f"{key} is given with {kind}, {entry.file.name}", f"it applies to {' and '.join(kinds)}", at=(key,)
            )


@dataclass(frozen=True)
class PlacedReceivers:
    """The receivers of a file in local coordinates, and notes about the file, one clause each."""

    receivers: tuple[Receiver, ...]
    notes: tuple[str, ...]


def read_table(entry: Receivers, domain: Domain) -> ReceiverTable:
    """Return the content of the file of an entry."""
    path = entry.file
    assert path is not None
    kind = file_kind(path)
    if kind in (STATIONXML, FDSN_TEXT):
        time = None if entry.time is None else utc(datetime.fromisoformat(entry.time))
        read = read_stationxml if kind == STATIONXML else read_fdsn_text
        return reading(lambda file: read(file, time, entry.channels or ()), path)
    if kind == TABLE:
        return reading(read_station_table, path)
    if kind == SEGY:
        return reading(segy_receivers, path)
    return _stations_table(entry, domain)


def place_file(entry: Receivers, domain: Domain, where: str) -> PlacedReceivers:
    """Return the receivers of the file of an entry, whose key in the description is `where`."""
    assert entry.file is not None
    table = read_table(entry, domain)
    places = [record.horizontal for record in table.records]
    decided = None if file_kind(entry.file) == STATIONS else entry.coordinates
    geographic = is_geographic(domain, places, table.geographic, table.unstated, decided, entry.crs)
    x, y = local_coordinates(domain, places, entry.crs, geographic, table.native, anywhere=True)
    notes, records = list(table.notes), table.records
    if geographic and not table.geographic:
        notes.append("x and y without a unit are degrees in the domain, and were taken as longitude and latitude")
    unreached = ~(np.isfinite(x) & np.isfinite(y))
    if unreached.any() and entry.outside != "omit":
        one = records[int(unreached.argmax())]
        first, second = one.horizontal
        why = "cannot be projected" + (f" from {entry.crs}" if entry.crs else "")
        if domain.chunk is not None:
            why = "is more than 90° from the center of the chunk"
        got = f"{one.station} ({one.place}) at ({first:.10g}, {second:.10g}) {why}"
        hint = domain.swap_question(first, second) if geographic and entry.crs is None else ""
        hint = hint or "outside: omit omits the others"
        raise refusal(got, "expected receivers in the domain", hint, at=("file",))
    if entry.outside == "omit":
        inside = domain.within_sides(x, y)
        omitted = [record.station for record, kept in zip(records, inside, strict=True) if not kept]
        if omitted:
            note = f"{len(omitted)} of {len(records)} receivers are outside the domain and were omitted"
            if geographic and entry.crs is None and domain.is_geographic:
                first, second = np.array(places, dtype=float)[~inside].T
                swapped = int(domain.contains_places(second, first).sum())
                note += f"; {swapped} of them are inside with longitude and latitude exchanged" if swapped else ""
            notes.append(note)
        if len(omitted) == len(records):
            raise refusal(f"all {len(records)} receivers are outside the domain", at=("file",))
        records, x, y = tuple(r for r, kept in zip(records, inside, strict=True) if kept), x[inside], y[inside]
    surface = np.zeros(x.shape)
    below = np.flatnonzero([record.z is None or bool(entry.at_surface) for record in records])
    if domain.surface is not None and below.size:
        surface[below] = domain.surface_at(x[below], y[below], [records[number].station for number in below])
    on_earth = geographic or entry.crs is not None
    receivers = tuple(
        _placed(entry, record, (float(east), float(north), float(height)), f"{where}.file ({record.place})", on_earth)
        for record, east, north, height in zip(records, x, y, surface, strict=True)
    )
    return PlacedReceivers(receivers, tuple(notes))


def _placed(
    entry: Receivers, record: ReceiverRecord, ground: tuple[float, float, float], where: str, geographic: bool
) -> Receiver:
    x, y, height = ground
    z = height - record.burial if record.z is None or entry.at_surface else record.z
    elevation = record.elevation if record.z is None else 0.0
    network = record.network or entry.network or DEFAULT_NETWORK
    return Receiver(network, record.station, (x, y, z), where, elevation, record.location, geographic)


def is_geographic(
    domain: Domain,
    places: Sequence[tuple[float, float]],
    geographic: bool,
    unstated: bool,
    stated: Coordinates | None,
    system: str | None,
) -> bool:
    """True if the positions of a file are longitudes and latitudes; those without a unit may be, see `are_degrees`.

    places : (n, 2) positions of the file; `geographic` and `unstated` as in `ReceiverTable`.
    stated : the key ``coordinates``. system : the key ``crs``, which states the unit.
    """
    if stated is not None and (system is not None or not unstated):
        kind = "crs states" if system is not None else "the file states"
        raise refusal(
            f"coordinates is given, but {kind} what its positions are",
            "it applies to x and y without a unit",
            at=("coordinates",),
        )
    if system is not None or not unstated:
        return geographic
    first, second = np.array(places, dtype=float).reshape(-1, 2).T
    return are_degrees(domain, first, second, stated)


def local_coordinates(
    domain: Domain,
    places: Sequence[tuple[float, float]],
    system: str | None,
    geographic: bool,
    native: bool,
    at: Iterable[str] = ("file",),
    anywhere: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Return x and y, m, of positions of a file.

    system : the coordinate reference system, or None. native : True for coordinates in its unit, False for m.
    anywhere : True: values that are not finite for positions that cannot be projected, which are otherwise refused.
    """
    first, second = np.array(places, dtype=float).reshape(-1, 2).T
    if system is not None:
        return to_local(domain, system, first, second, geographic, native, anywhere)
    if not geographic:
        return first, second
    if not domain.is_geographic:
        raise refusal(
            "a file with longitudes and latitudes needs the origin domain.crs, which is not given",
            "expected in domain: crs: {longitude: ..., latitude: ...}",
            at=at,
        )
    x, y = (domain.to_local_grid if anywhere else domain.to_local)(first, second)
    return np.asarray(x), np.asarray(y)


def _stations_table(entry: Receivers, domain: Domain) -> ReceiverTable:
    path = entry.file
    assert path is not None
    found = reading(read_stations, path)
    beyond = [record for record in found if abs(record.first) > 90.0 or abs(record.second) > 360.0]
    kind = entry.coordinates or ("cartesian" if not domain.is_geographic and beyond else "geographic")
    if kind == "geographic" and beyond:
        raise refusal(
            f"{path}:{beyond[0].line_number}: ({beyond[0].first:g}, {beyond[0].second:g}) is no "
            "latitude and longitude",
            "expected degrees",
            f"{_swapped(domain, beyond[0].first, beyond[0].second)}for y and x in m set coordinates: cartesian",
            at=("file",),
        )
    if kind == "geographic" and not domain.is_geographic:
        raise refusal(
            "a file with latitudes and longitudes needs the origin domain.crs, which is not given",
            "expected in domain: crs: {longitude: ..., latitude: ...}",
            "for y and x in m set coordinates: cartesian",
            at=("file",),
        )
    records = tuple(
        ReceiverRecord(
            one.network, one.name, "", (one.second, one.first), place_of(path, one.line_number),
            burial=one.burial, elevation=one.elevation,
        )
        for one in found
    )  # fmt: skip
    return ReceiverTable(records, kind == "geographic")


def _swapped(domain: Domain, latitude: float, longitude: float) -> str:
    """Return the question whether a line states the longitude before the latitude; empty if this is no explanation."""
    question = domain.swap_question(longitude, latitude) if domain.is_geographic else ""
    return f"{question} A line is: station network latitude longitude elevation burial; " if question else ""
