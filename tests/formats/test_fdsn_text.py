"""Stations in the text format of FDSN web services."""

from __future__ import annotations

import pytest

from geographic_runs import described, message_of

STATIONS = """#Network | Station | Latitude | Longitude | Elevation | SiteName | StartTime | EndTime
CI|PAS|33.90|-117.70|257.0|Pasadena|1988-03-12T00:00:00|2006-10-23T21:30:00
CI|OLI|33.95|-117.92|130.0|Olinda, Brea|2000-01-01T00:00:00|
"""
CHANNELS = """#Network|Station|Location|Channel|Latitude|Longitude|Elevation|Depth|Azimuth|Dip|SensorDescription|Scale|ScaleFreq|ScaleUnits|SampleRate|StartTime|EndTime
CI|PAS|00|BHZ|33.90|-117.70|257.0|2.5|0.0|-90.0|STS|1|1|m/s|40|1988-03-12T00:00:00|2006-10-23T21:30:00
CI|PAS|00|BHN|33.90|-117.70|257.0|2.5|0.0|0.0|STS|1|1|m/s|40|1988-03-12T00:00:00|2006-10-23T21:30:00
CI|PAS|10|BHZ|33.91|-117.70|257.0|0|0.0|-90.0|STS|1|1|m/s|40|1988-03-12T00:00:00|
CI|PAS||LDO|33.92|-117.71|257.0|0|0.0|0.0|BARO|1|1|Pa|1|1988-03-12T00:00:00|
"""  # noqa: E501


def receivers(folder, text, name="stations.txt", **keys):
    (folder / name).write_text(text)
    return described(receivers=[{"file": str(folder / name), **keys}]).receiver_list()


@pytest.mark.parametrize("name", ["stations.txt", "stations.csv", "STATIONS"])
@pytest.mark.parametrize("header", [True, False])
def test_stations(tmp_path, name, header):
    text = STATIONS if header else STATIONS.partition("\n")[2]
    first, second = receivers(tmp_path, text, name)
    assert (first.name, second.name) == ("CI.PAS", "CI.OLI") and first.elevation == 257.0
    assert first.position == (*described().domain.to_local(-117.70, 33.90), 0.0)
    (only,) = receivers(tmp_path, text, name, time="2020-01-01")
    assert only.name == "CI.OLI"


def test_channels(tmp_path):
    first, second = receivers(tmp_path, CHANNELS)
    assert (first.name, second.name) == ("CI.PAS.00", "CI.PAS.10") and first.position[2] == -2.5
    (only,) = receivers(tmp_path, CHANNELS, time="2020-01-01")
    assert only.position[:2] == described().domain.to_local(-117.70, 33.91)
    (barometer,) = receivers(tmp_path, CHANNELS, channels="LD?")
    assert barometer.position[:2] == described().domain.to_local(-117.71, 33.92)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("33.90", "133.90", "stations.txt:2: latitude: 133.9 degrees is out of range"),
        ("33.90", "north", "stations.txt:2: latitude: 'north' is not a finite number"),
        ("|Pasadena", "", "stations.txt:2: FDSN text: the line has 7 columns; expected 8"),
        ("CI|OLI", "CI|", "stations.txt:3: station: is empty"),
        ("1988-03", "1988-13", "starttime: '1988-13-12T00:00:00' is not a time"),
        ("| Latitude ", "| Width ", "no column is named latitude"),
    ],
)
def test_damaged_files(tmp_path, old, new, words):
    assert words in message_of(receivers, tmp_path, STATIONS.replace(old, new))
