"""The spectral-element solver: arrays of one run, and one step of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lithowave.parallel.halo import Halo, alone
from lithowave.solvers.array_sections import Piece, Place, Rows
from lithowave.solvers.common.source_amplitudes import BLOCK
from lithowave.solvers.elements.rasters import points_within, positions_of, select_raster, surface_grid
from lithowave.solvers.interface import Coming, Raster
from lithowave.solvers.placement import Placement
from lithowave.solvers.spectral_element.absorption import make_damping
from lithowave.solvers.spectral_element.elements import ElementGroup, ElementTables
from lithowave.solvers.spectral_element.exchange import SharedMomenta
from lithowave.solvers.spectral_element.faces import face_points
from lithowave.solvers.spectral_element.plan import SpectralElementPlan
from lithowave.solvers.spectral_element.samples import PlacedSamples, Records
from lithowave.solvers.spectral_element.shared_places import reach, within_reach
from lithowave.solvers.spectral_element.source_sums import add_sources
from lithowave.solvers.spectral_element.sources import SourceList, spread_of
from lithowave.weak import weak_call

if TYPE_CHECKING:
    from lithowave.description.simulation import Simulation

PACKAGE = "lithowave.solvers.spectral_element"
KERNELS = ("element_kernels", "point_kernels")
MAGNITUDES = 1024  # parts in which the largest velocity is looked for


class SpectralElementSolver:
    r"""Explicit Newmark steps on the diagonal mass matrix of Gauss-Lobatto-Legendre elements.

    With p = M v at t_n = n dt and u at t_n - dt / 2, a step is

    .. math::
        u^{n+1/2} = u^{n-1/2} + \Delta t\, M^{-1} p^n, \qquad
        p^{n+1} = p^n + \Delta t\,[f(t_{n+1/2}) - K u^{n+1/2} - C\,M^{-1}\tfrac{1}{2}(p^n + p^{n+1})],

    which is Newmark's scheme with beta = 0, gamma = 1/2 written for half steps: the displacements of both are the same
    numbers. K is applied element by element; C, of the absorbing sides, is solved for at each point. `momentum` holds
    p / dt.

    Parameters
    ----------
    plan : mesh, points, time step. simulation : sources and receivers; None for neither, to measure kernels.
    backend : where the arrays live. halo : to the other ranks.
    """

    staggered = True

    def __init__(
        self, plan: SpectralElementPlan, simulation: Simulation | None, backend: Any, halo: Halo | None = None
    ) -> None:
        self.plan, self.backend = plan, backend
        self.kernels = backend.kernels(
            PACKAGE, *KERNELS, degree=plan.degree, precision=backend.precision, deterministic=plan.deterministic
        )
        self.tables = ElementTables(backend, self.kernels, plan)
        self.points = self.tables.points
        self._allocate()
        self._prepare_damping()
        self.exchange = SharedMomenta(backend, self.kernels, plan, halo or alone(backend))
        self._prepare_sources(simulation)
        receivers = () if simulation is None else simulation.acquisition.receivers
        self.records_of = Records(self, receivers)
        self.receiver_numbers = self.records_of.samples.point
        self._magnitudes = backend.zeros(MAGNITUDES)
        self._rasters: dict[Raster, PlacedSamples] = {}
        self._peaks: dict[str, Any] | None = None
        self._repeated: dict[tuple, Callable[[], None]] = {}
        launches = (self._launch, self._launch_outer, self._launch_inner, self.absorb)
        self._step, self._outer, self._inner, self._absorb = (backend.repeated(weak_call(one)) for one in launches)

    def _allocate(self) -> None:
        plan, backend = self.plan, self.backend
        shape = (plan.total_points + 1, 4)
        start = np.zeros(shape, backend.dtype)
        start[:-1, 3] = plan.schedule.time_step**2 / plan.survey.mass
        moves = np.ones(plan.total_points)
        moves[face_points(plan.numbers, plan.faces["rigid"])] = 0.0
        plan.border.combine(moves, plan.ranks, np.minimum)  # a rigid face may be on another rank alone
        start[:-1, 3] *= moves
        self.displacement, self.momentum = backend.upload(start), backend.zeros(shape)

    def _prepare_damping(self) -> None:
        damping = make_damping(self.plan)
        self._damped = damping.point
        self.damping = (
            self.backend.upload(damping.point, np.int64), self.backend.upload(damping.kernel_matrix())
        )  # fmt: skip
        self.history = self.backend.zeros((len(damping.point), 3))

    def _prepare_sources(self, simulation: Simulation | None) -> None:
        sources = () if simulation is None else simulation.acquisition.sources
        spread = spread_of(self.plan, simulation)
        # A point of one element alone moves when that adds its forces: only then may sources act on it.
        parts = (None,) if self.plan.ranks.size == 1 else (True, False)
        self.sources = [SourceList(self.backend, self.plan, sources, spread, on_border) for on_border in parts]
        self._row = self.backend.zeros((1,), np.int64)
        self._next_step = -1

    # ------------------------------------------------------------------------------------------------ the step

    def advance(self, step: int) -> None:
        """From step to step + 1."""
        if step != self._next_step or step % BLOCK == 0:
            self.backend.assign(self._row, np.array([step % BLOCK]))
            for sources in self.sources:
                sources.load(step)
        if self.plan.ranks.size == 1:
            self._step()
        else:
            self._outer()
            self.exchange.start(self.momentum)
            if self.tables.inner or any(sources.count for sources in self.sources):
                self._inner()
            self.exchange.finish(self.momentum)
            if len(self.history):
                self._absorb()
        self._next_step = step + 1

    def _launch(self) -> None:
        """The whole step of a run on one rank."""
        self.move()
        self.add_forces()
        self.inject(self.sources[0])
        self.count_step()
        self.absorb()

    def _launch_outer(self) -> None:
        """All that the other ranks wait for."""
        self.move()
        self.exchange.hold(self.momentum)
        self._add_forces(self.tables.outer)
        self.inject(self.sources[0])

    def _launch_inner(self) -> None:
        self._add_forces(self.tables.inner)
        self.inject(self.sources[1])
        self.count_step()

    def move(self) -> None:
        """u += dt M^-1 p at the points that elements share; those of one element alone move in `add_forces`."""
        self.kernels.move(self.displacement, self.momentum, self.plan.shared)

    def add_forces(self) -> None:
        """p -= dt K u."""
        self._add_forces(self.tables.groups)

    def _add_forces(self, groups: list[ElementGroup]) -> None:
        for group in groups:
            add = self.kernels.add_forces(group.kind)
            add(*group.arguments(self.displacement, self.momentum, self.points, self.plan.shared))

    def inject(self, sources: SourceList) -> None:
        """p += dt f of the sources."""
        if sources.count:
            self.kernels.inject(self.momentum, *sources.arguments(), self._row)

    def count_step(self) -> None:
        """One step further in the tables of the sources."""
        if any(sources.count for sources in self.sources):
            self.kernels.count_step(self._row)

    def absorb(self) -> None:
        """p -= dt C v, v the mean of before and after."""
        if len(self.history):
            self.kernels.damp(self.momentum, self.history, *self.damping)

    def placement(self, sources: Sequence[Any], receivers: Sequence[Any]) -> Placement:
        """See `lithowave.solvers.interface.Solver`."""
        found = Placement.empty(len(receivers), len(sources))
        for one in self.sources:
            add_sources(found, self.plan, sources, one.entries())
        shared = self.records_of.samples.shared
        np.add.at(found.receivers, shared.places.point, 1.0 / shared.sharing)
        return found

    # --------------------------------------------------------------------------------------------- what is read

    def facts(self) -> dict[str, Any]:
        """See `lithowave.solvers.interface.Solver`."""
        return {}

    def start_records(self, capacity: int, stress: bool) -> None:
        """See `lithowave.solvers.interface.Solver`."""
        self.records_of.start(capacity, stress)
        self._slot, self._next_slot = self.backend.zeros((1,), np.int64), 0
        self._repeated.clear()

    def record(self, slot: int) -> None:
        """See `lithowave.solvers.interface.Solver`."""
        if slot != self._next_slot:
            self.backend.assign(self._slot, np.array([slot]))
        out = self.records_of.room
        self._repeat(("record", self.records_of.filling), self._launch_record, out)
        self._next_slot = slot + 1

    def _launch_record(self, out: Any) -> None:
        self.sample(self.records_of.samples, out, self._slot)
        self.kernels.count_step(self._slot)

    def sample(self, samples: PlacedSamples, out: Any, slot: Any) -> None:
        """out[slot] = velocity, and with 12 rows the gradient of the displacement, at places."""
        if samples.count:
            self.kernels.sample(self.displacement, self.momentum, self.points, *samples.arguments(), out, slot)

    def _repeat(self, key: tuple, method: Callable[..., None], *arguments: Any) -> None:
        """Call a method that always launches the same kernels with the same arrays for this key."""
        if key not in self._repeated:
            self._repeated[key] = self.backend.repeated(weak_call(method, *arguments))
        self._repeated[key]()

    def records(self, count: int) -> Coming:
        """See `lithowave.solvers.interface.Solver`."""
        return self.records_of.fetch(count)

    def raster(self, selection: Any) -> Raster:
        """See `lithowave.solvers.interface.Solver`."""
        return select_raster(self.plan, selection)

    def raster_points(self, raster: Raster) -> np.ndarray:
        """See `lithowave.solvers.interface.Solver`; points outside the mesh are on no rank."""
        return self._samples(raster).point

    def _samples(self, raster: Raster) -> PlacedSamples:
        if raster not in self._rasters:
            numbers = points_within(raster, *reach(self.plan.mesh))
            self._rasters[raster] = PlacedSamples(self, positions_of(raster, numbers), numbers=numbers)
        return self._rasters[raster]

    def fields(self, raster: Raster, names: tuple[str, ...]) -> Coming:
        """See `lithowave.solvers.interface.Solver`."""
        samples = self._samples(raster)
        out = self.backend.zeros((1, 3 if names == ("velocity",) else 12, max(1, samples.count)))
        self.sample(samples, out, self.backend.zeros((1,), np.int64))
        part = self.backend.fetch(out)
        return Coming({"all": part}, lambda parts: samples.fields(parts["all"], names))

    def start_peaks(self) -> None:
        """See `lithowave.solvers.interface.Solver`."""
        self._surface_x, self._surface_y, positions = surface_grid(self.plan)
        near = np.flatnonzero(within_reach(self.plan.mesh, positions))
        self._surface = PlacedSamples(self, positions[near], self.plan.tolerance, numbers=near)
        count = max(1, self._surface.count)
        names = ("displacement", "peak_velocity", "peak_displacement")
        self._peaks = {name: self.backend.zeros((3, count)) for name in names}
        self._surface_velocity = self.backend.zeros((1, 3, count))
        self._surface_slot = self.backend.zeros((1,), np.int64)
        self._repeated.clear()

    def update_peaks(self) -> None:
        """Take the present velocities into the peaks; once for each step."""
        self._repeat(("peaks",), self._launch_peaks)

    def _launch_peaks(self) -> None:
        self.sample(self._surface, self._surface_velocity, self._surface_slot)
        step = self.backend.scalar(self.plan.schedule.time_step)
        self.kernels.surface_peaks(self._surface_velocity, step, *self._peaks.values())

    def peaks(self) -> dict[str, np.ndarray]:
        """See `lithowave.solvers.interface.Solver`."""
        count = self._surface.count
        host = {name: self.backend.download(array)[:, :count] for name, array in (self._peaks or {}).items()}
        return {
            "x": self._surface_x,
            "y": self._surface_y,
            "points": self._surface.point,
            "velocity": host["peak_velocity"],
            "displacement": host["peak_displacement"],
        }

    def largest_velocity(self) -> float:
        """See `lithowave.solvers.interface.Solver`."""
        self.kernels.largest_velocity(self.displacement, self.momentum, self._magnitudes)
        found = self.backend.download(self._magnitudes)
        return float(found.max()) / self.plan.schedule.time_step if np.isfinite(found).all() else float("inf")

    def velocity(self) -> np.ndarray:
        """Velocity at all points (points, 3), m/s, on the host."""
        scale = self.backend.download(self.displacement)[:-1, 3:] / self.plan.schedule.time_step
        return scale * self.backend.download(self.momentum)[:-1, :3]

    def diagnose(self) -> str:
        """See `lithowave.solvers.interface.Solver`."""
        with np.errstate(invalid="ignore"):
            velocity = np.abs(self.velocity())
        velocity = np.where(np.isfinite(velocity), velocity, np.inf)
        point, component = np.unravel_index(int(velocity.argmax()), velocity.shape)
        element = int(np.argmax((self.plan.numbers == point).any(axis=(1, 2, 3))))
        points = self.plan.degree + 1
        stiffness, rho = self.plan.materials.within(element, np.full((points,) * 3, points**-3.0))
        vp, vs = np.sqrt(stiffness[0, 0] / rho), np.sqrt(stiffness[5, 5] / rho)
        return (
            f"|v{'xyz'[component]}| = {velocity[point, component]:.3g} m/s in {self.plan.place_of(element)}, where "
            f"vp = {vp:.5g} m/s, vs = {vs:.5g} m/s, rho = {rho:.5g} kg/m^3, smallest Jacobian "
            f"{self.plan.survey.jacobian[element]:.3g} m^3"
        )

    def state_places(self) -> dict[str, Place]:
        """See `lithowave.solvers.interface.Solver`."""
        keys = self.plan.point_keys()
        places: dict[str, Place] = {"motion": Rows(keys), "history": Rows(keys[self._damped])}
        return places | ({} if self._peaks is None else {"peaks": Rows(self._surface.point)})

    def state(self) -> dict[str, Piece]:
        """See `lithowave.solvers.interface.Solver`: u and p of points, p of damped points before, and the peaks."""
        own = np.ones(self.plan.total_points, bool)
        own[self.plan.border.of_lower_ranks] = False
        arrays = (self.backend.download(array)[:-1, :3] for array in (self.displacement, self.momentum))
        values = {"motion": np.concatenate([array[own] for array in arrays], axis=1)}
        values["history"] = self.backend.download(self.history)[: len(self._damped)][own[self._damped]]
        keys = self.plan.point_keys()
        pieces = {"motion": Rows(keys[own]), "history": Rows(keys[self._damped[own[self._damped]]])}
        if self._peaks is not None:
            count = self._surface.count
            rows = [self.backend.download(array)[:, :count].T for array in self._peaks.values()]
            values["peaks"], pieces["peaks"] = np.concatenate(rows, axis=1), Rows(self._surface.point)
        return {name: Piece(place, values[name]) for name, place in pieces.items()}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """See `lithowave.solvers.interface.Solver`."""
        for array, columns in ((self.displacement, slice(0, 3)), (self.momentum, slice(3, 6))):
            host = np.array(self.backend.download(array))
            host[:-1, :3] = state["motion"][:, columns]
            self.backend.assign(array, host)
        if len(self._damped):
            self.backend.assign(self.history, state["history"])
        if self._peaks is not None and self._surface.count:
            for number, array in enumerate(self._peaks.values()):
                self.backend.assign(array, state["peaks"][:, 3 * number : 3 * number + 3].T)
