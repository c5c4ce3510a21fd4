"""The work of each rank of a run, for the dry run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RankWorkload:
    """The workload of one rank.

    units : points or elements. work : of a step, in updates of an interior point or element. neighbors : ranks with
    which it exchanges messages. sent_values : values that it sends in a step. parts : numbers of subdomains of the
    whole grid along x, y, z; None for a mesh.
    """

    units: int
    work: float
    neighbors: int
    sent_values: int
    parts: tuple[int, ...] | None = None
