"""The time loop, one for all methods and devices: advance, tick, callbacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lithowave.run.callback import Callback
from lithowave.solvers.clock import Clock
from lithowave.solvers.gathered import GatheredSolver


@dataclass(frozen=True)
class Integration:
    """The time integration of one run. callbacks : called in this order after each step."""

    solver: GatheredSolver
    clock: Clock
    callbacks: Sequence[Callback]

    def start(self) -> None:
        """Prepare all callbacks."""
        for callback in self.callbacks:
            callback.start(self.solver, self.clock)

    def run(self) -> None:
        """Advance to the last step, or to the step at which a callback stops the run; then finish the callbacks.

        If a signal interrupted the clock, the callbacks are not finished, since a restart resumes the run.
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
