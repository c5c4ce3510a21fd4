"""Finite differences against the closed form in a full space: error, order of convergence, off-grid sources."""

from __future__ import annotations

import numpy as np
import pytest

import lithowave as lw
from exact_solutions.full_space import full_space_force, full_space_moment
from slow_variants import slow_except
from verification_tools import ABSORBING_TOP, draw, record, relative_l2, traces_against, velocities

VP, VS, RHO = 6000.0, 3464.0, 2700.0
FREQUENCY = 2.0
# The spectrum of the moment rate falls to 5% of its peak at FREQUENCY.
SIGMA = np.sqrt(2 * np.log(20.0)) / (2 * np.pi * FREQUENCY)
PULSE = {"gaussian": {"sigma": SIGMA, "delay": 6 * SIGMA}}


def experiment(
    half_length: float, spacing: float, order: int, sources: list, receivers: np.ndarray, **solver: object
) -> lw.Simulation:
    return lw.Simulation(
        domain={axis: [-half_length, half_length] for axis in "xyz"},
        boundaries=ABSORBING_TOP,
        material={"homogeneous": {"vp": VP, "vs": VS, "rho": RHO}},
        sources=sources,
        receivers=[{"network": "XX", "name": f"R{n}", "position": list(p)} for n, p in enumerate(receivers)],
        duration=12 * SIGMA + 1.2 * half_length / VS,
        solver={"order": order, "spacing": spacing, "max_frequency": FREQUENCY, **solver},
        output={"sampling_interval": 0.02},
    )


def exact(simulation: lw.Simulation, time: np.ndarray) -> np.ndarray:
    total = np.zeros((len(simulation.receiver_list()), 3, time.size))
    for number, receiver in enumerate(simulation.receiver_list()):
        for source in simulation.point_sources():
            common = (time, VP, VS, RHO, "velocity")
            if source.moment is not None:
                total[number] += full_space_moment(
                    receiver.position, source.position, source.moment, source.time_function.rate, *common
                )
            else:
                total[number] += full_space_force(
                    receiver.position, source.position, source.force, source.time_function.amplitude, *common
                )
    return total


def random_case(seed: int, half_length: float, spacing: float) -> tuple[list, np.ndarray]:
    """A full moment tensor and a force at an off-grid place, of like strength far away, and five receivers around."""
    generator = np.random.default_rng(seed)
    place = generator.uniform(-spacing, spacing, 3).tolist()
    moment, force = generator.standard_normal(6) * 1e15, generator.standard_normal(3) * 1e15 / (VS * SIGMA)
    directions = generator.standard_normal((5, 3))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    receivers = directions * generator.uniform(0.4, 0.9, (5, 1)) * half_length
    tensor = dict(zip(("xx", "yy", "zz", "xy", "xz", "yz"), moment.tolist(), strict=True))
    sources = [
        {"position": place, "moment_tensor": tensor, "time_function": PULSE},
        {"position": place, "force": force.tolist(), "time_function": PULSE},
    ]
    return sources, receivers


@pytest.mark.parametrize(("order", "limit"), slow_except([(4, 0.02)], [(4, 0.02), (8, 0.007)]))
@pytest.mark.parametrize("seed", slow_except([1], [1, 2]))
def test_random_sources_against_the_closed_form(order: int, limit: float, seed: int) -> None:
    spacing = VS / FREQUENCY / 10
    half_length = 22 * spacing
    sources, receivers = random_case(seed, half_length, spacing)
    simulation = experiment(half_length, spacing, order, sources, receivers)
    time, computed = velocities(simulation)
    truth = exact(simulation, time)
    error = relative_l2(computed, truth)
    record(f"full_space_order_{order}_seed_{seed}", relative_l2=error, limit=limit, points_per_wavelength=10)
    if order == 4 and seed == 1:
        draw("full_space", lambda figure: traces_against(figure, time, computed, truth, "full space, order 4"))
    assert error <= limit


def test_order_of_convergence() -> None:
    """Order 4 in space, the time step refined with the square of the grid step."""
    errors, steps = [], np.array([1 / 5, 1 / 7, 1 / 10]) * VS / FREQUENCY
    half_length = 2.2 * VS / FREQUENCY
    sources, receivers = random_case(4, half_length, 0.2 * VS / FREQUENCY)
    largest = 0.45 * steps[0] / VP
    for spacing in steps:
        wanted = largest * (spacing / steps[0]) ** 2
        time_step = 0.02 / np.ceil(0.02 / wanted)
        simulation = experiment(half_length, float(spacing), 4, sources, receivers, time_step=float(time_step))
        time, computed = velocities(simulation)
        errors.append(relative_l2(computed, exact(simulation, time)))
    observed = np.log(errors[0] / errors[-1]) / np.log(steps[0] / steps[-1])
    record("convergence_order_4", spacing_m=steps.tolist(), relative_l2=errors, observed_order=float(observed))

    def plot(figure: object) -> None:
        axis = figure.subplots()
        axis.loglog(steps, errors, "o-", label="computed")
        axis.loglog(steps, errors[0] * (steps / steps[0]) ** 4, "k--", linewidth=0.8, label="fourth order")
        axis.set_xlabel("grid step (m)")
        axis.set_ylabel("relative L2 error")
        axis.legend()

    draw("convergence", plot)
    assert observed >= 3.7


@pytest.mark.slow
def test_source_moved_across_a_cell() -> None:
    """Ten steps across one cell, in a direction that is no axis: the misfit changes little, and smoothly."""
    spacing = VS / FREQUENCY / 10
    half_length = 13 * spacing
    receivers = np.array([[9.3, 4.1, -2.7], [-3.2, 8.8, 5.5], [1.4, -6.6, -9.2]]) * spacing
    tensor = {"xx": 1e15, "yy": -0.4e15, "zz": 0.3e15, "xy": 0.7e15, "xz": -0.5e15, "yz": 0.2e15}
    errors = []
    for shift in np.linspace(0, 1, 11):
        place = [shift * spacing, 0.7 * shift * spacing, 0.4 * shift * spacing]
        source = {"position": place, "moment_tensor": tensor, "time_function": PULSE}
        simulation = experiment(half_length, spacing, 4, [source], receivers)
        time, computed = velocities(simulation)
        errors.append(relative_l2(computed, exact(simulation, time)))
    change = max(errors) - min(errors)
    record("source_across_a_cell", relative_l2=errors, change=change)
    assert change <= 0.005
    assert np.abs(np.diff(errors)).max() <= 0.0025
