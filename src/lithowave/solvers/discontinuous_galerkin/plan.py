"""Discontinuous Galerkin discretization: mesh, order, time steps and their limits, memory.

It also contains statistics of the global mesh, combined from the parts of the ranks; the memory of a run, estimated
before the mesh is generated; and the workload of each rank, for the dry run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from lithowave.mesh.checks import described
from lithowave.mesh.shared import SharedFaces
from lithowave.mesh.tetrahedra import TetrahedralMesh
from lithowave.mesh.tetrahedral_checks import element_measures
from lithowave.parallel.ranks import SINGLE_RANK, Ranks, collective_call
from lithowave.physics import SWAPPED
from lithowave.process import phase
from lithowave.solvers.common.reports import (
    Line,
    MemoryEstimate,
    RankWorkload,
    file_elements,
    resolution_line,
    time_lines,
)
from lithowave.solvers.common.warnings import TETRAHEDRA, damped_media, displacement_warnings, near_source_warnings
from lithowave.solvers.discontinuous_galerkin import arrays
from lithowave.solvers.discontinuous_galerkin.clusters import (
    Clustering,
    make_clusters,
    single_cluster,
    stable_time_steps,
)
from lithowave.solvers.discontinuous_galerkin.layer import LayerRates
from lithowave.solvers.discontinuous_galerkin.materials import (
    ABSORBING,
    QUANTITIES,
    ElementMaterials,
    device_layout,
)
from lithowave.solvers.discontinuous_galerkin.meshing import (
    MeshedModel,
    built_box,
    element_sizes,
    is_matched,
    layer_axes,
    usual_size,
)
from lithowave.solvers.discontinuous_galerkin.partition import (
    element_work,
    make_local_mesh,
    partition_elements,
    traces_sent,
)
from lithowave.solvers.discontinuous_galerkin.points import TOLERANCE, excess_of, locate_points
from lithowave.solvers.discontinuous_galerkin.reference import face_mode_count, make_geometry, mode_count
from lithowave.solvers.discontinuous_galerkin.relaxation import require_positive, step_limits
from lithowave.solvers.elements.locations import PointLocations, point_names, point_positions, require_located
from lithowave.solvers.elements.plan import ElementPlan, plan_entries, refuse_coarse_mesh
from lithowave.solvers.elements.warnings import flux_warnings, receivers_at_vertices, tetrahedra_warnings
from lithowave.solvers.interface import Schedule

if TYPE_CHECKING:
    from lithowave.backends.interface import Backend
    from lithowave.description.domain import Domain
    from lithowave.description.experiment import Experiment
    from lithowave.json_types import Entries, ReadEntries
    from lithowave.json_types import Entries as Summary


# Measures of the quality of a mesh: whether the largest value in an element is reported, or the smallest.
MEASURES = {"shortest_edge": False, "longest_edge": True, "radius_ratio": False, "dihedral_angle": False}

COUNTS = ("elements", "anisotropic", "fluid", "layer", "layer_updates", "relaxing", "relaxation_bytes")


@dataclass(frozen=True)
class ElementExtremum:
    """Element with the minimum of some values. key : of the element. place : its location, for messages. speed :
    velocity of the wave there, m/s."""

    value: float
    key: int
    place: str
    speed: float


@dataclass(frozen=True)
class GlobalMeshStatistics:
    """Statistics of the global mesh.

    elements, anisotropic, fluid, layer, relaxing : counts; layer : of the elements of the absorbing layer;
    layer_updates : of their updates per step of the largest cluster; relaxing : of those with attenuation.
    relaxation_bytes : of their memory variables. faces : outer faces by kind. quality : the
    values of `MEASURES` outside of the layer, and worst_element. worst : element there with the minimum ratio of
    insphere radius to edge. limit : element that sets the shortest time step, s, with the clusters of the run; relaxed
    : because of relaxation. resolution : element of the domain with the minimum points per wavelength at 1 Hz. bounds :
    ends of the mesh along x, y and z, m. memory_bytes : bytes of the arrays of all ranks.
    """

    elements: int
    anisotropic: int
    fluid: int
    layer: int
    layer_updates: int
    relaxing: int
    relaxation_bytes: int
    faces: dict[str, int]
    quality: Entries
    worst: ElementExtremum
    limit: ElementExtremum
    resolution: ElementExtremum
    bounds: tuple[tuple[float, float], ...]
    memory_bytes: int
    relaxed: bool


def gather_mesh_statistics(plan: DiscontinuousGalerkinPlan) -> GlobalMeshStatistics:
    """Return the statistics of a plan; with several ranks this call is collective."""
    parts = plan.shared.ranks.all_gather(_own(plan))
    quality = {
        name: (max if largest else min)(part.quality[name] for part in parts) for name, largest in MEASURES.items()
    }
    lowest = min(parts, key=lambda part: _rank_of(part.worst))
    quality["worst_element"] = lowest.quality["worst_element"]
    return GlobalMeshStatistics(
        *(sum(getattr(part, name) for part in parts) for name in COUNTS),
        {kind: sum(part.faces[kind] for part in parts) for kind in parts[0].faces},
        quality,
        *(min((getattr(part, name) for part in parts), key=_rank_of) for name in ("worst", "limit", "resolution")),
        tuple(
            (min(part.bounds[axis][0] for part in parts), max(part.bounds[axis][1] for part in parts))
            for axis in range(3)
        ),
        sum(part.memory_bytes for part in parts),
        min(parts, key=lambda part: _rank_of(part.limit)).relaxed,
    )


def _rank_of(extreme: ElementExtremum) -> tuple[float, int]:
    return extreme.value, extreme.key


def _own(plan: DiscontinuousGalerkinPlan) -> GlobalMeshStatistics:
    """Return the statistics of this rank's part."""
    mesh, count = plan.mesh, plan.element_count
    keys, measures = mesh.keys_of_elements, element_measures(mesh)
    fastest, slowest = (speed[:count] for speed in (plan.materials.fastest_speed, plan.materials.slowest_speed))
    # There are `order` points per edge of the cube that twelve such elements would fill.
    points = plan.order * slowest / np.cbrt(12.0 * measures["volume"])
    added = plan.layer.inside | plan.added_elements()[:count]
    points[added] = np.inf
    for name, largest in MEASURES.items():  # elements of a layer are never the worst
        measures[name][added] = -np.inf if largest else np.inf

    def extreme(values: np.ndarray, speeds: np.ndarray) -> ElementExtremum:
        element = lowest(values, keys)
        value, speed = float(values[element]), float(speeds[element])
        return ElementExtremum(value, int(keys[element]), plan.place_of(element), speed)

    quality = {
        name: float(measures[name].max() if largest else measures[name].min()) for name, largest in MEASURES.items()
    }
    worst = lowest(measures["radius_ratio"], keys)
    quality["worst_element"] = described(mesh, worst) | {
        "element": mesh.element_id(worst), "measure": "radius_ratio", "value": quality["radius_ratio"]
    }  # fmt: skip
    steps = plan.limits * 0.5 ** plan.clustering.cluster[:count]  # of cluster 0 that each element permits
    limit = lowest(steps, keys)
    relaxed = bool(plan.limits[limit] >= step_limits(plan.materials, count)[limit])
    return GlobalMeshStatistics(
        count, int(plan.materials.anisotropic[:count].sum()), int(plan.materials.is_fluid[:count].sum()),
        int(plan.layer.inside.sum()), int(plan.clustering.element_updates[:count][plan.layer.inside].sum()),
        int(plan.relaxing.sum()), arrays.relaxation_bytes(plan),
        {kind: len(faces) for kind, faces in plan.faces.items()}, quality,
        extreme(measures["radius_ratio"], fastest), extreme(steps, fastest), extreme(points, slowest),
        tuple((float(axis.min()), float(axis.max())) for axis in mesh.vertices.T), plan.memory_bytes(), relaxed,
    )  # fmt: skip


