"""Gridded model files of every kind: axes, units, order, missing values, and damaged files."""

from __future__ import annotations

from itertools import permutations

import h5py
import numpy as np
import pytest

from lithowave import InputError
from lithowave.media import GriddedMedium
from lithowave.readers import DENSITY, LENGTH, SPEED, GriddedModel, local_model, open_arrays, si_factor


@pytest.mark.parametrize(
    "text, kind, factor",
    [
        ("m", LENGTH, 1.0), ("km", LENGTH, 1e3), ("kilometers", LENGTH, 1e3), ("Meter", LENGTH, 1.0),
        ("m/s", SPEED, 1.0), ("m s-1", SPEED, 1.0), ("km.s-1", SPEED, 1e3), ("km s^-1", SPEED, 1e3),
        ("km s**-1", SPEED, 1e3), ("km/sec", SPEED, 1e3), ("meters per second", SPEED, 1.0),
        ("kg/m^3", DENSITY, 1.0), ("kg m-3", DENSITY, 1.0), ("kg/m3", DENSITY, 1.0), ("kg.m-3", DENSITY, 1.0),
        ("kg/m³", DENSITY, 1.0), ("g/cm^3", DENSITY, 1e3), ("g cm-3", DENSITY, 1e3), ("g/cc", DENSITY, 1e3),
        ("g.cm-3", DENSITY, 1e3), ("kg m⁻³", DENSITY, 1.0), ("m", SPEED, None), ("furlong", LENGTH, None),
        ("km/s", DENSITY, None), ("degrees_north", LENGTH, None), ("1", LENGTH, None), ("m/s/s", SPEED, None),
    ],
)  # fmt: skip
def test_units_of_files(text, kind, factor):
    found = si_factor(text, kind)
    assert found is None if factor is None else found == pytest.approx(factor, rel=1e-12)


def read_gridded_model(path):
    with open_arrays(path) as entries:
        return local_model(entries, path)


X, Y, Z = np.array([0.0, 100.0, 300.0]), np.array([-50.0, 50.0]), np.array([-400.0, -300.0, -100.0, 0.0])


def velocity(shape=(3, 2, 4)):
    """vp with a value of its own at each point, axes x, y, z ascending."""
    return 4000.0 + np.arange(np.prod(shape), dtype=float).reshape(shape)


def check(model):
    np.testing.assert_allclose(model.x, X)
    np.testing.assert_allclose(model.y, Y)
    np.testing.assert_allclose(model.z, Z)
    np.testing.assert_allclose(model.vp, velocity())
    np.testing.assert_allclose(model.vs, velocity() / 2, rtol=1e-6)
    np.testing.assert_allclose(model.rho, np.full((3, 2, 4), 2500.0))


def npz(path, **changes):
    arrays = {"x": X, "y": Y, "z": Z, "vp": velocity(), "vs": velocity() / 2, "rho": np.full((3, 2, 4), 2500.0)}
    np.savez(path, **{name: array for name, array in (arrays | changes).items() if array is not None})
    return path


def netcdf(path, kind="NETCDF4", *, dimensions=("z", "y", "x"), units=True, change=None):
    """A model in km, km/s and g/cm^3, with axes in any order."""
    netCDF4 = pytest.importorskip("netCDF4")
    axes = {"x": X, "y": Y, "z": Z}
    with netCDF4.Dataset(path, "w", format=kind) as file:
        for name, values in axes.items():
            file.createDimension(name, values.size)
            axis = file.createVariable(name, "f8", (name,))
            axis[:] = values / 1e3
            axis.units = "km"
        for name, values, unit in (
            ("vp", velocity() / 1e3, "km/s"),
            ("vs", velocity() / 2e3, "km s-1"),
            ("rho", np.full((3, 2, 4), 2.5), "g/cm^3"),
        ):
            variable = file.createVariable(name, "f8", dimensions, fill_value=-999.0)
            variable[:] = values.transpose(["xyz".index(axis) for axis in dimensions])
            if units:
                variable.units = unit
        if change:
            change(file)
    return path


CUBE = {name: 100.0 * np.arange(3) for name in "xyz"}


def cube(order):
    """Arrays whose axes all have three points, with dimensions in an order; vp differs from point to point."""
    vp = 4000.0 + np.arange(27.0).reshape(3, 3, 3)
    values = {"vp": vp, "vs": vp / 2, "rho": np.full((3, 3, 3), 2500.0)}
    return {name: array.transpose(["xyz".index(axis) for axis in order]) for name, array in values.items()}


