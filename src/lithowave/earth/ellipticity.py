r"""Hydrostatic ellipticity of the surfaces of equal density of a rotating Earth.

With the mass M(r) and the moment of inertia C(r) of the sphere below a radius r, Radau's approximation is

.. math:: \eta = \frac{25}{4} \Bigl(1 - \frac{3\,C}{2\,M r^2}\Bigr)^2 - 1, \qquad
    \frac{d \ln\varepsilon}{d \ln r} = \eta, \qquad
    \varepsilon(a) = \frac{5}{2}\,\frac{\Omega^2 a^3}{G M(a)}\,\frac{1}{\eta(a) + 2}

(Dahlen & Tromp 1998, Theoretical Global Seismology, section 14.1).
"""

from __future__ import annotations

from functools import cache

import numpy as np

from lithowave.earth.radial_model import RADIUS, RadialModel
from lithowave.earth.reference_models import reference_model

GRAVITATION = 6.6743e-11  # m^3 / (kg s^2)
ROTATION = 7.292115e-5  # rad/s
POINTS = 4001


def ellipticity(model: RadialModel, radii: np.ndarray) -> np.ndarray:
    """Return the ellipticity, equatorial less polar radius over the mean radius.

    radii : m, in ascending order from 0 to the surface; shells between them have the density at their middle.
    """
    middle = 0.5 * (radii[1:] + radii[:-1])
    rho = model.properties(middle).rho
    mass = 4.0 / 3.0 * np.pi * np.append(0.0, np.cumsum(rho * np.diff(radii**3)))
    inertia = 8.0 / 15.0 * np.pi * np.append(0.0, np.cumsum(rho * np.diff(radii**5)))
    with np.errstate(invalid="ignore", divide="ignore"):
        eta = 6.25 * (1.0 - 1.5 * inertia / (mass * radii**2)) ** 2 - 1.0
    eta[0] = 0.0
    surface = 2.5 * ROTATION**2 * radii[-1] ** 3 / (GRAVITATION * mass[-1]) / (eta[-1] + 2.0)
    slope = 0.5 * (eta[1:] + eta[:-1]) / middle * np.diff(radii)
    return surface * np.exp(-np.append(np.cumsum(slope[::-1])[::-1], 0.0))


@cache
def earth_ellipticity() -> tuple[np.ndarray, np.ndarray]:
    """Return radii, m, and the ellipticity of the Earth there, with the densities of PREM."""
    radii = np.linspace(0.0, RADIUS, POINTS)
    return radii, ellipticity(reference_model("prem", ocean=True), radii)
