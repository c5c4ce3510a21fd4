"""Layers of elements in radial models: which discontinuities they follow, and the effective media where they do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lithowave as lw
from lithowave.backends import make_backend
from lithowave.earth import voigt_average_of_love
from lithowave.solvers.elements import averaged_discontinuities, cell_layers
from lithowave.solvers.elements import layers as radial_layers
from lithowave.solvers.spectral_element import built_box, full_matrices, gll_weights, plan
from lithowave.solvers.spectral_element import materials as element_materials

SIDE = {"x": [-5e4, 5e4], "y": [-5e4, 5e4]}


def chunk(period: float, **more: Any) -> lw.Simulation:
    return lw.Simulation(**{
        "domain": {"chunk": {"center": [0, 0], "width": [8, 8], "depth": "2891 km"}},
        "material": {"earth": {"model": "prem", "anisotropy": True}}, "sources": [], "duration": 1.0,
        "solver": {"method": "spectral_element", "max_frequency": 1.0 / period}, **more,
    })  # fmt: skip


def crust(file: Any, thinnest: str = "20 km", **more: Any) -> lw.Simulation:
    """Two layers of crust of 15 and 9.4 km over a mantle, in a box with elements of at least `thinnest`."""
    rows = [(0, 5.8, 3.2, 2.6), (15, 5.8, 3.2, 2.6), (15, 6.8, 3.9, 2.9), (24.4, 6.8, 3.9, 2.9)]
    rows += [(24.4, 8.1, 4.5, 3.4), (400, 8.1, 4.5, 3.4)]
    file.write_text("crust\ncrust\n" + "".join(" ".join(map(str, row)) + "\n" for row in rows))
    return lw.Simulation(**{
        "domain": {**SIDE, "z": [-100e3, 0.0]}, "material": {"earth": {"model": str(file)}}, "sources": [],
        "boundaries": {"absorption": "stacey"}, "duration": 1.0,
        "solver": {"method": "spectral_element", "spacing": thinnest}, "compute": {"precision": "double"}, **more,
    })  # fmt: skip


def test_elements_follow_the_discontinuity_of_the_crust_at_short_periods() -> None:
    """At 25 s, the doubling below 670 km has nearly as short time steps as the lower crust."""
    assert {-15e3, -24.4e3, -80e3} < set(cell_layers(chunk(25.0)).tops) and not averaged_discontinuities(chunk(25.0))
    found = cell_layers(chunk(40.0))
    assert -24.4e3 in found.tops and found.inside == (-15e3,) and found.mixed
    (warning,) = averaged_discontinuities(chunk(40.0))
    assert "15 km (0.9%)" in warning and "at most 25%" in warning


@pytest.mark.parametrize("period", [25.0, 60.0])
def test_faces_shorten_the_time_step_by_at_most_the_stated_share(period, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = []
    for shorter in (radial_layers.SHORTER, 2.0):
        monkeypatch.setattr(radial_layers, "SHORTER", shorter)
        simulation = chunk(period, domain={"chunk": {"center": [0, 0], "width": [6, 6], "depth": "1200 km"}})
        limits.append(plan(simulation, make_backend("cpu", "single", 2)).schedule.limit)
    assert 0.7 * limits[1] < limits[0] <= limits[1] * (1.0 + 1e-9)


def test_faces_do_not_prevent_doublings() -> None:
    """A face at 80 km would make the layer below 24.4 km, where elements are doubled, too thin for that."""
    entries = {"center": [0, 0], "width": [20, 20], "depth": "700 km", "elements": [32, 32], "doublings": [24.4e3]}
    simulation = chunk(40.0, domain={"chunk": entries})
    assert -80e3 in cell_layers(simulation).inside
    assert any(slab.kind == "x" for slabs in built_box(simulation).plan.slabs for slab in slabs)


@pytest.mark.parametrize("more", [{}, {"earth": {"model": "prem", "anisotropy": True}}, {"earth": "ak135"}])
def test_elements_between_equal_levels_have_the_values_that_each_would_have(more, monkeypatch) -> None:
    """A chunk with doublings, with interfaces in elements, anisotropy and attenuation: to the bit."""
    simulation = chunk(120.0, material=more or {"earth": {"model": "prem", "attenuation": False}})
    every, few, mesh_groups = [], [], []
    kind = element_materials.EqualElements
    group = kind.between_levels

    def noted(*mesh: Any) -> Any:
        mesh_groups.append(group(*mesh))
        return mesh_groups[-1]

    monkeypatch.setattr(kind, "between_levels", noted)
    for found, share in ((few, element_materials.MOST_GROUPS), (every, 0.0)):
        monkeypatch.setattr(element_materials, "MOST_GROUPS", share)
        made = plan(simulation, make_backend("cpu", "single", 1)).materials
        found += [made.values, made.number, made.fastest, made.slowest]
        found += [made.losses.inverse] if made.losses is not None else []
        found += [getattr(made, name) for name in ("tensors", "speeds", "soft", "place") if hasattr(made, name)]
    assert len(every) == len(few) and len(mesh_groups) == 2 and mesh_groups[1] is None
    assert len(mesh_groups[0].first) < 0.25 * len(mesh_groups[0].group)
    for one, other in zip(every, few, strict=True):
        np.testing.assert_array_equal(one, other)


def test_points_of_an_element_with_an_interface_keep_its_integrals(tmp_path) -> None:
    """Masses and vertical compliances of elements of 24.4 km; values of elements in one layer are unchanged."""
    found = plan(crust(tmp_path / "crust.tvel", "30 km"), make_backend("cpu", "double", 2))
    materials, depth = found.materials, -found.mesh.element_nodes(slice(None))[..., 2].mean(axis=1)
    upper = np.flatnonzero(depth < 24.4e3)
    assert len(upper) and (materials.place[upper] >= 0).all() and (materials.place[depth > 24.4e3] < 0).all()
    k = gll_weights(4)[:, None, None] / 2.0
    tensor = full_matrices(np.moveaxis(materials.tensors, 0, -1))[0]
    share = np.array([15.0, 9.4]) / 24.4
    vp, vs, rho = np.array([5800.0, 6800.0]), np.array([3200.0, 3900.0]), np.array([2600.0, 2900.0])
    mu, m = rho * vs**2, rho * vp**2
    means = (k * np.stack([
        materials.values[2, upper[0]], 1.0 / tensor[..., 2, 2], 1.0 / tensor[..., 4, 4], tensor[..., 5, 5],
        tensor[..., 0, 2] / tensor[..., 2, 2], tensor[..., 0, 0] - tensor[..., 0, 2] ** 2 / tensor[..., 2, 2],
    ])).sum(axis=1)  # fmt: skip
    exact = [share @ one for one in (rho, 1 / m, 1 / mu, mu, 1 - 2 * mu / m, 4 * mu * (m - mu) / m)]
    np.testing.assert_allclose(means, np.broadcast_to(np.reshape(exact, (6, 1, 1)), means.shape), rtol=1e-12)
    lam, mu_average = materials.values[:2, upper[0]]
    kappa, mean = voigt_average_of_love(tuple(tensor[..., a, b] for a, b in ((0, 0), (2, 2), (4, 4), (5, 5), (0, 2))))
    np.testing.assert_allclose([lam + 2 / 3 * mu_average, mu_average], [kappa, mean], rtol=1e-12)


def test_an_inclined_interface_has_the_media_of_its_columns() -> None:
    """A layer that pinches out: one group of elements, with the mass of each column."""
    soft, rock = {"vp": 2000, "vs": 1000, "rho": 2000}, {"vp": 3500, "vs": 2000, "rho": 2600}
    simulation = lw.Simulation(
        domain={"x": [-2000, 2000], "y": [-1600, 1600], "z": [-2000, 0]}, boundaries={"absorption": "stacey"},
        material={"layers": [{"top": 0, **soft}, {"top": lambda x, y: -300.0 + 0.2 * x + 0.0 * y, **rock}]},
        sources=[], duration=1.0, solver={"method": "spectral_element", "spacing": 400.0},
    )  # fmt: skip
    found = plan(simulation, make_backend("cpu", "double", 2))
    mass = found.element_statistics.mass.sum()
    x = np.linspace(-2000.0, 2000.0, 100_001)
    thickness = np.maximum(300.0 - 0.2 * x, 0.0).mean()
    assert mass == pytest.approx(4000.0 * 3200.0 * (2000.0 * thickness + 2600.0 * (2000.0 - thickness)), rel=2e-5)
    assert (found.materials.place >= 0).any() and (found.materials.place < 0).any()
