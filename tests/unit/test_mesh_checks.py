"""Meshes that cannot carry waves are refused, and the element or the place is named."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from hexahedra_boxes import apart, bend, cube, cubes, merged
from hexahedra_geometry import reference_nodes
from lithowave import InputError
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
    np.testing.assert_array_equal(check_mesh(mesh).faces, exterior_quadrilaterals(mesh.elements))


def test_an_inverted_element_is_named_by_its_number_in_the_file() -> None:
    mesh = replace(merged(cubes((2, 2, 1))), ids=np.array([11, 12, 13, 14]))
    mesh.elements[2] = mesh.elements[2][[4, 5, 6, 7, 0, 1, 2, 3]]
    text = refusal(mesh)
    assert "1 element is inverted" in text and "element 13, with Jacobian -0.125 m^3" in text
    assert "(0, 1, 1), (1, 1, 1)" in text


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


def moved(mesh: HexahedralMesh, vertex: int, place: list[float]) -> HexahedralMesh:
    mesh.vertices[vertex] = place
    return mesh


def cracked() -> HexahedralMesh:
    """Two halves that share all vertices but one."""
    mesh = merged(cubes((2, 2, 2)))
    mesh = replace(mesh, vertices=np.append(mesh.vertices, [[1.0, 1.0, 0.0]], axis=0))
    own = mesh.elements[0]
    own[(mesh.vertices[own] == [1, 1, 0]).all(axis=1)] = len(mesh.vertices) - 1
    return mesh


def hanging(parts: int) -> HexahedralMesh:
    size = 1 / parts
    fine = [cube((size * i, size * j, 1), (size, size, 1)) for i in range(parts) for j in range(parts)]
    return merged([cube(), *fine])


def folded() -> HexahedralMesh:
    mesh = curved(merged([cube()]), lambda x, y, z: (0, 0, 0))
    mesh.vertices[mesh.nodes[0, 8]] += [0, 0, 0.9]
    return mesh


PAIR = merged(cubes((2, 1, 1)))
NAMED = replace(PAIR, materials=np.array([0, 2]), groups=("rock", "soil"))
REFUSED = {
    "no elements": (HexahedralMesh(np.zeros((0, 3)), np.zeros((0, 8), int), np.zeros(0, int)), "no elements"),
    "no number": (moved(merged([cube()]), 6, [1.0, np.nan, 1.0]), "1 vertex has", "element 0"),
    "no name": (NAMED, "material 2 of element 1 (center at x = 1.5 m, y = 0.5 m, z = 0.5 m)", "rock, soil"),
    "flat": (moved(merged([cube()]), 6, merged([cube()]).vertices[7].tolist()), "flat"),
    "left-handed": (replace(PAIR, vertices=PAIR.vertices * [1, 1, -1]), "all 2 elements", "z is positive downwards"),
    "folded": (folded(), "element 0, with Jacobian -"),
    "a face of three": (
        merged([cube(), cube((1, 0, 0)), cube((1, 0, 0), (1.5, 1, 1))]), "x = 1 m, y = 0.5 m, z = 0.5 m",
        "1 face belongs to more than two elements", "to elements 0, 1, 2",
    ),
    "twice": (merged([cube(), cube()]), "duplicate elements"),
    "not merged": (apart(merged(cubes((2, 2, 1))), merged(cubes((2, 2, 1), (0, 0, 1)))), "9 vertices coincide"),
    "nearly merged": (apart(PAIR, merged(cubes((2, 1, 1), (0, 0, 1 + 3e-7)))), "6 vertices coincide", "z = 1 m"),
    "a crack": (cracked(), "1 vertex coincides", "x = 1 m, y = 1 m, z = 0 m"),
    "two hanging": (hanging(2), "hanging nodes", "z = 1 m", "element 0"),
    "three hanging": (hanging(3), "hanging nodes", "z = 1 m", "element 0"),
    "in a curved face": (curved(hanging(2), bend), "hanging nodes"),
    "apart": (merged([*cubes((2, 1, 1)), cube((5, 0, 0))]), "2 components", "has 1 element,", "x from 5 to 6 m"),
    "one edge": (merged([*cubes((2, 1, 1)), cube((2, 1, 0))]), "2 components", "element 2", "x from 2 to 3 m"),
    "one corner": (merged([*cubes((2, 1, 1)), cube((2, 1, 1))]), "2 components", "element 2", "x from 2 to 3 m"),
    "a hole": (
        merged([c for n, c in enumerate(cubes((4, 3, 3))) if n not in (17, 18)]), "1 hole;", "10 faces",
        "x from 1 to 3 m, y from 1 to 2 m, z from 1 to 2 m",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_meshes_that_cannot_carry_waves(name: str) -> None:
    mesh, *words = REFUSED[name]
    text = refusal(mesh)
    assert all(word in text for word in words), text


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
