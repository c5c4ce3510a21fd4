"""What figures show: axes, amplitudes, color scales, backgrounds, formats and colors."""

from __future__ import annotations

from types import SimpleNamespace

import h5py
import numpy as np
import pytest

import lithowave as lw
from lithowave.figures import (
    beachball_position,
    coastlines,
    draw_coastlines,
    draw_interfaces,
    ground_map,
    interface_levels,
    map_page,
    record_section,
    station_map,
    style,
    traces,
)
from lithowave.globe_coordinates import angular_distance
from lithowave.output import load_seismograms, offsets
from sample_run import MOMENT, make_run_folder
from saved_figures import keep_figures
from small_run import lithowave, write_small

EXPLOSION = (1e15, 1e15, 1e15, 0.0, 0.0, 0.0)


@pytest.fixture(autouse=True)
def figures(monkeypatch):
    return keep_figures(monkeypatch)


def receivers_at(*places):
    return [SimpleNamespace(network="XX", station=f"R{k}", position=(*place, 0.0)) for k, place in enumerate(places)]


def source_at(x, y, moment=EXPLOSION, force=None):
    return [SimpleNamespace(name="", position=(x, y, -1000.0), moment=moment, force=force)]


def run_of(folder, receivers, sources, **options):
    """The seismograms of a made-up run without snapshots of interest."""
    options = {"samples": 120, "points": 5, "steps": 1, "vertical_plane": False, "geographic": False} | options
    return load_seismograms(make_run_folder(folder, receivers=receivers, sources=sources, **options))


# ---- offsets ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("places", "source", "expected"),
    [
        ([(-300.0, 0.0), (100.0, 0.0), (500.0, 0.0)], (0.0, 0.0), [-300.0, 100.0, 500.0]),
        ([(0.0, 400.0), (0.0, -100.0), (0.0, 50.0)], (0.0, 0.0), [400.0, -100.0, 50.0]),
        ([(300.0, 400.0), (-300.0, -400.0), (600.0, 800.0)], (0.0, 0.0), [500.0, -500.0, 1000.0]),
        ([(-30.0, 40.0), (30.0, -40.0), (60.0, -80.0)], (0.0, 0.0), [-50.0, 50.0, 100.0]),
        ([(0.0, 3.0), (500.0, 3.0), (1000.0, 3.0)], (500.0, 0.0), [-np.hypot(500, 3), 3.0, np.hypot(500, 3)]),
    ],
)
def test_offsets_along_a_line_are_signed(tmp_path, places, source, expected):
    run = run_of(tmp_path, receivers_at(*places), source_at(*source))
    values, label = offsets(run)
    assert label == "Offset" and values == pytest.approx(expected)


LINE = [(-300.0, 0.0), (100.0, 0.0), (500.0, 0.0)]


@pytest.mark.parametrize(
    ("places", "sources", "label"),
    [
        ([(300.0, 0.0), (0.0, 400.0), (-300.0, -400.0)], source_at(0.0, 0.0), "Horizontal distance from the source"),
        (LINE, source_at(0.0, 200.0), "Horizontal distance from the source"),  # beside it, by a quarter of its length
        (LINE[:2], source_at(0.0, 0.0), "Horizontal distance from the source"),
        (LINE, [], "Horizontal distance from the first receiver"),
        (LINE, source_at(0.0, 0.0, None, (0.0, 0.0, 1e9)), "Offset"), (LINE, source_at(0.0, 0.0), "Offset"),
    ],
)  # fmt: skip
def test_offsets_or_distances(tmp_path, places, sources, label):
    values, found = offsets(run_of(tmp_path, receivers_at(*places), sources))
    assert found == label
    if label.endswith("source"):
        assert values == pytest.approx(np.linalg.norm(np.array(places) - sources[0].position[:2], axis=1))


@pytest.mark.parametrize(
    ("moment", "geographic", "label"),
    [(MOMENT, True, "Epicentral distance"), (MOMENT, False, "Offset"), (EXPLOSION, True, "Offset")],
)
def test_only_earthquakes_have_an_epicentral_distance(tmp_path, figures, moment, geographic, label):
    run = run_of(tmp_path, receivers_at(*LINE), source_at(0.0, 0.0, moment), geographic=geographic)
    record_section(run, tmp_path / "section.png", "Z")
    assert figures["section"].axes[0].get_ylabel() == f"{label} (km)"


