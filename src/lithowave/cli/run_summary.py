"""Summary that the command line prints at the end of a run, complete or not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import Any, TypeVar

import typer

from lithowave.cli.printing import print_error, print_note, print_text
from lithowave.errors import InputError, Interruption, LithowaveError
from lithowave.output.joining import unjoined
from lithowave.output.run_folder import read_report
from lithowave.run.check import duration_text
from lithowave.run.efficiency import efficiency_line
from lithowave.run.progress import rate_key, rate_text
from lithowave.run.result import Result
from lithowave.run.time_limit import exit_status

Outcome = TypeVar("Outcome")


def with_interruption(run: Callable[..., Outcome], *arguments: Any, **keywords: Any) -> Outcome:
    """Call a function that runs a simulation or a survey; return the result, complete or not, also after a signal."""
    try:
        return run(*arguments, **keywords)
    except Interruption as stop:
        return stop.result


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


def print_phases(directory: Path, before: list[dict[str, Any]]) -> None:
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
