"""A Slurm cluster on this machine, jobs that `lithowave submit` makes, and their states."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from small_run import lithowave

SUPPORT = Path(__file__).parent
SCRIPT = SUPPORT.parents[1] / "scripts" / "slurm.sh"
# Slurm looks for limits twice per minute, and sends a signal early: with this lead not while a short run starts.
LATE_SIGNAL = ("--signal=B:USR1@1",)
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY")
# The launchers of two ranks: options of `lithowave submit`, mpiexec, and MPI4PY_MPIABI.
VENV_MPIEXEC = Path(sys.executable).parent / "mpiexec"
SYSTEM_MPIEXEC = Path("/usr/bin/mpiexec.openmpi")
LAUNCHERS: dict[str, tuple[tuple[str, ...], Path | None, str]] = {
    "one_rank": ((), None, ""),
    "srun_pmi2": (("--ranks", "2", "--mpi", "pmi2"), VENV_MPIEXEC, ""),
    "mpiexec_mpich": (("--ranks", "2", "--launcher", "mpiexec"), VENV_MPIEXEC, ""),
    "srun_pmix": (("--ranks", "2", "--mpi", "pmix"), SYSTEM_MPIEXEC, "openmpi"),
    "mpiexec_openmpi": (("--ranks", "2", "--launcher", "mpiexec"), SYSTEM_MPIEXEC, "openmpi"),
}


@contextmanager
def slurm_cluster(folder: Path) -> Iterator[None]:
    """Start Slurm for the block; skip the test where it is not installed or cannot be started."""
    missing = [name for name in ("slurmctld", "slurmd", "munged") if shutil.which(name, path=_search_path()) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)}: not installed; as root: scripts/slurm.sh install")
    if os.geteuid() != 0:
        pytest.skip("scripts/slurm.sh starts Slurm as root only")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", _search_path())
        subprocess.run([SCRIPT, "start", folder], check=True, timeout=60)
        patch.setenv("SLURM_CONF", str(folder / "slurm.conf"))
        patch.setenv("PYTHONPATH", os.pathsep.join([str(SUPPORT / "slow_steps"), *sys.path]))
        for name in ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"):
            patch.setenv(name, "1")
        patch.setenv("OMPI_MCA_rmaps_base_oversubscribe", "1")
        try:
            yield
        finally:
            subprocess.run([SCRIPT, "stop", folder], check=True, timeout=60)


def _search_path() -> str:
    return os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"])


@dataclass(frozen=True)
class Job:
    """A job, or an element of an array. number : its identifier for scontrol. output : of its script."""

    number: str
    output: Path

    def facts(self) -> dict[str, str]:
        """Entries that scontrol shows."""
        command = ["scontrol", "show", "job", "-o", self.number]
        shown = subprocess.run(command, capture_output=True, text=True, check=True)
        return dict(re.findall(r"(\w+)=(\S*)", shown.stdout.splitlines()[0]))

    @property
    def state(self) -> str:
        """For example RUNNING."""
        return self.facts()["JobState"]

    @property
    def requeues(self) -> int:
        """How often the job was put into the queue again."""
        return int(self.facts()["Restarts"])

    def ended(self) -> bool:
        """True if the job will not start again."""
        return self.state in ENDED

    def text(self) -> str:
        """The output of the script."""
        return self.output.read_text() if self.output.exists() else ""

    def cancel(self) -> None:
        """As users do."""
        subprocess.run(["scancel", self.number], check=True)


def launcher_options(name: str) -> list[str]:
    """Options of `lithowave submit`; the test is skipped where this MPI is not installed."""
    options, mpiexec, abi = LAUNCHERS[name]
    if mpiexec is None:
        return list(options)
    pytest.importorskip("mpi4py", reason="mpi4py is not installed")
    if not mpiexec.exists():
        pytest.skip(f"{mpiexec} is not installed")
    lines = [f"export MPI4PY_MPIABI={abi}"] if abi else []
    if "mpiexec" in options:
        lines.append(f'mpiexec() {{ exec {mpiexec} "$@"; }}')
    return [*options, *(part for line in lines for part in ("--before", line))]


def submit(folder: Path, file: Path, *options: object) -> Job:
    """Submit a run with `lithowave submit`, from a folder, to which the script writes its output."""
    folder.mkdir(exist_ok=True)
    script = lithowave("submit", file, "--output", folder / "out", *options, "--print")
    return submit_text(folder, script[script.index("#!/bin/bash") :], *LATE_SIGNAL)


def submit_text(folder: Path, script: str, *options: str) -> Job:
    """Submit a script."""
    done = subprocess.run(
        ["sbatch", "--parsable", *options], input=script, cwd=folder, capture_output=True, text=True, check=True
    )
    number = done.stdout.strip()
    return Job(number, folder / f"small_{number}.txt")


def wait_for(condition: Callable[[], bool], jobs: Sequence[Job], patience: float) -> None:
    """Wait, at most the given number of seconds; show the output of the jobs if that was not enough."""
    last = time.monotonic() + patience
    while not condition():
        if time.monotonic() > last:
            said = "\n".join(f"{job.number} {job.state}: {job.text()[-1500:]}" for job in jobs)
            raise AssertionError(f"not within {patience:.0f} s\n{said}")
        time.sleep(0.5)
