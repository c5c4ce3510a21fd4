"""What a description means: defaults, conventions, files of other programs, the resolved YAML."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import lithowave as lw
from box_runs import GAUSSIAN, refused
from lithowave.description import parse_overrides, read_document
from lithowave.projection import turned

FULL = """
schema_version: 1
title: LOH.1
domain:
  x: [-15000, 15000]
  y: ["-15 km", "15 km"]
  z: [-17000, 0]
boundaries: {top: free, sides: absorbing, bottom: rigid, x_max: rigid}
material:
  layers:
    - {top: 0,     vp: 4000, vs: 2000, rho: 2600}
    - {top: -1000, vp: 6000, vs: 3464, rho: 2700}
sources:
  - position: [0, 0, -2000]
    moment_tensor: {xy: 1e18}
    time_function: {gaussian: {sigma: 0.12, delay: 0.72}}
  - position: [0, 0, -100]
    force: [0, 0, 1.0e10]
    time_function: {ricker: {frequency: 1.0, delay: 1.2}}
  - position: [0, 0, -5000]
    double_couple: {strike: 30, dip: 90, rake: 0, mw: 5.4}
    time_function: {samples: {file: stf.txt, interval: 0.01}}
receivers:
  - {network: XX, name: S01, position: [600, 800, 0]}
  - {network: NO, line: {prefix: L, start: [0, 0, 0], end: [10000, 0, 0], count: 101}}
duration: 9.0
solver: {method: finite_difference, max_frequency: 5.0, points_per_wavelength: 8, order: 4}
compute: {backend: auto, precision: single}
output:
  directory: out/loh1
  sampling_interval: 0.01
  formats: [miniseed, sac]
  snapshots: {interval: 0.5, plane: {z: 0}}
  peak_motion: true
  checkpoint: {interval: 1.0}
"""

SMALL = {
    "domain": {"x": [0, 1000], "y": [0, 1000], "z": [-1000, 0]}, "duration": 2.0, "solver": {"max_frequency": 2.0},
    "material": {"homogeneous": {"vp": 5000, "vs": 2900, "rho": 2600}},
    "sources": [{"position": [500, 500, -500], "force": [0, 0, 1e9], "time_function": GAUSSIAN}],
}  # fmt: skip

FACES = ("x_min", "x_max", "y_min", "y_max", "z_min", "z_max")
CMT = """PDE 2008  7 29 18 42 15.00  33.9490 -117.7660  15.5 5.4 5.4 CHINO HILLS, CALIFORNIA
event name:     ci14383980
time shift:      {time_shift}
half duration:   {half_duration}
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


@pytest.fixture
def folder(tmp_path):
    times = np.arange(200) * 0.01
    np.savetxt(tmp_path / "stf.txt", np.exp(-(((times - 1.0) / 0.2) ** 2)))
    (tmp_path / "loh1.yaml").write_text(FULL)
    return tmp_path


def small(**changes) -> lw.Simulation:
    return lw.Simulation(**{**SMALL, **changes})


def shape(**time_function) -> dict:
    return {"sources": [{**SMALL["sources"][0], "time_function": time_function}]}


def event(tmp_path, time_shift=0.0, half_duration=1.14, **source) -> lw.Simulation:
    (tmp_path / "CMTSOLUTION").write_text(CMT.format(time_shift=time_shift, half_duration=half_duration))
    crs = {"longitude": -117.76, "latitude": 33.95}
    domain = {"x": [-30000, 30000], "y": [-30000, 30000], "z": [-30000, 0], "crs": crs}
    return small(domain=domain, sources=[{"file": str(tmp_path / "CMTSOLUTION"), **source}], duration=30)


# --- reading


def test_python_objects_and_dictionaries_say_the_same():
    shape = lw.Gaussian(sigma=0.2, delay=1.2)
    built = lw.Simulation(
        domain=lw.Domain(x=np.array([0.0, 1000.0]), y=(0, 1000), z=("-1 km", 0)),
        material=lw.Material(homogeneous={"vp": 5000, "vs": 2900, "rho": 2600}),
        sources=[lw.Source(position=np.array([500, 500, -500]), force=(0, 0, 1e9), time_function=shape)],
        duration="2 s", solver=lw.Solver(max_frequency=2),
    )  # fmt: skip
    assert built == small()


