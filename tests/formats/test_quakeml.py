"""QuakeML: events written by hand and by ObsPy, agreement with CMTSOLUTION, ObsPy objects, damaged files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lithowave as lw
from geographic_runs import described
from lithowave import InputError
from lithowave.description import DoubleCouple
from lithowave.projection import turned
from lithowave.readers import parse_quakeml, read_cmtsolutions, read_quakeml

DATA = Path(__file__).parents[1] / "data"
CHINO = DATA / "chino_hills_2008" / "CMTSOLUTION"
BOLIVIA = DATA / "bolivia_1994" / "CMTSOLUTION"

HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<q:quakeml xmlns="http://quakeml.org/xmlns/bed/1.2" xmlns:q="http://quakeml.org/xmlns/quakeml/1.2"
  xmlns:catalog="http://anss.org/xmlns/catalog/0.1">
<eventParameters publicID="smi:test/catalog">
"""
TAIL = "</eventParameters>\n</q:quakeml>\n"

EVENT = """<event catalog:eventid="1" publicID="smi:test/event/1">
  <description><text>A test</text><type>earthquake name</type></description>
  <preferredOriginID>smi:test/origin/hypo</preferredOriginID>
  <preferredMagnitudeID>smi:test/mag/w</preferredMagnitudeID>
  <preferredFocalMechanismID>smi:test/mechanism</preferredFocalMechanismID>
  <origin publicID="smi:test/origin/hypo">
    <time><value>2008-07-29T20:42:14.5+02:00</value><uncertainty>0.1</uncertainty></time>
    <latitude><value>33.9</value></latitude>
    <longitude><value>-117.8</value></longitude>
    <depth><value>13700</value></depth>
  </origin>
  <origin publicID="smi:test/origin/centroid">
    <time><value>2008-07-29T18:42:16.25Z</value></time>
    <latitude><value>33.949</value></latitude>
    <longitude><value>-117.766</value></longitude>
    <depth><value>15.5e3</value></depth>
  </origin>
  <origin publicID="smi:test/origin/other">
    <time><value>2001-01-01T00:00:00</value></time>
  </origin>
  <magnitude publicID="smi:test/mag/l"><mag><value>5.8</value></mag><type>ML</type></magnitude>
  <magnitude publicID="smi:test/mag/w"><mag><value>5.34</value></mag><type>Mw</type></magnitude>
  <focalMechanism publicID="smi:test/mechanism">
    <nodalPlanes preferredPlane="1">
      <nodalPlane1><strike><value>289</value></strike><dip><value>58</value></dip><rake><value>138</value></rake></nodalPlane1>
      <nodalPlane2><strike><value>45</value></strike><dip><value>55</value></dip><rake><value>40</value></rake></nodalPlane2>
    </nodalPlanes>
    <momentTensor publicID="smi:test/tensor">
      <derivedOriginID>smi:test/origin/centroid</derivedOriginID>
      <scalarMoment><value>1.29E17</value></scalarMoment>
      <tensor>
        <Mrr><value>7.78e16</value></Mrr><Mtt><value>-1.2e17</value></Mtt><Mpp><value>4.19e16</value></Mpp>
        <Mrt><value>-2e16</value></Mrt><Mrp><value>6.01e16</value></Mrp><Mtp><value>-3.89e16</value></Mtp>
      </tensor>
      <sourceTimeFunction><type>triangle</type><duration>2.28</duration></sourceTimeFunction>
    </momentTensor>
  </focalMechanism>
</event>
"""


def quakeml(*events):
    return HEAD + "".join(events) + TAIL


def without(text, start, end):
    """The text without the part from ``start`` to ``end``, both included."""
    first = text.index(start)
    return text[:first] + text[text.index(end, first) + len(end) :]


def without_all(text, start, end):
    while start in text:
        text = without(text, start, end)
    return text


def only(text):
    (event,) = parse_quakeml(text.encode())
    return event


def test_an_event_written_by_hand():
    event, chino = only(quakeml(EVENT)), read_cmtsolutions(CHINO)[0]
    np.testing.assert_allclose(event.moment, chino.moment, rtol=1e-14)
    assert (event.longitude, event.latitude, event.depth) == (chino.longitude, chino.latitude, chino.depth)
    assert (event.event_name, event.half_duration, event.line_number) == ("A test", 1.14, 5)
    # The origin time is that of the preferred origin; the centroid, from which the tensor is derived, is later.
    assert (event.origin_time, event.time_shift) == ("2008-07-29T18:42:14.500000Z", 1.75)


