"""Bisection of tetrahedra at given edges, in one order for all, so that neighbours agree; refinement around points."""

from __future__ import annotations

import numpy as np

from lithowave.mesh.tetrahedra import EDGES, TetrahedralMesh, face_vertices, make_mesh


class Bisection:
    """Bisects simplices at edges of a list, always in the same order of edges.

    ends : vertices (k, 2) of the edges, the lower first, sorted. vertices : (n, 3), m. places : where the edges are cut
    (k, 3), m. The attribute `vertices` has these appended.
    """

    def __init__(self, ends: np.ndarray, vertices: np.ndarray, places: np.ndarray) -> None:
        self.old = len(vertices)
        self.vertices = np.concatenate([vertices, places])
        self.keys = ends[:, 0] * len(self.vertices) + ends[:, 1]
        lengths = np.linalg.norm(vertices[ends[:, 1]] - vertices[ends[:, 0]], axis=1)
        lengths = (lengths / lengths.max(initial=np.finfo(float).tiny)).round(9)
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


def refined(mesh: TetrahedralMesh, elements: np.ndarray) -> TetrahedralMesh:
    """The mesh with all edges of some elements halved: these become eight, their neighbours two to four.

    Pieces keep material and id of their element. ValueError: a mesh whose sides continue at each other.
    """
    if mesh.same is not None:
        raise ValueError("a mesh whose sides continue at each other cannot be refined")
    ends = mesh.elements[elements][:, EDGES].reshape(-1, 2)
    keys = np.unique(ends[:, 0] * len(mesh.vertices) + ends[:, 1])
    ends = np.column_stack(np.divmod(keys, len(mesh.vertices)))
    cutter = Bisection(ends, mesh.vertices, mesh.vertices[ends].mean(axis=1))
    pieces, parents = cutter.cut(mesh.elements)
    boundaries = {name: cutter.cut(face_vertices(mesh, faces))[0] for name, faces in mesh.boundaries.items()}
    ids = None if mesh.ids is None else mesh.ids[parents]
    return make_mesh(cutter.vertices, pieces, mesh.materials[parents], boundaries, ids, mesh.groups)


def around(mesh: TetrahedralMesh, elements: np.ndarray) -> np.ndarray:
    """These elements and all that share a vertex with one of them."""
    near = np.zeros(len(mesh.vertices), bool)
    near[mesh.elements[elements]] = True
    return np.flatnonzero(near[mesh.elements].any(axis=1))