def test_defaults_follow_from_the_rest(folder):
    simulation = small()
    assert simulation.boundaries.faces == dict.fromkeys(FACES, "absorbing") | {"z_max": "free"}
    assert (simulation.solver.order, simulation.solver.points_per_wavelength) == (4, 8.0)
    assert simulation.output.sampling_interval == 0.05
    assert simulation.output.directory.as_posix() == "out/simulation"
    assert small(title="My Run 2").output.directory.as_posix() == "out/my_run_2"
    (folder / "plain.yaml").write_text(FULL.replace("title: LOH.1", "").replace("directory: out/loh1", ""))
    assert lw.Simulation.from_file(folder / "plain.yaml").output.directory.as_posix() == "out/plain"
    assert small(solver={"spacing": 50}).solver.points_per_wavelength is None
    changed = simulation.with_overrides({"solver.order": 8, "solver.max_frequency": 4})
    assert (changed.solver.points_per_wavelength, changed.output.sampling_interval) == (9.0, 0.02)


def test_a_single_face_is_stronger_than_its_group(folder):
    boundaries = lw.Simulation.from_file(folder / "loh1.yaml").boundaries
    kinds = ["absorbing", "rigid", "absorbing", "absorbing", "rigid", "free"]
    assert [boundaries.face(name) for name in FACES] == kinds
    with pytest.raises(KeyError, match="z_max"):
        boundaries.face("top")


def test_plain_words_of_yaml():
    text = "a: 1e18\nb: on\nc: NO\nd: 0123\ne: 1:30\nf: .5\ng: true\nh: 2020-01-01\ni:\nj: -1.5E-3\n"
    expected = [1e18, "on", "NO", 123, "1:30", 0.5, True, "2020-01-01", None, -1.5e-3]
    document = read_document(text)
    assert list(document.data.values()) == expected
    assert [document.line_of((key,)) for key in "abcdefghij"] == list(range(1, 11))


def test_lines_of_entries_and_of_what_is_not_written():
    document = read_document("a:\n  - {b: 1}\n  - b:\n      c: 3\n")
    assert document.line_of(("a", 1)) == 3
    assert document.line_of(("a", 1, "b", "c")) == 4
    assert document.line_of(("a", 1, "nothing", 5)) == 3
    assert document.line_of(("other",)) == 1


# --- resolved YAML


def test_a_function_has_no_yaml():
    def medium(x, y, z):
        return 5000.0, 2900.0, 2600.0

    simulation = small(material=lw.Material(function=medium))
    with pytest.raises(lw.InputError, match=r"material\.function: .*Python function"):
        simulation.to_yaml()
    assert simulation.with_overrides({"duration": 3}).material.function is medium


@pytest.mark.parametrize(
    "changes",
    [
        {"receivers": [{"name": "A", "position": [1, 2, -3]}], "solver": {"spacing": 100}},
        {"boundaries": {"top": "absorbing", "layer": {"cells": 12, "kappa": 2}}},
        {"output": {"snapshots": [{"interval": 1, "volume": True}, {"interval": 2, "plane": {"x": 0.1}}]}},
        {"title": "a: 'b' # c \u00e9"}, {"duration": np.float64(2.5)}, shape(brune={"rise_time": 0.3}),
        shape(triangle={"half_duration": 0.3}), shape(boxcar={"duration": 0.3}),
        shape(smoothed_step={"rise_time": 0.3}), shape(samples={"values": [0.0, 1.0, 0.0], "interval": 0.3}),
    ],
)  # fmt: skip
def test_resolved_yaml_of_many_kinds(changes):
    simulation = small(**changes)
    assert lw.Simulation.from_text(simulation.to_yaml()) == simulation


# --- overrides


