"""Gridded models from files of any supported format, identified by their content."""

from __future__ import annotations

from pathlib import Path

from lithowave.readers.array_files import open_arrays
from lithowave.readers.geographic_model import is_geographic, read_geographic_model
from lithowave.readers.gridded_model import GriddedModel, read_gridded_model

Models = tuple[GriddedModel, ...]
"""The blocks of a model from the top down; most formats have one."""


def read_model(path: str | Path) -> Models:
    """Read a gridded model of any format.

    Raises
    ------
    InputError : with the file and the variable, as the reader of each format.
    """
    path = Path(path)
    with open_arrays(path) as entries:
        if is_geographic(entries, path):
            return (read_geographic_model(entries, path),)
    return (read_gridded_model(path),)
