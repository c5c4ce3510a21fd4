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
VTI = {"epsilon": 0.15, "delta": 0.08, "gamma": 0.1}


def beside(
    margin: int, absorption: str, duration: float = 4.0, anisotropy: dict[str, float] | None = None
) -> lw.Simulation:
    """A flat box around a shallow source, larger on five sides by so many cubes."""
    m = margin * SPACING
    return lw.Simulation(
        domain={
            "x": [-2 * SPACING - m, 2 * SPACING + m], "y": [-2 * SPACING - m, 5 * SPACING + m],
            "z": [-3 * SPACING - m, 0],
        },
        boundaries={"absorption": absorption},
        material={"homogeneous": {"vp": VP, "vs": VS, "rho": RHO, "anisotropy": anisotropy}},
        sources=[
            {
                "position": [100, 200, -1500],
                "moment_tensor": {"xx": 1e15, "yy": -0.5e15, "zz": 0.5e15, "xy": 0.4e15, "xz": 0.8e15, "yz": -0.6e15},
                "time_function": {"gaussian": {"sigma": 0.2, "delay": 0.8}},
            }
        ],
        receivers=[{"name": f"R{n}", "position": p} for n, p in enumerate(NORMAL + GRAZING)],
        duration=duration,
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


@pytest.mark.slow
def test_what_comes_back_in_an_anisotropic_medium() -> None:
    """Measured: 0.38%; with a layer of one cell 1.6%, and 5.5% if it does not absorb."""
    truth = velocities(beside(6, "stacey", 3.2, VTI))[1]
    found = {}
    for cells in (None, 1):
        simulation = beside(0, "layer", 3.2, VTI).with_overrides({"boundaries.layer.elements": cells})
        found[cells] = relative_l2(velocities(simulation)[1], truth)
    record("tetrahedra_sides_anisotropic", all=found[None], one_cell=found[1])
    assert found[None] <= 0.005
    assert found[1] <= 0.0165


def thin_box(ends: tuple[float, float, float], material: dict[str, Any]) -> lw.Simulation:
    """A long thin box, along whose sides waves graze, with a free surface, at order 3."""
    force = {"force": [1e12, 2e12, 3e12], "time_function": {"ricker": {"frequency": 0.6, "delay": 2.0}}}
    order = 3
    return lw.Simulation(
        domain={"x": [0, ends[0]], "y": [0, ends[1]], "z": [ends[2], 0]},
        material=material,
        sources=[{"position": [330, 210, -170], **force}],
        receivers=[],
        duration=300.0,
        solver={
            "method": "discontinuous_galerkin", "spacing": 450.0, "order": order, "max_frequency": order / 3.6,
            "refine_sources": False, "local_time_steps": False,
        },
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("steps", "left"),
    [pytest.param(3_000, 2e-4, id="some"), pytest.param(20_000, 1.2e-8, id="many")],
)
def test_the_waves_go_and_do_not_come_back(steps: int, left: float) -> None:
    """Measured: 9e-5 of the largest velocity after 3,000 steps, 6e-9 after 20,000."""
    found = speeds(thin_box((3000, 900, -900), {"homogeneous": {"vp": 4000, "vs": 1000, "rho": 2200}}), steps)
    record(f"tetrahedra_quiet_{steps}", at_end=float(found[-1]), steps=steps)
    assert found[-1] < left
    half = len(found) // 2
    assert found[half:].max() <= found[:half].max()


def speeds(simulation: lw.Simulation, steps: int) -> np.ndarray:
    """Largest velocity after each 50 steps, as a fraction of the largest one."""
    _, solver = make(simulation)
    found = []
    for step in range(steps):
        solver.advance(step)
        if step % 50 == 49:
            found.append(solver.largest_velocity())
    return np.array(found) / max(found)


ROCK = {"vp": 4000, "vs": 2300, "rho": 2200}
# The orthorhombic one: Schoenberg & Helbig (1997), Geophysics 62, 1954-1974, at another density.
MODULI = [19.8, 7.92, 4.95, 0, 0, 0, 21.648, 5.28, 0, 0, 0, 13.0625, 0, 0, 0, 4.4, 0, 0, 3.52, 0, 4.8004]
ANISOTROPIC = {
    "vti": {**ROCK, "anisotropy": VTI},
    "hti": {**ROCK, "anisotropy": {**VTI, "axis": [1, 0, 0]}},
    "orthorhombic": {"rho": 2200, "stiffness": [f"{modulus} GPa" for modulus in MODULI]},
}


@pytest.mark.slow
@pytest.mark.parametrize("medium", ANISOTROPIC)
def test_waves_leave_an_anisotropic_medium_for_ever(medium: str) -> None:
    """Measured after 20,000 steps: 3.7e-10 (vti), 5.1e-10 (hti), 2.4e-10 (orthorhombic)."""
    found = speeds(thin_box((1800, 450, -450), {"homogeneous": ANISOTROPIC[medium]}), 20_000)
    record(f"tetrahedra_quiet_{medium}", at_end=float(found[-1]), steps=20_000)
    assert found[-1] < 2e-9
    half = len(found) // 2
    assert found[half:].max() < 1e-6
