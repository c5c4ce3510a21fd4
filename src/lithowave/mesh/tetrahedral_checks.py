"""Is a mesh of tetrahedra fit for waves? Elements not flat or folded, faces that fit together, one piece."""

from __future__ import annotations

import numpy as np

from lithowave.errors import InputError
from lithowave.mesh.mesh_checks import (
    ExteriorSurface,
    box_text,
    check_materials,
    check_unmerged,
    close_pairs,
    components,
    counted,
    element_text,
    place_text,
)
from lithowave.mesh.numbering import identify
from lithowave.mesh.tetrahedra import (
    FACES,
    TetrahedralMesh,
    cross,
    dot,
    edge_vectors,
    exterior_faces,
    face_vertices,
    triple_keys,
)

FARTHEST = 1e30  # no coordinate, m, is as large

# Elements of a smaller volume, in parts of a sixth of their longest edge cubed, are flat.
FLAT = 1e-10
# An exterior vertex this close to an exterior face, in parts of the face's size, hangs there; but not if this is more
# than a small part of the insphere of an element there: in flat elements vertices come close to faces.
HANGING, SMALL = 1e-4, 0.01
PORTION = 65536  # faces at a time that vertices close by are looked for

# On which side, +1 or -1, of each local face the fourth vertex lies in a right-handed element, seen from the face's
# vertices in rising order.
SIDES = np.array([1, -1, 1, -1], np.int8)


def check_tetrahedra(mesh: TetrahedralMesh, where: str = "mesh", ordered: np.ndarray | None = None) -> ExteriorSurface:
    """Refuse a mesh that cannot carry waves; its exterior faces where it can.

    where : name of the mesh in the errors. ordered : vertices (m, 4) of the elements in the order of the file, for
    their orientations; None where there was no file.

    InputError: no elements; a position that is not a number; a material without group; an element that is flat; a
    face of more than two elements; elements that are folded over their neighbours; an element whose orientation
    differs from that of most; vertices that coincide but are not merged; hanging nodes; parts that no face connects.
    """
    if not mesh.element_count:
        raise InputError(where, "there are no elements", "it must have tetrahedra")
    check_positions(mesh, where)
    check_materials(mesh, where)
    handedness = check_volumes(mesh, where)
    check_owners(mesh, where)
    inverted = inverted_elements(mesh, handedness, ordered)
    check_folds(mesh, handedness, inverted, where)
    check_orientations(mesh, inverted, where)
    surface = exterior_surface(mesh)
    check_doubles(mesh, surface, where)
    check_unmerged(mesh, surface, where)
    check_hanging(mesh, surface, where)
    check_connected(mesh, where)
    return surface


def check_positions(mesh: TetrahedralMesh, where: str) -> None:
    """InputError: a vertex is not at a finite position, or so far away that its distances squared overflow."""
    bad = ~(np.abs(mesh.vertices) < FARTHEST).all(axis=1)
    if bad.any():
        holders = np.flatnonzero(bad[mesh.elements].any(axis=1))
        got = counted(np.count_nonzero(bad), "vertex has", "vertices have") + " a position that is not a finite number"
        got += f"; the first belongs to element {mesh.element_id(int(holders[0]))}" if len(holders) else ""
        raise InputError(where, got, f"positions must be finite, below {FARTHEST:g} m")


# Shapes of the elements


def check_volumes(mesh: TetrahedralMesh, where: str) -> np.ndarray:
    """Whether each element is right-handed (+1) or left-handed (-1), its vertices in rising order.

    InputError: an element is flat: what volume it has may be rounding; the flattest is named.
    """
    handedness = np.empty(mesh.element_count, np.int8)
    flatness = np.empty(mesh.element_count)
    rounding = 8 * np.finfo(float).eps * np.abs(mesh.vertices).max()
    for part, edges in edge_vectors(mesh.vertices, mesh.elements):
        volumes = dot(cross(edges[0], edges[1]), edges[2])
        longest = np.max([dot(e, e) for e in (*edges, *(edges[[1, 2, 0]] - edges))], axis=0)
        handedness[part] = np.sign(volumes)
        limit = longest * (FLAT * np.sqrt(longest) + rounding)
        with np.errstate(invalid="ignore", divide="ignore"):
            flatness[part] = np.nan_to_num(np.abs(volumes) / limit, nan=0.0)
    flat = np.flatnonzero(flatness <= 1.0)
    if flat.size:
        worst = int(flat[np.argmin(flatness[flat])])
        corners = mesh.element_vertices(worst).tolist()
        listed = ", ".join("({:.6g}, {:.6g}, {:.6g})".format(*corner) for corner in corners)
        got = counted(flat.size, "element has", "elements have") + " no volume; the flattest is "
        got += f"{element_text(mesh, worst)} with corners {listed} m"
        raise InputError(where, got, "the four corners of an element must not lie in one plane")
    return handedness


