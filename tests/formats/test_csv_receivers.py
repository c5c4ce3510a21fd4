"""CSV tables of receivers: names of columns, units, reference systems, and damaged files."""

from __future__ import annotations

import numpy as np
import pytest

from geographic_runs import CRS, described, message_of

LONGITUDE, LATITUDE = CRS["longitude"], CRS["latitude"]


def receivers_of(folder, text, name="receivers.csv", crs=CRS, **keys):
    (folder / name).write_text(text)
    return described(crs=crs, receivers=[{"file": str(folder / name), **keys}]).receiver_list()


def test_longitudes_latitudes_and_depths(tmp_path):
    text = "# comment\nnetwork,station,longitude,latitude,depth\nCI,A,-117.7,33.9,0\nCI,B,-117.8,34.0,12.5\n"
    first, second = receivers_of(tmp_path, text)
    assert (first.name, second.name) == ("CI.A", "CI.B")
    domain = described().domain
    assert first.position == (*domain.to_local(-117.7, 33.9), 0.0)
    assert second.position == (*domain.to_local(-117.8, 34.0), -12.5)
    assert second.where == "receivers[0].file (receivers.csv:4)"


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_delimiters_units_and_other_names(tmp_path, delimiter):
    text = "sta,Loc,Easting [km],northing (km),z [ft]\nA,00,1.5,-2,-100\nA,10,1.5,-2,0\n".replace(",", delimiter)
    name = "receivers.tsv" if delimiter == "\t" else "receivers.csv"
    first, second = receivers_of(tmp_path, text, name, crs=None, network="AB")
    assert (first.name, first.position) == ("AB.A.00", (1500.0, -2000.0, pytest.approx(-30.48)))
    assert (second.name, second.position) == ("AB.A.10", (1500.0, -2000.0, 0.0))


def test_a_projected_reference_system_is_transformed_to_local_coordinates(tmp_path):
    pyproj = pytest.importorskip("pyproj")
    places = [(-117.7, 33.9), (-117.85, 34.1), (LONGITUDE, LATITUDE)]
    utm = pyproj.Transformer.from_crs("EPSG:4326", "EPSG:32611", always_xy=True)
    rows = [f"S{k},{x!r},{y!r}\n" for k, (x, y) in enumerate(utm.transform(*place) for place in places)]
    (tmp_path / "utm.csv").write_text("name,x,y\n" + "".join(rows))
    simulation = described(receivers=[{"file": str(tmp_path / "utm.csv"), "crs": "EPSG:32611"}])
    found = simulation.receiver_list()
    for receiver, place in zip(found, places, strict=True):
        assert receiver.position[:2] == pytest.approx(simulation.domain.to_local(*place), abs=1e-5)
    assert found[2].position[:2] == pytest.approx((0.0, 0.0), abs=1e-5)


def test_units_of_a_reference_system_in_feet(tmp_path):
    """Without a unit in the header, coordinates are in the unit of their system, here the US survey foot."""
    pyproj = pytest.importorskip("pyproj")
    feet = pyproj.Transformer.from_crs("EPSG:4326", "EPSG:2229", always_xy=True)
    x, y = feet.transform(-117.7, 33.9)
    foot = 1200 / 3937
    for text in (f"name,x,y\nA,{x!r},{y!r}\n", f"name,x [m],y [m]\nA,{x * foot!r},{y * foot!r}\n"):
        (tmp_path / "feet.csv").write_text(text)
        simulation = described(receivers=[{"file": str(tmp_path / "feet.csv"), "crs": "EPSG:2229"}])
        (receiver,) = simulation.receiver_list()
        assert receiver.position[:2] == pytest.approx(simulation.domain.to_local(-117.7, 33.9), abs=2.0)
        assert np.hypot(*receiver.position[:2]) > 5000.0


def test_another_geographic_datum(tmp_path):
    (tmp_path / "nad.csv").write_text("name,lon,lat\nA,-117.7,33.9\n")
    entry = {"file": str(tmp_path / "nad.csv")}
    (same,) = described(receivers=[entry]).receiver_list()
    (moved,) = described(receivers=[entry | {"crs": 4267}]).receiver_list()
    distance = np.hypot(*np.subtract(same.position, moved.position)[:2])
    assert 50.0 < distance < 150.0  # NAD27 to WGS 84 in California


def test_columns_that_are_not_used_are_reported(tmp_path):
    (tmp_path / "more.csv").write_text("name,lon,lat,vs30,site\nA,-117.7,33.9,300,rock\n")
    path = tmp_path / "more.csv"
    texts = described(receivers=[{"file": str(path)}]).warnings()
    assert f"receivers[0].file: {path}: columns that are not used: vs30, site." in texts


