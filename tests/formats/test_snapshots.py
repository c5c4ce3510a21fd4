"""Snapshots: VTKHDF image data with time steps that our reader, h5py and VTK itself understand alike."""

import h5py
import numpy as np
import pytest

from lithowave import InputError, OutputError
from lithowave.backends import PendingCopy
from lithowave.globe_coordinates import RADIUS, ChunkMap
from lithowave.output import (
    THICKNESS,
    PartWriter,
    SnapshotHead,
    SnapshotWriter,
    geographic_origin,
    load_snapshots,
    standard_attributes,
)
from small_machine import limit_disk, limit_files

ORIGIN, SPACING = (-300.0, 50.0, -80.0), (100.0, 25.0, 10.0)
# (nz, ny, nx): planes normal to z, y, x, and a volume
SHAPES = {"z": (1, 4, 5), "y": (3, 1, 5), "x": (3, 4, 1), "none": (3, 4, 5)}


def field_at(step, shape, components=3, seed=0):
    random = np.random.default_rng(seed + 10 * step)
    return random.normal(size=(*shape, components) if components > 1 else shape).astype(np.float32)


def write(path, shape, steps=3, step_count=3, fields=("velocity", "pressure"), place=(ORIGIN, SPACING), **keywords):
    writer = SnapshotWriter(path, *place, shape, fields, step_count=step_count, **keywords)
    for step in range(steps):
        writer.write(0.5 * step, {"velocity": field_at(step, shape), "pressure": field_at(step, shape, 1, 5)})
    return writer


# A chunk of the globe near the South Pole and the date line
CHUNK = (179.0, -88.0, 20.0)
CHUNK_ORIGIN, CHUNK_SPACING = (-2e5, -1e5, -3e5), (1e5, 1.5e5, 1e5)


def write_chunk(path, shape, steps, step_count):
    place = (CHUNK_ORIGIN, CHUNK_SPACING)
    return write(path, shape, steps, step_count, place=place, attributes=standard_attributes("t", CHUNK))


@pytest.mark.parametrize("plane", SHAPES)
@pytest.mark.parametrize("step_count", [1, 3])
@pytest.mark.parametrize("chunk", [False, True])
def test_every_step_comes_back(tmp_path, plane, step_count, chunk):
    shape = SHAPES[plane]
    (write_chunk if chunk else write)(tmp_path / "s.vtkhdf", shape, step_count, step_count).close()
    origin, spacing = (CHUNK_ORIGIN, CHUNK_SPACING) if chunk else (ORIGIN, SPACING)
    with load_snapshots(tmp_path / "s.vtkhdf") as snapshots:
        assert len(snapshots) == step_count
        assert np.array_equal(snapshots.times, 0.5 * np.arange(step_count))
        assert (snapshots.plane, snapshots.shape) == (plane, shape)
        assert (snapshots.origin, snapshots.spacing) == (origin, spacing)
        assert snapshots.units == {"velocity": "m/s", "pressure": "Pa"}
        assert np.array_equal(snapshots.axis("y"), origin[1] + spacing[1] * np.arange(shape[1]))
        for step in range(step_count):
            assert np.array_equal(snapshots.read(step, "velocity"), field_at(step, shape))
            assert np.array_equal(snapshots.read(step - step_count, "pressure"), field_at(step, shape, 1, 5))


class InPieces(PendingCopy):
    """A copy whose pieces, of five points each, are valid until the next one is taken."""

    in_pieces = True

    def pieces(self):
        flat, length = self.wait().ravel(), 5 * self.shape[-1]
        for first in range(0, flat.size, length):
            piece = flat[first : first + length].copy()
            yield piece
            piece[:] = np.nan


