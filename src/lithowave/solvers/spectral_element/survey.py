r"""What must be known of a mesh before the first step: mass, volume, the smallest Jacobian, the stable time step."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numba import njit

from lithowave.solvers.spectral_element.geometry import map_degree, tensor_order
from lithowave.solvers.spectral_element.gll import derivative_matrix, gll_points, gll_weights

PART = 20_000  # elements whose nodes are at work at a time


def map_coefficients(nodes: np.ndarray) -> np.ndarray:
    """The map of elements as monomials, (elements, 3, q, q, q) [component, power of zeta, of eta, of xi], m.

    nodes : (elements, 8 or 27, 3); q is 2 or 3. The constant term, of no use for derivatives, is measured from the
    element's first node, so that single precision has enough digits.
    """
    count = nodes.shape[1]
    q = map_degree(count) + 1
    line = np.linalg.inv(np.linspace(-1, 1, q)[:, None] ** np.arange(q))  # powers from values
    tensor = np.empty((len(nodes), 3, count))
    tensor[:, :, tensor_order(count)] = (nodes - nodes[:, :1]).transpose(0, 2, 1)
    whole = np.kron(line, np.kron(line, line))
    return (tensor.reshape(-1, count) @ whole.T).reshape(len(nodes), 3, q, q, q)


@lru_cache
def largest_eigenvalue(degree: int) -> float:
    """Largest eigenvalue of the stiffness of one element [-1, 1] with free ends, for rho = mu = 1."""
    derivative, weights = derivative_matrix(degree), gll_weights(degree)
    stiffness = derivative.T @ (weights[:, None] * derivative)
    root = np.sqrt(weights)
    return float(np.linalg.eigvalsh(stiffness / root[:, None] / root)[-1])


@dataclass(frozen=True)
class MeshSurvey:
    """Sums and extremes over all elements.

    mass : of each point, kg. frequency2 : bound of the largest eigenvalue of each element, 1/s^2. jacobian : smallest
    determinant in each element, m^3.
    """

    mass: np.ndarray
    frequency2: np.ndarray
    jacobian: np.ndarray


@njit(cache=True, fastmath={"contract"}, error_model="numpy")
def _survey(coefficients, numbers, rho, vp, points, weights, mass, frequency2, jacobian):  # pragma: no cover - compiled
    """Add the elements' masses to `mass`; fill frequency2 (without the factor of the degree) and jacobian."""
    n, q = points.size, coefficients.shape[2]
    m = np.empty((3, 3))
    for e in range(coefficients.shape[0]):
        least, most = np.inf, 0.0
        varying = rho.shape[1] > 1
        for k in range(n):
            for j in range(n):
                for i in range(n):
                    at = (k * n + j) * n + i if varying else 0
                    jacobian_matrix(coefficients[e], q, points[i], points[j], points[k], m)
                    j0 = m[1, 1] * m[2, 2] - m[1, 2] * m[2, 1]
                    j1 = m[1, 2] * m[2, 0] - m[1, 0] * m[2, 2]
                    j2 = m[1, 0] * m[2, 1] - m[1, 1] * m[2, 0]
                    det = m[0, 0] * j0 + m[0, 1] * j1 + m[0, 2] * j2
                    least = min(least, det)
                    mass[numbers[e, k, j, i]] += weights[i] * weights[j] * weights[k] * det * rho[e, at]
                    most = max(most, vp[e, at] ** 2 * spread(m, det))
        frequency2[e], jacobian[e] = most, least


@njit(inline="always")
def jacobian_matrix(c, q, x, y, z, m):
    """m[d, component] = d x_component / d xi_d."""
    for component in range(3):
        a, b, g, pz, sz = 0.0, 0.0, 0.0, 1.0, 0.0
        for r in range(q):
            py, sy = 1.0, 0.0
            for s in range(q):
                px, sx = 1.0, 0.0
                for t in range(q):
                    value = c[component, r, s, t]
                    a += value * sx * py * pz
                    b += value * px * sy * pz
                    g += value * px * py * sz
                    sx, px = (t + 1) * px, px * x
                sy, py = (s + 1) * py, py * y
            sz, pz = (r + 1) * pz, pz * z
        m[0, component], m[1, component], m[2, component] = a, b, g


@njit(inline="always")
def spread(m, det):
    """Sum over d and e of |grad xi_d . grad xi_e|, 1/m^2, from the Jacobian matrix."""
    total = 0.0
    inverse = np.empty((3, 3))
    for d in range(3):
        e, f = (d + 1) % 3, (d + 2) % 3
        for c in range(3):
            r, s = (c + 1) % 3, (c + 2) % 3
            inverse[d, c] = (m[e, r] * m[f, s] - m[e, s] * m[f, r]) / det
    for d in range(3):
        for e in range(3):
            total += abs(
                inverse[d, 0] * inverse[e, 0] + inverse[d, 1] * inverse[e, 1] + inverse[d, 2] * inverse[e, 2]
            )
    return total


def survey_mesh(
    coefficients: np.ndarray, numbers: np.ndarray, point_count: int, rho: np.ndarray, vp: np.ndarray
) -> MeshSurvey:
    r"""Go through all points of all elements once.

    coefficients : see `map_coefficients`. numbers : of points [element, k, j, i]. rho, vp : (elements, 1) or (elements,
    points of an element); vp is the fastest wave's speed, m/s.

    The largest eigenvalue of an element's stiffness over its mass bounds that of the whole mesh (Fried 1972, Int. J.
    Solids Struct. 8); for a parallelepiped it is at most vp^2 L sum_de |grad xi_d . grad xi_e|, L that of the line
    element; an element that is no parallelepiped is taken by its worst point.
    """
    degree = numbers.shape[1] - 1
    mass = np.zeros(point_count)
    frequency2, jacobian = np.empty(len(numbers)), np.empty(len(numbers))
    points, weights = gll_points(degree), gll_weights(degree)
    _survey(coefficients, numbers, rho, vp, points, weights, mass, frequency2, jacobian)
    return MeshSurvey(mass, largest_eigenvalue(degree) * frequency2, jacobian)
