"""Reflection, transmission and interface waves must satisfy the equations that they are to test."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from exact_solutions import plane_waves
from exact_solutions.fluid_solid import (
    COMPONENTS,
    WAVES,
    AnalyticPulse,
    Harmonic,
    InterfaceField,
    Medium,
    energy_fractions,
    fluid_solid_coefficients,
    interface_coefficients,
    normal_incidence_coefficients,
    scattered_field,
)
from exact_solutions.interface_waves import (
    guided_wave,
    rayleigh_speed,
    rayleigh_wave,
    scholte_speed,
    scholte_wave,
    stoneley_speed,
    stoneley_wave,
)

WATER = Medium(1500.0, 0.0, 1000.0)
ROCK = Medium(5000.0, 2900.0, 2600.0)
SEDIMENT = Medium(1700.0, 300.0, 1800.0)
SALT = Medium(4500.0, 2500.0, 2100.0)
HEAVY, LIGHT = Medium(0.9**0.5, 0.3**0.5, 10.0), Medium(3.0**0.5, 1.0, 1.0)
# An inclined plane of incidence: rotations about z, then y, then x.
TURNED = np.array([[0.36, 0.48, -0.8], [-0.8, 0.6, 0.0], [0.48, 0.64, 0.6]])
PLACE = (30.0, -20.0, 50.0)


def ricker(t):
    square = (np.pi * 10.0 * np.asarray(t)) ** 2
    return (1.0 - 2.0 * square) * np.exp(-square)


FIELDS = {
    # name: field, upper medium, lower medium
    "P from water, pulse": (scattered_field(np.sin(0.25) / 1500, WATER, ROCK, ricker), WATER, ROCK),
    "P from rock, pulse, inclined": (
        scattered_field(np.sin(0.9) / 5000, WATER, ROCK, ricker, "lower P", origin=PLACE, axes=TURNED), WATER, ROCK,
    ),
    "SV from rock, pulse": (scattered_field(np.sin(0.4) / 2900, WATER, ROCK, ricker, "lower SV"), WATER, ROCK),
    "P beyond the P angle": (scattered_field(np.sin(0.45) / 1500, WATER, ROCK, Harmonic(60.0)), WATER, ROCK),
    "P beyond both angles": (
        scattered_field(np.sin(1.0) / 1500, WATER, ROCK, Harmonic(60.0), origin=PLACE, axes=TURNED), WATER, ROCK,
    ),
    "P beyond both angles, pulse": (
        scattered_field(np.sin(1.0) / 1500, WATER, ROCK, AnalyticPulse(0.05)), WATER, ROCK,
    ),
    "SV beyond the P angle": (
        scattered_field(np.sin(0.8) / 2900, WATER, ROCK, Harmonic(60.0), "lower SV"), WATER, ROCK,
    ),
    "two solids": (scattered_field(np.sin(0.9) / 2500, SALT, ROCK, Harmonic(60.0), "upper SV"), SALT, ROCK),
    "two fluids": (scattered_field(np.sin(0.5) / 1500, WATER, replace(ROCK, vs=0.0), Harmonic(60.0)), WATER,
                   replace(ROCK, vs=0.0)),
    "free surface": (scattered_field(np.sin(0.5) / 5000, None, ROCK, ricker, "lower P"), None, ROCK),
    "Scholte": (scholte_wave(WATER, SEDIMENT, 40.0), WATER, SEDIMENT),
    "Scholte pulse, fluid below": (
        guided_wave(scholte_speed(WATER, ROCK), WATER, ROCK, AnalyticPulse(0.05), origin=PLACE,
                    axes=((1, 0, 0), (0, -1, 0), (0, 0, -1))), WATER, ROCK,
    ),
    "Rayleigh": (rayleigh_wave(ROCK, 300.0), None, ROCK),
    "Stoneley": (stoneley_wave(Medium(948.7, 547.7, 10000.0), Medium(1732.1, 1000.0, 1000.0), 60.0),
                 Medium(948.7, 547.7, 10000.0), Medium(1732.1, 1000.0, 1000.0)),
}  # fmt: skip


def derivative(function, axis, point, time, steps):
    """Central difference of order 8 along x, y, z or t (axis 3)."""
    total = 0.0
    for reach, weight in enumerate((4 / 5, -1 / 5, 4 / 105, -1 / 280), start=1):
        *space, later = reach * steps[axis] * np.eye(4)[axis]
        total = total + weight * (function(point + space, time + later) - function(point - space, time - later))
    return total / steps[axis]


def tensors(values):
    stress = np.empty((3, 3))
    for name, value in zip(COMPONENTS[:6], values, strict=False):
        i, j = ("xyz".index(letter) for letter in name)
        stress[i, j] = stress[j, i] = value
    return stress, values[6:]


def points_of(field: InterfaceField, side: float, count: int = 4) -> np.ndarray:
    """Points a few metres above (side = 1) or below (side = -1) the interface, or on it (side = 0)."""
    rng = np.random.default_rng(7)
    points = rng.uniform(-20.0, 20.0, (count, 3))
    points -= np.outer(points @ field.normal, field.normal)
    return field.origin + points + side * np.outer(rng.uniform(2.0, 8.0, count), field.normal)


@pytest.mark.parametrize("name", FIELDS)
def test_fields_obey_momentum_balance_and_hookes_law(name):
    field, *media = FIELDS[name]
    for medium, upper in zip(media, (True, False), strict=True):
        if medium is None:
            continue
        for point in points_of(field, 1.0 if upper else -1.0):
            time = 0.013
            rates = [derivative(field.values, axis, point, time, (0.25, 0.25, 0.25, 2e-4)) for axis in range(4)]
            stress_rate, acceleration = tensors(rates[3])
            divergence = sum(tensors(rates[j])[0][:, j] for j in range(3))
            gradient = np.array([tensors(rates[j])[1] for j in range(3)])
            wanted = medium.lame_lambda * np.trace(gradient) * np.eye(3) + medium.rigidity * (gradient + gradient.T)
            assert np.abs(divergence).max() > 0.0
            assert np.allclose(divergence, medium.rho * acceleration, rtol=0, atol=1e-8 * np.abs(divergence).max())
            assert np.allclose(stress_rate, wanted, rtol=0, atol=1e-8 * np.abs(wanted).max())


@pytest.mark.parametrize("name", FIELDS)
def test_fields_obey_the_interface_conditions(name):
    field, above, below = FIELDS[name]
    points = points_of(field, 0.0, 20)
    times = np.linspace(-0.05, 0.08, 20)
    speed, jumps = 0.0, []
    for point, time in zip(points, times, strict=True):
        sides = []
        for upper in (True, False):
            stress, velocity = tensors(field.values(point, time, upper=upper))
            sides.append((stress @ field.normal, velocity))
            speed = max(speed, np.abs(velocity).max())
        jumps.append((sides[0][0] - sides[1][0], sides[0][1] - sides[1][1], sides[1][0]))
    impedance = max(medium.rho * medium.vp for medium in (above, below) if medium is not None)
    for traction, velocity, stress_below in jumps:
        assert np.abs(traction).max() < 1e-12 * impedance * speed
        if above is not None:
            assert abs(velocity @ field.normal) < 1e-12 * speed
            if above.fluid:
                shear = stress_below - (stress_below @ field.normal) * field.normal
                assert np.abs(shear).max() < 1e-12 * impedance * speed
            elif not below.fluid:
                assert np.abs(velocity).max() < 1e-12 * speed
    assert speed > 0.1


def test_one_medium_reflects_nothing_and_is_the_plane_wave():
    angle = 0.6
    for incident, direction, make, extra in (
        ("upper P", (np.sin(angle), 0, -np.cos(angle)), plane_waves.pressure_wave, ()),
        ("lower SV", (np.sin(angle), 0, np.cos(angle)), plane_waves.shear_wave, ((np.cos(angle), 0, -np.sin(angle)),)),
    ):
        p = np.sin(angle) / (2900.0 if "SV" in incident else 5000.0)
        field = scattered_field(p, ROCK, ROCK, ricker, incident)
        wave = make(direction, *extra, 5000.0, 2900.0, 2600.0, ricker)
        points = np.random.default_rng(1).uniform(-200.0, 200.0, (50, 3))
        stress = wave.stress(*points.T, 0.02)
        order = [plane_waves.VOIGT_PAIRS.index(("xyz".index(a), "xyz".index(b))) for a, b in COMPONENTS[:6]]
        expected = np.concatenate([stress[order], wave.particle_velocity(*points.T, 0.02)]).T
        found = field.values(points, 0.02)
        assert np.allclose(found[:, :6], expected[:, :6], rtol=0, atol=1e-12 * np.abs(stress).max())
        assert np.allclose(found[:, 6:], expected[:, 6:], rtol=0, atol=1e-13)


def test_normal_incidence():
    for near, far, incident, names in (
        (WATER, ROCK, "fluid P", ("fluid P", "solid P")),
        (ROCK, WATER, "solid P", ("solid P", "fluid P")),
    ):
        found = fluid_solid_coefficients(0.0, WATER, ROCK, incident)
        assert np.allclose([found[name] for name in names], normal_incidence_coefficients(near, far), atol=1e-15)
        assert abs(found["solid SV"]) < 1e-15
    assert normal_incidence_coefficients(WATER, ROCK)[0] == pytest.approx((13.0 - 1.5) / (13.0 + 1.5))


@pytest.mark.parametrize("solid", [ROCK, SEDIMENT, SALT])
def test_reflection_in_the_fluid_is_the_closed_form(solid):
    """Brekhovskikh & Godin 1990, chapter 4: impedances Z = ρc / cos θ, shared out by the angle of the shear wave."""
    p = np.sin(np.radians(np.linspace(0.0, 89.0, 90))) / WATER.vp
    cosines = {speed: np.sqrt(1.0 - (speed * p) ** 2 + 0j) for speed in (WATER.vp, solid.vp, solid.vs)}
    in_fluid = WATER.rho * WATER.vp / cosines[WATER.vp]
    pressure, shear = (solid.rho * speed / cosines[speed] for speed in (solid.vp, solid.vs))
    double = 1.0 - 2.0 * (solid.vs * p) ** 2  # cos 2γ, with γ the angle of the shear wave
    load = pressure * double**2 + shear * (1.0 - double**2)
    found = fluid_solid_coefficients(p, WATER, solid)
    assert np.allclose(found["fluid P"], (load - in_fluid) / (load + in_fluid), rtol=0, atol=1e-12)
    transmitted = 2.0 * WATER.rho * WATER.vp / solid.rho / solid.vp * pressure * double / (load + in_fluid)
    assert np.allclose(found["solid P"], transmitted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("incident", WAVES)
@pytest.mark.parametrize("media", [(WATER, ROCK), (WATER, SEDIMENT), (SALT, ROCK), (None, ROCK), (ROCK, WATER)])
def test_energy_is_conserved_and_exchange_is_mutual(incident, media):
    medium = media[0] if incident.startswith("upper") else media[1]
    if medium is None or (medium.fluid and "SV" in incident):
        with pytest.raises(ValueError, match="no such wave"):
            interface_coefficients(0.0, *media, incident)
        return
    speed = medium.vs if "SV" in incident else medium.vp
    p = np.sin(np.radians(np.linspace(0.5, 89.5, 90))) / speed
    shares = energy_fractions(p, *media, incident)
    assert np.allclose(sum(shares.values()), 1.0, rtol=0, atol=1e-12)
    assert all(np.all(share >= 0.0) for share in shares.values())
    for other, share in shares.items():
        target = media[0] if other.startswith("upper") else media[1]
        free = np.abs(p) * (target.vs if "SV" in other else target.vp) < 1.0
        assert np.all(share[~free] == 0.0)
        back = energy_fractions(p[free], *media, other)[incident]
        assert np.allclose(share[free], back, rtol=0, atol=1e-12)


def test_a_solid_without_rigidity_is_a_fluid():
    p = np.sin(np.radians(np.linspace(0.0, 85.0, 40))) / WATER.vp
    fluid = replace(SEDIMENT, vs=0.0)
    between = interface_coefficients(p, WATER, fluid)
    z1, z2 = (m.rho * m.vp / np.sqrt(1.0 - (m.vp * p) ** 2 + 0j) for m in (WATER, fluid))
    assert np.allclose(between["upper P"], (z2 - z1) / (z2 + z1), rtol=0, atol=1e-12)
    errors = []
    for vs in (10.0, 1.0, 0.1):
        almost = fluid_solid_coefficients(p, WATER, replace(SEDIMENT, vs=vs))
        errors.append(np.abs(almost["fluid P"] - between["upper P"]).max())
        assert np.abs(almost["solid P"] - between["lower P"]).max() < 1e-2 * vs / 10.0
    assert errors[2] < 1e-6 and errors[0] > errors[1] > errors[2]


def test_heavy_and_weightless_solids_are_walls_and_free_surfaces():
    p = np.sin(np.radians(np.linspace(0.0, 10.0, 11))) / WATER.vp
    assert np.allclose(fluid_solid_coefficients(p, WATER, replace(ROCK, rho=1e12))["fluid P"], 1.0, atol=1e-7)
    assert np.allclose(fluid_solid_coefficients(p, WATER, replace(ROCK, rho=1e-6))["fluid P"], -1.0, atol=1e-7)
    # Water of no weight leaves the solid a free surface.
    p = np.sin(0.5) / ROCK.vp
    loaded = interface_coefficients(p, replace(WATER, rho=1e-9), ROCK, "lower P")
    free = interface_coefficients(p, None, ROCK, "lower P")
    assert all(abs(loaded[name] - free[name]) < 1e-11 for name in free)


def test_speeds_of_interface_waves_are_the_known_ones():
    assert rayleigh_speed(3.0**0.5, 1.0) == pytest.approx(np.sqrt(2.0 - 2.0 / 3.0**0.5), rel=1e-15)
    # Wilcox, Stadler, Burstedde & Ghattas 2010 (Journal of Computational Physics 229, 9373), to their accuracy.
    assert scholte_speed(Medium(1.0, 0.0, 1.0), LIGHT) == pytest.approx(0.7110017230197, rel=3e-12)
    assert stoneley_speed(HEAVY, LIGHT) == pytest.approx(0.546981324213884, rel=2e-15)
    assert stoneley_speed(LIGHT, HEAVY) == pytest.approx(0.546981324213884, rel=2e-15)
    # Roots of γ_f (4 γ_α γ_β − (2 − ξ)²) = (ρ_f/ρ_s) ξ² γ_α, bisected with 40 decimals.
    assert scholte_speed(Medium(1.0, 0.0, 1.0), LIGHT) == pytest.approx(0.71100172301858125236, rel=1e-14)
    assert scholte_speed(WATER, ROCK) == pytest.approx(1492.76040146862238122, rel=1e-14)
    assert scholte_speed(WATER, SEDIMENT) == pytest.approx(266.54139305099552776, rel=1e-14)


def test_scholte_waves_are_slower_than_sound_and_rayleigh_waves():
    rng = np.random.default_rng(3)
    for sound, vs, ratio, rho in zip(*rng.uniform((300, 100, 1.2, 1), (3000, 4000, 3, 5000), (200, 4)).T, strict=True):
        fluid, solid = Medium(sound, 0.0, rho), Medium(vs * ratio, vs, 2000.0)
        rayleigh = rayleigh_speed(solid.vp, solid.vs)
        assert 0.0 < scholte_speed(fluid, solid) < min(sound, rayleigh) < vs
        scholte_wave(fluid, solid, 10.0)  # the interface matrix is singular there
    thin = replace(WATER, rho=1e-7)
    assert scholte_speed(thin, SEDIMENT) == pytest.approx(rayleigh_speed(SEDIMENT.vp, SEDIMENT.vs), rel=1e-9)
    assert scholte_speed(replace(WATER, rho=1e12), SEDIMENT) < 0.1
    with pytest.raises(ValueError, match="no Stoneley wave"):
        stoneley_speed(SALT, ROCK)


def test_scholte_field_is_periodic_and_dies_away():
    field = scholte_wave(WATER, SEDIMENT, 40.0, amplitude=2.0)
    speed = scholte_speed(WATER, SEDIMENT)
    points = np.random.default_rng(5).uniform(-40.0, 40.0, (30, 3))
    now = field.values(points, 0.1)
    tolerance = 1e-12 * np.abs(now).max(axis=0)
    assert np.all(np.abs(field.values(points + [40.0, 3.0, 0.0], 0.1) - now) <= tolerance)
    assert np.all(np.abs(field.values(points, 0.1 + 40.0 / speed) - now) <= tolerance)
    assert np.all(np.abs(field.values(points + [speed * 0.07, 0.0, 0.0], 0.17) - now) <= tolerance)
    assert field.values([0.0, 0.0, 0.0], 0.0)[8] == pytest.approx(2.0)
    heights = np.array([[0.0, 0.0, 40.0], [0.0, 0.0, 80.0]])
    decay = np.sqrt(1.0 - (speed / WATER.vp) ** 2) * 2.0 * np.pi
    high, higher = field.values(heights, 0.0)[:, 8]
    assert high == pytest.approx(2.0 * np.exp(-decay)) and higher == pytest.approx(2.0 * np.exp(-2.0 * decay))
    assert np.abs(field.values([0.0, 0.0, -1e5], 0.0)).max() == 0.0


def test_rayleigh_waves_roll_backwards():
    """In a Poisson solid the surface moves 0.6812 as far along as up, and against the way of travel on the crest."""
    solid = Medium(3.0**0.5 * 2000.0, 2000.0, 2500.0)
    period = 300.0 / rayleigh_speed(solid.vp, solid.vs)
    on_crest = rayleigh_wave(solid, 300.0).values([0.0, 0.0, 0.0], period / 4.0, upper=False)
    assert on_crest[6:] == pytest.approx([-0.68125, 0.0, 0.0], abs=1e-5)


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="evanescent"):
        scattered_field(np.sin(1.0) / 1500, WATER, ROCK, ricker)
    with pytest.raises(ValueError, match="at most"):
        interface_coefficients(1.0 / 1400, WATER, ROCK)
    with pytest.raises(ValueError, match="vp²"):
        Medium(1000.0, 900.0, 2000.0)
    with pytest.raises(ValueError, match="vs = 0"):
        scholte_speed(ROCK, WATER)
    with pytest.raises(ValueError, match="no interface wave"):
        guided_wave(1400.0, WATER, ROCK, Harmonic(1.0))
    with pytest.raises(ValueError, match="right angles"):
        scattered_field(0.0, WATER, ROCK, ricker, axes=np.ones((3, 3)))
