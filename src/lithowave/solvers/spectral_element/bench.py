"""Benchmarks of the spectral elements for `lithowave bench`: entire steps of a box without sources and receivers.

`deformed` : elements of 27 nodes with moduli at each point, upright as in every mesh of a box. `affine` : cuboids of
one material. `attenuating` : as `deformed`, with three mechanisms of attenuation at the smallest set of points. Only
on request: `curved` : as `deformed`, with curved sides; `trilinear` : the same with 8 nodes; `fluid` : as `deformed`,
of a fluid; `affine_attenuating` : as `affine`, with attenuation. All have a free surface and absorb at the five other
sides. Deformed elements follow a wavy interface, and the wave velocity increases with depth.

The lower bound of a step's time is the memory traffic divided by the memory bandwidth; each value that a kernel reads
or changes moves once, regardless of the number of elements that share it. With three components (a fluid has one), the
values per point that elements share are: the displacement update reads u, p and the mass and writes u (3 + 3 + 1 + 3);
the forces read u, and read and write p (3 + 3 + 3). Points inside an element are updated and receive forces in one
pass, which reads u, p and the mass and writes u and p (3 + 3 + 1 + 3 + 3); on a GPU in single precision all points,
since those that elements share move shortly before they are read. A damped point reads p, p before the step and a
matrix, and writes p twice (3 + 3 + 6 + 3 + 3), in addition to its index of 8 bytes. An element has, in addition to the
indices of its points (see `ElementLayout.of_indices`), its moduli (2 or 21 values, or 1 of a fluid, per point if they
vary) and its map without the constant terms (3 values for a cuboid, 9 for a parallelepiped, 21 for a trilinear, 28 for
an upright, 78 for another triquadratic element). A point with memory variables of attenuation reads two moduli, and
reads and writes six variables, of each mechanism. An element in an absorbing layer reads and writes its memory
variables, and reads the coefficients of its filters; a point at which a layer along n axes begins reads and writes p,
and p S - p, and n memory variables of each component, and reads 3 n coefficients, in addition to its index.

For `check`, the loop is predicted from some steps of the first elements of each kind of the run.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from lithowave.description.simulation import Simulation
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
from lithowave.solvers.interface import LoopPrediction
from lithowave.solvers.spectral_element.arrays import element_values, group_members
from lithowave.solvers.spectral_element.element_layout import device_layout
from lithowave.solvers.spectral_element.meshing import make_model
from lithowave.solvers.spectral_element.plan import SpectralElementPlan, plan, plan_of
from lithowave.solvers.spectral_element.relaxation import COMPONENTS, carrier_count
from lithowave.solvers.spectral_element.solver import SpectralElementSolver

if TYPE_CHECKING:
    from lithowave.backends.interface import Backend

CASES = ("affine", "affine_attenuating", "deformed", "attenuating", "fluid", "trilinear", "curved")
USUAL_CASES = ("affine", "deformed", "attenuating")
OPTIONS = ("degrees", "deterministic")
SMALLEST_SIZE = 4  # elements
SIZES = {"cpu": (20, 20, 20), "cuda": (77, 77, 76)}
SAMPLE = (6, 6, 6)
SHARED_WORDS, OWN_WORDS = {1: 4 + 3, 3: 10 + 9}, {1: 5, 3: 13}  # by the number of components
DAMPED_WORDS, DAMPED_BYTES = 18, 8
LAYER_POINT_WORDS = 2 * 3 + 2 * 3 + 2  # with the index, of 8 bytes
RELAXATION_WORDS = 2 + 2 * COMPONENTS  # of a mechanism at a point
MAP_WORDS = {"cuboid": 3, "affine": 9, "trilinear": 21, "upright": 28, "triquadratic": 78}

Record = dict[str, object]
Shape = tuple[int, int, int]


def make_tasks(
    backend: Backend,
    cases: Iterable[str],
    sizes: Iterable[Shape] | None,
    degrees: Iterable[int] = (4,),
    deterministic: bool = False,
) -> Iterator[SpectralElementTask]:
    """Yield a task for each size (elements along x, y, z), degree and case."""
    for shape, degree, case in itertools.product(sizes or [None], degrees, cases):
        counts = shape or usual_size(backend, degree, case)
        yield SpectralElementTask(case, tuple(counts), degree, backend, deterministic)


def usual_size(backend: Backend, degree: int, case: str) -> Shape:
    """Return the default number of elements along x, y and z."""
    sample = SpectralElementTask(case, SAMPLE, degree, backend, False).plan
    return affordable_size(backend, sample, SIZES[backend.name], SMALLEST_SIZE)


def step_bytes(plan: SpectralElementPlan, backend: Backend) -> float:
    """Return the bytes that one step must move, by the model in the module docstring."""
    own, layout = plan.total_points - plan.shared, device_layout(backend.name, plan.degree)
    components = plan.kinds[0][0].components
    one_pass = backend.own_memory and plan.value_bytes == 4 and not plan.deterministic
    words = (OWN_WORDS if one_pass else SHARED_WORDS)[components] * plan.shared + OWN_WORDS[components] * own
    for axes, begins in enumerate(plan.layer_points, 1):
        words += len(begins.point) * (LAYER_POINT_WORDS + (2 * 3 + 3) * axes)
    words += DAMPED_WORDS * plan.damped_point_count
    points = (plan.degree + 1) ** 3
    for members in group_members(plan):
        kind, count = members.kind, len(members.elements)
        moduli = kind.moduli * (points if kind.varying else 1)
        relaxation = RELAXATION_WORDS * kind.mechanisms * carrier_count(plan.degree, kind.carriers)
        layer = kind.memory_variables * points + element_values(plan.degree, kind, "layer")
        words += count * (moduli + relaxation + layer + MAP_WORDS[kind.map])
    indices = 4 * math.prod(layout.index_shape(layout.elements)) / layout.elements * plan.element_count
    return plan.value_bytes * words + indices + DAMPED_BYTES * plan.damped_point_count


@dataclass(frozen=True)
class SpectralElementTask(ElementTask):
    """Measurement of a case on a box of elements."""

    deterministic: bool

    method, order_name = "spectral_element", "degree"

    @cached_property
    def simulation(self) -> Simulation:
        """Simulation of the box."""
        return described(self.case, self.shape, self.order, self.backend, self.deterministic)

    @cached_property
    def plan(self) -> SpectralElementPlan:
        """Plan of the box; `curved` moves the nodes of its elements, and `trilinear` keeps only their corners."""
        if self.case not in ("trilinear", "curved"):
            return plan(self.simulation, self.backend)
        model = make_model(self.simulation)
        x, y, z = model.mesh.vertices.T
        moved = np.stack([x + WAVE * _waves(y, z), y + WAVE * _waves(z, x), z], axis=1)
        nodes = model.mesh.nodes if self.case == "curved" else None
        return plan_of(replace(model, mesh=replace(model.mesh, vertices=moved, nodes=nodes)), self.simulation)

    def entries(self) -> Record:
        """See `ElementTask`."""
        points = self.plan.total_points
        return super().entries() | {"deterministic": self.deterministic, "gll_points": points}

    def step_bytes(self) -> float:
        """Return the bytes that one step must move."""
        return step_bytes(self.plan, self.backend)

    def measure(self) -> tuple[float, Record]:
        """Return the seconds per step, the degrees of freedom per second, and the seconds of the sections of a step.

        On a device also the rate of later steps, ``later_dof_rate``: its power limit may reduce the clock in long runs.
        """
        solver, unknowns = SpectralElementSolver(self.plan, self.simulation, self.backend), 3 * self.plan.total_points
        fill_with_noise(solver)
        seconds = call_time(Steps(solver), self.backend, minimum=2.0)
        rates = {"dof_rate": unknowns / seconds}
        if self.backend.own_memory:
            rates["later_dof_rate"] = unknowns / call_time(Steps(solver), self.backend)

        def add_forces() -> None:
            solver.update_displacement()
            solver.add_forces()

        parts = {"add_forces": add_forces, "absorb": solver.absorb}
        kernels = {name: call_time(part, self.backend) for name, part in parts.items()}
        return seconds, rates | {"kernels": kernels}


QUALITY, BAND = 200.0, (1.0, 100.0)  # of attenuating elements, and its frequencies, Hz
WAVE, GRADIENT = 0.1 * SIZE, 0.1  # height of the waves of the interface, m, and increase of vp, 1/s
SAMPLE_ELEMENTS = {"cpu": 27_000, "cuda": 100_000}  # too many for a cache


def described(case: str, counts: Shape, degree: int, backend: Backend, deterministic: bool) -> Simulation:
    """Return the simulation of a case: a box of this many elements without sources and receivers."""
    x, y, z = (SIZE * count for count in counts)
    medium = {"vp": VP, "vs": 0.0 if case == "fluid" else VS, "rho": RHO}
    material: dict[str, object] = {}
    if "attenuating" in case:
        medium |= {"qp": QUALITY, "qs": QUALITY}
        material = {"attenuation": {"band": BAND}}
    if case.startswith("affine"):
        material["homogeneous"] = medium
    else:
        layer, depth = medium | {"gradient": {"vp": GRADIENT}}, SIZE * (counts[2] // 2) - WAVE
        material["layers"] = [layer | {"top": 0.0}, layer | {"top": lambda x, y: WAVE * _waves(x, y) - depth}]
        z -= 2 * WAVE  # the layers are as thick as their elements where they are thickest
    return Simulation.model_validate({
        "title": f"benchmark, {case}", "domain": {"x": [0, x], "y": [0, y], "z": [-z, 0]}, "material": material,
        "boundaries": {"absorption": "stacey"}, "sources": [], "receivers": [], "duration": 1.0,
        "solver": {"method": "spectral_element", "degree": degree, "spacing": SIZE},
        "compute": {"backend": backend.name, "precision": backend.precision, "deterministic": deterministic},
    })  # fmt: skip


def _waves(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return waves of a few elements' length, between -1 and 1."""
    return np.sin(x / SIZE) * np.sin(y / SIZE)


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


