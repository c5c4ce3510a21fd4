"""The instability watch: growth after the sources is an error, sound motion is none."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import lithowave as lw
from lithowave import InstabilityError
from lithowave.run import NOISE, WINDOW_GROWTH, InstabilityWatch, crossing_time

STEP, SOURCE_END, WINDOW = 0.1, 2.0, 3.0


def inspect(velocities: Iterable[float]) -> float:
    """Feed a watch with one largest velocity per step; return the time of the last one."""
    source = SimpleNamespace(time_function=SimpleNamespace(support=lambda: (0.0, SOURCE_END)))
    watch = InstabilityWatch(SimpleNamespace(time_step=STEP, limit=2 * STEP), [source], WINDOW)
    clock = SimpleNamespace(step=0, time=0.0, finished=False)
    solver: Any = SimpleNamespace(
        plan=SimpleNamespace(instability_causes=lambda: ["a cause"]), diagnose=lambda: "at a place"
    )
    for clock.step, now in enumerate(velocities):
        clock.time = clock.step * STEP
        solver.largest_velocity = lambda now=now: now
        try:
            watch.inspect(solver, clock)
        except InstabilityError as problem:
            raise InstabilityError(f"{clock.time:.6g}: {problem}") from None
    return clock.time


def times(end: float) -> np.ndarray:
    return np.arange(0.0, end, STEP)


def decaying(t: np.ndarray) -> np.ndarray:
    """Motion that a source excites, and that leaves the domain."""
    return np.where(t < SOURCE_END, t / SOURCE_END, np.exp(-(t - SOURCE_END))) + 1e-9


def test_growth_after_the_sources_is_an_error() -> None:
    """A mode that grows by 8% per step of 0.1 s is found at a fortieth of the motion by the source (measured)."""
    t = times(60.0)
    with pytest.raises(InstabilityError, match="in an earlier window of 3 s, after the sources") as caught:
        inspect(decaying(t) + 1e-7 * np.exp(0.8 * t))
    found = float(str(caught.value).split(":")[0])
    assert 1e-7 * np.exp(0.8 * found) < 0.03
    assert "a cause" in str(caught.value) and "at a place" in str(caught.value)


def test_growth_below_the_motion_by_the_source_is_found() -> None:
    """A constant motion that becomes 11 times as large, but never as large as during the source."""
    t = times(12.0)
    steady = np.where(t < SOURCE_END, 1.0, 1e-3)
    assert inspect(steady) == pytest.approx(t[-1])
    assert inspect(np.where(t > 8.0, 0.9 * WINDOW_GROWTH, 1.0) * steady) == pytest.approx(t[-1])
    with pytest.raises(InstabilityError):
        inspect(np.where(t > 8.0, 1.1 * WINDOW_GROWTH, 1.0) * steady)


@pytest.mark.parametrize(
    "motion",
    [
        pytest.param(lambda t: decaying(t), id="waves leave"),
        pytest.param(lambda t: np.abs(np.sin(2 * np.pi * t / WINDOW)) + 1e-3, id="a closed box"),
        pytest.param(lambda t: np.where(t % WINDOW < STEP, 1.0, 0.02), id="waves are focused once in a window"),
        pytest.param(lambda t: np.maximum(decaying(t), 0.9 * NOISE * (t > 30)), id="rounding errors"),
    ],
)
def test_sound_motion_is_no_error(motion: Any) -> None:
    t = times(60.0)
    assert inspect(motion(t)) == pytest.approx(t[-1])


def test_a_window_contains_the_passage_of_the_slowest_wave() -> None:
    simulation = lw.Simulation(
        domain={"x": [0, 300], "y": [0, 400], "z": [-1200, 0]},
        material={"homogeneous": {"vp": 900, "vs": 500, "rho": 2000}},
        sources=[], receivers=[], duration=1.0, solver={"max_frequency": 1.0},
    )  # fmt: skip
    assert crossing_time(simulation) == pytest.approx(1300 / 500)
