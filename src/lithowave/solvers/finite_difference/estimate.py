"""Memory of a finite-difference run, estimated before any allocation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lithowave.solvers.common.memory_estimate import MemoryEstimate
from lithowave.solvers.finite_difference.plan import FiniteDifferencePlan

if TYPE_CHECKING:
    from lithowave.description.simulation import Simulation


def estimate_memory(simulation: Simulation, backend: Any) -> MemoryEstimate:
    """Return zero: the plan of a grid has no arrays, and states the memory of a run exactly."""
    return MemoryEstimate(0, 0, FiniteDifferencePlan.memory_hint)
