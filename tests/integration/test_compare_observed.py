"""A run compared with observed seismograms: known shifts, filters, units, rotation, and data that cannot be used."""

from __future__ import annotations

import json

import h5py
import numpy as np
import pytest

import lithowave as lw
from lithowave.output import write_asdf
from sample_run import SOURCE, ground_velocity, make_run_folder, sample_receivers
from small_run import lithowave

obspy = pytest.importorskip("obspy")

START = "2008-07-29T18:42:15.710000"
INTERVAL, LEAD, COUNT = 0.02, 20.0, 3000
SHIFTS = dict(zip([receiver.station for receiver in sample_receivers()], np.linspace(-1.5, 2.2, 12), strict=True))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run_folder(tmp_path_factory.mktemp("data") / "run", points=3, steps=1, vertical_plane=False)


def observed(shifts=SHIFTS, noise=5.0, factor=1.0, power=0, components="ENZ", prefix="HH", interval=INTERVAL, **header):
    """Traces of the closed form of the run from 20 s before t = 0, delayed by station, with a sine above the filter."""
    times = np.arange(int(COUNT * INTERVAL / interval)) * interval - LEAD + 0.0037
    stream = obspy.Stream()
    for receiver in sample_receivers():
        motion = ground_velocity([receiver.position], times - shifts.get(receiver.station, 0.0))[:, 0]
        if power:
            motion = np.gradient(motion, interval, axis=-1, edge_order=2)
        motion = factor * (motion + 1e-3 * np.sin(2 * np.pi * noise * times) * np.exp(-(((times - 9.0) / 3.0) ** 2)))
        for letter, values in zip(components, motion, strict=False):
            head = {"network": "CI", "station": receiver.station, "channel": prefix + letter, "delta": interval}
            head["starttime"] = obspy.UTCDateTime(START) - LEAD + 0.0037
            stream.append(obspy.Trace(values, head | header))
    return stream


def test_known_shifts_are_found_and_the_misfit_vanishes_after_them(run, tmp_path):
    """The common sampling interval is 0.05 s; measured errors are 3.2e-5 s, and a misfit of 1e-4."""
    observed().write(str(tmp_path / "data.mseed"), format="MSEED")
    found = lw.compare_data(run, tmp_path / "data.mseed", max_frequency=1.0)
    assert len(found.stations) == 12 and found.time[1] == pytest.approx(0.05) and found.notes == [
        "Observed traces are sampled every 0.02 s, the run every 0.05 s."
    ]
    for station in found.stations:
        shift = SHIFTS[station.name.removeprefix("CI.")]
        assert station.time_shift == pytest.approx(-shift, abs=1e-4)
        assert station.shifted_l2 < 3e-4 and station.shifted_correlation > 0.99999
        assert station.amplitude_ratio == pytest.approx(1.0, abs=0.01)
        assert station.relative_l2 > 0.3 or abs(shift) < 0.2


def test_without_a_shift_both_agree_before_it(run):
    found = lw.compare_data(run, observed({}), max_frequency=1.0, min_frequency=0.1)
    assert max(station.relative_l2 for station in found.stations) < 1e-3
    assert max(abs(station.time_shift) for station in found.stations) < 1e-4
    assert found.band == (0.1, 1.0) and np.isfinite(found.data_run).all()


def test_data_that_end_before_the_run_are_filtered_like_the_run(run):
    """The data end within the S waves of some stations; the continuation of the run had a share of 47% there."""
    stream = observed({})
    for trace in stream:
        trace.trim(endtime=obspy.UTCDateTime(START) + 12.0)
    found = lw.compare_data(run, stream, max_frequency=1.0, min_frequency=0.1)
    assert max(station.relative_l2 for station in found.stations) < 0.04
    assert found.stations[0].window[1] == pytest.approx(12.0, abs=0.05)


def test_the_filter_removes_what_is_above_the_band(run):
    loud = lw.compare_data(run, observed({}, noise=1.5), max_frequency=3.0)
    quiet = lw.compare_data(run, observed({}, noise=1.5), max_frequency=0.5)
    assert max(one.relative_l2 for one in quiet.stations) < 0.02
    assert max(one.relative_l2 for one in loud.stations) > 0.05


@pytest.mark.parametrize(("quantity", "power"), [("acceleration", 1), ("velocity", 0)])
def test_the_run_is_converted_to_the_observed_quantity(run, quantity, power):
    found = lw.compare_data(run, observed(power=power, noise=8.0), max_frequency=1.0, quantity=quantity)
    assert found.quantity == quantity
    for station in found.stations:
        assert station.shifted_l2 < 5e-3 and station.time_shift == pytest.approx(-SHIFTS[station.name[3:]], abs=5e-3)


