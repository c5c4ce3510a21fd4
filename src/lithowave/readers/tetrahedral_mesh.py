"""Tetrahedral meshes in files of other programs: Gmsh .msh, GAMBIT .neu, VTU and Exodus II.

The contents are returned as plain arrays; :func:`lithowave.mesh.tetrahedral_reading.read_tetrahedral_mesh` makes a
checked mesh of them. Lengths are in meters. Names of volumes and surfaces are those of physical groups (Gmsh), and of
element groups and boundary conditions (GAMBIT), and of blocks and side sets (Exodus). VTU has no names: an integer cell
array ``gmsh:physical`` or ``material`` numbers the volumes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from lithowave.errors import InputError, MissingPackageError
from lithowave.readers.array_files import DAMAGE
from lithowave.readers.cell_tables import CellBlock, CellFile
from lithowave.readers.exodus import EXODUS, read_exodus
from lithowave.readers.foreign_formats import foreign_text
from lithowave.readers.gambit import read_gambit
from lithowave.readers.gmsh import read_gmsh
from lithowave.readers.hexahedral_mesh import MeshFile, grouped, named_surfaces, refuse_unused_groups, unreadable
from lithowave.readers.vtu_size import require_size

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
_WHAT = "mesh"


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
    readers = {".msh": read_gmsh, ".neu": read_gambit, ".vtu": _read_vtu, **dict.fromkeys(EXODUS, _read_exodus)}
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


def _read_exodus(path: Path) -> CellFile:
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


def _read_vtu(path: Path) -> CellFile:
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
        if kind not in ("tetra", "triangle") and kind.rstrip("0123456789") not in _IGNORED
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
