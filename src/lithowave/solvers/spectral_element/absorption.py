"""Damping on a plan's absorbing faces, and the points of its absorbing layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lithowave.backends.host_threads import over_parts
from lithowave.solvers.spectral_element.element_statistics import point_masses
from lithowave.solvers.spectral_element.faces import (
    Damping,
    absorbing_matrices,
    impedances,
    isotropic_impedances,
)

PART = 1024  # elements whose masses are computed at a time
NO_BEGINNINGS = np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0), np.zeros((0, 3))


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
    members = np.flatnonzero(plan.layer_masks)
    chosen, kind = plan.stretching.representatives(members)
    filters, begins = plan.stretching.filters(chosen), plan.stretching.begins(chosen)
    beginning = begins.any(axis=(1, 2, 3, 4))[kind]
    members, kind = members[beginning], kind[beginning]

    def beginnings(part: slice) -> tuple[np.ndarray, ...]:
        some, own = members[part], kind[part]
        *place, axis = np.nonzero(begins[own])
        mass = point_masses(plan.coefficients[some], plan.materials.inertia(some), plan.degree)
        mass = mass.reshape(len(some), *plan.numbers.shape[1:])[*place]
        return plan.numbers[some][*place], axis, mass, filters[own[place[0]], *place[1:], axis]

    parts = over_parts(beginnings, len(members), PART)
    point, axis, mass, values = map(np.concatenate, zip(*parts, strict=True)) if parts else NO_BEGINNINGS
    # The elements of a shared point that are in the layer may all belong to another rank.
    points, slot = np.unique(np.concatenate([point, plan.border.points]), return_inverse=True)
    rows, size = 3 * slot[: len(point)] + axis, 3 * len(points)
    # b and c of the mean of s, weighted by masses; the domain has b = 1 and c = 0.
    means = [np.bincount(rows, mass * part, size) for part in (values[:, 0] - 1.0, values[:, 2])]
    both, shift = np.stack(means, axis=-1).reshape(-1, 3, 2), np.zeros(size)
    np.maximum.at(shift, rows, values[:, 1])
    both, shift = both / plan.element_statistics.mass[points, None, None], shift.reshape(-1, 3)
    border = plan.border.within(points)
    border.combine(both, plan.ranks)
    border.combine(shift, plan.ranks, np.maximum)
    sums = np.stack([both[..., 0] + 1.0, shift, both[..., 1]], axis=-1)
    active = sums[..., 2] > 0
    count, found = active.sum(axis=1), []
    for axes in (1, 2, 3):
        some = np.flatnonzero(count == axes)
        found.append(LayerPoints(points[some], sums[some][active[some]].reshape(len(some), axes, 3)))
    return found
