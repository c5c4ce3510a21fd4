"""Lists of the grid points and weights of sources and receivers, in device memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lithowave.mesh.grid import NodeRanges
from lithowave.solvers.common.records import Records
from lithowave.solvers.common.source_amplitudes import AmplitudeTable, SourceAmplitudes
from lithowave.solvers.finite_difference.fields import FIELDS, STRESSES, VELOCITIES
from lithowave.solvers.finite_difference.interface_reading import InterfaceReading
from lithowave.solvers.finite_difference.points import PointStencil
from lithowave.solvers.finite_difference.source_interfaces import SourceColumns


class SourceList:
    """Forces: the grid points that they change, and the change per unit of amplitude.

    Entries that change the same point of the same field are contiguous, so that a thread can add them in order.

    Parameters
    ----------
    strengths : (n_sources, 3), force times time step. buoyancy : function that returns 1 / density for points of a
    field. amplitudes : amplitudes as functions of time. boxes : boxes of points (first, end along x, y, z), relative to
    the first one of the arrays; only points in them are changed. columns : moduli near the sources; None for a uniform
    medium.
    """

    kernel = "inject"

    def __init__(
        self,
        backend: Any,
        stencil: PointStencil,
        sources: Sequence[Any],
        strengths: np.ndarray,
        buoyancy: Callable[[str, np.ndarray], np.ndarray],
        amplitudes: SourceAmplitudes,
        boxes: Sequence[NodeRanges],
        columns: SourceColumns | None = None,
    ) -> None:
        number, target, weight, owner = _entries(stencil, sources, strengths, buoyancy, columns)
        inside = stencil.lie_in(target, boxes)
        number, target, weight, owner = number[inside], target[inside], weight[inside], owner[inside]
        order = np.lexsort((owner, target, number))
        number, target, weight, owner = number[order], target[order], weight[order], owner[order]
        new = np.concatenate([[True], (np.diff(number) != 0) | (np.diff(target) != 0)])[: target.size]
        begin = np.append(np.flatnonzero(new), target.size)
        self.backend, self.count = backend, int(new.sum())
        self._lists = (
            backend.upload(number[new], np.int64),
            backend.upload(target[new], np.int64),
            backend.upload(begin, np.int64),
            backend.upload(weight, np.float64),
            backend.upload(owner, np.int64),
        )
        self.table = AmplitudeTable(backend, amplitudes, len(sources))

    def entries(self) -> tuple[np.ndarray, ...]:
        """Index of the field, index in the field, weight and index of the source of every entry, as on the device."""
        number, target, begin, weight, owner = map(self.backend.download, self._lists)
        counts = np.diff(begin)
        return np.repeat(number, counts), np.repeat(target, counts), weight, owner

    def arguments(self) -> tuple[Any, ...]:
        """Arguments of `inject` between the fields and the row."""
        return *self._lists, self.table.array


def _entries(
    stencil: PointStencil,
    sources: Sequence[Any],
    strengths: np.ndarray,
    buoyancy: Callable[[str, np.ndarray], np.ndarray],
    columns: SourceColumns | None,
) -> tuple[np.ndarray, ...]:
    """Return the field index, the index in the field, the weight and the source of every entry."""
    none = np.zeros(0, np.int64)
    parts: list[tuple[np.ndarray, ...]] = [(none, none, np.zeros(0), none)]
    for component, name in enumerate(VELOCITIES):
        acting = np.flatnonzero(strengths[:, component]) if len(sources) else np.zeros(0, int)
        if acting.size:
            positions = np.array([sources[number].position for number in acting], float)
            sides = None if columns is None else InterfaceReading(columns, stencil, positions, stress=False)
            weights = stencil.sources(name, positions, sides)
            owner = acting[weights.owner]
            weight = weights.weight * strengths[owner, component]
            for field in np.unique(weights.field).tolist():
                some = weights.field == field
                weight[some] *= buoyancy(FIELDS[field], weights.index[some])
            parts.append((weights.field, weights.index, weight, owner))
    return tuple(np.concatenate(column) for column in zip(*parts, strict=True))


class ReceiverList:
    """Receivers and their recorded values.

    Each rank has the receivers that may read its nodes; the contributions of the ranks add up. numbers : their indices.

    Parameters
    ----------
    positions : (n, 3), m. clearance : cells from each to the nearest source; None without sources. columns : moduli
    near the receivers; None for a uniform medium.
    """

    def __init__(
        self, backend: Any, stencil: PointStencil, positions: np.ndarray, clearance: np.ndarray | None = None,
        columns: SourceColumns | None = None,
    ) -> None:  # fmt: skip
        self.backend, self.stencil, self.records = backend, stencil, Records(backend)
        self.numbers = np.flatnonzero(stencil.may_read(positions))
        self.positions = positions[self.numbers]
        self.clearance = None if clearance is None else clearance[self.numbers]
        self._columns = columns

    def start(self, capacity: int, stress: bool) -> None:
        """Create the lists, and space for `capacity` records."""
        names = VELOCITIES + (STRESSES if stress else ())
        sides = None if self._columns is None else InterfaceReading(self._columns, self.stencil, self.positions, stress)
        weights = self.stencil.receivers(names, self.positions, self.clearance, sides)
        self._lists = (
            self.backend.upload(weights.field, np.int64),
            self.backend.upload(weights.index, np.int64),
            self.backend.upload(weights.weight, np.float64),
            self.backend.upload(weights.begin, np.int64),
        )
        self.records.start((capacity, len(names), len(self.positions)), np.float64)

    def arguments(self) -> tuple[Any, ...]:
        """Return the arguments of `sample` after the fields."""
        return *self._lists, self.records.array, self.records.slot


def split_records(parts: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return velocity (count, n_receivers, 3) and, if present, stress (count, n_receivers, 6)."""
    block = np.moveaxis(parts["records"], 1, 2)
    found = {"velocity": block[..., :3].copy()}
    return found | ({"stress": block[..., 3:].copy()} if block.shape[-1] > 3 else {})
