"""Meshes that cannot carry waves are refused, and the element or the place is named."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from hexahedra_boxes import apart, bend, cube, cubes, merged
from hexahedra_geometry import reference_nodes
from lithowave.errors import InputError
from lithowave.mesh import (
    HexahedralMesh,
    check_mesh,
    close_pairs,
    components,
    curved,
    exterior_quadrilaterals,
    jacobian_range,
    layered_box,
)
from lithowave.solvers.spectral_element import gll as geometry


def refusal(mesh: HexahedralMesh) -> str:
    with pytest.raises(InputError) as caught:
        check_mesh(mesh, "box.msh")
    assert caught.value.where == "box.msh"
    return str(caught.value)


GOOD = {
    "one element": merged([cube()]),
    "cubes": merged(cubes((3, 4, 5))),
    "an L": merged(cubes((3, 1, 1)) + cubes((1, 1, 2), (0, 0, 1))),
    "a ring": merged([c for n, c in enumerate(cubes((3, 3, 1))) if n != 4]),
    "doubled": layered_box((0, 800), (0, 800), [0, -400, -1500], [(50, 50), (100, 100)]),
    "thin": layered_box((0, 1000), (0, 1000), [0, -0.5, -100], [(100, 100), (100, 100)]),
    "far away": replace(merged(cubes((2, 2, 2))), vertices=merged(cubes((2, 2, 2))).vertices + [4e5, 5e6, -1e4]),
    "curved": curved(merged(cubes((3, 4, 2))), bend),
}


@pytest.mark.parametrize("name", GOOD)
def test_good_meshes_pass(name: str) -> None:
    mesh = GOOD[name]
    np.testing.assert_array_equal(check_mesh(mesh).exterior, exterior_quadrilaterals(mesh.elements))


def test_no_elements() -> None:
    assert "no elements" in refusal(HexahedralMesh(np.zeros((0, 3)), np.zeros((0, 8), int), np.zeros(0, int)))


def test_a_position_that_is_no_number() -> None:
    mesh = merged(cubes((2, 1, 1)))
    mesh.vertices[mesh.elements[1, 6], 1] = np.nan
    assert "1 vertex has" in refusal(mesh) and "element 1" in refusal(mesh)


def test_a_material_without_name() -> None:
    mesh = replace(merged(cubes((2, 1, 1))), materials=np.array([0, 2]), groups=("rock", "soil"))
    text = refusal(mesh)
    assert "material 2 of element 1 (center at x = 1.5 m, y = 0.5 m, z = 0.5 m)" in text and "rock, soil" in text


def test_an_inverted_element_is_named_by_its_number_in_the_file() -> None:
    mesh = replace(merged(cubes((2, 2, 1))), ids=np.array([11, 12, 13, 14]))
    mesh.elements[2] = mesh.elements[2][[4, 5, 6, 7, 0, 1, 2, 3]]
    text = refusal(mesh)
    assert "1 element is inverted" in text and "element 13, with Jacobian -0.125 m^3" in text
    assert "(0, 1, 1), (1, 1, 1)" in text


def test_a_flat_corner_is_refused() -> None:
    mesh = merged([cube()])
    mesh.vertices[mesh.elements[0, 6]] = mesh.vertices[mesh.elements[0, 5]]
    assert "flat" in refusal(mesh)


def test_left_handed_elements_get_a_hint() -> None:
    mesh = merged(cubes((2, 2, 1)))
    text = refusal(replace(mesh, vertices=mesh.vertices * [1, 1, -1]))
    assert "all 4 elements" in text and "Check whether z is positive downwards" in text


def test_a_curved_element_folded_by_a_node_between_its_corners() -> None:
    mesh = curved(merged([cube()]), lambda x, y, z: (0, 0, 0))
    mesh.vertices[mesh.nodes[0, 8]] += [0, 0, 0.9]
    assert "element 0, with Jacobian -" in refusal(mesh)


def test_folds_between_the_sampled_points_are_found() -> None:
    """Of elements whose Jacobian is positive on 3 x 3 x 3 points but not between them."""
    shift = np.random.default_rng(3).normal(0, 0.1, (20000, 27, 3))
    nodes = reference_nodes(27) + shift
    coarse = geometry.determinant(geometry.jacobian_matrix(nodes, 2)).min(axis=(1, 2, 3))
    fine = geometry.determinant(geometry.jacobian_matrix(nodes, 7)).min(axis=(1, 2, 3))
    hidden = nodes[(coarse > 0) & (fine < -0.03)]
    indices = np.arange(hidden.size // 3).reshape(-1, 27)
    mesh = HexahedralMesh(hidden.reshape(-1, 3), indices[:, :8], np.zeros(len(hidden)), nodes=indices)
    assert len(hidden) > 5
    assert (jacobian_range(mesh)[0] < 0).all()


def test_a_face_of_three_elements() -> None:
    mesh = merged([cube(), cube((1, 0, 0)), cube((1, 0, 0), (1.5, 1, 1))])
    text = refusal(mesh)
    assert "1 face belongs to more than two elements" in text and "x = 1 m, y = 0.5 m, z = 0.5 m, to elements 0, 1, 2"


def test_every_element_twice() -> None:
    assert "duplicate elements" in refusal(merged([cube(), cube()]))
    assert "duplicate elements" in refusal(merged(cubes((2, 1, 1)) * 2))


@pytest.mark.parametrize("offset", [0.0, 3e-7])
def test_vertices_that_were_not_merged(offset: float) -> None:
    text = refusal(apart(merged(cubes((2, 2, 1))), merged(cubes((2, 2, 1), (0, 0, 1 + offset)))))
    assert "9 vertices coincide" in text and "z = 1 m" in text


def test_a_crack_along_part_of_a_face() -> None:
    """Two halves that share all vertices but one."""
    mesh = merged(cubes((2, 2, 2)))
    mesh = replace(mesh, vertices=np.append(mesh.vertices, [[1.0, 1.0, 0.0]], axis=0))
    own = mesh.elements[0]
    own[(mesh.vertices[own] == [1, 1, 0]).all(axis=1)] = len(mesh.vertices) - 1
    assert "1 vertex coincides" in refusal(mesh) and "x = 1 m, y = 1 m, z = 0 m" in refusal(mesh)


@pytest.mark.parametrize("parts", [2, 3])
def test_hanging_nodes(parts: int) -> None:
    size = 1 / parts
    fine = [cube((size * i, size * j, 1), (size, size, 1)) for i in range(parts) for j in range(parts)]
    text = refusal(merged([cube(), *fine]))
    assert "hanging nodes" in text and "z = 1 m" in text and "element 0" in text


def test_a_hanging_node_in_the_middle_of_a_curved_face() -> None:
    mesh = curved(merged([cube(), *(cube((i / 2, j / 2, 1), (0.5, 0.5, 1)) for i in (0, 1) for j in (0, 1))]), bend)
    assert "hanging nodes" in refusal(mesh)


def test_curved_faces_that_differ_on_their_two_sides() -> None:
    mesh = curved(merged(cubes((3, 1, 1))), bend)
    node = mesh.nodes[1, 23]  # the face that elements 1 and 2 share
    assert node in mesh.nodes[2]
    mesh = replace(mesh, vertices=np.append(mesh.vertices, mesh.vertices[[node]], axis=0))
    mesh.nodes[1, 23] = len(mesh.vertices) - 1
    check_mesh(mesh)  # at the same place
    mesh.vertices[-1] += [0.01, 0, 0]
    text = refusal(mesh)
    assert "1 curved face differs" in text and "element 1 (" in text and "element 2" in text


@pytest.mark.parametrize("low", [(5.0, 0.0, 0.0), (2.0, 1.0, 0.0), (2.0, 1.0, 1.0)], ids=["apart", "edge", "corner"])
def test_parts_that_share_no_face(low: tuple[float, float, float]) -> None:
    text = refusal(merged([*cubes((2, 1, 1)), cube(low)]))
    assert "2 components" in text and "has 1 element," in text and "element 2" in text
    assert f"x from {low[0]:g} to {low[0] + 1:g} m" in text


def test_a_hole() -> None:
    mesh = merged([c for n, c in enumerate(cubes((4, 3, 3))) if n not in (17, 18)])
    text = refusal(mesh)
    assert "1 hole;" in text and "10 faces" in text
    assert "x from 1 to 3 m, y from 1 to 2 m, z from 1 to 2 m" in text


@pytest.mark.parametrize("count", [40, 1000, 30000])
def test_components_are_those_of_the_graph(count: int) -> None:
    rng = np.random.default_rng(count)
    first, second = rng.integers(0, count, (2, int(0.6 * count)))
    labels = components(count, first, second)
    found, expected = connected_components(coo_matrix((np.ones(len(first)), (first, second)), (count, count)), False)
    assert len(np.unique(labels)) == found
    assert len(np.unique(np.stack([labels, expected]), axis=1).T) == found
    assert (labels <= np.arange(count)).all()


def test_close_pairs_are_all_found() -> None:
    rng = np.random.default_rng(2)
    points, others = rng.uniform(-1, 1, (400, 3)), rng.uniform(-1.2, 0.9, (500, 3))
    expected = np.argwhere(np.linalg.norm(points[:, None] - others, axis=-1) < 0.1)
    found = np.stack(close_pairs(points, others, 0.1), axis=1)
    assert len(expected) > 50 and sorted(found.tolist()) == expected.tolist()
