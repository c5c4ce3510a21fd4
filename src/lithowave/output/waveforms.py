"""Seismograms in the formats of seismology: MiniSEED, SAC, ObsPy Streams, and text of SPECFEM.

Files of SPECFEM, ``NET.STA.CHA.semd``, contain the time after the origin time, s, and the value. The other formats are
written through ObsPy.

Channel codes are ``bXE``, ``bXN``, ``bXZ``: the band letter b for the sampling rate (SEED manual, appendix A; FDSN
source identifiers 1.0), X for a synthetic ("derived") instrument, and the direction. These formats do not support
stresses and pressure, which are stored in ``seismograms.h5`` only. Samples are not rescaled: m, m/s or m/s^2. E
and N are along the axes of `Seismograms.geographic`, which only SAC headers state.

Records start at t = 0, which may be before the origin time (`Seismograms.origin_delay`). A run whose event has no
date starts at 1970-01-01T00:00:00, so that the time of a sample is the seconds since then.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lithowave.errors import InputError, MissingPackageError, OutputError, require_package
from lithowave.globe_coordinates import RADIUS
from lithowave.output import files
from lithowave.output.attributes import chunk_map, to_geographic
from lithowave.output.geometry import azimuth, epicentral_distance, radial_direction

if TYPE_CHECKING:
    from obspy import Stream, UTCDateTime

    from lithowave.description.receivers import Receiver
    from lithowave.json_types import Entries
    from lithowave.output.geometry import SeismogramArrays


_NAME = re.compile(r"([^.]+)\.([^.]+)\.([A-Z0-9]+)\.sem([dva]?)(\.ascii)?", re.IGNORECASE)
_QUANTITIES = {"d": "displacement", "": "displacement", "v": "velocity", "a": "acceleration"}
_COMPONENTS = {"X": "E", "Y": "N"}
"""Components in the axes of a Cartesian mesh, x East and y North."""

_UNEVEN = 0.1
"""Largest distance of a time from even sampling, as a fraction of the interval: times are written with few digits."""


def specfem_name(path: Path) -> tuple[str, str, str, str] | None:
    """Return network, station, channel and quantity from the name of a file of SPECFEM; None for other names."""
    match = _NAME.fullmatch(path.name)
    if match is None:
        return None
    network, station, channel = match[1], match[2], match[3].upper()
    channel = channel[:-1] + _COMPONENTS.get(channel[-1], channel[-1])
    return network, station, channel, _QUANTITIES[match[4].lower()]


def read_specfem_samples(path: Path) -> tuple[float, float, np.ndarray]:
    """Return the time of the first sample after the origin time, s, the sampling interval, s, and the samples.

    InputError : the file does not have two columns of numbers, or its times are not evenly spaced.
    """
    expected = "expected two columns: time in s, and value"
    try:
        table = np.loadtxt(path, dtype=float, ndmin=2, encoding="utf-8-sig")
    except (ValueError, OSError) as error:
        raise InputError(str(path), f"cannot be read as seismogram of SPECFEM: {error}", expected) from None
    if table.shape[1:] != (2,) or len(table) < 2 or not np.isfinite(table[:, 0]).all():
        raise InputError(str(path), f"has {table.shape[0]} rows of {table.shape[1]} numbers", expected)
    time = table[:, 0]
    interval = float(time[-1] - time[0]) / (len(time) - 1)
    if not interval > 0.0 or np.abs(time - time[0] - interval * np.arange(len(time))).max() > _UNEVEN * interval:
        raise InputError(str(path), "the times are not evenly spaced", "expected a constant sampling interval")
    return float(time[0]), interval, table[:, 1]


# Minimum sampling rate (Hz) of each band letter, in the variant with a corner period of 10 s or more.
BANDS = (
    (5000.0, "J"), (1000.0, "F"), (250.0, "C"), (80.0, "H"), (10.0, "B"), (1.001, "M"), (0.999, "L"), (0.1, "V"),
    (0.01, "U"), (0.001, "W"),
)  # fmt: skip
SLOWEST_BAND = "R"

# format: (longest network code, station code, location code); a trace of SEG-Y has a number instead of a name
NAME_LIMITS = {"miniseed": (2, 5, 2), "sac": (8, 8, 8), "asdf": (2, 5, 2)}
FORMAT_NAMES = {"miniseed": "MiniSEED", "sac": "SAC", "segy": "SEG-Y", "asdf": "ASDF"}
PACKAGES = {"miniseed": "obspy", "sac": "obspy", "segy": "segyio"}
SAC_QUANTITY = {"displacement": "idisp", "velocity": "ivel", "acceleration": "iacc"}
SAC_ORIENTATION = {"E": (90.0, 90.0), "N": (0.0, 90.0), "Z": (0.0, 0.0)}


def band_letter(sampling_interval: float) -> str:
    """Return the band letter of a channel with this sampling interval, s: B from 10 Hz, H from 80 Hz, ..."""
    # The rate computed from an interval such as 0.1 s may be below the limit by round-off.
    rate = (1.0 + 1e-9) / sampling_interval
    return next((letter for lowest, letter in BANDS if rate >= lowest), SLOWEST_BAND)


def channel_codes(sampling_interval: float) -> tuple[str, str, str]:
    """Return the channel codes of E, N and Z, for example ``("HXE", "HXN", "HXZ")`` at 100 Hz."""
    band = band_letter(sampling_interval)
    return (f"{band}XE", f"{band}XN", f"{band}XZ")


def require_packages(formats: Sequence[str], *, replaceable: bool = True) -> None:
    """Raise MissingPackageError if a package that writes one of these formats is not installed.

    replaceable : True if the command line can replace the formats, which the error then states.
    """
    packages = {name: PACKAGES[name] for name in formats if name in PACKAGES}
    missing = [name for name in packages if find_spec(packages[name]) is None]
    if missing:
        others = ", ".join(name for name in formats if name not in missing)
        purpose, without = f"Writing {FORMAT_NAMES[missing[0]]}", f"--set 'output.formats=[{others}]'"
        raise MissingPackageError(packages[missing[0]], purpose, "formats", without if replaceable else "")


def check_names(receivers: Sequence[Receiver], formats: Sequence[str]) -> None:
    """Refuse receivers and formats, before a run, that could not be written after it.

    Parameters
    ----------
    receivers : objects with `network`, `station` and `where` (their key in the description).
    formats : ``miniseed``, ``sac``, ``segy``, ``asdf``.

    Raises
    ------
    InputError : codes are too long or contain characters that a format does not support; one error lists all.
    MissingPackageError : ObsPy or segyio, which writes a requested format, is not installed.
    """
    named = [name for name in formats if name in NAME_LIMITS]
    problems = [problem for name in named for receiver in receivers for problem in _name_problems(receiver, name)]
    if problems:
        first, others = problems[0], problems[1:]
        raise InputError(first.where, first.got, first.allowed, first.hint, others=others)
    require_packages(formats)


def _name_problems(receiver: Receiver, format_name: str) -> Iterator[InputError]:
    limits = dict(zip(("network", "station", "location"), NAME_LIMITS[format_name], strict=True))
    title = FORMAT_NAMES[format_name]
    for kind, limit in limits.items():
        code = str(getattr(receiver, kind, ""))
        got = ""
        if len(code) > limit:
            got = f"{kind} {code!r} has {len(code)} characters"
        elif any(not (letter.isascii() and (letter.isalnum() or letter in "-_")) for letter in code):
            got = f"{kind} {code!r} contains a character that is not a letter or digit"
        if got:
            allowed = f"allowed in {title}: at most {limit} ASCII letters or digits for a {kind}"
            yield InputError(receiver.where, got, allowed, f"change it, or omit {format_name} from output.formats")


def _start_time(seismograms: SeismogramArrays) -> UTCDateTime:
    from obspy import UTCDateTime

    return UTCDateTime(seismograms.start_time) if seismograms.start_time else UTCDateTime(0)


def to_stream(seismograms: SeismogramArrays) -> Stream:
    """Return all traces as an ObsPy Stream, receiver by receiver, E, N, Z; the data are shared, not copied.

    Traces of a run that is not complete have ``stats.lithowave.complete`` False.

    Raises
    ------
    MissingPackageError : ObsPy is not installed.
    """
    require_package("obspy", "A Stream", "formats")
    from obspy import Stream, Trace

    channels = channel_codes(seismograms.sampling_interval)
    start = _start_time(seismograms)
    stream = Stream()
    codes = zip(seismograms.networks, seismograms.stations, seismograms.locations, strict=True)
    for index, (network, station, location) in enumerate(codes):
        for component, channel in enumerate(channels):
            header = {
                "network": network,
                "station": station,
                "location": location,
                "channel": channel,
                "delta": seismograms.sampling_interval,
                "starttime": start,
            }
            if seismograms.shortfall:
                header["lithowave"] = {"complete": False, "shortfall": seismograms.shortfall}
            stream.append(Trace(seismograms.data[index, component], header))
    return stream


def write_miniseed(seismograms: SeismogramArrays, directory: str | Path) -> list[Path]:
    """Write one file ``NET.STA.mseed`` with three traces per receiver; return the files.

    Raises
    ------
    MissingPackageError : ObsPy is not installed.
    OutputError : no sample has been recorded yet, or the disk is full.
    """
    require_package("obspy", "Writing MiniSEED", "formats")
    stream = to_stream(seismograms)
    folder = _prepare(seismograms, directory)
    paths = []
    for index, name in enumerate(seismograms.names):
        path = folder / f"{name}.mseed"
        # Files are written through memory, since ObsPy loses errors of the file system.
        content = BytesIO()
        stream[3 * index : 3 * index + 3].write(content, format="MSEED")
        paths.append(_store(path, content))
    return paths


def write_sac(seismograms: SeismogramArrays, directory: str | Path) -> list[Path]:
    """Write one file ``NET.STA.CHA.sac`` per component, with a location code ``NET.STA.LOC.CHA.sac``; return the files.

    Headers: the reference time is that of the first sample (SAC resolves 1 ms; `b` holds the rest), `o` is the origin
    time of the event relative to it (undefined if unknown), `delta`, `cmpaz` (degrees from true North), `cmpinc`
    (degrees from vertical), `stdp` (m below the surface), `evdp` (km below the surface), `mag` (Mw). With a geographic
    origin `stla`, `stlo`, `evla`, `evlo` (SAC derives distances from them); without, `dist` (km), `az` and `baz`
    (degrees) of the plane. In a chunk of the globe, `dist`, `az`, `baz` and `gcarc` (degrees)
    are those of its sphere. `user0` to `user2` are the receiver's x, y, z and `user3` to `user5` the source's (m), if
    there is a source. `kuser0` is ``PARTIAL`` if the run is not complete.

    Raises
    ------
    MissingPackageError : ObsPy is not installed.
    OutputError : no sample has been recorded yet, or the disk is full.
    """
    require_package("obspy", "Writing SAC", "formats")
    from obspy.io.sac import SACTrace

    folder = _prepare(seismograms, directory)
    event, places = _sac_event(seismograms), _sac_places(seismograms)
    north = seismograms.north_azimuth.tolist()
    paths = []
    codes = zip(seismograms.networks, seismograms.stations, seismograms.locations, strict=True)
    for index, (network, station, location) in enumerate(codes):
        for component, channel in enumerate(channel_codes(seismograms.sampling_interval)):
            cmpaz, cmpinc = SAC_ORIENTATION[channel[-1]]
            cmpaz = (cmpaz + north[index]) % 360.0 if cmpinc else cmpaz
            trace = SACTrace(
                data=np.asarray(seismograms.data[index, component], dtype=np.float32),
                delta=seismograms.sampling_interval, knetwk=network, kstnm=station,
                **({"khole": location} if location else {}), kcmpnm=channel, cmpaz=cmpaz, cmpinc=cmpinc,
                idep=SAC_QUANTITY[seismograms.quantity], **({"kuser0": "PARTIAL"} if seismograms.shortfall else {}),
                **event, **places[index],
            )  # fmt: skip
            path = folder / f"{seismograms.names[index]}.{channel}.sac"
            content = BytesIO()
            trace.write(content)
            paths.append(_store(path, content))
    return paths


def _prepare(seismograms: SeismogramArrays, directory: str | Path) -> Path:
    if len(seismograms) and not len(seismograms.time):
        raise OutputError(f"{directory}: nothing to write: no sample has been recorded yet.")
    folder = Path(directory)
    with files.writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def _store(path: Path, content: BytesIO) -> Path:
    with files.writing(path):
        try:
            path.write_bytes(content.getbuffer())
        except OSError:
            path.unlink(missing_ok=True)
            raise
    return path


def _sac_event(seismograms: SeismogramArrays) -> Entries:
    start = _start_time(seismograms)
    microseconds = start.microsecond % 1000
    header: Entries = {
        "nzyear": start.year,
        "nzjday": start.julday,
        "nzhour": start.hour,
        "nzmin": start.minute,
        "nzsec": start.second,
        "nzmsec": start.microsecond // 1000,
        "b": microseconds * 1e-6,
    }
    if seismograms.origin_delay is not None:
        header["o"] = microseconds * 1e-6 + seismograms.origin_delay
    if not microseconds:  # SAC: the reference time is the origin time (o = 0), or the time of the first sample (b = 0)
        header["iztype"] = "io" if header.get("o") == 0.0 else "ib"
    sources = seismograms.sources
    if sources.centroid is None:
        return header
    x, y, z = sources.centroid
    header.update(user3=x, user4=y, user5=z, evdp=(0.0 - z) / 1000.0)
    if sources.moment_magnitude is not None:
        header["mag"] = sources.moment_magnitude
    if seismograms.geographic_origin is not None:
        header["evlo"], header["evla"] = to_geographic(x, y, seismograms.geographic_origin)
    return header


def _sac_places(seismograms: SeismogramArrays) -> list[Entries]:
    """Return the headers with the position of each receiver."""
    headers: list[Entries] = [
        {"user0": x, "user1": y, "user2": z, "stdp": 0.0 - z, "lcalda": False} for x, y, z in seismograms.positions
    ]
    origin = seismograms.geographic_origin
    if origin is not None:
        x, y = seismograms.positions[:, :2].T
        places = to_geographic(x, y, origin)
        for header, longitude, latitude in zip(headers, *places, strict=True):
            header.update(stlo=longitude, stla=latitude, lcalda=True)
    chunk = chunk_map(origin)
    if seismograms.sources.centroid is not None and (origin is None or chunk is not None):
        # SAC computes distances on an ellipsoid only: those of a plane and of a sphere are stored.
        distances = epicentral_distance(seismograms)
        ways = zip(headers, distances, azimuth(seismograms), radial_direction(seismograms), strict=True)
        for header, distance, forth, onward in ways:
            header.update(lcalda=False, dist=distance / 1e3, az=forth, baz=(onward + 180.0) % 360.0)
            header |= {} if chunk is None else {"gcarc": np.degrees(distance / RADIUS)}
    return headers
