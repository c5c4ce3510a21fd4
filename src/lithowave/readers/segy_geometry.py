"""Positions of shots and receivers from the trace headers of SEG-Y files, through segyio.

Reference: SEG Technical Standards Committee (2002), SEG Y rev 1 data exchange format. Bytes of the trace header:

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
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from lithowave.errors import InputError, MissingPackageError
from lithowave.readers.array_files import DAMAGE
from lithowave.readers.receiver_records import ReceiverRecord, ReceiverTable
from lithowave.readers.segy_bytes import open_segy
from lithowave.readers.segy_section import coordinate_factors

_WHAT = "SEG-Y geometry"
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
        raise InputError(_WHAT, f"cannot be read: {error.strerror or error}", file=path) from None
    return _read(path, stamp.st_mtime_ns, stamp.st_size)


@lru_cache(maxsize=4)
def _read(path: Path, changed: int, size: int) -> SegyGeometry:
    headers, system = _headers(path)
    kept = ~np.isin(headers["TraceIdentificationCode"], list(_AUXILIARY))
    traces = np.flatnonzero(kept) + 1
    if not traces.size:
        raise InputError(_WHAT, "all traces are auxiliary", "codes 3 to 10 of bytes 29-30", file=path)
    headers = {name: values[kept].astype(float) for name, values in headers.items()}
    unit = _coordinate_unit(headers["CoordinateUnits"], traces, path)
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
        for name, (x, y, z), trace in zip(
            _names(number), geometry.groups[first], geometry.traces[first], strict=True
        )
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
            str(geometry.field_records[index] or ""), tuple(map(float, geometry.sources[index, :2])),
            float(geometry.sources[index, 2]), float(geometry.depths[index]), int(geometry.traces[index]),
            frozenset(names[np.unique(spread)].tolist()),
        )
        for index, spread in zip(first, spreads, strict=True)
    ]  # fmt: skip
    return shots, geometry


def _headers(path: Path) -> tuple[dict[str, np.ndarray], int]:
    """Return the entries of all trace headers, and the measurement system of the binary header."""
    if find_spec("segyio") is None:
        raise MissingPackageError("segyio", "Reading SEG-Y", "formats")
    import segyio

    try:
        with open_segy(path) as file:
            names = {name: file.attributes(getattr(segyio.TraceField, name))[:] for name in _FIELDS}
            return {name: np.asarray(values) for name, values in names.items()}, _system(file)
    except (*DAMAGE, IndexError) as error:  # IndexError: a file without traces
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        hint = "check that the file is complete"
        raise InputError(_WHAT, f"cannot be read as SEG-Y: {reason}", hint=hint, file=path) from None


def _system(file: Any) -> int:
    import segyio

    return int(file.bin[segyio.BinField.MeasurementSystem])


def _coordinate_unit(values: np.ndarray, traces: np.ndarray, path: Path) -> int:
    """Return the unit of the coordinates of all traces; 0, which is not set, counts as length."""
    units = np.where(values == 0, _LENGTH, values).astype(int)
    wrong = np.flatnonzero(~np.isin(units, (_LENGTH, _ARC_SECONDS, _DEGREES)) | (units != units[0]))
    if wrong.size:
        got = f"trace {traces[wrong[0]]}: the unit of coordinates (bytes 89-90) is {units[wrong[0]]}"
        if units[wrong[0]] in (_LENGTH, _ARC_SECONDS, _DEGREES):
            got += f", that of trace {traces[0]} is {units[0]}"
        allowed = "allowed: 1 (length), 2 (seconds of arc) or 3 (degrees), the same in all traces"
        raise InputError(_WHAT, got, allowed, file=path)
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
            raise InputError(_WHAT, got, allowed, "check the scalar, bytes 71-72", file=geometry.path)


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
    return InputError(_WHAT, got, "no offset (bytes 37-40) confirms this position", hint, file=geometry.path)


def _checked_notes(geometry: SegyGeometry, headers: dict[str, np.ndarray], auxiliary: int, system: int) -> list[str]:
    """Return notes on the geometry; refuse coordinates that are probably wrong."""
    path, traces = geometry.path, geometry.traces
    notes = [f"{auxiliary} auxiliary traces were omitted"] if auxiliary else []
    unscaled = np.flatnonzero(headers["SourceGroupScalar"] == 0.0)
    if unscaled.size and not _confirmed(geometry):
        got = f"trace {traces[unscaled[0]]}: the scalar of coordinates (bytes 71-72) is 0"
        allowed = "0 means 1, which is accepted only if offsets (bytes 37-40) agree with the positions"
        raise InputError(_WHAT, got, allowed, "write the scalar, 1 or -100 for example", file=path)
    given = geometry.offsets != 0.0
    wrong = np.flatnonzero(given & ~_offsets_agree(geometry))
    if wrong.size:
        distances = _distances(geometry)
        index = int(wrong[0])
        text = f"offset {geometry.offsets[index]:.12g} m (bytes 37-40), positions {distances[index]:.6g} m apart"
        ratio = np.median(distances[given] / np.abs(geometry.offsets[given]))
        if not 0.5 < ratio < 2.0:
            hint = "check the scalar (bytes 71-72) and the unit (bytes 89-90) of the coordinates"
            raise InputError(_WHAT, f"trace {traces[index]}: {text}", "both must agree", hint, file=path)
        count = f"{wrong.size} of {len(traces)} offsets"
        notes.append(f"{count} disagree with the positions: trace {traces[index]}, {text}")
    if system not in (1, _FEET):
        notes.append("the binary header states no measurement system; lengths were taken as m")
    return notes
