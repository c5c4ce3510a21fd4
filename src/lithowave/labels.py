"""Text of UTC times in ISO 8601 and their arithmetic, names of receivers, lists of names and tables."""

from __future__ import annotations

from collections.abc import Sequence
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


def first_names(names: Sequence[str], count: int = 3) -> str:
    """Return the first names of a list, with an ellipsis if there are more."""
    return ", ".join(names[:count]) + (", ..." if len(names) > count else "")


def table_lines(rows: Sequence[Sequence[str]], align: str = "<") -> list[str]:
    """Return rows as lines with columns of equal width, aligned to the left (<) or the right (>)."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(f"{cell:{align}{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
