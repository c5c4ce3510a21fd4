"""Imported meshes of hexahedra and of tetrahedra: read, checked, with the faces of their boundaries and their outlines.

The file of a simulation is read once for its outline and the plan of the run, unless it is large. Outlines of large
files are in the folder for temporary files, which all ranks and later commands share: otherwise every rank would read
the entire file to place its sources and receivers.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

import numpy as np

from lithowave.errors import InputError, LithowaveWarning, ResourceError
from lithowave.mesh.checks import ExteriorSurface, Mesh, check_holes
from lithowave.mesh.free_surface import FreeSurface, MeshOutline
from lithowave.mesh.hexahedra import HexahedralMesh, along_axes
from lithowave.mesh.hexahedral_checks import check_mesh
from lithowave.mesh.surface_groups import SurfaceGroups, boundary_faces, check_given, exterior_of
from lithowave.mesh.tetrahedra import TetrahedralMesh, rising
from lithowave.mesh.tetrahedral_checks import check_tetrahedra
from lithowave.readers.meshes import HEXAHEDRA, TETRAHEDRA, MeshFile, Shape, read_mesh_file
from lithowave.version import __version__

MeshOf = TypeVar("MeshOf", HexahedralMesh, TetrahedralMesh)


def read_hexahedral_mesh(
    path: str | Path, where: str = "mesh", given: Mapping[str, str] | None = None
) -> HexahedralMesh:
    """Read a mesh with 8 or 27 nodes per element from a Gmsh (.msh), VTU or Exodus file, lengths in m.

    where : name of the mesh in the errors. given : boundaries of surface groups, see `boundary_faces`.

    Named volumes become materials and groups, and named surfaces become boundaries. Without named surfaces, exterior
    faces in the plane of the bounding box at x_min, x_max, y_min, y_max or z_min get that name, and all others z_max.

    InputError: as `read_mesh_file`, `check_mesh` and `boundary_faces`, with the path; ``given`` names a surface that
    the file does not have.
    MissingPackageError: meshio is not installed, and the file is VTU.
    """
    return _read_mesh(path, HEXAHEDRA, where, given or {}, _hexahedra)


def _hexahedra(
    file: MeshFile, positions: np.ndarray, nodes: np.ndarray, where: str
) -> tuple[HexahedralMesh, ExteriorSurface]:
    """Return a checked mesh without boundaries, and its surface. nodes : vertices (m, 8 or 27) of the elements, whose
    local axes are then along x, y and z as far as possible: solvers are faster for elements aligned in this way."""
    nodes = along_axes(positions, nodes)
    mesh = HexahedralMesh(
        positions, np.ascontiguousarray(nodes[:, :8]), file.materials, ids=file.ids, groups=file.groups,
        nodes=nodes if nodes.shape[1] == 27 else None,
    )  # fmt: skip
    return mesh, check_mesh(mesh, where)


def _read_mesh(
    path: str | Path, shape: Shape, where: str, given: Mapping[str, str],
    make: Callable[[MeshFile, np.ndarray, np.ndarray, str], tuple[MeshOf, ExteriorSurface]],
) -> MeshOf:  # fmt: skip
    """Return the mesh that `make` checks, with its boundaries."""
    path = Path(path)
    try:
        file = read_mesh_file(path, shape)
        kept = np.zeros(len(file.positions), bool)
        kept[file.elements] = True
        vertex = np.where(kept, np.cumsum(kept) - 1, -1)  # -1: a node that belongs to no element
        mesh, surface = make(file, np.ascontiguousarray(file.positions[kept], float), vertex[file.elements], where)
        check_given(given, list(file.surfaces), where)
        if file.surfaces:
            boundaries = boundary_faces(SurfaceGroups.of(mesh, surface.faces, file, vertex), given, path)
        else:
            boundaries = exterior_of(mesh, surface.faces).by_plane
        mesh.boundaries.update({name: surface.faces[some] for name, some in boundaries.items()})
    except InputError as error:
        if error.where.startswith(f"{where}."):
            raise
        raise InputError(where, error.got, error.allowed, error.hint, file=error.file or path) from None
    return mesh


def stored_outline(key: tuple[object, ...], path: Path, read: Callable[[], MeshOutline]) -> MeshOutline:
    """Return the outline of a mesh that another process has stored, or else the one read now, which is stored.

    While a process reads a mesh, others with the same key wait for it.

    Parameters
    ----------
    key : its text identifies the file, its content and how it is read. path : the mesh file.
    """
    name = hashlib.sha256(repr((__version__, key)).encode()).hexdigest()[:32]
    try:
        folder = _own_folder()
    except (OSError, AttributeError):  # no such folder, or a system without user IDs
        return read()
    with _locked(folder / f"{name}.lock"):
        found = _load(folder / f"{name}.npz", path)
        if found is None:
            found = read()
            _store(folder / f"{name}.npz", found)
    return found


def _own_folder() -> Path:
    """Return the folder, which no other user can write. OSError: another user owns it."""
    folder = Path(tempfile.gettempdir()) / f"lithowave-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    state = folder.lstat()
    if state.st_uid != os.getuid() or state.st_mode & 0o022:
        raise PermissionError(f"{folder} belongs to another user")
    return folder


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock, which ends with the process, if the file system has locks."""
    try:
        import fcntl

        with path.open("w", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
    except ImportError:
        yield


def _load(path: Path, mesh: Path) -> MeshOutline | None:
    try:
        with np.load(path, allow_pickle=False) as file:
            ends = tuple((float(low), float(high)) for low, high in file["ends"])
            surface = None
            if "nodes" in file:
                surface = FreeSurface(mesh, file["nodes"], file["rim"], bool(file["is_top"]))
    except (OSError, ValueError, KeyError, EOFError):
        return None
    return MeshOutline(ends, surface)


def _store(path: Path, outline: MeshOutline) -> None:
    """Write a file that is complete whenever it exists; a full disk is not an error."""
    arrays: dict[str, np.ndarray] = {"ends": np.array(outline.ends)}
    if (surface := outline.surface) is not None:
        arrays |= {"nodes": surface.nodes, "rim": surface.rim, "is_top": np.array(surface.is_top)}
    partial = path.with_suffix(f".{os.getpid()}.npz")
    try:
        np.savez(partial, **arrays)
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)


