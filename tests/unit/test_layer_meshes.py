"""Generated meshes of layers bounded by surfaces: faces on the surfaces, materials, and what cannot be followed."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import lithowave as lw
from fake_ranks import on_ranks
from lithowave import InputError
from lithowave.parallel import SINGLE_RANK
from lithowave.solvers.discontinuous_galerkin import build_local_mesh
from lithowave.solvers.discontinuous_galerkin import meshing as tetrahedra
from lithowave.solvers.elements import (
    HEXAHEDRA,
    TETRAHEDRA,
    cell_layers,
    faces_of_hexahedra,
    faces_of_tetrahedra,
    layer_code,
    layer_warnings,
    unresolved_interfaces,
    upper_points_of_hexahedra,
    upper_points_of_tetrahedra,
)
from lithowave.solvers.spectral_element import meshing as hexahedra

SOFT = {"vp": 2000, "vs": 1000, "rho": 2000}
ROCK = {"vp": 3500, "vs": 2000, "rho": 2500}
METHODS = {"spectral_element": hexahedra, "discontinuous_galerkin": tetrahedra}
GRADIENT = {"vp": 0.6, "vs": 0.3, "rho": 0.1}


def basement(x, y):
    return -300.0 - 400.0 * np.exp(-(x**2 + y**2) / (2 * 600.0**2))


def slope(x, y):
    return -500.0 + 0.1 * x + 0.05 * y


def outcrop(x, y):
    """A basin whose floor is above the ground away from its middle."""
    return 200.0 - 900.0 * np.exp(-(x**2 + y**2) / (2 * 600.0**2))


def simulation(method, *layers, absorption="layer", topography=None, **solver):
    return lw.Simulation(
        domain={"x": [-2000, 2000], "y": [-1600, 1600], "z": [-2000, 0], "topography": topography},
        boundaries={"absorption": absorption},
        material={"layers": list(layers)},
        sources=[{"position": [0, 0, -900], "force": [0, 0, 1e9], "time_function": {"ricker": {"frequency": 0.4}}}],
        receivers=[{"name": "A", "position": [300, 100, 0]}],
        duration=1.0,
        solver={"method": method, "max_frequency": 1.0, **solver},
    )


FINE = {"refine_sources": False, "points_per_wavelength": 8}


def two_layers(method, top, gradient=None, **more):
    return simulation(method, {"top": 0, **SOFT, "gradient": gradient}, {"top": top, **ROCK}, **more)


def nearest(surface):
    """The surface, with that of the nearest point of the domain in the absorbing layer."""
    return lambda x, y: surface(np.clip(x, -2000, 2000), np.clip(y, -1600, 1600))


def nodes_of(mesh):
    return mesh.element_nodes() if hasattr(mesh, "nodes") else mesh.element_vertices()


def speeds_of(model):
    """The slowest and the fastest wave in each element, m/s."""
    if hasattr(model.materials, "slowest_in_elements"):
        return model.materials.slowest_in_elements(), model.materials.fastest_in_elements()
    return np.sqrt(model.materials.mu / model.materials.rho), model.materials.fastest_speed


@pytest.mark.parametrize("gradient", [None, GRADIENT])
@pytest.mark.parametrize("method", METHODS)
def test_nodes_lie_on_the_surface_and_no_element_crosses_it(method, gradient):
    """Also around the source, where elements are smaller, and in the absorbing layer."""
    mesh = METHODS[method].make_model(two_layers(method, basement, gradient)).mesh
    nodes = nodes_of(mesh)
    above = nodes[..., 2] - nearest(basement)(nodes[..., 0], nodes[..., 1])
    upper, lower = mesh.materials == 0, mesh.materials == 1
    assert upper.any() and lower.any() and (upper | lower).all()
    assert above[upper].min() == pytest.approx(0.0, abs=1e-9)
    assert above[lower].max() == pytest.approx(0.0, abs=1e-9)
    assert nodes[..., 2].max() == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_elements_have_the_medium_of_their_own_layer(method):
    """The gradient is sampled in the elements of the first layer only, down to the deepest point of the basement."""
    for gradient in (None, GRADIENT):
        model = METHODS[method].make_model(two_layers(method, basement, gradient, **FINE))
        upper = model.mesh.materials == 0
        slowest, fastest = speeds_of(model)
        assert slowest[~upper] == pytest.approx(2000.0, rel=1e-6) and fastest[~upper] == pytest.approx(3500.0, rel=1e-6)
        if gradient is None:
            assert slowest[upper] == pytest.approx(1000.0, rel=1e-6)
            continue
        at_points = method == "spectral_element"  # tetrahedra have the values of their centers, nearly
        assert slowest[upper].min() == pytest.approx(1000.0, abs=0.01 if at_points else 0.3 * 120.0)
        assert fastest[upper].max() == pytest.approx(2000.0 + 0.6 * 700.0, abs=2.0 if at_points else 0.6 * 120.0)


@pytest.mark.parametrize("method", METHODS)
def test_attenuation_is_that_of_the_layer(method):
    """1/Qmu of sediments with a gradient of 50 + 0.05 d, and of a basement with 200."""
    soft, rock = {**SOFT, "qp": 120, "qs": 50, "gradient": {**GRADIENT, "qs": 0.05}}, {**ROCK, "qp": 400, "qs": 200}
    model = METHODS[method].make_model(simulation(method, {"top": 0, **soft}, {"top": basement, **rock}))
    found = model.materials
    losses = found.losses.inverse[1] if method == "spectral_element" else found.inverse_quality[:, 1]
    upper = model.mesh.materials == 0
    assert losses[~upper] == pytest.approx(1.0 / 200.0, rel=1e-6)
    assert losses[upper].max() <= 1.0 / 50.0 * (1 + 1e-6) and losses[upper].min() >= 1.0 / 85.0 * (1 - 1e-6)


def single_cluster(model):
    return np.zeros(len(model.materials.rho), int)


@pytest.mark.parametrize("top", [basement, outcrop])
def test_ranks_make_the_parts_of_the_mesh(top):
    """Of two ranks: all elements, with their materials."""
    for gradient in (None, GRADIENT):
        whole = hexahedra.make_model(two_layers("spectral_element", top, gradient))
        made = two_layers("spectral_element", top, gradient)
        parts = on_ranks(2, lambda ranks, made=made: hexahedra.make_model(made, ranks))
        assert sum(part.mesh.element_count for part in parts) == whole.mesh.element_count
        assert {part.materials.varying for part in parts} == {whole.materials.varying}
        made = two_layers("discontinuous_galerkin", top, gradient)
        whole = tetrahedra.make_model(made)
        parts = on_ranks(2, lambda ranks, made=made: build_local_mesh(made, ranks, single_cluster, "cpu"))
        for found, expected in (
            (sum(part.mesh.volumes().sum() for part in parts), whole.mesh.volumes().sum()),
            (sum((part.materials.rho[: part.mesh.element_count] * part.mesh.volumes()).sum() for part in parts),
             (whole.materials.rho * whole.mesh.volumes()).sum()),
        ):  # fmt: skip
            assert found == pytest.approx(expected, rel=1e-12)


def test_an_interface_that_reaches_the_ground_is_followed_where_the_layer_is_thick():
    """Below 0.2 elements in height, hexahedra have the effective medium; all others have faces on the interface."""
    method = "spectral_element"
    made = two_layers(method, outcrop, refine_sources=False)
    (warning,) = layer_warnings(made, *HEXAHEDRA)
    assert "material.layers[1].top: the elements follow this surface except in 0.8" in warning
    assert "layers[0]: 0 m thick at x = -2000 m, y = -1600 m, and up to 700 m" in warning
    assert "there it crosses elements, which have the effective medium of both layers." in warning
    model = METHODS[method].make_model(made)
    assert set(model.mesh.materials) == {0, 1, layer_code(0, 1, 2)}
    slowest, fastest = speeds_of(model)
    assert slowest.min() == pytest.approx(1000.0) and fastest.max() == pytest.approx(3500.0)
    nodes = nodes_of(model.mesh)
    above = nodes[..., 2] - nearest(outcrop)(nodes[..., 0], nodes[..., 1])
    assert above[model.mesh.materials == 0].min() > -1e-3 and above[model.mesh.materials == 1].max() < 1e-3
    mixed = model.mesh.materials == layer_code(0, 1, 2)
    distance = np.hypot(nodes[mixed][..., 0], nodes[mixed][..., 1]).max(axis=1)
    assert distance.min() > 600.0  # the layer is 350 m thick there
    assert fastest[model.mesh.materials == 0].max() == pytest.approx(2000.0)
    assert slowest[model.mesh.materials == 1].min() == pytest.approx(2000.0)


@pytest.mark.parametrize("method", METHODS)
def test_an_interface_that_reaches_the_ground_is_not_followed_but_reported(method):
    """By tetrahedra nowhere; by hexahedra not if it is almost nowhere."""
    top = outcrop if method == "discontinuous_galerkin" else lambda x, y: outcrop(2.5 * x, 2.5 * y)
    made = two_layers(method, top)
    (warning,) = layer_warnings(made, *(HEXAHEDRA if method == "spectral_element" else TETRAHEDRA))
    assert "material.layers[1].top: the elements do not follow this surface" in warning
    medium = {"spectral_element": "the effective medium", "discontinuous_galerkin": "the mean"}[method]
    assert f"elements that it crosses have {medium} of both layers." in warning
    assert ("use spectral elements" in warning) == (method == "discontinuous_galerkin")
    assert set(METHODS[method].make_model(made).mesh.materials) == {layer_code(0, 1, 2)}


def test_anisotropic_layers_that_pinch_out_are_refused():
    made = simulation("spectral_element", {"top": 0, **SOFT, "anisotropy": {"epsilon": 0.1}}, {"top": outcrop, **ROCK})
    with pytest.raises(InputError, match=r"layers\[1\].top: the elements cannot follow this surface"):
        cell_layers(made)


def test_too_steep_surfaces_are_refused_with_the_place():
    def cliff(x, y):
        return -600.0 + 350.0 * np.tanh(x / 20.0) + 0.0 * y

    with pytest.raises(InputError, match=r"without volume or inverted .* corners: .*\(0, 0, -450\)"):
        tetrahedra.make_model(two_layers("discontinuous_galerkin", cliff, points_per_wavelength=8))


@pytest.mark.parametrize("method", METHODS)
def test_surfaces_that_the_elements_do_not_resolve_are_reported(method):
    """With the distance of the faces from the surface: a plane is exact, a ridge of 200 m is not."""
    functions = {
        "spectral_element": (faces_of_hexahedra, upper_points_of_hexahedra),
        "discontinuous_galerkin": (faces_of_tetrahedra, upper_points_of_tetrahedra),
    }[method]

    def ridge(x, y):
        return -500.0 + 200.0 * np.exp(-((x / 150.0) ** 2)) + 0.0 * y

    for surface in (slope, ridge):
        made = two_layers(method, surface, refine_sources=False)
        mesh = METHODS[method].make_model(made).mesh
        plan = SimpleNamespace(mesh=mesh, ranks=SINGLE_RANK, from_mesh=lambda positions: positions)
        found = unresolved_interfaces(made, plan, *functions)
        assert len(found) == (surface is ridge)
    assert "material.layers[1].top: the elements do not resolve it: they differ from it by up to" in found[0]
