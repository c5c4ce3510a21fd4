"""A step on one rank: faces, sections of the grid, sweeps of a CPU, and the order of its parts.

**Blocks of a step in one sweep on a CPU, and the rows whose velocities must be updated after the sweep.** The kernel
`update_both` updates velocities as soon as the stresses within reach of the stencil have been updated. Those that
depend on other changes of the stresses (closures of faces, moment tensors, the free surface), or that these changes
read, are *late*: they are updated after these changes, as are the rows next to blocks of other threads.

**Order of a step: two passes over one set of fields, or one pass from one set into another.** Both give the same values
up to round-off. One pass moves 21 values per point instead of 30, but needs nine more arrays; with attenuation 34
instead of 43, and 15 more arrays. Memory variables belong to the stresses of a set of fields.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from lithowave.mesh.grid import AXES, Grid, NodeRanges
from lithowave.process import phase
from lithowave.solvers.common.source_amplitudes import AmplitudeRow, AmplitudeTable, SourceAmplitudes
from lithowave.solvers.finite_difference.arrays import FIELD_ROLES, grid_arrays
from lithowave.solvers.finite_difference.coefficients import FaceClosure, face_closure
from lithowave.solvers.finite_difference.exchange import FieldMessage
from lithowave.solvers.finite_difference.grid_plan import Box, axis_layers, column_shift
from lithowave.solvers.finite_difference.interfaces import SourceColumns
from lithowave.solvers.finite_difference.law import VELOCITIES, state_arrays
from lithowave.solvers.finite_difference.medium import GridMaterial
from lithowave.solvers.finite_difference.plan import FiniteDifferencePlan
from lithowave.solvers.finite_difference.points import PointStencil
from lithowave.solvers.finite_difference.sources import MomentList, SourceList
from lithowave.solvers.finite_difference.tiles import around

if TYPE_CHECKING:
    from lithowave.backends.interface import Backend
    from lithowave.description.sources import PointSource
    from lithowave.solvers.finite_difference.grid_plan import GridPlan
    from lithowave.solvers.finite_difference.law import Fields

UNIT = ((0, 0, 1), (0, 1, 0), (1, 0, 0))  # unit steps (k, j, i) along x, y, z
TANGENTS = ((1, 2), (0, 2), (0, 1))  # the axes t and u for the normal n


def unsigned(steps: Sequence[int]) -> tuple[np.uint64, ...]:
    """Return steps as unsigned integers for the kernels; a negative step wraps around, as in unsigned addition."""
    return tuple(np.uint64(step % 2**64) for step in steps)


@dataclass(frozen=True)
class ClosedFace:
    """Free or rigid face.

    axis : its normal. plane : array index of its nodes along that axis. first, half, shape, inward, node_change,
    half_change : arguments of `close_velocity` and `close_stress`.
    """

    axis: int
    kind: str
    plane: int
    first: tuple[np.uint64, ...]
    half: tuple[np.uint64, ...]
    shape: tuple[int, int, int]
    inward: tuple[np.uint64, ...]
    node_change: np.ndarray
    half_change: np.ndarray


def closed_faces(
    grid: Grid, faces: dict[str, str], closure: FaceClosure, halo: int, boxes: Sequence[NodeRanges] = ()
) -> list[ClosedFace]:
    """Return the free and rigid faces of a grid or subdomain within some boxes (default: everywhere).

    A box that contains a section of a face must be thicker than the closure.
    """
    found = []
    for axis, letter in enumerate(AXES):
        for number, (side, sign) in enumerate((("min", 1), ("max", -1))):
            kind = faces[f"{letter}_{side}"]
            if kind != "absorbing" and grid.is_end(axis, number):
                plane = 0 if sign > 0 else grid.shape[axis] - 1
                for box in boxes or [[(0, count) for count in grid.shape]]:
                    if box[axis][0] <= plane < box[axis][1]:
                        found.append(_closed_face(axis, kind, sign, plane, closure, halo, box))
    return found


def _closed_face(
    axis: int, kind: str, sign: int, plane: int, closure: FaceClosure, halo: int, box: NodeRanges
) -> ClosedFace:
    """Return the section of a face within a box; sign : direction into the grid."""
    node = halo + plane
    first = [halo + begin for begin, _ in box[::-1]]
    half = list(first)
    first[2 - axis] = node
    half[2 - axis] = node if sign > 0 else node - 1
    shape = [end - begin for begin, end in box[::-1]]
    shape[2 - axis] = 1
    inward = tuple(sign * step for step in UNIT[axis])
    return ClosedFace(
        axis, kind, node, unsigned(first), unsigned(half), tuple(shape), unsigned(inward),
        sign * closure.node_change, sign * closure.half_change,
    )  # fmt: skip


def line_volumes(grid: Grid, faces: dict[str, str], closure: FaceClosure) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the quadrature weights of nodes and half nodes along each axis: 1 except at closed faces."""
    volumes = []
    for axis, letter in enumerate(AXES):
        nodes, halves = np.ones(grid.shape[axis]), np.ones(grid.shape[axis])
        for side in ("min", "max"):
            if faces[f"{letter}_{side}"] == "absorbing":
                continue
            node_line = nodes if side == "min" else nodes[::-1]
            half_line = halves if side == "min" else halves[:-1][::-1]
            node_line[: closure.node_weights.size] = closure.node_weights[: node_line.size]
            half_line[: closure.half_weights.size] = closure.half_weights[: half_line.size]
        volumes.append((nodes, halves))
    return volumes