# ---- amplitudes ------------------------------------------------------------------------------------------------------


def drawn_traces(panel):
    """The lines of a panel, from their baselines, which are their first samples."""
    return [line.get_ydata() for line in panel.lines if line.get_gid() == "trace"]


@pytest.mark.parametrize("count", [1, 2, 3, 40])
@pytest.mark.parametrize("gain", [1.0, 3.0])
def test_traces_are_within_the_axes(tmp_path, figures, count, gain):
    places = [(1000.0 * k, 300.0) for k in range(1, count + 1)]
    run = run_of(tmp_path, receivers_at(*places), source_at(0.0, 0.0, MOMENT))
    record_section(run, tmp_path / "section.png", "ZRT", gain=gain)
    for panel in figures["section"].axes:
        low, high = panel.get_ylim()
        lines = drawn_traces(panel)
        assert len(lines) == count
        assert low < min(line.min() for line in lines) and max(line.max() for line in lines) < high
        assert high - low < 4.0 * gain * max(np.ptp(np.abs(run.positions[:, 0])) / 1000, count)


def test_gain_and_clip_change_the_amplitudes(tmp_path, figures):
    run = run_of(tmp_path, receivers_at((0.0, 9e3), (0.0, 2e4), (0.0, 4e4)), source_at(0.0, 0.0, MOMENT))

    def amplitudes(**options):
        record_section(run, tmp_path / "section.png", "Z", **options)
        note = figures["section"].get_supxlabel()
        return np.array([line - line[0] for line in drawn_traces(figures["section"].axes[0])]), note

    plain, note = amplitudes()
    assert note == "amplitudes: each trace relative to its own peak"
    assert np.abs(plain).max(axis=1) == pytest.approx([np.abs(plain).max()] * 3)
    double, note = amplitudes(gain=2.0)
    assert np.allclose(double, 2.0 * plain) and note.endswith(", gain 2")
    clipped, note = amplitudes(gain=2.0, clip=0.5)
    limit = 0.5 * np.abs(plain).max()
    assert np.allclose(clipped, np.clip(double, -limit, limit)) and note.endswith("gain 2, clipped at 0.5")
    true, note = amplitudes(normalise="all")
    assert note == "true relative amplitudes: one scale for all traces"
    recorded = np.abs(run.data[:, 2]).max(axis=1)
    expected = recorded / np.abs(run.data).max() * np.abs(plain).max()
    assert np.abs(true).max(axis=1) == pytest.approx(expected, rel=1e-5)


def test_the_pressure_has_its_own_axis(tmp_path, figures):
    run = run_of(tmp_path, receivers_at((0.0, 9e3), (0.0, 2e4)), source_at(0.0, 0.0, MOMENT), pressure=True)
    traces(run, tmp_path / "traces.png", "PENZ")
    panels = figures["traces"].axes
    assert [panel.get_title(loc="left") for panel in panels[:4]] == ["Pressure", "East", "North", "Vertical"]
    limits = [panel.get_ylim()[1] for panel in panels[:4]]
    assert limits[1] == limits[2] == limits[3]
    peak = float(np.abs(run.pressure[0]).max())
    factor, unit = style.readable_unit(peak, "Pa")
    assert limits[0] == pytest.approx(1.18 * peak * factor)
    assert f"{style.number(peak * factor)} {unit}" in [text.get_text() for text in panels[0].texts]


# ---- movies ----------------------------------------------------------------------------------------------------------


