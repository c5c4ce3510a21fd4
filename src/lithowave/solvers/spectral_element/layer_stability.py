"""Warnings about anisotropic media in which waves grow in a perfectly matched layer."""

from __future__ import annotations

from typing import Any

import numpy as np

from lithowave.description.anisotropy import backward_waves
from lithowave.solvers.common.layer_warnings import GROWTH_TOLERANCE


def growing_wave_warnings(masks: np.ndarray, materials: Any, ranks: Any) -> list[str]:
    """Return a warning for each anisotropic material in the layer whose waves may grow there (collective call).

    masks : active axes of the elements of this rank.
    """
    warnings = []
    for number in np.flatnonzero(materials.anisotropic):
        own = int(np.bitwise_or.reduce(masks[materials.number == number], initial=0))
        active = int(np.bitwise_or.reduce(ranks.all_gather(own)))
        found = backward_waves(materials.stiffness[number], materials.rho[number])
        axes = [axis for axis in range(3) if active >> axis & 1 and found[axis] < -GROWTH_TOLERANCE]
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
