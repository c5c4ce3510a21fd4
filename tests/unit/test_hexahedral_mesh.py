"""Layered boxes of hexahedra: do the elements fit together, fill the box, and follow the interfaces?"""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from hexahedra_geometry import reference_nodes
from lithowave import InputError
from lithowave.mesh import (
    FACES,
    HexahedralMesh,
    check_jacobians,
    curved,
    exterior_quadrilaterals,
    layered_box,
    number_faces,
    plan_box,
)
from lithowave.solvers.spectral_element import bad_elements, shape_functions


def hill(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return 60 * np.sin(x / 170) * np.cos(y / 210)


def valley(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return -400 - 50 * np.cos(x / 240 + y / 310)


def bend(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, ...]:
    return 8 * np.sin(x / 90 + y / 70), 7 * np.cos(z / 100), 9 * np.cos(y / 120 + x / 80)


BOXES = {
    "straight": ([0, -300, -900], [(150, 100), (150, 200)]),
    "curved": ([hill, valley, -900], [(150, 100), (150, 200)]),
    "doubled": ([0, -400, -1500], [(50, 50), (100, 100)]),
    "doubled twice in one layer": ([hill, valley, -1500], [(50, 50), (200, 200)]),
    "doubled in two layers": ([hill, valley, -900, -1600], [(50, 50), (110, 100), (250, 200)]),
    "doubled down to the bottom": ([hill, -300, -450], [(50, 50), (100, 100)]),
}
X, Y = (-100.0, 700.0), (50.0, 850.0)


@pytest.fixture(params=BOXES)
def mesh(request: pytest.FixtureRequest) -> HexahedralMesh:
    return layered_box(X, Y, *BOXES[request.param])


@pytest.mark.parametrize("box", BOXES)
def test_elements_are_counted_before_they_are_built(box: str) -> None:
    plan = plan_box(X, Y, *BOXES[box])
    assert plan.element_count == plan.build().element_count


def face_corners(mesh: HexahedralMesh, faces: np.ndarray) -> np.ndarray:
    """Positions (faces, 4, 3), going around."""
    return mesh.vertices[np.take_along_axis(mesh.elements[faces[:, 0]], FACES[faces[:, 1]], axis=1)]


def face_areas(mesh: HexahedralMesh, faces: np.ndarray) -> np.ndarray:
    """Areas of plane faces from their diagonals, m2."""
    a, b, c, d = face_corners(mesh, faces).transpose(1, 0, 2)
    return np.linalg.norm(np.cross(c - a, d - b), axis=1) / 2


def volume(mesh: HexahedralMesh) -> float:
    """Sum of the elements' volumes by Gauss' rule of two points, exact for trilinear elements, m3."""
    ends = np.array([-1.0, 1.0])
    total = 0.0
    for i, j, k in itertools.product((0.5 - 0.5 / np.sqrt(3), 0.5 + 0.5 / np.sqrt(3)), repeat=3):
        nodes = mesh.positions(ends)
        along_i = np.einsum("ekjc,k,j->ec", nodes[:, :, :, 1] - nodes[:, :, :, 0], [1 - k, k], [1 - j, j])
        along_j = np.einsum("ekic,k,i->ec", nodes[:, :, 1] - nodes[:, :, 0], [1 - k, k], [1 - i, i])
        along_k = np.einsum("ejic,j,i->ec", nodes[:, 1] - nodes[:, 0], [1 - j, j], [1 - i, i])
        total += np.linalg.det(np.stack([along_i, along_j, along_k], axis=1)).sum() / 8
    return total


def test_every_face_has_two_elements_or_lies_on_one_side_of_the_box(mesh: HexahedralMesh) -> None:
    """No holes and no hanging nodes: what only one element has is exactly the six sides."""
    sides = np.concatenate(list(mesh.boundaries.values()))
    assert len(np.unique(sides, axis=0)) == len(sides)
    np.testing.assert_array_equal(exterior_quadrilaterals(mesh.elements), sides[np.lexsort((sides[:, 1], sides[:, 0]))])
    assert len(np.unique(mesh.elements)) == len(mesh.vertices)
    assert len(np.unique(mesh.vertices.round(6), axis=0)) == len(mesh.vertices)


@pytest.mark.parametrize("name", ["straight", "doubled"])
def test_areas_and_volume_of_a_straight_box(name: str) -> None:
    interfaces, sizes = BOXES[name]
    mesh = layered_box(X, Y, interfaces, sizes)
    for side in ("x_min", "x_max", "y_min", "y_max"):
        np.testing.assert_allclose(face_areas(mesh, mesh.boundaries[side]).sum(), -800.0 * interfaces[-1], rtol=1e-12)
    np.testing.assert_allclose(volume(mesh), -800.0 * 800.0 * interfaces[-1], rtol=1e-12)


def test_faces_follow_the_interfaces() -> None:
    """Between two materials all shared vertices lie on the interface, and at the top on the topography."""
    mesh = layered_box(X, Y, *BOXES["doubled in two layers"])
    faces, count = number_faces(mesh.elements)
    lowest, highest = np.full(count, 9), np.full(count, -1)
    material = np.repeat(mesh.materials, 6)
    np.minimum.at(lowest, faces.ravel(), material)
    np.maximum.at(highest, faces.ravel(), material)
    between = np.argwhere((lowest[faces] == 0) & (highest[faces] == 1))
    x, y, z = face_corners(mesh, between).reshape(-1, 3).T
    assert len(between) == 2 * 16 * 16
    np.testing.assert_allclose(z, valley(x, y), atol=1e-9)
    x, y, z = face_corners(mesh, mesh.boundaries["z_max"]).reshape(-1, 3).T
    np.testing.assert_allclose(z, hill(x, y), atol=1e-9)


def test_an_element_inside_out_is_named() -> None:
    mesh = layered_box((0, 2), (0, 2), [0, -2], [(1, 1)])
    mesh.elements[5] = mesh.elements[5][[4, 5, 6, 7, 0, 1, 2, 3]]
    with pytest.raises(InputError, match="element 5.*Jacobian"):
        check_jacobians(mesh)


@pytest.mark.parametrize(
    ("interfaces", "sizes", "message"),
    [
        ([0], [(1, 1)], "one interface more"),
        ([0, -1], [(0, 1)], "layer 0.*positive"),
        ([0, -1], [(1, float("nan"))], "layer 0.*positive"),
        ([0, -1, -1], [(1, 1), (1, 1)], "layer 1.*below the top"),
        ([lambda x, y: 0.5 * x, 0.7, -1], [(1, 1), (1, 1)], "layer 0.*x = 0 m"),
        ([lambda x, y: np.where(x > 2, np.nan, 0), -1], [(1, 1)], "layer 0.*nan"),
    ],
)
def test_boxes_that_cannot_be(interfaces: list, sizes: list, message: str) -> None:
    with pytest.raises(InputError, match=message):
        layered_box((0, 4), (0, 4), interfaces, sizes)


def test_curved_elements_share_their_nodes_and_interpolate_the_displacement() -> None:
    mesh = layered_box(X, Y, *BOXES["doubled in two layers"])
    bent = curved(mesh, bend)
    np.testing.assert_array_equal(bent.nodes[:, :8], mesh.elements)
    corners, nodes = mesh.vertices[mesh.elements], bent.element_nodes()
    straight = shape_functions(reference_nodes(27), 8) @ corners
    np.testing.assert_allclose(nodes, straight + np.stack(bend(*np.moveaxis(straight, -1, 0)), axis=-1), atol=1e-9)
    assert len(np.unique(bent.nodes)) == len(bent.vertices)
    assert len(np.unique(bent.vertices.round(6), axis=0)) == len(bent.vertices)
    assert not bad_elements(nodes).element.size


def test_reordering_carries_nodes_numbers_and_groups() -> None:
    mesh = curved(layered_box(X, Y, *BOXES["doubled"]), bend)
    mesh = replace(mesh, ids=1000 + np.arange(mesh.element_count), groups=("soil", "rock"))
    other = mesh.local()
    order = other.ids - 1000
    assert (order != np.arange(len(order))).any() and other.groups == mesh.groups
    np.testing.assert_array_equal(other.element_nodes(), mesh.element_nodes(order))
    np.testing.assert_array_equal(other.materials, mesh.materials[order])
    np.testing.assert_array_equal(other.element_nodes(slice(3, 5)), mesh.element_nodes(order[3:5]))
    assert [other.element_id(7), layered_box(X, Y, *BOXES["straight"]).element_id(7)] == [other.ids[7], 7]
