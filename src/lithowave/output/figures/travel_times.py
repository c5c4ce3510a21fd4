"""First arrivals in flat layers, for record sections."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def first_arrival(
    distance: np.ndarray, source_z: float, receiver_z: float, tops: Sequence[float], speeds: Sequence[float]
) -> np.ndarray:
    """Return the time (s) of the first of the direct and the critically refracted waves.

    Direct: X(p) = sum h p v / sqrt(1 - p^2 v^2) is solved for the ray parameter p by bisection, T = p X +
    sum h sqrt(1/v^2 - p^2). Refracted along the top of a faster layer n below both ends: T = X / v_n +
    sum h sqrt(1/v^2 - 1/v_n^2), from the critical distance on (Aki & Richards 2002, section 9.3.1).

    Parameters
    ----------
    distance : horizontal distances, m.
    source_z, receiver_z : z of both ends, m.
    tops, speeds : z of each layer's top (m), from the top down, and its velocity (m/s); the last is a half-space.
    """
    distance = np.asarray(distance, dtype=float)
    tops, speeds = np.asarray(tops, dtype=float), np.asarray(speeds, dtype=float)
    # Positions above the highest top (usually the surface) belong to the first layer.
    roofs = np.concatenate([[np.inf], tops[1:]])
    floors = np.concatenate([tops[1:], [-np.inf]])
    low, high = min(source_z, receiver_z), max(source_z, receiver_z)

    def thickness(bottom: float, top: float) -> np.ndarray:
        return np.maximum(np.minimum(roofs, top) - np.maximum(floors, bottom), 0.0)

    between = thickness(low, high)
    # With both ends at one depth, the wave runs along it, in the layer that contains this depth.
    level = max(int(np.count_nonzero(tops >= low)) - 1, 0)
    best = _direct(distance, between, speeds) if between.any() else distance / speeds[level]
    for layer in range(1, len(speeds)):
        path = between + 2.0 * thickness(tops[layer], low)
        crossed = path > 0
        if tops[layer] > low or (speeds[:layer][crossed[:layer]] >= speeds[layer]).any():
            continue
        p, slowness = 1.0 / speeds[layer], 1.0 / speeds[crossed]
        vertical = np.sqrt(slowness**2 - p**2)
        critical = np.sum(path[crossed] * p / vertical)
        head = distance * p + np.sum(path[crossed] * vertical)
        best = np.where(distance >= critical, np.minimum(best, head), best)
    return best


def _direct(distance: np.ndarray, path: np.ndarray, speeds: np.ndarray) -> np.ndarray:
    crossed = path > 0
    path, speeds = path[crossed], speeds[crossed]
    low, high = np.zeros_like(distance), np.full_like(distance, 1.0 / speeds.max())
    for _ in range(60):
        middle = 0.5 * (low + high)
        sine = middle[..., None] * speeds
        reach = np.sum(path * sine / np.sqrt(np.maximum(1.0 - sine**2, 1e-30)), axis=-1)
        low, high = np.where(reach < distance, middle, low), np.where(reach < distance, high, middle)
    p = low[..., None]
    return low * distance + np.sum(path * np.sqrt(np.maximum(speeds**-2.0 - p**2, 0.0)), axis=-1)
