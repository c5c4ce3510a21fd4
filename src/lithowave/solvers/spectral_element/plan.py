"""The spectral-element discretization of an experiment: mesh, points, time step and what limits it, memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from lithowave.errors import InputError
from lithowave.mesh.hexahedra import HexahedralMesh
from lithowave.mesh.numbering import number_points, shared_count
from lithowave.mesh.shared_points import SharedPoints, shared_points
from lithowave.parallel.collective import agreed
from lithowave.parallel.ranks import ALONE, Ranks
from lithowave.solvers.clock import Schedule, make_schedule
from lithowave.solvers.common.near_source_warnings import HEXAHEDRA, near_source_warnings
from lithowave.solvers.common.plan_lines import Line, face_line, resolution_line, time_lines
from lithowave.solvers.elements.absorption_warnings import stacey_warnings
from lithowave.solvers.elements.model_warnings import hexahedra_warnings
from lithowave.solvers.elements.rasters import select_raster
from lithowave.solvers.spectral_element import memory
from lithowave.solvers.spectral_element.elements import Kind, element_kinds
from lithowave.solvers.spectral_element.materials import ElementMaterials
from lithowave.solvers.spectral_element.meshing import AbsorbingLayer, MeshedModel, make_model, typical_size
from lithowave.solvers.spectral_element.places import ON_GROUND, TOLERANCE
from lithowave.solvers.spectral_element.sources import surroundings
from lithowave.solvers.spectral_element.stability import stable_time_step
from lithowave.solvers.spectral_element.survey import MeshSurvey, map_coefficients, survey_mesh
from lithowave.solvers.spectral_element.whole import WholeMesh, survey_whole

if TYPE_CHECKING:
    from lithowave.description.simulation import Simulation

PART = 20_000


@dataclass(frozen=True)
class SpectralElementPlan:
    """Everything decided before an array of a device is allocated; of several ranks each has its part.

    mesh : elements in the order in which they are worked on. numbers : of points [element, k, j, i]. coefficients :
    maps of the elements (see `survey`). faces : outer faces (element, local face) by kind. layer : of absorbing
    elements, or None. ranks : of the run. border : points that other ranks have, too; border_keys : what
    `point_keys` is there. bounds : ends along x, y, z, m, of the whole mesh. face_kinds : of the six faces of a box;
    None for a mesh that was read. mesh_file : where that came from.
    """

    mesh: HexahedralMesh
    degree: int
    numbers: np.ndarray
    total_points: int
    coefficients: np.ndarray
    materials: ElementMaterials
    faces: dict[str, np.ndarray]
    layer: AbsorbingLayer | None
    survey: MeshSurvey
    schedule: Schedule
    ranks: Ranks = ALONE
    border: SharedPoints = field(default_factory=SharedPoints)
    border_keys: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    bounds: tuple[tuple[float, float], ...] | None = None
    max_frequency: float | None = None
    value_bytes: int = 4
    deterministic: bool = False
    surface_spacing: float = 0.0
    domain: Any = None
    face_kinds: dict[str, str] | None = None
    mesh_file: str | None = None

    unit: ClassVar[str] = "elements"
    less_memory: ClassVar[str] = (
        "Larger elements (solver.max_frequency, points_per_wavelength), a smaller domain, or single precision needs "
        "less"
    )

    @property
    def unit_total(self) -> int:
        """See `lithowave.solvers.interface.Plan`."""
        return self.unit_count

    @property
    def unit_count(self) -> int:
        """See `lithowave.solvers.interface.Plan`."""
        return self.element_count if self.ranks.size == 1 else self.whole.elements

    @property
    def element_count(self) -> int:
        """Number of elements of this rank."""
        return self.mesh.element_count

    @property
    def whole(self) -> WholeMesh:
        """What is told of all ranks' parts; all must ask for it the first time."""
        return self._once("whole", lambda: survey_whole(self))

    def _once(self, name: str, found: Callable[[], Any]) -> Any:
        """As `cached_property`, whose lock, one for all plans, would stop threads that are ranks for ever."""
        if f"_{name}" not in self.__dict__:
            self.__dict__[f"_{name}"] = found()
        return self.__dict__[f"_{name}"]

    @cached_property
    def outer(self) -> np.ndarray:
        """Whether each element has a point that other ranks share."""
        shared = np.zeros(self.total_points, bool)
        shared[self.border.points] = True
        return np.concatenate([shared[part].any(axis=(1, 2, 3)) for part in _in_parts(self.numbers)])

    def point_keys(self) -> np.ndarray:
        """A number (points,) of each point that does not depend on the parts of the mesh.

        The smallest of element * (degree + 1)^3 + place in the element, of all elements that have the point, with the
        numbers of elements in the whole mesh.
        """
        keys = smallest_keys(self.numbers, self.mesh.numbers_in_whole, self.total_points)
        keys[self.border.points] = self.border_keys
        return keys

    @property
    def shared(self) -> int:
        """Points that may belong to several elements: the first ones."""
        return shared_count(self.total_points, self.element_count, self.degree)

    @property
    def tolerance(self) -> float:
        """How far outside the mesh sources and receivers may be, in reference coordinates of an element.

        The description has refused those above a topography already; the others are brought onto the elements.
        """
        return ON_GROUND if self.domain is not None and self.domain.surface is not None else TOLERANCE

    @cached_property
    def kinds(self) -> tuple[list[Kind], np.ndarray]:
        """Kinds of elements, and the place of each element's kind among them."""
        return element_kinds(self.coefficients, self.materials)

    @property
    def damped_point_count(self) -> int:
        """Points of absorbing faces and of the absorbing layer; all ranks must ask for it the first time."""
        return self._once("damped_point_count", lambda: memory.damped_point_count(self))

    def memory_bytes(self, backend: Any = None) -> int:
        """Bytes of the fields, the points of the elements, their moduli and maps, and the damping."""
        return memory.array_bytes(self, backend)

    def plan_bytes(self) -> int:
        """Bytes of the mesh, its numbers, maps and materials in main memory."""
        return memory.plan_bytes(self)

    def state_bytes(self) -> int:
        """Bytes of what a checkpoint holds."""
        return memory.state_bytes(self)

    def setup_bytes(self) -> int:
        """Bytes of moduli and maps while they are packed."""
        return memory.setup_bytes(self)

    def reading_bytes(self, simulation: Simulation) -> int:
        """Bytes of the places of receivers, snapshots and peaks in the elements."""
        return memory.reading_bytes(self, simulation)

    def on(self, backend: Any, simulation: Simulation, before: str | None = None) -> SpectralElementPlan:
        """The plan as it is: nothing in it depends on the device."""
        return self

    def raster_point_count(self, selection: Any) -> int:
        """Points of one snapshot of a selection."""
        return math.prod(select_raster(self, selection).shape)

    def element_nodes(self, element: int) -> np.ndarray:
        """Positions of the nodes of one element."""
        return self.mesh.element_nodes(np.array([element]))[0]

    def place_of(self, element: int) -> str:
        """Where an element is, for messages; with the number that its file gives it."""
        x, y, z = self.element_nodes(element)[:8].mean(axis=0)
        return f"element {self.mesh.element_id(element)} at ({x:z.6g}, {y:z.6g}, {z:z.6g}) m"

    def slowest(self, some: slice | np.ndarray) -> np.ndarray:
        """Slowest wave in each of some elements, m/s."""
        if self.materials.values is None:
            return self.materials.slowest[self.materials.number[some]]
        _, mu, rho = self.materials.values[:, some].reshape(3, -1, (self.degree + 1) ** 3)
        return np.sqrt(mu / rho).min(axis=1)

    def fastest(self, some: slice | np.ndarray) -> np.ndarray:
        """Fastest wave in each of some elements, m/s."""
        if self.materials.values is None:
            return self.materials.fastest[self.materials.number[some]]
        lam, mu, rho = self.materials.values[:, some].reshape(3, -1, (self.degree + 1) ** 3)
        return np.sqrt((lam + 2 * mu) / rho).max(axis=1)

    def points_per_wavelength(self) -> float | None:
        """GLL points, on average, in the shortest wavelength at max_frequency, where they are fewest."""
        return self.whole.fewest_points / self.max_frequency if self.max_frequency else None

    def summary(self) -> dict[str, Any]:
        """See `lithowave.solvers.interface.Plan`."""
        whole = self.whole
        quality = whole.quality
        return {
            "method": "spectral_element",
            "degree": self.degree,
            "element_count": whole.elements,
            "element_kinds": whole.kinds,
            "element_size_m": [quality["shortest_edge"], quality["longest_edge"]],
            "mesh_quality": {name: quality[name] for name in ("jacobian_ratio", "skewness", "worst_element")},
            "gll_points": whole.points,
            "degrees_of_freedom": 3 * whole.points,
            "faces": self.face_kinds or {kind: count for kind, count in whole.faces.items() if count},
            "absorption": "layer" if self.layer else "stacey",
            "time_step_s": self.schedule.time_step,
            "time_step_limit_s": self.schedule.limit,
            "time_step_limited_by": {"vp_m_s": whole.limiting_speed, "place": whole.limiting_place},
            "points_per_wavelength": self.points_per_wavelength(),
            "points_per_wavelength_at": {"vs_m_s": whole.slowest_speed, "place": whole.slowest_place},
            "steps": self.schedule.steps,
            "sampling_interval_s": self.schedule.sampling_interval,
            "memory_bytes": whole.memory_bytes,
        }

    def lines(self) -> list[Line]:
        """See `lithowave.solvers.interface.Plan`."""
        summary = self.summary()
        kinds = summary["element_kinds"]
        told = ", ".join(f"{count:,} {name}" if len(kinds) > 1 else name for name, count in kinds.items())
        origin = f"; from {self.mesh_file}" if self.mesh_file else ""
        shortest, longest = summary["element_size_m"]
        even = shortest > (1 - 1e-6) * longest
        points = f"{summary['gll_points']:,} GLL points, {summary['degrees_of_freedom']:,} unknowns"
        return [
            ("method", f"spectral element, degree {self.degree}"),
            ("mesh", f"{summary['element_count']:,} elements ({told}){origin}"),
            ("points", points),
            ("element size", f"{longest:.6g} m" if even else f"edges of {shortest:.6g} to {longest:.6g} m"),
            ("mesh quality", self._quality_text()),
            self._face_line(summary),
            resolution_line(summary),
            *time_lines(summary),
        ]

    def _quality_text(self) -> str:
        found, worst = self.whole.quality, self.whole.worst_place
        text = f"smallest Jacobian ratio {found['jacobian_ratio']:.3g}, largest skewness {found['skewness']:.2g}"
        perfect = found["jacobian_ratio"] > 1 - 1e-6 and found["skewness"] < 1e-6
        return f"{text} (all elements are boxes)" if perfect else f"{text}; worst in {worst}"

    def _face_line(self, summary: dict[str, Any]) -> Line:
        how = {"layer": "; absorbing by damping layers", "stacey": "; absorbing by the condition of Stacey"}
        more = how[summary["absorption"]] if self.whole.faces["absorbing"] else ""
        if self.face_kinds:
            return face_line(summary, more)
        return "faces", ", ".join(f"{count:,} {kind}" for kind, count in summary["faces"].items()) + more

    def warnings(self, simulation: Simulation) -> list[str]:
        """See `lithowave.solvers.interface.Plan`."""
        size = surroundings(self, simulation.acquisition.source_positions)[:, 2]
        near = near_source_warnings(simulation, size, HEXAHEDRA, self.bounds[2][1])
        return [*stacey_warnings(self, simulation), *hexahedra_warnings(self, simulation), *near]

    def instability_causes(self) -> list[str]:
        """See `lithowave.solvers.interface.Plan`."""
        whole, causes = self.whole, []
        if whole.quality["jacobian_ratio"] < 0.2 or whole.quality["skewness"] > 0.8:
            causes.append(f"badly formed elements: the worst is {whole.worst_place}")
        if whole.faces["absorbing"]:
            causes.append(
                "strong anisotropy, or a strong contrast, that meets an absorbing face: try boundaries.absorption: "
                "layer, or sides that lie elsewhere"
            )
        return causes


