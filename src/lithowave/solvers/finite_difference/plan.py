"""Finite-difference discretization: grid, partition, time step and its limit, memory.

The grid is divided among the ranks. Memory is estimated before any allocation, and the workload of each rank for the
dry run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from lithowave.errors import InputError
from lithowave.media.medium import LayeredMedium
from lithowave.mesh.grid import AXES, BlockPartition, Grid, best_blocks, build_grid, cut_grid
from lithowave.parallel.ranks import SINGLE_RANK, Ranks
from lithowave.solvers.common.reports import Line, MemoryEstimate, RankWorkload, face_line, resolution_line, time_lines
from lithowave.solvers.common.resampling import corrected_frequency, correction_warnings, limited
from lithowave.solvers.common.warnings import (
    COARSE_GRID,
    GRID,
    WIDE_GRID,
    displacement_warnings,
    grid_warnings,
    is_soft,
    near_source_warnings,
    soft_ground_warnings,
    viscosity,
    viscosity_warnings,
)
from lithowave.solvers.finite_difference.arrays import STATE_ROLES, grid_arrays
from lithowave.solvers.finite_difference.attenuation import (
    attenuation_warnings,
    choose_attenuation,
    unrelaxed,
)
from lithowave.solvers.finite_difference.coefficients import (
    SIZES,
    derivative_norm,
    taylor_coefficients,
)
from lithowave.solvers.finite_difference.exchange import Subdomain
from lithowave.solvers.finite_difference.grid_plan import (
    PLANES,
    SOFT_REFLECTION,
    Box,
    GridPlan,
    LayerParameters,
    MaterialExtremes,
    column_shift,
    inner_box,
    margins,
    possible,
    touches,
)
from lithowave.solvers.finite_difference.interfaces import find_interfaces, interface_warnings
from lithowave.solvers.finite_difference.law import FIELDS, LAWS, STRESSES
from lithowave.solvers.finite_difference.medium import averages_concurrently, choose_law, planes_at_once
from lithowave.solvers.finite_difference.points import HALF_WIDTH
from lithowave.solvers.finite_difference.snapshot_grids import select_snapshot_grid
from lithowave.solvers.interface import make_schedule

if TYPE_CHECKING:
    from lithowave.backends.interface import Backend
    from lithowave.description.experiment import Experiment
    from lithowave.json_types import Entries, ReadEntries
    from lithowave.json_types import Entries as Summary
    from lithowave.solvers.interface import SnapshotSelection


# Additional work of a point for each absorbing layer that contains it, in updates of an interior point, measured with
# and without layers (`lithowave bench --case interior --case full`; docs/parallel.md).
LAYER_WORK = {"cpu": 1.6, "cuda": 0.6}
# Additional work per point on a side between ranks, in updates, by axis: redundant computation of ghosts and packing; a
# side normal to x splits rows of memory, which a GPU reads in entire cache lines.
SIDE_WORK = {"cpu": (4.0, 3.0, 3.0), "cuda": (24.0, 4.0, 4.0)}


def min_slice_nodes(order: int) -> int:
    """Return the minimum nodes of a slice: the neighbors' ghosts, and closures of faces, which must not reach them."""
    return max(2 * order, SIZES[order][0] + order, SIZES[order][1] + order)


def make_subdomain(
    plan: GridPlan, backend: Backend, ranks: tuple[int, int], parts: Sequence[int] | None
) -> Subdomain:
    """Return the subdomain of one rank.

    ranks : the rank and the number of ranks. parts : number of slices along x, y, z from the simulation file, or None.

    Raises
    ------
    InputError : the grid cannot be partitioned in this way.
    """
    rank, size = ranks
    return Subdomain(_blocks(plan, backend.name, size, parts), rank, plan.halo)


def _blocks(plan: GridPlan, backend_name: str, size: int, parts: Sequence[int] | None) -> BlockPartition:
    grid, minimum, work = plan.grid.whole, min_slice_nodes(plan.order), LAYER_WORK[backend_name]
    if parts is not None:
        if np.prod(parts) != size:
            raise InputError(
                "compute.parts", f"{' x '.join(map(str, parts))} parts for {size} ranks", "each rank has one part"
            )
        blocks = cut_grid(grid, parts, work, minimum)
    else:
        blocks = best_blocks(grid, size, work, minimum, SIDE_WORK[backend_name])
    if blocks is None:
        raise InputError(
            "compute.parts" if parts else "ranks",
            f"{' x '.join(map(str, grid.shape))} points cannot be partitioned among {size} ranks",
            f"each part needs at least {minimum} points along a partitioned axis", "use fewer ranks or a larger grid",
        )  # fmt: skip
    return blocks


