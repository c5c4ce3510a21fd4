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
    assert one["time"] == "0:15:00" and one["signal"] == "B:TERM@120" and "requeue" in one
    assert (one["partition"], one["account"]) == ("short", "waves") and "array" not in one
    assert 200 < int(one["mem"].removesuffix("M")) < 400

    many = asked(script_of(file, "--ranks", 6, "--ranks-per-node", 4, "--threads", 3, "--time", "2-00"))
    assert (many["nodes"], many["ntasks"], many["ntasks-per-node"]) == ("2", "6", "4")
    assert many["cpus-per-task"] == "3" and many["time"] == "2-00"
    assert int(many["mem"].removesuffix("M")) > 4 * 200, "each process takes its own"

    script = script_of(file, "--gpus", 8, "--ranks-per-node", 4, *HOUR, "--set", "compute.backend=auto")
    gpus = asked(script)
    assert (gpus["nodes"], gpus["ntasks"], gpus["gpus-per-node"]) == ("2", "8", "4") and "--backend cuda" in script
    assert 'srun "${lithowave[@]}"' in script


def test_launchers_and_lines_before(tmp_path):
    file = write_small(tmp_path)
    script = script_of(file, "--ranks", 2, *HOUR, "--mpi", "pmix", "--before", "module load mpi", "--before", "date")
    assert "\nmodule load mpi\ndate\n" in script and 'srun --mpi=pmix "${lithowave[@]}"' in script
    script = script_of(file, "--ranks", 2, *HOUR, "--launcher", "mpiexec", *settings("title=it's"))
    assert 'mpiexec -n 2 "${lithowave[@]}"' in script and "kill -USR1" in script
    assert """--set 'title=it'"'"'s'""" in script
    assert "srun" not in script_of(file, *HOUR)


def test_the_time_is_predicted_from_cores(tmp_path, monkeypatch):
    report = submit.check_simulation(submit.Simulation.from_file(write_small(tmp_path)), measure=False)
    slow = submit.replace(report, loop_s=36_000.0, threads=2, problems=[])
    request = submit.Request(ranks=4)
    assert submit._predicted_time(slow, request, 5) == "1:40:00"  # 36000 s * 2 / 20 * 1.5 + 600 s
    with pytest.raises(submit.InputError, match="no GPU to measure"):
        submit._predicted_time(slow, submit.Request(gpus=2), 4)
    on_device = submit.replace(slow, backend="cuda", threads=None)
    assert submit._predicted_time(on_device, submit.Request(gpus=2), 4) == "7:40:00"


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


def stopped_job(tmp_path: Path, *arguments: object) -> tuple[Path, str]:
    """A job that is told to end while it runs, and what its script was."""
    folder = tmp_path / "out"
    file = write_small(tmp_path, ("duration: 0.8", "duration: 15"))
    script = script_of(file, "--output", folder, *HOUR, *PLAIN, *arguments)
    stand_in(tmp_path, "scontrol", "")
    job = begin(tmp_path, script)
    patience = time.monotonic() + 60
    while not (folder / "progress.json").exists():
        assert job.poll() is None and time.monotonic() < patience
        time.sleep(0.02)
    job.send_signal(signal.SIGTERM)
    output, _ = job.communicate(timeout=60)
    assert job.returncode == 128 + signal.SIGTERM, output
    assert "scontrol requeue 17" in calls(tmp_path)
    report = report_of(folder)
    assert (report["exit_state"], report["stopped_by"]) == ("stopped", "SIGTERM")
    return folder, script


def goes_on(tmp_path: Path, folder: Path, script: str) -> None:
    """The job that comes after takes the run up, and is not put into the queue once more."""
    step = report_of(folder)["stopped_at_step"]
    (tmp_path / "calls.txt").write_text("")
    job = begin(tmp_path, script, SLURM_RESTART_COUNT="1")
    output, _ = job.communicate(timeout=120)
    assert job.returncode == 0, output
    report = report_of(folder)
    assert report["exit_state"] == "finished" and report["restarts"][0]["step"] == step > 0
    assert "scontrol" not in calls(tmp_path)


@pytest.mark.slow
def test_a_job_of_one_process_stops_and_goes_on(tmp_path):
    goes_on(tmp_path, *stopped_job(tmp_path))


def test_a_job_of_srun_stops_and_goes_on(tmp_path):
    """srun runs the program as a child, scancel sends it the signal as Slurm does: to the processes of the step."""
    stand_in(tmp_path, "srun", f'echo $$ > {tmp_path}/step.pid\nexec "${{@:1}}"')
    stand_in(tmp_path, "scancel", f"kill -TERM $(cat {tmp_path}/step.pid)")
    folder, script = stopped_job(tmp_path, "--ranks", 2)
    assert "scancel --quiet --signal=TERM 17" in calls(tmp_path)
    assert "srun " + sys.executable in calls(tmp_path)
    goes_on(tmp_path, folder, script)


def test_a_job_of_mpiexec_writes_a_checkpoint_before_it_ends(tmp_path):
    """As launchers do that end everything on TERM: only USR1 reaches the ranks."""
    body = f"""shift 2
"$@" & child=$!
trap 'echo USR1 >> {tmp_path}/signals.txt; kill -USR1 $child' USR1
trap 'echo TERM >> {tmp_path}/signals.txt; kill -KILL $child; exit 1' TERM
while kill -0 $child 2> /dev/null; do wait $child; status=$?; done
exit $status"""
    stand_in(tmp_path, "mpiexec", body)
    stand_in(tmp_path, "scontrol", "")
    folder = tmp_path / "out"
    file = write_small(tmp_path, ("duration: 0.8", "duration: 60"))
    changes = settings("output.checkpoint=null")
    arguments = ("--output", folder, *HOUR, *PLAIN, *changes, "--ranks", 2, "--launcher", "mpiexec")
    script = script_of(file, *arguments)
    job = begin(tmp_path, script)
    patience = time.monotonic() + 60
    while not (folder / "progress.json").exists():
        assert job.poll() is None and time.monotonic() < patience
        time.sleep(0.02)
    job.send_signal(signal.SIGTERM)
    output, _ = job.communicate(timeout=60)
    assert job.returncode == 1, output
    assert (tmp_path / "signals.txt").read_text().split() == ["USR1", "TERM"]
    assert "scontrol requeue 17" in calls(tmp_path) and "mpiexec -n 2" in calls(tmp_path)
    assert (folder / "checkpoint" / "checkpoint.h5").exists()
    text = lithowave("status", folder)
    assert "ended without reporting an exit state" in text and "starts from step 0" not in text


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
    monkeypatch.setattr(submit.shutil, "which", lambda name: None)
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
        (("--launcher", "ssh"), "allowed:  srun, mpiexec"),
        (("--time", "soon"), "'soon' is not a time of Slurm"),
    ],
)
def test_what_does_not_go_together(tmp_path, arguments, words):
    assert words in lithowave("submit", write_small(tmp_path), *arguments, "--print", status=2)
