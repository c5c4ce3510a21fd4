"""Bisection of tetrahedra at given edges, in one order for all elements, so that neighbors conform; refinement."""

from __future__ import annotations

import numpy as np

from lithowave.backends.host_threads import over_parts
from lithowave.backends.loops import exact_part
from lithowave.mesh.shared_faces import hash_pair
from lithowave.mesh.tetrahedra import EDGES, PART, TetrahedralMesh, face_neighbors, face_vertices, make_mesh
from lithowave.parallel.ranks import SINGLE_RANK, Ranks

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
