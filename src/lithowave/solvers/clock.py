"""Time step, sampling, and the clock of the loop."""

from __future__ import annotations

import math
from dataclasses import dataclass

from lithowave.errors import InputError


@dataclass(frozen=True)
class Schedule:
    """Time steps of a run, and the times of its samples, which need not fall on steps.

    time_step : s. limit : largest stable time step, s. sampling_interval : s. sample_count : samples, the one at t = 0
    included. corrected_frequency : Hz; the error of the time steps is removed from records up to about this frequency
    (see `lithowave.solvers.common.resampling`); None: from none.
    """

    time_step: float
    limit: float
    sampling_interval: float
    sample_count: int
    corrected_frequency: float | None = None

    @property
    def end(self) -> float:
        """Time of the last sample, s."""
        return (self.sample_count - 1) * self.sampling_interval

    @property
    def last_step(self) -> int:
        """Steps to the time of the last sample, or to the first one after it."""
        return math.ceil(self.end / self.time_step * (1.0 - _SAME) - _SAME)

    @property
    def steps(self) -> int:
        """Steps of the run: some more, if the last samples are computed from the steps around them."""
        if self.sample_every:
            return self.last_step
        return self.last_step + (LATER_STEPS if self.corrected_frequency is None else LATER_STEPS_CORRECTED)

    @property
    def sample_every(self) -> int | None:
        """Steps between two samples if records at steps are the samples; None if these are computed from them."""
        every = round(self.sampling_interval / self.time_step)
        on_steps = every > 0 and abs(every * self.time_step / self.sampling_interval - 1.0) < _SAME
        return every if on_steps and self.corrected_frequency is None else None


LATER_STEPS, LATER_STEPS_CORRECTED = 4, 12
"""Steps after the last sample, without which rounding errors in the last samples would be up to 100 times larger."""

_SAME = 1e-9
"""Relative difference of equal intervals."""

_MOST_STEPS = 1_000_000_000
"""Most steps of a run: even at a millisecond per step, more take longer than eleven days."""


def make_schedule(
    limit: float,
    duration: float,
    safety: float,
    time_step: float | None = None,
    sampling_interval: float | None = None,
    corrected_frequency: float | None = None,
) -> Schedule:
    """Choose the time step, safety * limit if none is given, and the samples, at each step without an interval.

    corrected_frequency : see `Schedule`.

    Raises
    ------
    InputError
        if the given time step is above the limit, or if there are more than a billion steps or samples.
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
    interval = sampling_interval or step
    count = int(math.floor(duration / interval + 1e-6)) + 1
    return Schedule(step, limit, interval, max(count, 2), corrected_frequency)


def _require_steps(duration: float, step: float, given: bool, sampling_interval: float | None, stable: float) -> None:
    """Raise InputError if there are too many steps or samples.

    step : s. given : True if the user states it. stable : the default time step, s.
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
