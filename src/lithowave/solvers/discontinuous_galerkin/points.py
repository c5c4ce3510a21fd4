"""Points in tetrahedra: their location, and samples of the fields there.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

import numpy as np

from lithowave.backends.loops import exact_part, over_parts
from lithowave.mesh.tetrahedra import BLOCK, TetrahedralMesh
from lithowave.solvers.common.kernels import Launch
from lithowave.solvers.discontinuous_galerkin.reference import basis_values
from lithowave.solvers.elements.locations import PointCells, PointLocations
from lithowave.solvers.elements.solver import Samples

if TYPE_CHECKING:
    from types import SimpleNamespace

    from lithowave.backends.interface import Array, Backend
    from lithowave.solvers.discontinuous_galerkin.clusters import ClusteredPlan
    from lithowave.solvers.discontinuous_galerkin.materials import Group
    from lithowave.solvers.discontinuous_galerkin.tables import ElementTables

TOLERANCE = 1e-7  # barycentric coordinates by which a point in an element may be outside of it
PART = 64  # blocks of elements that are examined at a time


def locate_points(mesh: TetrahedralMesh, positions: np.ndarray, tolerance: float = TOLERANCE) -> PointLocations:
    """Return all elements that contain each of `positions` (points, 3), m; points in no element have no row.

    tolerance : distance in barycentric coordinates at which a point outside all elements is accepted and moved onto the
    nearest one. Elements touch a curved surface only at their vertices.
    """
    positions = np.asarray(positions, float).reshape(-1, 3)
    found = _search(mesh, positions, TOLERANCE)
    if tolerance > TOLERANCE:
        lost = found.missing(len(positions))
        near = _search(mesh, positions[lost], tolerance)
        moved = replace(near, reference=_moved_onto(near.reference), excess=excess_of(near.reference))
        found = found.with_nearest(moved, lost)
    return found


def excess_of(reference: np.ndarray) -> np.ndarray:
    """Return the distance of points outside an element: minus the minimum barycentric coordinate, positive outside."""
    return -np.minimum(reference.min(axis=1), 1.0 - reference.sum(axis=1))


def _moved_onto(reference: np.ndarray) -> np.ndarray:
    """Return reference coordinates (rows, 3) of points moved onto their elements."""
    inside = np.clip(reference, 0.0, 1.0)
    return inside / np.maximum(1.0, inside.sum(axis=1))[:, None]


def _search(mesh: TetrahedralMesh, positions: np.ndarray, tolerance: float) -> PointLocations:
    """Return the elements within `tolerance` of each point."""
    if not len(positions) or not mesh.element_count:
        return PointLocations.none()
    cells, blocks = PointCells.of(positions), _blocks_near(mesh, positions, tolerance)

    def examine(part: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        some = (BLOCK * blocks[part, None] + np.arange(BLOCK)).ravel()
        some = some[some < mesh.element_count]
        elements = mesh.elements[some]
        low, high = np.empty((len(elements), 3)), np.empty((len(elements), 3))
        _bound(elements, mesh.vertices, tolerance + 1e-9, low, high)
        element, point = cells.inside(low, high)
        reference = np.empty((len(point), 3))
        _invert(elements, mesh.vertices, positions, element, point, reference)
        there = excess_of(reference) <= tolerance
        return point[there], some[element[there]], reference[there]

    parts = over_parts(examine, len(blocks), PART)
    if not parts:
        return PointLocations.none()
    point, element, reference = (np.concatenate(part) for part in zip(*parts, strict=True))
    order = np.lexsort((element, point))
    point, element = point[order], element[order]
    return PointLocations(point, element, reference[order], np.zeros(len(order)), mesh.keys_of_elements[element])


def _blocks_near(mesh: TetrahedralMesh, positions: np.ndarray, tolerance: float) -> np.ndarray:
    """Return the blocks of elements whose box, enlarged as those of elements, touches the box around the points."""
    low, high = mesh.block_bounds[:, 0], mesh.block_bounds[:, 1]
    margin = (tolerance + 1e-9) * (high - low)
    apart = (low - margin > positions.max(axis=0)) | (high + margin < positions.min(axis=0))
    return np.flatnonzero(~apart.any(axis=1))


@exact_part
def _bound(elements, vertices, margin, low, high):  # pragma: no cover - compiled
    """Compute the ends (n, 3) of the boxes around elements, enlarged on each side by a fraction of their size."""
    for element in range(len(elements)):
        for axis in range(3):
            least = most = vertices[elements[element, 0], axis]
            for corner in range(1, 4):
                position = vertices[elements[element, corner], axis]
                least, most = min(least, position), max(most, position)
            low[element, axis] = least - margin * (most - least)
            high[element, axis] = most + margin * (most - least)


@exact_part
def _invert(elements, vertices, positions, element, point, reference):  # pragma: no cover - compiled
    """Compute the reference coordinates (n, 3) of points in elements, by Cramer's rule."""
    edges, place = np.empty((3, 3)), np.empty(3)
    for row in range(len(point)):
        corners = elements[element[row]]
        for c in range(3):
            origin = vertices[corners[0], c]
            place[c] = positions[point[row], c] - origin
            for edge in range(3):
                edges[edge, c] = vertices[corners[edge + 1], c] - origin
        for edge in range(3):
            a, b = edges[(edge + 1) % 3], edges[(edge + 2) % 3]
            above = below = 0.0
            for c in range(3):
                d, e = (c + 1) % 3, (c + 2) % 3
                normal = a[d] * b[e] - a[e] * b[d]
                above += normal * place[c]
                below += normal * edges[edge, c]
            reference[row, edge] = above / below


class GalerkinSolver(Protocol):
    """What the readings use of a `DiscontinuousGalerkinSolver`."""

    @property
    def plan(self) -> ClusteredPlan: ...
    @property
    def backend(self) -> Backend: ...
    @property
    def kernels(self) -> SimpleNamespace: ...
    @property
    def tables(self) -> ElementTables: ...
    def completion(self, group: Group, blocks: Array, out: Array, out_first: int) -> Launch: ...


class TetrahedralSamples(Samples):
    """Points at which velocity and stress are read, and the blocks that must be complete for this."""

    def prepare(self, solver: GalerkinSolver) -> None:
        """See `Samples`."""
        plan, backend, tables = solver.plan, solver.backend, solver.tables
        arrangement = tables.arrangement
        block, lane = np.divmod(arrangement.place[self.locations.element], arrangement.layout.lanes)
        blocks = np.unique(block)
        self._parts = []
        for group in arrangement.groups:
            first, end = np.searchsorted(blocks, [group.first, group.end])
            if end > first:
                self._parts.append((group, backend.upload(blocks[first:end], np.int32), int(first)))
        self._completed = backend.zeros(arrangement.layout.coefficients(max(1, len(blocks)), tables.modes))
        self._base = backend.upload(tables.index(np.searchsorted(blocks, block), lane, 0, 0), np.int64)
        self._values = backend.upload(basis_values(plan.order, self.locations.reference).T)

    def launches(self, solver: GalerkinSolver, out: Array, slot: Array) -> list[Launch]:
        """See `Samples`; with 9 rows velocity is followed by the stress."""
        if not self.count:
            return []
        completing = [solver.completion(group, blocks, self._completed, first) for group, blocks, first in self._parts]
        return [*completing, partial(solver.kernels.sample, self._completed, self._base, self._values, out, slot)]

    def tensors(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Return ``stress`` (times, locations, 6), Pa."""
        return {"stress": rows}
