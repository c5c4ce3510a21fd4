"""Weights of receivers and forces of finite differences, against stored readings of an implementation point by point.

``python tests/integration/test_point_weights.py`` rewrites the readings.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lithowave as lw
from lithowave.solvers.finite_difference import STRESSES, InterfaceReading, PointWeights, ReceiverList, lines_of
from lithowave.solvers.finite_difference.law import VELOCITIES
from verification_tools import make

STORED = Path(__file__).parents[1] / "data" / "point_weights.npz"
SOURCE = [20.0, 30.0, -60.0]
LAYERS = [
    {"top": 0, "vp": 2500, "vs": 1300, "rho": 2100},
    {"top": -530, "vp": 4000, "vs": 2300, "rho": 2500},
    {"top": -605, "vp": 5000, "vs": 2900, "rho": 2700},
]
RIGID = dict.fromkeys(("x_min", "x_max", "y_min", "y_max", "z_min", "z_max"), "rigid")


def graded(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, ...]:
    """A smooth medium with an interface that dips."""
    vs = 1500 + 200 * np.sin(x / 300) + 100 * np.cos(y / 400) - 0.5 * z + np.where(z < -400 - 0.1 * x, 900, 0)
    return 1.8 * vs, vs, 2300 + 0 * vs


CASES: dict[str, dict[str, Any]] = {
    "rigid": {"material": {"layers": LAYERS}, "boundaries": RIGID},
    "absorbing": {"material": {"layers": LAYERS}, "boundaries": {"z_max": "absorbing", "x_min": "rigid"}},
    "function": {"material": {"function": graded}},
    "coarse": {
        "material": {"layers": [one | {"qp": 60, "qs": 40} for one in LAYERS], "attenuation": {"band": [0.2, 5]}},
        "solver": {"memory_variables": "coarse"},
    },
    "order 8": {"material": {"layers": LAYERS[1:2]}, "solver": {"order": 8}},
    "anisotropic": {"material": {"layers": [LAYERS[0] | {"anisotropy": {"epsilon": 0.1}}, *LAYERS[1:]]}},
}


def solver_of(case: str) -> Any:
    """Return the solver of a box of 20 x 20 x 20 cells with a shallow source."""
    keys = CASES[case]
    layers = keys["material"].get("layers")
    material = keys["material"] | ({"layers": [layers[0] | {"top": 0}, *layers[1:]]} if layers else {})
    simulation = lw.Simulation(
        domain={"x": [-400, 600], "y": [-500, 500], "z": [-1000, 0]}, duration=1.0,
        sources=[{"position": SOURCE, "force": [1e10] * 3, "time_function": {"gaussian": {"sigma": 0.2, "delay": 1}}}],
        receivers=[{"network": "XX", "name": "A", "position": [100, 100, 0]}],
        **keys | {"material": material, "solver": {"spacing": 50.0, "max_frequency": 3.0} | keys.get("solver", {})},
    )  # fmt: skip
    return make(simulation)[1]


def places(count: int = 30) -> np.ndarray:
    """Return places at nodes, in corners, on the surface, near the source and beside the interfaces."""
    rng = np.random.default_rng(7)
    found = rng.uniform([-400, -500, -1000], [600, 500, 0], (count, 3))
    found[::5] = np.rint(found[::5] / 25) * 25
    found[1::7, 2] = 0
    found[2::5, 2] = -rng.uniform(0, 300, len(found[2::5]))
    found[3::6] = np.minimum(np.array(SOURCE) + rng.uniform(-120, 120, (len(found[3::6]), 3)), [np.inf, np.inf, 0])
    found[4::6, 2] = rng.uniform(-650, -480, len(found[4::6]))
    found[5:10] = [[-400, -500, 0], [600, 500, 0], [600, -500, -0.4], [-390, -480, -530], [-400, 500, -1000]]
    return found


def readings(stencil: Any, weights: PointWeights) -> np.ndarray:
    """Return what the weights read from fields that vary irregularly from node to node."""
    values = np.cos(stencil.nodes(weights.index) @ np.array([12.9898, 78.233, 37.719]) + weights.field)
    return np.bincount(weights.owner, values * weights.weight, weights.begin.size - 1)


def all_readings(solver: Any) -> np.ndarray:
    """Return the readings of velocities, stresses and forces (12, n), and sums of the weights of moments (2, n)."""
    stencil, positions, columns = solver.stencil, places(), solver.receivers._columns
    clearance = solver._clearance(positions)
    sides, plain = (InterfaceReading(columns, stencil, positions, stress) for stress in (True, False))
    received = stencil.receivers(VELOCITIES + STRESSES, positions, clearance, sides)
    found = [readings(stencil, received).reshape(-1, len(positions))]
    for name in VELOCITIES:
        force = stencil.sources(name, positions, plain)
        found.append(readings(stencil, force)[None] * solver.grid.spacing**3)
    for interfaces in (None, columns.interfaces(positions).z):
        first, weight = lines_of(stencil, positions, interfaces)
        values = np.sin(78.233 * (first[..., None] + np.arange(weight.shape[-1])) + np.arange(6).reshape(3, 2, 1))
        found.append((values * weight).sum(axis=-1).prod(axis=(1, 2))[None])
    return np.concatenate(found)


@pytest.mark.parametrize("case", CASES)
def test_weights_are_those_of_single_points(case: str) -> None:
    with np.load(STORED) as stored:
        expected = stored[case]
    np.testing.assert_allclose(all_readings(solver_of(case)), expected, rtol=1e-9, atol=1e-11)


def test_weights_do_not_depend_on_other_points() -> None:
    """In a subdomain, too."""
    solver, positions = solver_of("function"), places()
    stencil = solver.stencil
    stencil.own = [(18, 30), (0, 25), (15, 31)]
    clearance = solver._clearance(positions)
    sides = InterfaceReading(solver.receivers._columns, stencil, positions, False)
    together = stencil.receivers(VELOCITIES, positions, clearance, sides)
    assert stencil.is_own(stencil.nodes(together.index)).all()
    sizes = np.diff(together.begin).reshape(3, -1)
    assert (sizes == 0).any() and (sizes > 0).any()
    for number, position in enumerate(positions):
        side = InterfaceReading(solver.receivers._columns, stencil, position[None], False)
        alone = stencil.receivers(VELOCITIES, position[None], clearance[number : number + 1], side)
        for component in range(3):
            first = together.begin[component * len(positions) + number]
            some = slice(first, first + sizes[component, number])
            one = slice(*alone.begin[component : component + 2])
            assert np.array_equal(together.index[some], alone.index[one])
            np.testing.assert_allclose(together.weight[some], alone.weight[one], rtol=1e-12, atol=1e-15)


def test_many_receivers_take_little_time() -> None:
    """0.1 ms of CPU time each; point by point they took 2.2 ms."""
    solver = solver_of("function")
    positions = np.random.default_rng(1).uniform([-400, -500, -300], [600, 500, 0], (4000, 3))
    positions[::2, 2] = 0.0
    begin = time.process_time()
    ReceiverList(solver.backend, solver.stencil, positions, solver._clearance(positions)).start(1, stress=False)
    assert time.process_time() - begin < 0.5e-3 * len(positions)


if __name__ == "__main__":
    np.savez_compressed(STORED, **{case: all_readings(solver_of(case)) for case in CASES})
