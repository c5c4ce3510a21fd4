"""Partition of a mesh among ranks: a graph of elements by METIS, a grid of columns by recursive bisection.

Elements of a partitioned mesh are redistributed such that all ranks have equal work. Element colors avoid write
conflicts of threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from lithowave.errors import InputError, require_package
from lithowave.mesh.numbering import number_faces
from lithowave.mesh.tetrahedra import TetrahedralMesh
from lithowave.parallel.ranks import SINGLE_RANK, Ranks

LARGEST_WEIGHT = 1000  # METIS uses integers: the mean weight becomes at most this
LARGEST_SUM = 2**30
# Up to this many parts with this many columns each, all bisections are evaluated to find the most balanced one.
LOOK_AHEAD, PLENTY = 16, 100
MOST_UNEVEN = 3  # each side of a cut gets half of the parts, up to this difference

# Neighbors of each element; or (starts, members): those of element n are members[starts[n]:starts[n + 1]].
Graph = Sequence[np.ndarray] | tuple[np.ndarray, np.ndarray]


def partition_graph(
    neighbors: Graph, weights: np.ndarray, parts: int, edge_weights: np.ndarray | None = None
) -> np.ndarray:
    """Return the part (n,), from 0, of each element of a graph, with equal weights and a small edge cut.

    The partition is computed by METIS (Karypis & Kumar 1998, SIAM J. Sci. Comput. 20, 359-392) and depends only on the
    arguments.

    Parameters
    ----------
    neighbors : symmetric lists of the elements with which each element exchanges data: a list of arrays or (starts,
    members). weights : work (n,) of each element, in any unit, positive. parts : number of parts. edge_weights : data
    exchanged by each element and each of its neighbors, in the order of `neighbors`, symmetric, in any unit; default:
    equal.

    Raises
    ------
    InputError : there are fewer elements than parts, or METIS leaves a part empty. MissingPackageError : pymetis is not
    installed.
    """
    weights = np.asarray(weights, float)
    if parts == 1:
        return np.zeros(len(weights), np.int64)
    if len(weights) < parts:
        raise too_few(len(weights), parts)
    require_package("pymetis", "a mesh from a file on more than one rank", "mpi")
    import pymetis

    starts, members = _compressed(neighbors)
    scale = min(LARGEST_WEIGHT / weights.mean(), LARGEST_SUM / weights.sum())
    whole = np.maximum(1, np.rint(scale * weights)).astype(np.int64)
    edges = None
    if edge_weights is not None:
        edges = np.maximum(1, np.rint(LARGEST_WEIGHT / edge_weights.max() * edge_weights)).astype(np.int64)
    graph = pymetis.CSRAdjacency(starts, members)
    _, found = pymetis.part_graph(parts, graph, vweights=whole, eweights=edges)
    found = np.asarray(found, np.int64)
    if (np.bincount(found, minlength=parts) == 0).any():
        raise too_few(len(weights), parts)
    return found


def too_few(elements: int, parts: int, what: str = "elements") -> InputError:
    """Return the error for a mesh that has fewer elements than parts."""
    return InputError(
        "ranks", f"{parts} for a mesh of {elements} {what}", "each rank needs at least one", "start fewer ranks"
    )


def face_neighbors(faces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (starts, members) of the elements that share a face with each element.

    faces : index (n, f) of each local face of each element, equal for shared faces.
    """
    flat = faces.reshape(-1)
    order = np.argsort(flat, kind="stable")
    ordered = flat[order]
    twice = np.flatnonzero(ordered[1:] == ordered[:-1])
    one, two = order[twice] // faces.shape[1], order[twice + 1] // faces.shape[1]
    first, second = np.concatenate([one, two]), np.concatenate([two, one])
    place = np.argsort(first, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(first, minlength=len(faces)))])
    return starts, second[place]


def _compressed(neighbors: Graph) -> tuple[np.ndarray, np.ndarray]:
    if isinstance(neighbors, tuple):
        starts, members = neighbors
    else:
        starts = np.concatenate([[0], np.cumsum([len(some) for some in neighbors])])
        members = np.concatenate([np.zeros(0, np.int64), *map(np.asarray, neighbors)])
    return np.asarray(starts, np.int64), np.asarray(members, np.int64)