def test_the_run_is_integrated_to_displacement(run):
    stream = observed(noise=8.0)
    for trace in stream:
        trace.data = np.cumsum(trace.data) * INTERVAL - 0.5 * INTERVAL * trace.data
    found = lw.compare_data(run, stream, max_frequency=1.0, quantity="displacement")
    assert max(station.shifted_l2 for station in found.stations) < 5e-3


def test_folders_of_sac_and_miniseed_and_asdf_give_the_same(run, tmp_path):
    stream = observed()
    sac, mixed = tmp_path / "sac", tmp_path / "mixed" / "deeper"
    for folder in (sac, mixed):
        folder.mkdir(parents=True)
    for number, trace in enumerate(stream):
        trace.write(str(sac / f"{number}.sac"), format="SAC")
        trace.write(str(mixed / f"{number}.mseed"), format="MSEED")
    (mixed / "README").write_text("not a waveform")
    by_stream, by_sac, by_seed = (lw.compare_data(run, each) for each in (stream, sac, tmp_path / "mixed"))
    assert by_seed.to_dict()["stations"] == by_stream.to_dict()["stations"]
    for one, other in zip(by_sac.stations, by_stream.stations, strict=True):
        assert one.shifted_l2 == pytest.approx(other.shifted_l2, rel=0.05)
        assert one.time_shift == pytest.approx(other.time_shift, abs=1e-3)
    assert any(note.startswith("README was not read: it is damaged, or not a file") for note in by_seed.notes)
    seismograms = lw.load_seismograms(run)
    (path,) = write_asdf(seismograms, tmp_path / "asdf")
    own = lw.compare_data(run, path)
    assert len(own.stations) == 12 and max(station.relative_l2 for station in own.stations) < 1e-8


def test_rotation(run):
    """Radial and transverse components of the closed form, from the angle of the receivers to the source."""
    stream = observed(noise=8.0)
    turned = obspy.Stream()
    for receiver in sample_receivers():
        east, north, up = (stream.select(station=receiver.station, channel=f"HH{c}")[0] for c in "ENZ")
        angle = np.arctan2(receiver.position[0] - SOURCE[0], receiver.position[1] - SOURCE[1])
        radial, transverse = east.copy(), north.copy()
        radial.data = east.data * np.sin(angle) + north.data * np.cos(angle)
        transverse.data = east.data * np.cos(angle) - north.data * np.sin(angle)
        radial.stats.channel, transverse.stats.channel = "HHR", "HHT"
        turned += obspy.Stream([radial, transverse, up])
    for data in (stream, turned):
        found = lw.compare_data(run, data, max_frequency=1.0, rotate=True)
        assert found.components == "RTZ" and {one.components for one in found.stations} == {"RTZ"}
        assert max(station.shifted_l2 for station in found.stations) < 3e-3
    with pytest.raises(lw.InputError, match="no trace can be compared"):
        lw.compare_data(run, observed().select(component="E"), rotate=True)


def test_traces_that_cannot_be_used_are_reported_and_not_used(run):
    stream = observed({})
    of = {trace.id: trace for trace in stream}
    of["CI.CHN..HHE"].data[1200:1400] = 0.0  # a filled gap
    of["CI.CHN..HHN"].data[:] = 3.0
    top = 0.6 * of["CI.CHN..HHZ"].data.max()
    of["CI.CHN..HHZ"].data = np.minimum(of["CI.CHN..HHZ"].data, top)
    of["CI.OLI..HHE"].data[1500] = np.nan
    of["CI.OLI..HHN"].stats.channel, of["CI.OLI..HHZ"].stats.channel = "HH1", "HHU"
    first, second = of["CI.SRN..HHE"].copy(), of["CI.SRN..HHE"].copy()
    stream.remove(of["CI.SRN..HHE"])
    second.stats.starttime += 25.0
    first.data, second.data = first.data[:1200], second.data[1250:]
    stream += obspy.Stream([first, second])
    of["CI.SRN..HHN"].stats.starttime += 3600.0
    stream += obspy.Stream([of["CI.BRE..HHZ"].copy()])
    double = of["CI.PSR..HHZ"].copy()
    double.stats.channel = "BHZ"
    stream += obspy.Stream([double])
    for trace in stream.select(station="STG"):
        trace.stats.station = "NEW"
    found = lw.compare_data(run, stream, max_frequency=1.0)
    text = "\n".join(found.notes)
    for words in (
        "CI.CHN: HHE not used: it is constant for 4", "CI.CHN: HHN not used: it is constant.",
        "CI.CHN: HHZ not used: it is clipped at", "CI.OLI: HHE not used: it has a gap of 0.02 s",
        "CI.OLI: HH1, HHU not used: the orientation is not E, N, Z", "CI.SRN: HHE not used: it has a gap of",
        "CI.SRN: HHN not used: it covers t = 3580", "CI.BRE: HHZ not used: its traces overlap",
        "CI.PSR: several channels for Z, BHZ, HHZ: none used; select with --channel",
        "1 receivers have no data: CI.STG.", "1 stations of the data are not in the run: CI.NEW.",
    ):  # fmt: skip
        assert words in text, words + "\n" + text
    components = {one.name[3:]: one.components for one in found.stations}
    assert "CHN" not in components and "OLI" not in components and "STG" not in components
    assert (components["SRN"], components["BRE"], components["PSR"], components["KIK"]) == ("Z", "EN", "EN", "ENZ")
    assert found.missing == ["CI.STG"]
    chosen = lw.compare_data(run, stream, max_frequency=1.0, channels=["BHZ"])
    assert [one.name for one in chosen.stations] == ["CI.PSR"] and chosen.stations[0].components == "Z"


