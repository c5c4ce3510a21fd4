"""Writing of tetrahedral meshes as binary Gmsh .msh 2.2 files, with the names of volumes and boundaries."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lithowave.errors import OutputError

if TYPE_CHECKING:
    from lithowave.mesh.tetrahedra import TetrahedralMesh

# Local vertices of the faces of a tetrahedron: face f lies opposite vertex 3 - f.
_FACES = np.array([[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]])

_TRIANGLE, _TETRAHEDRON = 2, 4
_TAGS = 2  # per element: physical and elementary group, which are equal here
_LARGEST = 2**31 - 1  # IDs have 32 bits


def write_gmsh(path: str | Path, mesh: TetrahedralMesh) -> Path:
    """Write a mesh and return the path.

    Tetrahedra have IDs from 1 in their order and are right-handed; the triangles of the boundaries follow. Material n
    is the physical volume n + 1, which has a name if the materials have names. Lengths are in m.

    OutputError: the file cannot be written, the format does not support so many elements, or it cannot store a name.
    """
    path = Path(path)
    elements = right_handed(mesh.vertices, mesh.elements)
    blocks = [(_TETRAHEDRON, mesh.materials + 1, elements)]
    names = [(3, number, name) for number, name in enumerate(mesh.groups, 1)]
    for number, (name, faces) in enumerate(mesh.boundaries.items(), 1):
        corners = mesh.elements[faces[:, :1], _FACES[faces[:, 1]]]
        blocks.append((_TRIANGLE, np.full(len(faces), number), corners))
        names.append((2, number, name))
    for _, _, name in names:
        if '"' in name or "\n" in name or len(name.encode()) > 127:
            raise OutputError(f"{path}: the name {name!r} is not valid in a .msh file.")
    count = sum(len(rows) for _, _, rows in blocks)
    if max(count, len(mesh.vertices)) > _LARGEST:
        raise OutputError(f"{path}: {count} elements exceed the limit of .msh files of version 2.2.")
    try:
        with path.open("wb") as file:
            file.write(b"$MeshFormat\n2.2 1 8\n" + np.array(1, "<i4").tobytes() + b"\n$EndMeshFormat\n")
            if names:
                lines = "".join(f'{dimension} {tag} "{name}"\n' for dimension, tag, name in names)
                file.write(f"$PhysicalNames\n{len(names)}\n{lines}$EndPhysicalNames\n".encode())
            file.write(f"$Nodes\n{len(mesh.vertices)}\n".encode())
            file.write(node_records(mesh.vertices))
            file.write(f"\n$EndNodes\n$Elements\n{count}\n".encode())
            first = 1
            for kind, tags, rows in blocks:
                if len(rows):
                    file.write(np.array([kind, len(rows), _TAGS], "<i4").tobytes())
                    file.write(element_records(first, tags, rows))
                first += len(rows)
            file.write(b"\n$EndElements\n")
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}.") from None
    return path


def right_handed(vertices: np.ndarray, elements: np.ndarray) -> np.ndarray:
    """Return the elements (m, 4), with two vertices swapped in elements of negative volume."""
    a, b, c = (vertices[elements[:, corner]] - vertices[elements[:, 0]] for corner in (1, 2, 3))
    turned = np.einsum("ij,ij->i", np.cross(a, b), c) < 0
    return np.where(turned[:, None], elements[:, [0, 1, 3, 2]], elements)


def node_records(vertices: np.ndarray) -> bytes:
    """Return the ID, from 1, and the coordinates of each node."""
    records = np.empty(len(vertices), [("number", "<i4"), ("place", "<f8", 3)])
    records["number"], records["place"] = np.arange(1, len(vertices) + 1), vertices
    return records.tobytes()


def element_records(first: int, tags: np.ndarray, rows: np.ndarray) -> bytes:
    """Return the ID, from `first`, both tags and the nodes of each element."""
    numbers = np.arange(first, first + len(rows))
    return np.column_stack([numbers, tags, tags, rows + 1]).astype("<i4").tobytes()
