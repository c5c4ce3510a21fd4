"""Memory that is predicted from a plan, against what solvers take on the CPU and on an emulated device."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

import lithowave as lw
from cuda_emulation import emulated_cuda
from lithowave.backends import make_backend
from lithowave.run import memory_needed
from lithowave.solvers import METHODS, load_method
from reference_backend import CPU

LAYERS = [
    {"top": 0, "vp": 3000, "vs": 1600, "rho": 2300},
    {"top": -400, "vp": 5000, "vs": 2900, "rho": 2600},
]
ANELASTIC = {"layers": [layer | {"qp": 80, "qs": 40} for layer in LAYERS]}
SE, DG = {"method": "spectral_element"}, {"method": "discontinuous_galerkin"}
CASES: dict[str, dict[str, Any]] = {
    "grid": {"solver": {"method": "finite_difference", "spacing": 40}},
    "hexahedra": {"solver": SE | {"spacing": 120, "degree": 4}, "boundaries.absorption": "stacey"},
    "hexahedra, layer, attenuation": {
        "solver": SE | {"spacing": 150, "degree": 4, "max_frequency": 4}, "material": ANELASTIC,
        "boundaries.sides": "rigid",  # fewer kernels
    },
    "tetrahedra, one time step": {"solver": DG | {"spacing": 200, "order": 2, "local_time_steps": False}},
    "tetrahedra, local time steps": {"solver": DG | {"spacing": 200, "order": 2, "local_time_steps": True}},
    "tetrahedra, attenuation": {
        "solver": DG | {"spacing": 200, "order": 2}, "material": ANELASTIC, "boundaries.absorption": "stacey"
    },
}  # fmt: skip


def simulation(changes: dict[str, Any]) -> lw.Simulation:
    source = {"position": [30, -20, -410], "force": [0, 0, 1e9], "time_function": {"gaussian": {"sigma": 0.06}}}
    return lw.Simulation(
        domain={"x": [-600, 600], "y": [-600, 600], "z": [-800, 0]}, material={"layers": LAYERS}, duration=0.4,
        sources=[source], receivers=[{"name": "A", "position": [500, 0, 0]}],
        solver={"method": "finite_difference", "spacing": 100}, compute={"backend": "cpu", "threads": 1},
        output={"sampling_interval": 0.02, "checkpoint": None},
    ).with_overrides(changes)  # fmt: skip


def traced(function: Callable[[], Any]) -> tuple[Any, int]:
    """What a function gives, and the bytes that it has taken and not given back."""
    gc.collect()
    tracemalloc.start()
    try:
        result = function()
        gc.collect()
        return result, tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", CASES)
def test_a_run_takes_what_was_predicted(name: str) -> None:
    """Also the state that a checkpoint stores is at most a fifth smaller than the plan states, and not larger."""
    case, backend = simulation(CASES[name]), make_backend("cpu", "single", 1)
    method = load_method(case.solver.method)

    def made() -> tuple[Any, Any]:
        plan = method.plan(case, CPU)
        return plan, method.Solver(plan, case, backend)

    made()
    (plan, solver), taken = traced(made)
    assert memory_needed(case, plan, backend).main == pytest.approx(taken, rel=0.1)
    state = sum(piece.values.nbytes for piece in solver.state().values())
    keys = sum(getattr(piece.selection, "keys", piece.values[:0]).nbytes for piece in solver.state().values())
    assert state <= plan.state_bytes() <= 1.2 * (state + keys)


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("hexahedra", "tetrahedra, one time step")])
def test_a_device_holds_what_was_predicted(name: str) -> None:
    case, backend = simulation(CASES[name] | {"compute.backend": "cuda"}), emulated_cuda("single")
    method = load_method(case.solver.method)
    plan = method.plan(case, backend)
    solver = method.Solver(plan, case, backend)
    assert memory_needed(case, plan, backend).device == pytest.approx(backend.allocated_bytes(), rel=0.1)
    assert solver.plan is plan


@pytest.mark.parametrize("method", METHODS)
def test_snapshots_and_peaks_count(method: str) -> None:
    bare = simulation({"solver": {"method": method, "spacing": 200}})
    changes = {"output.snapshots": {"interval": 0.1, "plane": {"z": 0}}, "output.peak_motion": True}
    full = bare.with_overrides(changes)
    plan = load_method(method).plan(full, CPU)
    needs = [memory_needed(one, plan, CPU).main for one in (bare, full)]
    assert needs[1] > needs[0] + 20 * plan.snapshot_point_count(full.output.snapshots[0])
