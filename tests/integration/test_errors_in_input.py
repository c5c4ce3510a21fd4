"""Bad descriptions are refused before any work: by place and line, what stands there, what is allowed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from test_bad_input import CMT

import lithowave as lw
from lithowave.description import parse_overrides
from lithowave.solvers import METHODS
from small_run import SMALL

GOOD = """\
title: test
domain:
  x: [-15000, 15000]
  y: [-15000, 15000]
  z: [-17000, 0]
material:
  layers:
    - {top: 0, vp: 4000, vs: 2000, rho: 2600}
    - {top: -1000, vp: 6000, vs: 3464, rho: 2700}
sources:
  - position: [0, 0, -2000]
    moment_tensor: {xy: 1.0e18}
    time_function: {gaussian: {sigma: 0.12, delay: 0.72}}
  - position: [0, 0, -5000]
    double_couple: {strike: 30, dip: 90, rake: 0, mw: 5.4}
    time_function: {gaussian: {sigma: 0.12, delay: 0.72}}
receivers:
  - {network: XX, name: S01, position: [600, 800, 0]}
  - {network: XX, line: {prefix: L, start: [0, 0, 0], end: [10000, 0, 0], count: 101}}
duration: 9.0
solver:
  max_frequency: 5.0
  points_per_wavelength: 8
  order: 4
compute: {backend: auto, precision: single}
output:
  quantity: velocity
  sampling_interval: 0.01
  formats: [miniseed, sac]
  snapshots: {interval: 0.5, plane: {z: 0}}
  peak_motion: true
