"""Arithmetic of UTC times in ISO 8601 text."""

from __future__ import annotations

from datetime import datetime, timedelta


def shifted_time(text: str, seconds: float) -> str:
    """Return a UTC time shifted by `seconds`, to the microsecond; the unchanged text for 0 s."""
    if not seconds:
        return text
    moment = datetime.fromisoformat(text) + timedelta(seconds=seconds)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
