"""Short measurements of the discontinuous Galerkin kernels for `check` and `bench`."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from lithowave.mesh.hexahedral_box import layered_box
from lithowave.mesh.level_sets import cut_along
from lithowave.mesh.tetrahedral_boxes import split_hexahedra
from lithowave.rheology.body import fit_body
from lithowave.rheology.quality import QualityLaw
from lithowave.solvers.clock import Schedule
from lithowave.solvers.common.timing import Steps, typical_time
from lithowave.solvers.discontinuous_galerkin.clusters import Clustering, make_clusters, single_cluster
from lithowave.solvers.discontinuous_galerkin.materials import ElementMaterials
from lithowave.solvers.discontinuous_galerkin.memory import anisotropic_path
from lithowave.solvers.discontinuous_galerkin.mesh_partition import LAYER_WORK
from lithowave.solvers.discontinuous_galerkin.meshing import MeshedModel
from lithowave.solvers.discontinuous_galerkin.plan import DiscontinuousGalerkinPlan, make_plan
from lithowave.solvers.discontinuous_galerkin.solver import DiscontinuousGalerkinSolver
from lithowave.solvers.elements.measurement import RHO, SIZE, VP, VS, affordable_elements, record_time
from lithowave.solvers.interface import LoopPrediction

SAMPLE_CUBES = {"cpu": 12, "cuda": 28}  # along each side: too many for a cache
IN_A_CUBE = 12  # tetrahedra
QUALITY, ORDINARY_POINTS = 100.0, 1.0  # of elements with attenuation; cubes in the shortest wavelength
FASTER = 1.8  # waves in a body inside the mesh


def synthetic_plan(
    counts: tuple[int, int, int], order: int, precision: str, *, anisotropic: bool = False, cut: bool = False,
    mechanisms: int = 0,
) -> DiscontinuousGalerkinPlan:
    """Return the plan of a box of tetrahedra, free on top and absorbing elsewhere, with a material per element.

    counts : cubes along x, y and z, of twelve tetrahedra each. cut : with the surface of an ellipsoid inside the mesh,
    where elements are small and distorted, and with LTS. mechanisms : of attenuation.
    """
    ends = [SIZE * count for count in counts]
    mesh = split_hexahedra(layered_box((0.0, ends[0]), (0.0, ends[1]), [0.0, -ends[2]], [(SIZE, SIZE)]))
    if cut:
        mesh, inside = cut_along(mesh, lambda x, y, z: _radius(x, y, z, ends) - 0.33)
        mesh = replace(mesh, materials=inside.astype(np.int64))
    mesh = mesh.local()
    absorbing = np.concatenate([faces for name, faces in mesh.boundaries.items() if name != "z_max"])
    none = np.zeros((0, 2), np.int64)
    kinds = {"free": mesh.boundaries["z_max"], "absorbing": absorbing, "rigid": none}
    model = MeshedModel(mesh, synthetic_materials(mesh.materials, anisotropic, mechanisms), kinds, SIZE)

    def clusters(limits: np.ndarray, neighbors: np.ndarray) -> Clustering:
        limit = float(limits.min())
        if cut:
            return make_clusters(limits, neighbors, limits.max(), 0.9, None, None, True, None)
        return single_cluster(limits, Schedule(0.9 * limit, limit, 9 * limit, 2))

    return make_plan(model, order, clusters, precision)


def _radius(x: np.ndarray, y: np.ndarray, z: np.ndarray, ends: list[float]) -> np.ndarray:
    """Return the distance from the center of the box, as a fraction of its sides."""
    return np.sqrt((x / ends[0] - 0.5) ** 2 + (y / ends[1] - 0.5) ** 2 + (z / ends[2] + 0.5) ** 2)


def synthetic_materials(material: np.ndarray, anisotropic: bool, mechanisms: int = 0) -> ElementMaterials:
    """Return velocities that vary by a tenth between elements, faster in material 1; or one anisotropic medium."""
    elements = len(material)
    ripple = (1 + 0.1 * np.sin(np.arange(elements))) * np.where(material == 1, FASTER, 1.0)
    found = ElementMaterials.isotropic(VP * ripple, VS * ripple, RHO * ripple)
    if mechanisms:
        low = VS / (ORDINARY_POINTS * SIZE)
        body = fit_body(QualityLaw(), (low / 100, low), mechanisms, (1.0 / QUALITY, 1.0 / QUALITY))
        found = replace(found, body=body, inverse_quality=np.full((elements, 2), 1.0 / QUALITY))
    if not anisotropic:
        return found
    mu, lam = RHO * VS**2, RHO * (VP**2 - 2 * VS**2)
    stiffness = np.diag([2.0 * mu] * 3 + [mu] * 3)
    stiffness[:3, :3] += lam
    stiffness[2, 2] *= 0.9
    speeds = np.sqrt(RHO) * np.array([[0.9 * VS, VP]])
    number = np.zeros(elements, np.int64)
    return replace(found, number=number, stiffness=stiffness[None], slowest=speeds[:, 0], fastest=speeds[:, 1])


def fill_with_noise(solver: DiscontinuousGalerkinSolver) -> None:
    """Fill the coefficients with small random values: zeros and denormal numbers change the speed."""
    shape = solver.coefficients.shape
    noise = np.random.default_rng(1).standard_normal((min(256, shape[0]), *shape[1:]), dtype=np.float32)
    impedance = RHO * VP
    if solver.kernels.layout.mode_major:
        noise[:, :, :6] *= impedance
    else:
        noise[:, :6] *= impedance
    for first in range(0, shape[0], len(noise)):
        part = solver.coefficients[first : first + len(noise)]
        solver.backend.assign(part, 1e-3 * noise[: len(part)])


def predict_loop_time(plan: DiscontinuousGalerkinPlan, backend: Any, receiver_count: int) -> LoopPrediction:
    """Predict the time of the loop: scale a few steps of a small box of each kind of elements to all updates."""
    path, inside = anisotropic_path(plan), plan.layer.inside
    updates = plan.clustering.element_updates
    per_step = domain = 0.0
    for anisotropic, relaxing in product((False, True), repeat=2):
        members = (path == anisotropic) & (plan.relaxing == relaxing)
        if members.any():
            solver = sample_solver(plan, backend, anisotropic, plan.mechanisms * relaxing)
            per_update = typical_time(Steps(solver), backend) / solver.plan.unit_count
            own = per_update * float(updates[members & ~inside].sum())
            domain += own
            per_step += own + LAYER_WORK * per_update * float(updates[members & inside].sum())
    per_step += record_time(solver, receiver_count) / (plan.schedule.sample_every or 1)
    return LoopPrediction(plan.schedule.steps * per_step, plan.domain_count / domain)


def sample_solver(
    plan: DiscontinuousGalerkinPlan, backend: Any, anisotropic: bool, mechanisms: int
) -> DiscontinuousGalerkinSolver:
    """Return a cube of elements of a kind, representative of this device and within its memory."""
    most = min(plan.element_count, affordable_elements(plan, backend)) / IN_A_CUBE
    side = max(3, min(SAMPLE_CUBES[backend.name], math.ceil(most ** (1 / 3))))
    solver = DiscontinuousGalerkinSolver(
        synthetic_plan(
            (side,) * 3, plan.order, backend.precision, anisotropic=anisotropic, mechanisms=mechanisms
        ), None, backend,
    )  # fmt: skip
    fill_with_noise(solver)
    return solver
