"""StationXML: files of ObsPy and by hand, several epochs and sensors, inventories in Python, and damaged files."""

from __future__ import annotations

import numpy as np
import pytest

import lithowave as lw
from geographic_runs import described, message_of
from lithowave.readers import read_stationxml

HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'
ROOT = '<FDSNStationXML xmlns="http://www.fdsn.org/xml/station/1" schemaVersion="1.1">\n'


def channel(code="BHZ", location="", latitude=33.95, longitude=-117.7, depth=0.0, dates="", more=""):
    return (
        f'<Channel code="{code}" locationCode="{location}" {dates}>\n<Latitude>{latitude}</Latitude>\n'
        f"<Longitude>{longitude}</Longitude>\n<Elevation>100</Elevation>\n<Depth>{depth}</Depth>{more}</Channel>\n"
    )


def station(code="CHN", channels="", latitude=33.95, longitude=-117.7, dates=""):
    return (
        f'<Station code="{code}" {dates}>\n<Latitude>{latitude}</Latitude>\n<Longitude>{longitude}</Longitude>\n'
        f"<Elevation>100</Elevation><Site><Name>x</Name></Site>\n{channels}</Station>\n"
    )


def document(*stations, root=ROOT, network="CI"):
    head = f"{HEAD}{root}<Source>x</Source><Created>2020-01-01T00:00:00</Created>\n"
    return f'{head}<Network code="{network}">\n{"".join(stations)}</Network></FDSNStationXML>\n'


def receivers_of(folder, *stations, **keys):
    (folder / "stations.xml").write_text(document(*stations))
    return described(receivers=[{"file": str(folder / "stations.xml"), **keys}]).receiver_list()


def test_a_file_of_obspy_gives_its_coordinates_exactly(tmp_path):
    obspy = pytest.importorskip("obspy")
    from obspy.core.inventory import Channel, Inventory, Network, Station

    random = np.random.default_rng(1)
    stations = []
    for index in range(20):
        latitude, longitude = 33.9 + 0.1 * random.random(), -117.8 + 0.1 * random.random()
        place = {"latitude": latitude, "longitude": longitude, "elevation": 12.5}
        sensors = [Channel(f"HH{c}", "00", depth=7.25, azimuth=0.0, dip=0.0, **place) for c in "ZNE"]
        stations.append(Station(f"S{index:02d}", channels=sensors, **place))
    path = tmp_path / "stations.xml"
    Inventory([Network("CI", stations)]).write(str(path), format="STATIONXML", validate=True)
    again = obspy.read_inventory(str(path))
    table = read_stationxml(path)
    for record, written in zip(table.records, again[0], strict=True):
        assert (record.network, record.station, record.location) == ("CI", written.code, "")
        assert record.horizontal == (float(written.longitude), float(written.latitude))
        assert (record.burial, record.elevation) == (7.25, 12.5)
    simulation = described(receivers=[{"file": str(path)}])
    for receiver, record in zip(simulation.receiver_list(), table.records, strict=True):
        assert receiver.position == (*simulation.domain.to_local(*record.horizontal), -7.25)
    assert any("azimuth and dip" in text for text in simulation.warnings())


def test_an_inventory_gives_the_same_receivers_and_a_complete_description(tmp_path, recwarn):
    obspy = pytest.importorskip("obspy")
    path = tmp_path / "stations.xml"
    path.write_text(document(
        station("A", channel("HHZ", "00", depth=3) + channel("HNZ", "10", longitude=-117.71, depth=90)),
        station("B"),
    ))  # fmt: skip
    inventory = obspy.read_inventory(str(path))
    by_file = described(receivers=[{"file": str(path)}]).receiver_list()
    point = {"name": "P", "position": [0, 0, 0]}
    for value in (inventory, [inventory, point], inventory[0], [point, inventory]):
        simulation = described(receivers=value)
        found = [receiver for receiver in simulation.receiver_list() if receiver.station != "P"]
        assert [(one.name, one.position) for one in found] == [(one.name, one.position) for one in by_file]
    assert [one.name for one in by_file] == ["CI.A.00", "CI.A.10", "CI.B"]
    again = lw.Simulation.from_text(simulation.to_yaml())
    assert again == simulation and again.receiver_list() == simulation.receiver_list()
    assert any("elevations of the inventory are not used" in str(item.message) for item in recwarn)


