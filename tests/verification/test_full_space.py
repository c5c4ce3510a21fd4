"""The exact full-space solution, tested against what it must satisfy but does not use."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from exact_solutions.full_space import full_space_force, full_space_moment

VP, VS, RHO = 6000.0, 3464.0, 2700.0
SIGMA, DELAY = 0.11, 0.9
MEDIUM = (VP, VS, RHO)
SOURCE = np.array([130.0, -410.0, -2300.0])
RECEIVER = np.array([1430.0, 1290.0, -1150.0])
MOMENT = np.array([1.3, -0.7, 2.1, 0.4, -1.6, 0.9]) * 1e15
FORCE = np.array([1.7, -0.6, 2.3]) * 1e10
TIMES = np.arange(0.0, 3.5, 0.02)
VOIGT = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))


def gaussian(t):
    """Unit area."""
    return np.exp(-0.5 * ((t - DELAY) / SIGMA) ** 2) / (SIGMA * np.sqrt(2.0 * np.pi))


def gaussian_derivative(t):
    return -(t - DELAY) / SIGMA**2 * gaussian(t)


def gaussian_integral(t):
    from scipy.special import erf

    return 0.5 * (1.0 + erf((t - DELAY) / (SIGMA * np.sqrt(2.0))))


def relative(a, b):
    return np.linalg.norm(a - b) / np.linalg.norm(b)


def central(function, point, axis, step):
    """The derivative of order 8 of a function of position along one axis."""
    offset = np.zeros(3)
    offset[axis] = step
    weights = {1: 4 / 5, 2: -1 / 5, 3: 4 / 105, 4: -1 / 280}
    return (
        sum(w * (function(point + k * offset) - function(point - k * offset)) for k, w in weights.items())
        / step
    )


@pytest.mark.parametrize("quantity, curve", [("displacement", gaussian_integral), ("velocity", gaussian)])
def test_moment_tensor_is_the_derivative_of_forces_at_the_source(quantity, curve):
    """u_n = M_pq ∂G_np/∂ξ_q, the force's amplitude being the moment (for velocity, the moment rate)."""
    expected = np.zeros((3, TIMES.size))
    tensor = np.zeros((3, 3))
    for value, (i, j) in zip(MOMENT, VOIGT, strict=True):
        tensor[i, j] = tensor[j, i] = value
    for axis in range(3):

        def from_force(source, column=tensor[:, axis]):
            return full_space_force(RECEIVER, source, column, curve, TIMES, *MEDIUM)

        expected += central(from_force, SOURCE, axis, 25.0)
    motion = full_space_moment(RECEIVER, SOURCE, MOMENT, gaussian, TIMES, *MEDIUM, quantity)
    assert relative(motion, expected) < 1e-6


@pytest.mark.parametrize("given", [None, gaussian_derivative])
def test_velocity_is_the_derivative_of_displacement(given):
    step = 0.01
    for solution, strength in ((full_space_force, FORCE), (full_space_moment, MOMENT)):

        def displacement(t, solution=solution, strength=strength):
            return solution(RECEIVER, SOURCE, strength, gaussian, t, *MEDIUM)

        expected = (
            sum(
                w * (displacement(TIMES + k * step) - displacement(TIMES - k * step))
                for k, w in {1: 4 / 5, 2: -1 / 5, 3: 4 / 105, 4: -1 / 280}.items()
            )
            / step
        )
        velocity = solution(
            RECEIVER, SOURCE, strength, gaussian, TIMES, *MEDIUM, "velocity", derivative=given
        )
        assert relative(velocity, expected) < 1e-6


def test_near_field_integral_against_its_closed_form():
    """∫ τ g(t − τ) dτ of a Gaussian in terms of its own integral, from a force across the ray."""
    receiver, source = np.array([900.0, 0.0, 0.0]), np.zeros(3)
    r = 900.0
    a, b = r / VP, r / VS
    times = np.linspace(0.2, 2.2, 61)
    motion = full_space_force(receiver, source, (0.0, 1.0, 0.0), gaussian, times, *MEDIUM)[1]
    near = -(4.0 * np.pi * RHO * motion - gaussian(times - b) / (VS**2 * r)) * r**3
    centre = times - DELAY
    area = gaussian_integral(times - a) - gaussian_integral(times - b)
    exact = centre * area + SIGMA**2 * (gaussian(times - a) - gaussian(times - b))
    assert np.max(np.abs(near - exact)) < 1e-8 * np.max(np.abs(exact))


