"""Soft ground in absorbing layers: guided waves that grow in perfectly matched layers.

A soft layer over rock guides waves, some of which have a group velocity opposite to their phase velocity. A perfectly
matched layer with the stretching 1 + d / (alpha + i omega) damps a guided wave at the rate

.. math:: \\frac{v_g}{v_p}\\, d\\, \\frac{\\omega^2}{\\omega^2 + \\alpha^2},

so that it amplifies waves with v_g / v_p < 0 (Becache, Fauqueux & Joly 2003, J. Comput. Phys. 188, 399-433). A larger
alpha, constant in the layer, reduces the amplification below the losses of these waves; it also reduces the absorption
of waves much longer than those of the highest frequency. It is therefore used in soft ground only.

At contrasts of vs of 3.5 and more it does not suffice. Finite differences then also have a viscosity in the layers,
which damps waves at the rate nu k^2 / 2: those of soft ground, which are short, much more than those of rock
(`finite_difference.layer_smoothing`). The layers of the element methods are damped instead of perfectly matched: thick
layers, in which momentum and stress decay at the same rate, so that no wave can grow.
"""

from __future__ import annotations

import numpy as np

from lithowave.description.simulation import Simulation

# vp of the fastest rock over the slowest velocity of a wave. Without measures, waves grew in long runs with ratios of
# 6, 8.7 and 14, and with a ratio of 4 if vs has a contrast of 2. They did not with a ratio of 4 in a homogeneous
# medium, or with 3.6 and a contrast of 2 (200,000 steps).
SOFT_RATIO, LAYERED_RATIO, CONTRAST = 5.0, 3.8, 1.5
# gamma of `layer_smoothing` at these ratios of vs of the fastest rock to the slowest velocity. Waves did not grow
# without it at 3 and 3.5, and did at 4 and above; with three quarters of these values they did not.
CONTRASTS, VISCOSITIES = (3.0, 5.0), (0.0, 0.0156)
# The same ratio from which layers of the element methods are damped. In perfectly matched layers, waves grew during one
# period of the highest frequency by factors of up to 1.006 at a ratio of 3, 1.05 at 3.5, 1.16 at 4, 1.3 at 5, 2 at 8.
DAMPED_CONTRAST = 2.9
WIDE_CELLS = 20  # of layers with a viscosity whose effect is small


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


def needs_damping(simulation: Simulation) -> bool:
    """True if waves would grow in perfectly matched layers of the element methods."""
    extremes = simulation.material_extremes
    return extremes["vs_max"] >= DAMPED_CONTRAST * extremes["slowest"]


def viscosity_warnings(simulation: Simulation) -> list[str]:
    """Return a warning if the viscosity of the layers changes seismograms next to them.

    Relative L2 differences from a larger box at receivers 50 to 200 m from its sides, of ground of 400 m/s and 300 m:
    4% at a contrast of 4 and 8% at 8 with layers of 10 cells, 2 and 4% with 20, of which 2% are due to the grid.
    """
    layer = simulation.boundaries.layer
    if not viscosity(simulation) or layer.cells >= WIDE_CELLS:
        return []
    extremes = simulation.material_extremes
    return [
        f"boundaries.layer.cells: vs varies by a factor of {extremes['vs_max'] / extremes['slowest']:.3g}, so that the "
        f"velocities in the absorbing layers are smoothed. Layers of {layer.cells} cells then changed seismograms next "
        f"to the sides by 4 to 8% in a measured model; set boundaries.layer.cells: {WIDE_CELLS} for half of this, or "
        "move the sides away from the receivers."
    ]


def soft_ground_warnings(simulation: Simulation, limit: float = DAMPED_CONTRAST) -> list[str]:
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
