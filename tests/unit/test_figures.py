"""Figures: they are drawn, leave matplotlib as it was, and what they compute is right."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from lithowave import InputError, OutputError
from lithowave.figures import (
    domain_of,
    first_arrival,
    layers_of,
    nice_limit,
    plot_run,
    polarity,
    read_description,
    readable_unit,
    record_section,
    snapshot_files,
    station_map,
    traces,
    wavefield_movie,
)
from lithowave.output import (
    SnapshotWriter,
    component,
    epicentral_distance,
    load_peak_motion,
    load_seismograms,
    radial_direction,
    write_peak_motion,
)
from sample_run import MOMENT, VP, VS, make_run_folder, sample_sources
from saved_figures import keep_figures, texts_of

LAYERS = ([0.0], [VP], [VS])


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run_folder(tmp_path_factory.mktemp("figures") / "run", samples=200, points=21, steps=4)


def picture(path):
    from PIL import Image

    return np.asarray(Image.open(path).convert("RGB"))


def test_plot_run_draws_all_there_is(run):
    paths = plot_run(run)
    pictures = ["map.png", "record_section.png", "traces_1.png", "traces_2.png"]
    assert [path.name for path in paths[:4]] == pictures
    assert [path.stem for path in paths[4:]] == ["wavefield_plane_z_0", "wavefield_plane_y_500"]
    for path in paths:
        assert path.parent == run / "figures" and path.stat().st_size > 3000
    for path in paths[:4]:
        # most of a figure is paper, and some of it is not
        assert 0.0005 < (picture(path) < 128).all(axis=-1).mean() < 0.5


@pytest.fixture(autouse=True)
def figures(monkeypatch):
    return keep_figures(monkeypatch)


def test_phases_are_drawn_one_after_another(tmp_path, figures):
    run = make_run_folder(tmp_path / "run", samples=20, points=5, steps=1)
    times = {"mesh": 1.5, "estimate of memory": 0.001, "first step": 0.5, "other steps": 6.0}
    phases = [{"name": name, "wall_s": wall, "cpu_s": wall, "peak_bytes": 1} for name, wall in times.items()]
    (run / "run.json").write_text(json.dumps({"phases": phases}))
    assert plot_run(run)[-1] == run / "figures" / "wall_times.png"
    bars = [(bar.get_x(), bar.get_width()) for bar in figures["wall_times"].axes[0].patches]
    assert bars == [(0.0, 1.5), (1.5, 0.5), (2.0, 6.0)]
    assert {"mesh", "Preparation 1.50 s, time loop 6.50 s", "6.00 s, 75.0%"} <= set(texts_of(figures))


@pytest.mark.parametrize(("z", "words"), [(-0.04, "depth 0 m"), (-999.7, "depth 999.7 m"), (-15500.0, "depth 15.5 km")])
def test_depths_and_numbers_have_no_negative_zero(tmp_path, figures, z, words):
    sources = [SimpleNamespace(name="", position=(-0.0, 0.0, z), moment=None, force=(0.0, 0.0, 1e9))]
    options = {"samples": 50, "points": 5, "steps": 1, "geographic": False, "vertical_plane": False}
    plot_run(make_run_folder(tmp_path, 3, sources=sources, **options))
    texts = texts_of(figures)
    assert f"Chino Hills, {words}" in texts
    assert [text for text in texts if re.search(r"[-\u2212]0(\.0*)?(?![.\d])", text)] == []


def test_drawing_leaves_matplotlib_alone(run, tmp_path):
    script = f"""
import sys
sys.path[:0] = {sys.path!r}
import matplotlib
before = dict(matplotlib.rcParams)
from lithowave.figures import record_section
from lithowave.output.seismograms import load_seismograms
record_section(load_seismograms({str(run)!r}), {str(tmp_path / "s.png")!r}, "Z")
assert dict(matplotlib.rcParams) == before
assert "matplotlib.pyplot" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_record_section_takes_its_options(run, tmp_path):
    seismograms = load_seismograms(run)
    plain = record_section(seismograms, tmp_path / "a.png", "Z")
    reduced = record_section(seismograms, tmp_path / "b.png", "Z", reduction_speed=6000.0, layers=LAYERS)
    assert not np.array_equal(picture(plain), picture(reduced))
    wide = picture(record_section(seismograms, tmp_path / "c.png", "ENZRT", normalise="all", speeds={"6 km/s": 6000.0}))
    assert wide.shape[1] > 2 * picture(plain).shape[1]
    with pytest.raises(ValueError, match="normalise must be one of"):
        record_section(seismograms, tmp_path / "d.png", "Z", normalise="none")
    with pytest.raises(ValueError, match="unknown component 'Q'"):
        record_section(seismograms, tmp_path / "d.png", "Q")


