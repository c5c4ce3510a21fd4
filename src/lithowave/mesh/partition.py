"""Partition of a mesh among ranks: a graph of elements by METIS, a grid of columns by recursive bisection."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec

import numpy as np

from lithowave.errors import InputError, MissingPackageError

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
    if find_spec("pymetis") is None:
        raise MissingPackageError("pymetis", "a mesh from a file on more than one rank", "mpi")
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