def test_interfaces_are_drawn_at_their_depths(tmp_path):
    text = "{layers: [{top: 0, vp: 4000, vs: 2300, rho: 2400}, {top: -310, vp: 5000, vs: 2900, rho: 2600}]}"
    file = write_small(tmp_path, ("{homogeneous: {vp: 5000, vs: 2900, rho: 2600}}", text))
    simulation = lw.Simulation.from_file(file)
    panel = style.new_figure(3, 3).subplots()
    [contours] = draw_interfaces(panel, simulation, "y", 0.0, (-0.6, 0.6, -0.8, 0.0))
    assert contours.get_gid() == "interfaces"
    depth = np.concatenate([path.vertices[:, 1] for path in contours.get_paths()])
    assert depth == pytest.approx(np.full(len(depth), -0.31), abs=0.8 / 240)
    assert draw_interfaces(panel, simulation, "z", 0.0, (-0.6, 0.6, -0.6, 0.6)) == []
    assert draw_interfaces(panel, None, "y", 0.0, (-0.6, 0.6, -0.8, 0.0)) == []
    assert interface_levels(np.array([[1.0, 3.0], [3.0, 7.0]])).tolist() == [2.0, 5.0]
    assert interface_levels(np.linspace(0.0, 7.0, 100)) == pytest.approx([1, 2, 3, 4, 5, 6])
    assert interface_levels(np.ones(4)).tolist() == []


# ---- maps ------------------------------------------------------------------------------------------------------------


def test_a_map_without_peak_motion_shows_the_model(tmp_path, figures):
    lithowave("run", write_small(tmp_path, ("peak_motion: true", "peak_motion: false")), "-o", tmp_path / "run")
    station_map(tmp_path / "run", tmp_path / "map.png")
    assert figures["map"].axes[0].get_title(loc="left") == "vs at the surface: 2900 m/s"
    simulation = lw.Simulation.from_file(tmp_path / "run" / "simulation.yaml")
    varied = simulation.model_copy(update={
        "material": lw.Material(function=lambda x, y, z: (5000.0 + 0 * x, 2000.0 + x, 2500.0 + 0 * x))
    })  # fmt: skip
    ground = ground_map(varied, (-600.0, 600.0, -300.0, 300.0))
    assert ground.label == "vs at the surface (m/s)"
    assert np.allclose(ground.values, (2000.0 + ground.x)[None, :]) and ground.values.shape == (241, 241)
    fluid = simulation.model_copy(update={"material": lw.Material(homogeneous={"vp": 1500, "vs": 0, "rho": 1000})})
    assert ground_map(fluid, (-600.0, 600.0, -300.0, 300.0)).label == "vp at the surface (m/s)"


def test_a_map_without_peak_motion_shows_the_topography(tmp_path):
    x, y = np.linspace(-600, 600, 13), np.linspace(-600, 600, 11)
    np.savez(tmp_path / "hill.npz", x=x, y=y, elevation=0.1 * x[None, :] + 0 * y[:, None], axes=["y", "x"])
    file = write_small(
        tmp_path,
        ("z: [-800, 0]}", "z: [-800, 0], topography: hill.npz}"),
        ("solver: {spacing: 100, order: 4}", "solver: {method: spectral_element, spacing: 200, degree: 3}"),
        ("position: [330, 250, 0]", "position: [330, 250]"),
        ("start: [-500, 0, 0], end: [500, 0, 0]", "start: [-500, 0], end: [500, 0]"),
        ("boundaries: {layer: {cells: 5}}", "boundaries: {}"),
    )
    text = file.read_text(encoding="utf-8")
    begin, rest = text.split("  snapshots:\n")
    file.write_text(begin + rest[rest.index("  checkpoint:") :], encoding="utf-8")
    ground = ground_map(lw.Simulation.from_file(file), (-600.0, 600.0, -600.0, 600.0))
    assert ground.label == "Elevation of the surface (m)"
    assert ground.values == pytest.approx(0.1 * np.broadcast_to(ground.x, ground.values.shape), abs=1e-6)


# ---- formats ---------------------------------------------------------------------------------------------------------


# ---- the command -----------------------------------------------------------------------------------------------------


def test_plot_takes_its_options(tmp_path, figures):
    run = make_run_folder(tmp_path / "run", 3, samples=60, points=5, steps=1, vertical_plane=False)
    (run / "snapshots" / "plane_z_0.vtkhdf").unlink()
    options = ("--format", "svg", "--normalize", "all", "--gain", 3, "--clip", 1.5, "-o", tmp_path / "here")
    output = lithowave("plot", run, *options)
    assert str(tmp_path / "here" / "record_section.svg") in output
    note = figures["record_section"].get_supxlabel()
    assert note == "true relative amplitudes: one scale for all traces, gain 3, clipped at 1.5"
    assert "did you mean" in lithowave("plot", run, "--format", "pgn", status=2)
    assert "--gain: -1 is out of range" in lithowave("plot", run, "--gain", -1, status=2)


