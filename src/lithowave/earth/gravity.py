"""Gravity in a radial model of the Earth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lithowave.earth.radial_model import RadialModel

GRAVITATIONAL_CONSTANT = 6.6743e-11
"""m^3 / (kg s^2), CODATA 2018."""

EARTH_CONSTANT = 3.986004418e14
"""Gravitational constant times the mass of the Earth, m^3/s^2."""

_STEPS = 1000  # in each layer, with two quadrature points each


@dataclass(frozen=True, eq=False)
class RadialGravity:
    """The acceleration of gravity g(r), m/s^2, towards the center.

    radii : m, ascending. masses : gravitational constant times the mass below them, m^3/s^2.
    """

    radii: np.ndarray
    masses: np.ndarray

    @classmethod
    def of(cls, model: RadialModel) -> RadialGravity:
        """Return the gravity of a model, below whose surface is the mass of the Earth.

        The mass below a radius is that of the Earth minus the mass of the model above it.
        """
        radii, shells = [np.array([model.radius])], [np.zeros(1)]
        for index, layer in enumerate(model.layers):
            edges = np.linspace(layer.top, max(layer.bottom, 1e-3 * layer.top), _STEPS + 1)
            middle, half = 0.5 * (edges[1:] + edges[:-1]), 0.5 * (edges[:-1] - edges[1:])
            points = middle + np.array([[-1.0], [1.0]]) * half / np.sqrt(3.0)
            density = model.properties(points, index).rho
            radii.append(edges[1:])
            shells.append(4.0 * np.pi * GRAVITATIONAL_CONSTANT * half * (density * points**2).sum(axis=0))
        masses = EARTH_CONSTANT - np.cumsum(np.concatenate(shells))
        return cls(np.concatenate(radii)[::-1], masses[::-1])

    def __call__(self, radius: np.ndarray) -> np.ndarray:
        """Return g at radii, m."""
        return np.interp(radius, self.radii, self.masses) / np.asarray(radius) ** 2
