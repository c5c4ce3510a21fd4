"""A receiver in local coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lithowave.description.point_input import Point
from lithowave.names import receiver_name

DEFAULT_NETWORK = "XX"


@dataclass(frozen=True)
class Receiver:
    """One receiver, in local coordinates.

    ``position`` is (x, y, z) in m, ``where`` the entry of the description it comes from, ``elevation`` what a
    station file says; the receiver itself stands at its burial below the surface, which is flat without a
    topography. ``location`` is empty unless several sensors of a station have different positions. Components are along
    true East and North if ``geographic``, which is true of positions on the Earth, else along x and y; ``convergence``
    is the azimuth of y at the receiver, degrees.
    """

    network: str
    station: str
    position: Point
    where: str
    elevation: float = 0.0
    location: str = ""
    geographic: bool = False
    convergence: float = 0.0

    @property
    def name(self) -> str:
        """Network and station, ``XX.S01``, and the location code if there is one: ``XX.S01.10``."""
        return receiver_name(self.network, self.station, self.location)


def component_turns(points: Sequence[Any]) -> np.ndarray:
    """Return the counterclockwise turns (n,) from x and y to the axes of receivers, or of sources, degrees."""
    return np.array([-one.convergence if getattr(one, "geographic", False) else 0.0 for one in points])
