"""What the command line prints when a run has ended: its results, or what is left of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from signal import Signals

import typer

from lithowave.cli.printing import print_error, print_note, print_text
from lithowave.errors import InputError, LithowaveError
from lithowave.output.joining import unjoined
from lithowave.output.run_folder import read_report
from lithowave.run.check import duration_text
from lithowave.run.launch import Result
from lithowave.run.progress import rate_key, rate_text


@contextmanager
def report_partial_results(directory: Path) -> Iterator[None]:
    """When a run fails half-way, also tell what is left of it."""
    try:
        yield
    except InputError:
        raise
    except LithowaveError as error:
        print_error(error)
        if is_failed_run(directory, error):
            print_note(f"what was written before is in {directory}, its story in {directory / 'log.txt'}")
            print_note(f"go on, with the cause removed: lithowave restart {quote(str(directory))}")
        raise typer.Exit(1) from None


def is_failed_run(directory: Path, error: LithowaveError) -> bool:
    """Whether a run folder holds the run that failed with this error, not an earlier one."""
    try:
        report = read_report(directory)
    except LithowaveError:
        return False
    return report.get("exit_state") == "failed" and report.get("error") == str(error)


def print_run_summary(result: Result) -> None:
    """After a run: where the results are and what to type next."""
    report, folder = result.report, quote(str(result.directory))
    if not result.complete:
        print_text(
            f"stopped by {report['stopped_by']} at step {report['stopped_at_step']}; "
            "the checkpoint is written"
        )
        print_text(f"go on:   lithowave restart {folder}")
        raise typer.Exit(128 + Signals[report["stopped_by"]].value)
    rate = report[rate_key(report["unit"])]
    speed = f", {rate_text(rate, report['unit'])}" if rate else ""
    print_text(f"done in {duration_text(report['wall_s'])}{speed}")
    print_text(f"results: {result.directory}")
    if unjoined(result.directory):
        print_text(f"join:    lithowave join {folder}    one file of each snapshot file that the ranks wrote parts of")
    print_text(f"next:    lithowave plot {folder}")