def test_origins_of_an_event():
    far = EVENT.replace("<derivedOriginID>smi:test/origin/centroid", "<derivedOriginID>smi:other/database")
    event = only(quakeml(far))
    assert (event.longitude, event.depth, event.time_shift) == (-117.8, 13700.0, 0.0)
    mechanism = '<focalMechanism publicID="smi:test/mechanism">'
    triggered = EVENT.replace(mechanism, mechanism + "<triggeringOriginID>smi:test/origin/other</triggeringOriginID>")
    assert only(quakeml(triggered)).origin_time == "2001-01-01T00:00:00.000000Z"


def test_nodal_planes_with_scalar_moment_or_magnitude():
    planes = without(EVENT, "<tensor>", "</tensor>")
    expected = DoubleCouple(strike=289, dip=58, rake=138, m0=1.29e17).components
    np.testing.assert_allclose(only(quakeml(planes)).moment, expected, rtol=1e-12, atol=1e3)
    magnitude = without(planes, "<scalarMoment>", "</scalarMoment>")
    expected = DoubleCouple(strike=289, dip=58, rake=138, mw=5.34).components
    np.testing.assert_allclose(only(quakeml(magnitude)).moment, expected, rtol=1e-12, atol=1e3)
    second = without(magnitude, "<nodalPlane1>", "</nodalPlane1>")
    expected = DoubleCouple(strike=45, dip=55, rake=40, mw=5.34).components
    np.testing.assert_allclose(only(quakeml(second)).moment, expected, rtol=1e-12, atol=1e3)


def test_a_catalog_and_encodings():
    other = EVENT.replace("smi:test/event/1", "smi:test/event/2").replace("A test", "Zweites Beben in Österreich")
    events = parse_quakeml(quakeml(EVENT, other).replace("UTF-8", "ISO-8859-1").encode("latin-1"))
    assert [event.event_name for event in events] == ["A test", "Zweites Beben in Österreich"]
    assert events[1].moment == events[0].moment and events[1].line_number > events[0].line_number
    assert parse_quakeml(quakeml(EVENT).replace("UTF-8", "UTF-16").encode("utf-16"))[0] == events[0]


def replaced(old, new, count=1):
    assert old in EVENT, old
    return quakeml(EVENT.replace(old, new, count))


