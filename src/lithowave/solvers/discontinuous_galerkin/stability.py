"""Largest stable time steps."""

from __future__ import annotations

import numpy as np

# Time step of an element over insphere diameter / ((2 order - 1) fastest wave), by order: below the stability limit on
# meshes of all tested shapes (`tests/verification/test_discontinuous_galerkin_stability.py`).
COURANT = {2: 0.55, 3: 0.55, 4: 0.52, 5: 0.5, 6: 0.45, 7: 0.42}


def stable_time_steps(order: int, insphere_radii: np.ndarray, fastest: np.ndarray) -> np.ndarray:
    """Return the largest stable step of each element, s. insphere_radii : m. fastest : wave velocity, m/s."""
    return COURANT[order] * 2.0 * insphere_radii / ((2 * order - 1) * fastest)
