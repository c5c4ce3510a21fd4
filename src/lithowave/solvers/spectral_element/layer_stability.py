r"""Anisotropic media in which waves grow in a perfectly matched layer.

The layer beyond a face with the normal a damps waves whose group velocity and slowness have components of the same sign
along a; others grow (Becache, Fauqueux & Joly 2003, J. Comput. Phys. 188, 399-433, condition C2). For a wave with unit
direction n, phase velocity c and polarization g, the group velocity is

.. math:: V_j = \frac{1}{\rho c} C_{ijkl}\, g_i\, g_k\, n_l .
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lithowave.solvers.spectral_element.absorbing_layer import AbsorbingLayer
from lithowave.solvers.spectral_element.faces import VOIGT

DIRECTIONS = 2000
TOLERANCE = 0.05  # frequency shift and friction of the layer damp waves that grow slowly: runs with -0.13 were stable


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


def growing_wave_warnings(layer: AbsorbingLayer, masks: np.ndarray, materials: Any, ranks: Any) -> list[str]:
    """Return a warning for each anisotropic material in the layer whose waves may grow there (collective call).

    masks : active axes of the elements of this rank.
    """
    warnings = []
    for number in np.flatnonzero(materials.anisotropic):
        own = int(np.bitwise_or.reduce(masks[materials.number == number], initial=0))
        active = int(np.bitwise_or.reduce(ranks.all_gather(own)))
        found = backward_waves(materials.stiffness[number], materials.rho[number])
        axes = [axis for axis in range(3) if active >> axis & 1 and found[axis] < -TOLERANCE]
        if axes:
            axis = "xyz"[min(axes, key=lambda one: found[one])]
            warnings.append(
                f"boundaries.absorption: layer: in the anisotropic material number {number + 1} (rho = "
                f"{materials.rho[number]:g} kg/m^3), some waves may grow in the layers along {axis}: their group "
                f"velocity along {axis} is opposite to their phase velocity, by up to "
                f"{100 * -found['xyz'.index(axis)]:.2g}% of it. If the run becomes unstable, set boundaries.absorption "
                "to stacey."
            )
    return warnings
