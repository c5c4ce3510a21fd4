"""Seismograms near shallow sources: every method against wavenumber integration, and what is said where they err."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lithowave as lw
from benchmark_scripts import load_benchmark
from lithowave.run import check_simulation
from lithowave.solvers.elements import unit_ball

BENCHMARK = load_benchmark("shallow_sources")


@pytest.mark.parametrize(
    ("method", "depth", "limit"),
    [
        pytest.param("finite_difference:2", 400.0, 0.03, marks=pytest.mark.slow),
        ("finite_difference:4", 400.0, 0.021),
        pytest.param("finite_difference:6", 400.0, 0.022, marks=pytest.mark.slow),
        pytest.param("finite_difference:8", 400.0, 0.021, marks=pytest.mark.slow),
        pytest.param("finite_difference:4", 150.0, 0.115, marks=pytest.mark.slow),
        pytest.param("finite_difference:4", 700.0, 0.005, marks=pytest.mark.slow),
        ("spectral_element:4", 400.0, 0.0115),
        pytest.param("spectral_element:4", 150.0, 0.1, marks=pytest.mark.slow),
        pytest.param("discontinuous_galerkin:5", 400.0, 0.0115, marks=pytest.mark.slow),
        pytest.param("discontinuous_galerkin:5", 150.0, 0.0025, marks=pytest.mark.slow),
    ],
)
def test_explosions(method: str, depth: float, limit: float) -> None:
    """Records at 65 m to 900 m from the epicenter of an explosion 150 m to 700 m below the free surface."""
    assert BENCHMARK.errors(method, depth, small=True)["error"] < limit


@pytest.mark.parametrize(
    ("method", "key"),
    [("spectral_element:4", "degree"), pytest.param("discontinuous_galerkin:5", "order", marks=pytest.mark.slow)],
)
def test_without_refinement_a_warning_tells_the_error(method: str, key: str) -> None:
    """The estimate is within a factor of 3.5 of the error."""
    found = BENCHMARK.errors(method, 400.0, small=True, refine_sources=False)
    (warning,) = [text for text in found["warnings"] if text.startswith("sources[0]")]
    estimate = float(warning.split("estimated error there ")[1].split("%")[0]) / 100
    assert "R0" in warning and "solver.spacing: " in warning
    assert estimate / 3.5 < found["error"] < 3.5 * estimate


def checked(method: str, receiver: list[float], depth: float, peak_motion: bool = False) -> Any:
    """What `check` reports of a source at a depth, m, and one receiver."""
    name, order = method.split(":")
    simulation = lw.Simulation(
        domain={"x": [-2500, 2500], "y": [-2500, 2500], "z": [-3000, 0]},
        material={"homogeneous": {"vp": 3200, "vs": 1600, "rho": 2300}},
        sources=[{
            "position": [0, 0, -depth], "moment_tensor": {"xy": 1e15},
            "time_function": {"gaussian": {"sigma": 0.3, "delay": 1.5}},
        }],
        receivers=[{"name": "NEAR", "position": receiver}],
        duration=3.0,
        solver={"method": name, "degree" if name == "spectral_element" else "order": int(order), "max_frequency": 1.3},
        compute={"backend": "cpu"},
        output={"peak_motion": peak_motion},
    )  # fmt: skip
    return check_simulation(simulation, measure=False)


def near_warnings(report: Any) -> list[str]:
    """The warnings of a report about receivers near the source."""
    return [text for text in report.warnings if text.startswith("sources[0]: ") and "distance" in text]


def test_tetrahedra_are_halved_for_receivers_that_they_resolve() -> None:
    """The cubes have edges of about 830 m: four halvings resolve 150 m, three 220 m, and none the peaks 20 m above."""
    far, near = (checked("discontinuous_galerkin:5", [0.0, 0.0, depth - 800.0], 800.0) for depth in (220.0, 150.0))
    above = checked("discontinuous_galerkin:5", [2000.0, 0.0, 0.0], 20.0, peak_motion=True)
    assert near.plan["time_step_s"] == pytest.approx(0.5 * far.plan["time_step_s"], rel=0.1)
    assert above.plan["time_step_s"] == pytest.approx(far.plan["time_step_s"], rel=0.1)
    assert not near_warnings(near) and not near_warnings(far) and near_warnings(above)


@pytest.mark.parametrize("method", ["finite_difference:4", "spectral_element:4", "discontinuous_galerkin:5"])
@pytest.mark.parametrize("peak_motion", [False, True])
def test_receivers_too_near_are_told(method: str, peak_motion: bool) -> None:
    """A receiver 20 m from the source, or the surface above it with peak motion, is not resolved; a far one is."""

    def warnings(receiver: list[float], depth: float) -> list[str]:
        return near_warnings(checked(method, receiver, depth, peak_motion))

    assert not warnings([2000.0, 0.0, 0.0], 1500.0)
    near = warnings([0.0, 0.0, -20.0] if not peak_motion else [2000.0, 0.0, 0.0], 40.0 if not peak_motion else 20.0)
    assert len(near) == 1 and "20 m" in near[0] and "or less" in near[0]


def test_the_ball_has_the_moments_of_a_point() -> None:
    """Weights of degree 0 sum to one; all other moments up to the third vanish, and odd ones of any degree."""
    points, weights = unit_ball()
    for powers in np.ndindex(6, 6, 6):
        degree, value = sum(powers), (weights * np.prod(points ** np.array(powers), axis=1)).sum()
        if degree == 0:
            assert abs(value - 1.0) < 1e-13
        elif degree <= 3 or degree % 2:
            assert abs(value) < 1e-13, powers
