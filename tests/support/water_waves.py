"""Exact waves of an explosion in water under a free surface, until something comes back from below."""

from __future__ import annotations

from typing import Any

import numpy as np

from exact_solutions.full_space import full_space_moment

ANY_SPEED = 500.0  # m/s, of S waves, which an explosion does not send: the formula is that of a solid


def explosion_velocities(source: Any, receivers: np.ndarray, time: np.ndarray, vp: float, rho: float) -> np.ndarray:
    """Velocities (n_receivers, 3, n_times), m/s: the wave of an explosion less that of its image above the surface.

    source : a point source with position, moment and time_function. receivers (n, 3), m; z = 0 is the surface.
    """
    place = np.array(source.position)
    return np.array([
        full_space_moment(receiver, place, source.moment, source.time_function, time, vp, ANY_SPEED, rho, "velocity")
        - full_space_moment(
            receiver, place * [1, 1, -1], source.moment, source.time_function, time, vp, ANY_SPEED, rho, "velocity"
        )
        for receiver in receivers
    ])