def test_epochs_at_different_places_need_a_time(tmp_path):
    dates = ('startDate="2000-01-01T00:00:00" endDate="2010-01-01T00:00:00"', 'startDate="2010-01-01T00:00:00"')
    stations = [station("A", channel(dates=each, longitude=-117.7 + k), dates=each) for k, each in enumerate(dates)]
    stations += [station("B", dates=dates[1])]
    message = message_of(receivers_of, tmp_path, *stations)
    assert "stations.xml:5: StationXML: CI.A has sensors with the location code '' at two positions" in message
    assert "2000-01-01 to 2010-01-01" in message and "2010-01-01 to ..." in message
    assert "select an epoch with time" in message
    (only,) = receivers_of(tmp_path, *stations, time="2008-07-29T18:42:15")
    assert only.position[0] == pytest.approx(described().domain.to_local(-117.7, 33.95)[0])
    warnings = described(receivers=[{"file": str(tmp_path / "stations.xml"), "time": "2008-07-29T18:42:15"}]).warnings()
    assert any("1 stations (CI.B) had no open epoch at 2008-07-29T18:42:15" in text for text in warnings)
    assert "no station remains" in message_of(receivers_of, tmp_path, *stations, time="1980-01-01")


def test_sensors_of_a_station_have_location_codes_and_patterns_select_channels(tmp_path):
    sensors = channel("HHZ", "00") + channel("HNZ", "10", depth=150) + channel("LDO", "30", depth=20)
    found = receivers_of(tmp_path, station("A", sensors))
    assert [(one.name, one.position[2]) for one in found] == [("CI.A.00", 0.0), ("CI.A.10", -150.0)]
    (only,) = receivers_of(tmp_path, station("A", sensors), channels="HN?")
    assert only.name == "CI.A" and only.position[2] == -150.0
    entry = {"file": str(tmp_path / "stations.xml")}
    assert any("other instruments were ignored: LDO" in text for text in described(receivers=[entry]).warnings())


def test_a_response_of_any_size_is_skipped(tmp_path):
    response = "<Response>" + "<Stage><Value>1</Value></Stage>" * 20_000 + "</Response>"
    assert len(receivers_of(tmp_path, station("A", channel(more=response)))) == 1


def test_stations_beyond_the_domain_are_refused_or_omitted(tmp_path):
    stations = station("A"), station("FAR", longitude=-110.0)
    assert "CI.FAR (stations.xml:10): x = " in message_of(receivers_of, tmp_path, *stations)
    assert [one.name for one in receivers_of(tmp_path, *stations, outside="omit")] == ["CI.A"]
    entry = {"file": str(tmp_path / "stations.xml"), "outside": "omit"}
    assert any("1 of 2 receivers are outside the domain" in text for text in described(receivers=[entry]).warnings())
    assert "all 1 receivers are outside" in message_of(receivers_of, tmp_path, stations[1], outside="omit")


def test_it_requires_the_origin_of_the_coordinates(tmp_path):
    (tmp_path / "stations.xml").write_text(document(station("A")))
    message = message_of(described, receivers=[{"file": str(tmp_path / "stations.xml")}], crs=None)
    assert message.startswith("receivers[0].file: a file with longitudes and latitudes needs the origin domain.crs")


