"""Layouts of VTKHDF files with time steps, for ParaView and PyVista: image data, and grids in a chunk of the globe.

Layout of fields on a regular grid (VTKHDF 2.0, https://docs.vtk.org, "VTKHDF format specification")::

    /VTKHDF                     Version, Type = ImageData, WholeExtent, Origin, Spacing, Direction
    /VTKHDF/PointData/<field>   (steps, [nz,] ny, nx[, components])
    /VTKHDF/Steps               NSteps; Values (NSteps,) s; PointDataOffsets/<field> (steps,)

Three properties of VTK's reader (versions 9.3 to 9.7) determine the rest. It expects arrays of a z plane without their
z axis. Some versions mix up the axes of planes normal to x or y, which are therefore stored two points thick, a
hundredth of a spacing apart, with the same values. It reads a single step as data without time, which are therefore
written for it.

Layout of fields in a chunk of the globe, an unstructured grid in Earth-centered coordinates, for n points, x fastest,
then y and z of the local coordinates::

    /VTKHDF                     Version, Type = UnstructuredGrid
    /VTKHDF/Points (n, 3)       m, from the center of the Earth: towards longitude 0, longitude 90, and the North Pole
    /VTKHDF/Connectivity, Offsets, Types, NumberOfPoints, NumberOfCells, NumberOfConnectivityIds
                                quadrilaterals of a plane, or hexahedra of a volume
    /VTKHDF/PointData/<field>   (steps * n[, components]): vectors are East, North, Up at each point
    /VTKHDF/PointData/East, North, Up
                                (n, 3) unit vectors in the coordinates of the points, the same for all steps
    /VTKHDF/Steps               NSteps; Values (NSteps,) s; offsets of the points and cells, which are 0, and of the
                                fields; in files of one step the group is outside of /VTKHDF

The Cartesian vector of a field v is v_E East + v_N North + v_Up Up.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from lithowave.globe_coordinates import ChunkMap
from lithowave.output import files
from lithowave.output.attributes import UNITS

if TYPE_CHECKING:
    from pathlib import Path

    import h5py
    import numpy.typing as npt

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
    """Storage layout of an array of shape (nz, ny, nx). curved : in an unstructured grid, see `vtkhdf`."""

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
    file: h5py.File, storage: Storage, origin: Sequence[float], fields: Sequence[str], step_count: int,
    dtype: npt.DTypeLike,
) -> str:  # fmt: skip
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
            files.preallocate(arrays, name, shape, dtype, units=UNITS[field])
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


HEXAHEDRON, QUADRILATERAL = 12, 9  # cell types of VTK
DIRECTIONS = ("East", "North", "Up")
PLANE_POINT_BYTES, VOLUME_POINT_BYTES = 101, 133  # of points, directions and cells per point, in single precision


def geometry_bytes(shape: Sequence[int], dtype: np.dtype) -> int:
    """Return the bytes of points, cells and directions of a grid (nz, ny, nx)."""
    corners, cells = _cells(shape)
    return math.prod(shape) * (24 + 9 * dtype.itemsize) + cells * (8 * len(corners) + 9)


def lay_out_chunk(
    file: h5py.File, storage: Storage, fields: Sequence[str], step_count: int, dtype: npt.DTypeLike
) -> str:
    """Create the groups with space for the geometry and `step_count` steps; return the name of the group of times."""
    root = file.create_group("VTKHDF")
    root.attrs["Version"] = np.array(VERSION, dtype=np.int64)
    root.attrs["Type"] = np.bytes_("UnstructuredGrid")
    (points,), (corners, cells) = storage.stored_shape, _cells(storage.shape)
    counts = {"NumberOfPoints": points, "NumberOfCells": cells, "NumberOfConnectivityIds": cells * len(corners)}
    for name, count in counts.items():
        root.create_dataset(name, data=np.array([count], dtype=np.int64))
    files.preallocate(root, "Points", (points, 3), float, units="m")
    files.preallocate(root, "Connectivity", (cells * len(corners),), np.int64)
    files.preallocate(root, "Offsets", (cells + 1,), np.int64)
    files.preallocate(root, "Types", (cells,), np.uint8)
    arrays = root.create_group("PointData")
    for field in fields:
        for name, components in stored_arrays(field).items():
            shape = (step_count * points,) + (() if components is None else (components,))
            files.preallocate(arrays, name, shape, dtype, units=UNITS[field])
    starts = {name: points * np.arange(step_count) for name in arrays}
    for name in DIRECTIONS:
        starts[name] = np.zeros(step_count, np.int64)
        files.preallocate(arrays, name, (points, 3), dtype, units="1")
    steps = (root if step_count > 1 else file).create_group("Steps")
    steps.attrs["NSteps"] = np.int64(0)
    values = steps.create_dataset("Values", (0,), float, maxshape=(step_count,), chunks=(step_count,))
    values.attrs["units"] = "s"
    for name in ("PartOffsets", "PointOffsets"):
        steps.create_dataset(name, data=np.zeros(step_count, dtype=np.int64))
    for name in ("CellOffsets", "ConnectivityIdOffsets"):  # one column, for the one kind of topology
        steps.create_dataset(name, data=np.zeros((step_count, 1), dtype=np.int64))
    steps.create_dataset("NumberOfParts", data=np.ones(step_count, dtype=np.int64))
    offsets = steps.create_group("PointDataOffsets")
    for name, start in starts.items():
        offsets.create_dataset(name, data=start.astype(np.int64))
    return steps.name


def write_geometry(
    path: Path, descriptor: int, chunk: ChunkMap, origin: Sequence[float], spacing: Sequence[float],
    shape: Sequence[int],
) -> None:  # fmt: skip
    """Write points, directions and cells of a grid (nz, ny, nx) with its first point at `origin` (x, y, z), m."""
    with files.open_file(path) as file:
        root = file["VTKHDF"]
        names = ("Points", "Connectivity", "Offsets", "Types", *(f"PointData/{name}" for name in DIRECTIONS))
        arrays = {name: files.ContiguousDataset.of(root[name]) for name in names}
    x, y, z = (o + d * np.arange(n) for o, d, n in zip(origin, spacing, reversed(shape), strict=True))
    east, north = np.meshgrid(x, y)
    axes = chunk.axes(east, north).reshape(-1, 3, 3)
    for level, height in enumerate(z):
        first = 3 * level * len(axes)
        arrays["Points"].write_range(descriptor, first, chunk.to_cartesian(east, north, np.array(height)))
        for row, name in enumerate(DIRECTIONS):
            arrays[f"PointData/{name}"].write_range(descriptor, first, axes[:, row])
    corners, cells = _cells(shape)
    first = 0
    for origins in _first_corners(shape):
        arrays["Connectivity"].write_range(descriptor, first * len(corners), origins[:, None] + corners)
        first += len(origins)
    for start in range(0, cells + 1, 1_000_000):
        ids = np.arange(start, min(start + 1_000_000, cells + 1))
        arrays["Offsets"].write_range(descriptor, start, len(corners) * ids)
        arrays["Types"].write_range(
            descriptor, start, np.full(min(len(ids), cells - start), HEXAHEDRON if len(corners) == 8 else QUADRILATERAL)
        )


def _cells(shape: Sequence[int]) -> tuple[np.ndarray, int]:
    """Return the indices of the corners of a cell relative to the first one, in VTK's order, and the cell count."""
    nz, ny, nx = shape
    steps = [step for step, count in ((1, nx), (nx, ny), (nx * ny, nz)) if count > 1]
    if len(steps) < 2:
        raise ValueError(f"a grid of shape {tuple(shape)} has no cells")
    square = np.array([0, steps[0], steps[0] + steps[1], steps[1]])
    corners = square if len(steps) == 2 else np.concatenate([square, square + steps[2]])
    return corners, math.prod(max(count - 1, 1) for count in shape)


def _first_corners(shape: Sequence[int]) -> Iterator[np.ndarray]:
    """Yield the indices of the first corners of the cells, for one level of z at a time."""
    nz, ny, nx = shape
    x, y = (np.arange(max(count - 1, 1)) for count in (nx, ny))
    for level in range(max(nz - 1, 1)):
        yield ((level * ny + y[:, None]) * nx + x).ravel()
