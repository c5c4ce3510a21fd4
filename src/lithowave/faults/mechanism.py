"""Vectors and unit moment tensors of slip on a plane, after Aki & Richards (2002); x East, y North, z Up."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


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


def double_couple(direction: np.ndarray, normal: np.ndarray) -> np.ndarray:
    """Return d nᵀ + n dᵀ (..., 6) in the order xx, yy, zz, xy, xz, yz: the tensor of unit moment."""
    outer = direction[..., :, np.newaxis] * normal[..., np.newaxis, :]
    return voigt(outer + np.swapaxes(outer, -1, -2))


def voigt(tensor: np.ndarray) -> np.ndarray:
    """Return the components (..., 6) xx, yy, zz, xy, xz, yz of symmetric tensors (..., 3, 3)."""
    return tensor[..., (0, 1, 2, 0, 0, 1), (0, 1, 2, 1, 2, 2)]
