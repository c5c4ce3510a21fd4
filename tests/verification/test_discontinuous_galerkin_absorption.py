"""What comes back from the absorbing layer of tetrahedra and from bare faces, against a much larger box."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lithowave as lw
from verification_tools import make, record, relative_l2, velocities

VP, VS, RHO, FREQUENCY = 6000.0, 3464.0, 2700.0, 2.0
ORDER = 5
SPACING = ORDER * VS / FREQUENCY / 7
# Beside the east side, at near normal and at grazing incidence.
NORMAL = [[2200.0, 0.0, -1000.0], [2200.0, 0.0, 0.0]]
GRAZING = [[2200.0, 5500.0, -1000.0], [2200.0, 5500.0, 0.0]]


def beside(margin: int, absorption: str) -> lw.Simulation:
    """A flat box around a shallow source, larger on five sides by so many cubes."""
    m = margin * SPACING
    return lw.Simulation(
        domain={
            "x": [-2 * SPACING - m, 2 * SPACING + m], "y": [-2 * SPACING - m, 5 * SPACING + m],
            "z": [-3 * SPACING - m, 0],
        },
        boundaries={"absorption": absorption},
        material={"homogeneous": {"vp": VP, "vs": VS, "rho": RHO}},
        sources=[
            {
                "position": [100, 200, -1500],
                "moment_tensor": {"xx": 1e15, "yy": -0.5e15, "zz": 0.5e15, "xy": 0.4e15, "xz": 0.8e15, "yz": -0.6e15},
                "time_function": {"gaussian": {"sigma": 0.2, "delay": 0.8}},
            }
        ],
        receivers=[{"name": f"R{n}", "position": p} for n, p in enumerate(NORMAL + GRAZING)],
        duration=4.0,
        solver={
            "method": "discontinuous_galerkin", "order": ORDER, "max_frequency": FREQUENCY, "spacing": SPACING,
            "refine_sources": False, "local_time_steps": False,
        },
        output={"sampling_interval": 0.02},
    )  # fmt: skip


@pytest.mark.slow
def test_what_comes_back() -> None:
    """Measured: 37% from bare faces, 0.46% from the layer (normal 0.45%, grazing 0.56%)."""
    truth = velocities(beside(7, "stacey"))[1]
    found = {}
    for name in ("stacey", "auto"):
        computed = velocities(beside(0, name))[1]
        found[name] = {
            "normal": relative_l2(computed[:2], truth[:2]), "grazing": relative_l2(computed[2:], truth[2:]),
            "all": relative_l2(computed, truth),
        }  # fmt: skip
        record(f"tetrahedra_sides_{name}", **found[name])
    assert found["stacey"]["all"] > 0.3
    assert found["auto"]["normal"] <= 0.006
    assert found["auto"]["grazing"] <= 0.008
    assert found["auto"]["all"] <= 0.006


def thin_box(order: int, source: dict[str, Any]) -> lw.Simulation:
    """A long thin box of vp / vs = 4, along whose sides waves graze, with a free surface."""
    return lw.Simulation(
        domain={"x": [0, 3000], "y": [0, 900], "z": [-900, 0]},
        material={"homogeneous": {"vp": 4000, "vs": 1000, "rho": 2200}},
        sources=[{"position": [330, 210, -170], **source}],
        receivers=[],
        duration=300.0,
        solver={
            "method": "discontinuous_galerkin", "spacing": 450.0, "order": order, "max_frequency": order / 3.6,
            "refine_sources": False, "local_time_steps": False,
        },
    )  # fmt: skip


@pytest.mark.parametrize(
    ("steps", "left"),
    [pytest.param(3_000, 2e-4, id="some"), pytest.param(20_000, 1.2e-8, marks=pytest.mark.slow, id="many")],
)
def test_the_waves_go_and_do_not_come_back(steps: int, left: float) -> None:
    """Measured at order 3: 9e-5 of the largest velocity after 3,000 steps, 6e-9 after 20,000."""
    force = {"force": [1e12, 2e12, 3e12], "time_function": {"ricker": {"frequency": 0.6, "delay": 2.0}}}
    _, solver = make(thin_box(3, force))
    speeds = []
    for step in range(steps):
        solver.advance(step)
        if step % 50 == 49:
            speeds.append(solver.largest_velocity())
    found = np.array(speeds) / max(speeds)
    record(f"tetrahedra_quiet_{steps}", at_end=float(found[-1]), steps=steps)
    assert found[-1] < left
    half = len(found) // 2
    assert found[half:].max() <= found[:half].max()
