"""Layout of fields on a regular grid in VTKHDF files: image data with time steps, for ParaView and PyVista.

Layout (VTKHDF 2.0, https://docs.vtk.org, "VTKHDF format specification")::

    /VTKHDF                     Version, Type = ImageData, WholeExtent, Origin, Spacing, Direction
    /VTKHDF/PointData/<field>   (steps, [nz,] ny, nx[, components])
    /VTKHDF/Steps               NSteps; Values (NSteps,) s; PointDataOffsets/<field> (steps,)

Three properties of VTK's reader (versions 9.3 to 9.7) determine the rest. It expects arrays of a z plane without their
z axis. Some versions mix up the axes of planes normal to x or y, which are therefore stored two points thick, a
hundredth of a spacing apart, with the same values. It reads a single step as data without time, which are therefore
written for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from lithowave.output import hdf5
from lithowave.output.attributes import UNITS

VERSION = (2, 0)
THICKNESS = 0.01
FIELD_COMPONENTS = {
    "displacement": 3,
    "velocity": 3,
    "acceleration": 3,
    "curl": 3,
    "divergence": 1,
    "pressure": 1,
    "stress": 6,
}
TENSOR_NAMES = ("xx", "yy", "zz", "xy", "xz", "yz")


def stored_arrays(field: str) -> dict[str, int | None]:
    """Return the names of the point arrays of `field` with their component counts (None: a scalar).

    A stress is stored as six scalars, since VTK names the components of symmetric tensors in a different order.
    """
    count = FIELD_COMPONENTS[field]
    if count == 6:
        return {f"{field}_{name}": None for name in TENSOR_NAMES}
    return {field: None if count == 1 else count}


class Storage:
    """Storage layout of an array of shape (nz, ny, nx). curved : in an unstructured grid, see `vtkhdf_chunk`."""

    def __init__(self, shape: Sequence[int], spacing: Sequence[float], curved: bool = False) -> None:
        self.shape = tuple(int(count) for count in shape)
        nz, ny, nx = self.shape
        # The doubled array axis of a vertical plane: 2 for x, 1 for y; None for volumes and z planes.
        self.doubled = None if curved else 2 if nx == 1 and ny > 1 and nz > 1 else 1 if ny == 1 and nz > 1 else None
        counts, steps = list(self.shape), [float(step) for step in spacing]
        if self.doubled is not None:
            counts[self.doubled] = 2
            steps[2 - self.doubled] *= THICKNESS
        self.dimensions = tuple(reversed(counts))
        self.spacing = tuple(steps)
        self.stored_shape = (math.prod(counts),) if curved else tuple(counts[1:] if nz == 1 else counts)

    def to_file(self, values: np.ndarray) -> np.ndarray:
        """Return an array (nz, ny, nx, ...) as it is stored."""
        if self.doubled is not None:
            values = np.repeat(values, 2, axis=self.doubled)
        return values.reshape(self.stored_shape + values.shape[3:])

    def rows_to_file(self, first: int, values: np.ndarray) -> tuple[int, np.ndarray]:
        """Return rows (n, nx, ...) of points along x as they are stored, and the number of points stored before them.

        first : index of the first row, along y and then z. The stored rows are contiguous.
        """
        if self.doubled is not None:
            values = np.repeat(values, 2, axis=self.doubled - 1)
        return first * math.prod(self.dimensions[:2]) // self.shape[1], values

    def from_file(self, values: np.ndarray) -> np.ndarray:
        """Return a stored array as (nz, ny, nx, ...)."""
        if self.doubled is not None:
            values = np.take(values, [0], axis=self.doubled)
        return values.reshape(self.shape + values.shape[len(self.stored_shape) :])


def plane_normal(shape: Sequence[int]) -> str:
    """Return ``x``, ``y`` or ``z`` for a plane of shape (nz, ny, nx), ``none`` for a volume."""
    flat = [axis for axis, count in zip("zyx", shape, strict=True) if count == 1]
    return flat[0] if flat else "none"


def lay_out(
    file: Any, storage: Storage, origin: Sequence[float], fields: Sequence[str], step_count: int, dtype: Any
) -> str:
    """Create the groups with space for `step_count` steps; return the name of the group of times."""
    root = file.create_group("VTKHDF")
    root.attrs["Version"] = np.array(VERSION, dtype=np.int64)
    root.attrs["Type"] = np.bytes_("ImageData")
    extent = [bound for count in storage.dimensions for bound in (0, count - 1)]
    root.attrs["WholeExtent"] = np.array(extent, dtype=np.int64)
    root.attrs["Origin"] = np.array(origin, dtype=float)
    root.attrs["Spacing"] = np.array(storage.spacing)
    root.attrs["Direction"] = np.eye(3).ravel()
    arrays = root.create_group("PointData")
    # A single step is stored as data without time, the only form that VTK reads.
    leading = (step_count,) if step_count > 1 else ()
    for field in fields:
        for name, count in stored_arrays(field).items():
            shape = leading + storage.stored_shape + (() if count is None else (count,))
            hdf5.preallocate(arrays, name, shape, dtype, units=UNITS[field])
    parent = root if step_count > 1 else file
    steps = parent.create_group("Steps")
    steps.attrs["NSteps"] = np.int64(0)
    # VTK reads all of Values and assumes NSteps entries, so the data set grows with the steps.
    values = steps.create_dataset("Values", (0,), float, maxshape=(step_count,), chunks=(step_count,))
    values.attrs["units"] = "s"
    offsets = steps.create_group("PointDataOffsets")
    for name in arrays:
        offsets.create_dataset(name, data=np.arange(step_count, dtype=np.int64))
    return steps.name
