"""seismograms.h5: what is written comes back, also half-way, after a kill, and when the disk is full."""

import errno
import os
import warnings
from types import SimpleNamespace

import h5py
import numpy as np
import pytest

from lithowave import InputError, LithowaveWarning, OutputError
from lithowave.output import SeismogramWriter, attributes_of, load_seismograms, standard_attributes
from lithowave.output import files as hdf5
from small_machine import limit_disk, limit_files

INTERVAL = 0.025


def receivers(count=4):
    return [
        SimpleNamespace(network="XX", station=f"S{k:02d}", position=(100.0 * k, -5.0, -k), where=f"receivers[{k}]")
        for k in range(count)
    ]


def sources():
    return [
        SimpleNamespace(name="a", position=(0, 0, -2000.0), moment=(0, 0, 0, 1e18, 0, 0), force=None),
        SimpleNamespace(name="b", position=(0, 300.0, -1000.0), moment=None, force=(0, 0, 1e10)),
    ]


def blocks(count=4, samples=100, dtype=np.float32, seed=1):
    random = np.random.default_rng(seed)
    return {
        "motion": random.normal(size=(count, 3, samples)).astype(dtype),
        "stress": random.normal(size=(count, 6, samples)).astype(dtype),
        "pressure": random.normal(size=(count, samples)).astype(dtype),
    }


def piece(block, start, stop):
    return {name: values[..., start:stop] for name, values in block.items()}


def writer_at(path, samples=100, **keywords):
    return SeismogramWriter(path, receivers(), INTERVAL, samples, "velocity", sources=sources(), **keywords)


@pytest.mark.parametrize(("precision", "dtype"), [("single", np.float32), ("double", np.float64)])
def test_everything_written_comes_back(tmp_path, precision, dtype):
    block = blocks(dtype=dtype)
    attributes = standard_attributes("LOH.1", (-117.76, 33.95), "2008-07-29T18:42:15.710000")
    with writer_at(
        tmp_path / "seismograms.h5", stress=True, pressure=True, precision=precision, attributes=attributes
    ) as writer:
        for start in range(0, 100, 40):
            writer.write(start, piece(block, start, min(start + 40, 100)))
    read = load_seismograms(tmp_path)
    for name, values in (("motion", read.data), ("stress", read.stress), ("pressure", read.pressure)):
        assert values.dtype == dtype
        assert np.array_equal(values, block[name])
    assert np.array_equal(read.time, np.arange(100) * INTERVAL)
    assert read.names == ["XX.S00", "XX.S01", "XX.S02", "XX.S03"]
    assert np.array_equal(read.positions[3], [300.0, -5.0, -3.0])
    assert (read.quantity, read.units, read.title) == ("velocity", "m/s", "LOH.1")
    assert read.geographic_origin == (-117.76, 33.95)
    assert read.origin_time == "2008-07-29T18:42:15.710000"
    assert read.complete
    assert read.sources.names == ["a", "b"]
    assert np.array_equal(read.sources.moments, [[0, 0, 0, 1e18, 0, 0], [0] * 6])
    assert np.array_equal(read.sources.forces, [[0] * 3, [0, 0, 1e10]])
    assert np.array_equal(read["XX.S02"], block["motion"][2])


def test_strain_is_kept_beside_stress(tmp_path):
    block = blocks()
    block["strain"] = 1e-6 * block["stress"]
    with writer_at(tmp_path / "seismograms.h5", stress=True, pressure=True, strain=True) as writer:
        writer.write(0, piece(block, 0, 60))
    with SeismogramWriter.resume(tmp_path / "seismograms.h5") as writer:
        with pytest.raises(ValueError, match="lacks strain"):
            writer.write(60, {name: block[name][..., 60:] for name in ("motion", "stress", "pressure")})
        writer.write(60, piece(block, 60, 100))
    read = load_seismograms(tmp_path)
    assert np.array_equal(read.strain, block["strain"]) and np.array_equal(read.stress, block["stress"])
    with h5py.File(tmp_path / "seismograms.h5") as file:
        assert file["strain"].attrs["units"] == "1"
        assert file["strain"].attrs["axes"] == file["stress"].attrs["axes"]
        assert "xx,yy,zz,xy,xz,yz" in file["strain"].attrs["axes"]
    writer_at(tmp_path / "seismograms.h5").close()
    assert load_seismograms(tmp_path).strain is None


def test_units_axes_and_origins_stand_on_the_file(tmp_path):
    writer_at(tmp_path / "s.h5", stress=True, pressure=True).close()
    with h5py.File(tmp_path / "s.h5") as file:
        names = {"units", "axes", "crs", "time_origin", "software_version", "sampling_interval"}
        assert names <= set(file.attrs) and file.attrs["components"] == "E,N,Z"
        units = {"motion": "m/s", "stress": "Pa", "pressure": "Pa", "time": "s", "receivers/position": "m"}
        for name, unit in (units | {"sources/moment": "N m"}).items():
            assert file[name].attrs["units"] == unit