"""

CRS = ("[-17000, 0]", "[-17000, 0]\n  crs: {longitude: -117.76, latitude: 33.95}")
FIRST_SOURCE = GOOD[GOOD.index("  - position: [0, 0, -2000]") : GOOD.index("  - position: [0, 0, -5000]")]
SOURCES = GOOD[GOOD.index("  - position: [0, 0, -2000]") : GOOD.index("receivers:")]
POINT = "{network: XX, name: S01, position: [600, 800, 0]}"
LINE = "{network: XX, line: {prefix: L, start: [0, 0, 0], end: [10000, 0, 0], count: 101}}"


def error_of(folder, *changes: tuple[str, str]) -> str:
    """The error of the good file with texts exchanged."""
    text = GOOD
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    path = folder / "test.yaml"
    path.write_text(text)
    with pytest.raises(lw.InputError) as refused:
        lw.Simulation.from_file(path)
    return str(refused.value).replace(str(path), "test.yaml")


def test_the_good_file_is_good():
    assert lw.Simulation.from_text(GOOD).warnings() == []


KEYS = [
    ("duration", "duratoin", ["test.yaml:20: duratoin: unknown key", "valid keys:",
        "did you mean 'duration'?"]),
    ("  order: 4", "  ordre: 4", [":24: solver.ordre: unknown key 'ordre'", "did you mean 'order'?"]),
    ("{xy: 1.0e18}", "{xy: 1.0e18, Mzz: 3}", ["sources[0].moment_tensor.Mzz", "did you mean 'zz'?"]),
    ("{gaussian:", "{gausian:", [":13: sources[0].time_function.gausian: unknown key",
        "did you mean 'gaussian'?"]),
    ("{sigma: 0.12", "{sgma: 0.12", ["sources[0].time_function.gaussian.sgma", "did you mean 'sigma'?"]),
    ("plane: {z: 0}", "plain: {z: 0}", [":30: output.snapshots.plain:", "did you mean 'plane'?"]),
    ("{top: 0, vp", "{top: 0, Vp", [":8: material.layers[0].Vp:", "did you mean 'vp'?"]),
    ("prefix: L", "praefix: L", ["receivers[1].line.praefix", "did you mean 'prefix'?"]),
    ("duration: 9.0\n", "", ["duration: is missing", "required"]),
    ("title: test", "title: test\ntitle: again", [":2: title: ", "stands twice, on lines 1 and 2"]),
    ("  order: 4", "  order: 4\n  order: 8", [":25: solver.order:", "stands twice, on lines 24 and 25"]),
    ("title: test", "5: test", [":1: ", "5", "keys are words"]),
    ("title: test", "schema_version: 2", ["schema_version: 2 is not a version", "expected 1"]),
    ("title: test", "title: LOH: 1", [":1: description: is not readable as YAML", "in quotes"]),
    ("  order: 4", "\torder: 4", [":24: ", "is not readable as YAML", "not with tabs"]),
    ("title: test", "title: [1", ["is not readable as YAML"]),
    ("title: test", "title: 5", [":1: title: 5 is not text", "quotes"]),
    ("title: test", "title: !!python/object:os.system x", [":1: description: is not readable as YAML"]),
    ("title: test", "a: &a [*a]", [":1: a[0]:", "inside the group that it repeats"]),
    ("domain:", "domain: 5\ndomein:", [":2: domain: 5 is not a group of keys", "x, y, z, chunk, crs",
        ":3: domein: unknown key"]),
    ("sources:\n", "sources: 7\nsorces:\n", [":10: sources: 7 is not a list", ":11: sorces: unknown key"]),
]  # fmt: skip

VALUES = [
    ("duration: 9.0", "duration: 9 km", [":20: duration: '9 km' is a length", "expected a time"]),
    ("duration: 9.0", "duration: 0", ["duration: 0 s is out of range", "greater than 0 s"]),
    ("duration: 9.0", "duration: .nan", ["duration: nan is not a finite number"]),
    ("duration: 9.0", "duration: true", ["duration: true is not a number"]),
    ("duration: 9.0", "duration: [9]", ["duration: [9] is not a number"]),
    ("duration: 9.0", "duration:", ["duration: null is not a number"]),
    ("max_frequency: 5.0", "max_frequency: 5 s", [":22: solver.max_frequency: '5 s' is a time", "Hz"]),
    ("max_frequency: 5.0", "max_frequency: -5", ["solver.max_frequency: -5 Hz is out of range"]),
    ("vp: 4000", "vp: -4000", [":8: material.layers[0].vp: -4000 m/s is out of range",
        "greater than 0 m/s"]),
    ("vp: 4000", "vp: nan", [":8: material.layers[0].vp: 'nan' is not a finite number"]),
    ("vp: 4000", "vp: .inf", [":8: material.layers[0].vp: inf is not a finite number"]),
    ("vp: 4000", "vp: 2000", [":8: material.layers[0]: vp = 2000", "4/3 vs^2", "above 2309.4"]),
    ("rho: 2600", "rho: 0", ["material.layers[0].rho: 0 kg/m^3 is out of range"]),
    ("vs: 2000", "vs: 0", [":6: material: a fluid (vs = 0)", "finite_difference needs vs > 0"]),
    ("top: 0,", "top: -10,", ["material", "the first layer begins at z = -10 m"]),
    ("  layers:", "  homogeneous: {vp: 2, vs: 1, rho: 1}\n  layers:",
        [":6: material:", "layers, homogeneous"]),
    ("z: [-17000, 0]", "z: [0, 17000]", [":5: domain.z:", "free surface is at z = 0",
        "did you mean [-17000, 0]?"]),
    ("z: [-17000, 0]", "z: [-17000, -100]", [":5: domain.z: the box ends at z = -100 m", "top: absorbing"]),
    ("z: [-17000, 0]", "z: [0, -17000]", [":5: domain.z:", "is not above", "did you mean [-17000, 0]?"]),
    ("z: [-17000, 0]", "z: [-17000]", [":5: domain.z: [-17000] has 1 item", "[minimum, maximum]"]),
    ("x: [-15000, 15000]", "x: [5, 5]", [":3: domain.x: the upper end 5 m is not above the lower end 5 m"]),
    CRS[:1] + (CRS[1].replace("33.95", "133.95"), ["domain.crs.latitude: 133.95 deg is out of range",
        "at most 90"]),
    ("quantity: velocity", "quantity: velocty", ["output.quantity: 'velocty'", "displacement, velocity",
        "'velocity'?"]),
    ("[miniseed, sac]", "[mseed]", ["output.formats[0]: 'mseed' is not a valid choice",
        "did you mean 'miniseed'?"]),
    ("peak_motion: true", "peak_motion: on", ["output.peak_motion: 'on' is not true or false",
        "did you mean true?"]),
    ("peak_motion: true", "peak_motion: 1", ["output.peak_motion: 1 is not true or false"]),
    ("sampling_interval: 0.01", "sampling_interval: 20",
        ["output.sampling_interval: 20 s is longer", "9 s"]),
    ("plane: {z: 0}", "plane: {z: 30}", [":30: output.snapshots.plane: z = 30 m is outside", "-17000 to 0"]),
    ("plane: {z: 0}", "plane: {z: 0, x: 1}", ["output.snapshots.plane: a plane has x and z", "exactly one"]),
    (", plane: {z: 0}", "", ["output.snapshots: nothing says where"]),
    ("plane: {z: 0}", "plane: {z: 0}, volume: true",
        ["output.snapshots: a plane and volume: true are both given"]),
    ("plane: {z: 0}", "plane: {z: 0}, fields: [vorticity]",
        ["output.snapshots.fields[0]: 'vorticity'", "stress"]),
    ("plane: {z: 0}", "plane: {z: 0}, fields: []", ["output.snapshots.fields: has 0 items", "at least 1"]),
    ("plane: {z: 0}", "plane: {z: 0}, stride: 0", ["output.snapshots.stride: 0 is out of range",
        "at least 1"]),
]  # fmt: skip

SOLVER = [
    ("  order: 4", "  order: 5", [":24: solver.order: 5 is not an order", "2, 4, 6 or 8"]),
    ("  order: 4", "  order: four", [":24: solver.order: 'four' is not a whole number"]),
    ("  order: 4", "  order: 4\n  degree: 4", [":25: solver.degree: the key 'degree' does not apply"]),
    ("  order: 4", "  order: 4\n  mesh: a.msh", [":25: solver.mesh: the key 'mesh' does not apply"]),
    ("  order: 4", "  order: 4\n  coefficients: optimized",
        [":25: solver.coefficients: was removed; the Taylor coefficients are always used; delete the key."]),
    ("  order: 4", "  method: discontinuous_galerkin\n  order: 8",
        ["solver.order: 8 is not an order of discontinuous_galerkin", "choose 2 to 7"]),
    ("  order: 4", "  method: finite_diference", ["solver.method: 'finite_diference'",
        "did you mean 'finite_difference'?"]),
    ("  order: 4", "  safety: 1.2", ["solver.safety: 1.2 is out of range", "at most 1"]),
    ("  order: 4", "  time_step: 0", ["solver.time_step: 0 s is out of range"]),
    ("  order: 4", "  order: 0", ["solver.order: 0 is not an order of finite_difference",
        "choose 2, 4, 6 or 8"]),
    ("points_per_wavelength: 8", "points_per_wavelength: 2",
        [":23: solver.points_per_wavelength: 2 points", "too few", "at least 5"]),
    ("points_per_wavelength: 8", "spacing: 200", [":23: solver.spacing: 200 m gives 2 points", "400 m",
        "spacing: 80", "50 is usual"]),
    ("points_per_wavelength: 8", "points_per_wavelength: 8\n  spacing: 50",
        ["solver.spacing:", "both given"]),
    ("max_frequency: 5.0", "max_frequency: null", ["solver: nothing says how fine", "max_frequency",
        "spacing"]),
    ("backend: auto", "backend: gpu", [":25: compute.backend: 'gpu' is not a valid choice",
        "auto, cpu, cuda"]),
    ("precision: single", "precision: half", ["compute.precision: 'half'", "single, double"]),
    ("precision: single", "threads: 0", ["compute.threads: 0 is out of range"]),
]  # fmt: skip

PLACES = [
    ("[0, 0, -2000]", "[0, 0, 20]",
        [":11: sources[0].position: z = 20 m is above the free surface (z = 0). "
        "Depth is negative z; did you mean -20?"]),
    ("[0, 0, -2000]", "[0, 15200, -100]", [":11: sources[0].position: y = 15200 m is outside the domain",
        "-15000 to 15000", "Beyond y_max lies the absorbing layer"]),
    ("[0, 0, -2000]", "[0, 0]", ["sources[0].position: [0, 0] has 2 items", "[x, y, z]"]),
    ("[0, 0, -2000]", "[0, 0, -2 s]", ["sources[0].position[2]: '-2 s' is a time"]),
    ("[600, 800, 0]", "[600, 80000, 0]",
        [":18: receivers[0].position: XX.S01: y = 80000 m is outside the domain"]),
    ("[600, 800, 0]", "[600, 800, 5]", ["receivers[0].position: XX.S01: z = 5 m is above the free surface"]),
    ("[10000, 0, 0]", "[30000, 0, 0]", [":19: receivers[1].line: XX.L052: x = 15300 m",
        "45 more of these 101"]),
    ("name: S01", "name: L007", [":19: receivers[1]: XX.L007 is the name of two receivers", "receivers[0]"]),
    ("name: S01", "name: 7", [":18: receivers[0].name: 7 is not text", "quotes"]),
    ("name: S01", "name: S.1", ["receivers[0].name: 'S.1' is not a valid name", "letters, digits"]),
    ("name: S01, ", "", ["receivers[0].name: is missing"]),
    (", position: [600, 800, 0]", "", ["receivers[0]: has no position", "[x, y, z]"]),
    ("count: 101", "count: 1", ["receivers[1].line.count: 1 is out of range", "at least 2"]),
    ("[10000, 0, 0]", "[0, 0, 0]", ["receivers[1].line.end: it ends where it starts"]),
    (POINT, "{network: XX}", ["receivers[0]: has no receivers"]),
    (POINT, "{name: S01, longitude: -117, latitude: 34}",
        ["receivers[0]:", "require the origin domain.crs"]),
    (POINT, "{name: S01, longitude: -117}", ["receivers[0]: latitude missing"]),
    (POINT, "{name: S01, position: [0, 0, 0], depth: 3}",
        ["receivers[0].depth: position and depth are both given"]),
    (LINE, LINE.replace("{network: XX,", "{name: A,"), ["receivers[1]: line and name are both given"]),
    (LINE, "{plane: {prefix: P, start: [0, 0, 0], end: [9, 9, -9], counts: [2, 2]}}",
        ["receivers[1].plane:", "agree in no"]),
    (LINE, "{plane: {prefix: P, start: [0, 0, 0], end: [9, 9, 0], counts: 4}}",
        ["receivers[1].plane.counts: 4 is not"]),
    (POINT, "{name: S01, position: [0, 0, 0], coordinates: cartesian}",
        ["receivers[0].coordinates:", "without a file"]),
]  # fmt: skip

SOURCE = [
    ("{xy: 1.0e18}", "{xy: 0}", ["sources[0].moment_tensor: all components are zero"]),
    ("{xy: 1.0e18}", "{xy: 1 km}", ["sources[0].moment_tensor.xy: '1 km' is a length", "N m"]),
    ("moment_tensor: {xy: 1.0e18}", "force: [0, 0, 0]", [":12: sources[0].force: the force is zero"]),
    ("moment_tensor: {xy: 1.0e18}", "force: 3", ["sources[0].force: 3 is not a list", "East, North, Up"]),
    ("moment_tensor: {xy: 1.0e18}", "moment_tensor: {xy: 1}\n    force: [1, 0, 0]",
        [":11: sources[0]: force and moment_tensor are both given", "exactly one"]),
    ("    moment_tensor: {xy: 1.0e18}\n", "", ["sources[0]: has no mechanism", "double_couple"]),
    ("    time_function: {gaussian: {sigma: 0.12, delay: 0.72}}\n", "",
        ["sources[0].time_function: is missing"]),
    ("{gaussian: {sigma: 0.12, delay: 0.72}}", "{}",
        ["sources[0].time_function: has no shape", "gaussian, ricker"]),
    ("{gaussian: {sigma: 0.12, delay: 0.72}}", "gaussian",
        ["sources[0].time_function: 'gaussian'", "gaussian, ricker"]),
    ("{sigma: 0.12", "{sigma: 0.12 m", ["sources[0].time_function.gaussian.sigma: '0.12 m' is a length"]),
    ("{gaussian: {sigma: 0.12, delay: 0.72}}", "{ricker: {frequency: 2}}",
        [":13: sources[0].time_function:", "zero area"]),
    ("{gaussian: {sigma: 0.12, delay: 0.72}}", "{samples: {file: stf.txt, interval: 0.1}}",
        [":13: sources[0].time_function.samples.file: the file 'stf.txt' does not exist"]),
    (", mw: 5.4", ", mw: 5.4, m0: 1e17", [":15: sources[1].double_couple: m0 and mw are both given"]),
    (", mw: 5.4", "", ["sources[1].double_couple: neither m0 nor mw is given"]),
    ("mw: 5.4", "mw: 54", ["sources[1].double_couple.mw: 54 is out of range", "at most 11"]),
    ("mw: 5.4", "m0: 0", ["sources[1].double_couple.m0: 0 N m is out of range"]),
    ("dip: 90", "dip: 91", ["sources[1].double_couple.dip: 91 deg is out of range", "at most 90 deg"]),
    ("- position: [0, 0, -2000]", "- delay: 1\n    position: [0, 0, -2000]",
        ["sources[0].delay:", "without a file"]),
    ("- position: [0, 0, -2000]", "- longitude: 10\n    latitude: 50",
        ["sources[0]: depth missing", "longitude, latitude, depth"]),
    ("- position: [0, 0, -2000]", "- longitude: 10\n    latitude: 50\n    depth: 3000",
        ["sources[0]:", "domain.crs"]),
    ("- position: [0, 0, -2000]", "- position: [0, 0, -2000]\n    depth: 3",
        ["sources[0].depth: position and depth are both"]),
    ("    time_function", "    file: CMTSOLUTION\n    time_function",
        ["sources[0].file: the file 'CMTSOLUTION' does not exist"]),
    (FIRST_SOURCE, "  - file: event.xml\n", [":11: sources[0].file: the file 'event.xml' does not exist"]),
    (FIRST_SOURCE, "  - file: fault.srf\n", [":11: sources[0].file: the file 'fault.srf' does not exist"]),
    (POINT, "{file: stations.xml}", [":18: receivers[0].file: the file 'stations.xml' does not exist"]),
]  # fmt: skip


HOSTILE = [
    ("title: test", "title: te\0st", ["special characters are not allowed"]),
    ("title: test", 'title: "te\\0st"', ["there is a NUL character"]),
    ("network: XX, name: S01", 'network: "X\\0X", name: S01', ["there is a NUL character"]),
    ("duration: 9.0", f"duration: {'9' * 5000}", ["the integer has 5000 digits; allowed: 300"]),
    ("duration: 9.0", f"duration: {'9' * 305}", ["the integer has 305 digits"]),
    ("duration: 9.0", "duration: 1e400", ["duration"]),
    ("x: [-15000, 15000]", "x: [-1e300, 1e300]", ["domain.x"]),
    ("count: 101", f"count: {'9' * 100}", ["receivers[1]"]),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "words"), KEYS + VALUES + SOLVER + PLACES + SOURCE + HOSTILE)
def test_it_is_refused_with_place_and_reason(tmp_path, old, new, words):
    message = error_of(tmp_path, (old, new))
    for word in words:
        assert word in message, message


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("solver.coefficients", "optimized", "the Taylor coefficients are always used"),
        ("compute.overlap", False, "communication always overlaps with computation"),
        ("compute.patience", 300, "the limit is always 600 s without a completed step"),
    ],
)
def test_a_removed_key_is_refused_with_the_remedy(key, value, words):
    expected = f"{key}: was removed; {words}; delete the key."
    with pytest.raises(lw.InputError) as refused:
        lw.Simulation.from_text(GOOD).with_overrides({key: value})
    assert str(refused.value) == expected
    group, name = key.split(".")
    with pytest.raises(lw.InputError) as refused:
        {"solver": lw.Solver, "compute": lw.Compute}[group](**{name: value})
    assert words in str(refused.value) and "delete the key" in str(refused.value)


def test_removed_keys_at_their_former_defaults_are_ignored():
    keys = {"solver.coefficients": "taylor", "compute.overlap": True, "compute.patience": 600.0}
    simulation = lw.Simulation.from_text(GOOD)
    assert simulation.with_overrides(keys).to_yaml() == simulation.to_yaml()


def test_all_problems_are_told_in_the_order_of_the_file(tmp_path):
    changes = [("  order: 4", "  order: x"), ("vp: 4000", "vp: -1"), ("duration: 9.0", "duration: a")]
    lines = error_of(tmp_path, *changes).splitlines()
    assert [line.split(": ")[1] for line in lines] == ["material.layers[0].vp", "duration", "solver.order"]
    assert [int(line.split(":")[1]) for line in lines] == [8, 20, 24]


def test_problems_between_parts_are_told_together(tmp_path):
    changes = [
        ("[0, 0, -2000]", "[0, 0, 20]"),
        ("[600, 800, 0]", "[600, 80000, 0]"),
        ("name: S01", "name: L001"),
    ]
    message = error_of(tmp_path, *changes)
    assert len(message.splitlines()) == 3


def test_a_misspelled_required_key_is_told_once(tmp_path):
    assert len(error_of(tmp_path, ("duration", "duratoin")).splitlines()) == 1


def test_top_level_of_another_kind():
    for text, words in (
        ("", "is empty"),
        ("- a\n", "is not a group of keys"),
        ("5", "is not a group of keys"),
    ):
        with pytest.raises(lw.InputError, match=words):
            lw.Simulation.from_text(text)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(lw.InputError, match=r"no\.yaml: description: cannot be read: No such file"):
        lw.Simulation.from_file(tmp_path / "no.yaml")
    with pytest.raises(lw.InputError, match="cannot be read"):
        lw.Simulation.from_file(tmp_path)
    for content in (b"title: caf\xe9\n", b"\xff\xfe\0t\0"):
        (tmp_path / "latin.yaml").write_bytes(content)
        with pytest.raises(lw.InputError, match="not text in UTF-8"):
            lw.Simulation.from_file(tmp_path / "latin.yaml")


def test_the_nearest_file_name_is_told(tmp_path):
    (tmp_path / "STATIONS").write_text("A XX 700.0 400.0 0.0 10.0\n")
    message = error_of(tmp_path, (POINT, "{file: STATION}"))
    assert "did you mean 'STATIONS'?" in message
    assert "is a folder" in error_of(tmp_path, (POINT, "{file: .}"))


# --- Python and the command line


def test_python_objects_are_refused_without_a_file():
    with pytest.raises(lw.InputError) as refused:
        lw.Domain(x=[1, 0], y=[0, 1, 2], z="a")
    assert [line.split(":")[0] for line in str(refused.value).splitlines()] == ["x", "y", "z"]
    with pytest.raises(lw.InputError, match=r"material: no material is given"):
        lw.Material()
    with pytest.raises(lw.InputError, match="does not exist"):
        lw.Material(file="no_such_model.nc")
    with pytest.raises(lw.InputError, match=r"colour: unknown key"):
        lw.Solver(max_frequency=1, colour=2)
    with pytest.raises(lw.InputError, match="title: contains a NUL character"):
        lw.Simulation.from_text(GOOD).with_overrides({"title": "a\0b"})
    with pytest.raises(lw.InputError, match="file: contains a NUL character"):
        lw.Receivers(file="a\0b")


def parts(**changes):
    """The arguments of a simulation in geographic coordinates, with some replaced."""
    crs = {"longitude": -117.766, "latitude": 33.949}
    return {
        "domain": {"x": [-5000, 5000], "y": [-5000, 5000], "z": [-20000, 0], "crs": crs},
        "material": {"homogeneous": {"vp": 5000, "vs": 2900, "rho": 2600}},
        "sources": [],
        "duration": 10,
        "solver": {"max_frequency": 0.5},
    } | changes


def test_the_sign_of_a_depth_is_suggested_for_the_key_that_is_used():
    point = {"longitude": -117.766, "latitude": 33.949, "depth": -1000.0}
    shape = {"force": [0, 0, 1e9], "time_function": {"gaussian": {"sigma": 1}}}
    cases = {
        "sources[0].depth: depth = -1000 m": {"sources": [{**point, **shape}]},
        "receivers[0].depth: XX.A: depth = -1000 m": {"receivers": [{"name": "A", **point}]},
        "survey.shots: shot 1: depth = -1000 m": {
            "sources": [{"position": [0, 0, -10], **shape}], "survey": {"shots": {"position": [0, 0], "depth": -1000}}
        },
    }  # fmt: skip
    for start, changes in cases.items():
        with pytest.raises(lw.InputError) as refused:
            lw.Simulation(**parts(**changes))
        text = str(refused.value)
        assert text.startswith(f"{start} is above the free surface (depth = 0)"), text
        assert text.endswith("depth is positive downwards; did you mean 1000?")
    with pytest.raises(lw.InputError, match=r"position: z = 1000 m .* Depth is negative z; did you mean -1000\?"):
        lw.Simulation(**parts(sources=[{"position": [0, 0, 1000], **shape}]))
    with pytest.raises(lw.InputError, match=r"depth is positive downwards\.$"):  # 30 km is below the domain
        lw.Simulation(**parts(sources=[{**point, "depth": -30e3, **shape}]))


@pytest.mark.parametrize("entry", [name for name in lw.Simulation.model_fields if name != "schema_version"])
@pytest.mark.parametrize("value", [object(), 5, "text", np.zeros((2, 3)), Path("a"), {"a": 1}.keys(), {1}, None])
def test_a_wrong_type_is_not_an_unknown_key(entry, value):
    allowed = {("title", "text"), ("survey", None), ("duration", 5)}
    if isinstance(value, str | int | None) and (entry, value) in allowed:
        lw.Simulation(**parts(**{entry: value}))
        return
    with pytest.raises(lw.InputError) as refused:
        lw.Simulation(**parts(**{entry: value}))
    for line in str(refused.value).splitlines():
        assert line.startswith(entry) and "unknown key" not in line and "0x" not in line


def test_obspy_objects_are_refused_with_what_to_give_instead(tmp_path, monkeypatch):
    obspy = pytest.importorskip("obspy")
    (tmp_path / "CMT").write_text(" " + CMT)
    catalog, inventory = obspy.read_events(str(tmp_path / "CMT")), obspy.read_inventory()
    monkeypatch.chdir(tmp_path)
    for entry, value in (
        ("receivers", inventory[0][0]), ("domain", catalog[0]), ("material", inventory),
    ):  # fmt: skip
        with pytest.raises(lw.InputError, match=rf"^{entry}(\[0\])?: an ObsPy \w+ is not a (list|group)") as refused:
            lw.Simulation(**parts(**{entry: value}))
        assert "unknown key" not in str(refused.value) and not refused.value.others


def test_an_array_is_refused_as_a_material_with_what_to_give_instead():
    names = {"x": np.array([-1e4, 1e4]), "y": np.array([-1e4, 1e4]), "z": np.array([-3e4, 0.0])}
    names |= {"vp": np.full((2, 2, 2), 5e3), "vs": np.full((2, 2, 2), 29e2), "rho": np.full((2, 2, 2), 26e2)}
    with pytest.raises(lw.InputError) as refused:
        lw.Simulation(**parts(material=names["vp"]))
    given = re.match(r"give arrays by name with their axes, material=(.*\}), or", refused.value.hint).group(1)
    assert lw.Simulation(**parts(material=eval(given, names))).material_extremes["vs_min"] == 2900


@pytest.mark.parametrize(
    ("entry", "value", "hint"),
    [
        ("sources", "event.cmt", "did you mean [{file: event.cmt}]?"),
        ("sources", ["event.cmt"], "did you mean {file: event.cmt}?"),
        ("receivers", Path("STATIONS"), "did you mean [{file: STATIONS}]?"),
        ("material", "model.nc", "did you mean {file: model.nc}?"),
        ("output", "out", "did you mean {directory: out}?"),
        ("receivers", {"name": "A"}, "put the group of keys into a list: [{...}]"),
        ("material", lambda x, y, z: (x, y, z), 'give material={"function": f}'),
    ],
)
def test_the_entry_that_was_meant_is_suggested(entry, value, hint):
    with pytest.raises(lw.InputError) as refused:
        lw.Simulation(**parts(**{entry: value}))
    assert hint in str(refused.value)


def test_a_simulation_built_in_python_is_checked_as_a_whole():
    domain = lw.Domain(x=[0, 1000], y=[0, 1000], z=[-1000, 0])
    material = lw.Material(homogeneous={"vp": 5000, "vs": 2900, "rho": 2600})
    source = lw.Source(position=[0, 0, 5], force=[1, 0, 0], time_function=lw.Gaussian(sigma=1))
    with pytest.raises(lw.InputError, match=r"^sources\[0\]\.position: z = 5 m is above"):
        lw.Simulation(
            domain=domain, material=material, sources=[source], duration=1, solver=lw.Solver(max_frequency=1)
        )


def test_values_of_a_function_are_checked():
    def medium(x, y, z):
        return 5000.0, 4900.0 + 0 * x, 2600.0

    with pytest.raises(lw.InputError, match=r"material.*4/3"):
        lw.Simulation.from_text(GOOD).with_overrides({"material": lw.Material(function=medium)})


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"solver.order": 5}, ["solver.order: 5 is not an order"]),
        ({"solvr.order": 4}, ["solvr: unknown key", "did you mean 'solver'?"]),
        ({"sources.7.name": "a"}, ["sources[7]: there is no such item: the list has 2 items"]),
        ({"sources.mw": 4}, ["sources.mw: there is no such item"]),
        ({"duration.x": 4}, ["duration.x: duration is 9.0, which has no entries"]),
        ({"": 4}, ["is not the name of an entry"]),
    ],
)
def test_bad_overrides(tmp_path, overrides, words):
    (tmp_path / "test.yaml").write_text(GOOD)
    for change in (
        lambda: lw.Simulation.from_text(GOOD).with_overrides(overrides),
        lambda: lw.Simulation.from_file(tmp_path / "test.yaml", overrides),
    ):
        with pytest.raises(lw.InputError) as refused:
            change()
        message = str(refused.value)
        assert all(word in message for word in words), message
        assert "test.yaml" not in message, "what was replaced does not stand in the file"


def test_bad_override_arguments():
    for argument, words in (
        ("order", "key=value"), ("=4", "key=value"), ("a=[", "not readable as YAML"),
        (f"title={'[' * 3000}", "--set title"), (f"duration={'9' * 5000}", "--set duration"),
    ):  # fmt: skip
        with pytest.raises(lw.InputError, match=words):
            parse_overrides([argument])


# --- files of other programs, refused with both places


EVENT = "  - file: CMTSOLUTION\n"
STATION = "A XX 700.0 400.0 0.0 10.0\n"
TWO = "  - {file: A, delay: 2}\n  - {file: B, delay: 3}\n"
# Files with their text, changes of the good description, words of the message.
FILES = {
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
        ["sources[0].file: the time function reaches 100% of its peak", "Use delay: 1.9",
         "every entry with events"],
    ),
    "too small a delay": (
        {"CMTSOLUTION": CMT}, [CRS, (SOURCES, EVENT + "    delay: 0.5\n")],
        ["sources[0].delay: ", "Use delay: 1.9"],
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
        ["STATIONS:1: (700, 400) is not a latitude and longitude", "coordinates: cartesian"],
    ),
    "stations outside": (
        {"STATIONS": STATION + "B XX 700.0 40000.0 0.0 0.0\n"}, [(POINT, "{file: STATIONS}")],
        ["receivers[0].file: XX.B (STATIONS:2): x = 40000 m is outside the domain"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("files", "changes", "words"), FILES.values(), ids=FILES)
def test_files_that_cannot_be_used_are_told(tmp_path, files, changes, words):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    message = error_of(tmp_path, *changes)
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
    message = error_of(tmp_path, (POINT, "{file: STATIONS}"))
    assert "receivers[0].file: the file 'STATIONS' does not exist" in message
    assert (f"script in its folder: `python {shlex.quote(str(tmp_path / script))}`" in message) == named


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"duration": 1e300}, "duration: .* steps of"),
        ({"output.sampling_interval": 1e-300}, "output.sampling_interval: a duration"),
        ({"output.sampling_interval": 1e-12}, "output.sampling_interval: a duration of 0.8 s has 8e.11 steps"),
        *(({"solver.method": method, "solver.time_step": 1e-12},
           "solver.time_step: .* 8e.11 steps of 1e-12 s; allowed: at most 1e.09 steps; omit it to use 0.0")
          for method in METHODS),
    ],
)  # fmt: skip
def test_billions_of_steps_are_refused(changes, words):
    with pytest.raises(lw.InputError, match=f"(?s){words}"):
        lw.Simulation.from_text(SMALL).with_overrides(changes).check()
