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

import numpy as np

from lithowave.errors import InputError, LithowaveWarning, ResourceError
from lithowave.mesh.free_surface import FreeSurface, MeshOutline
from lithowave.mesh.hexahedra import HexahedralMesh
from lithowave.mesh.hexahedral_checks import ExteriorSurface, MeshFaces, check_mesh, counted, element_text, place_text
from lithowave.mesh.numbering import FACES, identify
from lithowave.mesh.surface_groups import Exterior, SurfaceGroups, bare_faces, boundary_faces, check_given
from lithowave.mesh.tetrahedra import (
    TETRAHEDRON_FACES,
    TetrahedralMesh,
    face_vertices,
    plane_boundaries,
    rising,
    triple_keys,
)
from lithowave.mesh.tetrahedral_checks import check_holes, check_tetrahedra
from lithowave.readers.meshes import MeshFile, read_mesh_file, read_tetrahedra_file
from lithowave.version import __version__


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
    path = Path(path)
    try:
        file = read_mesh_file(path)
        kept = np.zeros(len(file.positions), bool)
        kept[file.elements] = True
        places = np.where(kept, np.cumsum(kept) - 1, -1)  # -1: a node that belongs to no element
        nodes = places[file.elements]
        mesh = HexahedralMesh(
            file.positions[kept],
            np.ascontiguousarray(nodes[:, :8]),
            file.materials,
            nodes=nodes if nodes.shape[1] == 27 else None,
            ids=file.ids,
            groups=file.groups,
        )
        faces = check_mesh(mesh, where)
        check_given(given or {}, list(file.surfaces), where)
        mesh.boundaries.update(named_faces(mesh, faces, file, places, given or {}))
    except InputError as error:
        if error.where.startswith(f"{where}."):
            raise
        raise InputError(where, error.got, error.allowed, error.hint, file=error.file or path) from None
    return mesh


def named_faces(
    mesh: HexahedralMesh, faces: MeshFaces, file: MeshFile, places: np.ndarray, given: Mapping[str, str]
) -> dict[str, np.ndarray]:
    """Return the exterior faces (f, 2), element and local face, of each boundary; see `boundary_faces`.

    places : vertex of the mesh for each node of the file, -1 for none.
    """
    outer = faces.exterior
    corners = np.take_along_axis(mesh.elements[outer[:, 0]], FACES[outer[:, 1]], axis=1)
    exterior = Exterior(mesh.vertices[corners], mesh.vertices[mesh.elements[outer[:, 0]]].mean(axis=1))
    if not file.surfaces:
        return {name: outer[some] for name, some in exterior.by_plane.items()}
    names = list(file.surfaces)
    sizes = [len(file.surfaces[name]) for name in names]
    drawn = np.concatenate([file.surfaces[name] for name in names])
    numbers, count = identify(np.concatenate([corners, places[drawn]]) + 1)
    at = np.full(count, -1, np.int64)
    at[numbers[: len(outer)]] = np.arange(len(outer))

    def between(some: np.ndarray) -> np.ndarray:
        every = mesh.elements[:, FACES].reshape(-1, 4)
        found, total = identify(np.concatenate([every, places[drawn[some]]]) + 1)
        return np.bincount(found[: len(every)], minlength=total)[found[len(every) :]] == 2

    def doubled(first: str, second: str, some: np.ndarray) -> InputError:
        got = f"{counted(len(some), 'face is', 'faces are')} in the surface groups '{first}' and '{second}'; the "
        got += f"first is around {place_text(exterior.corners[some[0]].mean(axis=0))}"
        return InputError("mesh", got, "a face may belong to one boundary only")

    def stray(name: str, some: np.ndarray) -> InputError:
        return stray_quadrilaterals(mesh, name, some, drawn, places, file.positions)

    def bare(some: np.ndarray) -> InputError:
        text = f"around {place_text(exterior.corners[some[0]].mean(axis=0))}"
        return bare_faces(len(outer), len(some), text)

    groups = SurfaceGroups(
        names, np.repeat(np.arange(len(names)), sizes), at[numbers[len(outer) :]], between, stray, doubled, bare
    )
    return {name: outer[some] for name, some in boundary_faces(exterior, groups, given, file.path).items()}


