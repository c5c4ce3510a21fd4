"""Discontinuous Galerkin elements with attenuation: damped plane waves, energy, layers, and sources in a full space."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from jittered_boxes import periodic_box
from lithowave.mesh.tetrahedra import TetrahedralMesh
from lithowave.rheology.body import RelaxationBody, fit_body
from lithowave.rheology.quality import QualityLaw
from lithowave.solvers.discontinuous_galerkin.basis import ORDERS, basis_values, mode_count, tetrahedron_rule
from lithowave.solvers.discontinuous_galerkin.materials import ElementMaterials
from lithowave.solvers.discontinuous_galerkin.solver import DiscontinuousGalerkinSolver
from tetrahedral_waves import begin, make_solver, observed_order, points_in, relative_error, run

SIZE = 1000.0
VP, VS, RHO = 6000.0, 3464.0, 2700.0
WAVENUMBERS = np.array([1.0, -1.0, 1.0])  # wavelengths in the cube along each axis
COUNTS = (3, 4, 5, 6)  # cubes of six tetrahedra along an edge
QK, QMU = 30.0, 12.0
PAIRS = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))

BACKENDS = [
    *(pytest.param(order, "cpu", marks=() if order == 3 else pytest.mark.slow) for order in ORDERS),
    *(pytest.param(order, "cuda", marks=pytest.mark.gpu) for order in ORDERS),
]


def body_of(frequency: float) -> RelaxationBody:
    return fit_body(QualityLaw(), (frequency / 10, 2 * frequency), 3, (1 / QK, 1 / QMU))


def lossy(count: int, body: RelaxationBody) -> ElementMaterials:
    one = np.ones(count)
    rock = ElementMaterials.isotropic(VP * one, VS * one, RHO * one)
    return replace(rock, body=body, inverse_quality=np.column_stack([one / QK, one / QMU]))


@dataclass(frozen=True)
class DampedWave:
    """The real part of exp(i (w t - k n x)) times a state, with a complex w of which rho w^2 = M(w) k^2.

    state : (9,) stress and velocity. memory : (mechanisms * 6,) stress of each mechanism.
    """

    wavevector: np.ndarray
    omega: complex
    state: np.ndarray
    memory: np.ndarray

    def values(self, state: np.ndarray, points: np.ndarray, time: float) -> np.ndarray:
        return (np.exp(1j * (self.omega * time - points @ self.wavevector))[..., None] * state).real

    def at(self, time: float) -> Any:
        return lambda points, _: self.values(self.state, points, time)


def damped_wave(kind: str, body: RelaxationBody) -> DampedWave:
    wavevector = 2 * np.pi * WAVENUMBERS / SIZE
    k = float(np.linalg.norm(wavevector))
    n = wavevector / k
    across = np.cross(n, [0.3, 0.5, 0.8])
    d = n if kind == "P" else across / np.linalg.norm(across)
    mu, kappa = RHO * VS**2, RHO * (VP**2 - 4 / 3 * VS**2)
    omega = complex(k * (VP if kind == "P" else VS))
    for _ in range(100):
        bulk, shear = kappa * body.modulus_ratio(omega, 1 / QK), mu * body.modulus_ratio(omega, 1 / QMU)
        omega = k * complex(np.sqrt((bulk + 4 / 3 * shear if kind == "P" else shear) / RHO))
    rate = -0.5j * k * (np.outer(n, d) + np.outer(d, n))
    volume = np.trace(rate) * np.eye(3)
    deviator = rate - volume / 3

    def stress(bulk: complex, shear: complex) -> np.ndarray:
        tensor = bulk * volume + 2 * shear * deviator
        return np.array([tensor[pair] for pair in PAIRS])

    weights = zip(body.weights(1 / QK), body.weights(1 / QMU), body.rates, strict=True)
    memory = [stress(own * kappa, other * mu) / (1j * omega + rate) for own, other, rate in weights]
    state = np.concatenate([stress(bulk, shear) / (1j * omega), d])
    return DampedWave(wavevector, omega, state, np.concatenate(memory))


def start(solver: DiscontinuousGalerkinSolver, wave: DampedWave) -> None:
    begin(solver, wave.at(0.0))
    plan = solver.plan
    places, weights = tetrahedron_rule(plan.order + 2)
    values = wave.values(wave.memory, points_in(plan.mesh, places), 0.0)
    basis = basis_values(plan.order, places)[: mode_count(plan.order - 1)]
    solver.set_relaxation(np.einsum("eqa,kq,q->eak", values, basis, weights))


def cube(count: int) -> TetrahedralMesh:
    return periodic_box((count,) * 3, (SIZE,) * 3, 0.15, seed=count, cut="six").local()


@pytest.mark.parametrize(("order", "backend"), BACKENDS)
def test_order_of_convergence(order: int, backend: str) -> None:
    """P and S waves for a period, at four mesh widths, as without attenuation."""
    for kind in "PS":
        frequency = (VP if kind == "P" else VS) * np.linalg.norm(WAVENUMBERS) / SIZE
        body, errors = body_of(frequency), []
        wave = damped_wave(kind, body)
        for count in COUNTS:
            mesh = cube(count)
            solver = make_solver(mesh, lossy(mesh.element_count, body), order, 1 / frequency, backend=backend)
            start(solver, wave)
            run(solver)
            scale = np.array([RHO * VP] * 6 + [1.0] * 3)
            errors.append(relative_error(solver, wave.at(1 / frequency), scale))
        print(kind, order, errors, observed_order(COUNTS, errors))
        assert observed_order(COUNTS, errors) >= order - 0.3, (kind, errors)
