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
    places = np.array([[600.0, 30.0, -230.0], [500.0, -200.0, -700.0], [-150.0, 10.0, -900.0]])
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
        assert expected < 0.97 * np.linalg.norm(place - source) / 1900.0
        errors.append((peak - 0.5 * time[1] * 0 - DELAY) / expected - 1.0)
    print(errors)
    assert np.abs(errors).max() < 0.01
