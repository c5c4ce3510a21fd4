"""One sweep on a CPU gives the same bits as two passes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import lithowave as lw
from lithowave.backends import make_backend
from lithowave.solvers.finite_difference import (
    FiniteDifferenceSolver,
    fill_with_noise,
    plan,
)
from lithowave.solvers.finite_difference import step as sweep
from slow_variants import slow_except

RIGID = {"y_min": "rigid", "bottom": "rigid"}
MEDIUM = {"vp": 5000.0, "vs": 2900.0, "rho": 2600.0}
ATTENUATING = {"homogeneous": MEDIUM | {"qp": 100.0, "qs": 50.0}, "attenuation": {"band": [0.1, 10.0]}}
FACES = {"layers": {"top": "free"}, "rigid": {"top": "free"} | RIGID, "absorbing top": {"top": "absorbing"}}


def experiment(case: str, order: int = 4, precision: str = "single", threads: int = 2, **changes: Any) -> lw.Simulation:
    """A box of 41 x 75 x 60 cells with moments near the surface and at depth, and a force."""
    pulse = {"gaussian": {"sigma": 0.05, "delay": 0.2}}
    return lw.Simulation.model_validate({
        "title": "sweep",
        "domain": {"x": [0, 4100], "y": [0, 7500], "z": [-6000, 0]},
        "boundaries": {"layer": {"cells": 6}} | FACES[case],
        "material": {"homogeneous": MEDIUM},
        "sources": [
            {"position": [2130, 3720, -190], "moment_tensor": {"xx": 1e15, "yz": 2e15}, "time_function": pulse},
            {"position": [1900, 5570, -3330], "moment_tensor": {"zz": 1e15}, "time_function": pulse},
            {"position": [2000, 2220, -2510], "force": [1e9, 2e9, 3e9], "time_function": pulse},
        ],
        "receivers": [{"network": "XX", "name": "A", "position": [1000, 2000, 0]}],
        "duration": 0.5,
        "solver": {"spacing": 100, "order": order},
        "compute": {"backend": "cpu", "precision": precision, "threads": threads},
    } | changes)  # fmt: skip


def states(simulation: lw.Simulation, steps: int, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, np.ndarray]]:
    """The states after some steps from noise: in one sweep, and in two passes."""
    found = []
    compute = simulation.compute
    backend = make_backend("cpu", compute.precision, compute.threads)
    for limit, scheme in ((0, "one sweep"), (2**62, "two passes")):
        for name, value in (("CACHE_BYTES", limit), ("MOST_LATE", 1.0)):  # the grids are small
            monkeypatch.setattr(sweep, name, value)
        solver = FiniteDifferenceSolver(plan(simulation, backend), simulation, backend)
        assert solver.facts()["scheme"] == scheme
        fill_with_noise(solver)
        for step in range(steps):
            solver.advance(step)
        found.append({name: piece.values.copy() for name, piece in solver.state().items()})
    return found


def assert_same(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> None:
    assert first.keys() == second.keys()
    for name, values in first.items():
        assert np.isfinite(values).all() and values.tobytes() == second[name].tobytes(), name


@pytest.mark.parametrize(
    ("case", "order", "precision", "threads"),
    slow_except(
        [(case, 4, "single", 2) for case in FACES] + [("rigid", 4, "single", threads) for threads in (1, 3, 4)],
        itertools.product(FACES, (2, 4, 6, 8), ("single", "double"), (1, 2, 3, 4)),
    ),
)
def test_same_bits(case: str, order: int, precision: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers, closures, the free surface, moments and forces, for any number of threads."""
    assert_same(*states(experiment(case, order, precision, threads), 4, monkeypatch))


@pytest.mark.slow
@pytest.mark.parametrize("law", ["isotropic", "transverse", "orthorhombic"])
@pytest.mark.parametrize("memory", ["coarse", "full"])
def test_same_bits_with_attenuation(law: str, memory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    solver = {"spacing": 100, "order": 4, "effective_medium": law, "memory_variables": memory}
    assert_same(*states(experiment("rigid", material=ATTENUATING, solver=solver), 3, monkeypatch))
