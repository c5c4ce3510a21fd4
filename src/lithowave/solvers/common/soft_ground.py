"""Soft ground in absorbing layers: guided waves that grow in perfectly matched layers.

A soft layer over rock guides waves, some of which have a group velocity opposite to their phase velocity. A perfectly
matched layer with the stretching 1 + d / (alpha + i omega) damps a guided wave at the rate

.. math:: \\frac{v_g}{v_p}\\, d\\, \\frac{\\omega^2}{\\omega^2 + \\alpha^2},

so that it amplifies waves with v_g / v_p < 0 (Becache, Fauqueux & Joly 2003, J. Comput. Phys. 188, 399-433). A larger
alpha, constant in the layer, reduces the amplification below the losses of these waves; it also reduces the absorption
of waves much longer than those of the highest frequency. It is therefore used in soft ground only.

At contrasts of vs of 4 and more it does not suffice. Finite differences then also have a viscosity in the layers,
which damps waves at the rate nu k^2 / 2: those of soft ground, which are short, much more than those of rock
(`finite_difference.layer_smoothing`).
"""

from __future__ import annotations

import numpy as np

from lithowave.description.simulation import Simulation

# vp of the fastest rock over the slowest velocity of a wave. Without measures, waves grew in long runs with ratios of
# 6, 8.7 and 14, and with a ratio of 4 if vs has a contrast of 2. They did not with a ratio of 4 in a homogeneous medium,
# or with 3.6 and a contrast of 2 (200,000 steps).
SOFT_RATIO, LAYERED_RATIO, CONTRAST = 5.0, 3.8, 1.5
# gamma of `layer_smoothing` at these ratios of vs of the fastest rock to the slowest velocity. Waves did not grow
# without it at 3 and 3.5, and did at 4 and above; with three quarters of these values they did not.
CONTRASTS, VISCOSITIES = (3.0, 5.0), (0.0, 0.0156)
# The same ratio without the viscosity. Waves grew at a ratio of 8 by factors of 1.2 to 2 during one period of the
# highest frequency.
GROWING_CONTRAST = 6.0


def is_soft(simulation: Simulation) -> bool:
    """True if layers need measures for soft ground."""
    extremes = simulation.material_extremes
    layered = extremes["vs_max"] >= CONTRAST * extremes["slowest"]
    return extremes["vp_max"] >= (LAYERED_RATIO if layered else SOFT_RATIO) * extremes["slowest"]


def viscosity(simulation: Simulation) -> float:
    """Return gamma of `finite_difference.layer_smoothing`; 0 if the ground is not soft."""
    extremes = simulation.material_extremes
    contrast = extremes["vs_max"] / extremes["slowest"]
    return float(np.interp(contrast, CONTRASTS, VISCOSITIES)) if is_soft(simulation) else 0.0


def soft_ground_warnings(simulation: Simulation, limit: float = GROWING_CONTRAST) -> list[str]:
    """Return a warning if waves may grow in the layers despite the measures: above this ratio of vs."""
    extremes = simulation.material_extremes
    fastest, slowest = extremes["vs_max"], extremes["slowest"]
    if fastest < limit * slowest:
        return []
    places = simulation.material.extreme_places(simulation.domain.ground)
    return [
        f"boundaries: vs = {fastest:g} m/s in {places['vs_max']} is {fastest / slowest:.3g} times the velocity "
        f"{slowest:g} m/s in {places['slowest']}. If soft ground with such a contrast reaches an absorbing layer, "
        "guided waves may grow there in runs of many periods; such a run ends with an error. Then move the absorbing "
        "sides to where the ground is stiffer, or shorten the duration."
    ]
