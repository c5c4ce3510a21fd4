"""Fluids in spectral elements: closed forms at interfaces and of sources, energy, sides, and discontinuous Galerkin."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import lithowave as lw
from exact_solutions.fluid_solid import Harmonic, Medium, scattered_field
from exact_solutions.full_space import full_space_moment
from exact_solutions.interface_waves import scholte_wave
from fluid_boxes import MUD, ROCK, SIZE, WATER, driven, energy, fluid_points, media_of, shake, start, two_layers
from lithowave.errors import InputError
from slow_variants import slow_except
from spectral_element_boxes import MAPS, make_solver, point_positions
from verification_tools import ABSORBING_TOP, make, record, relative_l2, velocities

DEGREE = 4
POINTS = 7.0  # in the shortest wavelength
AXES = [[np.cos(0.6), np.sin(0.6), 0.0], [-np.sin(0.6), np.cos(0.6), 0.0], [0.0, 0.0, 1.0]]
INCIDENT = {  # solid, incident wave, angle in degrees: below and beyond critical angles
    "steep": (MUD, "upper P", 20.0), "grazing": (MUD, "upper P", 60.0), "hard": (ROCK, "upper P", 10.0),
    "from below": (MUD, "lower SV", 30.0),
}  # fmt: skip


# ------------------------------------------------------------------------------------------------ plane interfaces


def wave_errors(shape: str, count: int, solid: Medium, field: Any) -> np.ndarray:
    """Errors in L2 in the solid and in the fluid after a period, relative to the field in each."""
    mesh = two_layers(count, shape)
    materials = media_of(mesh.materials, (WATER, solid))
    # Rigid faces of fluids and free faces of solids have no condition: the test imposes the field.
    rigid, free = [], []
    for faces in mesh.boundaries.values():
        wet = materials.is_fluid[faces[:, 0]]
        rigid.append(faces[wet])
        free.append(faces[~wet])
    boundaries = {"rigid": np.concatenate(rigid), "free": np.concatenate(free)}
    solver = make_solver(replace(mesh, boundaries=boundaries), DEGREE, materials, {"rigid": "rigid"}, safety=0.4)
    steps = int(np.ceil(2 * np.pi / field.waveform.angular_frequency / solver.plan.schedule.time_step))
    errors, sizes = driven(solver, field, steps)
    return errors / sizes


@pytest.mark.parametrize(
    ("shape", "name"),
    slow_except([("affine", "steep"), ("triquadratic", "grazing")], [(s, n) for s in MAPS for n in INCIDENT]),
)
def test_plane_waves_at_an_interface(shape: str, name: str) -> None:
    """Reflected and transmitted waves of all kinds, also evanescent ones, at 7 points per shortest wavelength."""
    solid, incident, angle = INCIDENT[name]
    count, speed = 4, solid.vs if "SV" in incident else WATER.vp
    frequency = 2 * np.pi * min(speed, solid.vs) / (SIZE / count * POINTS / DEGREE)
    slowness = np.sin(np.radians(angle)) / speed
    origin = (300.0, 400.0, -0.5 * SIZE)
    field = scattered_field(slowness, WATER, solid, Harmonic(frequency), incident, origin=origin, axes=AXES)
    errors = wave_errors(shape, count, solid, field)
    record(f"fluid_interface_{name.replace(' ', '_')}_{shape}", in_solid=errors[0], in_fluid=errors[1])
    assert errors.max() <= 0.006


@pytest.mark.parametrize("shape", slow_except(["trilinear"], MAPS))
def test_scholte_wave(shape: str) -> None:
    count = 4
    field = scholte_wave(WATER, MUD, 1.5 * SIZE / count * POINTS / DEGREE)
    field = replace(field, origin=np.array([0.0, 0.0, -0.5 * SIZE]))
    errors = wave_errors(shape, count, MUD, field)
    record(f"scholte_wave_elements_{shape}", in_solid=errors[0], in_fluid=errors[1])
    assert errors.max() <= 0.0015


# --------------------------------------------------------------------------------------------------- conservation


@pytest.mark.parametrize("shape", MAPS)
def test_uniform_pressure_stays_at_rest_at_a_curved_floor(shape: str) -> None:
    """phi = -P t balances the solid under the same pressure for any shape of the interface: the area vectors of its
    faces are exact, not only their sum."""

    def floor(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return -0.5 * SIZE + 0.12 * SIZE * np.sin(3 * x / SIZE) * np.cos(4 * y / SIZE)

    mesh = two_layers(3, shape, floor)
    materials = media_of(mesh.materials, (WATER, MUD))
    solver = make_solver(mesh, DEGREE, materials, dict.fromkeys(mesh.boundaries, "rigid"), safety=0.8)
    plan, pressure = solver.plan, 1.0e6
    fluid, positions = fluid_points(plan), point_positions(plan)
    bulk = MUD.lame_lambda + 2.0 / 3.0 * MUD.rigidity
    # Rigid sides hold the solid at the displacement of the uniform strain.
    at_rest = -pressure / (3.0 * bulk) * positions
    step = plan.schedule.time_step
    before, after = (
        np.where(fluid[:, None], -pressure * time * np.array([1.0, 0.0, 0.0]), at_rest)
        for time in (-step / 2, step / 2)
    )  # fmt: skip
    start(solver, before, after)
    for number in range(50):
        solver.advance(number)
    moved = np.abs(solver.displacement[:-1, :3] - at_rest)[~fluid].max() / np.abs(at_rest).max()
    rate = solver.displacement[:-1, 3] * solver.momentum[:-1, 0] / step
    assert moved < 1e-12
    np.testing.assert_allclose(rate[fluid], -pressure, rtol=1e-10)


@pytest.mark.parametrize("steps", slow_except([300], [300, 50_000]))
@pytest.mark.parametrize("shape", slow_except(["triquadratic"], MAPS))
def test_energy_of_a_closed_box(shape: str, steps: int) -> None:
    """Random motion of water over mud and a fluid inclusion, at 99% of the stable time step of the elements alone."""
    mesh = two_layers(3, shape)
    inside = np.abs(mesh.vertices[mesh.elements].mean(axis=1) - [500, 500, -750]).max(axis=1) < 100
    materials = media_of(np.where(inside, 0, mesh.materials), (WATER, MUD))
    solver = make_solver(mesh, DEGREE, materials, {"z_max": "free", "z_min": "rigid", "x_min": "rigid"}, safety=0.99)
    shake(solver)
    first, fluid = energy(solver), fluid_points(solver.plan)
    parts = []
    for number in range(steps):
        solver.advance(number)
        if number % (steps // 3) == 0:
            kinetic = 0.5 * (solver.displacement[:-1, 3:] * solver.momentum[:-1, :3] ** 2).sum(axis=1)
            parts.append(kinetic[fluid].sum() / first)
    drift = abs(energy(solver) / first - 1.0)
    record(f"fluid_energy_{shape}_{steps}", drift=drift)
    assert np.ptp(parts) > 1e-3  # the media exchange energy
    assert drift < 1e-11


# ---------------------------------------------------------------------------------------------------------- sources

VP, RHO, FREQUENCY = 1500.0, 1020.0, 2.0
SIGMA = np.sqrt(2 * np.log(20.0)) / (2 * np.pi * FREQUENCY)
PULSE = {"gaussian": {"sigma": SIGMA, "delay": 6 * SIGMA}}
SPACING = 4 * VP / FREQUENCY / POINTS
PLACE = (13.0, -21.0, 47.0)
RECEIVERS = np.array([[700.0, 350.0, 150.0], [-300.0, 450.0, -520.0], [100.0, -700.0, 300.0]])


def water(source: dict[str, Any], **changes: Any) -> lw.Simulation:
    """A cube of water around a source, until the first wave returns from the sides."""
    half = 4.5 * SPACING
    description = {
        "domain": {axis: [-half, half] for axis in "xyz"},
        "boundaries": ABSORBING_TOP | {"absorption": "stacey"},
        "material": {"homogeneous": {"vp": VP, "vs": 0, "rho": RHO}},
        "sources": [{"position": list(PLACE), "time_function": PULSE, **source}],
        "receivers": [{"name": f"R{n}", "position": list(place)} for n, place in enumerate(RECEIVERS)],
        "duration": 2.1,
        "solver": {"method": "spectral_element", "max_frequency": FREQUENCY, "spacing": SPACING},
        "output": {"sampling_interval": 0.02},
        **changes,
    }
    return lw.Simulation(**description)


def force_velocity(place: np.ndarray, force: np.ndarray, function: Any, time: np.ndarray) -> np.ndarray:
    """Velocity (3, n), m/s, of a force in a fluid: grad phi / rho of phi = div (I(t - r/c) / (4 pi r))."""
    arm = np.asarray(place) - PLACE
    r = np.linalg.norm(arm)
    unit, late = arm / r, time - r / VP
    impulse, amplitude = function.impulse(late), function.amplitude(late)
    slope = (function.amplitude(late + 1e-5) - function.amplitude(late - 1e-5)) / 2e-5
    along, across = force @ unit, force - (force @ unit) * unit
    # phi = -(F . unit) (I / r^2 + F / (c r)) / (4 pi)
    near = impulse / r**3 + amplitude / (VP * r**2)
    radial = 2 * impulse / r**3 + 2 * amplitude / (VP * r**2) + slope / (VP**2 * r)
    return (np.outer(unit, along * radial) - np.outer(across, near)) / (4 * np.pi * RHO)


def test_an_explosion_in_water() -> None:
    simulation = water({"moment_tensor": {"xx": 3e15, "yy": -1e15, "zz": 1e15, "xy": 2e15}})
    time, found = velocities(simulation)
    function = simulation.point_sources()[0].time_function.rate
    exact = np.array([
        full_space_moment(place, np.array(PLACE), (1e15,) * 3 + (0,) * 3, function, time, VP, 500.0, RHO, "velocity")
        for place in RECEIVERS
    ])  # fmt: skip
    error = relative_l2(found, exact)
    record("explosion_in_water_elements", relative_l2=error)
    assert error <= 0.005


@pytest.mark.parametrize("function", slow_except(["ricker"], ["ricker", "gaussian", "smoothed_step"]))
def test_a_force_in_water(function: str) -> None:
    shape = {"ricker": {"frequency": 0.8}, "gaussian": PULSE["gaussian"], "smoothed_step": {"rise_time": 1.2}}[function]
    force = np.array([3e11, -2e11, 1e11])
    simulation = water({"force": force.tolist(), "time_function": {function: shape}}, duration=1.9)
    time, found = velocities(simulation)
    own = simulation.point_sources()[0].time_function
    exact = np.array([force_velocity(place, force, own, time) for place in RECEIVERS])
    error = relative_l2(found, exact)
    record(f"force_in_water_elements_{function}", relative_l2=error)
    assert error <= 0.0045


def sea(half: float = 600.0, **changes: Any) -> lw.Simulation:
    """A sea, 300 m deep, with a shot and receivers in both media."""
    places = [[300, 0, -20], [500, 100, -200], [400, -200, -450], [100, 100, -320]]
    description = {
        "domain": {"x": [-half, half], "y": [-half, half], "z": [-900, 0]},
        "material": {"layers": [
            {"top": 0, "vp": 1500, "vs": 0, "rho": 1020}, {"top": -300, "vp": 2600, "vs": 1400, "rho": 2100}]},
        "sources": [{"position": [0, 0, -100], "moment_tensor": {"xx": 1e13, "yy": 1e13, "zz": 1e13},
                     "time_function": {"gaussian": {"sigma": 0.12, "delay": 0.6}}}],
        "receivers": [{"name": f"R{n}", "position": place} for n, place in enumerate(places)],
        "duration": 3.0,
        "solver": {"method": "spectral_element", "max_frequency": 3.0},
        "output": {"sampling_interval": 0.02},
        **changes,
    }  # fmt: skip
    return lw.Simulation(**description)


def pressures(simulation: lw.Simulation) -> np.ndarray:
    """Pressure (receivers, steps), Pa, at every step."""
    plan, solver = make(simulation)
    solver.start_records(plan.schedule.steps, stress=True)
    for step in range(plan.schedule.steps):
        solver.advance(step)
        solver.record(step)
    return -solver.records(plan.schedule.steps).wait()["stress"][..., :3].mean(axis=-1).T


def test_reciprocity_of_pressure_and_explosions() -> None:
    """kappa of the pressure is that of the source: the place of an explosion and of a hydrophone are exchanged."""
    places = [250.0, 40.0, -60.0], [-300.0, -180.0, -210.0]
    shot = {"moment_tensor": {"xx": 1e13, "yy": 1e13, "zz": 1e13}}
    found = []
    for here, there in (places, places[::-1]):
        source = {"position": here, "time_function": {"gaussian": {"sigma": 0.12, "delay": 0.6}}, **shot}
        simulation = sea(400.0, sources=[source], receivers=[{"name": "A", "position": there}], duration=1.6,
                         boundaries={"absorption": "stacey"}, compute={"precision": "double"})  # fmt: skip
        found.append(pressures(simulation)[0])
    assert np.abs(found[0]).max() > 0
    assert relative_l2(found[1], found[0]) < 1e-3


# ------------------------------------------------------------------------------------------------- sides, methods


@pytest.mark.slow
def test_sides_of_a_sea() -> None:
    """Against a larger box, from whose sides nothing has returned."""
    _, exact = velocities(sea(2400.0, domain={"x": [-2400, 2400], "y": [-2400, 2400], "z": [-2300, 0]},
                              boundaries={"absorption": "stacey"}))  # fmt: skip
    errors = {
        kind: relative_l2(velocities(sea(boundaries={"absorption": kind}))[1], exact) for kind in ("layer", "stacey")
    }  # fmt: skip
    record("sides_of_a_sea", **errors)
    assert errors["layer"] <= 0.005 and errors["stacey"] <= 0.2


@pytest.mark.slow
def test_the_layer_of_a_sea_is_stable() -> None:
    """Random motion in the sea and in its layer decays: the mean to 40%, while single points may keep theirs."""
    _, solver = make(sea(550.0, boundaries={"absorption": "layer"}))
    shake(solver)
    sizes = []
    for step in range(6000):
        solver.advance(step)
        if step in (200, 5999):
            sizes.append(np.sqrt((solver.velocity() ** 2).mean()))
    assert sizes[1] < 0.45 * sizes[0]


def test_interfaces_across_a_layer_are_refused() -> None:
    def wall(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, ...]:
        fluid = x < 600.0
        return np.where(fluid, 1500.0, 2600.0), np.where(fluid, 0.0, 1400.0), np.where(fluid, 1020.0, 2100.0)

    changes: dict[str, Any] = {"material": {"function": wall}, "boundaries": {"absorption": "layer"}}
    with pytest.raises(InputError, match="not parallel to the direction in which the layer absorbs"):
        make(sea(600.0, **changes))


@pytest.mark.slow
def test_a_sea_against_discontinuous_galerkin() -> None:
    ours = sea(boundaries={"absorption": "layer"}, duration=2.0)
    solver = {"method": "discontinuous_galerkin", "order": 5, "max_frequency": 3.0}
    theirs = sea(boundaries={"absorption": "layer"}, duration=2.0, solver=solver)
    error = relative_l2(velocities(ours)[1], velocities(theirs)[1])
    record("sea_elements_and_galerkin", relative_l2=error)
    assert error <= 0.004
