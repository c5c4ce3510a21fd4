"""Global indices of the Gauss-Lobatto-Legendre points of hexahedra, from the indices of their corners only.

An element's points are ordered [k, j, i], i along the first local axis and fastest. Points on a corner, edge or face
belong to all elements that contain it. Edges and faces are identified by the sorted indices of their corners, which
also fix the order of the points on them: from the corner of lowest index towards the lower of its neighbors.
Coordinates are not compared.

Sets of vertices are identified, and points are numbered, in compiled loops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from lithowave.backends.loops import exact_part, over_parts

# Local coordinates (i, j, k), 0 or 1, of the eight corners: the order of VTK and Gmsh.
CORNERS = np.array(
    [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1], [1, 1, 1], [0, 1, 1]], dtype=np.int64
)

# Local corners of the six faces: low and high side along i, j, k, in cyclic order: the first step along the lower, the
# second along the higher of the two axes in the face.
FACES = np.array([[0, 3, 7, 4], [1, 2, 6, 5], [0, 1, 5, 4], [3, 2, 6, 7], [0, 1, 2, 3], [4, 5, 6, 7]], dtype=np.int64)

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


def exterior_quadrilaterals(elements: np.ndarray) -> np.ndarray:
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

    def each(kernel: Callable[..., None], *arguments: object) -> None:
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
    `numbering`)."""
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


def largest_numbers(numbers: np.ndarray, end: int) -> np.ndarray:
    """Return for each row of an array (n, points) the largest number below `end`; -1 if there is none."""
    largest = np.empty(len(numbers), numbers.dtype)
    over_parts(lambda part: largest_below(numbers[part], end, largest[part]), len(numbers), CHUNK)
    return largest


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


def moved_faces(
    boundaries: Mapping[str, np.ndarray], place: np.ndarray, ordered: bool = False
) -> dict[str, np.ndarray]:
    """Return the faces (f, 2), element and local face, of each boundary after their elements have moved.

    place : new index of each element, -1 for elements that are omitted. ordered : True to sort by the new indices.
    """
    moved = {name: np.column_stack([place[faces[:, 0]], faces[:, 1]]) for name, faces in boundaries.items()}
    if ordered:
        return {name: faces[np.lexsort((faces[:, 1], faces[:, 0]))] for name, faces in moved.items()}
    return {name: faces[faces[:, 0] >= 0] for name, faces in moved.items()}


def morton_order(vertices: np.ndarray, elements: np.ndarray) -> np.ndarray:
    """Return the elements in the order of their centers along a Morton (Z) curve: neighbors are close in memory."""
    centers = np.empty((len(elements), 3))

    def average(part: slice) -> None:
        centers[part] = np.mean([vertices[elements[part, corner]] for corner in range(8)], axis=0)

    over_parts(average, len(elements), CHUNK)
    return order_along_curve(centers, CHUNK)


def order_along_curve(centers: np.ndarray, rows: int) -> np.ndarray:
    """Return the order of points (n, 3) along a Morton curve; threads take `rows` points at a time."""
    code = np.empty(len(centers), np.uint64)
    low = centers.min(axis=0, initial=np.inf)
    extent = max(float((centers.max(axis=0, initial=-np.inf) - low).max(initial=0.0)), np.finfo(float).tiny)

    def encode(part: slice) -> None:
        cells = ((centers[part] - low) / extent * (2**21 - 1)).astype(np.uint64)
        code[part] = sum(spread_bits(cells[:, axis]) << np.uint64(axis) for axis in range(3))

    over_parts(encode, len(centers), rows)
    return np.argsort(code, kind="stable")


def spread_bits(values: np.ndarray) -> np.ndarray:
    """Insert two zero bits after each of the lowest 21 bits (uint64)."""
    masks = (0x1F00000000FFFF, 0x1F0000FF0000FF, 0x100F00F00F00F00F, 0x10C30C30C30C30C3, 0x1249249249249249)
    for shift, mask in zip((32, 16, 8, 4, 2), masks, strict=True):
        values = (values | (values << np.uint64(shift))) & np.uint64(mask)
    return values


ROWS, VERTICES = 65_536, 16_384  # of a part


