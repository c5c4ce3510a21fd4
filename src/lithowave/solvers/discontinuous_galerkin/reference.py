r"""Matrices of the reference tetrahedron, computed at startup by exact quadrature.

The basis is orthonormal, so the mass matrix is the unit matrix. A scheme in strong form needs only derivatives, K_c[k,
l] = <phi_k, d_c phi_l>, and traces R_f[k, m] = <phi_k, psi_m> on face f, which map a polynomial to its values on a
face, and lift the flux across a face into the element.

The vertices of every element are sorted by their index in the mesh. Both elements at a face then have its vertices in
the same order and parametrize it identically, and no matrix for orientations is needed: with the vertices of a neighbor
in any order there would be 4 x 4 x 3 of them.

Derivatives are computed along `DIRECTIONS`, along which the basis has fewer nonzero entries.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from lithowave.mesh.tetrahedra import FACES
from lithowave.solvers.discontinuous_galerkin.basis import (
    basis_gradients,
    basis_values,
    face_mode_count,
    face_values,
    mode_count,
    tetrahedron_rule,
    triangle_rule,
)

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
    origin, first, second = CORNERS[FACES[face]]
    return origin + points[:, :1] * (first - origin) + points[:, 1:] * (second - origin)


def _trace(order: int, face: int) -> np.ndarray:
    points, weights = triangle_rule(order + 2)
    return basis_values(order, face_points(face, points)) * weights @ face_values(order, points).T


def _tidy(matrix: np.ndarray) -> np.ndarray:
    tidy = np.where(np.abs(matrix) < 1e-11, 0.0, matrix)
    tidy.flags.writeable = False
    return tidy
