"""Files without a unit of their positions: degrees or meters by their values and the origin of the domain."""

from __future__ import annotations

import numpy as np
import pytest

import lithowave as lw
from geographic_runs import CRS, described, message_of

LONGITUDE, LATITUDE = -117.7, 33.9
CMT = """PDE 2012 3 4 10 20 30.00 46.300 -121.900 6.0 4.0 4.0 TEST
event name:     T1
time shift:      0.0000
half duration:   1.0
latorUTM:       {y}
longorUTM:    {x}
depth:           6.0000
Mrr:       1.0e+23
Mtt:       1.0e+23
Mpp:       1.0e+23
Mrt:       0.0e+23
Mrp:       0.0e+23
Mtp:       0.0e+23
"""
FORCE = """FORCE  001
time shift:     0.0
hdurorf0:       2.0    ! half duration
latorUTM:       {y}
longorUTM:      {x}
depth:          1.5
source time function:  {kind}
factor force source:   1.d15
component dir vect source E:     0.d0
component dir vect source N:     0.d0
component dir vect source Z_UP:  -2.d0
"""


def source_at(folder, x, y, crs=CRS, text=CMT, **keys):
    (folder / "SOLUTION").write_text(text.format(x=x, y=y, kind=0))
    return described(crs=crs, sources=[{"file": str(folder / "SOLUTION"), **keys}])


@pytest.mark.parametrize("text", [CMT, FORCE])
def test_degrees_in_latorutm(tmp_path, text):
    simulation = source_at(tmp_path, LONGITUDE, LATITUDE, text=text)
    position = simulation.acquisition.source_positions[0]
    assert position[:2] == pytest.approx(simulation.domain.to_local(LONGITUDE, LATITUDE))
    assert any("latorUTM and longorUTM are degrees" in warning for warning in simulation.warnings())
    meters = source_at(tmp_path, LONGITUDE, LATITUDE, text=text, coordinates="cartesian")
    assert meters.acquisition.source_positions[0][:2].tolist() == [LONGITUDE, LATITUDE]


@pytest.mark.parametrize(("x", "y"), [(1500.0, -6700.0), (0.0, 0.0), (100.0, 50.0)])
@pytest.mark.parametrize("crs", [CRS, None])
def test_meters_stay_meters(tmp_path, x, y, crs):
    assert source_at(tmp_path, x, y, crs).acquisition.source_positions[0][:2].tolist() == [x, y]


def test_degrees_without_an_origin_are_meters(tmp_path):
    assert source_at(tmp_path, LONGITUDE, LATITUDE, None).acquisition.source_positions[0][0] == LONGITUDE
    message = message_of(source_at, tmp_path, LONGITUDE, LATITUDE, None, coordinates="geographic")
    assert "coordinates: geographic needs the origin domain.crs" in message


def test_degrees_near_the_domain_are_uncertain(tmp_path):
    """An event that is 200 km from a domain of 60 km, or meters close to its origin."""
    message = message_of(source_at, tmp_path, LONGITUDE - 2.0, LATITUDE)
    assert "does not state whether longorUTM and latorUTM" in message and "coordinates: geographic" in message
    meters = source_at(tmp_path, LONGITUDE - 2.0, LATITUDE, coordinates="cartesian")
    assert meters.acquisition.source_positions[0][0] == LONGITUDE - 2.0


def test_forces_of_specfem(tmp_path):
    """Its Gaussian has unit area, the one of a force here has unit peak."""
    (source,) = source_at(tmp_path, 100, 200, text=FORCE, time_function=None).acquisition.sources
    times = np.linspace(-5.0, 15.0, 4001)
    wide = 2.0 / 1.628
    delay = source.time_function.shape.delay
    expected = -1e15 * np.exp(-(((times - delay) / wide) ** 2)) / (wide * np.sqrt(np.pi))
    np.testing.assert_allclose(source.force[2] * source.time_function.amplitude(times), expected, rtol=1e-12)
    assert source.position == (100.0, 200.0, -1500.0) and source.moment is None
    for kind, name in ((1, "ricker"), (2, "error_function")):
        (tmp_path / "F").write_text(FORCE.format(x=0, y=0, kind=kind))
        (source,) = described(sources=[{"file": str(tmp_path / "F")}], solver={"max_frequency": 5}).acquisition.sources
        assert source.time_function.kind == name and source.force[2] == -1e15
    for text in (FORCE.format(x=0, y=0, kind=3), FORCE.replace("source time function:  {kind}\n", "")):
        (tmp_path / "F").write_text(text.format(x=0, y=0))
        message = message_of(described, sources=[{"file": str(tmp_path / "F")}])
        assert "does not state a time function" in message and "give time_function beside the file" in message
        shape = {"ricker": {"frequency": 0.3}}
        (source,) = described(sources=[{"file": str(tmp_path / "F"), "time_function": shape}]).acquisition.sources
        assert source.force[2] == -1e15


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("depth:          1.5\n", "", "ends without depth"),
        ("Z_UP:  -2.d0", "Z_UP:  0", "the force is zero"),
        ("1.d15", "much", "SOLUTION:8: factor force source: 'much' is not a finite number"),
        ("depth", "time shift", "SOLUTION:6: time shift: is already on line 2"),
        ("hdurorf0:       2.0", "hdurorf0:       -2.0", "-2 is negative"),
        ("depth", "deepness", "SOLUTION:6: FORCESOLUTION: 'deepness"),
    ],
)
def test_damaged_forcesolution(tmp_path, old, new, words):
    assert words in message_of(source_at, tmp_path, 0, 0, text=FORCE.replace(old, new))


