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
from dataclasses import dataclass
from pathlib import Path

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
    ids : ID (m,) of each element in the file.
    """

    path: Path
    positions: np.ndarray
    elements: np.ndarray
    materials: np.ndarray
    groups: tuple[str, ...]
    surfaces: Mapping[str, np.ndarray]
    ids: np.ndarray


def _read_vtu(path: Path) -> CellFile:
    """Return the contents of a .vtu file; IDs are the indices of the cells."""
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
            nodes = nodes[:, FROM_VTK] if block.type == "hexahedron27" else nodes
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


@dataclass(frozen=True)
class Shape:
    """The shape of the elements of a mesh.

    Attributes
    ----------
    singular, plural : its name.
    volumes, surfaces : kinds of cells that are elements and that are faces on surfaces.
    corners : of a face.
    required : clause that states which cells are elements.
    other_order : beginnings of the kinds of cells of another order, and the remedy for them.
    other_shape : the remedy for cells of another shape.
    readers : by suffix, or by name, of the file.
    """

    singular: str
    plural: str
    volumes: tuple[str, ...]
    surfaces: tuple[str, ...]
    corners: int
    required: str
    other_order: tuple[tuple[str, ...], str]
    other_shape: str
    readers: Mapping[str, Callable[[Path], CellFile]]


HEXAHEDRA = Shape(
    "hexahedron", "hexahedra", ("hexahedron", "hexahedron27"), ("quad", "quad8", "quad9"), 4,
    "every cell must be a hexahedron of 8 or 27 nodes",
    (("hexahedron",), "In Gmsh set Mesh.SecondOrderIncomplete = 0 and Mesh.ElementOrder to 1 or 2"),
    "In Gmsh use transfinite volumes with Recombine; check that all of it was recombined",
    {".msh": read_gmsh, ".vtu": _read_vtu, **dict.fromkeys(EXODUS, read_exodus), MESH_FILE: read_specfem_mesh},
)  # fmt: skip
TETRAHEDRA = Shape(
    "tetrahedron", "tetrahedra", ("tetra",), ("triangle",), 3, "every cell must be a tetrahedron of 4 nodes",
    (("tetra", "triangle"), "In Gmsh set Mesh.ElementOrder = 1"), "In Gmsh do not use Recombine",
    {".msh": read_gmsh, ".neu": read_gambit, ".vtu": _read_vtu, **dict.fromkeys(EXODUS, read_exodus)},
)  # fmt: skip


def read_mesh_file(path: str | Path, shape: Shape) -> MeshFile:
    """Read a mesh of elements of one shape.

    Raises
    ------
    InputError : with the file: a damaged file, cells of another shape or order, no elements, both hexahedra of 8 and of
        27 nodes, elements without a group although others have one.
    MissingPackageError : meshio is not installed, and the file is VTU.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    read = shape.readers.get(path.name if path.name in shape.readers else suffix)
    if read is None:
        kind, remedy = foreign_text(path)
        got = f"the file extension {suffix or '(none)'} is not known{kind}"
        known = ", ".join(shape.readers).replace(MESH_FILE, f"and {MESH_FILE} of SPECFEM3D")
        raise InputError(_WHAT, got, f"allowed: {known}", remedy, file=path)
    try:
        return _assembled(path, shape, *read(path))
    except InputError as error:
        raise error.located(path, None) from None
    except DAMAGE as error:
        raise unreadable(path, error) from None


def unreadable(path: Path, error: Exception) -> InputError:
    """Return the error for a file that its reader cannot interpret."""
    reason = getattr(error, "strerror", None) or str(error).strip() or type(error).__name__
    return InputError(_WHAT, f"cannot be read: {reason}", hint="Check that the file is complete", file=path)


def _assembled(
    path: Path,
    shape: Shape,
    positions: np.ndarray,
    blocks: Sequence[CellBlock],
    volume_names: Mapping[int, str],
    surface_names: Mapping[int, str],
) -> MeshFile:
    """Return the mesh of all these cells; groups without a name are named by their number."""
    _refuse_other_cells(shape, blocks)
    volumes, faces = (
        [block for block in blocks if block.kind in kinds and len(block.nodes)]
        for kinds in (shape.volumes, shape.surfaces)
    )
    for block in (*volumes, *faces):
        _refuse_lost_nodes(block, len(positions))
    ids, elements, tags = (np.concatenate([getattr(b, name) for b in volumes]) for name in ("ids", "nodes", "tags"))
    tags = tags.astype(np.int64)
    corners = np.concatenate([np.zeros((0, shape.corners), np.int64), *(b.nodes[:, : shape.corners] for b in faces)])
    face_tags = np.concatenate([np.zeros(0, np.int64), *(block.tags for block in faces)]).astype(np.int64)
    _refuse_unused_groups("volume", volume_names, tags)
    _refuse_unused_groups("surface", surface_names, face_tags)
    if tags.any() and not tags.all():
        got = f"{np.count_nonzero(tags == 0)} of {len(tags)} {shape.plural} are in no group, the first is element "
        raise InputError(
            _WHAT, f"{got}{ids[np.argmin(tags != 0)]}", f"either all {shape.plural} must be in a group, or none"
        )
    materials, groups = _grouped(tags, volume_names)
    surfaces = _named_surfaces(corners, face_tags, surface_names)
    return MeshFile(path, positions, elements, materials, groups, surfaces, ids)


