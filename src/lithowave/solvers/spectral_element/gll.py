r"""Gauss-Lobatto-Legendre points, weights and Lagrange polynomials on [-1, 1].

The n + 1 points of degree n are -1, 1 and the zeros of :math:`P_n'`; quadrature with the weights

.. math:: w_i = \frac{2}{n (n+1) P_n(x_i)^2}

is exact for polynomials up to degree 2n - 1 (Canuto et al. 2006, Spectral Methods, eq. 2.3.12). The polynomial that is
1 at point j and 0 at all others, and the matrix of derivatives at the points (Berrut & Trefethen 2004, SIAM Review 46,
501-517, eqs. 3.2 and 9.4), are

.. math:: \ell_j(x) = \prod_{m \ne j} \frac{x - x_m}{x_j - x_m}, \qquad
    D_{ij} = \ell_j'(x_i) = \frac{\lambda_j / \lambda_i}{x_i - x_j}, \quad D_{ii} = -\sum_{j \ne i} D_{ij}, \qquad
    \lambda_j^{-1} = \prod_{m \ne j} (x_j - x_m).

All values are dimensionless and in double precision. Arrays that depend only on the degree are cached and read-only.
Every function raises ValueError for a degree that is not 1 to 10.
"""

from __future__ import annotations

from functools import lru_cache
from math import fsum

import numpy as np

DEGREES = range(1, 11)


def legendre(degree: int, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return P_n(x) and P_n'(x) by the three-term recurrence, shapes of x."""
    before, value = np.zeros_like(x), np.ones_like(x)
    derivative_before, derivative = np.zeros_like(x), np.zeros_like(x)
    for n in range(degree):
        following = ((2 * n + 1) * x * value - n * before) / (n + 1)
        derivative_following = derivative_before + (2 * n + 1) * value
        before, value = value, following
        derivative_before, derivative = derivative, derivative_following
    return value, derivative


@lru_cache
def gll_points(degree: int) -> np.ndarray:
    """Return the points in ascending order, shape (degree + 1,), exactly symmetric about 0.

    Newton's method for P_n' = 0 from the Chebyshev points -cos(pi i / n), with P_n'' from Legendre's equation
    (1 - x^2) P_n'' = 2 x P_n' - n (n + 1) P_n.
    """
    _check(degree)
    x = -np.cos(np.pi * np.arange(1, degree) / degree)
    for _ in range(8):  # quadratic convergence: four are enough
        value, slope = legendre(degree, x)
        curvature = (2 * x * slope - degree * (degree + 1) * value) / (1 - x**2)
        x = x - slope / curvature
    x = np.concatenate([[-1.0], x, [1.0]])
    return _read_only((x - x[::-1]) / 2)


@lru_cache
def gll_weights(degree: int) -> np.ndarray:
    """Return the quadrature weights, shape (degree + 1,), positive, with sum 2, exactly symmetric."""
    value, _ = legendre(degree, gll_points(degree))
    weights = 2.0 / (degree * (degree + 1) * value**2)
    return _read_only((weights + weights[::-1]) / 2)


def lagrange_values(degree: int, x: np.ndarray | float) -> np.ndarray:
    """Return l_j(x) at any points: shape (*shape of x, degree + 1).

    For a list of points this is the matrix that interpolates to them from the GLL points. At a GLL point the values are
    exactly 0 and 1.
    """
    points = gll_points(degree)
    x = np.asarray(x, dtype=float)[..., None]
    others = [np.delete(points, j) for j in range(degree + 1)]
    return np.stack([((x - other) / (point - other)).prod(-1) for point, other in zip(points, others, strict=True)], -1)


def lagrange_derivatives(degree: int, x: np.ndarray | float) -> np.ndarray:
    """Return l_j'(x) at any points, shape (*shape of x, degree + 1): derivatives at the GLL points, interpolated."""
    return lagrange_values(degree, x) @ derivative_matrix(degree)


@lru_cache
def derivative_matrix(degree: int) -> np.ndarray:
    """Return D, shape (degree + 1, degree + 1): f'(x_i) = sum_j D_ij f(x_j).

    The diagonal is minus the sum of the rest of its row, so that the derivative of constants vanishes, and D_ij is
    exactly -D_(n-i)(n-j).
    """
    points = gll_points(degree)
    distance = points[:, None] - points[None, :]
    np.fill_diagonal(distance, 1.0)
    inverse = distance.prod(axis=1)
    inverse = (inverse + (-1) ** degree * inverse[::-1]) / 2
    matrix = inverse[:, None] / inverse[None, :] / distance
    np.fill_diagonal(matrix, 0.0)
    np.fill_diagonal(matrix, [-fsum(row) for row in matrix])
    return _read_only(matrix)


def _check(degree: int) -> None:
    if degree not in DEGREES:
        raise ValueError(f"degree is {degree}; allowed: {DEGREES[0]} to {DEGREES[-1]}")


def _read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array
