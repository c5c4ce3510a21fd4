r"""Relaxation of the stresses of elements with attenuation, with memory variables at some of their points.

With the unrelaxed moduli C, the weights Y_j of the bulk modulus kappa and of the shear modulus mu, and the rates w_j of
the mechanisms (`lithowave.rheology.body`),

.. math::
    \sigma = C : \varepsilon - \sum_j R_j, \qquad \dot R_j + \omega_j R_j = \omega_j F_j, \qquad
    F_j = Y_j^\kappa \kappa\, \mathrm{tr}(\varepsilon) I + 2 Y_j^\mu \mu\, \mathrm{dev}(\varepsilon),

where kappa and mu of an anisotropic medium are those of its isotropic (Voigt) average. For a strain that is linear
between the steps, the solution at t_{n+1} is exact with one memory variable m per component and mechanism,

.. math::
    R = b F + m, \quad m \leftarrow c F + a m, \qquad x = \omega \Delta t, \quad a = e^{-x}, \quad
    g = \frac{1 - a}{x}, \quad b = 1 - g, \quad c = g (1 - a).

With the stress s = F - R of the spring and dashpot of a mechanism, whose modulus is f, F = f e, the work of a step is
(s + s') (e' - e) / 2 = (1 + a) / (4 g f) (s'^2 - s^2) + (1 - a) / (4 g f) (s + s')^2. The last term, the dissipation,
is never negative: for every time step that is stable with the unrelaxed moduli, the discrete energy does not increase.

Only the points of an element whose index along each axis is in a set carry F_j (coarse-grained memory variables: Day
1998, BSSA 88, 1051-1062; van Driel & Nissen-Meyer 2014, GJI 199, 1078-1093). Each point of the element assigns its
moduli w J Y kappa and w J Y mu, with the quadrature weight w and the Jacobian J, to the nearest carrying point, or in
equal parts to the two nearest, along each axis. The sum of the moduli over an element, and with it the attenuation of
waves of any direction to first order in 1/Q, does not depend on the set. The relaxed moduli of carrying points,
kappa - sum_j Y_j kappa and mu - sum_j Y_j mu, must be positive: the set is the smallest one with sums of Y below
`LARGEST_RELAXATION`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from lithowave.errors import InputError
from lithowave.rheology.body import RelaxationBody
from lithowave.solvers.spectral_element.geometry import determinant, jacobian_matrix
from lithowave.solvers.spectral_element.gll import gll_points, gll_weights

COARSE = {
    2: ((1,),), 3: ((1, 2),), 4: ((1, 3), (1, 2, 3)), 5: ((2, 3), (1, 2, 3, 4)), 6: ((2, 3, 4), (1, 2, 3, 4, 5)),
    7: ((2, 3, 4, 5), (1, 2, 3, 4, 5, 6)), 8: ((2, 3, 4, 5, 6), (1, 2, 3, 4, 5, 6, 7)),
}  # fmt: skip
"""Sets of carrying points by degree, smaller ones first: indices along an axis."""

LARGEST_RELAXATION = 0.9
"""Largest sum of the weights Y_j at a carrying point."""

COMPONENTS = 6
"""Memory variables of a mechanism: xx, yy, zz, yz, xz, xy."""

PART = 2000  # elements that are processed at a time


@dataclass(frozen=True)
class Losses:
    """Attenuation of the materials of elements.

    body : relaxation mechanisms. inverse : 1/Qkappa and 1/Qmu, (2, materials), or (2, elements, k, j, i) at points.
    """

    body: RelaxationBody
    inverse: np.ndarray


def point_sets(degree: int) -> tuple[tuple[int, ...], ...]:
    """Return the sets of carrying points of a degree, smaller ones first; the last one contains all points."""
    return (*COARSE.get(degree, ()), tuple(range(degree + 1)))


@lru_cache
def shares(degree: int, carriers: tuple[int, ...]) -> np.ndarray:
    """Return the part (carriers, points) of each point along an axis that each carrying point receives."""
    points = gll_points(degree)
    distance = np.abs(points[list(carriers), None] - points)
    nearest = distance <= distance.min(axis=0) + 1e-9
    return nearest / nearest.sum(axis=0)


def recursion(body: RelaxationBody, time_step: float) -> np.ndarray:
    """Return b, a and c of each mechanism, (n, 3)."""
    decay = np.exp(-body.rates * time_step)
    mean = -np.expm1(-body.rates * time_step) / (body.rates * time_step)
    return np.stack([1.0 - mean, decay, mean * -np.expm1(-body.rates * time_step)], axis=1)


def carried_moduli(
    mesh: Any, materials: Any, degree: int, elements: np.ndarray, carriers: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the moduli Y_j kappa and Y_j mu of carrying points, (elements, n, 2, k, j, i), Pa, and the largest sum of
    Y_j in each element, relative to the smallest stiffness of an anisotropic medium."""
    n, losses = degree + 1, materials.losses
    weights = gll_weights(degree)
    volume = determinant(jacobian_matrix(mesh.element_nodes(elements), degree))
    volume = volume * weights[:, None, None] * weights[:, None] * weights
    inverse = losses.inverse[:, elements if materials.varying else materials.number[elements]]
    moduli = np.stack(materials.isotropic_moduli(elements))  # [kappa or mu, element(, k, j, i)]
    full = losses.body.weights(inverse) * moduli  # [mechanism, kappa or mu, element(, k, j, i)]
    shape = (2, len(elements), n, n, n)
    if not materials.varying:
        full, moduli = full[..., None, None, None], moduli[..., None, None, None]
    part = shares(degree, carriers)
    carried = np.broadcast_to(full, (len(full), *shape)) * volume
    for _ in range(3):  # contracts the third axis from the end, and appends that of carrying points
        carried = np.tensordot(carried, part, axes=(-3, 1))
    own = np.ix_(range(len(elements)), carriers, carriers, carriers)
    carried /= volume[own]
    stiffness = np.broadcast_to(moduli, shape)[(slice(None), *own)]
    strength = (carried.sum(axis=0) / stiffness).max(axis=(0, 2, 3, 4)) * materials.softness(elements)
    return np.moveaxis(carried, 2, 0), strength


