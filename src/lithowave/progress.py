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
    folder : where progress.json goes. point_count : points updated in a step. show : takes the entries; the command
    line passes a bar or a printer of lines, Python callers nothing.
    """

    def __init__(self, folder: RunFolder, clock: Clock, point_count: int, show: Show | None = None) -> None:
        self.folder, self.point_count, self.show = folder, point_count, show
        self.first_step, self.started = clock.step, time.perf_counter()
        self.next_shown = self.next_written = self.started

    def update(self, clock: Clock) -> None:
        """Tell, if it is time."""
        now = time.perf_counter()
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
        """Step, time, rate and time left; the last two are None before the first step."""
        done, elapsed = clock.step - self.first_step, now - self.started
        per_step = elapsed / done if done else None
        return {
            "points": self.point_count,
            "step": clock.step,
            "steps": clock.steps,
            "time_s": clock.time,
            "end_s": clock.steps * clock.time_step,
            "elapsed_s": elapsed,
            "remaining_s": None if per_step is None else per_step * (clock.steps - clock.step),
            "rate_points_per_s": None if not per_step else self.point_count / per_step,
        }
