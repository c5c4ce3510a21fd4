"""Seismograms: written in blocks during the run, and read as arrays or as an ObsPy Stream.

Layout of ``seismograms.h5`` (float32 in single precision, float64 in double)::

    /                       attributes (see attributes.py) and: format_version, quantity, units,
                            sampling_interval (s), sample_count, complete (1 after the end of the run, else 0)
    /samples_written        number of complete samples, updated after each block
    /time                   (n_samples,)                s, from 0
    /motion                 (n_receivers, 3, n_samples) E, N, Z
    /stress                 (n_receivers, 6, n_samples) Pa, xx, yy, zz, xy, xz, yz; if requested
    /pressure               (n_receivers, n_samples)    Pa; if requested
    /strain                 (n_receivers, 6, n_samples) 1, xx, yy, zz, xy, xz, yz; if requested
    /receivers/network, station, location, name, position (n_receivers, 3) m
    /sources/name, position (n, 3) m, moment (n, 6) N m, force (n, 3) N, onset (n,) s
    /receivers, sources/geographic (n,) 1 if components are along true East and North, 0 if along x and y; and
    /receivers, sources/convergence (n,) degrees, azimuth of y: both in a projection only

Only the first ``samples_written`` samples have been computed; the rest of the arrays is preallocated.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lithowave.errors import InputError, OutputError, issue_warning
from lithowave.labels import receiver_name
from lithowave.output import files
from lithowave.output.attributes import (
    COMPONENTS,
    TENSOR_COMPONENTS,
    UNITS,
    SourceTable,
    completed,
    convergence,
    geographic_origin,
    is_projected,
    read_attributes,
    write_attributes,
)
from lithowave.output.geometry import FINISHED, SeismogramArrays
from lithowave.output.results import data_frame, seismogram_dataset, seismogram_rows
from lithowave.output.run_folder import state_in_words

if TYPE_CHECKING:
    import h5py
    import numpy.typing as npt
    from obspy import Stream
    from pandas import DataFrame
    from xarray import Dataset

    from lithowave.description.receivers import Receiver
    from lithowave.description.sources import PointSource
    from lithowave.json_types import ReadEntries

FILE_NAME = "seismograms.h5"
INCOMPLETE = {"complete": np.uint8(0)}  # attribute of the file of a run that has not ended
_AXES = {"geographic", "convergence"}
QUANTITIES = ("displacement", "velocity", "acceleration")


class SeismogramWriter(files.DatasetWriter):
    """Writer of the samples of all receivers to one HDF5 file, which is readable after every block.

    Parameters
    ----------
    path : the file; an existing file is replaced.
    receivers : objects with `network`, `station`, `position` (x, y, z in m) and, optionally, `location`.
    sampling_interval : s; sample k is at time k * sampling_interval.
    sample_count : number of samples of the complete run, for which space is allocated now.
    quantity : ``displacement``, ``velocity`` or ``acceleration``.
    stress, pressure, strain : True if the file contains them.
    attributes : see `attributes.standard_attributes`; default values replace missing ones.
    sources : objects with `name`, `position`, `moment` and `force`, for figures and headers.
    precision : ``single`` (float32) or ``double`` (float64).

    Raises
    ------
    OutputError : the disk lacks space for all samples, or the file cannot be written.
    """

    kind = "a lithowave seismogram file"

    def __init__(
        self,
        path: str | Path,
        receivers: Sequence[Receiver],
        sampling_interval: float,
        sample_count: int,
        quantity: str,
        stress: bool = False,
        pressure: bool = False,
        attributes: ReadEntries | None = None,
        *,
        sources: Iterable[PointSource] = (),
        precision: str = "single",
        strain: bool = False,
    ) -> None:
        if quantity not in QUANTITIES:
            raise InputError("output.quantity", repr(quantity), f"one of {', '.join(QUANTITIES)}")
        self.path = Path(path)
        dtype = np.dtype(files.PRECISIONS[precision])
        receiver_count = len(receivers)
        shapes: dict[str, tuple[int, ...]] = {"motion": (receiver_count, 3, sample_count)}
        if stress:
            shapes["stress"] = (receiver_count, 6, sample_count)
        if pressure:
            shapes["pressure"] = (receiver_count, sample_count)
        if strain:
            shapes["strain"] = (receiver_count, 6, sample_count)
        size = sum(int(np.prod(shape)) for shape in shapes.values()) * dtype.itemsize
        files.require_space(self.path, size)
        with files.creating(self.path) as file:
            lay_out_seismograms(file, shapes, dtype, quantity, sampling_interval, sample_count)
            head = completed(attributes)
            origin = geographic_origin(head)
            write_receivers(file.create_group("receivers"), receivers, origin)
            write_sources(file.create_group("sources"), SourceTable.from_points(sources), origin)
            write_attributes(file, head)
        self._open()

    def _open(self) -> None:
        with files.open_file(self.path) as file:
            names = ("motion", "stress", "pressure", "strain")
            self._pieces = {name: files.ContiguousDataset.of(file[name]) for name in names if name in file}
            self._counter = files.ContiguousDataset.of(file["samples_written"])
            self.samples_written = int(file["samples_written"][()])
            self.sample_count = int(file.attrs["sample_count"])
            self.sampling_interval = float(file.attrs["sampling_interval"])
            self._finished = bool(file.attrs.get("complete", False))
        self._open_for_writing()

    @classmethod
    def resume(cls, path: str | Path, samples: int | None = None, room: int | None = None) -> SeismogramWriter:
        """Open an incomplete file for writing, and retain its first `samples` samples (default: all).

        room : samples of the complete run; a truncated file is extended to this number again.

        Raises
        ------
        OutputError : the file is missing, damaged, or contains fewer than `samples` samples.
        """
        writer = cls.reopened(Path(path))
        if samples is not None:
            if samples > writer.samples_written:
                writer.close()
                raise OutputError(f"{path}: contains {writer.samples_written} samples; the restart requires {samples}.")
            with files.writing(writer.path):
                writer._count(samples)
        if writer._finished:  # a run that failed after its time loop
            mark_complete(path, False)
        if room is not None and room > writer.sample_count:
            writer.close()
            resize_seismograms(writer.path, writer.samples_written, room)
            writer._open()
        return writer

    def write(self, start: int, block: Mapping[str, np.ndarray]) -> None:
        """Write samples `start`, `start` + 1, ... of every receiver, then update the number of written samples.

        Parameters
        ----------
        start : index of the first sample of the block; samples that already exist are overwritten.
        block : ``motion`` (n_receivers, 3, n) and, if the file contains them, ``stress`` and ``strain``
            (n_receivers, 6, n) and ``pressure`` (n_receivers, n).

        Raises
        ------
        ValueError : the block leaves a gap, exceeds the file, or lacks a data set.
        OutputError : the disk is full; earlier samples remain readable.
        """
        stop = start + block["motion"].shape[-1]
        if start < 0 or start > self.samples_written or stop > self.sample_count:
            raise ValueError(
                f"samples {start} to {stop} do not follow the {self.samples_written} of {self.sample_count}"
            )
        if missing := self._pieces.keys() - block.keys():
            raise ValueError(f"the block lacks {', '.join(sorted(missing))}")
        kept = min(start, self.samples_written)
        readable = f"Its first {kept} samples remain readable"
        if kept:
            readable = (
                f"Its first {kept} samples (to t = {(kept - 1) * self.sampling_interval:g} s) remain readable"
            )
        with files.writing(self.path, readable):
            if start < self.samples_written:
                self._count(start)
            for name, piece in self._pieces.items():
                piece.write_columns(self._descriptor, start, np.asarray(block[name]))
            self._count(stop)

    def _count(self, samples: int) -> None:
        self._counter.write(self._descriptor, np.int64(samples))
        self.samples_written = int(samples)

    def truncate(self) -> None:
        """Close the file and replace it by a file with the written samples only, as of a shorter run.

        Raises
        ------
        OutputError : the new file cannot be written; the old file is unchanged.
        """
        self.close()
        if self.samples_written < self.sample_count:
            resize_seismograms(self.path, self.samples_written, self.samples_written)
            self.sample_count = self.samples_written


class Seismograms(SeismogramArrays):
    """Seismograms of all receivers; of a run that is not complete, the samples written so far.

    Attributes
    ----------
    time : (n_samples,), s; the origin time of the event is at `origin_delay`.
    data : (n_receivers, 3, n_samples), components E, N, Z, in `units`, along the axes that `geographic` states.
    quantity, units : ``displacement`` (m), ``velocity`` (m/s) or ``acceleration`` (m/s^2).
    networks, stations : codes of each receiver.
    locations : location codes of each receiver, empty for a station with one receiver.
    positions : (n_receivers, 3), m.
    stress : (n_receivers, 6, n_samples), Pa, order xx, yy, zz, xy, xz, yz; None if not recorded.
    pressure : (n_receivers, n_samples), Pa; None if not recorded.
    strain : (n_receivers, 6, n_samples), dimensionless, tensor components in the order of stress (xy is half of the
        engineering shear strain); None if not recorded.
    origin_time : ISO 8601 UTC origin time of the event; None if it has no date.
    origin_delay : origin time on the time axis, s; None if unknown, in files of earlier versions of lithowave, in which
        `origin_time` is the UTC time of t = 0.
    geographic_origin : (longitude, latitude) of x = y = 0, degrees, and the azimuth of a chunk; None without one.
    geographic : (n_receivers,) True (default) if components are along true East and North: at receivers whose positions
        are given on the Earth; False if they are along the axes x and y, as in files of earlier versions.
    convergence : (n_receivers,) azimuth of y, degrees clockwise from true North; 0 without a projection.
    sample_count : number of samples of the complete run.
    state : ``finished``, or how the run has ended, for example ``stopped by SIGTERM``, ``failed`` or ``unfinished``.
    """

    def to_xarray(self) -> Dataset:
        """Return an xarray Dataset with dimensions receiver, component (E, N, Z) and time.

        Its variables are the quantity, for example ``velocity``, and stress, pressure and strain if recorded; its
        coordinates are the names and positions of the receivers (x, y, z in m; longitude and latitude with a geographic
        origin) and the time in s. Units are attributes, and ``complete`` is 1 if the run is complete, else 0; then
        ``shortfall`` states what is missing.

        Raises
        ------
        MissingPackageError : xarray is not installed.
        """
        return seismogram_dataset(self)

    def to_pandas(self) -> DataFrame:
        """Return a pandas DataFrame with one row per receiver: codes, position and peak values.

        The columns ``peak_horizontal``, ``peak_vertical`` and ``peak_total`` are maxima over time in `units`,
        ``peak_time`` is the time of the last one, s. Units are in the attribute ``attrs["units"]`` of the table, and
        ``attrs["complete"]`` is False if the run is not complete, so that peaks may be too small.

        Raises
        ------
        MissingPackageError : pandas is not installed.
        """
        units = {**dict.fromkeys("xyz", "m"), "longitude": "degrees", "latitude": "degrees", "peak_time": "s"}
        peaks = dict.fromkeys(("peak_horizontal", "peak_vertical", "peak_total"), self.units)
        table = data_frame(seismogram_rows(self), "name", units | peaks)
        table.attrs["complete"] = self.complete
        return table

    def stream(self) -> Stream:
        """Return all traces as an ObsPy Stream (channel codes and start time as in MiniSEED output).

        Raises
        ------
        MissingPackageError : ObsPy is not installed.
        """
        from lithowave.output.waveforms import to_stream

        return to_stream(self)


def load_seismograms(path: str | Path) -> Seismograms:
    """Read the seismograms of a run, which may still be running; only complete samples are returned.

    If the run is not complete, `Seismograms.complete` is False, and a warning is issued once for each run.

    Parameters
    ----------
    path : the run folder, or its ``seismograms.h5``.

    Returns
    -------
    Seismograms : samples of all receivers.

    Raises
    ------
    OutputError : the file does not exist, is damaged, or is not a file of lithowave.
    """
    path = Path(path)
    seismograms = read_seismograms(path)
    if not seismograms.complete:
        _warn_once(path.resolve(), seismograms)
    if seismograms.origin_time and seismograms.origin_delay is None:
        issue_warning(
            f"{path}: written by an earlier version of lithowave, which stored the UTC time of t = 0 as origin_time; "
            "with sources[].delay the event is later by this delay."
        )
    return seismograms


def read_seismograms(path: Path) -> Seismograms:
    """Read the seismograms of a run without a warning; see `load_seismograms`."""
    if path.is_dir():
        if not (path / FILE_NAME).is_file():
            raise OutputError(f"{path}: contains no {FILE_NAME}; expected a run folder.")
        path = path / FILE_NAME
    with files.open_file(path) as file:
        try:
            return _read(file, path)
        except (KeyError, OSError, UnicodeDecodeError) as error:
            raise OutputError(f"{path}: is damaged or not a lithowave seismogram file: {error}") from error


def mark_complete(path: str | Path, complete: bool = True) -> None:
    """Record in the seismogram file of a run whether the run is complete.

    path : the run folder, or its ``seismograms.h5``.
    """
    path = Path(path)
    with files.changing(path / FILE_NAME if path.is_dir() else path) as file:
        file.attrs.modify("complete", np.uint8(complete))


_warned: set[tuple[Path, str, int]] = set()


def _warn_once(path: Path, seismograms: Seismograms) -> None:
    """Warn about incomplete seismograms, once for a file until it is replaced."""
    file = path / FILE_NAME if path.is_dir() else path
    key = file, seismograms.state, file.stat().st_ino
    if key not in _warned:
        _warned.add(key)
        issue_warning(f"{path}: the seismograms are {seismograms.shortfall}.")


def _read(file: h5py.File, path: Path) -> Seismograms:
    attributes = read_attributes(file)
    written = int(file["samples_written"][()])
    receivers, sources = file["receivers"], file["sources"]

    def samples(name: str) -> np.ndarray | None:
        return file[name][..., :written] if name in file else None

    data = samples("motion")
    if data is None:
        raise KeyError("motion")
    return Seismograms(
        time=file["time"][:written],
        data=data,
        networks=_read_texts(receivers, "network"),
        stations=_read_texts(receivers, "station"),
        positions=receivers["position"][:],
        quantity=attributes["quantity"],
        units=attributes["units"],
        sampling_interval=float(attributes["sampling_interval"]),
        sample_count=int(attributes["sample_count"]),
        stress=samples("stress"),
        pressure=samples("pressure"),
        strain=samples("strain"),
        origin_time=attributes.get("origin_time"),
        origin_delay=float(attributes["origin_delay"]) if "origin_delay" in attributes else None,
        geographic_origin=geographic_origin(attributes),
        sources=SourceTable(
            _read_texts(sources, "name"), *(sources[name][:] for name in ("position", "moment", "force", "onset")),
            **_read_axes(sources, geographic_origin(attributes)),
        ),
        title=attributes.get("title", ""),
        attributes=attributes,
        locations=_read_texts(receivers, "location") if "location" in receivers else [],
        state=FINISHED if attributes.get("complete", True) else state_in_words(path.parent),
        **_read_axes(receivers, geographic_origin(attributes)),
    )


def states_axes(path: Path) -> bool:
    """True if the seismogram file `path` states the axes of components, as those of earlier versions do not."""
    with files.open_file(path) as file:
        return "receivers" in file and _AXES <= file["receivers"].keys()


def _read_axes(group: h5py.Group, origin: tuple[float, ...] | None) -> dict[str, np.ndarray]:
    """Return the axes of components in a projection; in files of earlier versions they are those of the grid."""
    if not is_projected(origin):
        return {}
    if not _AXES <= group.keys():
        x, y, _ = group["position"][:].T
        return {"geographic": np.zeros(len(x), bool), "convergence": convergence(x, y, origin)}
    return {"geographic": group["geographic"][:].astype(bool), "convergence": group["convergence"][:].astype(float)}


def _read_texts(group: h5py.Group, name: str) -> list[str]:
    return [text.decode("utf-8") for text in group[name][:]]


FORMAT_VERSION = 2
COPIED_VALUES = 4_000_000  # at a time, when a file is resized


def lay_out_seismograms(
    file: h5py.File, shapes: dict[str, tuple[int, ...]], dtype: npt.DTypeLike, quantity: str, interval: float,
    count: int,
) -> None:  # fmt: skip
    """Preallocate the arrays of a seismogram file, and write its attributes."""
    units = {"motion": UNITS[quantity], **{name: UNITS[name] for name in ("stress", "pressure", "strain")}}
    axes = {
        "motion": f"receiver, component ({COMPONENTS}), time",
        "stress": f"receiver, component ({TENSOR_COMPONENTS}), time",
        "pressure": "receiver, time",
        "strain": f"receiver, component ({TENSOR_COMPONENTS}), time",
    }
    files.preallocate(file, "samples_written", (), np.int64, units="1")
    time = file.create_dataset("time", data=np.arange(count) * interval)
    time.attrs["units"] = "s"
    for name, shape in shapes.items():
        files.preallocate(file, name, shape, dtype, units=units[name], axes=axes[name])
    head = {
        "format_version": FORMAT_VERSION,
        "quantity": quantity,
        "units": UNITS[quantity],
        "sampling_interval": float(interval),
        "sample_count": int(count),
    }
    write_attributes(file, head)


def resize_seismograms(path: Path, count: int, room: int) -> None:
    """Replace a seismogram file by one with its first `count` samples and space for `room`, in blocks of receivers."""
    with files.open_file(path) as old, files.replaced(path) as temporary:
        names = [name for name in ("motion", "stress", "pressure", "strain") if name in old]
        with files.laying_out(temporary) as new:
            for name in ("receivers", "sources"):
                old.copy(name, new)
            for name in names:
                files.preallocate(new, name, (*old[name].shape[:-1], room), old[name].dtype, **old[name].attrs)
            files.preallocate(new, "samples_written", (), np.int64, **old["samples_written"].attrs)[()] = count
            time = new.create_dataset("time", data=np.arange(room) * old.attrs["sampling_interval"])
            time.attrs["units"] = "s"
            write_attributes(new, {**old.attrs, "sample_count": room})
        with files.open_file(temporary) as new:
            pieces = {name: files.ContiguousDataset.of(new[name]) for name in names}
        with open(temporary, "r+b") as file:
            for name, piece in pieces.items():
                components = math.prod(piece.shape[1:-1])
                step = max(1, COPIED_VALUES // max(1, components * count))
                for first in range(0, piece.shape[0], step):
                    rows = old[name][first : first + step, ..., :count].reshape(-1, count)
                    for number, row in enumerate(rows, start=first * components):
                        piece.write_range(file.fileno(), number * room, row)


def write_receivers(group: h5py.Group, receivers: Sequence[Receiver], origin: tuple[float, ...] | None) -> None:
    """Write codes, positions and axes of the receivers. origin : see `attributes.geographic_origin`."""
    networks = [str(receiver.network) for receiver in receivers]
    stations = [str(receiver.station) for receiver in receivers]
    locations = [str(getattr(receiver, "location", "")) for receiver in receivers]
    names = [receiver_name(*codes) for codes in zip(networks, stations, locations, strict=True)]
    positions = np.array([receiver.position for receiver in receivers], dtype=float).reshape(len(receivers), 3)
    for label, texts in (("network", networks), ("station", stations), ("location", locations), ("name", names)):
        _write_texts(group, label, texts)
    group.create_dataset("position", data=positions).attrs["units"] = "m"
    if is_projected(origin):
        geographic = np.array([getattr(receiver, "geographic", True) for receiver in receivers], bool)
        x, y, _ = positions.T
        _write_axes(group, geographic, convergence(x, y, origin))


def _write_axes(group: h5py.Group, geographic: np.ndarray, angles: np.ndarray) -> None:
    """Write the axes of components: true East and North where `geographic`, else x and y; azimuths of y, degrees."""
    group.create_dataset("geographic", data=geographic.astype(np.uint8))
    group.create_dataset("convergence", data=angles).attrs["units"] = "degree"


def write_sources(group: h5py.Group, sources: SourceTable, origin: tuple[float, ...] | None) -> None:
    """Write names, positions, strengths and axes of the sources."""
    _write_texts(group, "name", sources.names)
    for label, values, units in (
        ("position", sources.positions, "m"),
        ("moment", sources.moments, "N m"),
        ("force", sources.forces, "N"),
        ("onset", sources.onsets, "s"),
    ):
        group.create_dataset(label, data=values).attrs["units"] = units
    group["moment"].attrs["axes"] = f"source, component ({TENSOR_COMPONENTS})"
    if is_projected(origin):
        _write_axes(group, sources.geographic, sources.convergence)


def _write_texts(group: h5py.Group, name: str, texts: Sequence[str]) -> None:
    import h5py

    # Texts of fixed length: HDF5 stores texts of variable length in a heap, which not all readers support.
    encoded = [text.encode("utf-8") for text in texts]
    length = max([1, *(len(text) for text in encoded)])
    group.create_dataset(name, data=np.array(encoded, dtype=h5py.string_dtype("utf-8", length)))
