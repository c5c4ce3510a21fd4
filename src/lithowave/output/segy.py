"""Seismograms in SEG-Y, the format of exploration seismology: revision 1, IEEE floats, through segyio.

One file for each component, with one trace for each receiver in the order of the description: ``velocity_E.segy``,
``velocity_N.segy``, ``velocity_Z.segy``, and ``pressure.segy`` where pressure was recorded. Samples are not rescaled:
m, m/s, m/s^2 or Pa. Coordinates are the local x, y, z in the finest of millimeters, centimeters, decimeters and meters
that the header can hold. All sources of a run count as one shot at their centroid.
"""

from __future__ import annotations

import errno
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from lithowave.errors import InputError, OutputError, require_package
from lithowave.output import files
from lithowave.output.attributes import chunk_map
from lithowave.output.seismograms import Seismograms
from lithowave.readers.segy import LARGEST, interval_problem, microseconds
from lithowave.version import __version__

IEEE_FLOAT = 5
METRES, AS_RECORDED, TIME_IN_UTC = 1, 1, 4
# trace identification codes of revision 1; x (East) is taken as in-line
COMPONENT_CODES = {"E": 14, "N": 13, "Z": 12}
PRESSURE_CODE = 11
UNIT_CODES = {"Pa": 1, "m": 5, "m/s": 6, "m/s^2": 7}
HEADER_BYTES, TRACE_HEADER_BYTES, SAMPLE_BYTES = 3600, 240, 4
LARGEST_COORDINATE = 2**31 - 1
LINE_LENGTH = 76


def write_segy(seismograms: Seismograms, directory: str | Path) -> list[Path]:
    """Write one file per component, ``velocity_E.segy`` ..., and ``pressure.segy``; return the files.

    Trace headers: coordinates of receiver and source, elevations (z) and source depth (below z = 0), horizontal offset
    in m, sample count and interval, trace identification code (12 vertical, 13 North, 14 East, 11 pressure), unit of
    the samples, and the date of t = 0 where it is known.

    Raises
    ------
    MissingPackageError : segyio is not installed.
    InputError : the sampling interval is not an integer number of microseconds, or there are too many samples.
    OutputError : no sample has been recorded yet, or the disk is full.
    """
    require_package("segyio", "Writing SEG-Y", "formats")
    if not len(seismograms):
        return []
    if not len(seismograms.time):
        raise OutputError(f"{directory}: nothing to write: no sample has been recorded yet.")
    problem = interval_problem(seismograms.sampling_interval, len(seismograms.time))
    if problem:
        raise InputError("output.sampling_interval", *problem)
    folder = Path(directory)
    with files.writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    headers = _trace_headers(seismograms)
    paths = []
    for index, (component, code) in enumerate(COMPONENT_CODES.items()):
        path = folder / f"{seismograms.quantity}_{component}.segy"
        what = f"{seismograms.quantity.upper()}, COMPONENT {component}"
        _write(path, seismograms, seismograms.data[:, index], headers, what, code, seismograms.units)
        paths.append(path)
    if seismograms.pressure is not None:
        path = folder / "pressure.segy"
        _write(path, seismograms, seismograms.pressure, headers, "PRESSURE", PRESSURE_CODE, "Pa")
        paths.append(path)
    return paths


def _write(
    path: Path,
    seismograms: Seismograms,
    traces: np.ndarray,
    headers: list[dict[int, int]],
    what: str,
    code: int,
    unit: str,
) -> None:
    import segyio
    from segyio import BinField, TraceField

    count, samples = traces.shape
    spec = segyio.spec()
    spec.format, spec.tracecount, spec.samples = IEEE_FLOAT, count, np.arange(samples)
    own = {TraceField.TraceIdentificationCode: code, TraceField.TraceValueMeasurementUnit: UNIT_CODES[unit]}
    interval = microseconds(seismograms.sampling_interval)
    with files.writing(path):
        try:
            with segyio.create(str(path), spec) as file:
                file.text[0] = segyio.tools.create_text_header(_text(seismograms, what, unit))
                file.bin = {
                    BinField.Traces: min(count, LARGEST),
                    BinField.AuxTraces: 0,
                    BinField.Interval: interval,
                    BinField.IntervalOriginal: interval,
                    BinField.Samples: samples,
                    BinField.SamplesOriginal: samples,
                    BinField.Format: IEEE_FLOAT,
                    BinField.EnsembleFold: 1,
                    BinField.SortingCode: AS_RECORDED,
                    BinField.MeasurementSystem: METRES,
                    BinField.SEGYRevision: 1,
                    BinField.SEGYRevisionMinor: 0,
                    BinField.TraceFlag: 1,
                }
                for index, header in enumerate(headers):
                    file.header[index] = {**header, **own}
                    file.trace[index] = np.ascontiguousarray(traces[index], dtype=np.float32)
            # The library may lose an error when it closes the file.
            if path.stat().st_size != HEADER_BYTES + count * (TRACE_HEADER_BYTES + SAMPLE_BYTES * samples):
                raise OSError(errno.ENOSPC, "not all of it could be written")
        except OSError:
            path.unlink(missing_ok=True)
            raise


