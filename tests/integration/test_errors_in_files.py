"""Events and stations in files of other programs that cannot be used: told with both places."""

from __future__ import annotations

import shlex

import pytest
from test_errors_in_input import CRS, FIRST_SOURCE, POINT, SOURCES, told

CMT = """PDE 2008  7 29 18 42 15.00  33.9490 -117.7660  15.5 5.4 5.4 CHINO HILLS, CALIFORNIA
event name:     ci14383980
time shift:      0.0000
half duration:   1.1400
latitude:       33.9490
longitude:    -117.7660
depth:          15.5000
Mrr:       7.780000e+23
Mtt:      -1.200000e+24
Mpp:       4.190000e+23
Mrt:      -2.000000e+23
Mrp:       6.010000e+23
Mtp:      -3.890000e+23
"""


def test_a_broken_event_file_is_told_with_both_places(tmp_path):
    (tmp_path / "CMTSOLUTION").write_text(CMT.replace("-2.000000e+23", "-2.0x"))
    message = told(tmp_path, (SOURCES, "  - file: CMTSOLUTION\n"))
    assert message.startswith("test.yaml:11: sources[0].file: ")
    assert "CMTSOLUTION:11" in message and "-2.0x" in message


def test_a_truncated_event_file(tmp_path):
    (tmp_path / "CMTSOLUTION").write_text(CMT[: CMT.index("Mrp")])
    message = told(tmp_path, (SOURCES, "  - file: CMTSOLUTION\n"))
    assert "test.yaml:11: sources[0].file: " in message and "Mrp" in message


def test_broken_stations_are_told_with_both_places(tmp_path):
    (tmp_path / "STATIONS").write_text("A XX 700.0 400.0 0.0 10.0\nB XX 700.0\n")
    message = told(tmp_path, (POINT, "{file: STATIONS}"))
    assert message.startswith("test.yaml:18: receivers[0].file: ")
    assert "STATIONS:2" in message


def test_an_event_needs_the_origin_of_the_coordinates(tmp_path):
    (tmp_path / "CMTSOLUTION").write_text(CMT)
    message = told(tmp_path, (SOURCES, "  - file: CMTSOLUTION\n"))
    assert "sources[0]" in message and "domain.crs" in message


def test_an_event_outside_the_domain(tmp_path):
    (tmp_path / "CMTSOLUTION").write_text(CMT.replace("33.9490\nlong", "34.9490\nlong"))
    message = told(tmp_path, CRS, (SOURCES, "  - file: CMTSOLUTION\n"))
    assert "sources[0].file: ci14383980: y = 1108" in message


def test_a_cut_event_among_other_sources_is_refused_with_the_delay_it_needs(tmp_path):
    (tmp_path / "CMTSOLUTION").write_text(CMT)
    message = told(tmp_path, CRS, (FIRST_SOURCE, "  - file: CMTSOLUTION\n"))
    assert "sources[0].file: the time function reaches 100% of its peak" in message
    assert "delay: 1.9 would do" in message and "every entry with events" in message


def test_too_small_a_delay_is_refused(tmp_path):
    (tmp_path / "CMTSOLUTION").write_text(CMT)
    message = told(tmp_path, CRS, (SOURCES, "  - file: CMTSOLUTION\n    delay: 0.5\n"))
    assert "sources[0].delay: " in message and "delay: 1.9 would do" in message


def test_an_event_without_duration_needs_a_time_function(tmp_path):
    (tmp_path / "CMTSOLUTION").write_text(CMT.replace("1.1400", "0.0"))
    message = told(tmp_path, CRS, (SOURCES, "  - file: CMTSOLUTION\n"))
    assert "sources[0].file: " in message and "half duration of 0 s" in message and "time_function" in message


def test_a_file_is_not_mixed_with_a_mechanism(tmp_path):
    (tmp_path / "CMTSOLUTION").write_text(CMT)
    message = told(tmp_path, CRS, (SOURCES, "  - file: CMTSOLUTION\n    force: [1, 0, 0]\n"))
    assert "sources[0].force: file and force are both given" in message


def test_files_must_agree_about_time_zero(tmp_path):
    (tmp_path / "A").write_text(CMT)
    (tmp_path / "B").write_text(CMT.replace("18 42 15.00", "18 42 16.00"))
    message = told(tmp_path, CRS, (SOURCES, "  - {file: A, delay: 2}\n  - {file: B, delay: 3}\n"))
    assert "sources[1].delay: 3 s, while another entry has 2 s" in message
    assert "sources[1].file: an origin time is 2008-07-29T18:42:16" in message


def test_degrees_are_never_taken_as_metres(tmp_path):
    (tmp_path / "STATIONS").write_text("A CI 33.9 -117.7 0.0 0.0\n")
    message = told(tmp_path, (POINT, "{file: STATIONS}"))
    assert (
        "receivers[0].file: " in message and "domain.crs" in message and "coordinates: cartesian" in message
    )


def test_metres_are_never_taken_as_degrees(tmp_path):
    (tmp_path / "STATIONS").write_text("A CI 700.0 400.0 0.0 0.0\n")
    message = told(tmp_path, CRS, (POINT, "{file: STATIONS}"))
    assert (
        "STATIONS:1: (700, 400) is no latitude and longitude" in message
        and "coordinates: cartesian" in message
    )


def test_stations_outside_are_named(tmp_path):
    (tmp_path / "STATIONS").write_text("A XX 700.0 400.0 0.0 0.0\nB XX 700.0 40000.0 0.0 0.0\n")
    message = told(tmp_path, (POINT, "{file: STATIONS}"))
    assert "receivers[0].file: XX.B (STATIONS:2): x = 40000 m is outside the domain" in message


@pytest.mark.parametrize(
    ("script", "docstring", "named"),
    [
        ("make.py", "Write STATIONS here.", True), ("my make.py", "``my make.py`` writes a.csv and STATIONS.", True),
        ("plot.py", "Draw the positions in STATIONS.", False),
        ("make.py", "Write STATIONS.xml and MY_STATIONS.", False),
        ("broken.py", 'Write STATIONS.""" ( """', False),
    ],
)  # fmt: skip
def test_a_script_that_writes_a_missing_file_is_named(tmp_path, script, docstring, named):
    (tmp_path / script).write_text(f'"""{docstring}"""\n')
    message = told(tmp_path, (POINT, "{file: STATIONS}"))
    assert "receivers[0].file: the file 'STATIONS' does not exist" in message
    assert (f"script in its folder: `python {shlex.quote(str(tmp_path / script))}`" in message) == named
