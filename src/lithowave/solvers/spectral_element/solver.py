"""Spectral-element solver: the arrays of one run, and its time step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np

from lithowave.backends.loops import over_parts, parts_in_order
from lithowave.parallel.halo import Halo, single_rank_halo
from lithowave.process import phase
from lithowave.solvers.common.kernels import Launch, captured, run_launches
from lithowave.solvers.common.source_amplitudes import AmplitudeRow
from lithowave.solvers.elements.locations import locate_sources
from lithowave.solvers.elements.solver import ElementSolver, StateRows
from lithowave.solvers.interface import Placement
from lithowave.solvers.spectral_element.arrays import (
    layer_sets,
    pair_sets,
    point_arrays,
    relaxation_sets,
    stretched_pairs,
)
from lithowave.solvers.spectral_element.elements import ElementGroup, ElementTables
from lithowave.solvers.spectral_element.media import CoupledPairs, Damping, LayerMemory, coupling_matrices, make_damping
from lithowave.solvers.spectral_element.partition import SharedMomenta
from lithowave.solvers.spectral_element.plan import SpectralElementPlan
from lithowave.solvers.spectral_element.points import HexahedralSamples
from lithowave.solvers.spectral_element.sources import SourceList, add_sources, source_entries, spread_of

if TYPE_CHECKING:
    from lithowave.backends.interface import Array, Backend
    from lithowave.description.experiment import Experiment
    from lithowave.description.receivers import Receiver
    from lithowave.description.sources import PointSource

PART = 65_536  # points that are prepared, or stored, at a time
PACKAGE = "lithowave.solvers.spectral_element"
KERNELS = ("element_kernels", "point_kernels")
PEAKS = {name: slice(3 * n, 3 * n + 3) for n, name in enumerate(("displacement", "peak_velocity", "peak_displacement"))}


class SpectralElementSolver(ElementSolver):
    r"""Explicit Newmark steps on the diagonal mass matrix of Gauss-Lobatto-Legendre elements.

    With p = M v at t_n = n dt and u at t_n - dt / 2, a step is

    .. math::
        u^{n+1/2} = u^{n-1/2} + \Delta t\, M^{-1} p^n, \qquad
        p^{n+1} = p^n + \Delta t\,[f(t_{n+1/2}) - K u^{n+1/2} - C\,M^{-1}\tfrac{1}{2}(p^n + p^{n+1})],

    which is Newmark's scheme with beta = 0, gamma = 1/2 written for half steps, with identical displacements. K is
    applied element by element; C, of the absorbing sides, is solved for at each point. `momentum` holds p / dt. In an
    absorbing layer, K has memory variables, and where the layer begins the forces change S p, from which p follows
    (`layers`). With attenuation, K has memory variables of the relaxing stresses (`relaxation`).

    A fluid has its velocity potential phi instead of u, v = grad phi / rho and P = -d phi / dt: M has 1 / kappa and K
    1 / rho (`fluid_kernels`). C then also has the coupling of fluids and solids (`coupling`).

    Parameters
    ----------
    plan : mesh, points, time step. experiment : sources and receivers. backend : owner of the arrays. halo : halo
    exchange with other ranks.
    """

    plan: SpectralElementPlan

    staggered = False
    record_rows, displacement_rows = 12, 3
    make_samples = HexahedralSamples

    def __init__(
        self, plan: SpectralElementPlan, experiment: Experiment, backend: Backend, halo: Halo | None = None
    ) -> None:
        self.plan, self.backend = plan, backend
        with phase("kernels"):
            self.kernels = backend.kernels(
                PACKAGE, *KERNELS, degree=plan.degree, precision=backend.precision, deterministic=plan.deterministic
            )
        with phase("tables of elements"):
            self.tables = ElementTables(backend, self.kernels, plan)
        self.kept_rates: list[tuple[Array, Array]] = []  # of the samples in fluids: their points, and p of these
        self.arrays = point_arrays(plan, backend)
        self._allocate()
        with phase("absorbing faces"):
            self._prepare_damping()
        self.exchange = SharedMomenta(backend, self.arrays, self.kernels, plan, halo or single_rank_halo(backend))
        with phase("sources"):
            self._prepare_sources(experiment)
        self.prepare_readings(experiment)
        self._prepare_step()

    def _allocate(self) -> None:
        plan, backend = self.plan, self.backend
        mass = plan.element_statistics.mass
        # The first access to `moves` is collective, and not for the threads below.
        factors, moves = self._velocity_factors(), plan.moves
        self.displacement, self.momentum = (self.arrays.zeros(backend, name) for name in ("displacement", "momentum"))

        def begin(part: slice) -> tuple[slice, object]:
            own = self.displacement[part], self.momentum[part]
            if backend.own_memory:
                own = np.zeros((2, part.stop - part.start, 4), backend.dtype)
            own[0][:, 3] = moves[part] * plan.schedule.time_step**2 / mass[part]
            own[1][:, 3] = factors[part]
            return part, own

        for part, values in parts_in_order(begin, plan.total_points, PART):
            if backend.own_memory:  # in parts: fresh memory for all values takes longer than the copies
                backend.assign(self.displacement[part], values[0])
                backend.assign(self.momentum[part], values[1])

    def _velocity_factors(self) -> np.ndarray:
        """Return the velocity (points,) of a plane wave for a unit of the rate of the unknown: 1, or 1 / (rho c)."""
        plan = self.plan
        if not plan.has_fluids:
            return np.broadcast_to(1.0, plan.total_points)
        factors, fluid = np.ones(plan.total_points), np.flatnonzero(plan.materials.is_fluid)
        if len(fluid):
            bulk, rho = 1.0 / plan.materials.inertia(fluid), plan.materials.density(fluid)
            numbers = plan.numbers[fluid].reshape(len(fluid), -1)
            factors[numbers] = np.broadcast_to(1.0 / np.sqrt(bulk * rho), numbers.shape)
        plan.border.combine(factors, plan.ranks, np.minimum)
        return factors

    def _prepare_damping(self) -> None:
        plan, backend, damping = self.plan, self.backend, make_damping(self.plan)
        matrices, stretched, table = coupling_matrices(plan, damping), stretched_pairs(plan), self.arrays
        self.pairs = [
            CoupledPairs.allocate(backend, table, plan.interface, matrices, stretched == layer, layer)
            for layer in (False, True)
        ]  # fmt: skip
        alone = ~np.isin(damping.point, np.concatenate([plan.interface.solid, plan.interface.fluid]))
        damping = Damping(damping.point[alone], damping.matrix[alone])
        self._damped = damping.point
        values = {"damped": damping.point, "damping": damping.kernel_matrix()}
        self.damping = tuple(table.upload(backend, name, array) for name, array in values.items())
        self.history = table.zeros(backend, "history")
        self.layer_points = [LayerMemory.allocate(backend, table, points) for points in plan.layer_points]

    def _prepare_sources(self, experiment: Experiment) -> None:
        # The element kernel updates points of only one element when it adds their forces; sources act only then.
        parts = (None,) if self.plan.ranks.size == 1 else (True, False)
        sources, spread = experiment.acquisition.sources, spread_of(self.plan, experiment)
        entries = source_entries(self.plan, sources, spread, locate_sources(self.plan, sources, spread))
        media = (False, True) if self.plan.has_fluids else (False,)
        self.sources = [
            SourceList(self.backend, self.plan, sources, entries, fluid, part) for part in parts for fluid in media
        ]  # fmt: skip
        self._row = AmplitudeRow(self.backend, [sources.table for sources in self.sources if sources.count])

    def _prepare_step(self) -> None:
        """Capture the launches of a step: one list on one rank, else those before messages are sent, and the rest."""
        moving, counting, damping = self.displacement_launches(), self._counting_launches(), self.damping_launches()
        injecting = [self._injection_launches(sources) for sources in self.sources]
        if self.plan.ranks.size == 1:
            launches = [*moving, *self._forces(self.tables.groups), *sum(injecting, []), *counting, *damping]
            self._step = captured(self.backend, launches)
            return
        outer = [*moving, self.exchange.saving(self.momentum), *self._forces(self.tables.outer)]
        half = len(injecting) // 2  # of the points that other ranks also have, and of the others
        inner = [*self._forces(self.tables.inner), *sum(injecting[half:], []), *counting]
        parts = [*outer, *sum(injecting[:half], [])], inner, damping
        self._outer, self._inner, self._absorb = (captured(self.backend, launches) for launches in parts)

    # ------------------------------------------------------------------------------------------------ the step

    def advance(self, step: int) -> None:
        """Advance from `step` to `step` + 1."""
        self._row.begin(step)
        for rates in self.kept_rates:
            self.kernels.keep_rates(self.momentum, *rates)
        if self.plan.ranks.size == 1:
            self._step()
            return
        self._outer()
        self.exchange.start(self.momentum)
        self._inner()
        self.exchange.finish(self.momentum)
        self._absorb()

    def displacement_launches(self) -> list[Launch]:
        """Return launches of u += dt M^-1 p at points that the first elements share; points of one element are updated
        with its forces, and on a GPU those of later elements with the forces of earlier ones. Launches of the forces
        must follow: see `elements.cu`."""
        first = self.tables.moved_first
        return [partial(self.kernels.update_displacement, self.displacement, self.momentum, first)]

    def force_launches(self, groups: Sequence[ElementGroup]) -> list[Launch]:
        """Return launches of p -= dt K u."""
        fields = self.displacement, self.momentum, self.tables.points, self.plan.shared
        with phase("kernels"):
            kernels = [self.kernels.add_forces(group.kind) for group in groups]
        return [partial(add, *group.arguments(*fields)) for add, group in zip(kernels, groups, strict=True)]

    def _forces(self, groups: Sequence[ElementGroup]) -> list[Launch]:
        """Return `force_launches`, of which those after the first, which moves points of the others, run side by side:
        small groups leave a device partly idle. Additions are then in any order."""
        first, *rest = self.force_launches(groups) or [None]
        if first is None:
            return []
        if self.plan.deterministic or len(rest) < 2:
            return [first, *rest]
        return [first, partial(self.backend.side_by_side, [[launch] for launch in rest])]

    def _injection_launches(self, sources: SourceList) -> list[Launch]:
        """Return launches of p += dt f of the sources."""
        if not sources.count:
            return []
        return [partial(self.kernels.inject, self.momentum, *sources.arguments(), self._row.array)]

    def _counting_launches(self) -> list[Launch]:
        """Return launches that increment the row in the tables of the sources."""
        if not any(sources.count for sources in self.sources):
            return []
        return [partial(self.kernels.count_step, self._row.array)]

    def damping_launches(self) -> list[Launch]:
        """Return launches of p -= dt C v, with v the mean of before and after, and of p = S^-1 (S p) in the layer."""
        momentum, kernels = self.momentum, self.kernels
        damping = [partial(kernels.damp, momentum, self.history, *self.damping)]
        layer = [
            partial(kernels.uncouple, momentum, pairs.coupled, pairs.solid, pairs.fluid)
            for pairs in self.pairs if pairs.coupled.size
        ]  # fmt: skip
        layer += [
            partial(kernels.unstretch, momentum, *points.arguments())
            for points in self.layer_points if len(points.numbers)
        ]  # fmt: skip
        coupling = [
            partial(kernels.couple, momentum, pairs.history, pairs.coupled, pairs.solid, pairs.fluid, pairs.matrix)
            for pairs in self.pairs if pairs.count
        ]  # fmt: skip
        return [*(damping if len(self.history) else []), *layer, *coupling]

    def update_displacement(self) -> None:
        """Update the displacement only."""
        run_launches(self.displacement_launches())

    def add_forces(self) -> None:
        """Add the forces of all elements only."""
        run_launches(self.force_launches(self.tables.groups))

    def absorb(self) -> None:
        """Damp only."""
        run_launches(self.damping_launches())

    def placement(self, sources: Sequence[PointSource], receivers: Sequence[Receiver]) -> Placement:
        """See `lithowave.solvers.interface.Solver`."""
        found = Placement.empty(len(receivers), len(sources))
        for source_list in self.sources:
            add_sources(found, self.plan, sources, source_list)
        found.receivers[self.receivers.point] = self.receivers.shares()
        return found

    # ----------------------------------------------------------------------------------------------- readings

    def largest_velocity(self) -> float:
        """See `lithowave.solvers.interface.Solver`."""
        self.kernels.largest_velocity(self.displacement, self.momentum, self._maxima.parts)
        return float(self._maxima.largest()) / self.plan.schedule.time_step

    def velocity(self) -> np.ndarray:
        """Return the velocity at all points (points, 3), m/s, on the host; of a fluid P / (rho c) in the first column.
        """
        scale = np.abs(self.backend.download(self.displacement)[:-1, 3:]) / self.plan.schedule.time_step
        momentum = self.backend.download(self.momentum)[:-1]
        return scale * momentum[:, 3:] * momentum[:, :3]

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
        value = "P / (rho vp)" if self.plan.materials.is_fluid[element] else f"|v{'xyz'[component]}|"
        return (
            f"{value} = {velocity[point, component]:.3g} m/s in {self.plan.place_of(element)}, where "
            f"vp = {vp:.5g} m/s, vs = {vs:.5g} m/s, rho = {rho:.5g} kg/m^3, smallest Jacobian "
            f"{self.plan.element_statistics.jacobian[element]:.3g} m^3"
        )

    # ------------------------------------------------------------------------------------------------ the state

    def state_rows(self) -> Iterator[StateRows]:
        """See `ElementSolver`: u and p of points, p of damped and coupled points before, the memory variables of the
        layer and of attenuation, and the peaks."""
        plan, tables, backend = self.plan, self.tables, self.backend
        keys, own = cache(plan.point_keys), np.ones(plan.total_points, bool)
        own[plan.border.owned_by_lower_ranks] = False

        def keys_at(points: np.ndarray) -> Callable[[], np.ndarray]:
            return lambda: keys()[points]

        yield StateRows("motion", keys, self._freeze_motion, self._set_motion, own)
        damped = self._damped
        yield StateRows("history", keys_at(damped), self._freeze_history, self._set_history, own[damped])
        for points, memory in zip(plan.layer_points, self.layer_points, strict=True):
            read, write = partial(memory.freeze, backend), partial(memory.restore, backend)
            yield StateRows(points.name, keys_at(points.point), read, write, own[points.point])
        for name, medium in layer_sets(plan).items():
            read, write = partial(tables.freeze_layer_memory, *medium), partial(tables.restore_layer_memory, *medium)
            yield StateRows(name, partial(tables.layer_elements, *medium), read, write)
        for name, pairs in zip(pair_sets(plan), self.pairs, strict=False):
            read, write = partial(pairs.freeze, backend), partial(pairs.restore, backend)
            yield StateRows(name, keys_at(pairs.fluid_points), read, write, own[pairs.fluid_points])
        for name, carriers in relaxation_sets(plan).items():
            read, write = partial(tables.freeze_relaxation, carriers), partial(tables.restore_relaxation, carriers)
            yield StateRows(name, partial(tables.relaxing_elements, carriers), read, write)
        if (peaks := self._peaks) is not None:
            yield StateRows("peaks", lambda: peaks.point, self._freeze_peaks, self._set_peaks)

    def _freeze_motion(self) -> Callable[[], np.ndarray]:
        """Return a function of u and p of all points, (points, 6)."""
        arrays = [self.backend.freeze(array) for array in (self.displacement, self.momentum)]

        def motion() -> np.ndarray:
            hosts = [array.wait() for array in arrays]
            values = np.empty((len(hosts[0]) - 1, 6), hosts[0].dtype)

            def arrange(part: slice) -> None:
                for column in range(6):  # ten times faster than rows of three values
                    values[part, column] = hosts[column // 3][part, column % 3]

            over_parts(arrange, len(values), PART)
            return values

        return motion

    def _set_motion(self, values: np.ndarray) -> None:
        for array, columns in ((self.displacement, slice(0, 3)), (self.momentum, slice(3, 6))):
            host = np.array(self.backend.download(array))
            host[:-1, :3] = values[:, columns]
            self.backend.assign(array, host)

    def _freeze_history(self) -> Callable[[], np.ndarray]:
        history, count = self.backend.freeze(self.history), len(self._damped)
        return lambda: history.wait()[:count]

    def _set_history(self, values: np.ndarray) -> None:
        if len(self._damped):
            self.backend.assign(self.history, values)

    def _freeze_peaks(self) -> Callable[[], np.ndarray]:
        assert self._peaks is not None
        parts = [self._peaks.freeze(name) for name in PEAKS]
        return lambda: np.concatenate([part() for part in parts], axis=1)

    def _set_peaks(self, values: np.ndarray) -> None:
        assert self._peaks is not None
        for name, columns in PEAKS.items():
            self._peaks.restore(name, values[:, columns])
