"""Scripts for Slurm: what they ask for, and that they run, stop and go on with stand-ins for Slurm's programs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lithowave import submit
from lithowave.run import RESUME_STATUS
from small_run import lithowave, report_of, settings, write_small
from small_survey import write_survey

PLAIN = settings("output.snapshots=[]", "output.peak_motion=false")
HOUR = ("--time", "1:00:00")


def script_of(*arguments: object) -> str:
    """The script that is printed; bash accepts it."""
    text = lithowave("submit", *arguments, "--print")
    script = text[text.index("#!/bin/bash") :]
    checked = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr
    return script


def asked(script: str) -> dict[str, str]:
    """What the #SBATCH lines ask for."""
    lines = [line.removeprefix("#SBATCH --") for line in script.splitlines() if line.startswith("#SBATCH ")]
    return dict(line.partition("=")[::2] for line in lines)


def stand_in(folder: Path, name: str, body: str) -> None:
    """A program of this name in the folder ``programs``; it appends its arguments to ``calls.txt``."""
    programs = folder / "programs"
    programs.mkdir(exist_ok=True)
    (programs / name).write_text(f'#!/bin/bash\necho "{name} $*" >> {folder}/calls.txt\n{body}\n')
    (programs / name).chmod(0o755)


def begin(folder: Path, script: str, **variables: str) -> subprocess.Popen:
    """A job that runs the script, with the stand-ins before all other programs."""
    (folder / "job.sh").write_text(script)
    environment = {
        **os.environ, "PATH": f"{folder / 'programs'}:{os.environ['PATH']}", "PYTHONPATH": os.pathsep.join(sys.path),
        "SLURM_JOB_ID": "17", **variables,
    }  # fmt: skip
    return subprocess.Popen(
        ["bash", str(folder / "job.sh")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    )


def calls(folder: Path) -> str:
    return (folder / "calls.txt").read_text()


def test_what_is_asked_for(tmp_path):
    file = write_small(tmp_path)
    one = asked(script_of(file, "--partition", "short", "--account", "waves"))
    assert one["job-name"] == "small" and (one["nodes"], one["ntasks"]) == ("1", "1")
    assert one["cpus-per-task"] == "1", "compute.threads of the file"
    assert one["time"] == "0:15:00" and one["signal"] == "B:USR1@120" and "requeue" in one
    assert (one["partition"], one["account"]) == ("short", "waves") and "array" not in one
    assert 200 < int(one["mem"].removesuffix("M")) < 400

    many = asked(script_of(file, "--ranks", 6, "--ranks-per-node", 4, "--threads", 3, "--time", "2-00"))
    assert (many["nodes"], many["ntasks"], many["ntasks-per-node"]) == ("2", "6", "4")
    assert many["cpus-per-task"] == "3" and many["time"] == "2-00"
    assert int(many["mem"].removesuffix("M")) > 4 * 200, "each process takes its own"

    script = script_of(file, "--gpus", 8, "--ranks-per-node", 4, *HOUR, "--set", "compute.backend=auto")
    gpus = asked(script)
    assert (gpus["nodes"], gpus["ntasks"], gpus["gpus-per-node"]) == ("2", "8", "4") and "--backend cuda" in script
    assert f'srun --cpus-per-task={gpus["cpus-per-task"]} --wait=60 "${{lithowave[@]}}"' in script


def test_launchers_and_lines_before(tmp_path):
    file = write_small(tmp_path)
    script = script_of(file, "--ranks", 2, *HOUR, "--mpi", "pmix", "--before", "module load mpi", "--before", "date")
    assert "\nmodule load mpi\ndate\n" in script
    assert 'srun --mpi=pmix --cpus-per-task=1 --wait=60 "${lithowave[@]}"' in script
    script = script_of(file, "--ranks", 2, *HOUR, "--launcher", "mpiexec", *settings("title=it's"))
    assert 'mpiexec -n 2 "${lithowave[@]}"' in script
    assert """--set 'title=it'"'"'s'""" in script
    assert "srun" not in script_of(file, *HOUR)


def test_an_array_for_a_survey(tmp_path):
    file, folder = write_survey(tmp_path, more="  at_once: 2\n"), tmp_path / "out"
    script = script_of(file, "--output", folder, *HOUR)
    assert asked(script)["array"] == "1-3%2" and asked(script)["output"] == "small_%A_%a.txt"
    lithowave("run", file, "--output", folder, "--shot", 2)
    assert asked(script_of(file, "--output", folder, *HOUR))["array"] == "1,3%2"
    for number in (1, 3):
        job = begin(tmp_path, script, SLURM_ARRAY_TASK_ID=str(number))
        output, _ = job.communicate(timeout=120)
        assert job.returncode == 0, output
    assert '"finished": 3' in lithowave("status", folder, "--json")
    assert "no jobs remain to be submitted" in lithowave("submit", file, "--output", folder, "--print", status=2)


FORWARDING = """
for word; do [[ $word == */python* ]] && break; shift; done
"$@" & child=$!
trap 'echo USR1 >> FOLDER/signals.txt; kill -USR1 $child' USR1
trap 'echo TERM >> FOLDER/signals.txt; kill -TERM $child' TERM
while kill -0 $child 2> /dev/null; do wait $child; status=$?; done
exit $status"""
LAUNCHED = {
    "": (),
    "srun": ("--ranks", 2, "--mpi", "pmi2"),
    "mpiexec": ("--ranks", 2, "--launcher", "mpiexec"),
}


def stopped_job(tmp_path: Path, launcher: str, *numbers: int, **variables: str) -> tuple[Path, str, int, str]:
    """A job that gets signals while it runs: its folder, script, exit status and output.

    A stand-in for the launcher forwards signals, and runs the program once.
    """
    folder = tmp_path / "out"
    file = write_small(tmp_path, ("duration: 0.8", "duration: 15"))
    script = script_of(file, "--output", folder, *HOUR, *PLAIN, *LAUNCHED[launcher])
    stand_in(tmp_path, "scontrol", "")
    if launcher:
        stand_in(tmp_path, launcher, FORWARDING.replace("FOLDER", str(tmp_path)))
    job = begin(tmp_path, script, **variables)
    patience = time.monotonic() + 60
    while not (folder / "progress.json").exists():
        assert job.poll() is None and time.monotonic() < patience
        time.sleep(0.02)
    for number in numbers:
        job.send_signal(number)
    output, _ = job.communicate(timeout=60)
    return folder, script, job.returncode, output


@pytest.mark.parametrize("launcher", [pytest.param("", marks=pytest.mark.slow), "srun", "mpiexec"])
def test_a_job_near_its_time_limit_is_requeued_and_goes_on(tmp_path, launcher):
    folder, script, status, output = stopped_job(tmp_path, launcher, signal.SIGUSR1)
    assert status == RESUME_STATUS == 75, output
    assert "scontrol requeue 17\n" in calls(tmp_path)
    report = report_of(folder)
    assert (report["exit_state"], report["stopped_by"]) == ("stopped", "SIGUSR1")
    if launcher:
        assert (tmp_path / "signals.txt").read_text().split() == ["USR1"]

    (tmp_path / "calls.txt").write_text("")
    job = begin(tmp_path, script, SLURM_RESTART_COUNT="1")
    output, _ = job.communicate(timeout=120)
    assert job.returncode == 0, output
    after = report_of(folder)
    assert after["exit_state"] == "finished" and after["restarts"][0]["step"] == report["stopped_at_step"] > 0
    assert "scontrol" not in calls(tmp_path)


@pytest.mark.parametrize("launcher", ["", pytest.param("srun", marks=pytest.mark.slow), "mpiexec"])
def test_a_canceled_job_is_not_requeued(tmp_path, launcher):
    folder, _, status, output = stopped_job(tmp_path, launcher, signal.SIGTERM)
    assert status == 128 + signal.SIGTERM and "scontrol" not in output, output
    assert report_of(folder)["stopped_by"] == "SIGTERM"
    assert not (tmp_path / "calls.txt").exists() or "scontrol" not in calls(tmp_path)


def test_requeues_end(tmp_path):
    _, _, status, output = stopped_job(tmp_path, "", signal.SIGUSR1, SLURM_RESTART_COUNT=str(submit.REQUEUES))
    assert status == RESUME_STATUS and "was requeued 50 times: not requeued" in output
    assert not (tmp_path / "calls.txt").exists()


def test_an_element_of_an_array_requeues_itself_alone(tmp_path):
    """Also the element whose job has the number of the array."""
    file = write_survey(tmp_path, "{position: [0, 0, -300]}", "", ("duration: 0.8", "duration: 15"))
    stand_in(tmp_path, "scontrol", "")
    script = script_of(file, "--output", tmp_path / "out", *HOUR)
    job = begin(tmp_path, script, SLURM_ARRAY_JOB_ID="17", SLURM_ARRAY_TASK_ID="1")
    patience = time.monotonic() + 60
    while not (tmp_path / "out/shot_0001/progress.json").exists():
        assert job.poll() is None and time.monotonic() < patience
        time.sleep(0.02)
    job.send_signal(signal.SIGUSR1)
    output, _ = job.communicate(timeout=60)
    assert job.returncode == RESUME_STATUS, output
    assert calls(tmp_path) == "scontrol requeue 17_1\n"


@pytest.mark.parametrize(
    ("time", "lead"),
    [("1", 15), ("4", 60), ("4:00", 60), ("0:04:00", 60), ("0-0:04", 60), ("1:00:00", 120), ("1-2:30:10", 120)],
)
def test_the_announcement_leaves_time_for_a_checkpoint_and_for_the_run(tmp_path, time, lead):
    assert asked(script_of(write_small(tmp_path), "--time", time))["signal"] == f"B:USR1@{lead}"


def test_a_run_that_fails_is_not_tried_again(tmp_path):
    file = write_small(tmp_path)
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "seismograms.h5").write_text("mine")
    stand_in(tmp_path, "scontrol", "")
    (tmp_path / "calls.txt").write_text("")
    job = begin(tmp_path, script_of(file, "--output", folder, *HOUR))
    output, _ = job.communicate(timeout=60)
    assert job.returncode == 2 and "contains files with these names" in output and calls(tmp_path) == ""


