"""Sections of a rank's grid that a step updates sequentially, with their faces and sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lithowave.mesh.grid import NodeRanges
from lithowave.solvers.common.source_amplitudes import AmplitudeTable, SourceAmplitudes
from lithowave.solvers.finite_difference.coefficients import face_closure
from lithowave.solvers.finite_difference.faces import ClosedFace, closed_faces, unsigned
from lithowave.solvers.finite_difference.moments import MomentList
from lithowave.solvers.finite_difference.passes import column_shift
from lithowave.solvers.finite_difference.point_lists import SourceList
from lithowave.solvers.finite_difference.points import PointStencil
from lithowave.solvers.finite_difference.source_interfaces import SourceColumns
from lithowave.solvers.finite_difference.tiles import around


@dataclass(frozen=True)
class Region:
    """Boxes of points.

    boxes : argument of `update_velocity` and `update_stress`. closed : the sections of free and rigid faces in them,
    each with the arrays of its closure. sources : sources of one kind that change points in them.
    """

    boxes: np.ndarray
    closed: list[tuple[ClosedFace, tuple[Any, ...]]]
    sources: SourceList | MomentList

    @property
    def free_planes(self) -> list[int]:
        """Indices of the planes of nodes on the free surface."""
        return sorted({face.plane for face, _ in self.closed if face.kind == "free"})

    def rigid_faces(self) -> list[ClosedFace]:
        """Sections of rigid faces."""
        return [face for face, _ in self.closed if face.kind == "rigid"]


def box_table(boxes: Sequence[NodeRanges]) -> np.ndarray:
    """Return boxes as the kernels read them, (n, 6)."""
    return np.array(boxes, np.int64).reshape(-1, 6)


def closures(plan: Any, backend: Any, boxes: Sequence[NodeRanges]) -> list[tuple[ClosedFace, tuple[Any, ...]]]:
    """Return the closed faces in some boxes of a grid, with their changes and tuples of their lengths."""
    upload = backend.upload
    return [
        (
            face,
            (
                upload(face.node_change), upload(face.half_change),
                unsigned(tuple(range(face.node_change.shape[1]))), unsigned(tuple(range(face.half_change.shape[1]))),
            ),
        )
        for face in closed_faces(plan.grid, plan.faces, face_closure(plan.order), plan.halo, boxes)
    ]  # fmt: skip


class StepRegions:
    """Regions of a step.

    stress, velocity : all points at which they are computed. outer_velocity, inner_velocity : the points that other
    ranks need, and the rest; only with several ranks.

    Parameters
    ----------
    plan, backend, stencil, material : objects of the rank. sources : point sources of the run. columns : moduli near
    them.
    """

    def __init__(
        self, plan: Any, backend: Any, stencil: PointStencil, material: Any, sources: Sequence[Any],
        columns: SourceColumns,
    ) -> None:  # fmt: skip
        self._plan, self._backend, self._stencil, self._material = plan, backend, stencil, material
        self._columns = columns
        self._moments = [source for source in sources if source.moment is not None]
        self._forces = [source for source in sources if source.force is not None]
        self._lists: list[SourceList | MomentList] = []
        whole = [(0, count) for count in plan.grid.shape]
        subdomain = plan.subdomain
        self.stress = self._region([whole], stress=True)
        if subdomain is None:
            self.velocity = self._region([whole], stress=False)
            return
        velocities = subdomain.velocities()
        self.velocity = self._region([velocities], stress=False)
        inner = subdomain.inner(subdomain.sent_width, backend.aligned_columns, column_shift(plan))
        self.outer_velocity = self._region(around(inner, velocities), stress=False)
        self.inner_velocity = self._region(_if_any(inner), stress=False)

    @property
    def act(self) -> bool:
        """True if there are sources in this subdomain."""
        return any(one.count for one in self._lists)

    def tables(self) -> list[AmplitudeTable]:
        """Return the amplitude tables of all sources in this subdomain."""
        return [one.table for one in self._lists if one.count]

    def _region(self, boxes: Sequence[NodeRanges], stress: bool) -> Region:
        sources = self._moment_list() if stress else self._force_list(boxes)
        self._lists.append(sources)
        return Region(box_table(boxes), closures(self._plan, self._backend, boxes) if boxes else [], sources)

    def _moment_list(self) -> MomentList:
        """Return the moments; they change all points of the rank."""
        return MomentList(
            self._backend, self._stencil, self._moments, self._plan.schedule, self._columns
        )

    def _force_list(self, boxes: Sequence[NodeRanges]) -> SourceList:
        """Return the forces; weights include force, volume, time step and buoyancy."""
        step = self._plan.schedule.time_step
        amplitudes = SourceAmplitudes(self._forces, self._plan.schedule, 0.5)
        strengths = step * np.array([source.force for source in self._forces], float).reshape(-1, 3)
        return SourceList(
            self._backend, self._stencil, self._forces, strengths, self._buoyancy, amplitudes, boxes, self._columns
        )

    def _buoyancy(self, name: str, index: np.ndarray) -> np.ndarray:
        return self._material.buoyancy(name, index, self._stencil.strides)


def _if_any(box: NodeRanges) -> list[NodeRanges]:
    return [box] if all(first < end for first, end in box) else []