def test_the_elevation_is_compared_with_the_surface(tmp_path):
    (tmp_path / "e.csv").write_text("name,lon,lat,elevation [km]\nA,-117.7,33.9,0.25\n")
    simulation = described(receivers=[{"file": str(tmp_path / "e.csv")}])
    assert simulation.receiver_list()[0].position[2] == 0.0
    assert any("1 stations have an elevation (first XX.A, 250 m)" in text for text in simulation.warnings())


LOCAL = "station,x,y\n"
DAMAGED = {
    "empty": ("", "the file is empty"),
    "comments only": ("# nothing\n", "the file has no receiver"),
    "header only": (LOCAL, "the file has no receiver"),
    "no header": ("A,100,200\n", ".csv:1: receivers: no column names the station"),
    "half a position": ("station,longitude\nA,2\n", "the column latitude is missing"),
    "two positions": ("station,x,y,lon,lat\nA,1,2,3,4\n", "longitude, latitude and x, y are both given"),
    "z and depth": ("station,x,y,z,depth\nA,1,2,0,0\n", "z and depth are both given"),
    "column twice": ("station,x,y,easting\nA,1,2,3\n", "the column x appears twice"),
    "unit": ("station,x [s],y [s]\nA,1,2\n", "the column 'x [s]' has the unit 's'; allowed: m, km, ft"),
    "unit of degrees": ("station,lon [km],lat\nA,1,2\n", "has the unit 'km'; allowed: degrees"),
    "half a unit": ("station,x [km],y\nA,1,2\n", "only one of x and y has a unit"),
    "short line": (LOCAL + "A,1\n", ".csv:2: receivers: the line has 2 columns, the first line 3"),
    "quote": (LOCAL + '"A,1,2\n', ".csv:2: receivers: the line cannot be split into columns"),
    "text": (LOCAL + "A,1,two\n", ".csv:2: y: 'two' is not a finite number"),
    "empty cell": (LOCAL + "A,,2\n", ".csv:2: x: '' is not a finite number"),
    "decimal comma": ("station;x;y\nA;1,5;2\n", ".csv:2: x: '1,5' is not a finite number; decimals are separated"),
    "no name": (LOCAL + ",1,2\n", ".csv:2: station: the station is empty"),
    "name": (LOCAL + "A B,1,2\n", ".csv:2: station: 'A B' is not a valid station code"),
    "name twice": (LOCAL + "A,1,2\nA,3,4\n", ".csv:3: receivers: the receiver A is already on line 2"),
    "latitude of 95": ("station,lon,lat\nA,10,95\n", "latitude: 95 degrees is out of range; allowed: -90 to 90"),
    "meters as degrees": ("station,lon,lat\nA,400000,3700000\n", "for coordinates in m name the columns x and y"),
    "negative depth": ("station,x,y,depth\nA,1,2,-5\n", ".csv:2: depth: -5 m is negative"),
    "binary": ("station,x,y\0\n", "the file is not text"),
    "outside": (LOCAL + "A,1,2\nFAR,1e6,0\n", "XX.FAR (receivers.csv:3): x = "),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_refused_with_line_and_reason(tmp_path, name):
    content, words = DAMAGED[name]
    message = message_of(receivers_of, tmp_path, content)
    assert message.startswith("receivers[0].file: ") and words in message, message


def test_all_problems_are_listed_up_to_twenty(tmp_path):
    message = message_of(receivers_of, tmp_path, LOCAL + "A,1\n" * 30)
    assert message.count("the line has 2 columns") == 20


@pytest.mark.parametrize(
    ("text", "crs", "words"),
    [
        ("station,x,y\nA,1,2\n", "EPSG:99999", "receivers[0].crs: 'EPSG:99999' is not a known reference system"),
        ("station,x,y\nA,1,2\n", "EPSG:4978", "is neither geographic nor projected"),
        ("station,x,y\nA,1,2\n", "EPSG:4326", "the file has x and y, but EPSG:4326 (WGS 84) has longitudes"),
        ("station,lon,lat\nA,1,2\n", "EPSG:32611", "the file has longitudes and latitudes, but EPSG:32611"),
        ("station,x,y\nA,1e30,2\n", "EPSG:32611", "cannot be projected from EPSG:32611"),
        ("station,x,y\nA,1,2\n", 3.5, "is not a coordinate reference system"),
    ],
)
def test_reference_systems_that_do_not_fit_are_refused(tmp_path, text, crs, words):
    (tmp_path / "receivers.csv").write_text(text)
    entry = {"file": str(tmp_path / "receivers.csv"), "crs": crs}
    assert words in message_of(described, receivers=[entry])


def test_a_reference_system_needs_the_origin_of_the_domain(tmp_path):
    (tmp_path / "receivers.csv").write_text("station,x,y\nA,1,2\n")
    entry = {"file": str(tmp_path / "receivers.csv"), "crs": "EPSG:32611"}
    message = message_of(described, crs=None, receivers=[entry])
    assert message.startswith("receivers[0].crs: positions in EPSG:32611 need the origin domain.crs")
