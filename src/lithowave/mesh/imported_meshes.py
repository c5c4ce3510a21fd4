"""Mesh files of simulations: each is read once for its outline and the plan of the run, unless it is large."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from lithowave.errors import LithowaveWarning
from lithowave.mesh.free_surface import MeshOutline
from lithowave.mesh.mesh_reading import read_hexahedral_mesh
from lithowave.mesh.tetrahedral_reading import read_tetrahedral_mesh

READERS: Mapping[str, Callable[..., Any]] = {
    "hexahedra": read_hexahedral_mesh, "tetrahedra": read_tetrahedral_mesh,
}  # fmt: skip

KEPT_BYTES = 256 << 20
"""Largest mesh that is kept in memory for the next time it is needed."""


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
    return MeshOutline.of(_read(file).mesh, file.free, file.path)


def _read(file: MeshOfFile) -> _Kept:
    """Return the mesh of a file without issuing warnings: its last one if it is kept in memory."""
    key = (file.shape, file.stamps, file.surfaces)
    for known in _kept:
        if known.key == key:
            return known
    with warnings.catch_warnings(record=True) as issued:
        warnings.simplefilter("always", LithowaveWarning)
        mesh = READERS[file.shape](file.path, "solver.mesh", dict(file.surfaces))
    found = _Kept(key, mesh, tuple(issued))
    _kept[:] = [found] if _size(mesh) <= KEPT_BYTES else []
    return found


def _size(mesh: Any) -> int:
    """Return the bytes of the arrays of a mesh."""
    return sum(value.nbytes for value in vars(mesh).values() if isinstance(value, np.ndarray))
