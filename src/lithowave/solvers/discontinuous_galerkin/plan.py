"""The discontinuous Galerkin discretization of an experiment: mesh, order, time steps and what limits them, memory."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from lithowave.errors import InputError
from lithowave.mesh.shared_faces import SharedFaces
from lithowave.mesh.tetrahedra import TetrahedralMesh
from lithowave.parallel.ranks import ALONE, Ranks
from lithowave.solvers.clock import Schedule
from lithowave.solvers.common.near_source_warnings import TETRAHEDRA, near_source_warnings
from lithowave.solvers.common.plan_lines import Line, face_line, resolution_line, time_lines
from lithowave.solvers.discontinuous_galerkin import memory
from lithowave.solvers.discontinuous_galerkin.basis import mode_count
from lithowave.solvers.discontinuous_galerkin.clusters import Clustering, make_clusters
from lithowave.solvers.discontinuous_galerkin.materials import QUANTITIES, ElementMaterials
from lithowave.solvers.discontinuous_galerkin.meshing import MeshedModel, element_sizes
from lithowave.solvers.discontinuous_galerkin.parts import make_part
from lithowave.solvers.discontinuous_galerkin.places import ON_GROUND, TOLERANCE, place_points, require_places
from lithowave.solvers.discontinuous_galerkin.stability import stable_time_steps
from lithowave.solvers.discontinuous_galerkin.survey import Survey, make_survey
from lithowave.solvers.elements.absorption_warnings import flux_warnings
from lithowave.solvers.elements.model_warnings import receivers_at_vertices, tetrahedra_warnings
from lithowave.solvers.elements.rasters import select_raster

if TYPE_CHECKING:
    from lithowave.description.simulation import Simulation

BAD_RATIO = 0.02  # of insphere radius to longest edge: elements that are worth a word


@dataclass(frozen=True)
class DiscontinuousGalerkinPlan:
    """Everything decided before an array of a device is allocated.

    mesh : this rank's part, whose neighbours include elements across faces that are `shared` with other ranks, with
    numbers behind its own ones; materials : of its elements and, behind them, of those; faces : outer faces (element,
    local face) by kind; face_neighbors : (elements, 4), the element across each face, or the kind of the face
    (`riemann.KINDS`). limits : largest stable time step of each element, s. clustering : their time steps. face_kinds :
    of the six faces of a box; None for a mesh that was read. mesh_file : where that came from.
    """

    mesh: TetrahedralMesh
    order: int
    materials: ElementMaterials
    faces: dict[str, np.ndarray]
    face_neighbors: np.ndarray
    limits: np.ndarray
    clustering: Clustering
    max_frequency: float | None = None
    value_bytes: int = 4
    surface_spacing: float = 0.0
    domain: Any = None
    face_kinds: dict[str, str] | None = None
    mesh_file: str | None = None
    shared: SharedFaces = field(default_factory=SharedFaces)

    unit: ClassVar[str] = "elements"
    less_memory: ClassVar[str] = (
        "Larger elements (solver.max_frequency, points_per_wavelength), a lower order, a smaller domain, or single "
        "precision needs less"
    )

    @property
    def schedule(self) -> Schedule:
        """Of the largest cluster, at whose steps all elements meet."""
        return self.clustering.schedule

    @property
    def unit_total(self) -> int:
        """See `lithowave.solvers.interface.Plan`."""
        return sum(self.clustering.sizes) if self.shared.ranks.size > 1 else self.element_count

    @property
    def unit_count(self) -> int:
        """Updates of elements in a step: rates count these."""
        return self.clustering.updates

    @property
    def element_count(self) -> int:
        """Number of elements of this rank."""
        return self.mesh.element_count

    @property
    def survey(self) -> Survey:
        """What there is to tell of the whole mesh; made by all ranks at once when it is asked for first."""
        kept = vars(self)  # a cached_property may hold a lock until all ranks are there, which may be threads
        if "_survey" not in kept:
            kept["_survey"] = make_survey(self)
        return kept["_survey"]

    @property
    def bounds(self) -> tuple[tuple[float, float], ...]:
        """Ends of the whole mesh along x, y and z, m."""
        return self.survey.bounds

    @property
    def tolerance(self) -> float:
        """How far outside the mesh sources and receivers may be, in barycentric coordinates of an element.

        The description has refused those above a topography already; the others are brought onto the elements.
        """
        return ON_GROUND if self.domain is not None and self.domain.surface is not None else TOLERANCE

    def memory_bytes(self, backend: Any = None) -> int:
        """Bytes of the coefficients, the traces of the faces, and the numbers of elements and faces."""
        return memory.array_bytes(self, backend)

    def plan_bytes(self) -> int:
        """Bytes of the mesh, its materials and neighbours in main memory."""
        return memory.plan_bytes(self)

    def state_bytes(self) -> int:
        """Bytes of what a checkpoint holds."""
        return memory.state_bytes(self)

    def setup_bytes(self) -> int:
        """Bytes of numbers of elements while they are packed."""
        return memory.setup_bytes(self)

    def reading_bytes(self, simulation: Simulation) -> int:
        """Bytes of the places of receivers, snapshots and peaks, and of the blocks that are completed for them."""
        return memory.reading_bytes(self, simulation)

    def on(self, backend: Any, simulation: Simulation, before: str | None = None) -> DiscontinuousGalerkinPlan:
        """The plan as it is: nothing in it depends on the device."""
        return self

    def raster_point_count(self, selection: Any) -> int:
        """Points of one snapshot of a selection."""
        return math.prod(select_raster(self, selection).shape)

    def place_of(self, element: int) -> str:
        """Where an element is, for messages; with the number that its file gives it."""
        x, y, z = self.mesh.element_vertices(np.array([element]))[0].mean(axis=0)
        return f"element {self.mesh.element_id(element)} at ({x:z.6g}, {y:z.6g}, {z:z.6g}) m"

    def points_per_wavelength(self) -> float | None:
        """Points in the shortest wavelength at max_frequency, where they are fewest."""
        return self.survey.resolution.value / self.max_frequency if self.max_frequency else None

    def summary(self) -> dict[str, Any]:
        """See `lithowave.solvers.interface.Plan`."""
        survey, clustering = self.survey, self.clustering
        return {
            "method": "discontinuous_galerkin",
            "order": self.order,
            "element_count": survey.elements,
            "anisotropic_elements": survey.anisotropic,
            "fluid_elements": survey.fluid,
            "element_size_m": [survey.quality["shortest_edge"], survey.quality["longest_edge"]],
            "mesh_quality": {
                name: survey.quality[name] for name in ("radius_ratio", "dihedral_angle", "worst_element")
            },
            "basis_functions": mode_count(self.order),
            "degrees_of_freedom": survey.elements * QUANTITIES * mode_count(self.order),
            "faces": self.face_kinds or {kind: count for kind, count in survey.faces.items() if count},
            "time_step_s": clustering.shortest,
            "time_step_limit_s": survey.limit.value,
            "time_step_limited_by": {"vp_m_s": survey.limit.speed, "place": survey.limit.place},
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
        origin = f"; from {self.mesh_file}" if self.mesh_file else ""
        special = [
            f"{summary[name]:,} {text}"
            for name, text in (("anisotropic_elements", "anisotropic"), ("fluid_elements", "fluid"))
            if summary[name]
        ]
        shortest, longest = summary["element_size_m"]
        told = f" ({', '.join(special)})" if special else ""
        functions = f"{summary['basis_functions']} functions in an element"
        return [
            ("method", f"discontinuous Galerkin, order {self.order}: {functions}"),
            ("mesh", f"{summary['element_count']:,} tetrahedra{told}{origin}"),
            ("unknowns", f"{summary['degrees_of_freedom']:,}"),
            ("element size", f"edges of {shortest:.6g} to {longest:.6g} m"),
            ("mesh quality", self._quality_text()),
            face_line(summary, self._absorption()) if self.face_kinds else self._file_faces(summary),
            resolution_line(summary),
            *self._time_lines(summary),
        ]

    def _quality_text(self) -> str:
        found, worst = self.survey.quality, self.survey.worst.place
        return (
            f"smallest ratio of insphere radius to edge {found['radius_ratio']:.3g} (0.204 at best), "
            f"smallest angle between faces {found['dihedral_angle']:.3g} degrees; worst in {worst}"
        )

    def _absorption(self) -> str:
        return "; absorbing by letting out what travels along the normal" if self.survey.faces["absorbing"] else ""

    def _file_faces(self, summary: dict[str, Any]) -> Line:
        return "faces", ", ".join(f"{n:,} {kind}" for kind, n in summary["faces"].items()) + self._absorption()

    def _time_lines(self, summary: dict[str, Any]) -> list[Line]:
        """The time step; with local ones the clusters too."""
        (name, step), steps = time_lines(summary)
        if not summary["local_time_steps"]:
            return [(name, step), steps]
        clusters = ", ".join(
            f"{one['elements']:,} at {one['time_step_s']:.3g} s" for one in summary["clusters"] if one["elements"]
        )
        return [
            ("shortest time step", step),
            ("local time steps", f"{clusters}: {summary['local_time_step_gain']:.3g} times fewer updates"),
            (steps[0], f"{steps[1]} (of the longest time step)"),
        ]

    def warnings(self, simulation: Simulation) -> list[str]:
        """See `lithowave.solvers.interface.Plan`."""
        size = element_sizes(self.mesh, simulation.acquisition.source_positions, self.tolerance, self.shared.ranks)
        near = near_source_warnings(simulation, size, TETRAHEDRA, self.bounds[2][1])
        positions = simulation.acquisition.receiver_positions
        places = place_points(self.mesh, positions, self.tolerance, self.shared.ranks).places
        near += receivers_at_vertices(self, simulation, places)
        return [*flux_warnings(self, simulation), *tetrahedra_warnings(self, simulation), *near]

    def instability_causes(self) -> list[str]:
        """See `lithowave.solvers.interface.Plan`."""
        worst = self.survey.worst
        return [f"badly formed elements: the worst is {worst.place}"] if worst.value <= BAD_RATIO else []


def plan(simulation: Simulation, ranks: Ranks = ALONE) -> DiscontinuousGalerkinPlan:
    """Discretize an experiment; on several ranks each gets the plan of its part.

    Raises
    ------
    InputError : the mesh cannot be used, or the time step is above the limit, or there are too many ranks.
    """
    solver = simulation.solver

    model = make_part(simulation, ranks, lambda model: model_clusters(simulation, model).cluster)
    made = make_plan(
        model, solver.order, lambda *_: model_clusters(simulation, model), simulation.compute.precision,
        max_frequency=solver.max_frequency, domain=simulation.domain,
        face_kinds=None if solver.mesh else simulation.boundaries.faces,
        mesh_file=str(solver.mesh) if solver.mesh else None,
    )  # fmt: skip
    if ranks.size > 1:
        _ = made.survey
    _refuse_coarse_mesh(simulation, made)
    _require_points(simulation, made)
    return made


def model_clusters(simulation: Simulation, model: MeshedModel) -> Clustering:
    """The clusters of a mesh, or of this rank's part of it, that a simulation asks for."""
    solver = simulation.solver
    limits, neighbors = limits_and_neighbors(model, solver.order)
    return make_clusters(
        limits, neighbors, simulation.duration, solver.safety, solver.time_step, simulation.output.sampling_interval,
        solver.local_time_steps, solver.max_frequency, model.shared,
    )  # fmt: skip


