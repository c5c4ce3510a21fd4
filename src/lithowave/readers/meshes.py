"""Meshes in files of other programs: hexahedra, tetrahedra, and the names of surfaces.

Hexahedra are read from Gmsh .msh, VTU, Exodus II, and the folder of SPECFEM3D, tetrahedra from Gmsh .msh, GAMBIT .neu,
VTU and Exodus II. The contents are returned as plain arrays, 27 nodes always in Gmsh's order;
:func:`lithowave.mesh.read_hexahedral_mesh` and :func:`lithowave.mesh.read_tetrahedral_mesh` make checked meshes of
them. Lengths are in meters.

Names of volumes and surfaces are those of physical groups (Gmsh), of element groups and boundary conditions (GAMBIT),
and of blocks and side sets (Exodus). VTU has no names: an integer cell array ``gmsh:physical`` or ``material`` numbers
the volumes. Other programs and users give other names than lithowave to the same surfaces, which are known here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np

from lithowave.errors import InputError, MissingPackageError
from lithowave.readers.array_files import DAMAGE
from lithowave.readers.foreign_formats import foreign_text
from lithowave.readers.gmsh import CellBlock, CellFile, read_gmsh
from lithowave.readers.other_meshes import EXODUS, MESH_FILE, read_exodus, read_gambit, read_specfem_mesh, require_size

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


class MeshioBlock(Protocol):
    """Elements of one type of meshio."""

    @property
    def type(self) -> str: ...
    @property
    def data(self) -> np.ndarray: ...


def _in_gmsh_order(block: MeshioBlock) -> np.ndarray:
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


# fmt: off
# Singular and plural of each kind, and its number of corners.
_WORDS = {
    "tetra": ("tetrahedron", "tetrahedra", 4), "hexahedron": ("hexahedron", "hexahedra", 8),
    "wedge": ("wedge", "wedges", 6), "pyramid": ("pyramid", "pyramids", 5), "quad": ("quad", "quads", 4),
    "triangle": ("triangle", "triangles", 3), "line": ("line", "lines", 2),
    "vertex": ("single node", "single nodes", 1),
}
# fmt: on
_IGNORED_OF_TETRAHEDRA = ("vertex", "line")


def read_tetrahedra_file(path: str | Path) -> MeshFile:
    """Read a mesh of tetrahedra from a .msh, .neu, .vtu or Exodus file.

    Raises
    ------
    InputError
            with the file: a damaged file, cells that are not tetrahedra of four nodes, no tetrahedra, tetrahedra
            without a group although others have one.
        MissingPackageError
            if meshio is not installed and the file is VTU.
    """
    path = Path(path)
    readers = {".msh": read_gmsh, ".neu": read_gambit, ".vtu": _vtu_tetrahedra}
    readers |= dict.fromkeys(EXODUS, _exodus_tetrahedra)
    suffix = path.suffix.lower()
    if suffix not in readers:
        kind, remedy = foreign_text(path)
        got = f"the file extension {suffix or '(none)'} is not known{kind}"
        raise InputError(_WHAT, got, f"allowed: {', '.join(readers)}", remedy, file=path)
    try:
        return assembled(path, *readers[suffix](path))
    except InputError as error:
        raise error.located(path, None) from None
    except DAMAGE as error:
        raise unreadable(path, error) from None


def _exodus_tetrahedra(path: Path) -> CellFile:
    try:
        positions, blocks, volume_names, surface_names = read_exodus(path)
    except (IndexError, TypeError, AttributeError) as error:
        raise unreadable(path, error) from None
    numbered, count = [], 0
    for block in blocks:
        ids = np.arange(count, count + len(block.nodes)) + 1 if block.ids is None else block.ids
        numbered.append(replace(block, ids=ids))
        count += len(block.nodes)
    return positions, numbered, volume_names, surface_names


def _vtu_tetrahedra(path: Path) -> CellFile:
    try:
        import meshio
    except ImportError:
        raise MissingPackageError("meshio", f"Reading a mesh of format {path.suffix}", "meshes") from None
    try:
        require_size(path)
        mesh = meshio.vtu.read(path)
        name = next((name for name in ("gmsh:physical", "material") if name in mesh.cell_data), None)
        blocks, count = [], 0
        for number, block in enumerate(mesh.cells):
            nodes = np.asarray(block.data).astype(np.int64)
            tags = np.asarray(mesh.cell_data[name][number] if name else np.zeros(len(nodes)))
            if tags.shape != (len(nodes),) or not (tags == np.rint(tags)).all():
                raise ValueError(f"the cell array {name} must have one integer per cell, the number of its group")
            ids = np.arange(count, count + len(nodes))
            blocks.append(CellBlock(block.type, ids, nodes, tags.astype(np.int64)))
            count += len(nodes)
        positions = np.asarray(mesh.points, float)
    except (meshio.ReadError, IndexError, TypeError, AttributeError, SyntaxError) as error:
        raise unreadable(path, error) from None
    return positions, blocks, {}, {}


# Shared by all formats


def assembled(
    path: Path,
    positions: np.ndarray,
    blocks: Sequence[CellBlock],
    volume_names: Mapping[int, str],
    surface_names: Mapping[int, str],
) -> MeshFile:
    """Return the mesh of all these cells; groups without a name are named by their number.

    InputError: as `read_tetrahedra_file`.
    """
    refuse_other_cells(path, blocks)
    for block in blocks:
        if block.kind in ("tetra", "triangle"):
            _refuse_lost_nodes(path, block, len(positions))
    ids, elements, tags = _joined(blocks, "tetra", 4)
    _, corners, face_tags = _joined(blocks, "triangle", 3)
    refuse_unused_groups(path, "volume", volume_names, tags)
    refuse_unused_groups(path, "surface", surface_names, face_tags)
    if tags.any() and not tags.all():
        first = ids[np.argmin(tags != 0)]
        got = f"{np.count_nonzero(tags == 0)} of {len(tags)} tetrahedra are in no group, the first is element {first}"
        raise InputError(_WHAT, got, "either all tetrahedra must be in a group, or none", file=path)
    materials, groups = grouped(path, tags, volume_names)
    surfaces = named_surfaces(corners, face_tags, surface_names)
    return MeshFile(path, positions, elements, materials, groups, surfaces, ids)


def _joined(blocks: Sequence[CellBlock], kind: str, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return IDs, nodes and tags of all cells of a kind."""
    found = [block for block in blocks if block.kind == kind]
    nothing = np.zeros(0, np.int64)
    return (
        np.concatenate([nothing, *(block.ids for block in found)]),
        np.concatenate([np.zeros((0, count), np.int64), *(block.nodes for block in found)]),
        np.concatenate([nothing, *(block.tags for block in found)]),
    )


