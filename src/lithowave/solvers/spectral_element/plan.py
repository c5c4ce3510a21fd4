"""The spectral-element discretization of an experiment: mesh, points, time step and what limits it, memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from lithowave.errors import InputError
from lithowave.mesh.hexahedra import HexahedralMesh
from lithowave.mesh.numbering import number_points, shared_count
from lithowave.solvers.clock import Schedule, make_schedule
from lithowave.solvers.spectral_element.elements import Kind, element_kinds
from lithowave.solvers.spectral_element.materials import ElementMaterials
from lithowave.solvers.spectral_element.meshing import AbsorbingLayer, MeshedModel, make_model
from lithowave.solvers.spectral_element.places import NEAR, TOLERANCE
from lithowave.solvers.spectral_element.rasters import select_raster
from lithowave.solvers.spectral_element.stability import stable_time_step
from lithowave.solvers.spectral_element.survey import MeshSurvey, map_coefficients, survey_mesh

if TYPE_CHECKING:
    from lithowave.experiment.simulation import Simulation

COMPONENTS = 4  # of a point in an array: x, y, z, and the mass's part
PART = 20_000


@dataclass(frozen=True)
class SpectralElementPlan:
    """Everything decided before an array of a device is allocated.

    mesh : elements in the order in which they are worked on. numbers : of points [element, k, j, i]. coefficients : maps of
    the elements (see `survey`). faces : outer faces (element, local face) by kind. layer : of absorbing elements, or None.
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
    max_frequency: float | None = None
    value_bytes: int = 4
    deterministic: bool = False
    surface_spacing: float = 0.0
    domain: Any = None
    face_kinds: dict[str, str] | None = None

    @property
    def point_count(self) -> int:
        """Elements: rates count element-steps."""
        return self.mesh.element_count

    @property
    def element_count(self) -> int:
        """Number of elements."""
        return self.mesh.element_count

    @property
    def shared(self) -> int:
        """Points that may belong to several elements: the first ones."""
        return shared_count(self.total_points, self.element_count, self.degree)

    @property
    def tolerance(self) -> float:
        """How far outside the mesh sources and receivers may be, in reference coordinates of an element."""
        return NEAR if self.domain is not None and self.domain.surface is not None else TOLERANCE

    @cached_property
    def kinds(self) -> tuple[list[Kind], np.ndarray]:
        """Kinds of elements, and the place of each element's kind among them."""
        return element_kinds(self.coefficients, self.materials)

    def memory_bytes(self, backend: Any = None) -> int:
        """Bytes of the fields, the points of the elements, their moduli and maps; unused places of blocks included."""
        n = self.degree + 1
        moduli = 21 if self.materials.anisotropic.any() else 2
        values = moduli * (n**3 if self.materials.varying else 1) + 84
        lanes = 1.05  # places of blocks without an element
        element = 4 * n**3 + self.value_bytes * values
        fields = 2 * COMPONENTS * self.value_bytes * (self.total_points + 1)
        tables = 0 if backend is not None and backend.own_memory else self.setup_bytes()
        return math.ceil(fields + lanes * element * self.element_count) + tables

    def state_bytes(self) -> int:
        """Bytes of what a checkpoint holds."""
        return 2 * COMPONENTS * self.value_bytes * (self.total_points + 1)

    def setup_bytes(self) -> int:
        """Bytes of the mesh, its numbers and maps in main memory."""
        arrays = (self.numbers, self.coefficients, self.mesh.vertices, self.mesh.elements, self.survey.mass)
        values = self.materials.values
        return sum(array.nbytes for array in arrays) + (0 if values is None else values.nbytes)

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
        """Where an element is, for messages."""
        x, y, z = self.element_nodes(element)[:8].mean(axis=0)
        return f"element {element} at ({x:.6g}, {y:.6g}, {z:.6g}) m"

    @cached_property
    def limiting_element(self) -> int:
        """The element that sets the time step."""
        return int(np.argmax(self.survey.frequency2))

    @cached_property
    def resolution(self) -> tuple[float, int, float]:
        """Fewest points in a wavelength at 1 Hz, where (element), and vs there, m/s."""
        fewest, where = math.inf, 0
        for first in range(0, self.element_count, PART):
            some = slice(first, first + PART)
            nodes = self.mesh.element_nodes(some)[:, :8]
            size = np.linalg.norm(nodes[:, EDGES[:, 1]] - nodes[:, EDGES[:, 0]], axis=-1).max(axis=1)
            points = self.degree * self.slowest(some) / size
            if points.min() < fewest:
                fewest, where = float(points.min()), first + int(points.argmin())
        return fewest, where, float(self.slowest(slice(where, where + 1))[0])

    def slowest(self, some: slice) -> np.ndarray:
        """Slowest wave in each of some elements, m/s."""
        if self.materials.values is None:
            return self.materials.slowest[self.materials.number[some]]
        _, mu, rho = self.materials.values[:, some].reshape(3, -1, (self.degree + 1) ** 3)
        return np.sqrt(mu / rho).min(axis=1)

    def points_per_wavelength(self) -> float | None:
        """GLL points, on average, in the shortest wavelength at max_frequency, where they are fewest."""
        return self.resolution[0] / self.max_frequency if self.max_frequency else None

    def summary(self) -> dict[str, Any]:
        """See `lithowave.solvers.base.Plan`."""
        worst = self.limiting_element
        fastest = float(self.materials.speed()[worst].max())
        kinds, place = self.kinds
        _, coarse, vs = self.resolution
        return {
            "method": "spectral_element",
            "degree": self.degree,
            "element_count": self.element_count,
            "element_kinds": {_kind_name(kind): int((place == n).sum()) for n, kind in enumerate(kinds)},
            "gll_points": self.total_points,
            "point_count": self.element_count,
            "degrees_of_freedom": 3 * self.total_points,
            "faces": self.face_kinds or {kind: len(faces) for kind, faces in self.faces.items() if len(faces)},
            "absorption": "layer" if self.layer else "stacey",
            "time_step_s": self.schedule.time_step,
            "time_step_limit_s": self.schedule.limit,
            "time_step_limited_by": {"vp_m_s": fastest, "place": self.place_of(worst)},
            "points_per_wavelength": self.points_per_wavelength(),
            "points_per_wavelength_at": {"vs_m_s": vs, "place": self.place_of(coarse)},
            "steps": self.schedule.steps,
            "sampling_interval_s": self.schedule.sampling_interval,
            "memory_bytes": self.memory_bytes(),
        }


