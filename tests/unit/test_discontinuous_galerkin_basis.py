"""The basis on the reference tetrahedron and the matrices made from it, against other libraries and exact integrals."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from lithowave.mesh import TETRAHEDRON_FACES
from lithowave.solvers.discontinuous_galerkin import (
    CORNERS,
    DIRECTIONS,
    ORDERS,
    basis_values,
    face_values,
    make_reference,
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
