"""The finite-difference solver: arrays of one run, and one step of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from lithowave.mesh.grid import AXES
from lithowave.solvers.base import Coming, Raster
from lithowave.solvers.finite_difference.arguments import STRESSES, VELOCITIES
from lithowave.solvers.finite_difference.coefficients import face_closure
from lithowave.solvers.finite_difference.cpml import axis_layers
from lithowave.solvers.finite_difference.faces import TANGENTS, UNIT, closed_faces, line_volumes, unsigned
from lithowave.solvers.finite_difference.medium import medium_planes, uniform_planes
from lithowave.solvers.finite_difference.moduli import make_codes
from lithowave.solvers.finite_difference.plan import FiniteDifferencePlan
from lithowave.solvers.finite_difference.point_lists import ReceiverList, SourceList, split_records
from lithowave.solvers.finite_difference.points import PointStencil
from lithowave.solvers.finite_difference.rasters import finish_fields, parts_of, raster_lines, select_raster
from lithowave.solvers.finite_difference.schemes import make_scheme
from lithowave.solvers.source_amplitudes import BLOCK, SourceAmplitudes

if TYPE_CHECKING:
    from lithowave.experiment.simulation import Simulation

PACKAGE = "lithowave.solvers.finite_difference"
KERNELS = ("kernels", "boundary_kernels", "point_kernels")
MATERIAL = ("lam", "compliance", "density")
MAGNITUDES = 1024  # parts in which the largest velocity is looked for


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

    staggered = True

    def __init__(self, plan: FiniteDifferencePlan, simulation: Simulation | None, backend: Any) -> None:
        self.plan, self.grid, self.backend = plan, plan.grid, backend
        self._allocate(simulation)
        scales = {name: (code.low, code.step) for name, code in self.codes.items()} if self.stores_codes else None
        self.kernels = backend.kernels(PACKAGE, *KERNELS, order=plan.order, scales=scales)
        self._prepare_faces()
        sources = [] if simulation is None else simulation.point_sources()
        self.scheme = make_scheme(self, [source.position for source in sources if source.force is not None])
        self._prepare_stencil()
        self._prepare_sources(sources)
        receivers = [] if simulation is None else simulation.receiver_list()
        positions = np.array([receiver.position for receiver in receivers], float).reshape(-1, 3)
        self.receivers = ReceiverList(backend, self.stencil, positions)
        self._magnitudes = backend.zeros(MAGNITUDES)
        self._rasters: dict[tuple[Raster, str], list] = {}
        self._peaks: dict[str, Any] | None = None
        self._repeated: dict[tuple, Callable[[], None]] = {}

    def _allocate(self, simulation: Simulation | None) -> None:
        plan, backend = self.plan, self.backend

        def planes() -> Iterator[tuple[np.ndarray, ...]]:
            if simulation is None:
                return uniform_planes(plan.survey, self.grid, plan.halo)
            return medium_planes(simulation, self.grid, plan.halo)

        self.codes = make_codes(planes()) if plan.moduli == "compact" else {}
        self.stores_codes = bool(self.codes) and backend.stores_codes
        dtype = np.uint16 if self.stores_codes else backend.dtype
        shape = plan.padded_shape()
        self.lam, self.compliance, self.density = material = [backend.field(shape, plan.halo, dtype) for _ in range(3)]
        for k, values in enumerate(planes()):
            for array, name, plane in zip(material, MATERIAL, values, strict=True):
                backend.assign(array[k], self._stored(name, plane))
        self.coefficients = tuple(tuple(map(backend.scalar, line)) for line in plan.coefficients)
        self.ratio = backend.scalar(plan.schedule.time_step / self.grid.spacing)

    def _stored(self, name: str, plane: np.ndarray) -> np.ndarray:
        """A plane of the material as the kernels read it; codes on a CPU become the numbers that they stand for."""
        if name not in self.codes:
            return plane
        codes = self.codes[name].encode(plane)
        return codes if self.stores_codes else self.codes[name].decode(codes)

    def _material_of(self, name: str, part: Any) -> np.ndarray:
        """A part of the material on the host, in numbers."""
        host = self.backend.download(part)
        return self.codes[name].decode(host) if self.stores_codes else host.astype(float)

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

    def _prepare_stencil(self) -> None:
        field = self.fields_by_name["vx"]
        strides = tuple(step // field.itemsize for step in field.strides[::-1])
        volumes = line_volumes(self.grid, self.plan.faces, face_closure(self.plan.order))
        self.stencil = PointStencil(self.grid, self.plan.halo, volumes, strides)

    def _prepare_sources(self, sources: list) -> None:
        """Weights of sources carry moment or force, volume, time step and buoyancy."""
        step = self.plan.schedule.time_step
        moments = [source for source in sources if source.moment is not None]
        forces = [source for source in sources if source.force is not None]
        rates = SourceAmplitudes([source.time_function.rate for source in moments], step, 0.0)
        amplitudes = SourceAmplitudes([source.time_function.amplitude for source in forces], step, 0.5)
        moment = -step * np.array([source.moment for source in moments], float).reshape(-1, 6)
        force = step * np.array([source.force for source in forces], float).reshape(-1, 3)
        place = (self.backend, self.stencil)
        self.moments = SourceList(*place, STRESSES, moments, moment, None, rates)
        self.forces = SourceList(*place, VELOCITIES, forces, force, self._buoyancy, amplitudes)
        self._row = self.backend.zeros((1,), np.int64)
        self._next_step = -1

    def _buoyancy(self, name: str, index: np.ndarray) -> np.ndarray:
        """1/rho as the update of this velocity uses it, m^3/kg."""
        pitch, plane = self.stencil.strides[1:]
        step = self.stencil.strides[VELOCITIES.index(name)]
        pair = np.zeros(index.shape)
        for place in (index, index + step):
            k, j, i = place // plane, place % plane // pitch, place % pitch
            for k_present in np.unique(k):
                here = k == k_present
                pair[here] += self._material_of("density", self.density[int(k_present)])[j[here], i[here]]
        return 2.0 / pair

    # ------------------------------------------------------------------------------------------------ the step

    @property
    def fields_by_name(self) -> dict[str, Any]:
        """Velocities and the stresses half a step before them."""
        return self.scheme.fields

    def advance(self, step: int) -> None:
        """From step to step + 1."""
        if step != self._next_step or step % BLOCK == 0:
            self.backend.assign(self._row, np.array([step % BLOCK]))
            self.moments.load(step)
            self.forces.load(step)
        self.scheme.advance()
        self._next_step = step + 1

    def update_stress(self) -> None:
        """sigma += dt C : grad v, with absorbing layers and closed faces."""
        self.kernels.update_stress(*self.stress_arguments(self.fields_by_name))
        self.close_stress(self.fields_by_name)

    def update_velocity(self) -> None:
        """v += dt / rho div sigma, with absorbing layers and closed faces."""
        self.kernels.update_velocity(*self.velocity_arguments(self.fields_by_name))
        self.close_velocity(self.fields_by_name)

    def stress_arguments(self, f: dict[str, Any]) -> tuple[Any, ...]:
        """Of the kernel `update_stress`."""
        material = (self.lam, self.compliance)
        return (
            *f.values(), *material, self.ratio, *self.coefficients, self.backend.threads, *self._layers("stress")
        )  # fmt: skip

    def velocity_arguments(self, f: dict[str, Any]) -> tuple[Any, ...]:
        """Of the kernel `update_velocity`."""
        return (
            *f.values(), self.density, self.ratio, *self.coefficients, self.backend.threads, *self._layers("velocity")
        )  # fmt: skip

    def close_stress(self, f: dict[str, Any]) -> None:
        """What free and rigid faces change in the stresses."""
        for face, closure in zip(self.closed, self.closure_arrays, strict=True):
            self.kernels.close_stress(
                *_stress_fields(f, face.axis), self.lam, self.compliance, *closure, face.first, face.half,
                face.shape, face.inward, *_axes(face.axis), self.ratio,
            )  # fmt: skip

    def close_velocity(self, f: dict[str, Any]) -> None:
        """What free and rigid faces change in the velocities."""
        for face, closure in zip(self.closed, self.closure_arrays, strict=True):
            self.kernels.close_velocity(
                *_velocity_fields(f, face.axis), self.density, *closure, face.first, face.half,
                face.shape, face.inward, *_axes(face.axis), self.ratio,
            )  # fmt: skip

    def apply_free_surface(self, f: dict[str, Any] | None = None) -> None:
        """Zero normal traction on the free face."""
        f = f or self.fields_by_name
        for face in self.closed:
            if face.kind == "free":
                self.kernels.free_surface(face.plane, f["sxx"], f["syy"], f["szz"], self.lam, self.compliance)

    def apply_rigid_faces(self, f: dict[str, Any] | None = None) -> None:
        """Zero tangential velocity on rigid faces; the normal one is zero by the closure."""
        f = f or self.fields_by_name
        for face in self.closed:
            if face.kind == "rigid":
                tangential = (f[VELOCITIES[tangent]] for tangent in TANGENTS[face.axis])
                self.kernels.hold(*tangential, face.first, face.shape)

    def inject(self, sources: SourceList, f: dict[str, Any]) -> None:
        """What sources add to the fields at this step."""
        if sources.count:
            self.kernels.inject(*f.values(), *sources.arguments(), self._row)

    def count_step(self) -> None:
        """One step further in the tables of the sources."""
        if self.moments.count or self.forces.count:
            self.kernels.count_step(self._row)

    def _layers(self, kind: str) -> list[Any]:
        return [a for memory, profile in zip(self.memory[kind], self.profiles, strict=True) for a in (memory, *profile)]

    # --------------------------------------------------------------------------------------------- what is read

    def facts(self) -> dict[str, Any]:
        """See `lithowave.solvers.base.Solver`."""
        names = {"density": "density_kg_m3", "lam": "lambda_pa", "compliance": "mu_relative"}
        error = {names[name]: code.error() for name, code in self.codes.items()}
        return {"moduli_error": error} if error else {}

    def start_records(self, capacity: int, stress: bool) -> None:
        """See `lithowave.solvers.base.Solver`."""
        self.receivers.start(capacity, stress)
        self._slot, self._next_slot = self.backend.zeros((1,), np.int64), 0
        self._repeated.clear()

    def record(self, slot: int) -> None:
        """See `lithowave.solvers.base.Solver`."""
        if slot != self._next_slot:
            self.backend.assign(self._slot, np.array([slot]))
        fields, arguments = self.fields_by_name, self.receivers.arguments()
        self._repeat(("record", id(fields), self.receivers.room), lambda: self._launch_record(fields, arguments))
        self._next_slot = slot + 1

    def _launch_record(self, fields: dict[str, Any], arguments: tuple[Any, ...]) -> None:
        self.kernels.sample(*fields.values(), *arguments, self._slot)
        self.kernels.count_step(self._slot)

    def _repeat(self, key: tuple, function: Callable[[], None]) -> None:
        """Call what always launches the same for this key."""
        if key not in self._repeated:
            self._repeated[key] = self.backend.repeated(function)
        self._repeated[key]()

    def records(self, count: int) -> Coming:
        """See `lithowave.solvers.base.Solver`."""
        return Coming({"records": self.receivers.fetch(count)}, split_records)

    def raster(self, selection: Any) -> Raster:
        """See `lithowave.solvers.base.Solver`."""
        return select_raster(self.grid, selection)

    def fields(self, raster: Raster, names: tuple[str, ...]) -> Coming:
        """See `lithowave.solvers.base.Solver`."""
        found = {}
        for name in names:
            parts = parts_of(name)
            out = self.backend.zeros((*raster.shape[::-1], len(parts)))
            for component, part in enumerate(parts):
                lines = self._lines(raster, part)
                self.kernels.interpolate(self.fields_by_name[part], *lines, out, component)
            found[name] = self.backend.fetch(out)
        return Coming(found, finish_fields)

    def _lines(self, raster: Raster, field: str) -> list[Any]:
        if (raster, field) not in self._rasters:
            lines = raster_lines(self.grid, self.plan.halo, field, raster)
            self._rasters[raster, field] = [
                array
                for below, weight in lines
                for array in (self.backend.upload(below, np.int64), self.backend.upload(weight))
            ]
        return self._rasters[raster, field]

    def start_peaks(self) -> None:
        """See `lithowave.solvers.base.Solver`."""
        nx, ny, _ = self.grid.shape
        names = ("displacement", "peak_velocity", "peak_displacement")
        self._peaks = {name: self.backend.zeros((3, ny, nx)) for name in names}
        self._repeated.clear()
        # Quadratic extrapolation of vz to the surface from the three half nodes below it.
        self._lift = self.backend.upload(np.array([15.0, -10.0, 3.0]) / 8.0)

    def update_peaks(self) -> None:
        """Take the present velocities into the peaks; once for each step."""
        fields = self.fields_by_name
        self._repeat(("peaks", id(fields)), lambda: self._launch_peaks(fields))

    def _launch_peaks(self, f: dict[str, Any]) -> None:
        halo = self.plan.halo
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
        self.kernels.largest_magnitude(*(self.fields_by_name[name] for name in VELOCITIES), self._magnitudes)
        found = self.backend.download(self._magnitudes)
        return float(found.max()) if np.isfinite(found).all() else float("inf")

    def diagnose(self) -> str:
        """See `lithowave.solvers.base.Solver`."""
        halo, largest, text = self.plan.halo, -1.0, ""
        for name in VELOCITIES:
            for k in range(self.plan.padded_shape()[0]):
                magnitude = np.abs(self.backend.download(self.fields_by_name[name][k]))
                magnitude = np.where(np.isfinite(magnitude), magnitude, np.inf)
                if magnitude.max() > largest:
                    largest = float(magnitude.max())
                    j, i = np.unravel_index(int(magnitude.argmax()), magnitude.shape)
                    x, y, z = (self.grid.origin[a] + self.grid.spacing * (n - halo) for a, n in enumerate((i, j, k)))
                    text = f"|{name}| = {largest:.3g} m/s near ({x:g}, {y:g}, {z:g}) m, where {self._material(k, j, i)}"
        return text

    def _material(self, k: int, j: int, i: int) -> str:
        arrays = zip(MATERIAL, (self.lam, self.compliance, self.density), strict=True)
        lam, compliance, rho = (float(self._material_of(name, array[k, j])[i]) for name, array in arrays)
        vp, vs = np.sqrt((lam + 2 / compliance) / rho), np.sqrt(1 / compliance / rho)
        return f"vp = {vp:.5g} m/s, vs = {vs:.5g} m/s, rho = {rho:.5g} kg/m^3"

    def _state_arrays(self) -> dict[str, Any]:
        state = {f"field/{name}": array for name, array in self.fields_by_name.items()}
        for kind, arrays in self.memory.items():
            state |= {f"layers/{letter}/{kind}": array for letter, array in zip(AXES, arrays, strict=True)}
        return state | {f"peaks/{name}": array for name, array in (self._peaks or {}).items()}

    def state(self) -> dict[str, np.ndarray]:
        """See `lithowave.solvers.base.Solver`."""
        return {name: self.backend.download(array) for name, array in self._state_arrays().items()}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """See `lithowave.solvers.base.Solver`."""
        for name, array in self._state_arrays().items():
            self.backend.assign(array, state[name])
        self.scheme.restored()


def _axes(axis: int) -> tuple:
    return tuple(unsigned(UNIT[a]) for a in (axis, *TANGENTS[axis]))


def _velocity_fields(f: dict[str, Any], axis: int) -> tuple:
    t, u = TANGENTS[axis]
    velocities = (f["v" + AXES[a]] for a in (axis, t, u))
    return (*velocities, f[stress_name(axis, axis)], f[stress_name(axis, t)], f[stress_name(axis, u)])


def _stress_fields(f: dict[str, Any], axis: int) -> tuple:
    t, u = TANGENTS[axis]
    velocities = (f["v" + AXES[a]] for a in (axis, t, u))
    pairs = ((axis, axis), (t, t), (u, u), (axis, t), (axis, u))
    return (*velocities, *(f[stress_name(*pair)] for pair in pairs))


def stress_name(a: int, b: int) -> str:
    """Name of a stress component by its axes."""
    return "s" + "".join(AXES[axis] for axis in sorted((a, b)))