def _in_parts(numbers: np.ndarray) -> Iterator[np.ndarray]:
    """The elements in parts, of which there is one at least."""
    for first in range(0, max(1, len(numbers)), PART):
        yield numbers[first : first + PART]


def smallest_keys(numbers: np.ndarray, elements: np.ndarray, points: int) -> np.ndarray:
    """For each of so many points the smallest of elements[e] * size + place of point [e, place], size that of an
    element."""
    keys = np.full(points, -1, np.int64)
    size = numbers[0].size
    places = np.arange(size)
    order = np.argsort(-elements, kind="stable")
    for some in _in_parts(order):  # of equal points the last value stays: that of the lowest element
        keys[numbers[some].reshape(len(some), size)] = elements[some, None] * size + places
    return keys


def plan(simulation: Simulation, ranks: Ranks = ALONE) -> SpectralElementPlan:
    """Discretize an experiment; on several ranks together.

    Raises
    ------
    InputError : the mesh cannot be used, or the time step is above the limit, or there are too many ranks for the mesh.
    """
    solver = simulation.solver
    model = make_model(simulation, ranks)

    def schedule(limit: float) -> Schedule:
        return make_schedule(
            limit, simulation.duration, solver.safety, solver.time_step, simulation.output.sampling_interval
        )

    made = make_plan(
        model, solver.degree, schedule, simulation.compute.precision, simulation.compute.deterministic, ranks,
        max_frequency=solver.max_frequency, domain=simulation.domain,
        face_kinds=None if solver.mesh else simulation.boundaries.faces,
        mesh_file=str(solver.mesh) if solver.mesh else None,
    )  # fmt: skip
    _refuse_coarse_mesh(simulation, made)
    if ranks.size > 1:
        _ = made.whole  # all ranks are here now, and will not be when one of them asks
    return made