def stray_quadrilaterals(
    mesh: HexahedralMesh, name: str, lost: np.ndarray, drawn: np.ndarray, places: np.ndarray, positions: np.ndarray
) -> InputError:
    """Return the error for faces (indices `lost` in all `drawn`, by the nodes of the file) that are not exterior."""
    first = drawn[lost[0]]
    corners = places[first]
    near = mesh.elements[np.isin(mesh.elements, corners).sum(axis=1) == 4]
    inside = (np.sort(near[:, FACES], axis=2) == np.sort(corners)).all(axis=2).any()
    count = len(lost)
    what = "inside the mesh, between two elements" if inside else "not on a face of an element"
    got = f"of the surface group '{name}' {counted(count, 'face is', 'faces are')} {what}; the first is around "
    got += place_text(positions[first].mean(axis=0))
    return InputError("mesh", got, "surface groups must consist of exterior faces")


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

    InputError: as `read_tetrahedra_file`, `check_tetrahedra` and `boundary_faces`, with the path; ``given`` names a
    surface that the file does not have.
    MissingPackageError: meshio is not installed, and the file is VTU.
    """
    path = Path(path)
    try:
        file = read_tetrahedra_file(path)
        kept = np.zeros(len(file.positions), bool)
        kept[file.elements] = True
        places = np.where(kept, np.cumsum(kept) - 1, -1)  # -1: a node that belongs to no element
        ordered = places[file.elements]
        positions = np.ascontiguousarray(file.positions[kept], float)
        mesh = TetrahedralMesh(positions, rising(ordered), file.materials, {}, file.ids, file.groups)
        surface = check_tetrahedra(mesh, where, ordered)
        check_given(given or {}, list(file.surfaces), where)
        if file.surfaces:
            mesh.boundaries.update(named_boundaries(mesh, surface, file, places, given or {}))
        else:
            check_holes(mesh, surface, where)
            mesh.boundaries.update(plane_boundaries(mesh, surface.faces))
    except InputError as error:
        if error.where.startswith(f"{where}."):
            raise
        raise InputError(where, error.got, error.allowed, error.hint, file=error.file or path) from None
    return mesh


def named_boundaries(
    mesh: TetrahedralMesh, surface: ExteriorSurface, file: MeshFile, places: np.ndarray, given: Mapping[str, str]
) -> dict[str, np.ndarray]:
    """Return the exterior faces (f, 2), element and local face, of each boundary; see `boundary_faces`.

    places : vertex of the mesh for each node of the file, -1 for none.
    """
    names = list(file.surfaces)
    drawn = np.concatenate([file.surfaces[name] for name in names])
    group = np.repeat(np.arange(len(names)), [len(file.surfaces[name]) for name in names])
    outer = surface.faces
    triples = np.concatenate([surface.corners, np.sort(places[drawn], axis=1)])
    keys = triple_keys(triples + 1)  # 0: a node that belongs to no element
    order = np.argsort(keys[: len(outer)])
    known, wanted = keys[order], keys[len(outer) :]
    spots = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    matched = np.where(known[spots] == wanted, order[spots], -1)

    def between(some: np.ndarray) -> np.ndarray:
        every = np.sort(mesh.elements[:, TETRAHEDRON_FACES].reshape(-1, 3), axis=1)
        found = triple_keys(np.concatenate([every, np.sort(places[drawn[some]], axis=1)]) + 1)
        return np.isin(found[len(every) :], found[: len(every)])

    def stray(name: str, some: np.ndarray) -> InputError:
        return stray_triangles(mesh, name, len(some), drawn[some[0]], file, places)

    def doubled(first: str, second: str, some: np.ndarray) -> InputError:
        got = f"{counted(len(some), 'face is', 'faces are')} in the surface groups '{first}' and '{second}'; the first "
        got += f"is {face_text(mesh, outer[some[0]])}"
        return InputError("mesh", got, "a face may belong to one boundary only")

    groups = SurfaceGroups(
        names, group, matched, between, stray, doubled,
        lambda some: bare_faces(len(outer), len(some), face_text(mesh, outer[some[0]])),
    )  # fmt: skip
    centers = mesh.vertices[mesh.elements[outer[:, 0]]].mean(axis=1)
    exterior = Exterior(mesh.vertices[face_vertices(mesh, outer)], centers)
    return {name: outer[some] for name, some in boundary_faces(exterior, groups, given, file.path).items()}


def face_text(mesh: TetrahedralMesh, face: np.ndarray) -> str:
    """Format a face by its element and its center."""
    element, local = face.tolist()
    center = mesh.vertices[mesh.elements[element, TETRAHEDRON_FACES[local]]].mean(axis=0)
    return f"that of element {mesh.element_id(element)} around {place_text(center)}"


def stray_triangles(
    mesh: TetrahedralMesh, name: str, count: int, nodes: np.ndarray, file: MeshFile, places: np.ndarray
) -> InputError:
    """Return the error for faces of a surface, the first with `nodes` (3,) of the file, that are not exterior."""
    holders = np.flatnonzero(np.isin(mesh.elements, places[nodes]).sum(axis=1) == 3)
    what = "inside the mesh, between two elements" if len(holders) else "not on a face of an element"
    got = f"of the surface group '{name}' {counted(count, 'face is', 'faces are')} {what}; the first is around "
    got += place_text(file.positions[nodes].mean(axis=0))
    got += f", at {element_text(mesh, int(holders[0]))}" if len(holders) else ""
    return InputError("mesh", got, "surface groups must consist of exterior faces")


READERS: Mapping[str, Callable[..., HexahedralMesh | TetrahedralMesh]] = {
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
    mesh: HexahedralMesh | TetrahedralMesh
    warnings: tuple[warnings.WarningMessage, ...]


_kept: list[_Kept] = []


def read_mesh_of(file: MeshOfFile) -> HexahedralMesh | TetrahedralMesh:
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


def _size(mesh: HexahedralMesh | TetrahedralMesh) -> int:
    """Return the bytes of the arrays of a mesh."""
    return sum(value.nbytes for value in vars(mesh).values() if isinstance(value, np.ndarray))
