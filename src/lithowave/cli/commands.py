"""The commands convert, init, join, plot, report, submit, compare and agree.

``convert`` converts models and meshes, ``init`` writes a simulation file to begin with, ``join`` joins the snapshot
parts of several ranks, ``plot`` and ``report`` draw results, ``submit`` submits runs to Slurm, ``compare`` compares two
runs, or a run and observed seismograms, and ``agree`` several methods on one description.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lithowave.cli import options as arg
from lithowave.cli.options import flag, option
from lithowave.errors import InputError, Interruption

if TYPE_CHECKING:
    from lithowave.agreement import Agreement, AgreementForecast, AgreementPlan
    from lithowave.compare.data import DataComparison
    from lithowave.compare.runs import Comparison
    from lithowave.json_types import Entries
    from lithowave.run.progress import ProgressCallback


def convert(
    source: Annotated[Path, typer.Argument(metavar="IN", help="A gridded model or a mesh of tetrahedra.")],
    target: Annotated[
        Path, typer.Argument(metavar="OUT", help="The new file: .h5 or .nc for models, .msh for meshes.")
    ],
    overwrite: Annotated[bool, flag("--overwrite", "Replace an existing file.")] = False,
) -> None:
    """Convert a gridded model to HDF5 in SI with named axes, or a mesh of tetrahedra to Gmsh."""
    from lithowave.cli.printing import print_note, print_text
    from lithowave.output.conversion import convert_file

    for remark in convert_file(source, target, overwrite):
        print_note(remark)
    print_text(f"written: {target}")


COMPLETE = "complete"
TEMPLATES = (COMPLETE, "earthquake", "finite_fault", "survey", "globe")


def template(name: str) -> str:
    """Return the text of a template."""
    from lithowave.description.template import template_text

    if name == COMPLETE:
        return template_text()
    return files("lithowave.cli").joinpath("templates", f"{name}.yaml").read_text(encoding="utf-8")


def init(
    file: Annotated[Path, typer.Argument(metavar="[FILE]", help="The file (default: simulation.yaml).")] = Path(
        "simulation.yaml"
    ),
    name: Annotated[
        str,
        option(
            "NAME",
            "Select earthquake (stations in longitude and latitude), finite_fault (a rupture from an SRF file), "
            "survey (shots at sea), globe (a piece of the Earth), or complete (every key with a comment) (default: "
            "complete).",
            "--template",
        ),
    ] = COMPLETE,
    force: Annotated[bool, flag("--force", "Replace the file if it exists.")] = False,
) -> None:
    """Write a commented simulation file."""
    from shlex import quote

    from lithowave.cli.printing import print_text
    from lithowave.cli.reading import require_choice
    from lithowave.output.files import writing

    require_choice("--template", name, TEMPLATES)
    if file.exists() and not force:
        raise InputError(
            str(file), "already exists", "existing files are not overwritten", "use --force, or choose another name"
        )
    with writing(file):
        file.write_text(template(name), encoding="utf-8")
    print_text(f"written: {file}")
    print_text(f"next:    lithowave check {quote(str(file))}    report the requirements of a run")
    print_text(f"         lithowave run {quote(str(file))}")


def join(
    directory: arg.RunDirectory,
    keep: Annotated[bool, flag("--keep", "Keep the parts after their file is complete.")] = False,
) -> None:
    """Join the parts of snapshots that the ranks of a run have written into one file each."""
    from lithowave.cli.printing import print_text
    from lithowave.cli.reading import require_run
    from lithowave.output.snapshots import join_run

    require_run(directory)
    if not join_run(directory, keep, print_text):
        print_text(f"{directory}: no snapshot parts to join")


FORMATS = ("png", "pdf", "svg")
NORMALIZATIONS = ("trace", "receiver", "all")


def plot(
    directory: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="The folder of a run or of a survey.", show_default=False)
    ] = None,
    model: Annotated[
        Path | None, option("FILE", "Draw the material model of a simulation file to FILE_model.png instead.")
    ] = None,
    changes: Annotated[
        list[str] | None, option("KEY=VALUE", "With --model: replace an entry of the file; may be repeated.", "--set")
    ] = None,
    output: Annotated[
        Path | None, option("DIR", "Set the folder of the figures (default: DIR/figures).", "--output", "-o")
    ] = None,
    file_format: Annotated[
        str, option("NAME", "Select png, pdf or svg; movies are GIF and MP4 (default: png).", "--format")
    ] = "png",
    normalize: Annotated[
        str,
        option(
            "NAME",
            "Scale the traces of the record section by their own peak (trace), by the largest component of their "
            "receiver (receiver), or by one factor that preserves relative amplitudes (all) (default: trace).",
        ),
    ] = "trace",
    gain: Annotated[float, option("FACTOR", "Multiply the amplitudes of the record section (default: 1).")] = 1.0,
    clip: Annotated[
        float | None,
        option(
            "LIMIT",
            "Clip traces of the record section at this amplitude, where 1 is the largest amplitude without gain "
            "(default: no clipping).",
        ),
    ] = None,
) -> None:
    """Draw a map, a record section, traces and movies of a run, or of each finished shot of a survey."""
    from lithowave.cli.printing import print_text
    from lithowave.cli.reading import plot_model, require_choice, require_positive, require_run
    from lithowave.cli.survey import plot_shots
    from lithowave.figures import plot_run
    from lithowave.shots.folder import is_survey

    require_choice("--format", file_format, FORMATS)
    require_choice("--normalize", normalize, NORMALIZATIONS)
    require_positive("--gain", gain)
    require_positive("--clip", clip)
    if model is not None or directory is None:
        return print_text(str(plot_model(directory, model, changes)))
    require_run(directory)
    options = {"file_format": file_format, "normalise": normalize, "gain": gain, "clip": clip}
    if is_survey(directory):
        return plot_shots(directory, output, options)
    for path in plot_run(directory, output, **options):
        print_text(str(path))


def report(
    directory: arg.Directory,
    output: Annotated[Path | None, option("FILE", "Set the file (default: DIR/report.html).", "--output", "-o")] = None,
) -> None:
    """Write one HTML file about a run or a survey, which requires no network: tables, plots, movie, provenance."""
    from lithowave.cli.reading import require_run

    require_run(directory)
    print_report(directory, output)


def print_report(directory: Path, output: Path | None = None) -> None:
    """Write the report of a run or a survey and print its path; with several ranks, rank 0 does this."""
    from lithowave.cli.printing import print_text, ranks_here
    from lithowave.shots.checking import write_report

    if ranks_here().is_root:
        print_text(f"report:  {write_report(directory, output)}")


def require_report() -> None:
    """Refuse to begin a run with a report that could not be written at its end."""
    from lithowave.report import require_plotly

    require_plotly()


def submit(
    file: arg.SimulationFile,
    ranks: arg.CpuRanks = None,
    gpus: arg.Gpus = None,
    ranks_per_node: arg.RanksPerNode = None,
    threads: arg.CoresPerRank = None,
    time: arg.TimeLimit = None,
    partition: arg.Partition = None,
    account: arg.Account = None,
    launcher: arg.Launcher = "srun",
    mpi: arg.SrunMpi = None,
    before: arg.ScriptLines = None,
    precision: arg.Precision = None,
    changes: arg.Changes = None,
    output: arg.RunOutput = None,
    only_print: arg.OnlyPrint = False,
) -> None:
    """Submit a run to Slurm, or an array of jobs for a survey; a job near its time limit is requeued and resumed."""
    from lithowave.cli.printing import print_text
    from lithowave.cli.reading import located, read_simulation
    from lithowave.submit import JobRequest, make_script, submit_script

    simulation, overrides = read_simulation(file, changes, precision=precision, output=output)
    request = JobRequest(
        ranks=ranks, gpus=gpus, ranks_per_node=ranks_per_node, threads=threads, time=time, partition=partition,
        account=account, launcher=launcher, mpi=mpi, before=tuple(before or ()),
    )  # fmt: skip
    arguments = [part for change in changes or [] for part in ("--set", change)]
    arguments += ["--precision", precision] if precision else []
    with located(file, overrides):
        script = make_script(simulation, file, request, arguments)
    print_text(script.rstrip() if only_print else submit_script(script))


def compare(
    directory: arg.RunDirectory,
    reference: arg.Reference,
    figure: arg.FigurePath = None,
    report_path: arg.ReportPath = None,
    max_frequency: arg.MaxFrequency = None,
    min_frequency: arg.MinFrequency = None,
    start: arg.WindowStart = None,
    end: arg.WindowEnd = None,
    observed_quantity: arg.ObservedQuantity = None,
    origin_time: arg.OriginTime = None,
    max_shift: arg.MaxShift = None,
    channel: arg.Channels = None,
    rotate: arg.Rotate = False,
    as_json: arg.AsJson = False,
) -> None:
    """Compute the waveform misfits of a run relative to a reference run, or to observed seismograms."""
    from lithowave.cli.printing import json_text, print_text
    from lithowave.cli.reading import require_run
    from lithowave.compare.data import compare_data
    from lithowave.compare.runs import compare_runs
    from lithowave.output.observed import is_observed

    for path in (directory, reference):
        require_run(path)
    options = {
        "min_frequency": min_frequency, "start": start, "end": end, "quantity": observed_quantity,
        "origin_time": origin_time, "max_shift": max_shift, "channels": tuple(channel or ()), "rotate": rotate,
    }  # fmt: skip
    if report_path is not None:
        _require_report(report_path, is_observed(reference))
    if is_observed(reference):
        comparison: Comparison | DataComparison
        comparison = compare_data(directory, reference, max_frequency=max_frequency, **options)
    else:
        _refuse_data_options(reference, options)
        comparison = compare_runs(directory, reference, max_frequency=max_frequency)
    print_text(json_text(comparison.to_dict()) if as_json else str(comparison))
    written = []
    if figure is not None:
        written.append(("figure:  ", comparison.figure(figure)))
    if report_path is not None:
        written.append(("report:  ", comparison.report(report_path)))
    for label, path in () if as_json else written:
        print_text(f"{label}{path}")


def _require_report(path: Path, observed: bool) -> None:

    if observed:
        raise InputError("--report", "does not apply to observed data", "allowed: two runs", "use --figure")
    require_report()
    if path.is_dir():
        raise InputError("--report", f"{path} is a folder", "expected a file, for example comparison.html")


def _refuse_data_options(reference: Path, options: Entries) -> None:
    names = {"min_frequency": "--fmin", "quantity": "--observed-quantity", "channels": "--channel"}
    for key, value in options.items():
        if value not in (None, (), False):
            option = names.get(key, f"--{key.replace('_', '-')}")
            raise InputError(option, f"does not apply to {reference}, which is a run", "it applies to observed data")


DEFAULT_TOLERANCE = "5%"
DEFAULT_REFINEMENT = 1.4


def agree(
    file: arg.SimulationFile,
    methods: arg.MethodNames = None,
    tolerance: arg.Tolerance = DEFAULT_TOLERANCE,
    output: arg.AgreementOutput = None,
    full: arg.Full = False,
    dry_run: arg.OnlyForecast = False,
    prepare: arg.Prepare = False,
    overwrite: arg.OverwriteRuns = False,
    refinement: arg.Refinement = DEFAULT_REFINEMENT,
    solver: arg.SolverEntries = None,
    measure: arg.MeasureRuns = True,
    backend: arg.Backend = None,
    precision: arg.Precision = None,
    threads: arg.Threads = None,
    changes: arg.Changes = None,
    json_path: arg.ResultsJson = None,
) -> None:
    """Run a simulation by several methods, and report where they differ and why; exit status 1 if they differ."""
    from lithowave.agreement import forecast_agreement, plan_agreement
    from lithowave.agreement.running import check_tolerance, refuse_ranks
    from lithowave.cli.printing import announcing_compilation, json_text
    from lithowave.cli.reading import located, read_simulation

    refuse_ranks()
    largest = tolerance_value(tolerance)
    check_tolerance(largest)
    simulation, overrides = read_simulation(file, changes, backend=backend, precision=precision, threads=threads)
    names = [name.strip() for text in methods for name in text.split(",")] if methods else None
    with located(file, overrides), announcing_compilation():
        plan = plan_agreement(
            simulation, names, output=output, solver=solver_settings(solver or []), refinement=refinement
        )
        if prepare:
            return write_descriptions(plan)
        forecast = forecast_agreement(plan, measure=measure)
    print_forecast(forecast, full)
    if dry_run:
        if json_path is not None:
            write_json(json_path, json_text([one.as_dict() for one in forecast.runs.values()]))
        return
    result = run_shown(forecast, located(file, overrides), largest, full, overwrite)
    print_agreement(result)
    if json_path is not None:
        write_json(json_path, json_text(result.to_dict()))
    if not result.agreed:
        raise typer.Exit(1)


def run_shown(
    forecast: AgreementForecast, place: AbstractContextManager[None], tolerance: float, full: bool, overwrite: bool
) -> Agreement:
    """Compute all runs and display their progress; if a signal stops a run, exit with its status."""
    from signal import Signals

    from lithowave.agreement.running import run_agreement
    from lithowave.cli.printing import print_text

    try:
        with place, run_displays(forecast.plan) as show:
            return run_agreement(
                forecast, tolerance=tolerance, full=full, overwrite=overwrite, show=show, note=print_text
            )
    except Interruption as stop:
        folder = stop.result.directory
        print_text(f"stopped by {stop.signal_name} in {folder}; the same command or call resumes the agreement.")
        raise typer.Exit(128 + Signals[stop.signal_name].value) from None


def tolerance_value(text: str) -> float:
    """Return the fraction that ``2%`` or ``0.02`` represents."""
    try:
        return float(text.strip().removesuffix("%")) * (0.01 if text.strip().endswith("%") else 1.0)
    except ValueError:
        raise InputError("--tolerance", f"{text!r} is not a number", "expected a fraction or percentage: 2%") from None


def solver_settings(texts: Sequence[str]) -> dict[str, Entries]:
    """Return the entries of ``solver`` for each method from ``METHOD.KEY=VALUE``."""
    from lithowave.description.text import parse_overrides

    settings: dict[str, Entries] = {}
    for name, value in parse_overrides(texts).items():
        method, separator, key = name.partition(".")
        if not separator or not key:
            raise InputError(
                "--solver", f"{name!r} has no method and key", "expected METHOD.KEY=VALUE: spectral_element.degree=5"
            )
        settings.setdefault(method, {})[key] = value
    return settings


@contextmanager
def run_displays(plan: AgreementPlan) -> Iterator[ProgressCallback]:
    """Yield the function that runs call with their progress, which displays one run after the other."""
    from lithowave.cli.progress import progress_display

    labels = {run.name: f"{run.label}: to {run.directory}" for run in plan.runs.values()}
    displays: dict[str, ProgressCallback] = {}
    with ExitStack() as stack:

        def show(entries: Entries) -> None:
            name = entries["run"]
            if name not in displays:
                stack.pop_all().close()
                interval = plan.simulation.output.progress_interval
                displays[name] = stack.enter_context(progress_display(labels[name], interval))
            displays[name](entries)
            if entries["step"] == entries["steps"]:
                stack.pop_all().close()

        yield show


def print_forecast(forecast: AgreementForecast, full: bool) -> None:
    """Print the planned runs with their sizes and predicted times."""
    from lithowave.cli.printing import print_rows, print_table, print_text
    from lithowave.run.check import duration_text

    plan, required = forecast.plan, forecast.required(full)
    title = plan.simulation.title or "agreement"
    print_text(f"{title}: {len(plan.methods)} methods, resolved frequency {plan.frequency:g} Hz", "bold")
    rows = [["run", "points", "size", "steps", "time", "state"]]
    for key, one in forecast.runs.items():
        time = "-" if one.loop_s is None else duration_text(one.loop_s)
        state = one.state if key in required or one.state != "waiting" else "only if methods differ"
        points = "-" if one.run.points is None else f"{one.run.points:.3g}"
        size = f"{one.units:,} {one.report.unit}"
        rows.append([one.run.label, points, size, f"{one.report.plan['steps']:,}", time, state])
    print_table(rows)
    texts = [("excluded", f"{method}: {reason}", "yellow") for method, reason in plan.excluded.items()]
    texts += [("not tested", f"{key[0]}, {key[1]}: {reason}", "yellow") for key, reason in forecast.untested.items()]
    texts += [("note", text, "") for text in plan.notes]
    for label, keys in (("time", required), ("at most", list(forecast.runs))):
        time = forecast.remaining_time(keys)
        if time is not None:
            after = "" if label == "time" else ", if methods differ and all control runs are required"
            texts.append((label, duration_text(time) + after, ""))
    texts.append(("folder", str(plan.directory), ""))
    print_rows(texts)


def print_agreement(result: Agreement) -> None:
    """Print the table of misfits and the sentences about them, and draw the figure."""
    from shlex import quote

    from lithowave.cli.printing import print_table, print_text

    fields = f"{result.quantity}, {len(result.names)} receivers, t = {result.time[0]:g} to {result.time[-1]:g} s"
    print_text(f"{fields}, below {result.corner:g} Hz, tolerance {100 * result.tolerance:g}%", "bold")
    print_table(result.table())
    for sentence in result.summary:
        print_text(sentence, "green" if result.agreed else "yellow")
    print_text(f"results: {result.directory / 'agree.json'}")
    print_text(f"figure:  {result.figure()}")
    method, other = result.worst
    folders = " ".join(quote(str(result.run(name).directory)) for name in (method, other))
    print_text(f"next:    lithowave compare {folders} --fmax {result.corner:g}")


def write_descriptions(plan: AgreementPlan) -> None:
    """Write a simulation file for each planned run, and print the commands that run them."""
    from shlex import quote

    from lithowave.cli.printing import print_text
    from lithowave.output.files import writing

    for run in plan.runs.values():
        path = plan.directory / f"{run.name}.yaml"
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(run.simulation.to_yaml(), encoding="utf-8")
        print_text(f"lithowave run {quote(str(path))}")


def write_json(path: Path, text: str) -> None:
    """Write JSON text to a file."""
    from lithowave.output.files import writing

    with writing(path):
        path.write_text(text + "\n", encoding="utf-8")
