"""What is given on the Earth follows true North: results do not depend on the origin of the projection."""

from __future__ import annotations

import json

import h5py
import numpy as np
import pytest

import lithowave as lw
from exact_solutions.full_space import full_space_force, full_space_moment
from lithowave.faults import planar_rupture
from lithowave.output import azimuth, component, radial_direction, write_sac
from lithowave.projection import convergence, projection_text, transformer, turned
from lithowave.readers import write_srf

PLACE = (-117.0, 37.0)
NEAR, FAR = PLACE, (-118.69, 37.0)  # origins: at the place, where grid North is true, and 150 km from it
SHAPE = {"gaussian": {"sigma": 3.0, "delay": 12.0}}
TIMES = np.arange(0.0, 30.0, 0.5)
MEDIUM = {"vp": 6000.0, "vs": 3500.0, "rho": 2700.0}
STATIONS = (("A", -116.9, 37.05), ("B", -117.05, 37.09), ("C", -117.08, 36.94))

CMT = """PDE 2008  7 29 18 42 15.00  37.0000 -117.0000  10.0 5.4 5.4 SOMEWHERE
event name:     somewhere
time shift:      0.0000
half duration:   4.0000
latitude:       37.0000
longitude:    -117.0000
depth:          10.0000
Mrr:       7.780000e+23
Mtt:      -1.200000e+24
Mpp:       4.190000e+23
Mrt:      -2.000000e+23
Mrp:       6.010000e+23
Mtp:      -3.890000e+23
"""
FORCE = """FORCE  001
time shift:     0.0
half duration:  4.0
latorUTM:       37.0
longorUTM:      -117.0
depth:          10.0
source time function: 0
factor force source:             1.e12
component dir vect source E:     1.0
component dir vect source N:     0.5
component dir vect source Z_UP:  0.2
"""


def described(origin, sources, receivers, **changes):
    x, y = transformer(projection_text(*origin)).transform(*PLACE)
    domain = {"x": [x - 20e3, x + 20e3], "y": [y - 20e3, y + 20e3], "z": [-24e3, 0.0]}
    return lw.Simulation(
        domain=domain | {"crs": dict(zip(("longitude", "latitude"), origin, strict=True))},
        material={"homogeneous": MEDIUM}, sources=sources, receivers=receivers,
        **{"duration": 30.0, "solver": {"method": "finite_difference", "spacing": 1000.0}, **changes},
    )  # fmt: skip


def motion(simulation):
    """The exact displacement (n_receivers, 3, n) in a full space, along the axes of the components."""
    found, shape = [], lw.TimeFunction(**SHAPE)
    for receiver in simulation.receiver_list():
        total = np.zeros((3, len(TIMES)))
        for one in simulation.point_sources():
            exact, strength = (full_space_force, one.force) if one.moment is None else (full_space_moment, one.moment)
            total += exact(receiver.position, one.position, strength, shape, TIMES, **MEDIUM)
        found.append(turned(total[None], [-receiver.convergence if receiver.geographic else 0.0])[0])
    return np.array(found)


def change(first, second):
    """The largest relative difference of the motion of a receiver."""
    return max(np.linalg.norm(a - b) / np.linalg.norm(a) for a, b in zip(first, second, strict=True))


def stations_file(kind, folder):
    if kind == "STATIONS":
        path, lines = folder / "STATIONS", [f"{name} XX {lat} {lon} 0 0" for name, lon, lat in STATIONS]
    elif kind == "csv":
        path = folder / "r.csv"
        lines = ["station,longitude,latitude", *(f"{name},{lon},{lat}" for name, lon, lat in STATIONS)]
    elif kind == "utm":
        places = [transformer("EPSG:32611").transform(lon, lat) for _, lon, lat in STATIONS]
        path = folder / "utm.csv"
        lines = ["station,x,y", *(f"{row[0]},{x},{y}" for row, (x, y) in zip(STATIONS, places, strict=True))]
    else:
        path, form = folder / "stations.xml", "<Latitude>{}</Latitude><Longitude>{}</Longitude><Elevation>0</Elevation>"
        sites = [(name, form.format(lat, lon)) for name, lon, lat in STATIONS]
        channel = '<Channel code="BHN" locationCode="">{}<Depth>0</Depth><Azimuth>5</Azimuth><Dip>0</Dip></Channel>'
        bodies = [
            f'<Station code="{name}">{place}<Site><Name>a</Name></Site>{channel.format(place)}</Station>'
            for name, place in sites
        ]
        lines = [
            '<?xml version="1.0"?><FDSNStationXML xmlns="http://www.fdsn.org/xml/station/1" schemaVersion="1.1">',
            "<Source>a</Source><Created>2020-01-01T00:00:00</Created>",
            f'<Network code="XX">{"".join(bodies)}</Network></FDSNStationXML>',
        ]
    path.write_text("\n".join(lines) + "\n")
    return path