def _require_points(simulation: Simulation, plan: DiscontinuousGalerkinPlan) -> None:
    """Sources and receivers must be in the mesh: of one that is read only its elements tell."""
    if simulation.solver.mesh is None:
        return
    for where, points in (("sources", simulation.acquisition.sources), ("receivers", simulation.acquisition.receivers)):
        positions = np.array([point.position for point in points], float).reshape(-1, 3)
        names = [getattr(point, "name", "") or f"{where[:-1]} {number}" for number, point in enumerate(points)]
        placed = place_points(plan.mesh, positions, plan.tolerance, plan.shared.ranks)
        require_places(placed.missing, names, positions, where)


def limits_and_neighbors(model: MeshedModel, order: int) -> tuple[np.ndarray, np.ndarray]:
    """Largest stable time step of each element, s; and its neighbours (elements, 4), -1 for none."""
    mesh = model.mesh
    fastest = model.materials.fastest_speed[: mesh.element_count]
    across = mesh.neighbors
    return stable_time_steps(order, mesh.insphere_radii(), fastest), np.where(across >= 0, across // 4, -1)


def make_plan(model: MeshedModel, order: int, clusters: Any, precision: str, **more: Any) -> DiscontinuousGalerkinPlan:
    """The plan for a mesh with materials. clusters : function of the largest stable time steps, s, and neighbours."""
    limits, neighbors = limits_and_neighbors(model, order)
    size = model.element_size or model.usual_size()
    return DiscontinuousGalerkinPlan(
        model.mesh, order, model.materials, model.faces, model.face_neighbors(), limits, clusters(limits, neighbors),
        value_bytes=4 if precision == "single" else 8, surface_spacing=size / order, shared=model.shared, **more,
    )  # fmt: skip


def _refuse_coarse_mesh(simulation: Simulation, plan: DiscontinuousGalerkinPlan) -> None:
    """A mesh that is read must resolve max_frequency as a built one would have to."""
    points, solver = plan.points_per_wavelength(), simulation.solver
    if solver.mesh is None or points is None or points >= solver.smallest_points * (1 - 1e-6):
        return
    found = plan.survey.resolution
    raise InputError(
        "solver.max_frequency",
        f"{solver.max_frequency:g} Hz has {points:.3g} points in the shortest wavelength in {found.place} "
        f"(slowest wave {found.speed:g} m/s)",
        f"order {solver.order} needs at least {solver.smallest_points:g}",
        f"{solver.max_frequency * points / solver.smallest_points:.4g} Hz, a finer mesh or a higher order would do",
    )