@pytest.mark.parametrize("order", list(permutations("xyz")), ids="".join)
def test_axes_of_one_length_are_taken_by_name_only(tmp_path, order):
    """Unequal axes, or names in npz, plain HDF5 and NetCDF, settle the order; equal ones without names are refused."""
    netCDF4 = pytest.importorskip("netCDF4")
    arrays, expected = cube(order), cube("xyz")
    np.savez(tmp_path / "named.npz", **CUBE, **arrays, axes=list(order))
    with h5py.File(tmp_path / "named.h5", "w") as file:
        for name, values in {**CUBE, **arrays}.items():
            file[name] = values
        file["axes"] = list(order)
    with netCDF4.Dataset(tmp_path / "named.nc", "w") as file:
        for name, values in CUBE.items():
            file.createDimension(name, 3)
            file.createVariable(name, "f8", (name,))[:] = values
        for name, values in arrays.items():
            file.createVariable(name, "f8", order)[:] = values
    for name in ("named.npz", "named.h5", "named.nc"):
        model = read_gridded_model(tmp_path / name)
        assert all(np.array_equal(getattr(model, one), values) for one, values in expected.items()), name
        assert model.unused == ()
    np.savez(tmp_path / "bare.npz", **CUBE, **arrays)
    message = r'vp: has the shape \(3, 3, 3\) and no names .*x, y and z have the same .*axes=\["x", "y", "z"\] in numpy'
    with pytest.raises(InputError, match=message):
        read_gridded_model(tmp_path / "bare.npz")


def test_variables_that_are_not_used_are_named(tmp_path):
    model = read_gridded_model(npz(tmp_path / "model.npz", q_p=velocity(), Q=velocity(), note=np.zeros(2)))
    assert model.unused == ("q_p", "Q", "note")

    def add(file):
        file["attenuation/qmu"] = velocity()
        file["attenuation/linked"] = velocity()
        file["note"] = h5py.SoftLink("/attenuation/linked")
        file["VP"] = velocity() + 1.0  # one of the two must be named: only one can be used

    path = hdf5(tmp_path / "model.h5", change=add)
    assert set(read_gridded_model(path).unused) - {"vp", "VP"} == {"attenuation/qmu", "note"}
    assert len(read_gridded_model(path).unused) == 3


@pytest.mark.parametrize("kind", ["NETCDF4", "NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF4_CLASSIC"])
@pytest.mark.parametrize("dimensions", list(permutations("xyz")), ids="".join)
def test_netcdf_by_dimension_names_and_units(tmp_path, kind, dimensions):
    check(read_gridded_model(netcdf(tmp_path / "model.nc", kind, dimensions=dimensions)))


def hdf5(path, *, labels=True, change=None):
    with h5py.File(path, "w") as file:
        for name, values in (("x", X), ("y", Y), ("depth", -Z[::-1])):
            file[name] = values
            file[name].attrs["units"] = "m"
        file["vp"] = velocity()[:, :, ::-1].T if labels else velocity()[:, :, ::-1]
        file["vs"] = file["vp"][()] / 2
        file["rho"] = np.full(file["vp"].shape, 2500.0, dtype="f4")
        if labels:
            for name in ("vp", "vs", "rho"):
                for axis, label in enumerate(("depth", "y", "x")):
                    file[name].dims[axis].label = label
        if change:
            change(file)
    return path


def test_packed_integers(tmp_path):
    def pack(file):
        del file["vp"], file["vs"]
        for name, divisor in (("vp", 1), ("vs", 2)):
            file[name] = (2 * (velocity()[:, :, ::-1] - 3000) / divisor).astype("i4")
            file[name].attrs.update(scale_factor=0.5, add_offset=3000.0 / divisor, _FillValue=np.int32(-1))

    check(read_gridded_model(hdf5(tmp_path / "model.h5", labels=False, change=pack)))

    def punch(file):
        pack(file)
        file["vs"][1, 0, 2] = -1

    with pytest.raises(InputError, match=r"vs: has no value at x = 100 m, y = -50 m, z = -300 m \(1 of 24"):
        read_gridded_model(hdf5(tmp_path / "punched.h5", labels=False, change=punch))


