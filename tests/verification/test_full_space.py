"""The exact full-space solution, tested against what it must satisfy but does not use."""

from __future__ import annotations

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
