"""A run frees its solver, plan and arrays when it ends, without a garbage collection."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lithowave as lw
from cuda_devices import emulate
from lithowave import InstabilityError
from lithowave.run import run_simulation
from lithowave.solvers import load_method
from small_run import SMALL

METHODS: dict[str, dict[str, Any]] = {
    "finite_difference": {},
    # A layer at the bottom only: two kernels instead of seven.
    "spectral_element": {
        "solver": {"method": "spectral_element", "spacing": 200, "degree": 2},
        "boundaries": {"sides": "rigid", "layer": {"cells": 5}},
    },
    "discontinuous_galerkin": {"solver": {"method": "discontinuous_galerkin", "spacing": 400, "order": 2}},
}


@pytest.fixture
def no_collection() -> Iterator[None]:
    """Without the garbage collector."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def is_referable(item: Any) -> bool:
    """Whether there can be weak references to it."""
    return hasattr(type(item), "__weakref__") or isinstance(item, np.ndarray)


def watched(monkeypatch: pytest.MonkeyPatch, method: str) -> list[weakref.ref]:
    """References to what solvers that are made from now on consist of."""
    solver_type, found = load_method(method).Solver, []
    make = solver_type.__init__

    def make_and_watch(solver: Any, plan: Any, simulation: Any, backend: Any, halo: Any = None) -> None:
        make(solver, plan, simulation, backend, halo)
        parts = [solver, plan, backend, solver.kernels, *vars(solver).values()]
        found.extend(weakref.ref(one) for one in parts if is_referable(one))

    monkeypatch.setattr(solver_type, "__init__", make_and_watch)
    return found


def living(references: list[weakref.ref]) -> list[str]:
    """What is still there, by type."""
    return [type(one()).__name__ for one in references if one() is not None]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("method", METHODS)
def test_a_run_frees_what_it_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_collection: None, method: str, device: str
) -> None:
    emulate(monkeypatch, graphs=True)
    short = {"compute.backend": device, "duration": 0.06 if device == "cuda" else 0.8}
    simulation = lw.Simulation.from_text(SMALL, tmp_path).with_overrides(METHODS[method] | short)
    run_simulation(simulation, tmp_path / "first")  # compiles kernels; Numba keeps the frames of errors that it handles
    gc.collect()
    found = watched(monkeypatch, method)
    run_simulation(simulation, tmp_path / "complete")
    assert len(found) > 8 and not living(found)
    found.clear()
    monkeypatch.setattr(load_method(method).Solver, "largest_velocity", lambda solver: np.nan)
    with pytest.raises(InstabilityError) as caught:
        run_simulation(simulation, tmp_path / "failed")
    del caught
    assert found and not living(found)
