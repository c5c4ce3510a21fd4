"""Layers of elements outside a mesh: faces of its plane sides, extruded along the normals of the sides.

The sides x_min and x_max are extruded first, then y_min and y_max of the extended mesh, then z_min and z_max, which
fills the edges and corners between sides. Faces that continue the exterior next to a side belong to its boundary there:
a free surface extends into the layer, constant along the normal of the side.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from lithowave.errors import InputError
from lithowave.mesh.box_planes import IN_PLANE, SIDES
from lithowave.mesh.checks import counted, place_text
from lithowave.mesh.hexahedra import NODE_STEPS, HexahedralMesh
from lithowave.mesh.numbering import CORNERS
from lithowave.mesh.numbering import FACES as HEXAHEDRON_FACES
from lithowave.mesh.tetrahedra import TetrahedralMesh, face_vertices, make_mesh

# Local faces of an extruded hexahedron beside the edges of the face from which it is extruded, in cyclic order from the
# edge along its first axis; its outer face.
BESIDE, OUTER = np.array([2, 1, 3, 0]), 5
CYCLE = np.array([[0, 1], [1, 2], [2, 3], [3, 0]])  # ends of the edges of a quadrilateral
PAIRS = np.array([[0, 1], [0, 2], [1, 2]])  # ends of the edges of a triangle


@dataclass(frozen=True)
class PlaneSides:
    """Exterior faces of a mesh, and those in the planes in which a layer begins.

    names : of the boundaries. faces : (f, 2), element and local face. name : (f,) index of the boundary of each face.
    side : (f,) index in `SIDES` of the plane from which a face is extruded; -1 for the others. ends : of the mesh along
    x, y, z, m.
    """

    names: tuple[str, ...]
    faces: np.ndarray
    name: np.ndarray
    side: np.ndarray
    ends: tuple[tuple[float, float], ...]

    @property
    def used(self) -> list[str]:
        """Sides with a layer."""
        return [SIDES[side] for side in range(len(SIDES)) if (self.side == side).any()]

    def elements(self, side: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the elements at a side and their local faces there."""
        element, local = self.faces[self.side == SIDES.index(side)].T
        return element, local


def outward_steps(edge: float, cells: int, growth: float, total: float | None = None) -> np.ndarray:
    """Return the distances (cells,), m, at which the cells of a layer end, next to cells with this edge.

    Each cell is `growth` times as wide as the one before; with a `total` thickness, the growth is adapted to it.
    """
    numbers = np.arange(1, cells + 1)
    if total is None:
        return edge * np.cumsum(growth**numbers)
    low, high = 0.0, growth * cells
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if edge * (middle**numbers).sum() < total else (low, middle)
    steps = edge * np.cumsum(low**numbers)
    return total / steps[-1] * steps


def face_grids(count: int) -> np.ndarray:
    """Return the local nodes [face, v, u] of the faces of hexahedra with 8 or 27 nodes: u along the lower of the two
    axes in the face."""
    steps, last = (CORNERS, 1) if count == 8 else (NODE_STEPS, 2)
    place = {tuple(step): node for node, step in enumerate(steps.tolist())}
    grids = np.empty((6, last + 1, last + 1), np.int64)
    for face in range(6):
        axis, high = divmod(face, 2)
        for v in range(last + 1):
            for u in range(last + 1):
                grids[face, v, u] = place[tuple(np.insert([u, v], axis, last * high).tolist())]
    return grids


