"""Quality measures of hexahedral meshes: edges, Jacobians, angles, distances of points, and the worst elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from lithowave.backends.host_threads import over_parts
from lithowave.mesh.hexahedra import HexahedralMesh
from lithowave.mesh.numbering import CORNERS, EDGES
from lithowave.mesh.products import product
from lithowave.mesh.shapes import jacobians, lattice, shape_tables

PART = 32_768  # nodes of the elements that are measured at a time: their arrays stay in the cache

# The 24 angles of the faces: at each corner between the three edges there, as pairs of indices of EDGES.
EDGES_AT = np.array([np.flatnonzero((EDGES == corner).any(axis=1)) for corner in range(8)])
ANGLES = np.concatenate([EDGES_AT[:, pair] for pair in ((0, 1), (0, 2), (1, 2))])


def quality_report(
    mesh: HexahedralMesh, degree: int, vp: np.ndarray | float | None = None, bins: int = 0
) -> dict[str, Any]:
    """Return measures of a mesh for elements of a polynomial degree, as plain numbers, lists and dictionaries.

    degree : of the elements, for the distances of neighboring Gauss-Lobatto-Legendre points.
    vp : P-wave velocity, m/s, of all elements or of each (m,).
    bins : of the histograms of jacobian_ratio and skewness; 0 for none.

    The entries, over all elements:
    elements : their number. nodes_per_element : 8 or 27.
    shortest_edge, longest_edge : straight distance of neighboring corners, m.
    edge_ratio : largest ratio of longest to shortest edge in one element.
    jacobian : smallest determinant of d(x, y, z)/d(i, j, k), m3, i, j, k from -1 to 1, at the nodes and the center.
    jacobian_ratio : smallest ratio, within an element, of its lowest to its highest Jacobian there; 1 for a box.
    skewness : largest, over the angles a of straight-edged faces, of |a - 90| / 90 degrees; 0 for right angles.
    point_distance : smallest distance of neighboring points, m. travel_time : smallest distance over vp, s (with vp).
    worst : for each of these but the first two, the element with that value: element (index), id, center (x, y, z), m.
    worst_element : the element of lowest min(jacobian_ratio, 1 - skewness); as above, and measure, value.
    histograms : for jacobian_ratio and skewness edges (bins + 1) and counts (bins); with bins.

    ValueError: the degree is below 1.
    """
    measures = element_measures(mesh, degree)
    if vp is not None:
        measures["travel_time"] = measures["point_distance"] / np.broadcast_to(vp, mesh.element_count)
    largest = {"longest_edge", "edge_ratio", "skewness"}
    report: dict[str, Any] = {"elements": mesh.element_count, "nodes_per_element": mesh.node_indices.shape[1]}
    worst = {}
    for name, values in measures.items():
        element = int(values.argmax() if name in largest else values.argmin())
        report[name] = float(values[element])
        worst[name] = described(mesh, element)
    report["worst"] = worst
    goodness = np.minimum(measures["jacobian_ratio"], 1 - measures["skewness"])
    element = int(goodness.argmin())
    by_jacobian = measures["jacobian_ratio"][element] <= 1 - measures["skewness"][element]
    measure = "jacobian_ratio" if by_jacobian else "skewness"
    value = float(measures[measure][element])
    report["worst_element"] = {**described(mesh, element), "measure": measure, "value": value}
    if bins:
        report["histograms"] = {name: histogram(measures[name], bins) for name in ("jacobian_ratio", "skewness")}
    return report


def described(mesh: HexahedralMesh, element: int) -> dict[str, Any]:
    """Return the index, the ID in the file and the center (x, y, z), m, of an element."""
    center = mesh.vertices[mesh.elements[element]].mean(axis=0)
    return {"element": element, "id": mesh.element_id(element), "centre": center.tolist()}


def histogram(values: np.ndarray, bins: int) -> dict[str, list]:
    """Return counts of values between 0 and 1 in equal bins; values outside are counted in the outermost bins."""
    counts, edges = np.histogram(np.clip(values, 0, 1), bins, (0, 1))
    return {"edges": edges.tolist(), "counts": counts.tolist()}


def element_measures(mesh: HexahedralMesh, degree: int) -> dict[str, np.ndarray]:
    """Return the measures (m,) of each element by their names in `quality_report`."""
    names = ("shortest_edge", "longest_edge", "edge_ratio", "jacobian", "jacobian_ratio", "skewness", "point_distance")
    found = {name: np.empty(mesh.element_count) for name in names}
    count = mesh.node_indices.shape[1]
    slopes = shape_tables(lattice(np.linspace(-1, 1, 3)), count)[1]
    if count == 8:
        slopes = slopes[:, [*np.ravel_multi_index(2 * CORNERS.T[::-1], (3, 3, 3)), 13]]
    slopes = np.ascontiguousarray(slopes.reshape(-1, count))
    steps = point_steps(degree, count)
    columns = np.ascontiguousarray(mesh.vertices.T)

    def measure(part: slice) -> None:
        nodes = mesh.node_indices[part]
        squares, cosine = edges_and_angles(columns, nodes)
        shortest, longest = np.sqrt(squares.min(axis=0)), np.sqrt(squares.max(axis=0))
        jacobian = jacobians(columns, nodes, slopes)
        found["shortest_edge"][part], found["longest_edge"][part] = shortest, longest
        found["edge_ratio"][part] = longest / shortest
        found["jacobian"][part] = jacobian.min(axis=0)
        found["jacobian_ratio"][part] = jacobian.min(axis=0) / jacobian.max(axis=0)
        found["skewness"][part] = np.arcsin(np.minimum(cosine, 1)) / (np.pi / 2)
        found["point_distance"][part] = shortest_steps(columns, nodes, steps)

    with np.errstate(divide="ignore", invalid="ignore"):
        over_parts(measure, mesh.element_count, PART // count)
    return found


def edges_and_angles(columns: np.ndarray, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return squared lengths (12, m), m2, of the straight edges, and the largest |cosine| (m,) of the face angles.

    This is the angle that differs most from 90 degrees.
    """
    low, high = nodes[:, EDGES[:, 0]].T, nodes[:, EDGES[:, 1]].T
    along = [column[high] - column[low] for column in columns]
    squares = along[0] ** 2 + along[1] ** 2 + along[2] ** 2
    first, second = ANGLES.T
    products = sum(component[first] * component[second] for component in along)
    return squares, np.sqrt((products**2 / (squares[first] * squares[second])).max(axis=0))


