"""SEG-Y: seismograms byte by byte against the standard and as ObsPy reads them; sections as materials."""

from __future__ import annotations

import os
import re
import struct
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import lithowave as lw
from gmsh_files import write_gmsh
from lithowave import InputError, MissingPackageError, OutputError
from lithowave.mesh import layered_box
from lithowave.output import Seismograms, SourceTable, check_names
from lithowave.readers import interval_problem
from lithowave.solvers import make_schedule
from small_machine import hide_packages, limit_files
from small_run import lithowave, write_small

COUNT, SAMPLES = 3, 40
POSITIONS = np.array([[3000.0, 4000.0, 0.0], [-1000.25, 0.5, -50.0], [12.345, -7.0, 120.5]])
SOURCE = (100.0, -200.0, -1500.5)


@pytest.fixture
def segyio():
    return pytest.importorskip("segyio")


def seismograms(interval=0.002, positions=POSITIONS, source=SOURCE, dtype=np.float32, **changes):
    random = np.random.default_rng(2)
    point = SimpleNamespace(name="", position=source, moment=(0, 0, 0, 1e17, 0, 0), force=None)
    made = Seismograms(
        time=np.arange(SAMPLES) * interval, data=random.normal(size=(COUNT, 3, SAMPLES)).astype(dtype),
        networks=["CI"] * COUNT, stations=["A", "B", "C"], positions=positions, quantity="velocity", units="m/s",
        sampling_interval=interval, sample_count=SAMPLES, origin_time="2008-07-29T18:42:15.710000",
        sources=SourceTable.from_points([point]), title="Übung",
    )  # fmt: skip
    return replace(made, **changes)


def write(run, folder):
    from lithowave.output import write_segy

    return write_segy(run, folder)


def header(content, byte, kind="h", start=0):
    """A number of a header by its byte, counted from 1 as in the standard."""
    return struct.unpack_from(">" + kind, content, start + byte - 1)[0]


def traces(content, samples=SAMPLES):
    """(start of the header, samples) of each trace."""
    size = 240 + 4 * samples
    for start in range(3600, len(content), size):
        yield start, np.frombuffer(content, ">f4", samples, start + 240)


# --- writing


def test_files_hold_what_the_standard_says(segyio, tmp_path):
    run = seismograms()
    paths = write(run, tmp_path / "segy")
    assert [path.name for path in paths] == ["velocity_E.segy", "velocity_N.segy", "velocity_Z.segy"]
    for component, (path, code) in enumerate(zip(paths, (14, 13, 12), strict=True)):
        content = path.read_bytes()
        assert len(content) == 3600 + COUNT * (240 + 4 * SAMPLES)
        in_file = {byte: header(content, byte) for byte in (3213, 3217, 3221, 3225, 3255, 3501, 3503, 3505)}
        assert in_file == {3213: 3, 3217: 2000, 3221: SAMPLES, 3225: 5, 3255: 1, 3501: 0x0100, 3503: 1, 3505: 0}
        for index, (start, samples) in enumerate(traces(content)):
            assert np.array_equal(samples, run.data[index, component])
            short = {byte: header(content, byte, "h", start) for byte in (29, 69, 71, 89, 115, 117, 203)}
            assert short == {29: code, 69: -1000, 71: -1000, 89: 1, 115: SAMPLES, 117: 2000, 203: 6}
            assert [header(content, byte, "h", start) for byte in range(157, 168, 2)] == [2008, 211, 18, 42, 15, 4]
            sequence = [header(content, byte, "i", start) for byte in (1, 5, 13)]
            assert sequence == [index + 1] * 3
            receiver = [header(content, byte, "i", start) / 1000.0 for byte in (81, 85, 41)]
            source = [header(content, byte, "i", start) / 1000.0 for byte in (73, 77, 49)]
            assert receiver == POSITIONS[index].tolist() and source == [100.0, -200.0, 1500.5]
            distance = np.hypot(POSITIONS[index, 0] - 100.0, POSITIONS[index, 1] + 200.0)
            assert header(content, 37, "i", start) == round(distance)