def plane_sides(mesh: HexahedralMesh | TetrahedralMesh, absorbing: Mapping[str, bool]) -> PlaneSides:
    """Return the sides of a mesh on which a layer begins: those with absorbing faces.

    absorbing : True for each boundary of the mesh that absorbs.

    InputError: absorbing faces are in no plane of the bounding box, or another boundary has faces in the plane of one.
    """
    names = tuple(mesh.boundaries)
    faces = np.concatenate([np.zeros((0, 2), np.int64), *mesh.boundaries.values()])
    name = np.repeat(np.arange(len(names)), [len(mesh.boundaries[one]) for one in names])
    absorbs = np.array([absorbing[one] for one in names], bool)[name]
    positions = mesh.vertices[_face_nodes(mesh, faces)]
    low, high = mesh.vertices.min(axis=0), mesh.vertices.max(axis=0)
    tolerance = IN_PLANE * (high - low).max()
    ends = np.stack([low, high], axis=1)
    in_plane = (np.abs(positions[:, :, :, None] - ends) <= tolerance).all(axis=1).reshape(-1, len(SIDES))
    side = np.where(absorbs & in_plane.any(axis=1), in_plane.argmax(axis=1), -1)
    remedy = "make each absorbing side of the mesh one plane, x, y or z = constant"
    bent = np.flatnonzero(absorbs & (side < 0))
    if len(bent):
        x, y, z = (f"{letter} = {a:zg} to {b:zg} m" for letter, (a, b) in zip("xyz", ends.tolist(), strict=True))
        raise InputError(
            "boundaries.absorption",
            f"{counted(len(bent), 'absorbing face', 'absorbing faces')} of the mesh, in the surface "
            f"'{names[name[bent[0]]]}' around {place_text(positions[bent[0]].mean(axis=0))} first, "
            f"{'is' if len(bent) == 1 else 'are'} in no plane of its bounding box",
            f"a layer is added outside the planes {x}, {y}, {z}", remedy,
        )  # fmt: skip
    for one in np.unique(side[side >= 0]):
        others = np.flatnonzero(in_plane[:, one] & (side < 0))
        if len(others):
            raise InputError(
                "boundaries.absorption",
                f"only a part of the side {SIDES[one]} of the mesh absorbs: the face around "
                f"{place_text(positions[others[0]].mean(axis=0))} is in the surface '{names[name[others[0]]]}'",
                "a layer is added outside entire sides", remedy,
            )  # fmt: skip
    return PlaneSides(names, faces, name, side, tuple((float(a), float(b)) for a, b in ends))


def _face_nodes(mesh: HexahedralMesh | TetrahedralMesh, faces: np.ndarray) -> np.ndarray:
    """Return the nodes (f, 3, 4 or 9) of faces (f, 2)."""
    if isinstance(mesh, TetrahedralMesh):
        return face_vertices(mesh, faces)
    grids = face_grids(mesh.node_indices.shape[1])
    return mesh.node_indices[faces[:, :1], grids[faces[:, 1]].reshape(len(faces), -1)]


def hexahedron_sizes(mesh: HexahedralMesh, sides: PlaneSides) -> dict[str, float]:
    """Return the median size, m, of the elements at each side along its normal."""
    found = {}
    for side in sides.used:
        axis = SIDES.index(side) // 2
        element, local = sides.elements(side)
        near, far = (
            mesh.vertices[mesh.elements[element[:, None], HEXAHEDRON_FACES[face]], axis].mean(axis=1)
            for face in (local, local ^ 1)
        )
        found[side] = float(np.median(np.abs(far - near)))
    return found


def tetrahedron_sizes(mesh: TetrahedralMesh, sides: PlaneSides) -> dict[str, float]:
    """Return the median edge, m, of the cubes that twelve elements as large as those at each side would fill."""
    volumes = mesh.volumes()
    return {side: float(np.median(np.cbrt(12.0 * volumes[sides.elements(side)[0]]))) for side in sides.used}


