"""Checks and quality measures of tetrahedral meshes.

A mesh must have no flat or folded elements, conforming faces and one connected component. The quality is measured by
edges, inspheres, dihedral angles and volumes.
"""

from __future__ import annotations

import numpy as np

from lithowave.backends.loops import exact_part, over_parts
from lithowave.errors import InputError
from lithowave.mesh.checks import (
    MERGE_HINT,
    ExteriorSurface,
    check_connected,
    check_materials,
    check_positions,
    check_unmerged,
    close_pairs,
    corners_text,
    counted,
    crowded_face,
    element_text,
    hanging_node,
    place_text,
)
from lithowave.mesh.tetrahedra import (
    TETRAHEDRON_FACES,
    TetrahedralMesh,
    cross,
    dot,
    exterior_triangles,
    over_edges,
    triple_keys,
)

FARTHEST = 1e30  # coordinates, m, must be smaller

# Elements of a smaller volume, as a fraction of a sixth of their longest edge cubed, are flat.
FLAT = 1e-10
# An exterior vertex this close to an exterior face, as a fraction of the face's size, is a hanging node, unless this is
# more than a small fraction of the insphere of an element there: in flat elements vertices are close to faces.
HANGING, SMALL = 1e-4, 0.01
PORTION = 65536  # faces per batch of the search for vertices close to them

# Side, +1 or -1, of each local face on which the fourth vertex of a right-handed element is, seen from the face's
# vertices in ascending order.
SIDES = np.array([1, -1, 1, -1], np.int8)


def check_tetrahedra(mesh: TetrahedralMesh, where: str = "mesh", ordered: np.ndarray | None = None) -> ExteriorSurface:
    """Check a mesh and return its exterior faces; raise an error if waves cannot be simulated in it.

    where : name of the mesh in the errors. ordered : vertices (m, 4) of the elements in the order of the file, for
    their orientations; None for a generated mesh.

    InputError: no elements; a position that is not finite; a material without a group; a flat element; a face of more
    than two elements; elements folded over their neighbors; an element whose orientation differs from that of the
    majority; coincident vertices that are not merged; hanging nodes; components that no face connects.
    """
    check_positions(mesh, where, FARTHEST)
    check_materials(mesh, where)
    handedness = check_volumes(mesh, where)
    check_owners(mesh, where)
    inverted = inverted_elements(mesh, handedness, ordered)
    check_folds(mesh, handedness, inverted, where)
    check_orientations(mesh, inverted, where)
    surface = ExteriorSurface.of(mesh, exterior_triangles(mesh.neighbors))
    check_doubles(mesh, surface, where)
    check_unmerged(mesh, surface, where)
    check_hanging(mesh, surface, where)
    other = mesh.neighbors.reshape(-1) // 4
    element = np.arange(other.size) // 4
    pairs = other > element
    check_connected(mesh, element[pairs], other[pairs], where)
    return surface


# Element shapes


def check_volumes(mesh: TetrahedralMesh, where: str) -> np.ndarray:
    """Return the handedness of each element, right (+1) or left (-1), with its vertices in ascending order.

    InputError: an element is flat, i.e. its volume may be round-off; the flattest is named.
    """
    handedness = np.empty(mesh.element_count, np.int8)
    flatness = np.empty(mesh.element_count)
    rounding = 8 * np.finfo(float).eps * np.abs(mesh.vertices).max()

    def compute(part: slice, edges: np.ndarray) -> None:
        volumes = dot(cross(edges[0], edges[1]), edges[2])
        longest = np.max([dot(e, e) for e in (*edges, *(edges[[1, 2, 0]] - edges))], axis=0)
        handedness[part] = np.sign(volumes)
        limit = longest * (FLAT * np.sqrt(longest) + rounding)
        with np.errstate(invalid="ignore", divide="ignore"):
            flatness[part] = np.nan_to_num(np.abs(volumes) / limit, nan=0.0)

    over_edges(compute, mesh.vertices, mesh.elements)
    flat = np.flatnonzero(flatness <= 1.0)
    if flat.size:
        worst = int(flat[np.argmin(flatness[flat])])
        got = counted(flat.size, "element has", "elements have") + " no volume; the flattest is "
        got += f"{element_text(mesh, worst)} with corners {corners_text(mesh, worst)} m"
        raise InputError(where, got, "the four corners of an element must not be in one plane")
    return handedness