@pytest.mark.parametrize("key", ["receivers", "survey"])
def test_tables_without_units(tmp_path, key):
    def placed(text, **keys):
        (tmp_path / "points.csv").write_text(text)
        entry = {"file": str(tmp_path / "points.csv"), **keys}
        if key == "receivers":
            return [one.position[:2] for one in described(receivers=[entry]).acquisition.receivers]
        simulation = described(receivers=[], survey={"shots": [entry]})
        return [shot.position[:2] for shot in simulation.survey.shot_list(simulation.domain)]

    name = "station" if key == "receivers" else "name"
    degrees = f"{name},x,y\nA,{LONGITUDE},{LATITUDE}\nB,-117.8,34.0\n"
    assert placed(degrees)[0] == pytest.approx(described().domain.to_local(LONGITUDE, LATITUDE))
    assert placed(degrees, coordinates="cartesian")[0] == (LONGITUDE, LATITUDE)
    assert placed(f"{name},x,y\nA,10,20\nB,0,0\n") == [(10.0, 20.0), (0.0, 0.0)]
    with pytest.raises(lw.InputError, match="what its positions are"):
        placed(f"{name},longitude,latitude\nA,{LONGITUDE},{LATITUDE}\n", coordinates="cartesian")


@pytest.mark.parametrize("extrapolate", [False, True])
def test_gridded_models_without_units(tmp_path, extrapolate):
    """A model on axes x and y whose numbers are degrees around the domain."""
    x, y, z = np.linspace(-119.0, -116.5, 6), np.linspace(33.0, 35.0, 5), np.linspace(-30e3, 0.0, 4)
    vp = 5000.0 + 100.0 * (x[:, None, None] + 118) - 50.0 * (y[:, None] - 34) + 0 * z
    arrays = {"x": x, "y": y, "z": z, "vp": vp, "vs": 0.5 * vp, "rho": 0.4 * vp, "axes": ["x", "y", "z"]}
    np.savez(tmp_path / "m.npz", **arrays)
    for material in ({"file": str(tmp_path / "m.npz")}, {"dataset": arrays}):
        simulation = described(material={**material, "extrapolate": extrapolate})
        place = simulation.domain.to_local(LONGITUDE, LATITUDE)
        found = simulation.material.sample(*place, -5e3)[0]
        assert float(found) == pytest.approx(5000.0 + 100.0 * (LONGITUDE + 118) - 50.0 * (LATITUDE - 34), rel=1e-9)
        assert any("the axes x and y have no unit" in warning for warning in simulation.warnings())
    with pytest.raises(lw.InputError, match="it must cover the domain"):
        described(crs=None, material={"file": str(tmp_path / "m.npz")})
    arrays |= {"x": np.linspace(-40e3, 40e3, 6), "y": np.linspace(-40e3, 40e3, 5)}
    meters = described(material={"dataset": arrays})
    assert not any("have no unit" in warning for warning in meters.warnings())


@pytest.mark.parametrize("origin", ["surface", "sea_level", None])
def test_depths_from_a_datum(tmp_path, origin):
    """A hill of 400 m above a source, an event and a fault of two subfaults."""
    axis = np.linspace(-40e3, 40e3, 5)
    np.savez(tmp_path / "hill.npz", x=axis, y=axis, elevation=np.full((5, 5), 400.0), axes=["y", "x"])
    (tmp_path / "CMT").write_text(CMT.format(x=0, y=0))
    subfault = "{lon} 33.95 6.0 0 90 4.0e8 1.0 0.1 3.5e5 2.7\n0 30.0 4 0 0 0 0\n0 100 150 50\n"
    (tmp_path / "f.srf").write_text("2.0\nPOINTS 2\n" + "".join(subfault.format(lon=lon) for lon in (-117.76, -117.75)))
    domain = {"x": [-30e3, 30e3], "y": [-30e3, 30e3], "z": [-20e3, 0], "crs": CRS}
    domain["topography"] = str(tmp_path / "hill.npz")
    point = {**CRS, "depth": 6e3, "force": [0, 0, 1], "time_function": {"gaussian": {"sigma": 1}}}
    keys = {"depth_origin": origin, "delay": 5}
    files = [{"file": str(tmp_path / name), **keys} for name in ("CMT", "f.srf")]
    entries = [point | {"depth_origin": origin}, *files]
    solver = {"method": "spectral_element", "max_frequency": 0.5}
    made = described(domain=domain, sources=entries, solver=solver)
    heights = made.acquisition.source_positions[:, 2]
    np.testing.assert_allclose(heights, -6000.0 if origin == "sea_level" else -5600.0)
    if origin:
        local = {**point, "position": [0, 0, -9], "depth_origin": origin}
        local |= dict.fromkeys(("longitude", "latitude", "depth"))
        assert "depth_origin and position are both given" in message_of(described, sources=[local])
