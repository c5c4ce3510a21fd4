"""Plane waves in a homogeneous anisotropic elastic solid, from Christoffel's equation.

u = d f(t − x·n/c) satisfies ρ ü = div(C : grad u) where ρ c² d = Γ d, Γ = L C Lᵀ and L is the matrix that maps a
displacement across the direction n to a strain in Voigt notation (Auld 1990, *Acoustic Fields and Waves in Solids*,
section 7.C). This module shares no code with the solvers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

NAMES = ("slow shear", "fast shear", "compressional")


@dataclass(frozen=True)
class AnisotropicWave:
    """A plane wave along `direction` with its `polarization`, unit vectors, and phase `speed`, m/s."""

    name: str
    direction: np.ndarray
    polarization: np.ndarray
    speed: float


def christoffel_waves(
    stiffness: np.ndarray, rho: float, direction: Sequence[float]
) -> tuple[AnisotropicWave, AnisotropicWave, AnisotropicWave]:
    """Return the three waves along a direction (a vector of nonzero length), the slowest first.

    Parameters
    ----------
    stiffness : (6, 6), Pa, in Voigt notation: xx, yy, zz, yz, xz, xy. rho : kg/m³.

    Raises
    ------
    ValueError : a null direction, or moduli for which a wave speed is not real.
    """
    n = np.asarray(direction, dtype=float)
    length = np.linalg.norm(n)
    if not length > 0.0:
        raise ValueError(f"direction = {tuple(direction)}: must be three numbers, not all 0")
    n = n / length
    x, y, z = n
    strain = np.array([[x, 0, 0, 0, z, y], [0, y, 0, z, 0, x], [0, 0, z, y, x, 0]])
    squares, vectors = np.linalg.eigh(strain @ np.asarray(stiffness, dtype=float) @ strain.T / rho)
    if not squares[0] > 0.0:
        raise ValueError(f"the squared speed along {tuple(n)} is {squares[0]:g} m²/s²: must be above 0")
    speeds = np.sqrt(squares)
    slow, fast, compressional = (
        AnisotropicWave(name, n, vector, float(speed))
        for name, vector, speed in zip(NAMES, vectors.T, speeds, strict=True)
    )
    return slow, fast, compressional
