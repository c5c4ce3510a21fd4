"""Discontinuous Galerkin solver: the arrays of one run, and its time step."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

from lithowave.parallel.halo import Halo, single_rank_halo
from lithowave.process import phase
from lithowave.solvers.common.kernels import Launch, captured
from lithowave.solvers.discontinuous_galerkin.materials import QUANTITIES, STRESSES
from lithowave.solvers.discontinuous_galerkin.partition import TraceExchange
from lithowave.solvers.discontinuous_galerkin.plan import DiscontinuousGalerkinPlan
from lithowave.solvers.discontinuous_galerkin.points import TetrahedralSamples
from lithowave.solvers.discontinuous_galerkin.reference import mode_count
from lithowave.solvers.discontinuous_galerkin.sources import SourceList, SourceSums, spread_of
from lithowave.solvers.discontinuous_galerkin.tables import ElementTables
from lithowave.solvers.elements.locations import locate_sources
from lithowave.solvers.elements.solver import ElementSolver, StateRows
from lithowave.solvers.interface import Placement

if TYPE_CHECKING:
    from lithowave.backends.interface import Array, Backend, PendingCopy
    from lithowave.description.experiment import Experiment
    from lithowave.description.receivers import Receiver
    from lithowave.description.sources import PointSource
    from lithowave.solvers.discontinuous_galerkin.materials import Group

PACKAGE = "lithowave.solvers.discontinuous_galerkin"
KERNELS = ("kernels",)
CHUNK = 1024  # blocks that are completed at a time for a checkpoint


class DiscontinuousGalerkinSolver(ElementSolver):
    """Steps of arbitrary order on tetrahedra; see `kernels` for the scheme and `clusters` for LTS.

    A step of the run is one of the largest cluster. Between two steps the coefficients lack the contributions of the
    faces in the current step; `complete` adds them for the present time. All fields are at the same time.

    Parameters
    ----------
    plan : mesh, order, time steps. experiment : sources and receivers. backend : owner of the arrays. halo : halo
    exchange with other ranks.
    """

    plan: DiscontinuousGalerkinPlan

    staggered = False
    record_rows, displacement_rows = QUANTITIES, 6
    make_samples = TetrahedralSamples

    def __init__(
        self, plan: DiscontinuousGalerkinPlan, experiment: Experiment, backend: Backend, halo: Halo | None = None
    ) -> None:
        self.plan, self.backend = plan, backend
        with phase("kernels"):
            self.kernels = backend.kernels(PACKAGE, *KERNELS, order=plan.order, precision=backend.precision)
        with phase("tables of elements"):
            self.tables = ElementTables(backend, plan, self.kernels.layout, self.kernels.pack_faces)
        with phase("kernels"):
            for group in self.tables.arrangement.groups:
                self.kernels.prepare(group.variant, group.end - group.first)
        self._allocate()
        self.exchange = TraceExchange(self, halo or single_rank_halo(backend))
        with phase("sources"):
            self._prepare_sources(experiment)
        self.prepare_readings(experiment)
        self._steps: dict[tuple[int, bool], list[Launch]] = {}

    def _allocate(self) -> None:
        fields = self.tables.fields.allocate(self.backend, "field")
        self.coefficients, self.own, self.even, self.odd = fields.values()
        self._pending, self._parity = False, 0

    def _prepare_sources(self, experiment: Experiment) -> None:
        plan, self.sources = self.plan, []
        self._source_sums: list[SourceSums] = []
        sources = experiment.acquisition.sources
        if not sources:
            return
        spread = spread_of(plan, experiment)
        found = locate_sources(plan, sources, spread)
        for cluster in np.unique(plan.clustering.cluster[found.locations.element]).tolist():
            for outer in (True, False):
                made = SourceList(self.backend, plan, self.tables, sources, spread, found, cluster, outer)
                self._source_sums.append(made.sums)
                if made.count:
                    self.sources.append(made)

    # ------------------------------------------------------------------------------------------------ the step

    def advance(self, step: int) -> None:
        """Advance from `step` to `step` + 1."""
        for sources in self.sources:
            finer = self.plan.clustering.count - 1 - sources.cluster
            sources.row.begin(step << finer, 1 << finer)
        self._parity = step & 1
        if self.moment not in self._steps:
            self._steps[self.moment] = self._step_launches(*self.moment)
        for part in self._steps[self.moment]:
            part()
        self._pending, self._parity = True, 1 - self._parity

    @property
    def moment(self) -> tuple[int, bool]:
        """Return the parity of the number of steps, and True while a step is in progress."""
        return self._parity, self._pending

    def _step_launches(self, parity: int, pending: bool) -> list[Launch]:
        """Return the steps of all clusters in a step of the run and, between them, the exchanges with other ranks.

        The blocks for which other ranks wait come first; a message is finished before it is read, or before another one
        is sent. On one rank all launches are one captured list.
        """
        count, ticks = self.plan.clustering.count, self.plan.clustering.ticks
        parts: list[Launch] = []
        work: list[Launch] = []
        underway = None  # a message, and the tick at which it was sent

        def between(function: Callable[..., None], *arguments: int) -> None:
            if work:
                parts.append(captured(self.backend, work))
                work.clear()
            parts.append(partial(function, *arguments))

        for tick in range(ticks):
            now = parity * ticks + tick
            # The clusters whose step begins: all c for which 2^c divides the tick.
            last = count - 1 if tick == 0 else (tick & -tick).bit_length() - 1
            message = self.exchange.at(last)
            if underway and (message or now >= underway[0].due(underway[1])):
                between(underway[0].finish, underway[1])
                underway = None
            work += self._cluster_launches(now, last, pending or tick > 0, True)
            if message:
                between(message.start, now)
                underway = message, now
            work += self._cluster_launches(now, last, pending or tick > 0, False)
        if underway:
            between(underway[0].finish, underway[1])
        elif work:
            parts.append(captured(self.backend, work))
        return parts

    def _cluster_launches(self, tick: int, last: int, pending: bool, outer: bool) -> list[Launch]:
        """Return steps of the outer, or the inner, elements of the clusters up to `last`, which begin at this tick."""
        steps: list[tuple[int, Launch]] = []
        for group in self.tables.arrangement.groups:
            if group.outer == outer and group.ends[last] > group.first:
                step, kind = self.kernels.step(*group.variant), self.tables.kinds[group.kind]
                state = kind.memory, kind.relaxation, self.tables.recursion
                end = group.ends[last]
                launch = partial(step, *self._fields(group), *state, group.first, end, tick, int(pending))
                steps.append((end - group.first, launch))
        largest_first = sorted(steps, key=itemgetter(0), reverse=True)
        acting = [sources for sources in self.sources if sources.outer == outer and sources.cluster <= last]
        return [
            *self._side_by_side([[launch] for _, launch in largest_first]), *self._injection_launches(acting, tick)
        ]  # fmt: skip

    def _injection_launches(self, acting: Sequence[SourceList], tick: int) -> list[Launch]:
        """Return the launches that add sources in the steps that begin at this tick."""
        of_arrays: dict[int, list[Launch]] = {}
        for sources in acting:
            count = tick >> sources.cluster
            arrays = {
                "coefficients": self.coefficients,
                "own": self.own,
                "sent": self.odd if count & 1 else self.even,
                "half of slower": self.odd if count >> 1 & 1 else self.even,
            }
            for name, lists in sources.arguments():
                inject = partial(self.kernels.inject, arrays[name], *lists)
                of_arrays.setdefault(id(arrays[name]), []).append(inject)
        counting = [[partial(self.kernels.count_step, sources.row.array)] for sources in acting]
        return [*self._side_by_side(list(of_arrays.values())), *self._side_by_side(counting)]

    def _side_by_side(self, queues: list[list[Launch]]) -> list[Launch]:
        """Return the launches of independent lists, which run at the same time on one rank: so the last blocks of a
        launch do not leave the device idle, and small launches do not wait for each other."""
        if len(queues) > 1 and not self.tables.outer.any():
            return [partial(self.backend.side_by_side, queues)]
        return [launch for queue in queues for launch in queue]

    def _fields(self, group: Group) -> tuple[object, ...]:
        """Return the common arguments of `step` and `complete`."""
        tables, kind = self.tables, self.tables.kinds[group.kind]
        fields = self.coefficients, self.own, self.even, self.odd
        return (*fields, kind.elastic, kind.faces, tables.neighbor, tables.second, tables.cluster, kind.first)

    def completion(self, group: Group, blocks: Array, out: Array, out_first: int) -> Launch:
        """Return the launch that writes out[out_first + n] : present coefficients of blocks[n] of a group."""
        tick = self._parity * self.plan.clustering.ticks
        complete = self.kernels.complete(*group.variant)
        return partial(complete, *self._fields(group), blocks, tick, int(self._pending), out, out_first)

    def placement(self, sources: Sequence[PointSource], receivers: Sequence[Receiver]) -> Placement:
        """See `lithowave.solvers.interface.Solver`."""
        found = Placement.empty(len(receivers), len(sources))
        for sums in self._source_sums:
            sums.add_to(found)
        found.receivers[self.receivers.point] = self.receivers.shares()
        return found

    # ----------------------------------------------------------------------------------------------- readings

    def largest_velocity(self) -> float:
        """See `lithowave.solvers.interface.Solver`; here the maximum root mean square in an element."""
        self.kernels.largest_velocity(self.coefficients, self._maxima.parts)
        # The mean of a square over the reference tetrahedron, whose volume is 1/6, is 6 times the sum of squares.
        return float(np.sqrt(6.0 * self._maxima.largest()))

    def diagnose(self) -> str:
        """See `lithowave.solvers.interface.Solver`."""
        with np.errstate(invalid="ignore", over="ignore"):
            size = np.sqrt(6.0 * (self.host_coefficients()[:, STRESSES:].astype(float) ** 2).sum(axis=2))
        size = np.where(np.isfinite(size), size, np.inf)
        element, component = np.unravel_index(int(size.argmax()), size.shape)
        own = self.plan.materials
        vp, vs, rho = own.fastest_speed[element], own.slowest_speed[element], own.rho[element]
        return (
            f"|v{'xyz'[component]}| = {size[element, component]:.3g} m/s in {self.plan.place_of(int(element))}, where "
            f"wave velocities are {vs:.5g} to {vp:.5g} m/s, rho = {rho:.5g} kg/m^3, insphere radius "
            f"{self.plan.mesh.insphere_radii()[element]:.3g} m"
        )

    # ------------------------------------------------------------------------------------------------ the state

    def host_coefficients(self) -> np.ndarray:
        """Return all present coefficients (elements, quantities, functions) on the host."""
        return self.freeze_coefficients()()

    def freeze_coefficients(self) -> Callable[[], np.ndarray]:
        """Return a function of all present coefficients (elements, quantities, functions)."""
        modes = self.tables.modes

        def completed() -> Iterator[tuple[slice, Array]]:
            for group in self.tables.arrangement.groups:
                for blocks in _chunks(group):
                    out = self.backend.zeros(self.kernels.layout.coefficients(len(blocks), modes))
                    self.completion(group, self.backend.upload(blocks, np.int32), out, 0)()
                    yield self._slots(blocks), out

        return self._freeze(completed(), QUANTITIES, modes)

    def _slots(self, blocks: np.ndarray) -> slice:
        """Return the slots of consecutive blocks in the arrangement of the elements."""
        lanes = self.kernels.layout.lanes
        return slice(blocks[0] * lanes, (blocks[-1] + 1) * lanes)

    def _freeze(
        self, outputs: Iterator[tuple[slice, Array]], quantities: int, modes: int
    ) -> Callable[[], np.ndarray]:  # fmt: skip
        """Return a function of the values of all elements (elements, quantities, functions), 0 where there are none.

        outputs : slots of the arrangement, and their values in new arrays of the device. If these have no room beside
        each other, or are in main memory, the values are arranged now.
        """
        slots, to_host = self.tables.arrangement.slots, self.kernels.layout.to_host
        shape, dtype = (self.plan.element_count, quantities, modes), self.backend.dtype
        copies = ((slots[some], self.backend.freeze(out, temporary=True)) for some, out in outputs)

        def arranged(copies: Iterable[tuple[np.ndarray, PendingCopy]]) -> np.ndarray:
            variables = np.zeros(shape, dtype)
            for elements, values in copies:
                variables[elements[elements >= 0]] = to_host(values.wait())[elements >= 0]
            return variables

        if self.backend.has_room(math.prod(shape) * dtype.itemsize):
            held = deque(copies)
            return lambda: arranged(held.popleft() for _ in range(len(held)))  # each copy is released when it is used
        values = arranged(copies)
        return lambda: values

    def set_coefficients(self, values: np.ndarray) -> None:
        """Start from coefficients (elements, quantities, functions)."""
        lanes = self.kernels.layout.lanes
        for kind in self.tables.kinds.values():
            for array in (kind.memory, kind.relaxation):
                self.backend.assign(array, np.zeros(array.shape))
        for first in range(0, self.tables.arrangement.block_count, CHUNK):
            some = slice(first * lanes, (first + CHUNK) * lanes)
            part = self.kernels.layout.of_host(self.tables.arrangement.of_elements(values, some))
            self.backend.assign(self.coefficients[first : first + CHUNK], part)
        self._pending = False

    def freeze_memory(self) -> Callable[[], np.ndarray]:
        """Return a function of the present memory variables (elements in absorbing layers, quantities, functions)."""
        variables = self._freeze_variables("memory", QUANTITIES, "layer")
        return lambda: variables()[self.plan.layer.inside]

    def set_memory(self, values: np.ndarray) -> None:
        """Set the memory variables (elements in absorbing layers, quantities, functions)."""
        self._set_variables("memory", values, self.plan.layer.inside)

    def freeze_relaxation(self) -> Callable[[], np.ndarray]:
        """Return a function of the present memory variables of attenuation (elements with it, mechanisms * 6,
        functions)."""
        variables = self._freeze_variables("relaxation", STRESSES * self.plan.mechanisms, "mechanisms")
        return lambda: variables()[self.plan.relaxing]

    def set_relaxation(self, values: np.ndarray) -> None:
        """Set the memory variables of attenuation (elements with it, mechanisms * 6, functions)."""
        self._set_variables("relaxation", values, self.plan.relaxing)

    def _freeze_variables(self, name: str, quantities: int, flag: str) -> Callable[[], np.ndarray]:
        """Return a function of the variables of all elements (elements, quantities, functions), 0 where groups have no
        `flag`."""
        modes, tables = mode_count(self.plan.order - 1), self.tables
        tick = self._parity * self.plan.clustering.ticks

        def completed() -> Iterator[tuple[slice, Array]]:
            for group in tables.arrangement.groups:
                if not getattr(group, flag):
                    continue
                complete, fields = getattr(self.kernels, f"complete_{name}")(*group.variant), self._fields(group)
                variables = getattr(tables.kinds[group.kind], name)
                for blocks in _chunks(group):
                    out = self.backend.zeros(self.kernels.layout.coefficients(len(blocks), modes, quantities))
                    chosen = self.backend.upload(blocks, np.int32)
                    complete(*fields, variables, chosen, tick, int(self._pending), out, 0)
                    yield self._slots(blocks), out

        return self._freeze(completed(), quantities, modes)

    def _set_variables(self, name: str, values: np.ndarray, elements: np.ndarray) -> None:
        """Set variables of `elements`, given as a mask."""
        every = np.zeros((self.plan.element_count, *values.shape[1:]), self.backend.dtype)
        every[elements] = values
        lanes = self.kernels.layout.lanes
        for kind in self.tables.kinds.values():
            array = getattr(kind, name)
            if array.size > 1:
                some = slice(kind.first * lanes, (kind.first + len(array)) * lanes)
                own = self.kernels.layout.of_host(self.tables.arrangement.of_elements(every, some))
                self.backend.assign(array, own)

    def state_rows(self) -> Iterator[StateRows]:
        """See `ElementSolver`."""
        plan = self.plan

        def keys_of(elements: np.ndarray | slice) -> Callable[[], np.ndarray]:
            return lambda: plan.mesh.keys_of_elements[elements]

        yield StateRows("coefficients", keys_of(slice(None)), self.freeze_coefficients, self.set_coefficients)
        yield StateRows("memory", keys_of(plan.layer.inside), self.freeze_memory, self.set_memory)
        if plan.mechanisms:
            yield StateRows("relaxation", keys_of(plan.relaxing), self.freeze_relaxation, self.set_relaxation)
        peaks = self._peaks
        for name in peaks.arrays if peaks is not None else ():
            read, write = partial(peaks.freeze, name), partial(peaks.restore, name)
            yield StateRows(f"peaks/{name}", lambda: peaks.point, read, write)


def _chunks(group: Group) -> Iterator[np.ndarray]:
    """Yield the blocks of a group, at most `CHUNK` at a time."""
    for first in range(group.first, group.end, CHUNK):
        yield np.arange(first, min(group.end, first + CHUNK))


def compile_ahead(experiment: Experiment, backend: Backend) -> None:
    """Begin to compile the kernels of a run on a device, if its media are isotropic. See `load_method`."""
    body = None if experiment.anelasticity is None else experiment.anelasticity.body
    if not any(properties.is_anisotropic for properties in experiment.material.properties.values()):
        backend.compile_ahead(
            PACKAGE, order=experiment.solver.order, layer=experiment.boundaries.resolved_absorption() == "layer",
            mechanisms=0 if body is None else body.mechanisms,
        )  # fmt: skip
