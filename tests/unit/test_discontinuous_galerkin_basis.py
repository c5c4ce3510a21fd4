"""The basis on the reference tetrahedron and the matrices made from it, against other libraries and exact integrals."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from lithowave.mesh import TETRAHEDRON_FACES, make_mesh
from lithowave.solvers.discontinuous_galerkin import (
    CORNERS,
    DIRECTIONS,
    ORDERS,
    basis_values,
    face_values,
    make_reference,
    mode_count,
    tetrahedron_rule,
    triangle_rule,
)

ROUNDING = 2e-12


def powers(degree: int, dimension: int) -> list[tuple[int, ...]]:
    return [one for one in itertools.product(range(degree + 1), repeat=dimension) if sum(one) <= degree]


def exact_integral(exponents: tuple[int, ...]) -> float:
    """Of a monomial over the reference simplex."""
    return math.prod(map(math.factorial, exponents)) / math.factorial(sum(exponents) + len(exponents))


@pytest.mark.parametrize("rule, dimension, loss", [(tetrahedron_rule, 3, 3), (triangle_rule, 2, 2)])
def test_quadrature_is_exact_to_the_degree_told_and_no_further(rule, dimension, loss) -> None:
    for count in (3, 6):
        points, weights = rule(count)
        exact = [(one, exact_integral(one)) for one in powers(2 * count - loss + 1, dimension)]
        errors = [abs(weights @ np.prod(points ** np.array(one), axis=1) / value - 1) for one, value in exact]
        degrees = np.array([sum(one) for one, _ in exact])
        errors = np.array(errors)
        assert errors[degrees <= 2 * count - loss].max() < 1e-13
        assert errors[degrees == 2 * count - loss + 1].max() > 1e-9


@pytest.mark.parametrize("order", ORDERS)
def test_matrices_are_those_of_another_basis_and_quadrature(order: int) -> None:
    """modepy has its own orthonormal basis, derivatives and quadrature on the simplex from -1 to 1."""
    modepy = pytest.importorskip("modepy")
    bases = {n: modepy.orthonormal_basis_for_space(modepy.PN(n, order - 1), modepy.Simplex(n)) for n in (2, 3)}
    rules = {n: modepy.XiaoGimbutasSimplexQuadrature(2 * order, n) for n in (2, 3)}

    def theirs(dimension: int, points: np.ndarray) -> np.ndarray:
        """Orthonormal on the simplex from 0 to 1."""
        return math.sqrt(2.0) ** dimension * np.array([one(2 * points.T - 1) for one in bases[dimension].functions])

    nodes = {n: ((rule.nodes + 1) / 2).T for n, rule in rules.items()}
    weights = {n: rule.weights / 2**n for n, rule in rules.items()}
    volume, face = theirs(3, nodes[3]) * weights[3], theirs(2, nodes[2])
    change = volume @ basis_values(order, nodes[3]).T  # from our coefficients to theirs
    change_face = face * weights[2] @ face_values(order, nodes[2]).T
    for matrix in (change, change_face):
        np.testing.assert_allclose(matrix @ matrix.T, np.eye(len(matrix)), atol=ROUNDING)
    reference = make_reference(order)
    gradients = np.array([np.array(one(2 * nodes[3].T - 1)) for one in bases[3].gradients])  # function, axis, point
    along = np.einsum("ec,lcn->eln", DIRECTIONS, 2 * math.sqrt(8.0) * gradients)
    for own, slopes in zip(reference.derivatives, along, strict=True):
        np.testing.assert_allclose(own, change.T @ (volume @ slopes.T) @ change, atol=1e-11)
    for own, corners in zip(reference.traces, CORNERS[TETRAHEDRON_FACES], strict=True):
        places = corners[0] + nodes[2] @ (corners[1:] - corners[0])
        trace = theirs(3, places) * weights[2] @ face.T
        np.testing.assert_allclose(own, change.T @ trace @ change_face, atol=1e-11)


def test_neighbours_in_all_relations_see_one_trace() -> None:
    """4 faces of one, 4 of the other, 3 rotations: with vertices that rise both parametrize their face alike."""
    order, random = 4, np.random.default_rng(3)
    points, weights = tetrahedron_rule(order + 1)
    seen = set()
    for face, other, rotation in itertools.product(range(4), range(4), range(3)):
        vertices = random.normal(size=(5, 3))
        shared = [0, 1, 2]
        turned = np.roll([2, 1, 0], rotation)  # seen from the other side
        rows = [list(shared), list(turned)]
        rows[0].insert(3 - face, 3)
        rows[1].insert(3 - other, 4)
        # Numbers at random: the rows of the mesh are sorted by them.
        names = random.permutation(5)
        renamed = np.empty((5, 3))
        renamed[names] = vertices
        mesh = make_mesh(renamed, names[np.array(rows)])
        gains = random.normal(size=mode_count(order))
        coefficients = []
        for element in mesh.element_vertices():
            places = element[0] + points @ (element[1:] - element[0])
            values = gains @ np.array([np.prod(places ** np.array(one), axis=1) for one in powers(order - 1, 3)])
            coefficients.append(basis_values(order, points) * weights @ values)
        (own,) = np.flatnonzero(mesh.neighbors[0] >= 0)
        across = int(mesh.neighbors[0, own]) % 4
        seen.add((int(own), across))
        traces = make_reference(order).traces
        one, two = coefficients[0] @ traces[own], coefficients[1] @ traces[across]
        np.testing.assert_allclose(one, two, atol=1e-10 * np.abs(one).max())
    assert len(seen) > 8
