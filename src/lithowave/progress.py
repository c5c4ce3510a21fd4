"""Progress of a run: a bar on a terminal, plain lines elsewhere, progress.json always."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from lithowave.output.run_folder import RunFolder
from lithowave.solvers.clock import Clock


class Progress:
    """Tells how far a run is, at most every so many seconds.

    Parameters
    ----------
    folder : where progress.json goes. point_count : points updated in a step. show : takes (clock, entries); the
    command line passes a bar or a printer of lines, Python callers nothing.
    """

    def __init__(
        self,
        folder: RunFolder,
        clock: Clock,
        point_count: int,
        show: Callable[[dict[str, Any]], None] | None = None,
        interval: float = 1.0,
    ) -> None:
        self.folder, self.point_count, self.show, self.interval = folder, point_count, show, interval
        self.first_step, self.begin = clock.step, time.perf_counter()
        self.next = self.begin

    def update(self, clock: Clock) -> None:
        """Tell, if it is time."""
        now = time.perf_counter()
        if now < self.next and not clock.finished:
            return
        self.next = now + self.interval
        entries = self.entries(clock, now)
        self.folder.write_progress(entries)
        if self.show:
            self.show(entries)

    def entries(self, clock: Clock, now: float) -> dict[str, Any]:
        """Step, time, rate and time left."""
        done, elapsed = clock.step - self.first_step, now - self.begin
        per_step = elapsed / done if done else None
        return {
            "step": clock.step,
            "steps": clock.steps,
            "time_s": clock.time,
            "elapsed_s": elapsed,
            "remaining_s": None if per_step is None else per_step * (clock.steps - clock.step),
            "rate_points_per_s": None if not per_step else self.point_count / per_step,
        }
