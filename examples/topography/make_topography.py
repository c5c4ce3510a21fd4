"""Write the mountain of this example: ``python make_topography.py`` writes mountain.npz to this directory.

Files of real elevations have the same form: `elevation` in m, of shape (ny, nx), on ascending axes `x` (East) and
`y` (North) in m, and `axes`, which names the dimensions of `elevation`. It must cover the domain.
"""

from pathlib import Path

import numpy as np

STEP = 200.0  # m, grid spacing of the elevations
HEIGHT = 1300.0  # m, of the peak
AXIS = np.radians(25.0)  # direction of the ridge, west of north
STEEP, GENTLE, ALONG = 1600.0, 2600.0, 3600.0  # m, from the crest to 1/e of its height: west, east, along
SHOULDER, SHOULDER_PLACE, SHOULDER_WIDTH = 350.0, (2800.0, 1600.0), 1000.0  # m


def elevation(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the elevation in m: a ridge, steep in the west and gentle in the east, with a shoulder in the east."""
    across, along = np.cos(AXIS) * x + np.sin(AXIS) * y, np.cos(AXIS) * y - np.sin(AXIS) * x
    width = np.where(across < 0.0, STEEP, GENTLE)
    crest = HEIGHT * np.exp(-((across / width) ** 2) - (along / ALONG) ** 2)
    away = np.hypot(x - SHOULDER_PLACE[0], y - SHOULDER_PLACE[1])
    return crest + SHOULDER * np.exp(-((away / SHOULDER_WIDTH) ** 2))


def main() -> None:
    """Write the elevation file."""
    x, y = np.arange(-9000.0, 9001.0, STEP), np.arange(-7000.0, 7001.0, STEP)
    heights = elevation(*np.meshgrid(x, y)).round(1).astype(np.float32)
    np.savez_compressed(Path(__file__).with_name("mountain.npz"), x=x, y=y, elevation=heights, axes=["y", "x"])
    print(f"{heights.size} heights, {heights.min():.0f} to {heights.max():.0f} m")


if __name__ == "__main__":
    main()
