"""Redistribution of the elements of a partitioned mesh such that all ranks have equal work."""

from __future__ import annotations

import numpy as np

from lithowave.mesh.tetrahedra import TetrahedralMesh
from lithowave.parallel.ranks import SINGLE_RANK, Ranks

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