@dataclass(frozen=True)
class Region:
    """Boxes of points.

    boxes : argument of `update_velocity` and `update_stress`. closed : the sections of free and rigid faces in them,
    each with the arrays of its closure. sources : sources of one kind that change points in them.
    """

    boxes: np.ndarray
    closed: list[tuple[ClosedFace, tuple[object, ...]]]
    sources: SourceList | MomentList

    @property
    def free_planes(self) -> list[int]:
        """Indices of the planes of nodes on the free surface."""
        return sorted({face.plane for face, _ in self.closed if face.kind == "free"})

    def rigid_faces(self) -> list[ClosedFace]:
        """Sections of rigid faces."""
        return [face for face, _ in self.closed if face.kind == "rigid"]


def box_table(boxes: Sequence[NodeRanges]) -> np.ndarray:
    """Return boxes as the kernels read them, (n, 6)."""
    return np.array(boxes, np.int64).reshape(-1, 6)


def closures(
    plan: GridPlan, backend: Backend, boxes: Sequence[NodeRanges]
) -> list[tuple[ClosedFace, tuple[object, ...]]]:
    """Return the closed faces in some boxes of a grid, with their changes and tuples of their lengths."""
    upload = backend.upload
    return [
        (
            face,
            (
                upload(face.node_change), upload(face.half_change),
                unsigned(tuple(range(face.node_change.shape[1]))), unsigned(tuple(range(face.half_change.shape[1]))),
            ),
        )
        for face in closed_faces(plan.grid, plan.faces, face_closure(plan.order), plan.halo, boxes)
    ]  # fmt: skip