def make_plan(
    model: MeshedModel, degree: int, schedule: Any, precision: str, deterministic: bool = False, ranks: Ranks = ALONE,
    **more: Any,
) -> SpectralElementPlan:  # fmt: skip
    """The plan for a mesh with materials. schedule : function of the largest stable time step, s."""
    mesh = model.mesh
    numbers, count = number_points(mesh.elements, degree)
    border = shared_points(mesh, numbers, ranks)
    q = 2 if mesh.nodes is None else 3
    coefficients = np.empty((mesh.element_count, 3, q, q, q))
    for first in range(0, mesh.element_count, PART):
        some = slice(first, first + PART)
        coefficients[some] = map_coefficients(mesh.element_nodes(some))
    survey = survey_mesh(coefficients, numbers, count, model.materials.density(), model.materials.speed())
    agreed(ranks, lambda: _refuse_bad(mesh, degree, survey))
    border.combine(survey.mass, ranks)
    keys = smallest_keys(numbers, mesh.numbers_in_whole, count) if ranks.size > 1 else np.zeros(0, np.int64)
    border.combine(keys, ranks, np.minimum)
    limit = stable_time_step(mesh, model.materials, degree, survey.frequency2, ranks)
    return SpectralElementPlan(
        mesh, degree, numbers, count, coefficients, model.materials, model.faces, model.layer, survey, schedule(limit),
        ranks, border, keys[border.points], _bounds(mesh, ranks),
        value_bytes=4 if precision == "single" else 8, deterministic=deterministic,
        surface_spacing=(model.element_size or typical_size(mesh)) / degree, **more,
    )  # fmt: skip


