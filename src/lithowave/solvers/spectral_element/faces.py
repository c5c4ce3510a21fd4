r"""Boundary conditions on the faces of a mesh: points at rest, and points whose motion is damped.

On an absorbing face the traction is that of a plane wave at normal incidence (Clayton & Engquist 1977, BSSA 67; Stacey
1988, BSSA 78),

.. math:: \sigma \cdot n = -Z v, \qquad Z = \sqrt{\rho}\,\sqrt{\Gamma}, \quad \Gamma_{ik} = C_{ijkl} n_j n_l,

which for an isotropic solid is rho (vp n n + vs (1 - n n)), and for an anisotropic one absorbs all three waves along n.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lithowave.backends.host_threads import over_parts
from lithowave.mesh.numbering import FACES
from lithowave.physics.elasticity import stiffness_tensor
from lithowave.physics.tensors import TENSOR_PAIRS, tensor_components
from lithowave.solvers.spectral_element.geometry import shape_derivatives
from lithowave.solvers.spectral_element.gll import gll_points, gll_weights

PART = 1024  # faces that are integrated at a time


@dataclass(frozen=True)
class Damping:
    """Points whose motion is damped, each once and in ascending order, and the symmetric matrices G = dt / 2 M^-1 C as
    (points, 6): xx, yy, zz, xy, xz, yz."""

    point: np.ndarray
    matrix: np.ndarray

    def at(self, points: np.ndarray) -> np.ndarray:
        """Return the matrices (n, 6) at some points, 0 where the motion is not damped."""
        found = np.zeros((len(points), len(TENSOR_PAIRS)))
        place = np.searchsorted(self.point, points)
        known = place < len(self.point)
        known[known] = self.point[place[known]] == points[known]
        found[known] = self.matrix[place[known]]
        return found

    def kernel_matrix(self) -> np.ndarray:
        """Return B = (1 + G)^-1 in the same form, by cofactors."""
        (x, y, z), (u, v, w) = 1.0 + self.matrix[:, :3].T, self.matrix[:, 3:].T
        inverse = np.stack(
            [y * z - w * w, x * z - v * v, x * y - u * u, v * w - u * z, u * w - v * y, u * v - w * x], axis=1
        )
        determinant = x * inverse[:, 0] + u * inverse[:, 3] + v * inverse[:, 4]
        return inverse / determinant[:, None]


def face_places(face: int, degree: int) -> tuple[np.ndarray, np.ndarray]:
    """Return indices (k, j, i) of the points of a local face (n * n, 3), and the weights of its quadrature."""
    axis, high = divmod(face, 2)
    n = degree + 1
    a, b = np.meshgrid(np.arange(n), np.arange(n), indexing="ij")
    places = np.empty((n * n, 3), np.int64)
    others = [other for other in range(3) if other != axis]
    places[:, 2 - axis] = high * degree
    places[:, 2 - others[0]], places[:, 2 - others[1]] = a.ravel(), b.ravel()
    weights = gll_weights(degree)
    return places, (weights[:, None] * weights).ravel()


def face_areas(nodes: np.ndarray, face: int, degree: int) -> np.ndarray:
    """Return outward normal times quadrature area (elements, points, 3), m^2, at the points of a face of elements."""
    places, weights = face_places(face, degree)
    reference = gll_points(degree)[places[:, ::-1]]
    slopes = shape_derivatives(reference, nodes.shape[1])  # (points, 3, count)
    axis, high = divmod(face, 2)
    first, second = ((nodes.transpose(0, 2, 1) @ slopes[:, (axis + step) % 3].T).transpose(0, 2, 1) for step in (1, 2))
    return np.cross(first, second) * (weights[:, None] * (1 if high else -1))


def impedances(stiffness: np.ndarray, rho: np.ndarray, normal: np.ndarray) -> np.ndarray:
    """Return Z (..., 3, 3), kg/(m^2 s). stiffness (..., 6, 6) in Pa, rho (...), unit normals (..., 3)."""
    christoffel = np.einsum("...ijkl,...j,...l->...ik", stiffness_tensor(stiffness), normal, normal)
    values, vectors = np.linalg.eigh(christoffel * rho[..., None, None])
    return np.einsum("...ia,...a,...ka->...ik", vectors, np.sqrt(np.maximum(values, 0)), vectors)


def isotropic_impedances(vp: np.ndarray, vs: np.ndarray, rho: np.ndarray, normal: np.ndarray) -> np.ndarray:
    """Return rho (vp n n + vs (1 - n n)), shape (..., 3, 3)."""
    along = normal[..., :, None] * normal[..., None, :]
    return (rho * (vp - vs))[..., None, None] * along + (rho * vs)[..., None, None] * np.eye(3)


def face_points(numbers: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """Return the indices of the points on faces (element, local face); shared points occur several times."""
    degree, found = numbers.shape[1] - 1, [np.zeros(0, np.int64)]
    for face in range(len(FACES)):
        elements = faces[faces[:, 1] == face, 0]
        k, j, i = face_places(face, degree)[0].T
        found.append(numbers[elements[:, None], k, j, i].ravel())
    return np.concatenate(found)


def absorbing_matrices(mesh: Any, numbers: np.ndarray, faces: np.ndarray, impedance: Any) -> Damping:
    """Return the sum of Z dA over the faces that meet at each point: C of the damping, kg/s.

    impedance : function (elements, point indices (points, 3) as k, j, i, unit normals) -> Z (elements, points, 3, 3).
    """
    degree = numbers.shape[1] - 1
    points, matrices = [np.zeros(0, np.int64)], [np.zeros((0, len(TENSOR_PAIRS)))]
    for face in range(len(FACES)):
        members = faces[faces[:, 1] == face, 0]
        places, _ = face_places(face, degree)

        def integrate(part: slice, face: int = face, members: np.ndarray = members, places: np.ndarray = places) -> Any:
            some = members[part]
            area = face_areas(mesh.element_nodes(some), face, degree)
            size = np.linalg.norm(area, axis=-1)
            z = impedance(some, places, area / size[..., None])
            matrix = tensor_components(z * size[..., None, None])
            return numbers[some[:, None], *places.T].ravel(), matrix.reshape(-1, len(TENSOR_PAIRS))

        for point, matrix in over_parts(integrate, len(members), PART):
            points.append(point)
            matrices.append(matrix)
    every, flat = np.concatenate(points), np.concatenate(matrices)
    damped = np.zeros(every.max(initial=-1) + 1, bool)
    damped[every] = True
    point = np.flatnonzero(damped)
    total = np.empty((len(point), len(TENSOR_PAIRS)))
    place = np.empty(len(every), np.int64)

    def find(part: slice) -> None:
        place[part] = np.searchsorted(point, every[part])

    def add(part: slice) -> None:
        for column in range(part.start, part.stop):
            total[:, column] = np.bincount(place, flat[:, column], len(point))

    over_parts(find, len(every), 16 * PART)
    over_parts(add, len(TENSOR_PAIRS), 1)
    return Damping(point, total)
