"""The discontinuous Galerkin solver: arrays of one run, and one step of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from lithowave.parallel.halo import Halo, alone
from lithowave.solvers.array_sections import Piece, Place, Rows
from lithowave.solvers.common.source_amplitudes import BLOCK
from lithowave.solvers.discontinuous_galerkin.basis import face_mode_count, mode_count
from lithowave.solvers.discontinuous_galerkin.exchange import TraceExchange
from lithowave.solvers.discontinuous_galerkin.places import place_points, require_places
from lithowave.solvers.discontinuous_galerkin.plan import DiscontinuousGalerkinPlan
from lithowave.solvers.discontinuous_galerkin.samples import PlacedSamples, Records, place_raster
from lithowave.solvers.discontinuous_galerkin.source_sums import SourceSums
from lithowave.solvers.discontinuous_galerkin.sources import SourceList, spread_of
from lithowave.solvers.discontinuous_galerkin.tables import ElementTables
from lithowave.solvers.elements.rasters import select_raster, surface_grid
from lithowave.solvers.interface import Coming, Raster
from lithowave.solvers.placement import Placement
from lithowave.weak import weak_call

if TYPE_CHECKING:
    from lithowave.description.simulation import Simulation

PACKAGE = "lithowave.solvers.discontinuous_galerkin"
KERNELS = ("element_kernels", "point_kernels")
MAGNITUDES = 1024  # parts in which the largest velocity is looked for
CHUNK = 1024  # blocks that are completed at a time for a checkpoint


class DiscontinuousGalerkinSolver:
    """Steps of arbitrary order on tetrahedra; see `element_kernels` for the scheme and `clusters` for local time steps.

    A step of the run is one of the largest cluster. Between two steps the coefficients lack what the faces bring in the
    step under way; with `complete` they are those of the present time. All fields are of the same time.

    Parameters
    ----------
    plan : mesh, order, time steps. simulation : sources and receivers; None for neither, to measure kernels. backend :
    where the arrays live. halo : to the other ranks.
    """

    staggered = False

    def __init__(
        self, plan: DiscontinuousGalerkinPlan, simulation: Simulation | None, backend: Any, halo: Halo | None = None
    ) -> None:
        self.plan, self.backend, self.halo = plan, backend, halo or alone(backend)
        self.kernels = backend.kernels(PACKAGE, *KERNELS, order=plan.order, precision=backend.precision)
        self.tables = ElementTables(backend, plan, self.kernels.layout, self.kernels.pack_faces)
        self._allocate()
        self.exchange = TraceExchange(self, self.halo)
        self._prepare_sources(simulation)
        receivers = () if simulation is None else simulation.acquisition.receivers
        self.records_of = Records(self, receivers)
        self._magnitudes = backend.zeros(MAGNITUDES)
        self._rasters: dict[Raster, PlacedSamples] = {}
        self._peaks: dict[str, Any] | None = None
        self._repeated: dict[tuple, Callable[[], None]] = {}
        self._programs: dict[tuple[int, bool], list[Callable[[], None]]] = {}

    def _allocate(self) -> None:
        layout, blocks = self.kernels.layout, self.tables.arrangement.block_count
        trace = (3, layout.trace_width(face_mode_count(self.plan.order)))
        self.coefficients = self.backend.zeros(layout.coefficients(blocks, mode_count(self.plan.order)))
        self.own = self.backend.zeros((4 * blocks * layout.lanes, *trace))
        self.even, self.odd = (self.backend.zeros((self.tables.slots, *trace)) for _ in range(2))
        self._pending, self._parity = False, 0  # whether a step is under way; of the number of steps

    def _prepare_sources(self, simulation: Simulation | None) -> None:
        plan, self.sources, self._next_step = self.plan, [], -1
        sources = () if simulation is None else simulation.acquisition.sources
        self._source_sums: list[SourceSums] = []
        if not sources:
            return
        spread = spread_of(plan, simulation)
        placed = place_points(plan.mesh, spread.positions, plan.tolerance, self.halo.ranks)
        names = [getattr(source, "name", "") or f"source {number}" for number, source in enumerate(sources)]
        require_places(placed.missing, [names[number] for number in spread.source], spread.positions, "sources")
        for cluster in np.unique(plan.clustering.cluster[placed.places.element]).tolist():
            for outer in (True, False):
                made = SourceList(self.backend, plan, self.tables, sources, spread, placed, cluster, outer)
                self._source_sums.append(made.sums)
                if made.count:
                    self.sources.append(made)

    # ------------------------------------------------------------------------------------------------ the step

    def advance(self, step: int) -> None:
        """From step to step + 1."""
        for sources in self.sources:
            own_step = step << (self.plan.clustering.count - 1 - sources.cluster)
            if step != self._next_step or own_step % BLOCK == 0:
                sources.load(own_step)
        self._parity = step & 1
        key = self._parity, self._pending
        if key not in self._programs:
            self._programs[key] = self._program(*key)
        for part in self._programs[key]:
            part()
        self._pending, self._next_step, self._parity = True, step + 1, 1 - self._parity

    def _program(self, parity: int, pending: bool) -> list[Callable[[], None]]:
        """All steps of all clusters in a step of the run, and between them what is exchanged with other ranks.

        What other ranks wait for comes first; a message is finished where it is read, or another one is to be sent.
        Without other ranks all is one part.
        """
        count, ticks = self.plan.clustering.count, self.plan.clustering.ticks
        program: list[Callable[[], None]] = []
        work: list[Callable[[], None]] = []
        underway = None  # a message, and the tick at which it was sent

        def between(function: Callable[..., None], *arguments: int) -> None:
            if work:
                program.append(self.backend.repeated(partial(_call_all, tuple(work))))
                work.clear()
            program.append(partial(function, *arguments))

        for tick in range(ticks):
            now = parity * ticks + tick
            # The clusters whose step begins: the lowest ones, as many as 2^c divides the tick.
            last = count - 1 if tick == 0 else (tick & -tick).bit_length() - 1
            message = self.exchange.at(last)
            if underway and (message or now >= underway[0].due(underway[1])):
                between(underway[0].finish, underway[1])
                underway = None
            work.append(weak_call(self._launch, now, last, pending or tick > 0, True))
            if message:
                between(message.start, now)
                underway = message, now
            work.append(weak_call(self._launch, now, last, pending or tick > 0, False))
        if underway:
            between(underway[0].finish, underway[1])
        elif work:
            program.append(self.backend.repeated(partial(_call_all, tuple(work))))
        return program

    def _launch(self, tick: int, last: int, pending: bool, outer: bool) -> None:
        """Steps of the outer, or the inner, elements of the clusters up to `last`, which begin at this tick."""
        for group in self.tables.arrangement.groups:
            if group.outer == outer and group.ends[last] > group.first:
                self._step(group, group.ends[last], tick, pending)
        for sources in self.sources:
            if sources.outer == outer and sources.cluster <= last:
                self._inject(sources, tick)

    def _inject(self, sources: SourceList, tick: int) -> None:
        """What sources do in the step that begins at this tick."""
        count = tick >> sources.cluster
        arrays = {
            "coefficients": self.coefficients,
            "own": self.own,
            "sent": self.odd if count & 1 else self.even,
            "half of slower": self.odd if count >> 1 & 1 else self.even,
        }
        for name, arguments in sources.arguments():
            self.kernels.inject(arrays[name], *arguments)
        self.kernels.count_step(sources.row)

    def _step(self, group: Any, end: int, tick: int, pending: bool) -> None:
        step = self.kernels.step(group.anisotropic, group.mixed)
        step(*self._fields(group), group.first, end, tick, int(pending))

    def _fields(self, group: Any) -> tuple[Any, ...]:
        """The arguments that `step` and `complete` have in common."""
        tables, kind = self.tables, self.tables.kinds[group.anisotropic]
        fields = self.coefficients, self.own, self.even, self.odd
        return (*fields, kind.elastic, kind.faces, tables.neighbor, tables.second, tables.cluster, kind.first)

    def complete(self, group: Any, blocks: Any, out: Any, out_first: int) -> None:
        """out[out_first + n] : coefficients of blocks[n] of a group at the present time."""
        tick = self._parity * self.plan.clustering.ticks
        complete = self.kernels.complete(group.anisotropic, group.mixed)
        complete(*self._fields(group), blocks, tick, int(self._pending), out, out_first)

    def placement(self, sources: Sequence[Any], receivers: Sequence[Any]) -> Placement:
        """See `lithowave.solvers.interface.Solver`."""
        found, samples = Placement.empty(len(receivers), len(sources)), self.records_of.samples
        for one in self._source_sums:
            one.add_to(found)
        found.receivers[samples.point] = samples.shares()
        return found

    # --------------------------------------------------------------------------------------------- what is read

    def facts(self) -> dict[str, Any]:
        """See `lithowave.solvers.interface.Solver`."""
        return {}

    @property
    def receiver_numbers(self) -> np.ndarray:
        """See `lithowave.solvers.interface.Solver`."""
        return self.records_of.samples.point

    def start_records(self, capacity: int, stress: bool) -> None:
        """See `lithowave.solvers.interface.Solver`."""
        self.records_of.start(capacity, stress)
        self._slot, self._next_slot = self.backend.zeros((1,), np.int64), 0
        self._repeated = {key: done for key, done in self._repeated.items() if key[0] != "record"}

    def record(self, slot: int) -> None:
        """See `lithowave.solvers.interface.Solver`."""
        if slot != self._next_slot:
            self.backend.assign(self._slot, np.array([slot]))
        out = self.records_of.room
        self._repeat(("record", self.records_of.filling, self._parity, self._pending), self._launch_record, out)
        self._next_slot = slot + 1

    def _launch_record(self, out: Any) -> None:
        self.sample(self.records_of.samples, out, self._slot)
        self.kernels.count_step(self._slot)

    def sample(self, samples: PlacedSamples, out: Any, slot: Any) -> None:
        """out[slot] = velocity, and with 9 rows stress, at places."""
        if samples.count:
            for group, blocks, first in samples.parts:
                self.complete(group, blocks, samples.completed, first)
            self.kernels.sample(*samples.arguments(), out, slot)

    def _repeat(self, key: tuple, method: Callable[..., None], *arguments: Any) -> None:
        """Call a method that always launches the same kernels with the same arrays for this key."""
        if key not in self._repeated:
            self._repeated[key] = self.backend.repeated(weak_call(method, *arguments))
        self._repeated[key]()

    def records(self, count: int) -> Coming:
        """See `lithowave.solvers.interface.Solver`."""
        self._next_slot = -1
        return self.records_of.fetch(count)

    def raster(self, selection: Any) -> Raster:
        """See `lithowave.solvers.interface.Solver`."""
        return select_raster(self.plan, selection)

    def _samples_of(self, raster: Raster) -> PlacedSamples:
        if raster not in self._rasters:
            self._rasters[raster] = PlacedSamples(self, place_raster(self.plan.mesh, raster, self.halo.ranks))
        return self._rasters[raster]

    def raster_points(self, raster: Raster) -> np.ndarray:
        """See `lithowave.solvers.interface.Solver`; none outside the mesh."""
        return self._samples_of(raster).point

    def fields(self, raster: Raster, names: tuple[str, ...]) -> Coming:
        """See `lithowave.solvers.interface.Solver`."""
        samples = self._samples_of(raster)
        out = self.backend.zeros((1, 3 if names == ("velocity",) else 9, max(1, samples.count)))
        self.sample(samples, out, self.backend.zeros((1,), np.int64))
        part = self.backend.fetch(out)
        return Coming({"all": part}, lambda parts: samples.fields(parts["all"], names))

    def start_peaks(self) -> None:
        """See `lithowave.solvers.interface.Solver`."""
        self._surface_x, self._surface_y, positions = surface_grid(self.plan)
        placed = place_points(self.plan.mesh, positions, self.plan.tolerance, self.halo.ranks, everywhere=False)
        self._surface = PlacedSamples(self, placed)
        count = max(1, self._surface.count)
        sizes = {"displacement": 6, "peak_velocity": 3, "peak_displacement": 3}
        self._peaks = {name: self.backend.zeros((size, count)) for name, size in sizes.items()}
        self._surface_velocity = self.backend.zeros((1, 3, count))
        self._surface_slot = self.backend.zeros((1,), np.int64)
        self._repeated.clear()

    def update_peaks(self) -> None:
        """Take the present velocities into the peaks; once for each step."""
        self._repeat(("peaks", self._parity, self._pending), self._launch_peaks)

    def _launch_peaks(self) -> None:
        self.sample(self._surface, self._surface_velocity, self._surface_slot)
        step = self.backend.scalar(self.plan.schedule.time_step)
        self.kernels.surface_peaks(self._surface_velocity, step, *self._peaks.values())

    def peaks(self) -> dict[str, np.ndarray]:
        """See `lithowave.solvers.interface.Solver`."""
        host = {name: self.backend.download(self._peaks[name]) for name in ("peak_velocity", "peak_displacement")}
        return {
            "x": self._surface_x,
            "y": self._surface_y,
            "points": self._surface.point,
            "velocity": host["peak_velocity"][:, : self._surface.count],
            "displacement": host["peak_displacement"][:, : self._surface.count],
        }

    def largest_velocity(self) -> float:
        """See `lithowave.solvers.interface.Solver`; here the largest root mean square in an element."""
        self.kernels.largest_velocity(self.coefficients, self._magnitudes)
        found = self.backend.download(self._magnitudes)
        # The mean of a square over the reference tetrahedron, whose volume is 1/6, is 6 times the sum of squares.
        return float(np.sqrt(6.0 * found.max())) if np.isfinite(found).all() else float("inf")

    def diagnose(self) -> str:
        """See `lithowave.solvers.interface.Solver`."""
        with np.errstate(invalid="ignore", over="ignore"):
            size = np.sqrt(6.0 * (self.host_coefficients()[:, 6:].astype(float) ** 2).sum(axis=2))
        size = np.where(np.isfinite(size), size, np.inf)
        element, component = np.unravel_index(int(size.argmax()), size.shape)
        own = self.plan.materials
        vp, vs, rho = own.fastest_speed[element], own.slowest_speed[element], own.rho[element]
        return (
            f"|v{'xyz'[component]}| = {size[element, component]:.3g} m/s in {self.plan.place_of(int(element))}, whose "
            f"waves have {vs:.5g} to {vp:.5g} m/s, rho = {rho:.5g} kg/m^3, insphere radius "
            f"{self.plan.mesh.insphere_radii()[element]:.3g} m"
        )

    # ------------------------------------------------------------------------------------------------ the state

    def host_coefficients(self) -> np.ndarray:
        """Coefficients of all elements at the present time, (elements, 9, functions), on the host."""
        tables, layout = self.tables, self.kernels.layout
        lanes = layout.lanes
        found = np.empty((self.plan.element_count, 9, tables.modes), self.backend.dtype)
        for group in tables.arrangement.groups:
            for first in range(group.first, group.end, CHUNK):
                blocks = np.arange(first, min(group.end, first + CHUNK))
                out = self.backend.zeros(layout.coefficients(len(blocks), tables.modes))
                self.complete(group, self.backend.upload(blocks, np.int32), out, 0)
                slots = tables.arrangement.slots[first * lanes : (blocks[-1] + 1) * lanes]
                found[slots[slots >= 0]] = layout.to_host(self.backend.download(out))[slots >= 0]
        return found

    def set_coefficients(self, values: np.ndarray) -> None:
        """Begin from coefficients (elements, 9, functions)."""
        lanes = self.kernels.layout.lanes
        for first in range(0, self.tables.arrangement.block_count, CHUNK):
            some = slice(first * lanes, (first + CHUNK) * lanes)
            part = self.kernels.layout.of_host(self.tables.arrangement.of_elements(values, some))
            self.backend.assign(self.coefficients[first : first + CHUNK], part)
        self._pending = False

    def state(self) -> dict[str, Piece]:
        """See `lithowave.solvers.interface.Solver`."""
        places, count = self.state_places(), self._surface.count if self._peaks else 0
        found = {"coefficients": Piece(places["coefficients"], self.host_coefficients())}
        for name, array in (self._peaks or {}).items():
            values = np.ascontiguousarray(self.backend.download(array)[:, :count].T)
            found[f"peaks/{name}"] = Piece(places[f"peaks/{name}"], values)
        return found

    def state_places(self) -> dict[str, Place]:
        """See `lithowave.solvers.interface.Solver`."""
        peaks = {f"peaks/{name}": Rows(self._surface.point) for name in self._peaks or {}}
        return {"coefficients": Rows(self.plan.mesh.keys_of_elements), **peaks}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """See `lithowave.solvers.interface.Solver`."""
        self.set_coefficients(state["coefficients"])
        if self._peaks and self._surface.count:
            for name, array in self._peaks.items():
                self.backend.assign(array, np.ascontiguousarray(state[f"peaks/{name}"].T))


def _call_all(functions: Iterable[Callable[[], None]]) -> None:
    for function in functions:
        function()
