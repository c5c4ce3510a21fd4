"""Geometry from SEG-Y trace headers: positions, units, shots, and headers that cannot be trusted."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from geographic_runs import described, message_of
from lithowave.output import Seismograms, SourceTable, write_segy
from lithowave.readers import read_segy_geometry, segy_receivers, segy_shots

segyio = pytest.importorskip("segyio")
FIELD = segyio.TraceField
SHOTS = [(-1000, 250), (-500, 250), (0, 250)]
GROUPS = [(100 * k, 250) for k in range(-20, 21)]


def write(path, shots=SHOTS, groups=GROUPS, scalar=-10, system=1, factor=10, **changes):
    """A file with a trace for each pair of a shot and a group, coordinates times `factor`."""
    spec = segyio.spec()
    spec.format, spec.tracecount, spec.samples = 5, len(shots) * len(groups), np.arange(4)
    with segyio.create(str(path), spec) as file:
        file.bin = {segyio.BinField.Interval: 2000, segyio.BinField.Samples: 4, segyio.BinField.Format: 5,
                    segyio.BinField.MeasurementSystem: system}  # fmt: skip
        pairs = [(number, shot, group) for number, shot in enumerate(shots, 101) for group in groups]
        for index, (number, shot, group) in enumerate(pairs):
            header = {
                FIELD.FieldRecord: number, FIELD.TraceIdentificationCode: 1, FIELD.CoordinateUnits: 1,
                FIELD.SourceGroupScalar: scalar, FIELD.ElevationScalar: -100, FIELD.SourceDepth: 500,
                FIELD.SourceX: round(shot[0] * factor), FIELD.SourceY: round(shot[1] * factor),
                FIELD.GroupX: round(group[0] * factor), FIELD.GroupY: round(group[1] * factor),
                FIELD.offset: round(group[0] - shot[0]), FIELD.ReceiverGroupElevation: -200,
            }  # fmt: skip
            file.header[index] = header | {getattr(FIELD, name): value for name, value in changes.items()}
            file.trace[index] = np.zeros(4, np.float32)
    return path


def test_shots_and_receivers_are_the_distinct_positions(tmp_path):
    path = write(tmp_path / "line.segy")
    shots, geometry = segy_shots(path)
    assert [(shot.name, shot.place, shot.z, shot.depth) for shot in shots] == [
        (str(number), place, -5.0, 5.0) for number, place in zip((101, 102, 103), SHOTS, strict=True)
    ]
    records = segy_receivers(path).records
    assert [record.horizontal for record in records] == GROUPS and {record.z for record in records} == {-2.0}
    assert [record.station for record in records[:2]] == ["R01", "R02"] and records[4].place == "line.segy, trace 5"
    signed = np.array([group[0] - shot[0] for shot in SHOTS for group in GROUPS])
    assert np.array_equal(geometry.offsets, signed) and geometry.notes == ()


def test_a_survey_has_one_shot_for_each_source_position(tmp_path):
    path = str(write(tmp_path / "line.sgy"))
    simulation = described(receivers=[{"file": path, "network": "AB"}], survey={"shots": {"file": path}})
    shots = list(simulation.shots())
    assert [shot.sources[0].position for shot in shots] == [(x, y, -5.0) for x, y in SHOTS]
    assert [shot.sources[0].name for shot in shots] == ["101", "102", "103"]
    assert [receiver.name for receiver in shots[1].receiver_list()][:2] == ["AB.R01", "AB.R02"]
    assert shots[1].receiver_list()[0].position == (-2000.0, 250.0, -2.0)
    surface = described(
        receivers=[{"file": path, "at_surface": True}], survey={"shots": {"file": path, "at_surface": True}}
    )
    assert surface.receiver_list()[0].position == (-2000.0, 250.0, 0.0)
    assert surface.shot(2).sources[0].position == (-500.0, 250.0, -5.0)


def test_each_shot_records_the_receivers_of_its_traces(tmp_path):
    """A spread of three groups that moves with the shot: of five receivers, each shot has three."""
    path = write(tmp_path / "line.segy", [(0, 0), (100, 0), (200, 0)], [(0, 0)] * 3)
    with segyio.open(str(path), "r+", ignore_geometry=True) as file:
        for trace in range(9):
            shot, group = divmod(trace, 3)
            file.header[trace].update({FIELD.GroupX: 1000 * (shot + group + 1), FIELD.offset: 100 * (group + 1)})
    point = {"name": "BASE", "position": [0, 0, 0]}
    simulation = described(receivers=[{"file": str(path)}, point], survey={"shots": {"file": str(path)}})
    assert [one.station for one in simulation.receiver_list()] == ["R1", "R2", "R3", "R4", "R5", "BASE"]
    for number, shot in enumerate(simulation.shots()):
        receivers = shot.receiver_list()
        assert [one.station for one in receivers] == [f"R{number + k}" for k in (1, 2, 3)] + ["BASE"]
        assert [one.position[0] for one in receivers[:3]] == [100.0 * (number + k) for k in (1, 2, 3)]
        assert shot.survey is None
    survey = {"shots": {"file": str(path)}, "moving_receivers": True}
    message = message_of(described, receivers=[{"file": str(path)}], survey=survey)
    assert "survey.moving_receivers: survey.shots[0] is a SEG-Y file" in message


def test_seismograms_of_lithowave_give_their_positions(tmp_path):
    positions = np.array([[3000.0, 4000.0, 0.0], [-1000.25, 0.5, -50.0], [12.345, -7.0, -120.5]])
    source = SimpleNamespace(name="", position=(0.0, 0.0, -1500.5), moment=(0, 0, 0, 1e17, 0, 0), force=None)
    run = Seismograms(
        time=np.arange(9) * 0.002, data=np.zeros((3, 3, 9), np.float32), networks=["CI"] * 3, stations=["A", "B", "C"],
        positions=positions, quantity="velocity", units="m/s", sampling_interval=0.002, sample_count=9,
        sources=SourceTable.from_points([source]),
    )  # fmt: skip
    path = write_segy(run, tmp_path)[0]
    records = segy_receivers(path).records
    assert np.array_equal([(*record.horizontal, record.z) for record in records], positions)
    (shot,), _ = segy_shots(path)
    assert (*shot.place, shot.z) == source.position


def test_seconds_of_arc_and_reference_systems(tmp_path):
    places = [(-117.7, 33.9), (-117.69, 33.91)]
    path = write(tmp_path / "arc.segy", [(-117.75, 33.9)], places, -100, factor=360_000, CoordinateUnits=2, offset=0)
    assert read_segy_geometry(path).geographic
    simulation = described(receivers=[{"file": str(path)}], survey={"shots": {"file": str(path)}})
    for receiver, place in zip(simulation.receiver_list(), places, strict=True):
        assert receiver.position[:2] == pytest.approx(simulation.domain.to_local(*place), abs=0.02)
    (shot,) = simulation.shot(1).point_sources()
    assert shot.position[:2] == pytest.approx(simulation.domain.to_local(-117.75, 33.9), abs=0.02)
    pyproj = pytest.importorskip("pyproj")
    utm = pyproj.Transformer.from_crs("EPSG:4326", "EPSG:32611", always_xy=True)
    groups = [utm.transform(*place) for place in places]
    path = write(tmp_path / "utm.segy", [groups[0]], groups, offset=0)
    simulation = described(receivers=[{"file": str(path), "crs": "EPSG:32611"}])
    for receiver, place in zip(simulation.receiver_list(), places, strict=True):
        assert receiver.position[:2] == pytest.approx(simulation.domain.to_local(*place), abs=0.1)


def test_feet_and_auxiliary_traces(tmp_path):
    path = write(tmp_path / "feet.segy", system=2)
    assert segy_receivers(path).records[0].horizontal == pytest.approx((-2000 * 0.3048, 250 * 0.3048))
    with segyio.open(str(path), "r+", ignore_geometry=True) as file:
        file.header[0].update({FIELD.TraceIdentificationCode: 4, FIELD.GroupX: 0, FIELD.GroupY: 0})
    table = segy_receivers(path)
    assert table.notes == ("1 auxiliary traces were omitted",) and len(table.records) == len(GROUPS)


DAMAGED = {
    "zero groups": (
        {"GroupX": 0, "GroupY": 0, "offset": 0},
        "the coordinates of all receiver groups (bytes 81-88) are 0, from trace 1",
    ),
    "zero": ({"GroupX": 0, "GroupY": 0, "SourceX": 0, "SourceY": 0, "offset": 0}, "(bytes 81-88) are 0"),
    "scalar of 0": ({"SourceGroupScalar": 0, "offset": 0}, "trace 1: the scalar of coordinates (bytes 71-72) is 0"),
    "scalar of 0, offsets": ({"SourceGroupScalar": 0}, "trace 1: the scalar of coordinates (bytes 71-72) is 0"),
    "wrong scalar": ({"SourceGroupScalar": 10}, "trace 1: offset -1000 m (bytes 37-40), positions 100000 m apart"),
    "wrong degrees": ({"CoordinateUnits": 3, "offset": 0}, "trace 1: source at longitude -1000, latitude 250"),
    "unit": ({"CoordinateUnits": 4}, "trace 1: the unit of coordinates (bytes 89-90) is 4"),
    "auxiliary": ({"TraceIdentificationCode": 5}, "all traces are auxiliary"),
    "outside": ({"SourceX": 10**9, "GroupX": 10**9, "offset": 0}, "XX.R1 (line.segy, trace 1): x = 100000000 m"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_headers_that_cannot_be_trusted_are_refused(tmp_path, name):
    changes, words = DAMAGED[name]
    path = write(tmp_path / "line.segy", **changes)
    message = message_of(described, receivers=[{"file": str(path)}])
    assert message.startswith("receivers[0].file: ") and words in message, message


def test_units_must_be_the_same_in_all_traces(tmp_path):
    path = write(tmp_path / "line.segy")
    with segyio.open(str(path), "r+", ignore_geometry=True) as file:
        file.header[9].update({FIELD.CoordinateUnits: 2})
    message = message_of(described, receivers=[{"file": str(path)}])
    assert "trace 10: the unit of coordinates (bytes 89-90) is 2, that of trace 1 is 1" in message


def test_a_file_of_headers_alone_is_refused(tmp_path):
    path = write(tmp_path / "line.segy")
    path.write_bytes(path.read_bytes()[:3600])
    assert "line.segy" in message_of(described, receivers=[{"file": str(path)}])


def test_keys_of_other_files_are_refused(tmp_path):
    path = str(write(tmp_path / "line.segy"))
    assert "it applies to StationXML" in message_of(described, receivers=[{"file": path, "time": "2020-01-01"}])
    shots = {"position": [0, 0, -10], "crs": "EPSG:32611"}
    assert "crs is given without a SEG-Y file" in message_of(described, survey={"shots": shots})


def swapped(path):
    """Exchange the bytes of all numbers of a file that `write` has made."""
    data = bytearray(path.read_bytes())
    header = np.frombuffer(bytes(data[3200:3600]), ">u2")  # 16-bit entries, and three of 32 bits at the beginning
    data[3200:3600] = header.astype("<u2").tobytes()
    data[3200:3212] = np.frombuffer(bytes(path.read_bytes()[3200:3212]), ">i4").astype("<i4").tobytes()
    size = 240 + 4 * 4
    longs = [0, 4, 8, 12, 16, 20, 24, 36, 40, 44, 48, 52, 56, 60, 64, 72, 76, 80, 84]
    for start in range(3600, len(data), size):
        trace = bytes(data[start : start + 240])
        data[start : start + 240] = np.frombuffer(trace, ">u2").astype("<u2").tobytes()
        for at in longs:
            data[start + at : start + at + 4] = trace[at : at + 4][::-1]
        samples = bytes(data[start + 240 : start + size])
        data[start + 240 : start + size] = np.frombuffer(samples, ">u4").astype("<u4").tobytes()
    path.write_bytes(bytes(data))


def test_little_endian_files(tmp_path):
    """Since revision 2 with a mark; before, the format of the samples shows the order."""
    path = write(tmp_path / "line.segy")
    expected = segy_receivers(path).records
    other = write(tmp_path / "little.segy")
    swapped(other)
    found = segy_receivers(other).records
    assert [(one.horizontal, one.z) for one in found] == [(one.horizontal, one.z) for one in expected]
    shots, geometry = segy_shots(other)
    assert [shot.place for shot in shots] == SHOTS and geometry.notes == ()


def test_offsets_that_disagree_and_sources_without_coordinates_are_told(tmp_path):
    path = write(tmp_path / "line.segy")
    with segyio.open(str(path), "r+", ignore_geometry=True) as file:
        file.header[6].update({FIELD.offset: 5000})
    text = f"receivers[0].file: {path}: 1 of 123 offsets disagree with the positions: trace 7, offset 5000 m"
    assert any(found.startswith(text) for found in described(receivers=[{"file": str(path)}]).warnings())
    write(path, SourceX=0, SourceY=0, offset=0)
    message = message_of(described, receivers=[], survey={"shots": {"file": str(path)}})
    assert message.startswith(f"survey.shots.file: {path}: SEG-Y geometry: the coordinates of all sources"), message