def _refuse_lost_nodes(path: Path, block: CellBlock, count: int) -> None:
    """InputError: a cell has a node that the file does not contain."""
    lost = ((block.nodes < 0) | (block.nodes >= count)).any(axis=1)
    if lost.any():
        word = "element" if block.kind == "tetra" else block.kind
        got = f"{word} {block.ids[np.argmax(lost)]} has a node that the file does not contain"
        raise InputError(_WHAT, got, f"there are {count} nodes", "Check that the file is complete", file=path)


def refuse_other_cells(path: Path, blocks: Sequence[CellBlock]) -> None:
    """InputError: cells that are not tetrahedra of four nodes, or no tetrahedra."""
    counts: dict[str, int] = {}
    for block in blocks:
        if len(block.ids):
            counts[block.kind] = counts.get(block.kind, 0) + len(block.ids)
    others = {
        kind: count
        for kind, count in counts.items()
        if kind not in ("tetra", "triangle") and kind.rstrip("0123456789") not in _IGNORED_OF_TETRAHEDRA
    }
    if others:
        got = "it has " + ", ".join(counted_cells(kind, count) for kind, count in others.items())
        got += f" in addition to {counted_cells('tetra', counts['tetra'])}" if "tetra" in counts else ""
        first = next(int(block.ids[0]) for block in blocks if block.kind in others and len(block.ids))
        got += f"; the first is element {first}"
        curved = any(kind.startswith(("tetra", "triangle")) for kind in others)
        hint = "In Gmsh set Mesh.ElementOrder = 1" if curved else "In Gmsh do not use Recombine"
        raise InputError(_WHAT, got, "every cell must be a tetrahedron of 4 nodes", hint, file=path)
    if "tetra" not in counts:
        there = ", ".join(counted_cells(kind, count) for kind, count in counts.items()) or "no cells"
        hint = "In Gmsh mesh in 3D; if there are physical groups, define a physical volume, since only groups are saved"
        raise InputError(_WHAT, f"it has no tetrahedra, only {there}", hint=hint, file=path)


