"""Checkpoints: everything that determines the future of a run, in one HDF5 file that is replaced atomically."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lithowave.errors import OutputError
from lithowave.output.hdf5 import open_file, replacing

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
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.attrs["format_version"] = FORMAT_VERSION
        file.attrs["fingerprint"] = fingerprint
        for part, arrays in state.items():
            for name, array in arrays.items():
                file.create_dataset(f"{part}/{name}", data=np.asarray(array))


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
                f"{path}: this checkpoint belongs to another description or another version of lithowave. Run the "
                "simulation anew, into another folder."
            )
        state: State = {}
        for part, group in file.items():
            arrays = state.setdefault(part, {})

            def take(name: str, item: object, arrays: dict[str, np.ndarray] = arrays) -> None:
                if hasattr(item, "shape"):
                    arrays[name] = item[()]

            group.visititems(take)
    return state
