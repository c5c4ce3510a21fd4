"""Hexahedral meshes of straight elements with 8 nodes (trilinear) and of curved ones with 27 nodes (triquadratic).

Shape functions give positions and Jacobians. Nodes are in Gmsh's order: the eight corners of `numbering.CORNERS`; then,
of 27, those at the centers of the edges `MIDDLE_EDGES`, of the faces `MIDDLE_FACES`, and of the element. Local
coordinates i, j, k run from -1 to 1.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from lithowave.backends.loops import exact_part, over_parts
from lithowave.errors import InputError
from lithowave.mesh.arrays import product
from lithowave.mesh.numbering import CORNERS, EDGES, FACES, morton_order, moved_faces, number_edges, number_faces

PART = 8192  # items that are processed at a time

# A displacement: (dx, dy, dz), m, of arrays x, y, z, m.
Displacement = Callable[[np.ndarray, np.ndarray, np.ndarray], Sequence[np.ndarray | float]]


@dataclass(frozen=True)
class HexahedralMesh:
    """Hexahedra with eight corners (trilinear) or 27 nodes (triquadratic, possibly curved).

    vertices : positions (n, 3), m; for 27-node elements, of all nodes.
    elements : vertices (m, 8) of each element in the order of VTK and Gmsh: the face of low local k counterclockwise
        seen from high k, then the face of high k (`numbering.CORNERS`).
    materials : index of each element's material (m,); in a layered box the index of its layer, from the top.
    boundaries : for each name the faces (f, 2) of this boundary: element, local face. Local faces are 0 and 1 at low
        and high i, 2 and 3 at low and high j, 4 and 5 at low and high k (`numbering.FACES`).
    vertex_ids, element_ids : of a subdomain, the global indices of its corners and elements; None if they are equal to
        the local ones. Corners precede the other vertices or have node IDs, and their global indices ascend, so that
        all subdomains order the points on an edge or face equally.
    divided_edges : (k, 3) both ends, then the vertex at the center, of each edge, or diagonal of a face, that has
        smaller elements on one side; None in a conforming mesh. Only `tetrahedral_boxes.split_hexahedra` uses them.
    """

    vertices: np.ndarray
    elements: np.ndarray
    materials: np.ndarray
    boundaries: dict[str, np.ndarray] = field(default_factory=dict)
    nodes: np.ndarray | None = None
    ids: np.ndarray | None = None
    groups: tuple[str, ...] = ()
    vertex_ids: np.ndarray | None = None
    element_ids: np.ndarray | None = None
    divided_edges: np.ndarray | None = None

    @property
    def element_count(self) -> int:
        """Number of elements."""
        return len(self.elements)

    @property
    def node_indices(self) -> np.ndarray:
        """Vertices (m, 8 or 27) of each element, including those between its corners."""
        return self.elements if self.nodes is None else self.nodes

    def element_nodes(self, part: slice | np.ndarray = slice(None)) -> np.ndarray:
        """Return the node positions (k, 8 or 27, 3), m, of all elements or of some."""
        return self.vertices[self.node_indices[part]]

    def element_id(self, element: int) -> int:
        """Return the ID of an element in the mesh file; its global index in a generated mesh."""
        return int(self.numbers_in_whole[element] if self.ids is None else self.ids[element])

    @property
    def numbers_in_whole(self) -> np.ndarray:
        """Global index (m,) of each element, before elements were reordered."""
        return np.arange(self.element_count) if self.element_ids is None else self.element_ids

    def part(self, chosen: np.ndarray) -> HexahedralMesh:
        """Return the mesh of some elements; chosen : their indices, in ascending order."""
        used, places = np.unique(self.node_indices[chosen], return_inverse=True)
        vertex_ids = used if self.vertex_ids is None else self.vertex_ids[used[used < len(self.vertex_ids)]]
        places = places.reshape(len(chosen), -1)
        place = np.full(self.element_count, -1, np.int64)
        place[chosen] = np.arange(len(chosen))
        return replace(
            self, vertices=self.vertices[used], elements=np.ascontiguousarray(places[:, :8]),
            boundaries=moved_faces(self.boundaries, place), materials=self.materials[chosen],
            nodes=None if self.nodes is None else places, ids=None if self.ids is None else self.ids[chosen],
            element_ids=self.numbers_in_whole[chosen], vertex_ids=vertex_ids,
        )  # fmt: skip

    def reordered(self, order: np.ndarray) -> HexahedralMesh:
        """Return the mesh with its elements reordered: element n of the result is element order[n] of this mesh."""
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        boundaries = moved_faces(self.boundaries, place, ordered=True)
        per_element = {name: getattr(self, name) for name in ("elements", "materials", "nodes", "ids")}
        moved = {name: None if values is None else values[order] for name, values in per_element.items()}
        return replace(self, boundaries=boundaries, element_ids=self.numbers_in_whole[order], **moved)

    def local(self) -> HexahedralMesh:
        """Return the mesh with its elements along a Morton curve."""
        return self.reordered(morton_order(self.vertices, self.elements))

    def positions(self, points: np.ndarray) -> np.ndarray:
        """Return positions [element, k, j, i, 3], m, at all combinations of local coordinates `points`, -1 to 1."""
        n = len(points)
        nodes = self.node_indices
        values = shape_tables(lattice(np.asarray(points, float)), nodes.shape[1])[0]
        found = np.tensordot(self.vertices[nodes], values, axes=(1, 1))
        return np.moveaxis(found.reshape(-1, 3, n, n, n), 1, -1)

    def corner_jacobians(self) -> np.ndarray:
        """Return the determinant (m, 8), m3, of d(x, y, z)/d(i, j, k), i, j, k from 0 to 1, at the corners.

        The elements are treated as trilinear: nodes between the corners are ignored.
        """
        return corner_jacobians(self.vertices, self.elements)


def corner_jacobians(vertices: np.ndarray, elements: np.ndarray) -> np.ndarray:
    """Return `HexahedralMesh.corner_jacobians` of vertices and elements."""
    found = np.empty(elements.shape)
    over_parts(lambda part: _corner_jacobians(elements[part], vertices, AROUND, found[part]), len(elements), PART)
    return found


# By corner, the low and the high end of the edges along i, j and k that meet there.
AROUND = np.array([
    [[np.flatnonzero((CORNERS == np.where(np.arange(3) == axis, end, corner)).all(axis=1))[0] for end in (0, 1)]
     for axis in range(3)]
    for corner in CORNERS
])  # fmt: skip


@exact_part
def _corner_jacobians(elements, vertices, around, found):  # pragma: no cover - compiled
    """Compute `corner_jacobians` of some elements. around : see `AROUND`."""
    edges = np.empty((3, 3))
    for element in range(len(elements)):
        for corner in range(8):
            for axis in range(3):
                low, high = elements[element, around[corner, axis, 0]], elements[element, around[corner, axis, 1]]
                for c in range(3):
                    edges[axis, c] = vertices[high, c] - vertices[low, c]
            a, b, c = edges
            found[element, corner] = (
                a[0] * (b[1] * c[2] - b[2] * c[1]) + a[1] * (b[2] * c[0] - b[0] * c[2])
                + a[2] * (b[0] * c[1] - b[1] * c[0])
            )  # fmt: skip


def check_jacobians(mesh: HexahedralMesh) -> None:
    """InputError: an element is inverted or flat at one of its corners; the worst one is named."""
    jacobians = mesh.corner_jacobians()
    worst = int(np.argmin(jacobians)) // jacobians.shape[1]
    least = float(jacobians[worst].min())
    if least > 0:
        return
    corners = ", ".join(f"({x:zg}, {y:zg}, {z:zg})" for x, y, z in mesh.vertices[mesh.elements[worst]].tolist())
    raise InputError(
        f"mesh: element {worst}",
        f"the Jacobian is {least:g} m3 at a corner; corners: {corners} m",
        "it must be positive everywhere",
        "Check for interfaces that touch, and for slopes too steep for elements of this height",
    )


@lru_cache
def _rotations(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the 24 rotations of the local axes of a cube, the first of which changes nothing: matrices (24, 3, 3) with
    a row for each new axis, and the former index of each of the 8 or 27 nodes, (24, count)."""
    places = NODE_STEPS[:count] - 1
    signed = [np.diag(signs) for signs in itertools.product((1, -1), repeat=3)]
    matrices = np.array([one[list(axes)] for axes in itertools.permutations(range(3)) for one in signed])
    proper = matrices[np.linalg.det(matrices) > 0]
    former = places @ proper  # place of each node in the former local coordinates
    return proper, (former[:, :, None] == places).all(axis=-1).argmax(axis=-1)


