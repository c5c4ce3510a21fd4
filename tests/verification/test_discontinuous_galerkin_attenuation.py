"""Discontinuous Galerkin elements with attenuation: damped plane waves, energy, layers, and sources in a full space."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from attenuating_space import RHO, VP, VS, full_space_error
from jittered_boxes import periodic_box
from lithowave.mesh import TetrahedralMesh
from lithowave.physics import isotropic_stiffness, voigt_average
from lithowave.rheology import QualityLaw, RelaxationBody, fit_body
from lithowave.solvers.discontinuous_galerkin import (
    LARGEST_STEP,
    ORDERS,
    DiscontinuousGalerkinSolver,
    ElementMaterials,
    basis_values,
    mode_count,
    tetrahedron_rule,
)
from slow_variants import slow_except
from tetrahedra_plans import box, noise, random_clusters, rocks, small_plan
from tetrahedra_plans import make_solver as make_small_solver
from tetrahedral_waves import begin, make_solver, observed_order, points_in, relative_error, run, transforms

SIZE = 1000.0
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
        assert observed_order(COUNTS, errors) >= order - 0.35, (kind, errors)


WAVES = [(3, 7, 0.015), (4, 6, 0.001), (5, 5, 1e-4), (6, 5, 1e-4)]


@pytest.mark.parametrize(("order", "count", "limit"), slow_except(WAVES[:1], WAVES))
@pytest.mark.parametrize("kind", ["P", "S"])
def test_waves_decay_and_travel_as_the_modulus_states(kind: str, order: int, count: int, limit: float) -> None:
    """Decay rate and phase velocity over half a period, of a wave with about three cubes per wavelength."""
    frequency = (VP if kind == "P" else VS) * np.linalg.norm(WAVENUMBERS) / SIZE
    body = body_of(frequency)
    wave, mesh = damped_wave(kind, body), cube(count)
    solver = make_solver(mesh, lossy(mesh.element_count, body), order, 0.5 / frequency)
    start(solver, wave)
    states = []
    for _ in range(2):
        states.append(transforms(solver, -wave.wavevector[None], np.arange(mesh.element_count))[0])
        run(solver)
    weight = wave.state.conj() / np.array([RHO * VP] * 6 + [1.0] * 3) ** 2
    found = np.log((weight @ states[1]) / (weight @ states[0])) / (0.5j / frequency)
    assert abs(found.real / wave.omega.real - 1) < 0.001 and abs(found.imag / wave.omega.imag - 1) < limit


# --- energy and stability


def stored_energy(solver: DiscontinuousGalerkinSolver) -> float:
    """Kinetic energy, and that of the springs: of the relaxed moduli, and of each mechanism with its stress.

    Stress of the highest degree does not relax.
    """
    plan = solver.plan
    own, count = plan.materials, plan.element_count
    every, stress = np.arange(count), solver.host_coefficients().astype(float)
    parts = solver.freeze_relaxation()().astype(float).reshape(count, plan.mechanisms, 6, -1)
    lower = parts.shape[-1]
    measure = 6.0 * plan.mesh.volumes()
    stiffness = own.matrix(every)
    kappa, mu = voigt_average(stiffness)
    weights = own.body.weights(own.inverse_quality.T)

    def spring(moduli: np.ndarray, values: np.ndarray) -> float:
        return 0.5 * float(np.einsum("n,nak,nab,nbk->", measure, values, np.linalg.inv(moduli), values))

    springs = [isotropic_stiffness(bulk * kappa - 2 / 3 * shear * mu, shear * mu) for bulk, shear in weights]
    total = 0.5 * float((measure * own.rho * (stress[:, 6:] ** 2).sum(axis=(1, 2))).sum())
    total += spring(stiffness, stress[:, :6, lower:])
    total += spring(stiffness - sum(springs), stress[:, :6, :lower] - parts.sum(axis=1))
    return total + sum(spring(one, parts[:, n]) for n, one in enumerate(springs))


@pytest.mark.parametrize(
    ("anisotropic", "mixed", "quality"),
    slow_except([(0.0, True, 5.0)], [(a, m, q) for a in (0.0, 0.5) for m in (False, True) for q in (5.0, 200.0)]),
)
def test_the_energy_never_increases(anisotropic: float, mixed: bool, quality: float) -> None:
    """In a closed box at 99% of the largest time step, from noise."""
    mesh = box()
    materials = rocks(mesh.element_count, fluids=0.0, anisotropic=anisotropic)
    body = fit_body(QualityLaw(), (0.02, 2.0), 3, (1 / quality, 1 / quality))
    materials = replace(materials, body=body, inverse_quality=np.full((mesh.element_count, 2), 1 / quality))
    cluster = random_clusters(mesh) if mixed else None
    plan = small_plan(mesh, materials, 3, kinds=("free", "rigid"), step=0.99, cluster=cluster)
    solver, energies = make_small_solver(plan), []
    solver.set_coefficients(noise(plan))
    for step in range(100):
        energies.append(stored_energy(solver))
        solver.advance(step)
    assert (np.diff(energies) < 0.0).all() and energies[-1] < 0.5 * energies[0]


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
def test_fast_relaxation_is_stable_and_shortens_the_step(order: int) -> None:
    """The highest rate times the time step is just below the largest that is allowed, or four times as large."""
    mesh = box()
    materials = rocks(mesh.element_count, fluids=0.0)
    elastic = small_plan(mesh, materials, order, step=1.0)
    losses, plans = np.full((mesh.element_count, 2), 0.2), []
    for factor in (0.99, 4.0):
        found = fit_body(QualityLaw(), (0.1, 1.0), 2, (0.2, 0.2))
        highest = factor * LARGEST_STEP / elastic.clustering.shortest
        body = replace(found, rates=found.rates / found.rates.max() * highest)
        plans.append(small_plan(mesh, replace(materials, body=body, inverse_quality=losses), order, step=0.99))
    assert plans[0].limits.min() == elastic.limits.min() and not plans[0].mesh_statistics.relaxed
    assert plans[1].limits.min() == pytest.approx(elastic.limits.min() / 4) and plans[1].mesh_statistics.relaxed
    assert "relaxation limits the time step" in dict(plans[1].lines())["memory variables"]
    solver, energies = make_small_solver(plans[0]), []
    solver.set_coefficients(noise(plans[0]))
    for step in range(60):
        energies.append(stored_energy(solver))
        solver.advance(step)
    assert (np.diff(energies) < 0.0).all()


# --- sources


FULL_SPACE = [
    (3, 10, 2.0, True, 0.012), (4, 6, 3.0, True, 0.007), (5, 6, 6.0, None, 0.0015), (5, 6, 6.0, False, 0.0015)
]  # fmt: skip


@pytest.mark.parametrize(("order", "points", "length", "local", "limit"), slow_except(FULL_SPACE[:1], FULL_SPACE))
def test_a_moment_tensor_in_a_full_space(
    order: int, points: float, length: float, local: bool | None, limit: float
) -> None:
    """Qp = 40, Qs = 20, with one time step and with local ones."""
    solver = {"order": order, "points_per_wavelength": points, "local_time_steps": local}
    error = full_space_error(40, 20, length, "double", method="discontinuous_galerkin", **solver)
    assert error < limit
