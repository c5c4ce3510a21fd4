"""Benchmarks of the spectral elements for `lithowave bench`: entire steps of a box without sources and receivers.

`deformed` : curved elements of 27 nodes with moduli at each point. `trilinear` : the same with 8 nodes, `fluid` : the
same of a fluid, both only on request. `affine` : parallelepipeds of one material. `attenuating` : as `deformed`, with
three mechanisms of attenuation at the smallest set of points; `affine_attenuating` : the same as `affine`, only on
request. All have a free surface and absorb at the five other
sides.

The lower bound of a step's time is the memory traffic divided by the memory bandwidth; each value that a kernel reads
or changes moves once, regardless of the number of elements that share it. With three components (a fluid has one), the
values per point that elements share are: the displacement update reads u, p and the mass and writes u (3 + 3 + 1 + 3);
the forces read u, and read and write p (3 + 3 + 3). Points inside an element are updated and receive forces in one
pass, which reads u, p and the mass and writes u and p (3 + 3 + 1 + 3 + 3). A damped point reads p, p before the step
and a matrix, and writes p twice (3 + 3 + 6 + 3 + 3), in addition to its index of 8 bytes. An element has, in addition
to the indices of its points, 4 bytes each, its moduli (2 or 21 values, or 1 of a fluid, per point if they vary) and its
map without the constant terms (9 values for a parallelepiped, 21 for a trilinear, 78 for a triquadratic element). A
point with memory variables of attenuation reads two moduli, and reads and writes six variables, of each mechanism. An
element in an absorbing layer reads and writes its memory variables, and reads the coefficients of its filters; a point
at which a layer along n axes begins reads and writes p, and p S - p, and n memory variables of each component, and
reads 3 n coefficients, in addition to its index.

Short measurements of the spectral-element kernels for `check` and `bench`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from lithowave.description.domain import FACES
from lithowave.earth.radial_model import RadialGravity, largest_softness, phase_speed_range, transverse_moduli
from lithowave.mesh.hexahedra import curved
from lithowave.mesh.hexahedral_box import layered_box
from lithowave.rheology import QualityLaw, fit_body
from lithowave.solvers.common.kernels import Steps, call_time, typical_time
from lithowave.solvers.elements.plan import (
    RHO,
    SIZE,
    VP,
    VS,
    ElementTask,
    affordable_elements,
    affordable_size,
    record_time,
)
from lithowave.solvers.interface import LoopPrediction, Schedule
from lithowave.solvers.spectral_element.elements import ElementKind
from lithowave.solvers.spectral_element.layers import ALIGNED, AbsorbingLayer
from lithowave.solvers.spectral_element.materials import ElementMaterials, TransverseMaterials, isotropic_stiffness
from lithowave.solvers.spectral_element.memory import filter_values, members
from lithowave.solvers.spectral_element.meshing import MeshedModel
from lithowave.solvers.spectral_element.plan import SpectralElementPlan, make_plan
from lithowave.solvers.spectral_element.relaxation import COMPONENTS, Losses, carrier_count, carrier_sets
from lithowave.solvers.spectral_element.solver import SpectralElementSolver

KINDS = {
    "affine": ElementKind("affine", False, False),
    "affine_attenuating": ElementKind("affine", False, False, mechanisms=3, carriers=1),
    "deformed": ElementKind("triquadratic", False, True),
    "attenuating": ElementKind("triquadratic", False, True, mechanisms=3, carriers=1),
    "fluid": ElementKind("triquadratic", False, True, fluid=True),
    "trilinear": ElementKind("trilinear", False, True),
}
CASES, USUAL_CASES = tuple(KINDS), ("affine", "deformed", "attenuating")
OPTIONS = ("degrees", "deterministic")
SMALLEST_SIZE = 4  # elements
SIZES = {"cpu": (20, 20, 20), "cuda": (77, 77, 76)}
SAMPLE = (6, 6, 6)
SHARED_WORDS, OWN_WORDS = {1: 4 + 3, 3: 10 + 9}, {1: 5, 3: 13}  # by the number of components
DAMPED_WORDS, DAMPED_BYTES = 18, 8
LAYER_POINT_WORDS = 2 * 3 + 2 * 3 + 2  # with the index, of 8 bytes
RELAXATION_WORDS = 2 + 2 * COMPONENTS  # of a mechanism at a point
MAP_WORDS = {"affine": 9, "trilinear": 21, "triquadratic": 78}

Record = dict[str, Any]
Shape = tuple[int, int, int]


def make_tasks(
    backend: Any,
    cases: Iterable[str],
    sizes: Iterable[Shape] | None,
    degrees: Iterable[int] = (4,),
    deterministic: bool = False,
) -> Iterator[SpectralElementTask]:
    """Yield a task for each size (elements along x, y, z), degree and case."""
    for shape, degree, case in itertools.product(sizes or [None], degrees, cases):
        counts = shape or usual_size(backend, degree, KINDS[case])
        yield SpectralElementTask(case, tuple(counts), degree, backend, deterministic)


def usual_size(backend: Any, degree: int, kind: ElementKind) -> Shape:
    """Return the default number of elements along x, y and z."""
    sample = synthetic_plan(SAMPLE, degree, backend.precision, kind)
    return affordable_size(backend, sample, SIZES[backend.name], SMALLEST_SIZE)


def step_bytes(plan: SpectralElementPlan) -> float:
    """Return the bytes that one step must move, by the model in the module docstring."""
    own = plan.total_points - plan.shared
    components = plan.kinds[0][0].components
    words = SHARED_WORDS[components] * plan.shared + OWN_WORDS[components] * own
    for axes, begins in enumerate(plan.layer_points, 1):
        words += len(begins.point) * (LAYER_POINT_WORDS + (2 * 3 + 3) * axes)
    words += DAMPED_WORDS * plan.damped_point_count
    points = (plan.degree + 1) ** 3
    for kind, count in members(plan):
        moduli = kind.moduli * (points if kind.varying else 1)
        relaxation = RELAXATION_WORDS * kind.mechanisms * carrier_count(plan.degree, kind.carriers)
        layer = 2 * kind.memory_variables * points + filter_values(plan.degree, kind, points, 1)
        words += count * (moduli + relaxation + layer + MAP_WORDS[kind.map])
    return plan.value_bytes * words + 4 * points * plan.element_count + DAMPED_BYTES * plan.damped_point_count


@dataclass(frozen=True)
class SpectralElementTask(ElementTask):
    """Measurement of a case on a box of elements."""

    deterministic: bool

    method, order_name = "spectral_element", "degree"

    @cached_property
    def plan(self) -> SpectralElementPlan:
        """Plan of the box."""
        precision = self.backend.precision
        return synthetic_plan(self.shape, self.order, precision, KINDS[self.case], deterministic=self.deterministic)

    def entries(self) -> Record:
        """See `ElementTask`."""
        points = self.plan.total_points
        return super().entries() | {"deterministic": self.deterministic, "gll_points": points}

    def step_bytes(self) -> float:
        """Return the bytes that one step must move."""
        return step_bytes(self.plan)

    def measure(self) -> tuple[float, Record]:
        """Return the seconds per step, the degrees of freedom per second, and the seconds of the sections of a step."""
        solver = SpectralElementSolver(self.plan, None, self.backend)
        fill_with_noise(solver)
        seconds = call_time(Steps(solver), self.backend, minimum=2.0)
        parts = {"move": solver.update_displacement, "add_forces": solver.add_forces, "absorb": solver.absorb}
        kernels = {name: call_time(part, self.backend) for name, part in parts.items()}
        return seconds, {"dof_rate": 3 * self.plan.total_points / seconds, "kernels": kernels}


HIGH_QUALITY, LOW_QUALITY = 200.0, 2.0  # of elements with memory variables at some points, and at all
GRAVITY, CENTER_DEPTH = 0.1, 1000.0  # acceleration in units of vs^2 over the size of elements; in these sizes
SAMPLE_ELEMENTS = {"cpu": 27_000, "cuda": 100_000}  # too many for a cache


def synthetic_plan(
    counts: tuple[int, int, int], degree: int, precision: str, kind: ElementKind, *, absorbing: bool = True,
    deterministic: bool = False,
) -> SpectralElementPlan:  # fmt: skip
    """Return the plan of a box of elements of one kind, free on top and absorbing elsewhere, for measurements.

    Trilinear and triquadratic elements are deformed by smooth waves; the moduli of varying elements differ between
    points.
    """
    ends = [(0.0, SIZE * count) for count in counts]
    mesh = layered_box(ends[0], ends[1], [0.0, -ends[2][1]], [(SIZE, SIZE)]).local()
    if kind.map != "affine":
        mesh = deformed(mesh, kind.map, kind.layer if kind.aligned else 0)
    if kind.gravity:  # towards a point below the box
        mesh = replace(mesh, vertices=mesh.vertices + [0.0, 0.0, CENTER_DEPTH * SIZE])
    faces = np.concatenate([faces for name, faces in mesh.boundaries.items() if name != "z_max"])
    none = np.zeros((0, 2), np.int64)
    kinds = {"absorbing": faces if absorbing else none, "rigid": none, "free": mesh.boundaries["z_max"]}
    materials = synthetic_materials(mesh.element_count, degree, kind, precision)
    gravity = None
    if kind.gravity:
        mass = GRAVITY * VS**2 / SIZE * (CENTER_DEPTH * SIZE) ** 2
        gravity = RadialGravity(np.array([0.0, 1.0]), np.array([mass, mass]))
    model = MeshedModel(mesh, materials, kinds, synthetic_layer(counts, kind), SIZE, gravity=gravity)
    return make_plan(model, degree, lambda limit: Schedule(0.8 * limit, limit, 8 * limit, 2), precision, deterministic)


def synthetic_layer(counts: tuple[int, int, int], kind: ElementKind) -> AbsorbingLayer | None:
    """Return an absorbing layer in which all elements of the box are, along the active axes of the kind, or damped
    along x and y."""
    if not kind.layer:
        return None
    thickness = dict.fromkeys(FACES, 0.0)
    ends = [(-2 * SIZE, -SIZE), (-2 * SIZE, -SIZE), (-SIZE * (counts[2] + 2), -SIZE * (counts[2] + 1))]
    for axis in range(3):
        if (3 if kind.damped else kind.layer) >> axis & 1:
            thickness[f"{'xyz'[axis]}_max"] = SIZE * (counts[axis] + 2)
    return AbsorbingLayer(tuple(ends), thickness, counts[0], frequency=VS / SIZE, matched=not kind.damped)


def deformed(mesh: Any, shape: str, straight: int = 0) -> Any:
    """Return the mesh deformed by waves of a few elements' length, by up to a tenth of an element.

    straight : axes, as a sum of 1 for x, 2 for y and 4 for z, along which elements remain aligned.
    """
    bends = [1 - (straight >> axis & 1) for axis in range(3)]

    def bend(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, ...]:
        a, b, c = (2 * np.pi * bend * one / (6.3 * SIZE) for bend, one in zip(bends, (x, y, z), strict=True))
        waves = np.sin(b + c), np.sin(c + a), np.sin(a + b)
        return tuple(0.1 * SIZE * bend * wave for bend, wave in zip(bends, waves, strict=True))

    if shape == "triquadratic":
        return curved(mesh, bend)
    x, y, z = mesh.vertices.T
    return replace(mesh, vertices=mesh.vertices + np.stack(bend(x, y, z), axis=1))


def synthetic_materials(elements: int, degree: int, kind: ElementKind, precision: str) -> ElementMaterials:
    """Return moduli that vary by a tenth between points, or one set for all elements."""
    mu = 0.0 if kind.fluid else RHO * VS**2
    lam = RHO * VP**2 - 2 * mu
    values = None
    if kind.varying:
        dtype = np.float32 if precision == "single" else np.float64
        ripple = 1 + 0.1 * np.sin(np.arange((degree + 1) ** 3, dtype=dtype)).reshape((degree + 1,) * 3)
        values = np.empty((3, elements, *ripple.shape), dtype)
        for part, value in zip(values, (lam, mu, RHO), strict=True):
            part[:] = value * ripple
    stiffness = isotropic_stiffness(np.array([lam]), np.array([mu]))
    losses = None
    if kind.mechanisms:  # Q such that the carrying points are those of the kind
        quality = LOW_QUALITY if kind.carriers == len(carrier_sets(degree)) else HIGH_QUALITY
        body = fit_body(QualityLaw(), (1.0, 100.0), kind.mechanisms, (1.0 / quality, 1.0 / quality))
        shape = (2, 1) if values is None else (2, *values.shape[1:])
        losses = Losses(body, np.broadcast_to(1.0 / quality, shape))
    tables = (
        np.zeros(elements, np.int64), stiffness, np.array([RHO]), np.array([kind.anisotropic]), np.array([VP]),
        np.array([VP if kind.fluid else VS]), values, losses,
    )  # fmt: skip
    if not (kind.varying and kind.anisotropic):
        return ElementMaterials(*tables)
    return TransverseMaterials(*tables, *synthetic_moduli(values), np.arange(elements))


def synthetic_moduli(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the tensors, speeds and softness of `TransverseMaterials` for values of an isotropic medium, made
    anisotropic by 10% along axes that differ between points."""
    lam, mu, rho = values
    love = (1.05 * (lam + 2 * mu), 0.95 * (lam + 2 * mu), 0.95 * mu, 1.05 * mu, lam)
    angle = np.arange(math.prod(values.shape[2:])).reshape(values.shape[2:])
    axis = np.stack([np.cos(angle), np.sin(angle), np.ones(angle.shape)], axis=-1) / math.sqrt(2.0)
    speeds = np.stack(phase_speed_range(love, rho)).astype(values.dtype)
    soft = largest_softness(love).max(axis=(1, 2, 3))
    return transverse_moduli(love, axis).astype(values.dtype), speeds, soft


