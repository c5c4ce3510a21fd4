"""Hexahedral meshes in files of other programs: Gmsh .msh, VTU, Exodus II, and the folder of SPECFEM3D.

The contents are returned as plain arrays, 27 nodes always in Gmsh's order;
:func:`lithowave.mesh.mesh_reading.read_hexahedral_mesh` makes a checked mesh of them. Lengths are in meters.

Names of volumes and surfaces are those of physical groups (Gmsh) and of blocks and side sets (Exodus). VTU has
no names: an integer cell array ``gmsh:physical`` or ``material`` numbers the volumes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lithowave.errors import InputError, MissingPackageError
from lithowave.readers.array_files import DAMAGE
from lithowave.readers.cell_tables import CellBlock, CellFile
from lithowave.readers.exodus import EXODUS, read_exodus
from lithowave.readers.foreign_formats import foreign_text
from lithowave.readers.gmsh import read_gmsh
from lithowave.readers.specfem_mesh import MESH_FILE, read_specfem_mesh
from lithowave.readers.vtu_size import require_size

# nodes_gmsh = nodes[ORDER]
FROM_VTK = np.argsort(
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 13, 9, 16, 18, 19, 17, 10, 12, 14, 15, 22, 23, 21, 24, 20, 25, 26]
)

_GMSH, _VTU = (".msh",), (".vtu",)
_HEXAHEDRA = ("hexahedron", "hexahedron27")
_SURFACES = {"quad", "quad8", "quad9"}
_IGNORED = {"vertex", "line", "line3"}
_WHAT = "mesh"


@dataclass(frozen=True, eq=False)
class MeshFile:
    """Contents of a mesh file.

    Attributes
    ----------
    positions : positions (n, 3) of the nodes, m; some nodes may belong to no element.
    elements : nodes (m, 8 or 27) of the hexahedra in Gmsh's order, or (m, 4) of tetrahedra, in the order of the file.
    materials : index (m,) of each element's group.
    groups : names of the groups; if the file has none it is empty, and all materials are 0.
    surfaces : for each name the corners (f, 4), of tetrahedra (f, 3), of its faces, in cyclic order.
    ids : ID (m,) of each element in the file, or None if the reader does not provide IDs.
    """

    path: Path
    positions: np.ndarray
    elements: np.ndarray
    materials: np.ndarray
    groups: tuple[str, ...]
    surfaces: Mapping[str, np.ndarray]
    ids: np.ndarray | None = None


def read_mesh_file(path: str | Path) -> MeshFile:
    """Read a mesh of hexahedra.

    Raises
    ------
    InputError
            with the file: a damaged file, cells that are not hexahedra, no hexahedra, both hexahedra of 8 and of 27
            nodes, hexahedra without a group although others have one.
        MissingPackageError
            if meshio is not installed and the file is VTU.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix in EXODUS:
        return _read_exodus(path)
    if suffix in _VTU:
        return _read_vtu(path)
    if suffix in _GMSH:
        return _read_by(read_gmsh, path)
    if path.name == MESH_FILE:
        return _read_by(read_specfem_mesh, path)
    known = f"{', '.join((*_GMSH, *_VTU, *EXODUS))}, and {MESH_FILE} of SPECFEM3D"
    kind, remedy = foreign_text(path)
    got = f"the file extension {suffix or '(none)'} is not known{kind}"
    raise InputError(_WHAT, got, f"allowed: {known}", remedy, file=path)


def _read_by(read: Callable[[Path], CellFile], path: Path) -> MeshFile:
    try:
        return _assembled(path, *read(path))
    except InputError as error:
        raise error.located(path, None) from None
    except DAMAGE as error:
        raise unreadable(path, error) from None


def _read_exodus(path: Path) -> MeshFile:
    try:
        return _assembled(path, *read_exodus(path))
    except (IndexError, TypeError, AttributeError) as error:
        raise unreadable(path, error) from None


def _read_vtu(path: Path) -> MeshFile:
    try:
        import meshio
    except ImportError:
        raise MissingPackageError("meshio", f"Reading a mesh of format {path.suffix}", "meshes") from None
    try:
        require_size(path)
        mesh = meshio.vtu.read(path)
        tags = next((mesh.cell_data[name] for name in ("gmsh:physical", "material") if name in mesh.cell_data), None)
        cells = [
            CellBlock(block.type, None, _in_gmsh_order(block), np.asarray(tags[n] if tags else 0 * block.data[:, 0]))
            for n, block in enumerate(mesh.cells)
        ]
    except (*DAMAGE, meshio.ReadError, IndexError, TypeError, AttributeError, SyntaxError) as error:
        raise unreadable(path, error) from None
    return _assembled(path, np.asarray(mesh.points, float), cells, {}, {})


def _in_gmsh_order(block: Any) -> np.ndarray:
    nodes = np.asarray(block.data).astype(np.int64)
    return nodes[:, FROM_VTK] if block.type == "hexahedron27" else nodes


def unreadable(path: Path, error: Exception) -> InputError:
    """Return the error for a file that its reader cannot interpret."""
    reason = getattr(error, "strerror", None) or str(error).strip() or type(error).__name__
    return InputError(_WHAT, f"cannot be read: {reason}", hint="Check that the file is complete", file=path)


