"""The instability watch: ends a run whose fields grow without bound, and reports where, when and why."""

from __future__ import annotations

import math
from collections.abc import Sequence

from lithowave.description.sources import PointSource
from lithowave.errors import InstabilityError
from lithowave.output.recorders import NOTHING
from lithowave.run.callback import Callback
from lithowave.run.onsets import Onsets, require_motion
from lithowave.solvers.clock import Clock, Schedule
from lithowave.solvers.gathered import GatheredSolver

CHECK_INTERVAL = 50  # steps
MAX_GROWTH = 1e3


class InstabilityWatch(Callback):
    """The callback that inspects the largest velocity at intervals, and at the end.

    While the sources act, any finite velocity is allowed. After that, an error is raised if the largest velocity
    exceeds 1000 times its previous maximum, which no focusing of waves can cause.

    Parameters
    ----------
    schedule : time step and stability limit, for the report.
    sources : point sources; growth is limited after the end of their time functions.
    every : steps between two inspections.
    onsets : onsets of these sources; None: fields may remain zero.
    """

    def __init__(
        self,
        schedule: Schedule,
        sources: Sequence[PointSource],
        every: int = CHECK_INTERVAL,
        onsets: Onsets | None = None,
    ) -> None:
        self.schedule, self.every, self.onsets = schedule, every, onsets
        self.sources_end = max((source.time_function.support()[1] for source in sources), default=0.0)
        self.largest = 0.0

    def due(self, clock: Clock) -> bool:
        """True at the interval, and at the end."""
        return clock.step % self.every == 0 or clock.finished

    def __call__(self, solver: GatheredSolver, clock: Clock) -> None:
        """Inspect the fields."""
        self.inspect(solver, clock)

    def start(self, solver: GatheredSolver, clock: Clock) -> None:
        """Inspect the initial fields of the loop."""
        self.inspect(solver, clock)

    def inspect(self, solver: GatheredSolver, clock: Clock) -> None:
        """Compare the largest velocity with its previous maximum.

        Raises
        ------
        InstabilityError : the velocity is not finite, or has grown too much.
        SelfCheckError : sources have acted, but the velocity is zero everywhere.
        """
        now = solver.largest_velocity()
        grown = clock.time > self.sources_end and self.largest > 0 and now > MAX_GROWTH * self.largest
        if not math.isfinite(now) or grown:
            raise InstabilityError(self._report(solver, clock, now))
        self.largest = max(self.largest, now)
        if self.largest <= NOTHING and self.onsets is not None:
            require_motion(self.onsets, clock.step)

    def _report(self, solver: GatheredSolver, clock: Clock, now: float) -> str:
        seen = f"its previous maximum was {self.largest:.3g} m/s"
        what = (
            "the largest velocity is infinite or not a number"
            if not math.isfinite(now)
            else f"the largest velocity is {now:.3g} m/s"
        )
        fraction = self.schedule.time_step / self.schedule.limit
        causes = [
            f"the time step ({self.schedule.time_step:.6g} s) is {100 * fraction:.3g}% of the stability limit"
            + ("; try solver.safety: 0.8" if fraction > 0.85 else ""),
            *solver.plan.instability_causes(),
            "a source amplitude beyond the range of single precision: check its unit",
        ]
        return (
            f"unstable at step {clock.step} (t = {clock.time:.6g} s): {what} ({seen}); {solver.diagnose()}.\n"
            "Likely causes, most likely first:\n" + "\n".join(f"  - {cause}" for cause in causes)
        )
