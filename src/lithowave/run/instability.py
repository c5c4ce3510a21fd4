"""The instability watch: ends a run whose motion grows without a source, and reports where, when and why."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from lithowave.description.simulation import Simulation
from lithowave.description.sources import PointSource
from lithowave.errors import InstabilityError
from lithowave.output.recorders import NOTHING
from lithowave.run.callback import Callback
from lithowave.run.onsets import Onsets, require_motion
from lithowave.solvers.clock import Clock, Schedule
from lithowave.solvers.gathered import GatheredSolver

CHECK_INTERVAL = 50  # steps
MAX_GROWTH = 1e3
# Growth of the maximum of a window over that of an earlier one, above a fraction of the maximum of the run, below which
# rounding errors matter. Every window contains the passage of the slowest wave through the domain.
WINDOW_GROWTH, NOISE = 10.0, 1e-4
STATE = ("largest", "window_end", "in_window", "quietest")


def crossing_time(simulation: Simulation) -> float:
    """Return the time, s, in which the slowest wave crosses the domain along its diagonal."""
    sides = [high - low for low, high in simulation.domain.bounds.values()]
    return math.hypot(*sides) / simulation.material_extremes["slowest"]


class InstabilityWatch(Callback):
    """The callback that inspects the largest velocity at intervals, and at the end.

    While the sources act, any finite velocity is allowed. After that, the energy of a passive medium cannot grow: an
    error is raised if the largest velocity exceeds 1000 times its previous maximum, which no focusing of waves can
    cause, or 10 times its maximum in an earlier window of time.

    Parameters
    ----------
    schedule : time step and stability limit, for the report.
    sources : point sources; growth is limited after the end of their time functions.
    window : length of the windows, s; see `crossing_time`.
    every : steps between two inspections.
    onsets : onsets of these sources; None: fields may remain zero.
    """

    def __init__(
        self,
        schedule: Schedule,
        sources: Sequence[PointSource],
        window: float = math.inf,
        every: int = CHECK_INTERVAL,
        onsets: Onsets | None = None,
    ) -> None:
        self.schedule, self.every, self.onsets = schedule, every, onsets
        self.sources_end = max((source.time_function.support()[1] for source in sources), default=0.0)
        self.largest = 0.0
        self.window, self.window_end = window, self.sources_end + window
        self.in_window, self.quietest = 0.0, math.inf  # maxima of the present window, and of the quietest one before

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
        without_source = clock.time > self.sources_end
        burst = without_source and self.largest > 0 and now > MAX_GROWTH * self.largest
        growth = now > self.limit
        if not math.isfinite(now) or burst or growth:
            raise InstabilityError(self._report(solver, clock, now, growth))
        self.largest = max(self.largest, now)
        if without_source:
            self._complete_window(clock, now)
        if self.largest <= NOTHING and self.onsets is not None:
            require_motion(self.onsets, clock.step)

    @property
    def limit(self) -> float:
        """The largest velocity, m/s, that is not growth; infinite before the end of the first window."""
        return max(WINDOW_GROWTH * self.quietest, NOISE * self.largest)

    def _complete_window(self, clock: Clock, now: float) -> None:
        """Add a value to the present window; begin the next one at its end."""
        self.in_window = max(self.in_window, now)
        if clock.time >= self.window_end:
            self.quietest = min(self.quietest, self.in_window)
            self.window_end, self.in_window = clock.time + self.window, 0.0

    def state(self) -> dict[str, np.ndarray]:
        """Return the maxima up to now, for a checkpoint: growth that began before a restart is found after it."""
        return {name: np.array(getattr(self, name)) for name in STATE}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Resume from a `state`."""
        for name in STATE:
            setattr(self, name, float(state[name]))

    def _report(self, solver: GatheredSolver, clock: Clock, now: float, slow: bool) -> str:
        seen = f"its previous maximum was {self.largest:.3g} m/s"
        if self.quietest < math.inf:
            seen += f"; in an earlier window of {self.window:.3g} s, after the sources, {self.quietest:.3g} m/s"
        what = (
            "the largest velocity is infinite or not a number"
            if not math.isfinite(now)
            else f"the largest velocity is {now:.3g} m/s"
        )
        fraction, of_plan = self.schedule.time_step / self.schedule.limit, solver.plan.instability_causes()
        if slow and not of_plan:
            remedy = "; try solver.safety: 0.5, or compute.precision: double against round-off"
        else:
            remedy = "; try solver.safety: 0.8" if fraction > 0.85 else ""
        step = (
            f"the time step ({self.schedule.time_step:.6g} s) is {100 * fraction:.3g}% of the stability limit{remedy}"
        )
        amplitude = "a source amplitude beyond the range of single precision: check its unit"
        causes = [*of_plan, step] if slow else [step, *of_plan, amplitude]
        return (
            f"unstable at step {clock.step} (t = {clock.time:.6g} s): {what} ({seen}); {solver.diagnose()}.\n"
            "Likely causes, most likely first:\n" + "\n".join(f"  - {cause}" for cause in causes)
        )
