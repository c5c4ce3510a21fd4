"""HDF5 files of other programs, opened for reading; they must not refer to other files.

External links, external storage and virtual datasets would read any file of this machine, or wait for a pipe.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lithowave.readers.budget import ExpandedSize


@contextmanager
def open_hdf5(path: Path) -> Iterator[Any]:
    """Open a file.

    Raises
    ------
    ValueError : the file refers to other files. OSError : it cannot be read.
    """
    import h5py

    with h5py.File(path, "r") as file:
        refuse_references(file)
        yield file


def refuse_references(file: Any) -> None:
    """Raise ValueError if a link or a dataset of an open file refers to another file; no link is followed."""
    from h5py import h5d, h5l, h5o

    links: list[tuple[bytes, int]] = []
    file.id.links.visit(lambda name, info: links.append((name, info.type)), info=True)
    for name, kind in links:
        refused = kind not in (h5l.TYPE_HARD, h5l.TYPE_SOFT)
        if kind == h5l.TYPE_HARD:
            item = h5o.open(file.id, name)
            if isinstance(item, h5d.DatasetID):
                properties = item.get_create_plist()
                refused = bool(properties.get_external_count()) or properties.get_layout() == h5d.VIRTUAL
        if refused:
            text = name.decode("utf-8", "replace")
            raise ValueError(f"{text} is in another file; expected a file that contains all of its data")


def read_dataset(dataset: Any, size: ExpandedSize) -> Any:
    """Return all values of a dataset.

    Raises
    ------
    ValueError : the dataset, or one of its chunks, is larger than the budget of its file.
    """
    count = max(dataset.size or 0, math.prod(dataset.chunks or (0,)))
    size.add(count * dataset.dtype.itemsize)
    return dataset[()]