def receivers_of(kind, folder):
    if kind == "points":
        return [{"name": name, "longitude": lon, "latitude": lat} for name, lon, lat in STATIONS]
    path = stations_file(kind, folder)
    return [{"file": path, **({"crs": "EPSG:32611"} if kind == "utm" else {})}]


def sources_of(kind, folder):
    point = {"longitude": PLACE[0], "latitude": PLACE[1], "depth": 10e3, "time_function": SHAPE}
    if kind == "srf":
        fault = planar_rupture(
            strike=30.0, dip=60.0, rake=20.0, length=8e3, width=6e3, top_depth=6e3, mw=5.8, subfaults=(4, 3),
            vs=MEDIUM["vs"], density=MEDIUM["rho"], longitude=PLACE[0], latitude=PLACE[1],
        )  # fmt: skip
        write_srf(fault, folder / "fault.srf")
        return [{"file": folder / "fault.srf"}]
    if kind in ("CMTSOLUTION", "FORCESOLUTION"):
        (folder / kind).write_text(CMT if kind == "CMTSOLUTION" else FORCE)
        return [{"file": folder / kind}]
    if kind in ("quakeml", "obspy"):
        obspy = pytest.importorskip("obspy")
        (folder / "CMTSOLUTION").write_text(CMT)
        catalog = obspy.read_events(str(folder / "CMTSOLUTION"))
        catalog.write(str(folder / "event.xml"), format="QUAKEML")
        return [{"file": folder / "event.xml", "time_function": SHAPE}] if kind == "quakeml" else catalog
    mechanisms = {
        "strike": {"double_couple": {"strike": 20, "dip": 70, "rake": 30, "mw": 5}},
        "xyz": {"moment_tensor": {"xx": 1e17, "xy": 2e17, "yz": -1e17, "zz": 3e16}},
        "rtp": {"moment_tensor": {"rr": 1e17, "tp": 2e17, "rt": -1e17, "pp": 3e16}},
        "force": {"force": [1e12, 0.5e12, 0.2e12]},
    }
    return [point | mechanisms[kind]]


KINDS = ("strike", "xyz", "rtp", "force", "CMTSOLUTION", "FORCESOLUTION", "quakeml", "obspy", "srf")


@pytest.mark.parametrize("kind", KINDS)
def test_mechanisms_do_not_depend_on_the_origin(kind, tmp_path):
    """Motion changes by 0.02 to 0.09%; along the grid by 0.8 to 8.7%, and with only one of the turns by 1.7 to 10%."""
    sources, receivers = sources_of(kind, tmp_path), receivers_of("points", tmp_path)
    near, far = (described(origin, sources, receivers) for origin in (NEAR, FAR))
    assert all(one.geographic for one in far.point_sources())
    assert change(motion(near), motion(far)) < 1e-3


