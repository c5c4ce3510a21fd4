"""Meshes in Exodus II files, read without meshio, which ignores the names of blocks, side sets and element IDs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from lithowave.errors import InputError
from lithowave.readers.array_files import ArrayEntry, open_arrays
from lithowave.readers.cell_tables import CellBlock, CellFile

EXODUS = (".e", ".exo", ".ex2", ".exodus", ".g", ".gen")
"""Suffixes of the files."""

# nodes_gmsh = nodes[ORDER]
FROM_EXODUS = np.array(
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 9, 13, 10, 14, 15, 16, 19, 17, 18, 21, 25, 23, 24, 26, 22, 20]
)
# Corners of an Exodus hexahedron's sides 1 to 6.
EXODUS_SIDES = np.array([[0, 1, 5, 4], [1, 2, 6, 5], [2, 3, 7, 6], [0, 3, 7, 4], [0, 1, 2, 3], [4, 5, 6, 7]])
# Corners of a tetrahedron's sides 1 to 4.
EXODUS_TETRAHEDRON_SIDES = np.array([[0, 1, 3], [1, 2, 3], [0, 2, 3], [0, 1, 2]])

_SURFACES = {"quad", "quad8", "quad9", "triangle", "triangle6"}
_WHAT = "mesh"


def read_exodus(path: Path) -> CellFile:
    """Return the contents of a file; nodes of hexahedra are in Gmsh's order.

    InputError: the file is damaged or has entries of unexpected shapes. IndexError, TypeError, AttributeError: its
    entries do not match.
    """
    try:
        with open_arrays(path) as entries:
            return _contents(entries)
    except InputError as error:
        if error.where == _WHAT:
            raise
        raise InputError(_WHAT, error.got, error.allowed, error.hint, file=path) from None


def _contents(entries: Mapping[str, ArrayEntry]) -> CellFile:
    """Return the cells of the blocks, and as cells of their own the faces of the side sets."""
    if "coord" in entries:
        positions = entries["coord"].values().T
    else:
        positions = np.stack([entries[name].values() for name in ("coordx", "coordy", "coordz")], axis=-1)
    cells: list[CellBlock] = []
    volume_names, surface_names = {}, {}
    blocks = [name for name in entries if name.startswith("connect") and name[7:].isdigit()]
    labels = _labels(entries, "eb", len(blocks))
    ids = entries["elem_num_map"].load().astype(np.int64) if "elem_num_map" in entries else None
    count = 0
    corners: list[np.ndarray] = []  # of all elements in the order of the file, to which side sets refer
    for name in sorted(blocks, key=lambda name: int(name[7:])):
        tag, nodes = int(name[7:]), entries[name].load().astype(np.int64) - 1
        kind = _exodus_kind(str(entries[name].attributes.get("elem_type", "")), nodes.shape[1])
        nodes = nodes[:, FROM_EXODUS] if kind == "hexahedron27" else nodes
        own_ids = None if ids is None else ids[count : count + len(nodes)]
        cells.append(CellBlock(kind, own_ids, nodes, np.full(len(nodes), tag)))
        count += len(nodes)
        (surface_names if kind in _SURFACES else volume_names)[tag] = labels[tag - 1]
        corners.append(_with_corners(kind, nodes))
    sets = [name for name in entries if name.startswith("elem_ss") and name[7:].isdigit()]
    set_labels = _labels(entries, "ss", len(sets))
    for name in sets:
        number = int(name[7:])
        element, side = (entries[f"{part}_ss{number}"].load().astype(np.int64) - 1 for part in ("elem", "side"))
        solids = np.concatenate(corners)[element]
        tetrahedra = (solids[:, 4:] == -1).all(axis=1) & (solids[:, 3] >= 0)
        for kind, some, sides in (
            ("quad", ~tetrahedra, EXODUS_SIDES), ("triangle", tetrahedra, EXODUS_TETRAHEDRON_SIDES),
        ):  # fmt: skip
            if some.any():
                known = (side[some] >= 0) & (side[some] < len(sides))  # a face without corners is refused later
                faces = np.take_along_axis(solids[some], sides[np.where(known, side[some], 0)], axis=1)
                faces = np.where(known[:, None], faces, -1)
                cells.append(CellBlock(kind, element[some] + 1, faces, np.full(len(faces), len(blocks) + number)))
        surface_names[len(blocks) + number] = set_labels[number - 1]
    return positions, cells, volume_names, surface_names


def _with_corners(kind: str, nodes: np.ndarray) -> np.ndarray:
    """Return the corners (k, 8) of hexahedra and tetrahedra; -1 for missing ones, and for other cells."""
    found = np.full((len(nodes), 8), -1)
    count = {"hexahedron": 8, "tetra": 4}.get(kind.rstrip("0123456789"), 0)
    found[:, :count] = nodes[:, :count]
    return found


def _exodus_kind(name: str, count: int) -> str:
    """Return meshio's name for a block of elements with this name and number of nodes."""
    stems = {"hex": "hexahedron", "she": "quad", "qua": "quad", "tet": "tetra", "wed": "wedge", "pyr": "pyramid"}
    stems |= {"tri": "triangle", "bar": "line", "bea": "line", "tru": "line", "edg": "line", "sph": "vertex"}
    stems |= {"cir": "vertex", "poi": "vertex", "nod": "vertex"}
    stem = stems.get(name.lower()[:3], name or "unknown")
    least = {"hexahedron": 8, "quad": 4, "line": 2, "vertex": 1, "tetra": 4, "wedge": 6, "pyramid": 5, "triangle": 3}
    return stem if count == least.get(stem, count) else f"{stem}{count}"


def _labels(entries: Mapping[str, ArrayEntry], prefix: str, count: int) -> list[str]:
    """Return the names of the blocks ("eb") or side sets ("ss"); default: their numbers."""
    properties = entries.get(f"{prefix}_prop1")
    numbers = np.arange(1, count + 1) if properties is None else properties.load().reshape(-1)
    labels = [str(number) for number in numbers.tolist()]
    if f"{prefix}_names" in entries:
        for place, row in enumerate(entries[f"{prefix}_names"].load()):
            text = b"".join(np.asarray(row, "S1").tolist()).split(b"\0")[0].decode("utf-8", "replace").strip()
            labels[place] = text or labels[place]
    return labels
