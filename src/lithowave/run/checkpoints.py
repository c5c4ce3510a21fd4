"""Checkpoints of the time loop: written at intervals and on signals, and restored when a run is resumed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from lithowave.description.simulation import Simulation
from lithowave.output.background import ImmediateJobs
from lithowave.output.checkpoint import Checkpoint, CheckpointWriter, State, remove_previous
from lithowave.output.recorders import OUTPUTS, Recorder
from lithowave.output.run_folder import RunFolder
from lithowave.phases import phase
from lithowave.run.callback import Callback
from lithowave.run.instability import InstabilityWatch
from lithowave.run.stop_signals import SignalRequests
from lithowave.solvers.clock import Clock, Schedule
from lithowave.solvers.gathered import GatheredSolver

POLL_INTERVAL = 50  # steps between two inquiries of several ranks whether all have written their parts


@dataclass
class OpenCheckpoint:
    """A checkpoint that is being written. common : see `CheckpointWriter.complete`. written : True on this rank."""

    writer: CheckpointWriter
    common: State
    written: bool = False


class CheckpointManager(Callback):
    """The callback that writes checkpoints, and ends the loop after one if a signal requests it.

    A job writes a checkpoint while the time loop continues; then the loop completes it. If the fields are in main
    memory, the loop stores them itself, in the page cache of the system, and the job waits for the disk.

    Parameters
    ----------
    folder : the run folder.
    identity : fingerprint of the description.
    interval : simulated time between two checkpoints, s; None: only on signals.
    recorders, watch : callbacks whose states are part of a checkpoint.
    requests : signals that request checkpoints.
    jobs : executes the writing. copied : True if the state of the solver is a copy that later steps do not change.
    """

    def __init__(
        self,
        folder: RunFolder,
        identity: str,
        interval: float | None,
        recorders: Sequence[Recorder],
        watch: InstabilityWatch,
        requests: SignalRequests,
        jobs: ImmediateJobs,
        copied: bool,
    ) -> None:
        self.folder, self.identity, self.recorders = folder, identity, recorders
        self.watch, self.requests, self.jobs, self.copied = watch, requests, jobs, copied
        self.every = 0 if interval is None else checkpoint_steps(interval, watch.schedule)
        self._open: OpenCheckpoint | None = None
        self._wanted = False

    def due(self, clock: Clock) -> bool:
        """True at the interval, except at the end, when no work can be lost, and if a signal requests a checkpoint; and
        when an open checkpoint may be complete on all ranks."""
        at_interval = self.every > 0 and clock.step % self.every == 0 and not clock.finished
        self._wanted = at_interval or self.requests.pending(clock)
        return self._wanted or self._polls(clock)

    def _polls(self, clock: Clock) -> bool:
        if self._open is None:
            return False
        if self._open.writer.ranks.size == 1:
            return self._open.written
        return (clock.step - self._open.writer.step) % POLL_INTERVAL == 0

    def __call__(self, solver: GatheredSolver, clock: Clock) -> None:
        """Complete the open checkpoint, if there is one, and begin another one if it is due.

        The watch inspects the fields first, so that unstable fields are not stored.
        """
        if self._wanted:
            self.watch.inspect(solver, clock)
        with phase(OUTPUTS):
            if self._open is not None and (self._wanted or solver.ranks.smallest(float(self._open.written)) == 1.0):
                self._complete()
            if self._wanted:
                self._begin(solver, clock)
                if self.requests.stopped_by and not clock.finished:
                    self._complete()
                    clock.interrupt(self.requests.stopped_by)

    def _begin(self, solver: GatheredSolver, clock: Clock) -> None:
        """Start to write the samples before the checkpoint, the state, and wait for neither."""
        common: State = {
            "clock": {"step": np.array(clock.step), "time": np.array(clock.time)},
            "watch": self.watch.state(),
        }
        for recorder in self.recorders:
            recorder.deliver(solver)
        state = solver.solver.state()
        checkpoint = OpenCheckpoint(
            CheckpointWriter(self.folder.path, clock.step, state, self.identity, solver.ranks), common
        )
        if not self.copied:
            checkpoint.writer.store()
        self._open = checkpoint
        self.jobs.submit(self, lambda: self._write(checkpoint))

    def _write(self, checkpoint: OpenCheckpoint) -> None:
        """Write the checkpoint after the samples of all recorders, on which it relies."""
        for number, recorder in enumerate(self.recorders):
            recorder.sync()
            checkpoint.common[_group(number)] = recorder.state()
        if self.copied:
            checkpoint.writer.store()
        checkpoint.writer.sync()
        checkpoint.written = True

    def _complete(self) -> None:
        """Complete the open checkpoint, after the jobs up to now."""
        assert self._open is not None
        checkpoint = self._open
        if not checkpoint.written:
            self.jobs.wait()
        self._open = None
        checkpoint.writer.complete(checkpoint.common)
        self.folder.log(f"step {checkpoint.writer.step}: checkpoint")

    def finish(self, solver: GatheredSolver, clock: Clock) -> None:
        """Complete the open checkpoint; a complete run needs no previous one."""
        if self._open is not None:
            self._complete()
        if solver.ranks.is_root:
            remove_previous(self.folder.path)

    def close(self) -> None:
        """Complete the open checkpoint of a failed run, to resume from it; a failed rank cannot agree with others."""
        if self._open is not None and self._open.writer.ranks.size == 1:
            with suppress(Exception):  # the error of the run is reported
                self._complete()

    def restore(self, solver: GatheredSolver, clock: Clock, checkpoint: Checkpoint) -> None:
        """Set clock, watch, solver and recorders to the state of the checkpoint."""
        clock.step = checkpoint.step
        self.watch.restore(checkpoint.common["watch"])
        solver.solver.restore(checkpoint.pieces(solver.solver.state_selections()))
        for number, recorder in enumerate(self.recorders):
            recorder.restore(checkpoint.common.get(_group(number), {}), clock)


def checkpoint_steps(interval: float, schedule: Schedule) -> int:
    """Return the number of steps between two checkpoints."""
    return max(1, round(interval / schedule.time_step))


def checkpoint_count(simulation: Simulation, schedule: Schedule) -> int:
    """Return the number of checkpoints that a run writes at intervals."""
    checkpoint = simulation.output.checkpoint
    return 0 if checkpoint is None else (schedule.steps - 1) // checkpoint_steps(checkpoint.interval, schedule)


def _group(number: int) -> str:
    """Return the name of a recorder's arrays in a checkpoint; the first recorder is that of the seismograms."""
    return "seismograms" if number == 0 else f"recorder{number}"