@pytest.mark.parametrize("plane", SHAPES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fields_that_arrive_in_pieces_make_the_same_file(tmp_path, plane, dtype):
    fields, shape = {"velocity": 3, "stress": 6}, SHAPES[plane]
    for name, arriving in (("whole.vtkhdf", np.asarray), ("pieces.vtkhdf", InPieces)):
        with SnapshotWriter(tmp_path / name, ORIGIN, SPACING, shape, fields, step_count=2) as writer:
            for step in range(2):
                values = {field: field_at(step, shape, count).astype(dtype) for field, count in fields.items()}
                writer.write(0.5 * step, {field: arriving(one) for field, one in values.items()})
    assert (tmp_path / "pieces.vtkhdf").read_bytes() == (tmp_path / "whole.vtkhdf").read_bytes()
    with load_snapshots(tmp_path / "pieces.vtkhdf") as snapshots:
        assert np.array_equal(snapshots.read(1, "stress"), field_at(1, shape, 6))


@pytest.mark.parametrize("order", [1, -1])
def test_parts_that_arrive_in_pieces_make_the_same_file(tmp_path, order):
    """order : -1 for points in descending order, which are sorted first."""
    points = np.arange(3, 20)[::order]
    head = SnapshotHead(ORIGIN, SPACING, SHAPES["none"], ("velocity",), 2, {})
    for name, arriving in (("whole.h5", np.asarray), ("pieces.h5", InPieces)):
        writer = PartWriter(tmp_path / name, head, points, 0, 2)
        for step in range(2):
            writer.write(0.5 * step, {"velocity": arriving(field_at(step, points.shape))})
        writer.close()
    assert (tmp_path / "pieces.h5").read_bytes() == (tmp_path / "whole.h5").read_bytes()


@pytest.mark.parametrize(
    ("plane", "extent", "stored"),
    [
        ("z", (4, 3, 0), (4, 5)),
        ("y", (4, 1, 2), (3, 2, 5)),
        ("x", (1, 3, 2), (3, 4, 2)),
        ("none", (4, 3, 2), (3, 4, 5)),
    ],
)
def test_the_structure_is_that_of_vtkhdf(tmp_path, plane, extent, stored):
    write(tmp_path / "s.vtkhdf", SHAPES[plane], 2, 3).close()
    with h5py.File(tmp_path / "s.vtkhdf") as file:
        root = file["VTKHDF"]
        assert root.attrs["Type"] == b"ImageData"
        # VTK reads the type into a text of fixed length in ASCII
        kind = root.attrs.get_id("Type").get_type()
        assert not kind.is_variable_str() and kind.get_cset() == h5py.h5t.CSET_ASCII
        assert root.attrs["Version"].tolist() == [2, 0]
        assert root.attrs["WholeExtent"].tolist() == [bound for last in extent for bound in (0, last)]
        assert root.attrs["Origin"].tolist() == list(ORIGIN)
        assert np.array_equal(root.attrs["Direction"].reshape(3, 3), np.eye(3))
        assert root["PointData/velocity"].shape == (3, *stored, 3)
        assert root["PointData/pressure"].shape == (3, *stored)
        assert root["PointData/velocity"].dtype == np.float32
        assert root["PointData/velocity"].attrs["units"] == "m/s"
        # two of three steps are written: VTK copies Values whole into room for NSteps numbers
        assert root["Steps"].attrs["NSteps"] == 2
        assert root["Steps/Values"][:].tolist() == [0.0, 0.5]
        assert root["Steps/PointDataOffsets/velocity"][:2].tolist() == [0, 1]
        for name in ("axes", "crs", "time_origin", "components", "units", "software_version"):
            assert name in file.attrs


def test_a_vertical_plane_is_stored_as_a_thin_slab_of_equal_faces(tmp_path):
    write(tmp_path / "s.vtkhdf", SHAPES["y"]).close()
    with h5py.File(tmp_path / "s.vtkhdf") as file:
        assert file["VTKHDF"].attrs["Spacing"].tolist() == [100.0, 25.0 * THICKNESS, 10.0]
        velocity = file["VTKHDF/PointData/velocity"][1]
        assert np.array_equal(velocity[:, 0], velocity[:, 1])
        assert np.array_equal(velocity[:, 0], field_at(1, SHAPES["y"])[:, 0])


def test_a_stress_is_six_named_scalars(tmp_path):
    stress = field_at(0, SHAPES["none"], 6)
    with SnapshotWriter(tmp_path / "s.vtkhdf", ORIGIN, SPACING, SHAPES["none"], ["stress"], step_count=2) as writer:
        writer.write(0.0, {"stress": stress})
    with h5py.File(tmp_path / "s.vtkhdf") as file:
        assert np.array_equal(file["VTKHDF/PointData/stress_xz"][0], stress[..., 4])
    with load_snapshots(tmp_path / "s.vtkhdf") as snapshots:
        assert np.array_equal(snapshots.read(0, "stress"), stress)


def test_resume_drops_later_steps_and_goes_on(tmp_path):
    path, shape = tmp_path / "s.vtkhdf", SHAPES["z"]
    write(path, shape, 4, 5).close()
    with SnapshotWriter.resume(path, 0.5) as writer:
        assert writer.steps_written == 2
        for step in (2, 3, 4):
            values = {"velocity": field_at(step, shape), "pressure": field_at(step, shape, 1, 5)}
            writer.write(0.5 * step, values)
    write(tmp_path / "whole.vtkhdf", shape, 5, 5).close()
    with load_snapshots(path) as resumed, load_snapshots(tmp_path / "whole.vtkhdf") as whole:
        assert np.array_equal(resumed.times, whole.times)
        for step in range(5):
            assert np.array_equal(resumed.read(step, "velocity"), whole.read(step, "velocity"))


def test_earlier_snapshots_outlive_a_full_disk(tmp_path):
    shape = (1, 100, 100)
    with SnapshotWriter(tmp_path / "s.vtkhdf", ORIGIN, SPACING, shape, ["velocity"], step_count=20) as writer:
        for step in range(2):
            writer.write(float(step), {"velocity": field_at(step, shape)})
        with limit_files(300_000), pytest.raises(OutputError, match="is full.*2 snapshots remain readable"):
            writer.write(2.0, {"velocity": field_at(2, shape)})
    with load_snapshots(tmp_path / "s.vtkhdf") as snapshots:
        assert snapshots.times.tolist() == [0.0, 1.0]
        assert np.array_equal(snapshots.read(1, "velocity"), field_at(1, shape))


def test_too_little_room_is_refused_before_anything_is_written(tmp_path, monkeypatch):
    """Ten vectors of three numbers of four bytes at 20,000 points."""
    limit_disk(monkeypatch, 2_000_000)
    with pytest.raises(OutputError, match="requires 2.4 MB of disk space, 2 MB are free"):
        SnapshotWriter(tmp_path / "s.vtkhdf", ORIGIN, SPACING, (1, 100, 200), ["velocity"], step_count=10)
    assert not (tmp_path / "s.vtkhdf").exists()


def test_wrong_calls_are_refused(tmp_path):
    path, shape = tmp_path / "s.vtkhdf", SHAPES["z"]
    with pytest.raises(InputError, match="'speed'.*one of displacement, velocity"):
        SnapshotWriter(path, ORIGIN, SPACING, shape, ["speed"], step_count=1)
    writer = write(path, shape, 2, 2, fields=["velocity"])
    with pytest.raises(ValueError, match="the file has space for 2 steps"):
        writer.write(9.0, {"velocity": field_at(0, shape)})
    writer = write(path, shape, 0, 2)
    with pytest.raises(ValueError, match="lacks pressure"):
        writer.write(0.0, {"velocity": field_at(0, shape)})
    with pytest.raises(ValueError, match=r"shape \(4, 5, 3\), expected \(1, 4, 5, 3\)"):
        writer.write(0.0, {"velocity": field_at(0, shape)[0], "pressure": field_at(0, shape, 1)})
    writer.close()
    with load_snapshots(path) as snapshots, pytest.raises(IndexError):
        snapshots.read(0, "velocity")


def test_damaged_and_foreign_files_are_named(tmp_path):
    (tmp_path / "bad.vtkhdf").write_bytes(b"nothing of the kind")
    with pytest.raises(OutputError, match="bad.vtkhdf: is damaged"):
        load_snapshots(tmp_path / "bad.vtkhdf")
    with h5py.File(tmp_path / "other.vtkhdf", "w") as file:
        file.create_group("VTKHDF")
    with pytest.raises(OutputError, match="not a lithowave snapshot file"):
        load_snapshots(tmp_path / "other.vtkhdf")


@pytest.mark.parametrize("plane", SHAPES)
@pytest.mark.parametrize("step_count", [1, 3])
def test_vtk_reads_every_step_in_place(tmp_path, plane, step_count):
    vtk = pytest.importorskip("vtk")
    from vtk.util.numpy_support import vtk_to_numpy

    shape = SHAPES[plane]
    # room for one step more than is written: what ParaView sees of a run that was stopped
    write(tmp_path / "s.vtkhdf", shape, step_count, step_count + (step_count > 1)).close()
    reader = vtk.vtkHDFReader()
    reader.SetFileName(str(tmp_path / "s.vtkhdf"))
    reader.UpdateInformation()
    assert reader.GetNumberOfSteps() == step_count
    information, key = reader.GetOutputInformation(0), vtk.vtkStreamingDemandDrivenPipeline.TIME_STEPS()
    if step_count > 1:
        assert [information.Get(key, step) for step in range(information.Length(key))] == [0.0, 0.5, 1.0]
    for step in range(step_count):
        reader.SetStep(step)
        reader.Update()
        image = reader.GetOutput()
        dimensions = image.GetDimensions()
        doubled = tuple(2 if count == 1 and name in "xy" else count for count, name in zip(shape, "zyx", strict=True))
        assert dimensions == doubled[::-1]
        points = np.array([image.GetPoint(index) for index in range(image.GetNumberOfPoints())])
        assert np.allclose(points.min(axis=0), ORIGIN)
        velocity = vtk_to_numpy(image.GetPointData().GetArray("velocity")).reshape(*dimensions[::-1], 3)
        pressure = vtk_to_numpy(image.GetPointData().GetArray("pressure")).reshape(dimensions[::-1])
        nz, ny, nx = shape
        assert np.array_equal(velocity[:nz, :ny, :nx], field_at(step, shape))
        assert np.array_equal(pressure[:nz, :ny, :nx], field_at(step, shape, 1, 5))
        place = np.array(ORIGIN) + np.array(SPACING) * [nx - 1, ny - 1, nz - 1]
        nearest = image.FindPoint(place)
        assert np.allclose(image.GetPoint(nearest), place)
        expected = field_at(step, shape)[-1, -1, -1]
        assert np.array_equal(vtk_to_numpy(image.GetPointData().GetArray("velocity"))[nearest], expected)


# --- chunks of the globe: unstructured grids in Earth-centered coordinates


@pytest.mark.parametrize(("plane", "corners", "kind"), [("z", 4, 9), ("x", 4, 9), ("y", 4, 9), ("none", 8, 12)])
def test_a_chunk_is_an_unstructured_grid(tmp_path, plane, corners, kind):
    shape = SHAPES[plane]
    write_chunk(tmp_path / "s.vtkhdf", shape, 2, 3).close()
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
    shape, chunk = SHAPES[plane], ChunkMap(*CHUNK)
    write_chunk(tmp_path / "s.vtkhdf", shape, 1, 1).close()
    with h5py.File(tmp_path / "s.vtkhdf") as file:
        root = file["VTKHDF"]
        points, cells = root["Points"][:], root["Connectivity"][:].reshape(len(root["Types"]), -1)
        directions = np.stack([root[f"PointData/{name}"][:] for name in ("East", "North", "Up")], axis=1)
    axes = [CHUNK_ORIGIN[k] + CHUNK_SPACING[k] * np.arange(shape[2 - k]) for k in (2, 1, 0)]
    z, y, x = np.meshgrid(*axes, indexing="ij")
    assert np.allclose(points, chunk.to_cartesian(x, y, z).reshape(-1, 3), rtol=0, atol=1e-6)
    assert np.allclose(directions, chunk.axes(x, y).reshape(-1, 3, 3), rtol=0, atol=1e-7)
    assert np.linalg.norm(points, axis=1) == pytest.approx(RADIUS + z.ravel())
    # Neighbors along the sides of a cell are one spacing apart in local coordinates, and no cell appears twice.
    assert len(np.unique(np.sort(cells, axis=1), axis=0)) == len(cells)
    local = np.stack([x, y, z], axis=-1).reshape(-1, 3)[cells] / CHUNK_SPACING
    around = np.abs(np.roll(local[:, :4], -1, axis=1) - local[:, :4])
    assert np.allclose(np.sort(around, axis=-1), [0.0, 0.0, 1.0])
    if cells.shape[1] == 8:
        corners = points[cells]
        edges = np.stack([corners[:, k] - corners[:, 0] for k in (1, 3, 4)], axis=1)
        assert (np.linalg.det(edges) > 0.0).all() and np.allclose(local[:, 4:] - local[:, :4], [0.0, 0.0, 1.0])


def test_points_of_a_chunk_with_ellipticity_are_on_ellipsoids(tmp_path):
    attributes = standard_attributes("t", (*CHUNK, 1.0))
    assert attributes["chunk_ellipticity"] == 1.0 and geographic_origin(attributes) == (*CHUNK, 1.0)
    with SnapshotWriter(
        tmp_path / "s.vtkhdf", (-2e5, -1e5, 0.0), CHUNK_SPACING, SHAPES["z"], ["velocity"], attributes, step_count=1
    ) as writer:
        writer.write(0.0, {"velocity": field_at(0, SHAPES["z"])})
    with h5py.File(tmp_path / "s.vtkhdf") as file:
        points, up = file["VTKHDF/Points"][:], file["VTKHDF/PointData/Up"][:]
    # The radius of an ellipsoid of ellipticity 1/299.8 at the geocentric latitude; Up is normal to it.
    radius = np.linalg.norm(points, axis=1)
    assert radius == pytest.approx(RADIUS * (1.0 - ((points[:, 2] / radius) ** 2 - 1.0 / 3.0) / 299.8), rel=1e-5)
    outward = points / radius[:, None]
    assert 1e-5 < np.linalg.norm(up - outward, axis=1).max() < 1e-3


def test_rows_of_several_ranks_make_the_same_file(tmp_path):
    shape = SHAPES["none"]
    write_chunk(tmp_path / "whole.vtkhdf", shape, 2, 2).close()
    writer = write_chunk(tmp_path / "rows.vtkhdf", shape, 0, 2)
    for step in (1, 0):
        for first in (7, 0):
            rows = slice(first, 12 if first else 7)
            writer.write_rows(step, "velocity", first, field_at(step, shape).reshape(12, 5, 3)[rows])
            writer.write_rows(step, "pressure", first, field_at(step, shape, 1, 5).reshape(12, 5)[rows])
    writer.count([0.0, 0.5])
    writer.close()
    assert (tmp_path / "rows.vtkhdf").read_bytes() == (tmp_path / "whole.vtkhdf").read_bytes()