def set_attribute(name, key, value):
    def change(file):
        file[name].setncattr(key, value)

    return change


def mask_point(file):
    file["rho"][0, 1, 2] = np.ma.masked


@pytest.mark.parametrize(
    "change, pattern",
    [
        (set_attribute("vp", "units", "parsec"), "vp: has the units 'parsec'.*a speed such as"),
        (set_attribute("x", "units", "degrees_east"), "x: .*longitudes and latitudes"),
        (set_attribute("z", "positive", "sideways"), "z: .*'sideways'"),
        (mask_point, r"rho: has no value at x = 300 m, y = 50 m, z = -400 m \(1 of 24 points\)"),
    ],
)
@pytest.mark.parametrize("kind", ["NETCDF4", "NETCDF3_CLASSIC"])
def test_refused_netcdf(tmp_path, kind, change, pattern):
    with pytest.raises(InputError, match=pattern):
        read_gridded_model(netcdf(tmp_path / "model.nc", kind, change=change))


@pytest.mark.parametrize(
    "changes, pattern",
    [
        ({"vs": None}, "vs: the variable is missing.*x, y, z, vp, rho"),
        ({"x": None}, "x: the axis has no coordinates"),
        ({"z": None}, "no vertical axis"),
        (
            {"y": None, "vp": velocity((3, 4)), "vs": velocity((3, 4)), "rho": velocity((3, 4))},
            r"vp: has the shape \(3, 4\), not three dimensions; expected the dimensions x, y and one of z and depth",
        ),
        ({"depth": -Z}, "both z and depth"),
        ({"vp": velocity((3, 2, 3))}, r"vp: has the shape \(3, 2, 3\); expected \(3, 2, 4\).*x, y, z, or these in"),
        ({"axes": ["z", "y", "x"]}, r"vp: has the shape \(3, 2, 4\); expected \(4, 2, 3\) for the axes z, y, x"),
        ({"axes": [0, 1, 2]}, r'axes: does not hold text; expected names such as \["x", "y", "z"\]'),
        ({"x": np.array([0.0])}, "x: has the shape"),
        ({"x": np.array([0.0, 2.0, 1.0])}, "x: .*are not monotonic: 1 m at index 2"),
        ({"x": np.array([0.0, np.nan, 1.0])}, "x: .*without a value"),
        ({"z": None, "depth": Z}, "negative depth -400 m.*positive = down"),
        ({"vp": np.full((3, 2, 4), "fast")}, "vp: cannot be read: it contains .*, not numbers"),
        ({"x": None, "y": None, "longitude": X, "latitude": Y}, "longitudes and latitudes.*to_geographic"),
        ({"vp": np.where(velocity() == 4005, np.nan, velocity())}, "vp: has no value at x = 0 m, y = 50 m, z = -300 m"),
    ],
)
def test_refused_npz(tmp_path, changes, pattern):
    with pytest.raises(InputError, match=pattern):
        read_gridded_model(npz(tmp_path / "model.npz", **changes))


def flat(path, kind, dimensions, *, doubled=None):
    """A two-dimensional model; `doubled` adds a third dimension of two points."""
    netCDF4 = pytest.importorskip("netCDF4")
    axes = {"x": X, "y": Y, "z": Z, "depth": -Z}
    names = (*dimensions, *([doubled] if doubled else []))
    with netCDF4.Dataset(path, "w", format=kind) as file:
        for name in names:
            file.createDimension(name, axes[name].size)
            file.createVariable(name, "f8", (name,))[:] = axes[name]
        for name in ("vp", "vs", "rho"):
            file.createVariable(name, "f8", names)[:] = 2500.0
    return path


@pytest.mark.parametrize("kind", ["NETCDF4", "NETCDF3_CLASSIC"])
@pytest.mark.parametrize("dimensions", [("z", "x"), ("x", "z"), ("y", "depth"), ("z",)])
def test_the_missing_dimension_is_named(tmp_path, kind, dimensions):
    missing = [axis for axis in "xy" if axis not in dimensions]
    with pytest.raises(InputError) as refused:
        read_gridded_model(flat(tmp_path / "flat.nc", kind, dimensions))
    assert refused.value.where == "vp"
    assert refused.value.got == f"has the dimensions {', '.join(dimensions)}, without {' and '.join(missing)}"
    if len(missing) == 1:
        assert refused.value.hint == f"repeat the values at two coordinates {missing[0]} that enclose the domain"
        model = read_gridded_model(flat(tmp_path / "deep.nc", kind, dimensions, doubled=missing[0]))
        assert model.vp.shape == tuple(axis.size for axis in model.axes.values())


