"""Layout of ``seismograms.h5``: arrays, receivers and sources; see `seismograms`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lithowave.names import receiver_name
from lithowave.output import hdf5
from lithowave.output.attributes import (
    COMPONENTS,
    TENSOR_COMPONENTS,
    UNITS,
    convergence,
    is_projected,
    write_attributes,
)
from lithowave.output.source_table import SourceTable

FORMAT_VERSION = 2
COPIED_VALUES = 4_000_000  # at a time, when a file is resized


def lay_out_seismograms(
    file: Any, shapes: dict[str, tuple[int, ...]], dtype: Any, quantity: str, interval: float, count: int
) -> None:
    """Preallocate the arrays of a seismogram file, and write its attributes."""
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


def resize_seismograms(path: Path, count: int, room: int) -> None:
    """Replace a seismogram file by one with its first `count` samples and space for `room`, in blocks of receivers."""
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


def write_receivers(group: Any, receivers: Sequence[Any], origin: tuple[float, ...] | None) -> None:
    """Write codes, positions and axes of the receivers. origin : see `attributes.geographic_origin`."""
    networks = [str(receiver.network) for receiver in receivers]
    stations = [str(receiver.station) for receiver in receivers]
    locations = [str(getattr(receiver, "location", "")) for receiver in receivers]
    names = [receiver_name(*codes) for codes in zip(networks, stations, locations, strict=True)]
    positions = np.array([receiver.position for receiver in receivers], dtype=float).reshape(
        len(receivers), 3
    )
    for label, texts in (("network", networks), ("station", stations), ("location", locations), ("name", names)):
        _write_texts(group, label, texts)
    group.create_dataset("position", data=positions).attrs["units"] = "m"
    if is_projected(origin):
        geographic = np.array([getattr(receiver, "geographic", True) for receiver in receivers], bool)
        _write_axes(group, geographic, convergence(*positions[:, :2].T, origin))


def _write_axes(group: Any, geographic: np.ndarray, angles: np.ndarray) -> None:
    """Write the axes of components: true East and North where `geographic`, else x and y; azimuths of y, degrees."""
    group.create_dataset("geographic", data=geographic.astype(np.uint8))
    group.create_dataset("convergence", data=angles).attrs["units"] = "degree"


def write_sources(group: Any, sources: SourceTable, origin: tuple[float, ...] | None) -> None:
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


def _write_texts(group: Any, name: str, texts: Sequence[str]) -> None:
    import h5py

    # Texts of fixed length: HDF5 stores texts of variable length in a heap, which not all readers support.
    encoded = [text.encode("utf-8") for text in texts]
    length = max([1, *(len(text) for text in encoded)])
    group.create_dataset(name, data=np.array(encoded, dtype=h5py.string_dtype("utf-8", length)))
