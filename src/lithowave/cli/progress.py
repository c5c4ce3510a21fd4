"""Progress of a run as people see it: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from rich.console import Console

from lithowave.cli.printing import console, print_text
from lithowave.run.check import duration_text
from lithowave.run.progress import ProgressCallback, rate_key, rate_text


@contextmanager
def progress_display(heading: str, interval: float = 5.0) -> Iterator[ProgressCallback]:
    """What a run shall call with its progress.

    Parameters
    ----------
    heading : said when the time loop begins. interval : seconds between two lines, where there is no
    terminal.
    """
    out = console()
    display = ProgressBar(heading, out) if out.is_terminal else ProgressLines(heading, interval)
    lost = False

    def show(entries: dict[str, Any]) -> None:
        nonlocal lost
        if not lost:
            try:
                display(entries)
            except OSError:  # nobody reads on; the run goes on
                lost = True

    try:
        yield show
    finally:
        with suppress(OSError):
            display.close()


class ProgressLines:
    """A line when the time loop begins, then every so many seconds, and one at the end."""

    def __init__(self, heading: str, interval: float) -> None:
        self.heading, self.interval = heading, interval
        self.next: float | None = None

    def __call__(self, entries: dict[str, Any]) -> None:
        now, begins = time.monotonic(), self.next is None
        if not (begins or now >= self.next or entries["step"] == entries["steps"]):
            return
        self.next = now + self.interval
        print_text(begin_text(self.heading, entries) if begins else line_text(entries))

    def close(self) -> None:
        """Nothing is left to do."""


class ProgressBar:
    """A bar with rate, simulated time and time left."""

    def __init__(self, heading: str, out: Console) -> None:
        from rich.progress import BarColumn, Progress, TextColumn

        self.heading, self.task = heading, None
        self.progress = Progress(
            BarColumn(bar_width=30),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.description}", markup=False),
            console=out,
            auto_refresh=False,
        )

    def __call__(self, entries: dict[str, Any]) -> None:
        if self.task is None:
            self.progress.console.print(begin_text(self.heading, entries))
            self.progress.start()
            self.task = self.progress.add_task("the first step", total=entries["steps"])
        if rate_of(entries):
            self.progress.update(self.task, description=state_text(entries))
        self.progress.update(self.task, completed=entries["step"])
        self.progress.refresh()

    def close(self) -> None:
        """Leave the bar as it is."""
        if self.task is not None:
            self.progress.stop()


def begin_text(heading: str, entries: dict[str, Any]) -> str:
    """The lines with which a run begins, or goes on."""
    begun = f"from step {entries['step']} (t = {entries['time_s']:.4g} s) " if entries["step"] else ""
    return (
        f"{heading}\n{entries[entries['unit']]:,} {entries['unit']}, {begun}{entries['steps']:,} steps "
        f"to t = {entries['end_s']:.4g} s; kernels are compiled at their first use"
    )


def line_text(entries: dict[str, Any]) -> str:
    """A line of progress."""
    share = 100.0 * entries["step"] / entries["steps"]
    return f"step {entries['step']} of {entries['steps']} ({share:.0f}%), {state_text(entries)}"


def state_text(entries: dict[str, Any]) -> str:
    """Simulated time, rate and time left."""
    parts = [f"t = {entries['time_s']:.4g} of {entries['end_s']:.4g} s"]
    if rate := rate_of(entries):
        parts.append(rate_text(rate, entries["unit"]))
    if entries["remaining_s"] and entries["step"] < entries["steps"]:
        parts.append(f"{duration_text(entries['remaining_s'])} left")
    return ", ".join(parts)


def rate_of(entries: dict[str, Any]) -> float | None:
    """Points or elements in a second; None as long as it is not known."""
    return entries[rate_key(entries["unit"])]
