"""ASDF files as pyasdf, ObsPy and lithowave read them: samples, times, event and stations."""

from __future__ import annotations

import warnings
from dataclasses import replace
from types import SimpleNamespace

import h5py
import numpy as np
import pytest

import lithowave as lw
from geographic_runs import described
from lithowave.output import (
    Seismograms,
    SourceTable,
    event_id,
    is_asdf,
    is_observed,
    open_file,
    read_observed,
    write_asdf,
)
from lithowave.readers import is_hdf5, open_hdf5, read_stationxml
from small_run import report_of, write_small

START = "2008-07-29T18:42:15.710123"
POSITIONS = np.array([[3000.0, 4000.0, 0.0], [3000.5, 4000.0, -150.0], [-1000.0, 0.0, -50.0]])
MOMENT = (1e17, -2e17, 3e17, 4e17, 5e17, -6e17)


def seismograms(interval=0.0125, dtype=np.float32, **changes):
    random = np.random.default_rng(2)
    points = [
        SimpleNamespace(name="", position=(0.0, 1000.0, -14700.0), moment=MOMENT, force=None),
        SimpleNamespace(name="", position=(0.0, 1000.0, -14700.0), moment=MOMENT, force=None),
    ]
    made = Seismograms(
        time=np.arange(300) * interval, data=random.normal(size=(3, 3, 300)).astype(dtype),
        networks=["CI", "CI", "XX"], stations=["CHN", "CHN", "S01"], locations=["00", "10", ""], positions=POSITIONS,
        quantity="velocity", units="m/s", sampling_interval=interval, sample_count=300, origin_time=START,
        origin_delay=2.0, geographic_origin=(-117.761, 33.953), sources=SourceTable.from_points(points), title="A & B",
    )  # fmt: skip
    return replace(made, **changes)


@pytest.fixture
def pyasdf():
    return pytest.importorskip("pyasdf")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_pyasdf_reads_samples_times_event_and_stations(pyasdf, tmp_path, dtype):
    obspy = pytest.importorskip("obspy")
    run = seismograms(dtype=dtype)
    (path,) = write_asdf(run, tmp_path / "asdf")
    with warnings.catch_warnings():
        warnings.simplefilter("error", pyasdf.exceptions.ASDFWarning)
        with pyasdf.ASDFDataSet(str(path), mode="r", mpi=False) as data:
            assert data.asdf_format_version == "1.0.3"
            assert data.waveforms.list() == ["CI.CHN", "XX.S01"]
            (event,) = data.events
            for station, rows in (("CI.CHN", (0, 1)), ("XX.S01", (2,))):
                stream = data.waveforms[station].synthetic
                assert len(stream) == 3 * len(rows)
                for row in rows:
                    for component, letter in enumerate("ENZ"):
                        (trace,) = stream.select(location=run.locations[row], channel=f"HX{letter}")
                        assert np.array_equal(trace.data, run.data[row, component]) and trace.data.dtype == dtype
                        assert trace.stats.delta == 0.0125
                        assert abs(trace.stats.starttime - obspy.UTCDateTime(run.start_time)) < 1e-6
                        assert trace.stats.asdf.event_ids == [event.resource_id]
            stations = {name: data.waveforms[name].StationXML for name in data.waveforms.list()}
    check_event(event, run)
    sensors = stations["CI.CHN"][0][0].channels
    found = [(one.code, one.location_code, one.depth) for one in sensors[::3]]
    assert found == [("HXE", "00", 0.0), ("HXE", "10", 150.0)]
    assert [(one.azimuth, one.dip) for one in sensors[:3]] == [(90.0, 0.0), (0.0, 0.0), (0.0, -90.0)]
    inventory = stations["CI.CHN"] + stations["XX.S01"]
    simulation = described(crs={"longitude": -117.761, "latitude": 33.953}, receivers=inventory)
    assert [one.name for one in simulation.receiver_list()] == run.names
    for receiver, position in zip(simulation.receiver_list(), POSITIONS, strict=True):
        assert receiver.position == pytest.approx(tuple(position), abs=1e-6)


