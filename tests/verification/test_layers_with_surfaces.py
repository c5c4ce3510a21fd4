"""Layers with gradients and surfaces: travel times along circular rays, and a basin by all three methods."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

import lithowave as lw
from verification_tools import record, relative_l2, velocities

DELAY = 0.35


def turning_time(source: np.ndarray, receiver: np.ndarray, speed: float, gradient: float) -> float:
    """Travel time, s, in a medium whose velocity is speed - gradient z, along an arc of a circle."""
    first, second = (speed - gradient * place[2] for place in (source, receiver))
    distance2 = ((source - receiver) ** 2).sum()
    return float(np.arccosh(1.0 + gradient**2 * distance2 / (2.0 * first * second)) / gradient)


def test_travel_times_in_a_gradient_are_those_of_circular_rays() -> None:
    """Peaks of the displacement of P waves from an explosion, in a layer with vp = 1600 + 1.2 d."""
    source = np.array([-700.0, 20.0, -250.0])
    places = np.array([[600.0, 30.0, -230.0], [500.0, -200.0, -700.0], [600.0, -150.0, -900.0]])
    simulation = lw.Simulation(
        domain={"x": [-900, 800], "y": [-400, 400], "z": [-1100, 0]},
        boundaries={"top": "absorbing"},
        material={
            "layers": [{"top": 0, "vp": 1600, "vs": 900, "rho": 2000, "gradient": {"vp": "1.2 1/s", "vs": 0.6}}]
        },
        sources=[
            {
                "position": source.tolist(),
                "moment_tensor": {"xx": 1e14, "yy": 1e14, "zz": 1e14},
                "time_function": {"gaussian": {"sigma": 0.05, "delay": DELAY}},
            }
        ],
        receivers=[{"name": f"R{n}", "position": place.tolist()} for n, place in enumerate(places)],
        duration=1.4,
        solver={"method": "finite_difference", "spacing": 25.0},
        compute={"backend": "cpu", "precision": "single"},
        output={"sampling_interval": 0.005},
    )
    time, traces = velocities(simulation)
    moved = np.cumsum(traces, axis=2)
    along = (places - source) / np.linalg.norm(places - source, axis=1)[:, None]
    pulses = np.einsum("rct,rc->rt", moved, along)
    errors = []
    for place, pulse in zip(places, pulses, strict=True):
        at = int(pulse.argmax())
        left, middle, right = pulse[at - 1 : at + 2]
        peak = time[at] + 0.5 * (left - right) / (left - 2.0 * middle + right) * time[1]
        expected = turning_time(source, place, 1600.0, 1.2)
        errors.append((peak - DELAY) / expected - 1.0)
    straight = np.linalg.norm(places[0] - source) / (1600.0 + 1.2 * 240.0)
    assert turning_time(source, places[0], 1600.0, 1.2) < 0.975 * straight  # the ray turns below
    assert np.abs(errors).max() < 0.004


METHODS = ("finite_difference", "spectral_element", "discontinuous_galerkin")


def basement(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The floor of a basin, m, between 300 and 550 m deep, with slopes of up to 9 degrees."""
    return -300.0 - 250.0 * np.exp(-((x / 1300.0) ** 2) - (y / 1100.0) ** 2)


def basin(method: str) -> lw.Simulation:
    """A source in the basement below sediments; finite differences cut cells at the basement, elements follow it."""
    return lw.Simulation(
        domain={"x": [-1600, 1600], "y": [-1600, 1600], "z": [-1600, 0]},
        material={
            "layers": [
                {"top": 0, "vp": 2000, "vs": 1000, "rho": 2000},
                {"top": basement, "vp": 3400, "vs": 1900, "rho": 2400},
            ]
        },
        sources=[
            {
                "position": [-300, 200, -1150],
                "moment_tensor": {"xx": 1e15, "yy": -5e14, "zz": 3e14, "xz": 8e14, "xy": 4e14},
                "time_function": {"gaussian": {"sigma": 0.2, "delay": 0.8}},
            }
        ],
        receivers=[
            {"name": f"R{n}", "position": [x, y, 0]}
            for n, (x, y) in enumerate([(600, 300), (-1000, -800), (1200, -900), (0, 0)])
        ],
        duration=3.0,
        solver={"method": method, "max_frequency": 1.6},
        compute={"backend": "cpu"},
        output={"sampling_interval": 0.02},
    )


@pytest.mark.slow
def test_three_methods_agree_in_a_basin() -> None:
    """Velocities at the surface of a basin differ by less than 2.5% from method to method, at default resolution."""
    traces = {method: velocities(basin(method))[1] for method in METHODS}
    differences = {
        f"{one} - {other}": relative_l2(traces[one], traces[other]) for one, other in combinations(METHODS, 2)
    }
    record("basin", largest=max(differences.values()), relative_l2=differences)
    assert max(differences.values()) <= 0.0235
