"""Bodies in tetrahedral meshes: element faces follow the surface of a salt dome or an intrusion."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lithowave.errors import InputError
from lithowave.mesh.tetrahedra import (
    EDGES,
    TetrahedralMesh,
    face_vertices,
    make_mesh,
    signed_insphere_radii,
)

# Level function of arrays x, y, z, m: negative inside the body, zero on its surface, positive outside.
Level = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]

STEPS = 12  # steps of the search for the surface on an edge
FLATTENED = 0.25  # a move must leave an element at least this fraction of its insphere radius
IN_PLANE = 1e-6  # a move leaves a face if the sine of their angle is larger


@dataclass(frozen=True)
class CutEdges:
    """Edges that the surface crosses.

    ends : vertices (k, 2), the lower first, sorted. place : position of the surface (k,), 0 at the first end, 1 at the
    second.
    """

    ends: np.ndarray
    place: np.ndarray

    def positions(self, vertices: np.ndarray) -> np.ndarray:
        """Return the intersections (k, 3) of the surface and the edges, m."""
        low, high = vertices[self.ends[:, 0]], vertices[self.ends[:, 1]]
        return low + self.place[:, None] * (high - low)


def cut_along(mesh: TetrahedralMesh, level: Level, snap: float = 0.25) -> tuple[TetrahedralMesh, np.ndarray]:
    """Return a mesh whose faces follow the surface of a body, and a mask (m,) of the elements inside the body.

    level : function of arrays x, y, z, m; negative inside the body, positive outside. A signed distance is best; any
        continuous function with this sign is allowed.
    snap : from 0 to below 0.5. If the surface crosses an edge within this fraction of its length from one end, that end
        is moved onto the surface.

    1. A vertex near the surface moves onto it along the edge on which the surface is nearest. Vertices of exterior
       faces and of faces between two materials move only in the planes of all these faces, and not out of a boundary. A
       vertex that cannot move, or whose move would flatten an element, stays in place and becomes part of the surface,
       which is then wrong by up to `snap` of an edge.
    2. Elements with vertices on both sides of the surface are bisected at the edges that it crosses, in one order for
       all elements, so that neighbors conform. Each of these edges gets one vertex.

    Elsewhere the error of the surface is of second order in the element size. Details thinner than an element may be
    lost. Child elements have the material and id of their parent. Before the next body is cut, give this one a separate
    material, which preserves its surface.

    In regular boxes (`split_hexahedra`, spheres and a dome at many positions) the smallest insphere is 0.10 of that of
    the uncut elements with snap = 0.1, 0.20 with 0.25 (0.25 with the cut 'twelve') and 0.22 with 0.3; from 0.3 on,
    elements with all vertices on the surface make it uneven.

    InputError: the level is not finite at a vertex. ValueError: snap is out of range, or the mesh is periodic.
    """
    if not 0 <= snap < 0.5:
        raise ValueError(f"snap: {snap}; it must be from 0 to below 0.5")
    if mesh.same is not None:
        raise ValueError("a periodic mesh cannot be cut")
    values = level_values(level, mesh.vertices)
    edges = crossed_edges(mesh, values, level)
    vertices, on_surface = snapped(mesh, edges, snap)
    side = np.sign(values).astype(np.int8)
    side[on_surface] = 0
    open_edges = (side[edges.ends] != 0).all(axis=1)
    edges = CutEdges(edges.ends[open_edges], edges.place[open_edges])
    cutter = Cutter(edges, vertices, side)
    elements, parents = cutter.cut(mesh.elements)
    boundaries = {name: cutter.cut(face_vertices(mesh, faces))[0] for name, faces in mesh.boundaries.items()}
    ids = None if mesh.ids is None else mesh.ids[parents]
    cut = make_mesh(cutter.vertices, elements, mesh.materials[parents], boundaries, ids, mesh.groups)
    return cut, inside_elements(cut, cutter.side, level)


def level_values(level: Level, points: np.ndarray) -> np.ndarray:
    """Return the level (n,) at points (n, 3). InputError: it is not finite."""
    values = np.broadcast_to(np.asarray(level(*points.T), float), len(points))
    if not np.isfinite(values).all():
        x, y, z = points[np.argmin(np.isfinite(values))]
        raise InputError("mesh: level", f"it is not finite at ({x:zg}, {y:zg}, {z:zg}) m", "it must be everywhere")
    return values


def crossed_edges(mesh: TetrahedralMesh, values: np.ndarray, level: Level) -> CutEdges:
    """Return the edges with ends on both sides, and the zero of the level on each: regula falsi, Illinois rule."""
    count = len(mesh.vertices)
    below, above = values < 0, values > 0
    mixed = below[mesh.elements].any(axis=1) & above[mesh.elements].any(axis=1)
    ends = mesh.elements[mixed][:, EDGES].reshape(-1, 2)
    ends = np.sort(ends[values[ends[:, 0]] * values[ends[:, 1]] < 0], axis=1)
    keys = np.unique(ends[:, 0] * count + ends[:, 1])
    ends = np.column_stack([keys // count, keys % count])
    start, along = mesh.vertices[ends[:, 0]], mesh.vertices[ends[:, 1]] - mesh.vertices[ends[:, 0]]
    low, high = np.zeros(len(ends)), np.ones(len(ends))
    at_low, at_high = values[ends[:, 0]].copy(), values[ends[:, 1]].copy()
    place = at_low / (at_low - at_high)
    last = np.zeros(len(ends), np.int8)
    for _ in range(STEPS):
        found = level_values(level, start + place[:, None] * along)
        as_low = found * at_low > 0
        at_high = np.where(as_low, np.where(last == 1, at_high / 2, at_high), found)
        at_low = np.where(as_low, found, np.where(last == -1, at_low / 2, at_low))
        low, high = np.where(as_low, place, low), np.where(as_low, high, place)
        last = np.where(as_low, 1, -1)
        place = np.clip(low + (high - low) * at_low / (at_low - at_high), low, high)
    return CutEdges(ends, place)


def snapped(mesh: TetrahedralMesh, edges: CutEdges, snap: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the vertices (n, 3), m, moved onto the surface if they are near it, and the vertices on the surface."""
    near = [edges.place <= snap, edges.place >= 1 - snap]
    vertex = np.concatenate([edges.ends[there, end] for end, there in enumerate(near)])
    other = np.concatenate([edges.ends[there, 1 - end] for end, there in enumerate(near)])
    points = edges.positions(mesh.vertices)
    moves = np.concatenate([points[there] for there in near]) - mesh.vertices[vertex]
    on_surface = np.unique(vertex)
    free = ~leaving(mesh, vertex, other)
    vertex, moves = vertex[free], moves[free]
    order = np.lexsort((other[free], np.einsum("ij,ij->i", moves, moves), vertex))
    vertex, first = np.unique(vertex[order], return_index=True)
    return moved_safely(mesh, vertex, moves[order[first]]), on_surface


