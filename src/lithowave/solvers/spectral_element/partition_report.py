"""Workload of each rank of a run, for `lithowave check --ranks N`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lithowave.mesh.shared_points import CORNERS_OF, boundary_entities, matches
from lithowave.solvers.common.workload import RankWorkload
from lithowave.solvers.elements.element_description import kinds_of_faces
from lithowave.solvers.spectral_element.mesh_partition import ACTIVE_AXES, DAMPED_POINT, LAYER_WORK, element_parts
from lithowave.solvers.spectral_element.meshing import window_of_elements
from lithowave.solvers.spectral_element.plan import SpectralElementPlan

if TYPE_CHECKING:
    from lithowave.description.simulation import Simulation

# Time of a trilinear and of a triquadratic element with moduli at each point, relative to a parallelepiped of one
# material, in single precision at degree 4.
CURVED_WORK = {"cpu": {8: 1.0, 27: 1.2}, "cuda": {8: 1.02, 27: 1.08}}


def partition_report(
    simulation: Simulation, plan: SpectralElementPlan, ranks_count: int, device: str
) -> list[RankWorkload]:
    """Return the workload of each of the given number of ranks, in updates of an undeformed element without damping.

    plan : plan of one rank, whose mesh is partitioned.

    Raises
    ------
    InputError : the mesh cannot be partitioned into this many parts.
    """
    part = _parts(simulation, plan, ranks_count)
    units, work = np.bincount(part, minlength=ranks_count), np.bincount(part, _work(plan, device), ranks_count)
    keys = [boundary_entities(plan.mesh.part(np.flatnonzero(part == rank))).keys for rank in range(ranks_count)]
    points = np.array([1, plan.degree - 1, (plan.degree - 1) ** 2])  # inside a corner, an edge and a face
    workloads = []
    for own, (row, other), count, done in zip(keys, matches(keys), units.tolist(), work.tolist(), strict=True):
        sizes = (own[row] >= 0).sum(axis=1)
        sent = 3 * int(points[np.searchsorted(CORNERS_OF, sizes)].sum())
        workloads.append(RankWorkload(count, done, len(np.unique(other)), sent))
    return workloads


def _parts(simulation: Simulation, plan: SpectralElementPlan, count: int) -> np.ndarray:
    """Return the part of each element of a plan."""
    if simulation.solver.mesh is None:
        return window_of_elements(simulation, plan.mesh, count)
    order = np.argsort(plan.mesh.numbers_in_whole)  # the order of the file, in which a run partitions the mesh
    mesh, part = plan.mesh.reordered(order), np.empty(plan.element_count, np.int64)
    absorbing = kinds_of_faces(simulation, mesh)["absorbing"]
    part[order] = element_parts(mesh, absorbing, plan.layer, count, plan.degree)
    return part


def _work(plan: SpectralElementPlan, device: str) -> np.ndarray:
    """Return the work of each element: by the kind of its mapping, and its damped points."""
    mesh, degree = plan.mesh, plan.degree
    work = np.where(plan.element_statistics.affine, 1.0, CURVED_WORK[device][mesh.node_indices.shape[1]])
    if plan.layer is None:
        np.add.at(work, plan.faces["absorbing"][:, 0], (degree + 1) ** 2 * DAMPED_POINT)
    return work + LAYER_WORK * ACTIVE_AXES[plan.layer_masks]
