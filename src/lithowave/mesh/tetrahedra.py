"""Tetrahedral meshes: vertices, elements, elements that share faces, and the faces of each boundary."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from lithowave.backends.loops import exact_part, over_parts
from lithowave.errors import InputError
from lithowave.mesh.box_planes import Exterior
from lithowave.mesh.numbering import count_first_touches, identify_sets, match_pairs, moved_faces, order_along_curve

# Local vertices of the four faces; face f is opposite to vertex 3 - f.
TETRAHEDRON_FACES = np.array([[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]], dtype=np.int64)

# Local ends of the six edges.
EDGES = np.array([[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]], dtype=np.int64)

# Vectors from vertex 0 whose product is the normal of each of the three faces there, all inward or all outward.
FIRST, SECOND = (0, 2, 1), (1, 0, 2)

PART = 8192  # elements per batch, whose data stay in the cache
BLOCK = 256  # contiguous elements with a common bounding box
PACKED = 2**21  # three vertex indices below this fit into 63 bits


@dataclass(frozen=True)
class TetrahedralMesh:
    """Tetrahedra with straight edges.

    vertices : positions (n, 3), m.
    elements : vertices (m, 4) of each element, in ascending order: two elements that share a face see its vertices in
        one order. Elements may thus be right- or left-handed.
    materials : index of each element's material (m,): of its group, or of its layer from the top.
    boundaries : for each name the faces (f, 2) of this boundary: element, local face (`TETRAHEDRON_FACES`). Together
        they are all faces of only one element.
    ids : IDs of the elements in the mesh file (m,).
    groups : names of the materials.
    vertex_keys, element_keys : global indices (n,), (m,) of vertices and elements, equal in all subdomains; those of
        the vertices ascend. None: the local indices.
    same : (n,) the vertex of which each vertex is a periodic image, itself for most; None if the mesh is not periodic.
        Vertices are then sorted, and faces shared, by `same[elements]`.
    """

    vertices: np.ndarray
    elements: np.ndarray
    materials: np.ndarray
    boundaries: dict[str, np.ndarray] = field(default_factory=dict)
    ids: np.ndarray | None = None
    groups: tuple[str, ...] = ()
    same: np.ndarray | None = None
    vertex_keys: np.ndarray | None = None
    element_keys: np.ndarray | None = None

    @property
    def element_count(self) -> int:
        """Number of elements."""
        return len(self.elements)

    @cached_property
    def neighbors(self) -> np.ndarray:
        """(m, 4) for each local face 4 x neighbor + the neighbor's local face; -1 at the exterior."""
        return face_neighbors(self.elements, self.same)

    @cached_property
    def block_bounds(self) -> np.ndarray:
        """Lower and upper ends (blocks, 2, 3), m, of the box around each `BLOCK` contiguous elements."""
        found = np.empty((-(-self.element_count // BLOCK), 2, 3))
        over_parts(
            lambda part: bound_blocks(part.start, part.stop, self.vertices, self.elements, found),
            len(found),
            max(1, PART // BLOCK),
        )
        return found

    def with_neighbors(self, neighbors: np.ndarray) -> TetrahedralMesh:
        """Return the mesh with these neighbors; those on other ranks have indices from m on."""
        mesh = replace(self)
        vars(mesh)["neighbors"] = neighbors
        return mesh

    def element_vertices(self, part: slice | np.ndarray = slice(None)) -> np.ndarray:
        """Return positions (k, 4, 3), m, of the vertices of all elements, or of some."""
        return self.vertices[self.elements[part]]

    def element_id(self, element: int) -> int:
        """Return the ID of an element in the mesh file; its key in a generated mesh."""
        return int(self.keys_of_elements[element] if self.ids is None else self.ids[element])

    @property
    def keys_of_elements(self) -> np.ndarray:
        """`element_keys`, or the local indices."""
        return np.arange(self.element_count) if self.element_keys is None else self.element_keys

    @property
    def keys_of_vertices(self) -> np.ndarray:
        """`vertex_keys`, or the local indices."""
        return np.arange(len(self.vertices)) if self.vertex_keys is None else self.vertex_keys

    def volumes(self) -> np.ndarray:
        """Return the volume (m,), m3, of each element."""
        return np.abs(signed_volumes(self.vertices, self.elements))

    def insphere_radii(self) -> np.ndarray:
        """Return the radius (m,), m, of the insphere of each element: 3 volume / surface."""
        return np.abs(signed_insphere_radii(self.vertices, self.elements))

    def reordered(self, order: np.ndarray) -> TetrahedralMesh:
        """Return the mesh with its elements reordered: element n of the result is element order[n] of this mesh."""
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        mesh = replace(
            self, elements=taken(self.elements, order), materials=taken(self.materials, order),
            boundaries=moved_faces(self.boundaries, place, ordered=True),
            ids=None if self.ids is None else self.ids[order],
            element_keys=None if self.element_keys is None else taken(self.element_keys, order),
        )  # fmt: skip
        known = vars(self).get("neighbors")
        if known is None or known.max(initial=-1) >= 4 * len(order):
            return mesh
        neighbors = np.empty((len(order), 4), np.int64)
        over_parts(
            lambda part: rename_neighbors(part.start, part.stop, order, place, known, neighbors), len(order), PART
        )
        return mesh.with_neighbors(neighbors)

    def part(self, elements: np.ndarray) -> TetrahedralMesh:
        """Return some elements, their vertices and boundaries, with the global keys. The mesh must not be periodic."""
        used = np.zeros(len(self.vertices), bool)
        used[self.elements[elements]] = True
        place = np.full(self.element_count, -1)
        place[elements] = np.arange(len(elements))
        return TetrahedralMesh(
            self.vertices[used], (np.cumsum(used) - 1)[self.elements[elements]], self.materials[elements],
            moved_faces(self.boundaries, place), None if self.ids is None else self.ids[elements], self.groups,
            vertex_keys=self.keys_of_vertices[used], element_keys=self.keys_of_elements[elements],
        )  # fmt: skip

    def along_curve(self) -> TetrahedralMesh:
        """Return the mesh with its elements along a Morton curve, and unchanged vertices."""
        keyed = replace(self, element_keys=self.keys_of_elements).with_neighbors(self.neighbors)
        return keyed.reordered(morton_order(self.vertices, self.elements))

    def local(self) -> TetrahedralMesh:
        """Return the mesh with its elements along a Morton curve, and vertices in the order of their first element."""
        mesh = self.reordered(morton_order(self.vertices, self.elements))
        names = np.full(len(self.vertices), -1, np.int64)
        count = count_first_touches(mesh.elements.ravel(), names, 0)
        unused = np.flatnonzero(names < 0)
        names[unused] = np.arange(count, len(names))
        return mesh.renamed(names)

    def renamed(self, names: np.ndarray) -> TetrahedralMesh:
        """Return the mesh with permuted vertices: vertex n becomes vertex names[n], and rows are sorted again."""
        vertices = np.empty_like(self.vertices)
        vertices[names] = self.vertices
        same = None
        if self.same is not None:
            same = np.empty_like(self.same)
            same[names] = names[self.same]
        elements = rising(names[self.elements], same)
        boundaries = {}
        for name, faces in self.boundaries.items():
            opposite = names[self.elements[faces[:, 0], 3 - faces[:, 1]]]
            place = (elements[faces[:, 0]] == opposite[:, None]).argmax(axis=1)
            moved = np.column_stack([faces[:, 0], 3 - place])
            boundaries[name] = moved[np.argsort(4 * moved[:, 0] + moved[:, 1])]
        return replace(
            self, vertices=vertices, elements=elements, boundaries=boundaries, same=same, vertex_keys=None
        )  # fmt: skip


def make_mesh(
    vertices: np.ndarray,
    elements: np.ndarray,
    materials: np.ndarray | None = None,
    boundaries: Mapping[str, np.ndarray] | None = None,
    ids: np.ndarray | None = None,
    groups: tuple[str, ...] = (),
    same: np.ndarray | None = None,
    keys: tuple[np.ndarray, np.ndarray] | None = None,
    whole: bool = True,
    neighbors: np.ndarray | None = None,
) -> TetrahedralMesh:
    """Return a mesh of elements whose vertices may be in any order.

    vertices, elements, materials, ids, groups, same : as in `TetrahedralMesh`; default material: 0.
    keys : those of vertices and elements.
    whole : False for a subdomain, whose exterior faces may be in no boundary.
    neighbors : see `TetrahedralMesh.neighbors`, for elements with their vertices in ascending order; None: found here.
    boundaries : for each name the vertices (f, 3) of its faces, in any order. None: exterior faces in the plane of the
        bounding box at x_min, x_max, y_min, y_max or z_min get that name, and all others z_max.

    InputError: an element with a repeated vertex; a face of three elements; a boundary face that is not exterior or is
    in two boundaries; exterior faces in no boundary.
    """
    vertices = np.ascontiguousarray(vertices, dtype=float)
    elements = rising(np.asarray(elements, np.int64), same)
    materials = np.zeros(len(elements), np.int64) if materials is None else np.asarray(materials)
    mesh = TetrahedralMesh(vertices, elements, materials, {}, ids, tuple(groups), same, *(keys or (None, None)))
    if neighbors is not None:
        mesh = mesh.with_neighbors(neighbors)
    refuse_double_vertices(mesh)
    exterior = exterior_triangles(mesh.neighbors)
    if boundaries is None:
        mesh.boundaries.update(plane_boundaries(mesh, exterior))
    else:
        mesh.boundaries.update(matched_boundaries(mesh, exterior, boundaries, whole))
    return mesh


def rising(elements: np.ndarray, same: np.ndarray | None = None) -> np.ndarray:
    """Return rows (m, 4) of vertices in ascending order, by their indices or by those of which they are images."""
    if same is None:
        found = np.empty_like(elements)

        def sort(part: slice) -> None:
            found[part] = np.sort(elements[part], axis=1)

        over_parts(sort, len(elements), PART)
        return found
    return np.take_along_axis(elements, np.argsort(same[elements], axis=1), axis=1)


def refuse_double_vertices(mesh: TetrahedralMesh) -> None:
    """InputError: an element has a repeated vertex."""
    rows = mesh.elements if mesh.same is None else mesh.same[mesh.elements]
    parts = over_parts(
        lambda part: part.start + np.flatnonzero((rows[part, 1:] == rows[part, :-1]).any(axis=1)), len(rows), PART
    )
    double = np.concatenate([np.zeros(0, np.int64), *parts])
    if len(double):
        element = int(double[0])
        raise InputError(
            f"mesh: element {mesh.element_id(element)}",
            f"its vertices are {rows[element].tolist()}",
            "the four vertices of a tetrahedron must differ",
        )


def face_neighbors(elements: np.ndarray, same: np.ndarray | None = None) -> np.ndarray:
    """Return (m, 4) for each local face 4 x neighbor + the neighbor's local face; -1 for faces of one element.

    elements : vertices (m, 4), ascending in each row. same : as in `TetrahedralMesh`.

    InputError: more than two elements share a face.
    """
    rows = elements if same is None else same[elements]
    numbers, count = identify_sets(rows, TETRAHEDRON_FACES)
    found = np.full(len(numbers), -1, np.int64)
    third = match_pairs(numbers, np.full(count, -1, np.int64), found)
    if third >= 0:
        faces = np.flatnonzero(numbers == numbers[third])[:3]
        raise InputError(
            f"mesh: elements {', '.join(str(face // 4) for face in faces)}",
            f"all have the face with vertices {rows[faces[0] // 4][TETRAHEDRON_FACES[faces[0] % 4]].tolist()}",
            "at most two elements may share a face",
        )
    return found.reshape(-1, 4)


def triple_keys(triples: np.ndarray) -> np.ndarray:
    """Return one number (f,) for each ascending row of three vertices (f, 3), equal for equal rows only."""
    factor = int(triples.max(initial=0)) + 1
    if factor <= PACKED:
        pairs = triples[:, 0] * factor + triples[:, 1]
    else:
        pairs = ranks(triples[:, 0] * factor + triples[:, 1])
    return pairs * factor + triples[:, 2]


def ranks(keys: np.ndarray) -> np.ndarray:
    """Return, for each key, the number of distinct keys that are smaller."""
    order = np.argsort(keys)
    ordered = keys[order]
    found = np.empty(len(keys), np.int64)
    found[order] = np.cumsum(np.concatenate([[False], ordered[1:] != ordered[:-1]])[: len(keys)])
    return found


def exterior_triangles(neighbors: np.ndarray) -> np.ndarray:
    """Return the faces (f, 2), element and local face, of only one element, in element order."""
    flat = np.flatnonzero(neighbors.ravel() < 0)
    return np.column_stack([flat // 4, flat % 4])


def face_vertices(mesh: TetrahedralMesh, faces: np.ndarray) -> np.ndarray:
    """Return the vertices (f, 3) of faces (f, 2)."""
    return mesh.elements[faces[:, :1], TETRAHEDRON_FACES[faces[:, 1]]]


def plane_boundaries(mesh: TetrahedralMesh, exterior: np.ndarray) -> dict[str, np.ndarray]:
    """Return the exterior faces (f, 2) by the plane of the bounding box that contains them; z_max has all others."""
    outer = Exterior(mesh.vertices[face_vertices(mesh, exterior)], np.zeros((0, 3)))
    return {name: exterior[some] for name, some in outer.by_plane.items()}


def matched_boundaries(
    mesh: TetrahedralMesh, exterior: np.ndarray, triples: Mapping[str, np.ndarray], whole: bool = True
) -> dict[str, np.ndarray]:
    """Return the exterior faces (f, 2) of boundaries given by the vertices (f, 3) of their faces; see `make_mesh`."""
    names = list(triples)
    sizes = [len(triples[name]) for name in names]
    drawn = np.concatenate([np.zeros((0, 3), np.int64), *(np.reshape(triples[name], (-1, 3)) for name in names)])
    keys = triple_keys(np.sort(np.concatenate([face_vertices(mesh, exterior), drawn]), axis=1))
    known, wanted = keys[: len(exterior)], keys[len(exterior) :]
    order = np.argsort(known)
    spot = np.minimum(np.searchsorted(known, wanted, sorter=order), max(0, len(known) - 1))
    face = order[spot] if len(known) else np.zeros(len(wanted), np.int64)
    stray = known[face] != wanted if len(known) else np.ones(len(wanted), bool)
    boundary = np.repeat(np.arange(len(names)), sizes)
    if stray.any():
        worst = int(np.argmax(stray))
        got = f"the boundary '{names[boundary[worst]]}' has the face with vertices {drawn[worst].tolist()}"
        raise InputError("mesh", f"{got} {around(mesh, drawn[worst])}", "boundaries must consist of exterior faces")
    of_face = np.full(len(exterior), -1, np.int64)
    of_face[face] = boundary
    clash = np.flatnonzero(of_face[face] != boundary)
    if len(clash):
        got = f"the boundaries '{names[boundary[clash[0]]]}' and '{names[of_face[face[clash[0]]]]}' both have a face"
        raise InputError("mesh", f"{got} {around(mesh, drawn[clash[0]])}", "a face may belong to one boundary only")
    bare = np.flatnonzero(of_face < 0)
    if len(bare) and whole:
        got = f"{len(bare)} of {len(exterior)} exterior faces are in no boundary; the first is "
        got += around(mesh, face_vertices(mesh, exterior[bare[:1]])[0])
        raise InputError("mesh", got, "boundaries must cover the entire exterior")
    return {name: exterior[of_face == number] for number, name in enumerate(names)}


def around(mesh: TetrahedralMesh, vertices: np.ndarray) -> str:
    """Format the mean position of some vertices."""
    x, y, z = mesh.vertices[vertices].mean(axis=0)
    return f"around ({x:zg}, {y:zg}, {z:zg}) m"


def centers(vertices: np.ndarray, elements: np.ndarray) -> np.ndarray:
    """Return the mean position (m, 3), m, of the vertices of each element (m, 4)."""
    found = np.empty((len(elements), 3))
    over_parts(lambda part: average_positions(part.start, part.stop, vertices, elements, found), len(elements), PART)
    return found


def morton_order(vertices: np.ndarray, elements: np.ndarray) -> np.ndarray:
    """Return the elements in the order of their centers along a Morton (Z) curve: neighbors are close in memory."""
    return order_along_curve(centers(vertices, elements), PART)


def taken(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return values[rows], which threads copy."""
    found = np.empty((len(rows), *values.shape[1:]), values.dtype)
    over_parts(lambda part: np.take(values, rows[part], axis=0, out=found[part], mode="clip"), len(rows), PART)
    return found


@exact_part
def rename_neighbors(first, end, order, place, known, found):  # pragma: no cover - compiled
    """Compute the neighbors of some reordered elements from those before, `known`; place : of each element now."""
    for element in range(first, end):
        for face in range(4):
            across = known[order[element], face]
            found[element, face] = 4 * place[across // 4] + across % 4 if across >= 0 else -1


def over_edges(function: Callable[[slice, np.ndarray], None], vertices: np.ndarray, elements: np.ndarray) -> None:
    """Call a function, in threads, with batches of elements and the vectors [vertex - 1, axis, element], m, from vertex
    0 to 1, 2 and 3."""
    columns = np.ascontiguousarray(vertices.T)

    def call(part: slice) -> None:
        corners = np.stack([columns[:, column] for column in elements[part].T])
        function(part, corners[1:] - corners[0])

    over_parts(call, len(elements), PART)


def signed_volumes(vertices: np.ndarray, elements: np.ndarray) -> np.ndarray:
    """Return the volume (m,), m3, of each element (m, 4), negative if it is left-handed."""
    return _measured(measure_volumes, vertices, elements)


def signed_insphere_radii(vertices: np.ndarray, elements: np.ndarray) -> np.ndarray:
    """Return the insphere radius (m,), m, of each element (m, 4), negative if it is left-handed."""
    return _measured(measure_radii, vertices, elements)


def longest_edges(vertices: np.ndarray, elements: np.ndarray) -> np.ndarray:
    """Return the length (m,), m, of the longest edge of each element (m, 4)."""
    return np.sqrt(_measured(measure_edges, vertices, elements))


def _measured(loop: Callable[..., None], vertices: np.ndarray, elements: np.ndarray) -> np.ndarray:
    """Return what a compiled loop computes for each element, in threads."""
    elements, found = np.ascontiguousarray(elements, np.int64), np.empty(len(elements))
    over_parts(lambda part: loop(part.start, part.stop, vertices, elements, found), len(elements), PART)
    return found


@exact_part
def measure_volumes(first, end, vertices, elements, found):  # pragma: no cover - compiled
    """Compute the signed volumes of some elements."""
    edges = np.empty((3, 3))
    for element in range(first, end):
        _edges(vertices, elements[element], edges)
        a, b, c = edges
        volume = (a[1] * b[2] - a[2] * b[1]) * c[0] + (a[2] * b[0] - a[0] * b[2]) * c[1]
        found[element] = (volume + (a[0] * b[1] - a[1] * b[0]) * c[2]) / 6


@exact_part
def measure_radii(first, end, vertices, elements, found):  # pragma: no cover - compiled
    """Compute the signed insphere radii of some elements."""
    edges, normals = np.empty((3, 3)), np.empty((4, 3))
    for element in range(first, end):
        _edges(vertices, elements[element], edges)
        for face in range(3):
            a, b = edges[FIRST[face]], edges[SECOND[face]]
            for axis in range(3):
                normals[face, axis] = a[axis - 2] * b[axis - 1] - a[axis - 1] * b[axis - 2]
        surface = 0.0
        for axis in range(3):
            normals[3, axis] = -(normals[0, axis] + normals[1, axis] + normals[2, axis])
        for face in range(4):
            x, y, z = normals[face]
            surface += np.sqrt(x * x + y * y + z * z)
        volume = normals[0, 0] * edges[2, 0] + normals[0, 1] * edges[2, 1] + normals[0, 2] * edges[2, 2]
        found[element] = volume / max(surface, 2.2250738585072014e-308)


@exact_part
def measure_edges(first, end, vertices, elements, found):  # pragma: no cover - compiled
    """Compute the squares of the longest edges of some elements."""
    for element in range(first, end):
        longest = 0.0
        for low in range(3):
            for high in range(low + 1, 4):
                square = 0.0
                for axis in range(3):
                    square += (vertices[elements[element, high], axis] - vertices[elements[element, low], axis]) ** 2
                longest = max(longest, square)
        found[element] = longest


@exact_part
def average_positions(first, end, vertices, elements, found):  # pragma: no cover - compiled
    """Compute the centers found (m, 3) of some elements."""
    for element in range(first, end):
        for axis in range(3):
            total = 0.0
            for corner in range(4):
                total += vertices[elements[element, corner], axis]
            found[element, axis] = total / 4


@exact_part
def _edges(vertices, corners, edges):  # pragma: no cover - compiled
    """Compute the vectors [vertex - 1, axis] from vertex 0 to the others."""
    for axis in range(3):
        start = vertices[corners[0], axis]
        for one in range(3):
            edges[one, axis] = vertices[corners[one + 1], axis] - start


def cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the cross products [axis, ...] of vectors [axis, ...]."""
    return np.stack([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])


def dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the scalar products of vectors [axis, ...]."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@exact_part
def bound_blocks(first, end, vertices, elements, found):  # pragma: no cover - compiled
    """Compute `TetrahedralMesh.block_bounds` of the blocks from first to end."""
    for block in range(first, end):
        rows = elements[block * BLOCK : (block + 1) * BLOCK]
        for axis in range(3):
            low = high = vertices[rows[0, 0], axis]
            for row in range(len(rows)):
                for corner in range(4):
                    position = vertices[rows[row, corner], axis]
                    low, high = min(low, position), max(high, position)
            found[block, 0, axis], found[block, 1, axis] = low, high
