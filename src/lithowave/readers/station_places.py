"""Positions of the sensors of stations: one per station, or one per location code where they differ.

StationXML files and ObsPy inventories list stations with epochs, and in each the channels with their epochs. The
receivers are the distinct positions of the seismometers and accelerometers (instrument codes H, L, M, N, P, G, S and X
of SEED), or the position of a station without such channels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase

from lithowave.errors import InputError
from lithowave.readers.receiver_records import ReceiverRecord

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