def fill_with_noise(solver: SpectralElementSolver) -> None:
    """Fill the momenta with small random values: zeros and denormal numbers change the speed."""
    random = np.random.default_rng(1)
    mass = solver.plan.element_statistics.mass
    momentum = np.array(solver.backend.download(solver.momentum))
    momentum[:-1, :3] = 1e-3 * mass[:, None] * random.standard_normal((len(mass), 3), dtype=np.float32)
    momentum[:-1, :3] /= solver.plan.schedule.time_step * momentum[:-1, 3:]
    if solver.plan.has_fluids:
        momentum[np.unique(solver.plan.numbers[solver.plan.materials.is_fluid]), 1:3] = 0.0
    solver.backend.assign(solver.momentum, momentum)


def predict_loop_time(plan: SpectralElementPlan, backend: Any, receiver_count: int) -> LoopPrediction:
    """Predict the time of the loop: scale a few steps of a small box of each kind of elements.

    Elements, damped points and receivers are scaled separately: a small box has more of its points on its sides.
    """
    members = _members_by_kernel(plan)
    per_step = domain = 0.0
    for kind, count in members.items():
        solver = sample_solver(plan, backend, kind, count, absorbing=False)
        own = typical_time(Steps(solver), backend) * count / solver.plan.element_count
        per_step, domain = per_step + own, domain + own * (kind.layer == 0)
    usual = max(members, key=lambda kind: (kind.layer == 0, members[kind]))
    solver = sample_solver(plan, backend, usual, members[usual], absorbing=True)
    per_step += record_time(solver, receiver_count)
    if plan.damped_point_count:
        per_step += typical_time(solver.absorb, backend) * plan.damped_point_count / solver.plan.damped_point_count
    return LoopPrediction(plan.schedule.steps * per_step, plan.domain_count / domain)


def _members_by_kernel(plan: SpectralElementPlan) -> dict[ElementKind, int]:
    """Return the number of elements by kind; those in a layer with the same number of active axes, aligned or not,
    are one kind."""
    members: dict[ElementKind, int] = {}
    kinds, place = plan.kinds
    for kind, count in zip(kinds, np.bincount(place, minlength=len(kinds)).tolist(), strict=True):
        same = kind if kind.damped else replace(kind, layer=ALIGNED * kind.aligned + (1 << kind.axes) - 1)
        members[same] = members.get(same, 0) + count
    return members


def sample_solver(
    plan: SpectralElementPlan, backend: Any, kind: ElementKind, count: int, *, absorbing: bool
) -> SpectralElementSolver:
    """Return a cube of at most `count` elements of a kind, representative of this device and within its memory."""
    most = max(1, min(count, SAMPLE_ELEMENTS[backend.name], affordable_elements(plan, backend)))
    side = max(4, math.ceil(most ** (1 / 3)))
    made = synthetic_plan(
        (side,) * 3, plan.degree, backend.precision, kind, absorbing=absorbing, deterministic=plan.deterministic
    )
    solver = SpectralElementSolver(made, None, backend)
    fill_with_noise(solver)
    return solver
