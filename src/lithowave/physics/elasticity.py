r"""Stiffness matrices, and the moduli of isotropic media.

A stiffness is a symmetric matrix (..., 6, 6) in Pa in Voigt's order xx, yy, zz, yz, xz, xy (`tensors`), so that
stress = matrix @ (exx, eyy, ezz, 2 eyz, 2 exz, 2 exy). An isotropic medium has

.. math::
    c_{ijkl} = \lambda \delta_{ij} \delta_{kl} + \mu (\delta_{ik} \delta_{jl} + \delta_{il} \delta_{jk}), \qquad
    \mu = \rho v_s^2, \quad \lambda = \rho v_p^2 - 2 \mu = \kappa - \tfrac23 \mu.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lithowave.physics.tensors import VOIGT_INDEX


def lame_moduli(vp: Any, vs: Any, rho: Any) -> tuple[Any, Any]:
    """Return lambda = rho vp^2 - 2 mu and mu = rho vs^2, Pa, from vp, vs (m/s) and rho (kg/m^3)."""
    mu = rho * vs**2
    return rho * vp**2 - 2.0 * mu, mu


def isotropic_stiffness(lam: ArrayLike, mu: ArrayLike) -> np.ndarray:
    """Return the stiffness (..., 6, 6), Pa, of isotropic media from lambda and mu (...), Pa.

    The matrix is the same in both orders of `tensors`.
    """
    lam, mu = np.asarray(lam), np.asarray(mu)
    matrix = np.zeros((*lam.shape, 6, 6))
    matrix[..., :3, :3] = lam[..., None, None]
    matrix[..., range(6), range(6)] += np.array([2.0, 2.0, 2.0, 1.0, 1.0, 1.0]) * mu[..., None]
    return matrix


def voigt_average(stiffness: np.ndarray) -> tuple[Any, Any]:
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
