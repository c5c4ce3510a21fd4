"""The command ``compare``: two runs, or a run and observed seismograms."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lithowave.errors import InputError


def compare(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The run folder.")],
    reference: Annotated[
        Path,
        typer.Argument(
            metavar="DIR_OR_DATA",
            help="The folder of the reference run, or observed seismograms: a file or folder of MiniSEED, SAC, SEG-Y, "
            "ASDF or text of SPECFEM (.semd, .semv, .sema).",
        ),
    ],
    figure: Annotated[Path | None, typer.Option(metavar="PATH", help="Draw the comparison to this file.")] = None,
    report_path: Annotated[
        Path | None,
        typer.Option("--report", metavar="FILE", help="Write an HTML file with misfits and all traces of two runs."),
    ] = None,
    max_frequency: Annotated[
        float | None,
        typer.Option(
            "--fmax",
            metavar="HZ",
            help="Apply a zero-phase low-pass filter at this frequency before the comparison (default with data: the "
            "maximum frequency of the run).",
        ),
    ] = None,
    min_frequency: Annotated[
        float | None,
        typer.Option("--fmin", metavar="HZ", help="With data: the lower corner of the filter (default: no high-pass)."),
    ] = None,
    start: Annotated[
        float | None, typer.Option(metavar="S", help="With data: start of the window on the time axis of the run.")
    ] = None,
    end: Annotated[float | None, typer.Option(metavar="S", help="With data: end of the window.")] = None,
    observed_quantity: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Quantity of the data in m, m/s or m/s^2: displacement, velocity or acceleration (default: that of "
            "the run).",
        ),
    ] = None,
    origin_time: Annotated[
        str | None,
        typer.Option(metavar="UTC", help="With data: origin time of the event (default: that of the run)."),
    ] = None,
    max_shift: Annotated[
        float | None,
        typer.Option(metavar="S", help="With data: the largest time shift (default: a quarter of the window)."),
    ] = None,
    channel: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="With data: use channels such as HH? or 00.BH?; may be repeated."),
    ] = None,
    rotate: Annotated[
        bool, typer.Option("--rotate", help="With data: compare radial and transverse components.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Compute the waveform misfits of a run relative to a reference run, or to observed seismograms."""
    from lithowave.cli.printing import json_text, print_text
    from lithowave.cli.reading import require_run
    from lithowave.output.compare import compare_runs
    from lithowave.output.data_comparison import compare_data
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
        comparison: Any = compare_data(directory, reference, max_frequency=max_frequency, **options)
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
    from lithowave.cli.figures import require_report

    if observed:
        raise InputError("--report", "does not apply to observed data", "allowed: two runs", "use --figure")
    require_report()
    if path.is_dir():
        raise InputError("--report", f"{path} is a folder", "expected a file, for example comparison.html")


def _refuse_data_options(reference: Path, options: dict[str, Any]) -> None:
    names = {"min_frequency": "--fmin", "quantity": "--observed-quantity", "channels": "--channel"}
    for key, value in options.items():
        if value not in (None, (), False):
            option = names.get(key, f"--{key.replace('_', '-')}")
            raise InputError(option, f"does not apply to {reference}, which is a run", "it applies to observed data")
