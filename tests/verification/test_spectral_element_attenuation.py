"""Spectral elements with attenuation: sources in a full space, plane waves, energy, and what memory variables store."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lithowave as lw
from lithowave.verification.anelastic import anelastic_moment
from slow_variants import slow_except
from verification_tools import ABSORBING_TOP, relative_l2, velocities

VP, VS, RHO = 6000.0, 3464.0, 2700.0
FREQUENCY = 2.0
# The spectrum of the moment rate falls to 5% of its peak at FREQUENCY.
SIGMA = np.sqrt(2 * np.log(20.0)) / (2 * np.pi * FREQUENCY)
PULSE = {"gaussian": {"sigma": SIGMA, "delay": 6 * SIGMA}}
TENSOR = np.array([1.3, -0.7, 2.1, 0.4, -1.6, 0.9]) * 1e15


def full_space(qp: float, qs: float, half_length: float, **solver: Any) -> lw.Simulation:
    """A random moment tensor off the center, and three receivers around it."""
    source = {
        "position": [110.0, -170.0, 60.0],
        "moment_tensor": dict(zip(("xx", "yy", "zz", "xy", "xz", "yz"), TENSOR.tolist(), strict=True)),
        "time_function": PULSE,
    }
    directions = np.array([[0.82, 0.33, -0.29], [-0.36, 0.77, 0.41], [0.28, -0.52, -0.71]])
    return lw.Simulation(
        domain={axis: [-half_length, half_length] for axis in "xyz"},
        boundaries=ABSORBING_TOP | {"absorption": "stacey"},
        material={"homogeneous": {"vp": VP, "vs": VS, "rho": RHO, "qp": qp, "qs": qs}},
        sources=[source],
        receivers=[
            {"network": "XX", "name": f"R{n}", "position": (half_length * place).tolist()}
            for n, place in enumerate(directions)
        ],
        duration=12 * SIGMA + 1.2 * half_length / VS,
        solver={"method": "spectral_element", "max_frequency": FREQUENCY, **solver},
        output={"sampling_interval": 0.02},
    )


def exact(simulation: lw.Simulation, time: np.ndarray) -> np.ndarray:
    """Motion with the moduli of the relaxation body."""
    found, source = simulation.anelasticity, simulation.point_sources()[0]
    properties = simulation.material.homogeneous
    bulk, shear = properties.inverse_quality
    stiffness = found.material.homogeneous.stiffness_matrix()
    mu = stiffness[5, 5]
    kappa = stiffness[0, 0] - 4 / 3 * mu

    def s_modulus(omega: np.ndarray) -> np.ndarray:
        return mu * found.body.modulus_ratio(omega, shear)

    def p_modulus(omega: np.ndarray) -> np.ndarray:
        return kappa * found.body.modulus_ratio(omega, bulk) + 4 / 3 * s_modulus(omega)

    return np.array([
        anelastic_moment(
            receiver.position, source.position, TENSOR, source.time_function, time, p_modulus, s_modulus, RHO, "velocity"
        )
        for receiver in simulation.receiver_list()
    ])  # fmt: skip


def full_space_error(qp: float, qs: float, **solver: Any) -> float:
    """Error before waves return from the sides."""
    simulation = full_space(qp, qs, 3.0 * VS / FREQUENCY, **solver)
    time, computed = velocities(simulation)
    truth, (source,) = exact(simulation, time), simulation.point_sources()
    for number, receiver in enumerate(simulation.receiver_list()):
        way = 2 * simulation.domain.x[1] - np.abs(receiver.position).max() - np.abs(source.position).max()
        late = time > way / VP + 2 * SIGMA  # the pulse begins 4 sigma before its middle
        computed[number, :, late] = truth[number, :, late] = 0
    return relative_l2(computed, truth)


QUALITIES = [(80, 40, 0.015), (40, 20, 0.015), (20, 10, 0.01)]  # 12, 27 and all points carry memory variables


@pytest.mark.parametrize(("qp", "qs", "limit"), slow_except(QUALITIES[1:2], QUALITIES))
def test_a_moment_tensor_in_a_full_space(qp: float, qs: float, limit: float) -> None:
    """Degree 4 with 7 points per wavelength."""
    error = full_space_error(qp, qs, points_per_wavelength=7)
    print(error)
    assert error < limit
