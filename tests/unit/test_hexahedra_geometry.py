"""Geometry of hexahedra of 8 and 27 nodes."""

from __future__ import annotations

import numpy as np
import pytest

import hexahedra_geometry as h
from lithowave import InputError
from lithowave.solvers.spectral_element import gll as g
from lithowave.solvers.spectral_element import gll_points


def deformed(count: int, elements: int = 20, amount: float = 0.2) -> np.ndarray:
    """Elements of some 100 m, all nodes moved at random, sheared, far from the origin."""
    shift = np.random.default_rng(count).uniform(-amount, amount, (elements, count, 3))
    if count == 27:
        shift[:, 8:] *= 0.4
    shear = np.array([[60.0, 20.0, 10.0], [0.0, 40.0, 15.0], [-10.0, 0.0, 50.0]])
    nodes = (h.reference_nodes(count) + shift) @ shear.T + [1e4, -2e4, -500.0]
    assert not g.bad_elements(nodes).element.size
    return nodes


def boxes(shape: tuple[int, int, int], count: int = 8) -> np.ndarray:
    """Unit cubes side by side, x fastest."""
    z, y, x = np.meshgrid(*(np.arange(n) for n in shape[::-1]), indexing="ij")
    corner = np.stack([x, y, z], axis=-1).reshape(-1, 1, 3)
    return corner + (h.reference_nodes(count) + 1) / 2


def reference_grid(degree: int) -> np.ndarray:
    line = gll_points(degree)
    z, y, x = np.meshgrid(line, line, line, indexing="ij")
    return np.stack([x, y, z], axis=-1)


@pytest.mark.parametrize("count", [8, 27])
def test_jacobian_against_finite_differences(count):
    nodes, step = deformed(count), 1e-4
    grid = reference_grid(3)
    jacobian = g.jacobian_matrix(nodes, 3)
    assert jacobian.shape == (20, 4, 4, 4, 3, 3)
    for d in range(3):
        ahead, behind = (g.shape_functions(grid + s * step * np.eye(3)[d], count) for s in (1, -1))
        slope = np.einsum("kjia,eac->ekjic", (ahead - behind) / (2 * step), nodes)
        np.testing.assert_allclose(jacobian[..., d], slope, rtol=0, atol=1e-5)
    inverse, determinant = g.metric(jacobian)
    np.testing.assert_allclose(determinant, np.linalg.det(jacobian), rtol=1e-12)
    np.testing.assert_allclose(inverse @ jacobian, np.broadcast_to(np.eye(3), jacobian.shape), rtol=0, atol=1e-12)


@pytest.mark.parametrize("count", [8, 27])
def test_inverse_mapping_round_trip(count):
    nodes = deformed(count, 200) - [1e4, -2e4, -500.0]
    xi = np.random.default_rng(1).uniform(-1, 1, (200, 3))
    xi[:10] = np.sign(xi[:10])
    points = np.einsum("ma,mac->mc", g.shape_functions(xi, count), nodes)
    np.testing.assert_allclose(g.reference_coordinates(nodes, points), xi, rtol=0, atol=1e-12)


def moved_mesh(count: int) -> np.ndarray:
    """4 x 3 x 2 elements of a smoothly curved box."""
    nodes = boxes((4, 3, 2), count)
    x, y, z = np.moveaxis(nodes, -1, 0)
    return 100 * np.stack([x + 0.2 * np.sin(y + z), y + 0.15 * np.sin(2 * x), z + 0.2 * np.cos(x + y)], axis=-1)


@pytest.mark.parametrize("count", [8, 27])
def test_points_are_found_in_every_element_that_holds_them(count):
    nodes = moved_mesh(count)
    assert not g.bad_elements(nodes).element.size
    inner_vertex = nodes[0, 6]  # of the elements 0, 1, 4, 5 and those above
    reference = np.array([[1.0, 0.3, -0.2], [0.1, 0.2, 0.3]])
    face, middle = g.shape_functions(reference, count) @ nodes[5]
    found = g.find_elements(nodes, np.stack([inner_vertex, face, middle, [0.0, 0.0, 1e5]]))
    holders = [found.element[found.point == p].tolist() for p in range(4)]
    assert holders == [[0, 1, 4, 5, 12, 13, 16, 17], [5, 6], [5], []]
    np.testing.assert_allclose(found.reference[found.point == 2], reference[1:], rtol=0, atol=1e-12)
    points = np.stack([inner_vertex, face, middle])[found.point]
    back = np.einsum("ma,mac->mc", g.shape_functions(found.reference, count), nodes[found.element])
    np.testing.assert_allclose(back, points, rtol=0, atol=1e-9)


def test_bounding_box_holds_a_bulge_beyond_all_nodes():
    nodes = h.reference_nodes(27)[None].copy()
    nodes[0, nodes[0, :, 0] == 0, 0] = 0.6  # x as a function of xi overshoots 1
    low, high = g.bounding_boxes(nodes)
    positions = g.gll_positions(nodes, 10).reshape(-1, 3)
    assert positions[:, 0].max() > 1.01
    assert (positions >= low - 1e-14).all() and (positions <= high + 1e-14).all()


def test_inverted_elements_are_named():
    nodes = boxes((3, 2, 1))
    g.refuse_bad_elements(nodes)
    nodes[4] = nodes[4][[4, 5, 6, 7, 0, 1, 2, 3]]  # upside down
    nodes[2, 6] = nodes[2, 0]  # folded
    bad = g.bad_elements(nodes)
    np.testing.assert_array_equal(bad.element, [2, 4])
    assert bad.jacobian[1] == pytest.approx(-0.125)
    np.testing.assert_array_equal(bad.corners, nodes[[2, 4]])
    worst = bad.element[np.argmin(bad.jacobian)]
    with pytest.raises(InputError) as error:
        g.refuse_bad_elements(nodes, ids=np.arange(100, 106))
    text = str(error.value)
    assert f"element {100 + worst}," in text and "2 elements" in text and f"{bad.jacobian.min():.4g} m^3" in text
    assert all(f"({x:g}, {y:g}, {z:g})" in text for x, y, z in nodes[worst])
