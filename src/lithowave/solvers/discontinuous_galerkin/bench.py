"""Benchmarks of the discontinuous Galerkin method: steps of a box without sources and receivers.

`global` : all elements with one time step, isotropic, with a separate material in each element. `attenuating` : the
same with three mechanisms of attenuation. `anisotropic` : with all moduli, only on request. `local` : a mesh with a
fast ellipsoid inside and local time stepping; the rate counts element updates, and the record states the time of the
same mesh with one time step. All have a free surface and
absorb at the five other sides.

The lower bound of a step's time is the memory traffic divided by the memory bandwidth: coefficients are read and
written, the traces stored by an element and those sent by its neighbors are read, and both are written; the elastic law
and the coefficients of the faces are read, with a slot index of 4 bytes per face. Memory variables of attenuation are
read and written.

Short measurements of the discontinuous Galerkin kernels for `check` and `bench`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from lithowave.mesh.hexahedral_box import layered_box
from lithowave.mesh.level_sets import cut_along
from lithowave.mesh.tetrahedral_boxes import split_hexahedra
from lithowave.rheology import QualityLaw, fit_body
from lithowave.solvers.common.kernels import Steps, call_time, typical_time
from lithowave.solvers.discontinuous_galerkin.clusters import Clustering, make_clusters, single_cluster
from lithowave.solvers.discontinuous_galerkin.materials import FACE_NUMBERS, QUANTITIES, ElementMaterials, law_numbers
from lithowave.solvers.discontinuous_galerkin.memory import anisotropic_path, relaxing_values
from lithowave.solvers.discontinuous_galerkin.meshing import MeshedModel
from lithowave.solvers.discontinuous_galerkin.partition import LAYER_WORK
from lithowave.solvers.discontinuous_galerkin.plan import DiscontinuousGalerkinPlan, make_plan
from lithowave.solvers.discontinuous_galerkin.reference import ORDERS, face_mode_count, make_reference, mode_count
from lithowave.solvers.discontinuous_galerkin.solver import DiscontinuousGalerkinSolver
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

CASES, USUAL_CASES = ("global", "local", "attenuating", "anisotropic"), ("global", "local", "attenuating")
MECHANISMS = {"attenuating": 3}
OPTIONS = ("orders",)
SMALLEST_SIZE = 3  # cubes
SIZES = {"cpu": (16, 16, 16), "cuda": (43, 43, 42)}  # cubes of twelve elements
LOCAL_SIZES = {"cpu": (14, 14, 14), "cuda": (42, 42, 42)}

Record = dict[str, Any]
Shape = tuple[int, int, int]

__all__ = ["CASES", "OPTIONS", "ORDERS", "SMALLEST_SIZE", "USUAL_CASES", "make_tasks"]


def make_tasks(
    backend: Any, cases: Iterable[str], sizes: Iterable[Shape] | None, orders: Iterable[int] = (5,)
) -> Iterator[DiscontinuousGalerkinTask]:
    """Yield a task for each size (cubes of twelve elements along x, y, z), order and case."""
    for shape, order, case in itertools.product(sizes or [None], orders, cases):
        usual = (LOCAL_SIZES if case == "local" else SIZES)[backend.name]
        counts = shape or usual_size(backend, order, case, usual)
        yield DiscontinuousGalerkinTask(case, tuple(counts), order, backend)


def usual_size(backend: Any, order: int, case: str, counts: Shape) -> Shape:
    """Return cubes along x, y and z: `counts`, or fewer if they do not fit into the memory."""
    sample = synthetic_plan(
        (SMALLEST_SIZE,) * 3, order, backend.precision, anisotropic=case == "anisotropic",
        mechanisms=MECHANISMS.get(case, 0),
    )  # fmt: skip
    return affordable_size(backend, sample, counts, SMALLEST_SIZE, IN_A_CUBE)


def element_bytes(order: int, value_bytes: int, anisotropic: bool, mechanisms: int = 0) -> int:
    """Return the bytes that the update of an element must move, by the model in the module docstring."""
    traces = 4 * 3 * face_mode_count(order) * 4  # of four faces: two read, two written
    law, faces = law_numbers(anisotropic, False, mechanisms), 4 * FACE_NUMBERS[anisotropic]
    state = QUANTITIES * mode_count(order) + relaxing_values(order, mechanisms)
    return value_bytes * (2 * state + traces + law + faces) + 4 * 4


def operations(order: int) -> int:
    """Return the multiplications and additions per update of an isotropic element, for nonzero entries only."""
    reference = make_reference(order)
    products = sum(int((trace != 0).sum()) for trace in reference.traces) * 2 * QUANTITIES
    for rows, columns in zip(reference.levels[1:-1], reference.levels, strict=False):
        products += QUANTITIES * sum(int((one[:rows, :columns] != 0).sum()) for one in reference.derivatives)
        products += 81 * rows + 2 * QUANTITIES * rows
    return 2 * (products + 4 * 58 * reference.face_count)


@dataclass(frozen=True)
class DiscontinuousGalerkinTask(ElementTask):
    """Measurement of a case on a box of cubes."""

    method, order_name, cells = "discontinuous_galerkin", "order", " cubes"

    @cached_property
    def plan(self) -> DiscontinuousGalerkinPlan:
        """Plan of the box."""
        return synthetic_plan(
            self.shape, self.order, self.backend.precision, anisotropic=self.case == "anisotropic",
            cut=self.case == "local", mechanisms=MECHANISMS.get(self.case, 0),
        )  # fmt: skip

    def entries(self) -> Record:
        """See `ElementTask`."""
        return super().entries() | {"clusters": self.plan.clustering.sizes}

    def step_bytes(self) -> float:
        """Return the bytes that one step must move."""
        anisotropic = self.case == "anisotropic"
        size = element_bytes(self.order, self.plan.value_bytes, anisotropic, MECHANISMS.get(self.case, 0))
        return self.plan.unit_count * size

    def measure(self) -> tuple[float, Record]:
        """Return the seconds per step; with LTS also the comparison with one time step."""
        seconds = self._seconds(self.plan)
        told: Record = {}
        if self.case in ("global", "local"):
            told["operations_per_element"] = operations(self.order)
            rate = operations(self.order) * self.plan.unit_count / seconds
            told |= self.backend.peak_facts(rate)
        if self.case == "local":
            plan, clustering = self.plan, self.plan.clustering
            # The same number of steps as cluster 0, which all elements take with one time step.
            limit = Schedule(clustering.shortest, clustering.schedule.limit, 10 * clustering.shortest, 2)
            even = replace(plan, clustering=single_cluster(plan.limits, limit))
            faster = self._seconds(even) * clustering.ticks / seconds
            gain = plan.element_count * clustering.ticks / plan.unit_count
            told |= {"update_gain": gain, "time_gain": faster, "fraction_of_gain": faster / gain}
        return seconds, told

    def _seconds(self, plan: DiscontinuousGalerkinPlan) -> float:
        solver = DiscontinuousGalerkinSolver(plan, None, self.backend)
        fill_with_noise(solver)
        return call_time(Steps(solver), self.backend, minimum=2.0)


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
