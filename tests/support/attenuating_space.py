"""A moment tensor in a full space with attenuation: the simulation, and its exact motion."""

from __future__ import annotations

from typing import Any

import numpy as np

import lithowave as lw
from exact_solutions.anelastic import anelastic_moment
from lithowave.media import Anelasticity
from verification_tools import ABSORBING_TOP, relative_l2, velocities

VP, VS, RHO = 6000.0, 3464.0, 2700.0
FREQUENCY = 2.0
# The spectrum of the moment rate falls to 5% of its peak at FREQUENCY.
SIGMA = np.sqrt(2 * np.log(20.0)) / (2 * np.pi * FREQUENCY)
PULSE = {"gaussian": {"sigma": SIGMA, "delay": 6 * SIGMA}}
TENSOR = np.array([1.3, -0.7, 2.1, 0.4, -1.6, 0.9]) * 1e15
MOMENT = dict(zip(("xx", "yy", "zz", "xy", "xz", "yz"), TENSOR.tolist(), strict=True))
DIRECTIONS = np.array([[0.82, 0.33, -0.29], [-0.36, 0.77, 0.41], [0.28, -0.52, -0.71]])


def full_space(qp: float, qs: float, half_length: float, precision: str, **solver: Any) -> lw.Simulation:
    """A random moment tensor off the center of a cube, and three receivers around it."""
    source = {"position": [110.0, -170.0, 60.0], "moment_tensor": MOMENT, "time_function": PULSE}
    return lw.Simulation(
        domain={axis: [-half_length, half_length] for axis in "xyz"},
        boundaries=ABSORBING_TOP | {"absorption": "stacey"},
        material={"homogeneous": {"vp": VP, "vs": VS, "rho": RHO, "qp": qp, "qs": qs}},
        sources=[source],
        receivers=[
            {"network": "XX", "name": f"R{n}", "position": (half_length * place).tolist()}
            for n, place in enumerate(DIRECTIONS)
        ],
        duration=12 * SIGMA + 1.2 * half_length / VS,
        solver={"max_frequency": FREQUENCY, **solver},
        compute={"precision": precision},
        output={"sampling_interval": 0.02},
    )


def exact_motion(simulation: lw.Simulation, anelasticity: Anelasticity, time: np.ndarray) -> np.ndarray:
    """Velocity at the receivers with the moduli of the relaxation body in a homogeneous medium."""
    source, body = simulation.point_sources()[0], anelasticity.body
    bulk, shear = anelasticity.source.homogeneous.inverse_quality
    unrelaxed = anelasticity.material.homogeneous
    stiffness = unrelaxed.stiffness_matrix()
    mu = stiffness[5, 5]
    kappa = stiffness[0, 0] - 4 / 3 * mu

    def s_modulus(omega: np.ndarray) -> np.ndarray:
        return mu * body.modulus_ratio(omega, shear)

    def p_modulus(omega: np.ndarray) -> np.ndarray:
        return kappa * body.modulus_ratio(omega, bulk) + 4 / 3 * s_modulus(omega)

    moduli = p_modulus, s_modulus, unrelaxed.rho
    return np.stack([
        anelastic_moment(
            receiver.position, source.position, source.moment, source.time_function, time, *moduli, "velocity"
        )
        for receiver in simulation.receiver_list()
    ])  # fmt: skip


def full_space_error(qp: float, qs: float, length: float, precision: str = "single", **solver: Any) -> float:
    """Error before waves return from the sides. length : of the cube, in wavelengths of S at FREQUENCY."""
    simulation = full_space(qp, qs, 0.5 * length * VS / FREQUENCY, precision, **solver)
    time, computed = velocities(simulation)
    truth, (source,) = exact_motion(simulation, simulation.anelasticity, time), simulation.point_sources()
    for number, receiver in enumerate(simulation.receiver_list()):
        way = 2 * simulation.domain.x[1] - np.abs(receiver.position).max() - np.abs(source.position).max()
        late = time > way / VP + 2 * SIGMA  # the pulse begins 4 sigma before its middle
        computed[number, :, late] = truth[number, :, late] = 0
    return relative_l2(computed, truth)
