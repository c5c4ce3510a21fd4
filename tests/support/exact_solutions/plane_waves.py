"""Plane P and S waves with any waveform in a homogeneous, isotropic elastic solid.

v_i = d_i f(t − (x − x₀)·n/c),  σ_ij = −[λ δ_ij d_k n_k + μ (d_i n_j + d_j n_i)] f(t − (x − x₀)·n/c) / c

with n the direction of travel, d the polarization (d = n, c = α for P; d ⟂ n, c = β for S) and f the
particle velocity (Aki & Richards 2002, section 5.1). Axes x East, y North, z Up; stresses in Voigt order
xx, yy, zz, xy, xz, yz; SI units.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

VOIGT_PAIRS = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))


@dataclass(frozen=True)
class PlaneWave:
    """A plane wave, created by `pressure_wave` or `shear_wave`.

    Attributes
    ----------
    direction, polarization : (3,) unit vectors.
    speed : m/s.
    lame_lambda, rigidity : λ and μ, Pa.
    waveform : particle velocity (m/s) at the origin as a function of time (s), on arrays.
    origin : (3,) the point at which the wave is ``waveform(t)``, m.
    """

    direction: np.ndarray
    polarization: np.ndarray
    speed: float
    lame_lambda: float
    rigidity: float
    waveform: Callable[[np.ndarray], np.ndarray]
    origin: np.ndarray

    def particle_velocity(
        self, x: np.ndarray, y: np.ndarray, z: np.ndarray, t: np.ndarray | float
    ) -> np.ndarray:
        """Return (3, ...) velocity, m/s, at coordinates (m) and times (s) that broadcast together."""
        return np.multiply.outer(self.polarization, self.waveform(self.phase(x, y, z, t)))

    def stress(self, x: np.ndarray, y: np.ndarray, z: np.ndarray, t: np.ndarray | float) -> np.ndarray:
        """Return (6, ...) stress, Pa, in Voigt order, at coordinates (m) and times (s) that broadcast together."""
        n, d = self.direction, self.polarization
        tensor = self.lame_lambda * (n @ d) * np.eye(3) + self.rigidity * (np.outer(n, d) + np.outer(d, n))
        voigt = np.array([tensor[pair] for pair in VOIGT_PAIRS])
        return np.multiply.outer(-voigt / self.speed, self.waveform(self.phase(x, y, z, t)))

    def phase(self, x: np.ndarray, y: np.ndarray, z: np.ndarray, t: np.ndarray | float) -> np.ndarray:
        """Return t − (x − x₀)·n/c, s."""
        n, origin = self.direction, self.origin
        path = n[0] * (x - origin[0]) + n[1] * (y - origin[1]) + n[2] * (z - origin[2])
        return np.asarray(t - path / self.speed)


def pressure_wave(
    direction: Sequence[float],
    vp: float,
    vs: float,
    rho: float,
    waveform: Callable[[np.ndarray], np.ndarray],
    origin: Sequence[float] = (0.0, 0.0, 0.0),
) -> PlaneWave:
    """Return a P wave travelling along `direction` (a vector of nonzero length). ValueError for a null direction."""
    n = _unit(direction, "direction")
    return PlaneWave(n, n, vp, *_moduli(vp, vs, rho), waveform, np.asarray(origin, dtype=float))


def shear_wave(
    direction: Sequence[float],
    polarization: Sequence[float],
    vp: float,
    vs: float,
    rho: float,
    waveform: Callable[[np.ndarray], np.ndarray],
    origin: Sequence[float] = (0.0, 0.0, 0.0),
) -> PlaneWave:
    """Return an S wave travelling along `direction`, moving along `polarization`.

    Raises ValueError for a null vector, and for a polarization that is not perpendicular to the direction
    (to 1e-9).
    """
    n, d = _unit(direction, "direction"), _unit(polarization, "polarization")
    if abs(n @ d) > 1e-9:
        raise ValueError(
            f"polarization = {tuple(polarization)} is not perpendicular to direction = {tuple(direction)}: "
            f"the cosine of their angle is {n @ d:.3g}, must be 0"
        )
    return PlaneWave(n, d, vs, *_moduli(vp, vs, rho), waveform, np.asarray(origin, dtype=float))


def _unit(vector: Sequence[float], name: str) -> np.ndarray:
    array = np.asarray(vector, dtype=float)
    length = np.linalg.norm(array)
    if array.shape != (3,) or not length > 0.0:
        raise ValueError(f"{name} = {tuple(vector)}: must be three numbers, not all 0")
    return array / length


def _moduli(vp: float, vs: float, rho: float) -> tuple[float, float]:
    """Return λ and μ, Pa."""
    return rho * (vp**2 - 2.0 * vs**2), rho * vs**2
