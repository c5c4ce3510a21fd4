"""Forces and moment tensors that the weights of sources at points of the mesh represent."""

from __future__ import annotations

from typing import Any

import numpy as np

from lithowave.backends.host_threads import parts_in_order
from lithowave.physics.tensors import TENSOR_PAIRS
from lithowave.solvers.placement import FORCE, MOMENT, Placement
from lithowave.solvers.spectral_element.faces import face_points
from lithowave.solvers.spectral_element.geometry import gll_positions

CHUNK = 1 << 13  # elements that are searched at a time


def add_sources(placement: Placement, plan: Any, sources: Any, source_list: Any) -> None:
    """Add the forces, sum of w_a, or moment tensors, sum of w_a (x_a - x_s), of the weights w_a at the points x_a.

    In a fluid, with the scales c_a of `sources.Entries`, the isotropic moment is the sum of c_a w_a, and the force that
    of c_a w_a (x_a - x_s).
    """
    point, weight, owner = source_list.entries()
    if not len(point):
        return
    points, row = np.unique(point, return_inverse=True)
    centers = np.array([source.position for source in sources], float)
    arms, axes = point_positions(plan, points)[row] - plan.in_mesh(centers)[owner], plan.axes_at(centers)
    if axes is not None:  # to East, North, Up at the source
        arms = np.einsum("mec,mc->me", axes[owner], arms)
        if not source_list.fluid:  # whose weights are scalars
            weight = np.einsum("mec,mc->me", axes[owner], weight)
    is_force = np.array([source.force is not None for source in sources])[owner]
    if source_list.fluid:
        placement.fluid[owner] = True
        placement.acts[owner[(weight[:, 0] != 0) & (plan.moves[point] > 0)]] = True
        value = weight[:, 0] * source_list.scale
        for axis in range(3):
            np.add.at(placement.totals[:, MOMENT][:, axis], owner[~is_force], value[~is_force])
            np.add.at(placement.totals[:, FORCE][:, axis], owner[is_force], (value * arms[:, axis])[is_force])
        return
    for axis in range(3):
        np.add.at(placement.totals[:, FORCE][:, axis], owner[is_force], weight[is_force, axis])
    for column, (a, b) in enumerate(TENSOR_PAIRS):
        moment = 0.5 * (weight[:, a] * arms[:, b] + weight[:, b] * arms[:, a])
        np.add.at(placement.totals[:, MOMENT][:, column], owner[~is_force], moment[~is_force])
    held = np.isin(point, face_points(plan.numbers, plan.faces["rigid"]))
    placement.acts[owner[(weight != 0).any(axis=1) & ~held]] = True


def point_positions(plan: Any, points: np.ndarray) -> np.ndarray:
    """Positions (points, 3), m, of points of the mesh, by ascending index."""
    requested = np.zeros(plan.total_points, bool)
    requested[points] = True
    found = np.full((len(points), 3), np.nan)

    def search(part: slice) -> np.ndarray:
        numbers = plan.numbers[part]
        return part.start + np.flatnonzero(requested[numbers].reshape(len(numbers), -1).any(axis=1))

    for elements in parts_in_order(search, len(plan.numbers), CHUNK):
        positions = gll_positions(plan.mesh.element_nodes(elements), plan.degree).reshape(-1, 3)
        own = plan.numbers[elements].ravel()
        inside = requested[own]
        found[np.searchsorted(points, own[inside])] = positions[inside]
    return found