def counted_cells(kind: str, count: int) -> str:
    """Format a number of cells, with the number of nodes if it differs from that of corners."""
    base = kind.rstrip("0123456789")
    one, many, least = _WORDS.get(base, (base, base + "s", 0))
    nodes = kind[len(base) :]
    return f"{count} {one if count == 1 else many}" + (f" of {nodes} nodes" if nodes and int(nodes) != least else "")


SURFACE_NAMES = (
    *("x_min", "x_max", "y_min", "y_max", "z_min", "z_max"),
    *("top", "bottom", "sides", "free", "absorbing", "rigid"),
)
"""Sides of the box, of which ``boundaries`` states the condition, and conditions."""

IGNORED = "ignored"
"""Value of ``solver.mesh.surfaces`` for a surface that is no boundary."""

_OTHER_NAMES = {
    "west": "x_min", "east": "x_max", "south": "y_min", "north": "y_max", "topo": "top",
    "topography": "top", "ground": "top", "base": "bottom", "side": "sides", "lateral": "sides", "laterals": "sides",
    "free_surface": "free", "freesurface": "free", "absorb": "absorbing", "abs": "absorbing", "outflow": "absorbing",
    "absorbing_boundary": "absorbing", "nonreflecting": "absorbing", "non_reflecting": "absorbing", "fixed": "rigid",
    "clamped": "rigid",
}  # fmt: skip
_AFFIXES = ("boundary", "boundaries", "bnd", "bc", "face", "side", "surface", "surf", "abs", "absorbing", "plane")
_END = {"min": "min", "neg": "min", "minus": "min", "m": "min", "-": "min"}
_END |= {"max": "max", "pos": "max", "plus": "max", "p": "max", "+": "max"}
_SIDE = re.compile(r"([xyz])_?(min|max|neg|pos|minus|plus|[-+mp])|(min|max|neg|pos|minus|plus|[-+])_?([xyz])")


def usual_name(name: str) -> str | None:
    """Return the name in `SURFACE_NAMES` with the meaning of a usual name such as ``xmin`` or ``boundary_xneg``.

    Case, blanks, points and hyphens do not matter, nor does a word such as ``boundary`` or ``face`` before or after the
    name of a side. None for other names.
    """
    text = re.sub(r"(?<=\w)[\s.\-]+(?=\w)|\s+", "_", name.strip().lower()).strip("_")
    if found := _plain_name(text):
        return found
    words = text.split("_")
    while len(words) > 1 and (words[0] in _AFFIXES or words[-1] in _AFFIXES):
        words = words[1:] if words[0] in _AFFIXES else words[:-1]
        if found := _plain_name("_".join(words)):
            return found
    return None


def _plain_name(text: str) -> str | None:
    if text in SURFACE_NAMES:
        return text
    if match := _SIDE.fullmatch(text):
        return f"{match[1] or match[4]}_{_END[match[2] or match[3]]}"
    return _OTHER_NAMES.get(text)
