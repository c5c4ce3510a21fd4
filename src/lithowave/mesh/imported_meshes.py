"""Mesh files of simulations: each is read once for its outline and the plan of the run, unless it is large."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from lithowave.errors import LithowaveWarning, ResourceError
from lithowave.mesh.free_surface import MeshOutline
from lithowave.mesh.mesh_reading import read_hexahedral_mesh
from lithowave.mesh.stored_outlines import stored_outline
from lithowave.mesh.tetrahedral_reading import read_tetrahedral_mesh

READERS: Mapping[str, Callable[..., Any]] = {
    "hexahedra": read_hexahedral_mesh, "tetrahedra": read_tetrahedral_mesh,
}  # fmt: skip

KEPT_BYTES = 128 << 20
"""Largest mesh that is kept in memory for the next time it is needed."""

STORED_BYTES = 64 << 20
"""Smallest file whose outline is stored for other processes."""


@dataclass(frozen=True)
class MeshOfFile:
    """Mesh file of a simulation.

    Attributes
    ----------
    shape : of the elements, a key of `READERS`.
    path : the file.
    stamps : path, time of the last change and size of all its files: a mesh is read again after a change.
    surfaces : names of surface groups and their boundaries, as `solver.mesh.surfaces` states them.
    free : names of the boundaries that are free.
    """

    shape: str
    path: Path
    stamps: tuple[tuple[str, int, int], ...]
    surfaces: tuple[tuple[str, str], ...]
    free: frozenset[str]

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        return sum(size for _, _, size in self.stamps)

    @property
    def outline(self) -> MeshOutline:
        """The ends and the free surface of the mesh. InputError: see `READERS`."""
        return _outline(self)


@dataclass(frozen=True, eq=False)
class _Kept:
    """A mesh, and the warnings that its reader has issued."""

    key: tuple[Any, ...]
    mesh: Any
    warnings: tuple[warnings.WarningMessage, ...]


_kept: list[_Kept] = []


def read_mesh_of(file: MeshOfFile) -> Any:
    """Return the mesh of a file, with the warnings of its reader; see `READERS`."""
    found = _read(file)
    for warning in found.warnings:
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return found.mesh


@lru_cache(maxsize=4)
def _outline(file: MeshOfFile) -> MeshOutline:
    def read() -> MeshOutline:
        return MeshOutline.of(_read(file).mesh, file.free, file.path)

    if file.size < STORED_BYTES:
        return read()
    key = (file.shape, file.stamps, file.surfaces, sorted(file.free))
    return stored_outline(key, file.path, read)


def _read(file: MeshOfFile) -> _Kept:
    """Return the mesh of a file without issuing warnings: its last one if it is kept in memory."""
    key = (file.shape, file.stamps, file.surfaces)
    for known in _kept:
        if known.key == key:
            return known
    _require_memory(file)
    with warnings.catch_warnings(record=True) as issued:
        warnings.simplefilter("always", LithowaveWarning)
        mesh = READERS[file.shape](file.path, "solver.mesh", dict(file.surfaces))
    found = _Kept(key, mesh, tuple(issued))
    _kept[:] = [found] if _size(mesh) <= KEPT_BYTES else []
    return found


def _require_memory(file: MeshOfFile) -> None:
    """ResourceError: the file is larger than the memory of this machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if file.size > memory:
        sizes = f"{file.size / 1e9:.3g} GB, this machine has {memory / 1e9:.3g} GB of memory"
        raise ResourceError(f"solver.mesh: {file.path} has {sizes}; use a coarser mesh or a larger machine.")


def _size(mesh: Any) -> int:
    """Return the bytes of the arrays of a mesh."""
    return sum(value.nbytes for value in vars(mesh).values() if isinstance(value, np.ndarray))
