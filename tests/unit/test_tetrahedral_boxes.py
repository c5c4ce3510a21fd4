"""Tetrahedra cut from hexahedra fit together, fill the same body, and have the shapes that are stated."""

from __future__ import annotations

import numpy as np
import pytest

from lithowave.mesh import (
    CUTS,
    HexahedralMesh,
    TetrahedralMesh,
    face_vertices,
    layered_box,
    split_hexahedra,
)
from lithowave.mesh import FACES as HEXAHEDRON_FACES
from tetrahedra_plans import check_conforming


def hill(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return 0.4 * np.sin(0.7 * x + y)


MESHES = {
    "straight": lambda: layered_box((0, 4), (0, 3), [0, -5], [(1, 1)]),
    "curved": lambda: layered_box((0, 6), (0, 5), [hill, -2, -5], [(1, 1), (1.2, 1.3)]),
    "doubled": lambda: layered_box((0, 8), (0, 8), [hill, -3, -12], [(1, 1), (4, 3)]),
}


@pytest.fixture(params=MESHES, scope="module")
def hexahedra(request: pytest.FixtureRequest) -> HexahedralMesh:
    return MESHES[request.param]()


def plane_area(mesh: TetrahedralMesh, name: str) -> float:
    a, b, c = np.moveaxis(mesh.vertices[face_vertices(mesh, mesh.boundaries[name])], 1, 0)
    return float(np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2)


@pytest.mark.parametrize("cut", CUTS)
def test_pieces_fit_together_and_fill_the_box(hexahedra: HexahedralMesh, cut: str) -> None:
    mesh = split_hexahedra(hexahedra, cut)
    check_conforming(mesh)
    count = {"five": 5, "six": 6}.get(cut, mesh.element_count / hexahedra.element_count)
    assert mesh.element_count == count * hexahedra.element_count and count <= 12
    assert set(mesh.boundaries) == set(hexahedra.boundaries)
    x, y, z = np.ptp(hexahedra.vertices, axis=0)
    assert plane_area(mesh, "z_min") == pytest.approx(x * y)
    for name, faces in hexahedra.boundaries.items():
        assert len(mesh.boundaries[name]) == 2 * len(faces)
        corners = hexahedra.elements[faces[:, :1], HEXAHEDRON_FACES[faces[:, 1]]]
        assert set(face_vertices(mesh, mesh.boundaries[name]).ravel()) == set(corners.ravel())
    bottom = [hexahedra.materials.max() == layer for layer in mesh.materials]
    depth = hexahedra.vertices[:, 2].min()
    thickness = {1: z, 2: 3, 3: 9}[1 if len(set(mesh.materials)) == 1 else 2 if depth == -5 else 3]
    assert mesh.volumes()[bottom].sum() == pytest.approx(x * y * thickness)


def test_a_ring_of_three_has_no_two_colours() -> None:
    around = np.arange(3)
    ring = np.stack([around, (around + 1) % 3], axis=1)
    angles = 2 * np.pi * around / 3
    circle = np.column_stack([np.cos(angles), np.sin(angles)])
    levels = [(scale, z) for z in (0, 1) for scale in (1, 2)]
    vertices = np.concatenate([np.column_stack([scale * circle, np.full(3, z)]) for scale, z in levels])
    elements = np.stack([ring[:, 0], ring[:, 0] + 3, ring[:, 1] + 3, ring[:, 1]], axis=1)
    mesh = HexahedralMesh(vertices, np.hstack([elements, elements + 6]), np.zeros(3, np.int64))
    with pytest.raises(ValueError, match="odd length"):
        split_hexahedra(mesh, "five")
    for cut in ("six", "twelve"):
        split = split_hexahedra(mesh, cut)
        check_conforming(split, euler=0)
        assert split.volumes().sum() == pytest.approx(9 * np.sqrt(3) / 4)
