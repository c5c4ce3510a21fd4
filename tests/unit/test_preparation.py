"""What a run computes before its first step: equal to plain formulas, and in time that is small next to one sort."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from lithowave import Simulation
from lithowave.backends import make_backend
from lithowave.solvers import load_method
from lithowave.solvers.spectral_element import (
    SpectralElementPlan,
    carried_moduli,
    choose_sets,
    distinct_moduli,
    layer_points,
)


def layered_plan(quality: bool = False, half: float = 3000.0, **solver: float) -> SpectralElementPlan:
    """A box of two layers with an absorbing layer."""
    losses = {"qp": 100, "qs": 50} if quality else {}
    layers = [
        {"top": 0, "vp": 3200, "vs": 1600, "rho": 2300, **losses},
        {"top": -1000, "vp": 5000, "vs": 2800, "rho": 2600, **losses},
    ]
    simulation = Simulation.model_validate({
        "schema_version": 1, "domain": {"x": [-half, half], "y": [-half, half], "z": [-half, 0]},
        "material": {"layers": layers}, "duration": 1.0,
        "sources": [{
            "position": [0, 0, -1500], "force": [0, 0, 1e9], "time_function": {"gaussian": {"sigma": 0.2, "delay": 1}},
        }],
        "receivers": [{"network": "XX", "name": "A", "position": [500, 0, 0]}],
        "solver": {"method": "spectral_element", "max_frequency": 2.0, **solver},
    })  # fmt: skip
    found: SpectralElementPlan = load_method("spectral_element").plan(simulation, make_backend("cpu", "single"))
    return found


def processor_time(call: Callable[[], object], repeats: int = 3) -> float:
    """The shortest processor time of a call, s, of all threads."""
    times = []
    for _ in range(repeats):
        begin = time.process_time()
        call()
        times.append(time.process_time() - begin)
    return min(times)


def test_cost_of_the_points_of_a_layer() -> None:
    plan = layered_plan(half=6000.0)
    layer_points(plan)  # compile
    numbers, sums = plan.numbers[plan.layer_masks > 0], np.zeros((plan.total_points, 3))
    one_sum = processor_time(lambda: np.add.at(sums, numbers, 1.0))
    # Measured: 4.3; sums over all elements of the layer, with the filters of each of them, took 18.
    assert processor_time(lambda: layer_points(plan)) < 8.0 * one_sum


def test_cost_of_attenuation() -> None:
    plan = layered_plan(quality=True, half=6000.0)
    every = np.arange(plan.element_count)

    def prepare() -> None:
        choose_sets(plan.mesh, plan.materials, 4)
        distinct_moduli(plan.mesh, plan.materials, 4, every, 1, np.float32)

    prepare()  # compile
    all_elements = processor_time(lambda: carried_moduli(plan.mesh, plan.materials, 4, every, 1))
    # Measured: 0.1; at least 2 with the moduli of each element, once for the choice and once for the tables.
    assert processor_time(prepare) < 0.5 * all_elements
