"""A planted fault: solvers of all methods whose motion grows a little in each step, and a closed box for it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from lithowave.solvers.discontinuous_galerkin import DiscontinuousGalerkinSolver
from lithowave.solvers.finite_difference import FiniteDifferenceSolver
from lithowave.solvers.finite_difference.solver import VELOCITIES
from lithowave.solvers.spectral_element import SpectralElementSolver

BOX: dict[str, Any] = {
    "domain": {"x": [0, 800], "y": [0, 500], "z": [-500, 0]},
    "boundaries": {"top": "free", "sides": "rigid", "bottom": "rigid"},
    "material": {"homogeneous": {"vp": 3000, "vs": 1800, "rho": 2300}},
    "sources": [{"position": [310, 240, -190], "double_couple": {"strike": 30, "dip": 60, "rake": 40, "mw": 3},
                 "time_function": {"gaussian": {"sigma": 0.05, "delay": 0.25}}}],
    "receivers": [{"name": "A", "position": [130, 300, 0]}, {"name": "B", "position": [500, 100, 0]}],
    "duration": 4.0,
    "compute": {"backend": "cpu", "threads": 1},
    "output": {"sampling_interval": 0.02, "formats": [], "checkpoint": None},
}  # fmt: skip
SOLVERS: dict[str, dict[str, Any]] = {
    "finite_difference": {"spacing": 50, "order": 4},
    "spectral_element": {"max_frequency": 5.0, "degree": 3},
    "discontinuous_galerkin": {"max_frequency": 2.5, "order": 3, "points_per_wavelength": 7},
}


def closed_box(method: str) -> dict[str, Any]:
    """Return the description of a box whose sides reflect all waves; they cross it in 0.5 s."""
    return {**BOX, "solver": {"method": method, **SOLVERS[method]}}


def grow(begin: float, end: float = math.inf, rate: float = 3.0, replace: Callable[..., Any] = setattr) -> None:
    """Let the motion of all solvers grow by about exp(rate t) between two times, s.

    replace : sets an attribute of a class, as `pytest.MonkeyPatch.setattr` does.
    """
    for solver in (FiniteDifferenceSolver, SpectralElementSolver, DiscontinuousGalerkinSolver):
        replace(solver, "advance", _growing(solver.advance, begin, end, rate))


def _growing(advance: Callable[..., None], begin: float, end: float, rate: float) -> Callable[..., None]:
    def advance_and_grow(solver: Any, step: int) -> None:
        advance(solver, step)
        time_step = solver.plan.schedule.time_step
        if begin <= step * time_step < end:
            _multiply(solver, math.exp(rate * time_step))

    return advance_and_grow


def _multiply(solver: Any, factor: float) -> None:
    """Multiply all fields by a factor; if only the velocities are at hand, by its square, since these have half of the
    energy."""
    if isinstance(solver, FiniteDifferenceSolver):
        for name in VELOCITIES:
            solver.fields_by_name[name][...] *= factor**2
    elif isinstance(solver, SpectralElementSolver):
        solver.momentum[:, :3] *= factor**2
    else:
        solver.coefficients[...] *= factor