# ---- color limits, mechanisms and coastlines -------------------------------------------------------------------------


def test_a_few_large_values_do_not_set_the_color_scale(tmp_path, figures):
    run_of(tmp_path, receivers_at((0.0, 0.0)), source_at(0.0, 0.0), points=41)
    path = tmp_path / "peak_motion.h5"
    with h5py.File(path, "r+") as file:
        values = np.linspace(0.1, 1.0, file["pgv/horizontal"].size).reshape(file["pgv/horizontal"].shape)
        values.flat[7] = 100.0
        file["pgv/horizontal"][...] = values
    station_map(tmp_path, tmp_path / "map.png")
    panel, bar = figures["map"].axes[:2]
    [image] = [one for one in panel.collections if one.get_array() is not None and one.get_array().size == values.size]
    assert image.norm.vmax == pytest.approx(0.995, rel=0.01)
    assert bar.get_ylabel() == "Peak ground velocity, horizontal (m/s; largest 100)"
    assert style.color_limit(np.zeros(5)) == (0.0, 0.0) and style.color_limit(np.eye(100)) == (1.0, 1.0)


def test_a_mechanism_does_not_cover_the_epicenter(tmp_path, figures):
    """It is next to it, inside the frame, and not on the stations."""
    corner = (-24e3, 23e3)
    stations = receivers_at((-21e3, 20e3), (-20.5e3, 20.5e3), (0.0, 0.0))
    run_of(tmp_path, stations, source_at(*corner, moment=MOMENT), points=9)
    station_map(tmp_path, tmp_path / "map.png")
    panel = figures["map"].axes[0]
    low, high = np.transpose([panel.get_xlim(), panel.get_ylim()])
    radius = 0.045 * (high - low).min()
    center = np.array(beachball_position(panel, (-24.0, 23.0), radius, np.array([[-21.0, 20.0], [-20.5, 20.5]])))
    assert np.linalg.norm(center - [-24.0, 23.0]) == pytest.approx(2.5 * radius)
    assert (center - radius >= low).all() and (center + radius <= high).all()
    assert np.linalg.norm(center - [-21.0, 20.0]) > radius
    stars = [one for one in panel.collections if len(one.get_offsets()) == 1]
    assert any(np.allclose(one.get_offsets()[0], [-24.0, 23.0]) for one in stars)


def test_coastlines_are_where_the_coasts_are():
    longitude, latitude = coastlines()
    assert 5000 < len(longitude) < 6000 and np.nanmin(latitude) > -86 and np.nanmax(np.abs(longitude)) <= 180
    for place in ((18.48, -34.36), (-9.5, 38.7), (103.9, 1.3), (-67.3, -55.9), (25.8, 71.1)):  # capes
        assert np.nanmin(angular_distance(longitude, latitude, place)) < 0.6, place
    for place in ((-150.0, 0.0), (90.0, 45.0), (20.0, 0.0)):  # the Pacific, Asia, Africa
        assert np.nanmin(angular_distance(longitude, latitude, place)) > 8.0, place


@pytest.mark.parametrize("chunk", [True, False])
def test_coastlines_are_drawn_on_large_maps_only(chunk):
    origin = (10.0, 40.0, 0.0) if chunk else (10.0, 40.0)
    for half, drawn in ((1000.0, True), (390.0, False)):
        panel = style.new_figure(4, 4).subplots()
        draw_coastlines(panel, origin, map_page(origin), (-half, half, -half, half))
        lines = [line for line in panel.lines if line.get_gid() == "coastlines"]
        assert len(lines) == drawn
        if drawn:  # Rome and Barcelona are at the coast, the Alps are not
            x, y = lines[0].get_data()
            for east, north, near in ((190.0, 210.0, True), (-650.0, 180.0, True), (0.0, 780.0, False)):
                assert (np.nanmin(np.hypot(x - east, y - north)) < 60.0) == near
    draw_coastlines(panel, None, None, (-1e3, 1e3, -1e3, 1e3))
    assert not panel.lines