def test_the_textual_header_says_what_it_is(segyio, tmp_path):
    content = write(seismograms(geographic_origin=(-117.5, 33.95)), tmp_path)[1].read_bytes()
    lines = [content[k : k + 80].decode("cp037") for k in range(0, 3200, 80)]
    assert [line[:3] for line in lines] == [f"C{number:2d}" for number in range(1, 41)]
    text = "\n".join(lines)
    for words in ("VELOCITY, COMPONENT N, UNIT m/s", "TITLE: ?bung", "3 TRACES OF 40 SAMPLES",
                  "INTERVAL 2000 MICROSECONDS", "2008-07-29T18:42:15.710000 UTC", "SEISMOGRAMS.H5",
                  "LONGITUDE -117.5"):  # fmt: skip
        assert words in text, words
    assert lines[38][4:].strip() == "SEG Y REV1" and lines[39][4:].strip() == "END TEXTUAL HEADER"


def test_obspy_reads_the_same(segyio, tmp_path):
    obspy = pytest.importorskip("obspy")
    run = seismograms(dtype=np.float64)
    stream = obspy.read(str(write(run, tmp_path)[2]), format="SEGY")
    assert len(stream) == COUNT
    for index, trace in enumerate(stream):
        assert np.array_equal(trace.data, run.data[index, 2].astype(np.float32))
        assert trace.stats.delta == pytest.approx(0.002, rel=1e-9)
        assert trace.stats.starttime == obspy.UTCDateTime("2008-07-29T18:42:15")
    late = write(seismograms(origin_delay=2.0), tmp_path)[0]
    assert obspy.read(str(late), format="SEGY")[0].stats.starttime == obspy.UTCDateTime("2008-07-29T18:42:13")
    text = late.read_bytes()[:3200].decode("cp037")
    assert "FIRST SAMPLE: 2008-07-29T18:42:13.710000 UTC" in text and "THE ORIGIN TIME IS T = 2 S" in text


def test_pressure_is_a_file_of_its_own(segyio, tmp_path):
    pressure = np.random.default_rng(3).normal(size=(COUNT, SAMPLES)).astype(np.float32)
    paths = write(seismograms(pressure=pressure, origin_time=None), tmp_path)
    assert [path.name for path in paths[3:]] == ["pressure.segy"]
    content = paths[3].read_bytes()
    for index, (start, samples) in enumerate(traces(content)):
        assert np.array_equal(samples, pressure[index])
        assert [header(content, byte, "h", start) for byte in (29, 157, 203)] == [11, 0, 1]


def test_coordinates_too_large_for_millimetres(segyio, tmp_path):
    places = POSITIONS + [0.0, 4_100_000.0, 0.0]
    content = write(seismograms(positions=places), tmp_path)[0].read_bytes()
    for index, (start, _) in enumerate(traces(content)):
        assert [header(content, byte, "h", start) for byte in (69, 71)] == [-1000, -100]
        written = [header(content, byte, "i", start) / 100.0 for byte in (81, 85)]
        assert written == pytest.approx(places[index, :2], abs=0.00501)


