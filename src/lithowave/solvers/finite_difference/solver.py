"""The finite-difference solver: arrays of one run, and one step of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lithowave.backends.cpu import CpuBackend
from lithowave.mesh.grid import AXES
from lithowave.solvers.base import Raster
from lithowave.solvers.finite_difference.coefficients import face_closure
from lithowave.solvers.finite_difference.cpml import axis_layers
from lithowave.solvers.finite_difference.faces import TANGENTS, UNIT, closed_faces, line_volumes, unsigned
from lithowave.solvers.finite_difference.medium import fill_medium, fill_uniform
from lithowave.solvers.finite_difference.plan import FiniteDifferencePlan
from lithowave.solvers.finite_difference.points import STRESSES, VELOCITIES, PointStencil
from lithowave.solvers.finite_difference.rasters import node_fields, select_raster
from lithowave.solvers.source_amplitudes import SourceAmplitudes

if TYPE_CHECKING:
    from lithowave.experiment.simulation import Simulation

PACKAGE = "lithowave.solvers.finite_difference"
KERNELS = ("kernels", "boundary_kernels", "point_kernels")
TILE_ROWS, FEWEST_ROWS = 24, 8


class FiniteDifferenceSolver:
    r"""Velocity-stress leapfrog on the staggered grid.

    With v at t_n = n dt and sigma at t_n - dt/2, a step is

    .. math::
        \sigma^{n+1/2} = \sigma^{n-1/2} + \Delta t\,[C : \nabla v^n - \dot M(t_n)\,\delta(x - x_s)], \qquad
        v^{n+1} = v^n + \frac{\Delta t}{\rho}\,[\nabla\cdot\sigma^{n+1/2} + f(t_{n+1/2})\,\delta(x - x_s)].

    Parameters
    ----------
    plan : grid, time step, stencils. simulation : sources, receivers, material; None for a uniform medium without
    either, to measure kernels. backend : where the arrays live.
    """

    def __init__(self, plan: FiniteDifferencePlan, simulation: Simulation | None, backend: CpuBackend) -> None:
        self.plan, self.grid, self.backend = plan, plan.grid, backend
        self.kernels = backend.kernels(PACKAGE, *KERNELS)
        self._allocate(simulation)
        self._prepare_faces()
        self._prepare_sources([] if simulation is None else simulation.point_sources())
        self._prepare_receivers(simulation)
        self._peaks: dict[str, np.ndarray] | None = None

    def _allocate(self, simulation: Simulation | None) -> None:
        shape, backend = self.plan.padded_shape(), self.backend
        self.fields_by_name = {name: backend.zeros(shape) for name in VELOCITIES + STRESSES}
        self.lam, self.compliance, self.density = (backend.zeros(shape) for _ in range(3))
        if simulation is None:
            fill_uniform(
                self.plan.survey, self.grid, self.plan.halo, self.lam, self.compliance, self.density
            )
        else:
            fill_medium(simulation, self.grid, self.plan.halo, self.lam, self.compliance, self.density)
        self.coefficients = tuple(tuple(map(backend.scalar, line)) for line in self.plan.coefficients)
        self.ratio = backend.scalar(self.plan.schedule.time_step / self.grid.spacing)
        self.tiling = tiling(self.grid.shape[1], self.grid.shape[2], backend.threads)

    def _prepare_faces(self) -> None:
        plan, backend = self.plan, self.backend
        layers = [axis_layers(self.grid, axis, plan.layer, plan.schedule.time_step) for axis in range(3)]
        self.memory = {kind: [backend.zeros(one.memory) for one in layers] for kind in ("velocity", "stress")}
        self.profiles = [
            (backend.upload(one.half), backend.upload(one.node), backend.upload(np.array(one.starts), np.uint64))
            for one in layers
        ]
        closure = face_closure(plan.order)
        self.closed = closed_faces(self.grid, plan.faces, closure, plan.halo)
        self.closure_arrays = [
            (
                backend.upload(face.node_change),
                backend.upload(face.half_change),
                unsigned(tuple(range(face.node_change.shape[1]))),
                unsigned(tuple(range(face.half_change.shape[1]))),
            )
            for face in self.closed
        ]
        self.stencil = PointStencil(self.grid, plan.halo, line_volumes(self.grid, plan.faces, closure))

    def _prepare_sources(self, sources: list) -> None:
        """Lists of (field, index, weight, owner): weights carry moment or force, volume, time step and buoyancy."""
        time_step = self.plan.schedule.time_step
        moments = [source for source in sources if source.moment is not None]
        forces = [source for source in sources if source.force is not None]
        self.moment_rates = SourceAmplitudes([source.time_function.rate for source in moments], time_step, 0.0)
        self.force_amplitudes = SourceAmplitudes([source.time_function.amplitude for source in forces], time_step, 0.5)
        self.moment_entries = self._source_entries(
            STRESSES, moments, [tuple(-value for value in source.moment) for source in moments]
        )
        self.force_entries = self._source_entries(VELOCITIES, forces, [source.force for source in forces])

    def _source_entries(self, names: tuple[str, ...], sources: list, strengths: list) -> list[tuple]:
        entries = []
        for component, name in enumerate(names):
            acting = [number for number, strength in enumerate(strengths) if strength[component] != 0.0]
            if not acting:
                continue
            weights = self.stencil.sources(name, np.array([sources[number].position for number in acting]))
            owner = np.array(acting)[weights.owner]
            scale = np.array([strength[component] for strength in strengths])[owner] * self.plan.schedule.time_step
            if name in VELOCITIES:
                scale = scale * self._buoyancy(name, weights.index)
            entries.append(
                (
                    name,
                    self.backend.upload(weights.index, np.int64),
                    self.backend.upload(weights.weight * scale, np.float64),
                    self.backend.upload(owner, np.int64),
                )
            )
        return entries

    def _buoyancy(self, name: str, index: np.ndarray) -> np.ndarray:
        """1/rho as the update of this velocity uses it, m^3/kg."""
        density = self.backend.download(self.density).reshape(-1)
        step = self.stencil.strides[VELOCITIES.index(name)]
        return 2.0 / (density[index].astype(float) + density[index + step])

    def _prepare_receivers(self, simulation: Simulation | None) -> None:
        receivers = [] if simulation is None else simulation.receiver_list()
        positions = np.array([receiver.position for receiver in receivers], float).reshape(-1, 3)
        with_stress = simulation is not None and (simulation.output.stress or simulation.output.pressure)
        names = VELOCITIES + (STRESSES if with_stress else ())
        self.receiver_count = len(positions)
        self.receiver_weights = {}
        for name in names:
            weights = self.stencil.receivers(name, positions)
            self.receiver_weights[name] = (
                self.backend.upload(weights.index, np.int64),
                self.backend.upload(weights.weight, np.float64),
                self.backend.upload(weights.begin, np.int64),
            )

    # ------------------------------------------------------------------------------------------------ the step

    def advance(self, step: int) -> None:
        """From step to step + 1."""
        self.update_stress()
        self._inject(self.moment_entries, self.moment_rates, step)
        self.apply_free_surface()
        self.update_velocity()
        self._inject(self.force_entries, self.force_amplitudes, step)
        self.apply_rigid_faces()

    def update_stress(self) -> None:
        """sigma += dt C : grad v, with absorbing layers and closed faces."""
        f, material = self.fields_by_name, (self.lam, self.compliance)
        self.kernels.update_stress(
            *f.values(), *material, self.ratio, *self.coefficients, *self.tiling, *self._layers("stress")
        )
        for face, closure in zip(self.closed, self.closure_arrays, strict=True):
            self.kernels.close_stress(
                *self._stress_arguments(face.axis), *material, *closure, face.first, face.half,
                face.shape, face.inward, *self._axes(face.axis), self.ratio,
            )  # fmt: skip

    def update_velocity(self) -> None:
        """v += dt / rho div sigma, with absorbing layers and closed faces."""
        f = self.fields_by_name
        self.kernels.update_velocity(
            *f.values(), self.density, self.ratio, *self.coefficients, *self.tiling, *self._layers("velocity")
        )
        for face, closure in zip(self.closed, self.closure_arrays, strict=True):
            self.kernels.close_velocity(
                *self._velocity_arguments(face.axis), self.density, *closure, face.first, face.half,
                face.shape, face.inward, *self._axes(face.axis), self.ratio,
            )  # fmt: skip

    def apply_free_surface(self) -> None:
        """Zero normal traction on the free face."""
        f = self.fields_by_name
        for face in self.closed:
            if face.kind == "free":
                self.kernels.free_surface(face.plane, f["sxx"], f["syy"], f["szz"], self.lam, self.compliance)

    def apply_rigid_faces(self) -> None:
        """Zero tangential velocity on rigid faces; the normal one is zero by the closure."""
        for face in self.closed:
            if face.kind == "rigid":
                plane = [slice(None)] * 3
                plane[2 - face.axis] = face.plane
                for tangent in TANGENTS[face.axis]:
                    self.fields_by_name[VELOCITIES[tangent]][tuple(plane)] = 0.0

    def _layers(self, kind: str) -> list[np.ndarray]:
        return [a for memory, profile in zip(self.memory[kind], self.profiles, strict=True) for a in (memory, *profile)]

    def _axes(self, axis: int) -> tuple:
        return tuple(unsigned(UNIT[a]) for a in (axis, *TANGENTS[axis]))

    def _velocity_arguments(self, axis: int) -> tuple:
        f, (t, u) = self.fields_by_name, TANGENTS[axis]
        velocities = (f["v" + AXES[a]] for a in (axis, t, u))
        return (*velocities, f[stress_name(axis, axis)], f[stress_name(axis, t)], f[stress_name(axis, u)])

    def _stress_arguments(self, axis: int) -> tuple:
        f, (t, u) = self.fields_by_name, TANGENTS[axis]
        velocities = (f["v" + AXES[a]] for a in (axis, t, u))
        pairs = ((axis, axis), (t, t), (u, u), (axis, t), (axis, u))
        return (*velocities, *(f[stress_name(*pair)] for pair in pairs))

    def _inject(self, entries: list[tuple], amplitudes: SourceAmplitudes, step: int) -> None:
        if entries:
            amplitude = self.backend.upload(amplitudes.at(step), np.float64)
            for name, index, weight, owner in entries:
                self.kernels.inject(self.fields_by_name[name].reshape(-1), index, weight, owner, amplitude)

    # --------------------------------------------------------------------------------------------- what is read

    def start_records(self, capacity: int, stress: bool) -> None:
        """See `lithowave.solvers.base.Solver`."""
        names = {"velocity": VELOCITIES} | ({"stress": STRESSES} if stress else {})
        self._records = {kind: np.zeros((capacity, len(parts), self.receiver_count)) for kind, parts in names.items()}
        self._record_names = names

    def record(self, slot: int) -> None:
        """See `lithowave.solvers.base.Solver`."""
        for kind, names in self._record_names.items():
            for component, name in enumerate(names):
                field = self.fields_by_name[name].reshape(-1)
                self.kernels.sample(field, *self.receiver_weights[name], self._records[kind][slot, component])

    def records(self, count: int) -> dict[str, np.ndarray]:
        """See `lithowave.solvers.base.Solver`."""
        return {kind: np.moveaxis(block[:count], 1, 2).copy() for kind, block in self._records.items()}

    def raster(self, selection: Any) -> Raster:
        """See `lithowave.solvers.base.Solver`."""
        return select_raster(self.grid, selection)

    def fields(self, raster: Raster, names: tuple[str, ...]) -> dict[str, np.ndarray]:
        """See `lithowave.solvers.base.Solver`."""
        return node_fields(self.grid, self.plan.halo, self.fields_by_name, raster, names)

    def start_peaks(self) -> None:
        """See `lithowave.solvers.base.Solver`."""
        nx, ny, _ = self.grid.shape
        self._peaks = {
            "displacement": self.backend.zeros((3, ny, nx)),
            "peak_velocity": self.backend.zeros((3, ny, nx)),
            "peak_displacement": self.backend.zeros((3, ny, nx)),
        }
        # Quadratic extrapolation of vz to the surface from the three half nodes below it.
        self._lift = self.backend.upload(np.array([15.0, -10.0, 3.0]) / 8.0)

    def update_peaks(self) -> None:
        """Take the present velocities into the peaks; once for each step."""
        f, halo = self.fields_by_name, self.plan.halo
        self.kernels.surface_peaks(
            f["vx"], f["vy"], f["vz"], halo + self.grid.shape[2] - 1 - self.grid.layers[2][1], halo, self._lift,
            self.backend.scalar(self.plan.schedule.time_step), *self._peaks.values(),
        )  # fmt: skip

    def peaks(self) -> dict[str, np.ndarray]:
        """See `lithowave.solvers.base.Solver`."""
        x, y = self.grid.interior(0), self.grid.interior(1)
        host = {name: self.backend.download(array)[:, y, x] for name, array in self._peaks.items()}
        return {
            "x": self.grid.nodes(0)[x],
            "y": self.grid.nodes(1)[y],
            "velocity": host["peak_velocity"],
            "displacement": host["peak_displacement"],
        }

    def largest_velocity(self) -> float:
        """See `lithowave.solvers.base.Solver`."""
        found = [self._largest(self.fields_by_name[name]) for name in VELOCITIES]
        return max(found) if np.isfinite(found).all() else float("inf")

    def _largest(self, field: np.ndarray) -> float:
        """Largest |field|; infinite or NaN as soon as one value is."""
        integer = np.dtype(f"int{8 * field.itemsize}")
        most = self.kernels.largest_bits(field.view(integer), np.iinfo(integer).max)
        return float(np.array(most, integer).view(field.dtype))

    def diagnose(self) -> str:
        """See `lithowave.solvers.base.Solver`."""
        halo = self.plan.halo
        largest, text = -1.0, ""
        for name in VELOCITIES:
            magnitude = np.abs(self.backend.download(self.fields_by_name[name]))
            magnitude[~np.isfinite(magnitude)] = np.inf
            k, j, i = np.unravel_index(int(magnitude.argmax()), magnitude.shape)
            if magnitude[k, j, i] > largest:
                largest = float(magnitude[k, j, i])
                place = [self.grid.origin[a] + self.grid.spacing * (n - halo) for a, n in enumerate((i, j, k))]
                lam, mu = float(self.lam[k, j, i]), 1.0 / float(self.compliance[k, j, i])
                rho = float(self.density[k, j, i])
                text = (
                    f"|{name}| = {largest:.3g} m/s near ({place[0]:g}, {place[1]:g}, {place[2]:g}) m, where "
                    f"vp = {np.sqrt((lam + 2 * mu) / rho):.5g} m/s, vs = {np.sqrt(mu / rho):.5g} m/s, "
                    f"rho = {rho:.5g} kg/m^3"
                )
        return text

    def state(self) -> dict[str, np.ndarray]:
        """See `lithowave.solvers.base.Solver`."""
        state = {f"field/{name}": array for name, array in self.fields_by_name.items()}
        for kind, arrays in self.memory.items():
            state |= {f"layers/{letter}/{kind}": array for letter, array in zip(AXES, arrays, strict=True)}
        state |= {f"peaks/{name}": array for name, array in (self._peaks or {}).items()}
        return {name: self.backend.download(array) for name, array in state.items()}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """See `lithowave.solvers.base.Solver`."""
        for name, array in self.state().items():
            array[...] = state[name]


def stress_name(a: int, b: int) -> str:
    """Name of a stress component by its axes."""
    return "s" + "".join(AXES[axis] for axis in sorted((a, b)))


def tiling(rows: int, planes: int, threads: int) -> tuple[int, int]:
    """Parts in y and in z, a multiple of the threads in all: some TILE_ROWS rows a tile, the planes whole if possible.

    The layers make the outer rows and planes dearer; tiles that are whole in z share those of the bottom evenly.
    """
    slabs = 1
    while threads > slabs * max(1, rows // FEWEST_ROWS) and slabs < planes // FEWEST_ROWS:
        slabs *= 2
    across = -(-threads // slabs)
    tiles = across * max(1, round(rows / (TILE_ROWS * across)))
    return min(tiles, rows), slabs
