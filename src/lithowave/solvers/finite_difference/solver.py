"""The finite-difference solver: arrays of one run, and one step of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lithowave.backends.cpu import CpuBackend
from lithowave.mesh.grid import AXES
from lithowave.solvers.base import Raster
from lithowave.solvers.finite_difference.coefficients import face_closure
from lithowave.solvers.finite_difference.cpml import slabs
from lithowave.solvers.finite_difference.faces import TANGENTS, UNIT, closed_faces, line_volumes, unsigned
from lithowave.solvers.finite_difference.medium import fill_medium, fill_uniform
from lithowave.solvers.finite_difference.plan import FiniteDifferencePlan
from lithowave.solvers.finite_difference.points import STRESSES, VELOCITIES, PointStencil
from lithowave.solvers.finite_difference.rasters import node_fields, select_raster
from lithowave.solvers.source_table import SourceTable

if TYPE_CHECKING:
    from lithowave.experiment.simulation import Simulation

PACKAGE = "lithowave.solvers.finite_difference"
KERNELS = ("kernels", "boundary_kernels", "point_kernels")
TILE_ROWS = 48


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
            fill_uniform(self.plan.survey, self.lam, self.compliance, self.density)
        else:
            fill_medium(simulation, self.grid, self.plan.halo, self.lam, self.compliance, self.density)
        self.coefficients = tuple(tuple(map(backend.scalar, line)) for line in self.plan.coefficients)
        self.ratio = backend.scalar(self.plan.schedule.time_step / self.grid.spacing)
        self.tiling = (min(TILE_ROWS, shape[1]), backend.threads)

    def _prepare_faces(self) -> None:
        plan, backend = self.plan, self.backend
        self.slabs = slabs(self.grid, plan.layer, plan.schedule.time_step)
        self.slab_arrays = [
            {
                "velocity": backend.zeros((3, *slab.extent)),
                "stress": backend.zeros((3, *slab.extent)),
                "half": backend.upload(slab.half),
                "node": backend.upload(slab.node),
                "start": unsigned(tuple(index + plan.halo for index in slab.start)),
            }
            for slab in self.slabs
        ]
        self._join_layers_along_x()
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

    def _join_layers_along_x(self) -> None:
        """The layers along x in joint arrays: the update of the interior does them (see `kernels.py`)."""
        nx, ny, nz = self.grid.shape
        along_x = [arrays for slab, arrays in zip(self.slabs, self.slab_arrays, strict=True) if slab.axis == 0]
        width = along_x[0]["half"].shape[2] if along_x else 1
        sides = len(along_x)
        self.x_memory = {kind: self.backend.zeros((3 * sides, nz, ny, width)) for kind in ("velocity", "stress")}
        profiles = [
            np.concatenate([np.zeros((3, 0, width)), *(self.backend.download(a[kind]) for a in along_x)], axis=1)
            for kind in ("half", "node")
        ]
        starts = np.array([arrays["start"][2] for arrays in along_x], np.uint64)
        self.x_layers = (*map(self.backend.upload, profiles), self.backend.upload(starts, np.uint64))
        keep = [number for number, slab in enumerate(self.slabs) if slab.axis != 0]
        self.slabs = [self.slabs[number] for number in keep]
        self.slab_arrays = [self.slab_arrays[number] for number in keep]

    def _prepare_sources(self, sources: list) -> None:
        """Lists of (field, index, weight, owner): weights carry moment or force, volume, time step and buoyancy."""
        time_step = self.plan.schedule.time_step
        moments = [source for source in sources if source.moment is not None]
        forces = [source for source in sources if source.force is not None]
        self.moment_table = SourceTable([source.time_function.rate for source in moments], time_step, 0.0)
        self.force_table = SourceTable([source.time_function.amplitude for source in forces], time_step, 0.5)
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
        self._inject(self.moment_entries, self.moment_table, step)
        self.apply_free_surface()
        self.update_velocity()
        self._inject(self.force_entries, self.force_table, step)
        self.apply_rigid_faces()

    def update_stress(self) -> None:
        """sigma += dt C : grad v, with absorbing layers and closed faces."""
        f, material = self.fields_by_name, (self.lam, self.compliance)
        self.kernels.update_stress(
            *f.values(), *material, self.ratio, *self.coefficients, *self.tiling, self.x_memory["stress"], *self.x_layers
        )
        for slab, arrays in zip(self.slabs, self.slab_arrays, strict=True):
            self.kernels.absorb_stress(
                *self._stress_arguments(slab.axis), *material, arrays["stress"], arrays["half"], arrays["node"],
                arrays["start"], *self._axes(slab.axis), self.ratio, self.coefficients[slab.axis],
            )  # fmt: skip
        for face, closure in zip(self.closed, self.closure_arrays, strict=True):
            self.kernels.close_stress(
                *self._stress_arguments(face.axis), *material, *closure, face.first, face.half,
                face.shape, face.inward, *self._axes(face.axis), self.ratio,
            )  # fmt: skip

    def update_velocity(self) -> None:
        """v += dt / rho div sigma, with absorbing layers and closed faces."""
        f = self.fields_by_name
        self.kernels.update_velocity(
            *f.values(), self.density, self.ratio, *self.coefficients, *self.tiling, self.x_memory["velocity"],
            *self.x_layers,
        )  # fmt: skip
        for slab, arrays in zip(self.slabs, self.slab_arrays, strict=True):
            self.kernels.absorb_velocity(
                *self._velocity_arguments(slab.axis), self.density, arrays["velocity"], arrays["half"],
                arrays["node"], arrays["start"], *self._axes(slab.axis), self.ratio, self.coefficients[slab.axis],
            )  # fmt: skip
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

    def _inject(self, entries: list[tuple], table: SourceTable, step: int) -> None:
        if entries:
            amplitude = self.backend.upload(table.at(step), np.float64)
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
        return max(float(self.kernels.largest(self.fields_by_name[name])) for name in VELOCITIES)

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
        for number, arrays in enumerate(self.slab_arrays):
            state |= {f"layer/{number}/{kind}": arrays[kind] for kind in ("velocity", "stress")}
        state |= {f"layer/x/{kind}": array for kind, array in self.x_memory.items()}
        state |= {f"peaks/{name}": array for name, array in (self._peaks or {}).items()}
        return {name: self.backend.download(array) for name, array in state.items()}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """See `lithowave.solvers.base.Solver`."""
        for name, array in self.state().items():
            array[...] = state[name]


def stress_name(a: int, b: int) -> str:
    """Name of a stress component by its axes."""
    return "s" + "".join(AXES[axis] for axis in sorted((a, b)))