@pytest.mark.parametrize("lone", [True, False])
@pytest.mark.parametrize("kind", ["NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET"])
def test_classic_netcdf_against_the_library(tmp_path, kind, lone):
    """Every type of number, attributes, and records, padded to four bytes where there are several."""
    netCDF4 = pytest.importorskip("netCDF4")
    types = ["i1", "i2", "i4", "f4", "f8"]
    path = tmp_path / "types.nc"
    with netCDF4.Dataset(path, "w", format=kind) as file:
        file.title = "odd"
        file.createDimension("time", None)
        file.createDimension("x", 3)
        file.createVariable("höhe", "f8", ("x",))[:] = 0.0
        for number, kind_of_number in enumerate(types):
            fixed = file.createVariable(f"fixed_{kind_of_number}", kind_of_number, ("x",))
            fixed[:] = np.arange(3) + number
            fixed.setncattr("numbers", np.array([1.5, 2.5, 3.5]))
        for kind_of_number in ("i1",) if lone else ("i1", *types):
            name = f"record_{kind_of_number}"
            if name not in file.variables:
                file.createVariable(name, kind_of_number, ("time", "x"))[:] = np.arange(12).reshape(4, 3)
        expected = {name: np.asarray(item[...]) for name, item in file.variables.items()}
    with open_arrays(path) as variables:
        assert set(variables) == set(expected) and variables.attributes == {"title": "odd"}
        for name, variable in variables.items():
            values = variable.load()
            assert values.dtype == expected[name].dtype and values.shape == variable.shape
            np.testing.assert_array_equal(values, expected[name])
        assert variables["fixed_i1"].attributes["numbers"].tolist() == [1.5, 2.5, 3.5]
        assert variables["höhe"].dimensions == ("x",)


# --- fluids beside solids


def sea(fluid):
    """A medium on the grid X, Y, Z, fluid at the points that are marked; all values differ from point to point."""
    number = np.arange(fluid.size, dtype=float).reshape(fluid.shape)
    vs = np.where(fluid, 0.0, 1800.0 + number)
    axes = {"x": X[: fluid.shape[0]], "y": Y[: fluid.shape[1]], "z": Z[: fluid.shape[2]]}
    return GriddedMedium(GriddedModel("sea", **axes, vp=4000.0 + number, vs=vs, rho=2000.0 + number))


def nearest(medium, point):
    """Values of the grid point that is nearest along each axis."""
    index = tuple(int(np.abs(axis - p).argmin()) for axis, p in zip(medium.model.axes.values(), point, strict=True))
    return [values[index] for values in (medium.model.vp, medium.model.vs, medium.model.rho)]


def places(count=400):
    return np.random.default_rng(3).uniform([X[0], Y[0], Z[0]], [X[-1], Y[-1], Z[-1]], (count, 3))


def test_nothing_is_interpolated_between_a_fluid_and_a_solid():
    fluid = np.zeros((3, 2, 4), bool)
    fluid[:, :, 3] = fluid[2, :, 2] = True  # a sea floor with a step
    medium, dry = sea(fluid), sea(np.zeros_like(fluid))
    points = places()
    found, plain = (np.array(one.sample(*points.T)) for one in (medium, dry))
    assert set(np.unique(found[1] == 0)) == {False, True}
    assert not ((found[1] > 0) & (found[1] < 1800)).any(), "half a fluid"
    mixed = (points[:, 2] > -100) & (points[:, 0] < 100) | (points[:, 2] > -300) & (points[:, 0] > 100)
    assert 0 < mixed.sum() < len(points)
    for n in np.flatnonzero(mixed & (np.abs(points[:, 2] + 50) < 49) & (points[:, 0] < 100)):
        np.testing.assert_array_equal(found[:, n], nearest(medium, points[n]))
    np.testing.assert_array_equal(found[:, ~mixed], plain[:, ~mixed])


# --- quality factors


