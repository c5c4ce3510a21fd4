"""Spectral elements against closed forms in a full space and LOH.1: errors, places of sources, strain and stress."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lithowave as lw
from exact_solutions.full_space import full_space_force, full_space_moment
from lithowave.solvers.spectral_element import sources, symmetric
from slow_variants import slow_except
from verification_tools import ABSORBING_TOP, draw, make, record, relative_l2, traces_against, velocities

VP, VS, RHO = 6000.0, 3464.0, 2700.0
ROCK = {"vp": VP, "vs": VS, "rho": RHO}
FREQUENCY = 2.0
# The spectrum of the moment rate falls to 5% of its peak at FREQUENCY.
SIGMA = np.sqrt(2 * np.log(20.0)) / (2 * np.pi * FREQUENCY)
PULSE = {"gaussian": {"sigma": SIGMA, "delay": 6 * SIGMA}}
NAMES = ("xx", "yy", "zz", "xy", "xz", "yz")
POINTS = 7.0  # in the shortest wavelength
SPACING = 4 * VS / FREQUENCY / POINTS


def experiment(cells: int, sources: list, receivers: np.ndarray, **changes: object) -> lw.Simulation:
    """A cube of so many elements of degree 4 along an edge, around the origin."""
    half = cells * SPACING / 2
    solver = {"method": "spectral_element", "max_frequency": FREQUENCY, "spacing": SPACING}
    description = {
        "domain": {axis: [-half, half] for axis in "xyz"},
        "boundaries": ABSORBING_TOP | {"absorption": "stacey"},
        "material": {"homogeneous": ROCK},
        "sources": sources,
        "receivers": [{"name": f"R{n}", "position": list(p)} for n, p in enumerate(receivers)],
        "duration": 3.6,
        "solver": {**solver, **changes.pop("solver", {})},
        "output": {"sampling_interval": 0.02},
        **changes,
    }
    return lw.Simulation(**description)


def exact(simulation: lw.Simulation, time: np.ndarray, position: np.ndarray) -> np.ndarray:
    """Velocity (3, n) of all sources at a place."""
    total = np.zeros((3, time.size))
    for source in simulation.point_sources():
        common = (time, VP, VS, RHO, "velocity")
        if source.moment is not None:
            function, strength, curve = full_space_moment, source.moment, source.time_function.rate
        else:
            function, strength, curve = full_space_force, source.force, source.time_function.amplitude
        total += function(position, source.position, strength, curve, *common)
    return total


def clean_error(simulation: lw.Simulation) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """Error before anything comes back from the sides; times, computed and exact traces, zero from then on."""
    time, computed = velocities(simulation)
    truth = np.array([exact(simulation, time, receiver.position) for receiver in simulation.receiver_list()])
    half = simulation.domain.x[1]
    for number, receiver in enumerate(simulation.receiver_list()):
        way = 2 * half - np.abs(receiver.position).max() - np.abs(simulation.point_sources()[0].position).max()
        late = time > way / VP + 2 * SIGMA  # the pulse begins 4 sigma before its middle
        computed[number, :, late] = truth[number, :, late] = 0
    return relative_l2(computed, truth), time, computed, truth


def random_sources(generator: np.random.Generator, place: np.ndarray) -> list:
    """A full moment tensor and a force at a place, of like strength far away."""
    moment, force = generator.standard_normal(6) * 1e15, generator.standard_normal(3) * 1e15 / (VS * SIGMA)
    tensor = dict(zip(NAMES, moment.tolist(), strict=True))
    return [
        {"position": list(place), "moment_tensor": tensor, "time_function": PULSE},
        {"position": list(place), "force": force.tolist(), "time_function": PULSE},
    ]


def receivers_around(generator: np.random.Generator, place: np.ndarray) -> np.ndarray:
    directions = generator.standard_normal((5, 3))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    return place + directions * generator.uniform(2500, 5000, (5, 1))


@pytest.mark.parametrize("seed", slow_except([1], [1, 2, 3]))
def test_random_sources_against_the_closed_form(seed: int) -> None:
    """Seven points in the shortest wavelength, the default time step."""
    generator = np.random.default_rng(seed)
    place = generator.uniform(-0.5, 0.5, 3) * SPACING
    simulation = experiment(22, random_sources(generator, place), receivers_around(generator, place))
    error, time, computed, truth = clean_error(simulation)
    record(f"full_space_degree_4_seed_{seed}", relative_l2=error, limit=0.007, points_per_wavelength=POINTS)
    if seed == 1:
        label = "full space, degree 4"
        draw("full_space_degree_4", lambda figure: traces_against(figure, time, computed, truth, label))
    assert error <= 0.007


PLACES = {"middle": (0.5, 0.5, 0.5), "face": (0.0, 0.62, 0.35), "edge": (0.0, 0.41, 1.0), "vertex": (0.0, 0.0, 0.0)}


@pytest.mark.slow
def test_sources_on_shared_vertices_edges_and_faces() -> None:
    """Three elements away the error of a moment tensor is nearly what it is for one in the middle of an element.

    Closer it is larger: the shape functions that a source on a vertex acts through reach twice as far.
    """
    errors, distances = {}, np.linspace(3, 5, 5)[:, None] * SPACING
    for name, part in PLACES.items():
        generator = np.random.default_rng(6)
        place = np.array(part) * SPACING
        [source, _] = random_sources(generator, place)
        directions = receivers_around(generator, np.zeros(3))
        receivers = place + distances * directions / np.linalg.norm(directions, axis=1)[:, None]
        errors[name] = clean_error(experiment(18, [source], receivers, duration=3.0))[0]
    change = max(abs(error - errors["middle"]) for error in errors.values())
    record("source_across_an_element", relative_l2=errors, change=change)
    assert max(errors.values()) <= 0.007
    assert change <= 0.0013


def strain_of_displacement(position: np.ndarray, source: object, time: np.ndarray) -> np.ndarray:
    """Strain (6, n) of the closed form, by central differences of fourth order over some metres."""
    near, gradient = 8.0, np.empty((3, 3, time.size))
    common = (source.position, source.moment, source.time_function.rate, time, VP, VS, RHO, "displacement")
    for axis in range(3):
        step = near * np.eye(3)[axis]
        one, two = (
            full_space_moment(position + n * step, *common) - full_space_moment(position - n * step, *common)
            for n in (1, 2)
        )
        gradient[:, axis] = (8 * one - two) / (12 * near)
    pairs = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))
    return np.array([0.5 * (gradient[a, b] + gradient[b, a]) for a, b in pairs])


@pytest.mark.slow
def test_strain_and_stress_against_the_closed_form() -> None:
    """Strain and stress at receivers are of half a time step before the sample."""
    generator = np.random.default_rng(7)
    place = np.array([0.3, -0.2, 0.4]) * SPACING
    receivers = place + 0.7 * receivers_around(generator, np.zeros(3))[:3]
    # One at a place that eight elements share.
    receivers[0] = np.round(receivers[0] / SPACING) * SPACING
    simulation = experiment(18, random_sources(generator, place)[:1], receivers, duration=2.8)
    plan, solver = make(simulation)
    schedule = plan.schedule
    solver.start_records(schedule.steps, stress=True)
    for step in range(schedule.steps):
        solver.advance(step)
        solver.record(step)
    found = solver.records(schedule.steps).wait()
    time = (np.arange(schedule.steps) + 0.5) * schedule.time_step
    [source] = simulation.point_sources()
    errors = []
    mu = RHO * VS**2
    lam = RHO * VP**2 - 2 * mu
    for number, position in enumerate(receivers):
        # The wave has not come back from the sides before the end.
        truth = strain_of_displacement(position, source, time)
        clean = time < (2 * 9 * SPACING - np.abs(position).max() - np.abs(place).max()) / VP + 2 * SIGMA
        strain, stress = found["strain"][:, number].T, found["stress"][:, number].T
        errors.append(relative_l2(strain[:, clean], truth[:, clean]))
        volume = np.array([1, 1, 1, 0, 0, 0])[:, None] * strain[:3].sum(axis=0)
        np.testing.assert_allclose(stress, lam * volume + 2 * mu * strain, rtol=0, atol=1e-5 * np.abs(stress).max())
    record("element_strain", relative_l2=max(errors), each=errors)
    assert max(errors) <= 0.02


def small_box(sources: list, receivers: list, **changes: object) -> lw.Simulation:
    """Two layers, a free top, Stacey's sides: some hundred elements in double precision."""
    return lw.Simulation(
        domain={"x": [-1500, 1500], "y": [-1500, 1500], "z": [-2000, 0]},
        boundaries={"absorption": "stacey"},
        material={"layers": [{"top": 0, "vp": 3000, "vs": 1500, "rho": 2200}, {"top": -430, **ROCK}]},
        sources=sources,
        receivers=[{"name": f"R{n}", "position": list(p)} for n, p in enumerate(receivers)],
        duration=2.0,
        solver={"method": "spectral_element", "spacing": 500.0, "max_frequency": 2.5, "degree": 4},
        compute={"precision": "double", "threads": 1},
        output={"sampling_interval": 0.02},
        **changes,
    )


