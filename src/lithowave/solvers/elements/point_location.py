"""Location of points in the elements of all ranks.

Each rank searches for points in its own elements and reports the results to one rank, which the index of the point
determines. That rank returns the number of elements of the global mesh that contain the point, and the first one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from lithowave.backends.host_threads import over_parts
from lithowave.backends.loops import exact_part
from lithowave.errors import InputError
from lithowave.parallel.ranks import Ranks

PART = 16_384  # elements that are examined at a time
SURFACE_TOLERANCE = 1.0  # of points on a topography, which elements follow only as far as their size allows
EXCESS_SCALE = 1e9  # excesses are compared as integers of 1e-9 reference coordinates, so that round-off has no effect


@dataclass(frozen=True)
class PointLocations:
    """Points in elements; several rows where elements share a point.

    point : (rows,) index of the point, ascending. element : (rows,) index of the element. reference : (rows, 3)
    coordinates in the reference element. excess : (rows,) distance in reference coordinates by which the point was
    outside of the element before it was moved onto it; 0 for a point in the element. key : (rows,) key of the element
    in the global mesh.
    """

    point: np.ndarray
    element: np.ndarray
    reference: np.ndarray
    excess: np.ndarray
    key: np.ndarray

    @classmethod
    def none(cls) -> PointLocations:
        """Return the locations of no points."""
        indices = np.zeros(0, np.int64)
        return cls(indices, indices, np.zeros((0, 3)), np.zeros(0), indices)

    def rows(self, selection: np.ndarray) -> PointLocations:
        """Return some of the rows."""
        return PointLocations(*(getattr(self, field.name)[selection] for field in fields(self)))

    def renumbered(self, numbers: np.ndarray) -> PointLocations:
        """Return the same rows with these indices of the points."""
        return replace(self, point=numbers[self.point])

    def missing(self, count: int) -> np.ndarray:
        """Return the indices of those of `count` points that are in no element."""
        return np.setdiff1d(np.arange(count), self.point)

    def with_nearest(self, near: PointLocations, lost: np.ndarray) -> PointLocations:
        """Return these rows and, for each point of `near`, the element with the smallest excess, then the lowest key.

        Parameters
        ----------
        near : candidates for the points lost[near.point].
        lost : indices of points that are in no element.
        """
        order = np.lexsort((near.key, _integer(near.excess), near.point))
        _, first = np.unique(near.point[order], return_index=True)
        nearest = near.rows(order[first]).renumbered(lost)
        pairs = ((getattr(part, field.name) for part in (self, nearest)) for field in fields(self))
        joined = PointLocations(*(np.concatenate(tuple(pair)) for pair in pairs))
        return joined.rows(np.argsort(joined.point, kind="stable"))


@dataclass(frozen=True)
class SharedLocations:
    """Points in elements of this rank, restricted to the elements selected among all ranks.

    locations : a row for each element that contains a point. sharing : (rows,) number of elements of the global mesh
    that contain the point. first : (rows,) True if the element has the lowest key of them.
    """

    locations: PointLocations
    sharing: np.ndarray
    first: np.ndarray

    def first_only(self) -> SharedLocations:
        """Return each point in its first element only, so on one rank only."""
        ones = np.ones(int(self.first.sum()), np.int64)
        return SharedLocations(self.locations.rows(self.first), ones, self.first[self.first])


def resolve_owners(found: PointLocations, ranks: Ranks, numbers: np.ndarray | None = None) -> SharedLocations:
    """Return the selected locations: all elements that contain a point, or the nearest one of all ranks.

    This call is collective.

    Parameters
    ----------
    found : locations in the elements of this rank.
    numbers : global indices of the points of this rank, ascending; None if all ranks have the same points.
    """
    order = np.lexsort((found.key, found.point))
    point, begin, counts = np.unique(found.point[order], return_index=True, return_counts=True)
    lowest = order[begin]
    number = point if numbers is None else numbers[point]
    claims = np.column_stack([number, _integer(found.excess[lowest]), found.key[lowest], counts])
    sharing, wins = _answers(claims, ranks)
    row = np.searchsorted(point, found.point)
    first = np.zeros(len(row), bool)
    first[lowest] = wins
    counting = sharing[row] > 0
    locations = found if numbers is None else found.renumbered(numbers)
    return SharedLocations(locations.rows(counting), sharing[row][counting], first[counting])


def _integer(excess: np.ndarray) -> np.ndarray:
    return np.rint(EXCESS_SCALE * excess).astype(np.int64)


def _answers(claims: np.ndarray, ranks: Ranks) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of elements (points,) of the global mesh that have each point, 0 if another rank has a nearer
    one, and whether this rank has the first of them.

    claims : (points, 4) index of the point, excess, lowest key, number of elements.
    """
    if ranks.size == 1:
        return claims[:, 3], np.ones(len(claims), bool)
    judge = claims[:, 0] % ranks.size
    sent = [np.flatnonzero(judge == rank) for rank in range(ranks.size)]
    answers = ranks.all_to_all(_judged(ranks.all_to_all([claims[rows] for rows in sent])))
    sharing, wins = np.empty(len(claims), np.int64), np.empty(len(claims), bool)
    for rows, (count, first) in zip(sent, answers, strict=True):
        sharing[rows], wins[rows] = count, first
    return sharing, wins


