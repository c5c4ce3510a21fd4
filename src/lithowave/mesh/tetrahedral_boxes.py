"""Generated tetrahedral meshes of boxes: conforming subdivisions of hexahedra, or deformed.

They are refined by bisection at given edges, in one order for all elements, so that neighbors conform.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from lithowave.backends.loops import exact_part, over_parts
from lithowave.errors import InputError
from lithowave.mesh.hexahedra import Displacement, HexahedralMesh, mean_position
from lithowave.mesh.hexahedral_box import layered_box
from lithowave.mesh.numbering import CORNERS, number_faces
from lithowave.mesh.numbering import EDGES as HEXAHEDRON_EDGES
from lithowave.mesh.numbering import FACES as HEXAHEDRON_FACES
from lithowave.mesh.shared import hash_pair
from lithowave.mesh.tetrahedra import (
    EDGES,
    PART,
    TetrahedralMesh,
    face_neighbors,
    face_vertices,
    longest_edges,
    make_mesh,
    signed_insphere_radii,
    signed_volumes,
)
from lithowave.parallel.ranks import SINGLE_RANK, Ranks

CUTS = ("twelve", "five", "six")
MIDDLES = 1 << 40  # keys of the vertices at the centers of hexahedra
FLAT = 1e-9  # smallest volume of an element, as a fraction of its longest edge cubed


def oriented_faces() -> np.ndarray:
    """Return the local corners (6, 4) of the faces of a hexahedron, with its center on the right-handed side."""
    found = HEXAHEDRON_FACES.copy()
    for face in found:
        a, b, c = CORNERS[face[:3]]
        if np.dot(np.cross(b - a, c - a), 0.5 - a) < 0:
            face[:] = face[::-1].copy()
    return found


def opposite_faces() -> np.ndarray:
    """Return the local corners [corner, face, 4] of the three faces of a hexahedron that do not contain the corner.

    They are ordered such that the corner and the first three of a face form a right-handed tetrahedron.
    """
    outside = oriented_faces()[:, ::-1]
    return np.array([outside[~(outside == corner).any(axis=1)] for corner in range(8)])


OPPOSITE_FACES = opposite_faces()
SEEN_FROM_INSIDE = oriented_faces()  # right-handed with the center
FAR_CORNER = np.array([6, 7, 4, 5, 2, 3, 0, 1])  # at the other end of the diagonal through the hexahedron


def split_hexahedra(mesh: HexahedralMesh, cut: str = CUTS[0], own: np.ndarray | None = None) -> TetrahedralMesh:
    """Split every hexahedron into tetrahedra such that neighbors share faces.

    cut : one of these; the values hold for cubes of edge h.
    twelve : a vertex at the center. Four tetrahedra around each line between two adjacent centers, so that half of each
        belongs to either hexahedron, or two on each side of the face: at exterior faces, between two materials, and
        where their smallest insphere is larger, as at an inclined face. In a box all of the former are congruent (the
        lattice of body-centered cubes).
    five : a regular tetrahedron between four cut-off corners; mirrored from one hexahedron to the next [1].
    six : the same for all hexahedra, along their diagonals from high z to low z (Kuhn).

              longest edge  insphere radius  radius/longest edge  radius/volume^(1/3)  elements/longest edge^3
    twelve    1.000 h       0.1768 h         0.177                0.405                12
    its sides 1.414 h       0.1602 h         0.113                0.367
    five      1.414 h       0.2113 h         0.149                0.361                14.1
    six       1.732 h       0.2071 h         0.120                0.376                31.2

    The smallest insphere radius determines the time step, the edges and the volume the accuracy: twelve is best for
    equal longest edges and for equal numbers of elements.

    Each quadrilateral is split from its corner of lowest rank, in the same way on both sides. For five, vertices are
    colored with two colors such that neighboring corners differ, and one color has lower ranks. Otherwise the rank is
    the index of the vertex; in a box it increases along x, along y and downwards.

    Vertices, materials and names of boundaries are preserved; nodes between the corners are omitted. Keys of vertices
    and elements are derived from the global indices of the hexahedra.

    Tetrahedra at `divided_edges` of the mesh are bisected there, which makes it conforming; only for 'twelve'. Where
    four cubes of edge h meet one of edge 2 h, the smallest insphere radius is that of the sides of the former,
    0.1602 h, and on the side of the latter 0.207 h.

    own : for a subdomain, the mask (m,) of its hexahedra. The others are neighbors of these, so that the result is the
        same as in the global mesh: each hexahedron has two of the tetrahedra around a line. Only for 'twelve'.

    InputError: an element has no volume or is inverted. ValueError: an unknown cut, or 'five' if edges form a cycle of
    odd length.

    [1] Dompierre, Labbe, Vallet, Camarero (1999): How to subdivide pyramids, prisms and hexahedra into tetrahedra.
    """
    special = own is not None or mesh.divided_edges is not None
    if cut not in CUTS or (special and cut != "twelve"):
        raise ValueError(f"cut: {cut!r}; allowed: {', '.join(CUTS)}, for a subdomain or a graded box 'twelve'")
    vertices, vertex_keys, corners, rank, divided = _ranked_vertices(mesh, cut)
    boundaries = _boundary_triangles(mesh, corners, rank, divided, own)
    elements, owners, keys = _keyed_elements(mesh, cut, vertices, corners, rank, divided)
    if own is not None:
        kept = own[owners]
        elements, owners, keys = elements[kept], owners[kept], keys[kept]
        used = np.zeros(len(vertices), bool)
        used[elements] = True
        names = np.cumsum(used) - 1
        vertices, vertex_keys, elements = vertices[used], vertex_keys[used], names[elements]
        boundaries = {name: names[triangles] for name, triangles in boundaries.items()}
    require_positive_volumes(vertices, elements, ids=keys)
    named = boundaries if boundaries or own is not None else None
    return make_mesh(
        vertices, elements, mesh.materials[owners], named, groups=mesh.groups, keys=(vertex_keys, keys),
        whole=own is None,
    )  # fmt: skip


def _ranked_vertices(
    mesh: HexahedralMesh, cut: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, DividedEdges | None]:
    """Return the vertices of the tetrahedra with their keys, the corners (m, 8) of the hexahedra, the ranks of the
    vertices except centers, and the edges to bisect."""
    vertices, corners, vertex_keys = mesh.vertices, mesh.elements, np.arange(len(mesh.vertices))
    if mesh.vertex_ids is not None:
        vertex_keys[: len(mesh.vertex_ids)] = mesh.vertex_ids
    if mesh.nodes is not None:
        used = np.zeros(len(vertices), bool)
        used[corners] = True
        vertices, corners, vertex_keys = vertices[used], (np.cumsum(used) - 1)[corners], vertex_keys[used]
    rank = np.arange(len(vertices))
    if cut == "five":
        rank += len(vertices) * two_colors(corners, len(vertices))
    if cut == "twelve":
        vertices = np.concatenate([vertices, mean_position(vertices, corners)])
        vertex_keys = np.concatenate([vertex_keys, MIDDLES + mesh.numbers_in_whole])
    divided = None if mesh.divided_edges is None else DividedEdges(mesh.divided_edges, vertices)
    if divided is not None:  # Diagonals then end at the corners of the larger faces.
        rank[divided.middles] += len(rank)
    return vertices, vertex_keys, corners, rank, divided


def _boundary_triangles(
    mesh: HexahedralMesh, corners: np.ndarray, rank: np.ndarray, divided: DividedEdges | None, own: np.ndarray | None
) -> dict[str, np.ndarray]:
    """Return the triangles (n, 3) of each boundary, of the hexahedra of the mask `own` only."""
    boundaries = {}
    for name, faces in mesh.boundaries.items():
        if own is not None:
            faces = faces[own[faces[:, 0]]]
        quadrilaterals = corners[faces[:, :1], HEXAHEDRON_FACES[faces[:, 1]]]
        triangles = cut_quadrilaterals(quadrilaterals, rank).reshape(-1, 3)
        boundaries[name] = triangles if divided is None else divided.cut(triangles)[0]
    return boundaries


def _keyed_elements(
    mesh: HexahedralMesh, cut: str, vertices: np.ndarray, corners: np.ndarray, rank: np.ndarray,
    divided: DividedEdges | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """Return the tetrahedra (n, 4), the hexahedron (n,) of each, and their keys (n,)."""
    cubes = mesh.numbers_in_whole
    if cut == "twelve":
        elements, owners, number = centered_elements(vertices, corners, mesh.materials, cubes, rank)
    else:
        elements, owners = cornered_elements(corners, rank)
        number = np.arange(len(owners)) - np.searchsorted(owners, owners)
    keys = 12 * cubes[owners] + number
    if divided is not None:
        elements, parents = divided.cut(elements)
        owners, keys = owners[parents], 8 * keys[parents] + np.arange(len(parents)) - np.searchsorted(parents, parents)
    return elements, owners, keys


class DividedEdges:
    """Bisection of simplices at edges, or diagonals of faces, that have a vertex at their center.

    edges : (k, 3) both ends and this vertex. vertices : (n, 3), m. Diagonals of rectangles in a map are bisected before
    their sides, so that the four smaller faces on the other side have the same triangles.
    """

    def __init__(self, edges: np.ndarray, vertices: np.ndarray) -> None:
        ends = np.sort(edges[:, :2], axis=1)
        first = np.unique(ends @ [len(vertices), 1], return_index=True)[1]
        flat = vertices * [1.0, 1.0, 0.0]
        self.middles = edges[first, 2]
        self.bisection = Bisection(ends[first], flat, flat[self.middles])

    def cut(self, simplices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the child elements (p, 3 or 4) of triangles or tetrahedra, and their parents (p,), ascending."""
        children, parents = self.bisection.cut(simplices)
        new = children >= self.bisection.old
        children[new] = self.middles[children[new] - self.bisection.old]
        return children, parents


