"""The time loop, one for all methods and devices: advance, tick, callbacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lithowave.run.callback import Callback
from lithowave.solvers.clock import Clock
from lithowave.solvers.gathered import GatheredSolver


@dataclass(frozen=True)
class Integration:
    """The integration in time of one run. callbacks : in the order in which they are called after each step."""

    solver: GatheredSolver
    clock: Clock
    callbacks: Sequence[Callback]

    def start(self) -> None:
        """Prepare all callbacks."""
        for callback in self.callbacks:
            callback.start(self.solver, self.clock)

    def run(self) -> None:
        """Advance to the last step, or to the step at which a callback ends the run; then conclude the callbacks.

        They are not concluded if the clock was interrupted: the run is then resumed from a checkpoint.
        """
        solver, clock, callbacks = self.solver, self.clock, self.callbacks
        while not clock.finished:
            solver.advance(clock.step)
            clock.tick()
            for callback in callbacks:
                if callback.due(clock):
                    callback(solver, clock)
        if clock.interrupted_by is None:
            for callback in callbacks:
                callback.finish(solver, clock)