def _trace_headers(seismograms: Seismograms) -> list[dict[int, int]]:
    """Return the header entries that all components share, one dictionary per receiver."""
    from segyio import TraceField as Field

    source = seismograms.sources.centroid
    centroid = np.zeros(3) if source is None else np.asarray(source, dtype=float)
    places = np.asarray(seismograms.positions, dtype=float)
    across, vertical = (
        coordinate_divisor(np.vstack([places, centroid])[:, part]) for part in (slice(0, 2), slice(2, 3))
    )
    offsets = np.zeros(len(places)) if source is None else np.hypot(*(places - centroid)[:, :2].T)
    common = {
        Field.FieldRecord: 1,
        Field.EnergySourcePoint: 1,
        Field.DataUse: 1,
        Field.ElevationScalar: scalar(vertical),
        Field.SourceGroupScalar: scalar(across),
        Field.SourceX: round(centroid[0] * across),
        Field.SourceY: round(centroid[1] * across),
        Field.SourceDepth: round(-centroid[2] * vertical),
        Field.CoordinateUnits: METRES,
        Field.TRACE_SAMPLE_COUNT: len(seismograms.time),
        Field.TRACE_SAMPLE_INTERVAL: microseconds(seismograms.sampling_interval),
        **_date(seismograms.start_time),
    }
    return [
        {
            **common,
            Field.TRACE_SEQUENCE_LINE: number,
            Field.TRACE_SEQUENCE_FILE: number,
            Field.TraceNumber: number,
            Field.offset: round(offset),
            Field.ReceiverGroupElevation: round(z * vertical),
            Field.GroupX: round(x * across),
            Field.GroupY: round(y * across),
        }
        for number, ((x, y, z), offset) in enumerate(zip(places, offsets, strict=True), 1)
    ]


def coordinate_divisor(values: np.ndarray) -> int:
    """Return 1000, 100, 10 or 1, by which coordinates in m are multiplied to obtain the integers of a header."""
    largest = float(np.abs(values).max())
    return next((divisor for divisor in (1000, 100, 10) if largest * divisor <= LARGEST_COORDINATE), 1)


def scalar(divisor: int) -> int:
    """Return the scalar of a header for a divisor: negative, since readers divide by it; 1 for no scaling."""
    return -divisor if divisor > 1 else 1


def _date(start_time: str | None) -> dict[int, int]:
    """Return the headers for the date of t = 0, to the second; empty if it is unknown."""
    from segyio import TraceField as Field

    if not start_time:
        return {}
    moment = datetime.fromisoformat(start_time)
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return {
        Field.YearDataRecorded: moment.year,
        Field.DayOfYear: moment.timetuple().tm_yday,
        Field.HourOfDay: moment.hour,
        Field.MinuteOfHour: moment.minute,
        Field.SecondOfMinute: moment.second,
        Field.TimeBaseCode: TIME_IN_UTC,
    }


def _text(seismograms: Seismograms, what: str, unit: str) -> dict[int, str]:
    """Return the lines of the textual header by number."""
    interval = microseconds(seismograms.sampling_interval)
    start = seismograms.start_time
    lines = [
        f"SYNTHETIC SEISMOGRAMS, LITHOWAVE {__version__}",
        f"TITLE: {seismograms.title}",
        f"{what}, UNIT {unit}; IEEE FLOATS, NOT RESCALED",
        f"{len(seismograms)} TRACES OF {len(seismograms.time)} SAMPLES, INTERVAL {interval} MICROSECONDS",
        f"T = 0 IS THE FIRST SAMPLE: {f'{start} UTC' if start else 'ITS DATE IS NOT KNOWN'}",
        "ONE TRACE A RECEIVER, IN THE ORDER OF THE DESCRIPTION AND OF SEISMOGRAMS.H5",
        "COMPONENTS: E (EAST, X, IN-LINE, CODE 14), N (NORTH, Y, CROSS-LINE, CODE 13),",
        "            Z (UP, VERTICAL, CODE 12); POSITIVE EAST, NORTH AND UP",
        "COORDINATES: LOCAL X (EAST), Y (NORTH) IN METRES WITH THE SCALAR OF BYTES 71-72",
        "ELEVATIONS: Z (UP) IN METRES WITH THE SCALAR OF BYTES 69-70; DEPTH BELOW Z = 0",
        "SOURCE: ALL SOURCES OF THE RUN AT THEIR CENTROID; OFFSET: HORIZONTAL, METRES",
    ]
    if seismograms.geographic_origin is not None:
        longitude, latitude = seismograms.geographic_origin[:2]
        lines.append(f"X = Y = 0 IS LONGITUDE {longitude:z.6f}, LATITUDE {latitude:z.6f} (WGS 84),")
        lines.append("            TRANSVERSE MERCATOR ABOUT IT WITH SCALE 1")
        lines.append(f"EAST AND NORTH OF COMPONENTS: {_axes(seismograms)}")
    if seismograms.origin_delay is not None:
        lines.append(f"THE ORIGIN TIME IS T = {seismograms.origin_delay:.12g} S")
    if seismograms.shortfall:
        lines.append(seismograms.shortfall.upper())
    named = {number: _plain(line) for number, line in enumerate(lines, 1)}
    return {**named, 39: "SEG Y REV1", 40: "END TEXTUAL HEADER"}


def _axes(seismograms: Seismograms) -> str:
    """Return the axes of the components of all receivers."""
    if seismograms.geographic.all() or chunk_map(seismograms.geographic_origin) is not None:
        return "TRUE EAST AND NORTH"
    return "TRUE OR X, Y, BY RECEIVER" if seismograms.geographic.any() else "X AND Y OF THE GRID"


def _plain(line: str) -> str:
    """Return a line that the header can contain: ASCII, of its length."""
    return line.encode("ascii", "replace").decode("ascii")[:LINE_LENGTH]
