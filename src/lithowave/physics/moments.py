r"""Moment tensors, their size, and slip on a plane; x East, y North, z Up.

The components of a moment tensor, N m, are in the tensor order xx, yy, zz, xy, xz, yz (`tensors`). The scalar moment is
:math:`M_0 = \sqrt{M_{ij} M_{ij} / 2}` (Silver & Jordan 1982, Geophys. J. R. astr. Soc. 70, 755-787), and the moment
magnitude :math:`M_w = \tfrac23 (\log_{10} M_0 - 9.1)` with M0 in N m (IASPEI 2013). Strike, dip and rake are those of
Aki & Richards (2002), Quantitative Seismology, section 4.3: the plane dips to the right of the strike direction.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from lithowave.physics.tensors import tensor_components


def scalar_moment(moment: ArrayLike) -> np.ndarray:
    """Return M0 (...), N m, of moment tensors (..., 6)."""
    squares = np.asarray(moment, dtype=float) ** 2
    return np.sqrt(0.5 * squares[..., :3].sum(axis=-1) + squares[..., 3:].sum(axis=-1))


def moment_magnitude(scalar: float) -> float:
    """Return Mw of a scalar moment, N m; minus infinity for a zero moment."""
    return 2.0 / 3.0 * (math.log10(scalar) - 9.1) if scalar > 0.0 else -math.inf


def moment_of_magnitude(magnitude: float) -> float:
    """Return M0 = 10^(1.5 Mw + 9.1), N m."""
    return 10.0 ** (1.5 * magnitude + 9.1)


def plane_normal(strike: ArrayLike, dip: ArrayLike) -> np.ndarray:
    """Return the unit normal (..., 3) from the foot wall into the hanging wall; angles in degrees."""
    strike, dip = np.radians(strike), np.radians(dip)
    return np.stack([np.sin(dip) * np.cos(strike), -np.sin(dip) * np.sin(strike), np.cos(dip)], axis=-1)


def slip_direction(strike: ArrayLike, dip: ArrayLike, rake: ArrayLike) -> np.ndarray:
    """Return the unit vector (..., 3) of the slip of the hanging wall; angles in degrees."""
    strike, dip, rake = np.radians(strike), np.radians(dip), np.radians(rake)
    along, up = np.cos(rake), np.sin(rake)
    east = along * np.sin(strike) - np.cos(dip) * up * np.cos(strike)
    north = along * np.cos(strike) + np.cos(dip) * up * np.sin(strike)
    return np.stack([east, north, up * np.sin(dip)], axis=-1)


def dipole_pair(direction: np.ndarray, normal: np.ndarray) -> np.ndarray:
    """Return d n^T + n d^T (..., 6): the double couple of unit moment of a slip d in a plane with the unit normal n."""
    outer = direction[..., :, np.newaxis] * normal[..., np.newaxis, :]
    return tensor_components(outer + np.swapaxes(outer, -1, -2))


def double_couple(strike: ArrayLike, dip: ArrayLike, rake: ArrayLike) -> np.ndarray:
    """Return the moment tensor (..., 6) of unit moment of a slip in a plane; angles in degrees."""
    return dipole_pair(slip_direction(strike, dip, rake), plane_normal(strike, dip))
