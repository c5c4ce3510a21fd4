"""Finite-difference solver: the arrays of one run, their state, and the time step.

The state of a run, or of one rank's subdomain, is addressed by nodes of the global grid (`CheckpointArrays`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from lithowave.mesh.grid import AXES, NodeRanges
from lithowave.parallel.halo import Halo, single_rank_halo
from lithowave.process import phase
from lithowave.solvers.common.kernels import Launch, PartialMaxima, Programs
from lithowave.solvers.finite_difference.attenuation import unrelaxed
from lithowave.solvers.finite_difference.coefficients import face_closure
from lithowave.solvers.finite_difference.exchange import FieldMessage
from lithowave.solvers.finite_difference.grid_plan import AxisLayers, LayerSmoothing
from lithowave.solvers.finite_difference.interfaces import SourceColumns
from lithowave.solvers.finite_difference.law import VELOCITIES, state_arrays
from lithowave.solvers.finite_difference.medium import GridMaterial, surface_ratios
from lithowave.solvers.finite_difference.plan import FiniteDifferencePlan
from lithowave.solvers.finite_difference.points import (
    CLEARANCES,
    GAINS,
    HERMITE,
    LINEAR,
    NEAR_SOURCE,
    FreeSurface,
    PointStencil,
    nearest_distances,
)
from lithowave.solvers.finite_difference.snapshot_grids import (
    finish_fields,
    local_snapshot_grid,
    own_points,
    parts_of,
    select_snapshot_grid,
    snapshot_lines,
    surface_part,
)
from lithowave.solvers.finite_difference.sources import ReceiverList, add_sources, split_records
from lithowave.solvers.finite_difference.step import Step, line_volumes, make_scheme
from lithowave.solvers.interface import ArraySection, Hyperslab, PendingFields, Placement, Selection, SnapshotGrid

if TYPE_CHECKING:
    from types import SimpleNamespace

    from lithowave.backends.interface import Array, Backend, PendingCopy
    from lithowave.description.experiment import Experiment
    from lithowave.description.receivers import Receiver
    from lithowave.description.sources import PointSource
    from lithowave.solvers.finite_difference.law import Fields
    from lithowave.solvers.interface import SnapshotSelection


@dataclass(frozen=True)
class ArraySlice:
    """Slice of a device array.

    name : name of the array of the entire run. part : the slice, a view. axes : order that moves its z, y, x (or y, x)
    to the front. ranges : nodes of the global grid along x, y, z (or x, y). whole : shape of the array of the run along
    its first axes.
    """

    name: str
    part: Array
    axes: tuple[int, ...]
    ranges: NodeRanges
    whole: tuple[int, ...]

    @property
    def box(self) -> Hyperslab:
        """Hyperslab of the slice in the array of the run."""
        first = tuple(first for first, _ in self.ranges[::-1])
        return Hyperslab(first, tuple(end - first for first, end in self.ranges[::-1]), self.whole)

    def arranged(self, values: PendingCopy) -> np.ndarray:
        """Return the values of the slice in the order of the array of the run."""
        return np.ascontiguousarray(values.wait().transpose(self.axes))


def mechanism_arrays(name: str, array: Array, planes: int) -> Fields:
    """Return the memory variables of each mechanism, (planes, rows, columns), by name; `array` contains them all."""
    return {f"{name}/{first // planes}": array[first : first + planes] for first in range(0, array.shape[0], planes)}


class CheckpointArrays:
    """All arrays of a checkpoint.

    Parameters
    ----------
    plan : grid and own nodes of this rank. layers : layers along the axes. fields, memory, peaks : arrays of the solver
    on the device.
    """

    def __init__(
        self,
        plan: FiniteDifferencePlan,
        layers: Sequence[AxisLayers],
        fields: Fields,
        memory: dict[str, list[Array]],
        peaks: Fields,
    ) -> None:
        self.plan, self.layers, self.fields, self.memory, self.peaks = plan, layers, fields, memory, peaks
        self.whole = plan.grid.whole.shape[::-1]

    def sections(self, freeze: Callable[[Array], PendingCopy]) -> dict[str, ArraySection]:
        """Return the sections that only this rank owns."""
        return {
            array.name: ArraySection(array.box, partial(array.arranged, freeze(array.part)))
            for array in self._arrays(self.plan.own)
        }

    def selections(self) -> dict[str, Selection]:
        """Return the selections of everything that this rank stores, ghosts included."""
        return {array.name: array.box for array in self._arrays(self._with_halo())}

    def restore(self, values: dict[str, np.ndarray], assign: Callable[[Array, np.ndarray], None]) -> None:
        """Copy the values of `selections` into the arrays."""
        for array in self._arrays(self._with_halo()):
            assign(array.part, np.ascontiguousarray(values[array.name].transpose(np.argsort(array.axes))))

    def _with_halo(self) -> NodeRanges:
        """Return the nodes of the rank's grid and those of the halo around it that other ranks own."""
        grid, halo = self.plan.grid, self.plan.halo
        return [
            (max(0, first - halo), min(nodes, first + count + halo))
            for first, count, nodes in zip(grid.first, grid.shape, grid.whole.shape, strict=True)
        ]

    def _arrays(self, ranges: NodeRanges) -> Iterator[ArraySlice]:
        """Yield the slices of all arrays at nodes of these ranges of the global grid."""
        halo, first = self.plan.halo, self.plan.grid.first
        x, y, z = (
            slice(low - start + halo, end - start + halo) for (low, end), start in zip(ranges, first, strict=True)
        )
        for name, field in self.fields.items():
            yield ArraySlice(f"field/{name}", field[z, y, x], (0, 1, 2), ranges, self.whole)
        grid = self.plan.grid
        inside = [
            (max(low, start), min(end, start + count))
            for (low, end), start, count in zip(ranges, first, grid.shape, strict=True)
        ]
        for kind, arrays in self.memory.items():
            for axis, array in enumerate(arrays):
                yield from self._layer_arrays(f"layers/{AXES[axis]}/{kind}", axis, array, inside)
        for name, array in self.peaks.items():
            if array.size:
                x, y = (slice(low - start, end - start) for (low, end), start in zip(inside[:2], first, strict=False))
                yield ArraySlice(f"peaks/{name}", array[:, y, x], (1, 2, 0), inside[:2], self.whole[1:])

    def _layer_arrays(self, name: str, axis: int, array: Array, ranges: NodeRanges) -> Iterator[ArraySlice]:
        """Yield the memory variables of the layers of one axis, each side separately."""
        found, first = self.layers[axis], self.plan.grid.first
        for number, (side, start) in enumerate(zip(found.sides, found.starts, strict=True)):
            depths = found.memory[3] if axis == 0 else found.memory[2 - axis] // len(found.sides)
            here = list(ranges)
            low, end = first[axis] + start, first[axis] + start + depths
            here[axis] = (max(ranges[axis][0], low), min(ranges[axis][1], end))
            if here[axis][0] >= here[axis][1]:
                continue
            at = [slice(low - start, end - start) for (low, end), start in zip(here, first, strict=True)]
            along = slice(here[axis][0] - low, here[axis][1] - low)
            behind = slice(number * depths + along.start, number * depths + along.stop)
            index = {
                0: (at[2], at[1], slice(3 * number, 3 * number + 3), along),
                1: (at[2], behind, slice(None), at[0]),
                2: (behind, at[1], slice(None), at[0]),
            }[axis]
            axes = (0, 1, 3, 2)  # the derivative after z, y, x
            yield ArraySlice(f"{name}/{side}", array[index], axes, here, self.whole)


