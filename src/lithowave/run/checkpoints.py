"""Checkpoints of the time loop: written at intervals and on signals, and restored when a run is resumed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lithowave.output.checkpoint import Checkpoint, State, write_checkpoint
from lithowave.output.recorders import Recorder
from lithowave.output.run_folder import RunFolder
from lithowave.run.callback import Callback
from lithowave.run.instability import InstabilityWatch
from lithowave.run.stop_signals import SignalRequests
from lithowave.solvers.clock import Clock
from lithowave.solvers.gathered import GatheredSolver


class CheckpointManager(Callback):
    """The callback that writes checkpoints, and ends the loop after one if a signal requests it.

    Parameters
    ----------
    folder : the run folder.
    identity : fingerprint of the description.
    interval : simulated time between two checkpoints, s; None: only on signals.
    recorders, watch : callbacks whose states are part of a checkpoint.
    requests : signals that request checkpoints.
    """

    def __init__(
        self,
        folder: RunFolder,
        identity: str,
        interval: float | None,
        recorders: Sequence[Recorder],
        watch: InstabilityWatch,
        requests: SignalRequests,
    ) -> None:
        self.folder, self.identity, self.recorders = folder, identity, recorders
        self.watch, self.requests = watch, requests
        self.every = 0 if interval is None else max(1, round(interval / watch.schedule.time_step))

    def due(self, clock: Clock) -> bool:
        """True at the interval, except at the end, when no work can be lost, and if a signal requests a checkpoint."""
        at_interval = self.every > 0 and clock.step % self.every == 0 and not clock.finished
        return at_interval or self.requests.pending(clock)

    def __call__(self, solver: GatheredSolver, clock: Clock) -> None:
        """Flush the recorders, so that their files contain the samples before the checkpoint, and write the state.

        The watch inspects the fields first, so that unstable fields are not stored.
        """
        self.watch.inspect(solver, clock)
        common: State = {
            "clock": {
                "step": np.array(clock.step),
                "time": np.array(clock.time),
                "largest": np.array(self.watch.largest),
            },
        }
        for number, recorder in enumerate(self.recorders):
            recorder.flush(solver)
            recorder.sync()
            common[_group(number)] = recorder.state()
        write_checkpoint(self.folder.path, common, solver.solver.state(), self.identity, solver.ranks)
        self.folder.log(f"step {clock.step}: checkpoint")
        if self.requests.stopped_by and not clock.finished:
            clock.interrupt(self.requests.stopped_by)

    def restore(self, solver: GatheredSolver, clock: Clock, checkpoint: Checkpoint) -> None:
        """Set clock, watch, solver and recorders to the state of the checkpoint."""
        clock.step = checkpoint.step
        self.watch.largest = float(checkpoint.common["clock"]["largest"])
        solver.solver.restore(checkpoint.pieces(solver.solver.state_selections()))
        for number, recorder in enumerate(self.recorders):
            recorder.restore(checkpoint.common.get(_group(number), {}), clock)


def _group(number: int) -> str:
    """Return the name of a recorder's arrays in a checkpoint; the first recorder is that of the seismograms."""
    return "seismograms" if number == 0 else f"recorder{number}"
