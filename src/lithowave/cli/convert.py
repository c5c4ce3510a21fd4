"""The command that converts models and meshes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def convert(
    source: Annotated[Path, typer.Argument(metavar="IN", help="A gridded model or a mesh of tetrahedra.")],
    target: Annotated[
        Path, typer.Argument(metavar="OUT", help="The new file: .h5 or .nc for models, .msh for meshes.")
    ],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
) -> None:
    """Convert a gridded model to HDF5 in SI with named axes, or a mesh of tetrahedra to Gmsh."""
    from lithowave.cli.printing import print_note, print_text
    from lithowave.output.conversion import convert_file

    for remark in convert_file(source, target, overwrite):
        print_note(remark)
    print_text(f"written: {target}")
