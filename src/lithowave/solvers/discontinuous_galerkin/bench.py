"""Benchmarks of the discontinuous Galerkin method: steps of a box without sources and receivers.

`global` : all elements with one time step, isotropic, with a separate material in each element. `attenuating` : the
same with three mechanisms of attenuation. `anisotropic` : with all moduli, only on request. `local` : the file of a
mesh with a fast ellipsoid inside, and local time stepping; the rate counts element updates, and the record states the
time of the same mesh with one time step. All have a free surface and absorb at the five other sides.

The lower bound of a step's time is the memory traffic divided by the memory bandwidth: coefficients are read and
written, the traces stored by an element and those sent by its neighbors are read, and both are written; the elastic law
and the coefficients of the faces are read, with a slot index of 4 bytes per face. Memory variables of attenuation are
read and written.

For `check`, the loop is predicted from some steps of the first elements of each kind of the run.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lithowave.description.simulation import Simulation
from lithowave.mesh.gmsh_writing import write_gmsh
from lithowave.mesh.hexahedral_box import layered_box
from lithowave.mesh.level_sets import cut_along
from lithowave.mesh.tetrahedral_boxes import split_hexahedra
from lithowave.solvers.common.kernels import Steps, call_time, typical_time
from lithowave.solvers.discontinuous_galerkin.arrays import anisotropic_path, relaxing_values
from lithowave.solvers.discontinuous_galerkin.materials import FACE_NUMBERS, QUANTITIES, law_numbers
from lithowave.solvers.discontinuous_galerkin.plan import DiscontinuousGalerkinPlan, plan
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
from lithowave.solvers.interface import LoopPrediction

if TYPE_CHECKING:
    from lithowave.backends.interface import Backend

CASES, USUAL_CASES = ("global", "local", "attenuating", "anisotropic"), ("global", "local", "attenuating")
MECHANISMS, QUALITY = {"attenuating": 3}, 100.0
OPTIONS = ("orders",)
SMALLEST_SIZE = 3  # cubes
SIZES = {"cpu": (16, 16, 16), "cuda": (43, 43, 42)}  # cubes of twelve elements
LOCAL_SIZES = {"cpu": (14, 14, 14), "cuda": (42, 42, 42)}

Record = dict[str, object]
Shape = tuple[int, int, int]

__all__ = ["CASES", "OPTIONS", "ORDERS", "SMALLEST_SIZE", "USUAL_CASES", "make_tasks"]


def make_tasks(
    backend: Backend, cases: Iterable[str], sizes: Iterable[Shape] | None, orders: Iterable[int] = (5,)
) -> Iterator[DiscontinuousGalerkinTask]:
    """Yield a task for each size (cubes of twelve elements along x, y, z), order and case."""
    for shape, order, case in itertools.product(sizes or [None], orders, cases):
        usual = (LOCAL_SIZES if case == "local" else SIZES)[backend.name]
        counts = shape or usual_size(backend, order, case, usual)
        yield DiscontinuousGalerkinTask(case, tuple(counts), order, backend)


def usual_size(backend: Backend, order: int, case: str, counts: Shape) -> Shape:
    """Return cubes along x, y and z: `counts`, or fewer if they do not fit into the memory."""
    kind = "global" if case == "local" else case
    sample = DiscontinuousGalerkinTask(kind, (SMALLEST_SIZE,) * 3, order, backend).plan
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
    def folder(self) -> tempfile.TemporaryDirectory[str]:
        """Directory of the mesh file of `local`, which exists as long as the task."""
        return tempfile.TemporaryDirectory()

    @cached_property
    def simulation(self) -> Simulation:
        """Simulation of the box."""
        file = None if self.case != "local" else with_body(self.shape, Path(self.folder.name) / "body.msh")
        return described(self.case, self.shape, self.order, self.backend, file)

    @cached_property
    def plan(self) -> DiscontinuousGalerkinPlan:
        """Plan of the box."""
        return plan(self.simulation, self.backend)

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
            faster = self._seconds(plan.part(np.arange(plan.element_count))) * clustering.ticks / seconds
            gain = plan.element_count * clustering.ticks / plan.unit_count
            told |= {"update_gain": gain, "time_gain": faster, "fraction_of_gain": faster / gain}
        return seconds, told

    def _seconds(self, plan: DiscontinuousGalerkinPlan) -> float:
        solver = DiscontinuousGalerkinSolver(plan, self.simulation, self.backend)
        fill_with_noise(solver)
        return call_time(Steps(solver), self.backend, minimum=2.0)


SAMPLE_ELEMENTS = {"cpu": 20_000, "cuda": 260_000}  # too many for a cache
IN_A_CUBE = 12  # tetrahedra
GRADIENT = 0.1  # increase of vp with depth, 1/s
FASTER, RADIUS = 1.8, 0.33  # waves in the body, and its size as a fraction of the sides of the box


def described(case: str, counts: Shape, order: int, backend: Backend, file: Path | None = None) -> Simulation:
    """Return the simulation of a case: a box of this many cubes without sources and receivers. file : of the mesh of
    `local`."""
    x, y, z = (SIZE * count for count in counts)
    medium, material = {"vp": VP, "vs": VS, "rho": RHO}, {}
    local = file is not None
    solver: dict[str, object] = {"method": "discontinuous_galerkin", "order": order, "local_time_steps": local}
    if file is not None:
        solver["mesh"] = {"file": file}
        material["groups"] = {"rock": medium, "body": medium | {"vp": FASTER * VP, "vs": FASTER * VS}}
    elif case == "anisotropic":
        material["homogeneous"] = medium | {"anisotropy": {"epsilon": 0.05}}
    else:
        quality = {"qp": QUALITY, "qs": QUALITY} if case in MECHANISMS else {}
        material["layers"] = [medium | quality | {"top": 0.0, "gradient": {"vp": GRADIENT}}]
    if case in MECHANISMS:
        material["attenuation"] = {"band": [VS / SIZE / 100, VS / SIZE], "mechanisms": MECHANISMS[case]}
    return Simulation.model_validate({
        "title": f"benchmark, {case}", "domain": {"x": [0, x], "y": [0, y], "z": [-z, 0]}, "material": material,
        "boundaries": {"absorption": "stacey"}, "sources": [], "receivers": [], "duration": 1.0,
        "solver": solver if file else solver | {"spacing": SIZE},
        "compute": {"backend": backend.name, "precision": backend.precision},
    })  # fmt: skip


def with_body(counts: Shape, file: Path) -> Path:
    """Write the mesh of a box of this many cubes that is cut along an ellipsoid, where elements are small and
    distorted."""
    ends = [SIZE * count for count in counts]
    mesh = split_hexahedra(layered_box((0.0, ends[0]), (0.0, ends[1]), [0.0, -ends[2]], [(SIZE, SIZE)]))
    mesh, inside = cut_along(mesh, lambda x, y, z: _radius(x, y, z, ends) - RADIUS)
    return write_gmsh(file, replace(mesh, materials=inside.astype(np.int64), groups=("rock", "body")))


def _radius(x: np.ndarray, y: np.ndarray, z: np.ndarray, ends: list[float]) -> np.ndarray:
    """Return the distance from the center of the box, as a fraction of its sides."""
    return np.sqrt((x / ends[0] - 0.5) ** 2 + (y / ends[1] - 0.5) ** 2 + (z / ends[2] + 0.5) ** 2)


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


def predict_loop_time(plan: DiscontinuousGalerkinPlan, backend: Backend, receiver_count: int) -> LoopPrediction:
    """Predict the time of the loop: scale a few steps of some elements of each kind to all updates."""
    updates, inside = plan.clustering.element_updates[: plan.element_count], plan.layer.inside
    kinds, place = np.unique(4 * inside + 2 * anisotropic_path(plan) + plan.relaxing, return_inverse=True)
    domain = layer = record = 0.0
    for number, kind in enumerate(kinds):
        solver = sample_solver(plan, backend, np.flatnonzero(place == number))
        own = typical_time(Steps(solver), backend) / solver.plan.unit_count * float(updates[place == number].sum())
        domain, layer = (domain, layer + own) if kind & 4 else (domain + own, layer)
        record = record or record_time(solver, receiver_count) / (plan.schedule.sample_every or 1)
    return LoopPrediction(plan.schedule.steps * (domain + layer + record), plan.domain_count / domain)


def sample_solver(
    plan: DiscontinuousGalerkinPlan, backend: Backend, elements: np.ndarray
) -> DiscontinuousGalerkinSolver:
    """Return a solver of the first ones of some elements, representative of this device and within its memory."""
    most = max(1, min(SAMPLE_ELEMENTS[backend.name], affordable_elements(plan, backend)))
    empty = described("global", (SMALLEST_SIZE,) * 3, plan.order, backend)
    solver = DiscontinuousGalerkinSolver(plan.part(elements[:most]), empty, backend)
    fill_with_noise(solver)
    return solver