def gll_points(degree: int) -> np.ndarray:
    """Return the Gauss-Lobatto-Legendre points: -1, 1 and the zeros of the Legendre polynomial's derivative."""
    if degree < 1:
        raise ValueError(f"degree: {degree}; a GLL element has degree 1 or higher")
    inner = np.polynomial.legendre.Legendre.basis(degree).deriv().roots()
    return np.concatenate([[-1.0], np.sort(inner.real), [1.0]])


def point_steps(degree: int, count: int) -> np.ndarray:
    """Return weights (steps, count) of the nodes in the vectors from points to their neighbors along i, j and k.

    In trilinear elements only the first step of each line is used: the others are not shorter.
    """
    n = degree + 1
    values = shape_tables(lattice(gll_points(degree)), count)[0].reshape(n, n, n, count)
    steps = [np.diff(values, axis=axis) for axis in range(3)]
    if count == 8:
        steps = [step.take([0], axis=axis) for axis, step in enumerate(steps)]
    return np.concatenate([step.reshape(-1, count) for step in steps])


def shortest_steps(columns: np.ndarray, nodes: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Return the smallest distance (m,), m, of neighboring points in each element."""
    turned = nodes.T
    squares = sum(product(steps, column[turned]) ** 2 for column in columns)
    return np.sqrt(squares.min(axis=0))