def identify_sets(elements: np.ndarray, table: np.ndarray) -> tuple[np.ndarray, int]:
    """Return an index, from 0, for each distinct set of vertices, (n * sets,), and the number of distinct sets.

    elements : vertices (n, c). table : columns (sets, 2 or 4) of the vertices of each set. Indices ascend with the
    sorted vertices of the sets, which are distributed by their lowest vertex, then compared.
    """
    elements = np.ascontiguousarray(elements)
    count, vertices = len(elements) * len(table), int(elements.max(initial=-1)) + 1
    sets = np.empty((count, table.shape[1]), np.int32 if vertices < 2**31 else np.int64)

    over_parts(
        lambda part: gather_sorted(part.start, part.stop, elements, table, sets), len(elements), ROWS // len(table)
    )
    begin = np.zeros(vertices + 1, np.int64)
    members = np.empty(count, np.int64)
    distribute(sets, begin, members)
    distinct = np.empty(vertices, np.int64)
    over_parts(lambda part: sort_members(part.start, part.stop, sets, begin, members, distinct), vertices, VERTICES)
    first = np.cumsum(distinct) - distinct
    numbers = np.empty(count, np.int64)
    over_parts(
        lambda part: number_members(part.start, part.stop, sets, begin, members, first, numbers), vertices, VERTICES
    )
    return numbers, int(distinct.sum())


@exact_part
def gather_sorted(first, end, elements, table, sets):  # pragma: no cover - compiled
    """Gather the vertices of the sets of some elements, each in ascending order."""
    for element in range(first, end):
        for row in range(len(table)):
            own = sets[element * len(table) + row]
            for place in range(table.shape[1]):
                vertex, at = elements[element, table[row, place]], place
                while at > 0 and own[at - 1] > vertex:
                    own[at] = own[at - 1]
                    at -= 1
                own[at] = vertex


@exact_part
def distribute(sets, begin, members):  # pragma: no cover - compiled
    """Compute the sets whose lowest vertex is v, in ascending order: members[begin[v] : begin[v + 1]]."""
    for row in range(len(sets)):
        begin[sets[row, 0] + 1] += 1
    for vertex in range(len(begin) - 1):
        begin[vertex + 1] += begin[vertex]
    for row in range(len(sets)):
        vertex = sets[row, 0]
        members[begin[vertex]] = row
        begin[vertex] += 1
    for vertex in range(len(begin) - 1, 0, -1):
        begin[vertex] = begin[vertex - 1]
    begin[0] = 0


@exact_part
def sort_members(first, end, sets, begin, members, distinct):  # pragma: no cover - compiled
    """Sort the members of some vertices by the other vertices of the sets; count distinct sets."""
    for vertex in range(first, end):
        low, count = begin[vertex], 0
        for place in range(low, begin[vertex + 1]):
            row, at = members[place], place
            while at > low and _compare(sets, row, members[at - 1]) < 0:
                members[at] = members[at - 1]
                at -= 1
            members[at] = row
        for place in range(low, begin[vertex + 1]):
            count += place == low or _compare(sets, members[place], members[place - 1]) != 0
        distinct[vertex] = count


@exact_part
def number_members(first, end, sets, begin, members, base, numbers):  # pragma: no cover - compiled
    """Number the sets of some vertices from base[vertex] on."""
    for vertex in range(first, end):
        number = base[vertex]
        for place in range(begin[vertex], begin[vertex + 1]):
            if place > begin[vertex] and _compare(sets, members[place], members[place - 1]) != 0:
                number += 1
            numbers[members[place]] = number


@exact_part
def _compare(sets, row, other):  # pragma: no cover - compiled
    """Return the first difference of two sets; 0 if they are equal."""
    for column in range(1, sets.shape[1]):
        if sets[row, column] != sets[other, column]:
            return sets[row, column] - sets[other, column]
    return 0


@exact_part
def match_pairs(numbers, first, found):  # pragma: no cover - compiled
    """Store in found (n,) the other place with the same number; return the first third place of a number, or -1.

    first : (count of numbers,), -1.
    """
    for place in range(len(numbers)):
        other = first[numbers[place]]
        if other == -2:
            return place
        if other == -1:
            first[numbers[place]] = place
        else:
            first[numbers[place]], found[place], found[other] = -2, other, place
    return -1


@exact_part
def mark_entities(starts, final):  # pragma: no cover - compiled
    """Mark the first point of each corner, edge and face with its first element e, -2 - e. starts : see
    `entity_starts`."""
    for element in range(len(starts)):
        for start in starts[element]:
            if final[start] == -1:
                final[start] = -2 - element


