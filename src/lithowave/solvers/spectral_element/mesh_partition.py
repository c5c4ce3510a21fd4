"""Which part of the mesh each rank has: columns of a built mesh, elements of one that was read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lithowave.mesh.hexahedra import BoxPlan, HexahedralMesh
from lithowave.mesh.numbering import number_faces
from lithowave.mesh.partition import Rectangle, bisect_grid, face_neighbors, partition_graph

if TYPE_CHECKING:
    from lithowave.solvers.spectral_element.meshing import AbsorbingLayer

# Time of the damping of a point over that of an element of degree 4, in single precision on one core of a processor.
DAMPED_POINT = 1 / 600


def column_windows(
    box: BoxPlan, layer: AbsorbingLayer, absorbing: dict[str, bool], parts: int, degree: int
) -> list[Rectangle]:
    """A rectangle of columns for each part, so that parts have the same work.

    All columns have as many elements, but those on absorbing sides, and in the layer at the sides, damp points, too.
    absorbing : whether each of the faces x_min, x_max, ... absorbs.
    """
    sides = []
    for axis, (low, high), lines in zip("xy", layer.domain, (box.x, box.y), strict=False):
        centres = (lines[1:] + lines[:-1]) / 2
        extra = np.where((centres < low) | (centres > high), degree**3 * DAMPED_POINT, 0.0)
        extra[0] += degree**2 * DAMPED_POINT * absorbing[f"{axis}_min"]
        extra[-1] += degree**2 * DAMPED_POINT * absorbing[f"{axis}_max"]
        sides.append(extra.reshape(-1, box.unit).mean(axis=1))
    return bisect_grid(1.0 + np.maximum(sides[0][:, None], sides[1]), parts)


def element_parts(mesh: HexahedralMesh, absorbing: np.ndarray, parts: int, degree: int) -> np.ndarray:
    """The part (m,) of each element of a mesh that was read. absorbing : faces (f, 2), element and local face."""
    weights = np.ones(mesh.element_count)
    np.add.at(weights, absorbing[:, 0], (degree + 1) ** 2 * DAMPED_POINT)
    return partition_graph(face_neighbors(number_faces(mesh.elements)[0]), weights, parts)


def scatter_mesh(mesh: HexahedralMesh | None, part: np.ndarray | None, ranks: Any) -> HexahedralMesh:
    """The part of each rank of a mesh that only the root has. part : (m,), of each element, on the root."""
    pieces: list[Any] = [None] * ranks.size
    if mesh is not None and part is not None:
        pieces = [mesh.part(np.flatnonzero(part == rank)) for rank in range(ranks.size)]
    return ranks.all_to_all(pieces)[0]
