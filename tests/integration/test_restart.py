"""A run that is stopped, or killed, goes on to the very result of one that was not."""

from __future__ import annotations

import os
import re
import shutil
import signal
import time
from pathlib import Path

import pytest
import yaml

import lithowave as lw
from lithowave.figures import domain_of, plot_run, read_description
from lithowave.output import FILE_NAME as CHECKPOINT
from lithowave.output import read_report
from lithowave.run import SignalHandler, launch, restart_run, run_simulation
from small_run import (
    EVERYTHING,
    assert_same_results,
    lithowave,
    log_of,
    report_of,
    result_of,
    settings,
    signal_after,
    spawn,
    stop_at,
    write_small,
)

TERMINATED = 128 + signal.SIGTERM


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The run that nothing stops, with everything that can be written."""
    folder = tmp_path_factory.mktemp("whole")
    lithowave("run", write_small(folder), "--output", folder / "run", *settings(*EVERYTHING))
    assert report_of(folder / "run")["exit_state"] == "finished"
    return folder / "run"


@pytest.fixture(scope="module")
def stopped_run(tmp_path_factory):
    """A run that was stopped after its first checkpoint."""
    folder = tmp_path_factory.mktemp("stopped")
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, 71)
        result_of(run_simulation, lw.Simulation.from_file(write_small(folder)), folder / "run")
    return folder / "run"


@pytest.mark.parametrize(
    ("step", "number", "status"),
    [(71, signal.SIGTERM, TERMINATED), (64, signal.SIGUSR1, 75), (64, signal.SIGUSR2, 0), (25, signal.SIGKILL, -9),
     (60, signal.SIGKILL, -9)],
)  # fmt: skip
def test_a_run_with_a_signal_has_the_results_of_one_without(tmp_path, whole, step, number, status):
    """SIGUSR1 has a status by which the script of a job knows that a checkpoint exists; SIGUSR2 only writes one."""
    name, folder = signal.Signals(number).name, tmp_path / "run"
    process = spawn(
        "run", write_small(tmp_path), "--output", folder, *settings(*EVERYTHING), before=signal_after(step, number)
    )
    assert process.returncode == status and "Traceback" not in process.errors, process.errors
    report, first = report_of(folder), step
    if name == "SIGUSR2":
        assert f"step {step}: checkpoint" in log_of(folder) and report["exit_state"] == "finished"
    elif name == "SIGKILL":
        lost = "lost: the process ended without reporting an exit state"
        first = int(log_of(folder).split(": checkpoint")[0].split()[-1]) if step == 60 else 0
        assert (0 < first < 60) == (folder / CHECKPOINT).exists() == (step == 60)
        assert report["exit_state"] == "running" and lost in lithowave("status", folder)
        with pytest.warns(lw.LithowaveWarning, match="incomplete: unfinished, (ends at|no sample)"):
            assert not lw.load_seismograms(folder).complete
        assert first == 0 or f"`lithowave restart {folder}` resumes from step {first}" in lithowave("status", folder)
    else:
        assert f"stopped at step {step}: by {name}, checkpoint written" in process.output
        assert f"lithowave restart {folder}" in process.output and not (folder / "progress.json").exists()
        resumes = f"stopped at step {step}: by {name}; `lithowave restart {folder}` resumes from step {step}"
        assert resumes in lithowave("status", folder)
        ending = [report[key] for key in ("exit_state", "stopped_by", "stopped_at_step")]
        assert ending == ["stopped", name, step]
        with pytest.warns(lw.LithowaveWarning, match=f"incomplete: stopped by {name}"):
            assert 0 < len(lw.load_seismograms(folder).time) < len(lw.load_seismograms(whole).time)
    if status:
        # Another number of threads changes nothing in the result, and the checkpoint still belongs to the run.
        restarted = spawn("restart", folder, "--threads", 2)
        assert restarted.returncode == 0 and f"lithowave plot {folder}" in restarted.output, restarted.errors
        report = report_of(folder)
        assert report["exit_state"] == "finished" and "stopped_by" not in report and report["threads"] <= 2
        assert [part["step"] for part in report["restarts"]] == [first]
        assert report["restarts"][0]["before"].get("stopped_by") == (None if status < 0 else name)
    assert_same_results(folder, whole)


def test_sigusr1_before_the_time_loop_waits_for_the_first_step(tmp_path):
    before = """
        import os
        from lithowave.description.simulation import Simulation
        read = Simulation.from_file
        def signal_and_read(*arguments, **keywords):
            os.kill(os.getpid(), 10)
            return read(*arguments, **keywords)
        Simulation.from_file = signal_and_read
    """
    process = spawn("run", write_small(tmp_path), "--output", tmp_path / "run", before=before)
    assert process.returncode == 75, process.errors
    assert report_of(tmp_path / "run")["stopped_at_step"] == 1


@pytest.mark.parametrize("numbers", [("SIGTERM", "SIGUSR1"), ("SIGUSR1", "SIGTERM"), ("SIGTERM", "SIGTERM")])
def test_a_cancellation_prevails_and_ctrl_c_typed_twice_does_not_wait(numbers):
    signals = SignalHandler()
    for name in numbers:
        signals.receive(signal.Signals[name], None)
    assert signals.pending and signals.stopped_by == "SIGTERM"
    with pytest.raises(KeyboardInterrupt):
        signals.receive(signal.SIGINT, None)


def test_a_signal_from_outside(tmp_path):
    folder = tmp_path / "run"
    process = spawn(
        "run", write_small(tmp_path, ("duration: 0.8", "duration: 60")), "--output", folder, wait=False
    )
    progress, patience = folder / "progress.json", time.monotonic() + 60
    while not progress.exists():
        assert process.poll() is None and time.monotonic() < patience
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == TERMINATED, errors
    assert (folder / CHECKPOINT).exists() and "by SIGTERM" in output


def test_ctrl_c_is_told_apart(tmp_path, monkeypatch):
    before = signal.getsignal(signal.SIGINT)
    stop_at(monkeypatch, 30, number=signal.SIGINT)
    text = lithowave("run", write_small(tmp_path), "--output", tmp_path / "run", status=128 + signal.SIGINT)
    assert "stopped at step 30: by SIGINT" in text
    assert signal.getsignal(signal.SIGINT) is before, "the handlers are as before"


def test_a_signal_at_the_last_step_does_not_stop_what_is_complete(tmp_path, monkeypatch):
    """The run is complete, and the signal is not lost: the exception contains the complete result."""
    file = write_small(tmp_path)
    simulation = lw.Simulation.from_file(file)
    stop_at(monkeypatch, lw.run_simulation(simulation, tmp_path / "a").report["plan"]["steps"], number=signal.SIGINT)
    with pytest.raises(KeyboardInterrupt, match="after the last step.*complete") as stop:
        run_simulation(simulation, tmp_path / "b")
    assert stop.value.result.complete and stop.value.checkpoint is None
    assert_same_results(tmp_path / "a", tmp_path / "b")
    assert "finished: in" in lithowave("run", file, "--output", tmp_path / "c")


def test_what_cannot_be_restarted(tmp_path, whole, monkeypatch):
    assert "the run is complete; there is nothing to restart" in lithowave("restart", whole, status=2)
    text = lithowave("restart", tmp_path / "nothing", status=2)
    assert "nothing: is not a run folder: run.json is missing" in text
    assert not (tmp_path / "nothing").exists()

    stop_at(monkeypatch, 20)
    folder = tmp_path / "run"
    lithowave("run", write_small(tmp_path), "--output", folder, status=TERMINATED)
    description = folder / "simulation.yaml"
    description.write_text(description.read_text().replace("2600", "2500"))
    assert "belongs to another description" in lithowave("restart", folder, status=1)


def test_input_files_must_be_those_of_the_beginning(tmp_path, monkeypatch):
    (tmp_path / "STATIONS").write_text("A XX 100.0 200.0 0.0 0.0\n")
    line = "{network: XX, name: S01, position: [330, 250, 0]}"
    file = write_small(tmp_path, (line, "{file: STATIONS, coordinates: cartesian}"))
    stop_at(monkeypatch, 20)
    folder = tmp_path / "run"
    lithowave("run", file, "--output", folder, status=TERMINATED)
    monkeypatch.undo()
    (tmp_path / "STATIONS").write_text("A XX 150.0 200.0 0.0 0.0\n")
    text = lithowave("restart", folder, status=2)
    assert "STATIONS has changed since this run began" in text
    (tmp_path / "STATIONS").write_text("A XX 100.0 200.0 0.0 0.0\n")
    lithowave("restart", folder)


def test_a_python_material_cannot_be_restarted(tmp_path, monkeypatch):
    def ground(x, y, z):
        return 5000.0 + 0 * x, 2900.0, 2600.0

    material, folder = lw.Material(function=ground), tmp_path / "run"
    original = lw.Simulation.from_file(write_small(tmp_path))
    simulation = original.with_overrides({"material": material})
    stop_at(monkeypatch, 20)
    assert not result_of(run_simulation, simulation, folder).complete
    assert "contains a Python function" in lithowave("restart", folder, status=2)
    assert lithowave("status", folder).endswith("stopped at step 20: by SIGTERM; not restartable\n")
    written = read_description(folder)
    assert written["material"]["function"].endswith("ground")
    expected = yaml.safe_load(original.with_overrides({"output.directory": str(folder)}).to_yaml())
    assert written | {"material": None} == expected | {"material": None}
    refused = lithowave("check", folder / "simulation.yaml", status=2)
    assert "material.function: " in refused and "ground' is not a function" in refused


def test_a_run_with_a_python_material_is_drawn_and_compared(tmp_path):
    function = lw.Material(function=lambda x, y, z: (5000.0 + 0 * x, 2900.0, 2600.0))
    original = lw.Simulation.from_file(write_small(tmp_path, ("duration: 0.8", "duration: 0.1")))
    original.run(output=tmp_path / "a")
    original.with_overrides({"material": function}).run(output=tmp_path / "b")
    assert domain_of(read_description(tmp_path / "b")) == (-600, 600, -600, 600)
    assert (tmp_path / "b" / "figures" / "record_section.png") in plot_run(tmp_path / "b")
    comparison = lw.compare_runs(tmp_path / "a", tmp_path / "b")
    assert comparison.methods == ("finite difference (order 4)",) * 2 and comparison.overall_l2 < 1e-6


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 0x40
    path.write_bytes(content)


def test_a_damaged_checkpoint_is_refused_and_the_previous_one_gives_the_same_result(tmp_path, monkeypatch):
    simulation = lw.Simulation.from_file(write_small(tmp_path))
    run_simulation(simulation, tmp_path / "whole")
    assert [path.name for path in (tmp_path / "whole" / "checkpoint").glob("*.h5")] == ["checkpoint.h5"]
    stop_at(monkeypatch, 71)
    folder = tmp_path / "run"
    result_of(run_simulation, simulation, folder)
    (part,) = (folder / "checkpoint" / "step_000000071").iterdir()
    flip(part, part.stat().st_size // 2)  # a velocity or a stress
    text = " ".join(lithowave("restart", folder, status=1).split())
    assert "rank_0000.h5: is damaged" in text and "Traceback" not in text
    step = int(re.search(r"The previous checkpoint, of step (\d+), is intact", text)[1])
    assert 0 < step < 71
    words = text[text.index("`mv ") + 1 :].split("`")[0].split()
    assert words[0] == "mv"
    os.replace(words[1], words[2])
    monkeypatch.undo()
    assert f"resumes from step {step}" in lithowave("status", folder)
    restart_run(folder)
    assert report_of(folder)["restarts"][-1]["step"] == step
    assert_same_results(folder, tmp_path / "whole")


def test_a_stored_description_with_removed_keys_at_their_defaults(tmp_path, monkeypatch):
    """As earlier versions wrote it, with a checkpoint that has its hash."""
    simulation = lw.Simulation.from_file(write_small(tmp_path))
    run_simulation(simulation, tmp_path / "whole")

    def recorded(simulation: lw.Simulation) -> str:
        content = yaml.safe_load(simulation.to_yaml())
        content["solver"]["coefficients"] = "taylor"
        content["compute"] |= {"overlap": True, "patience": 600.0}
        return yaml.safe_dump(content)

    stop_at(monkeypatch, 71)
    monkeypatch.setattr(launch, "recorded_yaml", recorded)
    result_of(run_simulation, simulation, tmp_path / "run")
    monkeypatch.undo()
    restart_run(tmp_path / "run")
    assert report_of(tmp_path / "run")["restarts"][-1]["step"] == 71
    assert_same_results(tmp_path / "run", tmp_path / "whole")


DAMAGE = {
    "not UTF-8": b"\xff\xfe{}", "truncated": b'{"exit_state": "stop', "a list": b"[]", "a number": b"3", "empty": b"",
    "deep": b"[" * 100_000, "endless": b'{"steps": ' + b"9" * 5000 + b"}", "words": b'{"wall_s": "x"}',
    "state": b'{"exit_state": ["stopped"]}', "plan": b'{"exit_state": "stopped", "plan": 3}',
    "inputs": b'{"exit_state": "stopped", "inputs": ["a"]}', "phases": b'{"exit_state": "finished", "phases": [3]}',
    "times": b'{"exit_state": "finished", "unit": "points", "rate_points_per_s": "fast", "wall_s": null}',
    "restarts": b'{"exit_state": "stopped", "restarts": 3}',
    "numbers": b'{"exit_state": "finished", "plan": {"steps": "x"}}',
}  # fmt: skip


def test_a_damaged_report_is_refused_with_its_name(tmp_path):
    for name, content in DAMAGE.items():
        (tmp_path / "run.json").write_bytes(content)
        with pytest.raises(lw.OutputError, match=r"run\.json: is damaged: "):
            read_report(tmp_path)
            pytest.fail(name)


def assert_no_traceback(folder: Path, *commands: str, named: str = "") -> None:
    for command in commands:
        text = " ".join(lithowave(command, folder, status=None).split())
        assert "Traceback" not in text and named in text, (command, text)


@pytest.mark.parametrize("damage", ["not UTF-8", "plan"])
def test_commands_name_a_damaged_report(stopped_run, tmp_path, damage):
    shutil.copytree(stopped_run, tmp_path / "run")
    (tmp_path / "run" / "run.json").write_bytes(DAMAGE[damage])
    assert_no_traceback(tmp_path / "run", "restart", "status", "report", named="run.json: is damaged")
    assert_no_traceback(tmp_path / "run", "plot")
