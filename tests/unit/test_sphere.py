"""Coordinates of a chunk of the globe: inverse maps, directions, distances, azimuths; poles and the date line."""

import numpy as np
import pytest

from lithowave.globe_coordinates import (
    RADIUS,
    ChunkMap,
    angular_distance,
    azimuths,
    directions,
    geocentric_latitude,
    geographic_latitude,
    propagation_azimuths,
)

CHUNKS = {
    "Europe": ChunkMap(20.0, 35.0, 30.0),
    "date line": ChunkMap(179.0, -17.0, -65.0),
    "North Pole": ChunkMap(0.0, 90.0, 0.0),
    "South Pole": ChunkMap(-120.0, -90.0, 200.0),
    "equator": ChunkMap(-180.0, 0.0),
}
WIDE = RADIUS * np.radians(44.0)


@pytest.fixture(params=CHUNKS)
def chunk(request):
    return CHUNKS[request.param]


@pytest.fixture
def points():
    random = np.random.default_rng(5)
    return np.concatenate([random.uniform(-WIDE, WIDE, (2, 200)), random.uniform(-2.8e6, 0.0, (1, 200))])


def test_cartesian_coordinates_come_back(chunk, points):
    positions = chunk.to_cartesian(*points)
    assert np.linalg.norm(positions, axis=1) == pytest.approx(RADIUS + points[2], rel=1e-14)
    assert np.allclose(chunk.from_cartesian(positions), points, rtol=0, atol=1e-6)


def test_longitudes_and_latitudes_come_back(chunk, points):
    longitude, latitude = chunk.to_geographic(*points[:2])
    assert (np.abs(longitude) <= 180.0).all() and (np.abs(latitude) <= 90.0).all()
    assert np.allclose(chunk.to_local(longitude, latitude), points[:2], rtol=0, atol=1e-5)
    assert np.allclose(chunk.to_local(longitude + 360.0, latitude), points[:2], rtol=0, atol=1e-5)


def test_the_other_side_of_the_earth_has_no_local_coordinates(chunk):
    opposite = chunk.longitude + 180.0, -chunk.latitude
    assert np.isnan(chunk.to_local(*opposite)).all()


def test_axes_are_the_directions_of_growing_longitude_latitude_and_radius(chunk, points):
    x, y, z = points
    longitude, latitude = chunk.to_geographic(x, y)
    east, north, up = np.moveaxis(chunk.axes(x, y), -2, 0)
    here, step = directions(longitude, latitude), 1e-6
    geocentric = geocentric_latitude(latitude)
    northward = directions(longitude, geographic_latitude(geocentric + step)) - here
    assert np.allclose(np.sum(northward * north, axis=-1), np.radians(step), rtol=1e-4)
    eastward = directions(longitude + step, latitude) - here
    assert np.allclose(np.sum(eastward * east, axis=-1), np.radians(step) * np.cos(np.radians(geocentric)), rtol=1e-4)
    assert np.allclose(up, here, atol=1e-14)


def test_y_is_the_azimuth_of_the_chunk_at_its_center(chunk):
    if abs(chunk.latitude) == 90.0:
        longitude, _ = chunk.to_geographic(0.0, 1e5)
        # North at a pole is that of the meridian of the center: y points to its other side.
        onward = 180.0 - chunk.azimuth if chunk.latitude > 0 else chunk.azimuth
        assert (longitude - chunk.longitude - onward + 180.0) % 360.0 - 180.0 == pytest.approx(0.0, abs=1e-6)
        return
    y = chunk.directions(0.0, 1.0) - chunk.directions(0.0, 0.0)
    east, north, _ = chunk.axes(0.0, 0.0)
    azimuth = np.degrees(np.arctan2(y @ east, y @ north))
    assert (azimuth - chunk.azimuth + 180.0) % 360.0 - 180.0 == pytest.approx(0.0, abs=1e-6)


@pytest.fixture
def places():
    random = np.random.default_rng(7)
    return random.uniform(-180.0, 180.0, 300), random.uniform(-89.9, 89.9, 300)


@pytest.mark.parametrize("origin", [(20.0, 35.0), (179.5, -17.0), (-60.0, 89.0)])
def test_distances_and_azimuths_are_those_of_a_geodesic_on_a_sphere(places, origin):
    pyproj = pytest.importorskip("pyproj")
    sphere = pyproj.Geod(a=RADIUS, b=RADIUS)
    count = len(places[0])
    start = np.full(count, origin[0]), np.full(count, geocentric_latitude(origin[1]))
    forth, back, length = sphere.inv(*start, places[0], geocentric_latitude(places[1]))
    assert RADIUS * np.radians(angular_distance(*places, origin)) == pytest.approx(length, abs=1e-3)
    assert np.abs((azimuths(*places, origin) - forth + 180) % 360 - 180).max() < 1e-7
    assert np.abs((propagation_azimuths(*places, origin) - back) % 360 - 180).max() < 1e-7


@pytest.mark.parametrize("latitude", [90.0, 45.0, 0.0, -30.0, -90.0])
def test_latitudes_come_back(latitude):
    geocentric = geocentric_latitude(latitude)
    assert geographic_latitude(geocentric) == pytest.approx(latitude, abs=1e-12)
    expected = {45.0: 44.80757678, 90.0: 90.0, 0.0: 0.0, -90.0: -90.0}  # WGS 84
    assert geocentric == pytest.approx(expected.get(latitude, geocentric), abs=1e-7)


def test_azimuths_at_and_near_a_pole():
    assert azimuths(31.0, 89.0, (31.0, 45.0)) % 359.999999 == pytest.approx(0.0, abs=1e-5)
    assert propagation_azimuths(-150.0, 80.0, (30.0, 80.0)) == pytest.approx(180.0, abs=1e-9)
    # At the pole, North continues along the meridian of the origin: East is 90 degrees ahead in longitude.
    assert azimuths(120.0, 60.0, (30.0, 90.0)) == pytest.approx(90.0, abs=1e-9)
    assert angular_distance(120.0, 90.0, (30.0, 90.0)) == pytest.approx(0.0, abs=1e-12)