def test_overrides_replace_single_entries(folder):
    simulation = lw.Simulation.from_file(folder / "loh1.yaml")
    changed = simulation.with_overrides({
        "solver.order": 8, "sources.2.double_couple.mw": 6, "output.snapshots.stride": 2, "receivers[0].name": "B",
        "solver.points_per_wavelength": None, "solver.spacing": "50 m",
    })  # fmt: skip
    assert (changed.solver.order, changed.solver.spacing, simulation.solver.order) == (8, 50.0, 4)
    assert changed.sources[2].double_couple.mw == 6.0 and changed.output.snapshots[0].stride == 2
    assert changed.receivers[0].name == "B"


def test_overrides_of_a_file_may_make_it_valid(folder):
    (folder / "bad.yaml").write_text(FULL.replace("order: 4", "order: 5"))
    assert lw.Simulation.from_file(folder / "bad.yaml", {"solver.order": 6}).solver.order == 6


def test_override_arguments_are_yaml():
    words = ["solver.order=8", "title=a=b", "output.formats=[sac]", "domain.x=[-1 km, 1 km]", "a=1e3"]
    values = [8, "a=b", ["sac"], ["-1 km", "1 km"], 1000.0]
    assert parse_overrides(words) == dict(zip((word.partition("=")[0] for word in words), values, strict=True))


# --- places


def test_local_coordinates_are_a_transverse_mercator():
    domain = lw.Domain(x=[-1, 1], y=[-1, 1], z=[-1, 0], crs={"longitude": -117.76, "latitude": 33.95})
    x, y = domain.to_local(-117.76, 33.95)
    assert abs(x) < 1e-6 and abs(y) < 1e-6
    # A minute of latitude at 34 degrees on WGS84 is 1848.7 m, scale 1 on the central meridian.
    assert domain.to_local(-117.76, 33.95 + 1 / 60)[1] == pytest.approx(1848.7, abs=0.2)
    # N cos(latitude) for a minute of longitude, N = 6384.78 km at this latitude.
    assert domain.to_local(-117.76 + 1 / 60, 33.95)[0] == pytest.approx(1540.7, abs=0.5)
    longitude, latitude = domain.to_geographic(*domain.to_local(-117.5, 34.2))
    assert (longitude, latitude) == pytest.approx((-117.5, 34.2), abs=1e-10)


def test_lines_and_planes_of_receivers():
    line = {"network": "AB", "line": {"prefix": "L", "start": [0, 0, 0], "end": [1000, 500, -100], "count": 11}}
    plane = {"plane": {"prefix": "P", "start": [0, 0, -5], "end": [900, 1000, -5], "counts": [4, 3]}}
    receivers = small(receivers=[line, plane]).receiver_list()
    assert [receiver.name for receiver in receivers[:2]] == ["AB.L01", "AB.L02"]
    assert receivers[10].position == (1000.0, 500.0, -100.0)
    assert receivers[1].position == pytest.approx((100.0, 50.0, -10.0))
    assert len(receivers) == 11 + 12
    assert receivers[11].name == "XX.P01"
    assert receivers[12].position == pytest.approx((300.0, 0.0, -5.0))
    assert receivers[-1].position == (900.0, 1000.0, -5.0)
    assert receivers[-1].where == "receivers[1]"


def test_stations_with_latitude_and_longitude(tmp_path):
    (tmp_path / "STATIONS").write_text("CHN CI 33.99879 -117.68044 120.0 2.5\n")
    simulation = event(tmp_path).with_overrides({"receivers": [{"file": str(tmp_path / "STATIONS")}]})
    (receiver,) = simulation.receiver_list()
    x, y = simulation.domain.to_local(-117.68044, 33.99879)
    assert receiver.name == "CI.CHN"
    assert receiver.position == pytest.approx((x, y, -2.5))
    assert receiver.elevation == 120.0
    assert any("elevation" in warning and "CI.CHN" in warning for warning in simulation.warnings())


# --- mechanisms