def test_a_full_disk_leaves_no_file(segyio, tmp_path):
    with limit_files(3900), pytest.raises(OutputError, match="velocity_E.segy"):
        write(seismograms(), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written(segyio, tmp_path):
    with pytest.raises(OutputError, match="no sample has been recorded"):
        write(seismograms(time=np.zeros(0), data=np.zeros((COUNT, 3, 0))), tmp_path)
    with pytest.raises(InputError, match="output.sampling_interval: 0.0020005 s is not an integer number"):
        write(seismograms(0.0020005), tmp_path)
    empty = replace(seismograms(), networks=[], stations=[], data=np.zeros((0, 3, SAMPLES)), positions=np.zeros((0, 3)))
    assert write(empty, tmp_path) == [] and list(tmp_path.iterdir()) == []


def test_segyio_missing_is_told_before_the_run(monkeypatch, tmp_path):
    hide_packages(monkeypatch, "obspy", "segyio")
    names = SimpleNamespace(network="LONGNET", station="LONG STATION", where="receivers[0]")
    install = r'SEG-Y needs the package segyio: pip install "lithowave\[formats\]"'
    with pytest.raises(MissingPackageError, match=install):
        check_names([names], ["segy"])
    files = write_section(tmp_path)
    with pytest.raises(MissingPackageError, match="Reading SEG-Y"):
        lw.Material(section=files)


# --- sections

X = np.array([1000.0, 1012.5, 1025.0, 1050.0])
Z = -1.25 * np.arange(5)


def write_file(path, values, x=X, y=None, interval=1250, scalar=-10):
    """A section byte by byte: values (n_traces, n_samples)."""
    values = np.asarray(values, dtype=">f4")
    count, samples = values.shape
    content = bytearray(b"\x40" * 3200 + bytes(400))
    for byte, number in ((3213, count), (3217, interval), (3221, samples), (3225, 5), (3501, 0x0100), (3503, 1)):
        struct.pack_into(">h", content, byte - 1, number)
    factor = -scalar if scalar < 0 else 1 / (scalar or 1)
    for index in range(count):
        head = bytearray(240)
        for byte, number in ((71, scalar), (115, samples), (117, interval)):
            struct.pack_into(">h", head, byte - 1, number)
        for byte, axis in ((181, x), (185, y)):
            if axis is not None:
                struct.pack_into(">i", head, byte - 1, round(axis[index] * factor))
        content += head + values[index].tobytes()
    path.write_bytes(bytes(content))
    return path


def linear(x, z):
    """vp, vs, rho that trilinear interpolation reproduces."""
    return 2000.0 + 0.5 * (x - 1000.0) - 10.0 * z, 900.0 - 4.0 * z, 1800.0 + 0.25 * (x - 1000.0)


def write_section(folder, factors=(1.0, 1.0, 1.0), **keywords):
    values = np.broadcast_arrays(*linear(X[:, None], Z), np.zeros((X.size, Z.size)))
    return {
        name: write_file(folder / f"{name}.segy", each * factor, **keywords)
        for name, each, factor in zip(("vp", "vs", "rho"), values, factors, strict=False)
    }


def check_linear(material, along="x", shift=(0.0, 0.0)):
    random = np.random.default_rng(4)
    place, across = random.uniform(1000.0, 1050.0, 200), random.uniform(-1e6, 1e6, 200)
    z = random.uniform(-5.0, 0.0, 200)
    x, y = (place + shift[0], across) if along == "x" else (across, place + shift[0])
    sampled = material.sample(x, y, z + shift[1])
    for found, expected in zip(sampled, linear(place, z), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    # the same on a grid of points, which is interpolated axis by axis
    x, y = x[:5, None, None], y[:3, None]
    gridded = material.sample(x, y, z[:4] + shift[1])
    for found, expected in zip(gridded, material.sample(*np.broadcast_arrays(x, y, z[:4] + shift[1])), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_a_section_with_its_headers(segyio, tmp_path):
    files = write_section(tmp_path)
    material = lw.Material(section=files)
    assert material.kind == "section" and material.input_files() == list(files.values())
    check_linear(material)
    beyond = material.sample([900.0, 2000.0], 0.0, [1.0, -100.0])
    assert beyond[0].tolist() == [2000.0, 2000.0 + 25.0 + 50.0]


def test_along_y_falling_and_moved(segyio, tmp_path):
    files = write_section(tmp_path, x=None, y=X)
    check_linear(lw.Material(section={**files, "along": "y"}), "y")
    moved = lw.Material(section={**files, "along": "y", "origin": [1200.0, "-1 km"]})
    check_linear(moved, "y", (200.0, -1000.0))
    values = np.broadcast_to(np.array([4.0, 3.0, 2.0, 1.0])[:, None] * 1000.0, (4, 5))
    fast, slow = (write_file(tmp_path / f"falling{factor}.segy", values / factor, x=X[::-1]) for factor in (1, 2))
    vp, vs, _ = lw.Material(section={"vp": fast, "vs": slow, "rho": fast}).sample(X, 0.0, 0.0)
    assert vp.tolist() == [1000.0, 2000.0, 3000.0, 4000.0] and (2.0 * vs == vp).all()


def test_spacing_and_units_are_the_users(segyio, tmp_path):
    files = write_section(tmp_path, (1e-3, 1e-3, 1e-3), x=None, interval=4000)
    section = {**files, "speed_unit": "km/s", "density_unit": "g/cm^3", "spacing": [10, "2 m"]}
    model = lw.Material(section=section).medium.model
    assert model.x.tolist() == [0.0, 10.0, 20.0, 30.0] and model.z.tolist() == [-8.0, -6.0, -4.0, -2.0, 0.0]
    np.testing.assert_allclose(model.vp[:, 0, ::-1], linear(X[:, None], Z)[0], rtol=1e-6)
    np.testing.assert_allclose(model.rho[:, 0, 0], linear(X, 0.0)[2], rtol=1e-6)
    moved = lw.Material(section={**section, "origin": [-500, -20]}).medium.model
    assert moved.x[0] == -500.0 and moved.z[-1] == -20.0


def test_ibm_floats(segyio, tmp_path):
    """Format 1 is base 16: 118.625 is 0x4276A000."""
    path = write_file(tmp_path / "ibm.segy", np.zeros((2, 3)), x=X[:2])
    content = bytearray(path.read_bytes())
    struct.pack_into(">h", content, 3224, 1)
    for start, _ in traces(bytes(content), 3):
        content[start + 240 : start + 252] = bytes.fromhex("4276A000") * 3
    path.write_bytes(bytes(content))
    section = {"vp": path, "vs": write_file(tmp_path / "vs.segy", np.zeros((2, 3)), x=X[:2]), "rho": path}
    vp, vs, rho = lw.Material(section=section).sample(1000.0, 0.0, 0.0)
    assert (vp, vs, rho) == (118.625, 0.0, 118.625)


def described(folder, material, **changes):
    data = {
        "domain": {"x": [1000, 1050], "y": [-20, 20], "z": [-5, 0]},
        "material": material,
        "sources": [{"position": [1020, 0, -2], "force": [0, 0, 1],
                     "time_function": {"gaussian": {"sigma": 0.1, "delay": 0.6}}}],
        "receivers": [{"name": "A", "position": [1010, 0, 0]}],
        "duration": 1.0,
        "solver": {"max_frequency": 4},
    }  # fmt: skip
    return lw.Simulation(**{**data, **changes})


def test_a_simulation_with_a_section(segyio, tmp_path):
    files = write_section(tmp_path)
    simulation = described(tmp_path, {"section": files})
    assert simulation.material_extremes["vs_min"] == 900.0 and simulation.material_extremes["vp_max"] == 2075.0
    assert set(files.values()) <= set(simulation.input_files())
    again = lw.Simulation.from_text(simulation.to_yaml())
    assert again == simulation and again.material.section.vp == files["vp"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"vs": "small"}, ["section.vs: ", "small.segy has 2 traces of 5 samples", "vp.segy, 4 traces of 5 samples"]),
        ({"vp": "text"}, ["section.vp: ", "text.segy", "cannot be read as SEG-Y"]),
        ({"rho": "nan"}, ["section.rho: ", "has no value in sample 3 of trace 2 (1 of 20 samples)"]),
        ({"vp": "bare"}, ["section.vp: ", "CDP X is 0 m in all headers", "give spacing: [trace, sample] and origin"]),
        ({"along": "y"}, ["section.vp: ", "CDP Y is 0 m"]),
        ({"vp": "bare", "spacing": [1]}, ["section.spacing: ", "expected 2 numbers: [trace, sample]"]),
        ({"speed_unit": "km/s"}, ["section.vp: vp of ", "(speed_unit: km/s) is 2e+06 to 2.075e+06 m/s in the domain",
                                  "is implausible", "allowed: 30 to 30000 m/s", "did you mean speed_unit: m/s?"]),
        ({"rho": "light"}, ["section.rho: rho of ", "(density_unit: kg/m^3)", "to 1.8125 kg/m^3",
                            "density_unit: g/cm^3?"]),
        ({"speed_unit": "kg"}, ["section.speed_unit: 'kg' is not a unit that fits", "m/s or km/s"]),
        ({"vp": "vs"}, ["section: ", "vp^2 must be greater than 4/3 vs^2"]),
        ({"origin": [2000, 0]}, ["material.section: ", "covers x = 2000 to 2050 m", "spacing and origin"]),
        ({"vp": "timeless"}, ["section.vp: ", "has the sample interval 0", "thousandths of a meter"]),
        ({"vp": "headers"}, ["section.vp: ", "headers.segy"]),
    ],
)  # fmt: skip
def test_refused_sections(segyio, tmp_path, change, words):
    files = write_section(tmp_path)
    values = np.full((4, 5), 2000.0)
    write_file(tmp_path / "small.segy", values[:2])
    (tmp_path / "text.segy").write_text("this is no SEG-Y file\n" * 400)
    write_file(tmp_path / "headers.segy", values)
    os.truncate(tmp_path / "headers.segy", 3600)
    write_file(tmp_path / "bare.segy", values, x=None)
    write_file(tmp_path / "timeless.segy", values, interval=0)
    write_file(tmp_path / "light.segy", linear(X[:, None], Z)[2] / 1000.0 * np.ones((4, 5)))
    values = values.copy()
    values[1, 2] = np.nan
    write_file(tmp_path / "nan.segy", values)
    change = {key: tmp_path / f"{value}.segy" if key in files else value for key, value in change.items()}
    with pytest.raises(InputError) as caught:
        described(tmp_path, {"section": {**files, **change}})
    for word in words:
        assert word in str(caught.value), str(caught.value)