GOOD = document(station("A", channel()))
BOMB = (
    '<?xml version="1.0"?>\n<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">'
    + "".join(f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in zip("abcdefg", "bcdefgh", strict=True))
    + "]>\n<FDSNStationXML>&h;</FDSNStationXML>"
)
EXTERNAL = '<?xml version="1.0"?>\n<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>\n<FDSNStationXML>&a;</FDSNStationXML>'
DAMAGED = {
    "empty": ("", "the file is empty"),
    "truncated": (GOOD[: GOOD.index("</Station>")], ".xml:14: StationXML: is not well-formed XML: no element found"),
    "unknown encoding": (GOOD.replace("UTF-8", "EBCDIC-9"), "unknown encoding"),
    "bomb": (BOMB, ".xml:2: StationXML: has a document type declaration"),
    "external entity": (EXTERNAL, ".xml:2: StationXML: has a document type declaration"),
    "nested": (ROOT + "<a>" * 5000, "more than 100 nested elements"),
    "another format": ('<quakeml xmlns="x"></quakeml>', ".xml:1: StationXML: the root element is quakeml"),
    "namespace": (GOOD.replace("station/1", "station/2"), "the namespace is 'http://www.fdsn.org/xml/station/2'"),
    "version": (GOOD.replace('"1.1"', '"2.0"'), "schemaVersion is '2.0'; readable versions: 1.0, 1.1, 1.2"),
    "no stations": (document(), "the file has no station"),
    "no latitude": (
        document(station("A").replace("<Latitude>33.95</Latitude>", "")),
        ".xml:5: StationXML: CI.A has no Latitude",
    ),
    "no depth": (GOOD.replace("<Depth>0.0</Depth>", ""), ".xml:9: StationXML: CI.A..BHZ has no Depth"),
    "latitude of 95": (
        document(station("A", latitude=95)),
        ".xml:6: StationXML: Latitude of CI.A is 95 degrees; allowed: -90 to 90",
    ),
    "NaN": (document(station("A", latitude="NaN")), ".xml:6: StationXML: Latitude of CI.A is 'NaN'; expected a finite"),
    "unit": (GOOD.replace("<Elevation>", '<Elevation unit="FEET">', 1), "has the unit 'FEET'; expected METERS"),
    "negative depth": (document(station("A", channel(depth=-4))), "the depth of CI.A..BHZ, -4 m, is negative"),
    "date": (document(station("A", dates='startDate="29.07.2008"')), "startDate of CI.A: '29.07.2008' is not a time"),
    "no code": (GOOD.replace('<Station code="A" ', "<Station "), ".xml:5: StationXML: a Station has no code"),
    "code": (GOOD.replace('<Station code="A" ', '<Station code="A B" '), "the code 'A B' of a Station is not valid"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_refused_with_line_and_reason(tmp_path, name):
    content, words = DAMAGED[name]
    path = tmp_path / "damaged.xml"
    path.write_text(content, encoding="utf-8")
    message = message_of(described, receivers=[{"file": str(path)}])
    assert message.startswith(f"receivers[0].file: {path}") and words in message, message


def test_two_files_must_not_name_the_same_station(tmp_path):
    for name in ("a.xml", "b.xml"):
        (tmp_path / name).write_text(document(station("A")))
    message = message_of(described, receivers=[{"file": str(tmp_path / name)} for name in ("a.xml", "b.xml")])
    assert "CI.A is the name of two receivers" in message and "a.xml:5" in message


def test_keys_of_other_files_are_refused(tmp_path):
    (tmp_path / "stations.xml").write_text(document(station("A")))
    path = str(tmp_path / "stations.xml")
    for key, value, words in (
        ("crs", "EPSG:32611", "it applies to a CSV table and SEG-Y"),
        ("coordinates", "geographic", "it applies to a STATIONS file"),
        ("network", "XX", "the file names the network of each station"),
        ("time", "yesterday", "expected UTC time"),
    ):
        assert words in message_of(described, receivers=[{"file": path, key: value}])
    point = {"name": "A", "position": [0, 0], "outside": "omit"}
    assert "outside is given without a file" in message_of(described, receivers=[point])
