"""The commands. What each needs is imported inside it, so that ``lithowave --help`` answers at once.

Exit status: 0 when everything asked for was done, 1 for a failure on the way, 2 for input that was refused,
128 + n for a run that signal n stopped (143 after SIGTERM).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from lithowave.cli.join import join
from lithowave.cli.submit import submit
from lithowave.errors import InputError, LithowaveError, ResourceError
from lithowave.version import __version__

REPORT_IT = (
    "This is an error in lithowave itself, not in what you typed. Please report it to the developers with "
    "the lines above, the simulation file, and what `lithowave doctor` prints."
)


class Commands(TyperGroup):
    """The commands; errors meant for users are told without a traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command and turn what it raises into a message and an exit status."""
        from lithowave.cli.printing import printed_warnings

        try:
            with printed_warnings():
                return super().invoke(ctx)
        except MemoryError as error:
            failure: LithowaveError = ResourceError(f"there is not enough memory ({error}).")
        except LithowaveError as error:
            failure = error
        from lithowave.cli.printing import tell_error

        tell_error(failure)
        raise typer.Exit(2 if isinstance(failure, InputError) else 1)


app = typer.Typer(
    cls=Commands,
    help="Three-dimensional simulation of seismic waves.",
    epilog="Begin with: lithowave init, lithowave run simulation.yaml, lithowave plot out/first_steps",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)

SimulationFile = Annotated[Path, typer.Argument(metavar="FILE", help="The simulation file (YAML).")]
RunDirectory = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a run.")]
Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Replace an entry of the file: solver.order=8; may be repeated."
    ),
]
Backend = Annotated[str | None, typer.Option(metavar="NAME", help="auto, cpu or cuda.")]
Precision = Annotated[str | None, typer.Option(metavar="NAME", help="single or double.")]
Threads = Annotated[
    int | None, typer.Option(metavar="N", help="Threads of the CPU backend; default: all cores.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def main() -> None:
    """Entry point of the command ``lithowave``. Of several ranks one that fails ends all: they would wait for it."""
    for stream in (sys.stdout, sys.stderr):  # a terminal without a character of a title must not end a run
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        app(prog_name="lithowave")
    except SystemExit as end:
        _end_all(end.code if isinstance(end.code, int) else 1 if end.code else 0)
        raise
    except Exception:
        import traceback

        traceback.print_exc()
        sys.stderr.write(REPORT_IT + "\n")
        _end_all(1)
        sys.exit(1)


def _end_all(status: int) -> None:
    """Where several ranks run and this one has failed or was stopped: end the others, too."""
    from lithowave.parallel.ranks import launched

    if status and launched():
        from lithowave.cli.printing import ranks_here

        ranks = ranks_here()
        if status > 128:
            ranks.barrier()  # a signal stopped all of them at the same step
            return
        ranks.abort(status)


def _tell_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"lithowave {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_tell_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Three-dimensional simulation of seismic waves."""


@app.command()
def init(
    file: Annotated[Path, typer.Argument(metavar="[FILE]", help="The file to write.")] = Path(
        "simulation.yaml"
    ),
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
) -> None:
    """Write a commented simulation file to begin with; it runs as it stands."""
    from shlex import quote

    from lithowave.cli.printing import tell
    from lithowave.description.template import template_text
    from lithowave.output.hdf5 import writing

    if file.exists() and not force:
        raise InputError(
            str(file),
            "exists already",
            "It is not overwritten unless told so",
            "say --force, or another name",
        )
    with writing(file):
        file.write_text(template_text(), encoding="utf-8")
    tell(f"wrote {file}")
    tell(f"next:  lithowave check {quote(str(file))}    what a run would need")
    tell(f"       lithowave run {quote(str(file))}")