@pytest.mark.parametrize("names", [("qp", "qs"), ("Qkappa", "QMU")])
def test_quality_factors_are_read(tmp_path, names):
    first, second = velocity() / 10, velocity() / 20
    second[0, 0, 0] = np.inf
    model = read_gridded_model(npz(tmp_path / "model.npz", z=Z[::-1], **dict(zip(names, (first, second), strict=True))))
    assert tuple(model.quality) == tuple(name.lower() for name in names) and model.unused == ()
    assert np.array_equal(model.quality[names[0].lower()], first[:, :, ::-1])
    assert np.array_equal(model.quality[names[1].lower()], second[:, :, ::-1])


def test_a_fluid_has_one_quality_factor(tmp_path):
    model = read_gridded_model(npz(tmp_path / "model.npz", vs=np.zeros((3, 2, 4)), qp=velocity()))
    assert tuple(model.quality) == ("qp",)
    bulk, shear = GriddedMedium(model).inverse_quality(*(np.array([at]) for at in (0.0, -50.0, -400.0)))
    assert bulk == [1 / 4000.0] and shear == [0.0]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"qp": velocity()}, "qs: the variable is missing, while qp is given"),
        ({"qs": velocity()}, "qp: the variable is missing, while qs is given"),
        ({"qmu": velocity()}, "qkappa: the variable is missing, while qmu is given"),
        ({"qp": velocity(), "qmu": velocity()}, "qmu: the file has qp, qmu; give either qp and qs, or qkappa and qmu"),
        ({"qp": velocity((3, 2, 3)), "qs": velocity()}, r"qp: has the shape \(3, 2, 3\)"),
        ({"qp": np.zeros(4), "qs": velocity()}, "qp: has the shape"),
    ],
)
def test_incomplete_quality_factors_are_refused(tmp_path, more, words):
    with pytest.raises(InputError, match=words):
        read_gridded_model(npz(tmp_path / "model.npz", **more))


def test_units_of_quality_factors(tmp_path):
    def add(units):
        def change(file):
            for name in ("qp", "qs"):
                variable = file.createVariable(name, "f4", ("z", "y", "x"))
                variable[:], variable.units = 50.0, units

        return change

    assert set(read_gridded_model(netcdf(tmp_path / "a.nc", change=add("1"))).quality) == {"qp", "qs"}
    with pytest.raises(InputError, match="qp: has the units 'km/s'"):
        read_gridded_model(netcdf(tmp_path / "b.nc", change=add("km/s")))


@pytest.mark.parametrize(
    ("qp", "qs", "words"),
    [
        (0.0, 50.0, "qp = 0 at x = 100 m, y = 50 m, z = -300 m.*must be at least 1, or infinite"),
        (100.0, -50.0, "qs = -50 at x = 100 m"),
        (np.nan, 50.0, "qp = nan at x = 100 m"),
        (300.0, 50.0, "attenuation of the bulk modulus would be negative.*qp must be at most 150"),
        (1.0, 1e9, "the quality factor of the bulk modulus is 0.667"),
    ],
)
def test_impossible_quality_factors_are_refused(tmp_path, qp, qs, words):
    factors = {"qp": np.full((3, 2, 4), 100.0), "qs": np.full((3, 2, 4), 50.0)}
    factors["qp"][1, 1, 1], factors["qs"][1, 1, 1] = qp, qs
    with pytest.raises(InputError, match=words):
        GriddedMedium(read_gridded_model(npz(tmp_path / "model.npz", **factors)))


def test_the_inverse_of_quality_factors_is_interpolated(tmp_path):
    """1/Qmu linearly; infinite values are elastic; values in a fluid are not used, and it is not mixed with a solid."""
    qkappa, qmu = np.full((3, 2, 4), np.inf), np.full((3, 2, 4), 100.0)
    qmu[0], qmu[2] = np.inf, np.nan
    vs = velocity() / 2
    vs[2] = 0.0
    medium = GriddedMedium(read_gridded_model(npz(tmp_path / "model.npz", vs=vs, qkappa=qkappa, qmu=qmu)))
    x = np.array([0.0, 25.0, 100.0, 190.0, 210.0, 300.0])
    for y in (np.array(0.0), np.zeros(6)):  # on a product grid, and at any points
        bulk, shear = medium.inverse_quality(x, y, np.array(-200.0))
        assert np.array_equal(bulk, np.zeros(6))
        np.testing.assert_allclose(shear, [0.0, 0.0025, 0.01, 0.01, 0.0, 0.0], atol=1e-17)