def test_submitting(tmp_path, monkeypatch):
    file = write_small(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "sbatch was not found" in lithowave("submit", file, *HOUR, status=1)
    monkeypatch.undo()
    stand_in(tmp_path, "sbatch", f"cat > {tmp_path}/submitted.sh; echo 'Submitted batch job 17'")
    monkeypatch.setenv("PATH", str(tmp_path / "programs"), prepend=os.pathsep)
    assert lithowave("submit", file, *HOUR).endswith("Submitted batch job 17\n")
    assert (tmp_path / "submitted.sh").read_text() == script_of(file, *HOUR).rstrip("\n") + "\n"
    stand_in(tmp_path, "sbatch", "echo 'invalid partition' >&2; exit 1")
    assert "sbatch refused the script: invalid partition" in lithowave("submit", file, *HOUR, status=1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--ranks", 0), "--ranks: 0 is out of range"),
        (("--gpus", 2), "GPUs are requested, but compute.backend is cpu"),
        (("--gpus", 2, "--ranks", 3, *settings("compute.backend=cuda")), "3 ranks on 2 GPUs"),
        (settings("compute.backend=cuda"), "--gpus: is missing"),
        (("--gpus", 16, *settings("compute.backend=cuda")), "set the number of GPUs per node"),
        (("--gpus", 6, "--ranks-per-node", 4, *settings("compute.backend=cuda")), "do not fill nodes of 4"),
        (("--launcher", "ssh"), "allowed: srun, mpiexec"),
        (("--time", "soon"), "'soon' is not a time of Slurm"),
    ],
)
def test_what_does_not_go_together(tmp_path, arguments, words):
    assert words in lithowave("submit", write_small(tmp_path), *arguments, "--print", status=2)
