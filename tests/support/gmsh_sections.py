"""Gmsh files of given cells in versions 2.2 and 4.1 of the format, text and binary."""

from __future__ import annotations

import itertools
import struct
from pathlib import Path

import numpy as np


def gmsh_file(
    path: Path, points: np.ndarray, cells: list[tuple[int, int, list[int]]], form: str, names: list | None = None
) -> Path:
    """Cells are (type of Gmsh, group, indices of nodes); the IDs of nodes are 3, 6, 9 ..., those of elements from 11.

    form : ``2.2`` or ``4.1``, followed by ``binary`` for a binary file. names : (dimension, group, name).
    """
    version, _, binary = form.partition(" ")
    out = [f"$MeshFormat\n{version} {int(bool(binary))} 8\n".encode()]
    out += [struct.pack("i", 1) + b"\n"] if binary else []
    out += [b"$EndMeshFormat\n"]
    if names:
        lines = [f'{dimension} {tag} "{name}"\n' for dimension, tag, name in names]
        out += [f"$PhysicalNames\n{len(names)}\n".encode(), "".join(lines).encode(), b"$EndPhysicalNames\n"]
    nodes = [(3 * n, *point) for n, point in enumerate(points.tolist(), 1)]
    write = {"2.2": old_sections, "4.1": new_sections}[version]
    path.write_bytes(b"".join([*out, *write(nodes, cells, bool(binary))]))
    return path


def old_sections(nodes: list, cells: list, binary: bool) -> list[bytes]:
    out = [f"$Nodes\n{len(nodes)}\n".encode()]
    out += [struct.pack("<iddd", *row) if binary else "{} {!r} {!r} {!r}\n".format(*row).encode() for row in nodes]
    out += [b"$EndNodes\n", f"$Elements\n{len(cells)}\n".encode()]
    for number, (kind, tag, row) in enumerate(cells, 11):
        own = [3 + 3 * node for node in row]
        if binary:
            out.append(struct.pack(f"<{6 + len(row)}i", kind, 1, 2, number, tag, 5, *own))
        else:
            out.append(" ".join(map(str, [number, kind, 2, tag, 5, *own])).encode() + b"\n")
    return [*out, b"$EndElements\n"]


def new_sections(nodes: list, cells: list, binary: bool) -> list[bytes]:
    """An entity for each dimension and group; the nodes in two blocks."""
    out: list[bytes] = []

    def put(form: str, *values: float) -> None:
        out.append(struct.pack("<" + form, *values) if binary else (" ".join(map(repr, values)) + "\n").encode())

    dimension = {1: 1, 2: 2, 3: 2, 15: 0}
    entities = sorted({(dimension.get(kind, 3), tag) for kind, tag, _ in cells})
    out.append(b"$Entities\n")
    put("4Q", *(sum(of == d for of, _ in entities) for d in range(4)))
    for of, tag in entities:
        extent, groups = [0.0] * (6 if of else 3), [tag] if tag else []
        around = [2, 8, -9] if of else []
        form = f"i{len(extent)}dQ{len(groups)}i" + "Q2i" * bool(of)
        put(form, 50 + tag, *extent, len(groups), *groups, *around)
    out += [b"\n$EndEntities\n$Nodes\n"]
    put("4Q", 2, len(nodes), 3, nodes[-1][0])
    for part in (nodes[:5], nodes[5:]):
        put("3iQ", 3, 54, 0, len(part))
        for row in part:
            put("Q", row[0])
        for row in part:
            put("3d", *row[1:])
    out += [b"\n$EndNodes\n$Elements\n"]
    blocks = [(key, list(rows)) for key, rows in itertools.groupby(enumerate(cells, 11), lambda item: item[1][:2])]
    put("4Q", len(blocks), len(cells), 11, 10 + len(cells))
    for (kind, tag), rows in blocks:
        put("3iQ", dimension.get(kind, 3), 50 + tag, kind, len(rows))
        for number, (_, _, row) in rows:
            put(f"{1 + len(row)}Q", number, *(3 + 3 * node for node in row))
    return [*out, b"\n$EndElements\n"]
