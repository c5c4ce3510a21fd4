"""The commands. Each imports its modules when it is called, so that ``lithowave --help`` is fast.

Exit status: 0 for success, 1 for a failure during the command, 2 for invalid input, 75 for a run that SIGUSR1 stopped
before a time limit and that is to be resumed, 128 + n for a run that another signal n stopped (143 after SIGTERM).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer.core import TyperGroup

from lithowave.cli import options as arg
from lithowave.cli.commands import agree, compare, convert, init, join, plot, report, submit
from lithowave.cli.options import flag, option
from lithowave.errors import InputError, LithowaveError, ResourceError
from lithowave.parallel.launchers import launched
from lithowave.run.time_limit import RESUME_STATUS, defer
from lithowave.version import __version__

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from lithowave.description.simulation import Simulation
    from lithowave.json_types import Entries
    from lithowave.run.check import CheckReport
    from lithowave.shots.checking import SurveyReport

BUG_REPORT_HINT = (
    "This is an error in lithowave, not in your input. Please report it to the developers with the lines above, "
    "the simulation file, and the output of `lithowave doctor`."
)


class Commands(TyperGroup):
    """The group of commands, which prints errors for users without a traceback."""

    def invoke(self, ctx: typer.Context) -> object:
        """Run the command and convert exceptions to a message and an exit status."""
        from lithowave.cli.printing import printed_warnings

        try:
            with printed_warnings():
                return super().invoke(ctx)
        except MemoryError as error:
            failure: LithowaveError = ResourceError(f"there is not enough memory ({error}).")
        except LithowaveError as error:
            failure = error
        from lithowave.cli.printing import print_error

        print_error(failure)
        raise typer.Exit(2 if isinstance(failure, InputError) else 1)


app = typer.Typer(
    cls=Commands, help="Simulate seismic waves in three dimensions.",
    epilog="First steps: lithowave init, lithowave run simulation.yaml, lithowave plot out/first_steps",
    no_args_is_help=True, context_settings={"help_option_names": ["-h", "--help"]}, pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)  # fmt: skip


def main() -> None:
    """Run the command ``lithowave``. If one of several ranks fails, it aborts all ranks, which would wait for it."""
    for stream in (sys.stdout, sys.stderr):  # characters that the terminal lacks must not end a run
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    if sys.argv[1:2] in (["run"], ["restart"]):
        defer()
    try:
        app(prog_name="lithowave")
    except SystemExit as end:
        _end_all(end.code if isinstance(end.code, int) else 1 if end.code else 0)
        raise
    except Exception:
        import traceback

        traceback.print_exc()
        sys.stderr.write(BUG_REPORT_HINT + "\n")
        _end_all(1)
        sys.exit(1)


def _end_all(status: int) -> None:
    """If this rank has failed or was stopped, end the other ranks."""
    if status and launched():
        from lithowave.cli.printing import ranks_here

        ranks = ranks_here()
        if status > 128 or status == RESUME_STATUS:
            ranks.barrier()  # a signal stopped all ranks at the same step
            return
        ranks.abort(status)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"lithowave {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Simulate seismic waves in three dimensions."""


app.command()(init)


@app.command()
def check(
    file: arg.SimulationFile,
    backend: arg.Backend = None,
    precision: arg.Precision = None,
    threads: arg.Threads = None,
    as_json: arg.AsJson = False,
    changes: arg.Changes = None,
    output: arg.RunOutput = None,
    measure: Annotated[
        bool,
        flag(
            "--measure/--no-measure",
            "Measure this machine for a few seconds to predict the run time (default: measure).",
        ),
    ] = True,
    ranks: Annotated[
        int | None, option("N", "Report the partition and the load balance for N MPI ranks.", "--ranks")
    ] = None,
) -> None:
    """Report the requirements and the predicted time of a run; fail if the run would fail."""
    from lithowave.cli.reading import read_simulation

    simulation, overrides = read_simulation(
        file, changes, backend=backend, precision=precision, threads=threads, output=output
    )
    _print_check(file, simulation, overrides, measure=measure, ranks=ranks, as_json=as_json)


def _print_check(
    file: Path, simulation: Simulation, overrides: Entries, *, measure: bool = True, ranks: int | None = None,
    as_json: bool = False,
) -> None:  # fmt: skip
    """Print the requirements of a run or a survey; exit with status 1 if it would fail."""
    from lithowave.cli.printing import announcing_compilation, json_text, print_check_report, print_text
    from lithowave.cli.reading import located
    from lithowave.run.check import check_simulation
    from lithowave.shots import check_survey

    with located(file, overrides), announcing_compilation():
        if ranks is not None or simulation.survey is None:
            report: CheckReport | SurveyReport = check_simulation(simulation, measure=measure, ranks=ranks)
        else:
            report = check_survey(simulation, measure=measure)
    if as_json:
        print_text(json_text(report.as_dict()))
    else:
        print_check_report(report)
    if not report.runnable:
        raise typer.Exit(1)


