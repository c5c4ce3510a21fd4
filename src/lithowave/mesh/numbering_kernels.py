"""Compiled loops of `numbering`: identification of sets of vertices, and the numbers of points of elements."""

from __future__ import annotations

import numpy as np

from lithowave.backends.host_threads import over_parts
from lithowave.backends.loops import exact_part

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
def largest_number(numbers, end):  # pragma: no cover - compiled
    """Return the largest of numbers (n,) that is below `end`; -1 if there is none."""
    largest = -1
    for place in range(len(numbers)):
        number = numbers[place]
        largest = max(largest, number if number < end else -1)
    return largest


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
