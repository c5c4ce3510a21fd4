"""Attenuation and plan of a run, as `check` and run.json report them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lithowave.run.source_summary import source_summary
from lithowave.solvers.interface import Plan

if TYPE_CHECKING:
    from lithowave.description.anelasticity import Anelasticity
    from lithowave.description.simulation import Simulation


def plan_anelasticity(simulation: Simulation, plan: Plan) -> Anelasticity | None:
    """Return the relaxation mechanisms of a run, which a method may choose; None if the material is elastic."""
    found: Anelasticity | None = getattr(plan, "anelasticity", simulation.anelasticity)
    return found


def plan_summary(simulation: Simulation, plan: Plan) -> dict[str, Any]:
    """Return the summary of the plan, with the entries ``sources``, and ``attenuation`` if the material has quality
    factors."""
    anelasticity = plan_anelasticity(simulation, plan)
    more = {} if anelasticity is None else {"attenuation": anelasticity.summary()}
    return plan.summary() | {"sources": source_summary(simulation)} | more
