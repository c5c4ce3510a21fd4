r"""Formulas of elasticity and of sources that several packages use, each stated once, in NumPy.

**Orders** of the six components of a symmetric tensor with the axes x, y, z. Stiffness matrices have Voigt's order xx,
yy, zz, yz, xz, xy. Moment tensors, and the stresses and strains of outputs, have the *tensor order* xx, yy, zz, xy, xz,
yz.

**Stiffness**: a symmetric matrix (..., 6, 6) in Pa in Voigt's order xx, yy, zz, yz, xz, xy, so that
stress = matrix @ (exx, eyy, ezz, 2 eyz, 2 exz, 2 exy). An isotropic medium has

.. math::
    c_{ijkl} = \lambda \delta_{ij} \delta_{kl} + \mu (\delta_{ik} \delta_{jl} + \delta_{il} \delta_{jk}), \qquad
    \mu = \rho v_s^2, \quad \lambda = \rho v_p^2 - 2 \mu = \kappa - \tfrac23 \mu.

**Moment tensors**, their size, and slip on a plane; x East, y North, z Up. The components, N m, are in the tensor order
xx, yy, zz, xy, xz, yz. The scalar moment is
:math:`M_0 = \sqrt{M_{ij} M_{ij} / 2}` (Silver & Jordan 1982, Geophys. J. R. astr. Soc. 70, 755-787), and the moment
magnitude :math:`M_w = \tfrac23 (\log_{10} M_0 - 9.1)` with M0 in N m (IASPEI 2013). Strike, dip and rake are those of
Aki & Richards (2002), Quantitative Seismology, section 4.3: the plane dips to the right of the strike direction.
"""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

VOIGT_PAIRS = ((0, 0), (1, 1), (2, 2), (1, 2), (0, 2), (0, 1))
"""The two axes of each component in Voigt's order."""

TENSOR_PAIRS = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))
"""The two axes of each component in the tensor order."""

VOIGT_INDEX = np.array([[0, 5, 4], [5, 1, 3], [4, 3, 2]])
"""Index in Voigt's order of the component of each pair of axes."""

TENSOR_INDEX = np.array([[0, 3, 4], [3, 1, 5], [4, 5, 2]])
"""Index in the tensor order of the component of each pair of axes."""

SWAPPED = np.array([0, 1, 2, 5, 4, 3])
"""Index in one order of each component of the other order; it is its own inverse."""


def tensor_components(tensor: np.ndarray) -> np.ndarray:
    """Return the components (..., 6) of symmetric tensors (..., 3, 3) in the tensor order."""
    first, second = np.transpose(TENSOR_PAIRS)
    return tensor[..., first, second]


N = TypeVar("N", float, np.ndarray)


def lame_moduli(vp: N, vs: N, rho: N) -> tuple[N, N]:
    """Return lambda = rho vp^2 - 2 mu and mu = rho vs^2, Pa, from vp, vs (m/s) and rho (kg/m^3)."""
    mu = rho * vs**2
    return rho * vp**2 - 2.0 * mu, mu


def isotropic_stiffness(lam: ArrayLike, mu: ArrayLike) -> np.ndarray:
    """Return the stiffness (..., 6, 6), Pa, of isotropic media from lambda and mu (...), Pa.

    The matrix is the same in both orders.
    """
    lam, mu = np.asarray(lam), np.asarray(mu)
    matrix = np.zeros((*lam.shape, 6, 6))
    matrix[..., :3, :3] = lam[..., None, None]
    matrix[..., range(6), range(6)] += np.array([2.0, 2.0, 2.0, 1.0, 1.0, 1.0]) * mu[..., None]
    return matrix


def voigt_average(stiffness: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return kappa and mu (...), Pa, of the isotropic (Voigt) average of stiffnesses (..., 6, 6) in either order.

    kappa = C_iijj / 9, mu = (3 C_ijij - C_iijj) / 30, summed over i and j.
    """
    diagonal = stiffness[..., range(6), range(6)]
    normal, shear = diagonal[..., :3].sum(axis=-1), diagonal[..., 3:].sum(axis=-1)
    across = stiffness[..., 0, 1] + stiffness[..., 0, 2] + stiffness[..., 1, 2]
    return (normal + 2.0 * across) / 9.0, (normal - across + 3.0 * shear) / 15.0


def stiffness_tensor(stiffness: np.ndarray) -> np.ndarray:
    """Return the tensors c_ijkl (..., 3, 3, 3, 3) of stiffnesses (..., 6, 6)."""
    return stiffness[..., VOIGT_INDEX[:, :, None, None], VOIGT_INDEX]


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
