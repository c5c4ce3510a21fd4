"""Arithmetic of UTC times given as ISO 8601 text."""

from __future__ import annotations

from datetime import datetime, timedelta


def shifted_time(text: str, seconds: float) -> str:
    """Return a UTC time so many seconds later (earlier if negative), to the microsecond; unchanged for 0 s."""
    if not seconds:
        return text
    moment = datetime.fromisoformat(text) + timedelta(seconds=seconds)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