def test_silent_traces_and_a_single_receiver_are_drawn(run, tmp_path):
    seismograms = load_seismograms(run)
    silent = replace(seismograms, data=0.0 * seismograms.data)
    record_section(silent, tmp_path / "a.png", normalise="receiver", layers=LAYERS)
    traces(silent, tmp_path / "b.png")
    first = {"data": seismograms.data[:1], "positions": seismograms.positions[:1]}
    one = replace(seismograms, networks=["CI"], stations=["A"], **first)
    record_section(one, tmp_path / "c.png", layers=LAYERS)
    assert traces(one, tmp_path / "d.png") == [tmp_path / "d.png"]


def test_traces_are_spread_over_pages_up_to_a_limit(run, tmp_path):
    seismograms = load_seismograms(run)
    assert len(traces(seismograms, tmp_path / "a.png", "RTZ", layers=LAYERS)) == 2
    assert [path.name for path in traces(seismograms, tmp_path / "b.png", most_pages=1)] == ["b.png"]


def test_nothing_to_draw_is_an_error(tmp_path):
    folder = make_run_folder(tmp_path / "run", receivers=[], sources=[], points=5, steps=3, vertical_plane=False)
    SnapshotWriter.resume(folder / "snapshots" / "plane_z_0.vtkhdf", -1.0).close()
    seismograms = load_seismograms(folder)
    for draw in (record_section, traces):
        with pytest.raises(OutputError, match="nothing to draw"):
            draw(seismograms, tmp_path / "a.png")
    with pytest.raises(OutputError, match="nothing to draw"):
        station_map(folder, tmp_path / "a.png")
    with pytest.raises(OutputError, match="nothing to draw"):
        plot_run(folder)
    with pytest.raises(OutputError, match="holds no snapshots yet"):
        wavefield_movie(folder, tmp_path / "a.gif")
    with pytest.raises(OutputError, match="contains no seismograms.h5"):
        plot_run(tmp_path)


@pytest.mark.parametrize("kind", ["no peak", "force", "vertical force", "explosion", "many", "no sources", "local"])
def test_maps_of_all_kinds_of_runs(tmp_path, kind):
    point = {"name": "", "position": (0.0, 0.0, -3000.0), "moment": None, "force": None}
    sources = {
        "force": [point | {"force": (1e10, 1e10, 0.0)}],
        "vertical force": [point | {"force": (0.0, 0.0, 1e10)}],
        "explosion": [point | {"moment": (1e17, 1e17, 1e17, 0, 0, 0)}],
        "many": [point | {"moment": MOMENT, "position": (100.0 * k, 0.0, -5e3)} for k in range(20)],
        "no sources": [],
    }.get(kind)
    sources = sample_sources() if sources is None else [SimpleNamespace(**source) for source in sources]
    options = {"samples": 20, "points": 5, "steps": 1, "vertical_plane": False, "geographic": kind != "local"}
    folder = make_run_folder(tmp_path / "run", 5, sources=sources, **options)
    if kind == "no peak":
        (folder / "peak_motion.h5").unlink()
    path = station_map(folder, tmp_path / "map.png", peak="pgd", measure="total")
    assert picture(path).shape[0] > 200


def test_polarity_agrees_with_obspy():
    beachball = pytest.importorskip("obspy.imaging.beachball")
    # obspy wants (r, theta, phi): rr = zz, tt = yy, pp = xx, rt = -yz, rp = xz, tp = -xy
    xx, yy, zz, xy, xz, yz = MOMENT
    tensor = beachball.MomentTensor(zz, yy, xx, -yz, xz, -xy, 0)
    tension, null, pressure = beachball.mt2axes(tensor)
    x, y, amplitude = polarity(MOMENT)
    assert pressure.val < 0 < tension.val
    for axis, expected in ((tension, 1.0), (pressure, -1.0)):
        radius = np.sqrt(2) * np.sin(np.radians(90.0 - axis.dip) / 2)
        place = radius * np.sin(np.radians(axis.strike)), radius * np.cos(np.radians(axis.strike))
        nearest = np.unravel_index(np.argmin(np.hypot(x - place[0], y - place[1])), x.shape)
        largest = max(abs(tension.val), abs(pressure.val))
        assert amplitude[nearest] == pytest.approx(expected * abs(axis.val) / largest, abs=0.02)


