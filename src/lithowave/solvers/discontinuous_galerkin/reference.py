r"""Matrices of the reference tetrahedron, computed at startup by exact quadrature.

The basis is orthonormal, so the mass matrix is the unit matrix. A scheme in strong form needs only derivatives, K_c[k,
l] = <phi_k, d_c phi_l>, and traces R_f[k, m] = <phi_k, psi_m> on face f, which map a polynomial to its values on a
face, and lift the flux across a face into the element.

The vertices of every element are sorted by their index in the mesh. Both elements at a face then have its vertices in
the same order and parametrize it identically, and no matrix for orientations is needed: with the vertices of a neighbor
in any order there would be 4 x 4 x 3 of them.

Derivatives are computed along `DIRECTIONS`, along which the basis has fewer nonzero entries.

**Orthonormal polynomials on the reference tetrahedron and its faces (Dubiner 1991), and exact quadrature there.** The
reference tetrahedron has the corners (0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1); the reference triangle (0, 0), (1, 0),
(0, 1). A basis of convergence order O contains all polynomials up to degree O - 1, sorted by degree, so that a
derivative of the first B_d functions needs only functions before them.

.. math::
    \phi_{pqr} \propto (1-y-z)^p P_p\!\left(\tfrac{2x}{1-y-z} - 1\right)
    (1-z)^q P_q^{2p+1,0}\!\left(\tfrac{2y}{1-z} - 1\right) P_r^{2p+2q+2,0}(2z - 1)

with Jacobi polynomials, see Karniadakis & Sherwin (2005), Spectral/hp Element Methods, section 3.2.

`make_geometry` has the maps of straight-sided tetrahedra to the reference element, their normals and sizes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from lithowave.backends.loops import exact_part
from lithowave.mesh.tetrahedra import TETRAHEDRON_FACES

CORNERS = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
DIRECTIONS = np.array([[1.0, 0, 0], [-1 / 2, 1, 0], [-1 / 3, -1 / 3, 1]])


@dataclass(frozen=True)
class Reference:
    """Matrices for one order.

    order; levels : (order + 1,), functions up to degree order - 1 - d, B_0 > B_1 > ... > 0: those remaining after d
    derivatives. derivatives : (3, functions, functions), <phi_k, DIRECTIONS_c . grad phi_l>. traces : (4, functions,
    face functions).
    """

    order: int
    levels: tuple[int, ...]
    derivatives: np.ndarray
    traces: np.ndarray

    @property
    def count(self) -> int:
        """Functions in an element."""
        return mode_count(self.order)

    @property
    def face_count(self) -> int:
        """Functions on a face."""
        return face_mode_count(self.order)


@lru_cache
def make_reference(order: int) -> Reference:
    """Return the matrices of a convergence order from 2 to 7; zero entries are exactly zero."""
    points, weights = tetrahedron_rule(order + 2)
    values = basis_values(order, points) * weights
    derivatives = np.einsum("ed,kn,dln->ekl", DIRECTIONS, values, basis_gradients(order, points))
    traces = np.array([_trace(order, face) for face in range(4)])
    levels = tuple(mode_count(order - d) for d in range(order + 1))
    return Reference(order, levels, _tidy(derivatives), _tidy(traces))


def face_points(face: int, points: np.ndarray) -> np.ndarray:
    """Return points (n, 3) of the reference tetrahedron at the coordinates (n, 2) of a face, from its first vertex."""
    origin, first, second = CORNERS[TETRAHEDRON_FACES[face]]
    return origin + points[:, :1] * (first - origin) + points[:, 1:] * (second - origin)


def _trace(order: int, face: int) -> np.ndarray:
    points, weights = triangle_rule(order + 2)
    return basis_values(order, face_points(face, points)) * weights @ face_values(order, points).T


def _tidy(matrix: np.ndarray) -> np.ndarray:
    tidy = np.where(np.abs(matrix) < 1e-11, 0.0, matrix)
    tidy.flags.writeable = False
    return tidy


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


@dataclass(frozen=True)
class Geometry:
    """Maps of elements.

    gradients : (n, 3, 3), d xi_c / d x_i, 1/m. jacobian : (n,), |det dx/dxi|, m^3, six times the volume. normals : (n,
    4, 3), outward unit normals of the faces. lifts : (n, 4), area over three times the volume, 1/m: twice the area of a
    face over the Jacobian, the factor of reference-triangle integrals in the element.
    """

    gradients: np.ndarray
    jacobian: np.ndarray
    normals: np.ndarray
    lifts: np.ndarray

    def along_directions(self) -> np.ndarray:
        """Return gradients (n, 3, 3), 1/m, of the coordinates along `reference.DIRECTIONS`."""
        return np.einsum("kc,nki->nci", np.linalg.inv(DIRECTIONS), self.gradients)


def make_geometry(vertices: np.ndarray) -> Geometry:
    """Return the geometry of elements with the vertices (n, 4, 3), m."""
    count = len(vertices)
    made = Geometry(np.empty((count, 3, 3)), np.empty(count), np.empty((count, 4, 3)), np.empty((count, 4)))
    compute_geometry(vertices, made.gradients, made.jacobian, made.normals, made.lifts)
    return made


@exact_part
def compute_geometry(vertices, gradients, jacobian, normals, lifts):  # pragma: no cover - compiled
    """Compute the arrays of a `Geometry`."""
    edge = np.empty((3, 3))
    for n in range(len(vertices)):
        for k in range(3):
            for i in range(3):
                edge[k, i] = vertices[n, k + 1, i] - vertices[n, 0, i]  # dx_i / dxi_k
        for k in range(3):
            a, b = edge[k - 2], edge[k - 1]
            for i in range(3):
                gradients[n, k, i] = a[i - 2] * b[i - 1] - a[i - 1] * b[i - 2]
        first, cofactor = edge[0], gradients[n, 0]
        determinant = first[0] * cofactor[0] + first[2] * cofactor[2] + first[1] * cofactor[1]
        jacobian[n] = abs(determinant)
        for k in range(3):
            for i in range(3):
                gradients[n, k, i] /= determinant
        for face in range(4):
            square = 0.0
            for i in range(3):
                # The barycentric coordinate of the opposite vertex, 3 - face, increases away from the face.
                if face == 3:
                    inward = -(gradients[n, 0, i] + gradients[n, 1, i] + gradients[n, 2, i])
                else:
                    inward = gradients[n, 2 - face, i]
                normals[n, face, i] = -inward
                square += inward * inward
            lifts[n, face] = np.sqrt(square)
            for i in range(3):
                normals[n, face, i] /= lifts[n, face]
