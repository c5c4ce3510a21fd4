"""SEG-Y files of either byte order, read with segyio: positions of shots and receivers, sections; CSV files of shots.

**Positions** of shots and receivers are in the trace headers. Reference: SEG Technical Standards Committee (2002), SEG
Y rev 1 data exchange format. Bytes of the trace header:

======= =========================================================================================
9-12    field record number, which names the shots
29-30   trace identification code; auxiliary traces (codes 3 to 10) are omitted
37-40   offset, negative opposite to the direction of the line; compared with the positions
41-44   elevation of the receiver group
45-52   elevation of the surface at the source, and depth of the source below it
69-70   scalar of elevations and depths; 71-72 scalar of coordinates: a negative scalar divides
73-88   x, y of the source and of the receiver group
89-90   unit of coordinates: 1 length, 2 seconds of arc, 3 degrees
======= =========================================================================================

Lengths are in m, or in ft if the binary header states it (bytes 3255-3256). A scalar of 0 means 1 according to the
standard, but often stands in headers that were never completed, as do coordinates of 0: such files are accepted only
if the offsets confirm the positions.

Files of revision 1 have intervals in integer microseconds, and 16-bit integers.

**Sections** have one trace per position along a line, samples downwards. SEG-Y has no field for depth sections: by
convention the sample interval, whose unit is the microsecond or a thousandth of a millisecond, then is in thousandths
of a meter.

**CSV files** of shots have a first line with the column names, then one line per shot. Positions are ``x, y, z`` or
``x, y`` in m, or ``longitude, latitude`` in degrees; ``depth``, in m below the surface, may be added to the latter two.
``name`` and ``scale`` are optional. Lines that begin with # are comments.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lithowave.errors import InputError, require_package
from lithowave.readers.array_files import DAMAGE
from lithowave.readers.stations import ReceiverRecord, ReceiverTable
from lithowave.readers.text import finite_number, located, read_table

if TYPE_CHECKING:
    from segyio import SegyFile

_FORMATS = frozenset(range(1, 17))
_FORMAT_CODE = slice(3224, 3226)
_ENDIANNESS = slice(3296, 3300)
_CONSTANT = 16909060


def byte_order(path: Path) -> str:
    """Return the byte order of a file, ``big`` or ``little``.

    Since revision 2, bytes 3297-3300 contain a constant; otherwise the format of the samples, bytes 3225-3226, is valid
    in one order only.
    """
    with path.open("rb") as file:
        header = file.read(3600)
    if int.from_bytes(header[_ENDIANNESS], "little") == _CONSTANT:
        return "little"
    code = header[_FORMAT_CODE]
    swapped = int.from_bytes(code, "big") not in _FORMATS and int.from_bytes(code, "little") in _FORMATS
    return "little" if swapped else "big"


@contextmanager
def open_segy(path: Path, what: str) -> Iterator[SegyFile]:
    """Open a file for reading, without an assumption about its geometry.

    what : the purpose of the file, for messages.

    Raises
    ------
    InputError : the file is damaged. MissingPackageError : segyio is not installed.
    """
    require_package("segyio", "Reading SEG-Y", "formats")
    import segyio

    try:
        with warnings.catch_warnings():  # segyio's remarks on unused headers
            warnings.simplefilter("ignore")
            with segyio.open(str(path), ignore_geometry=True, endian=byte_order(path)) as file:
                yield file
    except (*DAMAGE, IndexError) as error:  # IndexError: a file without traces
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        hint = "check that the file is complete"
        raise InputError(what, f"cannot be read as SEG-Y: {reason}", hint=hint, file=path) from None


_GEOMETRY = "SEG-Y geometry"
_FIELDS = (
    "FieldRecord", "TraceIdentificationCode", "offset", "ReceiverGroupElevation", "SourceSurfaceElevation",
    "SourceDepth", "ElevationScalar", "SourceGroupScalar", "SourceX", "SourceY", "GroupX", "GroupY", "CoordinateUnits",
)  # fmt: skip
_AUXILIARY = range(3, 11)
_LENGTH, _ARC_SECONDS, _DEGREES = 1, 2, 3
_FEET, _METERS_PER_FOOT = 2, 0.3048
_METERS_PER_DEGREE = 111_195.0
_OFFSET_TOLERANCE, _OFFSET_ROUNDING = 0.01, 2.0  # relative, and in the unit of the header
_DIGITS = 6
"""Decimals of coordinates by which positions are distinguished."""


@dataclass(frozen=True, eq=False)
class SegyGeometry:
    """Positions of n traces.

    Attributes
    ----------
    traces : (n,) numbers of the traces in the file, from 1; auxiliary traces are omitted.
    sources, groups : (n, 3) horizontal coordinates and elevation, m; longitude and latitude in degrees if `geographic`.
    depths : (n,) source depth below the surface, m.
    surfaces : (n,) elevation of the surface at the source, m.
    offsets : (n,) signed offsets of the headers, m; 0 where missing.
    field_records : (n,) field record numbers.
    notes : clauses on interpretations and deviations.
    unstated : True if the headers state neither the unit of coordinates nor a system of lengths other than meters.
    """

    path: Path
    traces: np.ndarray
    sources: np.ndarray
    groups: np.ndarray
    depths: np.ndarray
    surfaces: np.ndarray
    offsets: np.ndarray
    field_records: np.ndarray
    geographic: bool
    notes: tuple[str, ...]
    unstated: bool = False


@dataclass(frozen=True)
class SegyShot:
    """A distinct source position.

    place : (x, y) or (longitude, latitude). z : elevation of the source, m. depth : below the surface, m.
    trace : number of the first trace. spread : names of the receivers of its traces, see `segy_receivers`.
    """

    name: str
    place: tuple[float, float]
    z: float
    depth: float
    trace: int
    spread: frozenset[str]


def read_segy_geometry(path: str | Path) -> SegyGeometry:
    """Read the geometry of all traces; a file is read once, unless it changes.

    Raises
    ------
    InputError : the file is damaged or truncated, coordinates are missing, or contradict the offsets.
    MissingPackageError : segyio is not installed.
    """
    path = Path(path)
    try:
        stamp = path.stat()
    except OSError as error:
        raise InputError(_GEOMETRY, f"cannot be read: {error.strerror or error}", file=path) from None
    with located(path):
        return _read(path, stamp.st_mtime_ns, stamp.st_size)


@lru_cache(maxsize=4)
def _read(path: Path, changed: int, size: int) -> SegyGeometry:
    headers, system = _headers(path)
    kept = ~np.isin(headers["TraceIdentificationCode"], list(_AUXILIARY))
    traces = np.flatnonzero(kept) + 1
    if not traces.size:
        raise InputError(_GEOMETRY, "all traces are auxiliary", "codes 3 to 10 of bytes 29-30")
    headers = {name: values[kept].astype(float) for name, values in headers.items()}
    unit = _coordinate_unit(headers["CoordinateUnits"], traces)
    length = _METERS_PER_FOOT if system == _FEET else 1.0
    horizontal = {_LENGTH: length, _ARC_SECONDS: 1.0 / 3600.0, _DEGREES: 1.0}[unit]
    across = coordinate_factors(headers["SourceGroupScalar"]) * horizontal
    vertical = coordinate_factors(headers["ElevationScalar"]) * length

    def points(kind: str, elevation: np.ndarray) -> np.ndarray:
        columns = [headers[f"{kind}X"] * across, headers[f"{kind}Y"] * across, elevation]
        return np.round(np.column_stack(columns), _DIGITS if unit == _LENGTH else _DIGITS + 4)

    surfaces, depths = headers["SourceSurfaceElevation"] * vertical, headers["SourceDepth"] * vertical
    sources = points("Source", surfaces - depths)
    geometry = SegyGeometry(
        path, traces, sources, points("Group", headers["ReceiverGroupElevation"] * vertical), depths,
        surfaces, headers["offset"] * length, headers["FieldRecord"].astype(int), unit != _LENGTH, (),
        unstated=system != _FEET and not headers["CoordinateUnits"].any(),
    )  # fmt: skip
    _check_degrees(geometry)
    notes = _checked_notes(geometry, headers, int(np.count_nonzero(~kept)), system)
    return SegyGeometry(**{**vars(geometry), "notes": tuple(notes)})


def segy_receivers(path: str | Path) -> ReceiverTable:
    """Return the distinct positions of receiver groups, in the order of their first trace: R001, R002, ..."""
    geometry = read_segy_geometry(path)
    if not geometry.groups[:, :2].any() and not _confirmed(geometry):
        raise _missing(geometry, "receiver groups", "81-88")
    first, number = _distinct(geometry.groups)
    records = tuple(
        ReceiverRecord(
            "", name, "", (float(x), float(y)), f"{geometry.path.name}, trace {trace}", z=float(z), elevation=float(z)
        )
        for name, (x, y, z), trace in zip(_names(number), geometry.groups[first], geometry.traces[first], strict=True)
    )
    return ReceiverTable(records, geometry.geographic, notes=geometry.notes, unstated=geometry.unstated)


def _distinct(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of the first of equal points (n, 3), ascending, and the number (n,) of each point, from 0."""
    _, first, inverse = np.unique(points, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return first[order], np.argsort(order)[inverse.reshape(-1)]


def _names(number: np.ndarray) -> list[str]:
    """Return the names of receivers from the number of each trace."""
    count = int(number.max()) + 1
    return [f"R{index:0{len(str(count))}d}" for index in range(1, count + 1)]


def segy_shots(path: str | Path) -> tuple[list[SegyShot], SegyGeometry]:
    """Return the distinct source positions, in the order of their first trace, named by their field record."""
    geometry = read_segy_geometry(path)
    if not geometry.sources[:, :2].any() and not _confirmed(geometry):
        raise _missing(geometry, "sources", "73-80")
    first, number = _distinct(geometry.sources)
    groups = _distinct(geometry.groups)[1]
    names = np.array(_names(groups))
    order = np.argsort(number, kind="stable")
    spreads = np.split(groups[order], np.flatnonzero(np.diff(number[order])) + 1)
    shots = [
        SegyShot(
            str(geometry.field_records[index] or ""), (x, y), z, float(geometry.depths[index]),
            int(geometry.traces[index]), frozenset(names[np.unique(spread)].tolist()),
        )
        for index, (x, y, z), spread in zip(first, geometry.sources[first].tolist(), spreads, strict=True)
    ]  # fmt: skip
    return shots, geometry


def _headers(path: Path) -> tuple[dict[str, np.ndarray], int]:
    """Return the entries of all trace headers, and the measurement system of the binary header."""
    with open_segy(path, _GEOMETRY) as file:
        from segyio import BinField, TraceField

        names = {name: np.asarray(file.attributes(getattr(TraceField, name))[:]) for name in _FIELDS}
        return names, int(file.bin[BinField.MeasurementSystem])


def _coordinate_unit(values: np.ndarray, traces: np.ndarray) -> int:
    """Return the unit of the coordinates of all traces; 0, which is not set, counts as length."""
    units = np.where(values == 0, _LENGTH, values).astype(int)
    wrong = np.flatnonzero(~np.isin(units, (_LENGTH, _ARC_SECONDS, _DEGREES)) | (units != units[0]))
    if wrong.size:
        got = f"trace {traces[wrong[0]]}: the unit of coordinates (bytes 89-90) is {units[wrong[0]]}"
        if units[wrong[0]] in (_LENGTH, _ARC_SECONDS, _DEGREES):
            got += f", that of trace {traces[0]} is {units[0]}"
        allowed = "allowed: 1 (length), 2 (seconds of arc) or 3 (degrees), the same in all traces"
        raise InputError(_GEOMETRY, got, allowed)
    return int(units[0])


def _check_degrees(geometry: SegyGeometry) -> None:
    if not geometry.geographic:
        return
    for kind, points in (("source", geometry.sources), ("group", geometry.groups)):
        wrong = np.flatnonzero((np.abs(points[:, 0]) > 360.0) | (np.abs(points[:, 1]) > 90.0))
        if wrong.size:
            longitude, latitude = points[wrong[0], :2]
            got = f"trace {geometry.traces[wrong[0]]}: {kind} at longitude {longitude:.12g}, latitude {latitude:.12g}"
            allowed = "bytes 89-90 state degrees or seconds of arc: longitude -360 to 360, latitude -90 to 90"
            raise InputError(_GEOMETRY, got, allowed, "check the scalar, bytes 71-72", file=geometry.path)


def _distances(geometry: SegyGeometry) -> np.ndarray:
    """Return the horizontal distances of sources and receivers, m."""
    difference = (geometry.groups - geometry.sources)[:, :2]
    if geometry.geographic:
        scale = np.cos(np.radians(geometry.sources[:, 1]))
        difference = difference * _METERS_PER_DEGREE * np.column_stack([scale, np.ones_like(scale)])
    return np.hypot(*difference.T)


def _offsets_agree(geometry: SegyGeometry) -> np.ndarray:
    """Return (n,) True where the offset agrees with the positions."""
    offsets, distances = np.abs(geometry.offsets), _distances(geometry)
    return np.abs(offsets - distances) <= _OFFSET_TOLERANCE * distances + _OFFSET_ROUNDING


def _confirmed(geometry: SegyGeometry) -> bool:
    """True if offsets are given and agree with all positions, which are not all 0: these confirm no place."""
    placed = geometry.groups[:, :2].any() or geometry.sources[:, :2].any()
    return bool(placed and geometry.offsets.any() and _offsets_agree(geometry).all())


def _missing(geometry: SegyGeometry, kind: str, bytes_: str) -> InputError:
    got = f"the coordinates of all {kind} (bytes {bytes_}) are 0, from trace {geometry.traces[0]}"
    hint = "write them to the trace headers, or list positions in a CSV file"
    return InputError(_GEOMETRY, got, "no offset (bytes 37-40) confirms this position", hint, file=geometry.path)


def _checked_notes(geometry: SegyGeometry, headers: dict[str, np.ndarray], auxiliary: int, system: int) -> list[str]:
    """Return notes on the geometry; refuse coordinates that are probably wrong."""
    traces = geometry.traces
    notes = [f"{auxiliary} auxiliary traces were omitted"] if auxiliary else []
    unscaled = np.flatnonzero(headers["SourceGroupScalar"] == 0.0)
    if unscaled.size and not _confirmed(geometry):
        got = f"trace {traces[unscaled[0]]}: the scalar of coordinates (bytes 71-72) is 0"
        allowed = "0 means 1, which is accepted only if offsets (bytes 37-40) agree with the positions"
        raise InputError(_GEOMETRY, got, allowed, "write the scalar, 1 or -100 for example")
    given = geometry.offsets != 0.0
    wrong = np.flatnonzero(given & ~_offsets_agree(geometry))
    if wrong.size:
        distances = _distances(geometry)
        index = int(wrong[0])
        text = f"offset {geometry.offsets[index]:.12g} m (bytes 37-40), positions {distances[index]:.6g} m apart"
        ratio = np.median(distances[given] / np.abs(geometry.offsets[given]))
        if not 0.5 < ratio < 2.0:
            hint = "check the scalar (bytes 71-72) and the unit (bytes 89-90) of the coordinates"
            raise InputError(_GEOMETRY, f"trace {traces[index]}: {text}", "both must agree", hint)
        count = f"{wrong.size} of {len(traces)} offsets"
        notes.append(f"{count} disagree with the positions: trace {traces[index]}, {text}")
    if system not in (1, _FEET):
        notes.append("the binary header states no measurement system; lengths were taken as m")
    return notes


LARGEST = 32767
"""Largest 16-bit integer: the maximum number of samples per trace, and of microseconds between samples."""

_LONGEST_ROUND = 20_000
"""Largest 1, 2 or 5 times a power of ten, in microseconds, that does not exceed `LARGEST`."""

_ROUNDING = 2e-6
"""Tolerance for rounding an interval: schedules represent the requested interval to 1e-6."""


def microseconds(interval: float) -> int | None:
    """Return an interval in s as integer microseconds; None if it is not one."""
    whole = round(interval * 1e6)
    return whole if whole > 0 and abs(interval * 1e6 - whole) <= _ROUNDING * whole else None


def interval_problem(interval: float, sample_count: int) -> tuple[str, str, str] | None:
    """Return the reason (got, allowed, hint) why traces with an interval in s cannot be written, or None."""
    whole = microseconds(interval)
    if whole is None:
        nearest = max(1, round(interval * 1e6)) * 1e-6
        got = f"{interval:.9g} s is not an integer number of microseconds"
        return got, "SEG-Y requires integer microseconds between samples", f"use {nearest:.6f}"
    if whole > LARGEST:
        allowed = f"SEG-Y permits at most {LARGEST} microseconds between samples"
        return f"{interval:.9g} s is too long for SEG-Y", allowed, "use miniseed or sac, which support any interval"
    if sample_count > LARGEST:
        allowed = f"SEG-Y permits at most {LARGEST} in a trace"
        return f"{interval:.9g} s makes {sample_count} samples", allowed, "use a longer interval or a shorter duration"
    return None


def default_interval(preferred: float, longest: float, duration: float) -> float | None:
    """Return the interval in s closest to a preferred one that a file can hold; None if there is none.

    It is 1, 2 or 5 times a power of ten, if possible.

    Parameters
    ----------
    preferred : s; the interval is at most this if possible.
    longest : largest interval that samples the waves, s.
    duration : of the traces, s, which limits the interval from below by the number of samples.
    """
    least = max(1, math.ceil(duration * 1e6 / (LARGEST - 1) - 1e-9))
    most = min(LARGEST, math.floor(min(longest, duration) * 1e6 * (1.0 + 1e-9)))
    candidates = [least, *(digit * 10**power for power in range(5) for digit in (1, 2, 5))]
    candidates = [candidate for candidate in candidates if least <= candidate <= most]
    below = [candidate for candidate in candidates if candidate <= min(preferred * 1e6 * (1.0 + 1e-9), _LONGEST_ROUND)]
    if not candidates:
        return None
    return float(Fraction(max(below) if below else min(candidates), 10**6))


@dataclass(frozen=True, eq=False)
class SegySection:
    """Contents of a section.

    Attributes
    ----------
    values : (n_traces, n_samples) float32, without a unit.
    cdp_x, cdp_y : (n_traces,) CDP coordinates of the traces with their scalar applied, m; default: zeros.
    sample_interval : of the header, in thousandths of a meter for a depth section; 0 if missing.
    """

    path: Path
    values: np.ndarray
    cdp_x: np.ndarray
    cdp_y: np.ndarray
    sample_interval: int


def read_segy_section(path: str | Path) -> SegySection:
    """Read all traces of a file (IBM or IEEE floats, or integers), in their order.

    Raises
    ------
    InputError: the file is not a SEG-Y file, is damaged, or has a sample without a value.
    MissingPackageError: segyio is not installed.
    """
    path = Path(path)
    with open_segy(path, "section") as file:
        from segyio import BinField
        from segyio import TraceField as Field

        values = np.asarray(file.trace.raw[:], dtype=np.float32)
        scalars, x, y = (
            np.asarray(file.attributes(key)[:], dtype=np.float64)
            for key in (Field.SourceGroupScalar, Field.CDP_X, Field.CDP_Y)
        )
        interval = int(file.bin[BinField.Interval])
    lacking = ~np.isfinite(values)
    if lacking.any():
        trace, sample = (int(index) for index in np.unravel_index(int(lacking.argmax()), values.shape))
        count = f"{int(lacking.sum())} of {values.size} samples"
        got = f"has no value in sample {sample + 1} of trace {trace + 1} ({count})"
        raise InputError("section", got, "every sample needs one", file=path)
    factors = coordinate_factors(scalars)
    return SegySection(path, values, x * factors, y * factors, interval)


def coordinate_factors(scalars: np.ndarray) -> np.ndarray:
    """Return factors for coordinates from the scalars of trace headers: negative ones divide, 0 means 1."""
    sizes = np.where(scalars == 0.0, 1.0, np.abs(scalars))
    return np.where(scalars < 0.0, 1.0 / sizes, sizes)


_SHOTS = "shots"
_COLUMNS = ("x", "y", "z", "longitude", "latitude", "depth", "name", "scale")
_PLACES = (
    ("x", "y", "z"), ("x", "y"), ("x", "y", "depth"), ("longitude", "latitude"), ("longitude", "latitude", "depth")
)


@dataclass(frozen=True)
class ShotRecord:
    """A shot in the file. place : (x, y, z) or (x, y) in m, or (longitude, latitude) in degrees."""

    name: str
    place: tuple[float, ...]
    geographic: bool
    depth: float
    scale: float


def read_shots(path: str | Path) -> list[ShotRecord]:
    """Read a file of shots.

    Raises
    ------
    InputError
        for columns that are unknown or do not define a position, and with the line for every invalid line.
    """
    path = Path(path)
    return read_table(path, _SHOTS, f"expected columns from: {', '.join(_COLUMNS)}", _columns, _record)[1]


def _columns(titles: list[str]) -> list[str]:
    names = [title.lower() for title in titles]
    unknown = [name for name in names if name not in _COLUMNS]
    twice = [name for name in names if names.count(name) > 1]
    if unknown or twice:
        got = f"{unknown[0]!r} is not a column" if unknown else f"the column {twice[0]!r} appears twice"
        allowed = f"the first line must name columns from: {', '.join(_COLUMNS)}"
        raise InputError(_SHOTS, got, allowed)
    place = tuple(name for name in _COLUMNS if name in names and name not in ("name", "scale"))
    if place not in _PLACES:
        expected = "; ".join(", ".join(columns) for columns in _PLACES)
        got = f"the columns {', '.join(place)} do not define a position" if place else "no column defines a position"
        raise InputError(_SHOTS, got, f"expected one of: {expected}")
    return names


def _record(columns: list[str], cells: list[str], _line: int) -> ShotRecord:
    texts = dict(zip(columns, cells, strict=True))
    name = texts.pop("name", "")
    values = {column: finite_number(text, column) for column, text in texts.items()}
    scale = values.pop("scale", 1.0)
    if scale <= 0.0:
        raise InputError("scale", f"{scale:.12g} is out of range", "must be greater than 0")
    if abs(values.get("latitude", 0.0)) > 90.0 or abs(values.get("longitude", 0.0)) > 360.0:
        allowed = "latitude is -90 to 90, longitude -360 to 360"
        raise InputError(_SHOTS, "these are not degrees", allowed)
    place = tuple(values[name] for name in ("x", "y", "z", "longitude", "latitude") if name in values)
    return ShotRecord(name, place, "latitude" in values, values.get("depth", 0.0), scale)
