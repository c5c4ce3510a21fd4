"""The command that joins the snapshot parts of several ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def join(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The run folder.")],
    keep: Annotated[bool, typer.Option("--keep", help="Keep the parts after their file is complete.")] = False,
) -> None:
    """Join the parts of snapshots that the ranks of a run have written into one file each."""
    from lithowave.cli.printing import print_text
    from lithowave.cli.reading import require_run
    from lithowave.output.joining import join_run

    require_run(directory)
    if not join_run(directory, keep, print_text):
        print_text(f"{directory}: no snapshot parts to join")
