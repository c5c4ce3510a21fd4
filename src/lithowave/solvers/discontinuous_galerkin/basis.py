r"""Orthonormal polynomials on the reference tetrahedron and its faces (Dubiner 1991), and exact quadrature there.

The reference tetrahedron has the corners (0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1); the reference triangle (0, 0), (1,
0), (0, 1). A basis of convergence order O contains all polynomials up to degree O - 1, sorted by degree, so that a
derivative of the first B_d functions needs only functions before them.

.. math::
    \phi_{pqr} \propto (1-y-z)^p P_p\!\left(\tfrac{2x}{1-y-z} - 1\right)
    (1-z)^q P_q^{2p+1,0}\!\left(\tfrac{2y}{1-z} - 1\right) P_r^{2p+2q+2,0}(2z - 1)

with Jacobi polynomials, see Karniadakis & Sherwin (2005), Spectral/hp Element Methods, section 3.2.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

ORDERS = (2, 3, 4, 5, 6, 7)


def mode_count(order: int) -> int:
    """Return the number of functions in a tetrahedron: all polynomials up to degree order - 1; 0 for order 0."""
    return order * (order + 1) * (order + 2) // 6


def face_mode_count(order: int) -> int:
    """Return the number of functions on a face."""
    return order * (order + 1) // 2


@lru_cache
def modes(order: int) -> tuple[tuple[int, int, int], ...]:
    """Return (p, q, r) of each function."""
    return tuple(
        (degree - q - r, q, r) for degree in range(order) for r in range(degree + 1) for q in range(degree - r + 1)
    )


@lru_cache
def face_modes(order: int) -> tuple[tuple[int, int], ...]:
    """Return (p, q) of each function on a face."""
    return tuple((degree - q, q) for degree in range(order) for q in range(degree + 1))


def jacobi(n: int, alpha: float, u: np.ndarray, scale: np.ndarray | float = 1.0) -> np.ndarray:
    """Return scale^n P_n^(alpha, 0)(u / scale): a polynomial in both, also for scale = 0."""
    before, present = np.zeros_like(u), np.ones_like(u)
    for k in range(n):
        if k == 0:
            before, present = present, 0.5 * (alpha * scale + (alpha + 2.0) * u)
            continue
        c = 2 * (k + 1) + alpha
        a = 2.0 * (k + 1) * (k + 1 + alpha) * (c - 2.0)
        b = (c - 1.0) * (c * (c - 2.0) * u + alpha**2 * scale)
        before, present = present, (b * present - 2.0 * (k + alpha) * k * c * scale**2 * before) / a
    return present


def basis_values(order: int, points: np.ndarray) -> np.ndarray:
    """Return phi_k at points (n, 3): (functions, n). Complex points are allowed."""
    x, y, z = np.asarray(points).T
    values = []
    for p, q, r in modes(order):
        value = jacobi(p, 0, 2 * x + y + z - 1, 1 - y - z)
        value = value * jacobi(q, 2 * p + 1, 2 * y + z - 1, 1 - z) * jacobi(r, 2 * p + 2 * q + 2, 2 * z - 1)
        values.append(value * np.sqrt((2 * p + 1) * (2 * p + 2 * q + 2) * (2 * p + 2 * q + 2 * r + 3)))
    return np.array(values)


def basis_gradients(order: int, points: np.ndarray) -> np.ndarray:
    """Return d phi_k / d x_c at points (n, 3): (3, functions, n), by complex steps, exact up to round-off."""
    points, step = np.asarray(points, float), 1e-60
    return np.array([basis_values(order, points + 1j * step * axis).imag / step for axis in np.eye(3)])


def face_values(order: int, points: np.ndarray) -> np.ndarray:
    """Return psi_m at points (n, 2) of the reference triangle: (functions, n)."""
    s, t = np.asarray(points, float).T
    return np.array(
        [
            jacobi(p, 0, 2 * s + t - 1, 1 - t) * jacobi(q, 2 * p + 1, 2 * t - 1)
            * np.sqrt((2 * p + 1) * (2 * p + 2 * q + 2))
            for p, q in face_modes(order)
        ]
    )  # fmt: skip


def _gauss(count: int) -> tuple[np.ndarray, np.ndarray]:
    points, weights = np.polynomial.legendre.leggauss(count)
    return (points + 1.0) / 2.0, weights / 2.0


def tetrahedron_rule(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points (count^3, 3) and weights on the reference tetrahedron, exact to degree 2 count - 3."""
    points, weights = _gauss(count)
    a, b, z = (axis.ravel() for axis in np.meshgrid(points, points, points, indexing="ij"))
    wa, wb, wz = (axis.ravel() for axis in np.meshgrid(weights, weights, weights, indexing="ij"))
    y = b * (1 - z)
    return np.column_stack([a * (1 - y - z), y, z]), wa * wb * wz * (1 - z) ** 2 * (1 - b)


def triangle_rule(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points (count^2, 2) and weights on the reference triangle, exact to degree 2 count - 2."""
    points, weights = _gauss(count)
    a, t = (axis.ravel() for axis in np.meshgrid(points, points, indexing="ij"))
    wa, wt = (axis.ravel() for axis in np.meshgrid(weights, weights, indexing="ij"))
    return np.column_stack([a * (1 - t), t]), wa * wt * (1 - t)
