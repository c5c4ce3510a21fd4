"""Runs in a chunk of the globe: checks, files, figures, reports, restarts, refusals and warnings."""

from __future__ import annotations

import re

import h5py
import numpy as np
import pytest

import lithowave as lw
from lithowave import InputError
from lithowave.figures import plot_run
from lithowave.globe_coordinates import RADIUS, angular_distance, azimuths, propagation_azimuths
from lithowave.output import load_peak_motion, load_seismograms, load_snapshots
from lithowave.run import check_simulation
from small_chunk import CENTER, SOURCE, STATIONS, small_chunk

pytestmark = pytest.mark.filterwarnings("ignore::lithowave.LithowaveWarning")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chunk") / "run"
    small_chunk(folder).run()
    return folder


def test_check_reports_the_chunk(tmp_path):
    report = check_simulation(small_chunk(tmp_path / "out"), measure=False)
    lines = dict(report.lines())
    assert lines["domain"] == (
        "chunk of the globe, center at longitude 179, latitude -18, width 6° x 5°, depth 200 km, azimuth 25°"
    )
    center = report.plan["chunk"]
    assert (center["center"], center["width_degrees"], center["depth_m"]) == ([179.0, -18.0], [6.0, 5.0], 2e5)
    assert "longitude" in lines["mesh quality"]
    (reflected,) = (text for text in report.warnings if text.startswith("boundaries.absorption"))
    assert "absorption: layer" not in reflected and "further away" in reflected


def columns(tmp_path, count, **changes):
    """Return the check of a chunk with this number of columns along both axes."""
    domain = {"chunk": {"center": CENTER, "width": (5.0, 5.0), "depth": 200e3, "elements": (count, count)}}
    return check_simulation(small_chunk(tmp_path / "out", domain=domain, **changes), measure=False)


def test_columns_that_resolve_too_little_are_refused_or_reported(tmp_path):
    """4 intervals per element: 5 degrees are 556 km, 6.2 wavelengths of 90 km."""
    wavelengths = RADIUS * np.radians(5.0) / 90e3
    solver = {
        "method": "spectral_element", "max_frequency": 0.05, "points_per_wavelength": 7, "refine_sources": False,
    }  # fmt: skip
    with pytest.raises(InputError, match=r"elements: 5 x 5 elements have 3\.24 points .*use 7 x 7 elements, or"):
        columns(tmp_path, 5, solver=solver)
    report = columns(tmp_path, 8, solver=solver)
    assert report.plan["points_per_wavelength"] == pytest.approx(4 * 8 / wavelengths, rel=0.01)
    (warning,) = (text for text in report.warnings if text.startswith("domain.chunk.elements"))
    assert "5.18 points" in warning and "Use 11 x 11 elements for 7." in warning
    report = columns(tmp_path, 11, solver=solver)
    assert report.plan["points_per_wavelength"] >= 7.0
    assert not [text for text in report.warnings if text.startswith("domain.chunk.elements")]


def test_columns_that_sources_add_are_reported(tmp_path):
    near = [{"name": "A", "longitude": 179.5, "latitude": -18.4, "depth": 30e3}]
    report = columns(tmp_path, 8, receivers=near)
    (warning,) = (text for text in report.warnings if text.startswith("domain.chunk.elements"))
    assert re.search(r"the mesh has \d+ x \d+ columns instead of 8 x 8", warning)
    solver = {**small_chunk(tmp_path).solver.model_dump(exclude_unset=True), "refine_sources": False}
    report = columns(tmp_path, 8, receivers=near, solver=solver)
    assert not [text for text in report.warnings if text.startswith("domain.chunk.elements")]


def test_the_predicted_output_is_what_is_written(run, tmp_path):
    predicted = check_simulation(small_chunk(tmp_path / "out"), measure=False).output_bytes
    real = sum(path.stat().st_size for path in run.rglob("*") if path.is_file())
    assert 1 / 1.3 < predicted / real < 1.3