NARROW = {"gaussian": {"sigma": 0.1, "delay": 0.6}}
PAIRS = {
    "deep": ([-310.0, 190.0, -770.0], [420.0, -260.0, -1540.0]),
    "on the surface": ([-310.0, 190.0, 0.0], [420.0, -260.0, -540.0]),
    "at vertices": ([0.0, 0.0, 0.0], [500.0, -500.0, -430.0]),
}


@pytest.mark.parametrize("pair", slow_except(["on the surface"], PAIRS))
def test_reciprocity_of_two_forces(pair: str) -> None:
    first, second = PAIRS[pair]
    traces = []
    for source, receiver, force, component in ((first, second, 0, 2), (second, first, 2, 0)):
        entry = {"position": source, "force": [1e10 * (n == force) for n in range(3)], "time_function": NARROW}
        traces.append(velocities(small_box([entry], [receiver]))[1][0, component])
    error = relative_l2(traces[0], traces[1])
    record(f"element_reciprocity_{pair.replace(' ', '_')}", relative_l2=error, limit=1e-10)
    assert np.abs(traces[0]).max() > 0
    assert error <= 1e-10


def test_a_moment_tensor_is_a_limit_of_forces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six forces M : grad near a place give d/dt of what the moment tensor gives, times the area of the pulse, if it is
    not spread over a ball."""
    monkeypatch.setattr(sources, "NEAR", 0.0)
    place, receiver = np.array([-310.0, 190.0, -840.0]), [420.0, -260.0, 0.0]
    moment, near = dict(zip(NAMES, (1e13, -4e12, 3e12, 7e12, -5e12, 2e12), strict=True)), 1.0
    fine = {"sampling_interval": 0.002}
    base = small_box([{"position": list(place), "moment_tensor": moment, "time_function": NARROW}], [receiver])
    time, from_moment = velocities(base.with_overrides({"output": fine}))
    matrix = symmetric(list(moment.values()))
    forces = [
        {"position": list(place + sign * near * np.eye(3)[axis]),
         "force": (sign * matrix[:, axis] / (2 * near)).tolist(), "time_function": NARROW}
        for axis in range(3) for sign in (1, -1)
    ]  # fmt: skip
    _, from_forces = velocities(small_box(forces, [receiver]).with_overrides({"output": fine}))
    rate = np.gradient(from_moment[0], time, axis=1) * 0.1 * np.sqrt(2 * np.pi)
    error = relative_l2(rate[:, 2:-2], from_forces[0][:, 2:-2])
    record("element_moment_of_forces", relative_l2=error)
    assert error < 1e-3


REFERENCE = Path(__file__).parents[1] / "data" / "loh1" / "loh1.npz"


def loh1(domain: dict, receivers: np.ndarray, **changes: object) -> lw.Simulation:
    return lw.Simulation(
        title="LOH.1",
        domain=domain,
        material={"layers": [{"top": 0, "vp": 4000, "vs": 2000, "rho": 2600}, {"top": -1000, **ROCK}]},
        sources=[
            {
                "position": [0, 0, -2000],
                "moment_tensor": {"xy": 1e18},
                "time_function": {"gaussian": {"sigma": 0.12, "delay": 0.72}},
            }
        ],
        receivers=[{"network": "XX", "name": f"S{n:02}", "position": p.tolist()} for n, p in enumerate(receivers, 1)],
        duration=4.0,
        solver={"method": "spectral_element", "max_frequency": 2.5, "points_per_wavelength": POINTS},
        output={"sampling_interval": 0.01},
        **changes,
    )


@pytest.mark.slow
def test_loh1() -> None:
    """Receivers 1 to 5, t < 4 s, seven points per wavelength of 2.5 Hz, faces of elements on the interface."""
    reference = np.load(REFERENCE)
    domain = {"x": [-6000, 9000], "y": [-6000, 10000], "z": [-8000, 0]}
    simulation = loh1(domain, reference["receivers"])
    time, computed = velocities(simulation)
    truth = np.array(
        [[np.interp(time, reference["t"], component) for component in receiver] for receiver in reference["v"]]
    )
    error = relative_l2(computed, truth)
    each = [relative_l2(computed[n], truth[n]) for n in range(5)]
    record("loh1_degree_4", relative_l2=error, each_receiver=each, limit=0.01, points_per_wavelength=POINTS)
    draw("loh1_degree_4", lambda figure: traces_against(figure, time, computed, truth, "LOH.1, degree 4"))
    assert error <= 0.01
    assert max(each) <= 0.015
