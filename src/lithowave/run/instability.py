"""The instability watch: stops a run whose fields grow without bound, and says where, when and why."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from lithowave.errors import InstabilityError
from lithowave.output.recorders import NOTHING
from lithowave.run.onsets import Onsets, require_motion
from lithowave.solvers.clock import Clock, Schedule
from lithowave.solvers.interface import Solver

EVERY = 50
GROWTH = 1e3


class InstabilityWatch:
    """Looks at the largest velocity every so many steps.

    While the sources act it may be anything finite; after that no velocity can pass a thousand times the
    largest seen before, whatever the structure focuses.

    Parameters
    ----------
    schedule : for the report. sources : point sources, whose time functions tell when they end. every :
    steps. onsets : of these sources; None: fields may stay zero.
    """

    def __init__(
        self, schedule: Schedule, sources: Sequence[Any], every: int = EVERY, onsets: Onsets | None = None
    ) -> None:
        self.schedule, self.every, self.onsets = schedule, every, onsets
        self.quiet_after = max((source.time_function.support()[1] for source in sources), default=0.0)
        self.largest = 0.0

    def check(self, solver: Solver, clock: Clock) -> None:
        """Look at the fields if it is time."""
        if clock.step % self.every == 0 or clock.finished:
            self.inspect(solver, clock)

    def inspect(self, solver: Solver, clock: Clock) -> None:
        """Raise InstabilityError when the fields have gone wrong, SelfCheckError when sources move nothing."""
        now = solver.largest_velocity()
        grown = clock.time > self.quiet_after and self.largest > 0 and now > GROWTH * self.largest
        if not math.isfinite(now) or grown:
            raise InstabilityError(self._report(solver, clock, now))
        self.largest = max(self.largest, now)
        if self.largest <= NOTHING and self.onsets is not None:
            require_motion(self.onsets, clock.step)

    def _report(self, solver: Solver, clock: Clock, now: float) -> str:
        seen = f"the largest before was {self.largest:.3g} m/s"
        what = (
            "a velocity is infinite or not a number"
            if not math.isfinite(now)
            else f"a velocity is {now:.3g} m/s"
        )
        fraction = self.schedule.time_step / self.schedule.limit
        causes = [
            f"the time step ({self.schedule.time_step:.6g} s) is {100 * fraction:.3g}% of the stability limit"
            + ("; try solver.safety: 0.8" if fraction > 0.85 else ""),
            *solver.plan.instability_causes(),
            "a source far too strong for single precision: check its unit",
        ]
        return (
            f"unstable at step {clock.step} (t = {clock.time:.6g} s): {what} ({seen}); {solver.diagnose()}.\n"
            "Likely causes, most likely first:\n" + "\n".join(f"  - {cause}" for cause in causes)
        )
