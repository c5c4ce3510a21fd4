"""Quality measures of tetrahedral meshes: edges, inspheres, dihedral angles, volumes, and the worst elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from lithowave.mesh.tetrahedra import TetrahedralMesh, dot, face_normals, over_edges

# Values of the regular tetrahedron, which maximizes the ratio of insphere radius to edge and the smallest angle.
REGULAR_RATIO = 1 / np.sqrt(24)
REGULAR_ANGLE = float(np.degrees(np.arccos(1 / 3)))

PAIRS = ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))  # of faces


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
    """Return the measures (m,) of each element by their names in `tetrahedral_quality`, and `volume`.

    An element without volume has radius_ratio 0.
    """
    names = ("shortest_edge", "longest_edge", "insphere_radius", "radius_ratio", "dihedral_angle", "widest_angle")
    found = {name: np.empty(mesh.element_count) for name in (*names, "volume")}
    tiny = np.finfo(float).tiny

    def compute(part: slice, edges: np.ndarray) -> None:
        a, b, c = edges
        squares = np.stack([dot(edge, edge) for edge in (a, b, c, b - a, c - a, c - b)])
        normals = face_normals(edges)
        areas = np.sqrt(np.stack([dot(normal, normal) for normal in normals]))
        volume = np.abs(dot(normals[0], c))
        longest = np.sqrt(squares.max(axis=0))
        radius = volume / np.maximum(areas.sum(axis=0), tiny)
        cosines = np.stack([
            -dot(normals[one], normals[other]) / np.maximum(areas[one] * areas[other], tiny) for one, other in PAIRS
        ])
        found["shortest_edge"][part], found["longest_edge"][part] = np.sqrt(squares.min(axis=0)), longest
        found["insphere_radius"][part] = radius
        found["radius_ratio"][part] = radius / np.maximum(longest, tiny)
        found["dihedral_angle"][part] = angle(cosines.max(axis=0))
        found["widest_angle"][part] = angle(cosines.min(axis=0))
        found["volume"][part] = volume / 6

    over_edges(compute, mesh.vertices, mesh.elements)
    return found


def angle(cosines: np.ndarray) -> np.ndarray:
    """Return angles, degrees."""
    return np.degrees(np.arccos(np.clip(cosines, -1, 1)))
