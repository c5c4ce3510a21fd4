"""Scripts for Slurm, derived from the dry run: requested resources, checkpoint and requeue before the time limit."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import join, quote

from lithowave.backends.cpu import usable_cores
from lithowave.description.simulation import Simulation
from lithowave.errors import InputError, ResourceError
from lithowave.run.check import PROCESS_BYTES, CheckReport, check_simulation, duration_text
from lithowave.run.status import FINISHED, run_state
from lithowave.run.time_limit import RESUME_STATUS

LAUNCHERS = ("srun", "mpiexec")
MEMORY_MARGIN, TIME_MARGIN = 1.25, 1.5
MIN_TIME, SETUP_TIME, ROUNDED_TIME = 900, 600, 300  # s
GPU_THREADS = 4  # cores per rank with a GPU
MAX_GPUS_PER_NODE = 8  # default assumption
REQUEUES = 50
CHECKPOINT_SPEED = 2e8  # B/s, lower estimate of the rate at which a checkpoint is written
MIN_LEAD, MAX_LEAD = 120, 600  # s, from the signal to the time limit
TIME = re.compile(r"\d+(:\d\d(:\d\d)?)?|\d+-\d+(:\d\d(:\d\d)?)?")

SCRIPT = """\
#!/bin/bash
{directives}
#
# Written by lithowave submit. {origin}

{before}lithowave=({program})
folder={folder}

{command}
# Before the time limit, Slurm sends USR1 to this script alone: the run writes a checkpoint and ends with status
# {resume}, and the job is requeued. After TERM, which scancel sends to all processes of a job, it is not requeued.
signals=0 limit=0 canceled=0
receive() {{
    signals=$((signals + 1))
    kill "-$1" "$run" 2> /dev/null
}}
trap 'limit=1; receive USR1' USR1
trap 'canceled=1; receive TERM' TERM

{launch}"${{lithowave[@]}}" "${{command[@]}}" &
run=$!
while :; do
    seen=$signals
    wait "$run"
    status=$?
    [[ $signals == "$seen" ]] && break    # otherwise a signal ended the wait
done