class FiniteDifferenceSolver:
    r"""Velocity-stress leapfrog on the staggered grid.

    With v at t_n = n dt and sigma at t_n - dt/2, a step is

    .. math::
        \sigma^{n+1/2} = \sigma^{n-1/2} + \Delta t\,[C : \nabla v^n - \dot M(t_n)\,\delta(x - x_s)], \qquad
        v^{n+1} = v^n + \frac{\Delta t}{\rho}\,[\nabla\cdot\sigma^{n+1/2} + f(t_{n+1/2})\,\delta(x - x_s)].

    Parameters
    ----------
    plan : grid, time step, stencils. experiment : sources, receivers, material. backend : owner of the arrays. halo :
    halo exchange with other ranks; None for one rank.
    """

    staggered = True
    sea_floor: tuple[int, ...] = ()  # there are no fluids

    def __init__(
        self, plan: FiniteDifferencePlan, experiment: Experiment, backend: Backend, halo: Halo | None = None
    ) -> None:
        self.plan, self.grid, self.backend, self.halo = plan, plan.grid, backend, halo or single_rank_halo(backend)
        with phase("materials"):
            self.material = GridMaterial(plan, experiment, backend, self.halo.ranks)
        sources, receivers = experiment.acquisition.sources, experiment.acquisition.receivers
        elastic = unrelaxed(experiment, plan.attenuation)
        self.stencil = self._make_stencil(elastic)
        columns = SourceColumns(elastic, plan.law_fields, self.grid)
        self.step = Step(plan, backend, self.material, self.stencil, sources, columns)
        message = plan.subdomain and FieldMessage(
            self.halo, self.step.kernels, plan.subdomain, self.stencil.strides, plan.halo
        )
        self.scheme = make_scheme(self.step, message)
        exchange = None if message is None else message.exchange
        self._smoothing = LayerSmoothing(plan, backend, self.step.kernels, exchange)
        positions = np.array([receiver.position for receiver in receivers], float).reshape(-1, 3)
        self._source_positions = np.array([source.position for source in sources], float).reshape(-1, 3)
        self.receivers = ReceiverList(backend, self.stencil, positions, self._clearance(positions), columns)
        self._maxima, self._programs = PartialMaxima(backend), Programs(backend)
        self._snapshot_grids: dict[tuple[SnapshotGrid, str], list] = {}
        self._peaks: Fields | None = None

    def _make_stencil(self, elastic: Experiment) -> PointStencil:
        plan, backend, surface = self.plan, self.backend, None
        steps = backend.field_strides(plan.padded_shape(), plan.halo)
        volumes = line_volumes(self.grid.whole, plan.faces, face_closure(plan.order))
        if plan.faces["z_max"] == "free":
            ratios = surface_ratios(elastic, self.grid, plan.law_fields)
            surface = FreeSurface(ratios, plan.coefficients[0], GAINS[plan.order], self.grid.whole.shape[:2])
        own = plan.subdomain.own if plan.subdomain else None
        balanced = plan.law_fields.coarse
        receivers = elastic.acquisition.receivers
        positions = np.array([receiver.position for receiver in receivers], float).reshape(-1, 3)
        return PointStencil(self.grid, plan.halo, volumes, steps[::-1], plan.faces, surface, own, balanced, positions)

    def _clearance(self, positions: np.ndarray) -> np.ndarray:
        """Return the cells from each position (n, 3), m, to the nearest source; infinite if far away."""
        h = self.grid.spacing
        return nearest_distances(positions, self._source_positions, CLEARANCES[-1] * h) / h

    @property
    def kernels(self) -> SimpleNamespace:
        """Kernels of the device."""
        return self.step.kernels

    # ------------------------------------------------------------------------------------------------ the step

    @property
    def fields_by_name(self) -> Fields:
        """Velocities, and the stresses and memory variables half a step before them."""
        return self.scheme.fields

    def advance(self, step: int) -> None:
        """Advance from step to step + 1."""
        self.step.row.begin(step)
        self.scheme.advance()
        self._smoothing.apply(self.fields_by_name, self.scheme.turn)

    def update_stress(self) -> None:
        """Update the stresses, with absorbing layers and closed faces: one half of a step, for measurements."""
        step, f = self.step, self.fields_by_name
        self.kernels.update_stress(*step.stress_arguments(f, step.regions.stress.boxes))
        step.close_stress(f, step.regions.stress)

    def update_velocity(self) -> None:
        """Update the velocities, with absorbing layers and closed faces: the other half."""
        step, f = self.step, self.fields_by_name
        self.kernels.update_velocity(*step.velocity_arguments(f, step.regions.velocity.boxes))
        step.close_velocity(f, step.regions.velocity)

    def placement(self, sources: Sequence[PointSource], receivers: Sequence[Receiver]) -> Placement:
        """See `lithowave.solvers.interface.Solver`; the rank with the node nearest to a receiver owns it."""
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

    def facts(self) -> dict[str, object]:
        """See `lithowave.solvers.interface.Solver`."""
        error = self.material.errors()
        return {"scheme": self.scheme.name} | ({"moduli_error": error} if error else {})

    def start_records(self, capacity: int, stress: bool) -> None:
        """See `lithowave.solvers.interface.Solver`."""
        self.receivers.start(capacity, stress)
        self._programs.clear()

    def record(self, slot: int) -> None:
        """See `lithowave.solvers.interface.Solver`."""
        records = self.receivers.records
        records.seek(slot)
        self._programs.run(("record", self.scheme.turn, records.filling), self._record_launches)

    def _record_launches(self) -> list[Launch]:
        arguments = (state_arrays(self.fields_by_name), *self.receivers.arguments())
        return [partial(self.kernels.sample, *arguments), partial(self.kernels.count_step, self.receivers.records.slot)]

    def records(self, count: int) -> PendingFields:
        """See `lithowave.solvers.interface.Solver`."""
        return PendingFields({"records": self.receivers.records.fetch(count)}, split_records)

    def snapshot_grid(self, selection: SnapshotSelection) -> SnapshotGrid:
        """See `lithowave.solvers.interface.Solver`."""
        return select_snapshot_grid(self.grid.whole, selection)

    def snapshot_points(self, snapshot: SnapshotGrid) -> np.ndarray:
        """See `lithowave.solvers.interface.Solver`."""
        return own_points(snapshot, local_snapshot_grid(self.plan, snapshot))

    def fields(self, snapshot: SnapshotGrid, names: tuple[str, ...]) -> PendingFields:
        """See `lithowave.solvers.interface.Solver`."""
        found = {}
        shape = [end - first for first, end in local_snapshot_grid(self.plan, snapshot)[::-1]]
        for name in names:
            parts = parts_of(name)
            out = self.backend.zeros((*shape, len(parts)))
            for component, part in enumerate(parts):
                lines = self._lines(snapshot, part)
                if out.size:
                    self.kernels.interpolate(self.fields_by_name[part], *lines, out, component)
            found[name] = self.backend.fetch(out, temporary=True)
        return PendingFields(found, finish_fields, plain=("velocity", "stress"))

    def _lines(self, snapshot: SnapshotGrid, field: str) -> list[tuple[Array, Array]]:
        if (snapshot, field) not in self._snapshot_grids:
            lines = snapshot_lines(self.plan, field, snapshot)
            self._snapshot_grids[snapshot, field] = [
                array
                for below, weight in lines
                for array in (self.backend.upload(below, np.int64), self.backend.upload(weight))
            ]
        return self._snapshot_grids[snapshot, field]

    def start_peaks(self) -> None:
        """See `lithowave.solvers.interface.Solver`."""
        nx, ny, _ = self.grid.shape if self._has_surface else (0, 0, 0)
        names = ("displacement", "peak_velocity", "peak_displacement")
        self._peaks = {name: self.backend.zeros((3, ny, nx)) for name in names}
        self._programs.clear()
        self._surface = self._surface_tables(ny, nx)

    def _surface_tables(self, rows: int, columns: int) -> tuple[Array, ...]:
        """Return the arguments with which `surface_peaks` reads velocities: slope, far, gain and stencil.

        Without a free surface, where no half node is special, vz is extrapolated from the two below the plane.
        """
        surface, upload = self.stencil.surface, self.backend.upload
        if surface is None:
            zeros, stencil = np.zeros((rows, columns)), (1.0, 0.0, 0.5, 0.0, 0.0)
            far = np.full((rows, columns), 4.0)
            return upload(np.stack([zeros] * 2)), upload(far), upload(zeros), upload(np.array(stencil))
        x, y = (self.grid.nodes(axis)[:count] for axis, count in enumerate((columns, rows)))
        positions = np.stack([*np.meshgrid(x, y), np.full((rows, columns), self.grid.whole.nodes(2)[-1])], axis=-1)
        clearance = self._clearance(positions.reshape(-1, 3)).reshape(rows, columns)
        near, gain = clearance < NEAR_SOURCE, surface.gains.vertical_at(clearance)
        numbers = (self.grid.first[axis] + np.arange(count) for axis, count in enumerate((columns, rows)))
        slope = np.where(near, -LINEAR[2], -HERMITE[2]) * surface.ratios(*numbers)
        wide = self.plan.order > 2
        stencil = (*((9 / 8, -1 / 24, 9 / 16, -1 / 16) if wide else (1.0, 0.0, 0.5, 0.0)), surface.gains.horizontal)
        return upload(slope), upload(np.where(near, 0.0, 1.0)), upload(gain), upload(np.array(stencil))

    @property
    def _has_surface(self) -> bool:
        """True if this rank owns nodes of the plane on which peaks are computed."""
        whole, own = self.grid.whole, self.plan.own
        return own[2][0] <= whole.shape[2] - 1 - whole.layers[2][1] < own[2][1]

    def update_peaks(self) -> None:
        """Update the peaks with the present velocities; called once per step."""
        if self._has_surface:
            self._programs.run(("peaks", self.scheme.turn), self._peak_launches)

    def _peak_launches(self) -> list[Launch]:
        halo, grid = self.plan.halo, self.grid.whole
        plane = grid.shape[2] - 1 - grid.layers[2][1] - self.grid.first[2]
        velocities = (self.fields_by_name[name] for name in VELOCITIES)
        step = self.backend.scalar(self.plan.schedule.time_step)
        arguments = (*velocities, halo + plane, halo, *self._surface, step, *self._peaks.values())
        return [partial(self.kernels.surface_peaks, *arguments)]

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
        self.kernels.largest_magnitude(*(self.fields_by_name[name] for name in VELOCITIES), self._maxima.parts)
        return float(self._maxima.largest())

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
                    place = f"near ({x:zg}, {y:zg}, {z:zg}) m, where {self.material.describe(k, j, i)}"
                    text = f"|{name}| = {largest:.3g} m/s {place}"
        return text

    # ------------------------------------------------------------------------------------------------ the state

    def _checkpoint_arrays(self) -> CheckpointArrays:
        fields = dict(self.fields_by_name)
        for name in self.plan.law_fields.memory:
            fields |= mechanism_arrays(name, fields.pop(name), self.plan.padded_shape()[0])
        return CheckpointArrays(self.plan, self.step.layers, fields, self.step.memory, self._peaks or {})

    def state(self) -> dict[str, ArraySection]:
        """See `lithowave.solvers.interface.Solver`."""
        return self._checkpoint_arrays().sections(self.backend.freeze)

    def state_selections(self) -> dict[str, Selection]:
        """See `lithowave.solvers.interface.Solver`."""
        return self._checkpoint_arrays().selections()

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """See `lithowave.solvers.interface.Solver`."""
        self._checkpoint_arrays().restore(state, self.backend.assign)
        self.scheme.restored()
