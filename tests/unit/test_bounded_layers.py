"""Layers bounded by surfaces and layers with gradients: evaluation, extremes, averages, and what is refused."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import lithowave as lw
from lithowave import InputError
from lithowave.description import Material
from lithowave.media import BoundedLayers, make_anelasticity

DOMAIN = SimpleNamespace(x=(-2000.0, 2000.0), y=(-1000.0, 1000.0), z=(-2000.0, 0.0))
SOFT = {"vp": 2000, "vs": 1000, "rho": 2000}
ROCK = {"vp": 3500, "vs": 2000, "rho": 2500}
DEEP = {"vp": 5000, "vs": 3000, "rho": 2800}


def slope(x, y):
    return -600.0 + 0.1 * x + 0.2 * y


def bowl(x, y):
    """A basin floor that rises above z = 0 outside an ellipse."""
    return 100.0 - 700.0 * np.exp(-((x / 900.0) ** 2) - (y / 700.0) ** 2)


def two_layers(top, **changes):
    return Material(layers=[{"top": 0, **SOFT, **changes}, {"top": top, **ROCK}])


def file_of(path: Path, function=slope, reach: float = 2100.0) -> str:
    x, y = np.linspace(-reach, reach, 43), np.linspace(-1100.0, 1100.0, 23)
    np.savez(path, x=x, y=y, elevation=function(x, y[:, None]), axes=["y", "x"])
    return str(path)


def random_points(count: int = 2000):
    rng = np.random.default_rng(1)
    return tuple(rng.uniform(*ends, count) for ends in (DOMAIN.x, DOMAIN.y, DOMAIN.z))


def test_a_point_belongs_to_the_layer_below_the_last_surface_above_it(tmp_path):
    x, y, z = random_points()
    for top in (slope, file_of(tmp_path / "slope.npz")):
        vp, vs, rho = two_layers(top).sample(x, y, z)
        below = z <= slope(x, y)
        assert (vp == np.where(below, 3500.0, 2000.0)).all()
        assert (vs == np.where(below, 2000.0, 1000.0)).all() and (rho == np.where(below, 2500.0, 2000.0)).all()
    at_top = two_layers(slope).sample(200.0, 100.0, slope(200.0, 100.0))
    assert at_top[0] == 3500.0  # as with flat layers, the top belongs to the layer below it


def test_where_surfaces_cross_the_layer_listed_first_prevails():
    material = Material(layers=[{"top": 0, **SOFT}, {"top": slope, **ROCK}, {"top": -600, **DEEP}])
    x = np.array([-1000.0, 1000.0])  # slope at -700 and -500 m
    vs = material.sample(x, 0.0, np.array([[-650.0], [-750.0], [-550.0]]))[1]
    assert vs.tolist() == [[1000.0, 3000.0], [3000.0, 3000.0], [1000.0, 2000.0]]
    ranges = material.medium.ranges(DOMAIN)
    assert ranges[1].absent == pytest.approx(0.5, abs=0.01) and ranges[1].thickest == pytest.approx(400.0)
    assert ranges[0].thickest == pytest.approx(1000.0) and ranges[2].thinnest == pytest.approx(1000.0)


def test_flat_tops_as_functions_give_the_medium_of_flat_layers():
    flat = Material(layers=[{"top": 0, **SOFT}, {"top": -430, **ROCK}, {"top": -777, **DEEP}])
    same = Material(
        layers=[{"top": 0, **SOFT}, {"top": lambda x, y: -430.0, **ROCK}, {"top": lambda x, y: -777.0, **DEEP}]
    )
    points = random_points()
    for one, other in zip(same.sample(*points), flat.sample(*points), strict=True):
        assert (one == other).all()
    places = np.linspace(-900, 900, 7), np.linspace(-500, 500, 5)[:, None], np.array(-500.0)
    for one, other in zip(
        same.moduli(*places, spacing=150.0, z_ceiling=0.0), flat.moduli(*places, spacing=150.0, z_ceiling=0.0),
        strict=True,
    ):  # fmt: skip
        assert one == pytest.approx(other, rel=1e-12)


def test_values_increase_linearly_below_the_top_of_the_layer(tmp_path):
    gradient = {"vp": "0.6 1/s", "vs": "0.3 km/s/km", "rho": "0.0002 g/cm^3/km", "qp": 0.1, "qs": "60 1/km"}
    material = Material(
        layers=[
            {"top": 0, **SOFT},
            {"top": file_of(tmp_path / "slope.npz"), **ROCK, "qp": 200, "qs": 100, "gradient": gradient},
        ]
    )
    x, y, z = random_points()
    depth, below = slope(x, y) - z, z <= slope(x, y)
    vp, vs, rho = material.sample(x, y, z)
    assert vp[below] == pytest.approx((3500 + 0.6 * depth)[below], rel=1e-12)
    assert vs[below] == pytest.approx((2000 + 0.3 * depth)[below], rel=1e-12)
    assert rho[below] == pytest.approx((2500 + 0.0002 * depth)[below], rel=1e-12)
    assert (vp[~below] == 2000.0).all()
    bulk, shear = material.medium.inverse_quality(x, y, z)
    assert shear[below] == pytest.approx(1.0 / (100 + 0.06 * depth)[below], rel=1e-12)
    assert (shear[~below] == 0.0).all() and (bulk[below] > 0.0).all()


def test_extremes_include_gradients_and_leave_out_absent_layers():
    material = Material(
        layers=[
            {"top": 0, **SOFT, "gradient": {"vp": 1.0, "vs": 0.5}},
            {"top": slope, **ROCK, "gradient": {"rho": 0.1, "level": 0}},
            {"top": -2500, **DEEP},
        ]
    )
    found = material.extremes(DOMAIN)
    assert found["vp_min"] == 2000.0 and found["vs_min"] == 1000.0
    assert found["vp_max"] == 3500.0 and found["vs_max"] == 2000.0  # softer at 1000 m: 3000 and 1500 m/s
    assert found["rho_max"] == pytest.approx(2500 + 0.1 * 2000)
    assert material.medium.ranges(DOMAIN)[2].depths is None
    steep = two_layers(slope, gradient={"vp": 2.0})
    assert steep.extremes(DOMAIN)["vp_max"] == pytest.approx(4000.0)
    assert steep.extreme_places(DOMAIN)["vp_max"] == "layers[0], depth 1000 m"


def test_averages_over_cells_have_the_fractions_of_the_layers():
    """An inclined plane through a cell, against 40 x 40 x 40 samples."""
    medium, spacing = two_layers(slope).medium, 100.0
    x, y, z = np.array([310.0]), np.array([[120.0]]), np.array(-545.0)
    offsets = (np.arange(40) + 0.5) / 40 * spacing - 0.5 * spacing
    kappa, mu, rho = medium.moduli(
        (x + offsets)[:, None, None], (y + offsets).reshape(1, -1, 1), (z + offsets).reshape(1, 1, -1)
    )
    found = medium.average_moduli(x, y, z, spacing, (-np.inf, 0.0))
    exact = 1.0 / (1.0 / kappa).mean(), 1.0 / (1.0 / mu).mean(), rho.mean()
    for one, other in zip(found, exact, strict=True):
        assert one.item() == pytest.approx(other, rel=2e-3)


def test_attenuation_of_constant_layers_and_of_gradients_has_the_same_unrelaxed_medium():
    """A gradient of 1e-12 takes the way of media that vary."""
    quality = {"qp": 100, "qs": 50}
    constant, varying = (two_layers(slope, **quality, **more) for more in ({}, {"gradient": {"vp": 1e-12}}))
    points = random_points(200)
    media = [make_anelasticity(one, DOMAIN, 2.0).material for one in (constant, varying)]
    cell = np.array([310.0]), np.array([[120.0]]), np.array(-545.0)
    for call in (
        lambda one: one.sample(*points),
        lambda one: one.moduli(*cell, spacing=100.0),
        lambda one: one.medium.interval_moduli(*cell, 12.5),
    ):
        for one, other in zip(*map(call, media), strict=True):
            assert one == pytest.approx(other, rel=1e-9)
    assert media[0].sample(*points)[1].min() > 1000.0


@pytest.mark.parametrize(
    ("layer", "where", "text"),
    [
        ({"gradient": {"vp": -0.9}}, "material.layers[0].gradient", "vp^2 must be greater than 4/3 vs^2"),
        ({"gradient": {"vs": -2.0}}, "material.layers[0].gradient", "at the depth"),
        ({"gradient": {"rho": -3.0}}, "material.layers[0].gradient", "rho ="),
        ({"qp": 100, "qs": 50, "gradient": {"qs": -0.2}}, "material.layers[0].gradient", "qs ="),
        ({"top": lambda x, y: -10.0 + 0.0 * x}, "material.layers[0].top", "it must reach the top of the domain"),
    ],
)
def test_values_that_cannot_be_are_refused_with_their_depth(layer, where, text):
    material = Material(layers=[{"top": 0, **SOFT, **layer}, {"top": slope, **ROCK}])
    with pytest.raises(InputError) as caught:
        material.validate_domain(DOMAIN)
    assert caught.value.where == where and text in str(caught.value)


@pytest.mark.parametrize(
    ("layer", "text"),
    [
        ({"top": "no_such_file.nc"}, "does not exist"),
        ({"top": "-1 furlong"}, "furlong"),
        ({"top": [1, 2]}, "is not the top of a layer"),
        ({"top": -900, "gradient": {"vp": "1 Hz"}}, "is a frequency"),
        ({"top": -900, "gradient": {"qp": 1}}, "has no qp"),
        ({"top": -900, "gradient": {"vp": 1}, "anisotropy": {"epsilon": 0.1}}, "anisotropic"),
    ],
)
def test_layers_that_cannot_be_are_refused(layer, text):
    with pytest.raises(InputError, match=text) as caught:
        Material(layers=[{"top": 0, **SOFT}, {**ROCK, **layer}])
    assert caught.value.where.startswith("material.layers.1") or caught.value.where.startswith("layers[1]")


def test_a_file_must_cover_the_domain_and_a_function_must_return_numbers(tmp_path):
    with pytest.raises(InputError, match="it must cover the domain"):
        two_layers(file_of(tmp_path / "small.npz", reach=1000.0)).validate_domain(DOMAIN)
    with pytest.raises(InputError, match=r"layers\[1\].top: z = nan at x = 0"):
        two_layers(lambda x, y: np.where(np.abs(x) < 1, np.nan, -100.0)).validate_domain(DOMAIN)
    with pytest.raises(InputError, match="failed for points of shape"):
        two_layers(lambda x: x).validate_domain(DOMAIN)


def simulation(layers, method="finite_difference", **more):
    return lw.Simulation(
        domain={"x": [-2000, 2000], "y": [-1000, 1000], "z": [-2000, 0]},
        material={"layers": layers},
        sources=[{"position": [0, 0, -900], "force": [0, 0, 1e9], "time_function": {"ricker": {"frequency": 0.4}}}],
        duration=1.0,
        solver={"method": method, "max_frequency": 1.0},
        **more,
    )


def test_anisotropy_is_refused_where_layers_are_sampled():
    layers = [{"top": 0, **SOFT, "anisotropy": {"epsilon": 0.1}}, {"top": slope, **ROCK}]
    with pytest.raises(InputError, match=r"layers\[0\]: is anisotropic, and finite_difference"):
        simulation(layers)
    assert simulation(layers, "spectral_element").material.bounded


def test_check_lists_the_layers():
    layers = [{"top": 0, **SOFT, "gradient": {"vp": 0.5}}, {"top": bowl, **ROCK}]
    medium = simulation(layers).material.medium
    assert isinstance(medium, BoundedLayers)
    (name, text), (_, rock) = medium.lines(DOMAIN)
    assert name == "layers[0]" and text.startswith("up to 600 m thick, absent in ")
    assert "vp 2000 to 2300 m/s, vs 1000 m/s" in text and rock.startswith("1400 to 2000 m thick; vp 3500 m/s")


# --- surfaces on longitude and latitude


def grid_of(path: Path) -> Path:
    """A GMT grid of an elevation that is linear in longitude and latitude."""
    netcdf = pytest.importorskip("netCDF4")
    with netcdf.Dataset(path, "w") as file:
        axes = {"lon": np.linspace(7.9, 8.1, 21), "lat": np.linspace(46.95, 47.05, 23)}
        for name, values in axes.items():
            file.createDimension(name, len(values))
            variable = file.createVariable(name, "f8", (name,))
            variable[:], variable.units = values, {"lon": "degrees_east", "lat": "degrees_north"}[name]
        elevation = file.createVariable("z", "f4", ("lat", "lon"))
        elevation[:] = -600.0 + 2000.0 * (axes["lon"] - 8.0) + 3000.0 * (axes["lat"][:, None] - 47.0)
        elevation.units = "m"
    return path


def placed_in(path: Path, **changes) -> lw.Simulation:
    domain = {"x": [-3e3, 3e3], "y": [-3e3, 3e3], "z": [-2e3, 0], "crs": {"longitude": 8, "latitude": 47}} | changes
    return lw.Simulation(
        domain={key: value for key, value in domain.items() if value is not None},
        material={"layers": [{"top": 0, **SOFT}, {"top": path, **ROCK}]},
        sources=[], receivers=[{"name": "A", "position": [0, 0, 0]}], duration=1.0, solver={"max_frequency": 1.0},
    )  # fmt: skip


def test_a_surface_on_longitude_and_latitude_is_placed_in_the_domain(tmp_path):
    simulation = placed_in(grid_of(tmp_path / "floor.nc"))
    x, y = np.array([-2900.0, 0.0, 1500.0]), np.array([2000.0, 0.0, -2900.0])
    longitude, latitude = simulation.domain.to_geographic(x, y)
    expected = -600.0 + 2000.0 * (longitude - 8.0) + 3000.0 * (latitude - 47.0)
    for distance, vp in ((0.01, 2000.0), (-0.01, 3500.0)):
        assert simulation.material.sample(x, y, expected + distance)[0] == pytest.approx(vp)
    moved = simulation.with_overrides({"domain.crs.longitude": 8.01})
    assert moved.material.sample(0.0, 0.0, -590.0)[0] == 3500.0  # its top is at -580 m there


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"crs": None}, "require the origin domain.crs"), ({"x": [-30e3, 3e3]}, "it must cover the domain")],
)
def test_a_surface_on_longitude_and_latitude_that_cannot_be_placed_is_refused(tmp_path, changes, words):
    with pytest.raises(InputError, match=rf"material.layers\[1\].top: .*{words}"):
        placed_in(grid_of(tmp_path / "floor.nc"), **changes)


def test_variables_of_a_surface_that_are_not_used_are_reported(tmp_path):
    name = file_of(tmp_path / "slope.npz")
    with np.load(name) as stored:
        np.savez(name, **stored, age=np.zeros(3))
    made = simulation([{"top": 0, **SOFT}, {"top": name, **ROCK}])
    assert any("material.layers[1].top" in text and "not used: age" in text for text in made.warnings())
