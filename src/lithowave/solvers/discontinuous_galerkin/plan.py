"""The discontinuous Galerkin discretization of an experiment: mesh, order, time steps and what limits them, memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from lithowave.errors import InputError
from lithowave.mesh.tetrahedra import TetrahedralMesh
from lithowave.mesh.tetrahedral_quality import tetrahedral_quality
from lithowave.solvers.clock import Schedule
from lithowave.solvers.discontinuous_galerkin import memory
from lithowave.solvers.discontinuous_galerkin.basis import mode_count
from lithowave.solvers.discontinuous_galerkin.clusters import Clustering, make_clusters
from lithowave.solvers.discontinuous_galerkin.materials import QUANTITIES, ElementMaterials
from lithowave.solvers.discontinuous_galerkin.meshing import MeshedModel, make_model
from lithowave.solvers.discontinuous_galerkin.places import ON_GROUND, TOLERANCE, find_places, require_places
from lithowave.solvers.discontinuous_galerkin.stability import stable_time_steps
from lithowave.solvers.plan_lines import Line, face_line, resolution_line, time_lines
from lithowave.solvers.rasters import select_raster

if TYPE_CHECKING:
    from lithowave.experiment.simulation import Simulation

BAD_RATIO = 0.02  # of insphere radius to longest edge: elements that are worth a word


@dataclass(frozen=True)
class DiscontinuousGalerkinPlan:
    """Everything decided before an array of a device is allocated.

    mesh; materials; faces : outer faces (element, local face) by kind; face_neighbors : (elements, 4), the element
    across each face, or the kind of the face (`riemann.KINDS`). limits : largest stable time step of each element, s.
    clustering : their time steps. face_kinds : of the six faces of a box; None for a mesh that was read. mesh_file :
    where that came from.
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
        """See `lithowave.solvers.base.Plan`."""
        return self.element_count

    @property
    def unit_count(self) -> int:
        """Updates of elements in a step: rates count these."""
        return self.clustering.updates

    @property
    def element_count(self) -> int:
        """Number of elements."""
        return self.mesh.element_count

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
        return f"element {self.mesh.element_id(element)} at ({x:.6g}, {y:.6g}, {z:.6g}) m"

    @cached_property
    def quality(self) -> dict[str, Any]:
        """Measures of the mesh, and where it is worst."""
        return tetrahedral_quality(self.mesh)

    @cached_property
    def limiting_element(self) -> int:
        """The element that sets the shortest time step."""
        return int(np.argmin(self.limits))

    @cached_property
    def resolution(self) -> tuple[float, int, float]:
        """Fewest points in a wavelength at 1 Hz, where (element), and the slowest wave there, m/s.

        Points are `order` to the edge of the cube that twelve such elements would fill.
        """
        size = np.cbrt(12.0 * self.mesh.volumes())
        points = self.order * self.materials.slowest_speed / size
        where = int(points.argmin())
        return float(points[where]), where, float(self.materials.slowest_speed[where])

    def points_per_wavelength(self) -> float | None:
        """Points in the shortest wavelength at max_frequency, where they are fewest."""
        return self.resolution[0] / self.max_frequency if self.max_frequency else None

    def summary(self) -> dict[str, Any]:
        """See `lithowave.solvers.base.Plan`."""
        worst, clustering = self.limiting_element, self.clustering
        _, coarse, slowest = self.resolution
        return {
            "method": "discontinuous_galerkin",
            "order": self.order,
            "element_count": self.element_count,
            "anisotropic_elements": int(self.materials.anisotropic.sum()),
            "fluid_elements": int(self.materials.is_fluid.sum()),
            "element_size_m": [self.quality["shortest_edge"], self.quality["longest_edge"]],
            "mesh_quality": {
                name: self.quality[name] for name in ("radius_ratio", "dihedral_angle", "worst_element")
            },
            "basis_functions": mode_count(self.order),
            "degrees_of_freedom": self.element_count * QUANTITIES * mode_count(self.order),
            "faces": self.face_kinds or {kind: len(faces) for kind, faces in self.faces.items() if len(faces)},
            "time_step_s": clustering.shortest,
            "time_step_limit_s": float(self.limits[worst]),
            "time_step_limited_by": {
                "vp_m_s": float(self.materials.fastest_speed[worst]), "place": self.place_of(worst)
            },
            "local_time_steps": clustering.count > 1,
            "clusters": [
                {"time_step_s": clustering.shortest * 2**number, "elements": size}
                for number, size in enumerate(clustering.sizes)
            ],
            "local_time_step_gain": clustering.gain,
            "points_per_wavelength": self.points_per_wavelength(),
            "points_per_wavelength_at": {"vs_m_s": slowest, "place": self.place_of(coarse)},
            "largest_time_step_s": self.schedule.time_step,
            "steps": self.schedule.steps,
            "sampling_interval_s": self.schedule.sampling_interval,
            "memory_bytes": self.memory_bytes(),
        }  # fmt: skip

    def lines(self) -> list[Line]:
        """See `lithowave.solvers.base.Plan`."""
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
            ("mesh", f"{self.element_count:,} tetrahedra{told}{origin}"),
            ("unknowns", f"{summary['degrees_of_freedom']:,}"),
            ("element size", f"edges of {shortest:.6g} to {longest:.6g} m"),
            ("mesh quality", self._quality_text()),
            face_line(summary, self._absorption()) if self.face_kinds else self._file_faces(summary),
            resolution_line(summary),
            *self._time_lines(summary),
        ]

    def _quality_text(self) -> str:
        found, worst = self.quality, self.place_of(self.quality["worst_element"]["element"])
        return (
            f"smallest ratio of insphere radius to edge {found['radius_ratio']:.3g} (0.204 at best), "
            f"smallest angle between faces {found['dihedral_angle']:.3g} degrees; worst in {worst}"
        )

    def _absorption(self) -> str:
        return "; absorbing by letting out what travels along the normal" if len(self.faces["absorbing"]) else ""

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

    def instability_causes(self) -> list[str]:
        """See `lithowave.solvers.base.Plan`."""
        if self.quality["radius_ratio"] > BAD_RATIO:
            return []
        return [f"badly formed elements: the worst is {self.place_of(self.quality['worst_element']['element'])}"]


