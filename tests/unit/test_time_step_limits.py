"""Largest stable time steps of spectral elements, against the eigenvalues of the assembled operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse.linalg import LinearOperator, eigsh

from lithowave.description import Solver
from lithowave.mesh import HexahedralMesh
from lithowave.physics import isotropic_stiffness, lame_moduli
from lithowave.solvers.spectral_element import SpectralElementSolver
from spectral_element_boxes import ROCK, box_mesh, make_solver, one_material, several_materials

DEGREE, SAFETY = 3, Solver.model_fields["safety"].default
RIGID = dict.fromkeys(("x_min", "x_max", "y_min", "y_max", "z_min"), "rigid")
SOFT = isotropic_stiffness(*lame_moduli(1500.0, 500.0, 1800.0))


def exact_limit(solver: SpectralElementSolver) -> float:
    """2 over the square root of the largest eigenvalue of M^-1 K, from the kernels of the solver."""
    plan = solver.plan
    scale = np.sqrt(plan.moves / plan.element_statistics.mass)[:, None]

    def product(vector: np.ndarray) -> np.ndarray:
        solver.displacement[:-1, :3] = vector.reshape(-1, 3) * scale
        solver.momentum[:, :3] = 0.0
        solver.add_forces()
        return -(solver.momentum[:-1, :3] * scale).reshape(-1)

    size = 3 * plan.total_points
    start = np.random.default_rng(1).standard_normal((plan.total_points, 3)) * (scale > 0)
    operator = LinearOperator((size, size), product, dtype=float)
    return 2.0 / float(np.sqrt(eigsh(operator, 1, which="LA", v0=start.reshape(-1), tol=1e-6)[0][0]))


def flattened(mesh: HexahedralMesh) -> HexahedralMesh:
    """Parallelepipeds, five times as wide as high."""
    x, y, z = mesh.vertices.T
    return replace(mesh, vertices=np.stack([x + 0.3 * z, y - 0.2 * x, 0.2 * z + 0.05 * y], axis=-1))


def many_media(mesh: HexahedralMesh) -> SpectralElementSolver:
    """Soft ground over rock."""
    upper = mesh.element_nodes().mean(axis=1)[:, 2] > -500.0
    materials = several_materials(upper.astype(int), [ROCK, SOFT], [2700.0, 1800.0], [False, False])
    return make_solver(mesh, DEGREE, materials, RIGID)


def one_medium(mesh: HexahedralMesh, kinds: Mapping[str, str]) -> SpectralElementSolver:
    return make_solver(mesh, DEGREE, one_material(mesh.element_count), kinds)


CASES = {
    "free": lambda: one_medium(box_mesh((4, 4, 4)), {}),
    "free top": lambda: one_medium(box_mesh((5, 5, 5)), RIGID),
    "absorbing": lambda: one_medium(box_mesh((4, 4, 4)), dict.fromkeys(RIGID, "absorbing")),
    "bent": lambda: one_medium(box_mesh((4, 4, 4), shape="triquadratic"), {}),
    "flat": lambda: one_medium(flattened(box_mesh((4, 4, 4))), RIGID),
    "contrast": lambda: many_media(box_mesh((5, 5, 5))),
}


@pytest.mark.parametrize("case", CASES)
def test_default_step_is_close_below_the_exact_limit(case: str) -> None:
    solver = CASES[case]()
    ratio = solver.plan.schedule.limit / exact_limit(solver)
    assert 0.95 <= SAFETY * ratio < 1.0
    assert ratio < 1.0 + 1e-5  # at free corners, the limit is exact


@pytest.mark.parametrize("factor, stable", [(0.98, True), (1.02, False)])
def test_motion_grows_beyond_the_exact_limit_alone(factor: float, stable: bool) -> None:
    exact = exact_limit(CASES["absorbing"]())
    mesh = box_mesh((4, 4, 4))
    limit = CASES["absorbing"]().plan.schedule.limit
    solver = make_solver(
        mesh, DEGREE, one_material(mesh.element_count), dict.fromkeys(RIGID, "absorbing"), safety=factor * exact / limit
    )
    solver.momentum[:-1, :3] = np.random.default_rng(1).standard_normal((solver.plan.total_points, 3))
    solver.advance(0)
    begin = solver.largest_velocity()
    for step in range(1, 600):
        solver.advance(step)
    assert (solver.largest_velocity() < begin) == stable


def test_a_bound_that_is_not_finite_is_no_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest of several bounds would ignore NaN, and the time step would be too large."""
    module = "lithowave.solvers.spectral_element.stability"
    monkeypatch.setattr(f"{module}._iterate", lambda *arguments: [array.fill(np.nan) for array in arguments[-2:]])
    with pytest.raises(ValueError, match="must not contain infs or NaNs"):
        CASES["absorbing"]()
