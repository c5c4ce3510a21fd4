"""Surveys: their description, shots that run side by side, fail, are stopped and go on."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from pathlib import Path

import numpy as np
import pytest

import lithowave as lw
from lithowave.shots import check_survey, run_survey, shot_slots
from lithowave.shots import folder as places_module
from lithowave.shots import tasks as task
from mpi_runs import on_ranks
from small_machine import limit_memory
from small_run import lithowave, log_of, report_of, settings, spawn
from small_survey import LINE, survey_text, write_survey


def survey(
    shots: str = LINE, more: str = "", *changes: tuple[str, str], directory: Path | None = None
) -> lw.Simulation:
    return lw.Simulation.from_text(survey_text(shots, more, *changes), directory)


def positions(simulation: lw.Simulation) -> list[tuple[float, ...]]:
    return [shot.position for shot in simulation.survey.shot_list(simulation.domain)]


def refused(shots: str = LINE, more: str = "", *changes: tuple[str, str], directory: Path | None = None) -> str:
    with pytest.raises(lw.InputError) as caught:
        survey(shots, more, *changes, directory=directory)
    return str(caught.value)


# --- the description


def test_shots_of_a_line_a_plane_and_single_places():
    assert positions(survey()) == [(-200, 0, -300), (0, 0, -300), (200, 0, -300)]
    step = "{line: {start: [-200, 0, -300], end: [250, 0, -300], step: 150 m}}"
    assert positions(survey(step)) == [(-200, 0, -300), (-50, 0, -300), (100, 0, -300), (250, 0, -300)]
    assert positions(survey(step.replace("250", "249")))[-1] == (100, 0, -300)
    plane = "{plane: {start: [-100, -50], end: [100, 50], counts: [3, 2]}, depth: 40}"
    expected = [(x, y, -40) for y in (-50, 50) for x in (-100, 0, 100)]
    assert positions(survey(plane)) == expected
    several = f"[{{position: [10, 20, -30], name: first}}, {LINE}, {{position: [1, 2], depth: 3}}]"
    simulation = survey(several)
    assert positions(simulation)[0] == (10, 20, -30) and positions(simulation)[-1] == (1, 2, -3)
    shots = list(simulation.shots())
    assert [shot.title for shot in shots][:2] == ["small, shot 1 (first)", "small, shot 2"]
    assert [str(shot.output.directory) for shot in shots][-1] == "out/shot_0005"
    assert shots[0].sources[0].name == "first" and shots[0].survey is None


def test_a_shot_is_the_description_with_the_source_elsewhere():
    simulation = survey()
    shot, source = simulation.shot(3), simulation.point_sources()[0]
    moved = shot.point_sources()[0]
    assert moved.position == (200, 0, -300) and moved.moment == source.moment
    assert moved.time_function == source.time_function
    assert shot.receiver_list() == simulation.receiver_list() and shot.material == simulation.material
    assert lw.Simulation.from_text(shot.to_yaml()) == shot
    again = lw.Simulation.from_text(simulation.to_yaml())
    assert again == simulation and positions(again) == positions(simulation)
    assert "survey" not in shot.to_yaml()
    with pytest.raises(lw.InputError, match="there is no shot 4; the survey has shots 1 to 3"):
        simulation.shot(4)


def test_strength_and_time_function_of_shots():
    other = "[{position: [0, 0, -300], scale: 2, time_function: {gaussian: {sigma: 0.05, delay: 0.2}}}]"
    simulation = survey(other)
    moved = simulation.shot(1).point_sources()[0]
    assert np.allclose(moved.moment, 2 * np.array(simulation.point_sources()[0].moment), rtol=1e-12)
    assert moved.time_function.shape.sigma == 0.05
    couple = "double_couple: {strike: 30, dip: 60, rake: 90, mw: 4}"
    for mechanism, key in (("force: [1, 2, 3]", "force"), ("moment_tensor: {xx: 1, yz: 4}", "moment")):
        simulation = survey(other, "", (couple, mechanism))
        before, after = (getattr(one.point_sources()[0], key) for one in (simulation, simulation.shot(1)))
        assert np.array_equal(after, 2 * np.array(before))


def test_receivers_that_move_with_the_shot():
    """Relative to the source at (30, -20)."""
    shots, station = "{position: [130, 80, -300]}", "{network: XX, name: S01, position: [330, 250, 0]}"
    fixed = [receiver.position for receiver in survey(shots).receiver_list()]
    changes = (("[-500, 0, 0]", "[-500, 0]"), ("[500, 0, 0]", "[400, 0]"))
    simulation = survey(shots, "  moving_receivers: true\n", *changes)
    moved = [receiver.position for receiver in simulation.shot(1).receiver_list()]
    assert moved[0] == (430, 350, 0) and moved[1] == (-400, 100, 0) and moved[3] == (500, 100, 0)
    assert fixed[0] == (330, 250, 0)
    shot = simulation.shot(1)
    assert lw.Simulation.from_text(shot.to_yaml()) == shot  # the coordinates are plain numbers
    text = refused(LINE, "  moving_receivers: true\n")
    assert "shot 1 moves XX.L1 to x = -730 m, y = 20 m, outside the domain (x from -600" in text
    assert station in survey_text()


def test_receivers_of_a_file_move(tmp_path):
    (tmp_path / "STATIONS").write_text("A XX 100.0 200.0 0.0 5.0\n")
    station = ("{network: XX, name: S01, position: [330, 250, 0]}", "{file: STATIONS, coordinates: cartesian}")
    line = ("  - {network: XX, line: {prefix: L, start: [-500, 0, 0], end: [500, 0, 0], count: 3}}\n", "")
    shots, moving = "{position: [40, -20, -300]}", "  moving_receivers: true\n"
    shot = survey(shots, moving, station, line, directory=tmp_path).shot(1)
    receiver, *others = shot.receiver_list()
    assert (receiver.name, receiver.position, others) == ("XX.A", (210, 100, -5), [])
    assert lw.Simulation.from_text(shot.to_yaml()) == shot


def test_shots_of_a_file(tmp_path):
    file = tmp_path / "shots.csv"
    file.write_text("# a line of three\nname, x, y, depth, scale\nA, 100, 50, 20, 1\nB, -100, 50.5, 2e1, 3\n")
    simulation = survey("{file: shots.csv, scale: 2}", directory=tmp_path)
    shots = simulation.survey.shot_list(simulation.domain)
    assert [(shot.name, shot.position, shot.scale) for shot in shots] == [
        ("A", (100, 50, -20), 2),
        ("B", (-100, 50.5, -20), 6),
    ]
    assert file in simulation.input_files()
    crs = ("z: [-800, 0]}", "z: [-800, 0], crs: {longitude: 11, latitude: 48}}")
    file.write_text("longitude,latitude,depth\n11,48,100\n")
    (position,) = positions(survey("{file: shots.csv}", "", crs, directory=tmp_path))
    assert position == pytest.approx((0, 0, -100), abs=1e-6)
    assert "needs the origin domain.crs" in refused("{file: shots.csv}", directory=tmp_path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("x,y,z\n1,2\n", ":2: shots: the line has 2 columns, the first line 3"),
        ("x,y,z\n1,2,three\n", ":2: z: 'three' is not a finite number"),
        ("x,y,z,w\n", ":1: shots: 'w' is not a column"),
        ("x,y,z,depth\n1,2,3,4\n", "the columns x, y, z, depth do not define a position"),
        ("x,y,z\n", "the file has no shot"),
        ("longitude,latitude\n0,100\n", "latitude is -90 to 90"),
        ("x,y,z,scale\n0,0,0,0\n", "must be greater than 0"),
    ],
)
def test_files_of_shots_that_cannot_be_read(tmp_path, content, words):
    (tmp_path / "shots.csv").write_text(content)
    text = refused("{file: shots.csv}", directory=tmp_path)
    assert words in text and "survey.shots" in text and "shots.csv" in text


@pytest.mark.parametrize(
    ("shots", "words"),
    [
        ("{position: [0, 0, 20]}", "shot 1: z = 20 m is above the free surface"),
        ("[{position: [0, 0, -20]}, {position: [700, 0, -20]}]", "shots[1]: shot 2: x = 700 m is outside the domain"),
        ("{line: {start: [0, 0, -9], end: [9, 0, -9]}}", "neither count nor step is given"),
        ("{line: {start: [0, 0, -9], end: [9, 0, -9], count: 2, step: 3}}", "count and step are both given"),
        ("{line: {start: [0, 0], end: [9, 0, -9], count: 2}}", "both are [x, y, z], or both [x, y]"),
        ("{plane: {start: [0, 0, -9], end: [9, 0, -9], counts: [2, 2]}}", "start and end agree in y and z"),
        ("{position: [0, 0, -20], depth: 3}", "a depth is given, but z is given as well"),
        ("{scale: 2}", "has no place"),
        ("{line: {start: [0, 0, -9], end: [9, 0, -9], count: 2}, name: A}", "line and name are both given"),
        ("{position: [0, 0, -20], time_function: {ricker: {frequency: 2, delay: 1}}}", "shots.time_function"),
        ("{longitude: 11, latitude: 48, depth: 3}", "domain.crs"),
        ("[]", "shots"),
    ],
)
def test_shots_that_are_refused(shots, words):
    assert words in refused(shots)


def test_a_survey_has_one_source():
    more = "    time_function: {gaussian: {sigma: 0.06, delay: 0.3}}\n"
    second = more + "  - position: [0, 0, -300]\n    force: [0, 0, 1]\n" + more
    assert "sources: a survey moves one source, but there are 2" in refused(LINE, "", (more, second))


# --- running


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """The folder of a survey that ran, and what the command said."""
    folder = tmp_path_factory.mktemp("survey")
    file = write_survey(folder, LINE, "  at_once: 2\n")
    return folder / "out", lithowave("run", file, "--output", folder / "out"), file


def test_every_shot_is_a_run_of_its_own(done):
    folder, text, file = done
    assert "shot 1 of 3: running" in text and "finished: all 3 shots" in text and "1 of 3 finished" in text
    first, second = (text.index(f"shot {number} of 3: running") for number in (1, 2))
    assert max(first, second) < text.index("finished: in"), "two at a time"
    for number in (1, 2, 3):
        report = report_of(folder / f"shot_000{number}")
        assert report["exit_state"] == "finished" and report["threads"] == 1
    alone = lw.Simulation.from_file(file).shot(2).run(output=folder.parent / "alone")
    assert np.array_equal(alone.seismograms.data, lw.load_seismograms(folder / "shot_0002").data)
    assert not np.array_equal(alone.seismograms.data, lw.load_seismograms(folder / "shot_0001").data)


def test_finished_shots_are_left_alone(done):
    folder, _, file = done
    before = (folder / "shot_0001" / "run.json").stat().st_mtime_ns
    assert "begins" not in lithowave("run", file, "--output", folder)
    text = lithowave("run", file, "--output", folder, "--shot", 1)
    assert "finished: shot 1, computed earlier; add --overwrite to run it again" in text
    assert "finished: in" not in text and f"results: {folder / 'shot_0001'}" in text
    assert (folder / "shot_0001" / "run.json").stat().st_mtime_ns == before
    assert "all shots of this survey are finished" in lithowave("restart", folder, status=2)
    text = lithowave("run", file, "--output", folder, *settings("duration=0.5"), status=2)
    assert "contains another survey (with another description)" in text and "--overwrite" in text


@pytest.mark.slow
def test_plot_draws_each_finished_shot(done, tmp_path):
    folder, text, _ = done
    assert f"next:    lithowave plot {folder}" in text
    figures = lithowave("plot", folder).splitlines()
    assert [path for path in figures if path.endswith("map.png")] == [
        str(folder / f"shot_000{number}" / "figures" / "map.png") for number in (1, 2, 3)
    ]
    assert all(Path(path).is_file() for path in figures)
    lithowave("run", write_survey(tmp_path), "--output", tmp_path / "some", "--shot", 2)
    text = lithowave("plot", tmp_path / "some")
    assert "shot_0002/figures/record_section.png" in text and "shot_0001" not in text
    assert "1 of 3 shots finished; the other shots have no figures" in text
    (tmp_path / "some" / "shot_0002" / "run.json").unlink()
    text = lithowave("plot", tmp_path / "some", status=2)
    assert "none of the 3 shots of this survey is finished" in text
    assert f"run them with `lithowave restart {tmp_path / 'some'}`" in text


def test_check_tells_of_a_shot_and_of_all(done, tmp_path):
    folder, _, file = done
    report = json.loads(lithowave("check", file, "--json", *settings(f"output.directory={tmp_path / 'new'}")))
    assert (report["shots"], report["finished"], report["at_once"]) == (3, 0, 2)
    assert report["time_s"] == pytest.approx(3 * report["shot"]["loop_s"])
    assert report["output_bytes"] == 3 * report["shot"]["output_bytes"]
    assert report["memory_bytes"] == 2 * report["shot"]["memory_bytes"]
    printed = str(check_survey(survey(LINE, "  at_once: 2\n"), measure=False))
    assert re.search("^ +shots: 3, 2 at a time$", printed, re.MULTILINE) and " grid: " in printed
    text = lithowave("check", file, "--no-measure", *settings(f"output.directory={folder}"))
    assert "3, 2 at a time, 3 of 3 finished" in text and "this run would work here" in text


def test_check_sees_what_does_not_fit_side_by_side(tmp_path, monkeypatch):
    file = write_survey(tmp_path, LINE, "  at_once: 2\n")
    limit_memory(monkeypatch, 300_000_000)
    text = lithowave("check", file, "--no-measure", status=1)
    assert "PROBLEM  not enough memory for 2 shots at a time" in text
    assert "would work" in lithowave("check", file, "--no-measure", *settings("survey.at_once=1"))


def test_a_shot_that_fails_does_not_stop_the_others(tmp_path):
    file, folder = write_survey(tmp_path, LINE, "  at_once: 2\n"), tmp_path / "out"
    blocking = folder / "shot_0002" / "seismograms.h5"
    blocking.parent.mkdir(parents=True)
    blocking.write_text("mine")
    text = lithowave("run", file, "--output", folder, status=1)
    assert "error: shot 2 of 3: " in text and "contains files with these names (seismograms.h5)" in text
    assert "1 of 3 shots failed: 2." in text and f"lithowave restart {folder}" in text
    status = json.loads(lithowave("status", folder, "--json"))
    assert status["counts"] == {"finished": 2, "failed": 1}
    assert "contains files with these names" in status["shots"][1]["error"]

    blocking.unlink()
    text = lithowave("restart", folder)
    assert "shot 2 of 3: running" in text and "shot 1 of 3: running" not in text
    assert json.loads(lithowave("status", folder, "--json"))["counts"] == {"finished": 3}
    assert json.loads((folder / "survey.json").read_text())["failures"] == {}


def wait_for(*paths: Path, process) -> None:
    patience = time.monotonic() + 60
    while not all(path.exists() for path in paths):
        assert process.poll() is None and time.monotonic() < patience
        time.sleep(0.02)


@pytest.mark.parametrize("number", [pytest.param(signal.SIGTERM, marks=pytest.mark.slow), signal.SIGINT])
def test_a_signal_passes_to_the_shots(tmp_path, number):
    file = write_survey(tmp_path, LINE, "  at_once: 2\n", ("duration: 0.8", "duration: 20"))
    folder = tmp_path / "out"
    process = spawn("run", file, "--output", folder, wait=False)
    wait_for(*(folder / name / "progress.json" for name in ("shot_0001", "shot_0002")), process=process)
    assert "running" in lithowave("status", folder)
    assert "a survey is running" in lithowave("run", file, "--output", folder, status=2)
    process.send_signal(number)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number, errors
    assert f"stopped: by {signal.Signals(number).name}, 0 of 3 shots finished" in output
    status = json.loads(lithowave("status", folder, "--json"))
    assert [shot["state"] for shot in status["shots"]] == ["stopped", "stopped", "waiting"]
    assert all(shot["resumable_from_step"] > 0 for shot in status["shots"][:2])
    assert "checkpoint written" in log_of(folder / "shot_0001")
    with pytest.warns(lw.LithowaveWarning, match="shot_0001: the seismograms are incomplete: stopped by SIGTERM"):
        assert not lw.load_seismograms(folder / "shot_0001").complete
    if number == signal.SIGTERM:
        text = lithowave("restart", folder)
        assert "finished: all 3 shots" in text
        step = status["shots"][0]["resumable_from_step"]
        assert [part["step"] for part in report_of(folder / "shot_0001")["restarts"]] == [step]


def test_one_shot_alone(tmp_path, monkeypatch):
    file, folder = write_survey(tmp_path), tmp_path / "out"
    text = lithowave("run", file, "--output", folder, "--shot", 2)
    assert f"results: {folder / 'shot_0002'}" in text
    status = json.loads(lithowave("status", folder, "--json"))
    assert [shot["state"] for shot in status["shots"]] == ["waiting", "finished", "waiting"]
    text = lithowave("run", file, "--output", folder, "--shot", "array", status=2)
    assert "requires SLURM_ARRAY_TASK_ID, which is not set" in text
    started = report_of(folder / "shot_0002")["setup_s"]
    text = lithowave("run", file, "--output", folder, "--shot", 2, "--overwrite")
    assert "finished: in" in text and report_of(folder / "shot_0002")["setup_s"] != started
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "3")
    lithowave("run", file, "--output", folder, "--shot", "array")
    assert report_of(folder / "shot_0003")["exit_state"] == "finished"
    assert "there is no shot 4" in lithowave("run", file, "--output", folder, "--shot", 4, status=2)
    assert "'two' is not a shot number" in lithowave("run", file, "--output", folder, "--shot", "two", status=2)
    text = lithowave("run", file, "--output", folder, "--shot", 1, *settings("survey=null"), status=2)
    assert "the description has no survey" in text


def test_a_shot_on_two_ranks(done, tmp_path):
    alone, _, file = done
    folder = tmp_path / "out"
    text = on_ranks(2, "run", str(file), "--output", str(folder), status=2)
    assert "2 ranks were started" in text
    on_ranks(2, "run", str(file), "--output", str(folder), "--shot", "2")
    assert report_of(folder / "shot_0002")["ranks"] == 2
    one, two = (lw.load_seismograms(path / "shot_0002").data for path in (alone, folder))
    assert np.abs(one - two).max() <= 1e-5 * np.abs(one).max() > 0


def test_from_python_and_what_is_refused_there(tmp_path):
    simulation = survey("{position: [0, 0, -300]}", "", ("duration: 0.8", "duration: 0.2"))
    events = []
    result = run_survey(simulation, tmp_path / "out", show=events.append, quantity="displacement")
    assert result.complete and result.failures == {} and [event["event"] for event in events] == ["begin", "end"]
    assert result.seismograms(1).names[0] == "XX.S01"
    assert lw.Simulation.from_file(tmp_path / "out/shot_0001/simulation.yaml").output.quantity == "displacement"
    material = lw.Material(function=lambda x, y, z: (5000.0 + 0 * x, 2900.0, 2600.0))
    with pytest.raises(lw.InputError, match="a Python function cannot be passed"):
        simulation.with_overrides({"material": material}).run(output=tmp_path / "other")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text("{}")
    with pytest.raises(lw.InputError, match="contains a run, not a survey"):
        simulation.run(output=tmp_path / "run")


def test_overwriting_begins_anew(tmp_path):
    file, folder = write_survey(tmp_path, "{position: [0, 0, -300]}"), tmp_path / "out"
    lithowave("run", file, "--output", folder)
    before = report_of(folder / "shot_0001")["started"], (folder / "shot_0001" / "run.json").stat().st_ino
    lithowave("run", file, "--output", folder, "--overwrite", *settings("duration=0.5"))
    assert (report_of(folder / "shot_0001")["started"], (folder / "shot_0001" / "run.json").stat().st_ino) != before
    assert lw.Simulation.from_file(folder / "shot_0001" / "simulation.yaml").duration == 0.5


# --- places


def test_devices_and_cores_are_shared(monkeypatch):
    automatic = survey().with_overrides({"compute.backend": "auto", "compute.threads": None})
    monkeypatch.setattr(places_module.cpu, "usable_cores", lambda: 8)
    monkeypatch.setattr(places_module, "visible_devices", lambda: ["2", "5"])
    assert [place.environment["CUDA_VISIBLE_DEVICES"] for place in shot_slots(automatic)] == ["2", "5"]
    crowded = shot_slots(automatic.with_overrides({"survey.at_once": 3}))
    assert [place.environment["CUDA_VISIBLE_DEVICES"] for place in crowded] == ["2", "5", "2"]
    on_cpu = automatic.with_overrides({"compute.backend": "cpu"})
    assert [(place.environment, place.threads) for place in shot_slots(on_cpu)] == [({}, None)]
    assert [place.threads for place in shot_slots(on_cpu.with_overrides({"survey.at_once": 3}))] == [2, 2, 2]
    monkeypatch.setattr(places_module, "visible_devices", list)
    assert [place.threads for place in shot_slots(automatic)] == [None]


def test_shots_do_not_take_part_in_the_launcher_of_the_survey(monkeypatch):
    monkeypatch.setenv("PMI_RANK", "0")
    monkeypatch.setenv("PMI_SIZE", "1")
    environment = task.shot_environment({"CUDA_VISIBLE_DEVICES": "1"})
    assert not {"PMI_RANK", "PMI_SIZE"} & set(environment) and environment["CUDA_VISIBLE_DEVICES"] == "1"
    assert (Path(environment["PYTHONPATH"].split(os.pathsep)[0]) / "lithowave").is_dir()
