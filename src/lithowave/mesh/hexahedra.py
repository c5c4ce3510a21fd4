"""Hexahedral meshes of straight and of curved elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from lithowave.backends.host_threads import over_parts
from lithowave.backends.loops import exact_part
from lithowave.errors import InputError
from lithowave.mesh.numbering import CORNERS, EDGES, FACES, morton_order, number_edges, number_faces
from lithowave.mesh.shapes import MIDDLE_EDGES, MIDDLE_FACES, lattice, shape_tables

PART = 8192  # items that are processed at a time
SIDES = ("x_min", "x_max", "y_min", "y_max", "z_min", "z_max")

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
        places = places.reshape(len(chosen), -1)
        place = np.full(self.element_count, -1, np.int64)
        place[chosen] = np.arange(len(chosen))
        kept = {name: faces[place[faces[:, 0]] >= 0] for name, faces in self.boundaries.items()}
        boundaries = {name: np.column_stack([place[faces[:, 0]], faces[:, 1]]) for name, faces in kept.items()}
        return replace(
            self, vertices=self.vertices[used], elements=np.ascontiguousarray(places[:, :8]), boundaries=boundaries,
            materials=self.materials[chosen], nodes=None if self.nodes is None else places,
            ids=None if self.ids is None else self.ids[chosen], element_ids=self.numbers_in_whole[chosen],
            vertex_ids=used if self.vertex_ids is None else self.vertex_ids[used],
        )  # fmt: skip

    def reordered(self, order: np.ndarray) -> HexahedralMesh:
        """Return the mesh with its elements reordered: element n of the result is element order[n] of this mesh."""
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        boundaries = {}
        for name, faces in self.boundaries.items():
            moved = np.column_stack([place[faces[:, 0]], faces[:, 1]])
            boundaries[name] = moved[np.lexsort((moved[:, 1], moved[:, 0]))]
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