def test_sac_headers_are_those_of_the_sphere(run):
    obspy = pytest.importorskip("obspy")
    origin = SOURCE["longitude"], SOURCE["latitude"]
    for name, (longitude, latitude) in STATIONS.items():
        head = obspy.read(str(run / "sac" / f"XX.{name}.LXZ.sac"))[0].stats.sac
        degrees = float(angular_distance(longitude, latitude, origin))
        assert (head.stlo - longitude + 180) % 360 - 180 == pytest.approx(0.0, abs=1e-4)
        assert (head.stla, head.evla, head.evdp) == pytest.approx((latitude, origin[1], 60.0), abs=1e-4)
        assert head.lcalda == 0 and head.gcarc == pytest.approx(degrees, rel=1e-6)
        assert head.dist == pytest.approx(RADIUS * np.radians(degrees) / 1e3, rel=1e-6)
        assert head.az == pytest.approx(float(azimuths(longitude, latitude, origin)), abs=1e-3)
        onward = float(propagation_azimuths(longitude, latitude, origin))
        assert head.baz == pytest.approx((onward + 180.0) % 360.0, abs=1e-3)


def test_asdf_files_have_the_given_longitudes_and_latitudes(run):
    with h5py.File(run / "asdf" / "seismograms.h5") as file:
        event = bytes(file["QuakeML"][:].astype(np.uint8)).decode()
        station = bytes(file["Waveforms/XX.A/StationXML"][:].astype(np.uint8)).decode()
    for text, (longitude, latitude) in (
        (event, (SOURCE["longitude"], SOURCE["latitude"])), (station, STATIONS["A"]),
    ):  # fmt: skip
        values = [float(value) for value in re.findall(r"(?:itude>|<value>)(-?[\d.]+)", text)]
        assert any(abs(value - longitude) < 1e-6 for value in values)
        assert any(abs(value - latitude) < 1e-6 for value in values)


def test_peak_displacement_is_that_of_the_seismograms(run):
    peaks, found = load_peak_motion(run), load_seismograms(run)
    assert peaks.geographic_origin == (*CENTER, 25.0)
    for measure, values in (
        ("horizontal", np.hypot(found.data[:, 0], found.data[:, 1])), ("vertical", np.abs(found.data[:, 2])),
    ):  # fmt: skip
        for index, (x, y, _) in enumerate(found.positions):
            column, row = (int(np.abs(axis - place).argmin()) for axis, place in ((peaks.x, x), (peaks.y, y)))
            around = peaks.pgd[measure][row - 1 : row + 2, column - 1 : column + 2]
            assert around.min() < 1.02 * values[index].max() and around.max() > 0.98 * values[index].max()


def test_snapshots_are_on_the_sphere_in_the_components_of_the_seismograms(run):
    """Velocities at the surface, interpolated at the stations, against the derivative of their displacement."""
    splines = pytest.importorskip("scipy.interpolate")
    found = load_seismograms(run)
    with load_snapshots(run / "snapshots" / "plane_z_0.vtkhdf") as snapshots:
        velocity, times = snapshots.read(3, "velocity")[0], snapshots.times
        x, y = snapshots.axis("x"), snapshots.axis("y")
    with h5py.File(run / "snapshots" / "plane_z_0.vtkhdf") as file:
        points = file["VTKHDF/Points"][:]
    assert np.linalg.norm(points, axis=1) == pytest.approx(RADIUS)
    index = int(np.abs(found.time - times[3]).argmin())
    rate = np.gradient(found.data, found.sampling_interval, axis=-1)[..., index]
    ahead = times[3] - found.time[index]  # snapshots are at the steps closest to their interval
    assert abs(ahead) < 0.01 * found.time[index] and np.abs(rate).max() > 1e-5
    slope = np.gradient(np.gradient(found.data, found.sampling_interval, axis=-1), found.sampling_interval, axis=-1)
    rate = rate + ahead * slope[..., index]
    for component in range(3):
        spline = splines.RectBivariateSpline(y, x, velocity[..., component])
        here = spline(found.positions[:, 1], found.positions[:, 0], grid=False)
        assert np.abs(here - rate[:, component]).max() < 0.03 * np.abs(rate).max()
    assert np.allclose(points[0] / RADIUS, small_chunk(run).domain.chunk.map.directions(x[0], y[0]))


