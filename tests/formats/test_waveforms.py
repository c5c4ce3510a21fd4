"""MiniSEED, SAC and Streams: samples, times, codes and headers as ObsPy reads them back."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from lithowave import InputError, OutputError
from lithowave.output import Seismograms, SourceTable, band_letter, check_names, write_miniseed, write_sac

ORIGIN_TIME = "2008-07-29T18:42:15.710000"


@pytest.fixture
def obspy():
    return pytest.importorskip("obspy")


def seismograms(interval=0.01, samples=300, dtype=np.float32, origin_time=ORIGIN_TIME, geographic=True):
    random = np.random.default_rng(2)
    point = SimpleNamespace(name="", position=(0.0, 0.0, -14700.0), moment=(0, 0, 0, 1e17, 0, 0), force=None)
    return Seismograms(
        time=np.arange(samples) * interval, data=random.normal(size=(2, 3, samples)).astype(dtype),
        networks=["CI", "XX"], stations=["CHN", "S01"], quantity="velocity", units="m/s", sampling_interval=interval,
        positions=np.array([[3000.0, 4000.0, 0.0], [-1000.0, 0.0, -50.0]]), sample_count=samples,
        origin_time=origin_time, geographic_origin=(-117.761, 33.953) if geographic else None,
        sources=SourceTable.from_points([point]),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("rate", "letter"),
    [
        (8000, "J"), (1000, "F"), (500, "C"), (100, "H"), (80, "H"), (79, "B"), (10, "B"), (5, "M"), (1, "L"),
        (0.5, "V"), (0.05, "U"), (0.005, "W"), (0.0005, "R"), (10 / (1 + 1e-15), "B"), (80 / (1 + 1e-15), "H"),
    ],
)  # fmt: skip
def test_the_band_letter_follows_the_sampling_rate(rate, letter):
    assert band_letter(1.0 / rate) == letter


def test_a_stream_has_codes_and_times(obspy):
    run = seismograms()
    stream = run.stream()
    assert [trace.id for trace in stream] == [f"{name}..HX{c}" for name in ("CI.CHN", "XX.S01") for c in "ENZ"]
    assert stream[4].stats.delta == 0.01 and np.array_equal(stream[4].data, run.data[1, 1])
    for time, start in ((ORIGIN_TIME, ORIGIN_TIME), (ORIGIN_TIME + "Z", ORIGIN_TIME), (None, "1970-01-01")):
        assert seismograms(origin_time=time).stream()[0].stats.starttime == obspy.UTCDateTime(start)


@pytest.mark.parametrize("interval", [0.01, 0.0125, 0.013, 0.004, 1.0 / 3.0, 2.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_miniseed_keeps_samples_interval_and_start(obspy, tmp_path, interval, dtype):
    run = seismograms(interval, dtype=dtype)
    paths = write_miniseed(run, tmp_path / "out")
    assert [path.name for path in paths] == ["CI.CHN.mseed", "XX.S01.mseed"]
    stream = obspy.read(str(paths[1]))
    assert [trace.stats.channel[1:] for trace in stream] == ["XE", "XN", "XZ"]
    for component, trace in enumerate(stream):
        assert np.array_equal(trace.data, run.data[1, component]) and trace.data.dtype == dtype
        assert trace.stats.delta == pytest.approx(interval, rel=1e-9)
        assert trace.stats.starttime == obspy.UTCDateTime(ORIGIN_TIME)


def test_sac_headers_with_a_geographic_origin(obspy, tmp_path):
    run = seismograms()
    paths = write_sac(run, tmp_path)
    assert [path.name for path in paths[:3]] == ["CI.CHN.HXE.sac", "CI.CHN.HXN.sac", "CI.CHN.HXZ.sac"]
    orientations = []
    for component, path in enumerate(paths[:3]):
        trace = obspy.read(str(path))[0]
        head = trace.stats.sac
        orientations.append((head.cmpaz, head.cmpinc))
        assert np.array_equal(trace.data, run.data[0, component])
        assert trace.stats.starttime == obspy.UTCDateTime(ORIGIN_TIME)
        assert trace.stats.delta == pytest.approx(0.01, rel=1e-7)
        assert (head.kstnm.strip(), head.knetwk.strip(), head.idep) == ("CHN", "CI", 7)
        assert (head.b, head.o) == (0.0, 0.0)
        assert (head.evlo, head.evla) == pytest.approx((-117.761, 33.953), abs=1e-5)
        assert head.evdp == pytest.approx(14.7)
        assert head.mag == pytest.approx(2 / 3 * (17 - 9.1), abs=1e-5)
        # 3 km east and 4 km north of the source
        assert head.dist == pytest.approx(5.0, rel=3e-3)
        assert head.az == pytest.approx(36.87, abs=0.2)
        assert (head.user0, head.user1, head.user2) == (3000.0, 4000.0, 0.0)
    assert orientations == [(90.0, 90.0), (0.0, 90.0), (0.0, 0.0)]
    head = obspy.read(str(paths[3]))[0].stats.sac
    assert (head.stlo, head.stla) == pytest.approx((-117.761 - 1.0 / 92.37, 33.953), abs=1e-4)
    assert head.stdp == 50.0


def test_sac_headers_without_a_geographic_origin(obspy, tmp_path):
    paths = write_sac(seismograms(geographic=False, origin_time="2020-01-01T00:00:00.000400"), tmp_path)
    trace = obspy.read(str(paths[0]))[0]
    head = trace.stats.sac
    assert "stla" not in head and "evla" not in head
    assert head.dist == pytest.approx(5.0)
    assert (head.az, head.baz) == pytest.approx((36.87, 216.87), abs=0.01)
    assert (head.b, head.o) == pytest.approx((4e-4, 4e-4))
    assert abs(trace.stats.starttime - obspy.UTCDateTime("2020-01-01T00:00:00.000400")) < 1e-6


def test_a_delayed_event_is_at_its_origin_time(obspy, tmp_path):
    """Sample 0 is `origin_delay` before the event, in SAC, MiniSEED and streams."""
    late = replace(seismograms(), origin_delay=3.0)
    begin = obspy.UTCDateTime(ORIGIN_TIME) - 3.0
    trace = obspy.read(str(write_sac(late, tmp_path / "sac")[0]))[0]
    head = trace.stats.sac
    reference = obspy.UTCDateTime(
        year=head.nzyear, julday=head.nzjday, hour=head.nzhour, minute=head.nzmin, second=head.nzsec,
        microsecond=1000 * head.nzmsec,
    )  # fmt: skip
    assert trace.stats.starttime == begin and reference + head.b == begin
    assert reference + float(head.o) == obspy.UTCDateTime(ORIGIN_TIME) and head.o == 3.0
    assert head.iztype == 9  # IB: the reference time is that of the first sample
    assert obspy.read(str(write_miniseed(late, tmp_path / "mseed")[0]))[0].stats.starttime == begin
    assert late.stream()[0].stats.starttime == begin
    assert obspy.read(str(write_sac(seismograms(), tmp_path / "plain")[0]))[0].stats.sac.iztype == 11  # IO
    unknown = obspy.read(str(write_sac(replace(late, origin_delay=None), tmp_path / "old")[0]))[0]
    assert "o" not in unknown.stats.sac and unknown.stats.starttime == obspy.UTCDateTime(ORIGIN_TIME)


def test_nothing_recorded_is_an_error(obspy, tmp_path):
    empty = replace(seismograms(), time=np.zeros(0), data=np.zeros((2, 3, 0), np.float32))
    for write in (write_miniseed, write_sac):
        with pytest.raises(OutputError, match="no sample has been recorded"):
            write(empty, tmp_path)


def receiver(network, station, where="receivers[1]"):
    return SimpleNamespace(network=network, station=station, where=where)


@pytest.mark.parametrize(
    ("network", "station", "formats", "message"),
    [
        ("XX", "TOOLONG", ["miniseed"], r"receivers\[1\]: station 'TOOLONG' has 7 characters.*at most 5"),
        ("XXX", "A", ["sac", "miniseed"], r"network 'XXX' has 3 characters.*allowed in MiniSEED: at most 2"),
        ("XX", "NINECHARS", ["sac"], r"allowed in SAC: at most 8"),
        ("XX", "A B", ["miniseed"], r"'A B' contains a character"),
        ("XX", "Ä", ["sac"], r"'Ä' contains a character"),
        ("XX", "A/B", ["sac"], r"'A/B' contains a character"),
    ],
)
def test_names_a_format_cannot_hold_are_refused(network, station, formats, message):
    with pytest.raises(InputError, match=message):
        check_names([receiver("XX", "OK", "receivers[0]"), receiver(network, station)], formats)