def check_event(event, run):
    (origin,), (mechanism,), (magnitude,) = event.origins, event.focal_mechanisms, event.magnitudes
    assert abs(origin.time - 2.0 - type(origin.time)(run.start_time)) < 1e-6 and origin.depth == 14700.0
    domain = described(crs={"longitude": -117.761, "latitude": 33.953}).domain
    assert domain.to_local(origin.longitude, origin.latitude) == pytest.approx((0.0, 1000.0), abs=1e-6)
    found, (xx, yy, zz, xy, xz, yz) = mechanism.moment_tensor, 2.0 * np.array(MOMENT)
    assert (found.tensor.m_rr, found.tensor.m_tt, found.tensor.m_pp) == (zz, yy, xx)
    assert (found.tensor.m_rt, found.tensor.m_rp, found.tensor.m_tp) == (-yz, xz, -xy)
    assert found.scalar_moment == pytest.approx(run.sources.scalar_moments.sum())
    assert (magnitude.magnitude_type, magnitude.mag) == ("Mw", run.sources.moment_magnitude)
    assert event.event_descriptions[0].text == "A & B" and str(event.resource_id) == event_id(run)


def test_the_event_and_the_stations_are_valid_documents(tmp_path):
    """QuakeML and StationXML against the schemas that ObsPy contains."""
    pytest.importorskip("obspy")
    from obspy.io.quakeml.core import _validate as validate_event
    from obspy.io.stationxml.core import validate_stationxml

    (path,) = write_asdf(seismograms(), tmp_path)
    with h5py.File(path) as file:
        (tmp_path / "event.xml").write_bytes(file["QuakeML"][:].tobytes())
        (tmp_path / "station.xml").write_bytes(file["Waveforms/CI.CHN/StationXML"][:].tobytes())
    assert validate_event(str(tmp_path / "event.xml"), verbose=True)
    assert validate_stationxml(str(tmp_path / "station.xml"))[0]
    table = read_stationxml(tmp_path / "station.xml")
    assert [(record.location, record.burial) for record in table.records] == [("00", 0.0), ("10", 150.0)]


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_files_that_the_process_has_open(tmp_path, mode):
    """HDF5 does not open a file by name in another mode, or with another lock."""
    (path,) = write_asdf(seismograms(), tmp_path)
    with h5py.File(path, mode):
        assert is_asdf(path) and is_observed(path)
        assert len(read_observed(path)[0]) == 9
        with open_file(path) as file:
            assert "Waveforms" in file
        with open_hdf5(path) as file:
            assert "Waveforms" in file
    damaged = tmp_path / "damaged.h5"
    damaged.write_bytes(path.read_bytes()[:3000])
    assert is_hdf5(damaged) and not is_asdf(damaged)
    with pytest.raises(lw.OutputError, match="damaged or not an HDF5 file: .*truncated"):
        open_file(damaged)
    with h5py.File(tmp_path / "block.h5", "w", userblock_size=1024):
        pass
    assert is_hdf5(tmp_path / "block.h5")


def test_depths_count_from_the_ground(tmp_path):
    (path,) = write_asdf(seismograms(), tmp_path, ground=np.array([120.0, 120.0, -40.0]))
    with h5py.File(path) as file:
        (tmp_path / "station.xml").write_bytes(file["Waveforms/CI.CHN/StationXML"][:].tobytes())
    table = read_stationxml(tmp_path / "station.xml")
    assert [(record.burial, record.elevation) for record in table.records] == [(120.0, 120.0), (270.0, 120.0)]


def test_a_run_writes_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    crs = ("z: [-800, 0]}", "z: [-800, 0], crs: {longitude: -117.76, latitude: 33.95}}")
    simulation = lw.Simulation.from_file(write_small(tmp_path, ("formats: []", "formats: [asdf]"), crs))
    result = simulation.run()
    assert report_of(result.directory)["exit_state"] == "finished"
    traces, _ = read_observed(result.directory / "asdf" / "seismograms.h5")
    codes = {trace.code: trace for trace in traces}
    for row, name in enumerate(result.seismograms.names):
        assert np.array_equal(codes[f"{name}..BXN"].data, result.seismograms.data[row, 1])
    text = lw.Simulation.from_file(write_small(tmp_path, ("formats: []", "formats: [asdf]"))).warnings()
    assert any("ASDF files contain waveforms, but no QuakeML and StationXML" in warning for warning in text)


DAMAGED = {
    "no waveforms": lambda file: file.__delitem__("Waveforms"),
    "no rate": lambda file: next(iter(file["Waveforms/XX.S01"].values())).attrs.__delitem__("sampling_rate"),
    "rate of zero": lambda file: next(iter(file["Waveforms/XX.S01"].values())).attrs.__setitem__("sampling_rate", 0.0),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_refused(tmp_path, name):
    (path,) = write_asdf(seismograms(geographic_origin=None), tmp_path)
    with h5py.File(path, "a") as file:
        DAMAGED[name](file)
    with pytest.raises(lw.OutputError, match=r"seismograms\.h5: is damaged or not an ASDF file"):
        read_observed(path)
