"""Time step, sampling, and the clock of the loop."""

from __future__ import annotations

import math
from dataclasses import dataclass

from lithowave.errors import InputError


@dataclass(frozen=True)
class Schedule:
    """Time steps of a run.

    time_step : s.
    limit : largest stable time step, s.
    sample_every : steps between two samples of the seismograms.
    sample_count : samples, the one at t = 0 included.
    """

    time_step: float
    limit: float
    sample_every: int
    sample_count: int

    @property
    def sampling_interval(self) -> float:
        """Interval between two samples, s."""
        return self.time_step * self.sample_every

    @property
    def steps(self) -> int:
        """Steps to the last sample."""
        return (self.sample_count - 1) * self.sample_every


_MOST_STEPS = 1_000_000_000
"""Most steps of a run: even at a millisecond per step, more take longer than eleven days."""


def make_schedule(
    limit: float,
    duration: float,
    safety: float,
    time_step: float | None = None,
    sampling_interval: float | None = None,
) -> Schedule:
    """Choose the time step so that samples fall on steps.

    Without a `time_step`, the result is the largest one that is at most safety * limit and divides the sampling
    interval. Without a `sampling_interval`, a sample is recorded at each step.

    Raises
    ------
    InputError
        if the given time step is above the limit or does not divide the sampling interval, or if there are more than a
        billion steps.
    """
    if time_step is not None and time_step > limit:
        raise InputError(
            "solver.time_step",
            f"{time_step:g} s is above the stability limit of {limit:.6g} s",
            f"allowed: at most {limit:.6g} s",
            "omit time_step to use the largest stable one",
        )
    step = time_step if time_step is not None else safety * limit
    _require_steps(duration, step, time_step is not None, sampling_interval, safety * limit)
    if sampling_interval is None:
        every = 1
    elif time_step is None:
        every = max(1, math.ceil(sampling_interval / step - 1e-9))
        step = sampling_interval / every
    else:
        every = round(sampling_interval / step)
        if every < 1 or abs(every * step - sampling_interval) > 1e-6 * sampling_interval:
            divisor = max(1, math.ceil(sampling_interval / step - 1e-9))
            raise InputError(
                "output.sampling_interval",
                f"{sampling_interval:g} s is not a multiple of solver.time_step ({step:g} s)",
                "allowed: integer multiples of the time step",
                f"set solver.time_step to {sampling_interval / divisor:.9g} s, or omit it",
            )
    count = int(math.floor(duration / (every * step) + 1e-6)) + 1
    return Schedule(step, limit, every, max(count, 2))


def _require_steps(duration: float, step: float, given: bool, sampling_interval: float | None, stable: float) -> None:
    """Raise InputError if there are too many steps.

    step : s, that of the run before it is fitted to the sampling interval. given : True if the user states it. stable :
    the default time step, s.
    """
    shortest = min(step, sampling_interval or step)
    count = duration / shortest if shortest > 0 else math.inf
    if count <= _MOST_STEPS:
        return
    if shortest < step:
        key, hint = "output.sampling_interval", f"omit it, or use at least {duration / _MOST_STEPS:.3g} s"
    elif given:
        key, hint = "solver.time_step", f"omit it to use {stable:.6g} s, which is stable"
    else:
        key, hint = "duration", f"use a shorter duration; the stable time step is {stable:.6g} s"
    got = f"a duration of {duration:g} s has {count:.3g} steps of {shortest:g} s"
    raise InputError(key, got, f"allowed: at most {_MOST_STEPS:.0e} steps", hint)


@dataclass
class Clock:
    """Time of the loop.

    time_step : s. steps : steps of the complete run. step : steps done. stop_reason : why a callback ends the run
    early, else None. interrupted_by : name of the signal that ends the loop before the run is complete, else None.
    """

    time_step: float
    steps: int
    step: int = 0
    stop_reason: str | None = None
    interrupted_by: str | None = None

    @property
    def time(self) -> float:
        """Simulated time, s."""
        return self.step * self.time_step

    @property
    def finished(self) -> bool:
        """True if no further step follows."""
        return self.step >= self.steps or self.stop_reason is not None or self.interrupted_by is not None

    def tick(self) -> None:
        """Count a step."""
        self.step += 1

    def stop(self, reason: str) -> None:
        """End the run after this step; it is then complete, and its files end at this time.

        reason : one sentence for the log and run.json; the first one counts.

        Raises
        ------
        ValueError : the reason is empty.
        """
        if not reason:
            raise ValueError("clock.stop needs a reason")
        self.stop_reason = self.stop_reason or reason

    def interrupt(self, signal_name: str) -> None:
        """End the loop after this step; the run is not complete, and is resumed from its checkpoint."""
        self.interrupted_by = signal_name
