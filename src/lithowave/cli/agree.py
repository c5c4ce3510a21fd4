"""The command that compares several methods on one description."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lithowave.errors import InputError, Interruption

if TYPE_CHECKING:
    from lithowave.agreement import Agreement, AgreementForecast, AgreementPlan
    from lithowave.run.progress import ProgressCallback

DEFAULT_TOLERANCE = "5%"
DEFAULT_REFINEMENT = 1.4


def agree(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The simulation file (YAML).")],
    methods: Annotated[
        list[str] | None,
        typer.Option(
            "--methods", metavar="NAMES",
            help="Select at least two methods: finite_difference, spectral_element, discontinuous_galerkin; separated "
            "by commas or repeated (default: all methods that support the file).",
        ),
    ] = None,
    tolerance: Annotated[
        str,
        typer.Option(
            metavar="VALUE",
            help="Set the largest relative L2 misfit of a receiver that counts as agreement, for example 2% or 0.02 "
            "(default: 5%).",
        ),
    ] = DEFAULT_TOLERANCE,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", metavar="DIR",
            help="Set the folder of all runs (default: output.directory with suffix _agree).",
        ),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Run all methods finer and wider, also if they agree.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the planned runs and their predicted times, and exit.")
    ] = False,
    prepare: Annotated[
        bool, typer.Option("--prepare", help="Write a simulation file for each planned run to the folder, and exit.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace runs of other descriptions in the folder.")
    ] = False,
    refinement: Annotated[
        float,
        typer.Option(
            metavar="RATIO", help="Set the ratio of the points per wavelength of finer runs, 1.1 to 4 (default: 1.4)."
        ),
    ] = DEFAULT_REFINEMENT,
    solver: Annotated[
        list[str] | None,
        typer.Option(
            "--solver", metavar="METHOD.KEY=VALUE",
            help="Set an entry of solver for one method, for example spectral_element.points_per_wavelength=9; may be "
            "repeated.",
        ),
    ] = None,
    measure: Annotated[
        bool,
        typer.Option(
            "--measure/--no-measure",
            help="Measure this machine for a few seconds to predict the run times (default: measure).",
        ),
    ] = True,
    backend: Annotated[
        str | None, typer.Option(metavar="NAME", help="Select the device: auto, cpu or cuda.")
    ] = None,
    precision: Annotated[
        str | None, typer.Option(metavar="NAME", help="Select the precision: single or double.")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(metavar="N", help="Set the threads of the CPU backend (default: all cores).")
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE",
            help="Replace an entry of the file, for example solver.order=8; may be repeated.",
        ),
    ] = None,
    json_path: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Also write the results to this JSON file.")
    ] = None,
) -> None:
    """Run a simulation by several methods, and report where they differ and why; exit status 1 if they differ."""
    from lithowave.agreement import forecast_agreement, plan_agreement
    from lithowave.agreement.running import check_tolerance, refuse_ranks
    from lithowave.cli.printing import announcing_compilation, json_text
    from lithowave.cli.reading import located, read_simulation

    refuse_ranks()
    largest = tolerance_value(tolerance)
    check_tolerance(largest)
    options = {"compute.backend": backend, "compute.precision": precision, "compute.threads": threads}
    simulation, overrides = read_simulation(file, changes, options)
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


def solver_settings(texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the entries of ``solver`` for each method from ``METHOD.KEY=VALUE``."""
    from lithowave.description.yaml_text import parse_overrides

    settings: dict[str, dict[str, Any]] = {}
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

        def show(entries: dict[str, Any]) -> None:
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
    from lithowave.cli.printing import print_rows, print_text
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

    from lithowave.cli.printing import print_text

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


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Print rows in columns; the first row is the header."""
    from lithowave.cli.printing import print_text

    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for number, row in enumerate(rows):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print_text(line.rstrip(), "bold" if number == 0 else "")


def write_descriptions(plan: AgreementPlan) -> None:
    """Write a simulation file for each planned run, and print the commands that run them."""
    from shlex import quote

    from lithowave.cli.printing import print_text
    from lithowave.output.hdf5 import writing

    for run in plan.runs.values():
        path = plan.directory / f"{run.name}.yaml"
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(run.simulation.to_yaml(), encoding="utf-8")
        print_text(f"lithowave run {quote(str(path))}")


def write_json(path: Path, text: str) -> None:
    """Write JSON text to a file."""
    from lithowave.output.hdf5 import writing

    with writing(path):
        path.write_text(text + "\n", encoding="utf-8")
