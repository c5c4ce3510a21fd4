"""Meshes of tetrahedra: neighbours, boundaries, orders, volumes, against counts and determinants done plainly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from jittered_boxes import jittered
from lithowave import InputError
from lithowave.mesh import TETRAHEDRON_FACES, TetrahedralMesh, face_vertices, make_mesh, tetrahedral_box
from tetrahedra_plans import check_conforming


def face_places(mesh: TetrahedralMesh, name: str) -> set[tuple[float, ...]]:
    """The centres of a boundary's faces."""
    centres = mesh.vertices[face_vertices(mesh, mesh.boundaries[name])].mean(axis=1)
    return set(map(tuple, centres.round(9).tolist()))


@pytest.fixture(scope="module")
def mesh() -> TetrahedralMesh:
    box = jittered(tetrahedral_box((0, 3), (0, 2), (-4, 0), 1, (-2.0,)), 0.15)
    return replace(box, ids=1000 + np.arange(box.element_count), groups=("upper", "lower"))


def test_neighbours_are_those_found_one_by_one(mesh: TetrahedralMesh) -> None:
    seen: dict[frozenset, list[int]] = {}
    for element, row in enumerate(mesh.elements.tolist()):
        for face, corners in enumerate(TETRAHEDRON_FACES.tolist()):
            seen.setdefault(frozenset(row[corner] for corner in corners), []).append(4 * element + face)
    expected = np.full(4 * mesh.element_count, -1)
    for owners in seen.values():
        if len(owners) == 2:
            expected[owners] = owners[::-1]
    np.testing.assert_array_equal(mesh.neighbors.ravel(), expected)
    assert mesh.neighbors is mesh.neighbors
    check_conforming(mesh)


def test_reordered_and_local_meshes_are_the_same_body(mesh: TetrahedralMesh) -> None:
    order = np.random.default_rng(3).permutation(mesh.element_count)
    for other in (mesh.reordered(order), mesh.local(), mesh.reordered(order).local()):
        check_conforming(other)
        old = np.argsort(other.ids)
        np.testing.assert_array_equal(other.materials[old], mesh.materials)
        centres = other.element_vertices().mean(axis=1)[old]
        np.testing.assert_allclose(centres, mesh.element_vertices().mean(axis=1), atol=1e-12)
        for name in mesh.boundaries:
            assert face_places(other, name) == face_places(mesh, name)
    assert mesh.reordered(order).element_id(5) == 1000 + order[5]


def test_local_meshes_touch_their_vertices_in_order(mesh: TetrahedralMesh) -> None:
    """And neighbours are close: a random order is far worse."""
    order = np.random.default_rng(4).permutation(mesh.element_count)
    local = mesh.reordered(order).local()
    _, first = np.unique(local.elements, return_index=True)
    assert (np.diff(np.maximum.accumulate(local.elements.max(axis=1))) <= 4).all()
    assert (np.diff(first // 4) >= 0).all() and local.elements[0].tolist() == [0, 1, 2, 3]
    distance = [
        np.median(np.abs(some.neighbors // 4 - np.arange(mesh.element_count)[:, None])[some.neighbors >= 0])
        for some in (local, mesh.reordered(order))
    ]
    assert distance[0] < distance[1] / 4


def test_volumes_and_inspheres() -> None:
    regular = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1.0]]) * 5 / np.sqrt(8)
    one = make_mesh(regular, [[3, 0, 2, 1]])
    assert one.volumes() == pytest.approx(125 / np.sqrt(72))
    assert one.insphere_radii() == pytest.approx(5 / np.sqrt(24))
    points = np.random.default_rng(5).normal(size=(400, 3))
    many = make_mesh(points, np.arange(400).reshape(-1, 4))
    expected = [abs(np.linalg.det(corners[1:] - corners[0])) / 6 for corners in many.element_vertices()]
    np.testing.assert_allclose(many.volumes(), expected, rtol=1e-10)
    flat = make_mesh(np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0.0]]), [[0, 1, 2, 3]])
    assert flat.volumes() == flat.insphere_radii() == 0


def test_wrong_elements_are_refused() -> None:
    vertices = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1], [1, 1, 2.0]])
    with pytest.raises(InputError, match=r"elements 0, 1, 2.*\[1, 2, 3\]"):
        make_mesh(vertices, [[0, 1, 2, 3], [4, 3, 2, 1], [1, 2, 3, 5]])
    with pytest.raises(InputError, match=r"element 77.*\[1, 1, 2, 3\]"):
        make_mesh(vertices, [[0, 1, 2, 3], [3, 1, 2, 1]], ids=np.array([3, 77]))


def test_wrong_boundaries_are_refused() -> None:
    vertices = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1.0]])
    elements = [[0, 1, 2, 3], [1, 2, 3, 4]]
    outside = np.array([[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 4], [1, 3, 4], [2, 3, 4]])
    assert len(make_mesh(vertices, elements, boundaries={"all": outside}).boundaries["all"]) == 6
    for boundaries, text in (
        ({"one": outside[:4], "two": [[3, 2, 1]]}, "'two' has the face with vertices .3, 2, 1. around .0.333"),
        ({"one": outside, "two": outside[5:]}, "'one' and 'two' both have a face"),
        ({"one": outside[:5]}, "1 of 6 exterior faces are in no boundary"),
        ({}, "6 of 6"),
    ):
        with pytest.raises(InputError, match=text):
            make_mesh(vertices, elements, boundaries=boundaries)
