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
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from lithowave.solvers.clock import Schedule
from lithowave.solvers.common.timing import Steps, call_time
from lithowave.solvers.discontinuous_galerkin.basis import ORDERS, face_mode_count, mode_count
from lithowave.solvers.discontinuous_galerkin.clusters import single_cluster
from lithowave.solvers.discontinuous_galerkin.materials import QUANTITIES
from lithowave.solvers.discontinuous_galerkin.measure import IN_A_CUBE, fill_with_noise, synthetic_plan
from lithowave.solvers.discontinuous_galerkin.memory import relaxing_values
from lithowave.solvers.discontinuous_galerkin.plan import DiscontinuousGalerkinPlan
from lithowave.solvers.discontinuous_galerkin.reference import make_reference
from lithowave.solvers.discontinuous_galerkin.riemann import FACE_NUMBERS, law_numbers
from lithowave.solvers.discontinuous_galerkin.solver import DiscontinuousGalerkinSolver
from lithowave.solvers.elements.bench_task import ElementTask
from lithowave.solvers.elements.measurement import affordable_size

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