def test_all_figures_are_drawn(run, monkeypatch):
    for name, value in (("style.DOTS_PER_INCH", 40), ("movie.DOTS_PER_INCH", 40), ("maps.PIXELS", 60)):
        monkeypatch.setattr(f"lithowave.figures.{name}", value)
    names = {path.name.partition(".")[0] for path in plot_run(run)}
    waves = {"wavefield_plane_z_0", "wavefield_plane_x_100000", "wavefield_volume"}
    assert {"map", "record_section", "static_offset", "traces"} | waves <= names


def test_the_report_names_the_chunk_and_its_distances(run):
    pytest.importorskip("plotly")
    from lithowave.report import report_run

    text = report_run(run).read_text(encoding="utf-8")
    for words in ("center at longitude 179, latitude -18", "Longitude (°)", "Epicentral distance (°)"):
        assert words in text
    assert "Epicentral distance (km)" not in text and "x = y = 0" not in text


PROBLEMS = [
    ({"receivers": [{"name": "A", "longitude": -172.0, "latitude": -18.0}]},
     r"longitude -172, latitude -18, depth 0 km is 8\.5\d* *° from the center and outside the chunk; its sides are "
     r"3° and 2.5° from the center, at longitude 179, latitude -18"),
    ({"receivers": [{"name": "A", "longitude": -2.0, "latitude": 20.0}]},
     r"longitude -2, latitude 20 is 17\d\.\d* *° from the center and outside the chunk"),
    ({"receivers": [{"name": "A", "longitude": 179.0, "latitude": -18.0, "depth": -2e3}]},
     r"longitude 179, latitude -18, depth -2 km is above the surface.*depth is positive downwards; did you "
     r"mean 2000\?"),
    ({"receivers": [{"name": "A", "longitude": 179.0, "latitude": -18.0, "depth": 210e3}]},
     r"depth 210 km is below the chunk; it ends at a depth of 200 km"),
    ({"solver": {"method": "discontinuous_galerkin", "max_frequency": 0.05}},
     r"discontinuous_galerkin has no curved elements, of which a chunk of the globe consists; .*requires a box: x, y "
     r"and z, with crs.*method: spectral_element can"),
    ({"solver": {"method": "finite_difference", "max_frequency": 0.05}}, "finite_difference has no curved elements"),
    ({"boundaries": {"absorption": "layer"}}, r"boundaries.absorption: layer is not available in a chunk"),
    ({"output": {"formats": ["segy"], "sampling_interval": 0.01}}, "segy stores plane coordinates, and a chunk has"),
    ({"output": {"snapshots": [{"interval": 9.0, "plane": {"y": 9e5}}]}}, r"y = 900000 m is outside .*times 6371 km"),
    ({"survey": {"shots": [{"longitude": 179.5, "latitude": -18.2}], "moving_receivers": True}},
     r"survey.moving_receivers: true is given, and receivers are not moved along the surface of a sphere"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "message"), PROBLEMS)
def test_what_is_not_possible_is_refused(tmp_path, changes, message):
    with pytest.raises(InputError, match=f"(?s){message}"):
        small_chunk(tmp_path / "out", **changes)