class StepRegions:
    """Regions of a step.

    stress, velocity : all points at which they are computed. outer_velocity, inner_velocity : the points that other
    ranks need, and the rest; only with several ranks.

    Parameters
    ----------
    plan, backend, stencil, material : objects of the rank. sources : point sources of the run. columns : moduli near
    them.
    """

    def __init__(
        self, plan: GridPlan, backend: Backend, stencil: PointStencil, material: GridMaterial,
        sources: Sequence[PointSource],
        columns: SourceColumns,
    ) -> None:  # fmt: skip
        self._plan, self._backend, self._stencil, self._material = plan, backend, stencil, material
        self._columns = columns
        self._moments = [source for source in sources if source.moment is not None]
        self._forces = [source for source in sources if source.force is not None]
        self._lists: list[SourceList | MomentList] = []
        whole = [(0, count) for count in plan.grid.shape]
        subdomain = plan.subdomain
        self.stress = self._region([whole], stress=True)
        if subdomain is None:
            self.velocity = self._region([whole], stress=False)
            return
        velocities = subdomain.velocities()
        self.velocity = self._region([velocities], stress=False)
        inner = subdomain.inner(subdomain.sent_width, backend.aligned_columns, column_shift(plan))
        self.outer_velocity = self._region(around(inner, velocities), stress=False)
        self.inner_velocity = self._region(_if_any(inner), stress=False)

    @property
    def act(self) -> bool:
        """True if there are sources in this subdomain."""
        return any(one.count for one in self._lists)

    def tables(self) -> list[AmplitudeTable]:
        """Return the amplitude tables of all sources in this subdomain."""
        return [one.table for one in self._lists if one.count]

    def _region(self, boxes: Sequence[NodeRanges], stress: bool) -> Region:
        sources = self._moment_list() if stress else self._force_list(boxes)
        self._lists.append(sources)
        return Region(box_table(boxes), closures(self._plan, self._backend, boxes) if boxes else [], sources)

    def _moment_list(self) -> MomentList:
        """Return the moments; they change all points of the rank."""
        return MomentList(
            self._backend, self._stencil, self._moments, self._plan.schedule, self._columns
        )

    def _force_list(self, boxes: Sequence[NodeRanges]) -> SourceList:
        """Return the forces; weights include force, volume, time step and buoyancy."""
        step = self._plan.schedule.time_step
        amplitudes = SourceAmplitudes(self._forces, self._plan.schedule, 0.5)
        strengths = step * np.array([source.force for source in self._forces], float).reshape(-1, 3)
        return SourceList(
            self._backend, self._stencil, self._forces, strengths, self._buoyancy, amplitudes, boxes, self._columns
        )

    def _buoyancy(self, name: str, index: np.ndarray) -> np.ndarray:
        return self._material.buoyancy(name, index, self._stencil.strides)


def _if_any(box: NodeRanges) -> list[NodeRanges]:
    return [box] if all(first < end for first, end in box) else []


FEWEST_SWEPT_ROWS = 24  # of a block
CACHE_BYTES = 2**25  # of the last level: on grids that fit into it, one sweep is not faster
MOST_LATE = 0.5  # fraction of late rows above which two sweeps are used


@dataclass(frozen=True)
class Sweep:
    """Arguments of `update_both`, and the boxes of late rows.

    blocks (n, 4) : rows and planes of each block. late (planes, rows) : 1 for late rows. late_boxes : argument of
    `update_velocity`.
    """

    blocks: np.ndarray
    late: np.ndarray
    late_boxes: np.ndarray


def plan_sweep(plan: FiniteDifferencePlan, bricks: np.ndarray, threads: int) -> Sweep | None:
    """Return the sweep of a grid on one rank, or None if it is small or too many rows are late.

    bricks (n, 6) : first and end nodes along x, y, z of the boxes in which moment tensors change stresses.
    """
    columns, rows, planes = plan.grid.shape
    if plan.memory_bytes() < CACHE_BYTES:
        return None
    blocks = sweep_blocks(rows, planes, threads)
    late = late_rows(plan, bricks, blocks)
    if late.mean() > MOST_LATE:
        return None
    boxes = [[(0, columns), *rectangle] for rectangle in rectangles(late)]
    return Sweep(np.array(blocks, np.int64), late.astype(np.uint8), box_table(boxes))


