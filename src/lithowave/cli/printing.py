"""Printing of the commands: styled on a terminal, plain elsewhere, in lines that are never wrapped there.

Progress display of a run: a bar on a terminal, lines elsewhere.

Summary that the command line prints at the end of a run, complete or not.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, TypeVar

import typer
from rich.console import Console
from rich.text import Text

from lithowave.errors import InputError, Interruption, LithowaveError, LithowaveWarning
from lithowave.output.run_folder import read_report
from lithowave.output.snapshots import unjoined
from lithowave.parallel.ranks import SINGLE_RANK, Ranks, make_ranks
from lithowave.run.check import duration_text
from lithowave.run.progress import ProgressCallback, efficiency_line, rate_key, rate_text
from lithowave.run.status import Result, begin_text, line_text, rate_of, state_text
from lithowave.run.time_limit import exit_status

if TYPE_CHECKING:
    from lithowave.run.check import CheckReport


ERROR_DELAY = 1.0  # s; time for rank 0 to report an error that all ranks have


class PipeSafeConsole(Console):
    """A console that stops printing when its pipe is closed, so that the run continues."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print as the original, including its versions that do not catch the error."""
        try:
            super().print(*objects, **options)
        except BrokenPipeError:
            self.on_broken_pipe()

    def on_broken_pipe(self) -> None:
        """Redirect all further output to the null device."""
        self.quiet = True
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def console(*, errors: bool = False, all_ranks: bool = False) -> Console:
    """Return the console of standard output or standard error; quiet on all ranks except rank 0."""
    quiet = not (all_ranks or ranks_here().is_root)
    return PipeSafeConsole(stderr=errors, highlight=False, markup=False, emoji=False, soft_wrap=True, quiet=quiet)


def ranks_here() -> Ranks:
    """Return the ranks of this command; one rank if MPI cannot be used, which is reported separately."""
    try:
        return make_ranks()
    except LithowaveError:
        return SINGLE_RANK


@contextmanager
def announcing_compilation() -> Iterator[None]:
    """In this context, print a line to standard error before kernels are compiled, which takes up to a minute."""
    from lithowave.backends.kernel_cache import announced_compilation

    def announce() -> None:
        what = "compiling kernels for this processor, up to a minute; runs and later commands read them from the cache"
        console(errors=True).print(f"{what} (--no-measure compiles fewer)")

    with announced_compilation(announce):
        yield


def print_text(text: str, style: str = "") -> None:
    """Print a text unchanged."""
    console().print(Text(text, style))


def print_error(error: Exception) -> None:
    """Print an error to standard error. Each of several ranks prints its own error after a delay, in which rank 0,
    which often has the same error, aborts all ranks."""
    ranks = ranks_here()
    if ranks.size == 1:
        _print_marked("error: ", "bold red", str(error))
        return
    if not ranks.is_root:
        time.sleep(ERROR_DELAY)
    _print_marked(f"rank {ranks.rank} of {ranks.size}: error: ", "bold red", str(error), all_ranks=True)


@contextmanager
def printed_warnings() -> Iterator[None]:
    """Print each `LithowaveWarning` issued in this context to standard error as one line, without a source line."""
    with warnings.catch_warnings():
        show_others = warnings.showwarning

        def show(message: Any, category: type[Warning], *place: Any, **more: Any) -> None:
            if issubclass(category, LithowaveWarning):
                _print_marked("warning: ", "bold yellow", str(message))
            else:
                show_others(message, category, *place, **more)

        warnings.showwarning = show
        yield


def print_note(text: str) -> None:
    """Print a remark to standard error, below an error."""
    console(errors=True).print(Text("       " + text))


def _print_marked(mark: str, style: str, text: str, all_ranks: bool = False) -> None:
    indented = text.replace("\n", "\n" + " " * len(mark))
    console(errors=True, all_ranks=all_ranks).print(Text.assemble((mark, style), indented))


def print_check_report(report: CheckReport) -> None:
    """Print a dry run as a table."""
    rows = [(name, value, "") for name, value in report.lines()]
    rows += [("warning", text, "yellow") for text in report.warnings]
    rows += [("PROBLEM", text, "bold red") for text in report.problems]
    if report.title:
        print_text(report.title, "bold")
    print_rows(rows)
    print_text(report.verdict, "bold red" if report.problems else "green")


def print_rows(rows: list[tuple[str, str, str]]) -> None:
    """Print (name, value, style) in two columns; on a terminal long values are wrapped within their column."""
    out = console()
    width = max(len(name) for name, _, _ in rows)
    if not out.is_terminal:
        for name, value, _ in rows:
            print_text(f"{name:>{width}}  {value}".rstrip())
        return
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right", style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value, style in rows:
        table.add_row(Text(name, style), Text(value, style))
    out.print(table, soft_wrap=False)