def inverted_elements(mesh: TetrahedralMesh, handedness: np.ndarray, ordered: np.ndarray | None) -> np.ndarray:
    """Whether each element (m,) has, in the order of the file, the orientation that fewer have."""
    if ordered is None:
        return np.zeros(mesh.element_count, bool)
    odd = np.zeros(len(ordered), bool)
    for low in range(4):
        for high in range(low + 1, 4):
            odd ^= ordered[:, low] > ordered[:, high]
    left = (handedness < 0) ^ odd
    return left if 2 * np.count_nonzero(left) <= len(left) else ~left


def check_folds(mesh: TetrahedralMesh, handedness: np.ndarray, inverted: np.ndarray, where: str) -> None:
    """InputError: two elements lie on the same side of the face that they share."""
    sides = (handedness[:, None] * SIDES).reshape(-1)
    neighbors = mesh.neighbors.reshape(-1)
    folded = np.flatnonzero((neighbors >= 0) & (sides[neighbors] == sides))
    if folded.size:
        worst = folded[np.argmax(inverted[folded // 4])]
        one, other = int(worst) // 4, int(neighbors[worst]) // 4
        got = counted(folded.size // 2, "face has", "faces have") + " both elements on one side: "
        got += f"{element_text(mesh, one)} is folded over element {mesh.element_id(other)} at the face around "
        got += place_text(mesh.vertices[mesh.elements[one, FACES[worst % 4]]].mean(axis=0))
        hint = "Was a vertex moved through an element, or does an element stand in the mesh twice?"
        raise InputError(where, got, "two elements that share a face lie on its two sides", hint)


def check_orientations(mesh: TetrahedralMesh, inverted: np.ndarray, where: str) -> None:
    """InputError: some elements are right-handed in the file and others left-handed."""
    if inverted.any():
        first = element_text(mesh, int(np.argmax(inverted)))
        got = counted(np.count_nonzero(inverted), "element is", "elements are")
        got += f" inverted: of {mesh.element_count}, these have their corners in the other order; the first is {first}"
        raise InputError(where, got, "all elements must have one orientation", "Swap two of their corners")


# Faces


def check_owners(mesh: TetrahedralMesh, where: str) -> None:
    """InputError: a face belongs to more than two elements, or every element stands in the mesh twice."""
    try:
        neighbors = mesh.neighbors
    except InputError:
        keys = triple_keys(mesh.elements[:, FACES].reshape(-1, 3))
        found, owners = np.unique(keys, return_counts=True)
        holders = np.flatnonzero(keys == found[np.argmax(owners > 2)])
        listed = ", ".join(str(mesh.element_id(int(holder) // 4)) for holder in holders)
        corners = mesh.elements[holders[0] // 4, FACES[holders[0] % 4]]
        got = counted(np.count_nonzero(owners > 2), "face belongs", "faces belong") + " to more than two elements; "
        got += f"the first, around {place_text(mesh.vertices[corners].mean(axis=0))}, to elements {listed}"
        hint = "Do elements stand in the mesh twice, as in Gmsh files those of a volume in two physical groups?"
        raise InputError(where, got, "a face has one or two elements", hint) from None
    if (neighbors >= 0).all():
        raise InputError(where, "it has no exterior faces", hint="Does every element stand in the mesh twice?")


def exterior_surface(mesh: TetrahedralMesh) -> ExteriorSurface:
    """The exterior faces; their corners and edges (f, 3)."""
    faces = exterior_faces(mesh.neighbors)
    corners = face_vertices(mesh, faces)
    following = np.roll(corners, -1, axis=1)
    vertices, ranks = np.unique(corners, return_inverse=True)
    ranks = ranks.reshape(corners.shape)
    lengths = np.linalg.norm(mesh.vertices[following] - mesh.vertices[corners], axis=-1)
    shortest = np.full(len(vertices), np.inf)
    np.minimum.at(shortest, ranks.reshape(-1), lengths.reshape(-1))
    np.minimum.at(shortest, np.roll(ranks, -1, axis=1).reshape(-1), lengths.reshape(-1))
    edges, _ = identify(np.stack([corners, following], axis=-1).reshape(-1, 2))
    return ExteriorSurface(faces, corners, vertices, shortest, edges.reshape(-1, 3))


def check_doubles(mesh: TetrahedralMesh, surface: ExteriorSurface, where: str) -> None:
    """InputError: two exterior vertices lie at exactly one place.

    `check_unmerged` finds them too, and those that nearly do, but not where all elements are apart: by pairs.
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
        hint = "Merge them in the mesh generator (Gmsh: Coherence Mesh, or fragment the volumes before meshing)"
        raise InputError(where, got, "elements that touch must share their vertices", hint)


def check_hanging(mesh: TetrahedralMesh, surface: ExteriorSurface, where: str) -> None:
    """InputError: an exterior vertex lies on an exterior face or its edge and is none of its corners."""
    positions = mesh.vertices[surface.vertices]
    corners = mesh.vertices[surface.corners]
    centres = corners.mean(axis=1)
    reach = np.linalg.norm(corners - centres[:, None], axis=2).max(axis=1)
    sizes = np.ceil(np.log2(reach)).astype(np.int64)
    radii = mesh.insphere_radii()[surface.faces[:, 0]]
    around = np.full(len(positions), np.inf)
    np.minimum.at(around, np.searchsorted(surface.vertices, surface.corners), radii[:, None])
    for size in np.unique(sizes).tolist():
        alike = np.flatnonzero(sizes == size)
        for start in range(0, len(alike), PORTION):
            faces = alike[start : start + PORTION]
            for vertex, place in close_pairs(positions, centres[faces], 1.01 * float(reach[faces].max())):
                face = faces[place]
                near = np.linalg.norm(positions[vertex] - centres[face], axis=1) <= 1.01 * reach[face]
                near &= (surface.corners[face] != surface.vertices[vertex][:, None]).all(axis=1)
                vertex, face = vertex[near], face[near]
                limit = np.minimum(HANGING * reach[face], SMALL * np.minimum(radii[face], around[vertex]))
                hanging = triangle_distances(positions[vertex], corners[face]) <= limit
                if hanging.any():
                    raise hanging_node(mesh, positions[vertex[hanging][0]], surface.faces[face[hanging][0], 0], where)


def triangle_distances(points: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """How far (n,), m, points (n, 3) lie from triangles (n, 3, 3) in their plane's normal or beyond an edge's line."""
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


def hanging_node(mesh: TetrahedralMesh, position: np.ndarray, element: int, where: str) -> InputError:
    """The error for a vertex at this position that hangs on an element."""
    got = f"there are hanging nodes: a vertex at {place_text(position)} lies on an edge or face of "
    got += f"{element_text(mesh, int(element))} and is none of its corners"
    hint = "Do parts that were meshed apart meet? Fragment the volumes before meshing"
    return InputError(where, got, "elements that touch must share a whole face", hint)


# Pieces


def check_connected(mesh: TetrahedralMesh, where: str) -> None:
    """InputError: there are parts that no face connects; the smallest is told."""
    other = mesh.neighbors.reshape(-1) // 4
    own = np.arange(other.size) // 4
    pairs = other > own
    labels = components(mesh.element_count, own[pairs], other[pairs])
    parts, sizes = np.unique(labels, return_counts=True)
    if len(parts) > 1:
        part = np.flatnonzero(labels == parts[np.argmin(sizes)])
        got = f"it falls into {len(parts)} parts that share no face; the smallest has "
        got += counted(len(part), "element", "elements")
        got += f", among them element {mesh.element_id(int(part[0]))}, in "
        got += box_text(mesh.element_vertices(part).reshape(-1, 3))
        hint = "Are the volumes apart, or meshed without common faces where they touch?"
        raise InputError(where, got, "all elements must be connected through faces", hint)


def check_holes(mesh: TetrahedralMesh, surface: ExteriorSurface, where: str) -> None:
    """InputError: there are surfaces inside the outer one; the smallest is told."""
    edges = surface.edges.reshape(-1)
    face = np.arange(len(edges)) // 3
    first = np.empty(int(edges.max()) + 1, np.int64)
    first[edges[::-1]] = face[::-1]
    labels = components(len(surface.faces), first[edges], face)
    pieces, sizes = np.unique(labels, return_counts=True)
    if len(pieces) > 1:
        inner = labels == pieces[np.argmin(sizes)]
        box = box_text(mesh.vertices[surface.corners[inner]].reshape(-1, 3))
        got = f"it has {counted(len(pieces) - 1, 'hole', 'holes')}; the smallest has "
        got += f"{counted(np.count_nonzero(inner), 'face', 'faces')}, among them one of element "
        got += f"{mesh.element_id(int(surface.faces[np.argmax(inner), 0]))}, and is in {box}"
        hint = "Are elements missing there? If not, name its faces as a surface, and all others"
        raise InputError(where, got, "without named surfaces the exterior faces must make one surface", hint)