def test_the_attributes_of_a_simulation():
    domain = SimpleNamespace(geographic_origin=(-117.76, 33.95))
    simulation = SimpleNamespace(title="A", domain=domain, origin_time="2008-07-29T18:42:15.710000Z", origin_delay=0.0)
    attributes = attributes_of(simulation)
    assert attributes["time_origin"] == "t = 0 s is 2008-07-29T18:42:15.710000 UTC, the origin time"
    assert attributes["start_time"] == attributes["origin_time"] and attributes["origin_delay"] == 0.0
    simulation.origin_delay = 3.5
    attributes = attributes_of(simulation)
    assert attributes["time_origin"] == "t = 0 s is 2008-07-29T18:42:12.210000 UTC, 3.5 s before the origin time"
    assert attributes["start_time"] == "2008-07-29T18:42:12.210000Z" and attributes["origin_delay"] == 3.5
    assert attributes["origin_time"] == "2008-07-29T18:42:15.710000Z"
    assert "+lat_0=33.95 +lon_0=-117.76" in attributes["crs"]
    domain.geographic_origin = simulation.origin_time = simulation.title = None
    attributes = attributes_of(simulation)
    assert "origin_time" not in attributes and "crs_longitude" not in attributes
    assert attributes["time_origin"] == "t = 0 s is 3.5 s before the origin time; its date is not known"
    assert "Cartesian" in attributes["crs"]