def test_intervals_are_checked_with_the_description(tmp_path):
    rock = {"homogeneous": {"vp": 3000, "vs": 1700, "rho": 2300}}
    wanted = {"formats": ["segy"], "sampling_interval": 0.005}
    assert described(tmp_path, rock, output=wanted).output.formats == ["segy"]
    for output, words in (
        ({**wanted, "sampling_interval": 1 / 300}, "output.sampling_interval: 0.003333"),
        ({**wanted, "sampling_interval": 0.05}, "at most 32767 microseconds"),
        ({**wanted, "sampling_interval": 1e-6}, "at most 32767 in a trace"),
    ):
        with pytest.raises(InputError, match=words):
            described(tmp_path, rock, output=output)
    assert described(tmp_path, rock, output={**wanted, "formats": ["sac"], "sampling_interval": 1 / 300})


ROCK = {"homogeneous": {"vp": 3000, "vs": 1700, "rho": 2300}}
SEGY = {"formats": ["segy"]}


@pytest.mark.parametrize(
    ("duration", "solver", "interval"),
    [
        (1.0, {"max_frequency": 4}, 0.02),
        (1.0, {"max_frequency": 2}, 0.02),  # otherwise 0.05 s, too long
        (40.0, {"max_frequency": 0.2}, 0.02),
        (1 / 300, {"max_frequency": 2}, 0.002),
        (100.0, {"max_frequency": 50}, 0.003052),  # otherwise 0.002 s, 50001 samples
        (1e-3, {"max_frequency": 3e5}, 1e-6),
        (1.0, {"spacing": 40}, 0.01),
        (1.0, {"max_frequency": 2, "time_step": 0.003}, 0.02),
        (1.0, {"max_frequency": 20, "time_step": 0.0003125}, 0.005),
        (0.1, {"max_frequency": 2, "time_step": 0.00125, "method": "spectral_element"}, 0.02),
        (0.1, {"spacing": 40, "method": "discontinuous_galerkin"}, 0.002),
    ],
)
def test_the_default_interval_is_one_that_fits(tmp_path, duration, solver, interval):
    simulation = described(tmp_path, ROCK, output=SEGY, solver=solver, duration=duration)
    chosen = simulation.output.sampling_interval
    assert chosen == pytest.approx(interval, rel=1e-12)
    schedule = make_schedule(solver.get("time_step", 1e-3), duration, 1.0, solver.get("time_step"), chosen)
    assert interval_problem(schedule.sampling_interval, schedule.sample_count) is None
    assert not [text for text in simulation.warnings() if "sampling_interval" in text]
    assert lw.Simulation.from_text(simulation.to_yaml()).output.sampling_interval == chosen


