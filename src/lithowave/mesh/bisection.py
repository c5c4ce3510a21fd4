"""Bisection of tetrahedra at given edges, in one order for all, so that neighbours agree; refinement around points."""

from __future__ import annotations

import numpy as np

from lithowave.mesh.shared_faces import hash_pair
from lithowave.mesh.tetrahedra import EDGES, TetrahedralMesh, face_vertices, make_mesh
from lithowave.parallel.ranks import SINGLE_RANK, Ranks

NEW = 1 << 62  # keys of vertices that edges get are not below: no other ones are as high


class Bisection:
    """Bisects simplices at edges of a list, always in the same order of edges.

    ends : vertices (k, 2) of the edges, the lower first, sorted. vertices : (n, 3), m. places : where the edges are cut
    (k, 3), m. longest : of these edges and of those of other ranks, m; None: there are no others. The attribute
    `vertices` has the places appended.
    """

    def __init__(
        self, ends: np.ndarray, vertices: np.ndarray, places: np.ndarray, longest: float | None = None
    ) -> None:
        self.old = len(vertices)
        self.vertices = np.concatenate([vertices, places])
        self.keys = ends[:, 0] * len(self.vertices) + ends[:, 1]
        lengths = np.linalg.norm(vertices[ends[:, 1]] - vertices[ends[:, 0]], axis=1)
        lengths = (lengths / (longest or lengths.max(initial=np.finfo(float).tiny))).round(9)
        # The longest first: what is left of the elements then stays round.
        self.rank = np.empty(len(ends), np.int64)
        self.rank[np.lexsort((self.keys, -lengths))] = np.arange(len(ends))

    def cut(self, simplices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The pieces (p, 3 or 4) of triangles or tetrahedra, and which (p,) each is a piece of, rising."""
        done, parents = [], []
        rest, owner = simplices, np.arange(len(simplices))
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
        parents = np.concatenate([np.zeros(0, np.int64), *parents])
        order = np.argsort(parents, kind="stable")
        return np.concatenate([simplices[:0], *done])[order], parents[order]

    def _first_edges(self, simplices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of each simplex the first edge that is to be cut, -1 where there is none, and its local ends."""
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
    """The mesh with all edges of some elements halved: these become eight, their neighbours two to four.

    Pieces keep material and id of their element, and have keys of their own: eight times that of the element and more.
    ranks : of each its part and its elements; all get the same as if the mesh were on one.

    ValueError: a mesh whose sides continue at each other. RuntimeError: keys of two vertices are the same.
    """
    if mesh.same is not None:
        raise ValueError("a mesh whose sides continue at each other cannot be refined")
    old = mesh.keys_of_vertices
    keys, longest = _edges(mesh, elements, ranks)
    new = NEW | (hash_pair(keys[:, 0], keys[:, 1]) >> np.uint64(2)).astype(np.int64)
    ends = np.minimum(np.searchsorted(old, keys), len(old) - 1)
    here = (old[ends] == keys).all(axis=1)
    ends, new = ends[here], new[here]
    cutter = Bisection(ends, mesh.vertices, mesh.vertices[ends].mean(axis=1), longest)
    pieces, parents = cutter.cut(mesh.elements)
    used = np.zeros(len(cutter.vertices), bool)  # both ends of an edge may be here, and no element that has it
    used[pieces] = True
    vertex_keys = np.concatenate([old, new])
    order = np.argsort(vertex_keys, kind="stable")
    order = order[used[order]]
    if (vertex_keys[order[1:]] == vertex_keys[order[:-1]]).any():
        raise RuntimeError("internal error: two vertices of a refined mesh have the same key")
    place = np.full(len(vertex_keys), -1)
    place[order] = np.arange(len(order))
    boundaries = {name: place[cutter.cut(face_vertices(mesh, faces))[0]] for name, faces in mesh.boundaries.items()}
    element_keys = 8 * mesh.keys_of_elements[parents] + np.arange(len(parents)) - np.searchsorted(parents, parents)
    return make_mesh(
        cutter.vertices[order], place[pieces], mesh.materials[parents], boundaries,
        None if mesh.ids is None else mesh.ids[parents], mesh.groups, keys=(vertex_keys[order], element_keys),
        whole=ranks.size == 1,
    )  # fmt: skip


def _edges(mesh: TetrahedralMesh, elements: np.ndarray, ranks: Ranks) -> tuple[np.ndarray, float]:
    """The edges of some elements of all ranks, each once, sorted: keys (k, 2) of their ends; and the longest one, m."""
    ends = np.unique(mesh.elements[elements][:, EDGES].reshape(-1, 2), axis=0)
    lengths = np.linalg.norm(mesh.vertices[ends[:, 1]] - mesh.vertices[ends[:, 0]], axis=1)
    keys = np.concatenate(ranks.all_gather(mesh.keys_of_vertices[ends]))
    return np.unique(keys, axis=0), ranks.largest(float(lengths.max(initial=0.0)))


def around(mesh: TetrahedralMesh, elements: np.ndarray, ranks: Ranks = SINGLE_RANK) -> np.ndarray:
    """These elements, of all ranks, and all that share a vertex with one of them: those of this rank's part."""
    own = mesh.keys_of_vertices
    keys = np.concatenate(ranks.all_gather(np.unique(own[mesh.elements[elements]])))
    near = np.isin(own, keys)
    return np.flatnonzero(near[mesh.elements].any(axis=1))
