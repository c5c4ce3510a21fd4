"""Events and stations in files of other programs that cannot be used: told with both places."""

from __future__ import annotations

import shlex

import pytest
from test_bad_input import CMT
from test_errors_in_input import CRS, FIRST_SOURCE, POINT, SOURCES, told

EVENT = "  - file: CMTSOLUTION\n"
STATION = "A XX 700.0 400.0 0.0 10.0\n"
TWO = "  - {file: A, delay: 2}\n  - {file: B, delay: 3}\n"
# Files with their text, changes of the good description, words of the message.
CASES = {
    "event with a broken number": (
        {"CMTSOLUTION": CMT.replace("-2.000000e+23", "-2.0x")}, [(SOURCES, EVENT)],
        ["test.yaml:11: sources[0].file: ", "CMTSOLUTION:11", "-2.0x"],
    ),
    "event cut off": (
        {"CMTSOLUTION": CMT[: CMT.index("Mrp")]}, [(SOURCES, EVENT)], ["test.yaml:11: sources[0].file: ", "Mrp"],
    ),
    "stations with a broken line": (
        {"STATIONS": STATION + "B XX 700.0\n"}, [(POINT, "{file: STATIONS}")],
        ["test.yaml:18: receivers[0].file: ", "STATIONS:2"],
    ),
    "event without an origin of the coordinates": (
        {"CMTSOLUTION": CMT}, [(SOURCES, EVENT)], ["sources[0]", "domain.crs"]
    ),
    "event outside the domain": (
        {"CMTSOLUTION": CMT.replace("33.9490\nlong", "34.9490\nlong")}, [CRS, (SOURCES, EVENT)],
        ["sources[0].file: ci14383980: y = 1108"],
    ),
    "cut event among other sources": (
        {"CMTSOLUTION": CMT}, [CRS, (FIRST_SOURCE, EVENT)],
        ["sources[0].file: the time function reaches 100% of its peak", "delay: 1.9 would do",
         "every entry with events"],
    ),
    "too small a delay": (
        {"CMTSOLUTION": CMT}, [CRS, (SOURCES, EVENT + "    delay: 0.5\n")],
        ["sources[0].delay: ", "delay: 1.9 would do"],
    ),
    "event without duration": (
        {"CMTSOLUTION": CMT.replace("1.1400", "0.0")}, [CRS, (SOURCES, EVENT)],
        ["sources[0].file: ", "half duration of 0 s", "time_function"],
    ),
    "file and mechanism": (
        {"CMTSOLUTION": CMT}, [CRS, (SOURCES, EVENT + "    force: [1, 0, 0]\n")],
        ["sources[0].force: file and force are both given"],
    ),
    "files that disagree about time zero": (
        {"A": CMT, "B": CMT.replace("18 42 15.00", "18 42 16.00")}, [CRS, (SOURCES, TWO)],
        ["sources[1].delay: 3 s, while another entry has 2 s",
         "sources[1].file: an origin time is 2008-07-29T18:42:16"],
    ),
    "degrees as metres": (
        {"STATIONS": "A CI 33.9 -117.7 0.0 0.0\n"}, [(POINT, "{file: STATIONS}")],
        ["receivers[0].file: ", "domain.crs", "coordinates: cartesian"],
    ),
    "metres as degrees": (
        {"STATIONS": "A CI 700.0 400.0 0.0 0.0\n"}, [CRS, (POINT, "{file: STATIONS}")],
        ["STATIONS:1: (700, 400) is no latitude and longitude", "coordinates: cartesian"],
    ),
    "stations outside": (
        {"STATIONS": STATION + "B XX 700.0 40000.0 0.0 0.0\n"}, [(POINT, "{file: STATIONS}")],
        ["receivers[0].file: XX.B (STATIONS:2): x = 40000 m is outside the domain"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("files", "changes", "words"), CASES.values(), ids=CASES)
def test_files_that_cannot_be_used_are_told(tmp_path, files, changes, words):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    message = told(tmp_path, *changes)
    for word in words:
        assert word in message, message


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