def outer_edges(own: np.ndarray, others: np.ndarray, vertices: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the edges of some exterior faces at which they meet other exterior faces.

    own, others : vertices (f, edges, 2) of the edges of the faces. Returns the face and the place of each such edge in
    `own`, and the face in `others` that continues the exterior there.
    """
    keys, far = (np.sort(edges, axis=2) @ [vertices, 1] for edges in (own, others))
    distinct, place, counts = np.unique(keys, return_inverse=True, return_counts=True)
    face, edge = np.nonzero(counts[place.reshape(keys.shape)] == 1)
    order = np.argsort(far, axis=None, kind="stable")
    spots = order[np.searchsorted(far.ravel()[order], keys[face, edge])]
    return face, edge, spots // others.shape[1]


def extruded_hexahedra(
    mesh: HexahedralMesh, sides: PlaneSides, steps: Mapping[str, np.ndarray]
) -> tuple[HexahedralMesh, np.ndarray]:
    """Return the mesh with layers outside its sides, and the element (m,) of the mesh that each element continues.

    steps : for each side the distances from it, m, at which the elements of the layer end. The elements of the mesh
    come first; those of the layer have the material and, for messages, the ID of the element that they continue.
    """
    nodes, vertices = mesh.node_indices, mesh.vertices
    parent = np.arange(len(nodes))
    shell = np.column_stack([sides.faces, sides.name, sides.side])  # element, local face, boundary, side
    for side in sides.used:
        number = SIDES.index(side)
        here = shell[:, 3] == number
        own, others = shell[here], shell[~here]
        table, vertices = _levels(vertices, nodes, own, number, sides.ends, steps[side])
        added, count = _stacked(table, nodes.shape[1]), len(steps[side])
        edges = _corners(table[0])[:, CYCLE]
        outside = nodes[others[:, :1], HEXAHEDRON_FACES[others[:, 1]]][:, CYCLE]
        face, edge, beyond = outer_edges(edges, outside, len(vertices))
        first = len(nodes) + len(own) * np.arange(count)  # of the elements of each cell of the layer
        beside = np.column_stack([face, BESIDE[edge], others[beyond, 2:]])
        beside = np.tile(beside, (count, 1)) + np.repeat(first, len(face))[:, None] * [1, 0, 0, 0]
        outer = np.column_stack([first[-1] + np.arange(len(own)), np.full(len(own), OUTER), own[:, 2], own[:, 3]])
        shell = np.concatenate([others, beside, outer])
        parent = np.concatenate([parent, np.tile(parent[own[:, 0]], count)])
        nodes = np.concatenate([nodes, added])
    boundaries = {name: shell[shell[:, 2] == place, :2] for place, name in enumerate(sides.names)}
    return replace(
        mesh, vertices=vertices, elements=np.ascontiguousarray(nodes[:, :8]), materials=mesh.materials[parent],
        boundaries=boundaries, nodes=None if mesh.nodes is None else nodes,
        ids=None if mesh.ids is None else mesh.ids[parent],
    ), parent  # fmt: skip


def _levels(
    vertices: np.ndarray, nodes: np.ndarray, own: np.ndarray, side: int, ends: tuple, steps: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the nodes [level, face, v, u] of faces and of their copies outwards, and the vertices with the copies.

    A level is at each step, and with 27 nodes also between two steps. Faces are turned such that u, v and the outward
    normal are right-handed.
    """
    axis, high = divmod(side, 2)
    grids = nodes[own[:, 0, None, None], face_grids(nodes.shape[1])[own[:, 1]]]
    start, along_u, along_v = (vertices[grids[:, v, u]] for v, u in ((0, 0), (0, -1), (-1, 0)))
    outwards = np.cross(along_u - start, along_v - start)[:, axis] * (1 if high else -1) > 0
    grids = np.where(outwards[:, None, None], grids, grids.transpose(0, 2, 1))
    depths = np.asarray(steps, float)
    if nodes.shape[1] == 27:
        below = np.concatenate([[0.0], depths[:-1]])
        depths = np.column_stack([0.5 * (below + depths), depths]).ravel()
    return _copies(vertices, grids, axis, ends[axis][high] + (1 if high else -1) * depths)


def _copies(vertices: np.ndarray, used_by: np.ndarray, axis: int, planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the vertices [level, ...] of faces (...) in a plane and of copies in further planes, and all vertices."""
    used, place = np.unique(used_by, return_inverse=True)
    copies = np.tile(vertices[used], (len(planes), 1))
    copies[:, axis] = np.repeat(planes, len(used))
    numbers = np.concatenate([used[None], len(vertices) + np.arange(len(copies)).reshape(len(planes), -1)])
    return numbers[:, place.reshape(used_by.shape)], np.concatenate([vertices, copies])


def _stacked(table: np.ndarray, count: int) -> np.ndarray:
    """Return the nodes (elements, 8 or 27) of the hexahedra between levels of faces, cell by cell of the layer."""
    steps, last = (CORNERS, 1) if count == 8 else (NODE_STEPS, 2)
    i, j, k = steps.T
    cells = [table[first + k, :, j, i].T for first in range(0, len(table) - 1, last)]
    return np.concatenate(cells)


def _corners(grids: np.ndarray) -> np.ndarray:
    """Return the corners (f, 4) of faces [face, v, u] in cyclic order, u first."""
    return np.stack([grids[:, 0, 0], grids[:, 0, -1], grids[:, -1, -1], grids[:, -1, 0]], axis=1)


def extruded_tetrahedra(
    mesh: TetrahedralMesh, sides: PlaneSides, steps: Mapping[str, np.ndarray]
) -> tuple[TetrahedralMesh, np.ndarray]:
    """Return the mesh with layers outside its sides, and the element (m,) of the mesh that each element continues.

    See `extruded_hexahedra`. Each triangle is extruded to prisms, and each prism is split into three tetrahedra. Its
    sides are split from the inner end of the edge at the vertex of lower index to the outer end of the other edge, so
    that adjacent prisms share faces.
    """
    vertices, elements = mesh.vertices, mesh.elements
    parent = np.arange(len(elements))
    triangles, owner = face_vertices(mesh, sides.faces), sides.faces[:, 0]  # owner: whose element a face continues
    label = np.column_stack([sides.name, sides.side])
    for side in sides.used:
        axis, high = divmod(SIDES.index(side), 2)
        here = label[:, 1] == SIDES.index(side)
        own, others = np.sort(triangles[here], axis=1), triangles[~here]
        planes = sides.ends[axis][high] + (1 if high else -1) * steps[side]
        table, vertices = _copies(vertices, own, axis, planes)
        face, edge, beyond = outer_edges(own[:, PAIRS], others[:, PAIRS], len(vertices))
        beside = cut_between(table[:, :, PAIRS][:, face, edge])
        triangles = np.concatenate([others, beside, table[-1]])
        owner = np.concatenate([owner[~here], np.tile(owner[here][face], 2 * len(planes)), owner[here]])
        parent = np.concatenate([parent, np.tile(owner[-len(own) :], 3 * len(planes))])
        label = np.concatenate([label[~here], np.tile(label[~here][beyond], (2 * len(planes), 1)), label[here]])
        elements = np.concatenate([elements, prisms(table)])
    boundaries = {name: triangles[label[:, 0] == place] for place, name in enumerate(sides.names)}
    ids = None if mesh.ids is None else mesh.ids[parent]
    return make_mesh(vertices, elements, mesh.materials[parent], boundaries, ids, mesh.groups), parent


def prisms(table: np.ndarray) -> np.ndarray:
    """Return the tetrahedra (n, 4) between levels of triangles [level, triangle, 3]: three of each prism."""
    found = []
    for inner, outer in zip(table[:-1], table[1:], strict=True):
        (a, b, c), (d, e, f) = inner.T, outer.T
        found += [np.stack(corners, axis=1) for corners in ((a, b, c, f), (a, b, e, f), (a, d, e, f))]
    return np.concatenate(found)


def cut_between(table: np.ndarray) -> np.ndarray:
    """Return the triangles (n, 3) between levels of edges [level, edge, 2]: two of each quadrilateral."""
    found = []
    for inner, outer in zip(table[:-1], table[1:], strict=True):
        (a, b), (c, d) = inner.T, outer.T
        found += [np.stack(corners, axis=1) for corners in ((a, b, d), (a, c, d))]
    return np.concatenate(found)
