"""Surfaces of the ground: interpolation, files, and the topography of a domain."""

from __future__ import annotations

import h5py
import numpy as np
import pytest

import lithowave as lw
from lithowave.readers import Surface, read_surface

X = np.array([-2000.0, -1500.0, -700.0, 0.0, 300.0, 1200.0, 2000.0])
Y = np.array([-1000.0, -200.0, 100.0, 900.0, 1500.0])


def hill(x, y):
    return 80.0 + 1e-2 * x - 3e-2 * y + 2e-5 * x**2 - 1e-5 * x * y + 3e-5 * y**2


def heights():
    return hill(X, Y[:, None])


def npz(path, **changes):
    np.savez(path, **{name: values for name, values in {"x": X, "y": Y, "elevation": heights(), **changes}.items()
                      if values is not None})  # fmt: skip
    return path


def netcdf(path, kind="NETCDF3_CLASSIC", dimensions=("y", "x"), units=("km", "m", "cm")):
    netCDF4 = pytest.importorskip("netCDF4")
    values = {"x": X, "y": Y, "elevation": heights() if dimensions == ("y", "x") else heights().T}
    with netCDF4.Dataset(path, "w", format=kind) as file:
        for name in ("x", "y"):
            file.createDimension(name, values[name].size)
        for (name, array), unit in zip(values.items(), units, strict=True):
            axes = dimensions if name == "elevation" else (name,)
            variable = file.createVariable(name, "f8", axes)
            variable.units = unit
            variable[:] = array / {"m": 1.0, "km": 1e3, "cm": 1e-2}[unit]
    return path


def test_parabolas_are_exact_on_unequal_steps():
    surface = Surface(None, X, Y, heights())
    x, y = np.linspace(-2000, 2000, 83), np.linspace(-1000, 1500, 41)[:, None]
    np.testing.assert_allclose(surface(x, y), hill(x, y), rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(surface(X, Y[:, None]), heights(), rtol=1e-14)


def test_equal_steps_give_catmull_rom():
    axis = np.arange(6.0)
    values = np.random.default_rng(1).normal(size=6)
    surface = Surface(None, axis, axis, np.tile(values, (6, 1)))
    t = 0.3
    basis = 0.5 * np.array([-t + 2 * t**2 - t**3, 2 - 5 * t**2 + 3 * t**3, t + 4 * t**2 - 3 * t**3, -(t**2) + t**3])
    assert surface(2 + t, 3.7) == pytest.approx(basis @ values[1:5])


@pytest.mark.parametrize("count", [2, 3])
def test_short_axes_are_lines_and_parabolas(count):
    axis = np.array([0.0, 1.0, 3.0])[:count]
    values = axis ** (count - 1)
    surface = Surface(None, axis, axis, np.tile(values, (count, 1)))
    x = np.linspace(0.0, axis[-1], 9)
    np.testing.assert_allclose(surface(x, 0.4), x ** (count - 1), atol=1e-14)


@pytest.mark.parametrize("kind", ["NETCDF3_CLASSIC", "NETCDF4"])
@pytest.mark.parametrize("dimensions", [("y", "x"), ("x", "y")])
def test_netcdf_by_dimension_names_and_units(tmp_path, kind, dimensions):
    surface = read_surface(netcdf(tmp_path / "ground.nc", kind, dimensions))
    np.testing.assert_allclose(surface.x, X)
    np.testing.assert_allclose(surface.y, Y)
    np.testing.assert_allclose(surface.elevation, heights())


def test_npz_and_plain_hdf5_are_in_the_order_of_their_sizes_or_names(tmp_path):
    assert np.array_equal(read_surface(npz(tmp_path / "ground.npz")).elevation, heights())
    assert np.array_equal(read_surface(npz(tmp_path / "turned.npz", elevation=heights().T)).elevation, heights())
    square = np.arange(49.0).reshape(7, 7)
    for axes, expected in ((["y", "x"], square), (["x", "y"], square.T)):
        surface = read_surface(npz(tmp_path / "square.npz", y=X, elevation=square, axes=axes, slope=square))
        assert np.array_equal(surface.elevation, expected) and surface.unused == ("slope",)
    with h5py.File(tmp_path / "ground.h5", "w") as file:
        for name, values in {"x": X, "y": Y, "Elevation": heights()}.items():
            file[name] = values
    assert np.array_equal(read_surface(tmp_path / "ground.h5").elevation, heights())


@pytest.mark.parametrize(
    ("changes", "pattern"),
    [
        ({"elevation": None}, "elevation: the variable is missing.*it has: x, y"),
        ({"x": X[:1]}, r"x: has the shape \(1,\)"),
        ({"x": X[::-1]}, "x: the coordinates do not increase.*reverse the axis"),
        ({"y": np.array([0.0, np.nan, 1, 2, 3])}, "y: has a coordinate without a value"),
        ({"elevation": heights()[:4]}, r"elevation: has the shape \(4, 7\); expected \(5, 7\) for the axes y, x, or"),
        ({"axes": ["x", "y"]}, r"elevation: has the shape \(5, 7\); expected \(7, 5\) for the axes x, y"),
        ({"y": X, "elevation": np.zeros((7, 7))}, r'elevation: .*y and x have the same .*axes=\["y", "x"\] in'),
        ({"elevation": np.where(heights() == heights()[1, 2], np.nan, heights())},
         "elevation: has no value at x = -700 m, y = -200 m .1 of 35 points"),
        ({"elevation": np.full((5, 7), "a")}, "elevation: cannot be read"),
    ],
)  # fmt: skip
def test_refused_files(tmp_path, changes, pattern):
    with pytest.raises(lw.InputError, match=f"(?s)ground.npz.*{pattern}"):
        read_surface(npz(tmp_path / "ground.npz", **changes))


def test_degrees_and_damage_are_refused(tmp_path):
    path = netcdf(tmp_path / "ground.nc")
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"km", b"\xc2\xb0"))
    with pytest.raises(lw.InputError, match=r"x: has the units .*expected a length"):
        read_surface(path)
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(lw.InputError, match="surface|cannot be read|complete"):
        read_surface(path)
    path.write_bytes(b"something else")
    with pytest.raises(lw.InputError, match="surface: the file format is unknown"):
        read_surface(path)