EDGES = np.array([(0, 1), (1, 2), (2, 3), (3, 0), (4, 5), (5, 6), (6, 7), (7, 4), (0, 4), (1, 5), (2, 6), (3, 7)])


def _kind_name(kind: Kind) -> str:
    return f"{kind.map}, {'anisotropic' if kind.anisotropic else 'isotropic'}{', varying' if kind.varying else ''}"


def plan(simulation: Simulation) -> SpectralElementPlan:
    """Discretize an experiment.

    Raises
    ------
    InputError : the mesh cannot be used, or the time step is above the limit.
    """
    solver = simulation.solver
    model = make_model(simulation)

    def schedule(limit: float) -> Schedule:
        return make_schedule(
            limit, simulation.duration, solver.safety, solver.time_step, simulation.output.sampling_interval
        )

    made = make_plan(
        model, solver.degree, schedule, simulation.compute.precision, simulation.compute.deterministic,
        max_frequency=solver.max_frequency, domain=simulation.domain,
        face_kinds=None if solver.mesh else simulation.boundaries.faces,
    )  # fmt: skip
    _refuse_coarse_mesh(simulation, made)
    return made


def make_plan(
    model: MeshedModel, degree: int, schedule: Any, precision: str, deterministic: bool = False, **more: Any
) -> SpectralElementPlan:
    """The plan for a mesh with materials. schedule : function of the largest stable time step, s."""
    mesh = model.mesh
    numbers, count = number_points(mesh.elements, degree)
    q = 2 if mesh.nodes is None else 3
    coefficients = np.empty((mesh.element_count, 3, q, q, q))
    for first in range(0, mesh.element_count, PART):
        some = slice(first, first + PART)
        coefficients[some] = map_coefficients(mesh.element_nodes(some))
    survey = survey_mesh(coefficients, numbers, count, model.materials.density(), model.materials.speed())
    if not (survey.jacobian > 0).all():
        from lithowave.solvers.spectral_element.geometry import refuse_bad_elements

        worst = np.flatnonzero(~(survey.jacobian > 0))
        refuse_bad_elements(mesh.element_nodes(worst), degree, ids=worst)
    limit = stable_time_step(mesh, model.materials, degree, survey.frequency2)
    return SpectralElementPlan(
        mesh, degree, numbers, count, coefficients, model.materials, model.faces, model.layer, survey, schedule(limit),
        value_bytes=4 if precision == "single" else 8, deterministic=deterministic,
        surface_spacing=(model.element_size or _typical_size(mesh)) / degree, **more,
    )  # fmt: skip


def _typical_size(mesh: HexahedralMesh) -> float:
    """Median edge along the first local axis, m."""
    return float(np.median(np.linalg.norm(mesh.vertices[mesh.elements[:, 1]] - mesh.vertices[mesh.elements[:, 0]], axis=1)))


def _refuse_coarse_mesh(simulation: Simulation, plan: SpectralElementPlan) -> None:
    """A mesh that is read must resolve max_frequency as a built one would have to."""
    points, solver = plan.points_per_wavelength(), simulation.solver
    if solver.mesh is None or points is None or points >= solver.smallest_points * (1 - 1e-6):
        return
    _, element, vs = plan.resolution
    raise InputError(
        "solver.max_frequency",
        f"{solver.max_frequency:g} Hz has {points:.3g} points in the shortest wavelength in {plan.place_of(element)} "
        f"(vs = {vs:g} m/s)",
        f"degree {solver.degree} needs at least {solver.smallest_points:g}",
        f"{solver.max_frequency * points / solver.smallest_points:.4g} Hz, a finer mesh or a higher degree would do",
    )