def _assembled(
    path: Path,
    positions: np.ndarray,
    cells: Sequence[CellBlock],
    volume_names: Mapping[int, str],
    surface_names: Mapping[int, str],
) -> MeshFile:
    """Return the mesh of all these cells; groups without a name are named by their number."""
    _refuse_other_cells(path, cells)
    volumes = [part for part in cells if part.kind in _HEXAHEDRA and len(part.nodes)]
    elements = np.concatenate([part.nodes for part in volumes])
    tags = np.concatenate([part.tags for part in volumes]).astype(np.int64)
    faces = [part for part in cells if part.kind in _SURFACES and len(part.nodes)]
    corners = np.concatenate([np.zeros((0, 4), np.int64), *(part.nodes[:, :4] for part in faces)])
    face_tags = np.concatenate([np.zeros(0, np.int64), *(part.tags for part in faces)]).astype(np.int64)
    for nodes in (elements, corners):
        if nodes.size and not (0 <= nodes.min() and nodes.max() < len(positions)):
            raise InputError(_WHAT, "an element has a node that the file does not contain", file=path)
    refuse_unused_groups(path, "volume", volume_names, tags)
    refuse_unused_groups(path, "surface", surface_names, face_tags)
    materials, groups = grouped(path, tags, volume_names)
    surfaces = named_surfaces(corners, face_tags, surface_names)
    ids = [part.ids for part in volumes if part.ids is not None]
    complete = sum(len(part) for part in ids) == len(elements)
    return MeshFile(path, positions, elements, materials, groups, surfaces, np.concatenate(ids) if complete else None)


def grouped(path: Path, tags: np.ndarray, names: Mapping[int, str]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the index of each element's group, and the names of the groups, in the order of their numbers."""
    if not tags.any():
        return np.zeros(len(tags), np.int64), ()
    if not tags.all():
        got = f"{np.count_nonzero(tags == 0)} of {len(tags)} hexahedra are in no group (physical volume)"
        raise InputError(_WHAT, got, "either all hexahedra must be in a group, or none", file=path)
    found, places = np.unique(tags, return_inverse=True)
    of_tags = [names.get(tag, str(tag)) for tag in found.tolist()]
    groups = tuple(dict.fromkeys(of_tags))
    return np.array([groups.index(name) for name in of_tags])[places.reshape(-1)], groups


def refuse_unused_groups(path: Path, kind: str, names: Mapping[int, str], tags: np.ndarray) -> None:
    """InputError: there are named groups of this kind, but no cell is in a group."""
    if names and not tags.any():
        got = f"no cell is in the {kind} groups " + ", ".join(f"'{name}'" for name in names.values())
        raise InputError(_WHAT, got, hint="In Gmsh save with Mesh.SaveAll = 0", file=path)


def named_surfaces(corners: np.ndarray, tags: np.ndarray, names: Mapping[int, str]) -> dict[str, np.ndarray]:
    """Return the corners of the faces of each surface group by its name, by default its number; tag 0 is no group."""
    surfaces: dict[str, np.ndarray] = {}
    for tag in np.unique(tags[tags != 0]).tolist():
        name = names.get(tag, str(tag))
        surfaces[name] = np.concatenate([surfaces.get(name, corners[:0]), corners[tags == tag]])
    return surfaces


def _refuse_other_cells(path: Path, cells: Sequence[CellBlock]) -> None:
    """InputError: cells that are not hexahedra, no hexahedra, or both kinds of hexahedra."""
    counts: dict[str, int] = {}
    for part in cells:
        counts[part.kind] = counts.get(part.kind, 0) + len(part.nodes)
    counts = {kind: count for kind, count in counts.items() if count}
    others = {kind: n for kind, n in counts.items() if kind not in _SURFACES | _IGNORED}
    hexahedra = {kind: others.pop(kind) for kind in _HEXAHEDRA if kind in others}
    if others:
        got = "it has " + ", ".join(_counted(kind, count) for kind, count in others.items())
        total = sum(hexahedra.values())
        got += f" in addition to {total} hexahedr{'on' if total == 1 else 'a'}" if hexahedra else ""
        incomplete = any(kind.startswith("hexahedron") for kind in others)
        hint = "In Gmsh set Mesh.SecondOrderIncomplete = 0 and Mesh.ElementOrder to 1 or 2" if incomplete else ""
        hint = hint or "In Gmsh use transfinite volumes with Recombine; check that all of it was recombined"
        raise InputError(_WHAT, got, "every cell must be a hexahedron of 8 or 27 nodes", hint, file=path)
    if not hexahedra:
        there = ", ".join(_counted(kind, count) for kind, count in counts.items()) or "no cells"
        hint = "In Gmsh mesh in 3D; if there are physical groups, define a physical volume, since only groups are saved"
        raise InputError(_WHAT, f"it has no hexahedra, only {there}", hint=hint, file=path)
    if len(hexahedra) > 1:
        got = f"of the hexahedra {hexahedra['hexahedron']} have 8 nodes and {hexahedra['hexahedron27']} have 27"
        raise InputError(_WHAT, got, "all must have the same number of nodes", file=path)


def _counted(kind: str, count: int) -> str:
    """Format a number of cells, with the number of nodes only for hexahedra."""
    base = kind.rstrip("0123456789")
    if base == "hexahedron":
        return f"{count} hexahedr{'on' if count == 1 else 'a'} of {kind[len(base) :] or 8} nodes"
    if base == "tetra":
        return f"{count} tetrahedr{'on' if count == 1 else 'a'}"
    return f"{count} {base}{'s' * (count > 1)}" if base != "vertex" else f"{count} single nodes"