def lame_moduli(
    mesh: Any, materials: Any, degree: int, elements: np.ndarray, carriers: tuple[int, ...], dtype: Any
) -> np.ndarray:
    """Return Y_j kappa - 2/3 Y_j mu and Y_j mu of carrying points, (elements, 2 n, k, j, i), Pa."""
    size, count = len(carriers), materials.losses.body.mechanisms
    found = np.empty((len(elements), count, 2, size, size, size), dtype)
    for first in range(0, len(elements), PART):
        some = slice(first, first + PART)
        carried, _ = carried_moduli(mesh, materials, degree, elements[some], carriers)
        found[some, :, 0] = carried[:, :, 0] - 2.0 / 3.0 * carried[:, :, 1]
        found[some, :, 1] = carried[:, :, 1]
    return found.reshape(len(elements), 2 * count, size, size, size)


def choose_sets(mesh: Any, materials: Any, degree: int) -> np.ndarray:
    """Return the index in `point_sets`, from 1, of the set of each element; 0 without attenuation.

    Raises
    ------
    InputError : the relaxed moduli of a medium are not positive.
    """
    chosen = np.zeros(materials.number.size, np.int64)
    if materials.losses is None:
        return chosen
    sets = point_sets(degree)
    for first in range(0, chosen.size, PART):
        rest = np.arange(first, min(first + PART, chosen.size))
        rest = rest[materials.attenuates(rest)]
        for number, carriers in enumerate(sets, 1):
            _, strength = carried_moduli(mesh, materials, degree, rest, carriers)
            # With all points, the limit is that of the medium itself.
            fits = strength < (LARGEST_RELAXATION if number < len(sets) else 1.0)
            chosen[rest[fits]] = number
            rest = rest[~fits]
            if not len(rest):
                break
        else:
            raise InputError(
                "material", f"attenuation makes the relaxed moduli of element {mesh.numbers_in_whole[rest[0]] + 1} "
                "negative", "quality factors must be larger in a medium with strong anisotropy",
                "increase qp and qs, or reduce the anisotropy",
            )  # fmt: skip
    return chosen
