"""Memory of a discontinuous Galerkin run, estimated before the mesh is generated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lithowave.solvers.common.memory_estimate import MemoryEstimate, file_elements
from lithowave.solvers.discontinuous_galerkin.element_layout import device_layout
from lithowave.solvers.discontinuous_galerkin.memory import element_bytes, relaxing_values
from lithowave.solvers.discontinuous_galerkin.meshing import built_box
from lithowave.solvers.discontinuous_galerkin.plan import DiscontinuousGalerkinPlan
from lithowave.solvers.discontinuous_galerkin.riemann import FACE_NUMBERS, LAW_NUMBERS

if TYPE_CHECKING:
    from lithowave.description.simulation import Simulation

TETRAHEDRA = 12  # of a cube
FILE_BYTES = 1000  # of a tetrahedron with its vertices in a mesh file, at most: text with further data
PLAN_BYTES = 200  # of a tetrahedron in the plan: mesh, neighbors, materials, time steps


def estimate_memory(simulation: Simulation, backend: Any) -> MemoryEstimate:
    """Return a lower bound of the memory of all ranks; smaller elements around sources are not counted."""
    solver = simulation.solver
    if solver.mesh is None:
        count = TETRAHEDRA * built_box(simulation).plan.element_count
    else:
        count = file_elements(solver.mesh.file, FILE_BYTES)
    value_bytes = 4 if simulation.compute.precision == "single" else 8
    layout, numbers = device_layout(backend.name, backend.precision), LAW_NUMBERS[False] + 4 * FACE_NUMBERS[False]
    if simulation.anelasticity is not None:
        mechanisms = simulation.anelasticity.body.mechanisms
        numbers += 2 * mechanisms + relaxing_values(solver.order, mechanisms)
    arrays = element_bytes(solver.order, value_bytes, layout, numbers)
    return MemoryEstimate(count * PLAN_BYTES, count * arrays, DiscontinuousGalerkinPlan.memory_hint)
