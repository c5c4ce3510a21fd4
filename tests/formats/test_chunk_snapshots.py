"""Snapshots of a chunk of the globe: unstructured VTKHDF grids in Earth-centered coordinates."""

import h5py
import numpy as np
import pytest

from lithowave.globe_coordinates import RADIUS, ChunkMap
from lithowave.output import SnapshotWriter, geographic_origin, load_snapshots, standard_attributes

PLACE = (179.0, -88.0, 20.0)  # near the South Pole and the date line
ORIGIN, SPACING = (-2e5, -1e5, -3e5), (1e5, 1.5e5, 1e5)
SHAPES = {"z": (1, 4, 5), "x": (3, 4, 1), "y": (3, 1, 5), "none": (3, 4, 5)}


def values_at(step, shape, *components):
    return np.random.default_rng(step).random((*shape, *components), np.float32)


def write(path, shape, count, room):
    writer = SnapshotWriter(
        path, ORIGIN, SPACING, shape, ["velocity", "pressure"], standard_attributes("t", PLACE), step_count=room
    )
    for step in range(count):
        writer.write(0.5 * step, {"velocity": values_at(step, shape, 3), "pressure": values_at(step, shape)})
    return writer


@pytest.mark.parametrize("plane", SHAPES)
@pytest.mark.parametrize("room", [1, 3])
def test_every_step_comes_back(tmp_path, plane, room):
    shape = SHAPES[plane]
    write(tmp_path / "s.vtkhdf", shape, room, room).close()
    with load_snapshots(tmp_path / "s.vtkhdf") as snapshots:
        assert (snapshots.plane, snapshots.shape, snapshots.origin) == (plane, shape, ORIGIN)
        assert np.array_equal(snapshots.times, 0.5 * np.arange(room))
        assert np.array_equal(snapshots.axis("y"), -1e5 + 1.5e5 * np.arange(shape[1]))
        for step in range(room):
            assert np.array_equal(snapshots.read(step, "velocity"), values_at(step, shape, 3))
            assert np.array_equal(snapshots.read(step - room, "pressure"), values_at(step, shape))


@pytest.mark.parametrize(("plane", "corners", "kind"), [("z", 4, 9), ("x", 4, 9), ("y", 4, 9), ("none", 8, 12)])
def test_the_structure_is_that_of_an_unstructured_grid(tmp_path, plane, corners, kind):
    shape = SHAPES[plane]
    write(tmp_path / "s.vtkhdf", shape, 2, 3).close()
    cells, points = np.prod([max(count - 1, 1) for count in shape]), np.prod(shape)
    with h5py.File(tmp_path / "s.vtkhdf") as file:
        root = file["VTKHDF"]
        assert root.attrs["Type"] == b"UnstructuredGrid" and root.attrs["Version"].tolist() == [2, 0]
        assert [root[f"NumberOf{name}"][:].tolist() for name in ("Points", "Cells", "ConnectivityIds")] == [
            [points], [cells], [cells * corners],
        ]  # fmt: skip
        assert root["Types"][:].tolist() == [kind] * cells
        assert root["Offsets"][:].tolist() == list(range(0, cells * corners + 1, corners))
        assert root["PointData/velocity"].shape == (3 * points, 3)
        assert root["PointData/pressure"].shape == (3 * points,)
        steps = root["Steps"]
        assert steps.attrs["NSteps"] == 2 and steps["Values"][:].tolist() == [0.0, 0.5]
        assert steps["PointDataOffsets/velocity"][:].tolist() == [0, points, 2 * points]
        assert steps["NumberOfParts"][:].tolist() == [1, 1, 1]
        for name in ("PartOffsets", "PointOffsets", "CellOffsets", "ConnectivityIdOffsets", "PointDataOffsets/Up"):
            assert not steps[name][:].any()


