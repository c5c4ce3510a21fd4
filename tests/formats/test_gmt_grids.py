"""Topography and interfaces from GMT grids: axes, registration, the format of GMT 3, and refusals."""

from __future__ import annotations

import numpy as np
import pytest
from support.model_files import SIMULATION

import lithowave as lw
from lithowave import InputError
from lithowave.readers import GeographicSurface, read_surface

netCDF4 = pytest.importorskip("netCDF4")

LONGITUDE, LATITUDE = np.linspace(-120.0, -118.0, 21), np.linspace(33.0, 35.0, 41)
DOMAIN = {**SIMULATION["domain"], "z": [-20e3, 0]}


def height(longitude, latitude):
    """Elevation in m, a polynomial of degree two, which the interpolation reproduces."""
    a, b = longitude + 119.0, latitude - 34.0
    return 300.0 + 400.0 * a - 250.0 * b + 120.0 * a**2 - 90.0 * a * b + 60.0 * b**2


def write(path, kind="NETCDF4", names=("lon", "lat"), first=LONGITUDE, second=LATITUDE, pixel=False, change=None):
    """Write a COARDS grid as GMT does: z(lat, lon), actual_range, node_offset."""
    with netCDF4.Dataset(path, "w", format=kind) as file:
        file.setncatts({"Conventions": "CF-1.7", "GMT_version": "6.5.0"})
        if pixel:
            file.node_offset = np.int32(1)
        for name, axis, unit in zip(names, (first, second), ("degrees_east", "degrees_north"), strict=True):
            file.createDimension(name, axis.size)
            variable = file.createVariable(name, "f8", (name,))
            variable[:] = axis
            half = 0.5 * (axis[1] - axis[0]) if pixel else 0.0
            variable.actual_range = np.array([axis[0] - half, axis[-1] + half])
            if name in ("lon", "lat"):
                variable.units, variable.long_name = unit, {"lon": "longitude", "lat": "latitude"}[name]
        z = file.createVariable("z", "f4", names[::-1], fill_value=np.float32(np.nan))
        z[:] = height(*np.meshgrid(first, second)) if "lon" in names else 0.01 * first + 0.02 * second[:, None]
        z.long_name = "z"
        if change:
            change(file)
    return path


def write_old(path, pixel=False, unit="degrees", change=None):
    """Write the one-dimensional format of GMT 3: rows from North to South, x_range, y_range, dimension."""
    step = LONGITUDE[1] - LONGITUDE[0], LATITUDE[1] - LATITUDE[0]
    half = 0.5 if pixel else 0.0
    with netCDF4.Dataset(path, "w", format="NETCDF3_CLASSIC") as file:
        file.createDimension("side", 2)
        file.createDimension("xysize", LONGITUDE.size * LATITUDE.size)
        grid = height(*np.meshgrid(LONGITUDE, LATITUDE))[::-1]
        for name, values, kind in (
            ("x_range", [LONGITUDE[0] - half * step[0], LONGITUDE[-1] + half * step[0]], "f8"),
            ("y_range", [LATITUDE[0] - half * step[1], LATITUDE[-1] + half * step[1]], "f8"),
            ("z_range", [grid.min(), grid.max()], "f8"),
            ("spacing", step, "f8"),
            ("dimension", [LONGITUDE.size, LATITUDE.size], "i4"),
        ):
            file.createVariable(name, kind, ("side",))[:] = values
        file["x_range"].units = file["y_range"].units = unit
        file["z_range"].units = "user_z_unit"
        z = file.createVariable("z", "f4", ("xysize",))
        z.scale_factor, z.add_offset, z.node_offset = 1.0, 0.0, np.int32(pixel)
        z[:] = grid.reshape(-1)
        if change:
            change(file)
    return path


def domain(path, **changes):
    return lw.Domain(**{**DOMAIN, "topography": str(path), **changes})