def shares(plan: GridPlan, backend_name: str, size: int, parts: Sequence[int] | None) -> list[RankWorkload]:
    """Return the workload of each rank for this number of ranks."""
    blocks = _blocks(plan, backend_name, size, parts)
    work = blocks.work(LAYER_WORK[backend_name])
    workloads = []
    for rank in range(size):
        subdomain = Subdomain(blocks, rank, plan.halo)
        points = int(np.prod([end - first for first, end in subdomain.own]))
        extra = subdomain.grid().point_count - points  # stresses computed on both sides: half of an update
        neighbors = len({neighbor for neighbor, _, _ in subdomain.boxes_sent()})
        work_done = float(work[rank]) + 0.5 * extra
        workloads.append(RankWorkload(points, work_done, neighbors, subdomain.sent_values(), tuple(blocks.counts)))
    return workloads


# Double-precision planes in use while a plane of the medium is averaged; more than `PLANES` in gridded media and
# functions, of which the averages of some laws need samples at several levels.
SAMPLED_PLANES = {"isotropic": PLANES, "transverse": 205, "orthorhombic": 490}
# Field indices, point indices and weights of the 8 x 8 x 8 grid points that a receiver reads for three velocities;
# three times this with stress.
RECEIVER_BYTES = 3 * 8**3 * 24
MIN_FRACTION = 0.66  # minimum fraction of the grid: around the box two passes are slower than one
GREATEST_CONTRAST = 8.5  # of vs, above which no long run has shown that waves do not grow
POINTS_OF_LAYER = 6.0  # per wavelength of the highest frequency that the layers assume without max_frequency


