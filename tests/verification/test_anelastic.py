"""Exact solutions with attenuation, and the reference of LOH.3, tested against what they must satisfy."""

from __future__ import annotations

import numpy as np
import pytest

import loh3
from exact_solutions.anelastic import (
    anelastic_force,
    anelastic_moment,
    constant_quality,
    decay_rate,
)
from exact_solutions.full_space import full_space_force, full_space_moment
from lithowave.rheology import QualityLaw, fit_body, unrelaxed_moduli

VP, VS, RHO = 6000.0, 3464.0, 2700.0
SIGMA, DELAY = 0.11, 0.9
SOURCE = np.array([130.0, -410.0, -2300.0])
RECEIVER = np.array([1430.0, 1290.0, -1150.0])
MOMENT = np.array([1.3, -0.7, 2.1, 0.4, -1.6, 0.9]) * 1e15
FORCE = np.array([1.7, -0.6, 2.3]) * 1e10
TIMES = np.arange(0.0, 3.5, 0.02)
REFERENCE = 1.5


def gaussian(t):
    """Unit area."""
    return np.exp(-0.5 * ((t - DELAY) / SIGMA) ** 2) / (SIGMA * np.sqrt(2.0 * np.pi))


def moduli(qp=np.inf, qs=np.inf):
    return constant_quality(RHO * VP**2, qp, REFERENCE), constant_quality(RHO * VS**2, qs, REFERENCE)


def relative(values, exact):
    return np.abs(values - exact).max() / np.abs(exact).max()


@pytest.mark.parametrize("times", [TIMES, TIMES[37:140]], ids=["from 0", "later"])
@pytest.mark.parametrize("quantity", ["displacement", "velocity"])
def test_without_attenuation_it_is_the_elastic_solution(quantity, times):
    force = anelastic_force(RECEIVER, SOURCE, FORCE, gaussian, times, *moduli(), RHO, quantity)
    assert relative(force, full_space_force(RECEIVER, SOURCE, FORCE, gaussian, times, VP, VS, RHO, quantity)) < 1e-12
    moment = anelastic_moment(RECEIVER, SOURCE, MOMENT, gaussian, times, *moduli(), RHO, quantity)
    exact = full_space_moment(RECEIVER, SOURCE, MOMENT, gaussian, times, VP, VS, RHO, quantity)
    assert relative(moment, exact) < 1e-9


@pytest.mark.parametrize("quality", [30.0, 80.0])
@pytest.mark.parametrize("wave", ["P", "S"])
def test_far_waves_decay_exponentially(wave, quality):
    """Spectra at two distances r: exp(-w r / (2 Q c)) in amplitude, with the phase velocity c ~ f^g.

    More exactly, exp(-w r tan(pi g / 2) / c), in which 2 tan(pi g / 2) is 1/Q up to a part of 1/(4 Q^2). The near field
    at the distance r adds c / (w r) to P waves and three times as much to S waves, with a phase of 90 degrees.
    """
    direction, near, far = np.array([2.0, -1.0, 2.0]) / 3.0, 60e3, 120e3
    speed, moment = (VP, [1e15, 1e15, 1e15, 0, 0, 0]) if wave == "P" else (VS, [0, 0, 0, 1e15, 0, 0])
    part = direction if wave == "P" else np.array([1.0, 2.0, 0.0]) / np.sqrt(5.0)
    frequency, times = np.array([1.0, 1.5, 2.0]), 0.04 * np.arange(6000)
    spectra = []
    for distance in (near, far):
        place = distance * direction
        motion = anelastic_moment(
            place, np.zeros(3), moment, gaussian, times, *moduli(quality, quality), RHO, "velocity"
        )
        middle = DELAY + 0.5 * distance * (1.0 / VP + 1.0 / VS)  # where the near field of P waves is cut off
        window = 1.0 / (1.0 + np.exp(-4.0 * (times - middle))) if wave == "S" else 1.0
        spectra.append(np.exp(-2j * np.pi * np.outer(frequency, times)) @ (part @ motion * window))
    ratio = spectra[1] / spectra[0] * far / near
    velocity = speed * (frequency / REFERENCE) ** (np.arctan(1.0 / quality) / np.pi)
    decay = 2.0 * np.pi * frequency * (far - near) / (2.0 * quality * velocity)
    np.testing.assert_allclose(-np.log(np.abs(ratio)), decay, rtol=1.5e-3)
    modulus = moduli(quality, quality)["PS".index(wave)]
    np.testing.assert_allclose(decay_rate(modulus, RHO, frequency) * (far - near), decay, rtol=1e-3)
    delay = np.exp(-2j * np.pi * frequency * (far - near) / velocity)
    near_field = (1.0 if wave == "P" else 3.0) * speed / (2.0 * np.pi * frequency) * (1.0 / near - 1.0 / far)
    assert (np.abs(np.angle(ratio / delay)) < 1.1 * near_field).all() and near_field.max() < 0.014


