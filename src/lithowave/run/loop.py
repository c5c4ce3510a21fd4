"""The time loop, one for all methods and devices: advance, tick, callbacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lithowave.phases import phase
from lithowave.run.callback import Callback
from lithowave.solvers.clock import Clock
from lithowave.solvers.gathered import GatheredSolver

FIRST_STEP = "first step"
"""Phase of the first step."""


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
        with phase(FIRST_STEP):  # which compiles kernels of the CPU
            self._step()
        with phase("other steps"):
            while not clock.finished:
                self._step()
        if clock.interrupted_by is None:
            for callback in callbacks:
                callback.finish(solver, clock)

    def _step(self) -> None:
        """Advance by one step, unless the clock is at the end."""
        if self.clock.finished:
            return
        self.solver.advance(self.clock.step)
        self.clock.tick()
        for callback in self.callbacks:
            if callback.due(self.clock):
                callback(self.solver, self.clock)