@app.command()
def check(
    file: SimulationFile,
    backend: Backend = None,
    precision: Precision = None,
    threads: Threads = None,
    as_json: AsJson = False,
    changes: Changes = None,
    measure: Annotated[
        bool,
        typer.Option(
            "--measure/--no-measure", help="Time this machine for a few seconds, to predict the run's time."
        ),
    ] = True,
    ranks: Annotated[
        int | None,
        typer.Option("--ranks", metavar="N", help="Tell how N ranks of mpiexec would share the run, and how well."),
    ] = None,
) -> None:
    """Tell what a run would need and cost, without running; fails where the run would fail."""
    from lithowave.cli.printing import json_text, tell, tell_check
    from lithowave.cli.reading import located, read_simulation
    from lithowave.run.check import check_simulation
    from lithowave.shots import check_survey

    options = {"compute.backend": backend, "compute.precision": precision, "compute.threads": threads}
    simulation, overrides = read_simulation(file, changes, options)
    with located(file, overrides):
        if ranks is not None or simulation.survey is None:
            report: Any = check_simulation(simulation, measure=measure, ranks=ranks)
        else:
            report = check_survey(simulation, measure=measure)
    if as_json:
        tell(json_text(report.as_dict()))
    else:
        tell_check(report)
    if not report.runnable:
        raise typer.Exit(1)


@app.command()
def run(
    file: SimulationFile,
    backend: Backend = None,
    precision: Precision = None,
    threads: Threads = None,
    changes: Changes = None,
    output: Annotated[str | None, typer.Option(metavar="DIR", help="The run folder.")] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace another run in that folder.")
    ] = False,
    shot: Annotated[
        str | None,
        typer.Option(
            "--shot",
            metavar="N",
            help="Of a survey this shot only, from 1; array: the one that SLURM_ARRAY_TASK_ID names.",
        ),
    ] = None,
) -> None:
    """Run a simulation, or all shots of a survey that are not finished."""
    from lithowave.cli.progress import progress_display
    from lithowave.cli.reading import located, read_simulation
    from lithowave.cli.run_summary import print_run_summary, report_partial_results
    from lithowave.cli.survey import run_all_shots, run_one_shot
    from lithowave.run.launch import run_simulation

    options = {
        "compute.backend": backend,
        "compute.precision": precision,
        "compute.threads": threads,
        "output.directory": output,
    }
    simulation, overrides = read_simulation(file, changes, options)
    if shot is not None:
        return run_one_shot(simulation, shot, overwrite, located(file, overrides))
    if simulation.survey is not None:
        return run_all_shots(simulation, overwrite, located(file, overrides))
    heading = f"{simulation.title or 'simulation'}: to {simulation.output.directory}"
    with report_partial_results(simulation.output.directory), located(file, overrides):
        with progress_display(heading, simulation.output.progress_interval) as show:
            result = run_simulation(simulation, overwrite=overwrite, show=show)
    print_run_summary(result)


@app.command()
def restart(directory: RunDirectory, backend: Backend = None, threads: Threads = None) -> None:
    """Go on with a run that was stopped, from its last checkpoint, on another device, too; or with a survey."""
    from lithowave.cli.progress import progress_display
    from lithowave.cli.run_summary import print_run_summary, report_partial_results
    from lithowave.cli.survey import restart_shots
    from lithowave.run.launch import restart_run
    from lithowave.shots.folder import is_survey

    if is_survey(directory):
        return restart_shots(directory, backend, threads)
    with report_partial_results(directory), progress_display(str(directory)) as show:
        result = restart_run(directory, show=show, backend=backend, threads=threads)
    print_run_summary(result)


@app.command()
def status(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a run or a survey.")],
    as_json: AsJson = False,
) -> None:
    """Tell how far a run, or each shot of a survey, is: also while it goes on, and from another machine."""
    from lithowave.cli.survey import tell_status

    tell_status(directory, as_json)


app.command()(submit)


@app.command()
def plot(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a run or a survey.")],
) -> None:
    """Draw map, record section, traces and wavefield movies of a run, or of each finished shot of a survey."""
    from lithowave.cli.printing import tell
    from lithowave.cli.reading import require_run
    from lithowave.cli.survey import plot_shots
    from lithowave.output.figures import plot_run
    from lithowave.shots.folder import is_survey

    require_run(directory)
    if is_survey(directory):
        return plot_shots(directory)
    for path in plot_run(directory):
        tell(str(path))


