"""Memory of a spectral-element run, estimated before the mesh is generated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lithowave.solvers.common.memory_estimate import MemoryEstimate, file_elements
from lithowave.solvers.spectral_element.elements import ElementKind
from lithowave.solvers.spectral_element.memory import COMPONENTS, lean_bytes
from lithowave.solvers.spectral_element.meshing import built_box
from lithowave.solvers.spectral_element.plan import SpectralElementPlan

if TYPE_CHECKING:
    from lithowave.description.simulation import Simulation

FILE_BYTES = 2000  # of an element with its nodes in a mesh file, at most: 27 nodes as text, with further data
MESH_BYTES = 130  # of an element in the plan: vertices, nodes, materials, IDs


def estimate_memory(simulation: Simulation, backend: Any) -> MemoryEstimate:
    """Return a lower bound of the memory of all ranks; the arrays of a generated mesh need up to 15% more."""
    solver = simulation.solver
    count = built_box(simulation).plan.element_count if solver.mesh is None else file_elements(solver.mesh, FILE_BYTES)
    curved = solver.mesh is None and simulation.domain.surface is not None
    varying = simulation.material.kind not in ("homogeneous", "layers", "groups")
    kind = ElementKind("triquadratic" if curved else "affine", False, varying)
    value_bytes = 4 if simulation.compute.precision == "single" else 8
    arrays = 2 * COMPONENTS * value_bytes * solver.degree**3 + lean_bytes(solver.degree, value_bytes, kind)
    nodes = 27 if curved else 8
    plan = 8 * (solver.degree + 1) ** 3 + 24 * nodes + MESH_BYTES
    return MemoryEstimate(count * plan, count * arrays, SpectralElementPlan.memory_hint)
