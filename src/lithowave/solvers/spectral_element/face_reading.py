r"""Velocities in fluids near faces where the normal velocity is known: sea floors and rigid faces.

The velocity in a fluid is the gradient of a potential of degree N over rho. Of a smooth potential, whose values at GLL
points are accurate, the error of the slope along an axis of an element is the derivative of a polynomial that vanishes
at the GLL points, which is proportional to the Legendre polynomial P_N: it is largest at faces. Below a sea floor of
hard rock the normal velocity is small, and this error is up to a quarter of it. But it is known on the face, where it
equals that of the solid, or zero. The velocity is therefore

.. math:: v + \frac{P_N(\xi)}{P_N(\xi_f)}\,\frac{\rho_f}{\rho}\,\frac{\nabla\xi}{|\nabla\xi|_f}\, n \cdot (v_s - v_f),

with xi the reference coordinate across the face, the velocities v_s of the solid and v_f of the fluid at the nearest
point of the face, and the normal n there. If both faces across an axis are such faces, P_N is replaced by (P_N +
P_{N+1}) / 2, which vanishes at the opposite face.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lithowave.solvers.elements.point_location import PointLocations
from lithowave.solvers.spectral_element.faces import face_places
from lithowave.solvers.spectral_element.gll import legendre
from lithowave.solvers.spectral_element.point_location import inverse_jacobians


@dataclass(frozen=True)
class FaceReadings:
    """Readings on the faces next to m locations in fluids; a location has several if its element has several faces.

    row : (m,) index of the location. places : points on the faces, in the fluid elements. solid : (m, n, n, n) indices
    of the points of the solids on the faces, as points of the fluid elements; `none` elsewhere, and on rigid faces.
    normal, change : (m, 3) n, and the factor of n . (v_s - v_f) in the velocity.
    """

    row: np.ndarray
    places: PointLocations
    solid: np.ndarray
    normal: np.ndarray
    change: np.ndarray

    @classmethod
    def find(cls, plan: Any, locations: PointLocations) -> FaceReadings:
        """Return the readings for locations in elements of this rank."""
        faces, solid = known_faces(plan)
        order = np.argsort(faces[:, 0], kind="stable")
        faces, solid = faces[order], solid[order]
        first, end = (np.searchsorted(faces[:, 0], locations.element, side) for side in ("left", "right"))
        row = np.repeat(np.arange(len(first)), end - first)
        face = np.arange(row.size) - np.repeat(np.cumsum(end - first) - end, end - first)
        axis, side = np.divmod(faces[face, 1], 2)
        places, m = locations.rows(row), np.arange(row.size)
        xi = (2 * side - 1) * places.reference[m, axis]  # 1 on the face
        opposite = {(element, local ^ 1) for element, local in faces.tolist()}
        both = np.array([pair in opposite for pair in map(tuple, faces[face].tolist())], bool)
        here = inverse_jacobians(plan.mesh, places)[m, axis]
        places.reference[m, axis] = 2 * side - 1
        there = inverse_jacobians(plan.mesh, places)[m, axis]
        size = np.linalg.norm(there, axis=1, keepdims=True)
        shape = legendre(plan.degree, xi)[0]
        shape = np.where(both, 0.5 * (shape + legendre(plan.degree + 1, xi)[0]), shape)
        return cls(row, places, solid[face], there / size, shape[:, None] * here / size)


def known_faces(plan: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the fluid elements of this rank and local faces (f, 2) where the normal velocity is known, and the points
    of the solids on them (f, n, n, n), see `FaceReadings`."""
    interface, none, n = plan.interface, plan.total_points, plan.degree + 1
    rigid = plan.faces["rigid"]
    rigid = rigid[plan.materials.is_fluid[rigid[:, 0]]]
    faces = np.concatenate([interface.faces, rigid])
    solid, complete = np.full((len(faces), n, n, n), none), np.ones(len(faces), bool)
    count = len(interface.faces)
    for local in range(6):
        some = np.flatnonzero(faces[:count, 1] == local)
        if some.size:
            k, j, i = face_places(local, plan.degree)[0].T
            fluid = plan.numbers[faces[some, 0]][:, k, j, i]
            place = np.minimum(np.searchsorted(interface.fluid, fluid), len(interface.fluid) - 1)
            solid[some[:, None], k, j, i] = interface.solid[place]
            complete[some] = (interface.fluid[place] == fluid).all(axis=1)
    return faces[complete], solid[complete]
