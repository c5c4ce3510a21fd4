"""Effective media of cells with interfaces, and the choice of a constitutive law."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

import lithowave as lw
from lithowave import InputError
from lithowave.backends import make_backend
from lithowave.media import aligned_moduli
from lithowave.physics import isotropic_stiffness, lame_moduli
from lithowave.solvers.finite_difference import LAWS, at_node, laminate, medium_planes, plan, slab_between

SOFT, STIFF = (1800.0, 600.0, 1900.0), (4000.0, 2200.0, 2500.0)


def medium_of(vp: float, vs: float, rho: float) -> np.ndarray:
    return np.array([*aligned_moduli(isotropic_stiffness(*lame_moduli(vp, vs, rho))), rho])


def layered(top: float = -130.0) -> lw.Material:
    names = ("vp", "vs", "rho")
    rows = [dict(zip(names, values, strict=True)) for values in (SOFT, STIFF)]
    return lw.Material(layers=[{"top": 0.0} | rows[0], {"top": top} | rows[1]])


def simulation(material: Any, spacing: float = 100.0, **solver: Any) -> lw.Simulation:
    return lw.Simulation(
        domain={"x": [0, 3000], "y": [0, 3000], "z": [-3000, 0]},
        material=material,
        sources=[],
        receivers=[],
        duration=1.0,
        solver={"spacing": spacing, **solver},
    )


def plan_of(material: Any, **solver: Any) -> Any:
    return plan(simulation(material, **solver), make_backend("cpu", "single", 1))


def backus(media: np.ndarray, shares: np.ndarray, axis: int) -> np.ndarray:
    found = np.empty(10)
    laminate(media, axis, shares, shares, shares, found)
    return found


def test_a_laminate_is_the_backus_average() -> None:
    """Against the inverse of the mean compliance at given stress across and given strain along the layers."""
    shares, media = np.array([0.3, 0.7]), np.stack([medium_of(*SOFT), medium_of(*STIFF)], axis=1)
    found = backus(media, shares, 2)
    lam, mu = media[3], media[8]
    whole = lam + 2 * mu
    c33 = 1 / (shares / whole).sum()
    ratio = (shares * lam / whole).sum()
    c11 = (shares * 4 * mu * (lam + mu) / whole).sum() + ratio**2 * c33
    c66, c44 = (shares * mu).sum(), 1 / (shares / mu).sum()
    expected = [c11, c11, c33, c11 - 2 * c66, ratio * c33, ratio * c33, c44, c44, c66, (shares * media[9]).sum()]
    np.testing.assert_allclose(found, expected, rtol=1e-13)


@pytest.mark.parametrize("axis", [0, 1])
def test_laminates_along_other_axes_are_rotated(axis: int) -> None:
    media = np.stack([medium_of(*SOFT), medium_of(*STIFF)], axis=1)
    shares = np.array([0.3, 0.7])
    upright = backus(media, shares, 2)
    # The axis and z change places: 11 or 22 with 33, 13 or 23 with itself, 12 with 23 or 13, 44 or 55 with 66.
    order = {0: [2, 1, 0, 5, 4, 3, 8, 7, 6, 9], 1: [0, 2, 1, 4, 3, 5, 6, 8, 7, 9]}[axis]
    np.testing.assert_allclose(backus(media, shares, axis), upright[order], rtol=1e-13)


@pytest.mark.parametrize("offset", [0.0, 13.0, 25.0, 50.0, 77.0])
def test_means_preserve_mass_and_its_centre(offset: float) -> None:
    """The masses of the nodes around an interface are those of the layers, for each position of the interface."""
    medium, spacing = layered(-1000.0 - offset).medium, 100.0
    x = y = np.zeros(1)
    nodes = np.arange(-1600.0, -300.0, spacing)
    slabs = [slab_between(medium, x, y, z, z + spacing, spacing) for z in nodes]
    inner = nodes[1:]
    found = np.array([at_node(*pair, spacing)[:, 0, 0] for pair in zip(slabs, slabs[1:], strict=False)])
    mass = found[: len(inner), 9] * spacing
    low, high = inner[0] - spacing / 2, inner[len(mass) - 1] + spacing / 2  # the medium is uniform at both ends
    top = -1000.0 - offset
    exact = SOFT[2] * (high - top) + STIFF[2] * (top - low)
    assert mass.sum() == pytest.approx(exact, rel=1e-12)
    if offset in (0.0, 50.0):  # elsewhere the centre is preserved in the coordinate of the static displacement
        centre = 0.5 * (SOFT[2] * (high**2 - top**2) + STIFF[2] * (top**2 - low**2)) / exact
        assert (mass * inner).sum() / mass.sum() == pytest.approx(centre, abs=0.06 * spacing)


def test_the_law_that_a_model_needs() -> None:
    uniform = {"homogeneous": {"vp": 4000, "vs": 2200, "rho": 2500}}
    assert plan_of(uniform).law == "isotropic"
    assert plan_of(layered(-1050.0)).law == "isotropic"  # midway between nodes
    cut = plan_of(layered(-1010.0))
    assert cut.law == "transverse" and cut.law_reason == "interface at z = -1010 m"
    text = "transverse law, 6 arrays (10% more memory traffic): interface at z = -1010 m"
    assert text in dict(cut.lines())["material"]
    tilted = {"vp": 4000, "vs": 2200, "rho": 2500, "anisotropy": {"epsilon": 0.2, "delta": 0.1, "gamma": 0.1}}
    assert plan_of({"homogeneous": tilted}).law == "transverse"
    tilted["anisotropy"]["axis"] = [1, 0, 0]
    assert plan_of({"homogeneous": tilted}).law == "orthorhombic"
    with pytest.raises(InputError, match=r"solver.effective_medium: transverse is not sufficient.*: auto, ort"):
        plan_of({"homogeneous": tilted}, effective_medium="transverse")
    assert plan_of(uniform, effective_medium="orthorhombic").law == "orthorhombic"


def test_the_law_of_functions() -> None:
    def smooth(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, ...]:
        return 3000 - z, 1700 - 0.5 * z, 2300 + 0 * z + 0 * x

    def sharp(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, ...]:
        soft = z > -1000 - 0.2 * x
        return tuple(np.where(soft, *pair) for pair in zip(SOFT, STIFF, strict=True))

    assert plan_of(lw.Material(function=smooth)).law == "isotropic"
    found = plan_of(lw.Material(function=sharp))
    assert found.law == "transverse" and "moduli change by a factor of" in found.law_reason


def test_media_in_which_waves_grow_are_reported() -> None:
    """Medium III of Becache, Fauqueux & Joly (2003), and one in which no wave travels backwards."""
    moduli = np.diag([4e10, 4e10, 20e10, 2e10, 2e10, 0.5e10])
    moduli[0, 1], moduli[0, 2], moduli[1, 2] = 3e10, 7.5e10, 7.5e10
    unstable = {"homogeneous": {"stiffness": moduli[np.triu_indices(6)].tolist(), "rho": 2500}}
    [text] = [text for text in warnings_of(unstable) if "grow" in text]
    assert text.startswith("material.homogeneous: some waves may grow in the absorbing layers along ")
    usual = {"vp": 4000, "vs": 2200, "rho": 2500, "anisotropy": {"epsilon": 0.2, "delta": 0.1, "gamma": 0.1}}
    assert not [text for text in warnings_of({"homogeneous": usual}) if "grow" in text]


def warnings_of(material: Any) -> list[str]:
    described = simulation(material)
    return plan(described, make_backend("cpu", "single", 1)).warnings(described)


@pytest.mark.parametrize("law", ["transverse", "orthorhombic"])
def test_the_planned_memory_includes_the_samples_of_a_function(law: str) -> None:
    def sharp(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, ...]:
        return tuple(np.where(z > -2000 - 0.2 * x, *pair) for pair in zip(SOFT, STIFF, strict=True))

    described = simulation(lw.Material(function=sharp), effective_medium=law)
    made = plan(described, make_backend("cpu", "single", 1))
    next(medium_planes(described, made.grid, made.halo, LAWS[law]))  # compiles
    tracemalloc.start()
    for _ in medium_planes(described, made.grid, made.halo, LAWS[law]):
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 0.85 * made.setup_bytes() < peak < 1.05 * made.setup_bytes()
