"""Progress display of a run: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from rich.console import Console

from lithowave.cli.printing import console, print_text
from lithowave.run.progress import ProgressCallback
from lithowave.run.progress_text import begin_text, line_text, rate_of, state_text


@contextmanager
def progress_display(heading: str, interval: float = 5.0) -> Iterator[ProgressCallback]:
    """Yield the function that a run calls with its progress.

    heading : text printed when the time loop begins. interval : seconds between two lines, without a terminal.
    """
    out = console()
    display = ProgressBar(heading, out) if out.is_terminal else ProgressLines(heading, interval)
    lost = False

    def show(entries: dict[str, Any]) -> None:
        nonlocal lost
        if not lost:
            try:
                display(entries)
            except OSError:  # the pipe is closed; the run continues
                lost = True

    try:
        yield show
    finally:
        with suppress(OSError):
            display.close()


class ProgressLines:
    """One line when the time loop begins, at each interval, and at the end."""

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
        """Do nothing: there are no resources to release."""


class ProgressBar:
    """A progress bar with rate, simulated time and remaining time."""

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
            self.task = self.progress.add_task("first step", total=entries["steps"])
        if rate_of(entries):
            self.progress.update(self.task, description=state_text(entries))
        self.progress.update(self.task, completed=entries["step"])
        self.progress.refresh()

    def close(self) -> None:
        """Stop the bar and leave it on the screen."""
        if self.task is not None:
            self.progress.stop()
