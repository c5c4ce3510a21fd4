"""Faces shared by elements of several ranks, identified by the keys of their vertices.

Exterior faces of a subdomain that are on no boundary are sent to a rank determined by a hash of their vertices. This
rank matches the two faces of each pair and replies to their owners. Each rank stores only its subdomain.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lithowave.mesh.tetrahedra import TetrahedralMesh, exterior_faces, face_vertices
from lithowave.parallel.ranks import SINGLE_RANK, Ranks

MAX_LISTED = 5  # faces that an error lists


def _none(*shape: int) -> Any:
    return field(default_factory=lambda: np.zeros(shape, np.int64))


@dataclass(frozen=True)
class SharedFaces:
    """Faces shared with elements of other ranks; sorted by rank, then in an order that both ranks agree on.

    ranks : of the run. faces : (n, 2), local element, local face. rank : (n,) that has the neighboring element. across
    : (n,) local face of that element.
    """

    ranks: Ranks = SINGLE_RANK
    faces: np.ndarray = _none(0, 2)
    rank: np.ndarray = _none(0)
    across: np.ndarray = _none(0)

    @property
    def count(self) -> int:
        """Number of faces."""
        return len(self.rank)

    def counts(self, some: np.ndarray | slice = slice(None)) -> dict[int, int]:
        """Return the number of some faces that are shared with each neighboring rank."""
        found, counts = np.unique(self.rank[some], return_counts=True)
        return dict(zip(found.tolist(), counts.tolist(), strict=True))

    def exchanged(self, values: np.ndarray) -> np.ndarray:
        """Return values (n, ...) of the neighbors, from values (elements, ...) of local elements; collective."""
        if self.ranks.size == 1:
            return values[:0]
        bounds = np.searchsorted(self.rank, np.arange(self.ranks.size + 1))
        own = values[self.faces[:, 0]]
        parts = self.ranks.all_to_all([own[low:high] for low, high in zip(bounds[:-1], bounds[1:], strict=True)])
        return np.concatenate(parts)

    def with_ghosts(self, values: np.ndarray) -> np.ndarray:
        """Return the values of the local elements, followed by those of the elements across the shared faces."""
        return np.concatenate([values, self.exchanged(values)])

    def connected(self, mesh: TetrahedralMesh) -> TetrahedralMesh:
        """Return the mesh with the element across shared face n as neighbor element_count + n."""
        neighbors = mesh.neighbors.copy()
        neighbors[self.faces[:, 0], self.faces[:, 1]] = 4 * (mesh.element_count + np.arange(self.count)) + self.across
        return mesh.with_neighbors(neighbors)


def find_shared_faces(mesh: TetrahedralMesh, ranks: Ranks) -> SharedFaces:
    """Find the faces that this rank's subdomain shares with other ranks; all ranks call it.

    RuntimeError: a face on no boundary does not belong to exactly two elements: the subdomains do not form one mesh.
    """
    if ranks.size == 1:
        return SharedFaces()
    open_faces = faces_without_boundary(mesh)
    keys = mesh.keys_of_vertices[face_vertices(mesh, open_faces)]
    rows = np.column_stack([keys, mesh.keys_of_elements[open_faces[:, 0]], open_faces[:, 1]])
    home = (hash_pair(hash_pair(keys[:, 0], keys[:, 1]), keys[:, 2]) % ranks.size).astype(np.int64)
    order = np.argsort(home, kind="stable")
    bounds = np.searchsorted(home[order], np.arange(ranks.size + 1))
    sent = [order[low:high] for low, high in zip(bounds[:-1], bounds[1:], strict=True)]
    answers = ranks.all_to_all(_answers(ranks.all_to_all([rows[some] for some in sent])))
    found = np.empty((len(rows), 3), np.int64)  # rank, element and local face across
    for some, answer in zip(sent, answers, strict=True):
        found[some] = answer
    _require_pairs(mesh, open_faces[found[:, 0] < 0], ranks)
    # Both ranks sort by the face of the element with the lower key.
    own = np.column_stack([rows[:, 3], rows[:, 4]])
    lower = np.where((own[:, 0] < found[:, 1])[:, None], own, found[:, 1:])
    order = np.lexsort((lower[:, 1], lower[:, 0], found[:, 0]))
    return SharedFaces(ranks, open_faces[order], found[order, 0], found[order, 2])


def faces_without_boundary(mesh: TetrahedralMesh) -> np.ndarray:
    """Return the faces (f, 2) of only one element of this subdomain that are on no boundary."""
    exterior = exterior_faces(mesh.neighbors)
    on_boundary = np.zeros((mesh.element_count, 4), bool)
    for faces in mesh.boundaries.values():
        on_boundary[faces[:, 0], faces[:, 1]] = True
    return exterior[~on_boundary[exterior[:, 0], exterior[:, 1]]]


def hash_pair(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return a hash (uint64) of two numbers with full bit diffusion (Steele, Lea & Flood 2014, OOPSLA, 453)."""
    found = np.asarray(one).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.asarray(other).astype(np.uint64)
    found += np.uint64(0x9E3779B97F4A7C15)
    found = (found ^ (found >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    found = (found ^ (found >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return found ^ (found >> np.uint64(31))


def _answers(rows: list[np.ndarray]) -> list[np.ndarray]:
    """Return, for each face received from each rank, rank, element and local face of its only partner, or -1.

    rows : three vertices, element, local face."""
    every = np.concatenate(rows)
    rank = np.repeat(np.arange(len(rows)), [len(some) for some in rows])
    order = np.lexsort(every[:, 2::-1].T)
    ordered = every[order, :3]
    equal = (ordered[1:] == ordered[:-1]).all(axis=1)
    two = equal.copy()  # true for pairs, but not for triples
    two[1:] &= ~equal[:-1]
    two[:-1] &= ~equal[1:]
    first = np.flatnonzero(two)
    answers = np.full((len(every), 3), -1, np.int64)
    for one, other in ((order[first], order[first + 1]), (order[first + 1], order[first])):
        answers[one, 0], answers[one, 1:] = rank[other], every[other, 3:]
    return np.split(answers, np.cumsum([len(some) for some in rows])[:-1])


def _require_pairs(mesh: TetrahedralMesh, lone: np.ndarray, ranks: Ranks) -> None:
    places = mesh.vertices[face_vertices(mesh, lone)].mean(axis=1)
    lines = [
        f"rank {ranks.rank}: face {face} of element {mesh.element_id(element)} at ({x:z.6g}, {y:z.6g}, {z:z.6g}) m"
        for (element, face), (x, y, z) in zip(lone[:MAX_LISTED].tolist(), places[:MAX_LISTED].tolist(), strict=True)
    ]
    every = ranks.all_gather((len(lone), lines))
    count = sum(one for one, _ in every)
    if count:
        text = "; ".join(line for _, listed in every for line in listed)
        raise RuntimeError(f"internal error: {count} faces between ranks do not have two elements each: {text}")
