"""How far a run is: told to whoever shows it, and in progress.json for whoever looks from outside."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from lithowave.output.run_folder import RunFolder
from lithowave.solvers.clock import Clock
from lithowave.solvers.interface import Plan

Show = Callable[[dict[str, Any]], None]

SHOWN_EVERY, WRITTEN_EVERY = 0.25, 1.0
"""Seconds on the clock between two calls of `show`, and between two versions of progress.json."""


def rate_key(unit: str) -> str:
    """Name of a rate in reports: ``rate_points_per_s``."""
    return f"rate_{unit}_per_s"


def rate_text(rate: float, unit: str) -> str:
    """A rate for reading: ``28.5 million points/s``."""
    return f"{rate / 1e6:.4g} million {unit}/s"


class Progress:
    """Tells how far a run is.

    Parameters
    ----------
    folder : where progress.json goes. plan : tells what a step updates, and how many of it. show : takes the entries;
    the command line passes a bar or a printer of lines, Python callers nothing.
    """

    def __init__(self, folder: RunFolder, clock: Clock, plan: Plan, show: Show | None = None) -> None:
        self.folder, self.unit, self.show = folder, plan.unit, show
        self.total, self.count = plan.unit_total, plan.unit_count
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
        """Points (or elements) updated in a second since the first step; None before the second."""
        step, begin = self.timed_from
        elapsed = (time.perf_counter() if now is None else now) - begin
        if clock.step - step < 1 or step == self.first_step or elapsed <= 0.0:
            return None
        return self.count * (clock.step - step) / elapsed
