"""Partition of the mesh among ranks, and the exchange of traces between them.

An element that begins a step immediately sends the traces that neighbors of the same cluster and of the faster one
need: for the latter the two halves of the step; a slower neighbor needs the mean of two steps, which is sent in the
second of them. All traces sent to a rank at a tick form one message. The clusters in it depend only on the highest
cluster that begins a step then: there are as many messages as clusters, and no message at ticks without traces.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol

import numpy as np

from lithowave.errors import InputError
from lithowave.mesh.partition import balanced_parts, bisect_grid, migrated, partition_graph, too_few
from lithowave.mesh.shared import find_shared_faces
from lithowave.mesh.tetrahedra import TetrahedralMesh
from lithowave.parallel.ranks import SINGLE_RANK, Ranks, collective_call
from lithowave.solvers.discontinuous_galerkin.meshing import (
    BuiltBox,
    MeshedModel,
    built_box,
    made_of,
    make_model,
    on_surfaces,
    refined_at_sources,
    split_box,
    usual_size,
)
from lithowave.solvers.discontinuous_galerkin.reference import face_mode_count

if TYPE_CHECKING:
    from types import SimpleNamespace

    from lithowave.backends.interface import Array, Backend
    from lithowave.description.experiment import Experiment
    from lithowave.parallel.halo import Halo
    from lithowave.solvers.discontinuous_galerkin.clusters import ClusteredPlan
    from lithowave.solvers.discontinuous_galerkin.tables import ElementTables


@dataclass(frozen=True)
class Traces:
    """Traces of one message, by rank. slots : (n, 2), see `arguments`. counts : number for each rank. soonest : minimum
    cluster of the own elements at these faces."""

    slots: np.ndarray
    counts: dict[int, int]
    soonest: int


class TracedSolver(Protocol):
    """What the exchange uses of a `DiscontinuousGalerkinSolver`. even, odd : traces of the elements."""

    @property
    def plan(self) -> ClusteredPlan: ...
    @property
    def backend(self) -> Backend: ...
    @property
    def kernels(self) -> SimpleNamespace: ...
    @property
    def tables(self) -> ElementTables: ...
    @property
    def even(self) -> Array: ...
    @property
    def odd(self) -> Array: ...


class TraceExchange:
    """Messages of a solver.

    Parameters
    ----------
    solver : object with plan, tables, kernels, even, odd. halo : halo exchange with other ranks.
    """

    def __init__(self, solver: TracedSolver, halo: Halo) -> None:
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

    def __init__(self, solver: TracedSolver, halo: Halo, sent: Traces, received: Traces, modes: int) -> None:
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


def traces_at(plan: ClusteredPlan, tables: ElementTables, last: int, sent: bool) -> Traces:
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


Clusters = Callable[[MeshedModel], np.ndarray]

# In updates of an isotropic element: cost of sending a trace, by the bytes that both move; of a message of any size,
# about 15 us, at typical rates of the devices.
TRACE_WORK, MESSAGE_WORK = 0.1, {"cpu": 20.0, "cuda": 7000.0}
LAYER_WORK = 1.6  # of an element in an absorbing layer over that of another one: measured on a CPU at order 5
RELAXATION_WORK = 0.17  # of each mechanism of attenuation of an element, in addition: measured as LAYER_WORK
ANISOTROPIC_WORK = 1.2  # of an element that is anisotropic, or adjacent to one: by `lithowave bench` on an H200


def make_local_mesh(experiment: Experiment, ranks: Ranks, clusters: Clusters, device: str) -> MeshedModel:
    """Return this rank's part of the mesh of a simulation, with its materials.

    clusters : function of a mesh with materials: the cluster of each element, followed by those across shared faces.
    device : name of the backend.

    Raises
    ------
    InputError : on all ranks, if the mesh file, its groups or the domain cannot be meshed on one of them.
    """
    if ranks.size == 1:
        return make_model(experiment)
    if experiment.solver.mesh is not None:
        return with_shared_faces(scatter_mesh(experiment, ranks, clusters, device), ranks)
    return build_local_mesh(experiment, ranks, clusters, device)


def build_local_mesh(experiment: Experiment, ranks: Ranks, clusters: Clusters, device: str) -> MeshedModel:
    """Return this rank's tetrahedra: each rank generates some columns, and no rank stores the global mesh.

    The work, including small elements around sources and LTS, is known only after generation. Ranks then pass elements
    on to balance the work.
    """
    box = built_box(experiment)
    columns = bisect_grid(np.ones(box.plan.units), ranks.size)[ranks.rank]
    mesh = collective_call(ranks, lambda: split_box(experiment, box, columns))
    refined = refined_at_sources(mesh, experiment, box, ranks)
    mesh = collective_call(ranks, lambda: on_surfaces(experiment, refined, box))
    model = _made_of(experiment, mesh, box, ranks)
    rank = partition_elements(model, clusters(model), ranks.size, device, ranks)
    return _made_of(experiment, migrated(model.mesh, rank, ranks).along_curve(), box, ranks)


def partition_elements(
    model: MeshedModel, cluster: np.ndarray, count: int, device: str, ranks: Ranks = SINGLE_RANK, graph: bool = False
) -> np.ndarray:
    """Return the part of each element, of `count` parts, that minimizes the time of a step among several partitions.

    Candidates are vertical planes: the same for all clusters, separate for each cluster, or separate for clusters with
    work for all ranks; and with `graph`, if one rank has the mesh, METIS. device : the name of its backend.

    InputError: a part is empty.
    """
    elements = model.mesh.element_count
    work, own = element_work(model, cluster), cluster[:elements]
    centres = model.mesh.element_vertices().mean(axis=1)
    clusters = 1 + int(ranks.largest(float(cluster.max(initial=0))))
    sizes = ranks.total(np.bincount(own, minlength=clusters))
    large = np.flatnonzero(sizes >= count * MESSAGE_WORK[device])
    joined_kinds = np.searchsorted(large, own)
    tried = [
        balanced_parts(centres, work, count, ranks, kind) for kind in (np.zeros_like(own), own, joined_kinds)
    ]
    if graph and elements >= count and find_spec("pymetis") is not None:
        with suppress(InputError):
            tried.append(graph_parts(model, cluster, count))
    costs = [step_cost(model, cluster, part, count, device, ranks) for part in tried]
    best = tried[int(np.argmin(costs))]
    if ranks.total(np.bincount(best, minlength=count)).min() == 0:
        raise too_few(int(sizes.sum()), count)
    return best


def step_cost(
    model: MeshedModel, cluster: np.ndarray, part: np.ndarray, count: int, device: str, ranks: Ranks = SINGLE_RANK
) -> float:
    """Return the time of a step of the run, in updates of an element: ranks wait for each other when a step of a
    cluster with shared faces begins. The time is the sum over these of the maximum work of a rank and of a message,
    plus the maximum over ranks of the sent data."""
    across, own = model.mesh.neighbors, cluster[: len(part)]
    clusters = 1 + int(ranks.largest(float(cluster.max(initial=0))))
    ticks = 1 << (clusters - 1)
    weights = element_work(model, cluster) * 2.0**own
    sizes = ranks.total(np.bincount(part * clusters + own, weights, count * clusters)).reshape(count, clusters)
    often = np.maximum(1, ticks >> np.arange(1, clusters + 1))
    every = model.shared.with_ghosts(part)
    element, face = np.nonzero(across >= 0)
    other = across[element, face] // 4
    far = part[element] != every[other]
    traces = ticks * traces_sent(cluster[other[far]])
    sent = ranks.total(np.bincount(part[element[far]], traces, count))
    first = ranks.smallest(int(own[element[far]].min(initial=clusters)))  # cluster that is sent
    messages = int(often[first:].sum())
    updates = (often * sizes.cumsum(axis=1).max(axis=0)).sum()
    return float(updates + MESSAGE_WORK[device] * messages + TRACE_WORK * sent.max())


def element_work(model: MeshedModel, cluster: np.ndarray) -> np.ndarray:
    """Return the work of each element in a step of the run, relative to an isotropic element in cluster 0."""
    across, anisotropic = model.mesh.neighbors, model.materials.anisotropic
    count = model.mesh.element_count
    slow = anisotropic[:count] | ((across >= 0) & anisotropic[across // 4]).any(axis=1)
    inside = layer_elements(model)
    own = np.where(slow, ANISOTROPIC_WORK, 1.0) * np.where(inside, LAYER_WORK, 1.0)
    return 0.5 ** cluster[:count] * (own + RELAXATION_WORK * model.materials.mechanisms(count))


def layer_elements(model: MeshedModel) -> np.ndarray:
    """True for the elements of an absorbing layer, of a mesh with materials or of a plan."""
    return (model.layer_rates() if isinstance(model, MeshedModel) else model.layer).inside


def _made_of(experiment: Experiment, mesh: TetrahedralMesh, box: BuiltBox, ranks: Ranks) -> MeshedModel:
    return with_shared_faces(collective_call(ranks, lambda: made_of(experiment, mesh, box)), ranks)


def scatter_mesh(experiment: Experiment, ranks: Ranks, clusters: Clusters, device: str) -> MeshedModel:
    """Return the part of this rank of a mesh that the first rank reads and distributes."""
    parts: list[MeshedModel | None] = [None] * ranks.size

    def read() -> None:
        if not ranks.is_root:
            return
        model = make_model(experiment)
        rank = partition_elements(model, clusters(model), ranks.size, device, graph=True)
        size = model.element_size or usual_size(model.mesh)
        for number in range(ranks.size):
            parts[number] = replace(part_of(model, np.flatnonzero(rank == number)), element_size=size)

    collective_call(ranks, read)
    return ranks.all_to_all(parts if ranks.is_root else [None] * ranks.size)[0]


def graph_parts(model: MeshedModel, cluster: np.ndarray, count: int) -> np.ndarray:
    """Return the part of each element of a mesh, by METIS; faces are weighted by the traces that they send."""
    across = model.mesh.neighbors
    there = across >= 0
    other = across[there] // 4
    starts = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
    own = np.repeat(cluster, there.sum(axis=1))
    traces = traces_sent(own) + traces_sent(cluster[other])
    return partition_graph((starts, other), element_work(model, cluster), count, traces)


def traces_sent(cluster: np.ndarray) -> np.ndarray:
    """Return the number of traces a neighbor sends to an element of this cluster per tick: one for each step of this
    cluster, since a slower neighbor sends halves, and a faster one means."""
    return 0.5**cluster


def part_of(model: MeshedModel, elements: np.ndarray) -> MeshedModel:
    """Return some elements of a global mesh; faces between them and other elements are open."""
    place = np.full(model.mesh.element_count, -1)
    place[elements] = np.arange(len(elements))
    faces = {}
    for kind, every in model.faces.items():
        own = every[place[every[:, 0]] >= 0]
        faces[kind] = np.column_stack([place[own[:, 0]], own[:, 1]])
    return replace(model, mesh=model.mesh.part(elements), materials=model.materials.reordered(elements), faces=faces)


def with_shared_faces(model: MeshedModel, ranks: Ranks) -> MeshedModel:
    """Return the model with the faces shared with other ranks, and the materials across them."""
    shared = find_shared_faces(model.mesh, ranks)
    return replace(
        model, mesh=shared.connected(model.mesh), shared=shared, materials=model.materials.with_ghosts(shared)
    )  # fmt: skip
