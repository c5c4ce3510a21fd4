"""Partition of the mesh among ranks, the exchange of momenta, and colors of blocks.

Blocks of elements of one color share no point, so that threads can update them concurrently.

Of the momenta of points that ranks share, each rank sums the contributions of all ranks. Before its outer elements add
their forces, a rank saves these momenta and sets them to zero; the sums of its forces are then sent to the other ranks.
The contributions are added in rank order, and then the saved momenta: all ranks that share a point obtain bitwise
identical values.

The partition consists of columns of a generated mesh, and of elements of an imported one.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from lithowave.backends.kernel_cache import njit
from lithowave.mesh.hexahedra import HexahedralMesh
from lithowave.mesh.hexahedral_box import BoxPlan
from lithowave.mesh.numbering import number_faces
from lithowave.mesh.partition import Rectangle, bisect_grid, face_neighbors, partition_graph
from lithowave.solvers.common.kernels import Launch

if TYPE_CHECKING:
    from types import SimpleNamespace

    from lithowave.backends.interface import Array, Backend
    from lithowave.mesh.shared import SharedPoints
    from lithowave.parallel.halo import Halo
    from lithowave.parallel.ranks import Ranks
    from lithowave.solvers.common.arrays import ArrayTable
    from lithowave.solvers.spectral_element.layers import AbsorbingLayer
    from lithowave.solvers.spectral_element.media import NumberedPlan


LIMIT = 64  # colors: a vertex stores those of its blocks in one 64-bit word


def color_greedily(corners: np.ndarray) -> np.ndarray:
    """Return colors, from 0, for sets of vertices (n, m); sets of one color are disjoint. -1 marks an unused entry.

    Each set gets, in the given order, the lowest color that is free. Intended for blocks of elements with many
    neighbors. ValueError: more than 64 colors are needed.
    """
    colors = _greedy(np.ascontiguousarray(corners, np.int64), int(corners.max(initial=-1)) + 1)
    if colors.max(initial=-1) >= LIMIT:
        raise ValueError(f"the blocks need more than {LIMIT} colors: too many of them share a vertex")
    return colors


@njit(cache=True)
def _greedy(corners: np.ndarray, vertices: int) -> np.ndarray:
    used = np.zeros(vertices, np.uint64)
    colors = np.empty(corners.shape[0], np.int64)
    for n in range(corners.shape[0]):
        taken = np.uint64(0)
        for corner in corners[n]:
            if corner >= 0:
                taken |= used[corner]
        color = 0
        while color < LIMIT and (taken >> np.uint64(color)) & np.uint64(1):
            color += 1
        colors[n] = color
        for corner in corners[n]:
            if corner >= 0 and color < LIMIT:
                used[corner] |= np.uint64(1) << np.uint64(color)
    return colors


OWN = -1  # instead of an index into `incoming`: the contribution of this rank


class SharedMomenta:
    """Saved, sent and received momenta.

    Parameters
    ----------
    backend, kernels : objects of the run. table : its arrays of points. plan : plan with the shared points. halo : halo
    exchange with other ranks.
    """

    def __init__(
        self, backend: Backend, table: ArrayTable, kernels: SimpleNamespace, plan: NumberedPlan, halo: Halo
    ) -> None:
        self.kernels, border = kernels, plan.border
        sizes = {rank: 3 * len(points) for rank, points in border.with_rank.items()}
        self.message = halo.message(sizes, sizes)
        points = border.points
        sent = np.concatenate([np.zeros(0, np.int64), *border.with_rank.values()])
        begin, entry = summands(border)
        self.kept = table.zeros(backend, "kept")
        values = {"shared": points, "sent": sent, "begin": begin, "entry": entry}
        uploaded = (table.upload(backend, name, array) for name, array in values.items())
        self.point, self._sent, self._begin, self._entry = uploaded

    def saving(self, momentum: Array) -> Launch:
        """Return the launch that saves the momenta of shared points and sets them to zero."""
        return partial(self.kernels.save_momenta, momentum, self.point, self.kept)

    def start(self, momentum: Array) -> None:
        """Send the contributions of this rank's elements and sources."""
        self.message.start(lambda: self.kernels.pack(momentum, self._sent, self.message.outgoing))

    def finish(self, momentum: Array) -> None:
        """Add the saved momenta and the sum over all ranks."""
        self.message.finish(
            lambda: self.kernels.unpack(
                momentum, self.kept, self.point, self._begin, self._entry, self.message.incoming
            )
        )


def summands(border: SharedPoints) -> tuple[np.ndarray, np.ndarray]:
    """Return (begin, entry): the received points that are added for each shared point, in ascending rank order.

    Those of points[n] are entry[begin[n]:begin[n + 1]]; -1 is this rank's contribution.
    """
    points = border.points
    rows, entries, first = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], 0
    for rank in sorted([*border.with_rank, border.rank]):
        if rank == border.rank:
            rows.append(np.arange(len(points)))
            entries.append(np.full(len(points), OWN))
            continue
        theirs = border.with_rank[rank]
        rows.append(np.searchsorted(points, theirs))
        entries.append(first + np.arange(len(theirs)))
        first += len(theirs)
    row = np.concatenate(rows)
    order = np.argsort(row, kind="stable")
    begin = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(points)))])
    return begin, np.concatenate(entries)[order]


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


def scatter_mesh(mesh: HexahedralMesh | None, part: np.ndarray | None, ranks: Ranks) -> HexahedralMesh:
    """Distribute to each rank its part of a mesh that only the root has. part : (m,), of each element, on the root."""
    pieces: list[tuple[object, ...] | None] = [None] * ranks.size
    if mesh is not None and part is not None:
        pieces = [mesh.part(np.flatnonzero(part == rank)) for rank in range(ranks.size)]
    return ranks.all_to_all(pieces)[0]