@dataclass(frozen=True)
class FiniteDifferencePlan(GridPlan):
    """The plan of `lithowave.solvers.interface.Plan`: sizes, reports and warnings of a grid; see `GridPlan`."""

    unit: ClassVar[str] = "points"
    memory_hint: ClassVar[str] = (
        "Use a coarser grid (solver.max_frequency, points_per_wavelength), a smaller domain or single precision"
    )

    @property
    def unit_total(self) -> int:
        """See `lithowave.solvers.interface.Plan`."""
        return self.unit_count

    @property
    def unit_count(self) -> int:
        """See `lithowave.solvers.interface.Plan`."""
        return self.point_count

    @property
    def domain_count(self) -> int:
        """See `lithowave.solvers.interface.Plan`."""
        return self.grid.whole.interior_point_count

    @property
    def unit_kind(self) -> str:
        """See `lithowave.solvers.interface.Plan`."""
        law = f"{self.law} law" + (", compact moduli" if self.moduli == "compact" else "")
        if self.attenuation is None:
            return f"order {self.order}, {law}"
        return f"order {self.order}, {law}, {'coarse' if self.attenuation.coarse else 'full'} memory variables"

    def layer_values(self) -> int:
        """Return the number of values of the absorbing layers: memory variables, and velocities that are smoothed."""
        return sum(entry.size for entry in grid_arrays(self).of("layer", "work"))

    def memory_bytes(self, backend: Backend | None = None) -> int:
        """See `lithowave.solvers.interface.Plan`."""
        return grid_arrays(self, backend).nbytes(backend=backend)

    def plan_bytes(self) -> int:
        """Return zero: a grid needs no arrays."""
        return 0

    def state_bytes(self) -> int:
        """Return the bytes of a checkpoint: the fields, memory variables and the absorbing layers."""
        return grid_arrays(replace(self, box=None)).nbytes(*STATE_ROLES)

    def setup_bytes(self) -> int:
        """Return the bytes of the planes of the medium that exist at the same time."""
        points = math.prod(self.padded_shape()[1:])
        threads = planes_at_once(points) if self.concurrent else 1
        return threads * self.averaged_planes * 8 * points

    def sampling_bytes(self, experiment: Experiment) -> int:
        """Return the bytes of the weights and indices of the receivers."""
        per_receiver = RECEIVER_BYTES * (3 if experiment.output.tensors else 1)
        return per_receiver * len(experiment.acquisition.receivers)

    def snapshot_point_count(self, selection: SnapshotSelection) -> int:
        """Return the points of one snapshot of a selection."""
        return math.prod(select_snapshot_grid(self.grid.whole, selection).shape)

    def points_per_wavelength(self) -> float | None:
        """Return the grid points per shortest S wavelength at max_frequency."""
        return self.extremes.slowest / self.max_frequency / self.grid.spacing if self.max_frequency else None

    def summary(self) -> Summary:
        """See `lithowave.solvers.interface.Plan`."""
        whole = self.grid.whole
        parts = {"parts": list(self.subdomain.blocks.counts)} if self.subdomain else {}
        return parts | {
            "method": "finite_difference",
            "order": self.order,
            "passes": self.passes,
            "grid_points": list(whole.shape),
            "point_count": self.point_count,
            "interior_point_count": whole.interior_point_count,
            "degrees_of_freedom": len(FIELDS) * self.point_count,
            "spacing_m": self.grid.spacing,
            "effective_medium": self.law,
            **self._attenuation_summary(),
            "faces": self.faces,
            "time_step_s": self.schedule.time_step,
            "time_step_limit_s": self.schedule.limit,
            "time_step_limited_by": {"vp_m_s": self.extremes.fastest, "place": self.extremes.fastest_place},
            "points_per_wavelength": self.points_per_wavelength(),
            "points_per_wavelength_at": {"vs_m_s": self.extremes.slowest, "place": self.extremes.slowest_place},
            "steps": self.schedule.steps,
            "sampling_interval_s": self.schedule.sampling_interval,
            "memory_bytes": self.memory_bytes(),
        }

    def lines(self) -> list[Line]:
        """See `lithowave.solvers.interface.Plan`."""
        summary = self.summary()
        return [
            ("method", f"finite difference, order {self.order}"),
            ("grid", f"{' x '.join(map(str, self.grid.whole.shape))} = {self.point_count:,} points, "
                     f"{summary['degrees_of_freedom']:,} unknowns; spacing {self.grid.spacing:g} m"),
            ("material", self._material_line()),
            *self._attenuation_lines(),
            face_line(summary),
            resolution_line(summary),
            *time_lines(summary),
        ]  # fmt: skip

    def _material_line(self) -> str:
        """Return the constitutive law and its memory traffic as text."""
        law = LAWS[self.law]
        text = f"{self.law} law, {len(law.material)} arrays"
        if law.number:
            text += f" ({law.step_words() / LAWS['isotropic'].step_words() - 1:.0%} more memory traffic)"
        return f"{text}: {self.law_reason}" if self.law_reason else text

    def _attenuation_summary(self) -> Entries:
        if self.attenuation is None:
            return {}
        mode = "coarse" if self.attenuation.coarse else "full"
        return {"memory_variables": mode, "mechanisms_per_node": self.attenuation.stored}

    def _attenuation_lines(self) -> list[Line]:
        """Return the storage of mechanisms, and its memory and traffic relative to an elastic medium, as text."""
        if self.attenuation is None:
            return []
        law, elastic = self.law_fields, replace(self, attenuation=None)
        where = "one at each node (coarse)" if self.attenuation.coarse else "all at each node (full)"
        memory = self.memory_bytes() / elastic.memory_bytes() - 1.0
        traffic = law.step_words() / LAWS[self.law].step_words() - 1.0
        text = f"{self.attenuation.body.mechanisms} mechanisms, {where}: {len(STRESSES) * law.mechanisms} more values"
        text += f" per point ({memory:.0%} more memory, {traffic:.0%} more memory traffic)"
        if self.attenuation.coarse:
            text += "; the decay of single waves deviated by up to 2.5% at Q = 20"
        return [("memory variables", text)]

    def require_points(self, experiment: Experiment) -> None:
        """See `lithowave.solvers.interface.Plan`; there are no imported meshes."""

    def warnings(self, experiment: Experiment) -> list[str]:
        """See `lithowave.solvers.interface.Plan`."""
        size = np.full(len(experiment.acquisition.source_positions), self.grid.spacing)
        positions, medium = experiment.acquisition.source_positions, experiment.material.medium
        beside = find_interfaces(medium, positions, self.grid.spacing, experiment.domain.z).present
        errors = [WIDE_GRID if one else COARSE_GRID if self.law_fields.coarse else GRID for one in beside.tolist()]
        return [
            *self._layer_warnings(experiment), *grid_warnings(self, experiment),
            *near_source_warnings(experiment, size, errors, experiment.domain.z[1], self.faces["z_max"] == "free"),
            *interface_warnings(experiment, self.grid),
            *attenuation_warnings(self.attenuation, self.extremes.fastest, experiment),
            *correction_warnings(experiment, self.schedule),
        ]  # fmt: skip

    def _layer_warnings(self, experiment: Experiment) -> list[str]:
        """Return warnings about waves that may grow in the absorbing layers."""
        if "absorbing" not in self.faces.values():
            return []
        soft = displacement_warnings(experiment, "17%") if is_soft(experiment) else []
        return [*soft_ground_warnings(experiment, GREATEST_CONTRAST), *viscosity_warnings(experiment), *soft]

    def instability_causes(self) -> list[str]:
        """See `lithowave.solvers.interface.Plan`."""
        return [
            "soft ground next to rock, or strong contrasts, in an absorbing layer: move the absorbing sides to stiffer "
            "ground, or shorten the duration"
        ]