@pytest.mark.parametrize("kind", ["STATIONS", "csv", "utm", "xml"])
def test_components_do_not_depend_on_the_origin(kind, tmp_path):
    sources = sources_of("strike", tmp_path)
    near, far = (described(origin, sources, receivers_of(kind, tmp_path)) for origin in (NEAR, FAR))
    assert change(motion(near), motion(far)) < 1e-3
    same = described(FAR, sources, receivers_of("points", tmp_path))
    assert change(motion(same), motion(far)) < 1e-6


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Runs with both origins, with stresses, and one with the receivers in meters of the grid."""
    found = {}
    for name, origin in (("near", NEAR), ("far", FAR), ("grid", FAR)):
        folder = tmp_path_factory.mktemp(name)
        receivers = receivers_of("points", folder)
        if name == "grid":
            x, y = transformer(projection_text(*origin)).transform(*np.transpose([row[1:] for row in STATIONS]))
            receivers = [{"name": row[0], "position": [*at, 0.0]} for row, *at in zip(STATIONS, x, y, strict=True)]
        simulation = described(
            origin, sources_of("strike", folder), receivers, output={"stress": True, "sampling_interval": 0.5}
        )
        found[name] = simulation.run(output=folder / "run", precision="double").directory
    return found


def test_a_run_does_not_depend_on_the_origin(runs):
    """Motion changes by 0.05% and stress by 0.11%; components along the grid change by 1.6%."""
    near, far = (lw.load_seismograms(runs[name]) for name in ("near", "far"))
    assert change(near.data, far.data) < 1e-3
    assert change(near.stress, far.stress) < 2e-3
    assert change(near.data, far.along_grid().data) > 1e-2
    assert far.geographic.all() and not far.north_azimuth.any()
    angles = [float(convergence(projection_text(*FAR), *place)) for _, *place in STATIONS]
    assert far.convergence == pytest.approx(angles)
    assert lw.compare_runs(runs["far"], runs["near"], wavelets=False).overall_l2 < 1e-3
    assert np.abs(azimuth(near) - azimuth(far)).max() < 0.03
    assert np.abs(radial_direction(near) - radial_direction(far)).max() < 0.03
    assert change(component(near, "R")[:, None], component(far, "R")[:, None]) < 2e-3


def test_receivers_in_meters_follow_the_grid_and_comparisons_true_north(runs, tmp_path):
    far, grid = (lw.load_seismograms(runs[name]) for name in ("far", "grid"))
    assert not grid.geographic.any() and grid.north_azimuth == pytest.approx(grid.convergence)
    assert change(far.along_grid().data, grid.data) < 1e-9
    assert change(component(far, "T")[:, None], component(grid, "T")[:, None]) < 1e-9
    compared = lw.compare_runs(runs["grid"], runs["far"], wavelets=False)
    assert compared.overall_l2 < 1e-9 and any("true East and North" in note for note in compared.notes)
    obspy = pytest.importorskip("obspy")
    observed = lw.compare_data(runs["grid"], far.stream(), origin_time="1970-01-01")
    assert max(station.relative_l2 for station in observed.stations) < 2e-4
    for run, angle in ((far, 0.0), (grid, grid.convergence[0])):
        east, north, up = (obspy.read(str(path))[0].stats.sac for path in write_sac(run, tmp_path)[:3])
        assert (east.cmpaz, north.cmpaz, up.cmpinc) == pytest.approx((90.0 + angle, angle, 0.0), abs=1e-4)


def test_files_state_the_axes(runs):
    with h5py.File(runs["far"] / "seismograms.h5") as file:
        assert "receivers/geographic" in file.attrs["component_axes"]
        assert file["receivers/geographic"][:].tolist() == [1, 1, 1]
        assert file["receivers/convergence"][:] == pytest.approx(1.02, abs=0.07)
        moment = lw.DoubleCouple(strike=20, dip=70, rake=30, mw=5).components
        assert file["sources/moment"][0] == pytest.approx(moment) and file["sources/geographic"][0] == 1
    axes = json.loads((runs["grid"] / "run.json").read_text())["plan"]["axes"]
    assert (axes["sources"], axes["receivers"]) == ("true", "grid")
    assert axes["convergence_degrees"] == pytest.approx([0.968, 1.079], abs=1e-3)


def test_files_of_earlier_versions_are_along_the_grid(runs, tmp_path):
    path = tmp_path / "seismograms.h5"
    path.write_bytes((runs["far"] / "seismograms.h5").read_bytes())
    with h5py.File(path, "r+") as file:
        for group in ("receivers", "sources"):
            del file[group]["geographic"], file[group]["convergence"]
    old, new = lw.load_seismograms(path), lw.load_seismograms(runs["far"])
    assert old.north_azimuth == pytest.approx(new.convergence) and not old.sources.geographic.any()
    assert old.sources.convergence == pytest.approx(new.sources.convergence)


def test_mixed_axes_are_reported():
    mechanism = {"double_couple": {"strike": 20, "dip": 70, "rake": 30, "mw": 5}, "time_function": SHAPE}
    x, y = transformer(projection_text(*FAR)).transform(*PLACE)
    earth, grid = {"longitude": PLACE[0], "latitude": PLACE[1]}, {"position": [x, y, 0.0]}
    for source, receiver in ((earth, grid), (grid, earth), (earth, earth), (grid, grid)):
        source = source | {"depth": 5e3} if source is earth else {"position": [x, y, -5e3]}
        simulation = described(FAR, [source | mechanism], [{"name": "A"} | receiver])
        found = [text for text in simulation.warnings() if "along true East and North" in text]
        assert len(found) == (("position" in source) != ("position" in receiver))
        assert all("1.02°" in text and "sources[0]" in text and "receivers[0]" in text for text in found)
    simulation = described(NEAR, [earth | {"depth": 5e3} | mechanism], [{"name": "A", "position": [5e3, 0, 0]}])
    assert not [text for text in simulation.warnings() if "true East" in text]
    assert described(FAR, [{"position": [x, y, -5e3]} | mechanism], []).point_sources()[0].moment == pytest.approx(
        lw.DoubleCouple(**mechanism["double_couple"]).components
    )


def test_shots_on_the_earth_follow_true_north():
    source = {"position": [150e3, 0, -5e3], "force": [1e12, 0, 0], "time_function": SHAPE}
    shots = [{"longitude": -117.0, "latitude": 37.0, "depth": 5e3}, {"position": [150e3, 0, -5e3]}]
    survey = described(FAR, [source], receivers_of("points", None), survey={"shots": shots, "moving_receivers": True})
    (earth,), (grid,) = (shot.point_sources() for shot in survey.shots())
    assert earth.force == pytest.approx(turned(np.array([[1e12, 0.0, 0.0]]), [earth.convergence])[0], abs=1.0)
    assert earth.convergence == pytest.approx(1.017, abs=1e-3) and grid.force == (1e12, 0.0, 0.0)
    assert all(receiver.geographic for receiver in survey.shot(1).receiver_list())
