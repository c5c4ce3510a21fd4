"""Material of media whose columns are all equal: CPU kernels store the rows once, and the results do not change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import lithowave as lw
from lithowave.backends import make_backend
from lithowave.solvers.finite_difference import FiniteDifferenceSolver, plan

CPU = make_backend("cpu", "single", 2)
SOFT, ROCK = {"vp": 2000, "vs": 1000, "rho": 2000}, {"vp": 4000, "vs": 2300, "rho": 2500}
PULSE = {"gaussian": {"sigma": 0.05, "delay": 0.1}}


def layered(order: int, lossy: bool, **changes: Any) -> lw.Simulation:
    """Two layers of rock, absorbing layers on five sides, and a source of each kind."""
    quality = [{"qp": 80, "qs": 40}, {"qp": 200, "qs": 100}] if lossy else [{}, {}]
    material: dict[str, Any] = {"layers": [{"top": 0, **SOFT, **quality[0]}, {"top": -430, **ROCK, **quality[1]}]}
    if lossy:
        material["attenuation"] = {"band": [0.1, 2.0]}
    return lw.Simulation(
        domain={"x": [0, 1000], "y": [0, 1300], "z": [-1000, 0]},
        boundaries={"layer": {"cells": 4}},
        material=material,
        sources=[
            {"position": [510, 640, -320], "moment_tensor": {"xy": 1e12, "zz": 2e12}, "time_function": PULSE},
            {"position": [930, 1290, -500], "force": [1e6, 2e6, 3e6], "time_function": PULSE},
        ],
        receivers=[],
        duration=1.0,
        solver={"order": order, "spacing": 100, **changes},
        compute={"backend": "cpu"},
    )


@pytest.mark.parametrize(
    ("law", "order", "lossy"),
    [("isotropic", 4, False), ("transverse", 4, False), ("transverse", 4, True), ("orthorhombic", 4, False)],
)
@pytest.mark.filterwarnings("ignore::lithowave.LithowaveWarning")
def test_results_are_those_of_all_rows(law: str, order: int, lossy: bool) -> None:
    simulation = layered(order, lossy, effective_medium=law)
    made = plan(simulation, CPU)
    assert made.equal_columns
    whole = replace(made, equal_columns=False)
    first, second = (FiniteDifferenceSolver(one, simulation, CPU) for one in (made, whole))
    shape = made.padded_shape()
    assert first.material.arrays["density"].shape == (shape[0], made.halo + 2, shape[2])
    saved = sum(array.nbytes for array in second.material.arrays.values()) * (1 - (made.halo + 2) / shape[1])
    assert whole.memory_bytes(CPU) - made.memory_bytes(CPU) == pytest.approx(saved)
    places = [(2, 2, 2), (5, shape[1] - 4, 7), (7, shape[1] - 3, 9), (9, shape[1] - 2, 9)]
    assert [first.material.describe(*place) for place in places] == [second.material.describe(*one) for one in places]
    random = np.random.default_rng(1)
    inside = (slice(made.halo, -made.halo),) * 3
    for name, field in first.fields_by_name.items():
        for solver in (first, second):
            solver.fields_by_name[name][inside] = random.standard_normal(field[inside].shape) if solver is first else 0
        second.fields_by_name[name][:] = field
    for step in range(4):
        first.advance(step)
        second.advance(step)
    expected = second.state()
    for name, piece in first.state().items():
        assert np.abs(piece.values).max() > 0 and np.array_equal(piece.values, expected[name].values), name
