"""Checks and quality measures of hexahedral meshes.

A mesh must have no inverted elements, conforming faces, one connected component and no holes. The quality is measured
by edges, Jacobians, angles and distances of points.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lithowave.backends.loops import exact_part, multiply_add, over_parts
from lithowave.errors import InputError
from lithowave.mesh.checks import (
    UNMERGED,
    ExteriorSurface,
    check_connected,
    check_holes,
    check_materials,
    check_positions,
    check_unmerged,
    close_pairs,
    corners_text,
    counted,
    crowded_face,
    element_text,
    hanging_node,
)
from lithowave.mesh.hexahedra import (
    EDGE_CORNERS,
    MIDDLE_FACES,
    HexahedralMesh,
    jacobians,
    lattice,
    lattice_slopes,
    shape_tables,
)
from lithowave.mesh.numbering import CORNERS, EDGES, FACES, number_faces

PART = 1024  # elements whose Jacobians are computed at a time

# A vertex this close to the middle or a third of another face's edge, as a fraction of the edge, is a hanging node,
# unless its own edges are less than ten times as long as the distance.
HANGING = 1e-3


@dataclass(frozen=True)
class MeshFaces:
    """Faces of a mesh and the elements that share them.

    numbers : index (m, 6) of each local face. owners : number (count,) of elements with each face.
    first, last : 6 x element + local face (count,) of the first and the last element with each face.
    """

    numbers: np.ndarray
    owners: np.ndarray
    first: np.ndarray
    last: np.ndarray

    @classmethod
    def of(cls, elements: np.ndarray) -> MeshFaces:
        """Find the faces of elements (m, 8)."""
        numbers, count = number_faces(elements)
        flat, places = numbers.reshape(-1), np.arange(numbers.size)
        first, last = np.empty(count, np.int64), np.empty(count, np.int64)
        first[flat[::-1]] = places[::-1]  # for repeated indices, NumPy stores the last value
        last[flat] = places
        return cls(numbers, np.bincount(flat, minlength=count), first, last)

    @property
    def exterior(self) -> np.ndarray:
        """Return the exterior faces (f, 2), element and local face, in ascending order."""
        return np.stack(np.divmod(np.sort(self.first[self.owners == 1]), 6), axis=-1)

    @property
    def shared(self) -> tuple[np.ndarray, np.ndarray]:
        """Return 6 x element + local face on both sides of the faces that two elements share."""
        two = self.owners == 2
        return self.first[two], self.last[two]


def check_mesh(mesh: HexahedralMesh, where: str = "mesh") -> ExteriorSurface:
    """Check a mesh and return its exterior faces; raise an error if waves cannot be simulated in it.

    where : name of the mesh in the errors.

    InputError: no elements; a position that is not finite; a material without a group; an inverted, folded or flat
    element; a face of more than two elements; coincident vertices that are not merged; hanging nodes; curved faces that
    differ on their two sides; components that no face connects; holes.
    """
    check_positions(mesh, where, np.inf)
    check_materials(mesh, where)
    check_shapes(mesh, where)
    faces = MeshFaces.of(mesh.elements)
    check_owners(mesh, faces, where)
    surface = ExteriorSurface.of(mesh, faces.exterior)
    check_unmerged(mesh, surface, where)
    check_hanging(mesh, surface, where)
    check_curved_faces(mesh, faces, where)
    one, two = faces.shared
    check_connected(mesh, one // 6, two // 6, where)
    check_holes(mesh, surface, where)
    return surface


# Element shapes


def jacobian_range(mesh: HexahedralMesh) -> tuple[np.ndarray, np.ndarray]:
    """Return the smallest and largest Jacobian (m,), m3, of each element, for local coordinates from -1 to 1.

    They are sampled at 3 x 3 x 3 points, and, if the Jacobian varies so much that it may vanish between these, at
    6 x 6 x 6 points, which determine it.
    """
    low, high = np.empty(mesh.element_count), np.empty(mesh.element_count)
    columns, nodes = np.ascontiguousarray(mesh.vertices.T), mesh.node_indices

    def sample(elements: np.ndarray, size: int, part: int) -> None:
        slopes = lattice_slopes(size, nodes.shape[1])
        for start in range(0, len(elements), part):
            some = elements[start : start + part]
            found = jacobians(columns, nodes[some], slopes)
            low[some], high[some] = found.min(axis=0), found.max(axis=0)

    sample(np.arange(mesh.element_count), 3, PART)
    safe = 0.4 if nodes.shape[1] == 8 else 0.6
    sample(np.flatnonzero((low > 0) & (low < safe * high)), 6, PART // 4)
    return low, high


def check_shapes(mesh: HexahedralMesh, where: str) -> None:
    """InputError: an element is inverted, folded or flat (the worst is named), or all are left-handed."""
    low, high = jacobian_range(mesh)
    bad = np.flatnonzero(~(low > 0.0))
    if not bad.size:
        return
    if high.max() < 0:
        got = f"all {mesh.element_count} elements have a negative Jacobian: their corners are in clockwise order"
        hint = "Check whether z is positive downwards: change its sign, or swap corners 0 to 3 with corners 4 to 7"
        raise InputError(where, got, "corners are counterclockwise around the bottom, seen from the top", hint)
    worst = int(bad[np.argmin(low[bad])])
    got = counted(bad.size, "element is", "elements are") + " inverted, folded or flat; the worst is element "
    got += f"{mesh.element_id(worst)}, with Jacobian {low[worst]:.4g} m^3 and corners {corners_text(mesh, worst)} m"
    hint = "Order the corners counterclockwise around the bottom, seen from above, then around the top"
    raise InputError(where, got, "the Jacobian must be positive at every point of an element", hint)


# Faces


def check_owners(mesh: HexahedralMesh, faces: MeshFaces, where: str) -> None:
    """InputError: a face belongs to more than two elements, or the mesh contains an element twice."""
    crowded = np.flatnonzero(faces.owners > 2)
    if crowded.size:
        holders = np.argwhere(faces.numbers == crowded[0])
        raise crowded_face(mesh, crowded.size, holders, where, "Remove duplicate elements from the mesh")
    if not (faces.owners == 1).any():
        raise InputError(where, "it has no exterior faces", hint="Remove duplicate elements from the mesh")


# Nodes between consecutive corners of a local face.
FACE_EDGE_NODES = np.array(
    [
        [8 + EDGE_CORNERS.tolist().index(sorted(ends)) for ends in zip(corners, corners[1:] + corners[:1], strict=True)]
        for corners in FACES.tolist()
    ]
)
# Node at the center of each local face.
FACE_CENTER_NODES = 20 + np.argsort(MIDDLE_FACES)


def check_hanging(mesh: HexahedralMesh, surface: ExteriorSurface, where: str) -> None:
    """InputError: an exterior vertex is at the middle or a third of an exterior edge, or at the center of a face."""
    candidates, lengths, faces = splitting_points(mesh, surface)
    positions = mesh.vertices[surface.vertices]
    vertex, candidate = close_pairs(positions, candidates, HANGING * float(lengths.max()))
    limit = np.minimum(HANGING * lengths[candidate], 0.1 * surface.shortest[vertex])
    near = np.linalg.norm(positions[vertex] - candidates[candidate], axis=1) < limit
    near &= (surface.corners[faces[candidate]] != surface.vertices[vertex][:, None]).all(axis=1)
    if near.any():
        first = int(np.argmax(near))
        element = int(surface.faces[faces[candidate[first]], 0])
        hint = "Connect elements of different sizes by a transition with matching faces"
        raise hanging_node(mesh, positions[vertex[first]], element, where, hint)


def splitting_points(mesh: HexahedralMesh, surface: ExteriorSurface) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the points (p, 3), m, at which finer neighbors would have vertices, edge lengths, m, and surface faces."""
    _, chosen = np.unique(surface.edges, return_index=True)
    face, side = np.divmod(chosen, 4)
    start = mesh.vertices[surface.corners[face, side]]
    end = mesh.vertices[surface.corners[face, (side + 1) % 4]]
    if mesh.nodes is None:
        middle, center = (start + end) / 2, mesh.vertices[surface.corners].mean(axis=1)
    else:
        element, local = surface.faces.T
        middle = mesh.vertices[mesh.nodes[element[face], FACE_EDGE_NODES[local[face], side]]]
        center = mesh.vertices[mesh.nodes[element, FACE_CENTER_NODES[local]]]
    thirds = [(2 * a + 8 * middle - b) / 9 for a, b in ((start, end), (end, start))]
    lengths = np.linalg.norm(end - start, axis=1)
    corners = mesh.vertices[surface.corners]
    across = np.linalg.norm(corners[:, 2] - corners[:, 0], axis=1)
    return (
        np.concatenate([middle, *thirds, center]),
        np.concatenate([lengths, lengths, lengths, across]),
        np.concatenate([face, face, face, np.arange(len(surface.faces))]),
    )


