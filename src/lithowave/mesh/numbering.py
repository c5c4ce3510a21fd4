"""Global indices of the Gauss-Lobatto-Legendre points of hexahedra, from the indices of their corners only.

An element's points are ordered [k, j, i], i along the first local axis and fastest. Points on a corner, edge or face
belong to all elements that contain it. Edges and faces are identified by the sorted indices of their corners, which
also fix the order of the points on them: from the corner of lowest index towards the lower of its neighbors.
Coordinates are not compared.
"""

from __future__ import annotations

import numpy as np

# Local coordinates (i, j, k), 0 or 1, of the eight corners: the order of VTK and Gmsh.
CORNERS = np.array(
    [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1], [1, 1, 1], [0, 1, 1]], dtype=np.int64
)

# Local corners of the six faces: low and high side along i, j, k, in cyclic order: the first step along the lower, the
# second along the higher of the two axes in the face.
FACES = np.array(
    [[0, 3, 7, 4], [1, 2, 6, 5], [0, 1, 5, 4], [3, 2, 6, 7], [0, 1, 2, 3], [4, 5, 6, 7]], dtype=np.int64
)

# Local ends of the twelve edges: four along i, four along j, four along k, each from its low to its high end.
EDGES = np.array(
    [[0, 1], [3, 2], [4, 5], [7, 6], [0, 3], [1, 2], [4, 7], [5, 6], [0, 4], [1, 5], [3, 7], [2, 6]], dtype=np.int64
)

CHUNK = 4096  # elements that are numbered at a time: their points stay in the cache


def identify(corners: np.ndarray) -> tuple[np.ndarray, int]:
    """Return an index, from 0, for each distinct set of vertices in the rows of `corners` (n, 2 or 4); their number.

    Indices ascend with the sorted vertices.
    """
    tuples = np.sort(corners, axis=1)
    factor = int(tuples.max(initial=0)) + 1
    keys = [tuples[:, first] * factor + tuples[:, first + 1] for first in range(0, tuples.shape[1], 2)]
    order = np.argsort(keys[0], kind="stable") if len(keys) == 1 else np.lexsort(keys[::-1])
    new = np.zeros(len(order), bool)
    for key in keys:
        ordered = key[order]
        new[1:] |= ordered[1:] != ordered[:-1]
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.cumsum(new)
    return numbers, int(new.sum()) + min(1, len(order))


def number_faces(elements: np.ndarray) -> tuple[np.ndarray, int]:
    """Return an index for each local face, (elements, 6), equal for shared faces, and the number of faces."""
    numbers, count = identify(elements[:, FACES].reshape(-1, 4))
    return numbers.reshape(-1, 6), count


def exterior_faces(elements: np.ndarray) -> np.ndarray:
    """Return the exterior faces (element, local face), in element order.

    ValueError: a face belongs to more than two elements.
    """
    numbers, count = number_faces(elements)
    owners = np.bincount(numbers.ravel(), minlength=count)
    if owners.max(initial=0) > 2:
        element, face = np.argwhere(owners[numbers] > 2)[0]
        corners = elements[element, FACES[face]].tolist()
        raise ValueError(f"more than two elements share the face of vertices {corners} of element {element}")
    return np.argwhere(owners[numbers] == 1)


def face_orders(inner: int) -> np.ndarray:
    """Return indices [orientation, v, u] of the points inside a face in the order that its vertex indices fix.

    inner : points inside the face along a side. The orientation is 2 x (the corner of lowest index) + (1 if the next
    corner is lower than the previous one).
    """
    v, u = np.indices((inner, inner))
    orders = np.empty((8, inner, inner), np.int64)
    for corner, (high_u, high_v) in enumerate(((0, 0), (1, 0), (1, 1), (0, 1))):
        along_u = inner - 1 - u if high_u else u
        along_v = inner - 1 - v if high_v else v
        for next_is_lower in (0, 1):
            starts_along_u = next_is_lower == (corner % 2 == 0)  # from corners 0 and 2 the next one is along u
            first, second = (along_u, along_v) if starts_along_u else (along_v, along_u)
            orders[2 * corner + next_is_lower] = second * inner + first
    return orders


def face_orientations(corners: np.ndarray) -> np.ndarray:
    """Return the orientation, 0 to 7 as in `face_orders`, of faces given by their vertices (..., 4)."""
    lowest = np.argmin(corners, axis=-1)[..., None]
    following = np.take_along_axis(corners, (lowest + 1) % 4, -1)
    previous = np.take_along_axis(corners, (lowest + 3) % 4, -1)
    return (2 * lowest + (following < previous))[..., 0]


def side(coordinate: int, degree: int) -> int | slice:
    """Return the points at the low (0) or high (1) end of a local axis, or between the ends (-1)."""
    return (0, degree)[coordinate] if coordinate >= 0 else slice(1, degree)


def entity_points(corners: np.ndarray, degree: int) -> tuple[int | slice, ...]:
    """Return the index [k, j, i] of the points inside the edge or face with these local corners."""
    places = CORNERS[corners]
    fixed = np.where((places == places[0]).all(axis=0), places[0], -1)
    return tuple(side(int(coordinate), degree) for coordinate in fixed[::-1])


