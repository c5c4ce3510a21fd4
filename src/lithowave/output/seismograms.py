"""Seismograms: written block by block while the run goes, read back as arrays or an ObsPy Stream.

Layout of ``seismograms.h5`` (float32 in single precision, float64 in double)::

    /                       attributes (see attributes.py) and: format_version, quantity, units,
                            sampling_interval (s), sample_count
    /samples_written        one number, counted up after each block
    /time                   (n_samples,)                s, from 0
    /motion                 (n_receivers, 3, n_samples) E, N, Z
    /stress                 (n_receivers, 6, n_samples) Pa, xx, yy, zz, xy, xz, yz; when asked for
    /pressure               (n_receivers, n_samples)    Pa; when asked for
    /strain                 (n_receivers, 6, n_samples) 1, xx, yy, zz, xy, xz, yz; when asked for
    /receivers/network, station, name, position (n_receivers, 3) m
    /sources/name, position (n, 3) m, moment (n, 6) N m, force (n, 3) N, onset (n,) s

Only the first ``samples_written`` samples have been computed; what lies beyond is room, not data.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from lithowave.errors import InputError, OutputError, issue_warning
from lithowave.output import hdf5
from lithowave.output.attributes import (
    COMPONENTS,
    TENSOR_COMPONENTS,
    UNITS,
    completed,
    geographic_origin,
    read_attributes,
    write_attributes,
)
from lithowave.output.source_table import SourceTable
from lithowave.utc import shifted_time

FILE_NAME = "seismograms.h5"
FORMAT_VERSION = 2
COPIED_VALUES = 4_000_000  # at a time, when a file is resized
QUANTITIES = ("displacement", "velocity", "acceleration")


class SeismogramWriter:
    """Writes the samples of all receivers into one HDF5 file, readable after every block.

    Parameters
    ----------
    path : the file, replaced when it exists.
    receivers : objects with `network`, `station` and `position` (x, y, z in m).
    sampling_interval : s; sample k is at time k * sampling_interval.
    sample_count : number of samples of the complete run, for which room is made now.
    quantity : ``displacement``, ``velocity`` or ``acceleration``.
    stress, pressure, strain : whether these are kept too.
    attributes : see `attributes.standard_attributes`; missing ones are filled in.
    sources : objects with `name`, `position`, `moment` and `force`, for figures and headers.
    precision : ``single`` (float32) or ``double`` (float64).

    Raises
    ------
    OutputError : when there is no room for all samples, or the file cannot be written.
    """

    def __init__(
        self,
        path: str | Path,
        receivers: Sequence[Any],
        sampling_interval: float,
        sample_count: int,
        quantity: str,
        stress: bool = False,
        pressure: bool = False,
        attributes: Mapping[str, Any] | None = None,
        *,
        sources: Iterable[Any] = (),
        precision: str = "single",
        strain: bool = False,
    ) -> None:
        if quantity not in QUANTITIES:
            raise InputError("output.quantity", repr(quantity), f"one of {', '.join(QUANTITIES)}")
        self.path = Path(path)
        dtype = np.dtype(hdf5.PRECISIONS[precision])
        receiver_count = len(receivers)
        shapes = {"motion": (receiver_count, 3, sample_count)}
        if stress:
            shapes["stress"] = (receiver_count, 6, sample_count)
        if pressure:
            shapes["pressure"] = (receiver_count, sample_count)
        if strain:
            shapes["strain"] = (receiver_count, 6, sample_count)
        size = sum(int(np.prod(shape)) for shape in shapes.values()) * dtype.itemsize
        hdf5.require_space(self.path, size)
        with hdf5.creating(self.path) as file:
            _lay_out(file, shapes, dtype, quantity, sampling_interval, sample_count)
            _write_receivers(file.create_group("receivers"), receivers)
            _write_sources(file.create_group("sources"), SourceTable.from_points(sources))
            write_attributes(file, completed(attributes))
        self._open()

    def _open(self) -> None:
        with hdf5.open_file(self.path) as file:
            names = ("motion", "stress", "pressure", "strain")
            self._pieces = {name: hdf5.ContiguousDataset.of(file[name]) for name in names if name in file}
            self._counter = hdf5.ContiguousDataset.of(file["samples_written"])
            self.samples_written = int(file["samples_written"][()])
            self.sample_count = int(file.attrs["sample_count"])
            self.sampling_interval = float(file.attrs["sampling_interval"])
        with hdf5.writing(self.path):
            self._descriptor: int | None = os.open(self.path, os.O_RDWR)

    @classmethod
    def resume(cls, path: str | Path, samples: int | None = None, room: int | None = None) -> SeismogramWriter:
        """Open an unfinished file to go on writing, keeping only the first `samples` samples (default: all).

        room : samples of the complete run; a file that was truncated gets room for them again.

        Raises
        ------
        OutputError : when the file is missing, damaged, or holds fewer than `samples` samples.
        """
        writer = cls.__new__(cls)
        writer.path = Path(path)
        try:
            writer._open()
        except KeyError as error:
            raise OutputError(f"{path}: is not a lithowave seismogram file: {error}") from error
        if samples is not None:
            if samples > writer.samples_written:
                writer.close()
                raise OutputError(
                    f"{path}: holds {writer.samples_written} samples; {samples} are needed to go on."
                )
            with hdf5.writing(writer.path):
                writer._count(samples)
        if room is not None and room > writer.sample_count:
            writer.close()
            _resize(writer.path, writer.samples_written, room)
            writer._open()
        return writer

    def write(self, start: int, block: Mapping[str, np.ndarray]) -> None:
        """Write samples `start`, `start` + 1, ... of every receiver, then count them as written.

        Parameters
        ----------
        start : index of the block's first sample; may lie before what is written (that is then overwritten).
        block : ``motion`` (n_receivers, 3, n) and, where the file keeps them, ``stress`` and ``strain``
            (n_receivers, 6, n) and ``pressure`` (n_receivers, n).

        Raises
        ------
        ValueError : when the block would leave a gap, goes past the end, or lacks a data set.
        OutputError : when the disk is full; earlier samples stay readable.
        """
        stop = start + block["motion"].shape[-1]
        if start < 0 or start > self.samples_written or stop > self.sample_count:
            raise ValueError(
                f"samples {start} to {stop} do not follow the {self.samples_written} of {self.sample_count}"
            )
        if missing := self._pieces.keys() - block.keys():
            raise ValueError(f"the block lacks {', '.join(sorted(missing))}")
        kept = min(start, self.samples_written)
        readable = f"Its first {kept} samples stay readable"
        if kept:
            readable = (
                f"Its first {kept} samples (to t = {(kept - 1) * self.sampling_interval:g} s) stay readable"
            )
        with hdf5.writing(self.path, readable):
            if start < self.samples_written:
                self._count(start)
            for name, piece in self._pieces.items():
                piece.write_columns(self._descriptor, start, np.asarray(block[name]))
            self._count(stop)

    def _count(self, samples: int) -> None:
        self._counter.write(self._descriptor, np.int64(samples))
        self.samples_written = int(samples)

    def truncate(self) -> None:
        """Close the file and replace it by one that has room for the samples written only, as of a shorter run.

        Raises
        ------
        OutputError : when the new file cannot be written; the old one is unchanged.
        """
        self.close()
        if self.samples_written < self.sample_count:
            _resize(self.path, self.samples_written, self.samples_written)
            self.sample_count = self.samples_written

    def sync(self) -> None:
        """Wait until what is written has reached the disk; for use before a checkpoint that relies on it.

        Raises
        ------
        OutputError : when it does not get there (network file systems report a full disk only now).
        """
        if self._descriptor is not None:
            with hdf5.writing(self.path):
                os.fsync(self._descriptor)

    def close(self) -> None:
        """Close the file; what is written stays readable. Harmless when it is closed already."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with hdf5.writing(self.path):
                os.close(descriptor)

    def __enter__(self) -> SeismogramWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _lay_out(
    file: Any, shapes: dict[str, tuple[int, ...]], dtype: Any, quantity: str, interval: float, count: int
) -> None:
    units = {"motion": UNITS[quantity], **{name: UNITS[name] for name in ("stress", "pressure", "strain")}}
    axes = {
        "motion": f"receiver, component ({COMPONENTS}), time",
        "stress": f"receiver, component ({TENSOR_COMPONENTS}), time",
        "pressure": "receiver, time",
        "strain": f"receiver, component ({TENSOR_COMPONENTS}), time",
    }
    hdf5.preallocate(file, "samples_written", (), np.int64, units="1")
    time = file.create_dataset("time", data=np.arange(count) * interval)
    time.attrs["units"] = "s"
    for name, shape in shapes.items():
        hdf5.preallocate(file, name, shape, dtype, units=units[name], axes=axes[name])
    head = {
        "format_version": FORMAT_VERSION,
        "quantity": quantity,
        "units": UNITS[quantity],
        "sampling_interval": float(interval),
        "sample_count": int(count),
    }
    write_attributes(file, head)


