"""Horizontal axes of mechanisms and components: true East and North, or the axes x and y of the grid.

The way in which a position is given decides. At a position on the Earth (longitude and latitude, or a reference system
such as EPSG:32611) they are true East and North, at a position in local coordinates, m, they are x and y. Sources act
along the axes of the grid, so mechanisms at places on the Earth are turned by the meridian convergence there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from lithowave.description.domain import Domain


class Placed(Protocol):
    """A point with a position (x, y, z), m."""

    @property
    def position(self) -> tuple[float, float, float]: ...


def convergences(domain: Domain, points: Sequence[Placed]) -> np.ndarray:
    """Return the convergence (n,) at points, degrees; 0 where the projection does not reach."""
    x, y, _ = np.array([point.position for point in points], float).reshape(-1, 3).T
    angles = domain.convergence_at(x, y)
    return np.where(np.isfinite(angles), angles, 0.0)
