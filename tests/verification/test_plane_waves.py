"""Plane waves must satisfy the equations they are to test: momentum balance and Hooke's law."""

from __future__ import annotations

import numpy as np
import pytest

from exact_solutions.plane_waves import VOIGT_PAIRS, pressure_wave, shear_wave

VP, VS, RHO = 6000.0, 3464.0, 2700.0
DIRECTION = (0.3, -0.8, 0.52)
WAVES = {
    "P": pressure_wave(DIRECTION, VP, VS, RHO, lambda t: np.sin(9.0 * t), origin=(10.0, 20.0, 30.0)),
    "S": shear_wave(DIRECTION, (0.8, 0.3, 0.0), VP, VS, RHO, lambda t: np.sin(9.0 * t)),
}
POINT = np.array([210.0, -340.0, 95.0])
TIME = 0.37


def difference(function, point, time, axis):
    """Central difference of order 4 along x, y, z or t (axis 3)."""
    step = 1e-3 if axis == 3 else 4.0
    at = np.array([*point, time])
    offset = np.zeros(4)
    offset[axis] = step
    near = function(*(at + offset)) - function(*(at - offset))
    far = function(*(at + 2 * offset)) - function(*(at - 2 * offset))
    return (8.0 * near - far) / (12.0 * step)


@pytest.mark.parametrize("kind", WAVES)
def test_momentum_balance_and_hookes_law(kind):
    wave = WAVES[kind]
    stress_gradient = [difference(wave.stress, POINT, TIME, axis) for axis in range(3)]
    divergence = np.zeros(3)
    for component, (i, j) in enumerate(VOIGT_PAIRS):
        divergence[i] += stress_gradient[j][component]
        if i != j:
            divergence[j] += stress_gradient[i][component]
    acceleration = difference(wave.particle_velocity, POINT, TIME, 3)
    assert np.allclose(divergence, RHO * acceleration, rtol=0, atol=1e-8 * np.abs(divergence).max())

    gradient = np.array([difference(wave.particle_velocity, POINT, TIME, axis) for axis in range(3)])
    mu = RHO * VS**2
    lam = RHO * VP**2 - 2 * mu
    rate = lam * np.trace(gradient) * np.eye(3) + mu * (gradient + gradient.T)
    expected = np.array([rate[pair] for pair in VOIGT_PAIRS])
    stress_rate = difference(wave.stress, POINT, TIME, 3)
    assert np.allclose(stress_rate, expected, rtol=0, atol=1e-8 * np.abs(expected).max())


def test_traction_is_impedance_times_velocity_and_shapes_broadcast():
    x, y, z = np.meshgrid(
        np.linspace(0, 1e3, 4), np.linspace(0, 1e3, 3), np.linspace(-1e3, 0, 2), indexing="ij"
    )
    for wave, speed in ((WAVES["P"], VP), (WAVES["S"], VS)):
        stress = wave.stress(x, y, z, TIME)
        velocity = wave.particle_velocity(x, y, z, TIME)
        assert stress.shape == (6, 4, 3, 2) and velocity.shape == (3, 4, 3, 2)
        traction = np.zeros_like(velocity)
        for component, (i, j) in enumerate(VOIGT_PAIRS):
            traction[i] += stress[component] * wave.direction[j]
            if i != j:
                traction[j] += stress[component] * wave.direction[i]
        assert np.allclose(traction, -RHO * speed * velocity)


def test_a_shear_wave_must_move_across_its_direction():
    with pytest.raises(ValueError, match="perpendicular"):
        shear_wave((1, 0, 0), (1, 1, 0), VP, VS, RHO, np.sin)
    with pytest.raises(ValueError, match="direction"):
        pressure_wave((0, 0, 0), VP, VS, RHO, np.sin)
