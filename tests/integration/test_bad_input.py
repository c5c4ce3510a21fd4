"""Bad input at the command line: a clear message on standard error, exit status 2, and nothing made."""

from __future__ import annotations

import pytest

from small_run import lithowave, settings, spawn, write_small

CMT = """PDE 2008  7 29 18 42 15.00  33.9490 -117.7660  15.5 5.4 5.4 CHINO HILLS
event name:     ci14383980
time shift:      0.0000
half duration:   1.1400
latitude:       33.9490
longitude:    -117.7660
depth:           0.4000
Mrr:       7.780000e+23
Mtt:      -1.200000e+24
Mpp:       4.190000e+23
Mrt:      -2.000000e+23
Mrp:       6.010000e+23
Mtp:      -3.890000e+23
"""
PLACE = "[30, -20, -410]"
POINT = "{network: XX, name: S01, position: [330, 250, 0]}"
SOLVER = "{spacing: 100, order: 4}"
SOURCE = """\
  - position: [30, -20, -410]
    double_couple: {strike: 30, dip: 60, rake: 90, mw: 4}
    time_function: {gaussian: {sigma: 0.06, delay: 0.3}}
"""
CRS = ("z: [-800, 0]}", "z: [-800, 0], crs: {longitude: -117.766, latitude: 33.949}}")

CASES = {
    "unknown key": ([("duration: 0.8", "duratoin: 0.8")],
        ["small.yaml:12: duratoin: unknown key 'duratoin'", "did you mean 'duration'?"]),
    "source above the surface": ([(PLACE, "[30, -20, 20]")],
        ["small.yaml:6: sources[0].position: z = 20 m is above the free surface (z = 0). "
        "Depth is negative z; did you mean -20?"]),
    "time step above the limit": ([(SOLVER, "{spacing: 100, order: 4, time_step: 0.02}")],
        ["small.yaml:13: solver.time_step: 0.02 s is above the stability limit of 0.0098",
        "omit time_step"]),
    "event file that is not text": ([(SOURCE, "  - file: GARBAGE\n"), CRS],
        ["small.yaml:6: sources[0].file: ", "GARBAGE"]),
    "event file missing": ([(SOURCE, "  - file: CMTSOLUTIO\n"), CRS],
        ["small.yaml:6: sources[0].file: the file 'CMTSOLUTIO' does not exist",
        "did you mean 'CMTSOLUTION'?"]),
    "stations that are not text": ([(POINT, "{file: GARBAGE, coordinates: cartesian}")],
        ["small.yaml:10: receivers[0].file: ", "GARBAGE"]),
    "name too long for MiniSEED": ([("name: S01", "name: STATION1"),
        ("formats: []", "formats: [miniseed]")],
        ["small.yaml:10: receivers[0]: station 'STATION1' has 8 characters",
        "allowed in MiniSEED: at most 5"]),
    "not YAML": ([("duration: 0.8", "duration: [0.8")], ["small.yaml:", "not readable as YAML"]),
}  # fmt: skip


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A current folder with files that sources and receivers may name."""
    (tmp_path / "CMTSOLUTION").write_text(CMT)
    (tmp_path / "GARBAGE").write_bytes(bytes(range(256)) * 8)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("changes", "words"), CASES.values(), ids=CASES)
def test_it_is_refused_and_nothing_is_made(place, changes, words):
    file = write_small(place, *changes).relative_to(place)
    before = sorted(place.rglob("*"))
    for arguments in (("run", file), ("check", file, "--no-measure"), ("check", file, "--json")):
        text = lithowave(*arguments, status=2)
        for word in words:
            assert word in text, text
        assert "error: " in text and "Traceback" not in text and "{" not in text.split("error: ")[0]
        assert sorted(place.rglob("*")) == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (settings("solver.ordre=8"), ["error: solver.ordre: unknown key 'ordre'", "did you mean 'order'?"]),
        (settings("solver.order=5"), ["error: solver.order: 5 is not an order"]),
        (settings("solver.time_step=0.02"), ["error: solver.time_step: 0.02 s is above the stability limit"]),
        (settings("order"), ["--set: 'order' has no key and value", "expected key=value"]),
        (["--precision", "half"], ["error: compute.precision: 'half'", "single, double"]),
        (["--backend", "gpu"], ["error: compute.backend: 'gpu' is not a valid choice", "auto, cpu, cuda"]),
        (["--threads", "0"], ["error: compute.threads: 0 is out of range"]),
        (["--output", " "], ["error: output.directory: ' ' is not the name of a folder"]),
    ],
)
def test_arguments_are_checked_as_the_file_is(place, arguments, words):
    file = write_small(place)
    before = sorted(place.rglob("*"))
    text = lithowave("run", file, *arguments, status=2)
    for word in words:
        assert word in text, text
    assert "small.yaml" not in text, "what was typed does not stand in the file"
    assert sorted(place.rglob("*")) == before


@pytest.mark.parametrize("name", ["gpu", "GPU", "nvidia", "Nvidia", "cudo"])
def test_cuda_is_suggested_for_other_names_of_a_gpu(place, name):
    file = write_small(place)
    for command in (("check", file), ("run", file), ("bench",)):
        assert "did you mean 'cuda'?" in lithowave(*command, "--backend", name, status=2)


def test_methods_and_precisions_are_suggested_for_their_other_names(place):
    file = write_small(place)
    assert "did you mean 'double'?" in lithowave("check", file, "--precision", "float64", status=2)
    for name, method in (("FD", "finite"), ("SEM", "spectral"), ("DG", "discontinuous")):
        assert f"did you mean '{method}" in lithowave("check", file, *settings(f"solver.method={name}"), status=2)


def test_files_that_are_not_there(place):
    assert "no.yaml: description: cannot be read" in lithowave("run", "no.yaml", status=2)
    assert "cannot be read" in lithowave("check", place, status=2)
    for command in (["plot"], ["compare", place]):
        assert "nowhere: the folder does not exist" in lithowave(*command, "nowhere", status=2)


def test_messages_are_one_line_on_standard_error_however_narrow_the_screen(place, monkeypatch):
    """Whoever searches the output of a batch system finds whole messages."""
    monkeypatch.setenv("COLUMNS", "40")
    file = write_small(place, (PLACE, "[30, -20, 20]"))
    process = spawn("run", file)
    assert process.returncode == 2 and process.output == ""
    assert process.errors == (
        f"error: {file}:6: sources[0].position: z = 20 m is above the free surface (z = 0). "
        "Depth is negative z; did you mean -20?\n"
    )
