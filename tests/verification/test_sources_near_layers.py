"""Moment tensors and forces near, on and at the corners of absorbing sides, against the exact motion of the full space.

The sources are up to 1.5 elements away from a layer, which begins farther outwards there.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lithowave as lw
from exact_solutions.full_space import full_space_force, full_space_moment
from slow_variants import slow_except

SOLID, WATER, SIGMA, DELAY = (3000.0, 1700.0, 2300.0), (1500.0, 0.0, 1000.0), 0.25, 1.25
GENERAL, EXPLOSION, FORCE = (1, -0.4, 0.2, 0.5, -0.7, 0.3), (1, 1, 1, 0, 0, 0), (1, -0.5, 0.8)
POSITIONS = {
    "side": (1000, 30, -970), "60 m": (940, 30, -970), "200 m": (30, 800, -970), "edge": (1000, -990, -1000),
    "corner": (970, -960, -1990), "bottom": (20, 0, -1960), "top": (0, 40, 0),
}  # fmt: skip
RECEIVERS = [(300, 0, -600), (200, 600, -1500), (-400, -500, -1000)]
SE, DG = METHODS = ("spectral_element", "discontinuous_galerkin")


def rate(time: np.ndarray) -> np.ndarray:
    """Moment rate of unit area."""
    return np.exp(-0.5 * ((time - DELAY) / SIGMA) ** 2) / (SIGMA * np.sqrt(2 * np.pi))


def slope(time: np.ndarray) -> np.ndarray:
    """Its derivative."""
    return -(time - DELAY) / SIGMA**2 * rate(time)


def pulse(time: np.ndarray) -> np.ndarray:
    """Time function of a force, with a peak of 1."""
    return np.exp(-0.5 * ((time - DELAY) / SIGMA) ** 2)


def motion_near_layer(
    method: str, source: tuple[float, ...], strength: tuple[float, ...], medium: tuple[float, ...], folder: Path
) -> tuple[np.ndarray, np.ndarray]:
    """Return the times and the motion, (receivers, 3, times), from a moment of 6 or a force of 3 components."""
    components: dict[str, Any] = {"force": [1e10 * one for one in strength]}
    if len(strength) == 6:
        values = (1e13 * one for one in strength)
        components = {"moment_tensor": dict(zip(("xx", "yy", "zz", "xy", "xz", "yz"), values, strict=True))}
    simulation = lw.Simulation(
        domain={"x": [-1000, 1000], "y": [-1000, 1000], "z": [-2000, 0]}, boundaries={"top": "absorbing"},
        material={"homogeneous": dict(zip(("vp", "vs", "rho"), medium, strict=True))},
        sources=[{
            "position": list(source), "time_function": {"gaussian": {"sigma": SIGMA, "delay": DELAY}}, **components,
        }],
        receivers=[{"name": f"R{number}", "position": list(one)} for number, one in enumerate(RECEIVERS)],
        duration=3.0, solver={"method": method, "max_frequency": 1.5}, output={"sampling_interval": 0.01},
    )  # fmt: skip
    records = simulation.run(output=folder / "run").seismograms
    return np.asarray(records.time), np.asarray(records.data)


def exact_motion(
    receiver: tuple[float, ...], source: tuple[float, ...], strength: tuple[float, ...], medium: tuple[float, ...],
    time: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """Return the motion in the full space; an explosion does not depend on vs."""
    vp, vs, rho = medium
    path = receiver, source
    if len(strength) == 3:
        return full_space_force(*path, [1e10 * one for one in strength], pulse, time, vp, vs, rho, "velocity")
    moment = [1e13 * one for one in strength]
    return full_space_moment(*path, moment, rate, time, vp, vs or vp / 2, rho, "velocity", derivative=slope)


def largest_error(
    method: str, source: tuple[float, ...], strength: tuple[float, ...], medium: tuple[float, ...], path: Path
) -> float:
    """Return the largest relative difference in the L2 norm of all receivers."""
    time, motion = motion_near_layer(method, source, strength, medium, path)
    exact = np.array([exact_motion(one, source, strength, medium, time) for one in RECEIVERS])
    return float((np.linalg.norm(motion - exact, axis=(1, 2)) / np.linalg.norm(exact, axis=(1, 2))).max())


MECHANISMS = {
    "tensor": (GENERAL, SOLID, 0.016), "explosion": (EXPLOSION, SOLID, 0.012),
    "explosion in water": (EXPLOSION, WATER, 0.012), "force": (FORCE, SOLID, 0.012),
}  # fmt: skip
USUAL = [
    *(("tensor", SE, place) for place in ("side", "60 m", "corner", "top")), ("tensor", DG, "60 m"),
    ("explosion", SE, "200 m"), ("explosion in water", SE, "edge"), ("force", SE, "side"),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::lithowave.LithowaveWarning")
@pytest.mark.parametrize(
    ("mechanism", "method", "place"), slow_except(USUAL, product(MECHANISMS, METHODS, POSITIONS))
)
def test_sources_near_layers(mechanism: str, method: str, place: str, tmp_path: Path) -> None:
    strength, medium, limit = MECHANISMS[mechanism]
    assert largest_error(method, POSITIONS[place], strength, medium, tmp_path) < limit
