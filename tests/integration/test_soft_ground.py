"""Soft ground over rock in absorbing layers: waves do not grow, and a planted growth ends the run with an error."""

from __future__ import annotations

import numpy as np
import pytest

import lithowave as lw
from verification_tools import make

EDGE, SOFT = 450.0, 300.0


def basin(method: str, duration: float, contrast: float = 3.0) -> lw.Simulation:
    """Soft ground of vp / vs = 4 over rock, in a box smaller than the longest waves."""
    return lw.Simulation(
        domain={"x": [-EDGE, EDGE], "y": [-EDGE, EDGE], "z": [-600, 0]},
        material={
            "layers": [
                {"top": 0, "vp": 1600, "vs": 400, "rho": 1800},
                {"top": -SOFT, "vp": 1160 * contrast, "vs": 400 * contrast, "rho": 2300},
            ]
        },
        sources=[
            {
                "position": [90, 180, -450], "double_couple": {"strike": 30, "dip": 60, "rake": 40, "mw": 3},
                "time_function": {"gaussian": {"sigma": 0.39, "delay": 2.34}},
            }
        ],
        receivers=[{"name": "R", "position": [200, 300, 0]}],
        duration=duration,
        solver={"method": method, "max_frequency": 1.0},
        output={"sampling_interval": 0.05},
    )  # fmt: skip


def largest_velocities(simulation: lw.Simulation) -> np.ndarray:
    """Largest velocity after each 100 steps of a run."""
    plan, solver = make(simulation)
    found = []
    for step in range(plan.schedule.steps):
        solver.advance(step)
        if step % 100 == 99:
            found.append(solver.largest_velocity())
    return np.array(found)


@pytest.mark.parametrize(
    ("method", "seconds", "left"),
    [
        pytest.param("finite_difference", 40, 1e-4, id="finite differences", marks=pytest.mark.slow),
        pytest.param("spectral_element", 40, 6e-3, id="spectral elements", marks=pytest.mark.slow),
    ],
)
def test_motion_leaves_soft_ground(method: str, seconds: float, left: float) -> None:
    found = largest_velocities(basin(method, seconds))
    assert found[-1] <= left * found.max()


def valley(ratio: float, seconds: float) -> lw.Simulation:
    """Soft ground of a given vp / vs over rock of eight times its vs, in a narrow valley between rigid walls."""
    wall = dict.fromkeys(("y_min", "y_max"), "rigid")
    layers = [
        {"top": 0, "vp": 400 * ratio, "vs": 400, "rho": 1800}, {"top": -400, "vp": 6400, "vs": 3200, "rho": 2300},
    ]  # fmt: skip
    simulation = basin("finite_difference", seconds)
    changes = {"domain": {"x": [-600, 600], "y": [-300, 300], "z": [-1200, 0]}, "boundaries": wall}
    return simulation.with_overrides({**changes, "material": {"layers": layers}, "receivers": []})


def thirds(ratio: float, seconds: float) -> np.ndarray:
    """Return the largest velocities in each third of the time, over the largest of all."""
    found = largest_velocities(valley(ratio, seconds))
    return np.array([part.max() for part in np.array_split(found / found.max(), 3)])


@pytest.mark.parametrize(
    ("ratio", "seconds"),
    [(6.0, 10.0), pytest.param(6.0, 20.0, marks=pytest.mark.slow), pytest.param(1.8, 20.0, marks=pytest.mark.slow)],
)
def test_waves_do_not_grow_at_a_contrast_of_eight(ratio: float, seconds: float) -> None:
    """Waves along the rigid walls leave slowly. Of the largest velocity, 0.012 remain in the second and 0.0085 in the
    last third of 10 s, 0.0088 and 0.0054 of 20 s; with vp / vs = 1.8, 0.0116 and 0.0101."""
    _, middle, last = thirds(ratio, seconds)
    assert last < 0.9 * middle and middle < 0.02


def over_water(simulation: lw.Simulation) -> lw.Simulation:
    """The same model below a sea."""
    given = [layer.model_dump(exclude_unset=True) for layer in simulation.material.layers or []]
    lower = [layer | {"top": layer["top"] - 100.0} for layer in given]
    return simulation.with_overrides({"material": {"layers": [{"top": 0, "vp": 1500, "vs": 0, "rho": 1000}, *lower]}})


@pytest.mark.parametrize(("method", "contrast"), [("finite_difference", 9.0), ("spectral_element", 4.0)])
def test_a_contrast_with_which_waves_may_grow_is_warned_about(method: str, contrast: float) -> None:
    """Layers of spectral elements are perfectly matched in models with fluids only."""
    simulation = basin(method, 5.0, contrast=contrast)
    if method == "spectral_element":
        assert not any("guided waves" in text for text in make(simulation)[0].warnings(simulation))
        simulation = over_water(simulation)
    texts = make(simulation)[0].warnings(simulation)
    assert any("guided waves may grow" in text and "layers[" in text for text in texts)
    mild = basin("finite_difference", 5.0)
    assert not any("guided waves" in text for text in make(mild)[0].warnings(mild))


@pytest.mark.parametrize("method", ["finite_difference", "spectral_element", "discontinuous_galerkin"])
@pytest.mark.parametrize(
    ("quantity", "source", "warned"), [("displacement", "force", True), ("velocity", "force", False),
    ("displacement", "moment", False)],
)  # fmt: skip
def test_displacements_of_forces_are_warned_about(method: str, quantity: str, source: str, warned: bool) -> None:
    """In layers that are thin for static fields they were 7 to 29% off."""
    simulation = basin(method, 5.0)
    changes = {"output.quantity": quantity}
    if source == "force":
        changes["sources[0]"] = {
            "position": [90, 180, -450], "force": [0, 0, 1e9], "time_function": {"gaussian": {"sigma": 0.39}},
        }  # fmt: skip
    simulation = simulation.with_overrides(changes)
    plan, _ = make(simulation)
    assert any("nearly static part" in text for text in plan.warnings(simulation)) is warned
