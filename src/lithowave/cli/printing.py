"""Printing of the commands: styled on a terminal, plain elsewhere, in lines that are never wrapped there."""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from lithowave.errors import LithowaveError, LithowaveWarning
from lithowave.json_types import finite
from lithowave.labels import table_lines
from lithowave.parallel.ranks import SINGLE_RANK, Ranks, make_ranks

if TYPE_CHECKING:
    from lithowave.json_types import Entries
    from lithowave.run.check import CheckReport


ERROR_DELAY = 1.0  # s; time for rank 0 to report an error that all ranks have


class PipeSafeConsole(Console):
    """A console that stops printing when its pipe is closed, so that the run continues."""

    def print(self, *objects: object, **options: object) -> None:
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

        def show(message: object, category: type[Warning], *place: object, **more: object) -> None:
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


def print_diagnostics(found: Entries) -> None:
    """Print the results of `lithowave doctor`."""
    from lithowave.doctor import diagnostics_lines

    print_rows(
        [(name, value, "bold red" if name == "PROBLEM" else "") for name, value in diagnostics_lines(found)]
    )
    if not found["problems"]:
        print_text("no problems: all requirements of runs on the CPU are met", "green")


def print_benchmarks(records: list[Entries]) -> None:
    """Print benchmark records as tables, one per method, and the bandwidths to which the rates are compared."""
    if records and records[0]["case"] == "default":
        return print_default_runs(records)
    for method in dict.fromkeys(record["method"] for record in records):
        own = [record for record in records if record["method"] == method]
        print_table([_benchmark_head(own[0]), *(_benchmark_row(record) for record in own)], ">")
    measured = {(record["device"], record["precision"]): record["bandwidth"] for record in records}
    for names, bandwidth in measured.items():
        parts = (f"{name} {value / 1e9:.4g} GB/s" for name, value in bandwidth.items())
        print_text(f"memory bandwidth ({', '.join(names)}): {', '.join(parts)}")


def print_default_runs(records: list[Entries]) -> None:
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
    print_table([head, *rows], ">")
    device = ", ".join(dict.fromkeys(record["device"] for record in records))
    print_text(f"{records[0]['duration_s']:g} s on {device}; each run is the second one in this process")


def print_table(rows: Sequence[Sequence[str]], align: str = "<") -> None:
    """Print rows in columns, aligned to the left (<) or the right (>); the first row is the header."""
    for number, line in enumerate(table_lines(rows, align)):
        print_text(line, "bold" if number == 0 else "")


def _benchmark_unit(record: Entries) -> str:
    """Return the unit of a rate in the singular: point, element."""
    return record["unit"].partition("/")[0].removesuffix("s")


def _benchmark_head(record: Entries) -> tuple[str, ...]:
    unit, accuracy = _benchmark_unit(record), "order" if "order" in record else "degree"
    names = ("case", "size", accuracy, "precision", "threads", f"million {unit}s/s", f"B/{unit}", "limit", "of limit")
    if "dof_rate" in record:
        return *names, "million DOF/s"
    return *names, "LTS gain" if unit == "element" else "of kernels"


def _benchmark_row(record: Entries) -> tuple[str, ...]:
    beside, unknowns = record.get("fraction_of_bare_kernels"), record.get("dof_rate")
    digits = 1 if _benchmark_unit(record) == "point" else 3
    last = "" if beside is None else f"{beside:.0%}"
    if "time_gain" in record:
        last = f"{record['time_gain']:.2f} of {record['update_gain']:.2f}"
    return (
        record["case"], "x".join(map(str, record["size"])), str(record.get("order", record.get("degree"))),
        record["precision"], str(record.get("threads", "")), f"{record['rate'] / 1e6:.{digits}f}",
        f"{record[f'bytes_per_{_benchmark_unit(record)}']:.0f}", f"{record['limit'] / 1e6:.{digits}f}",
        f"{record['limit_fraction']:.0%}", last if unknowns is None else f"{unknowns / 1e6:.1f}",
    )  # fmt: skip


def json_text(value: object) -> str:
    """Return the JSON text of plain values; infinite values and NaN become null."""
    return json.dumps(finite(value), indent=2, default=str)