def read_tetrahedral_mesh(
    path: str | Path, where: str = "mesh", given: Mapping[str, str] | None = None
) -> TetrahedralMesh:
    """Read a mesh from a Gmsh (.msh), GAMBIT (.neu) or VTU file, lengths in m; elements are in the order of the file.

    where : name of the mesh in the errors. given : boundaries of surface groups, see `boundary_faces`.

    Named volumes become materials and groups, and named surfaces become boundaries. Without named surfaces, exterior
    faces in the plane of the bounding box at x_min, x_max, y_min, y_max or z_min get that name, and all others z_max;
    holes are then not allowed.

    InputError: as `read_mesh_file`, `check_tetrahedra` and `boundary_faces`, with the path; ``given`` names a
    surface that the file does not have.
    MissingPackageError: meshio is not installed, and the file is VTU.
    """
    return _read_mesh(path, TETRAHEDRA, where, given or {}, _tetrahedra)


def _tetrahedra(
    file: MeshFile, positions: np.ndarray, nodes: np.ndarray, where: str
) -> tuple[TetrahedralMesh, ExteriorSurface]:
    """Return a checked mesh without boundaries, and its surface. nodes : vertices (m, 4) of the elements."""
    mesh = TetrahedralMesh(positions, rising(nodes), file.materials, {}, file.ids, file.groups)
    surface = check_tetrahedra(mesh, where, nodes)
    if not file.surfaces:
        check_holes(mesh, surface, where)
    return mesh, surface


READERS: Mapping[str, Callable[..., Mesh]] = {
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

    key: tuple[object, ...]
    mesh: Mesh
    warnings: tuple[warnings.WarningMessage, ...]


_kept: list[_Kept] = []


def read_mesh_of(file: MeshOfFile) -> Mesh:
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


def _size(mesh: Mesh) -> int:
    """Return the bytes of the arrays of a mesh."""
    return sum(value.nbytes for value in vars(mesh).values() if isinstance(value, np.ndarray))
