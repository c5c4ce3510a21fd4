"""Coefficients of attenuation of tetrahedra: series, averages, anisotropic media, and materials of all forms."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import lithowave as lw
from lithowave import InputError
from lithowave.backends import make_backend
from lithowave.mesh import tetrahedral_box, write_gmsh
from lithowave.physics import isotropic_stiffness, voigt_average
from lithowave.rheology import QualityLaw, fit_body
from lithowave.solvers.discontinuous_galerkin import (
    average_quality,
    isotropic_stresses,
    mean_factors,
    recursion,
    relaxing_numbers,
)
from lithowave.solvers.discontinuous_galerkin import plan as make_plan
from tetrahedra_plans import box, rocks, small_plan

VP, VS, RHO = 6000.0, 3464.0, 2700.0
PULSE = {"gaussian": {"sigma": 0.2, "delay": 1.2}}
POINTS = {
    "sources": [{"position": [0.0, 0.0, -500.0], "force": [1e9, 0.0, 0.0], "time_function": PULSE}],
    "receivers": [{"name": "A", "position": [100.0, 0.0, 0.0]}],
}


def test_sums_of_the_remaining_terms() -> None:
    """gamma_1 = (1 - exp(-x)) / x, and d (1 - gamma_d) / x recurs; against the integral of the relaxing term."""
    x = np.array([1e-6, 0.02, 0.3, 1.0])
    found = mean_factors(x, 6)
    np.testing.assert_allclose(found[:, 0], -np.expm1(-x) / x, rtol=1e-14)
    time, weights = np.polynomial.legendre.leggauss(20)
    time, weights = 0.5 * (time + 1.0), 0.5 * weights
    for d in range(1, 6):
        exact = d * (np.exp(-np.outer(x, 1.0 - time)) * time ** (d - 1)) @ weights
        np.testing.assert_allclose(found[:, d - 1], exact, rtol=1e-13)
    body = fit_body(QualityLaw(), (0.1, 10.0), 2, (0.02, 0.02))
    table = recursion(body, np.array([1e-3, 2e-3]), 4)
    assert table.shape == (2, 2, 4)
    np.testing.assert_allclose(table[1, :, 0], 2e-3 * body.rates)
    np.testing.assert_array_equal(table[..., 1:], mean_factors(table[..., 0], 4))


def test_the_quality_of_an_average() -> None:
    """The compliances of complex moduli are averaged, to first order in 1/Q; a fluid has no shear."""
    random = np.random.default_rng(2)
    parts = random.uniform(size=(4, 5))
    parts /= parts.sum(axis=1, keepdims=True)
    mu, kappa = random.uniform(1.0, 2.0, (4, 5)), random.uniform(3.0, 6.0, (4, 5))
    bulk, shear = 1e-6 * random.uniform(size=(2, 4, 5))
    mu[3] = 0.0
    modulus = kappa + 4 / 3 * mu
    found = average_quality(parts, (modulus, mu), (bulk, shear))
    p_complex = 1.0 / (parts / (kappa * (1 + 1j * bulk) + 4 / 3 * mu * (1 + 1j * shear))).sum(axis=1)
    s_complex = 1.0 / (parts[:3] / (mu[:3] * (1 + 1j * shear[:3]))).sum(axis=1)
    np.testing.assert_allclose(found[:3, 1], s_complex.imag / s_complex.real, rtol=1e-5)
    bulk_complex = p_complex - 4 / 3 * np.append(s_complex, 0.0)
    np.testing.assert_allclose(found[:, 0], bulk_complex.imag / bulk_complex.real, rtol=1e-5)
    assert found[3, 1] == 0.0


def test_the_isotropic_average_of_a_stress() -> None:
    """From the strain that an anisotropic medium has; in isotropic media and fluids, the stress itself."""
    materials = rocks(40, anisotropic=0.5)
    every = np.arange(40)
    matrices = isotropic_stresses(materials, every)
    strain = np.random.default_rng(1).normal(size=(40, 6))
    stiffness = materials.matrix(every)
    stress = np.einsum("nab,nb->na", stiffness, strain)
    kappa, mu = voigt_average(stiffness)
    expected = np.einsum("nab,nb->na", isotropic_stiffness(kappa - 2 / 3 * mu, mu), strain)
    found = np.einsum("nab,nb->na", matrices[:, :36].reshape(-1, 6, 6), stress)
    np.testing.assert_allclose(found, expected, atol=1e-11)
    pressure = np.einsum("nb,nb->n", matrices[:, 36:], stress)
    np.testing.assert_allclose(pressure, expected[:, :3].mean(axis=1), atol=1e-11)
    plain = ~materials.anisotropic
    np.testing.assert_allclose(found[plain], stress[plain], atol=1e-11)


def test_strong_anisotropy_with_strong_attenuation_is_refused() -> None:
    """The relaxed stiffness must be positive also for the weakest strain."""
    mesh = box((1, 1, 1))
    count = mesh.element_count
    stiffness = isotropic_stiffness(np.array([3.0]), np.array([3.0]))
    stiffness[0, 3, 3] /= 20
    body = fit_body(QualityLaw(), (0.02, 2.0), 3, (1e-3, 0.3))
    materials = replace(
        rocks(count, fluids=0.0), number=np.zeros(count, int), stiffness=stiffness, fastest=np.full(1, 3.0),
        slowest=np.full(1, 0.3), body=body,
    )  # fmt: skip
    small_plan(mesh, replace(materials, inverse_quality=np.full((count, 2), 1e-3)), 2)
    with pytest.raises(InputError, match="relaxed moduli of element . negative.*anisotropy"):
        small_plan(mesh, replace(materials, inverse_quality=np.full((count, 2), 0.3)), 2)


def test_materials_of_all_forms_have_the_same_coefficients(tmp_path: Path) -> None:
    """One medium with Q as homogeneous, as a group of an imported mesh, and as a gridded model."""
    medium = {"vp": VP, "vs": VS, "rho": RHO, "qp": 100.0, "qs": 50.0}
    mesh = tetrahedral_box((-600, 600), (-600, 600), (-1200, 0), 600.0)
    path = tmp_path / "box.msh"
    write_gmsh(path, replace(mesh, groups=("rock",)))
    axes = {"x": np.linspace(-700, 700, 2), "y": np.linspace(-700, 700, 3), "z": np.linspace(-1300, 0, 4)}
    arrays = {name: np.full((2, 3, 4), value) for name, value in medium.items()}
    np.savez(tmp_path / "model.npz", **axes, **arrays)
    materials = {
        "homogeneous": {"homogeneous": medium}, "groups": {"groups": {"rock": medium}},
        "gridded": {"file": str(tmp_path / "model.npz")},
    }  # fmt: skip
    found = []
    for name, material in materials.items():
        solver = {"method": "discontinuous_galerkin", "max_frequency": 2.0, "order": 4}
        solver |= {"mesh": str(path)} if name == "groups" else {"spacing": 600.0}
        simulation = lw.Simulation(
            domain={"x": [-600, 600], "y": [-600, 600], "z": [-1200, 0]}, material=material, duration=0.1,
            boundaries={"absorption": "layer"}, solver=solver, **POINTS,
        )  # fmt: skip
        plan = make_plan(simulation, make_backend("cpu", "double", 1))
        own = plan.materials
        assert plan.layer.inside.any() and plan.relaxing.all()
        values = [own.lam, own.mu, own.rho, *relaxing_numbers(own, np.arange(plan.element_count), False).T]
        assert all(np.ptp(one) <= 1e-12 * np.abs(one).max() for one in values)
        found.append([one[0] for one in values])
    np.testing.assert_allclose(found[1:], [found[0]] * 2, rtol=1e-9)
    assert found[0][1] > RHO * VS**2  # unrelaxed


def test_elements_without_quality_factors_are_elastic() -> None:
    layers = [
        {"top": 0.0, "vp": 4000.0, "vs": 2000.0, "rho": 2600.0, "qp": 80.0, "qs": 40.0},
        {"top": -600.0, "vp": VP, "vs": VS, "rho": RHO},
    ]
    simulation = lw.Simulation(
        domain={"x": [-600, 600], "y": [-600, 600], "z": [-1800, 0]}, material={"layers": layers}, duration=0.1,
        solver={"method": "discontinuous_galerkin", "max_frequency": 2.0, "order": 4}, **POINTS,
    )  # fmt: skip
    plan = make_plan(simulation, make_backend("cpu", "single", 1))
    below = plan.mesh.element_vertices()[..., 2].mean(axis=1) < -600.0
    np.testing.assert_array_equal(plan.relaxing, ~below)
    np.testing.assert_allclose(plan.materials.mu[below], RHO * VS**2, rtol=1e-14)
    summary = plan.summary()
    assert summary["relaxing_elements"] == (~below).sum() and "relaxation" not in summary["time_step_limited_by"]
