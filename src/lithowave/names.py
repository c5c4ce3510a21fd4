"""Names of receivers."""

from __future__ import annotations


def receiver_name(network: str, station: str, location: str = "") -> str:
    """Return ``NETWORK.STATION``, or ``NETWORK.STATION.LOCATION`` with a location code."""
    return f"{network}.{station}" + (f".{location}" if location else "")