def test_stations_anywhere_on_the_globe_are_omitted_or_refused_by_name(tmp_path):
    """Also those beyond the horizon of the chunk, which have no local coordinates."""
    path = tmp_path / "STATIONS"
    path.write_text("A XX -18.0 178.0 0 0\nB XX -10.0 170.0 0 0\nC XX 40.0 10.0 0 0\n", encoding="utf-8")
    simulation = small_chunk(tmp_path / "out", receivers=[{"file": str(path), "outside": "omit"}])
    assert simulation.acquisition.receiver_names == ("XX.A",)
    assert any("2 of 3 receivers are outside the domain" in text for text in simulation.warnings())
    with pytest.raises(InputError, match=r"C \(STATIONS:3\) at \(10, 40\) is more than 90° .*outside: omit"):
        small_chunk(tmp_path / "out", receivers=[{"file": str(path)}])


def test_a_receiver_at_a_pole_is_refused(tmp_path):
    domain = {"chunk": {"center": (0.0, 89.0), "width": (6.0, 5.0), "depth": 200e3}}
    source = {**SOURCE, "longitude": 40.0, "latitude": 88.5, "force": (0.0, 0.0, 1e15)}
    source["time_function"] = {"gaussian": {"sigma": 8.0, "delay": 32.0}}
    receivers = [{"name": "P", "longitude": 30.0, "latitude": 90.0}]
    with pytest.raises(InputError, match="is at a pole, where East and North are not defined; move it by a meter"):
        small_chunk(tmp_path / "out", domain=domain, sources=[source], receivers=receivers)
    receivers = [{"name": "P", "longitude": 30.0, "latitude": 89.9999}]
    assert small_chunk(tmp_path / "out", domain=domain, sources=[source], receivers=receivers).acquisition.receivers


def test_an_ocean_with_attenuation_is_refused_at_its_place(tmp_path):
    path = tmp_path / "ocean.nd"
    rock = "8 4.5 3.3 900 400\n"
    path.write_text(f"0 1.5 0 1 500 0\n30 1.5 0 1 500 0\n30 {rock}200 {rock}", encoding="utf-8")
    material = {"earth": {"model": str(path), "ocean": True}}
    with pytest.raises(InputError, match=r"at longitude 17\d.*, depth [12]?\d\..* km has a finite quality"):
        check_simulation(small_chunk(tmp_path / "out", material=material), measure=False)
    path.write_text(path.read_text().replace("1 500 0", "1 0 0"), encoding="utf-8")
    assert check_simulation(small_chunk(tmp_path / "out", material=material), measure=False).plan["fluid_elements"] > 0


def test_methods_cannot_be_compared_in_a_chunk(tmp_path):
    with pytest.raises(InputError, match="only spectral_element can run this description"):
        lw.agree(small_chunk(tmp_path / "out"), output=tmp_path / "agree")


def test_a_survey_of_events_moves_the_source(tmp_path):
    places = ((179.5, -18.2, 30e3), (-179.9, -19.0, 9e3))
    shots = [dict(zip(("longitude", "latitude", "depth"), place, strict=True)) for place in places]
    simulation = small_chunk(tmp_path / "out", survey={"shots": shots})
    for shot, place in zip(simulation.survey.shot_list(simulation.domain), shots, strict=True):
        longitude, latitude = simulation.domain.to_geographic(*shot.position[:2])
        assert (longitude - place["longitude"] + 180) % 360 - 180 == pytest.approx(0.0, abs=1e-9)
        assert (latitude, shot.position[2]) == pytest.approx((place["latitude"], -place["depth"]))


def test_a_wide_plane_projection_points_to_chunks():
    box = {"x": (-4e5, 4e5), "y": (-1e5, 1e5), "z": (-5e4, 0.0), "crs": {"longitude": 10.0, "latitude": 45.0}}
    simulation = lw.Simulation(
        title="wide", domain=box, material={"homogeneous": {"vp": 8e3, "vs": 4.5e3, "rho": 3300.0}},
        sources=[], duration=1.0, solver={"method": "spectral_element", "max_frequency": 0.1},
    )  # fmt: skip
    (warning,) = (text for text in simulation.warnings() if text.startswith("domain.crs"))
    assert warning.endswith("spectral_element computes a piece of the globe (domain.chunk).")
