"""Quality measures of hexahedral meshes: edges, Jacobians, angles and distances of points."""

from __future__ import annotations

from typing import Any

import numpy as np

from lithowave.backends.host_threads import over_parts
from lithowave.backends.loops import exact_part, multiply_add
from lithowave.mesh.hexahedra import HexahedralMesh
from lithowave.mesh.numbering import CORNERS, EDGES
from lithowave.mesh.shapes import lattice, shape_tables

PART = 4096  # elements that are measured at a time

# The 24 angles of the faces: at each corner between the three edges there, as pairs of indices of EDGES.
EDGES_AT = np.array([np.flatnonzero((EDGES == corner).any(axis=1)) for corner in range(8)])
ANGLES = np.concatenate([EDGES_AT[:, pair] for pair in ((0, 1), (0, 2), (1, 2))])


def described(mesh: HexahedralMesh, element: int) -> dict[str, Any]:
    """Return the index, the ID in the file and the center (x, y, z), m, of an element."""
    center = mesh.vertices[mesh.elements[element]].mean(axis=0)
    return {"element": element, "id": mesh.element_id(element), "centre": center.tolist()}


def element_measures(mesh: HexahedralMesh, degree: int) -> dict[str, np.ndarray]:
    """Return the measures (m,) of each element, for elements of a polynomial degree.

    shortest_edge, longest_edge : straight distance of neighboring corners, m. edge_ratio : longest to shortest edge.
    jacobian : smallest determinant of d(x, y, z)/d(i, j, k), m3, i, j, k from -1 to 1, at the nodes and the center.
    jacobian_ratio : of the lowest to the highest Jacobian there; 1 for a box.
    skewness : largest, over the angles a of straight-edged faces, of |a - 90| / 90 degrees; 0 for right angles.
    point_distance : smallest distance of neighboring Gauss-Lobatto-Legendre points, m.

    ValueError: the degree is below 1.
    """
    names = ("shortest_edge", "longest_edge", "edge_ratio", "jacobian", "jacobian_ratio", "skewness", "point_distance")
    found = {name: np.empty(mesh.element_count) for name in names}
    count = mesh.node_indices.shape[1]
    slopes = shape_tables(lattice(np.linspace(-1, 1, 3)), count)[1]
    if count == 8:
        slopes = slopes[:, [*np.ravel_multi_index(2 * CORNERS.T[::-1], (3, 3, 3)), 13]]
    slopes = np.ascontiguousarray(slopes.reshape(-1, count))
    steps = point_steps(degree, count)
    tables = EDGES, np.stack(ANGLES.T), slopes.T.copy(), steps.T.copy()
    columns = np.ascontiguousarray(mesh.vertices.T)

    def measure(part: slice) -> None:
        nodes = mesh.node_indices[part]
        squares, jacobian = np.empty((4, len(nodes))), np.empty((2, len(nodes)))
        measure_elements(columns, nodes, *tables, squares, jacobian)
        shortest, longest, cosine, step = np.sqrt(squares)
        found["shortest_edge"][part], found["longest_edge"][part] = shortest, longest
        found["edge_ratio"][part] = longest / shortest
        found["jacobian"][part], found["jacobian_ratio"][part] = jacobian[0], jacobian[0] / jacobian[1]
        found["skewness"][part] = np.arcsin(np.minimum(cosine, 1)) / (np.pi / 2)
        found["point_distance"][part] = step

    with np.errstate(divide="ignore", invalid="ignore"):
        over_parts(measure, mesh.element_count, PART)
    return found


@exact_part
def measure_elements(
    columns, nodes, edges, angles, slopes, steps, squares, jacobian
):  # pragma: no cover - compiled
    """Compute for each element of nodes (m, count) the squares of the shortest and the longest straight edge, of the
    largest |cosine| of the angles, that of the face angle that differs most from 90 degrees, and of the shortest step,
    squares (4, m), m2 and 1; and the smallest and the largest Jacobian, jacobian (2, m), m3.

    columns : positions (3, n), m. edges : corners (12, 2). angles : edges (2, 24) of each angle. slopes : derivatives
    (count, 3 p) along i at all points, then along j, then along k. steps : weights (count, steps); see `point_steps`.
    """
    points = slopes.shape[1] // 3
    along, lengths = np.empty((3, len(edges))), np.empty(len(edges))
    gradient, vectors = np.empty((3, slopes.shape[1])), np.empty((3, steps.shape[1]))
    for element in range(len(nodes)):
        for c in range(3):
            gradient[c], vectors[c] = 0.0, 0.0
            for edge in range(len(edges)):
                low, high = nodes[element, edges[edge, 0]], nodes[element, edges[edge, 1]]
                along[c, edge] = columns[c, high] - columns[c, low]
            for node in range(nodes.shape[1]):
                position = columns[c, nodes[element, node]]
                for row in range(slopes.shape[1]):
                    gradient[c, row] = multiply_add(slopes[node, row], position, gradient[c, row])
                for row in range(steps.shape[1]):
                    vectors[c, row] = multiply_add(steps[node, row], position, vectors[c, row])
        for edge in range(len(edges)):
            lengths[edge] = along[0, edge] ** 2 + along[1, edge] ** 2 + along[2, edge] ** 2
        largest = 0.0
        for angle in range(angles.shape[1]):
            first, second = angles[0, angle], angles[1, angle]
            product = along[0, first] * along[0, second] + along[1, first] * along[1, second]
            product += along[2, first] * along[2, second]
            cosine = product**2 / (lengths[first] * lengths[second])
            if not cosine <= largest:  # NaN, of an edge without length, remains
                largest = cosine
        least, most = np.inf, -np.inf
        for i in range(points):
            j, k = i + points, i + 2 * points
            x, y, z = gradient
            value = x[i] * (y[j] * z[k] - y[k] * z[j])
            value += x[j] * (y[k] * z[i] - y[i] * z[k])
            value += x[k] * (y[i] * z[j] - y[j] * z[i])
            least, most = min(least, value), max(most, value)
        shortest = np.inf
        for row in range(steps.shape[1]):
            shortest = min(shortest, vectors[0, row] ** 2 + vectors[1, row] ** 2 + vectors[2, row] ** 2)
        squares[0, element], squares[1, element] = lengths.min(), lengths.max()
        squares[2, element], squares[3, element] = largest, shortest
        jacobian[0, element], jacobian[1, element] = least, most


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