@app.command()
def compare(
    directory: RunDirectory,
    reference: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of the run to compare with.")],
    figure: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Draw both runs into this file.")
    ] = None,
    max_frequency: Annotated[
        float | None,
        typer.Option(
            "--fmax",
            metavar="HZ",
            help="Low-pass both runs at this frequency, without a change of phase, before anything is compared.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Waveform misfits of one run against another, the reference; with ObsPy also of envelope and phase."""
    from lithowave.cli.printing import json_text, tell
    from lithowave.cli.reading import require_run
    from lithowave.output.compare import compare_runs

    for path in (directory, reference):
        require_run(path)
    comparison = compare_runs(directory, reference, max_frequency=max_frequency)
    tell(json_text(comparison.to_dict()) if as_json else str(comparison))
    if figure is not None:
        path = comparison.figure(figure)
        if not as_json:
            tell(f"figure: {path}")


@app.command()
def bench(
    methods: Annotated[
        list[str] | None,
        typer.Option(
            "--method",
            metavar="NAME",
            help="finite_difference, spectral_element or discontinuous_galerkin; several with commas or repeated. "
            "Default: all to which what else is given applies.",
        ),
    ] = None,
    sizes: Annotated[
        list[str] | None,
        typer.Option(
            "--size",
            metavar="N or NXxNYxNZ",
            help="Grid points, layers included: 200, 300x200x100; several with commas or repeated. Default: 200 on "
            "a CPU, 512 on a CUDA device. With --method spectral_element elements: 20 on a CPU, 77x77x76 on a CUDA "
            "device. With --method discontinuous_galerkin cubes of twelve tetrahedra: 16 on a CPU, 43x43x42 on a CUDA "
            "device; 14 and 42 with local time steps.",
        ),
    ] = None,
    orders: Annotated[
        list[str] | None,
        typer.Option(
            "--order",
            metavar="N",
            help="2, 4, 6 or 8 of finite differences, 2 to 7 of discontinuous Galerkin; several with commas or "
            "repeated. A method without such an order is left out, or refused if it was named.",
        ),
    ] = None,
    degrees: Annotated[
        list[str] | None,
        typer.Option("--degree", metavar="N", help="2 to 8, of spectral elements; several with commas or repeated."),
    ] = None,
    precisions: Annotated[
        list[str] | None,
        typer.Option("--precision", metavar="NAME", help="single or double; several with commas or repeated."),
    ] = None,
    cases: Annotated[
        list[str] | None,
        typer.Option(
            "--case",
            metavar="NAME",
            help="interior, full or run of finite differences; affine, deformed or trilinear spectral elements; "
            "global, local or anisotropic of discontinuous Galerkin; several with commas or repeated.",
        ),
    ] = None,
    backend: Backend = None,
    threads: Threads = None,
    passes: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="auto, one or two passes over the grid in a step (solver.passes)."),
    ] = None,
    moduli: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="full or compact: the material in 16 bits a number (compute.moduli)."),
    ] = None,
    layer_cells: Annotated[
        int | None,
        typer.Option(metavar="N", help="Thickness of the layers of full and run; default: 10, on CUDA 16."),
    ] = None,
    receivers: Annotated[
        int | None, typer.Option(metavar="N", help="Receivers of full and run; default: 18, on CUDA 1000.")
    ] = None,
    deterministic: Annotated[
        bool, typer.Option("--deterministic", help="Spectral elements without atomic adding (compute.deterministic).")
    ] = False,
    json_path: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the records as JSON.")
    ] = None,
) -> None:
    """Measure kernels, whole steps and runs against the memory bandwidth of this machine or its CUDA device."""
    from lithowave.bench import run_benchmarks
    from lithowave.cli.printing import tell, tell_benchmarks
    from lithowave.cli.reading import benchmark_choices

    lists = {
        "methods": methods, "sizes": sizes, "orders": orders, "degrees": degrees, "precisions": precisions,
        "cases": cases,
    }  # fmt: skip
    single = {
        "backend": backend, "threads": threads, "passes": passes, "moduli": moduli, "layer_cells": layer_cells,
        "receivers": receivers, "deterministic": deterministic or None,
    }  # fmt: skip
    choices = benchmark_choices(lists, single)
    if json_path is not None and not json_path.absolute().parent.is_dir():
        raise InputError("--json", f"{json_path.parent} is no folder", "the file is made in an existing one")
    records = run_benchmarks(**choices, json_path=json_path, tell=tell)
    tell_benchmarks(records)
    if json_path is not None:
        tell(f"records: {json_path}")


app.command()(join)


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """Tell what this machine offers: devices, drivers, MPI, versions."""
    from lithowave.cli.printing import json_text, tell, tell_examination
    from lithowave.doctor import examine

    found = examine()
    if as_json:
        tell(json_text(found))
    else:
        tell_examination(found)
    if found["problems"]:
        raise typer.Exit(1)
