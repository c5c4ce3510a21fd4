"""Straight-sided tetrahedra: their maps to the reference element, normals and sizes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lithowave.mesh.tetrahedra import FACES
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
    edges = vertices[:, 1:] - vertices[:, :1]  # (n, k, i): dx_i / dxi_k
    cofactors = np.stack([np.cross(edges[:, k - 2], edges[:, k - 1]) for k in range(3)], axis=1)
    determinant = np.einsum("ni,ni->n", edges[:, 0], cofactors[:, 0])
    gradients = cofactors / determinant[:, None, None]
    normals, lengths = np.empty((len(vertices), 4, 3)), np.empty((len(vertices), 4))
    for face in range(len(FACES)):
        opposite = 3 - face
        # The barycentric coordinate of the opposite vertex increases away from the face.
        inward = -gradients.sum(axis=1) if opposite == 0 else gradients[:, opposite - 1]
        lengths[:, face] = np.linalg.norm(inward, axis=1)
        normals[:, face] = -inward / lengths[:, face, None]
    return Geometry(gradients, np.abs(determinant), normals, lengths)
