"""Models on longitude, latitude and depth: conventions of EMC files, placement in a domain, and refusals."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from support.model_files import DEPTH, LATITUDE, LONGITUDE, NAMES, SIMULATION, speed, values, write_emc

import lithowave as lw
from lithowave import InputError
from lithowave.readers import read_model

pytest.importorskip("netCDF4")

EXPECTED = {name: 1e3 * array.transpose(2, 1, 0)[:, :, ::-1] for name, array in values().items()}


def check(model):
    """Compare a model with the values written, in SI with ascending axes."""
    np.testing.assert_allclose(model.x, LONGITUDE, rtol=1e-7)
    np.testing.assert_allclose(model.y, LATITUDE, rtol=1e-7)
    np.testing.assert_allclose(model.z, -1e3 * DEPTH[::-1], rtol=1e-7)
    for name, expected in EXPECTED.items():
        np.testing.assert_allclose(getattr(model, name), expected, rtol=2e-7)


def simulation(path, domain=None, **material):
    parts = {**SIMULATION, "domain": {**SIMULATION["domain"], **(domain or {})}}
    return lw.Simulation(material={"file": str(path), **material}, **parts)


@pytest.mark.parametrize("order", list(permutations(NAMES)), ids=lambda order: "".join(name[0:2] for name in order))
@pytest.mark.parametrize("kind", ["NETCDF4", "NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET"])
def test_emc_files_in_any_order_of_dimensions(tmp_path, kind, order):
    (model,) = read_model(write_emc(tmp_path / "emc.nc", kind, order))
    check(model)
    assert model.units == {"vp": "km.s-1", "vs": "km.s-1", "rho": "g.cm-3"}
    assert model.frame.kind == "geographic" and model.unused == () and model.notes == ()


def rename(old, new):
    def change(file):
        file.renameVariable(old, new)
        if old in file.dimensions:
            file.renameDimension(old, new)

    return change


def attribute(variable, name, value):
    def change(file):
        target = file[variable] if variable else file
        if value is None:
            target.delncattr(name)
        else:
            target.setncattr(name, value)

    return change


def both(*changes):
    return lambda file: [change(file) for change in changes]


def flip(file):
    for name in ("depth", "latitude"):
        file[name][:] = file[name][:][::-1]
    for name in ("vp", "vs", "rho"):
        file[name][:] = file[name][:][::-1, ::-1]


def upwards(file):
    file["depth"][:] = -1e3 * file["depth"][:]
    file["depth"].units, file["depth"].positive = "m", "up"


def si(file):
    for name in ("vp", "vs", "rho"):
        file[name][:] = 1e3 * file[name][:]
        file[name].units = "kg.m-3" if name == "rho" else "m/s"


@pytest.mark.parametrize(
    "change",
    [
        flip, upwards, si, both(flip, upwards, si), rename("rho", "density"), rename("longitude", "lon"),
        both(rename("latitude", "a"), rename("longitude", "b")), both(rename("depth", "level")),
        attribute("depth", "units", None), attribute("depth", "positive", None),
        both(attribute("depth", "positive", None), attribute("", "geospatial_vertical_positive", None)),
    ],
)  # fmt: skip
def test_names_and_attributes_identify_axes_and_units(tmp_path, change):
    """Axes renamed to letters are known by standard_name and units; depth takes lacking ones from the file."""
    check(*read_model(write_emc(tmp_path / "emc.nc", "NETCDF3_CLASSIC", change=change)))


def test_points_of_the_domain_are_projected_and_interpolated(tmp_path):
    """A model that is linear in longitude, latitude and depth is exact at any point, for all shapes of points."""
    made = simulation(write_emc(tmp_path / "emc.nc"))
    rng = np.random.default_rng(1)
    x, y, z = (rng.uniform(*made.domain.bounds[axis], 50) for axis in "xyz")
    longitude, latitude = made.domain.to_geographic(x, y)
    vp, vs, rho = made.material.sample(x, y, z)
    expected = 1e3 * speed(longitude, latitude, -z / 1e3)
    np.testing.assert_allclose(vp, expected, rtol=2e-7)
    np.testing.assert_allclose(vs, expected / 1.8, rtol=2e-7)
    np.testing.assert_allclose(rho, 0.45 * expected, rtol=2e-7)
    plane = made.material.sample(x, y[:, None], -3000.0)[0]  # a plane of a grid
    np.testing.assert_allclose(np.diag(plane), made.material.sample(x, y, np.full(50, -3000.0))[0], rtol=1e-12)
    column = made.material.sample(x[:, None], y[0], z)[0]
    np.testing.assert_allclose(column[7], made.material.sample(np.full(50, x[7]), np.full(50, y[0]), z)[0], rtol=1e-12)


@pytest.mark.parametrize("first, count", [(0.0, 360), (0.0, 361), (-180.0, 360), (-180.0, 361)])
def test_global_models_have_no_seam(tmp_path, first, count):
    """vp depends on the longitude around the date line as a hat function, wherever the file begins."""
    netCDF4 = pytest.importorskip("netCDF4")
    longitude, latitude, depth = first + np.arange(count), np.array([-2.0, 2.0]), np.array([0.0, 50.0])
    vp = 5.0 + 0.1 * np.abs((longitude + 360.0) % 360.0 - 180.0) / 180.0
    with netCDF4.Dataset(tmp_path / "globe.nc", "w") as file:
        for name, axis in (("longitude", longitude), ("latitude", latitude), ("depth", depth)):
            file.createDimension(name, axis.size)
            file.createVariable(name, "f8", (name,))[:] = axis
        file["depth"].units = "km"
        for name, factor in (("vp", 1e3), ("vs", 5e2), ("rho", 400.0)):
            array = np.broadcast_to(factor * vp, (2, 2, count))
            file.createVariable(name, "f8", ("depth", "latitude", "longitude"))[:] = array
    for center in (180.0, -180.0, 179.7, 0.2, -0.2, 359.9):
        made = simulation(tmp_path / "globe.nc", {"crs": {"longitude": center, "latitude": 0}})
        x = np.linspace(-20e3, 20e3, 9)
        lon = np.asarray(made.domain.to_geographic(x, 0.0 * x)[0])
        expected = 5e3 + 100.0 * np.abs((lon + 720.0) % 360.0 - 180.0) / 180.0
        np.testing.assert_allclose(made.material.sample(x, 0.0, -1e3)[0], expected, rtol=1e-9)


def hole(position):
    def change(file):
        file["vs"][position] = 99999.0

    return change


def test_missing_values_are_allowed_outside_the_domain_only(tmp_path):
    """Node (depth, latitude, longitude) = (10 km, 34, -119) is in the domain, (40 km, ...) and the corners are not."""
    inside = write_emc(tmp_path / "in.nc", change=hole((4, 5, 4)))
    with pytest.raises(
        InputError, match=r"vs of .*in.nc has no value at longitude = -119 degrees, latitude = 34 degrees, z = -10000 m"
    ):
        simulation(inside)
    made = simulation(write_emc(tmp_path / "out.nc", change=both(hole((6, 5, 4)), hole((slice(None), 0, 0)))))
    whole = simulation(write_emc(tmp_path / "whole.nc"))
    points = np.meshgrid(*(np.linspace(*made.domain.bounds[axis], 7) for axis in "xyz"))
    assert all(map(np.array_equal, made.material.sample(*points), whole.material.sample(*points)))
    assert all(np.isfinite(made.material.sample(9e4, 9e4, -4e4)))


def test_the_domain_needs_an_origin_and_must_be_covered(tmp_path):
    path = write_emc(tmp_path / "emc.nc", depth=DEPTH + 1.0)
    with pytest.raises(InputError, match="is on longitudes and latitudes; the domain needs a geographic origin; give"):
        simulation(path, {"crs": None})
    with pytest.raises(InputError, match=r"covers z = -41000 to -1000 m; it must cover the domain, -20000 to 0 m; "):
        simulation(path)
    with pytest.raises(InputError, match=r"covers longitude = -120 to -118 degrees \(2 ends"):
        simulation(path, {"x": [-200e3, 20e3]})
    made = simulation(path, extrapolate=True)
    warning = "the domain reaches 1000 m beyond .*emc.nc, above its largest z; the values there are those of its edge"
    assert any(__import__("re").search(warning, text) for text in made.warnings())
    assert made.material.sample(0.0, 0.0, 0.0)[0] == made.material.sample(0.0, 0.0, -1000.0)[0]
    again = lw.Simulation.from_text(made.to_yaml())
    assert again == made and again.material.extrapolate
    with pytest.raises(InputError, match="extrapolate: applies to gridded models only"):
        lw.Simulation(material={"homogeneous": {"vp": 5e3, "vs": 3e3, "rho": 2700}, "extrapolate": True}, **SIMULATION)


def test_depth_may_be_measured_from_the_surface(tmp_path):
    x = np.linspace(-30e3, 30e3, 61)
    height = np.broadcast_to(500.0 + 0.01 * x, (61, 61))
    np.savez(tmp_path / "topography.npz", x=x, y=x, elevation=height, axes=["y", "x"])
    parts = {**SIMULATION, "solver": {"method": "spectral_element", "max_frequency": 0.1}}
    parts["domain"] = {**SIMULATION["domain"], "topography": str(tmp_path / "topography.npz")}
    path = write_emc(tmp_path / "emc.nc")
    made = {
        origin: lw.Simulation(material={"file": str(path), "depth_origin": origin}, **parts)
        for origin in ("sea_level", "surface")
    }
    for point, shift in (((0.0, 0.0), 500.0), ((10e3, 3e3), 600.0)):
        sea = made["sea_level"].material.sample(*point, -3e3)[0]
        surface = made["surface"].material.sample(*point, -3e3 + shift)[0]
        assert surface == pytest.approx(sea, rel=1e-9) and surface != made["surface"].material.sample(*point, -3e3)[0]


def test_unused_variables_and_contradicting_attributes_are_reported(tmp_path):
    made = simulation(
        write_emc(tmp_path / "emc.nc", extra=("vsv", "vs_perturb"), change=attribute("", "geospatial_lat_min", 12.0))
    )
    text = "\n".join(made.warnings())
    assert "variables that are not used: vsv, vs_perturb" in text
    assert "geospatial_lat_min = 12 of the file contradicts the axis latitude, which ends at 33 degrees" in text


def drop(*names):
    """Rename variables, which NetCDF cannot delete."""
    return both(*(rename(name, f"other{number}") for number, name in enumerate(names)))


def coordinates(name, new):
    def change(file):
        file[name][:] = new

    return change


@pytest.mark.parametrize(
    "change, pattern",
    [
        (drop("vs"), "vs: the variable is missing; .*vp, rho, other0|vs: the variable is missing"),
        (drop("vp"), "vp: the variable is missing.*compute vp, for example from vs"),
        (drop("rho"), "rho: the variable is missing.*Gardner"),
        (rename("vs", "vs_perturb"), "vs_perturb: contains relative values.*vs is missing, and vs_perturb is a pert"),
        (rename("vs", "vsv"), "vs: the variable is missing; vsv are those of a radially anisotropic.*Voigt"),
        (attribute("vs", "units", "%"), "vs: contains relative values.*'%'"),
        (attribute("depth", "units", "hPa"), "depth: has the units 'hPa'; expected a length"),
        (attribute("depth", "positive", "sideways"), "depth: has the attribute positive = 'sideways'"),
        (both(attribute("depth", "units", None), attribute("", "geospatial_vertical_units", None)), "depth: has no u"),
        (attribute("latitude", "units", "degrees_east"), "latitude: name and attributes contradict each other"),
        (attribute("latitude", "units", "m"), "latitude: has the units 'm'; expected degrees"),
        (attribute("longitude", "standard_name", "latitude"), "longitude: name and attributes contradict"),
        (coordinates("depth", [0, 1, 2, 1.5, 10, 20, 40]), "depth: the coordinates are not monotonic: 1.5 at index 3"),
        (coordinates("depth", 1e3 * DEPTH), "depth: reaches 40000 km, more than the radius of the E.*in m"),
        (coordinates("depth", [0, 1, 2, 5, 10, 20, np.nan]), "depth: has a coordinate without a value"),
        (coordinates("latitude", LATITUDE + 60.0), "latitude: runs from 93 to 95 degrees"),
        (both(rename("longitude", "x"), attribute("x", "units", "km"), attribute("x", "standard_name", "")), "no lo"),
    ],
)  # fmt: skip
def test_refused_files(tmp_path, change, pattern):
    with pytest.raises(InputError, match=pattern) as caught:
        read_model(write_emc(tmp_path / "emc.nc", "NETCDF3_CLASSIC", change=change))
    assert str(tmp_path / "emc.nc") in str(caught.value)


@pytest.mark.parametrize(
    "change, pattern",
    [
        (attribute("vp", "units", "m/s"), "vp = 6.7.*The median of vp is 5.* .units in the file: m/s.; .* km/s"),
        (attribute("rho", "units", "kg.m-3"), r"rho of .*\(units: kg.m-3\).*Are the numbers in g/cm\^3"),
        (attribute("depth", "units", "m"), "covers z = -40 to 0 m; .*if the vertical axis is in km"),
        (lambda file: file["vp"].__setitem__((3, 5, 4), 1.0), "vp = 1000 m/s and vs = .*vp\\^2 must be greater"),
        (lambda file: file["rho"].__setitem__((3, 5, 4), -1.0), "rho = -1000 at longitude = -119 degrees.*finite and"),
    ],
)  # fmt: skip
def test_suspicious_values_are_refused_in_the_domain(tmp_path, change, pattern):
    with pytest.raises(InputError, match=pattern):
        simulation(write_emc(tmp_path / "emc.nc", change=change))


def test_map_coordinates_are_refused(tmp_path):
    """The variant of EMC files on UTM axes, with the longitude and latitude of each point."""
    netCDF4 = pytest.importorskip("netCDF4")
    for number, marks in enumerate(({"lonlat": True}, {"standard": True}, {"zone": True})):
        with netCDF4.Dataset(tmp_path / f"{number}.nc", "w") as file:
            for name in "xyz":
                file.createDimension(name, 3)
                file.createVariable(name, "f8", (name,))[:] = np.arange(3.0)
            for name in ("vp", "vs", "rho"):
                file.createVariable(name, "f8", ("z", "y", "x"))[:] = 3000.0
            if "lonlat" in marks:
                file.createVariable("longitude", "f8", ("y", "x"))[:] = 0.0
            if "standard" in marks:
                file["x"].standard_name = "projection_x_coordinate"
            if "zone" in marks:
                file.utm_zone = 11
        with pytest.raises(InputError, match="are those of a map.*use the version of the model on longitude and lat"):
            read_model(tmp_path / f"{number}.nc")


def test_declared_sizes_that_the_file_cannot_hold_are_refused(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "huge.h5", "w") as file:
        shape = (30_000, 30_000, 30_000)
        for name, size in zip(("longitude", "latitude", "depth"), shape, strict=True):
            file[name] = np.linspace(0.0, 1.0, size)
            file[name].make_scale(name)
        file["depth"].attrs["units"] = "km"
        for name in ("vp", "vs", "rho"):
            data = file.create_dataset(name, shape, "f4", chunks=(10, 10, 10))
            for number, axis in enumerate(("longitude", "latitude", "depth")):
                data.dims[number].attach_scale(file[axis])
    with pytest.raises(InputError, match="vp: cannot be read: it declares 108000000000000 bytes"):
        read_model(tmp_path / "huge.h5")


def test_a_material_is_placed_again_in_another_domain(tmp_path):
    first = simulation(write_emc(tmp_path / "emc.nc"))
    domain = {**SIMULATION["domain"], "crs": {"longitude": -119.5, "latitude": 34}}
    second = lw.Simulation(**{**SIMULATION, "domain": domain}, material=first.material)
    found = [each.material.sample(0.0, 0.0, -1e3)[0] for each in (first, second)]
    assert found == pytest.approx([1e3 * speed(longitude, 34.0, 1.0) for longitude in (-119.0, -119.5)], rel=2e-7)