@pytest.mark.parametrize("kind", ["NETCDF4", "NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET"])
@pytest.mark.parametrize("pixel", [False, True])
@pytest.mark.parametrize("turn", [1, -1])
def test_topography_on_longitude_and_latitude(tmp_path, kind, pixel, turn):
    """A polynomial of degree two in degrees is exact at projected points; rows may begin in the North."""
    made = domain(write(tmp_path / "t.grd", kind, pixel=pixel, second=LATITUDE[::turn]))
    x, y = np.meshgrid(np.linspace(-20e3, 20e3, 9), np.linspace(-20e3, 20e3, 7))
    expected = height(*(np.asarray(each) for each in made.to_geographic(x, y)))
    np.testing.assert_allclose(made.surface_height(x, y), expected, atol=2e-4)
    low, high = made.surface.range_in(made.x, made.y)
    assert low == pytest.approx(expected.min(), abs=1.0) and high == pytest.approx(expected.max(), abs=1.0)
    assert made.surface_height(100.0, 200.0).shape == ()


@pytest.mark.parametrize("pixel", [False, True])
@pytest.mark.parametrize("unit", ["degrees", "longitude [degrees_east]"])
def test_the_format_of_gmt_3(tmp_path, pixel, unit):
    surface = read_surface(write_old(tmp_path / "old.grd", pixel, unit))
    assert isinstance(surface, GeographicSurface) and surface.unused == ()
    np.testing.assert_allclose(surface.x, LONGITUDE, rtol=1e-12)
    np.testing.assert_allclose(surface.y, LATITUDE, rtol=1e-12)
    np.testing.assert_allclose(surface.elevation, height(*np.meshgrid(LONGITUDE, LATITUDE)), rtol=1e-6)
    made = domain(tmp_path / "old.grd")
    expected = height(*made.to_geographic(5e3, -6e3))
    assert float(made.surface_height(5e3, -6e3)) == pytest.approx(expected, abs=2e-4)


def test_cartesian_grids_are_local(tmp_path):
    x, y = np.linspace(-25e3, 25e3, 11), np.linspace(-30e3, 30e3, 9)
    surface = read_surface(write(tmp_path / "xy.grd", names=("x", "y"), first=x, second=y))
    assert not isinstance(surface, GeographicSurface)
    np.testing.assert_allclose(surface.elevation, 0.01 * x + 0.02 * y[:, None], atol=1e-3)
    in_km = write(
        tmp_path / "km.grd", names=("x", "y"), first=x, second=y,
        change=lambda file: [file[name].setncattr("units", "km") for name in "xyz"],
    )  # fmt: skip
    np.testing.assert_allclose(read_surface(in_km).x, 1e3 * x)


def test_bathymetry_may_be_a_depth(tmp_path):
    def down(file):
        file["z"][:] = -file["z"][:]
        file["z"].positive = "down"

    surface = read_surface(write(tmp_path / "depth.grd", change=down))
    np.testing.assert_allclose(surface.elevation, height(*np.meshgrid(LONGITUDE, LATITUDE)), rtol=1e-6)


def missing(j, i):
    return lambda file: file["z"].__setitem__((j, i), np.nan)


def test_values_may_be_missing_outside_the_domain_only(tmp_path):
    whole = domain(write(tmp_path / "whole.grd"))
    holes = domain(write(tmp_path / "holes.grd", change=missing(slice(0, 3), slice(None))))
    x = np.linspace(-20e3, 20e3, 5)
    assert np.array_equal(whole.surface_height(x, x[:, None]), holes.surface_height(x, x[:, None]))
    with pytest.raises(InputError, match=r"has no value at longitude = -119 degrees, latitude = 34 degrees"):
        domain(write(tmp_path / "bad.grd", change=missing(20, 10)))


def attribute(variable, name, value):
    return lambda file: (file[variable] if variable else file).setncattr(name, value)


def without_units(name, other):
    def change(file):
        file[name].delncattr("units")
        file.renameVariable(name, other)

    return change


def second_grid(file):
    file.renameVariable("z", "a")
    file.createVariable("b", "f4", ("lat", "lon"))[:] = 0.0


