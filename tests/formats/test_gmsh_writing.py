"""Meshes of tetrahedra written as .msh files: what is written is read, by lithowave and by meshio."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from jittered_boxes import jittered
from lithowave import OutputError
from lithowave.mesh import TETRAHEDRON_FACES, TetrahedralMesh, read_tetrahedral_mesh, tetrahedral_box, write_gmsh


@pytest.fixture
def mesh() -> TetrahedralMesh:
    box = jittered(tetrahedral_box((0, 300), (-100, 200), (-250, 0), 100.0, (-100.0,)), 0.1)
    return replace(box, groups=("water", "rock below")).local()


def faces(mesh: TetrahedralMesh, name: str) -> set[tuple[int, ...]]:
    rows = mesh.boundaries[name]
    return set(map(tuple, np.sort(mesh.elements[rows[:, :1], TETRAHEDRON_FACES[rows[:, 1]]]).tolist()))


def test_what_is_written_is_read(mesh, tmp_path):
    path = write_gmsh(tmp_path / "box.msh", mesh)
    read = read_tetrahedral_mesh(path)
    assert read.groups == mesh.groups
    for name in ("vertices", "elements", "materials"):
        assert np.array_equal(getattr(read, name), getattr(mesh, name))
    assert read.ids.tolist() == list(range(1, mesh.element_count + 1))
    assert set(read.boundaries) == {"x_min", "x_max", "y_min", "y_max", "z_min", "z_max"}
    assert all(faces(read, name) == faces(mesh, name) for name in mesh.boundaries)


def test_meshio_reads_the_same(mesh, tmp_path):
    meshio = pytest.importorskip("meshio")
    read = meshio.read(write_gmsh(tmp_path / "box.msh", mesh))
    assert np.array_equal(read.points, mesh.vertices)
    elements, numbers = read.cells_dict["tetra"], read.cell_data_dict["gmsh:physical"]
    assert np.array_equal(np.sort(elements), mesh.elements)
    assert np.array_equal(numbers["tetra"], mesh.materials + 1)
    corners = read.points[elements]
    assert (np.linalg.det(corners[:, 1:] - corners[:, :1]) > 0).all()
    assert {name: tuple(place) for name, place in read.field_data.items() if name in mesh.groups} == {
        "water": (1, 3), "rock below": (2, 3),
    }  # fmt: skip
    tag, dimension = read.field_data["x_min"]
    plane = read.points[read.cells_dict["triangle"][numbers["triangle"] == tag]]
    assert dimension == 2 and len(plane) == len(mesh.boundaries["x_min"]) and (plane[:, :, 0] == 0).all()


def test_what_cannot_be_written_is_told(mesh, tmp_path):
    with pytest.raises(OutputError, match='is not valid in a .msh file'):
        write_gmsh(tmp_path / "box.msh", replace(mesh, groups=("water", 'the "rock"')))
    with pytest.raises(OutputError, match="cannot be written: No such file"):
        write_gmsh(tmp_path / "nowhere" / "box.msh", mesh)
