"""Meshes cut along a body: they remain meshes of the same box, and the body has its volume and surface."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from jittered_boxes import jittered, periodic_box
from lithowave import InputError
from lithowave.mesh import CUTS, TetrahedralMesh, cut_along, deformed, face_vertices, make_mesh, tetrahedral_box
from lithowave.mesh.checks import described
from lithowave.mesh.tetrahedral_checks import element_measures
from tetrahedra_plans import check_conforming


def sphere(radius: float, centre: tuple[float, float, float] = (0.03, 0.11, -0.07)):
    return lambda x, y, z: np.sqrt((x - centre[0]) ** 2 + (y - centre[1]) ** 2 + (z - centre[2]) ** 2) - radius


def body_faces(mesh: TetrahedralMesh, inside: np.ndarray) -> np.ndarray:
    """Vertices (f, 3) of the faces between inside and outside."""
    neighbors = mesh.neighbors
    between = (neighbors >= 0) & inside[:, None] & ~inside[neighbors // 4]
    return face_vertices(mesh, np.argwhere(between))


def area(mesh: TetrahedralMesh, inside: np.ndarray) -> float:
    a, b, c = np.moveaxis(mesh.vertices[body_faces(mesh, inside)], 1, 0)
    return float(np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2)


def box(count: int, cut: str = "twelve") -> TetrahedralMesh:
    return tetrahedral_box((-1, 1), (-1, 1), (-1, 1), 2 / count, cut=cut)


@pytest.mark.parametrize("cut", CUTS)
def test_a_sphere_converges_with_the_square_of_the_size(cut: str) -> None:
    """Vertices on the surface lie on it: volume and area are those of a polyhedron inside, whose error is O(h^2)."""
    radius, errors = 0.7, []
    for count in (8, 16):
        whole = box(count, cut)
        mesh, inside = cut_along(whole, sphere(radius))
        check_conforming(mesh)
        assert mesh.volumes().sum() == pytest.approx(8, rel=1e-12)
        corners = mesh.vertices[body_faces(mesh, inside)]
        np.testing.assert_allclose(sphere(radius)(*corners.reshape(-1, 3).T), 0, atol=1e-9)
        faces = body_faces(mesh, inside)
        edges = np.unique(np.sort(faces[:, [[0, 1], [1, 2], [0, 2]]].reshape(-1, 2), axis=1), axis=0)
        assert len(np.unique(faces)) - len(edges) + len(faces) == 2  # the faces make one closed surface
        volume = mesh.volumes()[inside].sum() / (4 / 3 * np.pi * radius**3)
        errors.append([1 - volume, 1 - area(mesh, inside) / (4 * np.pi * radius**2)])
        assert mesh.insphere_radii().min() > 0.19 * whole.insphere_radii().min()
    ratios = np.divide(*errors)
    assert (np.array(errors) > 0).all() and max(errors[0]) < 0.07
    assert (ratios > 3.3).all() and (ratios < 4.8).all()


def test_layers_and_sides_keep_their_places() -> None:
    """A body through a flat and a bent interface, up to the topography and out at one side."""
    whole = tetrahedral_box((0, 10), (0, 8), (-8, 0), 1, (-2.0, lambda x, y: -5 + 0.5 * np.sin(x)))
    whole = deformed(whole, lambda x, y, z: (0, 0, 0.4 * np.sin(x + 0.5 * y) * (1 + z / 8) * (z > -2)))
    whole = replace(whole, ids=100 + np.arange(whole.element_count), groups=("a", "b", "c"))
    mesh, inside = cut_along(whole, lambda x, y, z: np.hypot((x - 7.6) / 1.2, y - 4.3) - 3 + 0.1 * z)
    check_conforming(mesh)
    np.testing.assert_allclose(
        np.bincount(mesh.materials, mesh.volumes()), np.bincount(whole.materials, whole.volumes()), rtol=1e-12
    )
    assert set(np.unique(mesh.materials[inside])) == {0, 1, 2} and mesh.groups == whole.groups
    for name, faces in whole.boundaries.items():
        old, new = (some.vertices[face_vertices(some, some.boundaries[name])] for some in (whole, mesh))
        areas = [np.cross(some[:, 1] - some[:, 0], some[:, 2] - some[:, 0]) for some in (old, new)]
        sums = [np.linalg.norm(some, axis=1).sum() for some in areas]
        assert sums[0] == pytest.approx(sums[1], rel=1e-12) and len(new) >= len(faces)
    assert len(mesh.boundaries["x_max"]) > len(whole.boundaries["x_max"])
    parents = mesh.ids - 100
    pieces = np.bincount(parents, minlength=whole.element_count)
    assert pieces.min() == 1 and pieces.max() <= 6
    np.testing.assert_array_equal(mesh.materials, whole.materials[parents])
    assert mesh.insphere_radii().min() > 0.15 * whole.insphere_radii().min()


def test_boundaries_in_one_plane_keep_their_border() -> None:
    whole = box(8)
    top = face_vertices(whole, whole.boundaries["z_max"])
    left = whole.vertices[top][:, :, 0].max(axis=1) <= 0
    triples = {name: face_vertices(whole, faces) for name, faces in whole.boundaries.items()}
    del triples["z_max"]
    parted = make_mesh(whole.vertices, whole.elements, boundaries={**triples, "left": top[left], "right": top[~left]})
    mesh, _ = cut_along(parted, lambda x, y, z: x - 0.1 * y - 0.03)
    check_conforming(mesh)
    assert len(mesh.boundaries["left"]) > len(parted.boundaries["left"])
    for name, sign in (("left", -1), ("right", 1)):
        corners = mesh.vertices[face_vertices(mesh, mesh.boundaries[name])]
        assert (sign * corners[:, :, 0]).min() >= 0
        assert np.abs(np.cross(*np.diff(corners, axis=1).transpose(1, 0, 2))[:, 2]).sum() / 2 == pytest.approx(2)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_moves_turn_no_element_over(seed: int) -> None:
    """Uneven elements, and moves of nearly half an edge: many have to be taken back."""
    whole = jittered(box(8, "five"), 0.27, seed)
    mesh, _ = cut_along(whole, sphere(0.6), 0.49)
    check_conforming(mesh)
    assert mesh.volumes().sum() == pytest.approx(8, rel=1e-12)


def test_wrong_input_is_refused() -> None:
    whole = box(4)
    with pytest.raises(InputError, match=r"level: it is not finite at \(-1, -1, 1\) m"):
        cut_along(whole, lambda x, y, z: np.where(x < -0.9, np.nan, x))
    with pytest.raises(ValueError, match="snap: 0.5"):
        cut_along(whole, sphere(0.5), 0.5)
    with pytest.raises(ValueError, match="periodic"):
        cut_along(periodic_box((4, 4, 4)), sphere(0.5))


def test_the_quality_of_a_cut_mesh() -> None:
    """The measures against plain sums, element by element."""
    mesh, _ = cut_along(box(4), sphere(0.7))
    mesh = replace(mesh, ids=50 + np.arange(mesh.element_count))
    found = element_measures(mesh)
    corners = mesh.element_vertices()
    edges = np.linalg.norm(corners[:, :, None] - corners[:, None], axis=3)
    angles = []
    for tetrahedron in corners:
        outward = []
        for corner in range(4):
            a, b, c = np.delete(tetrahedron, corner, axis=0)
            normal = np.cross(b - a, c - a)
            outward.append(normal / np.linalg.norm(normal) * np.sign(normal @ (a - tetrahedron[corner])))
        angles.append(180 - np.degrees(np.arccos(np.dot(outward, np.transpose(outward))[np.triu_indices(4, 1)])))
    ratios = mesh.insphere_radii() / edges.max(axis=(1, 2))
    for name, values in (
        ("shortest_edge", np.where(edges > 0, edges, np.inf).min(axis=(1, 2))),
        ("longest_edge", edges.max(axis=(1, 2))),
        ("radius_ratio", ratios), ("dihedral_angle", np.min(angles, axis=1)), ("volume", mesh.volumes()),
    ):  # fmt: skip
        np.testing.assert_allclose(found[name], values, rtol=1e-9, err_msg=name)
    assert found["volume"].sum() == pytest.approx(8, rel=1e-9)
    worst = described(mesh, int(ratios.argmin()))
    assert (worst["element"], worst["id"]) == (ratios.argmin(), 50 + ratios.argmin())
    np.testing.assert_allclose(worst["centre"], corners[ratios.argmin()].mean(axis=0))
