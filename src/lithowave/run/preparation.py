"""Preparation of a run: its plan, its requirements and its warnings, before any array of the run is allocated.

`lithowave check` ends here, with a report, and a run continues.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lithowave.checks.description import axes_summary
from lithowave.description.fault_sources import SlipRates, SubfaultFunction
from lithowave.media.bounded_layers import BoundedLayers
from lithowave.output.attributes import SourceTable
from lithowave.parallel.ranks import SINGLE_RANK, Ranks
from lithowave.physics import moment_magnitude
from lithowave.process import phase
from lithowave.run.loop import checkpoint_count
from lithowave.run.requirements import MemoryRequirement, memory_needed, output_bytes
from lithowave.solvers import load_method

if TYPE_CHECKING:
    from lithowave.backends.interface import Backend
    from lithowave.description.simulation import Simulation
    from lithowave.description.sources import PointSource
    from lithowave.json_types import Entries, ReadEntries
    from lithowave.media.anelasticity import Anelasticity
    from lithowave.solvers.interface import Plan


class OutputSizes(NamedTuple):
    """Bytes of the outputs without checkpoints, and of one checkpoint; checkpoints : their number."""

    outputs: int
    checkpoint: int
    checkpoints: int

    @property
    def at_once(self) -> int:
        """Bytes on the disk; the old checkpoint is deleted only after the new one is complete."""
        return self.outputs + min(2, self.checkpoints) * self.checkpoint

    @property
    def written(self) -> int:
        """Bytes that the run writes in total."""
        return self.outputs + self.checkpoints * self.checkpoint


@dataclass(frozen=True)
class Preparation:
    """What a run requires, from its description and its plan on a device."""

    simulation: Simulation
    backend: Backend
    plan: Plan

    @cached_property
    def memory(self) -> MemoryRequirement:
        """Memory of the arrays of this rank, without the Python process."""
        with phase("estimate of memory"):
            return memory_needed(self.simulation, self.plan, self.backend)

    @cached_property
    def outputs(self) -> OutputSizes:
        """Sizes of the files."""
        simulation, plan = self.simulation, self.plan
        checkpoints = checkpoint_count(simulation, plan.schedule)
        return OutputSizes(output_bytes(simulation, plan), plan.state_bytes() if checkpoints else 0, checkpoints)

    @property
    def anelasticity(self) -> Anelasticity | None:
        """Relaxation mechanisms of the run, which a method may choose; None if the material is elastic."""
        found: Anelasticity | None = getattr(self.plan, "anelasticity", self.simulation.anelasticity)
        return found

    @cached_property
    def summary(self) -> Entries:
        """See `plan_summary`."""
        return plan_summary(self)

    @cached_property
    def warnings(self) -> list[str]:
        """Warnings about the description and the plan."""
        with phase("warnings"):
            return [*self.simulation.warnings(), *self.plan.warnings(self.simulation.experiment)]


def prepare(
    simulation: Simulation, backend: Backend, ranks: Ranks = SINGLE_RANK, previous: ReadEntries | None = None
) -> Preparation:
    """Return the plan of a simulation on a device, and what follows from it.

    previous : the plan in the report of a run that is resumed.

    Raises
    ------
    InputError : the method cannot compute the simulation.
    """
    with phase("plan"):
        plan = load_method(simulation.solver.method).plan(simulation.experiment, backend, ranks, previous)
    return Preparation(simulation, backend, plan)


def plan_summary(prepared: Preparation) -> Entries:
    """Return the summary of the plan, with the entries ``sources``, ``axes`` in a projection, and ``attenuation`` if
    the material has quality factors.

    For layers with surfaces or gradients, the entry ``material_layers`` has their thickness.
    """
    simulation, anelasticity = prepared.simulation, prepared.anelasticity
    medium, found = simulation.material.medium, prepared.plan.summary() | {"sources": source_summary(simulation)}
    if simulation.domain.chunk is not None:
        chunk = simulation.domain.chunk
        found["chunk"] = {
            "center": list(chunk.center), "width_degrees": list(chunk.width), "depth_m": chunk.depth,
            "azimuth": chunk.azimuth, "ellipticity": chunk.ellipticity,
        }  # fmt: skip
    if axes := axes_summary(simulation.experiment):
        found["axes"] = axes
    if anelasticity is not None:
        found["attenuation"] = anelasticity.summary()
    if isinstance(medium, BoundedLayers):
        found["material_layers"] = [
            {"thickness_m": [one.thinnest, one.thickest], "absent_fraction": one.absent}
            for one in medium.ranges(simulation.domain)
        ]
    return found


def source_summary(simulation: Simulation) -> Entries:
    """Return facts about all point sources; empty without sources.

    Entries: ``count``; ``moment_n_m``, the sum of the scalar moments of all moment tensors, and ``moment_magnitude``;
    ``begin_s`` and ``end_s`` of the time functions; ``depth_m``, from the surface to the shallowest and the deepest
    source; ``frequency_hz``, at which the spectrum of the time functions has decreased to 5%, of a finite fault that of
    the sum over its subfaults.
    """
    sources = simulation.acquisition.sources
    if not sources:
        return {}
    supports = np.array([source.time_function.support() for source in sources])
    x, y, z = simulation.acquisition.source_positions.T
    depths = simulation.domain.surface_height(x, y) - z
    moments = SourceTable.from_points(sources).scalar_moments
    total = float(moments.sum())
    found = {
        "count": len(sources), "begin_s": float(supports[:, 0].min()), "end_s": float(supports[:, 1].max()),
        "depth_m": [float(depths.min()), float(depths.max())], "frequency_hz": _highest(sources, moments),
    }  # fmt: skip
    if total > 0.0:
        found |= {"moment_n_m": total, "moment_magnitude": moment_magnitude(total)}
    return found


def _highest(sources: Sequence[PointSource], moments: np.ndarray) -> float:
    """Return the highest frequency of the time functions, Hz."""
    found = {0.0}
    faults: dict[SlipRates, list[float]] = {}
    for source, moment in zip(sources, moments, strict=True):
        function = source.time_function
        if isinstance(function, SubfaultFunction):
            faults.setdefault(function.table, []).append(moment)
        else:
            found.add(function.maximum_frequency())
    found |= {table.total(np.array(weights)).maximum_frequency() for table, weights in faults.items()}
    return max(found)