@exact_part
def entity_starts(first, end, elements, edges, faces, bases, starts):  # pragma: no cover - compiled
    """Compute the preliminary number of the first point of each corner, edge and face of some elements,
    starts[element, entity]. bases : see `number_own_points`."""
    edge_base, face_base, inner = bases
    for element in range(first, end):
        for corner in range(8):
            starts[element, corner] = elements[element, corner]
        if inner:
            for edge in range(12):
                starts[element, 8 + edge] = edge_base + edges[element, edge] * inner
            for face in range(6):
                starts[element, 20 + face] = face_base + faces[element, face] * inner**2


@exact_part
def count_own_points(first, end, starts, sizes, final, counts):  # pragma: no cover - compiled
    """Count the points of each element on entities of which it is the first element; these get the mark -2 - e - n,
    with the number n of elements. sizes : points of each entity."""
    for element in range(first, end):
        counts[element] = 0
        for entity in range(len(sizes)):
            start = starts[element, entity]
            if final[start] == -2 - element:
                final[start] -= len(starts)
                counts[element] += sizes[entity]


@exact_part
def number_own_points(
    first, end, elements, starts, ends_of, points, places, begin, final
):  # pragma: no cover - compiled
    """Number the points of each element on entities of which it is the first element, from begin[element] on.

    ends_of : corners (entities, 4) that orient each entity, see `_orientations`. points : entity of each point. places
    : place of each point in the entity by its orientation. final : number by preliminary number.
    """
    own, turn = np.empty(starts.shape[1], np.bool_), np.zeros(starts.shape[1], np.int64)
    for element in range(first, end):
        for entity in range(len(own)):
            own[entity] = final[starts[element, entity]] == -2 - element - len(starts)
        _orientations(elements[element], ends_of, turn)
        number = begin[element]
        for point in range(len(points)):
            entity = points[point]
            if own[entity]:
                place = starts[element, entity] + places[point, turn[entity]]
                if final[place] < 0:
                    final[place] = number
                    number += 1


@exact_part
def gather_numbers(
    first, end, elements, starts, ends_of, points, places, final, flat, inside, base, numbers
):  # pragma: no cover - compiled
    """Compute the numbers of all points of some elements. flat, inside : flat indices of the points on the surface and
    inside. base : number of the first point inside the first element."""
    turn = np.zeros(starts.shape[1], np.int64)
    for element in range(first, end):
        _orientations(elements[element], ends_of, turn)
        for point in range(len(points)):
            entity = points[point]
            numbers[element, flat[point]] = final[starts[element, entity] + places[point, turn[entity]]]
        for point in range(len(inside)):
            numbers[element, inside[point]] = base + element * len(inside) + point


@exact_part
def lower_keys(numbers, elements, keys):  # pragma: no cover - compiled
    """Lower the key of each point to the minimum of elements[e] * size + place of its points [e, place]."""
    size = numbers.shape[1]
    for element in range(len(numbers)):
        for place in range(size):
            number = numbers[element, place]
            keys[number] = min(keys[number], elements[element] * size + place)


@exact_part
def largest_below(numbers, end, largest):  # pragma: no cover - compiled
    """Compute the largest number of each row of numbers (n, points) that is below `end`; -1 if there is none."""
    for row in range(len(numbers)):
        most = -1
        for place in range(numbers.shape[1]):
            number = numbers[row, place]
            most = max(most, number if number < end else -1)
        largest[row] = most


@exact_part
def _orientations(vertices, corners, turn):  # pragma: no cover - compiled
    """Compute the orientation of each edge and face: of an edge, 1 if its second corner is the lower one; of a face,
    see `numbering.face_orders`. corners : (entities, 4), -1 where an entity has fewer."""
    for entity in range(8, len(corners)):
        a, b = vertices[corners[entity, 0]], vertices[corners[entity, 1]]
        if corners[entity, 2] < 0:
            turn[entity] = a > b
        else:
            lowest = 0
            for place in range(1, 4):
                if vertices[corners[entity, place]] < vertices[corners[entity, lowest]]:
                    lowest = place
            following = vertices[corners[entity, (lowest + 1) % 4]]
            turn[entity] = 2 * lowest + (following < vertices[corners[entity, (lowest + 3) % 4]])
