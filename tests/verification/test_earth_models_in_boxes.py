"""Radial models in boxes: spectral elements with moduli at every point against layers with one stiffness each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lithowave as lw
from lithowave.backends import make_backend
from lithowave.earth import reference_model, transverse_moduli
from lithowave.solvers import load_method
from lithowave.solvers.elements import cell_layers
from lithowave.solvers.spectral_element import SpectralElementSolver, TransverseMaterials, full_matrices
from lithowave.solvers.spectral_element.plan import plan

# Two transversely isotropic layers above an isotropic one: vpv, vsv, rho, vph, vsh, eta, Qkappa, Qmu.
LAYERS = (
    (0.0, 8000.0, 4400.0, 3300.0, 8200.0, 4600.0, 0.9, 300.0, 80.0),
    (-60e3, 8100.0, 4500.0, 3400.0, 8200.0, 4550.0, 0.95, 300.0, 100.0),
    (-130e3, 9000.0, 5000.0, 3600.0, 9000.0, 5000.0, 1.0, 300.0, 150.0),
)
BOTTOM = -200e3
STEPS = 90  # the source begins at 0 and peaks at step 45


def deck(path: Path, quality: bool) -> Path:
    """The layers as a file with the headers of AxiSEM."""
    lines = ["ANISOTROPIC T", "UNITS m", "COLUMNS depth vpv vsv rho vph vsh eta" + (" qka qmu" if quality else "")]
    for (top, *values), bottom in zip(LAYERS, [*(one[0] for one in LAYERS[1:]), BOTTOM], strict=True):
        text = " ".join(map(str, values if quality else values[:6]))
        lines += [f"{-depth} {text}" for depth in (top, bottom)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def constant_layers(quality: bool) -> list[dict[str, Any]]:
    """The same layers with their stiffness, and with qp and qs of the isotropic average."""
    found = []
    for top, vpv, vsv, rho, vph, vsh, eta, qkappa, qmu in LAYERS:
        a, c, l, n = (np.array(rho * speed**2) for speed in (vph, vpv, vsv, vsh))  # noqa: E741
        moduli = transverse_moduli((a, c, l, n, eta * (a - 2.0 * l)), np.array([0.0, 0.0, 1.0]))
        layer: dict[str, Any] = {"top": top, "rho": rho, "stiffness": moduli.tolist()}
        if vpv == vph:
            layer = {"top": top, "rho": rho, "vp": vpv, "vs": vsv}
        if quality:
            matrix = full_matrices(moduli)
            kappa = matrix[:3, :3].sum() / 9.0
            mu = (np.trace(matrix[:3, :3]) - 3.0 * kappa + 2.0 * np.trace(matrix[3:, 3:])) / 10.0
            layer["qs"] = qmu
            layer["qp"] = float((kappa + 4.0 / 3.0 * mu) / (kappa / qkappa + 4.0 / 3.0 * mu / qmu))
        found.append(layer)
    return found


def solver(material: dict[str, Any], attenuation: bool) -> SpectralElementSolver:
    parts = {
        "domain": {"x": [-60e3, 60e3], "y": [-50e3, 50e3], "z": [BOTTOM, 0.0]},
        "boundaries": {"sides": "rigid", "bottom": "rigid"},
        "sources": [{
            "position": [3e3, -2e3, -70e3], "moment_tensor": {"xx": 1e18, "yz": 5e17},
            "time_function": {"gaussian": {"sigma": 3.0, "delay": 9.0}},
        }],
        "receivers": [{"name": "A", "position": [4e4, 3e4, 0.0]}, {"name": "B", "position": [-2e4, 1e4, -9e4]}],
        "duration": 20.0, "compute": {"precision": "double", "backend": "cpu"},
        "solver": {"method": "spectral_element", "degree": 3, "spacing": 35e3, "time_step": 0.2,
                   "refine_sources": False, "memory_variables": "full"},
        "output": {"directory": "unused", "sampling_interval": 0.2},
    }  # fmt: skip
    if attenuation:
        material = {**material, "attenuation": {"band": [0.005, 0.5], "reference_frequency": 1.0}}
        parts["solver"]["max_frequency"] = None
    simulation = lw.Simulation(material=material, **parts)
    backend = make_backend("cpu", "double", 2)
    return SpectralElementSolver(plan(simulation, backend), simulation, backend)


@pytest.mark.slow
@pytest.mark.parametrize("attenuation", [False, True])
def test_moduli_at_points_and_of_layers_give_the_same_motion(tmp_path: Path, attenuation: bool) -> None:
    earth = {"model": str(deck(tmp_path / "layers.bm", attenuation)), "anisotropy": True, "attenuation": attenuation}
    made = [solver({"earth": earth}, attenuation), solver({"layers": constant_layers(attenuation)}, attenuation)]
    assert isinstance(made[0].plan.materials, TransverseMaterials)
    assert [sum(kind.anisotropic for kind in one.plan.kinds[0]) for one in made] == [1, 1]
    assert made[0].plan.element_count == made[1].plan.element_count
    limits = [one.plan.schedule.limit for one in made]
    assert limits[0] == pytest.approx(limits[1], rel=5e-3)  # estimated for moduli at points
    for step in range(STEPS):
        for one in made:
            one.advance(step)
    motion = [one.state()["motion"].values for one in made]
    largest = np.abs(motion[1]).max(axis=0)
    assert (largest > 0.0).all()
    np.testing.assert_allclose(motion[0] / largest, motion[1] / largest, atol=1e-10)


def test_anisotropy_changes_the_motion(tmp_path: Path) -> None:
    path = str(deck(tmp_path / "layers.bm", False))
    made = [solver({"earth": {"model": path, "anisotropy": anisotropy}}, False) for anisotropy in (True, False)]
    for step in range(STEPS):
        for one in made:
            one.advance(step)
    first, second = (one.state()["motion"].values for one in made)
    difference = np.abs(first - second).max(axis=0) / np.abs(second).max(axis=0)
    assert (difference[:3] > 0.015).all()


def test_elements_end_at_the_discontinuities_and_have_the_values_of_their_side() -> None:
    elements = {"method": "spectral_element", "max_frequency": 0.1, "degree": 4}
    parts = {"sources": [], "duration": 1.0, "solver": elements}
    domain = {"x": [-5e4, 5e4], "y": [-5e4, 5e4], "z": [-450e3, 0.0]}
    simulation = lw.Simulation(material={"earth": "prem"}, domain=domain, **parts)
    tops = cell_layers(simulation).tops
    # PREM changes only its attenuation at 80 km, and only gradients elsewhere.
    assert set(np.round(tops, 3)) == {0.0, -15e3, -24.4e3, -80e3, -220e3, -400e3}
    found = plan(simulation, make_backend("cpu", "single", 2))
    z = found.mesh.vertices[found.mesh.elements, 2]
    lam, mu, rho = found.materials.values.reshape(3, found.element_count, -1)
    model = reference_model("prem")
    for top, bottom in zip(tops, [*tops[1:], -450e3], strict=True):
        inside = (z.max(axis=1) <= top + 1.0) & (z.min(axis=1) >= bottom - 1.0) & (z.min(axis=1) > -450e3 - 1.0)
        expected = model.properties(6371e3 + np.linspace(bottom + 1.0, top - 1.0, 1001))
        assert inside.any()
        assert rho[inside].min() == pytest.approx(expected.rho.min(), rel=1e-5)
        assert rho[inside].max() == pytest.approx(expected.rho.max(), rel=1e-5)


def test_a_discontinuity_above_the_lowest_topography_is_refused(tmp_path: Path) -> None:
    x = np.linspace(-6e4, 6e4, 5)
    np.savez(tmp_path / "deep.npz", x=x, y=x, elevation=np.full((5, 5), -16e3), axes=["y", "x"])
    parts = {
        "domain": {"x": [-5e4, 5e4], "y": [-5e4, 5e4], "z": [-300e3, 0.0], "topography": str(tmp_path / "deep.npz")},
        "sources": [], "duration": 1.0, "solver": {"method": "spectral_element", "max_frequency": 0.1},
    }  # fmt: skip
    with pytest.raises(lw.InputError, match="material.earth: .*-15000 m crosses the topography.*minimum_thickness"):
        cell_layers(lw.Simulation(material={"earth": "prem"}, **parts))
    thick = {"model": "prem", "minimum_thickness": 50e3}
    assert cell_layers(lw.Simulation(material={"earth": thick}, **parts)).tops[1] < -16e3


def test_elements_of_a_box_without_a_surface_begin_at_its_top() -> None:
    """Discontinuities above the box do not extend it."""
    simulation = lw.Simulation(
        domain={"x": [-5e4, 5e4], "y": [-5e4, 5e4], "z": [-450e3, -100e3]}, material={"earth": "prem"}, sources=[],
        boundaries={"top": "absorbing"}, duration=1.0, solver={"method": "spectral_element", "max_frequency": 0.1},
    )  # fmt: skip
    tops = cell_layers(simulation).tops
    assert tops[0] == -100e3 and {-220e3, -400e3} <= set(np.round(tops, 3))


@pytest.mark.parametrize(
    ("method", "more"),
    [("finite_difference", {"spacing": 2500.0}), ("discontinuous_galerkin", {"spacing": 20e3, "order": 2})],
)
def test_other_methods_have_isotropic_radial_models(method: str, more: dict[str, Any]) -> None:
    parts = {
        "domain": {"x": [-3e4, 3e4], "y": [-3e4, 3e4], "z": [-6e4, 0.0]}, "sources": [], "duration": 1.0,
        "solver": {"method": method, **more}, "boundaries": {"sides": "rigid", "bottom": "rigid"},
    }  # fmt: skip
    made = lw.Simulation(material={"earth": {"model": "prem", "attenuation": False}}, **parts)
    found = load_method(method).plan(made, make_backend("cpu", "single", 2))
    if method == "discontinuous_galerkin":
        rho = found.materials.rho
        assert rho.min() == pytest.approx(2600.0) and rho.max() == pytest.approx(3380.0, abs=1.0)
    assert found.schedule.steps >= 1
    with pytest.raises(lw.InputError, match=f"anisotropy: {method} does not support radial models with anisotropy"):
        lw.Simulation(material={"earth": {"model": "prem", "anisotropy": True}}, **parts)


def test_averages_over_cells_at_a_discontinuity_are_exact() -> None:
    """At 24.4 km, of a cell with a quarter of crust above three quarters of mantle, and with attenuation."""
    made = lw.Material(earth="prem")
    z = -24.4e3 - 0.25e3
    model = reference_model("prem")
    crust, mantle = (model.properties(6371e3 - depth) for depth in (24.275e3, 24.4e3 + 0.375e3))
    kappa, mu, rho = made.moduli(0.0, 0.0, z, spacing=1000.0)
    parts = [(0.25, crust), (0.75, mantle)]
    assert rho == pytest.approx(sum(share * one.rho for share, one in parts), rel=1e-9)
    assert mu == pytest.approx(1.0 / sum(share / (one.rho * one.vs**2) for share, one in parts), rel=1e-9)
    softness = sum(share / (one.rho * (one.vp**2 - 4.0 / 3.0 * one.vs**2)) for share, one in parts)
    assert kappa == pytest.approx(1.0 / softness, rel=1e-9)


def test_the_reference_frequency_of_a_run_is_that_of_its_band() -> None:
    """vs at 60 km and at the middle of the band, 0.002 Hz, is that of PREM at 1 Hz with the dispersion of Qmu = 600."""
    parts = {"domain": {"x": [-1e5, 1e5], "y": [-1e5, 1e5], "z": [-2e5, 0.0]}, "sources": [], "duration": 1.0}
    made = lw.Simulation(
        material={"earth": "prem"}, solver={"method": "spectral_element", "max_frequency": 0.02}, **parts
    )
    found = made.anelasticity
    assert found.reference_frequency == pytest.approx(0.002)
    vs = found.source.sample(0.0, 0.0, -6e4)[1]
    plain = reference_model("prem").properties(6371e3 - 6e4).vs
    assert vs / plain - 1.0 == pytest.approx(np.log(0.002) / (np.pi * 600.0), rel=2e-3)
    unrelaxed = found.material.sample(0.0, 0.0, -6e4)[1]
    ratio = found.body.modulus_ratio(2.0 * np.pi * 0.002, 1.0 / 600.0)
    assert (vs / unrelaxed) ** 2 == pytest.approx(1.0 / np.real(1.0 / ratio), rel=1e-4)
    band = {"band": [0.0002, 0.02], "reference_frequency": 0.01}
    other = lw.Simulation(
        material={"earth": "prem", "attenuation": band}, solver={"method": "spectral_element", "max_frequency": 0.02},
        **parts,
    )  # fmt: skip
    assert other.anelasticity.source.sample(0.0, 0.0, -6e4)[1] > vs
