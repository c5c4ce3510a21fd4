"""Text of UTC times in ISO 8601 and their arithmetic, and names of receivers."""

from __future__ import annotations

from datetime import datetime, timedelta


def shifted_time(text: str, seconds: float) -> str:
    """Return a UTC time shifted by `seconds`, to the microsecond; the unchanged text for 0 s."""
    if not seconds:
        return text
    moment = datetime.fromisoformat(text) + timedelta(seconds=seconds)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def receiver_name(network: str, station: str, location: str = "") -> str:
    """Return ``NETWORK.STATION``, or ``NETWORK.STATION.LOCATION`` with a location code."""
    return f"{network}.{station}" + (f".{location}" if location else "")
