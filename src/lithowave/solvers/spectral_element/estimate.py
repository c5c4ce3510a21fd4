"""Memory of a spectral-element run, estimated before the mesh is generated."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lithowave.solvers.common.memory_estimate import MemoryEstimate, file_elements
from lithowave.solvers.elements.cell_layers import is_sampled
from lithowave.solvers.spectral_element.elements import ElementKind
from lithowave.solvers.spectral_element.memory import COMPONENTS, lean_bytes
from lithowave.solvers.spectral_element.meshing import BuiltBox, built_box
from lithowave.solvers.spectral_element.plan import SpectralElementPlan
from lithowave.solvers.spectral_element.relaxation import carrier_sets

if TYPE_CHECKING:
    from lithowave.description.simulation import Simulation

FILE_BYTES = 2000  # of an element with its nodes in a mesh file, at most: 27 nodes as text, with further data
MESH_BYTES = 130  # of an element in the plan: vertices, nodes, materials, IDs


def estimate_memory(simulation: Simulation, backend: Any) -> MemoryEstimate:
    """Return a lower bound of the memory of all ranks; the arrays of a generated mesh need up to 28% more."""
    solver = simulation.solver
    box = built_box(simulation) if solver.mesh is None else None
    count = file_elements(solver.mesh.file, FILE_BYTES) if box is None else box.plan.element_count
    curved = box is not None and box.cells.level_map is not None
    varying = is_sampled(simulation)
    kind = ElementKind("triquadratic" if curved else "affine", False, varying)
    if simulation.anelasticity is not None:
        carriers = len(carrier_sets(solver.degree)) if solver.memory_variables == "full" else 1
        kind = replace(kind, mechanisms=simulation.anelasticity.body.mechanisms, carriers=carriers)
    value_bytes = 4 if simulation.compute.precision == "single" else 8
    arrays = 2 * COMPONENTS * value_bytes * solver.degree**3 + lean_bytes(solver.degree, value_bytes, kind)
    if box is not None:
        arrays += value_bytes * layer_values(box, solver.degree)
    nodes = 27 if curved else 8
    plan = 8 * (solver.degree + 1) ** 3 + 24 * nodes + MESH_BYTES
    return MemoryEstimate(count * plan, int(count * arrays), SpectralElementPlan.memory_hint)


def layer_values(box: BuiltBox, degree: int) -> float:
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