def test_the_equation_of_motion_holds_away_from_the_source():
    """ρ ü = (λ + μ) ∇(∇·u) + μ ∇²u, by differences of order 8 in space and time."""
    times = np.arange(1.2, 2.0, 0.05)
    step, time_step = 20.0, 0.01
    second = {0: -205 / 72, 1: 8 / 5, 2: -1 / 5, 3: 8 / 315, 4: -1 / 560}

    def motion(point, t=times):
        return full_space_moment(point, SOURCE, MOMENT, gaussian, t, *MEDIUM)

    acceleration = (
        sum(
            w
            * (
                motion(RECEIVER, times + k * time_step)
                + (motion(RECEIVER, times - k * time_step) if k else 0.0)
            )
            for k, w in second.items()
        )
        / time_step**2
    )
    hessian = np.zeros((3, 3, 3, times.size))
    for i in range(3):
        for j in range(3):
            hessian[i, j] = central(lambda p, j=j: central(motion, p, j, step), RECEIVER, i, step)
    mu = RHO * VS**2
    lam = RHO * VP**2 - 2.0 * mu
    elastic = (lam + mu) * np.einsum("ijjt->it", hessian) + mu * np.einsum("jjit->it", hessian)
    assert relative(elastic, RHO * acceleration) < 1e-5


def test_an_explosion_has_no_s_wave_and_moves_radially():
    source, receiver = np.zeros(3), np.array([6000.0, 8000.0, 12000.0])
    r = np.linalg.norm(receiver)
    times = np.arange(0.0, r / VS + 3.0, 0.02)
    velocity = full_space_moment(
        receiver, source, (1e15, 1e15, 1e15, 0, 0, 0), gaussian, times, *MEDIUM, "velocity"
    )
    radial = receiver @ velocity / r
    peak = np.abs(radial).max()
    assert np.abs(velocity - np.outer(receiver / r, radial)).max() < 1e-12 * peak
    after_p = times > r / VP + DELAY + 8 * SIGMA
    assert times[after_p].min() < r / VS
    assert np.abs(velocity[:, after_p]).max() < 1e-8 * peak


def test_a_lasting_force_ends_in_kelvins_solution():
    """u_i = F_j [(3 − 4ν) δ_ij + γ_i γ_j] / (16 π μ (1 − ν) r)."""
    late = np.array([6.0, 7.0])
    motion = full_space_force(RECEIVER, SOURCE, FORCE, gaussian_integral, late, *MEDIUM)
    separation = RECEIVER - SOURCE
    r = np.linalg.norm(separation)
    direction = separation / r
    poisson = (VP**2 - 2 * VS**2) / (2 * (VP**2 - VS**2))
    factor = 16.0 * np.pi * RHO * VS**2 * (1.0 - poisson) * r
    kelvin = ((3.0 - 4.0 * poisson) * FORCE + direction * (direction @ FORCE)) / factor
    assert relative(motion, np.repeat(kelvin[:, None], 2, axis=1)) < 1e-9


def test_far_field_radiation_of_a_double_couple():
    """M_xy: P along γ with sin²θ sin 2φ, S across it, amplitudes 1/(4πρ α³ r) and 1/(4πρ β³ r)."""
    moment = 1e15
    azimuth, polar, r = np.radians(25.0), np.radians(70.0), 4e6
    direction = np.array([np.sin(polar) * np.cos(azimuth), np.sin(polar) * np.sin(azimuth), np.cos(polar)])
    along_polar = np.array([np.cos(polar) * np.cos(azimuth), np.cos(polar) * np.sin(azimuth), -np.sin(polar)])
    along_azimuth = np.array([-np.sin(azimuth), np.cos(azimuth), 0.0])
    peak = gaussian(np.array(DELAY))
    expected_p = np.sin(polar) ** 2 * np.sin(2 * azimuth) * direction / VP**3
    expected_s = (
        0.5 * np.sin(2 * polar) * np.sin(2 * azimuth) * along_polar
        + np.sin(polar) * np.cos(2 * azimuth) * along_azimuth
    ) / VS**3
    for speed, expected in ((VP, expected_p), (VS, expected_s)):
        time = np.array([r / speed + DELAY])
        motion = full_space_moment(direction * r, (0, 0, 0), (0, 0, 0, moment, 0, 0), gaussian, time, *MEDIUM)
        far = expected * moment * peak / (4.0 * np.pi * RHO * r)
        assert relative(motion[:, 0], far) < 1e-3


