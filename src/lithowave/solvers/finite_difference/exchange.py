"""Halo exchange between neighboring ranks of a finite-difference run.

Velocities are sent in 2 M ghost layers (M = order / 2), one message per step; the stresses in the inner M of them are
computed redundantly on both sides (communication reduction of AWP-ODC; here the neighbors at edges and corners have
separate messages, so that all are in flight at the same time).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lithowave.mesh.grid import BlockPartition, Grid, NodeRanges
from lithowave.solvers.finite_difference.law import FIELDS, VELOCITIES, state_arrays
from lithowave.solvers.finite_difference.tiles import common, whole_lines

if TYPE_CHECKING:
    from types import SimpleNamespace

    from lithowave.parallel.halo import Halo
    from lithowave.solvers.finite_difference.law import Fields

Step = tuple[int, int, int]


@dataclass(frozen=True)
class Subdomain:
    """Subdomain of a rank.

    blocks : partition of all ranks. rank : this rank. reach : M, the ghost layers that the rank also computes.
    """

    blocks: BlockPartition
    rank: int
    reach: int

    @property
    def own(self) -> NodeRanges:
        """Nodes of the global grid that this rank owns."""
        return self.blocks.own(self.rank)

    def grid(self) -> Grid:
        """Return the grid of the points that the rank computes: its own and ghosts."""
        return self.blocks.grid.part(self.blocks.with_ghost_layers(self.rank, self.reach))

    def local(self, ranges: NodeRanges) -> list[tuple[int, int]]:
        """Return ranges of the global grid relative to the first point of this rank's grid."""
        firsts = self.blocks.with_ghost_layers(self.rank, self.reach)
        return [(first - start, end - start) for (first, end), (start, _) in zip(ranges, firsts, strict=True)]

    def velocities(self) -> list[tuple[int, int]]:
        """Return the points of this rank's grid at which it computes velocities: along x including ghosts, so that rows
        of memory stay contiguous; the values received from their owners replace them."""
        columns = (0, self.grid().shape[0])
        return [columns, *self.local(self.own)[1:]]

    def inner(self, width: int, unit: int, shift: int = 0) -> list[tuple[int, int]]:
        """Return the own points farther than `width` from those of other ranks, in this rank's grid, along x without
        incomplete lines of `unit` columns, the first of which begins `shift` columns before the grid; may be empty."""
        found = []
        for axis, (first, end) in enumerate(self.own):
            low = first + (width if first > 0 else 0)
            high = end - (width if end < self.blocks.grid.shape[axis] else 0)
            found.append((low, high))
        (x, x_end), *others = self.local(found)
        ends = self.local(self.own)[0]
        found = [whole_lines((x, x_end), ends[1], shift, unit), *others]
        return found if all(first < end for first, end in found) else [(0, 0)] * 3

    @property
    def sent_width(self) -> int:
        """Number of layers of own velocities that neighbors need."""
        return 2 * self.reach

    def boxes_sent(self) -> Iterator[tuple[int, Step, NodeRanges]]:
        """Yield each neighbor, the direction to it, and the own nodes of the global grid that it needs."""
        for neighbor, step in self.blocks.neighbors(self.rank):
            yield neighbor, step, common(self.own, self.blocks.with_ghost_layers(neighbor, self.sent_width))

    def boxes_received(self) -> Iterator[tuple[int, Step, NodeRanges]]:
        """Yield each neighbor, the direction from it to this rank, and the nodes received from it."""
        wanted = self.blocks.with_ghost_layers(self.rank, self.sent_width)
        for neighbor, step in self.blocks.neighbors(self.rank):
            yield neighbor, tuple(-one for one in step), common(self.blocks.own(neighbor), wanted)

    def sent_values(self) -> int:
        """Return the number of values that this rank sends per step."""
        boxes = [box for _, _, box in self.boxes_sent()]
        return len(VELOCITIES) * sum(int(np.prod([end - first for first, end in box])) for box in boxes)


class FieldMessage:
    """Message with the velocities for the neighbors, packed by a kernel.

    Parameters
    ----------
    halo : halo exchange of the run. kernels : kernels of the solver. subdomain : boxes and their neighbors. strides :
    strides of the field arrays, in elements, along x, y, z. width : cells around the rank's grid in the arrays.
    """

    def __init__(
        self, halo: Halo, kernels: SimpleNamespace, subdomain: Subdomain, strides: Sequence[int], width: int
    ) -> None:
        self.kernels, self.subdomain, self.strides, self.width = kernels, subdomain, strides, width
        sent, sends = self._table(subdomain.boxes_sent())
        received, receives = self._table(subdomain.boxes_received())
        self.message = halo.message(sends, receives)
        upload = halo.backend.upload
        self._sent, self._received = upload(sent, np.int64), upload(received, np.int64)

    def _table(self, boxes: Iterator[tuple[int, Step, NodeRanges]]) -> tuple[np.ndarray, dict[int, int]]:
        """Return the table of `pack`, a row per field and box, and the number of values for each neighbor."""
        rows, counts, at = [], {}, 0
        for neighbor, _, ranges in boxes:
            (x, x_end), (y, y_end), (z, z_end) = self.subdomain.local(ranges)
            first = sum((start + self.width) * stride for start, stride in zip((x, y, z), self.strides, strict=True))
            size = (z_end - z) * (y_end - y) * (x_end - x)
            for name in VELOCITIES:
                shape = (z_end - z, y_end - y, x_end - x)
                rows.append((FIELDS.index(name), first, *shape, at, self.strides[2], self.strides[1]))
                at += size
                counts[neighbor] = counts.get(neighbor, 0) + size
        return np.array(rows, np.int64).reshape(-1, 8), counts

    def start(self, fields: Fields) -> None:
        """Send the present values of the fields after all work enqueued so far."""
        self.message.start(lambda: self.kernels.pack(state_arrays(fields), self._sent, self.message.outgoing))

    def finish(self, fields: Fields) -> None:
        """Make the received values available to work enqueued from now on."""
        self.message.finish(lambda: self.kernels.unpack(state_arrays(fields), self._received, self.message.incoming))

    def exchange(self, fields: Fields) -> None:
        """Send and receive, without work in between."""
        self.start(fields)
        self.finish(fields)
