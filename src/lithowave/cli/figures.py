"""The commands that draw results: plot and report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

FORMATS = ("png", "pdf", "svg")
NORMALIZATIONS = ("trace", "receiver", "all")

Directory = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a run or of a survey.")]


def plot(
    directory: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="The folder of a run or of a survey.", show_default=False)
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the material model of a simulation file to FILE_model.png instead."),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="With --model: replace an entry of the file; may be repeated."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="Set the folder of the figures (default: DIR/figures)."),
    ] = None,
    file_format: Annotated[
        str,
        typer.Option("--format", metavar="NAME", help="Select png, pdf or svg; movies are GIF and MP4 (default: png)."),
    ] = "png",
    normalize: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Scale the traces of the record section by their own peak (trace), by the largest component of their "
            "receiver (receiver), or by one factor that preserves relative amplitudes (all) (default: trace).",
        ),
    ] = "trace",
    gain: Annotated[
        float, typer.Option(metavar="FACTOR", help="Multiply the amplitudes of the record section (default: 1).")
    ] = 1.0,
    clip: Annotated[
        float | None,
        typer.Option(
            metavar="LIMIT",
            help="Clip traces of the record section at this amplitude, where 1 is the largest amplitude without gain "
            "(default: no clipping).",
        ),
    ] = None,
) -> None:
    """Draw a map, a record section, traces and movies of a run, or of each finished shot of a survey."""
    from lithowave.cli.printing import print_text
    from lithowave.cli.reading import plot_model, require_choice, require_positive, require_run
    from lithowave.cli.survey import plot_shots
    from lithowave.output.figures import plot_run
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
    directory: Directory,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Set the file (default: DIR/report.html).")
    ] = None,
) -> None:
    """Write one HTML file about a run or a survey, which requires no network: tables, plots, movie, provenance."""
    from lithowave.cli.reading import require_run

    require_run(directory)
    print_report(directory, output)


def print_report(directory: Path, output: Path | None = None) -> None:
    """Write the report of a run or a survey and print its path; with several ranks, rank 0 does this."""
    from lithowave.cli.printing import print_text, ranks_here
    from lithowave.shots.report import write_report

    if ranks_here().is_root:
        print_text(f"report:  {write_report(directory, output)}")


def require_report() -> None:
    """Refuse to begin a run with a report that could not be written at its end."""
    from lithowave.output.report import require_plotly

    require_plotly()