def leaving(mesh: TetrahedralMesh, vertex: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return True for each vertex (k,) that leaves a fixed face or a boundary by moving towards another vertex.

    Fixed faces are those at the exterior and between two materials.
    """
    neighbors = mesh.neighbors
    fixed = (neighbors < 0) | (mesh.materials[neighbors // 4] != mesh.materials[:, None])
    corners = face_vertices(mesh, np.argwhere(fixed))
    touched = np.zeros(len(mesh.vertices), bool)
    touched[vertex] = True
    corners = corners[touched[corners].any(axis=1)]
    a, b, c = (mesh.vertices[column] for column in corners.T)
    normals = np.cross(b - a, c - a)
    normals /= np.linalg.norm(normals, axis=1)[:, None]
    order = np.argsort(corners.ravel(), kind="stable")
    at, face = corners.ravel()[order], order // 3
    starts, stops = np.searchsorted(at, vertex), np.searchsorted(at, vertex, side="right")
    counts = stops - starts
    pair = np.repeat(np.arange(len(vertex)), counts)
    place = np.arange(len(pair)) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(starts, counts)
    along = mesh.vertices[other] - mesh.vertices[vertex]
    along /= np.linalg.norm(along, axis=1)[:, None]
    sines = np.abs(np.einsum("ij,ij->i", along[pair], normals[face[place]]))
    found = np.bincount(pair, sines > IN_PLANE, minlength=len(vertex)) > 0
    for faces in mesh.boundaries.values():
        on = np.zeros(len(mesh.vertices), bool)
        on[face_vertices(mesh, faces)] = True
        found |= on[vertex] & ~on[other]
    return found


def moved_safely(mesh: TetrahedralMesh, vertex: np.ndarray, moves: np.ndarray) -> np.ndarray:
    """Return the vertices (n, 3), m, moved by (k, 3), m, except for moves that flatten or invert an element."""
    vertices = mesh.vertices.copy()
    vertices[vertex] += moves
    moving = np.zeros(len(vertices), bool)
    moving[vertex] = True
    some = mesh.elements[moving[mesh.elements].any(axis=1)]
    before = signed_insphere_radii(mesh.vertices, some)
    while True:
        bad = (signed_insphere_radii(vertices, some) / before < FLATTENED) & moving[some].any(axis=1)
        if not bad.any():
            return vertices
        back = np.unique(some[bad])
        vertices[back] = mesh.vertices[back]
        moving[back] = False


class Cutter:
    """Bisection of elements or faces at the edges that the surface crosses, always in the same order of edges.

    vertices, side : including the vertices on these edges; side is -1 inside the body, 0 on its surface, 1 outside.
    """

    def __init__(self, edges: CutEdges, vertices: np.ndarray, side: np.ndarray) -> None:
        self.count = len(vertices)
        self.keys = edges.ends[:, 0] * self.count + edges.ends[:, 1]
        low, high = vertices[edges.ends[:, 0]], vertices[edges.ends[:, 1]]
        lengths = np.linalg.norm(high - low, axis=1)
        lengths = (lengths / lengths.max(initial=np.finfo(float).tiny)).round(9)
        # The longest edge first, as in `Bisection`, which preserves the shape of the child elements.
        self.rank = np.empty(len(lengths), np.int64)
        self.rank[np.lexsort((self.keys, -lengths))] = np.arange(len(lengths))
        self.vertices = np.concatenate([vertices, edges.positions(vertices)])
        self.side = np.concatenate([side, np.zeros(len(edges.ends), np.int8)])

    def cut(self, simplices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the child elements (p, 3 or 4) of triangles or tetrahedra, and their parents (p,), ascending."""
        sides = self.side[simplices]
        whole = (sides >= 0).all(axis=1) | (sides <= 0).all(axis=1)
        done, parents = [simplices[whole]], [np.flatnonzero(whole)]
        rest, owner = simplices[~whole], np.flatnonzero(~whole)
        while len(rest):
            rest, owner = self.bisected(rest), np.repeat(owner, 2)
            sides = self.side[rest]
            whole = (sides >= 0).all(axis=1) | (sides <= 0).all(axis=1)
            done.append(rest[whole])
            parents.append(owner[whole])
            rest, owner = rest[~whole], owner[~whole]
        parents = np.concatenate(parents)
        order = np.argsort(parents, kind="stable")
        return np.concatenate(done)[order], parents[order]

    def bisected(self, simplices: np.ndarray) -> np.ndarray:
        """Return two child elements, one after the other, of each simplex, bisected at its first crossed edge."""
        pairs = np.array([(one, other) for one in range(simplices.shape[1]) for other in range(one)])
        ends = np.sort(simplices[:, pairs], axis=2)
        crossed = self.side[ends[:, :, 0]] * self.side[ends[:, :, 1]] < 0
        number = np.minimum(np.searchsorted(self.keys, ends @ [self.count, 1]), len(self.keys) - 1)
        chosen = np.where(crossed, self.rank[number], len(self.keys)).argmin(axis=1)
        rows = np.arange(len(simplices))
        middle = self.count + number[rows, chosen]
        pieces = np.repeat(simplices, 2, axis=0)
        pieces[2 * rows, pairs[chosen, 0]] = middle
        pieces[2 * rows + 1, pairs[chosen, 1]] = middle
        return pieces


def inside_elements(mesh: TetrahedralMesh, side: np.ndarray, level: Level) -> np.ndarray:
    """Return a mask (m,) of the elements inside: by their vertices off the surface, or by their centroid if none is."""
    sides = side[mesh.elements]
    inside = (sides < 0).any(axis=1)
    flat = np.flatnonzero((sides == 0).all(axis=1))
    if len(flat):
        inside[flat] = level_values(level, mesh.element_vertices(flat).mean(axis=1)) < 0
    return inside
