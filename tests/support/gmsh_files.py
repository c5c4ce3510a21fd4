"""Meshes of hexahedra written as Gmsh does (format 2.2), for tests that read them back."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lithowave.mesh import FACES, HexahedralMesh

HEXAHEDRON, HEXAHEDRON_27, QUADRANGLE, TETRAHEDRON = 5, 12, 3, 4


def write_gmsh(
    path: Path, mesh: HexahedralMesh, groups: list[str], surfaces: dict[str, list[str]], tetrahedra: bool = False
) -> Path:
    """Groups by the elements' materials; named surfaces of sides of the mesh.

    tetrahedra : of another mesh, one in each element in its place.
    """
    names = [(3, number + 1, name) for number, name in enumerate(groups)]
    names += [(2, 100 + number, name) for number, name in enumerate(surfaces)]
    lines = ["$MeshFormat", "2.2 0 8", "$EndMeshFormat", "$PhysicalNames", str(len(names))]
    lines += [f'{dimension} {tag} "{name}"' for dimension, tag, name in names]
    lines += ["$EndPhysicalNames", "$Nodes", str(len(mesh.vertices))]
    lines += [f"{n + 1} {x!r} {y!r} {z!r}" for n, (x, y, z) in enumerate(mesh.vertices.tolist())]
    cells = []
    for tag, sides in enumerate(surfaces.values(), 100):
        faces = np.concatenate([mesh.boundaries[side] for side in sides])
        corners = mesh.elements[faces[:, 0][:, None], FACES[faces[:, 1]]]
        cells += [(QUADRANGLE, tag, row) for row in corners.tolist()]
    kind, used = (TETRAHEDRON, [0, 1, 3, 4]) if tetrahedra else (HEXAHEDRON, slice(None))
    kind = HEXAHEDRON_27 if mesh.nodes is not None else kind
    for material, row in zip(mesh.materials.tolist(), mesh.node_indices.tolist(), strict=True):
        cells.append((kind, material + 1, np.array(row)[used].tolist()))
    lines += ["$EndNodes", "$Elements", str(len(cells))]
    for number, (kind, tag, row) in enumerate(cells, 1):
        lines.append(f"{number} {kind} 2 {tag} {tag} " + " ".join(str(one + 1) for one in row))
    path.write_text("\n".join([*lines, "$EndElements", ""]))
    return path
