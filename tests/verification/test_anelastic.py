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
    phase_velocity,
    plane_wave,
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


def test_weak_attenuation_is_close_to_the_elastic_solution():
    """The difference is proportional to 1/Q."""
    exact = full_space_moment(RECEIVER, SOURCE, MOMENT, gaussian, TIMES, VP, VS, RHO, "velocity")
    changes = [
        relative(anelastic_moment(RECEIVER, SOURCE, MOMENT, gaussian, TIMES, *moduli(q, q), RHO, "velocity"), exact)
        for q in (1e6, 1e4)
    ]
    assert 0.0 < changes[0] < 1e-5 and changes[1] == pytest.approx(100.0 * changes[0], rel=0.02)


def test_the_result_does_not_depend_on_the_length_of_the_transform():
    """No motion wraps around: with strong attenuation, and a transform eight times as long."""
    long = 0.02 * np.arange(8 * TIMES.size)
    for quantity in ("displacement", "velocity"):
        short, padded = (
            anelastic_moment(RECEIVER, SOURCE, MOMENT, gaussian, times, *moduli(30.0, 15.0), RHO, quantity)
            for times in (TIMES, long)
        )
        assert relative(short, padded[:, : TIMES.size]) < 1e-8


@pytest.mark.parametrize("solution, strength", [(anelastic_force, FORCE), (anelastic_moment, MOMENT)])
def test_moment_tensors_and_velocities_are_derivatives(solution, strength):
    """The velocity is the derivative of the displacement; a moment tensor is the derivative of forces."""
    step = 1e-3
    times = np.arange(0.0, 3.5, step)
    displacement = solution(RECEIVER, SOURCE, strength, gaussian, times, *moduli(40.0, 20.0), RHO)
    velocity = solution(RECEIVER, SOURCE, strength, gaussian, times, *moduli(40.0, 20.0), RHO, "velocity")
    weights = {1: 4 / 5, 2: -1 / 5, 3: 4 / 105, 4: -1 / 280}
    slope = sum(w * (np.roll(displacement, -k, 1) - np.roll(displacement, k, 1)) for k, w in weights.items()) / step
    assert relative(velocity[:, 4:-4], slope[:, 4:-4]) < 1e-8
    xx, yy, zz, xy, xz, yz = MOMENT
    tensor = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    expected = 0.0
    for axis in range(3):
        for k, w in weights.items():
            for sign in (1, -1):
                place = SOURCE + sign * k * 25.0 * np.eye(3)[axis]
                force = anelastic_force(RECEIVER, place, tensor[axis], gaussian, TIMES, *moduli(40.0, 20.0), RHO)
                expected = expected + sign * w / 25.0 * force
    moment = anelastic_moment(RECEIVER, SOURCE, MOMENT, gaussian, TIMES, *moduli(40.0, 20.0), RHO, "velocity")
    assert relative(moment, expected) < 1e-6


def test_the_motion_is_causal():
    """Nothing arrives before the fastest wave of a relaxation body, that of its unrelaxed modulus."""
    body = fit_body(QualityLaw(), (0.05, 5.0), 3, (1 / 50, 1 / 20))
    q = np.array(1 / 50), np.array(1 / 20)
    kappa, mu = unrelaxed_moduli(np.array(VP), np.array(VS), np.array(RHO), q, body, REFERENCE)

    def shear(omega):
        return mu * body.modulus_ratio(omega, q[1])

    def p_modulus(omega):
        return kappa * body.modulus_ratio(omega, q[0]) + 4.0 / 3.0 * shear(omega)

    assert phase_velocity(p_modulus, RHO, REFERENCE) == pytest.approx(VP, rel=1e-13)
    assert phase_velocity(shear, RHO, REFERENCE) == pytest.approx(VS, rel=1e-13)
    far = SOURCE + 10.0 * (RECEIVER - SOURCE)
    times = np.arange(0.0, 12.0, 0.02)

    def pulse(t):  # from 0.3 to 0.9 s
        return np.where(np.abs(t - 0.6) < 0.3, np.cos(np.pi * (t - 0.6) / 0.6) ** 12, 0.0)

    motion = anelastic_moment(far, SOURCE, MOMENT, pulse, times, p_modulus, shear, RHO, "velocity")
    arrival = 0.3 + np.linalg.norm(far - SOURCE) / np.sqrt((kappa + 4 / 3 * mu) / RHO)
    peak = np.abs(motion).max()
    assert np.abs(motion[:, times < arrival]).max() < 1e-8 * peak
    assert np.abs(motion[:, (times > arrival) & (times < arrival + 0.4)]).max() > 1e-3 * peak


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