# The number of an element is complete: requeueing SLURM_JOB_ID of one element requeues the entire array.
job=${{SLURM_ARRAY_JOB_ID:+${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID}}
if (( ! limit || canceled || status == 0 )); then
    exit "$status"
elif (( status != {resume} )); then
    echo "The time limit is near, but the run has failed (status $status, not {resume}): not requeued." >&2
elif (( ${{SLURM_RESTART_COUNT:-0}} >= {requeues} )); then
    echo "This job was requeued {requeues} times: not requeued. Submit it again to resume the run." >&2
else
    scontrol requeue "${{job:-$SLURM_JOB_ID}}"
fi
exit "$status"
"""

RUN_COMMAND = """\
if [[ -f $folder/run.json && -f $folder/simulation.yaml ]]; then
    command=(restart "$folder" {device})
else
    command=(run {file} --output "$folder" {device}{arguments})
fi
"""

SHOT_COMMAND = """\
# A started shot is resumed; a finished shot is not changed.
command=(run {file} --shot array --output "$folder" {device}{arguments})
"""

@dataclass(frozen=True)
class JobRequest:
    """Resources requested from the cluster; None leaves the choice to `make_script`.

    ranks : processes on CPUs. gpus : GPUs, with one rank each. threads : cores per rank. time : in the format of Slurm.
    launcher : for several ranks. mpi : option ``--mpi`` of srun. before : lines of the script before the run.
    """

    ranks: int | None = None
    gpus: int | None = None
    ranks_per_node: int | None = None
    threads: int | None = None
    time: str | None = None
    partition: str | None = None
    account: str | None = None
    launcher: str = "srun"
    mpi: str | None = None
    before: Sequence[str] = ()

    @property
    def size(self) -> int:
        """Number of ranks of a run."""
        return self.gpus or self.ranks or 1

    @property
    def per_node(self) -> int:
        """Number of ranks per node."""
        return min(self.ranks_per_node or self.size, self.size)

    @property
    def nodes(self) -> int:
        """Number of nodes of a run."""
        return -(-self.size // self.per_node)


def make_script(simulation: Simulation, file: Path, request: JobRequest, arguments: Sequence[str] = ()) -> str:
    """Return a script for ``sbatch``; for a survey, a job array with one job per unfinished shot.

    Parameters
    ----------
    file : the simulation file, which the job reads. arguments : further arguments of ``lithowave run``.

    Raises
    ------
    InputError : the request is inconsistent, the run time cannot be predicted here and is not given, or as for
    ``lithowave check``.
    """
    _refuse_contradictions(simulation, request)
    numbers = _shots_to_do(simulation)
    single = simulation if simulation.survey is None else simulation.shot(numbers[0])
    backend = "cuda" if request.gpus else "cpu"
    here = single.with_overrides({"compute.backend": "auto" if request.gpus else "cpu"})
    report = check_simulation(here, measure=request.time is None)
    threads = request.threads or simulation.compute.threads or _cores(request)
    request = replace(request, threads=threads, time=request.time or _predicted_time(report, request, threads))
    lead = _lead(report.memory_bytes / request.nodes, request.time or "")
    launcher = request.launcher if request.size > 1 else ""
    template = RUN_COMMAND if simulation.survey is None else SHOT_COMMAND
    device = f"--backend {backend} --threads {threads}"
    words = "".join(f" {quote(argument)}" for argument in arguments)
    folder = _absolute(simulation.output.directory or "")
    name = re.sub(r"\W+", "_", simulation.title or file.stem).strip("_") or "lithowave"
    directives = _directives(simulation, request, report, name, numbers, lead)
    return SCRIPT.format(
        directives="\n".join(f"#SBATCH {line}" for line in directives),
        origin=_origin(report, request),
        before="".join(f"{line}\n" for line in request.before) + ("\n" if request.before else ""),
        program=join([sys.executable, "-m", "lithowave"]),
        folder=quote(str(folder)),
        command=template.format(file=quote(str(_absolute(file))), device=device, arguments=words),
        launch=_launch(launcher, request),
        resume=RESUME_STATUS,
        requeues=REQUEUES,
    )


def _launch(launcher: str, request: JobRequest) -> str:
    """Return the words before the command.

    srun does not take the cores per task from the directives of the script. By default it waits forever for the other
    ranks if one has died; ranks of a complete run end within seconds.
    """
    if launcher == "srun":
        mpi = f" --mpi={quote(request.mpi)}" if request.mpi else ""
        return f"srun{mpi} --cpus-per-task={request.threads} --wait=60 "
    return f"mpiexec -n {request.size} " if launcher else ""


def _lead(node_bytes: float, time: str) -> int:
    """Return the time from the signal to the time limit, s: for a checkpoint, at most a quarter of the time limit."""
    lead = min(MAX_LEAD, max(MIN_LEAD, node_bytes / CHECKPOINT_SPEED))
    return max(1, int(min(lead, _seconds(time) / 4)))


def _seconds(time: str) -> int:
    """Return a time in the format of Slurm in seconds: minutes, [H:]MM:SS, or D-HH[:MM[:SS]]."""
    days, dash, rest = time.rpartition("-")
    parts = [int(part) for part in rest.split(":")]
    if not dash:
        parts = parts if len(parts) == 3 else [0, *parts]
    hours, minutes, seconds = (*parts, 0, 0)[:3]
    return int(days or 0) * 86_400 + hours * 3600 + minutes * 60 + seconds


def submit_script(script: str) -> str:
    """Pass a script to ``sbatch``, and return the output of ``sbatch``.

    Raises
    ------
    ResourceError : ``sbatch`` is missing, or refuses the script.
    """
    program = shutil.which("sbatch")
    if program is None:
        raise ResourceError("sbatch was not found: use a machine of a Slurm cluster, or --print to print the script.")
    done = subprocess.run([program], input=script, capture_output=True, encoding="utf-8", errors="surrogateescape")
    if done.returncode != 0:
        raise ResourceError(f"sbatch refused the script: {(done.stderr or done.stdout).strip()}")
    return done.stdout.strip()


def _refuse_contradictions(simulation: Simulation, request: JobRequest) -> None:
    for name in ("ranks", "gpus", "ranks_per_node", "threads"):
        value = getattr(request, name)
        if value is not None and value < 1:
            raise InputError(f"--{name.replace('_', '-')}", f"{value} is out of range", "allowed: integers from 1")
    if request.gpus and request.ranks and request.gpus != request.ranks:
        got = f"{request.ranks} ranks on {request.gpus} GPUs"
        raise InputError("--ranks", got, "allowed: one rank per GPU; omit --ranks")
    if request.launcher not in LAUNCHERS:
        raise InputError("--launcher", f"{request.launcher!r} is unknown", f"allowed: {', '.join(LAUNCHERS)}")
    if request.time is not None and TIME.fullmatch(request.time) is None:
        raise InputError("--time", f"{request.time!r} is not a time of Slurm", "expected minutes, H:MM:SS or D-HH:MM")
    if simulation.compute.backend == "cuda" and not request.gpus:
        raise InputError("--gpus", "is missing, but compute.backend is cuda", "set the number of GPUs of a run")
    if request.gpus and simulation.compute.backend == "cpu":
        raise InputError("--gpus", "GPUs are requested, but compute.backend is cpu", "use --set compute.backend=cuda")
    if request.gpus and request.gpus > MAX_GPUS_PER_NODE and request.ranks_per_node is None:
        allowed = f"{request.gpus} GPUs require several nodes: set the number of GPUs per node"
        raise InputError("--ranks-per-node", "is missing", allowed)
    if request.gpus and request.gpus % request.per_node:
        raise InputError(
            "--gpus", f"{request.gpus} GPUs do not fill nodes of {request.per_node}", "expected a multiple of it"
        )


def _shots_to_do(simulation: Simulation) -> list[int]:
    if simulation.survey is None:
        return []
    folder = Path(simulation.output.directory or "")
    shots = simulation.survey.shot_list(simulation.domain)
    numbers = [shot.number for shot in shots if run_state(folder / shot.folder).state != FINISHED]
    if not numbers:
        got = f"all shots of the survey in {folder} are finished"
        raise InputError("output.directory", got, "no jobs remain to be submitted")
    return numbers


def _cores(request: JobRequest) -> int:
    """Return the default number of cores per rank, assuming that the nodes have the cores of this machine."""
    share = max(1, usable_cores() // request.per_node)
    return min(share, GPU_THREADS) if request.gpus else share


def _predicted_time(report: CheckReport, request: JobRequest, threads: int) -> str:
    """Return the time limit: the predicted time on this machine, scaled by cores or GPUs, with a margin."""
    if report.loop_s is None or (request.gpus and report.backend != "cuda"):
        why = "no GPU to measure" if request.gpus else "; ".join(report.problems) or "it was not measured"
        raise InputError("--time", f"cannot be predicted on this machine ({why})", "set it, for example --time 2:00:00")
    share = 1.0 / request.size if request.gpus else (report.threads or 1) / (request.size * threads)
    seconds = max(MIN_TIME, TIME_MARGIN * report.loop_s * share + SETUP_TIME)
    minutes = math.ceil(seconds / ROUNDED_TIME) * ROUNDED_TIME // 60
    return f"{minutes // 60}:{minutes % 60:02d}:00"


def _directives(
    simulation: Simulation, request: JobRequest, report: CheckReport, name: str, numbers: list[int], lead: int
) -> list[str]:
    arrays = (report.memory_bytes - PROCESS_BYTES) / request.nodes
    memory = MEMORY_MARGIN * (arrays + PROCESS_BYTES * request.per_node)
    lines = [
        f"--job-name={name}",
        f"--output={name}_{'%A_%a' if numbers else '%j'}.txt",
        "--open-mode=append",
        f"--nodes={request.nodes}",
        f"--ntasks={request.size}",
        f"--ntasks-per-node={request.per_node}",
        f"--cpus-per-task={request.threads}",
        f"--mem={math.ceil(memory / 1e8) * 100}M",
        f"--time={request.time}",
        "--requeue",
        f"--signal=B:USR1@{lead}",
    ]
    if request.gpus:
        # Each rank selects its device among all devices of its node, so devices must not be bound to tasks.
        lines.insert(-3, f"--gpus-per-node={request.per_node}")
    if numbers:
        assert simulation.survey is not None
        most = f"%{simulation.survey.at_once}" if simulation.survey.at_once else ""
        lines.append(f"--array={_ranges(numbers)}{most}")
    lines += [f"--partition={quote(request.partition)}"] if request.partition else []
    return lines + ([f"--account={quote(request.account)}"] if request.account else [])


def _ranges(numbers: list[int]) -> str:
    """Return ``[1, 2, 3, 5]`` as ``1-3,5``."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ",".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)


def _origin(report: CheckReport, request: JobRequest) -> str:
    total = f"{report.plan.get('steps', '?')} steps; {report.memory_bytes / 1e9:.2f} GB in one process"
    if report.loop_s is None:
        return f"Dry run: {total}."
    place = f"{report.threads} thread{'s' * (report.threads > 1)} of this machine" if report.threads else report.device
    return f"Dry run: {total}, {duration_text(report.loop_s)} in the time loop on {place}."


def _absolute(path: str | Path) -> Path:
    return Path(path).expanduser().absolute()
