"""The finite-difference solver: arrays of one run, and one step of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lithowave.mesh.grid import AXES
from lithowave.parallel.halo import Halo, alone
from lithowave.solvers.array_sections import Piece, Place
from lithowave.solvers.common.source_amplitudes import BLOCK
from lithowave.solvers.finite_difference.coefficients import face_closure
from lithowave.solvers.finite_difference.cpml import axis_layers
from lithowave.solvers.finite_difference.exchange import FieldMessage
from lithowave.solvers.finite_difference.faces import TANGENTS, UNIT, line_volumes, unsigned
from lithowave.solvers.finite_difference.fields import LAW, MATERIAL, MEMORY, VELOCITIES
from lithowave.solvers.finite_difference.medium import Planes, medium_planes, speeds, surface_ratio, uniform_planes
from lithowave.solvers.finite_difference.plan import FiniteDifferencePlan
from lithowave.solvers.finite_difference.point_lists import ReceiverList, SourceList, split_records
from lithowave.solvers.finite_difference.points import PointStencil
from lithowave.solvers.finite_difference.quantization import quantize
from lithowave.solvers.finite_difference.rasters import (
    finish_fields,
    own_points,
    own_raster,
    parts_of,
    raster_lines,
    select_raster,
    surface_part,
)
from lithowave.solvers.finite_difference.regions import Parts, Region
from lithowave.solvers.finite_difference.schemes import make_scheme
from lithowave.solvers.finite_difference.source_sums import add_sources
from lithowave.solvers.finite_difference.state import Stored
from lithowave.solvers.finite_difference.surface_reading import (
    FULL_GAIN,
    GAINS,
    HERMITE,
    LINEAR,
    NEAR_SOURCE,
    FreeSurface,
)
from lithowave.solvers.interface import Coming, Raster
from lithowave.solvers.placement import Placement
from lithowave.weak import weak_call

if TYPE_CHECKING:
    from lithowave.description.simulation import Simulation

PACKAGE = "lithowave.solvers.finite_difference"
KERNELS = ("kernels", "boundary_kernels", "point_kernels")
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
    either, to measure kernels. backend : where the arrays live. halo : messages to other ranks; None for one rank.
    """

    staggered = True

    def __init__(
        self, plan: FiniteDifferencePlan, simulation: Simulation | None, backend: Any, halo: Halo | None = None
    ) -> None:
        self.plan, self.grid, self.backend, self.halo = plan, plan.grid, backend, halo or alone(backend)
        self._allocate(simulation)
        scales = {name: (code.low, code.step) for name, code in self.codes.items()} if self.stores_codes else None
        self.kernels = backend.kernels(PACKAGE, *KERNELS, order=plan.order, scales=scales)
        self._prepare_layers()
        sources = () if simulation is None else simulation.acquisition.sources
        self._prepare_stencil(simulation)
        self.parts = Parts(self, sources)
        self._row, self._next_step = backend.zeros((1,), np.int64), -1
        self.scheme = make_scheme(self, [source.position for source in sources if source.force is not None])
        receivers = () if simulation is None else simulation.acquisition.receivers
        positions = np.array([receiver.position for receiver in receivers], float).reshape(-1, 3)
        self._source_positions = np.array([source.position for source in sources], float).reshape(-1, 3)
        self.receivers = ReceiverList(backend, self.stencil, positions, self._clearance(positions))
        self._magnitudes = backend.zeros(MAGNITUDES)
        self._rasters: dict[tuple[Raster, str], list] = {}
        self._peaks: dict[str, Any] | None = None
        self._repeated: dict[tuple, Callable[[], None]] = {}

    def _allocate(self, simulation: Simulation | None) -> None:
        plan, backend = self.plan, self.backend

        def planes() -> Iterator[Planes]:
            if simulation is None:
                return uniform_planes(plan.survey, self.grid, plan.halo)
            return medium_planes(simulation, self.grid, plan.halo)

        self.codes = quantize(planes(), self.halo.ranks) if plan.moduli == "compact" else {}
        self.stores_codes = bool(self.codes) and backend.stores_codes
        dtype = np.uint16 if self.stores_codes else backend.dtype
        shape = plan.padded_shape()
        self.material = {field.name: backend.field(shape, plan.halo, dtype) for field in MATERIAL}
        for k, values in enumerate(planes()):
            for name, array in self.material.items():
                backend.assign(array[k], self._stored(name, values[name]))
        self.law_memory = {name: backend.field(shape, plan.halo) for name in MEMORY}
        self.law = tuple((self.material | self.law_memory)[name] for name in LAW)
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

    def _prepare_layers(self) -> None:
        plan, backend = self.plan, self.backend
        self.layers = [axis_layers(self.grid, axis, plan.layer, plan.schedule.time_step) for axis in range(3)]
        self.memory = {kind: [backend.zeros(one.memory) for one in self.layers] for kind in ("velocity", "stress")}
        self.profiles = [
            (backend.upload(one.half), backend.upload(one.node), backend.upload(np.array(one.starts), np.uint64))
            for one in self.layers
        ]

    def _prepare_stencil(self, simulation: Simulation | None) -> None:
        plan, backend, surface = self.plan, self.backend, None
        steps = backend.field_strides(plan.padded_shape(), plan.halo)
        volumes = line_volumes(self.grid.whole, plan.faces, face_closure(plan.order))
        if plan.faces["z_max"] == "free":
            ratio = surface_ratio(simulation, plan.survey, self.grid)
            surface = FreeSurface(ratio, plan.coefficients[0], GAINS[plan.order], self.grid.whole.shape[:2])
        own = plan.division.own if plan.division else None
        self.stencil = PointStencil(self.grid, plan.halo, volumes, steps[::-1], plan.faces, surface, own)

    def _clearance(self, positions: np.ndarray) -> np.ndarray:
        """Cells from each position (n, 3), m, to the nearest source, as far as they count at the surface."""
        h, sources = self.grid.spacing, self._source_positions
        order, found = np.argsort(positions[:, 0]), np.full(len(positions), np.inf)
        sorted_x = positions[order, 0]
        for source in sources[sources[:, 2] > self.grid.whole.nodes(2)[-1] - FULL_GAIN * h]:
            first, end = np.searchsorted(sorted_x, source[0] + np.array([-FULL_GAIN, FULL_GAIN]) * h)
            some = order[first:end]
            found[some] = np.minimum(found[some], np.linalg.norm(positions[some] - source, axis=1) / h)
        return found

    def buoyancy(self, name: str, index: np.ndarray) -> np.ndarray:
        """1/rho as the update of this velocity uses it, m^3/kg."""
        pitch, plane = self.stencil.strides[1:]
        step = self.stencil.strides[VELOCITIES.index(name)]
        pair = np.zeros(index.shape)
        for place in (index, index + step):
            k, j, i = place // plane, place % plane // pitch, place % pitch
            for k_present in np.unique(k):
                here = k == k_present
                pair[here] += self._material_of("density", self.material["density"][int(k_present)])[j[here], i[here]]
        return 2.0 / pair

    def field_message(self) -> FieldMessage:
        """The halo exchange of velocities; see `exchange`."""
        return FieldMessage(self.halo, self.kernels, self.plan.division, self.stencil.strides, self.plan.halo)

    # ------------------------------------------------------------------------------------------------ the step

    @property
    def fields_by_name(self) -> dict[str, Any]:
        """Velocities and the stresses half a step before them."""
        return self.scheme.fields

    def advance(self, step: int) -> None:
        """From step to step + 1."""
        if step != self._next_step or step % BLOCK == 0:
            self.backend.assign(self._row, np.array([step % BLOCK]))
            self.parts.load(step)
        self.scheme.advance()
        self._next_step = step + 1

    def step_stress(self, f: dict[str, Any], region: Region) -> None:
        """All that happens to the stresses in a region."""
        self.kernels.update_stress(*self.stress_arguments(f, region.boxes))
        self.finish_stress(f, region)

    def finish_stress(self, f: dict[str, Any], region: Region) -> None:
        """What faces and sources change in the stresses."""
        self.close_stress(f, region)
        self.inject(region.sources, f)
        for plane in region.free_planes:  # zero normal traction
            self.kernels.free_surface(plane, f["sxx"], f["syy"], f["szz"], self.law, self.ratio)

    def step_velocity(self, f: dict[str, Any], region: Region) -> None:
        """All that happens to the velocities in a region."""
        self.kernels.update_velocity(*self.velocity_arguments(f, region.boxes))
        self.finish_velocity(f, region)

    def close_stress(self, f: dict[str, Any], region: Region) -> None:
        """What the closures of free and rigid faces change in the stresses."""
        for face, closure in region.closed:
            self.kernels.close_stress(
                *_stress_fields(f, face.axis), self.law, *closure, face.first, face.half, face.shape, face.inward,
                *_axes(face.axis), self.ratio,
            )  # fmt: skip

    def finish_velocity(self, f: dict[str, Any], region: Region) -> None:
        """What faces and sources change in the velocities."""
        self.close_velocity(f, region)
        self.inject(region.sources, f)
        for face in region.rigid_faces():  # the normal velocity is zero by the closure, the tangential one here
            tangential = (f[VELOCITIES[tangent]] for tangent in TANGENTS[face.axis])
            self.kernels.hold(*tangential, face.first, face.shape)

    def close_velocity(self, f: dict[str, Any], region: Region) -> None:
        """What the closures of free and rigid faces change in the velocities."""
        for face, closure in region.closed:
            self.kernels.close_velocity(
                *_velocity_fields(f, face.axis), self.material["density"], *closure, face.first, face.half,
                face.shape, face.inward, *_axes(face.axis), self.ratio,
            )  # fmt: skip

    def update_stress(self) -> None:
        """sigma += dt C : grad v, with absorbing layers and closed faces: one half of a step, for measurements."""
        self.kernels.update_stress(*self.stress_arguments(self.fields_by_name, self.parts.stress.boxes))
        self.close_stress(self.fields_by_name, self.parts.stress)

    def update_velocity(self) -> None:
        """v += dt / rho div sigma, with absorbing layers and closed faces: the other half."""
        self.kernels.update_velocity(*self.velocity_arguments(self.fields_by_name, self.parts.velocity.boxes))
        self.close_velocity(self.fields_by_name, self.parts.velocity)

    def stress_arguments(self, f: dict[str, Any], boxes: np.ndarray) -> tuple[Any, ...]:
        """Of the kernel `update_stress`."""
        return (
            *f.values(), self.law, self.ratio, *self.coefficients, self.backend.threads, boxes,
            *self._layers("stress"),
        )  # fmt: skip

    def velocity_arguments(self, f: dict[str, Any], boxes: np.ndarray) -> tuple[Any, ...]:
        """Of the kernel `update_velocity`."""
        return (
            *f.values(), self.material["density"], self.ratio, *self.coefficients, self.backend.threads, boxes,
            *self._layers("velocity"),
        )  # fmt: skip

    def inject(self, sources: SourceList, f: dict[str, Any]) -> None:
        """What sources add to the fields at this step."""
        if sources.count:
            self.kernels.inject(tuple(f.values()), *sources.arguments(), self._row)

    def count_step(self) -> None:
        """One step further in the tables of the sources."""
        if self.parts.act:
            self.kernels.count_step(self._row)

    def _layers(self, kind: str) -> list[Any]:
        return [a for memory, profile in zip(self.memory[kind], self.profiles, strict=True) for a in (memory, *profile)]

    def placement(self, sources: Sequence[Any], receivers: Sequence[Any]) -> Placement:
        """See `lithowave.solvers.interface.Solver`; the rank with the node nearest to a receiver has all of it."""
        found, whole = Placement.empty(len(receivers), len(sources)), self.grid.whole
        add_sources(found, self, sources)
        nearest = np.rint((self.receivers.positions - whole.origin) / whole.spacing).astype(np.int64)
        nearest = np.clip(nearest, 0, np.array(whole.shape) - 1)
        np.add.at(found.receivers, self.receivers.numbers, self.stencil.is_own(nearest).astype(float))
        return found

    # --------------------------------------------------------------------------------------------- what is read

    @property
    def receiver_numbers(self) -> np.ndarray:
        """See `lithowave.solvers.interface.Solver`."""
        return self.receivers.numbers

    def facts(self) -> dict[str, Any]:
        """See `lithowave.solvers.interface.Solver`."""
        error = {field.report: self.codes[field.name].error() for field in MATERIAL if self.codes}
        return {"moduli_error": error} if error else {}

    def start_records(self, capacity: int, stress: bool) -> None:
        """See `lithowave.solvers.interface.Solver`."""
        self.receivers.start(capacity, stress)
        self._slot, self._next_slot = self.backend.zeros((1,), np.int64), 0
        self._repeated.clear()

    def record(self, slot: int) -> None:
        """See `lithowave.solvers.interface.Solver`."""
        if slot != self._next_slot:
            self.backend.assign(self._slot, np.array([slot]))
        fields, arguments = self.fields_by_name, self.receivers.arguments()
        self._repeat(("record", self.scheme.turn, self.receivers.room), self._launch_record, fields, arguments)
        self._next_slot = slot + 1

    def _launch_record(self, fields: dict[str, Any], arguments: tuple[Any, ...]) -> None:
        self.kernels.sample(tuple(fields.values()), *arguments, self._slot)
        self.kernels.count_step(self._slot)

    def _repeat(self, key: tuple, method: Callable[..., None], *arguments: Any) -> None:
        """Call a method that always launches the same kernels with the same arrays for this key."""
        if key not in self._repeated:
            self._repeated[key] = self.backend.repeated(weak_call(method, *arguments))
        self._repeated[key]()

    def records(self, count: int) -> Coming:
        """See `lithowave.solvers.interface.Solver`."""
        return Coming({"records": self.receivers.fetch(count)}, split_records)

    def raster(self, selection: Any) -> Raster:
        """See `lithowave.solvers.interface.Solver`."""
        return select_raster(self.grid.whole, selection)

    def raster_points(self, raster: Raster) -> np.ndarray:
        """See `lithowave.solvers.interface.Solver`."""
        return own_points(raster, own_raster(self.plan, raster))

    def fields(self, raster: Raster, names: tuple[str, ...]) -> Coming:
        """See `lithowave.solvers.interface.Solver`."""
        found = {}
        shape = [end - first for first, end in own_raster(self.plan, raster)[::-1]]
        for name in names:
            parts = parts_of(name)
            out = self.backend.zeros((*shape, len(parts)))
            for component, part in enumerate(parts):
                lines = self._lines(raster, part)
                if out.size:
                    self.kernels.interpolate(self.fields_by_name[part], *lines, out, component)
            found[name] = self.backend.fetch(out)
        return Coming(found, finish_fields)

    def _lines(self, raster: Raster, field: str) -> list[Any]:
        if (raster, field) not in self._rasters:
            lines = raster_lines(self.plan, field, raster)
            self._rasters[raster, field] = [
                array
                for below, weight in lines
                for array in (self.backend.upload(below, np.int64), self.backend.upload(weight))
            ]
        return self._rasters[raster, field]

    def start_peaks(self) -> None:
        """See `lithowave.solvers.interface.Solver`."""
        nx, ny, _ = self.grid.shape if self._has_surface else (0, 0, 0)
        names = ("displacement", "peak_velocity", "peak_displacement")
        self._peaks = {name: self.backend.zeros((3, ny, nx)) for name in names}
        self._repeated.clear()
        self._surface = self._surface_tables(ny, nx)

    def _surface_tables(self, rows: int, columns: int) -> tuple[Any, ...]:
        """What `surface_peaks` reads velocities with: slope, far, gain and stencil.

        Without a free surface, where no half node has a special place, vz is extrapolated from the two below the plane.
        """
        surface, upload = self.stencil.surface, self.backend.upload
        if surface is None:
            zeros, stencil = np.zeros((rows, columns)), (1.0, 0.0, 0.5, 0.0, 0.0)
            return upload(zeros), upload(np.full((rows, columns), 4.0)), upload(zeros), upload(np.array(stencil))
        x, y = (self.grid.nodes(axis)[:count] for axis, count in enumerate((columns, rows)))
        positions = np.stack([*np.meshgrid(x, y), np.full((rows, columns), self.grid.whole.nodes(2)[-1])], axis=-1)
        clearance = self._clearance(positions.reshape(-1, 3)).reshape(rows, columns)
        near, gain = clearance < NEAR_SOURCE, surface.gains.vertical_at(clearance)
        numbers = (self.grid.first[axis] + np.arange(count) for axis, count in enumerate((columns, rows)))
        slope = np.where(near, -LINEAR[2], -HERMITE[2]) * surface.ratio(*numbers)
        wide = self.plan.order > 2
        stencil = (*((9 / 8, -1 / 24, 9 / 16, -1 / 16) if wide else (1.0, 0.0, 0.5, 0.0)), surface.gains.horizontal)
        return upload(slope), upload(np.where(near, 0.0, 1.0)), upload(gain), upload(np.array(stencil))

    @property
    def _has_surface(self) -> bool:
        """Whether the plane on which peaks are kept is this rank's."""
        whole, own = self.grid.whole, self.plan.own
        return own[2][0] <= whole.shape[2] - 1 - whole.layers[2][1] < own[2][1]

    def update_peaks(self) -> None:
        """Take the present velocities into the peaks; once for each step."""
        if self._has_surface:
            self._repeat(("peaks", self.scheme.turn), self._launch_peaks, self.fields_by_name)

    def _launch_peaks(self, f: dict[str, Any]) -> None:
        halo, whole = self.plan.halo, self.grid.whole
        plane = whole.shape[2] - 1 - whole.layers[2][1] - self.grid.first[2]
        self.kernels.surface_peaks(
            f["vx"], f["vy"], f["vz"], halo + plane, halo, *self._surface,
            self.backend.scalar(self.plan.schedule.time_step), *self._peaks.values(),
        )  # fmt: skip

    def peaks(self) -> dict[str, np.ndarray]:
        """See `lithowave.solvers.interface.Solver`."""
        whole = self.grid.whole
        lines = [whole.nodes(axis)[whole.interior(axis)] for axis in range(2)]
        found, here = {"x": lines[0], "y": lines[1]}, surface_part(self.plan, self._has_surface)
        found["points"] = here.points
        for name in ("velocity", "displacement"):
            host = self.backend.download(self._peaks[f"peak_{name}"])
            found[name] = host[:, here.rows, here.columns].reshape(3, -1)
        return found

    def largest_velocity(self) -> float:
        """See `lithowave.solvers.interface.Solver`."""
        self.kernels.largest_magnitude(*(self.fields_by_name[name] for name in VELOCITIES), self._magnitudes)
        found = self.backend.download(self._magnitudes)
        return float(found.max()) if np.isfinite(found).all() else float("inf")

    def diagnose(self) -> str:
        """See `lithowave.solvers.interface.Solver`."""
        halo, largest, text = self.plan.halo, -1.0, ""
        for name in VELOCITIES:
            for k in range(self.plan.padded_shape()[0]):
                magnitude = np.abs(self.backend.download(self.fields_by_name[name][k]))
                magnitude = np.where(np.isfinite(magnitude), magnitude, np.inf)
                if magnitude.max() > largest:
                    largest = float(magnitude.max())
                    j, i = np.unravel_index(int(magnitude.argmax()), magnitude.shape)
                    x, y, z = (self.grid.origin[a] + self.grid.spacing * (n - halo) for a, n in enumerate((i, j, k)))
                    place = f"near ({x:zg}, {y:zg}, {z:zg}) m, where {self._material(k, j, i)}"
                    text = f"|{name}| = {largest:.3g} m/s {place}"
        return text

    def _material(self, k: int, j: int, i: int) -> str:
        values = {name: float(self._material_of(name, array[k, j])[i]) for name, array in self.material.items()}
        vp, vs = speeds(values)
        return f"vp = {vp:.5g} m/s, vs = {vs:.5g} m/s, rho = {values['density']:.5g} kg/m^3"

    # ------------------------------------------------------------------------------------------------ the state

    def _stored_parts(self) -> Stored:
        fields = self.fields_by_name | self.law_memory
        return Stored(self.plan, self.layers, fields, self.memory, self._peaks or {})

    def state(self) -> dict[str, Piece]:
        """See `lithowave.solvers.interface.Solver`."""
        return self._stored_parts().pieces(self.backend.download)

    def state_places(self) -> dict[str, Place]:
        """See `lithowave.solvers.interface.Solver`."""
        return self._stored_parts().places()

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """See `lithowave.solvers.interface.Solver`."""
        self._stored_parts().bring_back(state, self.backend.assign)
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
    pairs = ((0, 0), (1, 1), (2, 2), (axis, t), (axis, u))
    return (*velocities, *(f[stress_name(*pair)] for pair in pairs))


def stress_name(a: int, b: int) -> str:
    """Name of a stress component by its axes."""
    return "s" + "".join(AXES[axis] for axis in sorted((a, b)))
