"""Source and receiver may be exchanged: grids and spectral elements."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import lithowave as lw
from slow_variants import slow_except
from verification_tools import record, relative_l2, velocities

SIGMA = 0.09
PULSE = {"gaussian": {"sigma": SIGMA, "delay": 0.54}}
MATERIAL = {"layers": [
    {"top": 0, "vp": 3000, "vs": 1500, "rho": 2200}, {"top": -430, "vp": 5000, "vs": 2900, "rho": 2600},
]}  # fmt: skip
# Solver, name of the record, largest difference.
SOLVERS: dict[str, tuple[dict[str, Any], str, float]] = {
    "order 4": ({"order": 4, "spacing": 100.0, "max_frequency": 3.0}, "reciprocity_{}_order_4", 1e-12),
    "order 8": ({"order": 8, "spacing": 100.0, "max_frequency": 3.0}, "reciprocity_{}_order_8", 1e-7),
    "degree 4": (
        {"method": "spectral_element", "degree": 4, "spacing": 500.0, "max_frequency": 2.5},
        "element_reciprocity_{}", 1e-12,
    ),
}  # fmt: skip
PLACES = {
    "deep": ([-310.0, 190.0, -770.0], [420.0, -260.0, -540.0]),
    "one on the surface": ([-310.0, 190.0, 0.0], [420.0, -260.0, -540.0]),
    "both near the surface": ([-310.0, 190.0, -37.0], [420.0, -260.0, -3.0]),
    "at vertices of elements": ([0.0, 0.0, 0.0], [500.0, -500.0, -430.0]),
}


def box(solver: str, sources: list, receivers: list, interval: float = 0.02) -> lw.Simulation:
    return lw.Simulation(
        domain={"x": [-1000, 1000], "y": [-1000, 1000], "z": [-1500, 0]}, material=MATERIAL, sources=sources,
        receivers=[{"name": f"R{n}", "position": list(place)} for n, place in enumerate(receivers)],
        boundaries={"absorption": "stacey"} if solver.startswith("degree") else {}, duration=2.0,
        solver=SOLVERS[solver][0], output={"sampling_interval": interval},
        compute={"precision": "double", "threads": 1},
    )  # fmt: skip


def force(place: list[float], values: Any) -> dict[str, Any]:
    return {"position": list(place), "force": np.asarray(values, float).tolist(), "time_function": PULSE}


USUAL = [("order 8", "both near the surface"), ("degree 4", "one on the surface")]


@pytest.mark.parametrize(("solver", "places"), slow_except(USUAL, product(SOLVERS, PLACES)))
def test_two_forces(solver: str, places: str) -> None:
    """Component a of the response at B to force b at A is component b at A to force a at B."""
    first, second = PLACES[places]
    a, b = 0, 2
    traces = []
    for source, receiver, axis, component in ((first, second, a, b), (second, first, b, a)):
        simulation = box(solver, [force(source, 1e10 * np.eye(3)[axis])], [receiver])
        traces.append(velocities(simulation)[1][0, component])
    error, (_, name, limit) = relative_l2(*traces), SOLVERS[solver]
    record(name.format(places.replace(" ", "_")), relative_l2=error, limit=limit)
    assert np.abs(traces[0]).max() > 0
    assert error <= limit


@pytest.mark.slow
def test_a_strain_and_a_force() -> None:
    """The strain at A from a force at B, as differences of velocity, is the velocity at B from a moment at A."""
    first, second = [-310.0, 190.0, -440.0], [420.0, -260.0, 0.0]
    moment = {"position": first, "moment_tensor": {"xx": 1e13}, "time_function": PULSE}
    # A moment-rate pulse of unit area is a moment that rises to 1; the force has the pulse's amplitude.
    area, near = SIGMA * np.sqrt(2 * np.pi), 5.0
    time, from_moment = velocities(box("order 8", [moment], [second], 0.004))
    sides = [[first[0] + sign * near, *first[1:]] for sign in (1, -1)]
    _, from_force = velocities(box("order 8", [force(second, [0, 0, 1e10])], sides, 0.004))
    strain = (from_force[0, 0] - from_force[1, 0]) / (2 * near)
    # d/dt of the velocity from the moment is the strain rate from the force, up to strength.
    predicted = np.gradient(from_moment[0, 2], time) * 1e10 * area / 1e13
    assert relative_l2(predicted[2:-2], strain[2:-2]) < 0.02
