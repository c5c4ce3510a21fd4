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
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from lithowave.solvers.common.timing import Steps, call_time
from lithowave.solvers.elements.bench_task import ElementTask
from lithowave.solvers.elements.measurement import affordable_size
from lithowave.solvers.spectral_element.elements import ElementKind
from lithowave.solvers.spectral_element.measure import fill_with_noise, synthetic_plan
from lithowave.solvers.spectral_element.memory import filter_values, members
from lithowave.solvers.spectral_element.plan import SpectralElementPlan
from lithowave.solvers.spectral_element.relaxation import COMPONENTS, carrier_count
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
