"""The sea floor, the horizons and the salt of this example, as functions of position in m."""

from __future__ import annotations

import numpy as np

X = Y = (-6750.0, 6750.0)
BOTTOM = -4200.0

# Minimum wave speed of each material (S waves, P waves in the water), m/s, which determines element sizes.
SLOWEST = {"water": 1500.0, "zone_1": 1501.0, "zone_2": 1562.0, "zone_3": 1732.0, "zone_4": 1861.0, "salt": 3103.0}
FASTEST = {"water": 1500.0, "zone_1": 2600.0, "zone_2": 2705.0, "zone_3": 3000.0, "zone_4": 3223.0, "salt": 5094.0}
LAYERS = tuple(SLOWEST)[:-1]  # from the top down; the salt cuts through them

LEVELS = (0.0, -570.0, -1130.0, -1990.0, -2950.0, BOTTOM)  # mean z of the surface, the sea floor, horizons, the bottom
RELIEF = (0.0, 55.0, 70.0, 90.0, 60.0, 0.0)  # amplitude of their undulations
UPLIFT = (0.0, 60.0, 110.0, 160.0, 120.0, 0.0)  # above the salt


def interface(number: int, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return z, m, of the interface below the given number of layers: 0 surface, 1 sea floor, 5 bottom."""
    waves = np.sin(x / 2300 + 0.7 * number) * np.cos(y / 2900 - 0.5 * number)
    above_salt = np.exp(-(((x - 500) / 3600) ** 2) - ((y / 3200) ** 2))
    return LEVELS[number] + RELIEF[number] * waves + UPLIFT[number] * above_salt


def lifted(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Return the upward displacement of a point of the flat layers, m, interpolated between the interfaces."""
    moves = np.array([interface(number, x, y) - level for number, level in enumerate(LEVELS)])
    below = np.clip(np.searchsorted(-np.array(LEVELS), -z, side="right"), 1, len(LEVELS) - 1)
    top, bottom = np.array(LEVELS)[below - 1], np.array(LEVELS)[below]
    part = (top - z) / (top - bottom)
    columns = np.arange(x.size).reshape(x.shape)
    moves = moves.reshape(len(LEVELS), -1)
    return (1 - part) * moves[below - 1, columns] + part * moves[below, columns]


TILT = 0.07  # slope of the sections of the salt, upwards to the east
TONGUE = (-1900.0, 620.0, 3500.0)  # mean z, half its height, radius: a flat ellipsoid
STEM = (-2900.0, 1050.0, 1300.0)  # the same for the stem below, a rounded cylinder
BLEND = 900.0  # m, roundness of the corner between them


def squared_radius(z: np.ndarray) -> np.ndarray:
    """Return the squared mean radius of the salt at z, m2; negative above and below the salt."""
    tongue = TONGUE[2] ** 2 * (1 - ((z - TONGUE[0]) / TONGUE[1]) ** 2)
    stem = STEM[2] ** 2 * (1 - ((z - STEM[0]) / STEM[1]) ** 4)
    return (tongue + stem + np.hypot(tongue - stem, BLEND**2)) / 2  # the larger one, rounded


def axis(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return x and y of the center of the salt at z, m: the tongue extends to the east."""
    return 100 + 850 * np.tanh((z + 2350) / 450), 250 * np.tanh((z + 2450) / 700)


def outline(angle: np.ndarray) -> np.ndarray:
    """Return the radius of a section relative to its mean, at an angle from the east."""
    return 1 + 0.16 * np.cos(2 * angle - 0.6) + 0.08 * np.cos(3 * angle + 1.0)


def salt(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Return the approximate signed distance from the surface of the salt, m; negative inside."""
    level = z - TILT * x
    middle_x, middle_y = axis(level)
    away = np.hypot(x - middle_x, y - middle_y) / outline(np.arctan2(y - middle_y, x - middle_x))
    return (away**2 - squared_radius(level)) / 2000
