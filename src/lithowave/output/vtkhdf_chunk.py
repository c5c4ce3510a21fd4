"""Layout of fields in a chunk of the globe in VTKHDF files: an unstructured grid in Earth-centered coordinates.

Layout (VTKHDF 2.0, see `vtkhdf`), for n points, x fastest, then y and z of the local coordinates::

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
from typing import Any

import numpy as np

from lithowave.output import hdf5
from lithowave.output.attributes import UNITS
from lithowave.output.vtkhdf import VERSION, Storage, stored_arrays
from lithowave.sphere import ChunkMap

HEXAHEDRON, QUADRILATERAL = 12, 9  # cell types of VTK
DIRECTIONS = ("East", "North", "Up")
PLANE_POINT_BYTES, VOLUME_POINT_BYTES = 101, 133  # of points, directions and cells per point, in single precision


def geometry_bytes(shape: Sequence[int], dtype: np.dtype) -> int:
    """Return the bytes of points, cells and directions of a grid (nz, ny, nx)."""
    corners, cells = _cells(shape)
    return math.prod(shape) * (24 + 9 * dtype.itemsize) + cells * (8 * len(corners) + 9)


def lay_out_chunk(file: Any, storage: Storage, fields: Sequence[str], step_count: int, dtype: Any) -> str:
    """Create the groups with space for the geometry and `step_count` steps; return the name of the group of times."""
    root = file.create_group("VTKHDF")
    root.attrs["Version"] = np.array(VERSION, dtype=np.int64)
    root.attrs["Type"] = np.bytes_("UnstructuredGrid")
    (points,), (corners, cells) = storage.stored_shape, _cells(storage.shape)
    counts = {"NumberOfPoints": points, "NumberOfCells": cells, "NumberOfConnectivityIds": cells * len(corners)}
    for name, count in counts.items():
        root.create_dataset(name, data=np.array([count], dtype=np.int64))
    hdf5.preallocate(root, "Points", (points, 3), float, units="m")
    hdf5.preallocate(root, "Connectivity", (cells * len(corners),), np.int64)
    hdf5.preallocate(root, "Offsets", (cells + 1,), np.int64)
    hdf5.preallocate(root, "Types", (cells,), np.uint8)
    arrays = root.create_group("PointData")
    for field in fields:
        for name, count in stored_arrays(field).items():
            shape = (step_count * points,) + (() if count is None else (count,))
            hdf5.preallocate(arrays, name, shape, dtype, units=UNITS[field])
    starts = {name: points * np.arange(step_count) for name in arrays}
    for name in DIRECTIONS:
        starts[name] = np.zeros(step_count)
        hdf5.preallocate(arrays, name, (points, 3), dtype, units="1")
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
    path: Any, descriptor: int, chunk: ChunkMap, origin: Sequence[float], spacing: Sequence[float], shape: Sequence[int]
) -> None:
    """Write points, directions and cells of a grid (nz, ny, nx) with its first point at `origin` (x, y, z), m."""
    with hdf5.open_file(path) as file:
        root = file["VTKHDF"]
        names = ("Points", "Connectivity", "Offsets", "Types", *(f"PointData/{name}" for name in DIRECTIONS))
        arrays = {name: hdf5.ContiguousDataset.of(root[name]) for name in names}
    x, y, z = (o + d * np.arange(n) for o, d, n in zip(origin, spacing, reversed(shape), strict=True))
    axes = chunk.axes(*np.meshgrid(x, y)).reshape(-1, 3, 3)
    for level, height in enumerate(z):
        first = 3 * level * len(axes)
        arrays["Points"].write_range(descriptor, first, chunk.to_cartesian(*np.meshgrid(x, y), np.array(height)))
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
