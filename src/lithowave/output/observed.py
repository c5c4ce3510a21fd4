"""Observed seismograms: MiniSEED, SAC, SEG-Y and other files of seismograms, ASDF, text of SPECFEM, and ObsPy Streams.

Nothing is filled in: samples in gaps are NaN, so that a comparison can refuse them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

from lithowave.errors import InputError, MissingPackageError, OutputError, require_package
from lithowave.output.files import DAMAGE
from lithowave.output.waveforms import read_specfem_samples, specfem_name
from lithowave.readers.budget import ExpandedSize
from lithowave.readers.foreign_formats import (
    HEAD_BYTES,
    NAMES,
    is_hdf5,
    open_hdf5,
    open_shared,
    read_dataset,
    require_heaps,
    waveform_format,
)

if TYPE_CHECKING:
    from obspy import Trace

RUN_FILES = ("seismograms.h5", "run.json", "simulation.yaml")
_EXPECTED = f"expected {NAMES} or ASDF"
_NANOSECONDS = 1_000_000_000
_JOINT = 0.1
"""Fraction of the sampling interval by which the start of a trace may differ from the end of the one before."""


@dataclass(frozen=True, eq=False)
class ObservedTrace:
    """Samples of one channel at a constant sampling interval.

    start : time of the first sample, integer nanoseconds since 1970-01-01 UTC. interval : s. data : (n_samples,)
    float64; NaN where the file marks samples as missing. after_origin : True if start is relative to the origin time
    instead. quantity : of the data, empty if the file does not state it.
    """

    network: str
    station: str
    location: str
    channel: str
    start: int
    interval: float
    data: np.ndarray
    after_origin: bool = False
    quantity: str = ""

    @property
    def code(self) -> str:
        """``NET.STA.LOC.CHA``."""
        return f"{self.network}.{self.station}.{self.location}.{self.channel}"

    def seconds_from(self, time: int) -> tuple[float, float]:
        """Return the times, s, of the first and the last sample after a time in nanoseconds."""
        first = (self.start - time) / _NANOSECONDS
        return first, first + (len(self.data) - 1) * self.interval


def is_observed(path: str | Path) -> bool:
    """True if a path is a file or folder of observed seismograms, False if it is a run folder or its seismograms."""
    path = Path(path)
    if path.is_dir():
        return not any((path / name).exists() for name in RUN_FILES) and any(path.iterdir())
    return path.is_file() and (path.name != RUN_FILES[0] if path.suffix != ".h5" else is_asdf(path))


def is_asdf(path: Path) -> bool:
    """True if an HDF5 file states the format ASDF."""
    try:
        require_heaps(path)
        with open_shared(path) as file:
            return _text(file.attrs.get("file_format", b"")) == "ASDF"
    except DAMAGE:
        return False


def nanoseconds(text: str) -> int:
    """Return a UTC time in ISO 8601 text as nanoseconds since 1970.

    Raises
    ------
    ValueError : the text is not a time.
    """
    moment = datetime.fromisoformat(text)
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86400 + since.seconds) * _NANOSECONDS + since.microseconds * 1000


def read_observed(source: str | Path | Iterable[Trace]) -> tuple[list[ObservedTrace], list[str]]:
    """Return all traces, sorted by code and time, and notes on files that were not read.

    Parameters
    ----------
    source : a file, a folder (all its files and those of its subfolders), or an ObsPy Stream.

    Raises
    ------
    InputError : no file contains seismograms. OutputError : an ASDF file is damaged.
    MissingPackageError : ObsPy is required and not installed.
    """
    notes: list[str] = []
    if not isinstance(source, (str, Path)):
        traces = list(_from_stream(source))
    else:
        path = Path(source)
        files = sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]
        traces = []
        for file in files:
            traces += _from_file(file, notes, alone=not path.is_dir())
    if not traces:
        raise InputError(str(source), "contains no seismograms", _EXPECTED, " ".join(notes[:3]))
    return sorted(traces, key=lambda trace: (trace.code, trace.start)), notes


def _from_file(path: Path, notes: list[str], alone: bool) -> list[ObservedTrace]:
    if (codes := specfem_name(path)) is not None:
        network, station, channel, quantity = codes
        start, interval, data = read_specfem_samples(path)
        nanosecond = round(start * _NANOSECONDS)
        return [ObservedTrace(network, station, "", channel, nanosecond, interval, data, True, quantity)]
    if is_hdf5(path):
        if is_asdf(path):
            return list(_from_asdf(path))
        reason = "is an HDF5 file, but not ASDF"
    else:
        try:
            with path.open("rb") as file:
                kind = waveform_format(file.read(HEAD_BYTES))
                if kind is not None:
                    return list(_from_stream(_read_stream(file, kind, path)))
                reason = "is damaged, or not a file of seismograms: its format is unknown"
        except MissingPackageError:
            raise
        except Exception as error:  # readers of ObsPy raise errors of any class
            reason = f"is damaged, or not a file of seismograms ({type(error).__name__}: {error})"
    if alone:
        hint = "read other formats with ObsPy and pass the Stream to lithowave.compare_data"
        raise InputError(str(path), reason, _EXPECTED, hint)
    notes.append(f"{path.name} was not read: it {reason}.")
    return []


def _read_stream(file: IO[bytes], kind: str, path: Path) -> Iterable[Trace]:
    """Return the ObsPy Stream of an open file of a known format.

    ObsPy would expand wildcards in a name, unpack archives and try formats that execute code from the file.
    """
    require_package("obspy", f"Reading {path}", "formats")
    from obspy import read

    file.seek(0)
    return read(file, format=kind)


def _from_stream(stream: Iterable[Trace]) -> Iterator[ObservedTrace]:
    for trace in stream:
        stats = trace.stats
        data: np.ndarray = np.ma.filled(np.ma.asarray(trace.data, dtype=float), np.nan)
        if len(data):
            yield ObservedTrace(
                str(stats.network), str(stats.station), _location(stats.location), str(stats.channel),
                int(stats.starttime.ns), float(stats.delta), data,
            )  # fmt: skip


def _from_asdf(path: Path) -> Iterator[ObservedTrace]:
    """Yield the waveforms of an ASDF file: /Waveforms/NET.STA/NET.STA.LOC.CHA__START__END__TAG."""
    size = ExpandedSize(path)
    try:
        with open_hdf5(path) as file:
            for group in file["Waveforms"].values():
                for name, dataset in group.items():
                    codes = name.split("__")[0].split(".")
                    if name == "StationXML" or len(codes) != 4:
                        continue
                    network, station, location, channel = codes
                    rate, start = float(dataset.attrs["sampling_rate"]), int(dataset.attrs["starttime"])
                    data = np.asarray(read_dataset(dataset, size), dtype=float)
                    if len(data):
                        yield ObservedTrace(network, station, _location(location), channel, start, 1.0 / rate, data)
    except DAMAGE as error:
        raise OutputError(f"{path}: is damaged or not an ASDF file: {error}") from error


def _location(code: object) -> str:
    text = str(code or "").strip()
    return "" if text == "--" else text


def _text(value: object) -> str:
    return value.decode("ascii", "replace").rstrip("\0 ") if isinstance(value, bytes) else str(value)


def joined(traces: list[ObservedTrace]) -> ObservedTrace | str:
    """Return the traces of one channel, in the order of their start, as one trace with NaN in gaps; or a clause that
    states why they cannot be joined."""
    first, *others = traces
    data, count = [first.data], len(first.data)
    for trace in others:
        if abs(trace.interval - first.interval) > 1e-6 * first.interval:
            return f"its traces have different sampling intervals, {first.interval:g} and {trace.interval:g} s"
        position = (trace.start - first.start) / _NANOSECONDS / first.interval
        index = round(position)
        if index < count:
            return "its traces overlap"
        if abs(position - index) > _JOINT:
            return "its traces are not on one time axis"
        data += [np.full(index - count, np.nan), trace.data]
        count = index + len(trace.data)
    return replace(first, data=np.concatenate(data))
