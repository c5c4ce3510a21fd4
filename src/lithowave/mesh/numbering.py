"""Global indices of the Gauss-Lobatto-Legendre points of hexahedra, from the indices of their corners only.

An element's points are ordered [k, j, i], i along the first local axis and fastest. Points on a corner, edge or face
belong to all elements that contain it. Edges and faces are identified by the sorted indices of their corners, which
also fix the order of the points on them: from the corner of lowest index towards the lower of its neighbors.
Coordinates are not compared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lithowave.backends.host_threads import over_parts
from lithowave.mesh.numbering_kernels import (
    count_own_points,
    entity_starts,
    gather_numbers,
    identify_sets,
    largest_number,
    mark_entities,
    number_own_points,
)

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
    return identify_sets(corners, np.arange(corners.shape[1])[None])


def number_faces(elements: np.ndarray) -> tuple[np.ndarray, int]:
    """Return an index for each local face, (elements, 6), equal for shared faces, and the number of faces."""
    numbers, count = identify_sets(elements, FACES)
    return numbers.reshape(-1, 6), count


def number_edges(elements: np.ndarray) -> tuple[np.ndarray, int]:
    """Return an index for each local edge, (elements, 12), equal for shared edges, and the number of edges."""
    numbers, count = identify_sets(elements, EDGES)
    return numbers.reshape(-1, 12), count


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


def number_points(elements: np.ndarray, degree: int) -> tuple[np.ndarray, int]:
    """Return the global index of each point of each element, int32 [element, k, j, i], and the number of points.

    elements : vertices (n, 8), as `HexahedralMesh.elements`. Points on corners, edges and faces come first, in the
    order of the first element that contains them, with i fastest; then those inside elements, (degree - 1)^3 each,
    element by element (`shared_count` returns their first index).
    ValueError: the degree is below 1, or there are 2^31 points or more.
    """
    if degree < 1:
        raise ValueError(f"degree: {degree}; a GLL element has degree 1 or higher")
    elements, inner = np.asarray(elements, np.int64), degree - 1
    edges, edge_count = number_edges(elements)
    faces, face_count = number_faces(elements)
    edge_base = int(elements.max(initial=-1)) + 1
    face_base = edge_base + edge_count * inner
    total = face_base + face_count * inner**2
    if total + len(elements) * inner**3 >= 2**31:
        raise ValueError(f"{len(elements)} elements of degree {degree} have more than 2^31 points")
    numbers, final = np.empty((len(elements), (degree + 1) ** 3), np.int32), np.full(total, -1, np.int32)
    bases, counts = np.array([edge_base, face_base, inner]), np.empty(len(elements), np.int64)
    entities, points, places = surface_tables(degree)
    starts = np.empty((len(elements), len(entities)), np.int32)

    def each(kernel: Callable[..., None], *arguments: Any) -> None:
        over_parts(lambda part: kernel(part.start, part.stop, *arguments), len(elements), CHUNK)

    each(entity_starts, elements, edges, faces, bases, starts)
    mark_entities(starts, final)
    each(count_own_points, starts, entity_sizes(degree), final, counts)
    ends = np.cumsum(counts)
    oriented = elements, starts, entities, points, places
    each(number_own_points, *oriented, ends - counts, final)
    shared = int(ends[-1]) if len(ends) else 0
    surface = on_surface(degree)
    each(gather_numbers, *oriented, final, np.flatnonzero(surface), np.flatnonzero(~surface), shared, numbers)
    return numbers.reshape(-1, degree + 1, degree + 1, degree + 1), shared + len(elements) * inner**3


def entity_sizes(degree: int) -> np.ndarray:
    """Return the number of points inside each corner, edge and face of an element; of degree 1, of its corners."""
    inner = degree - 1
    return np.repeat([1, inner, inner**2], [8, 12, 6])[: 26 if inner else 8]


def surface_tables(degree: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the corners (entities, 4) of the corners, edges and faces of an element, padded with -1; and of each point
    on its surface, in flat order, the entity, and the place (points, 8) in it by orientation (see
    `numbering_kernels`)."""
    n, inner = degree + 1, degree - 1
    steps, orders = np.arange(inner), face_orders(inner).reshape(8, -1)
    places_of = [np.zeros((1, 8), np.int64)] * 8
    places_of += [np.stack([steps, steps[::-1]] * 4, axis=1)] * 12 + [orders.T] * 6
    corners_of = [*np.arange(8)[:, None], *EDGES, *FACES]
    flat = np.arange(n**3).reshape(n, n, n)
    found: dict[int, tuple[int, np.ndarray]] = {}
    for entity in range(len(entity_sizes(degree))):
        inside = flat[entity_points(corners_of[entity], degree)].ravel()
        found |= {point: (entity, place) for point, place in zip(inside, places_of[entity], strict=True)}
    entities = [np.pad(corners, (0, 4 - len(corners)), constant_values=-1) for corners in corners_of]
    points = sorted(found)
    kept = np.array(entities[: len(entity_sizes(degree))])
    return kept, np.array([found[point][0] for point in points]), np.array([found[point][1] for point in points])


def shared_count(count: int, elements: int, degree: int) -> int:
    """Return the number of points on corners, edges and faces, which are the first of `count` points."""
    return count - elements * (degree - 1) ** 3


def largest_numbers(numbers: np.ndarray, end: int, size: int) -> list[int]:
    """Return for each section of `size` rows of an array the largest number below `end`; -1 if there is none."""
    return over_parts(lambda part: largest_number(numbers[part].reshape(-1), end), len(numbers), size)


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
    centers, code = np.empty((len(elements), 3)), np.empty(len(elements), np.uint64)

    def average(part: slice) -> None:
        centers[part] = np.mean([vertices[elements[part, corner]] for corner in range(8)], axis=0)

    over_parts(average, len(elements), CHUNK)
    low = centers.min(axis=0)
    extent = max(float((centers.max(axis=0) - low).max()), np.finfo(float).tiny)

    def encode(part: slice) -> None:
        cells = ((centers[part] - low) / extent * (2**21 - 1)).astype(np.uint64)
        code[part] = sum(spread_bits(cells[:, axis]) << np.uint64(axis) for axis in range(3))

    over_parts(encode, len(elements), CHUNK)
    return np.argsort(code, kind="stable")


def spread_bits(values: np.ndarray) -> np.ndarray:
    """Insert two zero bits after each of the lowest 21 bits (uint64)."""
    masks = (0x1F00000000FFFF, 0x1F0000FF0000FF, 0x100F00F00F00F00F, 0x10C30C30C30C30C3, 0x1249249249249249)
    for shift, mask in zip((32, 16, 8, 4, 2), masks, strict=True):
        values = (values | (values << np.uint64(shift))) & np.uint64(mask)
    return values
