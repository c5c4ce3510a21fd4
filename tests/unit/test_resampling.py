"""Values between steps, and without the error of the steps: against an oscillator whose motion is known."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.integrate import quad

from lithowave.output import Sampling, SnapshotSteps
from lithowave.solvers import Schedule
from lithowave.solvers.common import Resampling, combine, corrected_frequency, correction_warnings, limited

STEP, FREQUENCY, SIGMA, DELAY = 0.01, 5.0, 0.1, 0.7


def pulse(time: np.ndarray) -> np.ndarray:
    """Return a time function whose spectrum falls to 5% at 3.9 Hz."""
    return np.exp(-0.5 * ((time - DELAY) / SIGMA) ** 2)


def oscillator(step: float, count: int, omega: float, shift: Resampling | None) -> np.ndarray:
    """Return v at the steps of v' = -omega^2 u + s, u' = v by central differences, where s acts half a step later."""
    places = np.arange(count) + 0.5
    amplitudes = pulse(places * step)
    if shift is not None:
        first, weights = shift.weights(places, 0.5)
        numbers = np.arange(first.min(), first.max() + shift.length)
        found = np.empty((count, 1))
        combine(first - numbers[0], weights, pulse((numbers + 0.5) * step)[:, None], found)
        amplitudes = found[:, 0]
    velocity, displacement, values = 0.0, 0.0, [0.0]
    for amplitude in amplitudes:
        displacement += step * velocity
        velocity += step * (amplitude - omega**2 * displacement)
        values.append(velocity)
    return np.array(values)


def exact(time: np.ndarray, omega: float) -> np.ndarray:
    """Return v: the convolution of the pulse with cos(omega t)."""
    return np.array(
        [quad(lambda s, t=t: pulse(s) * np.cos(omega * (t - s)), max(0.0, DELAY - 8 * SIGMA), min(t, DELAY + 8 * SIGMA),
              epsabs=1e-12, limit=400)[0] for t in time]
    )  # fmt: skip


@pytest.mark.parametrize("omega", [6.0, 14.0])
@pytest.mark.parametrize("interval", [0.0173, 0.0041, 0.02])
def test_an_oscillator_is_exact_at_any_time(omega: float, interval: float) -> None:
    """Measured: 4.5e-3 and 5.9e-2 without the correction, below 8e-7 of the peak with it, 1e-5 in the last samples."""
    samples = int(6.0 / interval)
    schedule = Schedule(STEP, STEP, interval, samples + 1, corrected_frequency=FREQUENCY)
    time = interval * np.arange(samples + 1)
    truth = exact(time, omega)
    peak = np.abs(truth).max()
    errors = []
    for corrected in (True, False):
        used = schedule if corrected else Schedule(STEP, STEP, interval, samples + 1)
        shift = Resampling(STEP, schedule.end, FREQUENCY, "sources") if corrected else None
        values = oscillator(STEP, schedule.steps, omega, shift)
        sampling = Sampling(used, False, {"motion": (1,)})
        parts = [sampling.samples({"motion": values[:, None]}, schedule.steps, 1), sampling.remaining()]
        found = np.concatenate([part["motion"] for part in parts])[:, 0]
        assert len(found) == len(time)
        errors.append(np.abs(found - truth) / peak)
    early = time < time[-1] - 20 * STEP
    assert errors[0][early].max() < 1.5e-6 and errors[1][early].max() > 1e3 * errors[0][early].max()
    assert errors[0].max() < 2e-5


def test_blocks_do_not_change_bits() -> None:
    """Every division of the steps into blocks, and a restart from the state, give the same samples."""
    schedule = Schedule(STEP, STEP, 0.0137, 100, corrected_frequency=FREQUENCY)
    values = np.random.default_rng(0).standard_normal((schedule.steps + 1, 4, 3))
    results = []
    for sizes in ([len(values)], [1] * len(values), [37, 5, 60, 3] * 10):
        sampling, begin, found = Sampling(schedule, False, {"motion": (4, 3)}), 0, []
        for size in sizes:
            block = values[begin : begin + size]
            begin += len(block)
            if len(block):
                found.append(sampling.samples({"motion": block}, begin - 1, 1)["motion"])
            again = Sampling(schedule, False, {"motion": (4, 3)})
            again.restore(sampling.state())
            sampling = again
        found.append(sampling.remaining()["motion"])
        results.append(np.concatenate(found))
    assert len(results[0]) == 100
    assert all(np.array_equal(results[0], other) for other in results[1:])


def test_runs_too_long_for_the_correction_are_not_corrected_with_a_warning() -> None:
    function = SimpleNamespace(maximum_frequency=lambda: FREQUENCY)
    simulation = SimpleNamespace(
        solver=SimpleNamespace(time_dispersion_correction=None), resolved_frequency=FREQUENCY,
        acquisition=SimpleNamespace(sources=[SimpleNamespace(time_function=function)]),
    )  # fmt: skip
    for count, corrected in ((10_000, True), (300_000, False)):
        schedule = limited(Schedule(STEP, STEP, 2 * STEP, count, corrected_frequency=corrected_frequency(simulation)))
        assert (schedule.corrected_frequency is not None) == corrected
        assert len(correction_warnings(simulation, schedule)) == (0 if corrected else 1)
    assert "599,998 steps; waves of 5 Hz arrive early by 0.41%" in correction_warnings(simulation, schedule)[0]


@pytest.mark.parametrize("phase", [0.05, 0.3, 0.55])
def test_waves_between_steps_are_interpolated_to_rounding(phase: float) -> None:
    """Without a correction; near the end, where there are fewer steps, less exactly."""
    resampling = Resampling(STEP, 2.0, None)
    places = np.linspace(60.0, 190.3, 77)
    first, weights = resampling.weights(places, last=191)
    numbers = first[:, None] + np.arange(resampling.length)
    found = (weights * np.cos(phase * numbers)).sum(axis=1)
    error = np.abs(found - np.cos(phase * places))
    assert error[places < 180].max() < 1e-6 and error.max() < 1e-4
    assert np.abs(weights.sum(axis=1) - 1.0).max() < 1e-14


@pytest.mark.parametrize(("interval", "steps"), [(0.01, 40), (0.025, 40), (0.013, 101), (0.001, 30), (0.0999, 57)])
def test_snapshots_are_at_the_closest_steps(interval: float, steps: int) -> None:
    schedule = Schedule(STEP, STEP, STEP, steps + 1)
    chosen = SnapshotSteps(interval, schedule)
    numbers = [step for step in range(steps + 5) if step in chosen]
    assert len(numbers) == len(chosen) and numbers[0] == 0
    for number, step in enumerate(numbers):
        assert abs(step * STEP - number * max(interval, STEP)) <= 0.5 * STEP * (1 + 1e-9)
        assert chosen.until(step) == number + 1
