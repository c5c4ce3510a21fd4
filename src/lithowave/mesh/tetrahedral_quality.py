"""Quality measures of tetrahedral meshes: edges, inspheres, dihedral angles and volumes."""

from __future__ import annotations

from typing import Any

import numpy as np

from lithowave.backends.host_threads import over_parts
from lithowave.backends.loops import exact_part
from lithowave.mesh.tetrahedra import TetrahedralMesh

MEASURES = ("shortest_edge", "longest_edge", "radius_ratio", "dihedral_angle", "volume")
PART = 8192  # elements that a thread measures at a time


def described(mesh: TetrahedralMesh, element: int) -> dict[str, Any]:
    """Return the index, the ID in the file and the center (x, y, z), m, of an element."""
    center = mesh.vertices[mesh.elements[element]].mean(axis=0)
    return {"element": element, "id": mesh.element_id(element), "centre": center.tolist()}


def element_measures(mesh: TetrahedralMesh) -> dict[str, np.ndarray]:
    """Return the `MEASURES` (m,) of each element.

    shortest_edge, longest_edge : m.
    radius_ratio : radius of the sphere inside the element over the longest edge; 0.204 if regular, 0 without volume.
    dihedral_angle : smallest angle between two faces, degrees; 70.5 if regular.
    volume : m3.
    """
    found = np.empty((len(MEASURES), mesh.element_count))
    over_parts(lambda part: measure(part.start, part.stop, mesh.vertices, mesh.elements, found), found.shape[1], PART)
    measures = dict(zip(MEASURES, found, strict=True))
    measures["dihedral_angle"] = np.degrees(np.arccos(np.clip(measures["dihedral_angle"], -1, 1)))
    return measures


@exact_part
def measure(first, end, vertices, elements, found):  # pragma: no cover - compiled
    """Compute `MEASURES` (measures, elements) of some elements; of the angle its cosine."""
    tiny = 2.2250738585072014e-308
    edge, normal, area = np.empty((6, 3)), np.empty((4, 3)), np.empty(4)
    for element in range(first, end):
        for axis in range(3):
            start = vertices[elements[element, 0], axis]
            for one in range(3):
                edge[one, axis] = vertices[elements[element, one + 1], axis] - start
            edge[3, axis] = edge[1, axis] - edge[0, axis]
            edge[4, axis] = edge[2, axis] - edge[0, axis]
            edge[5, axis] = edge[2, axis] - edge[1, axis]
        shortest, longest = np.inf, 0.0
        for one in range(6):
            square = _dot(edge[one], edge[one])
            shortest, longest = min(shortest, square), max(longest, square)
        for axis in range(3):
            normal[0, axis] = _cross(edge[0], edge[1], axis)
            normal[1, axis] = _cross(edge[2], edge[0], axis)
            normal[2, axis] = _cross(edge[1], edge[2], axis)
            normal[3, axis] = -(normal[0, axis] + normal[1, axis] + normal[2, axis])
        surface = 0.0
        for face in range(4):
            area[face] = np.sqrt(_dot(normal[face], normal[face]))
            surface += area[face]
        volume = abs(_dot(normal[0], edge[2]))
        largest = -np.inf
        for face in range(4):
            for other in range(face + 1, 4):
                cosine = -_dot(normal[face], normal[other]) / max(area[face] * area[other], tiny)
                largest = max(largest, cosine)
        found[0, element], found[1, element] = np.sqrt(shortest), np.sqrt(longest)
        found[2, element] = volume / max(surface, tiny) / max(found[1, element], tiny)
        found[3, element], found[4, element] = largest, volume / 6


@exact_part
def _cross(a, b, axis):  # pragma: no cover - compiled
    return a[axis - 2] * b[axis - 1] - a[axis - 1] * b[axis - 2]


@exact_part
def _dot(a, b):  # pragma: no cover - compiled
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