@dataclass(frozen=True)
class Rectangle:
    """Columns first_x .. end_x - 1 along x and first_y .. end_y - 1 along y of a grid."""

    first_x: int
    end_x: int
    first_y: int
    end_y: int

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of columns along x and y."""
        return self.end_x - self.first_x, self.end_y - self.first_y


def bisect_grid(weights: np.ndarray, parts: int) -> list[Rectangle]:
    """Return rectangles of a grid of columns, one for each part, with about equal weights and short sides.

    weights : of the columns [x, y]. Each cut gives about half of the parts to one side, and both sides are bisected
    recursively; cuts are rated by the weight of the heaviest part, then by their length.

    InputError: there are fewer columns than parts.
    """
    if weights.size < parts:
        raise too_few(weights.size, parts, "columns that can be parted")
    sums = np.pad(weights, ((1, 0), (1, 0))).cumsum(0).cumsum(1)
    found: list[Rectangle] = []
    _bisect(sums, Rectangle(0, weights.shape[0], 0, weights.shape[1]), parts, found)
    return found


def _bisect(sums: np.ndarray, whole: Rectangle, parts: int, found: list[Rectangle]) -> None:
    if parts == 1:
        found.append(whole)
        return
    best = None
    for few in _splits(parts):
        for one, two, length in _cuts(sums, whole, few / parts):
            if one.shape[0] * one.shape[1] < few or two.shape[0] * two.shape[1] < parts - few:
                continue
            heaviest = max(_heaviest(sums, one, few), _heaviest(sums, two, parts - few))
            rating = (round(heaviest, 9), length, few)  # rounded: equal up to round-off counts as equal
            if best is None or rating < best[0]:
                best = rating, one, two
    if best is None:
        raise too_few(whole.shape[0] * whole.shape[1], parts, "columns that can be parted")
    (_, _, few), one, two = best
    _bisect(sums, one, few, found)
    _bisect(sums, two, parts - few, found)


def _cuts(sums: np.ndarray, whole: Rectangle, share: float) -> Iterator[tuple[Rectangle, Rectangle, int]]:
    """Yield bisections of a rectangle with about this share of the weight on the first side, and the cut lengths."""
    x0, x1, y0, y1 = whole.first_x, whole.end_x, whole.first_y, whole.end_y
    width, height = whole.shape
    wanted = share * _weight(sums, whole)
    along_x = sums[x0 : x1 + 1, y1] - sums[x0 : x1 + 1, y0] - sums[x0, y1] + sums[x0, y0]
    along_y = sums[x1, y0 : y1 + 1] - sums[x0, y0 : y1 + 1] - sums[x1, y0] + sums[x0, y0]
    for x in _near(float(np.searchsorted(along_x, wanted)), width):
        yield Rectangle(x0, x0 + x, y0, y1), Rectangle(x0 + x, x1, y0, y1), height
    for y in _near(float(np.searchsorted(along_y, wanted)), height):
        yield Rectangle(x0, x1, y0, y0 + y), Rectangle(x0, x1, y0 + y, y1), width


def _heaviest(sums: np.ndarray, some: Rectangle, parts: int) -> float:
    """Return the weight of the heaviest of this many parts of a rectangle, for columns of equal weight."""
    return _weight(sums, some) * _largest_part(*some.shape, parts) / (some.shape[0] * some.shape[1])


def _weight(sums: np.ndarray, some: Rectangle) -> float:
    x0, x1, y0, y1 = some.first_x, some.end_x, some.first_y, some.end_y
    return float(sums[x1, y1] - sums[x0, y1] - sums[x1, y0] + sums[x0, y0])


@lru_cache(maxsize=65536)
def _largest_part(width: int, height: int, parts: int) -> float:
    """Return the number of columns in the largest part of the best recursive bisection of a rectangle."""
    if parts == 1:
        return width * height
    if width * height < parts:
        return np.inf
    if parts > LOOK_AHEAD or width * height > PLENTY * parts:
        return width * height / parts
    best = np.inf
    for few in _splits(parts):
        for length, across in ((width, height), (height, width)):
            for at in _near(length * few / parts, length):
                one = _largest_part(at, across, few)
                if one < best:
                    best = min(best, max(one, _largest_part(length - at, across, parts - few)))
    return best


def _splits(parts: int) -> range:
    """Return the numbers of parts that the first side of a cut may get."""
    around = min(parts // 2 - 1, MOST_UNEVEN)
    return range(parts // 2 - around, parts - parts // 2 + around + 1)


def _near(place: float, length: int) -> range:
    """Return the integers near `place`, within 1 .. length - 1."""
    return range(max(1, int(place) - 1), min(length - 1, int(place) + 2) + 1)


TILT = 1e-2  # of the planes between parts, which separate the elements of a regular mesh sequentially
HALVINGS = 40  # bisection steps of the search for such a plane


def balanced_parts(
    centers: np.ndarray, work: np.ndarray, parts: int, ranks: Ranks = SINGLE_RANK, kind: np.ndarray | None = None
) -> np.ndarray:
    """Return a part (n,) for each element of this rank such that all parts have equal work.

    centers : (n, 3), m. work : (n,). parts : number of parts. kind : (n,), from 0: all parts have equal work of each
    kind; None: one kind. The elements are bisected recursively by a vertical plane across the longer side, at a
    separate position for each kind, so that each part has columns with elements of all depths (Berger & Bokhari 1987,
    IEEE Trans. Comput. 36, 570).
    """
    kind = np.zeros(len(work), np.int64) if kind is None else kind
    kinds = 1 + int(ranks.largest(float(kind.max(initial=0))))
    group = np.zeros(len(work), np.int64)  # the first part that is possible for each element
    sizes = {0: parts}
    while max(sizes.values()) > 1:
        cut = np.array([first for first, size in sizes.items() if size > 1])
        place = np.full(parts, -1)
        place[cut] = np.arange(len(cut))
        member = place[group]  # index of an element's group among those to be bisected
        along = _coordinates(centers, member, len(cut), ranks)
        few = np.array([sizes[first] // 2 for first in cut.tolist()])
        share = few / np.array([sizes[first] for first in cut.tolist()])
        subset = np.where(member >= 0, member * kinds + kind, -1)
        plane = _planes(along, work, subset, np.repeat(share, kinds), ranks)
        beyond = (member >= 0) & (along > plane[subset])
        group[beyond] += few[member[beyond]]
        for first, size in zip(cut.tolist(), few.tolist(), strict=True):
            sizes[first + size], sizes[first] = sizes[first] - size, size
    return group


def _coordinates(centers: np.ndarray, member: np.ndarray, count: int, ranks: Ranks) -> np.ndarray:
    """Return the coordinate of each element along the longer side of its group."""
    low, high = np.full((count, 2), np.inf), np.full((count, 2), -np.inf)
    there = member >= 0
    np.minimum.at(low, member[there], centers[there, :2])
    np.maximum.at(high, member[there], centers[there, :2])
    low = np.min(ranks.all_gather(low), axis=0)
    high = np.max(ranks.all_gather(high), axis=0)
    axis = (high - low).argmax(axis=1)[member]
    rows = np.arange(len(centers))
    return centers[rows, axis] + TILT * centers[rows, 1 - axis]


def _planes(along: np.ndarray, work: np.ndarray, member: np.ndarray, share: np.ndarray, ranks: Ranks) -> np.ndarray:
    """Return the position of the cutting plane of each group, below which is this share of its work."""
    there, count = member >= 0, len(share)
    number, along, work = member[there], along[there], work[there]
    low, high = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(low, number, along)
    np.maximum.at(high, number, along)
    low, high = np.min(ranks.all_gather(low), axis=0), np.max(ranks.all_gather(high), axis=0)
    low, high = (np.where(np.isfinite(ends), ends, 0.0) for ends in (low, high))  # a group may be empty
    wanted = share * ranks.total(np.bincount(number, work, count))
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        below = ranks.total(np.bincount(number, work * (along <= middle[number]), count))
        low, high = np.where(below < wanted, middle, low), np.where(below < wanted, high, middle)
    return high


def migrated(mesh: TetrahedralMesh, rank: np.ndarray, ranks: Ranks) -> TetrahedralMesh:
    """Return the elements that all ranks send to this one. rank : (m,) destination of each element of this rank."""
    return merged(ranks.all_to_all([mesh.part(np.flatnonzero(rank == other)) for other in range(ranks.size)]))


def merged(parts: list[TetrahedralMesh]) -> TetrahedralMesh:
    """Return one mesh from subdomains that share vertices, identified by their keys, but no elements."""
    keys, first = np.unique(np.concatenate([part.keys_of_vertices for part in parts]), return_index=True)
    elements = [np.searchsorted(keys, part.keys_of_vertices)[part.elements] for part in parts]
    starts = np.cumsum([0, *(part.element_count for part in parts)])
    boundaries: dict[str, list[np.ndarray]] = {}
    for start, part in zip(starts[:-1].tolist(), parts, strict=True):
        for name, faces in part.boundaries.items():
            boundaries.setdefault(name, []).append(faces + [start, 0])
    return TetrahedralMesh(
        np.concatenate([part.vertices for part in parts])[first], np.concatenate(elements),
        np.concatenate([part.materials for part in parts]),
        {name: np.concatenate(faces) for name, faces in boundaries.items()},
        None if parts[0].ids is None else np.concatenate([part.ids for part in parts]), parts[0].groups,
        vertex_keys=keys, element_keys=np.concatenate([part.keys_of_elements for part in parts]),
    )  # fmt: skip


SEED = 20100617
LIMIT = 64  # a vertex stores the colors of its elements in one 64-bit word


def color_elements(elements: np.ndarray, passes: int = 2) -> np.ndarray:
    """Return a color, from 0, for each element, such that no two elements of one color share a vertex.

    elements : vertices (n, 8). After Jones and Plassmann (1993, SIAM J. Sci. Comput. 14, 654-669): in each round, all
    elements with the highest priority at all their vertices take the lowest color that is free there. Elements at even
    positions along all three local axes have priority, and so on: in a regular grid, the eight classes become eight
    colors. Equal priorities are ordered at random, with a fixed seed.
    Then `passes` rounds of iterated greedy coloring (Culberson, 1992) process entire colors, the last first, which
    never increases the number of colors; they are used if they reduce it. The result depends on the elements only.
    ValueError: more than 64 colors are needed.
    """
    first = colors = first_colors(elements)
    for _ in range(passes):
        colors = recolored(elements, colors)
    return colors if colors.max(initial=-1) < first.max(initial=-1) else first


def first_colors(elements: np.ndarray) -> np.ndarray:
    """Return colors by the rounds of Jones and Plassmann."""
    colors = np.full(len(elements), -1, np.int64)
    vertex_count = int(elements.max(initial=-1)) + 1
    used = np.zeros(vertex_count, np.uint64)
    best = np.empty(vertex_count, np.int64)
    # Elements are sorted by ascending priority: for repeated indices, NumPy stores the value assigned last.
    waiting = np.random.default_rng(SEED).permutation(len(elements))
    waiting = waiting[np.argsort(-place_parities(elements)[waiting], kind="stable")]
    while len(waiting):
        corners = elements[waiting]
        priority = np.arange(len(waiting))
        best[corners] = priority[:, None]
        wins = (best[corners] == priority[:, None]).all(axis=1)
        colors[waiting[wins]] = take_colors(corners[wins], used)
        waiting = waiting[~wins]
    return colors


def place_parities(elements: np.ndarray) -> np.ndarray:
    """Return a number, 0 to 7, for each element: bit a is the parity of the number of elements after it along axis a.

    An element follows another if its low side is the other's high side along the same local axis; rows are followed in
    steps of doubling length. Counting starts at the high end of a row, since columns of elements that grow with depth
    begin side by side at the top.
    """
    faces, face_count = number_faces(elements)
    everyone = np.arange(len(elements))
    parities = np.zeros(len(elements), np.int64)
    for axis in range(3):
        owner = np.full(face_count, -1, np.int64)
        owner[faces[:, 2 * axis]] = everyone
        beyond = np.append(owner[faces[:, 2 * axis + 1]], -1)  # the last entry is a sentinel for -1, no neighbor
        odd = beyond >= 0
        for _ in range(len(elements).bit_length()):  # a cyclic row has no end
            odd ^= odd[beyond]
            beyond = beyond[beyond]
        parities |= odd[:-1].astype(np.int64) << axis
    return parities


def recolored(elements: np.ndarray, colors: np.ndarray) -> np.ndarray:
    """Return new colors, assigned to one previous color after the other, the last first."""
    used = np.zeros(int(elements.max(initial=-1)) + 1, np.uint64)
    new = np.empty_like(colors)
    for group in groups_of_color(colors)[::-1]:
        new[group] = take_colors(elements[group], used)
    return new


def take_colors(corners: np.ndarray, used: np.ndarray) -> np.ndarray:
    """Assign the lowest colors free at all corners (n, 8) of elements without shared vertices; update `used`."""
    taken = np.bitwise_or.reduce(used[corners], axis=1)
    if (taken == ~np.uint64(0)).any():
        raise ValueError(f"a coloring with at most {LIMIT} colors was not found: too many elements share a vertex")
    bit = ~taken & (taken + np.uint64(1))
    used[corners] |= bit[:, None]
    return np.log2(bit.astype(float)).astype(np.int64)  # exact: powers of two


def groups_of_color(colors: np.ndarray) -> list[np.ndarray]:
    """Return the elements of each color, in ascending order."""
    if not len(colors):
        return []
    order = np.argsort(colors, kind="stable")
    return np.split(order, np.cumsum(np.bincount(colors))[:-1])