def plan(
    experiment: Experiment, backend: Backend, ranks: Ranks = SINGLE_RANK, previous: ReadEntries | None = None
) -> FiniteDifferencePlan:
    """Return the plan of this rank. See `lithowave.solvers.load_method` for the parameters.

    Raises
    ------
    InputError : the method does not support what the simulation requests: a free face other than the top, a time step
    above the limit, a rigid face between grid points, one pass where it is not possible, too many ranks.
    """
    solver, domain = experiment.solver, experiment.domain
    faces = {f"{axis}_{side}": experiment.boundaries.face(f"{axis}_{side}") for axis in AXES for side in ("min", "max")}
    _refuse_free_sides(faces)
    attenuation = choose_attenuation(experiment)
    elastic = unrelaxed(experiment, attenuation)
    extremes = find_material_extremes(experiment, elastic)
    spacing = solver.grid_spacing(extremes.slowest, domain.z[1] - domain.z[0])
    cells = experiment.boundaries.layer.cells
    layers = tuple(
        tuple(cells if faces[f"{axis}_{side}"] == "absorbing" else 0 for side in ("min", "max")) for axis in AXES
    )
    grid = build_grid((domain.x, domain.y, domain.z), spacing, layers)
    _refuse_small_grid(grid, solver.order)
    _refuse_misfit_faces(grid, experiment, faces)
    closed = [any(faces[f"{axis}_{side}"] != "absorbing" for side in ("min", "max")) for axis in AXES]
    coefficients = (taylor_coefficients(solver.order),) * len(AXES)
    norms = [derivative_norm(solver.order, is_closed) for is_closed in closed]
    limit = 2.0 * spacing / (extremes.fastest * math.sqrt(sum(norm**2 for norm in norms)))
    interval, corrected = experiment.output.sampling_interval, corrected_frequency(experiment)
    schedule = limited(
        make_schedule(limit, experiment.duration, solver.safety, solver.time_step, interval, corrected)
    )
    layer = _layer_parameters(experiment, extremes, spacing)
    value_bytes = 4 if experiment.compute.precision == "single" else 8
    law, reason = choose_law(elastic, grid)
    layered = isinstance(experiment.material.medium, LayeredMedium)
    made = FiniteDifferencePlan(
        grid, schedule, solver.order, coefficients, faces, layer, extremes, solver.max_frequency, value_bytes,
        experiment.compute.moduli, law, reason, PLANES if layered else SAMPLED_PLANES[law],
        attenuation, averages_concurrently(elastic.material.medium, LAWS[law]),
        isinstance(elastic.material.medium, LayeredMedium),
    )  # fmt: skip
    if ranks.size > 1:
        subdomain = make_subdomain(made, backend, (ranks.rank, ranks.size), experiment.compute.parts)
        made = replace(made, grid=subdomain.grid(), subdomain=subdomain)
    requested = solver.passes
    if requested == "auto":  # a resumed run keeps its passes
        requested = (previous or {}).get("passes", "auto")
    forces = [source.position for source in experiment.acquisition.sources if source.force is not None]
    box, reason = pass_box(made, requested, backend, forces)
    substitute = experiment.compute.backend not in ("auto", backend.name)  # planned for another device
    if box is None and solver.passes == "one" and not substitute:
        raise InputError("solver.passes", f"one pass is not possible here: {reason}", "allowed: auto, two")
    return replace(made, box=box)


