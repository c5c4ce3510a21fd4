"""The command that makes one file of what several ranks wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def join(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a run.")],
    keep: Annotated[bool, typer.Option("--keep", help="Keep the parts when their file is complete.")] = False,
) -> None:
    """Make one file of each snapshot of which the ranks of a run wrote a part each."""
    from lithowave.cli.printing import tell
    from lithowave.cli.reading import require_run
    from lithowave.output.joining import join_run

    require_run(directory)
    if not join_run(directory, keep, tell):
        tell(f"{directory}: nothing to join")
