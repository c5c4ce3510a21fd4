"""How far a run is: told to whoever shows it, and in progress.json for whoever looks from outside."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from lithowave.output.run_folder import RunFolder
from lithowave.solvers.clock import Clock

Show = Callable[[dict[str, Any]], None]

SHOWN_EVERY, WRITTEN_EVERY = 0.25, 1.0
"""Seconds on the clock between two calls of `show`, and between two versions of progress.json."""


class Progress:
    """Tells how far a run is.

    Parameters
    ----------
    folder : where progress.json goes. point_count : points updated in a step. show : takes the entries; the
    command line passes a bar or a printer of lines, Python callers nothing.
    """

    def __init__(self, folder: RunFolder, clock: Clock, point_count: int, show: Show | None = None) -> None:
        self.folder, self.point_count, self.show = folder, point_count, show
        self.started = time.perf_counter()
        self.next_shown = self.next_written = self.started
        # Steps are timed from the end of the first one, in which kernels are loaded or compiled.
        self.timed_from: tuple[int, float] = (clock.step, self.started)
        self.first_step = clock.step

    def update(self, clock: Clock) -> None:
        """Tell, if it is time."""
        now = time.perf_counter()
        if clock.step == self.first_step + 1:
            self.timed_from = (clock.step, now)
        if now < self.next_shown and not clock.finished:
            return
        self.next_shown = now + SHOWN_EVERY
        entries = self.entries(clock, now)
        if self.show:
            self.show(entries)
        if now >= self.next_written:
            self.next_written = now + WRITTEN_EVERY
            self.folder.write_progress(entries)

    def entries(self, clock: Clock, now: float) -> dict[str, Any]:
        """Step, time, rate and time left; the last two are None as long as they are not known."""
        rate = self.rate(clock, now)
        left = self.point_count * (clock.steps - clock.step)
        return {
            "points": self.point_count,
            "step": clock.step,
            "steps": clock.steps,
            "time_s": clock.time,
            "end_s": clock.steps * clock.time_step,
            "elapsed_s": now - self.started,
            "remaining_s": left / rate if rate else None,
            "rate_points_per_s": rate,
        }

    def rate(self, clock: Clock, now: float | None = None) -> float | None:
        """Points updated in a second since the first step; None before the second."""
        step, begin = self.timed_from
        elapsed = (time.perf_counter() if now is None else now) - begin
        if clock.step - step < 1 or step == self.first_step or elapsed <= 0.0:
            return None
        return self.point_count * (clock.step - step) / elapsed