def pass_box(
    plan: FiniteDifferencePlan, requested: str, backend: Backend, forces: Sequence[Sequence[float]] = ()
) -> tuple[Box | None, str]:
    """Return the box for one pass, away from layers, faces and forces, or None and the reason.

    requested : as ``solver.passes``; with ``auto``, one pass must also fit into memory and be faster. forces :
    positions, m.
    """
    if requested == "two":
        return None, "two passes are requested"
    if plan.law_fields.mechanisms > 1:
        return None, "it needs at most one relaxation mechanism per node (solver.memory_variables: coarse)"
    if not backend.copy_engine or not possible(backend.precision, plan.order, plan.law_fields):
        return None, "it needs a CUDA device of compute capability 9.0, single precision and order 2 or 4"
    box = inner_box(margins(plan), plan.grid.shape, column_shift(plan))
    if requested == "auto" and replace(plan, box=box).memory_bytes(backend) > backend.free_memory():
        return None, "the second set of fields does not fit into the device's memory"
    fraction = math.prod(max(0, end - first) for first, end in box) / plan.grid.point_count
    if fraction < (MIN_FRACTION if requested == "auto" else 0.01):
        return None, "layers and faces leave too small a fraction of the grid"
    if any(touches(plan, box, position) for position in forces):
        return None, "a force acts inside the box (moment tensors are allowed there)"
    return box, ""


def find_material_extremes(experiment: Experiment, elastic: Experiment) -> MaterialExtremes:
    """Find the fastest unrelaxed vp and the slowest described vs of the domain.

    elastic : the simulation with the unrelaxed material.
    """
    fastest, slowest = elastic.material_extremes["vp_max"], experiment.material_extremes["vs_min"]
    fastest_place = elastic.material.extreme_places(elastic.domain)["vp_max"]
    return MaterialExtremes(
        fastest, fastest_place, slowest, experiment.material.extreme_places(experiment.domain)["vs_min"]
    )


def _layer_parameters(experiment: Experiment, extremes: MaterialExtremes, spacing: float) -> LayerParameters:
    """Return the parameters; f_0 is the user's value or half of max_frequency, by default that of 6 points per
    wavelength."""
    given, soft = experiment.boundaries.layer, is_soft(experiment)
    reflection = given.reflection_with("finite_difference")
    if soft and given.reflection is None:
        reflection = SOFT_REFLECTION
    highest = experiment.solver.max_frequency or extremes.slowest / (POINTS_OF_LAYER * spacing)
    return LayerParameters(
        reflection, given.kappa, given.frequency or 0.5 * highest, extremes.fastest, soft, viscosity(experiment),
        extremes.slowest / highest,
    )  # fmt: skip


def _refuse_free_sides(faces: dict[str, str]) -> None:
    for face, kind in faces.items():
        if kind == "free" and face != "z_max":
            raise InputError(
                f"boundaries.{'bottom' if face == 'z_min' else face}",
                "free is not available on this face with finite_difference",
                "allowed: absorbing, rigid; free on top only",
            )


def _refuse_small_grid(grid: Grid, order: int) -> None:
    """Require that closures of opposite faces do not meet, and that interpolation has its points."""
    minimum = max(2 * SIZES[order][0] + 2, 2 * HALF_WIDTH)
    for axis, letter in enumerate(AXES):
        if grid.shape[axis] < minimum:
            raise InputError(
                f"domain.{letter}",
                f"the extent has {grid.shape[axis]} grid points at a spacing of {grid.spacing:g} m",
                f"order {order} needs at least {minimum}",
                "use a larger domain or a smaller spacing (solver.max_frequency, points_per_wavelength or spacing)",
            )


def _refuse_misfit_faces(grid: Grid, experiment: Experiment, faces: dict[str, str]) -> None:
    """Require that rigid faces at the far ends (x_max, y_max, z_min) coincide with grid points."""
    ends = {"x_max": experiment.domain.x, "y_max": experiment.domain.y, "z_min": experiment.domain.z}
    for face, (low, high) in ends.items():
        steps = (high - low) / grid.spacing
        if faces[face] == "rigid" and abs(steps - round(steps)) > 1e-6:
            better = (high - low) / math.ceil(steps)
            raise InputError(
                f"boundaries.{face}",
                f"the rigid face lies between grid points: {high - low:g} m is {steps:.4g} times the spacing of "
                f"{grid.spacing:g} m",
                "allowed: integer multiples of the grid spacing",
                f"set solver.spacing to {better:.9g}",
            )


def estimate_memory(experiment: Experiment, backend: Backend) -> MemoryEstimate:
    """Return zero: the plan of a grid has no arrays, and states the memory of a run exactly."""
    return MemoryEstimate(0, 0, FiniteDifferencePlan.memory_hint)


def partition_report(
    experiment: Experiment, plan: FiniteDifferencePlan, ranks_count: int, device: str
) -> list[RankWorkload]:
    """Return the workload of each of the given number of ranks.

    Raises
    ------
    InputError : the grid cannot be divided into this many subdomains.
    """
    return shares(plan, device, ranks_count, experiment.compute.parts)