@pytest.mark.parametrize(("mechanisms", "limit"), [(3, 0.011), (4, 2.6e-3), (5, 2.3e-3)])
def test_a_fitted_body_is_close_to_constant_quality(mechanisms, limit):
    """Seismograms at 7.5 km in the layer of LOH.3: 1.07%, 0.25% and 0.22% with a band of 0.05 to 5 Hz."""
    layer = loh3.LAYERS[0]
    vp, vs, rho = (np.array(float(layer[key])) for key in ("vp", "vs", "rho"))
    body = fit_body(QualityLaw(), (0.05, 5.0), mechanisms, (1 / 69.3, 1 / 40))
    bulk, shear = np.array(0.0), np.array(1 / 40)
    kappa, mu = unrelaxed_moduli(vp, vs, rho, (bulk, shear), body, loh3.REFERENCE_FREQUENCY)

    def s_modulus(omega):
        return mu * body.modulus_ratio(omega, shear)

    def p_modulus(omega):
        return kappa * body.modulus_ratio(omega, bulk) + 4.0 / 3.0 * s_modulus(omega)

    constant = (
        constant_quality(rho * speed**2, layer[key], loh3.REFERENCE_FREQUENCY)
        for key, speed in (("qp", vp), ("qs", vs))
    )
    place, moment, times = (6000.0, 4000.0, 2000.0), (0, 0, 0, 1e18, 0, 0), np.arange(0.0, 9.0, 0.02)
    exact = anelastic_moment(place, np.zeros(3), moment, gaussian, times, *constant, rho, "velocity")
    fitted = anelastic_moment(place, np.zeros(3), moment, gaussian, times, p_modulus, s_modulus, rho, "velocity")
    assert 0.8 * limit < np.linalg.norm(fitted - exact) / np.linalg.norm(exact) < limit


# --- LOH.3


def test_the_decay_of_loh3_is_that_of_its_quality_factors():
    """Spectral ratios to LOH.1 at the nearest receiver, to which S waves travel almost vertically."""
    times, receivers, velocity = loh3.reference()
    with np.load(loh3.PATH.parents[1] / "loh1" / "loh1.npz") as file:
        elastic = file["v"]
    frequency = np.array([0.5, 1.0, 1.5, 2.0, 2.5])
    kernel = np.exp(-2j * np.pi * np.outer(frequency, times))
    ratio = np.linalg.norm(velocity[0] @ kernel.T, axis=0) / np.linalg.norm(elastic[0] @ kernel.T, axis=0)
    slope = -np.polyfit(frequency, np.log(ratio), 1)[0] / np.pi  # t* = sum of travel time / Q
    slant = np.hypot(1000.0, np.hypot(*receivers[0, :2])) / 1000.0
    upper, lower = loh3.LAYERS
    travel = 1000.0 / (upper["vs"] * upper["qs"]) + 1000.0 / (lower["vs"] * lower["qs"])
    assert travel < slope < 1.5 * slant * travel