def test_files_of_earlier_versions_keep_their_start_time(tmp_path):
    """Their origin_time is the UTC time of t = 0; where the event lies on the time axis is unknown."""
    date = "2008-07-29T18:42:12"
    writer_at(tmp_path / "s.h5", attributes={"origin_time": date, "origin_delay": 3.0}).close()
    read = load_seismograms(tmp_path / "s.h5")
    assert (read.origin_time, read.origin_delay, read.start_time) == (date, 3.0, "2008-07-29T18:42:09.000000")
    with h5py.File(tmp_path / "s.h5", "a") as file:
        del file.attrs["origin_delay"], file.attrs["start_time"]
    with pytest.warns(LithowaveWarning, match="earlier version of lithowave, which stored the UTC time of t = 0"):
        read = load_seismograms(tmp_path / "s.h5")
    assert (read.origin_time, read.origin_delay, read.start_time) == (date, None, date)
    with h5py.File(tmp_path / "s.h5", "a") as file:
        del file.attrs["origin_time"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load_seismograms(tmp_path / "s.h5").start_time is None


def test_a_partial_file_gives_only_written_samples_while_it_is_open(tmp_path):
    block = blocks()
    with writer_at(tmp_path / "s.h5") as writer:
        assert load_seismograms(tmp_path / "s.h5").data.shape == (4, 3, 0)
        writer.write(0, piece(block, 0, 30))
        read = load_seismograms(tmp_path / "s.h5")
        assert read.data.shape == (4, 3, 30)
        assert len(read.time) == 30 and read.sample_count == 100 and not read.complete
        assert np.array_equal(read.data, block["motion"][..., :30])


def test_a_resumed_file_has_the_bytes_of_an_uninterrupted_one(tmp_path):
    block = blocks()
    with writer_at(tmp_path / "whole.h5") as writer:
        writer.write(0, piece(block, 0, 50))
        writer.write(50, piece(block, 50, 100))
    with writer_at(tmp_path / "parts.h5") as writer:
        writer.write(0, piece(block, 0, 50))
        writer.write(50, {"motion": np.full((4, 3, 20), 7.0)})
    with SeismogramWriter.resume(tmp_path / "parts.h5", 50) as writer:
        assert writer.samples_written == 50
        writer.write(50, piece(block, 50, 100))
    assert (tmp_path / "parts.h5").read_bytes() == (tmp_path / "whole.h5").read_bytes()


def test_resume_refuses_a_file_that_holds_too_little(tmp_path):
    writer_at(tmp_path / "s.h5").close()
    with pytest.raises(OutputError, match="contains 0 samples; the restart requires 10"):
        SeismogramWriter.resume(tmp_path / "s.h5", 10)
    with pytest.raises(OutputError, match="does not exist"):
        SeismogramWriter.resume(tmp_path / "other.h5")


@pytest.mark.parametrize("start", [10, 90, -1])
def test_blocks_that_leave_a_gap_or_overrun_are_refused(tmp_path, start):
    with writer_at(tmp_path / "s.h5") as writer:
        if start == 90:
            writer.write(0, piece(blocks(), 0, 90))
        with pytest.raises(ValueError, match="do not follow"):
            writer.write(start, piece(blocks(), 0, 20))


def test_a_failure_while_overwriting_leaves_only_what_lies_before(tmp_path, monkeypatch):
    writer = writer_at(tmp_path / "s.h5")
    writer.write(0, piece(blocks(), 0, 50))
    write, calls = os.pwrite, []

    def full_after_the_second(*arguments):
        calls.append(arguments)
        if len(calls) > 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(*arguments)

    monkeypatch.setattr(hdf5.os, "pwrite", full_after_the_second)
    with pytest.raises(OutputError, match="is full.*first 20 samples"):
        writer.write(20, piece(blocks(seed=9), 20, 60))
    monkeypatch.undo()
    read = load_seismograms(tmp_path / "s.h5")
    assert np.array_equal(read.data, blocks()["motion"][..., :20])


def test_writes_that_the_system_cuts_short_are_completed(tmp_path, monkeypatch):
    write = os.pwrite
    monkeypatch.setattr(hdf5.os, "pwrite", lambda file, data, place: write(file, data[:7], place))
    with writer_at(tmp_path / "s.h5") as writer:
        writer.write(0, piece(blocks(), 0, 50))
    assert np.array_equal(load_seismograms(tmp_path / "s.h5").data, blocks()["motion"][..., :50])


def test_earlier_samples_outlive_a_full_disk(tmp_path):
    """The samples of the receivers are stored one after the other: the limit cuts off those of the later ones."""
    path = tmp_path / "s.h5"
    with SeismogramWriter(path, receivers(40), 0.1, 20_000, "velocity") as writer:
        writer.write(0, {"motion": np.ones((40, 3, 1000), np.float32)})
        words = r"is full.*samples \(to t = 99\.9 s\) remain readable"
        with limit_files(3_000_000), pytest.raises(OutputError, match=words):
            for start in range(1000, 20_000, 500):
                writer.write(start, {"motion": np.ones((40, 3, 500), np.float32)})
    assert load_seismograms(path).data.shape == (40, 3, 1000)
    with SeismogramWriter.resume(path) as writer:
        assert writer.samples_written == 1000


def test_too_little_room_is_refused_before_anything_is_written(tmp_path, monkeypatch):
    limit_disk(monkeypatch, 1000)
    with pytest.raises(OutputError, match=r"requires 4.8 kB of disk space, 1 kB are free"):
        writer_at(tmp_path / "s.h5")
    assert not (tmp_path / "s.h5").exists()


def test_a_folder_that_cannot_be_made_is_an_output_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be written"):
        writer_at(tmp_path / "file" / "s.h5")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is damaged or not"), (b"no HDF5 at all", "is damaged or not"),
        (b"\x89HDF\r\n\x1a\n" + bytes(50), "is damaged or not"), (None, "is not a lithowave seismogram file"),
    ],
)  # fmt: skip
def test_damaged_and_foreign_files_are_named(tmp_path, content, words):
    path = tmp_path / "seismograms.h5"
    if content is None:
        h5py.File(path, "w").close()
    else:
        path.write_bytes(content)
    with pytest.raises(OutputError, match=f"seismograms.h5: .*{words.removeprefix('is ')}"):
        load_seismograms(tmp_path)
    path.unlink()
    with pytest.raises(OutputError, match="contains no seismograms.h5; expected a run folder"):
        load_seismograms(tmp_path)


def test_an_unknown_receiver_or_quantity_is_refused(tmp_path):
    writer_at(tmp_path / "s.h5").close()
    with pytest.raises(InputError, match=r"'XX.S2'.*did you mean XX.S02\?"):
        load_seismograms(tmp_path / "s.h5")["XX.S2"]
    with pytest.raises(InputError, match="one of displacement, velocity, acceleration"):
        SeismogramWriter(tmp_path / "s.h5", receivers(), INTERVAL, 10, "speed")


def test_source_table_sums_moments_and_weights_the_centroid(tmp_path):
    points = [
        SimpleNamespace(name="", position=(0.0, 0.0, -1000.0), moment=(0, 0, 0, 1e17, 0, 0), force=None),
        SimpleNamespace(name="", position=(400.0, 0.0, -1000.0), moment=(0, 0, 0, 3e17, 0, 0), force=None),
    ]
    with SeismogramWriter(tmp_path / "s.h5", receivers(), INTERVAL, 10, "velocity", sources=points):
        pass
    table = load_seismograms(tmp_path / "s.h5").sources
    assert np.allclose(table.scalar_moments, [1e17, 3e17])
    assert np.allclose(table.centroid, [300.0, 0.0, -1000.0])
    assert table.moment_magnitude == pytest.approx(2 / 3 * (np.log10(4e17) - 9.1))
