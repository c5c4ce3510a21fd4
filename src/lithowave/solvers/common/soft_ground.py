"""Soft ground in absorbing layers: guided waves that grow in perfectly matched layers.

A soft layer over rock guides waves, some of which have a group velocity opposite to their phase velocity. A perfectly
matched layer with the stretching 1 + d / (alpha + i omega) damps a guided wave at the rate

.. math:: \\frac{v_g}{v_p}\\, d\\, \\frac{\\omega^2}{\\omega^2 + \\alpha^2},

so that it amplifies waves with v_g / v_p < 0 (Becache, Fauqueux & Joly 2003, J. Comput. Phys. 188, 399-433). A larger
alpha, constant in the layer, reduces the amplification below the losses of these waves; it also reduces the absorption
of waves much longer than those of the highest frequency. It is therefore used in soft ground only.
"""

from __future__ import annotations

from lithowave.description.simulation import Simulation

# vp of the fastest rock over the slowest velocity of a wave. Without a larger alpha, waves grew in long runs with
# ratios of 6, 8.7 and 14, and with a ratio of 4 if vs has a contrast of 2. They did not with a ratio of 4 in a
# homogeneous medium, or with 3.6 and a contrast of 2 (200,000 steps).
SOFT_RATIO, LAYERED_RATIO, CONTRAST = 5.0, 3.8, 1.5
# vs of the fastest rock over the slowest velocity. Waves also grew with a larger alpha at a ratio of 8, by factors of
# 1.2 to 2 during one period of the highest frequency, and did not at 3.
GROWING_CONTRAST = 6.0


def is_soft(simulation: Simulation) -> bool:
    """True if layers need the larger alpha for soft ground."""
    extremes = simulation.material_extremes
    layered = extremes["vs_max"] >= CONTRAST * extremes["slowest"]
    return extremes["vp_max"] >= (LAYERED_RATIO if layered else SOFT_RATIO) * extremes["slowest"]


def soft_ground_warnings(simulation: Simulation) -> list[str]:
    """Return a warning if waves may grow in perfectly matched layers despite the larger alpha."""
    extremes = simulation.material_extremes
    fastest, slowest = extremes["vs_max"], extremes["slowest"]
    if fastest < GROWING_CONTRAST * slowest:
        return []
    places = simulation.material.extreme_places(simulation.domain.ground)
    return [
        f"boundaries: vs = {fastest:g} m/s in {places['vs_max']} is {fastest / slowest:.3g} times the velocity "
        f"{slowest:g} m/s in {places['slowest']}. If soft ground with such a contrast reaches an absorbing layer, "
        "guided waves may grow there in runs of many periods; such a run ends with an error. Then move the absorbing "
        "sides to where the ground is stiffer, or shorten the duration."
    ]