def test_a_double_couple_from_slip_and_normal():
    """M = m0 (n u + u n), the hanging wall's slip u and the normal n that points into it."""
    random = np.random.default_rng(1)
    for strike, dip, rake in random.uniform([0, 0, -180], [360, 90, 180], (50, 3)):
        mechanism = lw.DoubleCouple(strike=strike, dip=dip, rake=rake, m0=2.0)
        s, d, r = np.radians([strike, dip, rake])
        along = np.array([np.sin(s), np.cos(s), 0.0])  # East, North, Up
        updip = np.array([-np.cos(d) * np.cos(s), np.cos(d) * np.sin(s), np.sin(d)])
        # The plane dips to the right of the strike; the hanging wall lies above it.
        normal = np.cross(along, updip)
        normal *= np.sign(normal[2]) if normal[2] else 1.0
        slip = np.cos(r) * along + np.sin(r) * updip
        tensor = 2.0 * (np.outer(normal, slip) + np.outer(slip, normal))
        expected = [tensor[0, 0], tensor[1, 1], tensor[2, 2], tensor[0, 1], tensor[0, 2], tensor[1, 2]]
        assert mechanism.components == pytest.approx(expected, abs=1e-12)


# --- events from files


def test_an_event_file_gives_place_moment_and_time(tmp_path):
    (source,) = event(tmp_path, time_shift=3.0, half_duration=1.0).point_sources()
    assert source.name == "ci14383980"
    assert source.position[2] == -15500.0
    stated = (4.19e16, -1.2e17, 7.78e16, 3.89e16, 6.01e16, 2.0e16)
    assert turned(np.array([source.moment]), [-source.convergence])[0] == pytest.approx(stated)
    assert source.force is None
    gaussian = source.time_function.gaussian
    assert gaussian.delay == 3.0
    # exp(-(1.628 t / h)^2) and exp(-t^2 / 2 sigma^2) are one function.
    assert gaussian.amplitude(np.array([4.0]))[0] == pytest.approx(math.exp(-(1.628**2)), rel=1e-12)


def test_an_event_alone_is_delayed_as_little_as_needed(tmp_path):
    simulation = event(tmp_path)
    assert simulation.sources[0].delay == simulation.origin_delay == 1.9
    assert simulation.point_sources()[0].time_function.onset_amplitude() <= 1e-3
    assert simulation.origin_time == "2008-07-29T18:42:15.000000Z"
    assert simulation.start_time == "2008-07-29T18:42:13.100000Z"
    (warning,) = (text for text in simulation.warnings() if "before the origin time" in text)
    assert "1.9 s later" in warning
    again = lw.Simulation.from_text(simulation.to_yaml())
    assert again == simulation and again.start_time == simulation.start_time
    with_room = event(tmp_path, time_shift=3.0)
    assert with_room.origin_delay == 0.0 and with_room.start_time == with_room.origin_time


def test_a_given_delay_and_time_function_are_kept(tmp_path):
    simulation = event(
        tmp_path, time_shift=1.0, delay=2.5, time_function={"triangle": {"half_duration": 0.5, "delay": 0.25}}
    )
    (source,) = simulation.point_sources()
    assert source.time_function.triangle.delay == 3.75
    assert simulation.sources[0].time_function.triangle.delay == 0.25


# --- warnings


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"solver": {"max_frequency": 1.0}}, ["sources[0].time_function", "1 Hz", "dispersed"]),
        ({"solver": {"max_frequency": 2.0, "points_per_wavelength": 6}}, ["6 points", "8 are usual"]),
        ({"output": {"sampling_interval": 0.5}}, ["output.sampling_interval", "1 Hz", "2 Hz"]),
        ({"sources": []}, ["all motion is zero"]), ({"receivers": []}, ["no result"]),
        ({"output": {"snapshots": {"interval": 5, "plane": {"z": 0}}}}, ["output.snapshots[0].interval"]),
        (shape(boxcar={"duration": 1, "delay": 4}), ["after the end"]),
    ],
)  # fmt: skip
def test_what_may_not_be_meant_is_told(changes, words):
    warnings = small(**changes).warnings()
    assert any(all(word in warning for word in words) for warning in warnings), warnings


