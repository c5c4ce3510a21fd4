"""The sides of the bounding box of a mesh, and the exterior faces in their planes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

SIDES = ("x_min", "x_max", "y_min", "y_max", "z_min", "z_max")

IN_PLANE = 1e-6
"""Points this close to a plane of the bounding box, as a fraction of its longest side, are in the plane."""


@dataclass(frozen=True, eq=False)
class Exterior:
    """Exterior faces of a mesh: positions (f, corners, 3) of their corners, and centers (f, 3) of their elements."""

    corners: np.ndarray
    centers: np.ndarray

    @cached_property
    def planes(self) -> np.ndarray:
        """Index (f,) in `SIDES` of the plane of the bounding box that contains a face; z_max for all others."""
        sides = np.full(len(self.corners), SIDES.index("z_max"))
        if not len(sides):
            return sides
        low, high = self.corners.min(axis=(0, 1)), self.corners.max(axis=(0, 1))
        tolerance = IN_PLANE * (high - low).max()
        # Backwards, so that x_min prevails for a face in two planes.
        for number in reversed(range(len(SIDES) - 1)):
            axis, plane = number // 2, (low, high)[number % 2][number // 2]
            sides[(np.abs(self.corners[:, :, axis] - plane) <= tolerance).all(axis=1)] = number
        return sides

    @cached_property
    def upward(self) -> np.ndarray:
        """True (f,) for faces whose outward normal points upwards."""
        normals = np.cross(self.corners[:, 1] - self.corners[:, 0], self.corners[:, 2] - self.corners[:, 0])
        outward = np.einsum("ij,ij->i", normals, self.corners.mean(axis=1) - self.centers)
        return normals[:, 2] * outward > 0.0

    @property
    def by_plane(self) -> dict[str, np.ndarray]:
        """Indices of the faces of each plane that has any."""
        faces = {name: np.flatnonzero(self.planes == number) for number, name in enumerate(SIDES)}
        return {name: some for name, some in faces.items() if len(some)}
