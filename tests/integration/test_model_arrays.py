"""Gridded models given as NumPy arrays and xarray Datasets in Python, and the files that runs store."""

from __future__ import annotations

import h5py
import numpy as np
import pytest
from support.model_files import DEPTH, LATITUDE, LONGITUDE, NAMES, SIMULATION, speed, values

import lithowave as lw
from lithowave import InputError
from lithowave.output import write_gridded_model
from lithowave.readers import read_model

X, Y, Z = np.linspace(-2e3, 2e3, 5), np.linspace(-2e3, 2e3, 6), np.linspace(-2e3, 0.0, 7)
SMALL = {
    "domain": {"x": [-1500, 1500], "y": [-1500, 1500], "z": [-1500, 0]},
    "sources": [
        {"position": [0, 0, -700], "force": [0, 0, 1e10], "time_function": {"ricker": {"frequency": 2, "delay": 0.6}}}
    ],
    "receivers": [{"network": "XX", "name": "A", "position": [600, 0, 0]}],
    "duration": 0.3,
    "solver": {"method": "finite_difference", "spacing": 150},
    "compute": {"backend": "cpu"},
}


def arrays():
    x, y, z = np.meshgrid(X, Y, Z, indexing="ij")
    vs = (1500.0 + 0.01 * x + 0.02 * y - 0.1 * z).astype(np.float32)
    return {"x": X.copy(), "y": Y, "z": Z, "vp": 1.8 * vs, "vs": vs, "rho": 2000.0 + 0.0 * vs, "axes": ["x", "y", "z"]}


def dataset(order=("z", "x", "y"), km=False):
    xarray = pytest.importorskip("xarray")
    given, factor = arrays(), 1e-3 if km else 1.0
    found = xarray.Dataset(
        coords={name: (name, factor * given[name], {"units": "km" if km else "m"}) for name in "xyz"}
    )
    for name in ("vp", "vs", "rho"):
        unit = {"units": "g/cm^3" if name == "rho" else "km/s"} if km else {}
        array = xarray.DataArray(factor * given[name], dims=("x", "y", "z"), attrs=unit)
        found[name] = array.transpose(*order)
        found[name].attrs.update(unit)
    return found


@pytest.mark.parametrize("how", ["arrays", "file", "dataset", "units", "key"])
def test_arrays_and_datasets_are_models(how):
    material = {
        "arrays": arrays, "file": lambda: {"file": dataset()}, "dataset": dataset, "units": lambda: dataset(km=True),
        "key": lambda: {"dataset": dataset(("y", "z", "x"))},
    }[how]()  # fmt: skip
    made = lw.Simulation(material=material, **SMALL)
    found = made.material.sample(X[1:4, None], Y[1:4], -500.0)
    expected = 1500.0 + 0.01 * X[1:4, None] + 0.02 * Y[1:4] + 50.0
    np.testing.assert_allclose(found[1], expected, rtol=1e-6)
    np.testing.assert_allclose(found[0], 1.8 * expected, rtol=1e-6)
    assert made.with_overrides({"duration": 0.2}).material == made.material


def test_geographic_datasets_are_placed():
    xarray = pytest.importorskip("xarray")
    axes = {"depth": DEPTH, "latitude": LATITUDE, "longitude": LONGITUDE}
    found = xarray.Dataset({name: (NAMES, 1e3 * array) for name, array in values().items()}, coords=axes)
    with pytest.raises(InputError, match="depth: has no units"):
        lw.Simulation(material=found, **SIMULATION)
    found["depth"].attrs["units"] = "km"
    made = lw.Simulation(material=found, **SIMULATION)
    expected = 1e3 * speed(*made.domain.to_geographic(3e3, 4e3), 5.0)
    assert made.material.sample(3e3, 4e3, -5e3)[0] == pytest.approx(expected, rel=1e-9)


def test_changes_of_the_arrays_do_not_change_the_model():
    given = arrays()
    made = lw.Simulation(material=given, **SMALL)
    before = made.material.sample(0.0, 0.0, -100.0)
    given["vp"][:] = 1.0
    given["x"][:] = 0.0
    assert np.array_equal(made.material.sample(0.0, 0.0, -100.0), before)


def test_the_run_folder_contains_the_model_and_a_complete_description(tmp_path):
    made = lw.Simulation(material=arrays(), **SMALL)
    first = made.run(output=str(tmp_path / "first"))
    (model,) = read_model(tmp_path / "first" / "material_model.h5")
    assert all(np.array_equal(getattr(model, name), arrays()[name]) for name in ("vp", "vs", "rho"))
    (tmp_path / "first").rename(tmp_path / "moved")
    again = lw.Simulation.from_file(tmp_path / "moved" / "simulation.yaml")
    assert again.material.file == tmp_path / "moved" / "material_model.h5"
    second = again.run(output=str(tmp_path / "second"))
    data = [lw.load_seismograms(path).data for path in (tmp_path / "moved", tmp_path / "second")]
    assert np.abs(data[0]).max() > 0.0 and np.array_equal(*data)
    del first, second
    with pytest.raises(InputError, match="contains another run.*overwrite=True"):
        made.run(output=str(tmp_path / "moved"))
    made.run(output=str(tmp_path / "moved"), overwrite=True)


def test_what_a_simulation_file_cannot_express_is_refused():
    made = lw.Simulation(material=arrays(), **SMALL)
    with pytest.raises(InputError, match="material.dataset: arrays in Python cannot be written to a simulation file"):
        made.to_yaml()


@pytest.mark.parametrize(
    "change, pattern",
    [
        ({"vp": None}, "material.dataset: vp: the variable is missing"),
        ({"axes": None, "y": X, "vp": np.ones((5, 5, 7))}, "vp: has the shape .* and no names of its dimensions"),
        ({"vs": np.full((5, 6, 7), np.nan)}, r"material.dataset: vs: has no value at x = -2000 m"),
        ({"rho": np.full((5, 6, 7), 2.5)}, r"rho of material.dataset .*implausible.*g/cm\^3"),
        ({"z": -Z}, "covers z = 0 to 2000 m"),
        ({"vp": np.full((5, 6, 7), "x")}, "it contains <U1, not numbers"),
    ],
)
def test_refused_arrays(change, pattern):
    given = {name: array for name, array in (arrays() | change).items() if array is not None}
    with pytest.raises(InputError, match=pattern):
        lw.Simulation(material=given, **SMALL)


def test_other_objects_are_refused():
    for material in (np.ones((3, 3, 3)), {"dataset": 5}, {"dataset": {"a": 1}}):
        with pytest.raises(InputError, match="material"):
            lw.Simulation(material=material, **SMALL)
    with pytest.raises(InputError, match='give arrays by name with their axes, material={"x": x'):
        lw.Simulation(material=np.ones((3, 3, 3)), **SMALL)


def test_written_models_are_netcdf(tmp_path):
    netCDF4 = pytest.importorskip("netCDF4")
    made = lw.Simulation(material=arrays(), **SMALL)
    path = write_gridded_model(tmp_path / "model.nc", made.material.medium.model)
    with netCDF4.Dataset(path) as file:
        assert file["vp"].dimensions == ("x", "y", "z") and file["vp"].units == "m/s" and file["z"].positive == "up"
        assert np.array_equal(file["vs"][:], arrays()["vs"])
    with h5py.File(path) as file:
        assert file["vs"].dtype == np.float32