def _resize(path: Path, count: int, room: int) -> None:
    """Replace a seismogram file by one with its first `count` samples and room for `room`, in blocks of receivers."""
    with hdf5.open_file(path) as old, hdf5.replaced(path) as temporary:
        names = [name for name in ("motion", "stress", "pressure", "strain") if name in old]
        with hdf5.laying_out(temporary) as new:
            for name in ("receivers", "sources"):
                old.copy(name, new)
            for name in names:
                hdf5.preallocate(new, name, (*old[name].shape[:-1], room), old[name].dtype, **old[name].attrs)
            hdf5.preallocate(new, "samples_written", (), np.int64, **old["samples_written"].attrs)[()] = count
            time = new.create_dataset("time", data=np.arange(room) * old.attrs["sampling_interval"])
            time.attrs["units"] = "s"
            write_attributes(new, {**old.attrs, "sample_count": room})
        with hdf5.open_file(temporary) as new:
            pieces = {name: hdf5.ContiguousDataset.of(new[name]) for name in names}
        with open(temporary, "r+b") as file:
            for name, piece in pieces.items():
                components = math.prod(piece.shape[1:-1])
                step = max(1, COPIED_VALUES // max(1, components * count))
                for first in range(0, piece.shape[0], step):
                    rows = old[name][first : first + step, ..., :count].reshape(-1, count)
                    for number, row in enumerate(rows, start=first * components):
                        piece.write_range(file.fileno(), number * room, row)


def _write_receivers(group: Any, receivers: Sequence[Any]) -> None:
    networks = [str(receiver.network) for receiver in receivers]
    stations = [str(receiver.station) for receiver in receivers]
    names = [f"{network}.{station}" for network, station in zip(networks, stations, strict=True)]
    positions = np.array([receiver.position for receiver in receivers], dtype=float).reshape(
        len(receivers), 3
    )
    for label, texts in (("network", networks), ("station", stations), ("name", names)):
        _write_texts(group, label, texts)
    group.create_dataset("position", data=positions).attrs["units"] = "m"


def _write_sources(group: Any, sources: SourceTable) -> None:
    _write_texts(group, "name", sources.names)
    for label, values, units in (
        ("position", sources.positions, "m"),
        ("moment", sources.moments, "N m"),
        ("force", sources.forces, "N"),
        ("onset", sources.onsets, "s"),
    ):
        group.create_dataset(label, data=values).attrs["units"] = units
    group["moment"].attrs["axes"] = f"source, component ({TENSOR_COMPONENTS})"


def _write_texts(group: Any, name: str, texts: Sequence[str]) -> None:
    import h5py

    # fixed length: texts of variable length live in a heap of their own, and are not readable everywhere
    encoded = [text.encode("utf-8") for text in texts]
    length = max([1, *(len(text) for text in encoded)])
    group.create_dataset(name, data=np.array(encoded, dtype=h5py.string_dtype("utf-8", length)))


@dataclass(frozen=True)
class Seismograms:
    """What was recorded, as far as it has been written.

    time : (n_samples,) s; the origin time of the event is at `origin_delay`.
    data : (n_receivers, 3, n_samples), components E, N, Z, in `units`.
    names : ``NETWORK.STATION`` of each receiver.
    positions : (n_receivers, 3), m.
    stress : (n_receivers, 6, n_samples), Pa, order xx, yy, zz, xy, xz, yz, or None.
    pressure : (n_receivers, n_samples), Pa, or None.
    strain : (n_receivers, 6, n_samples), without unit, order as in stress, or None; xy is half of the shear angle.
    origin_time : ISO 8601 UTC origin time of the event, or None if it has no date.
    origin_delay : s, the origin time on the time axis; None if unknown, since the file was written by a version of
        lithowave in which `origin_time` was the UTC time of t = 0.
    geographic_origin : (longitude, latitude) in degrees of x = y = 0, or None.
    sample_count : number of samples of the complete run.
    """

    time: np.ndarray
    data: np.ndarray
    networks: list[str]
    stations: list[str]
    positions: np.ndarray
    quantity: str
    units: str
    sampling_interval: float
    sample_count: int
    stress: np.ndarray | None = None
    pressure: np.ndarray | None = None
    strain: np.ndarray | None = None
    origin_time: str | None = None
    origin_delay: float | None = 0.0
    geographic_origin: tuple[float, float] | None = None
    sources: SourceTable = field(default_factory=lambda: SourceTable.from_points(()))
    title: str = ""
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """``NETWORK.STATION`` of each receiver."""
        return [f"{network}.{station}" for network, station in zip(self.networks, self.stations, strict=True)]

    @property
    def start_time(self) -> str | None:
        """ISO 8601 UTC time of t = 0, the first sample; None if the event has no date."""
        return self.origin_time and shifted_time(self.origin_time, -(self.origin_delay or 0.0))

    @property
    def complete(self) -> bool:
        """Whether the run had written its last sample when this was read."""
        return len(self.time) == self.sample_count

    def __len__(self) -> int:
        return len(self.networks)

    def index(self, name: str) -> int:
        """Index of the receiver `name`.

        Raises
        ------
        InputError : when there is none, with the nearest name.
        """
        names = self.names
        if name in names:
            return names.index(name)
        from difflib import get_close_matches

        near = get_close_matches(name, names, 1)
        hint = f"did you mean {near[0]}?" if near else ""
        raise InputError("receiver", f"{name!r} is not among the {len(names)} receivers", "", hint)

    def __getitem__(self, name: str) -> np.ndarray:
        """(3, n_samples) of the receiver `name`: E, N, Z."""
        return self.data[self.index(name)]

    def stream(self) -> Any:
        """All traces as an ObsPy Stream (channel codes and start time as in `waveforms`).

        Raises
        ------
        MissingPackageError : when ObsPy is not installed.
        """
        from lithowave.output.waveforms import to_stream

        return to_stream(self)


def load_seismograms(path: str | Path) -> Seismograms:
    """Read a run's seismograms, also while it runs or after a stop: only written samples are returned.

    Parameters
    ----------
    path : the run folder, or its ``seismograms.h5``.

    Raises
    ------
    OutputError : when there is no such file, or it is damaged or not lithowave's.
    """
    path = Path(path)
    if path.is_dir():
        if not (path / FILE_NAME).is_file():
            raise OutputError(f"{path}: holds no {FILE_NAME}; is it the folder of a run?")
        path = path / FILE_NAME
    with hdf5.open_file(path) as file:
        try:
            seismograms = _read(file)
        except (KeyError, OSError, UnicodeDecodeError) as error:
            raise OutputError(f"{path}: is damaged or not a lithowave seismogram file: {error}") from error
    if seismograms.origin_time and seismograms.origin_delay is None:
        issue_warning(
            f"{path}: written by an earlier version of lithowave, which stored the UTC time of t = 0 as origin_time; "
            "with sources[].delay the event is later by this delay."
        )
    return seismograms


def _read(file: Any) -> Seismograms:
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
            _read_texts(sources, "name"), *(sources[name][:] for name in ("position", "moment", "force", "onset"))
        ),
        title=attributes.get("title", ""),
        attributes=attributes,
    )


def _read_texts(group: Any, name: str) -> list[str]:
    return [text.decode("utf-8") for text in group[name][:]]