def _refuse_lost_nodes(block: CellBlock, count: int) -> None:
    """InputError: a cell has a node that the file does not contain."""
    lost = ((block.nodes < 0) | (block.nodes >= count)).any(axis=1)
    if lost.any():
        word = "element" if block.kind.startswith(("tetra", "hexahedron")) else block.kind
        got = f"{word} {block.ids[np.argmax(lost)]} has a node that the file does not contain"
        raise InputError(_WHAT, got, f"there are {count} nodes", "Check that the file is complete")


def _grouped(tags: np.ndarray, names: Mapping[int, str]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the index of each element's group, and the names of the groups, in the order of their numbers."""
    if not tags.any():
        return np.zeros(len(tags), np.int64), ()
    numbers, places = np.unique(tags, return_inverse=True)
    of_tags = [names.get(tag, str(tag)) for tag in numbers.tolist()]
    groups = tuple(dict.fromkeys(of_tags))
    return np.array([groups.index(name) for name in of_tags])[places.reshape(-1)], groups


def _refuse_unused_groups(kind: str, names: Mapping[int, str], tags: np.ndarray) -> None:
    """InputError: there are named groups of this kind, but no cell is in a group."""
    if names and not tags.any():
        got = f"no cell is in the {kind} groups " + ", ".join(f"'{name}'" for name in names.values())
        raise InputError(_WHAT, got, hint="In Gmsh save with Mesh.SaveAll = 0")


def _named_surfaces(corners: np.ndarray, tags: np.ndarray, names: Mapping[int, str]) -> dict[str, np.ndarray]:
    """Return the corners of the faces of each surface group by its name, by default its number; tag 0 is no group."""
    surfaces: dict[str, np.ndarray] = {}
    for tag in np.unique(tags[tags != 0]).tolist():
        name = names.get(tag, str(tag))
        surfaces[name] = np.concatenate([surfaces.get(name, corners[:0]), corners[tags == tag]])
    return surfaces


# fmt: off
# Singular and plural of each kind, and its number of corners.
_WORDS = {
    "tetra": ("tetrahedron", "tetrahedra", 4), "hexahedron": ("hexahedron", "hexahedra", 8),
    "wedge": ("wedge", "wedges", 6), "pyramid": ("pyramid", "pyramids", 5), "quad": ("quad", "quads", 4),
    "triangle": ("triangle", "triangles", 3), "line": ("line", "lines", 2),
    "vertex": ("single node", "single nodes", 1),
}
# fmt: on
_IGNORED = ("vertex", "line")


def _refuse_other_cells(shape: Shape, blocks: Sequence[CellBlock]) -> None:
    """InputError: cells of another shape or order, no elements, or elements of two orders."""
    counts: dict[str, int] = {}
    for block in blocks:
        if len(block.nodes):
            counts[block.kind] = counts.get(block.kind, 0) + len(block.nodes)
    elements = {kind: counts[kind] for kind in shape.volumes if kind in counts}
    known = (*shape.volumes, *shape.surfaces)
    others = {
        kind: count for kind, count in counts.items()
        if kind not in known and kind.rstrip("0123456789") not in _IGNORED
    }  # fmt: skip
    if others:
        got = "it has " + ", ".join(_counted(kind, count) for kind, count in others.items())
        got += f" in addition to {_counted(shape.volumes[0], sum(elements.values()))}" if elements else ""
        first = next(int(block.ids[0]) for block in blocks if block.kind in others and len(block.nodes))
        got += f"; the first is element {first}"
        beginnings, hint = shape.other_order
        hint = hint if any(kind.startswith(beginnings) for kind in others) else shape.other_shape
        raise InputError(_WHAT, got, shape.required, hint)
    if not elements:
        there = ", ".join(_counted(kind, count) for kind, count in counts.items()) or "no cells"
        hint = "In Gmsh mesh in 3D; if there are physical groups, define a physical volume, since only groups are saved"
        raise InputError(_WHAT, f"it has no {shape.plural}, only {there}", hint=hint)
    if len(elements) > 1:
        got = f"of the hexahedra {elements['hexahedron']} have 8 nodes and {elements['hexahedron27']} have 27"
        raise InputError(_WHAT, got, "all must have the same number of nodes")


def _counted(kind: str, count: int) -> str:
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