@app.command()
def run(
    file: arg.SimulationFile,
    backend: arg.Backend = None,
    precision: arg.Precision = None,
    threads: arg.Threads = None,
    changes: arg.Changes = None,
    output: arg.RunOutput = None,
    overwrite: arg.OverwriteRun = False,
    shot: arg.Shot = None,
    scheduler: arg.Scheduler = None,
    dry_run: arg.DryRun = False,
    with_report: arg.WithReport = False,
    profile: arg.Profile = False,
) -> None:
    """Run a simulation, or all unfinished shots of a survey."""
    from lithowave.cli.early import begin_device
    from lithowave.process import no_collection

    if not (dry_run or shot or scheduler):
        begin_device(file, [*(changes or []), backend or ""])
    with no_collection():
        from lithowave.cli.commands import print_report, require_report
        from lithowave.cli.progress import print_phases
        from lithowave.cli.reading import located, read_simulation
        from lithowave.cli.survey import refuse_profile, refuse_scheduler, run_all_shots, run_one_shot, shot_number
        from lithowave.process import start_of_process

        if with_report:
            require_report()
        simulation, overrides = read_simulation(
            file, changes, backend=backend, precision=precision, threads=threads, output=output
        )
    before = start_of_process()
    if dry_run:
        with located(file, overrides):
            chosen = simulation if shot is None else simulation.shot(shot_number(shot))
        return _print_check(file, chosen, overrides)
    if shot is not None:
        refuse_scheduler(scheduler, "a single shot runs in this process")
        folder = run_one_shot(simulation, shot, overwrite, located(file, overrides))
    elif simulation.survey is not None:
        refuse_profile(profile)
        folder = run_all_shots(simulation, overwrite, located(file, overrides), scheduler)
    else:
        refuse_scheduler(scheduler, "the description has no survey")
        folder = _run_simulation(simulation, overwrite, located(file, overrides))
    if profile:
        print_phases(folder, before)
    if with_report:
        print_report(folder)


def _run_simulation(simulation: Simulation, overwrite: bool, place: AbstractContextManager[None]) -> Path:
    """Run a simulation without a survey, display its progress, and return its folder."""
    from lithowave.cli.progress import print_run_summary, progress_display, report_partial_results, with_interruption
    from lithowave.run.launch import run_simulation

    heading = f"{simulation.title or 'simulation'}: to {simulation.output.directory}"
    with report_partial_results(simulation.output.directory), place:
        with progress_display(heading, simulation.output.progress_interval) as show:
            result = with_interruption(run_simulation, simulation, overwrite=overwrite, show=show)
    print_run_summary(result)
    return result.directory


@app.command()
def restart(
    directory: arg.RunDirectory,
    backend: arg.Backend = None,
    threads: arg.Threads = None,
    scheduler: arg.Scheduler = None,
    with_report: arg.WithReport = False,
) -> None:
    """Resume a stopped run from its last checkpoint, on any device, or resume a survey."""
    from lithowave.cli.commands import print_report, require_report
    from lithowave.cli.progress import print_run_summary, progress_display, report_partial_results, with_interruption
    from lithowave.cli.survey import refuse_scheduler, restart_shots
    from lithowave.run.launch import restart_run
    from lithowave.shots.folder import is_survey

    if with_report:
        require_report()
    if is_survey(directory):
        restart_shots(directory, backend, threads, scheduler)
    else:
        refuse_scheduler(scheduler, f"{directory} is not a survey folder")
        with report_partial_results(directory), progress_display(str(directory)) as show:
            result = with_interruption(restart_run, directory, show=show, backend=backend, threads=threads)
        print_run_summary(result)
    if with_report:
        print_report(directory)


@app.command()
def status(directory: arg.Directory, as_json: arg.AsJson = False) -> None:
    """Report the state and progress of a run, or of each shot of a survey, from any machine."""
    from lithowave.cli.survey import print_status

    print_status(directory, as_json)


for command in (submit, plot, report, compare, agree):
    app.command()(command)


@app.command()
def bench(
    methods: arg.Methods = None,
    sizes: arg.Sizes = None,
    orders: arg.Orders = None,
    degrees: arg.Degrees = None,
    precisions: arg.Precisions = None,
    cases: arg.Cases = None,
    backend: arg.Backend = None,
    threads: arg.Threads = None,
    passes: arg.Passes = None,
    moduli: arg.Moduli = None,
    law: arg.Law = None,
    attenuation: arg.Attenuation = None,
    layer_cells: arg.LayerCells = None,
    receivers: arg.ReceiverCount = None,
    deterministic: arg.Deterministic = False,
    json_path: arg.RecordsJson = None,
) -> None:
    """Measure kernels, time steps and runs relative to the memory bandwidth of this machine or its CUDA device."""
    from lithowave.bench import run_benchmarks
    from lithowave.cli.printing import print_benchmarks, print_text
    from lithowave.cli.reading import benchmark_choices

    lists = {
        "methods": methods, "sizes": sizes, "orders": orders, "degrees": degrees, "precisions": precisions,
        "cases": cases,
    }  # fmt: skip
    single = {
        "backend": backend, "threads": threads, "passes": passes, "moduli": moduli, "law": law,
        "attenuation": attenuation, "layer_cells": layer_cells, "receivers": receivers,
        "deterministic": deterministic or None,
    }  # fmt: skip
    choices = benchmark_choices(lists, single)
    if json_path is not None and not json_path.absolute().parent.is_dir():
        raise InputError("--json", f"{json_path.parent} is not a directory", "expected a file in an existing directory")
    records = run_benchmarks(**choices, json_path=json_path, report=print_text)
    print_benchmarks(records)
    if json_path is not None:
        print_text(f"records: {json_path}")


for command in (join, convert):
    app.command()(command)


@app.command()
def doctor(as_json: arg.AsJson = False) -> None:
    """Report the devices, drivers, MPI library and package versions of this machine."""
    from lithowave.cli.printing import json_text, print_diagnostics, print_text
    from lithowave.doctor import run_diagnostics

    found = run_diagnostics()
    if as_json:
        print_text(json_text(found))
    else:
        print_diagnostics(found)
    if found["problems"]:
        raise typer.Exit(1)
