r"""Anisotropic media in which waves grow in a perfectly matched layer.

The layer beyond a face with the normal a damps waves whose group velocity and slowness have components of the same sign
along a; others grow (Becache, Fauqueux & Joly 2003, J. Comput. Phys. 188, 399-433, condition C2). For a wave with unit
direction n, phase velocity c and polarization g, the group velocity is

.. math:: V_j = \frac{1}{\rho c} C_{ijkl}\, g_i\, g_k\, n_l .
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lithowave.errors import InputError
from lithowave.solvers.spectral_element.absorbing_layer import AXIS_MASK, AbsorbingLayer
from lithowave.solvers.spectral_element.faces import VOIGT

DIRECTIONS = 2000
TOLERANCE = 0.05  # frequency shift and friction of the layer damp waves that grow slowly: runs with -0.03 were stable


def backward_waves(stiffness: np.ndarray, rho: float) -> np.ndarray:
    """Return for each axis the minimum of V_a n_a / c over all waves: negative if waves grow in a layer along it.

    stiffness : Voigt's matrix (6, 6), Pa.
    """
    directions = np.random.default_rng(1).standard_normal((DIRECTIONS, 3))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    tensor = stiffness[VOIGT[:, :, None, None], VOIGT] / rho
    christoffel = np.einsum("ijkl,dj,dl->dik", tensor, directions, directions)
    squares, vectors = np.linalg.eigh(christoffel)
    group = np.einsum("ijkl,dim,dkm,dl->dmj", tensor, vectors, vectors, directions, optimize=True)
    return (group * directions[:, None] / squares[..., None]).min(axis=(0, 1))


def refuse_growing_waves(layer: AbsorbingLayer, masks: np.ndarray, materials: Any) -> None:
    """InputError: an anisotropic material in the layer has waves that grow there. masks : active axes of elements."""
    for number in np.flatnonzero(materials.anisotropic):
        active = np.bitwise_or.reduce(masks[materials.number == number], initial=0)
        found = backward_waves(materials.stiffness[number], materials.rho[number])
        for face in layer.sides:
            least = found["xyz".index(face[0])]
            if active & AXIS_MASK[face] and least < -TOLERANCE:
                raise InputError(
                    "boundaries.absorption",
                    f"layer: in the anisotropic material number {number + 1} (rho = {materials.rho[number]:g} kg/m^3), "
                    f"waves grow in a layer beyond {face}: their group velocity along {face[0]} is opposite to their "
                    f"phase velocity, by up to {-least:.2g} of it",
                    "allowed for this material: stacey", "set boundaries.absorption to stacey",
                )  # fmt: skip
