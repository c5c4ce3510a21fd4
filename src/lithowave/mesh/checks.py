"""Checks that meshes of hexahedra and of tetrahedra have in common, and the text of their errors.

A mesh must have elements with finite positions and named materials, vertices that are merged, one connected component,
and, unless surfaces are named, no holes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lithowave.errors import InputError
from lithowave.mesh.hexahedra import HexahedralMesh
from lithowave.mesh.numbering import FACES, identify
from lithowave.mesh.tetrahedra import TETRAHEDRON_FACES, TetrahedralMesh

Mesh = HexahedralMesh | TetrahedralMesh

# Vertices closer than this fraction of their shortest edge are duplicates that were not merged.
UNMERGED = 1e-6
MERGE_HINT = "Merge them in the mesh generator (Gmsh: Coherence Mesh, or fragment the volumes before meshing)"


def local_faces(mesh: Mesh) -> np.ndarray:
    """Return the local vertices (faces, 3 or 4) of the faces of an element."""
    return FACES if isinstance(mesh, HexahedralMesh) else TETRAHEDRON_FACES


def face_corners(mesh: Mesh, faces: np.ndarray) -> np.ndarray:
    """Return the vertices (f, 3 or 4) of faces (f, 2), element and local face, in cyclic order."""
    return mesh.elements[faces[:, :1], local_faces(mesh)[faces[:, 1]]]


# Text


def place_text(position: np.ndarray) -> str:
    """Format a position."""
    return "x = {:z.6g} m, y = {:z.6g} m, z = {:z.6g} m".format(*np.asarray(position).tolist())


def counted(count: int, one: str, many: str) -> str:
    """Format a count with the singular or plural noun."""
    return f"{count} {one if count == 1 else many}"


def center(mesh: Mesh, element: int) -> np.ndarray:
    """Return the mean position (3,), m, of the corners of an element."""
    return mesh.vertices[mesh.elements[element]].mean(axis=0)


def element_text(mesh: Mesh, element: int) -> str:
    """Format an element by its ID and the position of its center."""
    return f"element {mesh.element_id(element)} (center at {place_text(center(mesh, element))})"


def face_text(mesh: Mesh, face: np.ndarray) -> str:
    """Format a face (element, local face) by its element and its center."""
    middle = mesh.vertices[face_corners(mesh, face[None])[0]].mean(axis=0)
    return f"that of element {mesh.element_id(int(face[0]))} around {place_text(middle)}"


def corners_text(mesh: Mesh, element: int) -> str:
    """Format the corners of an element."""
    corners = mesh.vertices[mesh.elements[element]].tolist()
    return ", ".join("({:.6g}, {:.6g}, {:.6g})".format(*corner) for corner in corners)


def box_text(positions: np.ndarray) -> str:
    """Format the bounding box of positions (n, 3)."""
    ends = zip("xyz", positions.min(axis=0).tolist(), positions.max(axis=0).tolist(), strict=True)
    return ", ".join(f"{axis} from {low:z.6g} to {high:z.6g} m" for axis, low, high in ends)


def described(mesh: Mesh, element: int) -> dict[str, object]:
    """Return the index, the ID in the file and the center (x, y, z), m, of an element."""
    return {"element": element, "id": mesh.element_id(element), "centre": center(mesh, element).tolist()}


# Positions and materials


def check_positions(mesh: Mesh, where: str, limit: float) -> None:
    """InputError: there are no elements, or the position of a vertex is not finite or not below the limit, m."""
    if not mesh.element_count:
        shape = "hexahedra" if isinstance(mesh, HexahedralMesh) else "tetrahedra"
        raise InputError(where, "there are no elements", f"it must have {shape}")
    bad = ~(np.abs(mesh.vertices) < limit).all(axis=1)
    if bad.any():
        nodes = mesh.node_indices if isinstance(mesh, HexahedralMesh) else mesh.elements
        holders = np.flatnonzero(bad[nodes].any(axis=1))
        got = counted(np.count_nonzero(bad), "vertex has", "vertices have") + " a position that is not a finite number"
        got += f"; the first belongs to element {mesh.element_id(int(holders[0]))}" if len(holders) else ""
        below = "" if np.isinf(limit) else f", below {limit:g} m"
        raise InputError(where, got, f"positions must be finite{below or ', in m'}")


def check_materials(mesh: Mesh, where: str) -> None:
    """InputError: a material has no name although the mesh has material names."""
    bad = (mesh.materials < 0) | (mesh.materials >= len(mesh.groups))
    if mesh.groups and bad.any():
        element = int(np.argmax(bad))
        got = f"material {mesh.materials[element]} of {element_text(mesh, element)} has no group name"
        allowed = f"there are {len(mesh.groups)} groups, from 0: {', '.join(mesh.groups)}"
        raise InputError(where, got, allowed)


# Exterior faces


def crowded_face(mesh: Mesh, count: int, holders: np.ndarray, where: str, hint: str) -> InputError:
    """Return the error for faces of more than two elements; holders : the first, (element, local face) in each."""
    listed = ", ".join(str(mesh.element_id(element)) for element in holders[:, 0].tolist())
    middle = mesh.vertices[face_corners(mesh, holders[:1])[0]].mean(axis=0)
    got = counted(count, "face belongs", "faces belong") + " to more than two elements; the first, around "
    return InputError(where, f"{got}{place_text(middle)}, to elements {listed}", "a face has one or two elements", hint)


@dataclass(frozen=True)
class ExteriorSurface:
    """Exterior faces of a mesh and their vertices.

    faces : element, local face (f, 2). corners : their vertices (f, 3 or 4), in cyclic order. vertices : unique
    vertices (v,).
    shortest : length (v,), m, of the shortest exterior edge at each vertex. edges : index (f, 3 or 4) of the edge from
    each corner to the next.
    """

    faces: np.ndarray
    corners: np.ndarray
    vertices: np.ndarray
    shortest: np.ndarray
    edges: np.ndarray

    @classmethod
    def of(cls, mesh: Mesh, faces: np.ndarray) -> ExteriorSurface:
        """Return the surface of these exterior faces of a mesh."""
        corners = face_corners(mesh, faces)
        following = np.roll(corners, -1, axis=1)
        vertices, ranks = np.unique(corners, return_inverse=True)
        ranks = ranks.reshape(corners.shape)
        lengths = np.linalg.norm(mesh.vertices[following] - mesh.vertices[corners], axis=-1)
        shortest = np.full(len(vertices), np.inf)
        np.minimum.at(shortest, ranks.reshape(-1), lengths.reshape(-1))
        np.minimum.at(shortest, np.roll(ranks, -1, axis=1).reshape(-1), lengths.reshape(-1))
        edges, _ = identify(np.stack([corners, following], axis=-1).reshape(-1, 2))
        return cls(faces, corners, vertices, shortest, edges.reshape(corners.shape))


def close_pairs(points: np.ndarray, others: np.ndarray, distance: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of all pairs (point, other) that are at most this distance, m, apart."""
    from scipy.spatial import cKDTree

    pairs = cKDTree(points).sparse_distance_matrix(cKDTree(others), distance, output_type="ndarray")
    return pairs["i"], pairs["j"]


