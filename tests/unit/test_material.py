"""Materials: values, averages over cells, coverage of the domain, and what is refused."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from lithowave import InputError
from lithowave.description import Material

DOMAIN = SimpleNamespace(x=(-2000.0, 2000.0), y=(-1000.0, 1000.0), z=(-5000.0, 0.0))
LAYERS = [
    {"top": 0, "vp": 4000, "vs": 2000, "rho": 2600},
    {"top": -1000, "vp": 6000, "vs": 3464, "rho": 2700},
    {"top": "-7 km", "vp": "8 km/s", "vs": 4500, "rho": "3.3 g/cm^3"},
]
WATER = {"top": 0, "vp": 1500, "vs": 0, "rho": 1000}


def moduli_of(vp, vs, rho):
    mu = rho * vs**2
    return rho * vp**2 - 4 / 3 * mu, mu, rho


def layered():
    return Material(layers=LAYERS)


def linear(x, y, z):
    """vp, vs, rho linear in position, so that trilinear interpolation is exact."""
    vs = 2500.0 + 0.05 * x - 0.1 * y - 0.2 * z
    return 1.9 * vs, vs, 2500.0 + 0.01 * x + 0.02 * y - 0.03 * z


X = np.array([-2500.0, -1000.0, -400.0, 700.0, 2600.0])
Y = np.array([-1200.0, 300.0, 1000.0])
Z = np.array([-5000.0, -2200.0, -900.0, 0.0])


def gridded(tmp_path, **changes):
    vp, vs, rho = linear(*np.meshgrid(X, Y, Z, indexing="ij"))
    np.savez(tmp_path / "model.npz", **{"x": X, "y": Y, "z": Z, "vp": vp, "vs": vs, "rho": rho, **changes})
    return Material(file=str(tmp_path / "model.npz"))


def test_layers_own_their_top_and_the_outer_ones_go_on():
    vp, vs, rho = layered().sample(0.0, 0.0, [500.0, 0.0, -999.999, -1000.0, -1000.001, -7000.0, -1e6])
    assert vp.tolist() == [4000, 4000, 4000, 6000, 6000, 8000, 8000]
    assert vs.tolist() == [2000, 2000, 2000, 3464, 3464, 4500, 4500]
    assert rho.tolist() == [2600, 2600, 2600, 2700, 2700, 3300, 3300]


@pytest.mark.parametrize("kind", ["layers", "homogeneous", "file", "function"])
def test_results_have_the_broadcast_shape_and_may_be_written(tmp_path, kind):
    homogeneous = {"homogeneous": {"vp": 4000, "vs": 2000, "rho": 2600}}
    forms = {"layers": {"layers": LAYERS}, "homogeneous": homogeneous, "function": {"function": linear}}
    material = gridded(tmp_path) if kind == "file" else Material(**forms[kind])
    assert material.kind == kind
    x, y, z = np.linspace(-1900, 1900, 5), np.linspace(-900, 900, 4), np.linspace(-4000, -1, 3)
    full = np.meshgrid(x, y, z, indexing="ij")
    cases = [
        ((x, y[:, None], z[1]), lambda a: a[:, :, 1].T), ((x[:, None, None], y[:, None], z), lambda a: a),
        ((x, y[:, None], z[:, None, None]), lambda a: a.T), ((x[2], y[1], z), lambda a: a[2, 1]),
        ((x[2], y[1], z[1]), lambda a: a[2, 1, 1]), ((x[2], y[:, None], z), lambda a: a[2]),
    ]  # fmt: skip
    averages = partial(material.moduli, spacing=90.0, z_ceiling=0.0)
    for call in (material.sample, material.moduli, averages):
        expected = call(*(points.copy() for points in full))
        for points, pick in cases:
            for result, whole in zip(call(*points), expected, strict=True):
                assert result.shape == np.broadcast_shapes(*map(np.shape, points)) and result.dtype == np.float64
                np.testing.assert_allclose(result, pick(whole), rtol=1e-12)
                result[...] = 0.0
        # Asked again, nothing has changed.
        np.testing.assert_array_equal(call(*full)[0], expected[0])


def test_trilinear_interpolation_is_exact_for_linear_models_and_constant_beyond(tmp_path):
    material = gridded(tmp_path)
    points = np.random.default_rng(1).uniform([-2000, -1000, -5000], [2000, 1000, 0], (300, 3)).T
    for result, expected in zip(material.sample(*points), linear(*points), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-12)
    beyond = material.sample(9e9, -9e9, [5000.0, -1e5])
    edge = material.sample(X[-1], Y[0], [0.0, Z[0]])
    np.testing.assert_allclose(beyond, edge)
    nodes = np.meshgrid(X, Y, Z, indexing="ij")
    np.testing.assert_allclose(material.sample(*nodes)[0], linear(*nodes)[0], rtol=1e-14)


def numerical_average(material, x, y, z, spacing, low=-np.inf, high=np.inf, count=400):
    """Means over the cell by many points in z (the materials of these tests do not vary along x and y)."""
    bottom, top = max(z - spacing / 2, low), min(z + spacing / 2, high)
    depth = bottom + (np.arange(count) + 0.5) / count * (top - bottom)
    kappa, mu, rho = moduli_of(*material.sample(x, y, depth))
    return 1 / np.mean(1 / kappa), 1 / np.mean(1 / mu), np.mean(rho)


@pytest.mark.parametrize("z", [-950.0, -1000.0, -1030.0, -1100.0, -40.0, 0.0, -7000.0])
def test_cell_averages_of_layers_are_exact_integrals(z):
    material = layered()
    result = material.moduli(3.0, 4.0, z, spacing=200.0, z_ceiling=0.0)
    np.testing.assert_allclose(result, numerical_average(material, 3.0, 4.0, z, 200.0, high=0.0), rtol=1e-12)


def test_cells_are_cut_at_ceiling_and_floor():
    material = layered()
    # The upper half of the cell would lie in the first layer.
    np.testing.assert_allclose(
        material.moduli(0, 0, -1000.0, spacing=100.0, z_ceiling=-1000.0), moduli_of(6000.0, 3464.0, 2700.0)
    )
    np.testing.assert_allclose(
        material.moduli(0, 0, -1000.0, spacing=100.0, z_floor=-1000.0), moduli_of(4000.0, 2000.0, 2600.0)
    )
    # Wholly above the ceiling: as the cell at the ceiling.
    above, at = (material.moduli(0, 0, z, spacing=100.0, z_ceiling=-980.0) for z in (500.0, -980.0))
    np.testing.assert_array_equal(above, at)


@pytest.mark.parametrize("z", [-2000.0, -100.0, 0.0])
def test_cell_averages_of_smooth_media_by_gauss_points(tmp_path, z):
    def function(x, y, z):
        vs = 2500.0 - 0.3 * z + 0.0 * x
        return 1.8 * vs, vs, 2600.0 - 0.05 * z + 0.0 * x

    grid_z = np.linspace(-5000.0, 0.0, 6)
    values = function(*np.meshgrid(X, Y, grid_z, indexing="ij"))
    np.savez(tmp_path / "m.npz", x=X, y=Y, z=grid_z, **dict(zip(("vp", "vs", "rho"), values, strict=True)))
    for material in (Material(function=function), Material(file=str(tmp_path / "m.npz"))):
        result = material.moduli(10.0, 20.0, z, spacing=400.0, z_ceiling=0.0)
        expected = numerical_average(material, 10.0, 20.0, z, 400.0, high=0.0, count=4000)
        np.testing.assert_allclose(result, expected, rtol=2e-6)
        assert result[1] != pytest.approx(material.moduli(10.0, 20.0, z)[1], rel=1e-5)


def test_cell_averages_vary_along_x_and_y_too():
    def function(x, y, z):
        vs = 2500.0 + 0.2 * x + 0.5 * y + 0.0 * z
        return 2.0 * vs, vs, 2600.0 + 0.3 * x + 0.0 * y

    centre, h = 100.0, 600.0
    axis = centre + h * ((np.arange(200) + 0.5) / 200 - 0.5)
    kappa, mu, rho = moduli_of(*function(axis[:, None], axis, 0.0))
    expected = 1 / np.mean(1 / kappa), 1 / np.mean(1 / mu), np.mean(rho)
    np.testing.assert_allclose(Material(function=function).moduli(centre, centre, -9.0, spacing=h), expected, rtol=1e-5)


def test_water_has_no_rigidity_and_takes_it_from_the_whole_cell():
    material = Material(layers=[WATER, {"top": -100, "vp": 4000, "vs": 2000, "rho": 2600}])
    with np.errstate(all="raise", divide="ignore"):
        kappa, mu, rho = material.moduli(0, 0, [-50.0, -95.0, -105.0, -150.0], spacing=20.0, z_ceiling=0.0)
    assert mu.tolist()[:3] == [0.0, 0.0, 0.0] and mu[3] == pytest.approx(2600 * 2000.0**2)
    assert kappa[0] == pytest.approx(1000 * 1500.0**2)
    assert rho[1] == pytest.approx(0.75 * 1000 + 0.25 * 2600)
    extremes = material.extremes(DOMAIN)
    assert extremes["vs_min"] == 0.0 and extremes["slowest"] == 1500.0
    as_function = Material(function=lambda x, y, z: (4000.0, np.where(z > -100, 0.0, 2000.0), 2600.0))
    assert as_function.moduli(0, 0, -100.0, spacing=20.0)[1] == 0.0


def test_extremes_of_layers_are_cut_to_the_domain():
    material = layered()
    extremes = material.extremes(DOMAIN)
    assert extremes == {
        "vp_min": 4000, "vp_max": 6000, "vs_min": 2000, "vs_max": 3464, "rho_min": 2600, "rho_max": 2700,
        "slowest": 2000,
    }  # fmt: skip
    places = material.extreme_places(DOMAIN)
    assert places["vp_max"] == "layers[1], z = -5000 to -1000 m"
    assert places["vs_min"] == "layers[0], z = -1000 to 0 m"
    # A layer that only touches the domain is not in it.
    shallow = SimpleNamespace(x=DOMAIN.x, y=DOMAIN.y, z=(-1000.0, 0.0))
    assert material.extremes(shallow)["vp_max"] == 4000
    deep = SimpleNamespace(x=DOMAIN.x, y=DOMAIN.y, z=(-9000.0, -1000.0))
    assert material.extremes(deep)["vs_min"] == 3464


def test_extremes_of_a_gridded_model_bound_what_is_sampled_in_the_domain(tmp_path):
    material = gridded(tmp_path)
    part = SimpleNamespace(x=(-300.0, 600.0), y=(350.0, 900.0), z=(-2000.0, -1000.0))
    extremes, places = material.extremes(part), material.extreme_places(part)
    points = np.random.default_rng(2).uniform([-300, 350, -2000], [600, 900, -1000], (2000, 3)).T
    vp, vs, rho = material.sample(*points)
    assert extremes["vp_min"] <= vp.min() and extremes["vp_max"] >= vp.max()
    assert extremes["vs_min"] <= vs.min() and extremes["rho_max"] >= rho.max()
    # Only the cells that the domain touches count: x -400 to 700, y 300 to 1000, z -2200 to -900.
    assert extremes["vs_max"] == linear(700.0, 300.0, -2200.0)[1]
    assert places["vs_max"] == "x = 700 m, y = 300 m, z = -2200 m"


@pytest.mark.parametrize(
    "layers, pattern",
    [
        ([], "at least one"),
        ([LAYERS[1], LAYERS[0]], r"layers\[1\].top: 0 m is not below the top of the layer before, -1000 m"),
        ([LAYERS[0], {**LAYERS[1], "top": 1000}], r"layers\[1\].top: .*did you mean -1000\?"),
    ],
)
def test_refused_layers(layers, pattern):
    with pytest.raises(InputError, match=pattern):
        Material(layers=layers)


def test_layers_must_reach_the_top_of_the_domain():
    material = Material(layers=[{**LAYERS[0], "top": -10}])
    with pytest.raises(InputError, match=r"material.layers\[0\].top: .*z = -10 m.*z = 0 m"):
        material.validate_domain(DOMAIN)
    layered().validate_domain(DOMAIN)
    Material(layers=[{**LAYERS[0], "top": 10}]).validate_domain(DOMAIN)
    Material(homogeneous={"vp": 4000, "vs": 2000, "rho": 2600}).validate_domain(DOMAIN)


@pytest.mark.parametrize(
    "changes, pattern",
    [
        ({"x": X + 600.0}, "covers x = -1900 to 3200 m.*the domain, -2000 to 2000 m"),
        ({"y": Y - 100.0}, "covers y = -1300 to 900 m"),
        ({"z": Z - 50.0}, "covers z = -5050 to -50 m"),
        ({"z": -Z}, "z is positive upwards.*depth"),
        ({"x": X / 1e3}, "units = km"),
    ],
)
def test_gridded_models_must_cover_the_domain(tmp_path, changes, pattern):
    gridded(tmp_path).validate_domain(DOMAIN)
    material = gridded(tmp_path, **changes)
    with pytest.raises(InputError, match=pattern):
        material.validate_domain(DOMAIN)


@pytest.mark.parametrize(
    "name, value, pattern",
    [
        ("vp", -1.0, r"vp = -1 at x = -400 m, y = 300 m, z = -900 m"),
        ("vp", np.inf, "vp = inf at"),
        ("vs", 5000.0, r"vs = 5000 m/s at x = -400 m, y = 300 m, z = -900 m.*4/3"),
        ("rho", np.nan, "rho: has no value at x = -400 m, y = 300 m, z = -900 m"),
    ],
)
def test_bad_values_in_gridded_models_are_refused_with_their_place(tmp_path, name, value, pattern):
    values = dict(zip(("vp", "vs", "rho"), linear(*np.meshgrid(X, Y, Z, indexing="ij")), strict=True))
    values[name][2, 1, 2] = value
    with pytest.raises(InputError, match=pattern) as caught:
        gridded(tmp_path, **values)
    assert "model.npz" in str(caught.value) and str(caught.value).startswith("file: ")


@pytest.mark.parametrize(
    "function, pattern",
    [
        (lambda x, y, z: (4000.0, 2000.0, np.nan), "rho = nan at x = -2000 m.*35936 more"),
        (lambda x, y, z: (np.where(z < -4999, -1.0, 4000.0), 2000.0, 2600.0), "vp = -1 at .*z = -5000 m"),
        (lambda x, y, z: (2200.0, 2000.0, 2600.0), "vp = 2200 m/s and vs = 2000 m/s"),
        (lambda x, y, z: (4000.0, 2000.0), "ValueError.*expected f"),
        (lambda x, y, z: (np.ones(7), 2000.0, 2600.0), "failed for points of shape"),
        (lambda x, y, z: 1 / 0, "ZeroDivisionError"),
        (lambda x, y: (4000.0, 2000.0, 2600.0), "TypeError"),
    ],
)
def test_bad_functions_are_refused(function, pattern):
    material = Material(function=function)
    with pytest.raises(InputError, match=f"(?s)material.function: .*{pattern}"):
        material.validate_domain(DOMAIN)
