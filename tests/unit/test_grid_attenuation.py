"""Mechanisms and fractions on the grid of finite differences, the choice of their storage, and what follows from it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lithowave as lw
from lithowave import InputError
from lithowave.backends import make_backend
from lithowave.mesh import Grid
from lithowave.rheology import QualityLaw, fit_body
from lithowave.solvers.finite_difference import (
    COMMON_RATE,
    LAST_CODE,
    NODES,
    FiniteDifferenceSolver,
    GridAttenuation,
    choose_attenuation,
    code_planes,
    line_weights,
    node_mechanism,
    plan,
    relaxation,
)

LOW = {"vp": 2000, "vs": 1000, "rho": 2000, "qp": 80, "qs": 40}
HIGH = {"vp": 4000, "vs": 2300, "rho": 2500, "qp": 200, "qs": 100}


def described(material: dict[str, Any] | None = None, **solver: Any) -> lw.Simulation:
    default = {"layers": [{"top": 0, **LOW}, {"top": -430, **HIGH}]}
    return lw.Simulation(
        domain={"x": [0, 1000], "y": [0, 1100], "z": [-1000, 0]},
        boundaries={"layer": {"cells": 5}},
        material=(material or default) | {"attenuation": {"band": [0.1, 2.0]}},
        sources=[],
        receivers=[],
        duration=1.0,
        solver={"spacing": 100, **solver},
        compute={"backend": "cpu", "precision": "double"},
    )


def codes_of(simulation: lw.Simulation) -> tuple[GridAttenuation, Grid, np.ndarray]:
    """Return the codes of the grid without its halo: (mechanisms, z, y, x)."""
    made = plan(simulation, make_backend("cpu", "double", 1))
    planes = np.stack(list(code_planes(made.attenuation, simulation, made.grid, 0)), axis=1)
    return made.attenuation, made.grid, planes


def fractions(found: GridAttenuation, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    unit = found.largest / LAST_CODE
    return unit * (codes & LAST_CODE), unit * (codes >> 16)


def test_a_cell_with_an_interface_has_the_average_of_the_compliances():
    """The interface at -430 m leaves 20 m of the cell around -400 m below it."""
    found, grid, codes = codes_of(described(memory_variables="full"))
    body, material = found.body, found.anelasticity.material
    _, shear = fractions(found, codes)
    soft, stiff = (1.0 / (layer.rho * layer.vs**2) for layer in material.layers)
    weights = body.weights(np.array([1 / 40, 1 / 100]))
    expected = (0.8 * soft * weights[:, 0] + 0.2 * stiff * weights[:, 1]) / (0.8 * soft + 0.2 * stiff)
    here = np.abs(grid.nodes(2) + 400.0).argmin()
    assert np.abs(shear[:, here, 3, 4] - expected).max() < 4e-5 * found.largest


def test_coarse_nodes_have_mechanisms_by_global_parity_and_layers_a_common_one():
    found, grid, codes = codes_of(described(memory_variables="coarse"))
    _, shear = fractions(found, codes)
    level = np.abs(grid.nodes(2) + 900.0).argmin()
    loss = np.array(1 / 100)
    for k, j, i in np.ndindex(2, 2, 2):
        place = (level + k - 1, 8 + j, 9 + i)
        expected = found.fraction(node_mechanism(*place), loss)
        assert shear[0][place] == pytest.approx(expected, abs=4e-5 * found.largest)
        assert not codes[0][place] & COMMON_RATE
    for place in ((level, 8, 4), (level, 2, 9), (3, 8, 9), (level, 8, grid.shape[0] - 1)):
        assert codes[0][place] & COMMON_RATE
        assert shear[0][place] == pytest.approx(found.fraction(NODES, loss), abs=4e-5 * found.largest)


def test_gridded_quality_factors_are_those_at_the_nodes():
    def function(x: Any, y: Any, z: Any) -> tuple[Any, ...]:
        qs = 40.0 + 0.05 * x - 0.02 * z
        return 3000.0 + 0 * x, 1700.0 + 0 * x, 2300.0 + 0 * x, 2.0 * qs, qs

    found, grid, codes = codes_of(described({"function": function}, memory_variables="full"))
    bulk, shear = fractions(found, codes)
    x, y, z = (grid.nodes(axis)[index] for axis, index in enumerate((8, 7, 9)))
    for values, weights in zip((bulk, shear), found.anelasticity.weights(x, y, z), strict=True):
        assert np.abs(values[:, 9, 7, 8] - weights).max() < 4e-5 * found.largest


def test_the_mean_of_eight_nodes_has_the_modulus_of_the_body():
    """To second order in 1/Q; the fit leaves less than 2% of the attenuation for Q = 20."""
    for loss, limit in ((0.05, 0.02), (0.01, 0.005)):
        body = fit_body(QualityLaw(), (0.05, 5.0), NODES, (0.01, 0.05))
        found = GridAttenuation(body, True, loss, None)
        omega = 2 * np.pi * np.geomspace(0.05, 5.0, 40)
        parts = body.rates / (body.rates + 1j * omega[:, None])
        parts = parts * [float(found.fraction(number, np.array(loss))) for number in range(NODES)]
        mean = parts.mean(axis=1)
        variance = (parts**2).mean(axis=1) - mean**2
        target = relaxation(omega, body.rates, body.weights(loss))
        assert np.abs((mean + 0.5 * variance) / target - 1).max() < limit


@pytest.mark.parametrize(("qs", "mode"), [(20.1, "coarse"), (19.9, "full")])
def test_auto_is_coarse_unless_attenuation_is_strong(qs, mode):
    made = plan(described({"homogeneous": HIGH | {"qs": qs, "qp": 2 * qs}}), make_backend("cpu", "double", 1))
    assert made.summary()["memory_variables"] == mode
    assert made.attenuation.body.mechanisms == (8 if mode == "coarse" else 3)


def test_coarse_is_refused_where_a_mechanism_would_remove_all_stiffness():
    with pytest.raises(InputError, match="solver.memory_variables: coarse is not possible with the quality factor 2"):
        choose_attenuation(described({"homogeneous": HIGH | {"qs": 2, "qp": 4}}, memory_variables="coarse"))


def test_coarse_with_strong_attenuation_is_warned_about():
    texts = []
    for quality in (19, 21):
        simulation = described({"homogeneous": HIGH | {"qs": quality, "qp": 40}}, memory_variables="coarse")
        texts.append(plan(simulation, make_backend("cpu", "double", 1)).warnings(simulation))
    assert [sum("memory_variables: coarse" in text for text in some) for some in texts] == [1, 0]


def test_memory_of_the_plan_is_that_of_the_arrays():
    for mode in ("coarse", "full"):
        simulation = described(memory_variables=mode)
        backend = make_backend("cpu", "double", 1)
        made = plan(simulation, backend)
        solver = FiniteDifferenceSolver(made, simulation, backend)
        arrays = [*solver.fields_by_name.values(), *solver.material.arrays.values(), solver.material.fractions]
        layers = sum(one.nbytes for kind in solver.step.memory.values() for one in kind)
        assert made.memory_bytes(backend) == sum(array.nbytes for array in arrays) + layers
        assert made.state_bytes() == sum(array.nbytes for array in solver.fields_by_name.values()) + layers


@pytest.mark.parametrize("position", [20.0, 20.3, 20.5, 23.97])
def test_balanced_weights(position):
    """Equal sums at even and odd points, and exact up to degree 5."""
    lines = line_weights(np.array([position]), 60, balanced=True)
    index, weight = lines.first[0] + np.arange(lines.count[0]), lines.used()[0]
    assert np.sum(weight * (-1.0) ** index) == pytest.approx(0, abs=1e-12)
    for degree in range(6):
        assert np.sum(weight * (index - position) ** degree) == pytest.approx(float(degree == 0), abs=1e-9)
    assert np.abs(weight).max() < 1.0