def check_curved_faces(mesh: HexahedralMesh, faces: MeshFaces, where: str) -> None:
    """InputError: the nodes between the corners of a face differ on its two sides."""
    if mesh.nodes is None:
        return
    one, two = faces.shared
    local_nodes = np.column_stack([FACE_EDGE_NODES, FACE_CENTER_NODES])
    sums = np.zeros((mesh.element_count, 6, 3))
    indices = np.zeros((mesh.element_count, 6), np.int64)
    for column in local_nodes.T:
        indices += mesh.nodes[:, column]
        sums += mesh.vertices[mesh.nodes[:, column]]
    sums = sums.reshape(-1, 3)
    differ = np.flatnonzero(indices.reshape(-1)[one] != indices.reshape(-1)[two])
    one, two = one[differ], two[differ]
    diagonal = mesh.vertices[mesh.elements[one // 6, 6]] - mesh.vertices[mesh.elements[one // 6, 0]]
    gap = np.abs(sums[one] - sums[two]).max(axis=1, initial=0.0)
    apart = gap > UNMERGED * np.abs(diagonal).max(axis=1, initial=0.0)
    if apart.any():
        first = np.argmax(apart)
        got = counted(np.count_nonzero(apart), "curved face differs", "curved faces differ")
        got += " on the two sides; the first is between "
        got += f"{element_text(mesh, int(one[first]) // 6)} and element {mesh.element_id(int(two[first]) // 6)}"
        raise InputError(where, got, "elements that share a face must share all nine nodes of it")


MEASURED_PART = 4096  # elements that are measured at a time

# The 24 angles of the faces: at each corner between the three edges there, as pairs of indices of EDGES.
EDGES_AT = np.array([np.flatnonzero((EDGES == corner).any(axis=1)) for corner in range(8)])
ANGLES = np.concatenate([EDGES_AT[:, pair] for pair in ((0, 1), (0, 2), (1, 2))])


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
        over_parts(measure, mesh.element_count, MEASURED_PART)
    return found


@exact_part
def measure_elements(columns, nodes, edges, angles, slopes, steps, squares, jacobian):  # pragma: no cover - compiled
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
        least, most = np.inf, -np.inf
        for edge in range(len(edges)):
            lengths[edge] = along[0, edge] ** 2 + along[1, edge] ** 2 + along[2, edge] ** 2
            least, most = min(least, lengths[edge]), max(most, lengths[edge])
        squares[0, element], squares[1, element] = least, most
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
