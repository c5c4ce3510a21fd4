"""Exact fields as initial states of discontinuous Galerkin elements, and what is left of them: for the tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from element_kinds import QUIET
from lithowave.backends import make_backend
from lithowave.mesh import TetrahedralMesh
from lithowave.solvers import Schedule
from lithowave.solvers.discontinuous_galerkin import (
    Clustering,
    DiscontinuousGalerkinSolver,
    ElementMaterials,
    MeshedModel,
    basis_values,
    make_plan,
    single_cluster,
    tetrahedron_rule,
)

Field = Callable[[np.ndarray], np.ndarray]
"""Values (..., 9), stress xx, yy, zz, xy, xz, yz and velocity, at points (..., 3)."""

SAFETY = 0.9  # of the largest stable time step, as by default


def make_solver(
    mesh: TetrahedralMesh, materials: ElementMaterials, order: int, duration: float, precision: str = "double",
    faces: dict[str, np.ndarray] | None = None, backend: str = "cpu",
) -> DiscontinuousGalerkinSolver:  # fmt: skip
    """A solver with one time step for all elements that divides the duration, s. faces : by kind, of exterior faces."""
    none = np.zeros((0, 2), np.int64)
    kinds = {kind: (faces or {}).get(kind, none) for kind in ("free", "absorbing", "rigid")}

    def clusters(limits: np.ndarray, _: np.ndarray) -> Clustering:
        limit = float(limits.min())
        steps = int(np.ceil(duration / (SAFETY * limit)))
        return single_cluster(limits, Schedule(duration / steps, limit, duration, 2))

    plan = make_plan(MeshedModel(mesh, materials, kinds, None), order, clusters, precision)
    return DiscontinuousGalerkinSolver(plan, QUIET, make_backend(backend, precision, None))


def begin(solver: DiscontinuousGalerkinSolver, field: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> None:
    """Let a solver begin from the L2 projection of field(points (n, q, 3), elements (n,)) -> (n, q, 9)."""
    plan = solver.plan
    places, weights = tetrahedron_rule(plan.order + 2)
    values = field(points_in(plan.mesh, places), np.arange(plan.element_count))
    solver.set_coefficients(np.einsum("eqa,kq,q->eak", values, basis_values(plan.order, places), weights))


def run(solver: DiscontinuousGalerkinSolver) -> None:
    """To the end of the duration."""
    for step in range(solver.plan.schedule.steps):
        solver.advance(step)


def points_in(mesh: TetrahedralMesh, places: np.ndarray, part: Any = slice(None)) -> np.ndarray:
    """(elements, q, 3) points of elements at places (q, 3) of the reference tetrahedron."""
    corners = mesh.element_vertices(part)
    return corners[:, :1] + places @ (corners[:, 1:] - corners[:, :1])


def relative_error(
    solver: DiscontinuousGalerkinSolver, field: Callable[[np.ndarray, np.ndarray], np.ndarray], scale: np.ndarray
) -> float:
    """L2 norm of the difference of the present state and field(points, elements) over that of the latter.

    scale : (9,), by which each quantity is divided.
    """
    plan = solver.plan
    places, weights = tetrahedron_rule(plan.order + 2)
    computed = solver.host_coefficients().swapaxes(1, 2).astype(float)
    computed = np.einsum("eka,kq->eqa", computed, basis_values(plan.order, places))
    exact = field(points_in(plan.mesh, places), np.arange(plan.element_count))
    measure = 6.0 * plan.mesh.volumes()[:, None, None] * weights[:, None] / scale**2
    return float(np.sqrt((measure * (computed - exact) ** 2).sum() / (measure * exact**2).sum()))


def transforms(solver: DiscontinuousGalerkinSolver, wavevectors: np.ndarray, elements: np.ndarray) -> np.ndarray:
    """(k, 9) integrals of the present state times exp(-i k x), for wavevectors (k, 3), 1/m, over some elements."""
    plan = solver.plan
    places, weights = tetrahedron_rule(plan.order + 3)
    coefficients = solver.host_coefficients()[elements].astype(float)
    values = np.einsum("eak,kq,q->eqa", coefficients, basis_values(plan.order, places), weights)
    values *= 6.0 * plan.mesh.volumes()[elements][:, None, None]
    points = points_in(plan.mesh, places, elements)
    return np.array([np.einsum("eqa,eq->a", values, np.exp(-1j * (points @ wave))) for wave in wavevectors])


def energy_product(medium: Any, one: np.ndarray, other: np.ndarray) -> complex:
    """Twice the energy that two states (9,) share: of the stresses by the compliance of a `fluid_solid.Medium`.

    Plane waves of one wavevector are orthogonal in it.
    """
    mu = medium.rigidity
    bulk = medium.lame_lambda + 2.0 / 3.0 * mu
    shared = (one[:3].sum().conj() * other[:3].sum()) / (9.0 * bulk)
    if mu > 0.0:
        own, across = (state[:3] - state[:3].mean() for state in (one, other))
        shared += (own.conj() @ across + 2.0 * one[3:6].conj() @ other[3:6]) / (2.0 * mu)
    return shared + medium.rho * one[6:].conj() @ other[6:]


def observed_order(counts: tuple[int, ...], errors: list[float]) -> float:
    """Slope of the error over the element size on logarithmic axes."""
    return float(np.polyfit(-np.log(counts), np.log(errors), 1)[0])