def lowest(values: np.ndarray, keys: np.ndarray) -> int:
    """Return the element with the minimum value; among equal values the lowest key, independent of the partition."""
    equal = np.flatnonzero(values == values.min())
    return int(equal[keys[equal].argmin()])


BAD_RATIO = 0.02  # ratio of insphere radius to longest edge below which elements are reported


@dataclass(frozen=True)
class DiscontinuousGalerkinPlan(ElementPlan):
    """Discretization parameters, fixed before any array of a device is allocated.

    mesh : this rank's part, whose neighbors include elements across faces that are `shared` with other ranks, with
    indices after its own elements; materials : of its elements, followed by those; faces : outer faces (element, local
    face) by kind; face_neighbors : (elements, 4), the element across each face, or the kind of the face
    (`materials.KINDS`). limits : largest stable time step of each element, s. clustering : their time steps. layer :
    rates of the absorbing layer in each element of this rank. face_kinds : kinds of the six faces of a box; None for an
    imported mesh. mesh_file : its path. mesh_ends, layer_ends, no_layer : see `ElementPlan`.
    """

    mesh: TetrahedralMesh
    order: int
    materials: ElementMaterials
    faces: dict[str, np.ndarray]
    face_neighbors: np.ndarray
    limits: np.ndarray
    clustering: Clustering
    layer: LayerRates
    max_frequency: float | None = None
    value_bytes: int = 4
    surface_spacing: float = 0.0
    domain: Domain | None = None
    face_kinds: dict[str, str] | None = None
    mesh_file: str | None = None
    mesh_ends: tuple[tuple[float, float], ...] | None = None
    layer_ends: tuple[tuple[float, float], ...] | None = None
    no_layer: str = ""
    shared: SharedFaces = field(default_factory=SharedFaces)

    arrays: ClassVar[ModuleType] = arrays
    inside_tolerance: ClassVar[float] = TOLERANCE
    locate_points: ClassVar[Callable[..., PointLocations]] = staticmethod(locate_points)
    gather_statistics: ClassVar[Callable[..., GlobalMeshStatistics]] = staticmethod(gather_mesh_statistics)
    memory_hint: ClassVar[str] = (
        "Use larger elements (solver.max_frequency, points_per_wavelength), a lower order, a smaller domain or single "
        "precision"
    )

    @property
    def schedule(self) -> Schedule:
        """Schedule of the largest cluster, at whose steps all elements are synchronized."""
        return self.clustering.schedule

    @property
    def unit_total(self) -> int:
        """See `lithowave.solvers.interface.Plan`."""
        return sum(self.clustering.sizes) if self.shared.ranks.size > 1 else self.element_count

    @property
    def unit_count(self) -> int:
        """Element updates per step, the unit of rates."""
        return self.clustering.updates

    @property
    def domain_count(self) -> int:
        """See `lithowave.solvers.interface.Plan`."""
        return self.unit_count - self.mesh_statistics.layer_updates

    @property
    def unit_kind(self) -> str:
        """See `lithowave.solvers.interface.Plan`."""
        anisotropic = self.materials.anisotropic[: self.element_count].mean() > 0.5
        losses = f", {self.mechanisms} mechanisms" if self.mechanisms else ""
        return f"order {self.order}, {'anisotropic' if anisotropic else 'isotropic'}{losses}"

    @property
    def mechanisms(self) -> int:
        """Relaxation mechanisms of attenuation; 0 without it."""
        return self.materials.body.mechanisms if self.materials.body is not None else 0

    @cached_property
    def relaxing(self) -> np.ndarray:
        """True for the elements with attenuation (elements,)."""
        return self.materials.mechanisms(self.element_count) > 0

    @property
    def ranks(self) -> Ranks:
        """All ranks of the run."""
        return self.shared.ranks

    @property
    def bounds(self) -> tuple[tuple[float, float], ...]:
        """Ends of the global mesh along x, y and z, m."""
        return self.mesh_statistics.bounds

    def part(self, elements: np.ndarray) -> DiscontinuousGalerkinPlan:
        """Return the plan of some elements in ascending order, to measure steps: with the shortest time step, and
        absorbing faces towards the others."""
        mesh, clustering, none = self.mesh.part(elements), self.clustering, np.zeros((0, 2), np.int64)
        across = self.face_neighbors[elements]
        schedule = Schedule(clustering.shortest, clustering.schedule.limit, 10 * clustering.shortest, 2)
        return replace(
            self, mesh=mesh, materials=self.materials.reordered(elements), faces=dict.fromkeys(self.faces, none),
            face_neighbors=np.where(mesh.neighbors >= 0, mesh.neighbors // 4, np.where(across < 0, across, ABSORBING)),
            limits=self.limits[elements], clustering=single_cluster(self.limits[elements], schedule),
            layer=LayerRates(*(rates[elements] for rates in vars(self.layer).values())), shared=SharedFaces(),
        )  # fmt: skip

    def points_per_wavelength(self) -> float | None:
        """Return the minimum points per shortest wavelength at max_frequency."""
        return self.mesh_statistics.resolution.value / self.max_frequency if self.max_frequency else None

    def summary(self) -> Summary:
        """See `lithowave.solvers.interface.Plan`."""
        survey, clustering = self.mesh_statistics, self.clustering
        return {
            "method": "discontinuous_galerkin",
            "order": self.order,
            "element_count": survey.elements,
            "anisotropic_elements": survey.anisotropic,
            "fluid_elements": survey.fluid,
            "layer_elements": survey.layer,
            "relaxing_elements": survey.relaxing,
            "element_size_m": [survey.quality["shortest_edge"], survey.quality["longest_edge"]],
            "mesh_quality": {
                name: survey.quality[name] for name in ("radius_ratio", "dihedral_angle", "worst_element")
            },
            "basis_functions": mode_count(self.order),
            "degrees_of_freedom": survey.elements * QUANTITIES * mode_count(self.order),
            "faces": self.face_kinds or {kind: count for kind, count in survey.faces.items() if count},
            "time_step_s": clustering.shortest,
            "time_step_limit_s": survey.limit.value,
            "time_step_limited_by": {"vp_m_s": survey.limit.speed, "place": survey.limit.place}
            | ({"relaxation": True} if survey.relaxed else {}),
            "local_time_steps": clustering.count > 1,
            "clusters": [
                {"time_step_s": clustering.shortest * 2**number, "elements": size}
                for number, size in enumerate(clustering.sizes)
            ],
            "local_time_step_gain": clustering.gain,
            "points_per_wavelength": self.points_per_wavelength(),
            "points_per_wavelength_at": {"vs_m_s": survey.resolution.speed, "place": survey.resolution.place},
            "largest_time_step_s": self.schedule.time_step,
            "steps": self.schedule.steps,
            "sampling_interval_s": self.schedule.sampling_interval,
            "memory_bytes": survey.memory_bytes,
        }  # fmt: skip

    def lines(self) -> list[Line]:
        """See `lithowave.solvers.interface.Plan`."""
        summary = self.summary()
        special = [
            f"{summary[name]:,} {text}"
            for name, text in (
                ("anisotropic_elements", "anisotropic"), ("fluid_elements", "fluid"),
                ("layer_elements", "in the absorbing layer"), ("relaxing_elements", "with attenuation"),
            )
            if summary[name]
        ]
        shortest, longest = summary["element_size_m"]
        groups = f" ({', '.join(special)})" if special else ""
        functions = f"{summary['basis_functions']} functions per element"
        return [
            ("method", f"discontinuous Galerkin, order {self.order}: {functions}"),
            ("mesh", f"{summary['element_count']:,} tetrahedra{groups}{self.origin_text()}"),
            ("unknowns", f"{summary['degrees_of_freedom']:,}"),
            *self._relaxation_lines(),
            ("element size", f"edges of {shortest:.6g} to {longest:.6g} m"),
            ("mesh quality", self._quality_text()),
            self.faces_line(summary, self._absorption_text()),
            resolution_line(summary),
            *self._time_lines(summary),
        ]

    def _relaxation_lines(self) -> list[Line]:
        """Return the line of `check` about the memory variables of attenuation."""
        survey = self.mesh_statistics
        if not survey.relaxing:
            return []
        size = f"{survey.relaxation_bytes / 1e6:,.3g} MB of {self.mechanisms} mechanisms"
        shorter = "; relaxation limits the time step" if survey.relaxed else ""
        return [("memory variables", f"of {survey.relaxing:,} elements, {size}{shorter}")]

    def _quality_text(self) -> str:
        found, worst = self.mesh_statistics.quality, self.mesh_statistics.worst.place
        return (
            f"smallest ratio of insphere radius to edge {found['radius_ratio']:.3g} (0.204 at best), "
            f"smallest angle between faces {found['dihedral_angle']:.3g} degrees; worst in {worst}"
        )

    def _absorption_text(self) -> str:
        if self.mesh_statistics.layer:
            return "; absorbing layers"
        absorbing = self.mesh_statistics.faces["absorbing"]
        return "; absorbing plane waves along the normal" if absorbing else ""

    def _time_lines(self, summary: Summary) -> list[Line]:
        """Return the lines on the time step, and with LTS on the clusters."""
        (name, step), steps = time_lines(summary)
        if not summary["local_time_steps"]:
            return [(name, step), steps]
        clusters = ", ".join(
            f"{one['elements']:,} at {one['time_step_s']:.3g} s" for one in summary["clusters"] if one["elements"]
        )
        return [
            ("shortest time step", step),
            ("local time steps", f"{clusters}: updates reduced by a factor of {summary['local_time_step_gain']:.3g}"),
            (steps[0], f"{steps[1]} (of the longest time step)"),
        ]

    def outside(self, reference: np.ndarray) -> np.ndarray:
        """See `ElementPlan`."""
        return excess_of(reference)

    def reference_gradients(self, locations: PointLocations) -> np.ndarray:
        """See `ElementPlan`."""
        return make_geometry(self.mesh.element_vertices(locations.element)).gradients

    def voigt_diagonals(self, locations: PointLocations) -> np.ndarray:
        """See `ElementPlan`."""
        return self.materials.matrix(locations.element)[:, range(6), range(6)][:, SWAPPED]

    def warnings(self, experiment: Experiment) -> list[str]:
        """See `lithowave.solvers.interface.Plan`."""
        size = element_sizes(self.mesh, experiment.acquisition.source_positions, self.tolerance, self.ranks)
        near = near_source_warnings(experiment, size, [TETRAHEDRA], self.bounds[2][1])
        found = self.locate(experiment.acquisition.receiver_positions, self.tolerance)
        near += receivers_at_vertices(self, experiment, found.locations)
        damped = [*damped_media(experiment, layer_axes(experiment))] if self.mesh_statistics.layer else []
        if self.mesh_statistics.layer and not is_matched(experiment):
            damped += displacement_warnings(experiment, "7%")
        return [*damped, *flux_warnings(self, experiment), *tetrahedra_warnings(self, experiment), *near]

    def instability_causes(self) -> list[str]:
        """See `lithowave.solvers.interface.Plan`."""
        worst = self.mesh_statistics.worst
        return [f"distorted elements: the worst is {worst.place}"] if worst.value <= BAD_RATIO else []


def plan(
    experiment: Experiment, backend: Backend, ranks: Ranks = SINGLE_RANK, previous: ReadEntries | None = None
) -> DiscontinuousGalerkinPlan:
    """Return the plan of this rank. See `lithowave.solvers.load_method` for the parameters.

    Raises
    ------
    InputError : the mesh cannot be used, or the time step is above the limit, or there are too many ranks.
    """
    solver = experiment.solver
    model = make_local_mesh(experiment, ranks, lambda part: model_clusters(experiment, part).cluster, backend.name)
    clusters = partial(clusters_of, experiment, model.shared)
    made = make_plan(model, solver.order, clusters, experiment.compute.precision, **plan_entries(experiment))
    coarsest = made.mesh_statistics.resolution
    worst = f"{coarsest.place} (slowest wave {coarsest.speed:g} m/s)"
    refuse_coarse_mesh(experiment, made.points_per_wavelength(), "order", worst)
    _require_points(experiment, made)
    return made


def model_clusters(experiment: Experiment, model: MeshedModel) -> Clustering:
    """Return the clusters of a mesh, or of this rank's part of it, for a simulation."""
    return clusters_of(experiment, model.shared, *limits_and_neighbors(model, experiment.solver.order))


def clusters_of(experiment: Experiment, shared: SharedFaces, limits: np.ndarray, neighbors: np.ndarray) -> Clustering:
    """Return the clusters for a simulation; see `make_clusters` for the other parameters."""
    solver = experiment.solver
    return make_clusters(
        limits, neighbors, experiment.duration, solver.safety, solver.time_step, experiment.output.sampling_interval,
        solver.local_time_steps, experiment.highest_frequency, shared,
    )  # fmt: skip


def _require_points(experiment: Experiment, plan: DiscontinuousGalerkinPlan) -> None:
    """Require that sources and receivers are in an imported mesh, whose extent only its elements define."""
    if experiment.solver.mesh is None:
        return
    for kind, points in (("source", experiment.acquisition.sources), ("receiver", experiment.acquisition.receivers)):
        positions = point_positions(points)
        found = plan.locate(positions, plan.tolerance)
        require_located(found, plan.ranks, point_names(points, kind), positions, f"{kind}s")


def limits_and_neighbors(model: MeshedModel, order: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest stable time step of each element, s, and its neighbors (elements, 4), -1 for none."""
    neighbors = model.face_neighbors()
    limits = stable_time_steps(order, model.mesh, model.materials, neighbors)
    relaxed = np.minimum(limits, step_limits(model.materials, model.mesh.element_count))
    return relaxed, np.maximum(neighbors, -1)


def make_plan(
    model: MeshedModel, order: int, clusters: Callable[..., Clustering], precision: str, **more: object
) -> DiscontinuousGalerkinPlan:
    """Return the plan for a mesh with materials. clusters : function of stable time steps, s, and neighbors."""
    with phase("time step"):
        limits, neighbors = limits_and_neighbors(model, order)
        clustering = clusters(limits, neighbors)
    size = model.element_size or usual_size(model.mesh)
    collective_call(model.shared.ranks, lambda: require_positive(model.materials, model.mesh))
    return DiscontinuousGalerkinPlan(
        model.mesh, order, model.materials, model.faces, model.face_neighbors(), limits, clustering,
        model.layer_rates(), value_bytes=4 if precision == "single" else 8, surface_spacing=size / order,
        shared=model.shared, mesh_ends=model.mesh_ends,
        layer_ends=model.layer and model.mesh_ends and model.layer.domain, no_layer=model.no_layer, **more,
    )  # fmt: skip


TETRAHEDRA_OF_A_CELL = 12  # of a cube
FILE_BYTES = 1000  # of a tetrahedron with its vertices in a mesh file, at most: text with further data
PLAN_BYTES = 200  # of a tetrahedron in the plan: mesh, neighbors, materials, time steps


def estimate_memory(experiment: Experiment, backend: Backend) -> MemoryEstimate:
    """Return a lower bound of the memory of all ranks; smaller elements around sources are not counted."""
    solver = experiment.solver
    if solver.mesh is None:
        count = TETRAHEDRA_OF_A_CELL * built_box(experiment).plan.element_count
    else:
        count = file_elements(solver.mesh.file, FILE_BYTES)
    mechanisms = 0 if experiment.anelasticity is None else experiment.anelasticity.body.mechanisms
    real = np.dtype("f4" if experiment.compute.precision == "single" else "f8")
    layout = device_layout(backend.name, backend.precision)
    each = arrays.element_bytes(solver.order, real, layout, (False, False, mechanisms))
    return MemoryEstimate(count * PLAN_BYTES, count * each, DiscontinuousGalerkinPlan.memory_hint)


def partition_report(
    experiment: Experiment, plan: DiscontinuousGalerkinPlan, ranks_count: int, device: str
) -> list[RankWorkload]:
    """Return the workload of each of this many ranks per step of the run, that of the largest cluster.

    Raises
    ------
    InputError : the mesh cannot be partitioned into this many parts.
    """
    cluster, ticks = plan.clustering.cluster, plan.clustering.ticks
    part = partition_elements(plan, cluster, ranks_count, device, graph=experiment.solver.mesh is not None)
    work = np.bincount(part, ticks * element_work(plan, cluster), ranks_count)
    units = np.bincount(part, minlength=ranks_count)
    across = plan.mesh.neighbors
    element, face = np.nonzero((across >= 0) & (part[across // 4] != part[:, None]))
    other = across[element, face] // 4
    # Traces sent from an element of one rank to an element of the other.
    numbers = ticks * traces_sent(cluster[other]) * 3 * face_mode_count(experiment.solver.order)
    sent = np.bincount(part[element], numbers, ranks_count)
    pairs = np.unique(np.column_stack([part[element], part[other]]), axis=0)
    neighbors = np.bincount(pairs[:, 0], minlength=ranks_count)
    return [
        RankWorkload(
            int(units[rank]), float(work[rank]), int(neighbors[rank]), round(float(sent[rank])), exchanges=ticks
        )
        for rank in range(ranks_count)
    ]
