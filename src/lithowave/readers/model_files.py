"""Gridded models from files of any supported format, identified by their content."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from lithowave.readers.array_files import ArrayFile, named_by_coordinates, open_arrays
from lithowave.readers.foreign_formats import naming_foreign
from lithowave.readers.geographic_model import is_geographic, read_geographic_model
from lithowave.readers.gridded_model import GriddedModel, blocks_of, local_model
from lithowave.readers.sw4_rfile import is_rfile, read_rfile
from lithowave.readers.sw4_sfile import is_sfile, read_sfile
from lithowave.readers.text import is_text
from lithowave.readers.text_model import read_text_model

Models = tuple[GriddedModel, ...]
"""The blocks of a model from the top down; most formats have one."""


def read_model(path: str | Path) -> Models:
    """Read a gridded model of any format.

    Raises
    ------
    InputError : with the file and the variable, as the reader of each format.
    """
    path = Path(path)
    with suppress(OSError), path.open("rb") as file:  # `open_arrays` reports the error
        head = file.read(512)
        if is_rfile(head[:12]):
            return read_rfile(path)
        if is_text(head):
            with naming_foreign(path, "gridded model"):
                return models_of(read_text_model(path), path)
    with open_arrays(path) as entries:
        return models_of(entries, path)


def models_of(entries: ArrayFile, path: Path) -> Models:
    """Return the model in the named arrays of a file, or of an object; errors as `read_model`."""
    if is_sfile(entries):
        return read_sfile(entries, path)
    entries = named_by_coordinates(entries)
    if is_geographic(entries, path):
        return blocks_of(read_geographic_model(entries, path))
    return blocks_of(local_model(entries, path))
