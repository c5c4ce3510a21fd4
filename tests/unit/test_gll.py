"""Gauss-Lobatto-Legendre points, weights and Lagrange polynomials."""

from __future__ import annotations

import numpy as np
import pytest

from lithowave.solvers.spectral_element import (
    derivative_matrix,
    gll_points,
    gll_weights,
    lagrange_derivatives,
    lagrange_values,
)

DEGREES = range(1, 11)


@pytest.mark.parametrize("degree", DEGREES)
def test_quadrature_is_exact_to_degree_2n_minus_1_and_no_further(degree):
    points, weights = gll_points(degree), gll_weights(degree)
    for power in range(2 * degree):
        exact = 2 / (power + 1) if power % 2 == 0 else 0.0
        assert weights @ points**power == pytest.approx(exact, abs=2e-15)
    assert abs(weights @ points ** (2 * degree) - 2 / (2 * degree + 1)) > 1e-7


@pytest.mark.parametrize("degree", DEGREES)
def test_summation_by_parts(degree):
    """W D + (W D)^T = diag(-1, 0, ..., 0, 1): the identity the stability of spectral elements rests on."""
    product = gll_weights(degree)[:, None] * derivative_matrix(degree)
    ends = np.zeros(degree + 1)
    ends[0], ends[-1] = -1.0, 1.0
    np.testing.assert_allclose(product + product.T, np.diag(ends), rtol=0, atol=2e-14)


@pytest.mark.parametrize("degree", DEGREES)
def test_lagrange_polynomials(degree):
    x = np.linspace(-1.1, 1.1, 23).reshape(1, 23)
    coefficients = np.random.default_rng(degree).normal(size=degree + 1)
    samples = np.polyval(coefficients, gll_points(degree))
    np.testing.assert_array_equal(lagrange_values(degree, gll_points(degree)), np.eye(degree + 1))
    np.testing.assert_allclose(lagrange_values(degree, x) @ samples, np.polyval(coefficients, x), rtol=0, atol=1e-12)
    slopes = np.polyval(np.polyder(coefficients), x)
    np.testing.assert_allclose(lagrange_derivatives(degree, x) @ samples, slopes, rtol=0, atol=1e-10)
    assert lagrange_values(degree, 0.3).shape == (degree + 1,)


@pytest.mark.parametrize("degree", [0, 11, 2.5])
def test_other_degrees_are_refused(degree):
    with pytest.raises(ValueError, match="allowed: 1 to 10"):
        gll_points(degree)
