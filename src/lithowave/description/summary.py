"""A simulation in a few lines, for notebooks and interactive sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lithowave.description.entries import Description

_MOST_NAMES = 4


def summary(simulation: Description) -> str:
    """Return title, domain, method, sources, receivers and output of a simulation."""
    domain, solver, output = simulation.domain, simulation.solver, simulation.output
    origin = f", origin at {domain.crs.longitude:g}, {domain.crs.latitude:g}" if domain.crs is not None else ""
    size = " x ".join(f"{(high - low) / 1e3:.4g}" for low, high in domain.bounds.values()) + f" km{origin}"
    resolution = f"max_frequency {solver.max_frequency:g} Hz" if solver.max_frequency else ""
    resolution = resolution or (f"spacing {solver.spacing:g} m" if solver.spacing else "mesh from a file")
    names = simulation.acquisition.receiver_names
    listed = f" ({', '.join(names[:_MOST_NAMES])}{', ...' if len(names) > _MOST_NAMES else ''})" if names else ""
    shots = "" if simulation.survey is None else f", {len(simulation.survey.shot_list(domain))} shots"
    lines = [
        f"<Simulation {simulation.title!r}",
        f"  domain:    {size if domain.chunk is None else domain.chunk.text()}",
        f"  solver:    {solver.method}, {resolution}, {simulation.duration:g} s",
        f"  sources:   {len(simulation.acquisition.sources)} point sources{shots}",
        f"  receivers: {len(names)}{listed}",
        f"  output:    {output.directory}, {output.quantity}>",
    ]
    return "\n".join(lines)
