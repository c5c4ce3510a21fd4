"""Damping on a plan's absorbing faces, and the points of its absorbing layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lithowave.backends.host_threads import parts_in_order
from lithowave.backends.loops import exact_part
from lithowave.solvers.spectral_element.absorbing_layer import IDENTITY, active_axes
from lithowave.solvers.spectral_element.element_statistics import point_masses
from lithowave.solvers.spectral_element.faces import (
    Damping,
    absorbing_matrices,
    impedances,
    isotropic_impedances,
)

PART = 512  # elements whose masses are computed at a time


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
    """Points of an absorbing layer with the same number of filters: those of the active axes, and the friction.

    point : indices. filters : (points, filters, 3), b, a, c.
    """

    point: np.ndarray
    filters: np.ndarray


def layer_points(plan: Any) -> list[LayerPoints]:
    """Return the points of the layer with one, two and three active axes (collective call)."""
    if plan.layer is None:
        return []
    masks = plan.layer_masks if plan.layer.matched else plan.layer_masks > 0
    axes = active_axes(plan.numbers, masks, plan.total_points, plan.border, plan.ranks)
    sums = FilterSums.of_points(axes)
    _add_elements(plan, np.flatnonzero(masks), sums)
    # The coupling is not stretched (see `coupling`): a friction of the other forces alone might not be passive.
    coupled = np.concatenate([plan.interface.solid, plan.interface.fluid])
    friction = sums.places(coupled[axes[coupled] > 0])[:, 3]
    sums.values[friction[:, None] + np.arange(3)] = IDENTITY
    _join_ranks(plan, sums)
    return sums.points(plan.layer.matched)


@dataclass(frozen=True)
class FilterSums:
    """Filters of the points of a layer, while those of their elements are added.

    point : indices, of points with one, two and three active axes. axes : active axes of each point of the mesh, the
    sum of 1 for x, 2 for y and 4 for z; 1 in a damped layer. begin : by point of the mesh, the place in `values` of its
    first value; undefined outside the layer. values : b, a and c of the active axes, and of the friction.
    """

    point: tuple[np.ndarray, ...]
    axes: np.ndarray
    begin: np.ndarray
    values: np.ndarray

    @classmethod
    def of_points(cls, axes: np.ndarray) -> FilterSums:
        """Return the sums, still zero, for the active axes of each point of the mesh."""
        inside = np.flatnonzero(axes)
        count = np.array([number.bit_count() for number in range(8)])[axes[inside]]
        point = tuple(inside[count == number] for number in (1, 2, 3))
        begin, end = np.zeros(len(axes), np.int64), 0
        for number, some in enumerate(point, 1):
            size = 3 * (number + 1)
            begin[some] = np.arange(end, end + size * len(some), size)
            end += size * len(some)
        return cls(point, axes, begin, np.zeros(end))

    def places(self, points: np.ndarray) -> np.ndarray:
        """Return the places in `values` of b of each axis and of the friction, (points, 4); -1 of an axis that is not
        active."""
        active = np.column_stack([*(self.axes[points] >> axis & 1 for axis in range(3)), np.ones(len(points))])
        before = (np.cumsum(active, axis=1) - active).astype(np.int64)
        return np.where(active > 0, self.begin[points, None] + 3 * before, -1)

    def points(self, matched: bool) -> list[LayerPoints]:
        """Return the points with one, two and three active axes; of a damped layer, those that are damped."""
        found, end = [], 0
        for axes, point in enumerate(self.point, 1):
            begin, end = end, end + 3 * (axes + 1) * len(point)
            filters = self.values[begin:end].reshape(len(point), axes + 1, 3)
            filters[:, :axes, 0] += 1.0
            chosen = slice(None) if matched else filters[:, 0, 2] > 0
            found.append(LayerPoints(point[chosen], filters[chosen]))
        return found


def _add_elements(plan: Any, members: np.ndarray, sums: FilterSums) -> None:
    """Add the filters of elements of this rank: the mean of b - 1 and c, weighted by masses, and the maximum of a; the
    domain has b = 1 and c = 0."""
    chosen, kind = plan.stretching.representatives(members)
    filters = plan.stretching.filters(chosen).reshape(len(chosen), -1, 3, 3)
    friction = plan.stretching.friction(chosen).reshape(len(chosen), -1, 3)
    numbers, total = plan.numbers.reshape(plan.element_count, -1), plan.element_statistics.mass

    def masses(part: slice) -> tuple[slice, np.ndarray]:
        some = members[part]
        return part, point_masses(plan.coefficients[some], plan.materials.inertia(some), plan.degree)

    for part, mass in parts_in_order(masses, len(members), PART):
        add_filters(
            numbers, members[part], mass, total, kind[part], filters, friction, sums.axes, sums.begin, sums.values
        )


@exact_part
def add_filters(
    numbers, members, mass, total, kind, filters, friction, axes, begin, values
):  # pragma: no cover - compiled
    """Add the filters of some elements to those of their points, see `FilterSums`.

    mass : of the points of these elements, (members, points); total : of the points of the mesh, kg. kind : place of
    each element in filters (kinds, points, 3 axes, 3) and friction (kinds, points, 3).
    """
    for place in range(len(members)):
        own, rubbing = filters[kind[place]], friction[kind[place]]
        for point in range(numbers.shape[1]):
            number = numbers[members[place], point]
            at, weight, active = begin[number], mass[place, point] / total[number], axes[number]
            for axis in range(3):
                if active >> axis & 1:
                    values[at] += weight * (own[point, axis, 0] - 1.0)
                    values[at + 1] = max(values[at + 1], own[point, axis, 1])
                    values[at + 2] += weight * own[point, axis, 2]
                    at += 3
            for entry in range(3):
                values[at + entry] = rubbing[point, entry]


def _join_ranks(plan: Any, sums: FilterSums) -> None:
    """Combine the filters at the points that ranks share (collective call)."""
    if plan.ranks.size == 1:
        return
    shared, border = plan.border.points, plan.border.alone()
    inside = sums.axes[shared] > 0
    places = sums.places(shared[inside])
    places = places[..., None] + np.arange(3)
    places[places[..., 0] < 0] = -1
    dense = np.zeros((len(shared), 4, 3))
    dense[inside] = np.where(places < 0, 0.0, sums.values[places])
    means, rest = dense[:, :3, ::2].reshape(len(shared), -1), dense.reshape(len(shared), -1).copy()
    border.combine(means, plan.ranks)
    border.combine(rest, plan.ranks, np.maximum)
    dense = rest.reshape(dense.shape)
    dense[:, :3, ::2] = means.reshape(len(shared), 3, 2)
    sums.values[places[places >= 0]] = dense[inside][places >= 0]