def test_the_momentum_of_the_solid_is_the_impulse_of_the_force():
    """∫ ρ v dV = ∫ F dt, over a ball the waves have not left."""
    time, radius = 1.5, VP * 1.5
    cosines, cosine_weights = np.polynomial.legendre.leggauss(4)
    azimuths = 2.0 * np.pi * (np.arange(6) + 0.5) / 6
    places, weights = np.polynomial.legendre.leggauss(40)
    radii, radial_weights = 0.5 * radius * (places + 1.0), 0.5 * radius * weights
    momentum = np.zeros(3)
    for r, radial_weight in zip(radii, radial_weights, strict=True):
        for cosine, cosine_weight in zip(cosines, cosine_weights, strict=True):
            sine = np.sqrt(1.0 - cosine**2)
            for azimuth in azimuths:
                point = r * np.array([sine * np.cos(azimuth), sine * np.sin(azimuth), cosine])
                velocity = full_space_force(
                    point, (0, 0, 0), FORCE, gaussian, np.array([time]), *MEDIUM, "velocity",
                    derivative=gaussian_derivative,
                )  # fmt: skip
                momentum += RHO * r**2 * radial_weight * cosine_weight * (2 * np.pi / 6) * velocity[:, 0]
    impulse = FORCE * gaussian_integral(np.array(time))
    assert relative(momentum, impulse) < 1e-4


def test_rough_time_functions_are_exact_with_breakpoints_and_refused_without():
    def boxcar(t):
        return np.where((t >= 0.3) & (t < 0.7), 2.5, 0.0)

    times = np.array([0.3, 0.5, 0.9])
    receiver, source, r = (0.0, 0.0, 900.0), (0.0, 0.0, 0.0), 900.0
    a, b = r / VP, r / VS
    motion = full_space_force(receiver, source, (1, 0, 0), boxcar, times, *MEDIUM, breakpoints=(0.3, 0.7))[0]
    lower, upper = np.clip(times - 0.7, a, b), np.clip(times - 0.3, a, b)
    near = -2.5 * 0.5 * (upper**2 - lower**2) / r**3
    exact = (near + boxcar(times - b) / (VS**2 * r)) / (4.0 * np.pi * RHO)
    assert np.allclose(motion, exact, rtol=1e-12, atol=1e-12 * np.abs(exact).max())
    with pytest.raises(ValueError, match="breakpoints"):
        full_space_force(receiver, source, (1, 0, 0), boxcar, times, *MEDIUM)
    at_the_jump = np.array([0.3 + b, 0.6])
    with pytest.raises(ValueError, match="derivative"):
        full_space_force(
            receiver, source, (1, 0, 0), boxcar, at_the_jump, *MEDIUM, "velocity", breakpoints=(0.3, 0.7)
        )


def test_time_function_objects_are_read_by_their_normalisation():
    both = SimpleNamespace(rate=gaussian, amplitude=lambda t: 7.0 * gaussian(t))
    by_object = full_space_moment(RECEIVER, SOURCE, MOMENT, both, TIMES, *MEDIUM)
    assert np.array_equal(by_object, full_space_moment(RECEIVER, SOURCE, MOMENT, gaussian, TIMES, *MEDIUM))
    by_object = full_space_force(RECEIVER, SOURCE, FORCE, both, TIMES, *MEDIUM)
    assert (
        relative(by_object, 7.0 * full_space_force(RECEIVER, SOURCE, FORCE, gaussian, TIMES, *MEDIUM)) < 1e-12
    )


def test_what_has_no_solution_is_refused():
    with pytest.raises(ValueError, match="unbounded"):
        full_space_force(SOURCE, SOURCE, FORCE, gaussian, TIMES, *MEDIUM)
    with pytest.raises(ValueError, match="vp"):
        full_space_force(RECEIVER, SOURCE, FORCE, gaussian, TIMES, 4000.0, 3500.0, RHO)
    with pytest.raises(ValueError, match="quantity"):
        full_space_moment(RECEIVER, SOURCE, MOMENT, gaussian, TIMES, *MEDIUM, "speed")
