"""FORCESOLUTION files: point forces in the format of SPECFEM.

A force has a header line (``FORCE 001``) and ten lines ``key: value``: time shift (s), ``hdurorf0`` (also ``f0`` or
``half duration``), position as in a CMTSOLUTION file, depth (km), ``source time function``, ``factor force source`` (N)
and the components E, N and Z_UP of the direction, which is normalized. The time functions of SPECFEM are

=== ======================================================================================
0   Gaussian exp(-(t/h)^2) / (h sqrt(pi)) of unit area, with h = hdurorf0 / 1.628
1   Ricker wavelet of the frequency hdurorf0 and the peak 1
2   step (1 + erf(t/h)) / 2, with h = hdurorf0 / 1.628
=== ======================================================================================

Other numbers, and older files without this line, whose time function is chosen in SPECFEM's Par_file, have none here.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

from lithowave.errors import InputError
from lithowave.readers.seismic_event import SPECFEM_DECAY, SeismicEvent
from lithowave.readers.text import parse_number, read_lines

_WHAT = "FORCESOLUTION"
_KEYS = {
    "time shift": ("timeshift",),
    "hdurorf0": ("hdurorf0", "f0", "halfduration"),
    "latorUTM": ("latorutm", "latitude", "latitude(ory)"),
    "longorUTM": ("longorutm", "longitude", "longitude(orx)"),
    "depth": ("depth",),
    "source time function": ("sourcetimefunction",),
    "factor force source": ("factorforcesource",),
    "component dir vect source E": ("componentdirvectsourcee",),
    "component dir vect source N": ("componentdirvectsourcen",),
    "component dir vect source Z_UP": ("componentdirvectsourcez_up", "componentdirvectsourcez"),
}
_BY_SPELLING = {spelling: key for key, spellings in _KEYS.items() for spelling in spellings}
_OPTIONAL = ("source time function",)
_MARK = re.compile(rb"^\s*(FORCE\b|factor force source\s*:)", re.IGNORECASE | re.MULTILINE)
_GAUSSIAN, _RICKER, _STEP = 0, 1, 2


def is_forcesolution(start: bytes) -> bool:
    """True if the first bytes of a file are those of a FORCESOLUTION file."""
    return _MARK.search(start) is not None


def read_forcesolutions(path: str | Path) -> list[SeismicEvent]:
    """Read a file with one or more forces.

    Raises
    ------
    InputError
        with the file, the line and the key: missing, unknown or repeated keys, values that are not numbers, a force
        without magnitude or direction.
    """
    path = Path(path)
    blocks: list[tuple[int, dict[str, tuple[float, int]]]] = []
    for number, line in enumerate(read_lines(path, _WHAT), start=1):
        text = line.partition("!")[0].partition("#")[0].strip()
        if not text:
            continue
        name, colon, value = text.partition(":")
        key = _BY_SPELLING.get("".join(name.split()).lower()) if colon else None
        if key is None and not colon and (not blocks or not _missing(blocks[-1][1])):
            blocks.append((number, {}))
            continue
        if key is None or not blocks:
            allowed = f"a header line such as FORCE 001, then the keys {', '.join(_KEYS)}"
            raise InputError(_WHAT, f"{text[:40]!r} is not understood", allowed, file=path, line=number)
        if key in blocks[-1][1]:
            got = f"is already on line {blocks[-1][1][key][1]}"
            raise InputError(key, got, "each key may appear once per force", file=path, line=number)
        words = value.split()
        parsed = parse_number(words[0]) if words else None
        if parsed is None:
            raise InputError(key, f"{value.strip()!r} is not a finite number", file=path, line=number)
        blocks[-1][1][key] = (parsed, number)
    return [_force(entries, path, start) for start, entries in blocks]


def _missing(entries: dict[str, tuple[float, int]]) -> list[str]:
    return [key for key in _KEYS if key not in entries and key not in _OPTIONAL]


def _force(entries: dict[str, tuple[float, int]], path: Path, start: int) -> SeismicEvent:
    if missing := _missing(entries):
        end = max((line for _, line in entries.values()), default=start)
        got = f"the force that begins on line {start} ends without {', '.join(missing)}"
        raise InputError(_WHAT, got, "check that the file is complete", file=path, line=end)
    values = {key: value for key, (value, _) in entries.items()}
    direction = [values[f"component dir vect source {name}"] for name in ("E", "N", "Z_UP")]
    length, factor = math.hypot(*direction), values["factor force source"]
    if not length or not factor:
        key = "factor force source" if length else "component dir vect source E"
        raise InputError(key, "the force is zero", "expected a force", file=path, line=entries[key][1])
    duration = values["hdurorf0"]
    if duration < 0.0:
        got = f"{duration:.12g} is negative"
        raise InputError("hdurorf0", got, "must be 0 or more", file=path, line=entries["hdurorf0"][1])
    kind = values.get("source time function")
    shape: dict[str, dict[str, float]] | None = None
    sigma = duration / (SPECFEM_DECAY * math.sqrt(2.0))
    if duration and kind == _GAUSSIAN:
        shape = {"gaussian": {"sigma": sigma}}
        factor /= sigma * math.sqrt(2.0 * math.pi)  # its area is 1 in SPECFEM, its peak is 1 here
    elif duration and kind == _RICKER:
        shape = {"ricker": {"frequency": duration}}
    elif duration and kind == _STEP:
        shape = {"error_function": {"sigma": sigma}}
    east, north, up = (factor * component / length for component in direction)
    return SeismicEvent(
        event_name=f"force on line {start}",
        origin_time=None,
        time_shift=values["time shift"],
        half_duration=None,
        geographic=False,
        latitude=math.nan,
        longitude=math.nan,
        x=values["longorUTM"],
        y=values["latorUTM"],
        depth=1000.0 * values["depth"],
        moment=None,
        line_number=start,
        force=(east, north, up),
        shape=shape,
    )
