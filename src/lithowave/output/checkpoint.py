"""Checkpoints: all that determines the future of a run, in one HDF5 file that is replaced atomically."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from lithowave.errors import OutputError
from lithowave.output.hdf5 import Piece, laying_out, open_file, preallocate, replaced, require_space

FILE_NAME = "checkpoint/checkpoint.h5"
FORMAT_VERSION = 1

State = dict[str, dict[str, np.ndarray]]


def write_checkpoint(folder: Path, state: State, fingerprint: str) -> None:
    """Write the state; the checkpoint that stood there before goes only when this one is complete.

    Parameters
    ----------
    folder : the run folder.
    state : arrays by part (``clock``, ``solver``, ``seismograms``, ...) and name; a name may have slashes.
    fingerprint : hash of the description, so that no other run goes on from here.

    Raises
    ------
    OutputError : when it cannot be written; the earlier checkpoint stays.
    """
    path = folder / FILE_NAME
    named = {
        f"{part}/{name}": np.asarray(array)
        for part, arrays in state.items()
        for name, array in arrays.items()
    }
    require_space(path, sum(array.nbytes for array in named.values()))
    with replaced(path) as temporary:
        with laying_out(temporary) as file:
            file.attrs["format_version"] = FORMAT_VERSION
            file.attrs["fingerprint"] = fingerprint
            for name, array in named.items():
                preallocate(file, name, array.shape, array.dtype)
        with open_file(temporary) as file:
            places = {name: Piece.of(file[name]) for name in named}
        descriptor = os.open(temporary, os.O_WRONLY)
        try:
            for name, array in named.items():
                places[name].write(descriptor, array)
        finally:
            os.close(descriptor)


def read_checkpoint(folder: Path, fingerprint: str) -> State | None:
    """The state of the last checkpoint, or None where there is none.

    Raises
    ------
    OutputError : when the file is damaged or belongs to another description.
    """
    path = folder / FILE_NAME
    if not path.exists():
        return None
    with open_file(path) as file:
        if file.attrs.get("format_version") != FORMAT_VERSION or file.attrs.get("fingerprint") != fingerprint:
            raise OutputError(
                f"{path}: this checkpoint belongs to another description or another version of lithowave. "
                "Run the simulation anew, into another folder."
            )
        state: State = {}
        for part, group in file.items():
            arrays = state.setdefault(part, {})

            def take(name: str, item: object, arrays: dict[str, np.ndarray] = arrays) -> None:
                if hasattr(item, "shape"):
                    arrays[name] = item[()]

            group.visititems(take)
    return state