def test_without_an_interval_that_fits_the_remedies_work(tmp_path):
    box = layered_box((0, 2000), (-20, 20), [0.0, -1000.0], [(500, 500)])
    dome = write_gmsh(tmp_path / "dome.msh", box, ["rock"], {})
    mesh = {"method": "spectral_element", "mesh": dome}

    def refused(duration=1.0, **solver):
        with pytest.raises(InputError, match="^output.sampling_interval: is not given") as caught:
            described(tmp_path, ROCK, output=SEGY, solver=solver, duration=duration)
        return str(caught.value)

    assert "sampling_interval: 0.002" in refused(**mesh)
    assert described(tmp_path, ROCK, output={**SEGY, "sampling_interval": 0.002}, solver=mesh)
    assert described(tmp_path, ROCK, output=SEGY, solver={**mesh, "max_frequency": 4})
    example = re.search(r"sampling_interval: (\S+)\.$", refused(duration=200.0, **mesh))[1]
    output = {**SEGY, "sampling_interval": float(example)}
    assert described(tmp_path, ROCK, output=output, solver=mesh, duration=200.0)
    with pytest.raises(InputError, match=r"^material\.function: ") as caught:
        described(tmp_path, {"function": lambda x, y, z: (x, x, np.nan)}, output=SEGY, solver={"spacing": 40})
    assert not caught.value.others
    assert "no interval suits traces of 2000 s" in refused(duration=2000.0, max_frequency=1)


def test_a_run_writes_segy_at_the_interval_that_it_chose(segyio, tmp_path):
    file = write_small(tmp_path, ("  sampling_interval: 0.02\n", ""), ("formats: []", "formats: [segy]"))
    lithowave("run", file, "--output", tmp_path / "run")
    with segyio.open(str(tmp_path / "run" / "segy" / "velocity_Z.segy"), ignore_geometry=True) as written:
        assert segyio.tools.dt(written) == 20000.0 and written.samples.size == 41
