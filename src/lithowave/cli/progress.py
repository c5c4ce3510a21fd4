"""Progress display of a run, and the summary that is printed at its end, complete or not."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, TypeVar

import typer
from rich.console import Console

from lithowave.cli.printing import console, print_error, print_note, print_text
from lithowave.errors import InputError, Interruption, LithowaveError
from lithowave.output.run_folder import read_report
from lithowave.output.snapshots import unjoined
from lithowave.run.check import duration_text
from lithowave.run.progress import ProgressCallback, efficiency_line, rate_key, rate_text
from lithowave.run.status import Result, begin_text, line_text, rate_of, state_text
from lithowave.run.time_limit import exit_status

if TYPE_CHECKING:
    from lithowave.json_types import Entries

Outcome = TypeVar("Outcome")


@contextmanager
def progress_display(heading: str, interval: float = 5.0) -> Iterator[ProgressCallback]:
    """Yield the function that a run calls with its progress.

    heading : text printed when the time loop begins. interval : seconds between two lines, without a terminal.
    """
    out = console()
    display = ProgressBar(heading, out) if out.is_terminal else ProgressLines(heading, interval)
    lost = False

    def show(entries: Entries) -> None:
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
        self.next = -math.inf  # time of the next line

    def __call__(self, entries: Entries) -> None:
        now, begins = time.monotonic(), self.next == -math.inf
        if now >= self.next or entries["step"] == entries["steps"]:
            self.next = now + self.interval
            print_text(begin_text(self.heading, entries) if begins else line_text(entries))

    def close(self) -> None:
        """Do nothing: there are no resources to release."""


class ProgressBar:
    """A progress bar with rate, simulated time and remaining time."""

    def __init__(self, heading: str, out: Console) -> None:
        from rich.progress import BarColumn, Progress, TaskID, TextColumn

        self.heading = heading
        self.task: TaskID | None = None
        self.progress = Progress(
            BarColumn(bar_width=30), TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.description}", markup=False), console=out, auto_refresh=False,
        )  # fmt: skip

    def __call__(self, entries: Entries) -> None:
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


def with_interruption(run: Callable[..., Outcome], *arguments: object, **keywords: object) -> Outcome:
    """Call a function that runs a simulation or a survey; return the result, complete or not, also after a signal."""
    try:
        return run(*arguments, **keywords)
    except Interruption as stop:
        return stop.result  # type: ignore[return-value]


@contextmanager
def report_partial_results(directory: Path) -> Iterator[None]:
    """If a run fails during the time loop, also print the location of its partial results."""
    try:
        yield
    except InputError:
        raise
    except LithowaveError as error:
        print_error(error)
        if is_failed_run(directory, error):
            print_note(f"partial results: {directory}, log: {directory / 'log.txt'}")
            print_note(f"next:    remove the cause, then lithowave restart {quote(str(directory))}")
        raise typer.Exit(1) from None


def is_failed_run(directory: Path, error: LithowaveError) -> bool:
    """True if a run folder contains the run that failed with this error, not an earlier run."""
    try:
        report = read_report(directory)
    except LithowaveError:
        return False
    return report.get("exit_state") == "failed" and report.get("error") == str(error)


def print_run_summary(result: Result) -> None:
    """Print the state of the run, its results and the next command."""
    report, folder = result.report, quote(str(result.directory))
    if not result.complete:
        print_text(f"stopped at step {report['stopped_at_step']}: by {report['stopped_by']}, checkpoint written")
        print_text(f"next:    lithowave restart {folder}")
        raise typer.Exit(exit_status(report["stopped_by"]))
    rate = report[rate_key(report["unit"])]
    speed = f", {rate_text(rate, report['unit'])}" if rate else ""
    print_text(f"finished: in {duration_text(report['wall_s'])}{speed}")
    if "loop_losses" in report:
        print_text(f"efficiency: {efficiency_line(report, report['plan']['method'])}")
    print_text(f"results: {result.directory}")
    if unjoined(result.directory):
        print_text(f"join:    lithowave join {folder}    join the snapshot parts that the ranks have written")
    print_text(f"next:    lithowave plot {folder}")


def print_phases(directory: Path, before: list[Entries]) -> None:
    """Print the times of the phases of a complete run, their shares of the total, and the largest memory until then.

    before : phases of the process before the run.
    """
    phases = [*before, *read_report(directory)["phases"]]
    total = sum(one["wall_s"] for one in phases)
    print_text(f"{'phase':<24} {'time, s':>10} {'share':>7} {'CPU time, s':>12} {'memory, GB':>11}")
    for one in phases:
        wall, memory = one["wall_s"], one["peak_bytes"] / 1e9
        print_text(f"{one['name']:<24} {wall:>10.3f} {wall / total:>7.1%} {one['cpu_s']:>12.3f} {memory:>11.2f}")
    print_text(f"{'total':<24} {total:>10.3f}")