def test_plane_waves_decay_and_disperse():
    """A wave train of one frequency has the amplitude exp(-k x) and the phase velocity of its modulus."""
    modulus = moduli(quality := 25.0, quality)[1]
    frequency, distance = 2.0, 6000.0
    times = np.arange(0.0, 24.0, 0.01)

    def train(t):
        return np.exp(-(((t - 8.0) / 1.5) ** 2)) * np.sin(2.0 * np.pi * frequency * (t - 8.0))

    moved = plane_wave(distance, train, times, modulus, RHO)
    kernel = np.exp(-2j * np.pi * frequency * times)
    ratio = (kernel @ moved) / (kernel @ train(times))
    assert np.log(np.abs(ratio)) == pytest.approx(-decay_rate(modulus, RHO, frequency) * distance, rel=1e-9)
    turns = frequency * distance / phase_velocity(modulus, RHO, frequency)
    assert np.angle(ratio * np.exp(2j * np.pi * turns)) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("quality", [5.0, 40.0, 1e3])
def test_constant_quality(quality):
    modulus, frequency = constant_quality(RHO * VS**2, quality, REFERENCE), np.array([1e-3, 0.3, 1.5, 40.0])
    values = modulus(2.0 * np.pi * frequency)
    np.testing.assert_allclose(values.real / values.imag, quality, rtol=1e-12)
    assert phase_velocity(modulus, RHO, REFERENCE) == pytest.approx(VS, rel=1e-14)
    # The exact relation of the decay to Q: alpha = w / c tan(arctan(1/Q) / 2).
    exact = 2.0 * np.pi * frequency / phase_velocity(modulus, RHO, frequency) * np.tan(0.5 * np.arctan(1.0 / quality))
    np.testing.assert_allclose(decay_rate(modulus, RHO, frequency), exact, rtol=1e-12)


def test_what_cannot_be_computed_is_refused():
    arguments = (*moduli(), RHO)
    with pytest.raises(ValueError, match="equally spaced"):
        anelastic_force(RECEIVER, SOURCE, FORCE, gaussian, [0.0, 1.0, 1.5], *arguments)
    with pytest.raises(ValueError, match="not negative"):
        anelastic_force(RECEIVER, SOURCE, FORCE, gaussian, TIMES - 1.0, *arguments)
    with pytest.raises(ValueError, match="unbounded"):
        anelastic_moment(SOURCE, SOURCE, MOMENT, gaussian, TIMES, *arguments)
    with pytest.raises(ValueError, match="quantity"):
        anelastic_moment(RECEIVER, SOURCE, MOMENT, gaussian, TIMES, *arguments, "strain")
    with pytest.raises(ValueError, match="too rough"):
        anelastic_moment(RECEIVER, SOURCE, MOMENT, lambda t: np.where(t < 1.0, 1.0, 0.0), TIMES, *arguments)


# --- LOH.3


def test_the_reference_of_loh3_is_that_of_loh1_with_attenuation():
    times, receivers, velocity = loh3.reference()
    with np.load(loh3.PATH.parents[1] / "loh1" / "loh1.npz") as file:
        elastic = {name: file[name] for name in file.files}
    assert np.array_equal(times, elastic["t"]) and np.array_equal(receivers, elastic["receivers"])
    assert velocity.shape == (10, 3, 901) and np.isfinite(velocity).all()
    ratio = np.abs(velocity).max(axis=(1, 2)) / np.abs(elastic["v"]).max(axis=(1, 2))
    assert 0.82 < ratio.min() < ratio.max() < 0.94
    assert ratio[0] == ratio.max() and ratio[:5].min() > ratio[5:].max()  # smaller at larger distances


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