def many(count=2000, **change):
    """Sources that differ in the time function, the strongest offender in the middle."""
    functions = [{"gaussian": {"sigma": 0.2 - 0.1 * (n == count // 2), "delay": 1.2}} for n in range(count)]
    return [{**SMALL["sources"][0], "time_function": function, **change} for function in functions]


def source_warnings(**changes):
    """The warnings about sources."""
    return [text for text in small(**changes).warnings() if text.startswith("sources")]


def test_equal_warnings_of_many_sources_are_one_sentence():
    assert source_warnings(sources=many(), solver={"max_frequency": 1.0}) == [
        "sources: 2000 of 2000 time functions have spectra that fall to 5% only at up to 3.9 Hz, above the 1 Hz that "
        "the grid resolves (first: sources[0], worst: sources[1000]). The higher part will be dispersed."
    ]
    early = [{**source, "time_function": {"gaussian": {"sigma": 0.2, "delay": 0.4}}} for source in many(2)]
    assert source_warnings(sources=[*many(3), *early])[0] == (
        "sources: 2 of 5 time functions are cut off at time 0, before which they reach up to 14% of their peak; these "
        "jumps radiate frequencies above the 2 Hz that the grid resolves (first: sources[3], worst: sources[3]). Use a "
        "longer delay."
    )
    late = [{"time_function": {"boxcar": {"duration": 1, "delay": delay}}} for delay in (4, 7, 5)]
    assert source_warnings(sources=[*many(1), *({**many(1)[0], **change} for change in late)])[-1] == (
        "sources: 3 of 4 time functions begin at up to 7 s, after the end of the simulation (first: sources[1], worst: "
        "sources[2]). Use a longer duration or a shorter delay."
    )
    [lone] = source_warnings(sources=many(3), solver={"max_frequency": 3.0})
    assert lone.startswith("sources[1].time_function: its spectrum falls to 5% only at 3.9 Hz")


def test_many_sources_outside_are_not_listed_one_by_one():
    refused(lambda: small(sources=many(30, position=[0, 0, 10])), "sources: 25 more sources are outside the domain.")


def test_a_description_cannot_be_changed_in_place():
    simulation = small()
    with pytest.raises(ValueError, match="frozen"):
        simulation.duration = 3.0


def text_of(points: int) -> str:
    """libyaml reads long texts, Python short ones."""
    head = """
title: &title 'a: b'   # a comment
network: NO
numbers: [1e3, 010, -.5, .inf, ~, true, yes, "\\x41"]
again: *title
text: |
  two
  lines
points:
"""
    return head + "".join(f"  - {{name: S{n}, position: [{n}.5, -{n}, 1e1]}}\n" for n in range(points))


def test_long_texts_are_read_like_short_ones():
    long, short = read_document(text_of(3000)), read_document(text_of(9))
    assert long.data["network"] == "NO" and long.data["numbers"][:3] == [1000.0, 10, -0.5]
    assert long.line_of(("points", 7, "position")) == short.line_of(("points", 7, "position")) == 17
    assert repr(long.data | {"points": long.data["points"][:9]}) == repr(short.data)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("bad: [1, 2", "expected ',' or ']'"),
        ("bad: " + "[" * 3000 + "]" * 3000, "too many nested groups"),
        ("bad: " + "- " * 30000 + "1", "is not readable as YAML"),
        ("bad:\n  " + "- " * 30000 + "1", "too many nested groups"),
        ("again: 1", "the key 'again' stands twice"),
        ('bad: "\\0"', "there is a NUL character"),
        ("bad: &bad [*bad]", "an alias stands inside the group that it repeats"),
        ("a: &a [1, 2, 3]\nb: &b [" + "*a, " * 200 + "]\nc: [" + "*b, " * 200 + "]", "aliases repeat"),
        ("\tbad: 1", "indent with spaces"),
    ],
)
def test_errors_in_long_texts_are_those_of_short_ones(more, words):
    messages = []
    for points in (3000, 9):
        with pytest.raises(lw.InputError) as caught:
            read_document(text_of(points) + more)
        messages.append(re.sub(r"\b(30[0-9]{2}|[12][0-9])\b", "LINE", str(caught.value)))
    assert words in messages[0] and messages[0] == messages[1]
