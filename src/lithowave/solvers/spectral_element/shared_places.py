"""Places in a mesh that is spread over ranks: who has them, and how many elements of the whole mesh share them.

A rank looks for points in its own elements. What it finds it tells one rank, which the point's number decides, and that
rank answers how many elements have the point in all, and which of them is the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lithowave.solvers.spectral_element.places import TOLERANCE, Places, find_places, refuse_missing


@dataclass(frozen=True)
class SharedPlaces:
    """Points in this rank's elements.

    places : a row for each element that has a point; `places.point` is the point's number. sharing : elements (rows,)
    of the whole mesh that have the point. first : whether the row's element (rows,) has the lowest number of them.
    """

    places: Places
    sharing: np.ndarray
    first: np.ndarray

    def alone(self) -> SharedPlaces:
        """Each point in its first element alone: on one rank only."""
        ones = np.ones(int(self.first.sum()), np.int64)
        return SharedPlaces(self.places.rows(self.first), ones, self.first[self.first])


def share_places(
    plan: Any, positions: np.ndarray, tolerance: float = TOLERANCE, numbers: np.ndarray | None = None
) -> SharedPlaces:
    """Points in the elements of all ranks; all must call.

    positions : (points, 3), m, of those points that may be in this rank's elements. tolerance : see `find_places`; of
    all ranks' elements the nearest counts. numbers : of the points, rising; None where all ranks have all of them.
    """
    numbers = np.arange(len(positions)) if numbers is None else numbers
    found = find_places(plan.mesh, plan.degree, positions, tolerance)
    element = plan.mesh.numbers_in_whole[found.element]
    point, begin, counts = np.unique(found.point, return_index=True, return_counts=True)
    # Rows of a point are in the order of their elements: the first one counts.
    told = np.column_stack([numbers[point], _far(found.excess[begin]), element[begin], counts])
    sharing, wins = _answers(told, plan.ranks)
    row = np.repeat(np.arange(len(point)), counts)
    first = np.zeros(len(row), bool)
    first[begin] = wins
    kept = sharing[row] > 0
    places = found.rows(kept).numbered(numbers)
    return SharedPlaces(places, sharing[row][kept], first[kept])


def _far(excess: np.ndarray) -> np.ndarray:
    """How far outside an element, in units of 1e-9 of its reference coordinates; 0 within the tolerance."""
    return np.where(excess > TOLERANCE, np.rint(1e9 * excess), 0).astype(np.int64)


def _answers(told: np.ndarray, ranks: Any) -> tuple[np.ndarray, np.ndarray]:
    """Elements (points,) that have each point in all, 0 where another rank has a nearer one, and whether this rank has
    the first of them. told : number, how far outside, lowest element, number of elements."""
    if ranks.size == 1:
        return told[:, 3], np.ones(len(told), bool)
    desk = told[:, 0] % ranks.size
    sent = [np.flatnonzero(desk == rank) for rank in range(ranks.size)]
    answers = ranks.all_to_all(_judged(ranks.all_to_all([told[some] for some in sent])))
    sharing, wins = np.empty(len(told), np.int64), np.empty(len(told), bool)
    for some, (count, first) in zip(sent, answers, strict=True):
        sharing[some], wins[some] = count, first
    return sharing, wins


def _judged(told: list[np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
    """The answers of `_answers` for each of the ranks that told this one."""
    everything = np.concatenate(told)
    number, far, element, count = everything.T
    order = np.lexsort((element, far, number))
    begins = np.flatnonzero(np.append(True, np.diff(number[order]) != 0)[: len(order)])
    group = np.empty(len(order), np.int64)
    group[order] = np.repeat(np.arange(len(begins)), np.diff(np.append(begins, len(order))))
    first = np.zeros(len(order), bool)
    first[order[begins]] = True
    inside = far == 0
    total = np.bincount(group, count * inside, len(begins)).astype(np.int64)
    sharing = np.where(inside, total[group], np.where(first, 1, 0))
    ends = np.cumsum([len(some) for some in told])[:-1]
    return list(zip(np.split(sharing, ends), np.split(first, ends), strict=True))


def require_everywhere(
    found: SharedPlaces, ranks: Any, names: Sequence[str], positions: np.ndarray, where: str
) -> None:
    """InputError, on all ranks: a point is in no element of any rank."""
    known = np.concatenate(ranks.all_gather(np.unique(found.places.point)))
    refuse_missing(np.setdiff1d(np.arange(len(names)), known), names, positions, where)


def reach(mesh: Any) -> tuple[np.ndarray, np.ndarray]:
    """Ends (3,) and (3,), m, of a box that holds all points that may be in this mesh, or near it."""
    corners = mesh.vertices[mesh.elements]
    margin = np.ptp(corners, axis=1).max(axis=0)
    return mesh.vertices.min(axis=0) - margin, mesh.vertices.max(axis=0) + margin


def within_reach(mesh: Any, positions: np.ndarray) -> np.ndarray:
    """Whether each of positions (points, 3), m, lies in the box of `reach`."""
    low, high = reach(mesh)
    return ((positions >= low) & (positions <= high)).all(axis=1)