def check_unmerged(mesh: Mesh, surface: ExteriorSurface, where: str) -> None:
    """InputError: two exterior vertices are at the same position (interior ones of a conforming mesh cannot be)."""
    positions = mesh.vertices[surface.vertices]
    doubled = np.zeros(len(positions), bool)
    first, second = close_pairs(positions, positions, UNMERGED * float(surface.shortest.max()))
    limit = UNMERGED * np.minimum(surface.shortest[first], surface.shortest[second])
    near = np.linalg.norm(positions[first] - positions[second], axis=1) <= limit
    doubled[first[near & (first < second)]] = True
    if doubled.any():
        got = counted(np.count_nonzero(doubled), "vertex coincides", "vertices coincide")
        got += f" with another that is not the same; the first is at {place_text(positions[np.argmax(doubled)])}"
        raise InputError(where, got, "elements that touch must share their vertices", MERGE_HINT)


def hanging_node(mesh: Mesh, position: np.ndarray, element: int, where: str, hint: str) -> InputError:
    """Return the error for a hanging node at this position on an element."""
    got = f"there are hanging nodes: a vertex at {place_text(position)} is on an edge or face of "
    got += f"{element_text(mesh, int(element))} and is not one of its corners"
    return InputError(where, got, "elements that touch must share an entire face", hint)


# Components


def components(count: int, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the component (count,) of each item, connected by pairs (first, second), in order of their first items."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import connected_components

    pairs = np.ones(len(first)), (first.astype(np.int32), second.astype(np.int32))
    return connected_components(csr_matrix(pairs, (count, count)), directed=False)[1]


def smallest_component(count: int, first: np.ndarray, second: np.ndarray) -> tuple[int, np.ndarray]:
    """Return the number of `components` and the items of the smallest one."""
    labels = components(count, first, second)
    numbers, sizes = np.unique(labels, return_counts=True)
    return len(numbers), np.flatnonzero(labels == numbers[np.argmin(sizes)])


def check_connected(mesh: Mesh, first: np.ndarray, second: np.ndarray, where: str) -> None:
    """InputError: there are components that no face connects; the smallest is reported.

    first, second : the elements of the faces that two elements share.
    """
    count, elements = smallest_component(mesh.element_count, first, second)
    if count > 1:
        got = f"it consists of {count} components that share no face; the smallest has "
        got += f"{counted(len(elements), 'element', 'elements')}, among them element "
        got += f"{mesh.element_id(int(elements[0]))}, in "
        got += box_text(mesh.vertices[mesh.elements[elements]].reshape(-1, 3))
        hint = "Check for volumes that do not touch, or touch without common faces"
        raise InputError(where, got, "all elements must be connected through faces", hint)


def check_holes(mesh: Mesh, surface: ExteriorSurface, where: str) -> None:
    """InputError: there are surfaces inside the outer one; the smallest is reported."""
    edges = surface.edges.reshape(-1)
    face = np.arange(len(edges)) // surface.edges.shape[1]
    first = np.empty(int(edges.max()) + 1, np.int64)
    first[edges[::-1]] = face[::-1]
    count, inner = smallest_component(len(surface.faces), first[edges], face)
    if count > 1:
        got = f"it has {counted(count - 1, 'hole', 'holes')}; the smallest has {counted(len(inner), 'face', 'faces')}, "
        got += f"among them one of element {mesh.element_id(int(surface.faces[inner[0], 0]))}, and is in "
        got += box_text(mesh.vertices[surface.corners[inner]].reshape(-1, 3))
        allowed, hint = "the exterior faces must form one surface", "Add the missing elements"
        if not isinstance(mesh, HexahedralMesh):
            allowed = f"without named surfaces {allowed}"
            hint += "; if none are missing, name the faces of the hole as a surface, and all others"
        raise InputError(where, got, allowed, hint)