def test_radial_and_transverse_are_those_of_the_source(run):
    seismograms = load_seismograms(run)
    angle = np.radians(radial_direction(seismograms))
    outward = np.stack([np.sin(angle), np.cos(angle)])
    clockwise = np.stack([np.cos(angle), -np.sin(angle)])
    for name, direction in (("R", outward), ("T", clockwise)):
        assert np.allclose(component(seismograms, name), np.einsum("ir,rit->rt", direction, seismograms.data[:, :2]))
    offset = seismograms.positions[:, :2] - seismograms.sources.centroid[:2]
    angle -= np.radians(seismograms.convergence)  # from the axis y instead of true North
    assert np.allclose(epicentral_distance(seismograms) * [np.sin(angle), np.cos(angle)], offset.T)


def test_first_arrivals_over_a_half_space_are_direct_then_refracted():
    slow, fast, depth = 4000.0, 6000.0, 1000.0
    distance = np.array([500.0, 1500.0, 4000.0, 10000.0])
    times = first_arrival(distance, 0.0, 0.0, [0.0, -depth], [slow, fast])
    assert np.allclose(first_arrival(distance, -depth, -depth, [0.0, -depth], [slow, fast]), distance / fast)
    refracted = distance / fast + 2 * depth * np.sqrt(1 / slow**2 - 1 / fast**2)
    crossover = 2 * depth * np.sqrt((fast + slow) / (fast - slow))
    assert np.allclose(times, np.where(distance < crossover, distance / slow, refracted))
    # a source below the interface: the ray that Fermat's principle finds on a fine grid of crossing points
    below = first_arrival(np.array([5000.0]), -3000.0, 0.0, [0.0, -depth], [slow, fast])[0]
    crossing = np.linspace(0.0, 5000.0, 200001)
    fermat = np.hypot(crossing, 2000.0) / fast + np.hypot(5000.0 - crossing, depth) / slow
    assert below == pytest.approx(fermat.min(), rel=1e-9)


def test_layers_are_taken_from_the_description():
    layers = {"material": {"layers": [{"top": -1000, "vp": 6, "vs": 3, "rho": 2}, {"top": 0, "vp": 4, "vs": 2}]}}
    assert layers_of(layers) == ([0.0, -1000.0], [4.0, 6.0], [2.0, 3.0])
    assert layers_of({"material": {"homogeneous": {"vp": 5, "vs": 3, "rho": 2}}}) == ([0.0], [5.0], [3.0])
    for other in (
        {"material": {"layers": [{"top": 0, "vp": 4, "vs": 2, "gradient": {"vp": 0.5}}]}},
        {"material": {"homogeneous": {"vp": 4, "vs": 2, "anisotropy": {"epsilon": 0.1}}}},
        {},
        {"material": {"file": "model.nc"}},
        {"material": {"layers": [{"top": 0}]}},
        {"material": 3},
    ):
        assert layers_of(other) is None


def test_a_description_that_cannot_be_read_is_empty(run, tmp_path):
    assert domain_of(read_description(run)) == (-3e4, 3e4, -3e4, 3e4)
    assert read_description(tmp_path) == {}
    for text in ("[1, 2", "- 1", "\xff"):
        (tmp_path / "simulation.yaml").write_text(text, encoding="latin-1")
        assert read_description(tmp_path) == {}
    for other in ({}, {"domain": 3}, {"domain": {"x": [0, 1], "y": ["north", 1]}}):
        assert domain_of(other) is None


def test_movies_have_a_frame_for_each_snapshot(run, tmp_path):
    from PIL import Image

    path = wavefield_movie(run, tmp_path / "a.gif", component="norm")[0]
    with Image.open(path) as movie:
        assert movie.n_frames == 4
        frames = []
        for index in range(4):
            movie.seek(index)
            frames.append(np.asarray(movie.convert("RGB")).astype(int))
        # paper stays white, and the waves move on (below the clock)
        assert (frames[2][0, 0] == 255).all()
        assert np.abs(frames[3] - frames[2])[200:500, 200:500].max() > 50


