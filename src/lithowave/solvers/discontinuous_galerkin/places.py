"""Where points of space lie in the mesh."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lithowave.errors import InputError
from lithowave.mesh.tetrahedra import TetrahedralMesh
from lithowave.parallel.ranks import Ranks

TOLERANCE = 1e-7  # of barycentric coordinates: how far outside an element a point may be
ON_GROUND = 1.0  # the same for points on a ground that the elements follow only as far as their size allows
PAIRS = 1 << 20  # points and elements that are compared at a time


@dataclass(frozen=True)
class Places:
    """Points in elements. point : its number, rising; several rows where elements share it. element. reference :
    coordinates (rows, 3) in the reference tetrahedron."""

    point: np.ndarray
    element: np.ndarray
    reference: np.ndarray

    @classmethod
    def none(cls) -> Places:
        """No points."""
        return cls(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, 3)))

    def rows(self, some: np.ndarray) -> Places:
        """Some of the rows."""
        return Places(self.point[some], self.element[some], self.reference[some])

    def with_others(self, others: Places) -> Places:
        """These and others, by point."""
        pairs = zip(vars(self).values(), vars(others).values(), strict=True)
        joined = Places(*(np.concatenate(pair) for pair in pairs))
        return joined.rows(np.argsort(joined.point, kind="stable"))

    def missing(self, count: int) -> np.ndarray:
        """Those of `count` points that are in no element."""
        return np.setdiff1d(np.arange(count), self.point)


def find_places(mesh: TetrahedralMesh, positions: np.ndarray, tolerance: float = TOLERANCE) -> Places:
    """All elements that hold each of `positions` (points, 3), m; points in no element have no row.

    tolerance : barycentric coordinates by which a point that is in no element may lie outside the nearest one; it is
    then moved onto it. Elements meet a curved surface at their vertices only.
    """
    positions = np.asarray(positions, float).reshape(-1, 3)
    found = _search(mesh, positions, TOLERANCE)
    if tolerance > TOLERANCE:
        lost = found.missing(len(positions))
        best = _nearest(mesh, _search(mesh, positions[lost], tolerance))[0]
        found = found.with_others(replace(best, point=lost[best.point]))
    return found


@dataclass(frozen=True)
class SharedPlaces:
    """Points in elements of this rank. places; holders : (rows,) how many elements of all ranks the point of each row
    counts in; missing : points that are in no element of any rank."""

    places: Places
    holders: np.ndarray
    missing: np.ndarray


def place_points(
    mesh: TetrahedralMesh, positions: np.ndarray, tolerance: float, ranks: Ranks, everywhere: bool = True
) -> SharedPlaces:
    """As `find_places`, in the elements of all ranks, which call this at once.

    everywhere : in all elements that share a point; else in that of lowest key alone.
    """
    positions = np.asarray(positions, float).reshape(-1, 3)
    found = _search(mesh, positions, TOLERANCE)
    held = np.zeros(len(positions), bool)
    held[found.point] = True
    held = np.logical_or.reduce(ranks.all_gather(held))
    lost = np.flatnonzero(~held)
    if tolerance > TOLERANCE and len(lost):
        best, excess = _nearest(mesh, _search(mesh, positions[lost], tolerance))
        ratings, keys = np.full(len(lost), np.inf), np.zeros(len(lost), np.int64)
        ratings[best.point], keys[best.point] = excess, mesh.keys_of_elements[best.element]
        every = np.array(ranks.all_gather(ratings))
        winner = np.lexsort((np.array(ranks.all_gather(keys)), every), axis=0)[0]
        held[lost] = np.isfinite(every).any(axis=0)
        best = best.rows(winner[best.point] == ranks.rank)
        found = found.with_others(replace(best, point=lost[best.point]))
    settled = settle(mesh, found, np.arange(len(positions)), len(positions), ranks, everywhere)
    return replace(settled, missing=np.flatnonzero(~held))


def settle(
    mesh: TetrahedralMesh, found: Places, numbers: np.ndarray, count: int, ranks: Ranks, everywhere: bool
) -> SharedPlaces:
    """Which of the places that each rank has found count.

    numbers : of the points of `found` among the `count` points of all ranks. everywhere : as of `place_points`. Each
    point has a rank, by its number, that hears of all elements that hold it, and answers.
    """
    size = max(1, -(-count // ranks.size))
    number, key = numbers[found.point], mesh.keys_of_elements[found.element]
    bounds = np.searchsorted(number, size * np.arange(ranks.size + 1))
    asked = ranks.all_to_all([
        np.column_stack([number[low:high], key[low:high]]) for low, high in zip(bounds[:-1], bounds[1:], strict=True)
    ])
    every = np.concatenate(asked)
    order = np.lexsort((every[:, 1], every[:, 0]))
    new = np.append(True, every[order[1:], 0] != every[order[:-1], 0])[: len(every)]
    group = np.cumsum(new) - 1
    answer = np.empty(len(every), np.int64)  # how many hold the point; 0: this one does not count
    answer[order] = np.bincount(group)[group] if everywhere else new
    answers = np.split(answer, np.cumsum([len(one) for one in asked])[:-1])
    holders = np.concatenate(ranks.all_to_all(answers))
    return SharedPlaces(found.rows(holders > 0), holders[holders > 0], np.zeros(0, np.int64))


def _excess(reference: np.ndarray) -> np.ndarray:
    """How far points lie outside an element: the most negative barycentric coordinate, positive outside."""
    return -np.minimum(reference.min(axis=1), 1.0 - reference.sum(axis=1))


def _nearest(mesh: TetrahedralMesh, places: Places) -> tuple[Places, np.ndarray]:
    """For each point the element that it is least outside of, moved onto it; and how far outside it is."""
    excess = _excess(places.reference)
    order = np.lexsort((mesh.keys_of_elements[places.element], excess, places.point))
    _, first = np.unique(places.point[order], return_index=True)
    rows = order[first]
    inside = np.clip(places.reference[rows], 0.0, 1.0)
    inside /= np.maximum(1.0, inside.sum(axis=1))[:, None]
    return Places(places.point[rows], places.element[rows], inside), excess[rows]


def _search(mesh: TetrahedralMesh, positions: np.ndarray, tolerance: float) -> Places:
    """Elements within `tolerance` of each point: a grid of cells tells which come into question."""
    if not len(positions):
        return Places.none()
    corners = [mesh.vertices[:, axis][mesh.elements] for axis in range(3)]
    low = np.stack([axis.min(axis=1) for axis in corners], axis=1)
    high = np.stack([axis.max(axis=1) for axis in corners], axis=1)
    margin = (tolerance + 1e-9) * (high - low)
    low, high = low - margin, high + margin
    near = np.flatnonzero(((low <= positions.max(axis=0)) & (high >= positions.min(axis=0))).all(axis=1))
    low, high = low[near], high[near]
    points, elements = _pairs(positions, low, high)
    parts = [_within(mesh, positions, points[n : n + PAIRS], near[elements[n : n + PAIRS]], tolerance)
             for n in range(0, max(1, len(points)), PAIRS)]  # fmt: skip
    point, element, reference = (np.concatenate(part) for part in zip(*parts, strict=True))
    order = np.lexsort((element, point))
    return Places(point[order], element[order], reference[order])


def _pairs(positions: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points and boxes low .. high that may hold them: those in whose cells of a regular grid the points lie."""
    if not len(low):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    start, end = positions.min(axis=0), positions.max(axis=0)
    cell = np.maximum(np.median(high - low, axis=0), 1e-12)
    counts = np.clip(np.ceil((end - start) / cell), 1, 256).astype(np.int64)
    cell = np.maximum((end - start) / counts, 1e-300)

    def cells(of: np.ndarray) -> np.ndarray:
        return np.clip(np.floor((of - start) / cell), 0, counts - 1).astype(np.int64)

    strides = np.array([counts[1] * counts[2], counts[2], 1])
    home = cells(positions) @ strides
    order = np.argsort(home, kind="stable")
    begin = np.searchsorted(home[order], np.arange(counts.prod() + 1))
    first, last = cells(low), cells(high)
    spans = last - first + 1
    sizes = spans.prod(axis=1)
    box = np.repeat(np.arange(len(low)), sizes)
    within = np.arange(len(box)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    offsets = np.stack(
        [within // (spans[box, 1] * spans[box, 2]), within // spans[box, 2] % spans[box, 1], within % spans[box, 2]], 1
    )
    key = (first[box] + offsets) @ strides
    many = begin[key + 1] - begin[key]
    pair_box = np.repeat(box, many)
    place = np.arange(len(pair_box)) - np.repeat(np.cumsum(many) - many, many) + np.repeat(begin[key], many)
    point = order[place]
    fits = ((positions[point] >= low[pair_box]) & (positions[point] <= high[pair_box])).all(axis=1)
    return point[fits], pair_box[fits]


def _within(
    mesh: TetrahedralMesh, positions: np.ndarray, point: np.ndarray, element: np.ndarray, tolerance: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Those of the pairs in which the point is in the element, with its reference coordinates."""
    vertices = mesh.element_vertices(element)
    edges = vertices[:, 1:] - vertices[:, :1]
    reference = np.linalg.solve(edges.transpose(0, 2, 1), (positions[point] - vertices[:, 0])[..., None])[..., 0]
    there = _excess(reference) <= tolerance
    return point[there], element[there], reference[there]


def require_places(missing: np.ndarray, names: Sequence[str], positions: np.ndarray, where: str) -> None:
    """InputError: there are points that are in no element."""
    if missing.size:
        n = int(missing[0])
        x, y, z = positions[n]
        more = f" (and {missing.size - 1} more)" if missing.size > 1 else ""
        raise InputError(
            where, f"{names[n]} at ({x:z.12g}, {y:z.12g}, {z:z.12g}) m is in no element of the mesh{more}",
            "it must lie within the mesh, on its surface at most",
        )  # fmt: skip
