"""Global numbers, orders and colours of hexahedra, on meshes whose elements are shuffled and turned at random."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lithowave.mesh import (
    CORNERS,
    HexahedralMesh,
    color_elements,
    exterior_quadrilaterals,
    first_colors,
    groups_of_color,
    identify,
    layered_box,
    morton_order,
    number_points,
)

POINTS = {
    1: np.array([-1.0, 1.0]),
    2: np.array([-1.0, 0.0, 1.0]),
    3: np.array([-1.0, -np.sqrt(1 / 5), np.sqrt(1 / 5), 1.0]),
    4: np.array([-1.0, -np.sqrt(3 / 7), 0.0, np.sqrt(3 / 7), 1.0]),
}


def rotations() -> list[np.ndarray]:
    """The 24 orders of an element's corners that turn it without a reflection."""
    places = {tuple(corner): number for number, corner in enumerate(CORNERS.tolist())}
    quarter_i = [places[i, 1 - k, j] for i, j, k in CORNERS.tolist()]
    quarter_k = [places[1 - j, i, k] for i, j, k in CORNERS.tolist()]
    found = {tuple(range(8))}
    while True:
        more = found | {tuple(one[n] for n in turn) for one in found for turn in (quarter_i, quarter_k)}
        if more == found:
            return [np.array(one) for one in sorted(found)]
        found = more


def shuffled(mesh: HexahedralMesh, seed: int = 1) -> HexahedralMesh:
    """Vertices renamed, elements in another order, each turned at random; without sides."""
    random = np.random.default_rng(seed)
    names = random.permutation(len(mesh.vertices))
    vertices = np.empty_like(mesh.vertices)
    vertices[names] = mesh.vertices
    turns = np.array(rotations())[random.integers(24, size=mesh.element_count)]
    elements = np.take_along_axis(names[mesh.elements], turns, axis=1)
    order = random.permutation(mesh.element_count)
    return replace(mesh, vertices=vertices, elements=elements[order], materials=mesh.materials[order], boundaries={})


def box(*counts: int) -> HexahedralMesh:
    return layered_box((0, counts[0]), (0, counts[1]), [0, -counts[2]], [(1, 1)])


def curved() -> HexahedralMesh:
    return layered_box((0, 6), (0, 5), [lambda x, y: 0.4 * np.sin(x + y), -2, -5], [(1, 1), (1.2, 1.3)])


def doubled() -> HexahedralMesh:
    return layered_box((0, 8), (0, 8), [lambda x, y: 0.3 * np.sin(x + y), -3, -12], [(1, 1), (4, 3)])


MESHES = {"straight": lambda: box(4, 3, 5), "curved": curved, "doubled": doubled}


@pytest.fixture(params=MESHES)
def mesh(request: pytest.FixtureRequest) -> HexahedralMesh:
    return MESHES[request.param]()


@pytest.mark.parametrize("degree", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("mixed", [False, True])
def test_points_of_a_box(degree: int, mixed: bool) -> None:
    mesh = shuffled(box(4, 3, 5)) if mixed else box(4, 3, 5)
    numbers, count = number_points(mesh.elements, degree)
    assert count == (4 * degree + 1) * (3 * degree + 1) * (5 * degree + 1)
    assert numbers.dtype == np.int32
    assert numbers.shape == (60, degree + 1, degree + 1, degree + 1)
    np.testing.assert_array_equal(np.unique(numbers), np.arange(count))


@pytest.mark.parametrize("degree", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", [None, 1, 2])
def test_a_point_is_at_one_place_and_a_place_is_one_point(mesh: HexahedralMesh, degree: int, seed: int | None) -> None:
    mesh = mesh if seed is None else shuffled(mesh, seed)
    numbers, count = number_points(mesh.elements, degree)
    places = mesh.positions(POINTS[degree]).reshape(-1, 3)
    one = np.empty((count, 3))
    one[numbers.ravel()] = places
    np.testing.assert_allclose(one[numbers.ravel()], places, atol=1e-12)
    assert len(np.unique((one / 1e-6).round().astype(np.int64), axis=0)) == count


@pytest.mark.parametrize("size", [2, 4])
def test_sets_of_vertices_are_numbered_in_their_order(size: int) -> None:
    """NumPy's numbers of unique rows are the reference."""
    corners = np.random.default_rng(size).integers(0, 9, (400, size))
    numbers, count = identify(corners)
    unique, expected = np.unique(np.sort(corners, axis=1), axis=0, return_inverse=True)
    assert count == len(unique)
    np.testing.assert_array_equal(numbers, expected.reshape(-1))


def test_three_elements_at_one_face_are_refused() -> None:
    mesh = box(2, 1, 1)
    third = np.where(np.isin(mesh.elements[0], mesh.elements[1]), mesh.elements[0], mesh.elements[0] + 100)
    with pytest.raises(ValueError, match="more than two"):
        exterior_quadrilaterals(np.vstack([mesh.elements, third]))


def test_the_morton_curve_fills_octants_one_after_the_other() -> None:
    mesh = shuffled(box(8, 8, 8))
    order = morton_order(mesh.vertices, mesh.elements)
    np.testing.assert_array_equal(np.sort(order), np.arange(512))
    centres = mesh.vertices[mesh.elements[order]].mean(axis=1)
    for size in (8, 64):
        blocks = centres.reshape(-1, size, 3)
        assert np.ptp(blocks, axis=1).max() < round(size ** (1 / 3))
    local = mesh.local()
    np.testing.assert_array_equal(local.elements, mesh.elements[order])


def test_neighbours_differ_in_colour(mesh: HexahedralMesh) -> None:
    for one in (mesh, shuffled(mesh)):
        for colors in (color_elements(one.elements), first_colors(one.elements)):
            assert colors.min() == 0
            assert colors.max() < 24
            for group in groups_of_color(colors):
                corners = one.elements[group].ravel()
                assert len(np.unique(corners)) == len(corners) > 0


def test_more_colours_than_a_word_has_bits_are_refused() -> None:
    fan = np.arange(65 * 8).reshape(65, 8)
    fan[:, 0] = 0
    assert color_elements(fan[:64]).max() == 63
    with pytest.raises(ValueError, match="64 colors"):
        color_elements(fan)