def test_movie_arguments_are_checked(run, tmp_path, monkeypatch):
    with pytest.raises(InputError, match="'pressure'.*one of velocity"):
        wavefield_movie(run, tmp_path / "a.gif", field="pressure")
    with pytest.raises(InputError, match="one of E, N, Z, norm"):
        wavefield_movie(run, tmp_path / "a.gif", component="R")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OutputError, match="needs the program ffmpeg"):
        wavefield_movie(run, tmp_path / "a.mp4")
    assert wavefield_movie(run, tmp_path / "b") == [tmp_path / "b.gif"]


def test_an_mp4_goes_through_ffmpeg(run, tmp_path, monkeypatch):
    """A stand-in for ffmpeg keeps what it is sent: raw frames of the size it was told, both even."""
    program = tmp_path / "bin" / "ffmpeg"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nfor last; do :; done\necho "$@" > "$last.arguments"\ncat > "$last"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    path = wavefield_movie(run, tmp_path / "a.mp4")[0]
    arguments = (tmp_path / "a.mp4.arguments").read_text().split()
    width, height = (int(size) for size in arguments[arguments.index("-s") + 1].split("x"))
    assert width % 2 == height % 2 == 0
    assert path.stat().st_size == 4 * width * height * 3
    program.write_text("#!/bin/sh\ncat > /dev/null\necho no such encoder >&2\nexit 1\n")
    with pytest.raises(OutputError, match="ffmpeg failed: no such encoder"):
        wavefield_movie(run, tmp_path / "b.mp4")


@pytest.mark.parametrize("shape", [(3, 5, 1), (4, 5, 6)])
def test_planes_of_all_directions_and_volumes_make_movies(tmp_path, shape):
    folder = tmp_path / "run"
    for name, steps in (("a", 2), ("b", 1)):
        path, place = folder / "snapshots" / f"{name}.vtkhdf", ((0, 0, -300.0), (50.0, 50.0, 100.0))
        with SnapshotWriter(path, *place, shape, ["pressure"], step_count=2) as writer:
            for step in range(steps):
                writer.write(0.1 * step, {"pressure": np.full(shape, 1.0 + step)})
    assert [path.name for path in snapshot_files(folder)] == ["a.vtkhdf", "b.vtkhdf"]
    assert wavefield_movie(folder, tmp_path / "a.gif")[0].stat().st_size > 1000


@pytest.mark.parametrize(("value", "limit"), [(0.97, 1.0), (1.0, 1.0), (1.01, 2.0), (0.003, 0.005), (51.0, 100.0)])
def test_colour_limits_are_round(value, limit):
    assert nice_limit(value) == pytest.approx(limit)


@pytest.mark.parametrize(
    ("largest", "unit", "expected"),
    [
        (2.0, "m/s", (1.0, "m/s")), (0.02, "m/s", (100.0, "cm/s")), (2e-3, "m", (1e3, "mm")), (0.0, "m", (1.0, "m")),
        (3e-6, "m/s^2", (1e6, "µm/s²")), (5.0, "Pa", (1.0, "Pa")), (2.5e6, "Pa", (1e-6, "MPa")),
    ],
)  # fmt: skip
def test_units_suit_their_numbers(largest, unit, expected):
    assert readable_unit(largest, unit) == expected


def test_peak_motion_comes_back_and_replaces_only_when_complete(tmp_path, monkeypatch):
    x, y = np.linspace(0, 1, 3), np.linspace(0, 1, 2)
    maps = np.arange(18.0).reshape(3, 2, 3)
    write_peak_motion(tmp_path / "peak_motion.h5", x, y, maps, 0.1 * maps, {"title": "A"})
    read = load_peak_motion(tmp_path)
    assert np.array_equal(read.x, x) and np.array_equal(read.y, y)
    assert np.array_equal(read.pgv["horizontal"], maps[0]) and np.array_equal(read.pgd["total"], 0.1 * maps[2])
    for name in ("title", "axes", "crs", "time_origin"):
        assert name in read.attributes
    with pytest.raises(ValueError, match="has shape"):
        write_peak_motion(tmp_path / "peak_motion.h5", x, y, maps, maps.transpose(0, 2, 1))
    with pytest.raises(ValueError, match="unknown measure loudest"):
        write_peak_motion(tmp_path / "peak_motion.h5", x, y, {"loudest": maps[0]}, maps)
    assert load_peak_motion(tmp_path).attributes["title"] == "A"
    assert [path.name for path in tmp_path.iterdir()] == ["peak_motion.h5"]
