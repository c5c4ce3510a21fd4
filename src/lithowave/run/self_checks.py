"""Self-checks of a run: each source and receiver is represented once, and waves arrive."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lithowave.description.acquisition import Acquisition
from lithowave.description.simulation import Simulation
from lithowave.errors import issue_warning
from lithowave.output.recorders import NOTHING, SeismogramRecorder
from lithowave.output.run_folder import RunFolder
from lithowave.output.seismograms import read_seismograms
from lithowave.parallel.collective import collective_call
from lithowave.parallel.ranks import Ranks
from lithowave.run.onsets import Onsets, explain_zero_seismograms
from lithowave.solvers.clock import Clock
from lithowave.solvers.gathered import GatheredSolver
from lithowave.solvers.interface import Solver
from lithowave.solvers.placement import check_placement


def checked_sources(acquisition: Acquisition, solver: Solver, ranks: Ranks) -> Onsets:
    """Compare the sources and receivers of all ranks with the description; return the onsets of the sources.

    Raises
    ------
    SelfCheckError : a receiver or source is missing, or is represented more than once.
    """
    sources, receivers = acquisition.sources, acquisition.receivers
    placement = solver.placement(sources, receivers).summed(ranks)
    check_placement(placement, sources, receivers)
    schedule = solver.plan.schedule
    return Onsets(sources, placement.totals, placement.acts, schedule.time_step, int(schedule.end / schedule.time_step))


def check_seismograms(
    simulation: Simulation,
    folder: RunFolder,
    recorder: SeismogramRecorder,
    onsets: Onsets,
    solver: GatheredSolver,
    clock: Clock,
) -> None:
    """Warn if all seismograms of a run that has ended at the time of the clock are zero.

    Raises
    ------
    SelfCheckError : all are zero, although a wave must have reached a receiver.
    """
    ranks = solver.ranks
    reached = replace(onsets, steps=min(onsets.steps, clock.step))

    def explained() -> str:
        if not ranks.is_root or recorder.moved or not simulation.receivers:
            return ""
        if (np.abs(read_seismograms(folder.path).data) > NOTHING).any():  # before a restart
            return ""
        return explain_zero_seismograms(reached, simulation, solver.plan.summary()["faces"])

    text = ranks.broadcast(collective_call(ranks, explained))
    if text:
        folder.write_report(warnings=[*folder.report.get("warnings", []), text])
        if ranks.is_root:
            folder.log(f"warning: {text}")
            issue_warning(text)