@pytest.mark.parametrize(
    "change, pattern",
    [
        (attribute("z", "units", "K"), "z: has the units 'K'; expected a length"),
        (attribute("lat", "units", "degrees_east"), "lat: name and attributes contradict"),
        (attribute("", "node_offset", np.int32(1)), "lon: node_offset = 1 .*expected the centers of the cells"),
        (attribute("z", "positive", "sideways"), "z: has positive = 'sideways'"),
        (lambda file: file["lon"].__setitem__(3, -120.0), "lon: the coordinates are not monotonic"),
        (lambda file: file["lat"].__setitem__(3, np.nan), "lat: has a coordinate without a value"),
        (second_grid, "elevation: the file has several grids: a, b"),
        (without_units("lat", "other"), "z: has the axes other, lon; expected longitude and latitude"),
    ],
)
def test_refused_grids(tmp_path, change, pattern):
    with pytest.raises(InputError, match=f"t.grd: {pattern}"):
        read_surface(write(tmp_path / "t.grd", "NETCDF3_CLASSIC", change=change))


@pytest.mark.parametrize(
    "change, pattern",
    [
        (lambda file: file["dimension"].__setitem__(0, 20), r"z: has the shape \(861,\); expected 20 x 41 = 820"),
        (lambda file: file["dimension"].__setitem__(0, 2**30), "z: has the shape .*expected 1073741824 x 41"),
        (lambda file: file["x_range"].__setitem__(0, 10.0), "x_range: is .*expected .minimum, maximum"),
        (attribute("z", "node_offset", np.int32(7)), "z: has node_offset = 7"),
        (attribute("y_range", "units", "km"), "y_range: only one of x_range and y_range is in degrees"),
    ],
)
def test_refused_grids_of_gmt_3(tmp_path, change, pattern):
    with pytest.raises(InputError, match=f"old.grd: {pattern}"):
        read_surface(write_old(tmp_path / "old.grd", change=change))


def test_the_domain_needs_an_origin_and_must_be_covered(tmp_path):
    path = write(tmp_path / "t.grd")
    with pytest.raises(InputError, match="longitude and latitude require the origin domain.crs"):
        domain(path, crs=None)
    with pytest.raises(InputError, match="grid covers longitude = -120 to -118 degrees; it must cover the domain"):
        domain(path, x=[-200e3, 20e3])
    with pytest.raises(InputError, match="elevation: the surface is on longitudes and latitudes"):
        read_surface(path)(0.0, 0.0)


@pytest.mark.parametrize("kind", ["z", "elevation", "old"])
def test_degrees_without_a_unit(tmp_path, kind):
    """Axes without a unit that do not cover the domain in meters, but in degrees; also as the top of a layer."""

    def unnamed(file):
        for variable in file.variables.values():
            if "units" in variable.ncattrs():
                variable.delncattr("units")
        if kind == "elevation":
            file.renameVariable("z", kind)

    path = tmp_path / "t.grd"
    if kind == "old":
        write_old(path, change=unnamed)
    else:
        write(path, names=("x", "y"), first=LONGITUDE, second=LATITUDE, change=unnamed)
    elevation = read_surface(path).elevation
    made = domain(path)
    place = made.to_local(LONGITUDE[10], LATITUDE[20])
    assert float(made.surface_height(*place)) == pytest.approx(elevation[20, 10], abs=1e-6)
    layers = [{"top": 0, "vp": 3000, "vs": 1700, "rho": 2300}, {"top": str(path), "vp": 5000, "vs": 2900, "rho": 2600}]
    simulation = lw.Simulation(**{**SIMULATION, "domain": DOMAIN, "material": {"layers": layers}})
    top = simulation.material.medium.tops[1]
    assert float(top(*place)) == pytest.approx(elevation[20, 10], abs=1e-6)
    with pytest.raises(InputError, match="must cover the domain"):
        domain(path, crs=None)
    with pytest.raises(InputError, match="longitude: the grid covers"):
        domain(path, crs={"longitude": 10, "latitude": 34})