def raw_numbers(elements: np.ndarray, edges: np.ndarray, faces: np.ndarray, bases: tuple[int, ...]) -> np.ndarray:
    """Return unique but not contiguous numbers [element, k, j, i] of the points of some elements; 0 inside the
    elements.

    edges, faces : indices of their edges and faces. bases : degree, first number of the points inside edges and inside
    faces.
    """
    degree, edge_base, face_base = bases
    inner = degree - 1
    numbers = np.zeros((len(elements), degree + 1, degree + 1, degree + 1), np.int64)
    for corner, (i, j, k) in enumerate(CORNERS * degree):
        numbers[:, k, j, i] = elements[:, corner]
    if not inner:
        return numbers
    places = np.stack([np.arange(inner), np.arange(inner)[::-1]])
    for edge, (low, high) in enumerate(EDGES):
        turned = (elements[:, low] > elements[:, high]).astype(np.int64)
        numbers[:, *entity_points(EDGES[edge], degree)] = edge_base + edges[:, edge, None] * inner + places[turned]
    orders = face_orders(inner)
    orientations = face_orientations(elements[:, FACES])
    for face, corners in enumerate(FACES):
        start = face_base + faces[:, face, None, None] * inner**2
        numbers[:, *entity_points(corners, degree)] = start + orders[orientations[:, face]]
    return numbers


def number_points(elements: np.ndarray, degree: int) -> tuple[np.ndarray, int]:
    """Return the global index of each point of each element, int32 [element, k, j, i], and the number of points.

    elements : vertices (n, 8), as `HexahedralMesh.elements`. Points on corners, edges and faces come first, in the
    order of the first element that contains them, with i fastest; then those inside elements, (degree - 1)^3 each,
    element by element (`shared_count` returns their first index).
    ValueError: the degree is below 1, or there are 2^31 points or more.
    """
    if degree < 1:
        raise ValueError(f"degree: {degree}; a GLL element has degree 1 or higher")
    elements = np.asarray(elements, np.int64)
    inner = degree - 1
    edges, edge_count = identify(elements[:, EDGES].reshape(-1, 2))
    faces, face_count = number_faces(elements)
    edges = edges.reshape(-1, 12)
    edge_base = int(elements.max(initial=-1)) + 1
    face_base = edge_base + edge_count * inner
    interior_base = face_base + face_count * inner**2
    if interior_base + len(elements) * inner**3 >= 2**31:
        raise ValueError(f"{len(elements)} elements of degree {degree} have more than 2^31 points")
    final = np.full(interior_base, -1, np.int32)
    numbers = np.empty((len(elements), degree + 1, degree + 1, degree + 1), np.int32)
    surface = np.flatnonzero(on_surface(degree))
    count = 0
    for first in range(0, len(elements), CHUNK):
        some = slice(first, first + CHUNK)
        raw = raw_numbers(elements[some], edges[some], faces[some], (degree, edge_base, face_base))
        raw = raw.reshape(-1, (degree + 1) ** 3)
        outside = raw[:, surface]
        count = count_first_touches(outside.ravel(), final, count)
        raw[:, surface] = final[outside]
        numbers[some] = raw.reshape(-1, degree + 1, degree + 1, degree + 1)
    inside = count + np.arange(len(elements) * inner**3, dtype=np.int32).reshape(len(elements), inner, inner, inner)
    numbers[:, 1:degree, 1:degree, 1:degree] = inside
    return numbers, count + inside.size


def shared_count(count: int, elements: int, degree: int) -> int:
    """Return the number of points on corners, edges and faces, which are the first of `count` points."""
    return count - elements * (degree - 1) ** 3


def on_surface(degree: int) -> np.ndarray:
    """Return a flat mask of the points [k, j, i] on the surface of an element."""
    inside = np.zeros((degree + 1,) * 3, bool)
    inside[1:degree, 1:degree, 1:degree] = True
    return ~inside.ravel()


def count_first_touches(raw: np.ndarray, final: np.ndarray, count: int) -> int:
    """Assign the next numbers, from `count`, to the raw numbers without one (-1 in `final`); return the new count."""
    fresh = raw[final[raw] < 0]
    touches = np.arange(len(fresh))
    final[fresh[::-1]] = touches[::-1]  # for repeated indices, NumPy stores the last value: the first touch
    fresh = fresh[final[fresh] == touches]
    final[fresh] = count + np.arange(len(fresh))
    return count + len(fresh)


def morton_order(vertices: np.ndarray, elements: np.ndarray) -> np.ndarray:
    """Return the elements in the order of their centers along a Morton (Z) curve: neighbors are close in memory."""
    centers = np.mean([vertices[elements[:, corner]] for corner in range(8)], axis=0)
    low = centers.min(axis=0)
    extent = max(float((centers - low).max()), np.finfo(float).tiny)
    cells = ((centers - low) / extent * (2**21 - 1)).astype(np.uint64)
    code = sum(spread_bits(cells[:, axis]) << np.uint64(axis) for axis in range(3))
    return np.argsort(code, kind="stable")


def spread_bits(values: np.ndarray) -> np.ndarray:
    """Insert two zero bits after each of the lowest 21 bits (uint64)."""
    masks = (0x1F00000000FFFF, 0x1F0000FF0000FF, 0x100F00F00F00F00F, 0x10C30C30C30C30C3, 0x1249249249249249)
    for shift, mask in zip((32, 16, 8, 4, 2), masks, strict=True):
        values = (values | (values << np.uint64(shift))) & np.uint64(mask)
    return values
