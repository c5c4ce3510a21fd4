"""Damping on a plan's absorbing faces and in the layer around its domain."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lithowave.solvers.spectral_element.faces import (
    Damping,
    absorbing_matrices,
    impedances,
    isotropic_impedances,
    joined,
)
from lithowave.solvers.spectral_element.geometry import gll_positions

PART = 10_000
POWER = 2  # damping increases with this power of the depth in the layer
# Residual amplitude of a wave of the fastest speed that crosses the layer and returns; slower waves retain less.
# Stronger damping would reflect waves that are longer than the layer; the condition at its end absorbs most of the
# rest.
ROUND_TRIP = 0.1


def make_damping(plan: Any) -> Damping:
    """Return G = dt / 2 M^-1 C at the points of absorbing faces and of the absorbing layer."""

    def impedance(elements: np.ndarray, places: np.ndarray, normal: np.ndarray) -> np.ndarray:
        stiffness, rho = plan.materials.at(elements, places)
        if plan.materials.anisotropic.any():
            return impedances(stiffness, rho, normal)
        vp, vs = np.sqrt(stiffness[..., 0, 0] / rho), np.sqrt(stiffness[..., 5, 5] / rho)
        return isotropic_impedances(vp, vs, rho, normal)

    sides = absorbing_matrices(plan.mesh, plan.numbers, plan.faces["absorbing"], impedance)
    half = 0.5 * plan.schedule.time_step
    sides = _of_all_ranks(sides, plan, np.add)
    sides = Damping(sides.point, half * sides.matrix / plan.element_statistics.mass[sides.point, None])
    return sides if plan.layer is None else joined(sides, _of_all_ranks(layer_damping(plan), plan, np.maximum))


def _of_all_ranks(damping: Damping, plan: Any, how: Any) -> Damping:
    """Add the contributions of other ranks at shared points: a face may belong only to another rank."""
    if plan.ranks.size == 1:
        return damping
    full = np.zeros((plan.total_points, damping.matrix.shape[1]))
    full[damping.point] = damping.matrix
    plan.border.combine(full, plan.ranks, how)
    point = np.union1d(damping.point, plan.border.points[full[plan.border.points].any(axis=1)])
    return Damping(point, full[point])


def layer_damping(plan: Any) -> Damping:
    r"""Return G = dt s / 2 with s = s_1 d^2, d the depth of a point in the layer as a fraction of its thickness L.

    The amplitude of a wave of speed c that crosses the layer and returns is reduced by exp(-int s / c), so
    s_1 = 3 c ln(1/R) / L.
    """
    speed = float(plan.materials.fastest.max())
    strength = np.zeros(plan.total_points)
    for first in range(0, plan.element_count, PART):
        some = slice(first, first + PART)
        depth, thickness = plan.layer.depth(gll_positions(plan.mesh.element_nodes(some), plan.degree))
        strength[plan.numbers[some]] = (POWER + 1) * speed * math.log(1 / ROUND_TRIP) / thickness * depth**POWER
    point = np.flatnonzero(strength)
    scale = 0.5 * plan.schedule.time_step * strength[point]
    return Damping(point, scale[:, None] * np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0]))
