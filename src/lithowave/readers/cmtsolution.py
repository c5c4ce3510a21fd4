"""CMTSOLUTION files: centroid moment tensors in the format of SPECFEM and the Global CMT project.

An event has a header line (catalog, origin time, hypocenter, magnitudes, region) and twelve lines ``key:
value``. Geographic files have ``latitude`` and ``longitude`` in degrees, Cartesian ones ``latorUTM`` (y) and
``longorUTM`` (x) in m; ``depth`` is in km, times in s, moments in dyn cm along r (up), theta (south) and phi
(east).
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from lithowave.errors import InputError
from lithowave.readers.seismic_event import SeismicEvent, utc_text
from lithowave.readers.text import digit_pattern, parse_number, read_lines

_WHAT = "CMTSOLUTION"
_DYN_CM_PER_N_M = 1e7
_COMPONENTS = ("Mrr", "Mtt", "Mpp", "Mrt", "Mrp", "Mtp")
_NUMBERS = ("time shift", "half duration", "depth", *_COMPONENTS)
_GEOGRAPHIC = ("latitude", "longitude")
_CARTESIAN = ("latorUTM", "longorUTM")
_KEYS = ("event name", "time shift", "half duration", *_GEOGRAPHIC, *_CARTESIAN, "depth", *_COMPONENTS)
_BY_SPELLING = {key.lower().replace(" ", ""): key for key in _KEYS}
_ORIGIN = re.compile(
    r"\s*[A-Za-z*-]*\s*(\d{4})\s+(\d{1,2})\s+(\d{1,2})\s+(\d{1,2})\s+(\d{1,2})\s+(\d+(?:\.\d*)?)(?=\s|$)"
)

Entry = tuple[str, int]
"""Text of a value, and its line."""


def read_cmtsolutions(path: str | Path) -> list[SeismicEvent]:
    """Read a file with one or more events.

    Raises
    ------
    InputError
        with the file, the line and the key: missing or repeated keys, values that are not numbers or out of range, a
        file that ends within its last number.
    """
    path = Path(path)
    lines = read_lines(path, _WHAT)
    blocks: list[tuple[int, dict[str, Entry]]] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith(("#", "!")):
            continue
        key = _key_of(line)
        if key is None and (not blocks or _begins_event(line, blocks[-1][1])):
            blocks.append((number, {}))
        elif not blocks:
            allowed = (
                "the file begins with the line of catalog and origin time: PDE 2008 7 29 18 42 15.00 ..."
            )
            raise InputError(
                _WHAT, f"there is no header line before {key!r}", allowed, file=path, line=number
            )
        else:
            _note(blocks[-1][1], key, line, path, number)
    _refuse_cut(lines, blocks[-1][1], path)
    return [_event(lines[start - 1], entries, path, start) for start, entries in blocks]


def _key_of(line: str) -> str | None:
    """Return the key of a line ``key: value``, in the standard spelling."""
    name, colon, _ = line.partition(":")
    return _BY_SPELLING.get("".join(name.split()).lower()) if colon else None


def _begins_event(line: str, entries: Mapping[str, Entry]) -> bool:
    """True if a line without a known key is the header of another event."""
    return _ORIGIN.match(line) is not None or (":" not in line and _missing(entries) == [])


def _note(entries: dict[str, Entry], key: str | None, line: str, path: Path, number: int) -> None:
    name, colon, value = line.partition(":")
    if key is None:
        near = difflib.get_close_matches(name.strip(), _KEYS, n=1, cutoff=0.5)
        hint = f"did you mean {near[0] + ':'!r}?" if near else ""
        raise InputError(
            _WHAT,
            f"{line.strip()[:40]!r} is not understood",
            f"keys: {', '.join(_KEYS)}",
            hint,
            file=path,
            line=number,
        )
    if key in entries:
        got = f"is already on line {entries[key][1]}"
        raise InputError(
            key,
            got,
            "each key may appear once per event; a header line starts the next event",
            file=path,
            line=number,
        )
    entries[key] = (value.strip(), number)


def _missing(entries: Mapping[str, Entry]) -> list[str]:
    place = _CARTESIAN if any(key in entries for key in _CARTESIAN) else _GEOGRAPHIC
    wanted = ("event name", "time shift", "half duration", *place, "depth", *_COMPONENTS)
    return [key for key in wanted if key not in entries]


def _refuse_cut(lines: Sequence[str], entries: Mapping[str, Entry], path: Path) -> None:
    """Raise an error if the last number of a file is truncated, since the rest of 7.78e+23 may be a valid number.

    If the file does not end with a line end, the last component must have the same number of digits as the others,
    provided that these agree.
    """
    written = {key: entries[key] for key in _COMPONENTS if key in entries}
    last = next((key for key, (_, line) in written.items() if line == len(lines)), None)
    patterns = {digit_pattern(value) for key, (value, _) in written.items() if key != last}
    if last is not None and len(patterns) == 1 and digit_pattern(written[last][0]) not in patterns:
        text, line = written[last]
        got = f"the file ends within this line: {text!r} is not written as the other components"
        raise InputError(last, got, hint="complete it, with a line end", file=path, line=line)


def _event(header: str, entries: Mapping[str, Entry], path: Path, start: int) -> SeismicEvent:
    missing = _missing(entries)
    if missing:
        end = max((line for _, line in entries.values()), default=start)
        got = f"the event that begins on line {start} ends without {', '.join(missing)}"
        raise InputError(_WHAT, got, "check that the file is complete", file=path, line=end)
    if any(key in entries for key in _CARTESIAN) and any(key in entries for key in _GEOGRAPHIC):
        line = next(entries[key][1] for key in _CARTESIAN if key in entries)
        got = "has both geographic and Cartesian coordinates"
        raise InputError(
            _WHAT,
            got,
            f"expected {' and '.join(_GEOGRAPHIC)}, or {' and '.join(_CARTESIAN)}",
            file=path,
            line=line,
        )
    geographic = "latitude" in entries
    place = _GEOGRAPHIC if geographic else _CARTESIAN
    values = {key: _number(entries[key], key, path) for key in (*_NUMBERS, *place)}
    _check_ranges(values, entries, path)
    north, east = (values[key] for key in place)
    rr, tt, pp, rt, rp, tp = (values[key] / _DYN_CM_PER_N_M for key in _COMPONENTS)
    return SeismicEvent(
        event_name=entries["event name"][0],
        origin_time=_origin_time(header, geographic, path, start),
        time_shift=values["time shift"],
        half_duration=values["half duration"],
        geographic=geographic,
        latitude=north if geographic else math.nan,
        longitude=east if geographic else math.nan,
        x=math.nan if geographic else east,
        y=math.nan if geographic else north,
        depth=1000.0 * values["depth"],
        # x = phi, y = -theta, z = r.
        moment=(pp, tt, rr, -tp, rp, -rt),
        line_number=start,
    )


def _number(entry: Entry, key: str, path: Path) -> float:
    text, line = entry
    # Some files append the unit to the number.
    words = text.split()
    value = parse_number(words[0]) if words else None
    if value is None:
        got = f"{text!r} is not a finite number" if text else "has no value"
        raise InputError(key, got, file=path, line=line)
    return value


def _check_ranges(values: Mapping[str, float], entries: Mapping[str, Entry], path: Path) -> None:
    limits = {"latitude": 90.0, "longitude": 360.0}
    for key, limit in limits.items():
        if abs(values.get(key, 0.0)) > limit:
            raise InputError(
                key,
                f"{values[key]:.12g} is not a {key} in degrees",
                f"must be between {-limit:g} and {limit:g}",
                "for Cartesian coordinates in m the keys are latorUTM (y) and longorUTM (x)",
                file=path,
                line=entries[key][1],
            )
    if values["half duration"] < 0.0:
        got = f"{values['half duration']:.12g} s is negative"
        raise InputError(
            "half duration", got, "must be 0 or more", file=path, line=entries["half duration"][1]
        )
    if not any(values[key] for key in _COMPONENTS):
        got = "all components of the moment tensor are zero"
        raise InputError(_WHAT, got, file=path, line=entries["Mrr"][1])


def _origin_time(header: str, geographic: bool, path: Path, line: int) -> str | None:
    """Return the time in the header as ISO text; a Cartesian file may have any header."""
    match = _ORIGIN.match(header)
    try:
        if match is None:
            raise ValueError("the header has no origin time")
        year, month, day, hour, minute = (int(text) for text in match.groups()[:5])
        # Seconds may be rounded up to 60.00.
        seconds = timedelta(hours=hour, minutes=minute, microseconds=round(1e6 * float(match[6])))
        moment = datetime(year, month, day, tzinfo=UTC) + seconds
        if hour > 23 or minute > 59 or float(match[6]) > 61.0:
            raise ValueError("the origin time of the header is not a valid time")
    except (ValueError, OverflowError) as error:
        if not geographic:
            return None
        allowed = "expected catalog, year, month, day, hour, minute, second: PDE 2008 7 29 18 42 15.00 ..."
        raise InputError(_WHAT, f"{header.strip()[:60]!r}: {error}", allowed, file=path, line=line) from None
    return utc_text(moment)
