"""Readers of text files: the real ones, what other programs write, and damaged ones."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from lithowave import InputError
from lithowave.readers import SeismicEvent, read_cmtsolutions, read_samples, read_stations

DATA = Path(__file__).parents[1] / "data"
CHINO = DATA / "chino_hills_2008" / "CMTSOLUTION"
BOLIVIA = DATA / "bolivia_1994" / "CMTSOLUTION"
STATIONS = DATA / "chino_hills_2008" / "STATIONS"

CARTESIAN = """\
PDE  1999 01 01 00 00 00.00  67000 67000 -25000 4.2 4.2 homogeneous
event name:       test
time shift:       0.5000
half duration:    2.0
latorUTM:         67000.0
longorUTM:        -1500.0
depth:            25.0
Mrr:       1.0d+23
Mtt:       2.0d+23
Mpp:       3.0d+23
Mrt:       4.0d+23
Mrp:       5.0d+23
Mtp:       6.0d+23
"""


def written(directory, text, name="file"):
    path = directory / name
    if isinstance(text, bytes):
        path.write_bytes(text)
    else:
        path.write_text(text)
    return path


def event_in(path) -> SeismicEvent:
    """The only event of a file."""
    (event,) = read_cmtsolutions(path)
    return event


def test_an_event_has_its_header_and_magnitude():
    event = event_in(CHINO)
    assert event.geographic and (event.event_name, event.half_duration) == ("ci14383980", 1.14)
    assert event.origin_time == "2008-07-29T18:42:15.000000Z" and event.magnitude == pytest.approx(5.34, abs=0.005)
    assert event_in(BOLIVIA).time_shift == 29.0


def test_real_files_agree_with_obspy():
    obspy = pytest.importorskip("obspy")
    for path in (CHINO, BOLIVIA):
        other = obspy.read_events(str(path), format="CMTSOLUTION")[0]
        tensor = other.focal_mechanisms[0].moment_tensor.tensor
        event = event_in(path)
        xx, yy, zz, xy, xz, yz = event.moment
        theirs = (tensor.m_rr, tensor.m_tt, tensor.m_pp, tensor.m_rt, tensor.m_rp, tensor.m_tp)
        np.testing.assert_allclose((zz, yy, xx, -yz, xz, -xy), theirs)
        origin = next(origin for origin in other.origins if origin.origin_type == "centroid")
        assert (origin.latitude, origin.longitude) == (event.latitude, event.longitude)
        assert origin.depth == event.depth


def test_cartesian_file(tmp_path):
    event = event_in(written(tmp_path, CARTESIAN))
    assert not event.geographic
    assert (event.x, event.y, event.depth) == (-1500.0, 67000.0, 25000.0)
    assert math.isnan(event.latitude) and math.isnan(event.longitude)
    np.testing.assert_allclose(event.moment, np.array([3, 2, 1, -6, 5, -4]) * 1e16)
    assert event.origin_time == "1999-01-01T00:00:00.000000Z"


def test_cartesian_header_may_say_anything_and_geographic_may_not(tmp_path):
    header = CARTESIAN.splitlines()[0]
    event = event_in(written(tmp_path, CARTESIAN.replace(header, "a point source")))
    assert event.origin_time is None
    text = CHINO.read_text()
    with pytest.raises(InputError, match="file:1: .*origin time"):
        event_in(written(tmp_path, text.replace(text.splitlines()[0], "a point source")))
    with pytest.raises(InputError, match="file:1: .*month must be"):
        event_in(written(tmp_path, text.replace("2008  7 29", "2008 17 29")))
    # Rounded up to a full minute, and glued to the catalogue's name, as in the Global CMT's files.
    glued = text.replace("PDE 2008", " PDEW2008").replace("42 15.00", "42 60.00")
    assert event_in(written(tmp_path, glued)).origin_time == "2008-07-29T18:43:00.000000Z"


def test_layout_does_not_matter(tmp_path):
    header, *rest = CHINO.read_text().splitlines()
    text = "\r\n".join(["", header, "", *(line.upper().replace(":", " : ") for line in reversed(rest))])
    event = event_in(written(tmp_path, text.encode("utf-8-sig")))
    assert event.moment == event_in(CHINO).moment


def test_several_events(tmp_path):
    path = written(tmp_path, CHINO.read_text() + "\n" + BOLIVIA.read_text() + CARTESIAN)
    events = read_cmtsolutions(path)
    assert [event.event_name for event in events] == ["ci14383980", "060994A", "test"]
    assert [event.line_number for event in events] == [1, 15, 28]


@pytest.mark.parametrize(
    "old, new, pattern",
    [
        ("Mtt:      -1.200000e+24\n", "", r"file:12: .*begins on line 1 ends without Mtt"),
        ("Mtt:", "Mttt:", r"file:9: .*'Mttt: .*did you mean 'Mtt:'"),
        ("Mtt:", "Mrr:", r"file:9: Mrr: is already on line 8"),
        ("-1.200000e+24", "-1.2OOOOOe+24", r"file:9: Mtt: '-1.2OOOOOe\+24' is not a finite number"),
        ("-1.200000e+24", "nan", r"file:9: Mtt: 'nan' is not a finite number"),
        ("-1.200000e+24", "-1e999", r"file:9: Mtt: .*not a finite number"),
        ("-1.200000e+24", "", r"file:9: Mtt: has no value"),
        ("33.9490\nlong", "133.9490\nlong", r"file:5: latitude: 133.949 .*latorUTM"),
        ("latitude:", "latorUTM:", r"file:13: .*without longorUTM"),
        ("latitude:", "latorUTM: 1\nlongorUTM: 1\nlatitude:", r"file:5: .*both geographic and Cartesian"),
        ("1.1400", "-1.1400", r"file:4: half duration: -1.14 s is negative"),
        (
            "PDE 2008  7 29 18 42 15.00  33.9490 -117.7660  15.5 5.4 5.4 CHINO HILLS, CALIFORNIA\n",
            "",
            r"file:1: .*no header",
        ),
    ],
)
def test_damaged_cmtsolution(tmp_path, old, new, pattern):
    text = CHINO.read_text()
    assert old in text
    with pytest.raises(InputError, match=pattern):
        read_cmtsolutions(written(tmp_path, text.replace(old, new)))


def test_zero_tensor(tmp_path):
    text = "\n".join(f"{line[:8]} 0.0" if line.startswith("M") else line for line in CHINO.read_text().splitlines())
    with pytest.raises(InputError, match="all components of the moment tensor are zero"):
        event_in(written(tmp_path, text))


def test_unreadable_text_files(tmp_path):
    for read in (read_cmtsolutions, read_stations, read_samples):
        with pytest.raises(InputError, match="No such file"):
            read(tmp_path / "missing")
        with pytest.raises(InputError, match="cannot be read"):
            read(tmp_path)
        for content, pattern in ((b"", "empty"), (b" \n\n", "empty"), (b"\x00\x01\xff" * 99, "not text")):
            with pytest.raises(InputError, match=pattern):
                read(written(tmp_path, content))
        with pytest.raises(InputError):
            read(written(tmp_path, bytes(range(1, 256)) * 3))


def test_station_comments_and_blank_lines(tmp_path):
    text = "# header\n\n  A  XX  1.5 2.5 100.0 20.0  # hole\n! more\nB XX -3 4 1d2 0 ! surface\nA YY 0 0 0 0\n"
    records = read_stations(written(tmp_path, text))
    assert [(r.network, r.name, r.first, r.second, r.elevation, r.burial, r.line_number) for r in records] == [
        ("XX", "A", 1.5, 2.5, 100.0, 20.0, 3),
        ("XX", "B", -3.0, 4.0, 100.0, 0.0, 5),
        ("YY", "A", 0.0, 0.0, 0.0, 0.0, 6),
    ]


@pytest.mark.parametrize(
    "line, pattern",
    [
        ("OLI  CI  33.94539", r"file:2: .*after 3 of 6 columns: no longitude \(or x\), elevation, burial"),
        ("OLI  CI  33.9 -117.9 0 0 0", "file:2: .*7 columns"),
        ("OLI  CI  33.9 117W 0 0", r"file:2: longitude \(or x\): '117W' is not a finite number"),
        ("OLI  CI  33.9 inf 0 0", r"file:2: longitude \(or x\)"),
        ("OLI  CI  33.9 -117.9 0 -5", "file:2: burial: -5 m is negative"),
        ("BRE  CI  33.9 -117.9 0 0", "file:2: .*CI.BRE is already on line 1"),
    ],
)
def test_bad_station_line(tmp_path, line, pattern):
    lines = STATIONS.read_text().splitlines()
    lines[1] = line
    with pytest.raises(InputError, match=pattern):
        read_stations(written(tmp_path, "\n".join(lines) + "\n"))


def test_all_bad_station_lines_are_told(tmp_path):
    with pytest.raises(InputError) as caught:
        read_stations(written(tmp_path, "A XX 1 2\nB XX 1 2 0 0\nC XX one 2 0 0\n"))
    assert "file:1:" in str(caught.value) and "file:3:" in str(caught.value)
    with pytest.raises(InputError, match="no station"):
        read_stations(written(tmp_path, "# nothing\n"))


def test_stations_cut_anywhere_give_whole_lines_or_an_error(tmp_path):
    whole = b"".join(STATIONS.read_bytes().splitlines(keepends=True)[:6])
    records = {record.name: record for record in read_stations(STATIONS)}
    refused = 0
    for length in range(len(whole)):
        try:
            found = read_stations(written(tmp_path, whole[:length]))
        except InputError:
            refused += 1
            continue
        assert all(records[record.name] == record for record in found)
        # Nothing but whole lines was taken.
        assert len(found) == whole[:length].count(b"\n") + (not whole[:length].endswith(b"\n"))
    assert refused > 0.9 * (len(whole) - 2 * len(records))


def test_samples(tmp_path):
    one = read_samples(written(tmp_path, "# rate\n0\n1.5 ! peak\n\n1d-1\n"))
    assert one.times is None and one.values.tolist() == [0.0, 1.5, 0.1]
    two = read_samples(written(tmp_path, "0, 0\n0.1, 2\n0.3\t1\n"))
    assert two.times.tolist() == [0.0, 0.1, 0.3] and two.values.tolist() == [0.0, 2.0, 1.0]


@pytest.mark.parametrize(
    "text, pattern",
    [
        ("0\n1 2\n", "file:2: .*2 numbers on this line"), ("0 1 2\n", "file:1: .*3 columns"),
        ("0\n\none\n", "file:3: .*'one'"), ("0\nnan\n", "file:2: .*'nan'"), ("5\n", "1 sample"),
        ("# five\n", "no samples"), ("0 1\n1 1\n1 2\n", "file:3: .*times must increase"),
    ],
)  # fmt: skip
def test_bad_samples(tmp_path, text, pattern):
    with pytest.raises(InputError, match=pattern):
        read_samples(written(tmp_path, text))
