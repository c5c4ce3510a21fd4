"""Exchange of traces at faces shared with other ranks.

An element that begins a step immediately sends the traces that neighbors of the same cluster and of the faster one
need: for the latter the two halves of the step; a slower neighbor needs the mean of two steps, which is sent in the
second of them. All traces sent to a rank at a tick form one message. The clusters in it depend only on the highest
cluster that begins a step then: there are as many messages as clusters, and no message at ticks without traces.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from lithowave.solvers.discontinuous_galerkin.basis import face_mode_count


@dataclass(frozen=True)
class Traces:
    """Traces of one message, by rank. slots : (n, 2), see `arguments`. counts : number for each rank. soonest : minimum
    cluster of the own elements at these faces."""

    slots: np.ndarray
    counts: dict[int, int]
    soonest: int


class TraceExchange:
    """Messages of a solver.

    Parameters
    ----------
    solver : object with plan, tables, kernels, even, odd. halo : halo exchange with other ranks.
    """

    def __init__(self, solver: Any, halo: Any) -> None:
        self._messages: list[TraceMessage | None] = [None] * solver.plan.clustering.count
        if not halo.alone:
            modes = face_mode_count(solver.plan.order)
            for last in range(len(self._messages)):
                sent, received = (traces_at(solver.plan, solver.tables, last, side) for side in (True, False))
                message = TraceMessage(solver, halo, sent, received, modes)  # in the same order on all ranks
                self._messages[last] = message if sent.counts or received.counts else None

    def at(self, last: int) -> TraceMessage | None:
        """Return the exchange when steps of the clusters up to `last` begin, or None."""
        return self._messages[last]


class TraceMessage:
    """Traces exchanged at some of the ticks."""

    def __init__(self, solver: Any, halo: Any, sent: Traces, received: Traces, modes: int) -> None:
        self._kernels, self._fields = solver.kernels, (solver.even, solver.odd)
        self._modes, self._soonest = modes, received.soonest
        self._sent, self._received = (solver.backend.upload(traces.slots, np.int32) for traces in (sent, received))
        sizes = ({rank: 3 * modes * count for rank, count in traces.counts.items()} for traces in (sent, received))
        self._message = halo.message(*sizes)

    def due(self, tick: int) -> int:
        """Return the first tick at which traces sent at `tick` are read."""
        return ((tick >> self._soonest) + 1) << self._soonest

    def start(self, tick: int) -> None:
        """Send the traces of the elements that began a step at this tick."""
        arguments = *self._fields, self._sent, tick, self._modes, self._message.outgoing
        self._message.start(partial(self._kernels.pack_traces, *arguments))

    def finish(self, tick: int) -> None:
        """Receive the traces that the other ranks sent at this tick, and write them to their slots."""
        arguments = *self._fields, self._received, tick, self._modes, self._message.incoming
        self._message.finish(partial(self._kernels.unpack_traces, *arguments))


def traces_at(plan: Any, tables: Any, last: int, sent: bool) -> Traces:
    """Return the traces sent, or received, at ticks at which steps of the clusters up to `last` begin."""
    shared, cluster, links = plan.shared, plan.clustering.cluster, tables.links
    element, face = shared.faces.T
    place = tables.arrangement.place[element]
    own, other = cluster[element], cluster[plan.element_count :]
    # The sending side and the receiving side of each face.
    (source, target), first = ((own, other), 4 * place + face) if sent else ((other, own), links.neighbor[place, face])
    goes = np.where(target > source, source == last, source <= last)
    halves = goes & (target < source)
    slots = np.column_stack([first, links.second[place, face] >> 2])
    rows, half = np.nonzero(np.column_stack([goes, halves]))
    found = np.column_stack([slots[rows, half], np.maximum(own, other)[rows]])
    return Traces(found, shared.counts(rows), int(own[rows].min(initial=plan.clustering.count)))
