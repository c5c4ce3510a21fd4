"""Wavefield snapshots of a plane or a volume as VTKHDF files with time steps, for ParaView and PyVista.

See `vtkhdf` for the layout of image data, and `vtkhdf_chunk` for that of unstructured grids in a chunk of the globe.
Space for all steps is allocated at the start; ``NSteps`` is the number of written steps. The file has the attributes of
`attributes`, and ``plane`` (x, y, z or none), ``point_counts``, ``point_spacing``, ``fields`` and ``step_count``; in a
chunk also ``point_origin``, the local coordinates of the first point.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lithowave.backends.pending import PendingCopy
from lithowave.errors import InputError, OutputError
from lithowave.output import hdf5
from lithowave.output.attributes import (
    COMPONENTS,
    TENSOR_COMPONENTS,
    UNITS,
    chunk_map,
    completed,
    geographic_origin,
    read_attributes,
    write_attributes,
)
from lithowave.output.datasets import kept
from lithowave.output.snapshot_parts import require_joined
from lithowave.output.tables import require
from lithowave.output.vtkhdf import FIELD_COMPONENTS, Storage, lay_out, plane_normal, stored_arrays
from lithowave.output.vtkhdf_chunk import geometry_bytes, lay_out_chunk, write_geometry

FILE_SUFFIX = ".vtkhdf"


class SnapshotWriter:
    """Writer of fields on a regular grid at successive times.

    Parameters
    ----------
    path : the file; an existing file is replaced. ParaView requires the suffix ``.vtkhdf``.
    origin : (x, y, z) of the first point, m.
    spacing : (dx, dy, dz), m; along the normal of a plane any positive number.
    shape : (nz, ny, nx) numbers of points; one of them is 1 for a plane.
    fields : names from FIELD_COMPONENTS.
    attributes : see `attributes.standard_attributes`; default values replace missing ones.
    step_count : number of snapshots of the complete run, for which space is allocated now.
    precision : ``single`` (float32, the default for any precision of the run) or ``double``.

    Raises
    ------
    InputError : a field is unknown.
    OutputError : the disk lacks space for all steps, or the file cannot be written.
    """

    def __init__(
        self,
        path: str | Path,
        origin: Sequence[float],
        spacing: Sequence[float],
        shape: Sequence[int],
        fields: Sequence[str],
        attributes: Mapping[str, Any] | None = None,
        *,
        step_count: int,
        precision: str = "single",
    ) -> None:
        for name in fields:
            if name not in FIELD_COMPONENTS:
                raise InputError(
                    "output.snapshots.fields", repr(name), f"one of {', '.join(FIELD_COMPONENTS)}"
                )
        if len(shape) != 3 or min(shape) < 1 or min(spacing) <= 0 or step_count < 1:
            raise ValueError("shape and step_count must be at least 1, spacing positive, shape of length 3")
        self.path = Path(path)
        dtype = np.dtype(hdf5.PRECISIONS[precision])
        chunk = chunk_map(geographic_origin(attributes or {}))
        storage = Storage(shape, spacing, chunk is not None)
        components = sum(FIELD_COMPONENTS[name] for name in fields)
        size = step_count * components * math.prod(storage.dimensions) * dtype.itemsize
        hdf5.require_space(self.path, size + (0 if chunk is None else geometry_bytes(shape, dtype)))
        with hdf5.creating(self.path) as file:
            head = {
                "plane": plane_normal(shape),
                "point_counts": np.array(shape, dtype=np.int64),
                "point_spacing": np.array(spacing, dtype=float),
                "fields": ",".join(fields),
                "step_count": int(step_count),
                "units": "m (coordinates), s (time); fields carry their own",
            }
            write_attributes(file, {**completed(attributes), **head})
            if chunk is None:
                file.attrs["steps_group"] = lay_out(file, storage, origin, fields, step_count, dtype)
            else:
                file.attrs["point_origin"] = np.array(origin, dtype=float)
                file.attrs["steps_group"] = lay_out_chunk(file, storage, fields, step_count, dtype)
        self._open()
        if chunk is not None:
            with hdf5.writing(self.path):
                write_geometry(self.path, self._descriptor, chunk, origin, spacing, shape)

    def _open(self) -> None:
        with hdf5.open_file(self.path) as file:
            self._fields = [name for name in str(file.attrs["fields"]).split(",") if name]
            curved = "point_origin" in file.attrs
            self._storage = Storage(file.attrs["point_counts"], file.attrs["point_spacing"], curved)
            self.step_count = int(file.attrs["step_count"])
            self._steps_name = file.attrs["steps_group"]
            self._pieces = {name: hdf5.ContiguousDataset.of(array) for name, array in file["VTKHDF/PointData"].items()}
            self._times = list(file[self._steps_name]["Values"])
        with hdf5.writing(self.path):
            self._descriptor: int | None = os.open(self.path, os.O_RDWR)

    @property
    def steps_written(self) -> int:
        """Number of snapshots in the file."""
        return len(self._times)

    @classmethod
    def resume(cls, path: str | Path, time: float | None = None) -> SnapshotWriter:
        """Open an incomplete file for writing, and remove steps later than `time` (s).

        Raises
        ------
        OutputError : the file is missing, damaged or not a snapshot file.
        """
        writer = cls.__new__(cls)
        writer.path = Path(path)
        try:
            writer._open()
        except KeyError as error:
            raise OutputError(f"{path}: is not a lithowave snapshot file: {error}") from error
        if time is not None:
            latest = time + 1e-9 * max(1.0, abs(time))
            with hdf5.writing(writer.path):
                writer._set_times([value for value in writer._times if value <= latest])
        return writer

    def write(self, time: float, values: Mapping[str, np.ndarray | PendingCopy]) -> None:
        """Append the fields at `time` (s): each (nz, ny, nx, components), or (nz, ny, nx) for a scalar.

        Of a `PendingCopy`, pieces are written when they arrive.

        Raises
        ------
        ValueError : a field is missing or has a wrong shape, or the file is full.
        OutputError : the disk is full; earlier steps remain readable.
        """
        step = self.steps_written
        if step >= self.step_count:
            raise ValueError(f"{self.path}: the file has space for {self.step_count} steps only")
        if missing := set(self._fields) - values.keys():
            raise ValueError(f"the snapshot lacks {', '.join(sorted(missing))}")
        with hdf5.writing(self.path, f"Its first {step} snapshots remain readable"):
            for field in self._fields:
                arriving = values[field]
                self._write_field(step, field, arriving if isinstance(arriving, PendingCopy) else np.asarray(arriving))
            self._set_times([*self._times, float(time)])

    def _write_field(self, step: int, field: str, values: np.ndarray | PendingCopy) -> None:
        count = FIELD_COMPONENTS[field]
        expected = self._storage.shape + (() if count == 1 else (count,))
        if values.shape != expected:
            raise ValueError(f"{field} has shape {values.shape}, expected {expected}")
        first = step * math.prod(self._storage.dimensions)
        if isinstance(values, PendingCopy) and self._storage.doubled is None:
            for piece in values.pieces():
                points = piece.reshape(-1, count)
                self._write_points(field, first, points)
                first += len(points)
        else:
            whole = values.wait() if isinstance(values, PendingCopy) else values
            self._write_points(field, first, self._storage.to_file(whole).reshape(-1, count))

    def _write_points(self, field: str, first: int, values: np.ndarray) -> None:
        """Write values (points, components) to the stored points from index `first`."""
        parts = list(values.T) if len(stored_arrays(field)) > 1 else [values]
        for name, part in zip(stored_arrays(field), parts, strict=True):
            self._pieces[name].write_range(self._descriptor, first * (part.size // len(part)), part)

    def write_rows(self, step: int, field: str, first: int, values: np.ndarray) -> None:
        """Write part of a snapshot: rows (n, nx[, components]) of points along x.

        first : index of the first row, along y and then z. Readers see the step only after `count`.
        """
        parts = [values[..., index] for index in range(6)] if FIELD_COMPONENTS[field] == 6 else [values]
        with hdf5.writing(self.path):
            for name, part in zip(stored_arrays(field), parts, strict=True):
                before, stored = self._storage.rows_to_file(first, part)
                piece, size = self._pieces[name], math.prod(stored.shape[2:])
                step_size = math.prod(piece.shape) // self.step_count
                piece.write_range(self._descriptor, step * step_size + before * size, stored)

    def count(self, times: Sequence[float]) -> None:
        """Set the number and the times, s, of the complete snapshots."""
        with hdf5.writing(self.path):
            self._set_times([float(time) for time in times])

    def _set_times(self, times: list[float]) -> None:
        with hdf5.changing(self.path) as file:
            steps = file[self._steps_name]
            steps["Values"].resize((len(times),))
            steps["Values"][:] = times
            # The attribute is changed in place: a new assignment would delete and create it, and a crash between would
            # lose it.
            steps.attrs.modify("NSteps", np.int64(len(times)))
        self._times = times

    def sync(self) -> None:
        """Wait until the written data are on the disk; required before a checkpoint that relies on them.

        Raises
        ------
        OutputError : the data cannot be written (network file systems report a full disk only now).
        """
        if self._descriptor is not None:
            with hdf5.writing(self.path):
                os.fsync(self._descriptor)

    def close(self) -> None:
        """Close the file, if it is open; what is written remains readable."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with hdf5.writing(self.path):
                os.close(descriptor)

    def __enter__(self) -> SnapshotWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Snapshots:
    """Reader of a snapshot file, step by step, also while it is being written.

    times : (n_steps,) s.
    origin, spacing : (x, y, z), m; in a chunk of the globe in its local coordinates.
    shape : (nz, ny, nx).
    plane : normal of the plane, ``x``, ``y`` or ``z``; ``none`` for a volume.
    fields : names; `units` gives the unit of each.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        require_joined([self.path])
        self._file = hdf5.open_file(self.path)
        try:
            self._read_head()
        except KeyError as error:
            self._file.close()
            raise OutputError(f"{path}: is not a lithowave snapshot file: {error}") from error

    def _read_head(self) -> None:
        self.attributes = read_attributes(self._file)
        self.plane = self.attributes["plane"]
        self.shape = tuple(int(count) for count in self.attributes["point_counts"])
        self.spacing = tuple(float(step) for step in self.attributes["point_spacing"])
        self.fields = [name for name in self.attributes["fields"].split(",") if name]
        self.units = {name: UNITS[name] for name in self.fields}
        curved = "point_origin" in self.attributes
        self._storage = Storage(self.shape, self.spacing, curved)
        self._single = int(self.attributes["step_count"]) == 1
        root = self._file["VTKHDF"]
        origin = self.attributes["point_origin"] if curved else root.attrs["Origin"]
        self.origin = tuple(float(value) for value in origin)
        self._arrays = root["PointData"]
        steps = self._file[self.attributes["steps_group"]]
        self.times = steps["Values"][: int(steps.attrs["NSteps"])]

    def __len__(self) -> int:
        return len(self.times)

    def axis(self, name: str) -> np.ndarray:
        """Return the coordinates of the points along ``x``, ``y`` or ``z``, m."""
        index = "xyz".index(name)
        return self.origin[index] + self.spacing[index] * np.arange(self.shape[2 - index])

    def read(self, step: int, field: str) -> np.ndarray:
        """Return `field` at step `step`: (nz, ny, nx, components), or (nz, ny, nx) for a scalar."""
        if not -len(self) <= step < len(self):
            raise IndexError(f"step {step} of {len(self)}")
        place: Any = ... if self._single else step % len(self)
        if len(self._storage.stored_shape) == 1:  # the steps of an unstructured grid follow each other
            count = self._storage.stored_shape[0]
            place = slice(step % len(self) * count, (step % len(self) + 1) * count)
        arrays = [self._storage.from_file(self._arrays[name][place]) for name in stored_arrays(field)]
        return arrays[0] if len(arrays) == 1 else np.stack(arrays, axis=-1)

    def __repr__(self) -> str:
        place = "volume" if self.plane == "none" else f"plane normal to {self.plane}"
        count = " x ".join(str(number) for number in self.shape[::-1])
        times = f"t = {self.times[0]:.4g} to {self.times[-1]:.4g} s" if len(self) else "no times yet"
        return f"<Snapshots of {', '.join(self.fields)}: {place}, {count} points, {len(self)} steps, {times}>"

    def to_xarray(self, steps: Sequence[int] | slice | None = None, fields: Sequence[str] | None = None) -> Any:
        """Return an xarray Dataset with dimensions time, z, y, x and component, in memory.

        Parameters
        ----------
        steps : indices of the snapshots to read; default: all.
        fields : default: all.

        Raises
        ------
        MissingPackageError : xarray is not installed.
        """
        return snapshot_dataset(self, steps, self.fields if fields is None else fields)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Snapshots:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def load_snapshots(path: str | Path) -> Snapshots:
    """Open a snapshot file for reading; use it in a ``with`` statement, or close it.

    Raises
    ------
    OutputError : the file is missing, damaged or not a snapshot file, or exists in parts only (`snapshot_parts`).
    """
    return Snapshots(path)


def snapshot_dataset(snapshots: Snapshots, steps: Sequence[int] | slice | None, fields: Sequence[str]) -> Any:
    """See `Snapshots.to_xarray`."""
    require("xarray", "A Dataset")
    from xarray import Dataset

    numbers = np.arange(len(snapshots))[slice(None) if steps is None else steps]
    coordinates: dict[str, Any] = {"time": ("time", np.asarray(snapshots.times)[numbers], {"units": "s"})}
    for axis in "zyx":
        coordinates[axis] = (axis, snapshots.axis(axis), {"units": "m"})
    variables = {}
    for name in fields:
        values = np.stack([snapshots.read(int(step), name) for step in numbers]) if len(numbers) else np.zeros(
            (0, *snapshots.shape, *([FIELD_COMPONENTS[name]] if FIELD_COMPONENTS[name] > 1 else []))
        )  # fmt: skip
        axes = ("time", "z", "y", "x")
        if FIELD_COMPONENTS[name] > 1:
            label = "component" if FIELD_COMPONENTS[name] == 3 else "tensor_component"
            coordinates[label] = (COMPONENTS if label == "component" else TENSOR_COMPONENTS).split(",")
            axes = (*axes, label)
        variables[name] = (axes, values, {"units": UNITS[name]})
    return Dataset(variables, coordinates, kept(snapshots.attributes))
