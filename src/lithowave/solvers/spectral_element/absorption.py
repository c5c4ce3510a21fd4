"""Damping on a plan's absorbing faces, and the points of its absorbing layer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from lithowave.solvers.spectral_element.faces import (
    Damping,
    absorbing_matrices,
    impedances,
    isotropic_impedances,
)
from lithowave.solvers.spectral_element.geometry import determinant, jacobian_matrix
from lithowave.solvers.spectral_element.gll import gll_weights

PART = 10_000


def make_damping(plan: Any) -> Damping:
    """Return G = dt / 2 M^-1 C at the points of absorbing faces; a layer has none, but ends at points at rest.

    On the faces of a fluid, v . n = P / (rho c): C of its points has the component xx only, the area over rho c.
    """

    def impedance(elements: np.ndarray, places: np.ndarray, normal: np.ndarray) -> np.ndarray:
        stiffness, rho = plan.materials.at(elements, places)
        if plan.materials.anisotropic.any():
            found = impedances(stiffness, rho, normal)
        else:
            found = isotropic_impedances(
                np.sqrt(stiffness[..., 0, 0] / rho), np.sqrt(stiffness[..., 5, 5] / rho), rho, normal
            )
        fluid = plan.materials.is_fluid[elements]
        found[fluid] = 0.0  # its only component is that of the potential
        found[fluid, :, 0, 0] = 1.0 / np.sqrt(stiffness[fluid, :, 0, 0] * rho[fluid])
        return found

    if plan.layer is not None:
        return Damping(np.zeros(0, np.int64), np.zeros((0, 6)))
    sides = absorbing_matrices(plan.mesh, plan.numbers, plan.faces["absorbing"], impedance)
    sides = _of_all_ranks(sides, plan)
    half = 0.5 * plan.schedule.time_step
    return Damping(sides.point, half * sides.matrix / plan.element_statistics.mass[sides.point, None])


def _of_all_ranks(damping: Damping, plan: Any) -> Damping:
    """Add the contributions of other ranks at shared points: a face may belong only to another rank."""
    if plan.ranks.size == 1:
        return damping
    full = np.zeros((plan.total_points, damping.matrix.shape[1]))
    full[damping.point] = damping.matrix
    plan.border.combine(full, plan.ranks)
    point = np.union1d(damping.point, plan.border.points[full[plan.border.points].any(axis=1)])
    return Damping(point, full[point])


@dataclass(frozen=True)
class LayerPoints:
    """Points at which absorbing layers along the same number of axes begin.

    point : indices. filters : (points, axes, 3), b, a, c of the means of the stretching.
    """

    point: np.ndarray
    filters: np.ndarray


def layer_points(plan: Any) -> list[LayerPoints]:
    """Return the points at which layers along one, two and three axes begin (collective call).

    Elsewhere all elements of a point have the same stretching, by which they divide their forces.
    """
    if plan.layer is None:
        return []
    filters = np.zeros((plan.total_points, 3, 3))
    for some in _layer_elements(plan):
        numbers, own = plan.numbers[some], plan.stretching.filters(some)
        own[..., 0] -= 1
        own *= plan.stretching.begins(some)[..., None]
        # b and c of the mean of s, weighted by masses; the domain has b = 1 and c = 0.
        mass = element_masses(plan, some)[..., None]
        np.add.at(filters[..., 0], numbers, mass * own[..., 0])
        np.add.at(filters[..., 2], numbers, mass * own[..., 2])
    filters /= plan.element_statistics.mass[:, None, None]
    # The elements of a shared point that are in the layer may all belong to another rank.
    plan.border.combine(filters.reshape(len(filters), -1), plan.ranks)
    for some in _layer_elements(plan):
        own = plan.stretching.filters(some)[..., 1] * plan.stretching.begins(some)
        np.maximum.at(filters[..., 1], plan.numbers[some], own)
    filters[..., 0] += 1
    plan.border.combine(filters.reshape(len(filters), -1), plan.ranks, np.maximum)
    active = filters[..., 2] > 0
    count, found = active.sum(axis=1), []
    for axes in (1, 2, 3):
        point = np.flatnonzero(count == axes)
        found.append(LayerPoints(point, filters[point][active[point]].reshape(len(point), axes, 3)))
    return found


def element_masses(plan: Any, elements: np.ndarray) -> np.ndarray:
    """Return the masses of the points of elements, (elements, k, j, i), kg; their sum is the mass of a mesh point.

    Of a fluid it is that of the potential, m^3/Pa.
    """
    weights = gll_weights(plan.degree)
    volume = determinant(jacobian_matrix(plan.mesh.element_nodes(elements), plan.degree))
    volume *= weights[:, None, None] * weights[:, None] * weights
    inertia = np.broadcast_to(plan.materials.inertia(elements), (len(volume), volume[0].size))
    return volume * inertia.reshape(volume.shape)


def _layer_elements(plan: Any) -> Iterator[np.ndarray]:
    members = np.flatnonzero(plan.layer_masks)
    for first in range(0, len(members), PART):
        yield members[first : first + PART]
