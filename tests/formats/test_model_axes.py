"""Axes of gridded models as other programs write them: a depth at both sides of a discontinuity, other dimensions."""

from __future__ import annotations

import numpy as np
import pytest

import lithowave as lw
from lithowave import InputError
from lithowave.readers import read_model, read_surface

netCDF4 = pytest.importorskip("netCDF4")
DEPTHS = [0.0, 10.0, 24.4, 24.4, 60.0, 100.0]
VP = [5.0, 5.5, 6.0, 8.0, 8.1, 8.3]


def write(path, depths=DEPTHS, vp=VP, geographic=True, dimensions="{}"):
    """A model whose vp depends on depth; `dimensions` makes the name of a dimension from that of its coordinates."""
    horizontal = ("latitude", "longitude") if geographic else ("y", "x")
    ends = np.linspace(-1, 1, 3) * (1 if geographic else 100e3)
    axes = {"depth": np.array(depths), **dict.fromkeys(horizontal, ends)}
    vp = np.array(vp)
    units = {"depth": "km", "latitude": "degrees_north", "longitude": "degrees_east", "x": "m", "y": "m"}
    with netCDF4.Dataset(path, "w") as file:
        for name, values in axes.items():
            file.createDimension(dimensions.format(name), values.size)
            variable = file.createVariable(name, "f8", (dimensions.format(name),))
            variable[:] = values
            variable.units = units[name]
        file["depth"].positive = "down"
        for name, unit, values in (("vp", "km/s", vp), ("vs", "km/s", 0.55 * vp), ("rho", "kg/m^3", 2e3 + 0 * vp)):
            variable = file.createVariable(name, "f8", tuple(map(dimensions.format, axes)))
            variable[:] = np.broadcast_to(values[:, None, None], (len(depths), 3, 3))
            variable.units = unit
    return path


def material(path, geographic=True):
    crs = {"crs": {"longitude": 0, "latitude": 0}} if geographic else {}
    simulation = lw.Simulation(
        domain={"x": [-50e3, 50e3], "y": [-50e3, 50e3], "z": [-90e3, 0], **crs}, material={"file": str(path)},
        sources=[{"position": [0, 0, -5e3], "force": [0, 0, 1], "time_function": {"gaussian": {"sigma": 9}}}],
        duration=1, solver={"max_frequency": 0.1},
    )  # fmt: skip
    return simulation.material


@pytest.mark.parametrize("geographic", [True, False])
@pytest.mark.parametrize("upwards", [True, False])
def test_a_depth_at_both_sides_of_a_discontinuity(tmp_path, geographic, upwards):
    turn = slice(None, None, -1 if upwards else 1)
    path = write(tmp_path / "m.nc", DEPTHS[turn], VP[turn], geographic)
    assert [model.z.size for model in read_model(path)] == [3, 3]
    depths = np.array([0.0, 5e3, 17.2e3, 24.399e3, 24.401e3, 42.2e3, 80e3])
    vp, _, _ = material(path, geographic).sample(1e3, -2e3, -depths)
    np.testing.assert_allclose(vp, [5000, 5250, 5750, 6000, 8000, 8050, 8200], rtol=2e-5)


def test_a_depth_twice_at_an_end_or_three_times(tmp_path):
    (model,) = read_model(write(tmp_path / "a.nc", [0, 0, 50, 100, 100], [1, 5, 6, 7, 9]))
    assert model.vp[0, 0].tolist() == [7000, 6000, 5000]
    with pytest.raises(InputError, match="depth: the coordinates are not monotonic: 24.4 at index 4"):
        read_model(write(tmp_path / "b.nc", [0, 10, 24.4, 24.4, 24.4, 100]))
    with pytest.raises(InputError, match="not monotonic: 20 at index 3"):
        read_model(write(tmp_path / "c.nc", [0, 10, 24.4, 20, 60, 100]))


@pytest.mark.parametrize("geographic", [True, False])
def test_dimensions_of_other_names(tmp_path, geographic):
    (model,) = read_model(write(tmp_path / "m.nc", [0, 50, 100], [5, 6, 7], geographic, "dim_{}"))
    (same,) = read_model(write(tmp_path / "n.nc", [0, 50, 100], [5, 6, 7], geographic))
    assert model.frame == same.frame and model.unused == ()
    for name in ("x", "y", "z", "vp"):
        np.testing.assert_array_equal(getattr(model, name), getattr(same, name))


def test_dimensions_of_other_names_in_a_topography(tmp_path):
    with netCDF4.Dataset(tmp_path / "t.nc", "w") as file:
        for name, size in (("nlat", 3), ("nlon", 4)):
            file.createDimension(name, size)
        for name, dimension, values in (("lat", "nlat", [0, 1, 2]), ("lon", "nlon", [5, 6, 7, 8])):
            file.createVariable(name, "f8", (dimension,))[:] = values
        file.createVariable("z", "f8", ("nlat", "nlon"))[:] = np.arange(12).reshape(3, 4)
    surface = read_surface(tmp_path / "t.nc")
    assert surface.elevation.shape == (3, 4) and surface.x.tolist() == [5, 6, 7, 8]