def test_counts_instead_of_meters_per_second_are_reported(run):
    found = lw.compare_data(run, observed(factor=1e9), max_frequency=1.0)
    assert sum("Warning: CI." in note and "Check the units" in note for note in found.notes) == 12
    shifted = lw.compare_data(run, observed(), max_frequency=1.0, max_shift=0.5)
    assert any("the time shift is at its limit, 0.5 s" in note for note in shifted.notes)
    stream = observed({})
    stream[0].data = stream[0].data + 1.0
    assert any("the mean of HHE is 1 m/s" in note for note in lw.compare_data(run, stream, max_frequency=1.0).notes)


def test_a_station_with_several_sensors_is_matched_by_its_location_code(run, tmp_path):
    import h5py

    folder = make_run_folder(tmp_path / "run", points=3, steps=1, vertical_plane=False)
    with h5py.File(folder / "seismograms.h5", "a") as file:
        codes = np.array([b"10"] + [b""] * 11, dtype=h5py.string_dtype("utf-8", 2))
        del file["receivers/location"]
        file["receivers/location"] = codes
    first, second = observed({}, location="00"), observed({}, location="10")
    found = lw.compare_data(folder, first + second, max_frequency=1.0)
    assert found.names == ["CI.CHN.10"] and found.stations[0].channels[0] == "CI.CHN.10.HHE"


def test_a_run_without_a_date_requires_the_origin_time(tmp_path):
    folder = make_run_folder(tmp_path / "run", points=3, steps=1, geographic=False, vertical_plane=False)
    with pytest.raises(lw.InputError, match="--origin-time: the event of the run has no origin time"):
        lw.compare_data(folder, observed())
    found = lw.compare_data(folder, observed({}), origin_time=START, max_frequency=1.0)
    assert max(station.relative_l2 for station in found.stations) < 3e-3
    late = lw.compare_data(folder, observed({}), origin_time="2008-07-29T18:42:16.710", max_frequency=1.0)
    assert [one.time_shift for one in late.stations] == pytest.approx([1.0] * 12, abs=2e-3)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"quantity": "speed"}, "--observed-quantity: 'speed' is not a quantity; allowed: displacement"),
        ({"origin_time": "noon"}, "--origin-time: 'noon' is not a time"),
        ({"min_frequency": 2.0, "max_frequency": 1.0}, "are not a band"),
        ({"max_frequency": 10.0}, "--fmax: 10 Hz is out of range; expected less than the Nyquist frequency"),
        ({"min_frequency": 9.0}, "--fmin: 9 Hz is out of range"),
        ({"start": 30.0}, "30 to 19.95 s is not a window"),
        ({"start": 1.0, "end": 1.1}, "the window has 3 samples"),
        ({"max_shift": -1.0}, "--max-shift: -1 s is out of range"),
        ({"channels": ["LH?"]}, "no trace can be compared with the run"),
    ],
)
def test_options_out_of_range_are_refused(run, options, words):
    with pytest.raises(lw.InputError) as refused:
        lw.compare_data(run, observed(), **options)
    assert words in str(refused.value)


@pytest.mark.parametrize("content", [b"", b"no waveforms here", b"\x89HDF\r\n\x1a\n" + b"\0" * 100])
def test_files_without_seismograms_are_refused(run, tmp_path, content):
    path = tmp_path / "data.mseed"
    path.write_bytes(content)
    with pytest.raises(lw.InputError, match=r"data\.mseed: is "):
        lw.compare_data(run, path)
    with pytest.raises(lw.InputError, match="contains no seismograms"):
        lw.compare_data(run, tmp_path)