# --- the topography of a domain


def domain(tmp_path, **changes):
    ground = {"x": [-1500, 1500], "y": [-900, 900], "z": [-3000, 0], "topography": tmp_path / "ground.npz"}
    return lw.Domain(**{**ground, **changes})


def test_a_domain_knows_its_surface(tmp_path):
    npz(tmp_path / "ground.npz")
    box = domain(tmp_path)
    assert box.surface is box.surface
    assert box.surface_height(10.0, 20.0) == pytest.approx(hill(10.0, 20.0))
    x, y = np.linspace(-1500, 1500, 301), np.linspace(-900, 900, 181)[:, None]
    assert box.ground.z == (-3000.0, pytest.approx(hill(x, y).max())) and box.ground.x == box.x
    assert box.ground.z[1] < box.surface.high
    flat = domain(tmp_path, topography=None)
    assert flat.surface is None and flat.ground.z == flat.z
    assert np.array_equal(flat.surface_height(np.zeros(3), 0.0), np.zeros(3))
    assert domain(tmp_path, topography=None, z=[-3, 7]).surface_height(0.0, 0.0) == 7.0


@pytest.mark.parametrize(
    ("changes", "pattern"),
    [
        ({"x": [-1500, 2500]}, r"topography: .*covers x = -2000 to 2000 m; it must cover the domain, -1500 to 2500"),
        ({"y": [-1500, 900]}, "covers y = -1000 to 1500 m"),
        ({"z": [-3000, 500]}, r"z: the box ends at z = 500 m; with a topography it must end at 0"),
        ({"z": [0.0 - 1e-9, 0]}, None),
    ],
)
def test_a_topography_must_fit(tmp_path, changes, pattern):
    npz(tmp_path / "ground.npz")
    if pattern is None:
        assert domain(tmp_path, **changes)
        npz(tmp_path / "ground.npz", elevation=heights() - 3100.0)
        changes, pattern = {}, "topography: .*goes down to z = -30.* in the domain; the surface must be above the"
    with pytest.raises(lw.InputError, match=pattern):
        domain(tmp_path, **changes)
