"""Attenuation and plan of a run, as `check` and run.json report them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lithowave.description.axes_warnings import axes_line, axes_summary
from lithowave.description.bounded_layers import BoundedLayers
from lithowave.description.earth_medium import EarthMedium
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
    """Return the summary of the plan, with the entries ``sources``, ``axes`` in a projection, and ``attenuation`` if
    the material has quality factors.

    For layers with surfaces or gradients, the entry ``material_layers`` has their thickness.
    """
    anelasticity, medium = plan_anelasticity(simulation, plan), simulation.material.medium
    found = plan.summary() | {"sources": source_summary(simulation)}
    if simulation.domain.chunk is not None:
        chunk = simulation.domain.chunk
        found["chunk"] = {
            "center": list(chunk.center), "width_degrees": list(chunk.width), "depth_m": chunk.depth,
            "azimuth": chunk.azimuth, "ellipticity": chunk.ellipticity,
        }  # fmt: skip
    if axes := axes_summary(simulation):
        found["axes"] = axes
    if anelasticity is not None:
        found["attenuation"] = anelasticity.summary()
    if isinstance(medium, BoundedLayers):
        found["material_layers"] = [
            {"thickness_m": [one.thinnest, one.thickest], "absent_fraction": one.absent}
            for one in medium.ranges(simulation.domain)
        ]
    return found


def layer_lines(simulation: Simulation) -> list[tuple[str, str]]:
    """Return (name, text) of the lines about layers with surfaces or gradients, or of radial models, that `check`
    prints."""
    medium = simulation.material.medium
    return medium.lines(simulation.domain) if isinstance(medium, (BoundedLayers, EarthMedium)) else []


def domain_lines(simulation: Simulation) -> list[tuple[str, str]]:
    """Return (name, text) of the lines about a chunk of the globe, or the axes of a projection, that `check` prints."""
    chunk, axes = simulation.domain.chunk, axes_summary(simulation)
    return ([] if chunk is None else [("domain", chunk.text())]) + ([("axes", axes_line(axes))] if axes else [])
