r"""Gravity in solid elements, in the Cowling approximation.

A displacement s in a body at rest under its own gravity g = -g(r) r/|r| changes the force by

.. math:: f = \nabla(\rho\, s \cdot g) - \nabla \cdot (\rho\, s)\, g

if the change of the gravitational potential is neglected (Komatitsch & Tromp 2002, GJI 150, 303-318). For a
density whose gradient is parallel to g, and surfaces normal to g, its weak form with a test function w is symmetric:

.. math::
    \int w \cdot f = \tfrac12 \int \rho\, \bigl[ (s \cdot \nabla w) \cdot g - (\nabla \cdot w)\, s \cdot g
        + (w \cdot \nabla s) \cdot g - (\nabla \cdot s)\, w \cdot g \bigr] + \int \rho\, s \cdot (\nabla g) \cdot w .

The kernels evaluate this form, which is symmetric at the quadrature points too, so that the discrete energy is
conserved. With h = -rho g and dg/dr = 4 pi G rho - 2 g / r, the stress (row: component of the force) and the body force
at a point are

.. math::
    \sigma = \tfrac12 (h\, s - (s \cdot h)\, I), \qquad
    b = \tfrac12 (\nabla \cdot s)\, h - \tfrac12 (\nabla s)^T h - p\, s - q\, (h \cdot s)\, h, \qquad
    p = \rho g / r, \quad q = \rho\, (dg/dr - g/r) / |h|^2 .

On surfaces that are parallel to g, such as the sides of a chunk, the symmetric form has a traction of the order of
rho g s, which changes the absorption there slightly.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lithowave.backends.host_threads import over_parts
from lithowave.earth.gravity import GRAVITATIONAL_CONSTANT
from lithowave.solvers.spectral_element.geometry import gll_positions

GRAVITY_VALUES = 5  # at a point: h (3), N/m^3, p, N/m^4, and q, m^2/N
PART = 1024


def gravity_values(plan: Any, elements: np.ndarray, dtype: Any) -> np.ndarray:
    """Return h, p and q at the points of some elements, (elements, 5, k, j, i)."""
    n = plan.degree + 1
    found = np.empty((len(elements), GRAVITY_VALUES, n, n, n), dtype)

    def compute(part: slice) -> None:
        own = elements[part]
        position = gll_positions(plan.mesh.element_nodes(own), plan.degree)
        radius = np.sqrt((position**2).sum(axis=-1))
        rho = np.broadcast_to(plan.materials.density(own).astype(float), (len(own), n**3)).reshape(radius.shape)
        acceleration = plan.gravity(radius)
        weight = rho * acceleration
        slope = 4.0 * np.pi * GRAVITATIONAL_CONSTANT * rho - 2.0 * acceleration / radius
        found[part, :3] = np.moveaxis(position, -1, 1) * (weight / radius)[:, None]
        found[part, 3] = weight / radius
        found[part, 4] = (slope - acceleration / radius) / (weight * acceleration)

    over_parts(compute, len(elements), PART)
    return found