def _refuse_bad(mesh: HexahedralMesh, degree: int, survey: MeshSurvey) -> None:
    if not (survey.jacobian > 0).all():
        from lithowave.solvers.spectral_element.geometry import refuse_bad_elements

        worst = np.flatnonzero(~(survey.jacobian > 0))
        refuse_bad_elements(mesh.element_nodes(worst), degree, ids=mesh.numbers_in_whole[worst])


def _bounds(mesh: HexahedralMesh, ranks: Ranks) -> tuple[tuple[float, float], ...]:
    """Ends of the whole mesh along x, y, z, m."""
    low, high = mesh.vertices.min(axis=0), mesh.vertices.max(axis=0)
    return tuple((ranks.smallest(float(a)), ranks.largest(float(b))) for a, b in zip(low, high, strict=True))


def _refuse_coarse_mesh(simulation: Simulation, plan: SpectralElementPlan) -> None:
    """A mesh that is read must resolve max_frequency as a built one would have to."""
    solver = simulation.solver
    if solver.mesh is None or solver.max_frequency is None:
        return
    points, whole = plan.points_per_wavelength(), plan.whole
    if points >= solver.smallest_points * (1 - 1e-6):
        return
    raise InputError(
        "solver.max_frequency",
        f"{solver.max_frequency:g} Hz has {points:.3g} points in the shortest wavelength in {whole.slowest_place} "
        f"(vs = {whole.slowest_speed:g} m/s)",
        f"degree {solver.degree} needs at least {solver.smallest_points:g}",
        f"{solver.max_frequency * points / solver.smallest_points:.4g} Hz, a finer mesh or a higher degree would do",
    )