def inverted_elements(mesh: TetrahedralMesh, handedness: np.ndarray, ordered: np.ndarray | None) -> np.ndarray:
    """Return a mask (m,) of the elements that have, in the order of the file, the orientation of the minority."""
    if ordered is None:
        return np.zeros(mesh.element_count, bool)
    odd = np.zeros(len(ordered), bool)
    for low in range(4):
        for high in range(low + 1, 4):
            odd ^= ordered[:, low] > ordered[:, high]
    left = (handedness < 0) ^ odd
    return left if 2 * np.count_nonzero(left) <= len(left) else ~left


def check_folds(mesh: TetrahedralMesh, handedness: np.ndarray, inverted: np.ndarray, where: str) -> None:
    """InputError: two elements are on the same side of the face that they share."""
    sides = (handedness[:, None] * SIDES).reshape(-1)
    neighbors = mesh.neighbors.reshape(-1)
    folded = np.flatnonzero((neighbors >= 0) & (sides[neighbors] == sides))
    if folded.size:
        worst = folded[np.argmax(inverted[folded // 4])]
        one, other = int(worst) // 4, int(neighbors[worst]) // 4
        got = counted(folded.size // 2, "face has", "faces have") + " both elements on one side: "
        got += f"{element_text(mesh, one)} is folded over element {mesh.element_id(other)} at the face around "
        got += place_text(mesh.vertices[mesh.elements[one, TETRAHEDRON_FACES[worst % 4]]].mean(axis=0))
        hint = "Check for a vertex that was moved through an element, and for duplicate elements"
        raise InputError(where, got, "two elements that share a face must be on its two sides", hint)


def check_orientations(mesh: TetrahedralMesh, inverted: np.ndarray, where: str) -> None:
    """InputError: some elements are right-handed in the file and others left-handed."""
    if inverted.any():
        first = element_text(mesh, int(np.argmax(inverted)))
        got = counted(np.count_nonzero(inverted), "element is", "elements are")
        got += f" inverted: of {mesh.element_count}, these have their corners in the other order; the first is {first}"
        raise InputError(where, got, "all elements must have one orientation", "Swap two of their corners")


# Faces


def check_owners(mesh: TetrahedralMesh, where: str) -> None:
    """InputError: a face belongs to more than two elements, or the mesh contains every element twice."""
    try:
        neighbors = mesh.neighbors
    except InputError:
        keys = triple_keys(mesh.elements[:, TETRAHEDRON_FACES].reshape(-1, 3))
        known, owners = np.unique(keys, return_counts=True)
        holders = np.flatnonzero(keys == known[np.argmax(owners > 2)])
        hint = "Remove duplicate elements, which Gmsh writes for a volume in two physical groups"
        pairs = np.column_stack(np.divmod(holders, 4))
        raise crowded_face(mesh, np.count_nonzero(owners > 2), pairs, where, hint) from None
    if (neighbors >= 0).all():
        raise InputError(where, "it has no exterior faces", hint="Remove duplicate elements from the mesh")


def check_doubles(mesh: TetrahedralMesh, surface: ExteriorSurface, where: str) -> None:
    """InputError: two exterior vertices have exactly the same position.

    `check_unmerged` also finds these and nearly equal ones, but needs too many pairs if all elements are separate.
    """
    positions = mesh.vertices[surface.vertices]
    order = np.lexsort(positions.T)
    equal = np.flatnonzero((positions[order[1:]] == positions[order[:-1]]).all(axis=1))
    if equal.size:
        first = equal[np.argmin(order[equal])]
        pair = surface.vertices[order[first : first + 2]]
        holders = [surface.faces[np.argmax((surface.corners == vertex).any(axis=1)), 0] for vertex in pair]
        got = counted(equal.size, "vertex coincides", "vertices coincide") + " with another that is not the same; "
        got += f"the first is at {place_text(mesh.vertices[pair[0]])}, of the elements "
        got += " and ".join(str(mesh.element_id(int(element))) for element in holders)
        raise InputError(where, got, "elements that touch must share their vertices", MERGE_HINT)


def check_hanging(mesh: TetrahedralMesh, surface: ExteriorSurface, where: str) -> None:
    """InputError: an exterior vertex is on an exterior face or its edge and is not one of its corners."""
    positions = mesh.vertices[surface.vertices]
    corners = mesh.vertices[surface.corners]
    centers = corners.mean(axis=1)
    reach = np.linalg.norm(corners - centers[:, None], axis=2).max(axis=1)
    sizes = np.ceil(np.log2(reach)).astype(np.int64)
    radii = mesh.insphere_radii()[surface.faces[:, 0]]
    around = np.full(len(positions), np.inf)
    np.minimum.at(around, np.searchsorted(surface.vertices, surface.corners), radii[:, None])
    for size in np.unique(sizes).tolist():
        alike = np.flatnonzero(sizes == size)
        for start in range(0, len(alike), PORTION):
            faces = alike[start : start + PORTION]
            vertex, place = close_pairs(positions, centers[faces], 1.01 * float(reach[faces].max()))
            face = faces[place]
            near = np.linalg.norm(positions[vertex] - centers[face], axis=1) <= 1.01 * reach[face]
            near &= (surface.corners[face] != surface.vertices[vertex][:, None]).all(axis=1)
            vertex, face = vertex[near], face[near]
            limit = np.minimum(HANGING * reach[face], SMALL * np.minimum(radii[face], around[vertex]))
            hanging = triangle_distances(positions[vertex], corners[face]) <= limit
            if hanging.any():
                element = surface.faces[face[hanging][0], 0]
                hint = "Fragment the volumes before meshing, if they were meshed separately"
                raise hanging_node(mesh, positions[vertex[hanging][0]], element, where, hint)


def triangle_distances(points: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """Return distances (n,), m, of points (n, 3) to triangles (n, 3, 3): along the normal or beyond an edge's line."""
    a, b, c = corners.transpose(1, 2, 0)
    p = points.T
    normal = cross(b - a, c - a)
    with np.errstate(invalid="ignore", divide="ignore"):
        normal /= np.sqrt(dot(normal, normal))
        found = np.abs(dot(normal, p - a))
        for start, end in ((a, b), (b, c), (c, a)):
            along = end - start
            outwards = cross(along, normal)
            found = np.fmax(found, dot(outwards, p - start) / np.sqrt(dot(along, along)))
    return found


MEASURES = ("shortest_edge", "longest_edge", "radius_ratio", "dihedral_angle", "volume")
PART = 8192  # elements that a thread measures at a time


def element_measures(mesh: TetrahedralMesh) -> dict[str, np.ndarray]:
    """Return the `MEASURES` (m,) of each element.

    shortest_edge, longest_edge : m.
    radius_ratio : radius of the sphere inside the element over the longest edge; 0.204 if regular, 0 without volume.
    dihedral_angle : smallest angle between two faces, degrees; 70.5 if regular.
    volume : m3.
    """
    found = np.empty((len(MEASURES), mesh.element_count))
    over_parts(lambda part: measure(part.start, part.stop, mesh.vertices, mesh.elements, found), found.shape[1], PART)
    measures = dict(zip(MEASURES, found, strict=True))
    measures["dihedral_angle"] = np.degrees(np.arccos(np.clip(measures["dihedral_angle"], -1, 1)))
    return measures


@exact_part
def measure(first, end, vertices, elements, found):  # pragma: no cover - compiled
    """Compute `MEASURES` (measures, elements) of some elements; of the angle its cosine."""
    tiny = 2.2250738585072014e-308
    edge, normal, area = np.empty((6, 3)), np.empty((4, 3)), np.empty(4)
    for element in range(first, end):
        for axis in range(3):
            start = vertices[elements[element, 0], axis]
            for one in range(3):
                edge[one, axis] = vertices[elements[element, one + 1], axis] - start
            edge[3, axis] = edge[1, axis] - edge[0, axis]
            edge[4, axis] = edge[2, axis] - edge[0, axis]
            edge[5, axis] = edge[2, axis] - edge[1, axis]
        shortest, longest = np.inf, 0.0
        for one in range(6):
            square = _dot(edge[one], edge[one])
            shortest, longest = min(shortest, square), max(longest, square)
        for axis in range(3):
            normal[0, axis] = _cross(edge[0], edge[1], axis)
            normal[1, axis] = _cross(edge[2], edge[0], axis)
            normal[2, axis] = _cross(edge[1], edge[2], axis)
            normal[3, axis] = -(normal[0, axis] + normal[1, axis] + normal[2, axis])
        surface = 0.0
        for face in range(4):
            area[face] = np.sqrt(_dot(normal[face], normal[face]))
            surface += area[face]
        volume = abs(_dot(normal[0], edge[2]))
        largest = -np.inf
        for face in range(4):
            for other in range(face + 1, 4):
                cosine = -_dot(normal[face], normal[other]) / max(area[face] * area[other], tiny)
                largest = max(largest, cosine)
        found[0, element], found[1, element] = np.sqrt(shortest), np.sqrt(longest)
        found[2, element] = volume / max(surface, tiny) / max(found[1, element], tiny)
        found[3, element], found[4, element] = largest, volume / 6


@exact_part
def _cross(a, b, axis):  # pragma: no cover - compiled
    return a[axis - 2] * b[axis - 1] - a[axis - 1] * b[axis - 2]


@exact_part
def _dot(a, b):  # pragma: no cover - compiled
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
