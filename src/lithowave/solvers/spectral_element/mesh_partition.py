"""Partition of the mesh: columns of a generated mesh, elements of an imported one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lithowave.mesh.hexahedra import HexahedralMesh
from lithowave.mesh.hexahedral_box import BoxPlan
from lithowave.mesh.numbering import number_faces
from lithowave.mesh.partition import Rectangle, bisect_grid, face_neighbors, partition_graph

if TYPE_CHECKING:
    from lithowave.solvers.spectral_element.absorbing_layer import AbsorbingLayer

# Time of the damping of a point over that of an element of degree 4, in single precision on one CPU core.
DAMPED_POINT = 1 / 600
LAYER_WORK = 1.5  # additional time of an element in an absorbing layer, per active axis
ACTIVE_AXES = np.array([mask.bit_count() for mask in range(9)])


def column_windows(
    box: BoxPlan, layer: AbsorbingLayer, absorbing: dict[str, bool], parts: int, degree: int
) -> list[Rectangle]:
    """Return a rectangle of columns for each part, with balanced work.

    All columns have the same number of elements, but columns on absorbing sides also damp points, and those in a layer
    have memory variables. absorbing : True for each of the faces x_min, x_max, ... that absorbs.
    """
    sides = []
    for axis, (low, high), lines in zip("xy", layer.domain, (box.x, box.y), strict=False):
        centres = (lines[1:] + lines[:-1]) / 2
        extra = np.where((centres < low) | (centres > high), LAYER_WORK, 0.0)
        if not layer.used:
            extra[0] += degree**2 * DAMPED_POINT * absorbing[f"{axis}_min"]
            extra[-1] += degree**2 * DAMPED_POINT * absorbing[f"{axis}_max"]
        sides.append(extra.reshape(-1, box.unit).mean(axis=1))
    return bisect_grid(1.0 + sides[0][:, None] + sides[1], parts)


def element_parts(
    mesh: HexahedralMesh, absorbing: np.ndarray, layer: AbsorbingLayer | None, parts: int, degree: int
) -> np.ndarray:
    """Return the part (m,) of each element of an imported mesh. absorbing : faces (f, 2), element and local face."""
    weights = np.ones(mesh.element_count)
    if layer is None:
        np.add.at(weights, absorbing[:, 0], (degree + 1) ** 2 * DAMPED_POINT)
    else:
        weights += LAYER_WORK * ACTIVE_AXES[layer.masks(mesh.vertices, mesh.elements)]
    return partition_graph(face_neighbors(number_faces(mesh.elements)[0]), weights, parts)


def scatter_mesh(mesh: HexahedralMesh | None, part: np.ndarray | None, ranks: Any) -> HexahedralMesh:
    """Distribute to each rank its part of a mesh that only the root has. part : (m,), of each element, on the root."""
    pieces: list[Any] = [None] * ranks.size
    if mesh is not None and part is not None:
        pieces = [mesh.part(np.flatnonzero(part == rank)) for rank in range(ranks.size)]
    return ranks.all_to_all(pieces)[0]