def along_axes(vertices: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """Return the nodes (m, 8 or 27) of elements after the rotation of their local axes that makes i, j and k as
    parallel as possible to x, y and z: the sum of the cosines is largest."""
    rotations, order = _rotations(nodes.shape[1])
    found = np.empty_like(nodes)

    def rotate(part: slice) -> None:
        corners = vertices[nodes[part, :8]]
        axes = np.stack([((2 * CORNERS[:, axis] - 1)[:, None] * corners).sum(axis=1) for axis in range(3)], axis=1)
        axes /= np.maximum(np.linalg.norm(axes, axis=2, keepdims=True), np.finfo(float).tiny)
        cosines = np.einsum("rda,mad->mr", rotations, axes)
        best = np.where(cosines > cosines.max(axis=1, keepdims=True) - 1e-9, 1, 0).argmax(axis=1)
        found[part] = np.take_along_axis(nodes[part], order[best], axis=1)

    over_parts(rotate, len(nodes), PART)
    return found


def curved(mesh: HexahedralMesh, displacement: Displacement) -> HexahedralMesh:
    """Return the mesh with 27 nodes per element, moved by a smooth displacement(x, y, z) -> (dx, dy, dz), m.

    Nodes are added at the centers of edges, faces and elements, once for all elements that share them, and then moved.
    The mapping of each element is the triquadratic interpolant of its trilinear mapping and the displacement.
    ValueError: the mesh already has 27 nodes per element.
    """
    if mesh.nodes is not None:
        raise ValueError("the elements of the mesh already have 27 nodes")
    count, corners = mesh.element_count, mesh.elements
    edges, edge_count = number_edges(corners)
    faces, face_count = number_faces(corners)
    edge_base = len(mesh.vertices)
    face_base = edge_base + edge_count
    center_base = face_base + face_count
    vertices = np.empty((center_base + count, 3))
    vertices[:edge_base] = mesh.vertices
    vertices[edge_base:face_base] = entity_centers(mesh, edges, EDGES, edge_count)
    vertices[face_base:center_base] = entity_centers(mesh, faces, FACES, face_count)
    vertices[center_base:] = entity_centers(mesh, np.arange(count)[:, None], np.arange(8)[None], count)
    for axis, change in enumerate(displacement(*vertices.T)):
        vertices[:, axis] += change
    nodes = np.empty((count, 27), np.int64)

    def join(part: slice) -> None:
        nodes[part, :8], nodes[part, 8:20] = corners[part], edge_base + edges[part][:, MIDDLE_EDGES]
        nodes[part, 20:26], nodes[part, 26] = face_base + faces[part][:, MIDDLE_FACES], center_base + np.arange(
            part.start, part.stop
        )

    over_parts(join, count, PART)
    return replace(mesh, vertices=vertices, nodes=nodes)


def entity_centers(mesh: HexahedralMesh, numbers: np.ndarray, table: np.ndarray, count: int) -> np.ndarray:
    """Return the means (count, 3), m, of the corners of edges, faces or elements.

    numbers : index of each of them in each element, (elements, sets). table : their local corners (sets, c). The last
    of the elements that share an edge or face determines the order of its corners.
    """
    last, found = np.empty(count, np.int64), np.empty((count, 3))
    last[numbers.T.reshape(-1)] = np.arange(numbers.size)

    def average(part: slice) -> None:
        local, element = np.divmod(last[part], len(numbers))
        found[part] = mean_position(mesh.vertices, mesh.elements[element[:, None], table[local]])

    over_parts(average, count, PART)
    return found


def mean_position(vertices: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """Return the means (m, 3), m, of the vertices in each row of `indices` (m, count)."""
    total = vertices[indices[:, 0]]
    for column in indices.T[1:]:
        total += vertices[column]
    return total / indices.shape[1]


# Corners of the edges that contain nodes 8 to 19.
EDGE_CORNERS = np.array(
    [[0, 1], [0, 3], [0, 4], [1, 2], [1, 5], [2, 3], [2, 6], [3, 7], [4, 5], [4, 7], [5, 6], [6, 7]], dtype=np.int64
)
# The edges (of `numbering.EDGES`) and faces (of `numbering.FACES`) of nodes 8 to 19 and 20 to 25.
MIDDLE_EDGES = np.array([np.flatnonzero((np.sort(EDGES, axis=1) == edge).all(axis=1))[0] for edge in EDGE_CORNERS])
MIDDLE_FACES = np.array([4, 2, 0, 1, 3, 5])

# Position of each of the 27 nodes in the lattice of 3 x 3 x 3, in steps (i, j, k) of 0, 1 or 2.
NODE_STEPS = np.concatenate(
    [2 * CORNERS, CORNERS[EDGE_CORNERS].sum(axis=1), CORNERS[FACES[MIDDLE_FACES]].sum(axis=1) // 2, [[1, 1, 1]]]
)


def line_values(coordinates: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return Lagrange polynomials of degree 1 (8 nodes) or 2 (27 nodes) and derivatives, each (..., degree + 1)."""
    x = np.asarray(coordinates, float)
    if count == 8:
        return np.stack([(1 - x) / 2, (1 + x) / 2], axis=-1), np.stack([x * 0 - 0.5, x * 0 + 0.5], axis=-1)
    values = np.stack([x * (x - 1) / 2, 1 - x * x, x * (x + 1) / 2], axis=-1)
    return values, np.stack([x - 0.5, -2 * x, x + 0.5], axis=-1)


def shape_tables(points: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return shape functions (p, count) of the nodes at local coordinates (p, 3), and their derivatives (3, p, count).

    ValueError: the number of nodes is neither 8 nor 27.
    """
    if count not in (8, 27):
        raise ValueError(f"elements have {count} nodes; allowed are 8 and 27")
    steps = CORNERS if count == 8 else NODE_STEPS
    values, slopes = line_values(points, count)
    factors = [[slopes if axis == along else values for axis in range(3)] for along in (0, 1, 2, None)]
    tables = [np.prod([f[axis][:, axis, steps[:, axis]] for axis in range(3)], axis=0) for f in factors]
    return tables[3], np.stack(tables[:3])


def lattice(points: np.ndarray) -> np.ndarray:
    """Return local coordinates (n^3, 3) of the points at all combinations of `points` (n), i fastest."""
    k, j, i = np.meshgrid(points, points, points, indexing="ij")
    return np.stack([i, j, k], axis=-1).reshape(-1, 3)


@lru_cache
def lattice_slopes(size: int, count: int) -> np.ndarray:
    """Return derivatives (3 size^3, count) of the shape functions at `size` equidistant points per axis, -1 to 1."""
    slopes = shape_tables(lattice(np.linspace(-1, 1, size)), count)[1]
    return np.ascontiguousarray(slopes.reshape(-1, count))


def jacobians(columns: np.ndarray, nodes: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """Return determinants (p, m), m3, of d(x, y, z)/d(i, j, k) with i, j, k from -1 to 1.

    columns : positions (3, n), m. nodes : indices (m, 8 or 27) of each element's nodes. slopes : derivatives (3 p,
    count) along i at all points, then along j, then along k. One matrix product is used for each of x, y and z: pass a
    few thousand elements at a time, which fit into the cache.
    """
    turned = nodes.T
    x, y, z = (product(slopes, columns[axis][turned]).reshape(3, -1, len(nodes)) for axis in range(3))
    found = x[0] * (y[1] * z[2] - y[2] * z[1])
    found += x[1] * (y[2] * z[0] - y[0] * z[2])
    found += x[2] * (y[0] * z[1] - y[1] * z[0])
    return found