def centered_elements(
    vertices: np.ndarray, corners: np.ndarray, materials: np.ndarray, cubes: np.ndarray, rank: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the right-handed tetrahedra (n, 4) of the cut 'twelve', the hexahedron (n,) of each, and its index (n,), 0
    to 11, among those of this hexahedron.

    corners, materials : of the hexahedra (m, 8), (m,); the last m vertices are their centers. cubes : indices (m,) of
    the hexahedra, in ascending order. rank : of the other vertices.
    """
    numbers = number_faces(corners)[0].ravel()
    order = np.argsort(numbers)
    first = np.flatnonzero(numbers[order[1:]] == numbers[order[:-1]])
    pairs = np.sort(np.column_stack([order[first], order[first + 1]]), axis=1)
    pairs = pairs[materials[pairs[:, 0] // 6] == materials[pairs[:, 1] // 6]]
    middles = len(vertices) - len(corners)

    around = corners[pairs[:, :1] // 6, SEEN_FROM_INSIDE[pairs[:, 0] % 6]]
    between = np.empty((len(pairs), 4, 4), np.int64)
    between[:, :, 0], between[:, :, 1] = around, np.roll(around, -1, axis=1)
    between[:, :, 2:] = middles + pairs[:, None, ::-1] // 6
    beside = pyramids(corners, np.arange(6 * len(corners)), rank)
    smallest = signed_insphere_radii(vertices, beside.reshape(-1, 4)).reshape(-1, 2).min(axis=1)
    joined = signed_insphere_radii(vertices, between.reshape(-1, 4)).reshape(-1, 4).min(axis=1)
    pairs_joined = joined >= smallest[pairs].min(axis=1)
    alone = np.ones(len(beside), bool)
    alone[pairs[pairs_joined]] = False
    elements = [between[pairs_joined].reshape(-1, 4), beside[alone].reshape(-1, 4)]
    # The lower hexahedron has the first two of the four tetrahedra around a line, the other one the rest.
    sides = np.concatenate([np.repeat(pairs[pairs_joined], 2, axis=1).ravel(), np.repeat(np.flatnonzero(alone), 2)])
    first = np.arange(len(sides)) % 2
    return np.concatenate(elements), sides // 6, 2 * (sides % 6) + first


def pyramids(corners: np.ndarray, faces: np.ndarray, rank: np.ndarray) -> np.ndarray:
    """Return two right-handed tetrahedra (f, 2, 4) from each face, 6 x hexahedron + local face, to the center.

    rank : of the vertices; those after them are the centers.
    """
    found = np.empty((len(faces), 2, 4), np.int64)
    found[:, :, :3] = cut_quadrilaterals(corners[faces[:, None] // 6, SEEN_FROM_INSIDE[faces % 6]], rank)
    found[:, :, 3] = len(rank) + faces[:, None] // 6
    return found


def cornered_elements(corners: np.ndarray, rank: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the right-handed tetrahedra (n, 4) of the cuts 'five' and 'six', and the hexahedron (n,) of each.

    The corner of lowest rank is connected to the two triangles of each of the three faces that do not contain it. If
    none of their diagonals ends at the far corner, that corner is cut off instead, which gives five tetrahedra.
    """
    lowest = rank[corners].argmin(axis=1)
    apex = np.take_along_axis(corners, lowest[:, None], axis=1)
    far = np.take_along_axis(corners, FAR_CORNER[lowest][:, None], axis=1)
    faces = np.take_along_axis(corners, OPPOSITE_FACES[lowest].reshape(-1, 12), axis=1).reshape(-1, 3, 4)
    triangles = cut_quadrilaterals(faces.reshape(-1, 4), rank).reshape(-1, 6, 3)
    with_far = (triangles == far[:, :, None]).any(axis=2)
    five = with_far.sum(axis=1) == 3
    tetrahedra = np.empty((len(corners), 6, 4), np.int64)
    tetrahedra[:, :, 0] = apex
    tetrahedra[:, :, 1:] = triangles
    # The triangles at the far corner form a cone; its base is the face of the corner that is cut off.
    cone = triangles[five][with_far[five]].reshape(-1, 3, 3)
    tops = far[five]
    after = np.take_along_axis(cone, ((cone == tops[:, :, None]).argmax(axis=2)[:, :, None] + [1, 2]) % 3, axis=2)
    third = after[:, 1:, 1]
    third = np.where((third[:, :1] != after[:, 0, :1]) & (third[:, :1] != after[:, 0, 1:]), third[:, :1], third[:, 1:])
    base = np.concatenate([after[:, 0], third], axis=1)
    kept = tetrahedra[five][~with_far[five]].reshape(-1, 3, 4)
    middle = np.concatenate([apex[five], base], axis=1)[:, None]
    corner = np.concatenate([tops, base[:, ::-1]], axis=1)[:, None]
    counts = np.where(five, 5, 6)
    starts = np.cumsum(counts) - counts
    found = np.empty((int(counts.sum()), 4), np.int64)
    found[starts[~five][:, None] + np.arange(6)] = tetrahedra[~five]
    found[starts[five][:, None] + np.arange(5)] = np.concatenate([kept, middle, corner], axis=1)
    return found, np.repeat(np.arange(len(corners)), counts)


def cut_quadrilaterals(quadrilaterals: np.ndarray, rank: np.ndarray) -> np.ndarray:
    """Return two triangles (n, 2, 3) of each quadrilateral (n, 4), from its corner of lowest rank, oriented alike."""
    start = rank[quadrilaterals].argmin(axis=1)
    turned = np.take_along_axis(quadrilaterals, (start[:, None] + np.arange(4)) % 4, axis=1)
    return turned[:, [[0, 1, 2], [0, 2, 3]]]


def two_colors(corners: np.ndarray, count: int) -> np.ndarray:
    """Return a color, 0 or 1, of each of `count` vertices, different at both ends of every edge of hexahedra (m, 8).

    Colors spread from one vertex of each component. ValueError: edges form a cycle of odd length.
    """
    ends = corners[:, HEXAHEDRON_EDGES].reshape(-1, 2)
    keys = np.unique(np.concatenate([ends @ [count, 1], ends @ [1, count]]))
    low, high = keys // count, keys % count
    starts = np.searchsorted(low, np.arange(count + 1))
    colors = np.full(count, -1, np.int64)
    seed = 0
    while seed < count:
        front = np.array([seed])
        colors[front] = color = 0
        while len(front):
            color = 1 - color
            sizes = starts[front + 1] - starts[front]
            shift = starts[front] - (np.cumsum(sizes) - sizes)
            reached = high[np.repeat(shift, sizes) + np.arange(sizes.sum())]
            front = np.unique(reached[colors[reached] < 0])
            colors[front] = color
        free = colors[seed:] < 0
        seed = seed + int(np.argmax(free)) if free.any() else count
    if (colors[low] == colors[high]).any():
        raise ValueError("cut: 'five' is not possible: edges form a cycle of odd length")
    return colors


def require_positive_volumes(
    vertices: np.ndarray, elements: np.ndarray, handed: np.ndarray | None = None, ids: np.ndarray | None = None
) -> None:
    """InputError: an element that should be right-handed has no volume or is inverted; the worst one is named.

    handed : the sign (m,) that the volume of each element should have; default: 1. ids : of the elements.
    """
    volumes = signed_volumes(vertices, elements)
    if handed is not None:
        volumes *= handed
    relative = volumes / np.maximum(longest_edges(vertices, elements), np.cbrt(np.finfo(float).tiny)) ** 3
    worst = int(np.argmin(relative))
    if relative[worst] > FLAT:
        return
    corners = ", ".join(f"({x:zg}, {y:zg}, {z:zg})" for x, y, z in vertices[elements[worst]].tolist())
    count = np.count_nonzero(relative <= FLAT)
    raise InputError(
        f"mesh: element {worst if ids is None else ids[worst]}",
        f"the worst of {count} without volume or inverted has {volumes[worst]:g} m3; corners: {corners} m",
        "the volume must be positive",
        "Check for slopes too steep for elements of this height",
    )


def deformed(mesh: TetrahedralMesh, displacement: Displacement) -> TetrahedralMesh:
    """Return the mesh with vertices moved by displacement(x, y, z) -> (dx, dy, dz), m; edges remain straight.

    InputError: an element has no volume or is inverted.
    """
    moves = np.stack(np.broadcast_arrays(*displacement(*mesh.vertices.T), mesh.vertices[:, 0])[:3], axis=-1)
    return moved(mesh, mesh.vertices + moves)


def moved(mesh: TetrahedralMesh, vertices: np.ndarray) -> TetrahedralMesh:
    """Return the mesh with these vertex positions. InputError: an element has no volume or is inverted."""
    require_positive_volumes(vertices, mesh.elements, np.sign(signed_volumes(mesh.vertices, mesh.elements)), mesh.ids)
    return replace(mesh, vertices=vertices)


def tetrahedral_box(
    x: tuple[float, float],
    y: tuple[float, float],
    z: tuple[float, float],
    size: float,
    interfaces: tuple[float | Callable, ...] = (),
    cut: str = CUTS[0],
) -> TetrahedralMesh:
    """Return a box of tetrahedra from cubes of edge `size`, m, or less, in layers between interfaces, from the top."""
    levels = [z[1], *interfaces, z[0]]
    return split_hexahedra(layered_box(x, y, levels, [(size, size)] * (len(levels) - 1)), cut)


NEW = 1 << 62  # keys of vertices on bisected edges start here; all other keys are lower


class Bisection:
    """Bisection of simplices at given edges, always in the same order of edges.

    ends : vertices (k, 2) of the edges, the lower first, sorted. vertices : (n, 3), m. places : positions of the new
    vertices on the edges (k, 3), m. longest : length of the longest edge of all ranks, m; default: of these edges. The
    attribute `vertices` includes the new vertices.
    """

    def __init__(
        self, ends: np.ndarray, vertices: np.ndarray, places: np.ndarray, longest: float | None = None
    ) -> None:
        self.old = len(vertices)
        self.vertices = np.concatenate([vertices, places])
        self.keys = ends[:, 0] * len(self.vertices) + ends[:, 1]
        self.is_end = np.zeros(len(vertices), bool)
        self.is_end[ends] = True
        lengths = np.linalg.norm(vertices[ends[:, 1]] - vertices[ends[:, 0]], axis=1)
        lengths = (lengths / (longest or lengths.max(initial=np.finfo(float).tiny))).round(9)
        # Bisection of the longest edge first preserves the shape of the child elements.
        self.rank = np.empty(len(ends), np.int64)
        self.rank[np.lexsort((self.keys, -lengths))] = np.arange(len(ends))

    def cut(self, simplices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the child elements (p, 3 or 4) of triangles or tetrahedra, and their parents (p,), ascending."""
        near = np.empty(len(simplices), bool)  # others have no edge that is bisected
        over_parts(lambda part: find_ends(simplices[part], self.is_end, 2, near[part]), len(simplices), PART)
        owner = np.flatnonzero(near)
        children, owners = self._children(simplices[owner], owner)
        counts = np.ones(len(simplices), np.int64)
        counts[owner] = np.bincount(np.searchsorted(owner, owners), minlength=len(owner))
        parents = np.repeat(np.arange(len(simplices)), counts)
        found = simplices[parents]
        found[near[parents]] = children
        return found, parents

    def _children(self, rest: np.ndarray, owner: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the child elements of some simplices with the indices `owner`, and these of each, ascending."""
        done, parents = [rest[:0]], [owner[:0]]
        while len(rest):
            first, pair = self._first_edges(rest)
            whole = first < 0
            done.append(rest[whole])
            parents.append(owner[whole])
            rest, owner = rest[~whole], np.repeat(owner[~whole], 2)
            first, pair = first[~whole], pair[~whole]
            rows = np.arange(len(rest))
            rest = np.repeat(rest, 2, axis=0)
            rest[2 * rows, pair[:, 0]] = rest[2 * rows + 1, pair[:, 1]] = self.old + first
        owners = np.concatenate(parents)
        order = np.argsort(owners, kind="stable")
        return np.concatenate(done)[order], owners[order]

    def _first_edges(self, simplices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the first edge of each simplex to be bisected, -1 for none, and its local ends."""
        if not len(self.keys):
            return np.full(len(simplices), -1), np.zeros((len(simplices), 2), np.int64)
        pairs = np.array([(one, other) for one in range(simplices.shape[1]) for other in range(one)])
        ends = np.sort(simplices[:, pairs], axis=2)
        keys = ends @ [len(self.vertices), 1]
        number = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        ranks = np.where(self.keys[number] == keys, self.rank[number], len(self.keys))
        chosen = ranks.argmin(axis=1)
        rows = np.arange(len(simplices))
        found = np.where(ranks[rows, chosen] < len(self.keys), number[rows, chosen], -1)
        return found, pairs[chosen]


def refined(mesh: TetrahedralMesh, elements: np.ndarray, ranks: Ranks = SINGLE_RANK) -> TetrahedralMesh:
    """Return the mesh with all edges of the given elements halved: these become eight, their neighbors two to four.

    Child elements have the material and id of their parent, and new keys, from eight times the parent's key. With
    several ranks, each passes its subdomain and its elements; the result is the same as on one rank.

    ValueError: the mesh is periodic. RuntimeError: two vertices have the same key.
    """
    if mesh.same is not None:
        raise ValueError("a periodic mesh cannot be refined")
    old = mesh.keys_of_vertices
    keys, longest = _edges(mesh, elements, ranks)
    new = NEW | (hash_pair(keys[:, 0], keys[:, 1]) >> np.uint64(2)).astype(np.int64)
    ends = np.minimum(np.searchsorted(old, keys), len(old) - 1)
    here = (old[ends] == keys).all(axis=1)
    ends, new = ends[here], new[here]
    cutter = Bisection(ends, mesh.vertices, mesh.vertices[ends].mean(axis=1), longest)
    pieces, parents = cutter.cut(mesh.elements)
    used = np.zeros(len(cutter.vertices), bool)  # an edge may be on this rank without an element that contains it
    used[pieces] = True
    vertex_keys = np.concatenate([old, new])
    order = np.argsort(vertex_keys, kind="stable")
    order = order[used[order]]
    if (vertex_keys[order[1:]] == vertex_keys[order[:-1]]).any():
        raise RuntimeError("internal error: two vertices of a refined mesh have the same key")
    place = np.full(len(vertex_keys), -1)
    place[order] = np.arange(len(order))
    boundaries = {name: place[cutter.cut(face_vertices(mesh, faces))[0]] for name, faces in mesh.boundaries.items()}
    counts = np.bincount(parents, minlength=mesh.element_count)
    first = np.cumsum(counts) - counts  # child of each element
    element_keys = 8 * mesh.keys_of_elements[parents] + np.arange(len(parents)) - first[parents]
    return make_mesh(
        cutter.vertices[order], place[pieces], mesh.materials[parents], boundaries,
        None if mesh.ids is None else mesh.ids[parents], mesh.groups, keys=(vertex_keys[order], element_keys),
        whole=ranks.size == 1, neighbors=_neighbors(mesh, place[pieces], parents, first, counts == 1),
    )  # fmt: skip


def _neighbors(
    mesh: TetrahedralMesh, pieces: np.ndarray, parents: np.ndarray, first: np.ndarray, whole: np.ndarray
) -> np.ndarray:
    """Return the `neighbors` of child elements; only those around bisected elements are searched.

    first : child of each element. whole : True for elements that are not bisected: these have their vertices in the
    same order, and thus their local faces.
    """
    found = np.empty((len(pieces), 4), np.int64)
    open_faces = np.empty((len(pieces), 4), bool)
    known = mesh.neighbors

    def keep(part: slice) -> None:
        across = known[parents[part]]
        beyond = (across >= 0) & ~whole[across // 4]
        open_faces[part] = beyond | ~whole[parents[part], None]
        found[part] = np.where(open_faces[part] | (across < 0), -1, 4 * first[across // 4] + across % 4)

    over_parts(keep, len(pieces), PART)
    some = np.flatnonzero(open_faces.any(axis=1))
    corners = np.unique(pieces[some], return_inverse=True)[1].reshape(-1, 4)
    across = face_neighbors(np.sort(corners, axis=1))
    renamed = np.where(across >= 0, 4 * some[across // 4] + across % 4, -1)
    found[some] = np.where(open_faces[some], renamed, found[some])
    return found


def _edges(mesh: TetrahedralMesh, elements: np.ndarray, ranks: Ranks) -> tuple[np.ndarray, float]:
    """Return the edges of the given elements of all ranks, as unique sorted keys (k, 2), and the longest length, m."""
    ends = np.unique(mesh.elements[elements][:, EDGES].reshape(-1, 2), axis=0)
    lengths = np.linalg.norm(mesh.vertices[ends[:, 1]] - mesh.vertices[ends[:, 0]], axis=1)
    keys = np.concatenate(ranks.all_gather(mesh.keys_of_vertices[ends]))
    return np.unique(keys, axis=0), ranks.largest(float(lengths.max(initial=0.0)))


def around(mesh: TetrahedralMesh, elements: np.ndarray, ranks: Ranks = SINGLE_RANK) -> np.ndarray:
    """Return the elements of this rank that share a vertex with a given element of any rank, including these."""
    own = mesh.keys_of_vertices
    keys = np.concatenate(ranks.all_gather(np.unique(own[mesh.elements[elements]])))
    near, found = np.isin(own, keys), np.empty(mesh.element_count, bool)
    over_parts(lambda part: find_ends(mesh.elements[part], near, 1, found[part]), mesh.element_count, PART)
    return np.flatnonzero(found)


@exact_part
def find_ends(simplices, is_end, least, found):  # pragma: no cover - compiled
    """Set found (n,) True for simplices of which at least this number of vertices is marked."""
    for row in range(len(simplices)):
        count = 0
        for corner in range(simplices.shape[1]):
            count += is_end[simplices[row, corner]]
        found[row] = count >= least
