"""Straight-sided tetrahedra: their maps to the reference element, normals and sizes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lithowave.backends.loops import exact_part
from lithowave.solvers.discontinuous_galerkin.reference import DIRECTIONS


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
