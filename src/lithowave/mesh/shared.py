"""Faces and points that subdomains share.

**Faces** shared by elements of several ranks are identified by the keys of their vertices. Exterior faces of a
subdomain that are on no boundary are sent to a rank determined by a hash of their vertices. This rank matches the two
faces of each pair and replies to their owners. Each rank stores only its subdomain.

**Points** are those on shared corners, edges and faces, in the same order on both sides. All are identified by global
vertex indices. Candidates for sharing are on the exterior faces of a subdomain. Each corner, edge or face is sent to
one rank, determined by its indices, which replies with the other ranks that sent it. No rank stores the entire
boundary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from lithowave.mesh.hexahedra import HexahedralMesh
from lithowave.mesh.numbering import (
    CORNERS,
    EDGES,
    FACES,
    entity_points,
    exterior_quadrilaterals,
    face_orders,
    face_orientations,
)
from lithowave.mesh.tetrahedra import TetrahedralMesh, exterior_triangles, face_vertices
from lithowave.parallel.ranks import SINGLE_RANK, Ranks

MAX_LISTED = 5  # faces that an error lists


def _none(*shape: int) -> np.ndarray:
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
    exterior = exterior_triangles(mesh.neighbors)
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


NOTHING = -1  # padding in keys of fewer than four vertices
CORNERS_OF = (1, 2, 4)  # number of corners of a corner, an edge and a face
# The edges of each local face.
FACE_EDGES = np.array([np.flatnonzero(np.isin(EDGES, corners).all(axis=1)) for corners in FACES])


@dataclass(frozen=True)
class Entities:
    """Corners, edges and faces on the boundary of a subdomain, unique, sorted by their keys.

    keys : sorted global indices (n, 4) of their vertices, with leading -1 for corners and edges. element, local : an
    element that contains each, and the local index among its 8 corners, 12 edges or 6 faces.
    """

    keys: np.ndarray
    element: np.ndarray
    local: np.ndarray

    @property
    def sizes(self) -> np.ndarray:
        """Number of vertices of each entity."""
        return (self.keys != NOTHING).sum(axis=1)


def boundary_entities(mesh: HexahedralMesh) -> Entities:
    """Return all entities that a subdomain may share with other ranks."""
    whole = np.arange(len(mesh.vertices)) if mesh.vertex_ids is None else mesh.vertex_ids
    element, face = exterior_quadrilaterals(mesh.elements).T
    lists = []
    for table, local in ((np.arange(8)[:, None], FACES[face]), (EDGES, FACE_EDGES[face]), (FACES, face[:, None])):
        owner = np.repeat(element, local.shape[1])
        corners = np.take_along_axis(mesh.elements[owner], table[local.reshape(-1)], axis=1)
        keys = np.full((len(owner), 4), NOTHING, np.int64)
        keys[:, 4 - corners.shape[1] :] = np.sort(whole[corners], axis=1)
        lists.append((keys, owner, local.reshape(-1)))
    keys, owner, local = (np.concatenate(parts) for parts in zip(*lists, strict=True))
    order = _by_rows(keys)
    first = order[_starts(keys[order])]
    return Entities(keys[first], owner[first], local[first])


def _by_rows(keys: np.ndarray) -> np.ndarray:
    return np.lexsort(keys.T[::-1])


def _starts(ordered: np.ndarray) -> np.ndarray:
    """Return the starts of groups of equal rows among sorted rows."""
    new = np.ones(len(ordered), bool)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    return np.flatnonzero(new)


def matches(received: list[np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return, for the unique keys (n, 4) of each rank, the rows that other ranks also have, and those ranks.

    A row is repeated for each other rank.
    """
    keys = np.concatenate(received)
    rank = np.repeat(np.arange(len(received)), [len(some) for some in received])
    row = np.concatenate([np.arange(len(some)) for some in received])
    order = _by_rows(keys)  # stable: ranks ascend among equal keys
    starts = _starts(keys[order])
    counts = np.diff(np.append(starts, len(order)))
    several = counts > 1
    starts, counts = starts[several], counts[several]
    group = np.repeat(np.arange(len(counts)), counts**2)
    place = np.arange(len(group)) - np.repeat(np.cumsum(counts**2) - counts**2, counts**2)
    one, two = order[starts[group] + place // counts[group]], order[starts[group] + place % counts[group]]
    differ = one != two
    one, two = one[differ], two[differ]
    return [(row[one[rank[one] == r]], rank[two[rank[one] == r]]) for r in range(len(received))]


def shared_entities(entities: Entities, ranks: Ranks) -> dict[int, np.ndarray]:
    """Return the indices of `entities` shared with each other rank, in ascending order; ranks ascend."""
    if ranks.size == 1:
        return {}
    desk = (entities.keys.sum(axis=1) * 0x9E3779B1 >> 16) % ranks.size
    sent = [np.flatnonzero(desk == rank) for rank in range(ranks.size)]
    received = ranks.all_to_all([entities.keys[some] for some in sent])
    answers = ranks.all_to_all(matches(received))
    rows = np.concatenate([some[row] for some, (row, _) in zip(sent, answers, strict=True)])
    others = np.concatenate([other for _, other in answers])
    return {int(other): np.sort(rows[others == other]) for other in np.unique(others)}


def entity_point_numbers(mesh: HexahedralMesh, numbers: np.ndarray, entities: Entities, some: np.ndarray) -> np.ndarray:
    """Return the indices of the points inside some entities, concatenated, in an order that the vertices fix.

    numbers : point indices of the elements [element, k, j, i].
    """
    inner = numbers.shape[1] - 2
    sizes = entities.sizes[some]
    points_of = np.array([inner**power if power else 1 for power in (0, 1, 2)])
    counts = points_of[np.searchsorted(CORNERS_OF, sizes)]
    found = np.empty(int(counts.sum()), np.int64)
    begins = np.cumsum(counts) - counts
    tables = (np.arange(8)[:, None], EDGES, FACES)
    for size, table, count in zip(CORNERS_OF, tables, points_of, strict=True):
        for local, corners in enumerate(table):
            chosen = np.flatnonzero((sizes == size) & (entities.local[some] == local))
            elements = entities.element[some[chosen]]
            if len(chosen) and count:
                points = _points_inside(mesh.elements[elements][:, corners], numbers[elements], corners)
                found[begins[chosen][:, None] + np.arange(count)] = points
    return found


def _points_inside(vertices: np.ndarray, numbers: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """Return indices (n, points) inside the same local corner, edge or face of elements, ordered by its vertices."""
    degree = numbers.shape[1] - 1
    if len(corners) == 1:
        i, j, k = CORNERS[corners[0]] * degree
        return numbers[:, k, j, i][:, None]
    found = numbers[:, *entity_points(corners, degree)].reshape(len(numbers), -1)
    if len(corners) == 2:
        turned = vertices[:, 0] > vertices[:, 1]
        return np.where(turned[:, None], found[:, ::-1], found)
    orders = face_orders(degree - 1).reshape(8, -1)[face_orientations(vertices)]
    ordered = np.empty_like(found)
    np.put_along_axis(ordered, orders, found, axis=1)
    return ordered


@dataclass(frozen=True)
class SharedPoints:
    """Points of a subdomain that other ranks also have.

    with_rank : for each of those ranks, in ascending order, point indices in the same order on both sides. rank : of
    this subdomain.
    """

    rank: int = 0
    with_rank: dict[int, np.ndarray] = field(default_factory=dict)

    @property
    def points(self) -> np.ndarray:
        """All shared points, unique, in ascending order."""
        return np.unique(np.concatenate([np.zeros(0, np.int64), *self.with_rank.values()]))

    @property
    def owned_by_lower_ranks(self) -> np.ndarray:
        """Shared points that a lower rank has: that rank writes and counts them."""
        lower = [points for rank, points in self.with_rank.items() if rank < self.rank]
        return np.unique(np.concatenate([np.zeros(0, np.int64), *lower]))

    def within(self, points: np.ndarray) -> SharedPoints:
        """Return the same for arrays with the values of some points only, among them all of `points`, in ascending
        order."""
        return SharedPoints(self.rank, {rank: np.searchsorted(points, some) for rank, some in self.with_rank.items()})

    def received(self, values: np.ndarray, ranks: Ranks) -> dict[int, np.ndarray]:
        """Return the values (points of the subdomain, ...) of the other ranks at the points `with_rank`; collective."""
        sent = [values[self.with_rank[rank]] if rank in self.with_rank else None for rank in range(ranks.size)]
        return {rank: theirs for rank, theirs in enumerate(ranks.all_to_all(sent)) if theirs is not None}

    def combine(self, values: np.ndarray, ranks: Ranks, how: Callable[..., np.ndarray] = np.add) -> None:
        """Replace values (points of the subdomain, ...) of shared points by the sum over all ranks that have them.

        The sum is in rank order, so that all ranks obtain bitwise identical values. how : np.add, np.minimum or
        np.maximum.
        """
        if ranks.size == 1:
            return
        theirs = self.received(values, ranks)
        own = values[self.points]
        begun = np.zeros(len(values), bool)
        for rank in sorted([*self.with_rank, self.rank]):
            points, added = (self.points, own) if rank == self.rank else (self.with_rank[rank], theirs[rank])
            old = begun[points].reshape(-1, *[1] * (values.ndim - 1))
            values[points] = np.where(old, how(values[points], added), added)
            begun[points] = True


def shared_points(mesh: HexahedralMesh, numbers: np.ndarray, ranks: Ranks) -> SharedPoints:
    """Find the points that this subdomain shares with other ranks. numbers : of its points [element, k, j, i]."""
    if ranks.size == 1:
        return SharedPoints()
    entities = boundary_entities(mesh)
    found = shared_entities(entities, ranks)
    points = {rank: entity_point_numbers(mesh, numbers, entities, some) for rank, some in found.items()}
    return SharedPoints(ranks.rank, points)
