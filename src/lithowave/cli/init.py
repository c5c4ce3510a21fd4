"""The command that writes a simulation file to begin with."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from lithowave.errors import InputError

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
        typer.Option(
            "--template",
            metavar="NAME",
            help="Select earthquake (stations in longitude and latitude), finite_fault (a rupture from an SRF file), "
            "survey (shots at sea), globe (a piece of the Earth), or complete (every key with a comment) (default: "
            "complete).",
        ),
    ] = COMPLETE,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
) -> None:
    """Write a commented simulation file."""
    from shlex import quote

    from lithowave.cli.printing import print_text
    from lithowave.cli.reading import require_choice
    from lithowave.output.hdf5 import writing

    require_choice("--template", name, TEMPLATES)
    if file.exists() and not force:
        raise InputError(
            str(file),
            "already exists",
            "existing files are not overwritten",
            "use --force, or choose another name",
        )
    with writing(file):
        file.write_text(template(name), encoding="utf-8")
    print_text(f"written: {file}")
    print_text(f"next:    lithowave check {quote(str(file))}    report the requirements of a run")
    print_text(f"         lithowave run {quote(str(file))}")
