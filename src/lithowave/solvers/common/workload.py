"""What each rank of a run would have to do: for the dry run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RankWorkload:
    """The part of one rank. units : points or elements. work : of a step, in updates of a plain unit. neighbors : ranks
    that it exchanges messages with. sent_values : numbers that it sends in a step."""

    units: int
    work: float
    neighbors: int
    sent_values: int
