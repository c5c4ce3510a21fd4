"""Figures of a chunk of the globe: projections, sections, travel times, turned mechanisms, the static offset."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from lithowave import InputError
from lithowave.figures import (
    MapPage,
    Raster,
    SectionPage,
    chunk_of,
    domain_of,
    drawn_phases,
    earth_model_of,
    global_arrivals,
    last_displacement,
    layers_of,
    on_page,
    page_coordinates,
    receiver_arrivals,
    record_section,
    static_map,
    traces,
)
from lithowave.globe_coordinates import RADIUS, ChunkMap, geocentric_latitude
from lithowave.output import (
    SeismogramWriter,
    SourceTable,
    azimuth,
    common_positions,
    component,
    distance_unit,
    epicentral_distance,
    load_seismograms,
    offsets,
    radial_direction,
    standard_attributes,
)
from saved_figures import keep_figures, texts_of

PLACE = (175.0, -40.0, 25.0)
CHUNK = ChunkMap(*PLACE)
WIDE = RADIUS * np.radians(15.0)


def write_run(folder, positions, source=(2e5, -3e5, -5e4), quantity="displacement", count=120, place=PLACE):
    """Write seismograms of receivers in a chunk: East, North and Up are 1, 2 and 3 times their index, growing."""
    receivers = [
        SimpleNamespace(network="XX", station=f"S{k}", position=tuple(position), where=f"receivers[{k}]")
        for k, position in enumerate(positions)
    ]
    sources = [SimpleNamespace(name="", position=source, moment=(1e19, -2e19, 1e19, 3e18, -5e18, 2e18), force=None)]
    folder.mkdir(exist_ok=True)
    with SeismogramWriter(
        folder / "seismograms.h5", receivers, 10.0, count, quantity=quantity, sources=sources,
        attributes=standard_attributes("chunk", place),
    ) as writer:  # fmt: skip
        ramp = np.minimum(np.arange(count) / 60.0, 1.0)
        scale = np.arange(1, len(receivers) + 1)[:, None, None] * np.array([1.0, 2.0, 3.0])[:, None]
        writer.write(0, {"motion": scale * ramp})
    return load_seismograms(folder)


@pytest.fixture
def stations():
    random = np.random.default_rng(2)
    return np.column_stack([random.uniform(-WIDE, WIDE, (8, 2)), np.zeros(8)])


def test_the_map_is_the_azimuthal_equidistant_projection_of_proj(stations):
    pyproj = pytest.importorskip("pyproj")
    proj = pyproj.Proj(proj="aeqd", lat_0=float(geocentric_latitude(-40.0)), lon_0=175.0, R=RADIUS)
    longitude, latitude = CHUNK.to_geographic(*stations[:, :2].T)
    page = MapPage(CHUNK)
    found = page.project(stations)
    assert np.allclose(found.T, proj(longitude, geocentric_latitude(latitude)), rtol=0, atol=1e-3)
    assert np.allclose(page.local(*found.T), stations.T, rtol=0, atol=1e-5)
    turned = (np.array(page.geographic(*found.T)) - (longitude, latitude) + 180.0) % 360.0 - 180.0
    assert np.abs(turned).max() < 1e-9


@pytest.mark.parametrize(("plane", "level"), [("x", 5e5), ("y", -8e5)])
def test_sections_have_the_distances_of_the_sphere(plane, level):
    random = np.random.default_rng(4)
    along, z = random.uniform(-WIDE, WIDE, 20), random.uniform(-2.5e6, 0.0, 20)
    fixed = np.full(20, level)
    points = np.stack([fixed, along, z] if plane == "x" else [along, fixed, z], axis=-1)
    page = SectionPage(CHUNK, plane, level)
    found, true = page.project(points), CHUNK.to_cartesian(*points.T)
    for index in range(1, 20):
        assert np.linalg.norm(found[index] - found[0]) == pytest.approx(np.linalg.norm(true[index] - true[0]), rel=1e-9)
    assert np.allclose(page.local(*found.T), points.T, rtol=0, atol=1e-5)


@pytest.mark.parametrize("plane", ["z", "x", "y"])
def test_rasters_interpolate_values_where_they_are(plane):
    axes = {"x": np.linspace(-1e6, 1e6, 81), "y": np.linspace(-8e5, 8e5, 61), "z": np.linspace(-9e5, 0.0, 41)}
    page = MapPage(CHUNK) if plane == "z" else SectionPage(CHUNK, plane, 3e5)
    across, up = {"z": ("x", "y"), "x": ("y", "z"), "y": ("x", "z")}[plane]
    axes[plane] = np.array([0.0 if plane == "z" else 3e5])
    raster = Raster(page, axes, across, up)
    image = raster(3.0 * axes[across][None, :] - 7.0 * axes[up][:, None])
    left, right, low, high = (1e3 * end for end in raster.extent)
    rows, columns = image.shape
    a, b = np.meshgrid(left + (right - left) * (np.arange(columns) + 0.5) / columns,
                       low + (high - low) * (np.arange(rows) + 0.5) / rows)  # fmt: skip
    local = dict(zip("xyz", page.local(a, b), strict=True))
    inside = np.isfinite(image)
    assert 0.5 < inside.mean() < 1.0
    assert np.allclose(image[inside], (3.0 * local[across] - 7.0 * local[up])[inside], rtol=0, atol=10.0)
    outside = np.abs(local[across]) > np.abs(axes[across]).max() * 1.001
    assert not inside[outside].any()


def test_turned_mechanisms_radiate_in_turned_directions():
    moment, angle = np.array([[3.0, -2.0, 1.0, 0.5, -0.7, 0.2]]), 0.7
    table = SourceTable([""], np.zeros((1, 3)), moment, np.array([[1.0, 2.0, 3.0]]), np.zeros(1))
    turned = table.turned(np.degrees([angle]), table.geographic)
    direction = np.array([np.cos(0.3), np.sin(0.3), 0.5])
    moved = np.array([np.cos(0.3 + angle), np.sin(0.3 + angle), 0.5])

    def strength(values, g):
        xx, yy, zz, xy, xz, yz = values
        return g @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ g

    assert strength(turned.moment, moved) == pytest.approx(strength(moment[0], direction))
    assert turned.forces[0] @ moved == pytest.approx(table.forces[0] @ direction)


def test_distances_azimuths_and_components_are_those_of_the_sphere(tmp_path, stations):
    pyproj = pytest.importorskip("pyproj")
    found = write_run(tmp_path, stations)
    sphere = pyproj.Geod(a=RADIUS, b=RADIUS)
    start, ends = CHUNK.to_geographic(2e5, -3e5), CHUNK.to_geographic(*stations[:, :2].T)
    first = np.full(8, start[0]), np.full(8, geocentric_latitude(start[1]))
    forth, back, length = sphere.inv(*first, ends[0], geocentric_latitude(ends[1]))
    assert epicentral_distance(found) == pytest.approx(length, abs=1e-2)
    assert azimuth(found) == pytest.approx(forth % 360.0, abs=1e-6)
    assert radial_direction(found) == pytest.approx((back + 180.0) % 360.0, abs=1e-6)
    assert np.abs(radial_direction(found) - azimuth(found)).max() > 3.0  # the meridians converge
    onward = np.radians(back + 180.0)
    expected = found.data[:, 0] * np.sin(onward)[:, None] + found.data[:, 1] * np.cos(onward)[:, None]
    assert component(found, "R") == pytest.approx(expected)
    place, label = offsets(found)
    factor, unit = distance_unit(found)
    assert (label, unit) == ("Epicentral distance", "°")
    assert factor * place == pytest.approx(np.degrees(length / RADIUS))


def test_positions_in_two_chunks_are_compared_on_the_sphere(tmp_path, stations):
    first, other = write_run(tmp_path / "a", stations), ChunkMap(170.0, -38.0, 0.0)
    moved = np.column_stack([*other.to_local(*CHUNK.to_geographic(*stations[:, :2].T)), stations[:, 2]])
    second = write_run(tmp_path / "b", moved, place=(170.0, -38.0, 0.0))
    rows = list(range(8))
    one, two = common_positions(first, rows, second, rows)
    assert np.abs(one - two).max() < 1e-4 < 1e4 < np.abs(first.positions - second.positions).max()


def test_sources_and_stations_are_placed_on_the_map(tmp_path, stations):
    found, page = write_run(tmp_path, stations), MapPage(CHUNK)
    placed = on_page(page, found)
    assert np.allclose(placed.positions[:, :2], page.project(stations)) and placed.geographic_origin is None
    assert np.allclose(placed.sources.positions[0, :2], page.project(np.array([2e5, -3e5, -5e4])))
    assert on_page(None, found) is found
    x, y = page_coordinates(page, np.array([0.0, 1e5]), np.array([0.0, 2e5, 3e5]))
    assert x.shape == y.shape == (3, 2) and (x[0, 0], y[0, 0]) == pytest.approx((0.0, 0.0), abs=1e-9)


def test_travel_times_are_those_of_taup():
    taup = pytest.importorskip("obspy.taup")
    model, distances = taup.TauPyModel("ak135"), np.array([3.0, 25.0, 60.0])
    found = global_arrivals("ak135", RADIUS * np.radians(distances), -120e3, 0.0)
    for index, distance in enumerate(distances):
        first = model.get_travel_times(120.0, distance, ["p", "P", "Pn"])[0]
        assert found["P"][index] == pytest.approx(first.time, abs=1e-6)
        first = model.get_travel_times(120.0, distance, ["s", "S", "Sn"])[0]
        assert found["S"][index] == pytest.approx(first.time, abs=1e-6)
    assert np.isnan(found["SKS"][0]) and np.isfinite(found["ScS"]).all()
    assert found["pP"][2] > found["P"][2] and found["PcP"][2] > found["P"][2]
    assert "pP" in drawn_phases(-120e3) and "pP" not in drawn_phases(-10e3)


def test_arrivals_count_from_the_onset_and_the_depth_of_the_receiver(tmp_path, stations):
    pytest.importorskip("obspy")
    stations[0, 2] = -200e3
    found = write_run(tmp_path, stations)
    late = replace(found, sources=replace(found.sources, onsets=np.array([40.0])))
    (label, times, _), (_, slow, _) = receiver_arrivals(found, None, "iasp91")
    shifted = receiver_arrivals(late, None, "iasp91")[0][1]
    assert label == "P" and (slow[1:] > times[1:]).all() and shifted - times == pytest.approx(40.0)
    alone = global_arrivals("iasp91", epicentral_distance(found)[:1], -5e4, -200e3)["P"]
    assert times[0] == pytest.approx(alone[0])
    ((_, some, _), _) = receiver_arrivals(found, None, "iasp91", np.array([3, 1]))
    np.testing.assert_array_equal(np.flatnonzero(np.isfinite(some)), [1, 3])
    np.testing.assert_array_equal(some[[1, 3]], times[[1, 3]])
    with pytest.raises(ValueError, match="layers are flat, and the seismograms are of a chunk"):
        receiver_arrivals(found, ([0.0], [8000.0], [4500.0]), None)
    with pytest.raises(ValueError, match="layers are flat"):
        record_section(found, tmp_path / "r.png", layers=([0.0], [8000.0], [4500.0]))


@pytest.fixture(autouse=True)
def figures(monkeypatch):
    return keep_figures(monkeypatch)


def test_record_sections_of_a_chunk_are_in_degrees_with_phases(tmp_path, stations, figures):
    """Curves that leave the time axis are labeled inside: at 240 s, S waves arrive later beyond 12 degrees."""
    pytest.importorskip("obspy")
    found = write_run(tmp_path, stations)
    record_section(found, tmp_path / "r.png", "Z", model="prem")
    texts = texts_of(figures)
    assert {"Epicentral distance (°)", "P", "S", "pP", "ScS"} <= set(texts)
    assert any("travel times: prem (TauP)" in text for text in texts)
    traces(found, tmp_path / "t.png", "Z", model="prem")
    assert any(text.count("°") == 2 and "km" not in text for text in texts_of(figures))
    record_section(write_run(tmp_path, stations, count=25), tmp_path / "short.png", "Z", model="prem")
    labels = {text.get_text(): text.xy[0] for text in figures["short"].axes[0].texts if hasattr(text, "xy")}
    assert {"P", "S"} <= set(labels) and max(labels.values()) <= 240.0


@pytest.mark.parametrize("place", [PLACE, None])
def test_the_static_offset_is_the_last_sample(tmp_path, stations, figures, place):
    """An arrow points along North of the map, turned by the azimuth of the displacement; in a box, along y."""
    from matplotlib.quiver import Quiver

    found = write_run(tmp_path, stations, place=place)
    assert np.allclose(last_displacement(found), np.arange(1, 9)[:, None] * [1.0, 2.0, 3.0])
    static_map(tmp_path, tmp_path / "static.png")
    page, (drawn,) = MapPage(CHUNK), figures["static"].findobj(Quiver)
    assert np.allclose(drawn.XY, (page.project(stations) if place else stations[:, :2]) / 1e3)
    expected = (page.north(stations) if place else 0.0) + np.arctan2(1.0, 2.0)
    assert np.allclose((np.arctan2(drawn.U, drawn.V) - expected + np.pi) % (2 * np.pi), np.pi, atol=1e-6)
    assert np.allclose(np.hypot(drawn.U, drawn.V), np.sqrt(5.0) * np.arange(1, 9))


def test_a_static_offset_requires_displacements(tmp_path, stations):
    write_run(tmp_path, stations, quantity="velocity")
    with pytest.raises(InputError, match=r"are of velocity.*expected displacement.*output.quantity: displacement"):
        static_map(tmp_path, tmp_path / "static.png")


def test_descriptions_of_chunks():
    material = {"earth": {"model": "prem"}}
    chunk = {"domain": {"chunk": {"center": [10, 20], "width": [8, 6], "depth": 1e6}}, "material": material}
    x, y = RADIUS * np.radians(4.0), RADIUS * np.radians(3.0)
    assert domain_of(chunk) == pytest.approx((-x, x, -y, y)) and chunk_of(chunk) == ChunkMap(10.0, 20.0)
    assert earth_model_of(chunk) == "prem" and layers_of(chunk) is None
    assert layers_of({**chunk, "material": {"homogeneous": {"vp": 8e3, "vs": 4e3}}}) is None
    box = {"domain": {"x": [0, 1], "y": [0, 1]}, "material": material}
    assert earth_model_of(box) is None and chunk_of(box) is None
    assert earth_model_of({**chunk, "material": {"earth": {"model": "my.nd"}}}) is None
