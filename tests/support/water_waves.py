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


def assert_first_waves(
    computed: np.ndarray, time: np.ndarray, source: Any, places: np.ndarray, rho: float, floor: float,
    sigma: float,
) -> None:  # fmt: skip
    """The direct wave and its reflection at the surface, until the sea floor at z = floor answers.

    computed : velocities (receivers, 3, n). sigma : of the Gaussian, s, which has its peak at 6 sigma.
    """
    exact = explosion_velocities(source, places, time, 1500.0, rho)
    way = np.hypot(-2 * floor + source.position[2] + places[:, 2], places[:, 0] - source.position[0])
    early = (time < way[:, None] / 1500 + 3 * sigma)[:, None]
    difference = np.linalg.norm(np.where(early, computed - exact, 0))
    assert difference <= 0.03 * np.linalg.norm(np.where(early, exact, 0))
    # What comes later is no longer the wave in endless water, and nothing grows.
    assert np.linalg.norm(np.where(early, 0, computed - exact)) > 3 * difference
    assert np.isfinite(computed).all() and np.abs(computed).max() < 2 * np.abs(exact).max()
