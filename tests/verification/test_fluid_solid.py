"""Reflection, transmission and interface waves must satisfy the equations that they are to test."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from exact_solutions.fluid_solid import COMPONENTS, Harmonic, InterfaceField, Medium, scattered_field
from exact_solutions.interface_waves import rayleigh_speed, rayleigh_wave, scholte_speed, scholte_wave

WATER = Medium(1500.0, 0.0, 1000.0)
ROCK = Medium(5000.0, 2900.0, 2600.0)
SEDIMENT = Medium(1700.0, 300.0, 1800.0)
SALT = Medium(4500.0, 2500.0, 2100.0)
LIGHT = Medium(3.0**0.5, 1.0, 1.0)
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
    "SV beyond the P angle": (
        scattered_field(np.sin(0.8) / 2900, WATER, ROCK, Harmonic(60.0), "lower SV"), WATER, ROCK,
    ),
    "two solids": (scattered_field(np.sin(0.9) / 2500, SALT, ROCK, Harmonic(60.0), "upper SV"), SALT, ROCK),
    "two fluids": (scattered_field(np.sin(0.5) / 1500, WATER, replace(ROCK, vs=0.0), Harmonic(60.0)), WATER,
                   replace(ROCK, vs=0.0)),
    "free surface": (scattered_field(np.sin(0.5) / 5000, None, ROCK, ricker, "lower P"), None, ROCK),
    "Scholte": (scholte_wave(WATER, SEDIMENT, 40.0), WATER, SEDIMENT),
    "Rayleigh": (rayleigh_wave(ROCK, 300.0), None, ROCK),
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


def test_speeds_of_interface_waves_are_the_known_ones():
    assert rayleigh_speed(3.0**0.5, 1.0) == pytest.approx(np.sqrt(2.0 - 2.0 / 3.0**0.5), rel=1e-15)
    # Wilcox, Stadler, Burstedde & Ghattas 2010 (Journal of Computational Physics 229, 9373), to their accuracy.
    assert scholte_speed(Medium(1.0, 0.0, 1.0), LIGHT) == pytest.approx(0.7110017230197, rel=3e-12)
    # Roots of γ_f (4 γ_α γ_β − (2 − ξ)²) = (ρ_f/ρ_s) ξ² γ_α, bisected with 40 decimals.
    assert scholte_speed(Medium(1.0, 0.0, 1.0), LIGHT) == pytest.approx(0.71100172301858125236, rel=1e-14)
    assert scholte_speed(WATER, ROCK) == pytest.approx(1492.76040146862238122, rel=1e-14)
    assert scholte_speed(WATER, SEDIMENT) == pytest.approx(266.54139305099552776, rel=1e-14)