@pytest.mark.parametrize("plane", SHAPES)
def test_points_cells_and_directions_are_those_of_the_sphere(tmp_path, plane):
    shape, chunk = SHAPES[plane], ChunkMap(*PLACE)
    write(tmp_path / "s.vtkhdf", shape, 1, 1).close()
    with h5py.File(tmp_path / "s.vtkhdf") as file:
        root = file["VTKHDF"]
        points, cells = root["Points"][:], root["Connectivity"][:].reshape(len(root["Types"]), -1)
        directions = np.stack([root[f"PointData/{name}"][:] for name in ("East", "North", "Up")], axis=1)
    z, y, x = np.meshgrid(*(ORIGIN[k] + SPACING[k] * np.arange(shape[2 - k]) for k in (2, 1, 0)), indexing="ij")
    assert np.allclose(points, chunk.to_cartesian(x, y, z).reshape(-1, 3), rtol=0, atol=1e-6)
    assert np.allclose(directions, chunk.axes(x, y).reshape(-1, 3, 3), rtol=0, atol=1e-7)
    assert np.linalg.norm(points, axis=1) == pytest.approx(RADIUS + z.ravel())
    # Neighbors along the sides of a cell are one spacing apart in local coordinates, and no cell appears twice.
    assert len(np.unique(np.sort(cells, axis=1), axis=0)) == len(cells)
    local = np.stack([x, y, z], axis=-1).reshape(-1, 3)[cells] / SPACING
    around = np.abs(np.roll(local[:, :4], -1, axis=1) - local[:, :4])
    assert np.allclose(np.sort(around, axis=-1), [0.0, 0.0, 1.0])
    if cells.shape[1] == 8:
        corners = points[cells]
        edges = np.stack([corners[:, k] - corners[:, 0] for k in (1, 3, 4)], axis=1)
        assert (np.linalg.det(edges) > 0.0).all() and np.allclose(local[:, 4:] - local[:, :4], [0.0, 0.0, 1.0])


def test_points_of_a_chunk_with_ellipticity_are_on_ellipsoids(tmp_path):
    attributes = standard_attributes("t", (*PLACE, 1.0))
    assert attributes["chunk_ellipticity"] == 1.0 and geographic_origin(attributes) == (*PLACE, 1.0)
    with SnapshotWriter(
        tmp_path / "s.vtkhdf", (-2e5, -1e5, 0.0), SPACING, SHAPES["z"], ["velocity"], attributes, step_count=1
    ) as writer:
        writer.write(0.0, {"velocity": values_at(0, SHAPES["z"], 3)})
    with h5py.File(tmp_path / "s.vtkhdf") as file:
        points, up = file["VTKHDF/Points"][:], file["VTKHDF/PointData/Up"][:]
    # The radius of an ellipsoid of ellipticity 1/299.8 at the geocentric latitude; Up is normal to it.
    radius = np.linalg.norm(points, axis=1)
    assert radius == pytest.approx(RADIUS * (1.0 - ((points[:, 2] / radius) ** 2 - 1.0 / 3.0) / 299.8), rel=1e-5)
    outward = points / radius[:, None]
    assert 1e-5 < np.linalg.norm(up - outward, axis=1).max() < 1e-3


def test_rows_of_several_ranks_make_the_same_file(tmp_path):
    shape = SHAPES["none"]
    write(tmp_path / "whole.vtkhdf", shape, 2, 2).close()
    writer = write(tmp_path / "rows.vtkhdf", shape, 0, 2)
    for step in (1, 0):
        for first in (7, 0):
            rows = slice(first, 12 if first else 7)
            writer.write_rows(step, "velocity", first, values_at(step, shape, 3).reshape(12, 5, 3)[rows])
            writer.write_rows(step, "pressure", first, values_at(step, shape).reshape(12, 5)[rows])
    writer.count([0.0, 0.5])
    writer.close()
    assert (tmp_path / "rows.vtkhdf").read_bytes() == (tmp_path / "whole.vtkhdf").read_bytes()
