"""Gridded models from files of any supported format, identified by their content, and from objects in memory.

The objects are xarray Datasets and dictionaries of NumPy arrays. A Dataset names its dimensions. In a dictionary the
entry ``axes`` may do so, as in a ``.npz`` file. xarray is not imported: any object with ``data_vars`` and
``variables``, which have ``dims``, ``attrs`` and ``values``, is accepted.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

import numpy as np

from lithowave.readers.array_files import ArrayEntry, ArrayFile, name_dimensions, named_by_coordinates, open_arrays
from lithowave.readers.foreign_formats import naming_foreign
from lithowave.readers.geographic_model import is_geographic, read_geographic_model
from lithowave.readers.gridded_model import GriddedModel, blocks_of, local_model, read_text_model
from lithowave.readers.sw4 import is_rfile, is_sfile, read_rfile, read_sfile
from lithowave.readers.text import is_text, located

if TYPE_CHECKING:
    import numpy.typing as npt
    import xarray

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
            with located(path):
                return read_rfile(path)
        if is_text(head):
            with naming_foreign(path, "gridded model"), located(path):
                return models_of(read_text_model(path), path)
    with open_arrays(path) as entries:
        return models_of(entries, path)


def models_of(entries: ArrayFile, path: Path) -> Models:
    """Return the model in the named arrays of a file, or of an object; errors as `read_model`."""
    if is_sfile(entries):
        return read_sfile(entries, path)
    entries = named_by_coordinates(entries)
    if is_geographic(entries):
        return blocks_of(read_geographic_model(entries, path))
    return blocks_of(local_model(entries, path))


LABEL = Path("material.dataset")
"""Name of such a model in messages."""


class ArrayModel:
    """A gridded model that was made in Python; it is equal to itself only.

    Attributes
    ----------
    models : its blocks, with copies of the arrays.
    """

    def __init__(self, value: xarray.Dataset | Mapping[str, npt.ArrayLike]) -> None:
        """Read a Dataset or a dictionary of arrays.

        Raises
        ------
        InputError : as `lithowave.readers.model_files.read_model`, with `LABEL` as file name.
        """
        with located(LABEL):
            self.models: Models = models_of(_entries(value), LABEL)


def is_dataset(value: object) -> TypeGuard[xarray.Dataset]:
    """True for an xarray Dataset."""
    return all(hasattr(value, name) for name in ("data_vars", "variables", "attrs"))


def is_array_mapping(value: object) -> bool:
    """True for a dictionary with arrays of a gridded model."""
    if not isinstance(value, Mapping) or is_dataset(value):
        return False
    return any(isinstance(value.get(name), (np.ndarray, list, tuple)) for name in ("vp", "vs", "rho"))


def _entries(value: xarray.Dataset | Mapping[str, npt.ArrayLike]) -> ArrayFile:
    if is_dataset(value):
        found = {
            str(name): ArrayEntry(
                tuple(variable.shape),
                tuple(str(dimension) for dimension in variable.dims),
                lambda variable=variable: np.asarray(variable.values),
                {str(key): entry for key, entry in variable.attrs.items()},
            )
            for name, variable in value.variables.items()
        }
        return ArrayFile(found, {str(key): entry for key, entry in value.attrs.items()})
    arrays = {str(name): np.asarray(array) for name, array in value.items()}
    entries = {name: ArrayEntry(array.shape, None, lambda array=array: array) for name, array in arrays.items()}
    return ArrayFile(name_dimensions(entries))