def sweep_blocks(rows: int, planes: int, threads: int) -> list[tuple[int, int, int, int]]:
    """Return a block for each thread: first and end row, first and end plane."""
    slabs = 1
    while threads > slabs * max(1, rows // FEWEST_SWEPT_ROWS) and slabs < planes // FEWEST_SWEPT_ROWS:
        slabs *= 2
    across = min(-(-threads // slabs), rows)
    y = [n * rows // across for n in range(across + 1)]
    z = [n * planes // slabs for n in range(slabs + 1)]
    return [(y[n], y[n + 1], z[m], z[m + 1]) for m in range(slabs) for n in range(across)]


def late_rows(
    plan: FiniteDifferencePlan, bricks: np.ndarray, blocks: Sequence[tuple[int, int, int, int]]
) -> np.ndarray:
    """Return True for late rows, (planes, rows)."""
    _, rows, planes = plan.grid.shape
    reach, late = plan.halo, np.zeros((planes, rows), bool)
    for y, y_end, z, z_end in blocks:
        late[z:z_end, y : y + reach * (y > 0)] = True
        late[z:z_end, y_end - reach * (y_end < rows) : y_end] = True
        late[z : z + reach * (z > 0), y:y_end] = True
        late[z_end - reach * (z_end < planes) : z_end, y:y_end] = True
    for y, z, y_end, z_end in bricks[:, [1, 2, 4, 5]]:
        late[max(z - reach, 0) : z_end + reach, max(y - reach, 0) : y_end + reach] = True
    width = closed_width(plan)
    for axis, letter in enumerate(AXES):
        low, high = (width * (plan.faces[f"{letter}_{side}"] != "absorbing") for side in ("min", "max"))
        if axis == 0:
            late |= bool(low or high)
        else:
            line = late if axis == 2 else late.T
            line[:low] = line[line.shape[0] - high :] = True
    return late


def closed_width(plan: FiniteDifferencePlan) -> int:
    """Return the rows next to a closed face whose velocities its closure reads, or that its closure changes."""
    closure = face_closure(plan.order)
    changes = (closure.node_change, closure.half_change)
    reach, depths = max(one.shape[1] for one in changes), max(one.shape[0] for one in changes)
    return max(reach, depths + plan.halo) + 1  # half nodes at a high side are half a cell farther inside


def rectangles(mask: np.ndarray) -> list[NodeRanges]:
    """Return rectangles ((first, end) row, (first, end) plane) that cover the True values (planes, rows) once."""
    edges = np.diff(np.pad(mask, ((0, 1), (1, 1))).astype(np.int8), axis=1)
    found, growing = [], {}
    for plane, edge in enumerate(edges):
        runs = list(zip(np.flatnonzero(edge > 0).tolist(), np.flatnonzero(edge < 0).tolist(), strict=True))
        found += [(run, (start, plane)) for run, start in growing.items() if run not in runs]
        growing = {run: growing.get(run, plane) for run in runs}
    return found


PACKAGE = "lithowave.solvers.finite_difference"
KERNELS = ("kernels",)


class Step:
    """Kernels, material, absorbing layers, faces and sources of one rank.

    kernels : kernels of the device. layers, memory, profiles : absorbing layers along x, y, z. regions : sections of
    the grid, with their faces and sources. row : index of the present step in the tables of source amplitudes.
    """

    def __init__(
        self, plan: FiniteDifferencePlan, backend: Backend, material: GridMaterial, stencil: PointStencil,
        sources: Sequence, columns: SourceColumns,
    ) -> None:  # fmt: skip
        self.plan, self.backend, self.material = plan, backend, material
        with phase("kernels"):
            self.kernels = backend.kernels(
                PACKAGE, *KERNELS, order=plan.order, scales=material.scales, law=plan.law_fields,
                equal_columns=plan.equal_columns,
            )
        self.coefficients = tuple(tuple(map(backend.scalar, line)) for line in plan.coefficients)
        self.ratio = backend.scalar(plan.schedule.time_step / plan.grid.spacing)
        self.layers = [axis_layers(plan.grid, axis, plan.layer, plan.schedule.time_step) for axis in range(3)]
        memory = grid_arrays(plan, backend).allocate(backend, "layer")
        self.memory = {kind: [memory[f"layers/{axis}/{kind}"] for axis in AXES] for kind in ("velocity", "stress")}
        self.profiles = [
            (backend.upload(one.half), backend.upload(one.node), backend.upload(np.array(one.starts), np.uint64))
            for one in self.layers
        ]
        with phase("sources"):
            self.regions = StepRegions(plan, backend, stencil, material, sources, columns)
        self.row = AmplitudeRow(backend, self.regions.tables())

    def new_fields(self) -> Fields:
        """Return arrays of zeros for velocities, stresses and memory variables."""
        return grid_arrays(self.plan, self.backend).allocate(self.backend, *FIELD_ROLES)

    def law(self, f: Fields) -> tuple[object, ...]:
        """Return the argument `law` of kernels that change the stresses of a set of fields."""
        return self.material.law([f[name] for name in self.plan.law_fields.memory])

    def count_step(self) -> None:
        """Advance to the next step in the tables of source amplitudes."""
        if self.regions.act:
            self.kernels.count_step(self.row.array)

    # ------------------------------------------------------------------------------------------------- stresses

    def advance_stress(self, f: Fields, region: Region) -> None:
        """Update the stresses in a region."""
        self.kernels.update_stress(*self.stress_arguments(f, region.boxes))
        self.finish_stress(f, region)

    def finish_stress(self, f: Fields, region: Region) -> None:
        """Apply closures, sources and the free surface to the stresses."""
        self.close_stress(f, region)
        self.inject(region.sources, f)
        for plane in region.free_planes:  # zero normal traction
            self.kernels.free_surface(plane, f["sxx"], f["syy"], f["szz"], self.law(f), self.ratio)

    def close_stress(self, f: Fields, region: Region) -> None:
        """Apply the closures of free and rigid faces to the stresses."""
        for face, closure in region.closed:
            self.kernels.close_stress(
                *_stress_fields(f, face.axis), self.law(f), *closure, face.first, face.half, face.shape,
                face.inward, *_axes(face.axis), self.ratio,
            )  # fmt: skip

    def stress_arguments(self, f: Fields, boxes: np.ndarray) -> tuple[object, ...]:
        """Return the arguments of the kernel `update_stress`."""
        return (
            *state_arrays(f), self.law(f), self.ratio, *self.coefficients, self.backend.threads, boxes,
            *self._layer_arguments("stress"),
        )  # fmt: skip

    def advance_both(self, f: Fields, sweep: Sweep) -> None:
        """Update the stresses, and the velocities of rows that are not late; complete the stresses, then update the
        late rows."""
        material = self.material.arrays["density"], self.law(f)
        memory = tuple(self.memory["velocity"]), tuple(self.memory["stress"])
        profiles = [array for profile in self.profiles for array in profile]
        self.kernels.update_both(
            *state_arrays(f), *material, self.ratio, *self.coefficients, sweep.blocks, sweep.late, *memory, *profiles
        )
        self.finish_stress(f, self.regions.stress)
        self.advance_velocity(f, replace(self.regions.velocity, boxes=sweep.late_boxes))

    # ----------------------------------------------------------------------------------------------- velocities

    def advance_velocity(self, f: Fields, region: Region) -> None:
        """Update the velocities in a region."""
        self.kernels.update_velocity(*self.velocity_arguments(f, region.boxes))
        self.finish_velocity(f, region)

    def finish_velocity(self, f: Fields, region: Region) -> None:
        """Apply closures, sources and rigid faces to the velocities."""
        self.close_velocity(f, region)
        self.inject(region.sources, f)
        for face in region.rigid_faces():  # the closure makes the normal velocity zero, this the tangential velocity
            tangential = (f[VELOCITIES[tangent]] for tangent in TANGENTS[face.axis])
            self.kernels.zero_on_face(*tangential, face.first, face.shape)

    def close_velocity(self, f: Fields, region: Region) -> None:
        """Apply the closures of free and rigid faces to the velocities."""
        for face, closure in region.closed:
            self.kernels.close_velocity(
                *_velocity_fields(f, face.axis), self.material.arrays["density"], *closure, face.first, face.half,
                face.shape, face.inward, *_axes(face.axis), self.ratio,
            )  # fmt: skip

    def velocity_arguments(self, f: Fields, boxes: np.ndarray) -> tuple[object, ...]:
        """Return the arguments of the kernel `update_velocity`."""
        return (
            *state_arrays(f), self.material.arrays["density"], self.ratio, *self.coefficients, self.backend.threads,
            boxes, *self._layer_arguments("velocity"),
        )  # fmt: skip

    def inject(self, sources: SourceList | MomentList, f: Fields) -> None:
        """Add the contributions of sources at this step."""
        if sources.count:
            inject = getattr(self.kernels, sources.kernel)
            inject(state_arrays(f), *sources.arguments(), self.row.array)

    def _layer_arguments(self, kind: str) -> list[object]:
        return [a for memory, profile in zip(self.memory[kind], self.profiles, strict=True) for a in (memory, *profile)]


def _axes(axis: int) -> tuple:
    return tuple(unsigned(UNIT[a]) for a in (axis, *TANGENTS[axis]))


def _velocity_fields(f: Fields, axis: int) -> tuple:
    t, u = TANGENTS[axis]
    velocities = (f["v" + AXES[a]] for a in (axis, t, u))
    return (*velocities, f[stress_name(axis, axis)], f[stress_name(axis, t)], f[stress_name(axis, u)])


def _stress_fields(f: Fields, axis: int) -> tuple:
    t, u = TANGENTS[axis]
    velocities = (f["v" + AXES[a]] for a in (axis, t, u))
    pairs = ((0, 0), (1, 1), (2, 2), (axis, t), (axis, u))
    return (*velocities, *(f[stress_name(*pair)] for pair in pairs))


def stress_name(a: int, b: int) -> str:
    """Return the name of a stress component from its axes."""
    return "s" + "".join(AXES[axis] for axis in sorted((a, b)))


class TwoPasses:
    """Stress, then velocity, in place.

    If ranks exchange messages, the points that others need are updated first, the rest while the messages are in
    flight.

    turn : index of the set of fields that holds the velocities; always 0 here. name : as in run.json.
    """

    name, turn = "two passes", 0

    def __init__(self, step: Step, message: FieldMessage | None) -> None:
        self.fields = step.new_fields()
        stages = self._stages_of(step)
        step.backend.begin_programs(lambda: [stage() for stage in stages])
        self._stages = [step.backend.capture_graph(stage) for stage in stages]
        self._message = message

    def _stages_of(self, step: Step) -> list[Callable[[], None]]:
        """Return the work before a message is sent, and the work while it is in flight."""
        f, regions = self.fields, step.regions

        def all_at_once() -> None:
            step.advance_stress(f, regions.stress)
            step.advance_velocity(f, regions.velocity)
            step.count_step()

        def until_velocities_are_sent() -> None:
            step.advance_stress(f, regions.stress)
            step.advance_velocity(f, regions.outer_velocity)

        def rest() -> None:
            step.advance_velocity(f, regions.inner_velocity)
            step.count_step()

        return [all_at_once] if step.plan.subdomain is None else [until_velocities_are_sent, rest]

    def advance(self) -> None:
        """Advance one step."""
        first, *others = self._stages
        first()
        if self._message:
            self._message.start(self.fields)
            others[0]()
            self._message.finish(self.fields)

    def restored(self) -> None:
        """Note that the fields have been assigned from a checkpoint."""


class OneSweep:
    """Stress, and velocity behind it, in place in one sweep over memory, with the same operations as two passes."""

    name, turn = "one sweep", 0

    def __init__(self, step: Step, sweep: Sweep) -> None:
        self.fields, self._step, self._sweep = step.new_fields(), step, sweep

    def advance(self) -> None:
        """Advance one step."""
        self._step.advance_both(self.fields, self._sweep)
        self._step.count_step()

    def restored(self) -> None:
        """Note that the fields have been assigned from a checkpoint."""


class OnePassScheme:
    """Velocity and then stress inside a box in one pass from one set of fields into the other.

    With v at t_n in set `old`, the stresses of t_n + dt / 2 are already there inside the box: the previous pass
    computed them. Around the box they are computed from those of t_n - dt / 2, which are still in the other set. At the
    end of a step the new velocities are in one set and the stresses half a step before them in the other, so that
    records, snapshots and checkpoints read the same values as with two passes. The points that other ranks need are
    around the box, and their messages are in flight while the inside is updated.
    """

    name = "one pass"

    def __init__(self, step: Step, message: FieldMessage | None, box: Box) -> None:
        self._step, self._message = step, message
        self._sets = (step.new_fields(), step.new_fields())
        self.turn = 0  # index of the present view of the fields
        self._ahead = False  # True if the stresses inside the box are half a step ahead of the velocities
        regions, shape = step.regions, [(0, count) for count in step.plan.grid.shape]
        stress = replace(regions.stress, boxes=box_table(around(box, shape)))
        self._inside = box_table([box])
        velocities = shape if step.plan.subdomain is None else step.plan.subdomain.velocities()
        velocity = replace(regions.velocity, boxes=box_table(around(box, velocities)))
        turns = [(self._sets[turn], self._sets[1 - turn]) for turn in range(2)]
        capture = step.backend.capture_graph
        if message:
            self._around = [capture(partial(advance_around, step, stress, velocity, *sets)) for sets in turns]
            self._steps = [capture(partial(advance_inside, step, box, *sets)) for sets in turns]
        else:
            self._steps = [capture(partial(advance_all, step, stress, velocity, box, *sets)) for sets in turns]
        self._views = tuple(_view(*sets) for sets in turns)
        step.backend.begin_programs(self._get_ahead)
        step.backend.begin_programs(partial(advance_all, step, stress, velocity, box, *turns[0]))

    @property
    def fields(self) -> Fields:
        """Velocities and the stresses half a step before them."""
        return self._views[self.turn]

    def advance(self) -> None:
        """Advance one step."""
        if not self._ahead:
            self._get_ahead()
            self._ahead = True
        turn, self.turn = self.turn, 1 - self.turn
        if self._message:
            self._around[turn]()
            self._message.start(self.fields)
            self._steps[turn]()
            self._message.finish(self.fields)
        else:
            self._steps[turn]()

    def _get_ahead(self) -> None:
        """Advance the stresses inside the box half a step."""
        stresses = {name: self._sets[self.turn][name] for name in self._step.plan.law_fields.stresses}
        self._step.kernels.update_stress.into(stresses, *self._step.stress_arguments(self.fields, self._inside))

    def restored(self) -> None:
        """Note that the fields have been assigned from a checkpoint."""
        self._ahead = False


def advance_all(step: Step, stress: Region, velocity: Region, box: Box, old: Fields, new: Fields) -> None:
    """Advance all points."""
    advance_around(step, stress, velocity, old, new)
    advance_inside(step, box, old, new)


def advance_around(step: Step, stress: Region, velocity: Region, old: Fields, new: Fields) -> None:
    """Advance the points around the box; no layer, face or force acts inside it."""
    stresses = {name: old[name] for name in step.plan.law_fields.stresses}
    velocities = {name: new[name] for name in VELOCITIES}
    step.kernels.update_stress.into(stresses, *step.stress_arguments(_view(old, new), stress.boxes))
    step.finish_stress(old, stress)
    step.kernels.update_velocity.into(velocities, *step.velocity_arguments(old, velocity.boxes))
    step.finish_velocity(_view(new, old), velocity)


def advance_inside(step: Step, box: Box, old: Fields, new: Fields) -> None:
    """Advance the points of the box, in one pass over memory."""
    step.kernels.one_pass(old, new, step.material.arrays, step.law(old), step.ratio, step.coefficients, box)
    step.count_step()


def _view(velocities: Fields, stresses: Fields) -> Fields:
    return {name: (velocities if name in VELOCITIES else stresses)[name] for name in stresses}


def make_scheme(step: Step, message: FieldMessage | None) -> TwoPasses | OneSweep | OnePassScheme:
    """Return the scheme of the plan: one pass in its box, or two, which a CPU makes in one sweep of large grids."""
    if step.plan.box is not None:
        return OnePassScheme(step, message, step.plan.box)
    if message is None and hasattr(step.kernels, "update_both"):
        sweep = plan_sweep(step.plan, step.regions.stress.sources.bricks(), step.backend.threads)
        if sweep is not None:
            return OneSweep(step, sweep)
    return TwoPasses(step, message)
