"""Receivers in water just above a sea floor or a rigid floor, where the vertical velocity is small."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lithowave as lw
from slow_variants import slow_except
from verification_tools import record, relative_l2, velocities

HEIGHTS = (0.001, 2.0, 10.0, 30.0, 60.0)  # m
ROCK = {"vp": 4000, "vs": 2300, "rho": 2500}


def sea(points: float, rigid: bool = False, **changes: Any) -> np.ndarray:
    """Velocities (receivers, 3, n) above the floor at z = -500 m, and on it, with an explosion 350 m above."""
    layers = [{"top": 0, "vp": 1500, "vs": 0, "rho": 1000}, *([] if rigid else [{"top": -500, **ROCK}])]
    heights = enumerate((*HEIGHTS, 0.0))
    description = {
        "domain": {"x": [-400, 440], "y": [-400, 400], "z": [-500 if rigid else -1000, 0]},
        "boundaries": {"absorption": "stacey"} | ({"z_min": "rigid"} if rigid else {}),
        "material": {"layers": layers}, "duration": 0.75,
        "sources": [{
            "position": [0, 0, -150], "moment_tensor": {"xx": 1e13, "yy": 1e13, "zz": 1e13},
            "time_function": {"gaussian": {"sigma": 0.06, "delay": 0.36}},
        }],
        "receivers": [
            {"name": f"R{number}", "position": [40.0, 12.0, height - 500.0]} for number, height in heights
        ],
        "solver": {"method": "spectral_element", "max_frequency": 6.0, "points_per_wavelength": points},
        "output": {"sampling_interval": 0.01}, "compute": {"precision": "double"},
    }  # fmt: skip
    return velocities(lw.Simulation(**description | changes))[1]


def test_vertical_velocity_above_a_hard_sea_floor() -> None:
    """The normal velocity is continuous, and as accurate as that of the rock; the slope of the potential is 20% off."""
    coarse, fine = sea(5.0), sea(10.0)
    errors = [relative_l2(one[2], other[2]) for one, other in zip(coarse, fine, strict=True)]
    record("above_a_sea_floor", heights=[*HEIGHTS, 0.0], relative_l2=errors, limit=0.012)
    assert max(errors) < 0.012
    assert relative_l2(coarse[0, 2], coarse[-1, 2]) < 1e-3  # 1 mm above the floor, and on it in the rock


def test_vertical_velocity_above_a_rigid_floor() -> None:
    coarse, fine = sea(5.0, rigid=True), sea(10.0, rigid=True)
    assert np.abs(coarse[0, 2]).max() < 1e-4 * np.abs(coarse[3, 2]).max()
    assert max(relative_l2(one[2], other[2]) for one, other in zip(coarse[1:5], fine[1:5], strict=True)) < 0.015


@pytest.mark.parametrize("degree", slow_except([3], [3, 5]))
def test_velocity_normal_to_a_sloping_sea_floor(degree: int) -> None:
    """Of elements that are not rectangular, and of odd degree; the velocity along the floor jumps."""
    def floor(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return -500.0 + 0.3 * x + 0.1 * y

    normal = np.array([-0.3, -0.1, 1.0]) / np.linalg.norm([-0.3, -0.1, 1.0])
    place = np.array([40.0, 12.0, -500.0 + 0.3 * 40.0 + 0.1 * 12.0])
    receivers = [
        {"name": name, "position": [*place[:2], place[2] + height]} for name, height in (("W", 1e-3), ("R", -1e-3))
    ]
    layers = [{"top": 0, "vp": 1500, "vs": 0, "rho": 1000}, {"top": floor, **ROCK}]
    solver = {"method": "spectral_element", "max_frequency": 6.0, "points_per_wavelength": 5.0, "degree": degree}
    water, rock = sea(5.0, material={"layers": layers}, receivers=receivers, solver=solver)
    assert relative_l2(normal @ water, normal @ rock) < 1e-3
    assert relative_l2(water[0], rock[0]) > 0.1
