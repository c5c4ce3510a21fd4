"""Where the wavefield is recorded: points, lines, planes and station files, as receivers in local coordinates.

Station files are STATIONS, CSV tables, StationXML, FDSN text and SEG-Y. An inventory of ObsPy becomes an entry of
``receivers`` for each of its receivers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Self

import numpy as np
from pydantic import BeforeValidator, Field, PrivateAttr, StrictBool, model_validator

from lithowave.description.base import DescriptionModel, InputFile, reading
from lithowave.description.coordinates import (
    Coordinates,
    Point,
    ReferenceSystemName,
    are_degrees,
    check_point_keys,
    convergences,
    local_point,
    refuse_two_kinds,
    require_origin,
    to_local,
)
from lithowave.description.domain import Domain
from lithowave.description.grids import Counts, PairCount, PointGrid, PointPlane
from lithowave.description.outputs import _OneOrMany
from lithowave.description.text import refusal, shown
from lithowave.description.units import Latitude, Length, Longitude, PositionOnSurface
from lithowave.errors import InputError, issue_warning
from lithowave.labels import receiver_name
from lithowave.readers.segy import segy_receivers
from lithowave.readers.stations import (
    Channel,
    Epoch,
    ReceiverRecord,
    ReceiverTable,
    StationEpoch,
    is_fdsn_text,
    place_of,
    read_fdsn_text,
    read_station_table,
    read_stations,
    read_stationxml,
    sensor_places,
    utc,
)

if TYPE_CHECKING:
    from lithowave.description.sources import PointSource
    from lithowave.json_types import Entries


def _code(value: object) -> object:
    if isinstance(value, str) and not re.fullmatch(r"[A-Za-z0-9_-]+", value):
        raise refusal(f"{shown(value)} is not a valid name", "use letters, digits, '-' and '_' only")
    return value


Code = Annotated[str, BeforeValidator(_code)]


class ReceiverLine(PointGrid):
    """Equally spaced receivers from ``start`` to ``end``, both included; numbered from 1."""

    prefix: Code = Field(description="Names consist of the prefix and a number: L001, L002 ...")
    start: PositionOnSurface = Field(
        description="Position of the first receiver [x, y, z], m; or [x, y]: all receivers on the surface."
    )
    end: PositionOnSurface = Field(description="Position of the last receiver, like start.")
    count: PairCount = Field(description="Number of receivers, at least 2.")

    @model_validator(mode="after")
    def _has_length(self) -> Self:
        self._check_ends()
        return self

    def points(self) -> Iterator[Point]:
        """Return the positions, from the start; z is 0 for positions on the surface."""
        for index in range(self.count):
            yield _with_height(self._between(*[index / (self.count - 1)] * len(self.start)))


class ReceiverPlane(PointPlane):
    """A grid of receivers on a plane normal to an axis; ``start`` and ``end`` are opposite corners.

    The corners have one equal coordinate. ``counts`` are the numbers of receivers along the other two axes, in the
    order x, y, z; the numbering is fastest along the first of them.
    """

    prefix: Code = Field(description="Names consist of the prefix and a number: P001, P002 ...")
    start: PositionOnSurface = Field(description="One corner [x, y, z], m; or [x, y]: all receivers on the surface.")
    end: PositionOnSurface = Field(description="The opposite corner, like start, with exactly one equal coordinate.")
    counts: Counts = Field(description="Numbers of receivers along the two sides, in the order x, y, z.")

    @model_validator(mode="after")
    def _is_plane(self) -> Self:
        self._check_corners()
        return self

    def points(self) -> Iterator[Point]:
        """Return the positions, the first side fastest; z is 0 for positions on the surface."""
        return map(_with_height, super().points())


def _with_height(point: tuple[float, ...]) -> Point:
    x, y, *z = point
    return (x, y, z[0] if z else 0.0)


def _on_surface(domain: Domain, points: Iterator[Point]) -> Iterator[Point]:
    """Return the points at the elevation of the surface."""
    x, y, _ = np.array(list(points)).T
    for point in zip(x, y, domain.surface_at(x, y), strict=True):
        yield tuple(map(float, point))  # type: ignore[misc]


class Receivers(DescriptionModel):
    """One entry of ``receivers``: a point, a line, a plane, or a file of stations."""

    network: Code | None = Field(
        default=None,
        description="Network code (default: XX); STATIONS, StationXML and FDSN text contain their own codes.",
    )
    name: Code | None = Field(default=None, description="Station name of a point.")
    location: Code | None = Field(
        default=None, description="Location code of a point, if several sensors of a station have different positions."
    )
    position: PositionOnSurface | None = Field(
        default=None, description="Position [x, y, z], m, with negative z below z = 0; or [x, y]: on the surface."
    )
    longitude: Longitude | None = Field(
        default=None, description="Instead of position, degrees East; requires domain.crs or domain.chunk."
    )
    latitude: Latitude | None = Field(default=None, description="Instead of position, degrees North.")
    depth: Length | None = Field(
        default=None, description="With longitude and latitude: depth below the surface, m (default: 0)."
    )
    line: ReceiverLine | None = Field(default=None, description="Receivers on a line.")
    plane: ReceiverPlane | None = Field(default=None, description="Receivers on a grid.")
    file: InputFile | None = Field(
        default=None,
        description="STATIONS file with lines: name network latitude (or y) longitude (or x) elevation burial; or "
        "StationXML (.xml), text of an FDSN service (network|station|...), a CSV table with named columns (.csv, .tsv) "
        "or SEG-Y (.segy, .sgy).",
    )
    coordinates: Coordinates | None = Field(
        default=None,
        description="Coordinates of a STATIONS file, or of x and y without a unit in a CSV table or SEG-Y file: "
        "geographic (degrees; requires domain.crs) or cartesian (m). Default for STATIONS: geographic; without "
        "domain.crs, cartesian if the values cannot be degrees. Default for others: cartesian, but geographic if the "
        "values are degrees in the domain.",
    )
    crs: ReferenceSystemName | None = Field(
        default=None,
        description="Coordinate reference system of a CSV table or SEG-Y file, for example EPSG:32611 (default: local "
        "coordinates, or WGS 84 for longitudes and latitudes); requires domain.crs.",
    )
    time: UtcTime | None = Field(
        default=None,
        description="StationXML, FDSN text: use only epochs that contain this UTC time (default: all epochs).",
    )
    channels: Annotated[list[str], _OneOrMany()] | None = Field(
        default=None,
        description="StationXML, FDSN text: patterns of the channels, for example [BH?, HN?], whose positions "
        "are used (default: all sensors of ground motion).",
    )
    at_surface: StrictBool | None = Field(
        default=None,
        description="SEG-Y: true places receivers on the surface; false at the elevation of the trace header.",
    )
    outside: Literal["refuse", "omit"] | None = Field(
        default=None,
        description="Receivers of a file beyond the sides of the domain: refuse (default), or omit with a warning.",
    )

    _placed: tuple[Domain, str, PlacedReceivers] | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        kinds = self._given("line", "plane", "file")
        point_keys = self._given("name", "location", "position", "longitude", "latitude", "depth")
        refuse_two_kinds(kinds, point_keys, "point")
        if self.file is not None:
            check_file_keys(self)
        elif extra := self._given("coordinates", "crs", "time", "channels", "at_surface", "outside"):
            raise refusal(f"{extra[0]} is given without a file", "it applies to files of receivers", at=extra[:1])
        if not kinds:
            if not point_keys:
                raise refusal("has no receivers", "give name and position, or line, plane or file")
            check_point_keys(self.position, self.longitude, self.latitude, self.depth, depth_needed=False)
            if self.name is None:
                raise refusal("is missing", "a receiver needs a name", at=("name",))
        return self

    @property
    def stated_count(self) -> int:
        """Number of receivers that the entry states; 0 for a file."""
        grid = self.line or self.plane
        return grid.count if grid is not None else int(self.file is None)

    @property
    def kind(self) -> str:
        """The key that says where the receivers are: position, longitude, line, plane or file."""
        return (*self._given("line", "plane", "file", "position"), "longitude")[0]

    def receivers(self, domain: Domain, where: str) -> list[Receiver]:
        """Return the receivers of this entry in local coordinates; ``where`` is its key in the description."""
        return _on_grid(domain, self._stated_receivers(domain, where))

    def _stated_receivers(self, domain: Domain, where: str) -> list[Receiver]:
        network = self.network or DEFAULT_NETWORK
        if self.file is not None:
            return list(self.placed_file(domain, where).receivers)
        grid = self.line or self.plane
        if grid is not None:
            width = len(str(grid.count))
            points = _on_surface(domain, grid.points()) if grid.on_surface else grid.points()
            return [
                Receiver(network, f"{grid.prefix}{number:0{width}d}", point, where)
                for number, point in enumerate(points, start=1)
            ]
        point = local_point(domain, self.position, self.longitude or 0.0, self.latitude or 0.0, self.depth or 0.0)
        geographic = self.position is None
        return [Receiver(network, self.name or "", point, where, location=self.location or "", geographic=geographic)]

    def placed_file(self, domain: Domain, where: str) -> PlacedReceivers:
        """Return the receivers of the file, and notes about its content; the file is read once for a domain."""
        known = self._placed
        if known is None or known[0] is not domain or known[1] != where:
            known = self._placed = (domain, where, place_file(self, domain, where))
        return known[2]

    @property
    def on_surface(self) -> bool:
        """True if positions without z ask for the surface."""
        grid = self.line or self.plane
        return grid.on_surface if grid is not None else self.position is not None and len(self.position) == 2


def _on_grid(domain: Domain, receivers: Sequence[Receiver]) -> list[Receiver]:
    """Return receivers with their convergence."""
    if domain.crs is None:
        return list(receivers)
    angles = convergences(domain, receivers).tolist()
    return [replace(receiver, convergence=angle) for receiver, angle in zip(receivers, angles, strict=True)]


DEFAULT_NETWORK = "XX"


@dataclass(frozen=True)
class Receiver:
    """One receiver, in local coordinates.

    ``position`` is (x, y, z) in m, ``where`` the entry of the description it comes from, ``elevation`` what a
    station file says; the receiver itself stands at its burial below the surface, which is flat without a
    topography. ``location`` is empty unless several sensors of a station have different positions. Components are along
    true East and North if ``geographic``, which is true of positions on the Earth, else along x and y; ``convergence``
    is the azimuth of y at the receiver, degrees.
    """

    network: str
    station: str
    position: Point
    where: str
    elevation: float = 0.0
    location: str = ""
    geographic: bool = False
    convergence: float = 0.0

    @property
    def name(self) -> str:
        """Network and station, ``XX.S01``, and the location code if there is one: ``XX.S01.10``."""
        return receiver_name(self.network, self.station, self.location)


def component_turns(points: Sequence[PointSource | Receiver]) -> np.ndarray:
    """Return the counterclockwise turns (n,) from x and y to the axes of receivers, or of sources, degrees."""
    return np.array([-one.convergence if getattr(one, "geographic", False) else 0.0 for one in points])


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


def _time(value: object) -> object:
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
    require_origin(domain, "a file with longitudes and latitudes needs", at)
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
            f"{path}:{beyond[0].line_number}: ({beyond[0].first:g}, {beyond[0].second:g}) is not a "
            "latitude and longitude",
            "expected degrees",
            f"{_swapped(domain, beyond[0].first, beyond[0].second)}for y and x in m set coordinates: cartesian",
            at=("file",),
        )
    if kind == "geographic":
        hint = "for y and x in m set coordinates: cartesian"
        require_origin(domain, "a file with latitudes and longitudes needs", ("file",), hint)
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


_WHAT = "Inventory"


def expand_inventories(value: object) -> object:
    """Return the value of ``receivers`` with inventories, also as items of a list, replaced by dictionaries.

    An inventory is an object with ``networks``, whose items have ``stations``, as in ObsPy, which is not imported; one
    of its networks may also be given.
    """
    if _is_inventory(value):
        return list(_entries(value))
    if isinstance(value, (list, tuple)) and any(map(_is_inventory, value)):
        return [entry for item in value for entry in (_entries(item) if _is_inventory(item) else [item])]
    return value


def _is_inventory(value: object) -> bool:
    networks = getattr(value, "networks", [value])
    return isinstance(networks, (list, tuple)) and all(hasattr(network, "stations") for network in networks)


def _entries(inventory: object) -> Iterator[Entries]:
    stations = [
        _station(network, station)
        for network in getattr(inventory, "networks", [inventory])
        for station in network.stations
    ]
    if not stations:
        raise refusal("the inventory has no station")
    try:
        records, notes = sensor_places(stations, _WHAT)
    except InputError as error:
        others = "".join(f"\n    {other}" for other in error.others)
        raise refusal(error.got, error.allowed, f"{error.hint}{others}") from None
    for note in notes:
        issue_warning(f"receivers: of the inventory, {note}.")
    elevated = [record for record in records if record.elevation]
    if elevated:
        issue_warning(
            f"receivers: elevations of the inventory are not used (first {elevated[0].network}.{elevated[0].station}, "
            f"{elevated[0].elevation:g} m); receivers are placed at their depth below the surface."
        )
    yield from map(_entry, records)


def _entry(record: ReceiverRecord) -> Entries:
    longitude, latitude = record.horizontal
    entry: Entries = {"network": record.network, "name": record.station}
    if record.location:
        entry["location"] = record.location
    return entry | {"longitude": longitude, "latitude": latitude, "depth": record.burial}


def _station(network: object, station: object) -> StationEpoch:
    return StationEpoch(
        str(network.code), str(station.code), longitude=float(station.longitude), latitude=float(station.latitude),
        elevation=float(station.elevation or 0.0), epoch=_epoch(station),
        channels=tuple(_channel(channel) for channel in station.channels), place="",
    )  # fmt: skip


def _channel(channel: object) -> Channel:
    location = str(channel.location_code or "").strip()
    return Channel(
        str(channel.code), "" if location == "--" else location, longitude=float(channel.longitude),
        latitude=float(channel.latitude), depth=float(channel.depth or 0.0), elevation=float(channel.elevation or 0.0),
        epoch=_epoch(channel), oriented=channel.azimuth is not None or channel.dip is not None, place="",
    )  # fmt: skip


def _epoch(item: object) -> Epoch:
    times = (getattr(item, name, None) for name in ("start_date", "end_date"))
    return Epoch(*(None if time is None else utc(getattr(time, "datetime", time)) for time in times))
