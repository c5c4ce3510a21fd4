"""Points are found in all elements that hold them: against every element looked at."""

from __future__ import annotations

import numpy as np
import pytest

from lithowave import InputError
from lithowave.mesh import EDGES, TETRAHEDRON_FACES, TetrahedralMesh
from lithowave.parallel import SINGLE_RANK
from lithowave.solvers.discontinuous_galerkin import TOLERANCE, locate_points
from lithowave.solvers.elements import SURFACE_TOLERANCE, PointLocations, require_located, resolve_owners
from tetrahedra_plans import box


def barycentric(mesh: TetrahedralMesh, positions: np.ndarray) -> np.ndarray:
    """(points, elements, 4), from volumes of the tetrahedra between a point and the faces."""
    vertices = mesh.element_vertices()
    whole = np.linalg.det(vertices[:, 1:] - vertices[:, :1])
    found = np.empty((len(positions), len(vertices), 4))
    for corner in range(4):
        moved = np.repeat(vertices[None], len(positions), axis=0)
        moved[:, :, corner] = positions[:, None]
        found[..., corner] = np.linalg.det(moved[:, :, 1:] - moved[:, :, :1]) / whole
    return found


def check(mesh: TetrahedralMesh, positions: np.ndarray) -> PointLocations:
    """All elements of all points, and the reference coordinates there."""
    every = barycentric(mesh, positions)
    expected = np.argwhere(every.min(axis=2) > -1e-7)
    found = locate_points(mesh, positions)
    np.testing.assert_array_equal(np.column_stack([found.point, found.element]), expected)
    np.testing.assert_allclose(found.reference, every[found.point, found.element, 1:], atol=1e-9)
    vertices = mesh.element_vertices(found.element)
    back = vertices[:, 0] + np.einsum("nk,nki->ni", found.reference, vertices[:, 1:] - vertices[:, :1])
    np.testing.assert_allclose(back, positions[found.point], atol=1e-9)
    return found


@pytest.fixture(scope="module")
def mesh() -> TetrahedralMesh:
    return box((3, 3, 3))


def test_points_anywhere(mesh: TetrahedralMesh) -> None:
    positions = np.random.default_rng(0).uniform([-1, -1, -4], [4, 4, 1], (300, 3))
    found = check(mesh, positions)
    outside = ((positions < [0, 0, -3]) | (positions > [3, 3, 0])).any(axis=1)
    np.testing.assert_array_equal(found.missing(len(positions)), np.flatnonzero(outside))
    assert len(np.unique(found.point)) == len(found.point) > 20


def test_points_on_faces_edges_and_vertices_are_in_all_elements_there(mesh: TetrahedralMesh) -> None:
    random = np.random.default_rng(1)
    corners = mesh.vertices[mesh.elements]
    on_faces = np.einsum("k,nki->ni", random.dirichlet(np.ones(3)), corners[:, TETRAHEDRON_FACES[1]])
    on_edges = np.einsum("k,nki->ni", [0.3, 0.7], corners[:, EDGES[2]])
    shared = []
    for positions in (on_faces[:80], on_edges[:80], mesh.vertices):
        found = check(mesh, positions)
        assert not found.missing(len(positions)).size
        shared.append(np.bincount(found.point).max())
    assert shared[0] == 2 < shared[1] < shared[2]


def test_points_just_off_a_curved_ground_are_moved_onto_it(mesh: TetrahedralMesh) -> None:
    inside, above, far = [1.3, 1.4, -0.7], [1.3, 1.4, 0.1], [1.3, 1.4, 8.0]
    corner = [3.05, 3.05, 0.05]
    found = locate_points(mesh, np.array([above, inside, far, corner]), SURFACE_TOLERANCE)
    np.testing.assert_array_equal(found.missing(4), [2])
    np.testing.assert_array_equal(np.unique(found.point, return_counts=True)[1], [1, 1, 1])
    vertices = mesh.element_vertices(found.element)
    places = vertices[:, 0] + np.einsum("nk,nki->ni", found.reference, vertices[:, 1:] - vertices[:, :1])
    np.testing.assert_allclose(places[1], inside, atol=1e-12)
    assert found.reference.min() >= 0 and found.reference.sum(axis=1).max() <= 1 + 1e-12
    assert abs(places[0, 2]) < 1e-12 and np.linalg.norm(places[0] - above) < 0.3
    assert np.linalg.norm(places[2] - corner) < 0.2


def test_errors_name_the_point(mesh: TetrahedralMesh) -> None:
    positions = np.array([[1.0, 1, -1], [5, 0.5, -1], [6, 0, 0]])
    found = resolve_owners(locate_points(mesh, positions, TOLERANCE), SINGLE_RANK)
    with pytest.raises(InputError) as caught:
        require_located(found, SINGLE_RANK, ["A", "B", "C"], positions, "receivers")
    text = str(caught.value)
    assert "receivers" in text and "B at (5, 0.5, -1) m" in text and "and 1 more" in text
    found = resolve_owners(locate_points(mesh, positions[:1], TOLERANCE), SINGLE_RANK)
    require_located(found, SINGLE_RANK, ["A"], positions[:1], "receivers")
