"""Short measurements of the spectral-element kernels for `check` and `bench`."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from lithowave.description.domain import FACES
from lithowave.earth.gravity import RadialGravity
from lithowave.earth.transverse import largest_softness, phase_speed_range, transverse_moduli
from lithowave.mesh.hexahedra import curved
from lithowave.mesh.hexahedral_box import layered_box
from lithowave.rheology.body import fit_body
from lithowave.rheology.quality import QualityLaw
from lithowave.solvers.clock import Schedule
from lithowave.solvers.common.timing import Steps, typical_time
from lithowave.solvers.elements.measurement import RHO, SIZE, VP, VS, affordable_elements, record_time
from lithowave.solvers.interface import LoopPrediction
from lithowave.solvers.spectral_element.absorbing_layer import ALIGNED, AbsorbingLayer
from lithowave.solvers.spectral_element.elements import ElementKind
from lithowave.solvers.spectral_element.materials import ElementMaterials, isotropic_stiffness
from lithowave.solvers.spectral_element.meshing import MeshedModel
from lithowave.solvers.spectral_element.plan import SpectralElementPlan, make_plan
from lithowave.solvers.spectral_element.relaxation import Losses, carrier_sets
from lithowave.solvers.spectral_element.solver import SpectralElementSolver
from lithowave.solvers.spectral_element.transverse_materials import TransverseMaterials

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