def test_a_truncated_file_is_refused_or_has_fewer_samples(run, tmp_path):
    path = tmp_path / "data.mseed"
    observed().select(station="CHN").write(str(path), format="MSEED")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2 + 100])
    with pytest.warns(UserWarning):  # ObsPy's, of the last record
        found = lw.compare_data(run, path, max_frequency=1.0)
    assert len(found.stations[0].components) < 3


def test_the_command_compares_with_data(run, tmp_path):
    observed().write(str(tmp_path / "data.mseed"), format="MSEED")
    figure = tmp_path / "figure.png"
    text = lithowave("compare", run, tmp_path / "data.mseed", "--fmax", 1, "--figure", figure)
    assert "CI.CHN         ENZ" in text and "run late" in text and f"figure:  {figure}" in text
    assert figure.stat().st_size > 10_000
    result = json.loads(lithowave(
        "compare", run, tmp_path / "data.mseed", "--json", "--fmin", 0.1, "--start", 2, "--end", 15, "--max-shift", 3,
        "--observed-quantity", "velocity", "--channel", "HH?", "--rotate", "--origin-time", START,
    ))  # fmt: skip
    assert result["window"] == [2.0, 15.0] and result["band"][0] == 0.1 and len(result["stations"]) == 12
    assert result["stations"][0]["time_shift"] == pytest.approx(1.5, abs=5e-3)
    assert "--max-shift: does not apply to" in lithowave("compare", run, run, "--max-shift", 1, status=2)


def specfem_files(run, folder, suffix="semv", letters="XYZ", change=None):
    """Text files as SPECFEM writes them: times after the origin time, in single precision, and values."""
    folder.mkdir(exist_ok=True)
    delay = lw.load_seismograms(run).origin_delay or 0.0
    for trace in observed({}):
        name = f"CI.{trace.stats.station}.BX{letters['ENZ'.index(trace.stats.channel[-1])]}.{suffix}"
        times = np.float32(trace.times() - LEAD + 0.0037 - delay)
        rows = [f" {time: .6E}  {value: .8E}" for time, value in zip(times, trace.data, strict=True)]
        (folder / name).write_text("\n".join(rows if change is None else change(rows)) + "\n")
    (folder / "output_solver.txt").write_text("not a seismogram\n")
    return folder


@pytest.mark.parametrize("letters", ["XYZ", "ENZ"])
def test_seismograms_of_specfem(run, tmp_path, letters):
    found = lw.compare_data(run, specfem_files(run, tmp_path / "OUTPUT_FILES", letters=letters), max_frequency=1.0)
    assert len(found.stations) == 12 and found.quantity == "velocity" and found.components == "ENZ"
    assert max(station.relative_l2 for station in found.stations) < 1e-3
    assert max(abs(station.time_shift) for station in found.stations) < 1e-4
    file = tmp_path / "OUTPUT_FILES" / f"{found.names[0]}.BXZ.semv"
    assert "velocity, 1 stations" in lithowave("compare", run, file, "--fmax", "1")


def test_specfem_states_the_quantity(run, tmp_path):
    folder = specfem_files(run, tmp_path / "d", "semd")  # a velocity as displacement: 100% wrong, but comparable
    found = lw.compare_data(run, folder, max_frequency=1.0)
    assert found.quantity == "displacement" and min(station.relative_l2 for station in found.stations) > 0.2
    specfem_files(run, folder, "semv")
    found = lw.compare_data(run, folder, max_frequency=1.0)
    assert found.quantity == "velocity" and max(station.relative_l2 for station in found.stations) < 1e-3
    assert any("36 traces of another quantity than velocity were not used" in note for note in found.notes)
    with pytest.raises(lw.InputError, match="the data have displacement and velocity, not acceleration"):
        lw.compare_data(run, folder, quantity="acceleration")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda rows: [*rows[:9], *rows[12:]], "times are not evenly spaced"),
        (lambda rows: [*rows[:9], "0.1", *rows[9:]], "cannot be read as seismogram of SPECFEM"),
        (lambda rows: ["a b", *rows], "cannot be read as seismogram of SPECFEM"),
    ],
)
def test_damaged_seismograms_of_specfem(run, tmp_path, change, words):
    with pytest.raises(lw.InputError, match=words):
        lw.compare_data(run, specfem_files(run, tmp_path / "d", change=change))


@pytest.mark.parametrize("options", [{}, {"locking": True}, {"mode": "r+"}, {"driver": "core", "backing_store": False}])
def test_results_are_read_while_h5py_has_them_open(run, options):
    path = run / "seismograms.h5"
    with h5py.File(path, **{"mode": "r", **options}) as file:
        found = lw.load_seismograms(run)
        assert file.id.valid
        again = lw.load_seismograms(run)
    np.testing.assert_array_equal(found.data, again.data)
