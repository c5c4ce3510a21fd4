"""Work of each rank of a run, for the dry run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RankWorkload:
    """Workload of one rank.

    units : points or elements. work : work of a step, in updates of an interior point or element. neighbors : ranks
    with which it exchanges messages. sent_values : values that it sends in a step. parts : numbers of subdomains of the
    global grid along x, y, z; None for a mesh. exchanges : halo exchanges in a step: with local time stepping one per
    step of the smallest elements.
    """

    units: int
    work: float
    neighbors: int
    sent_values: int
    parts: tuple[int, ...] | None = None
    exchanges: int = 1