def _judged(claims: list[np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the answers of `_answers` to the claims of each rank."""
    number, excess, key, count = np.concatenate(claims).T
    order = np.lexsort((key, excess, number))
    begins = np.flatnonzero(np.append(True, np.diff(number[order]) != 0)[: len(order)])
    group = np.empty(len(order), np.int64)
    group[order] = np.repeat(np.arange(len(begins)), np.diff(np.append(begins, len(order))))
    first = np.zeros(len(order), bool)
    first[order[begins]] = True
    inside = excess == 0
    total = np.bincount(group, count * inside, len(begins)).astype(np.int64)
    sharing = np.where(inside, total[group], np.where(first, 1, 0))
    ends = np.cumsum([len(rows) for rows in claims])[:-1]
    return list(zip(np.split(sharing, ends), np.split(first, ends), strict=True))


def require_located(
    found: SharedLocations, ranks: Ranks, names: Sequence[str], positions: np.ndarray, where: str
) -> None:
    """Require that each point is in an element of some rank (collective call).

    Raises
    ------
    InputError : on all ranks, with the name and position of the first missing point and the key `where`.
    """
    known = np.concatenate(ranks.all_gather(np.unique(found.locations.point)))
    missing = np.setdiff1d(np.arange(len(names)), known)
    if missing.size:
        index = int(missing[0])
        x, y, z = positions[index]
        more = f" (and {missing.size - 1} more)" if missing.size > 1 else ""
        raise InputError(
            where, f"{names[index]} at ({x:z.12g}, {y:z.12g}, {z:z.12g}) m is in no element of the mesh{more}",
            "allowed: positions in the mesh or on its surface",
        )  # fmt: skip


def point_names(points: Sequence[Any], kind: str) -> list[str]:
    """Return the names of sources or receivers for messages: their own, or their kind and index."""
    return [getattr(point, "name", "") or f"{kind} {index}" for index, point in enumerate(points)]


def point_positions(points: Sequence[Any]) -> np.ndarray:
    """Return the positions (n, 3), m, of sources or receivers."""
    return np.array([point.position for point in points], float).reshape(-1, 3)


def reach(plan: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends (3,) and (3,), m, of a box in local coordinates with all points in or near the mesh of a rank."""
    return plan.once("reach", lambda: _reach(plan))


def _reach(plan: Any) -> tuple[np.ndarray, np.ndarray]:
    vertices, elements = np.ascontiguousarray(plan.from_mesh(plan.mesh.vertices)), plan.mesh.elements
    margin = np.max(over_parts(lambda part: largest_sizes(elements[part], vertices), len(elements), PART), axis=0)
    return vertices.min(axis=0) - margin, vertices.max(axis=0) + margin


@exact_part
def largest_sizes(elements, vertices):  # pragma: no cover - compiled
    """Return the largest extents (3,) of elements along the axes."""
    found = np.zeros(3)
    for element in range(len(elements)):
        for axis in range(3):
            least = most = vertices[elements[element, 0], axis]
            for corner in range(1, elements.shape[1]):
                position = vertices[elements[element, corner], axis]
                least, most = min(least, position), max(most, position)
            found[axis] = max(found[axis], most - least)
    return found


def within_reach(plan: Any, positions: np.ndarray) -> np.ndarray:
    """Return True for each of positions (points, 3), m, in the box of `reach`."""
    low, high = reach(plan)
    return ((positions >= low) & (positions <= high)).all(axis=1)