def plan(simulation: Simulation) -> DiscontinuousGalerkinPlan:
    """Discretize an experiment.

    Raises
    ------
    InputError : the mesh cannot be used, or the time step is above the limit.
    """
    solver = simulation.solver

    def clusters(limits: np.ndarray, neighbors: np.ndarray) -> Clustering:
        return make_clusters(
            limits, neighbors, simulation.duration, solver.safety, solver.time_step,
            simulation.output.sampling_interval, solver.local_time_steps, solver.max_frequency,
        )  # fmt: skip

    made = make_plan(
        make_model(simulation), solver.order, clusters, simulation.compute.precision,
        max_frequency=solver.max_frequency, domain=simulation.domain,
        face_kinds=None if solver.mesh else simulation.boundaries.faces,
        mesh_file=str(solver.mesh) if solver.mesh else None,
    )  # fmt: skip
    _refuse_coarse_mesh(simulation, made)
    _require_points(simulation, made)
    return made


def _require_points(simulation: Simulation, plan: DiscontinuousGalerkinPlan) -> None:
    """Sources and receivers must be in the mesh: of one that is read only its elements tell."""
    if simulation.solver.mesh is None:
        return
    for where, points in (("sources", simulation.point_sources()), ("receivers", simulation.receiver_list())):
        positions = np.array([point.position for point in points], float).reshape(-1, 3)
        names = [getattr(point, "name", "") or f"{where[:-1]} {number}" for number, point in enumerate(points)]
        require_places(find_places(plan.mesh, positions, plan.tolerance), names, positions, where)


def make_plan(model: MeshedModel, order: int, clusters: Any, precision: str, **more: Any) -> DiscontinuousGalerkinPlan:
    """The plan for a mesh with materials. clusters : function of the largest stable time steps, s, and neighbours."""
    mesh = model.mesh
    limits = stable_time_steps(order, mesh.insphere_radii(), model.materials.fastest_speed)
    neighbors = np.where(mesh.neighbors >= 0, mesh.neighbors // 4, -1)
    size = model.element_size or float(np.cbrt(12.0 * np.median(mesh.volumes())))
    return DiscontinuousGalerkinPlan(
        mesh, order, model.materials, model.faces, model.face_neighbors(), limits, clusters(limits, neighbors),
        value_bytes=4 if precision == "single" else 8, surface_spacing=size / order, **more,
    )  # fmt: skip


def _refuse_coarse_mesh(simulation: Simulation, plan: DiscontinuousGalerkinPlan) -> None:
    """A mesh that is read must resolve max_frequency as a built one would have to."""
    points, solver = plan.points_per_wavelength(), simulation.solver
    if solver.mesh is None or points is None or points >= solver.smallest_points * (1 - 1e-6):
        return
    _, element, speed = plan.resolution
    raise InputError(
        "solver.max_frequency",
        f"{solver.max_frequency:g} Hz has {points:.3g} points in the shortest wavelength in {plan.place_of(element)} "
        f"(slowest wave {speed:g} m/s)",
        f"order {solver.order} needs at least {solver.smallest_points:g}",
        f"{solver.max_frequency * points / solver.smallest_points:.4g} Hz, a finer mesh or a higher order would do",
    )
