"""LOH.3, a layer over a half-space with attenuation, against its reference solution."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loh3
from lithowave.compare import relative_l2
from verification_tools import draw, record, traces_against, velocities

RECEIVERS = 4  # the nearest, at distances of 1 to 4 km


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    return importlib.import_module("loh3_errors")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "points", "limit"),
    [("finite_difference", 10.0, 0.009), ("spectral_element", 7.0, 0.009)],
)
def test_the_nearest_receivers_of_loh3(script: Any, method: str, points: float, limit: float) -> None:
    """Measured: 0.77% with finite differences, 0.76% with spectral elements, at the worst of four receivers."""
    solver = {"points_per_wavelength": points, "max_frequency": script.FREQUENCY, "memory_variables": "coarse"}
    described = script.simulation(method, "cpu", "single", RECEIVERS, 6.0, **solver)
    time, computed = velocities(described)
    reference_time, _, exact = loh3.reference()
    exact = exact[:RECEIVERS, :, : time.size]
    assert time == pytest.approx(reference_time[: time.size])
    found = [relative_l2(*pair) for pair in zip(computed, exact, strict=True)]
    name = f"loh3_{method}"
    record(name, relative_l2=max(found), receivers=found, limit=limit)
    draw(name, lambda figure: traces_against(figure, time, computed, exact, "LOH.3"))
    assert np.max(found) <= limit


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("method", "points", "mode", "limit"),
    [
        ("finite_difference", 10.0, "coarse", 0.018),
        ("finite_difference", 10.0, "full", 0.0195),
        ("spectral_element", 7.0, "coarse", 0.018),
        ("spectral_element", 7.0, "full", 0.0205),
        ("discontinuous_galerkin", 8.0, "auto", 0.021),
    ],
)
def test_loh3_on_a_device(script: Any, method: str, points: float, mode: str, limit: float) -> None:
    """All ten receivers, to a distance of 10 km."""
    solver = {"points_per_wavelength": points, "max_frequency": script.FREQUENCY}
    if method != "discontinuous_galerkin":
        solver["memory_variables"] = mode
    found, _ = script.errors(script.simulation(method, "cuda", "single", 10, 9.0, **solver))
    record(f"loh3_device_{method}_{mode}", relative_l2=found.tolist(), limit=limit)
    assert found.max() <= limit
