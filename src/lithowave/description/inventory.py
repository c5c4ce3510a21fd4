"""Inventories of ObsPy as entries of ``receivers``: a point with longitude, latitude and depth for each receiver."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lithowave.description.refusals import refusal
from lithowave.errors import InputError, issue_warning
from lithowave.readers.receiver_records import ReceiverRecord
from lithowave.readers.station_places import Channel, Epoch, StationEpoch, sensor_places, utc

_WHAT = "Inventory"


def expand_inventories(value: Any) -> Any:
    """Return the value of ``receivers`` with inventories, also as items of a list, replaced by dictionaries.

    An inventory is an object with ``networks``, whose items have ``stations``, as in ObsPy, which is not imported; one
    of its networks may also be given.
    """
    if _is_inventory(value):
        return list(_entries(value))
    if isinstance(value, (list, tuple)) and any(map(_is_inventory, value)):
        return [entry for item in value for entry in (_entries(item) if _is_inventory(item) else [item])]
    return value


def _is_inventory(value: Any) -> bool:
    networks = getattr(value, "networks", [value])
    return isinstance(networks, (list, tuple)) and all(hasattr(network, "stations") for network in networks)


def _entries(inventory: Any) -> Iterator[dict[str, Any]]:
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


def _entry(record: ReceiverRecord) -> dict[str, Any]:
    longitude, latitude = record.horizontal
    entry: dict[str, Any] = {"network": record.network, "name": record.station}
    if record.location:
        entry["location"] = record.location
    return entry | {"longitude": longitude, "latitude": latitude, "depth": record.burial}


def _station(network: Any, station: Any) -> StationEpoch:
    return StationEpoch(
        str(network.code),
        str(station.code),
        longitude=float(station.longitude),
        latitude=float(station.latitude),
        elevation=float(station.elevation or 0.0),
        epoch=_epoch(station),
        channels=tuple(_channel(channel) for channel in station.channels),
        place="",
    )


def _channel(channel: Any) -> Channel:
    location = str(channel.location_code or "").strip()
    return Channel(
        str(channel.code),
        "" if location == "--" else location,
        longitude=float(channel.longitude),
        latitude=float(channel.latitude),
        depth=float(channel.depth or 0.0),
        elevation=float(channel.elevation or 0.0),
        epoch=_epoch(channel),
        oriented=channel.azimuth is not None or channel.dip is not None,
        place="",
    )


def _epoch(item: Any) -> Epoch:
    times = (getattr(item, name, None) for name in ("start_date", "end_date"))
    return Epoch(*(None if time is None else utc(getattr(time, "datetime", time)) for time in times))
