"""The benchmark LOH.3: LOH.1 with attenuation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

PATH = Path(__file__).parents[1] / "data" / "loh3" / "loh3.npz"

REFERENCE_FREQUENCY = 2.5

LAYERS = [
    {"top": 0, "vp": 4000, "vs": 2000, "rho": 2600, "qp": 120, "qs": 40},
    {"top": -1000, "vp": 6000, "vs": 3464, "rho": 2700, "qp": 155.9, "qs": 69.3},
]

SOURCE = {
    "position": [0, 0, -2000],
    "moment_tensor": {"xy": 1e18},
    "time_function": {"gaussian": {"sigma": 0.12, "delay": 0.72}},
}


def material(**attenuation: Any) -> dict[str, Any]:
    """Return the material of a description; default of the band: that of the description."""
    return {"layers": LAYERS, "attenuation": {"reference_frequency": REFERENCE_FREQUENCY, **attenuation}}


def reference() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return times (n,), s, receivers (10, 3), m, and velocities (10, 3, n), m/s."""
    with np.load(PATH) as file:
        return file["t"], file["receivers"], file["v"]
