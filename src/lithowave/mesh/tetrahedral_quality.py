"""Quality measures of tetrahedral meshes: edges, inspheres, dihedral angles, volumes, and the worst elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from lithowave.backends.host_threads import over_parts
from lithowave.backends.loops import exact_part
from lithowave.mesh.tetrahedra import TetrahedralMesh

# Values of the regular tetrahedron, which maximizes the ratio of insphere radius to edge and the smallest angle.
REGULAR_RATIO = 1 / np.sqrt(24)
REGULAR_ANGLE = float(np.degrees(np.arccos(1 / 3)))

MEASURES = (
    "shortest_edge", "longest_edge", "insphere_radius", "radius_ratio", "dihedral_angle", "widest_angle", "volume"
)  # fmt: skip
PART = 8192  # elements that a thread measures at a time


def tetrahedral_quality(
    mesh: TetrahedralMesh, vp: np.ndarray | float | None = None, bins: int = 0
) -> dict[str, Any]:
    """Return measures of a tetrahedral mesh, as plain numbers, lists and dictionaries.

    vp : P-wave velocity, m/s, of all elements or of each (m,).
    bins : of the histograms of radius_ratio and dihedral_angle; 0 for none.

    The entries, over all elements:
    elements : their number.
    shortest_edge, longest_edge : m.
    insphere_radius : smallest radius of the sphere inside an element, m.
    radius_ratio : smallest ratio, within an element, of that radius to the longest edge; 0.204 if regular.
    dihedral_angle, widest_angle : smallest and largest angle between two faces, degrees; 70.5 if regular.
    smallest_volume, largest_volume : m3. volume : of all, m3.
    travel_time : smallest insphere diameter over vp, s (with vp).
    worst : for each of these but elements and volume the element with that value: element (index), id, center
        (x, y, z), m.
    worst_element : the element of lowest radius_ratio; as above, and measure, value.
    histograms : for radius_ratio and dihedral_angle edges (bins + 1), from 0 to the value of a regular tetrahedron,
        and counts (bins); with bins.
    """
    measures = element_measures(mesh)
    volume = measures.pop("volume")
    measures["smallest_volume"] = measures["largest_volume"] = volume
    if vp is not None:
        measures["travel_time"] = 2 * measures["insphere_radius"] / np.broadcast_to(vp, mesh.element_count)
    largest = {"longest_edge", "widest_angle", "largest_volume"}
    report: dict[str, Any] = {"elements": mesh.element_count, "volume": float(volume.sum())}
    worst = {}
    for name, values in measures.items():
        element = int(values.argmax() if name in largest else values.argmin())
        report[name] = float(values[element])
        worst[name] = described(mesh, element)
    report["worst"] = worst
    report["worst_element"] = {**worst["radius_ratio"], "measure": "radius_ratio", "value": report["radius_ratio"]}
    if bins:
        limits = {"radius_ratio": REGULAR_RATIO, "dihedral_angle": REGULAR_ANGLE}
        report["histograms"] = {name: histogram(measures[name], bins, limit) for name, limit in limits.items()}
    return report


def described(mesh: TetrahedralMesh, element: int) -> dict[str, Any]:
    """Return the index, the ID in the file and the center (x, y, z), m, of an element."""
    center = mesh.vertices[mesh.elements[element]].mean(axis=0)
    return {"element": element, "id": mesh.element_id(element), "centre": center.tolist()}


def histogram(values: np.ndarray, bins: int, limit: float) -> dict[str, list]:
    """Return counts of values between 0 and a limit in equal bins; values outside are counted in the outermost bins."""
    counts, edges = np.histogram(np.clip(values, 0, limit), bins, (0, limit))
    return {"edges": edges.tolist(), "counts": counts.tolist()}


def element_measures(mesh: TetrahedralMesh) -> dict[str, np.ndarray]:
    """Return the `MEASURES` (m,) of each element, as in `tetrahedral_quality`, and its volume.

    An element without volume has radius_ratio 0.
    """
    found = np.empty((len(MEASURES), mesh.element_count))
    over_parts(lambda part: measure(part.start, part.stop, mesh.vertices, mesh.elements, found), found.shape[1], PART)
    measures = dict(zip(MEASURES, found, strict=True))
    for name in ("dihedral_angle", "widest_angle"):
        measures[name] = angle(measures[name])
    return measures


@exact_part
def measure(first, end, vertices, elements, found):  # pragma: no cover - compiled
    """Compute `MEASURES` (measures, elements) of some elements; of an angle its cosine."""
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
        smallest, largest = np.inf, -np.inf
        for face in range(4):
            for other in range(face + 1, 4):
                cosine = -_dot(normal[face], normal[other]) / max(area[face] * area[other], tiny)
                smallest, largest = min(smallest, cosine), max(largest, cosine)
        radius = volume / max(surface, tiny)
        found[0, element], found[1, element] = np.sqrt(shortest), np.sqrt(longest)
        found[2, element], found[3, element] = radius, radius / max(found[1, element], tiny)
        found[4, element], found[5, element], found[6, element] = largest, smallest, volume / 6


@exact_part
def _cross(a, b, axis):  # pragma: no cover - compiled
    return a[axis - 2] * b[axis - 1] - a[axis - 1] * b[axis - 2]


@exact_part
def _dot(a, b):  # pragma: no cover - compiled
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def angle(cosines: np.ndarray) -> np.ndarray:
    """Return angles, degrees."""
    return np.degrees(np.arccos(np.clip(cosines, -1, 1)))
