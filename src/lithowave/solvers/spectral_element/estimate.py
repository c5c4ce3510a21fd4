"""Memory of a spectral-element run, estimated before the mesh is generated.

`partition_report` is the workload of each rank of a run, for `lithowave check --ranks N`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from lithowave.mesh.shared import CORNERS_OF, boundary_entities, matches
from lithowave.solvers.common.reports import MemoryEstimate, RankWorkload, file_elements
from lithowave.solvers.elements.layers import is_sampled
from lithowave.solvers.elements.plan import kinds_of_faces
from lithowave.solvers.spectral_element.arrays import COMPONENTS, lean_bytes
from lithowave.solvers.spectral_element.element_kinds import ElementKind
from lithowave.solvers.spectral_element.meshing import BuiltBox, built_box, window_of_elements
from lithowave.solvers.spectral_element.partition import ACTIVE_AXES, DAMPED_POINT, LAYER_WORK, element_parts
from lithowave.solvers.spectral_element.plan import SpectralElementPlan
from lithowave.solvers.spectral_element.relaxation import carrier_sets

if TYPE_CHECKING:
    from lithowave.backends.interface import Backend
    from lithowave.description.experiment import Experiment


FILE_BYTES = 2000  # of an element with its nodes in a mesh file, at most: 27 nodes as text, with further data
MESH_BYTES = 130  # of an element in the plan: vertices, nodes, materials, IDs


def estimate_memory(experiment: Experiment, backend: Backend) -> MemoryEstimate:
    """Return a lower bound of the memory of all ranks; the arrays of a generated mesh need up to 28% more."""
    solver = experiment.solver
    box = built_box(experiment) if solver.mesh is None else None
    count = file_elements(solver.mesh.file, FILE_BYTES) if box is None else box.plan.element_count
    curved = box is not None and box.cells.level_map is not None
    varying = is_sampled(experiment)
    kind = ElementKind("upright" if curved else "cuboid", False, varying)
    if experiment.anelasticity is not None:
        carriers = len(carrier_sets(solver.degree)) if solver.memory_variables == "full" else 1
        kind = replace(kind, mechanisms=experiment.anelasticity.body.mechanisms, carriers=carriers)
    value_bytes = 4 if experiment.compute.precision == "single" else 8
    arrays = 2 * COMPONENTS * value_bytes * solver.degree**3 + lean_bytes(solver.degree, value_bytes, kind)
    if box is not None:
        arrays += value_bytes * estimated_layer_values(box, solver.degree)
    nodes = 27 if curved else 8
    plan = 8 * (solver.degree + 1) ** 3 + 24 * nodes + MESH_BYTES
    return MemoryEstimate(count * plan, int(count * arrays), SpectralElementPlan.memory_hint)


def estimated_layer_values(box: BuiltBox, degree: int) -> float:
    """Return a lower bound of the memory variables of the absorbing layer, per element of the whole mesh.

    Aligned elements have six at a point for each axis along which they are in the layer, in addition to three, and the
    mean number of these axes is the sum of the fractions of elements beyond the faces of the domain.
    """
    plan, layer = box.plan, box.layer
    fractions = []
    for lines, (low, high) in zip((plan.x, plan.y), layer.domain, strict=False):
        middle = 0.5 * (lines[1:] + lines[:-1])
        fractions.append(float(np.mean((middle < low) | (middle > high))))
    slabs = plan.slabs[bool(layer.thickness["z_max"]) : len(plan.slabs) - bool(layer.thickness["z_min"])]
    fractions.append(1.0 - replace(plan, slabs=slabs).element_count / plan.element_count)
    within = 1.0 - float(np.prod(1.0 - np.array(fractions)))
    return (6 * sum(fractions) + 3 * within) * (degree + 1) ** 3


# Time of an element relative to a cuboid of one material, in single precision at degree 4; those of other shapes than
# parallelepipeds have moduli at each point.
WORK = {
    "cpu": {"cuboid": 1.0, "affine": 1.3, "upright": 1.4, "trilinear": 1.6, "triquadratic": 2.1},
    "cuda": {"cuboid": 1.0, "affine": 1.02, "upright": 1.08, "trilinear": 1.13, "triquadratic": 1.18},
}


def partition_report(
    experiment: Experiment, plan: SpectralElementPlan, ranks_count: int, device: str
) -> list[RankWorkload]:
    """Return the workload of each of the given number of ranks, in updates of an undeformed element without damping.

    plan : plan of one rank, whose mesh is partitioned.

    Raises
    ------
    InputError : the mesh cannot be partitioned into this many parts.
    """
    part = _parts(experiment, plan, ranks_count)
    units, work = np.bincount(part, minlength=ranks_count), np.bincount(part, _work(plan, device), ranks_count)
    keys = [boundary_entities(plan.mesh.part(np.flatnonzero(part == rank))).keys for rank in range(ranks_count)]
    points = np.array([1, plan.degree - 1, (plan.degree - 1) ** 2])  # inside a corner, an edge and a face
    workloads = []
    for own, (row, other), count, done in zip(keys, matches(keys), units.tolist(), work.tolist(), strict=True):
        sizes = (own[row] >= 0).sum(axis=1)
        sent = 3 * int(points[np.searchsorted(CORNERS_OF, sizes)].sum())
        workloads.append(RankWorkload(count, done, len(np.unique(other)), sent))
    return workloads


def _parts(experiment: Experiment, plan: SpectralElementPlan, count: int) -> np.ndarray:
    """Return the part of each element of a plan."""
    if experiment.solver.mesh is None:
        return window_of_elements(experiment, plan.mesh, count)
    order = np.argsort(plan.mesh.numbers_in_whole)  # the order of the file, in which a run partitions the mesh
    mesh, part = plan.mesh.reordered(order), np.empty(plan.element_count, np.int64)
    absorbing = kinds_of_faces(experiment, mesh)["absorbing"]
    part[order] = element_parts(mesh, absorbing, plan.layer, count, plan.degree)
    return part


def _work(plan: SpectralElementPlan, device: str) -> np.ndarray:
    """Return the work of each element: by the kind of its mapping, and its damped points."""
    degree, (kinds, place) = plan.degree, plan.kinds
    work = np.array([WORK[device][kind.map] for kind in kinds])[place]
    if plan.layer is None:
        np.add.at(work, plan.faces["absorbing"][:, 0], (degree + 1) ** 2 * DAMPED_POINT)
    return work + LAYER_WORK * ACTIVE_AXES[plan.layer_masks]