PLANES = without(EVENT, "<tensor>", "</tensor>")
BOMB = '<!DOCTYPE lolz [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>\n'
DAMAGED = {
    "empty": ("", "the file is empty"),
    "cut": (quakeml(EVENT)[:2000], "not well-formed XML: .*check that the file is complete"),
    "entities": (quakeml(EVENT).replace("\n", "\n" + BOMB, 1), ":2: .*document type declaration"),
    "undefined entity": (replaced("A test", "&xxe;"), ":6: .*undefined entity"),
    "stations": ('<FDSNStationXML xmlns="http://www.fdsn.org/xml/station/1"/>', "root element is .*FDSNStationXML"),
    "other version": (quakeml(EVENT).replace("quakeml/1.2", "quakeml/1.1"), "root element is .*quakeml/1.1.*expected"),
    "deep": (HEAD + "<a>" * 10_000, "more than 100 nested elements"),
    "unknown encoding": (quakeml(EVENT).replace("UTF-8", "UTF-99"), "unknown encoding|cannot be decoded"),
    "no events": (quakeml(), "the document has no events"),
    "no origin": (quakeml(without_all(EVENT, "<origin", "</origin>")), "smi:test/event/1: origin: is missing"),
    "preferred origin elsewhere": (replaced("ID>smi:test/origin/hypo", "ID>smi:a"), "preferredOriginID: 'smi:a'"),
    "ambiguous origin": (quakeml(without(EVENT, "<preferredOriginID>", "</preferredOriginID>")),
                         "origin: the event has 3 elements of this kind, and preferredOriginID names none"),
    "rejected": (replaced("<depth>", "<evaluationStatus>rejected</evaluationStatus><depth>"), "'rejected'"),
    "wrong time": (replaced("2008-07-29T18:42:16.25Z", "2008-17-29"), r":16: .*time: '2008-17-29' is not a time"),
    "negative depth": (replaced("15.5e3", "-15.5"), "origin.depth: -15.5 m; must be at least 0 m"),
    "latitude": (replaced("33.949", "133.949"), "latitude: 133.949; must be at least -90 and at most 90"),
    "not a number": (replaced("-117.766", "west"), "origin.longitude: 'west' is not a finite number"),
    "component": (quakeml(without(EVENT, "<Mrp>", "</Mrp>")), "smi:test/event/1: tensor.Mrp: is missing"),
    "zero tensor": (quakeml(EVENT.replace("e16", "e-999").replace("1.2e17", "0")), "all components are zero"),
    "dyn cm": (quakeml(without(EVENT.replace("e16", "e23").replace("e17", "e24"), "<scalarMoment>", "</scalarMoment>")),
               "1.29e.24 N m, is Mw 10.01, while Mw is 5.34; .*1 dyn cm is 1e-7 N m"),
    "other moment": (replaced("1.29E17", "1.29e24"), "scalarMoment is 1.29e.24 N m; both must agree"),
    "no size": (quakeml(without(without(EVENT, "<tensor>", "</tensor>"), "<scalarMoment>", "</scalarMoment>")
                        .replace("<type>Mw<", "<type>mb<")), "neither a scalar moment nor a preferred magnitude Mw"),
    "no planes": (quakeml(without(without(EVENT, "<tensor>", "</tensor>"), "<nodalPlanes", "</nodalPlanes>")),
                  "neither a moment tensor nor a nodal plane"),
    "dip": (quakeml(PLANES.replace("<value>58", "<value>98")), "nodalPlane1.dip: 98 degrees"),
    "duration": (replaced("2.28", "-2.28"), "sourceTimeFunction.duration: -2.28 s; must be at least 0 s"),
    "negative moment": (quakeml(PLANES.replace("1.29E17", "-1.29E17")), "must be positive"),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_files_are_refused(tmp_path, name):
    text, pattern = DAMAGED[name]
    path = tmp_path / "event.xml"
    path.write_text(text)
    with pytest.raises(InputError, match=pattern) as refused:
        read_quakeml(path)
    assert str(refused.value).startswith(str(path))


@pytest.mark.parametrize("source", [CHINO, BOLIVIA])
def test_quakeml_of_obspy_agrees_with_cmtsolution(tmp_path, source):
    obspy = pytest.importorskip("obspy")
    # ObsPy takes the first five characters of the header as the catalog; the headers of these files have four.
    (tmp_path / "CMT").write_text(" " + source.read_text())
    catalog = obspy.read_events(str(tmp_path / "CMT"), format="CMTSOLUTION")
    catalog.write(str(tmp_path / "event.xml"), format="QUAKEML")
    (event,), (expected,) = read_quakeml(tmp_path / "event.xml"), read_cmtsolutions(source)
    np.testing.assert_allclose(event.moment, expected.moment, rtol=1e-14)
    for name in ("event_name", "origin_time", "time_shift", "half_duration", "longitude", "latitude", "depth"):
        assert getattr(event, name) == getattr(expected, name), name


def simulation(sources, **changes):
    return described({"longitude": -117.8, "latitude": 33.9}, sources=sources, **changes)


def signature(run):
    """What the solvers receive."""
    sources = run.point_sources()
    return [(source.name, source.position, source.moment, source.time_function.model_dump()) for source in sources]


def test_a_quakeml_file_is_a_source_like_a_cmtsolution(tmp_path):
    path = tmp_path / "event.xml"
    # The same times as in the CMTSOLUTION.
    text = EVENT.replace("2008-07-29T20:42:14.5+02:00", "2008-07-29T18:42:15Z").replace("18:42:16.25Z", "18:42:15Z")
    path.write_text(quakeml(text.replace("A test", "ci14383980")))
    quake, cmt = simulation([{"file": path}]), simulation([{"file": CHINO}])
    for (name, place, moment, function), (name2, place2, moment2, function2) in zip(
        signature(quake), signature(cmt), strict=True
    ):
        assert (name, place, function) == (name2, place2, function2)
        np.testing.assert_allclose(moment, moment2, rtol=1e-14)
    assert quake.origin_time == cmt.origin_time == "2008-07-29T18:42:15.000000Z"
    assert quake.origin_delay == cmt.origin_delay > 0.0 and quake.start_time == cmt.start_time
    assert quake.input_files() == [path]
    renamed = tmp_path / "event_without_suffix"
    renamed.write_bytes(path.read_bytes())
    assert signature(simulation([{"file": renamed}])) == signature(quake)


def test_events_of_several_times_and_of_unknown_duration_are_refused(tmp_path):
    path = tmp_path / "event.xml"
    path.write_text(quakeml(EVENT, EVENT.replace("2008-07-29T20", "2008-07-30T20")))
    with pytest.raises(InputError, match="time 0 is the same for all sources"):
        simulation([{"file": path}])
    path.write_text(quakeml(without(EVENT, "<sourceTimeFunction>", "</sourceTimeFunction>")))
    with pytest.raises(InputError, match="event.xml:5: A test does not state its duration.*give time_function"):
        simulation([{"file": path}])
    source = simulation([{"file": path, "time_function": {"triangle": {"half_duration": 1.0}}}]).point_sources()[0]
    assert source.time_function.support()[0] == pytest.approx(1.75)  # the centroid time begins the triangle
    path.write_text("<?xml version='1.0'?><a/>")
    with pytest.raises(InputError, match="root element is 'a'"):
        simulation([{"file": path}])
    path.write_text(quakeml(EVENT))
    with pytest.raises(InputError, match="longitude and latitude require the origin domain.crs"):
        simulation([{"file": path}], domain={"x": [-2e4, 2e4], "y": [-2e4, 2e4], "z": [-3e4, 0]})


@pytest.fixture
def catalog(tmp_path):
    """An ObsPy catalog of two events with one origin time."""
    obspy = pytest.importorskip("obspy")
    path = tmp_path / "events.xml"
    second = EVENT.replace("smi:test/", "smi:test/second/").replace("A test", "Second").replace("16.25Z", "17.25Z")
    path.write_text(quakeml(EVENT, second.replace("33.949", "33.95")))
    return obspy.read_events(str(path))


def test_obspy_objects_are_sources(tmp_path, catalog):
    path = tmp_path / "events.xml"
    from_file, from_catalog = simulation([{"file": path}]), simulation(catalog)
    assert signature(from_catalog) == signature(from_file) == signature(simulation([catalog]))
    assert from_catalog.origin_delay == from_file.origin_delay and from_catalog.start_time == from_file.start_time
    assert [source.name for source in from_catalog.point_sources()] == ["A test", "Second"]
    single = simulation([catalog[0]])
    assert [source.name for source in single.point_sources()] == ["A test"]
    assert signature(simulation(catalog[0])) == signature(single)
    assert len(simulation([{"events": [*single.sources[0].events] * 2}]).point_sources()) == 2


def test_a_simulation_with_obspy_objects_can_be_stored(catalog):
    original = simulation(catalog)
    text = original.to_yaml()
    again = lw.Simulation.from_text(text)
    assert again == original and signature(again) == signature(original) and again.to_yaml() == text
    assert again.start_time == original.start_time
    faster = original.with_overrides({"sources.0.events.1.moment_tensor.xy": 1e16, "duration": 5.0})
    changed = faster.point_sources()[1]
    assert turned(np.array([changed.moment]), [-changed.convergence])[0, 3] == pytest.approx(1e16)


def test_incomplete_obspy_objects_are_refused(catalog):
    event = catalog[0]
    event.focal_mechanisms = []
    with pytest.raises(InputError, match=r"^sources\[0\]: smi:test/event/1: focalMechanism: is missing"):
        simulation([event])
    with pytest.raises(InputError, match=r"^receivers"):
        simulation([], receivers=catalog)
    with pytest.raises(InputError, match=r"^domain: an ObsPy Event is not a group of keys"):
        simulation([], domain=event)


@pytest.mark.parametrize(
    "changes, pattern",
    [
        (
            {"origin_time": "today"},
            r"sources\[0\].events\[0\].origin_time: 'today' is not a time; expected for example",
        ),
        ({"depth": None}, r"sources\[0\].events\[0\].depth"),
        ({"half_duration": 0}, r"sources\[0\].events\[0\].half_duration"),
        ({"half_duration": None}, r"sources\[0\].events: B does not state its duration"),
        ({"moment_tensor": {"xy": 0}}, r"sources\[0\].events\[0\].moment_tensor: all components are zero"),
        ({"position": [0, 0, 0]}, r"sources\[0\].events\[0\].position: unknown key"),
    ],
)
def test_invalid_events(changes, pattern):
    event = {
        "name": "B", "origin_time": "2008-07-29T18:42:15Z", "longitude": -117.8, "latitude": 33.9, "depth": 8e3,
        "half_duration": 1.0, "moment_tensor": {"xy": 1e17},
    }  # fmt: skip
    assert simulation([{"events": [event]}]).point_sources()[0].moment[3] == 1e17
    with pytest.raises(InputError, match=pattern):
        simulation([{"events": [event | changes]}])


def test_events_beside_other_keys():
    event = {"origin_time": "2008-07-29T18:42:15Z", "longitude": -117.8, "latitude": 33.9, "depth": 8e3}
    event |= {"half_duration": 1.0, "moment_tensor": {"xy": 1e17}}
    for extra in ({"file": CHINO}, {"position": [0, 0, -1e3]}, {"force": [0, 0, 1]}):
        with pytest.raises(InputError, match="are both given"):
            simulation([{"events": [event]} | extra])
    with pytest.raises(InputError, match="events"):
        simulation([{"events": []}])