def print_diagnostics(found: dict[str, Any]) -> None:
    """Print the results of `lithowave doctor`."""
    from lithowave.doctor import diagnostics_lines

    print_rows(
        [(name, value, "bold red" if name == "PROBLEM" else "") for name, value in diagnostics_lines(found)]
    )
    if not found["problems"]:
        print_text("no problems: all requirements of runs on the CPU are met", "green")


def print_benchmarks(records: list[dict[str, Any]]) -> None:
    """Print benchmark records as tables, one per method, and the bandwidths to which the rates are compared."""
    if records and records[0]["case"] == "default":
        return print_default_runs(records)
    for method in dict.fromkeys(record["method"] for record in records):
        own = [record for record in records if record["method"] == method]
        _print_columns([_benchmark_head(own[0]), *(_benchmark_row(record) for record in own)])
    measured = {(record["device"], record["precision"]): record["bandwidth"] for record in records}
    for names, bandwidth in measured.items():
        parts = (f"{name} {value / 1e9:.4g} GB/s" for name, value in bandwidth.items())
        print_text(f"memory bandwidth ({', '.join(names)}): {', '.join(parts)}")


def print_default_runs(records: list[dict[str, Any]]) -> None:
    """Print the records of the default case as a table, and the longest phases of each run."""
    head = ("method", "variant", "domain, km", "precision", "time step, ms", "of limit", "loop, s", "ideal loop, s",
            "efficiency", "command, s", "longest phases, s")  # fmt: skip
    rows = [
        (record["method"], record["variant"], "x".join(f"{side:g}" for side in record["size_km"]), record["precision"],
         f"{1e3 * record['time_step_s']:.3g}", f"{record['time_step_fraction']:.0%}", f"{record['loop_s']:.2f}",
         f"{record['ideal_loop_s']:.2f}", f"{record['loop_efficiency']:.0%}", f"{record['whole_s']:.2f}",
         ", ".join(f"{name} {seconds:.2f}" for name, seconds in record["longest_phases"].items()))
        for record in records
    ]  # fmt: skip
    _print_columns([head, *rows])
    device = ", ".join(dict.fromkeys(record["device"] for record in records))
    print_text(f"{records[0]['duration_s']:g} s on {device}; each run is the second one in this process")


def _print_columns(rows: list[tuple[str, ...]]) -> None:
    """Print rows in columns of equal width, the first row as their names."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for number, row in enumerate(rows):
        line = "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        print_text(line.rstrip(), "bold" if number == 0 else "")


def _benchmark_unit(record: dict[str, Any]) -> str:
    """Return the unit of a rate in the singular: point, element."""
    return record["unit"].partition("/")[0].removesuffix("s")


def _benchmark_head(record: dict[str, Any]) -> tuple[str, ...]:
    unit, accuracy = _benchmark_unit(record), "order" if "order" in record else "degree"
    names = ("case", "size", accuracy, "precision", "threads", f"million {unit}s/s", f"B/{unit}", "limit", "of limit")
    if "dof_rate" in record:
        return *names, "million DOF/s"
    return *names, "LTS gain" if unit == "element" else "of kernels"


def _benchmark_row(record: dict[str, Any]) -> tuple[str, ...]:
    beside, unknowns = record.get("fraction_of_bare_kernels"), record.get("dof_rate")
    digits = 1 if _benchmark_unit(record) == "point" else 3
    last = "" if beside is None else f"{beside:.0%}"
    if "time_gain" in record:
        last = f"{record['time_gain']:.2f} of {record['update_gain']:.2f}"
    return (
        record["case"],
        "x".join(map(str, record["size"])),
        str(record.get("order", record.get("degree"))),
        record["precision"],
        str(record.get("threads", "")),
        f"{record['rate'] / 1e6:.{digits}f}",
        f"{record[f'bytes_per_{_benchmark_unit(record)}']:.0f}",
        f"{record['limit'] / 1e6:.{digits}f}",
        f"{record['limit_fraction']:.0%}",
        last if unknowns is None else f"{unknowns / 1e6:.1f}",
    )


def json_text(value: Any) -> str:
    """Return the JSON text of plain values; infinite values and NaN become null."""
    return json.dumps(_finite(value), indent=2, default=str)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _finite(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(entry) for entry in value]
    if hasattr(value, "tolist"):
        return _finite(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


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
