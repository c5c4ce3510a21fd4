"""Progress of a run: reported to a callable for display, and written to progress.json for other processes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from lithowave.output.run_folder import RunFolder
from lithowave.run.callback import Callback
from lithowave.solvers.clock import Clock
from lithowave.solvers.gathered import GatheredSolver
from lithowave.solvers.interface import Plan

ProgressCallback = Callable[[dict[str, Any]], None]

DISPLAY_INTERVAL, WRITE_INTERVAL = 0.25, 1.0
"""Wall time, s, between two calls of `show`, and between two versions of progress.json."""


def rate_key(unit: str) -> str:
    """Return the name of a rate in reports: ``rate_points_per_s``."""
    return f"rate_{unit}_per_s"


def rate_text(rate: float, unit: str) -> str:
    """Return a rate as text: ``28.5 million points/s``."""
    return f"{rate / 1e6:.4g} million {unit}/s"


class Progress(Callback):
    """The callback that reports the progress of a run.

    Parameters
    ----------
    folder : the run folder, for progress.json.
    plan : for the number of points or elements updated in each step.
    show : function called with the entries; the command line passes a progress bar or a printer of lines.
    """

    def __init__(self, folder: RunFolder, plan: Plan, show: ProgressCallback | None = None) -> None:
        self.folder, self.unit, self.show = folder, plan.unit, show
        self.total, self.count = plan.unit_total, plan.unit_count

    def start(self, solver: GatheredSolver, clock: Clock) -> None:
        """Start the measurement, and report the first step."""
        self.started = time.perf_counter()
        self.next_shown = self.next_written = self.started
        # Steps are timed from the end of the first one, in which kernels are loaded or compiled.
        self.timed_from: tuple[int, float] = (clock.step, self.started)
        self.first_step = clock.step
        self.update(clock)

    def __call__(self, solver: GatheredSolver, clock: Clock) -> None:
        """Report the progress if the interval has elapsed."""
        self.update(clock)

    def close(self) -> None:
        """Remove progress.json: it exists only during the time loop."""
        self.folder.end_progress()

    def update(self, clock: Clock) -> None:
        """Report the progress if the interval has elapsed."""
        now = time.perf_counter()
        if clock.step == self.first_step + 1:
            self.timed_from = (clock.step, now)
        if now < self.next_shown and not clock.finished:
            return
        self.next_shown = now + DISPLAY_INTERVAL
        entries = self.entries(clock, now)
        if self.show:
            self.show(entries)
        if now >= self.next_written:
            self.next_written = now + WRITE_INTERVAL
            self.folder.write_progress(entries)

    def entries(self, clock: Clock, now: float) -> dict[str, Any]:
        """Return step, time, rate and remaining time; rate and remaining time are None until they are known."""
        rate = self.rate(clock, now)
        left = self.count * (clock.steps - clock.step)
        return {
            "unit": self.unit,
            self.unit: self.total,
            "step": clock.step,
            "steps": clock.steps,
            "time_s": clock.time,
            "end_s": clock.steps * clock.time_step,
            "elapsed_s": now - self.started,
            "remaining_s": left / rate if rate else None,
            rate_key(self.unit): rate,
        }

    def rate(self, clock: Clock, now: float | None = None) -> float | None:
        """Return the points (or elements) updated per second since the first step; None before the second step."""
        step, begin = self.timed_from
        elapsed = (time.perf_counter() if now is None else now) - begin
        if clock.step - step < 1 or step == self.first_step or elapsed <= 0.0:
            return None
        return self.count * (clock.step - step) / elapsed