def predict_loop_time(plan: SpectralElementPlan, backend: Backend, receiver_count: int) -> LoopPrediction:
    """Predict the time of the loop: scale a few steps of some elements of the domain, of the layer and of the absorbing
    faces.

    Elements, damped points and receivers are scaled separately: some elements have more of their points on their sides.
    """
    in_layer, absorbing = plan.layer_masks > 0, np.zeros(plan.element_count, bool)
    absorbing[plan.faces["absorbing"][:, 0]] = True
    solver = sample_solver(plan, backend, ~in_layer)
    per_element = typical_time(Steps(solver), backend) / solver.plan.element_count
    per_step = per_element * np.count_nonzero(~in_layer) + record_time(solver, receiver_count)
    if in_layer.any():
        solver = sample_solver(plan, backend, in_layer)
        per_step += typical_time(Steps(solver), backend) * np.count_nonzero(in_layer) / solver.plan.element_count
    if plan.damped_point_count:
        solver = sample_solver(plan, backend, absorbing, ("absorbing",))
        per_step += typical_time(solver.absorb, backend) * plan.damped_point_count / solver.plan.damped_point_count
    return LoopPrediction(plan.schedule.steps * float(per_step), 1.0 / per_element)


def sample_solver(
    plan: SpectralElementPlan, backend: Backend, chosen: np.ndarray, kinds: tuple[str, ...] = ()
) -> SpectralElementSolver:
    """Return a solver of some of the chosen elements, with these kinds of outer faces, representative of this device
    and within its memory. chosen : True for each of them."""
    most = max(1, min(SAMPLE_ELEMENTS[backend.name], affordable_elements(plan, backend)))
    small = plan.part(first_of_each_kind(plan, np.flatnonzero(chosen), most), kinds)
    solver = SpectralElementSolver(small, described("affine", SAMPLE, plan.degree, backend, False), backend)
    fill_with_noise(solver)
    return solver


def first_of_each_kind(plan: SpectralElementPlan, elements: np.ndarray, most: int) -> np.ndarray:
    """Return about this many elements at most: the first ones of each kind, in the proportion of the kinds."""
    kind, share = plan.kinds[1][elements], min(1.0, most / len(elements))
    members = (elements[kind == one] for one in np.unique(kind))
    return np.sort(np.concatenate([one[: max(1, round(share * len(one)))] for one in members]))
