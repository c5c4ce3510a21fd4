"""One shot as a task of an executor: the worker starts a process for it on its machine, and waits for this process."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from lithowave.backends.cpu import usable_cores
from lithowave.output.run_folder import PROGRESS
from lithowave.parallel.launchers import RANK_VARIABLES, SIZE_VARIABLES, STEP_VARIABLES
from lithowave.run.status import FAILED, FINISHED, HEARTBEAT_TIMEOUT, LOST, RUNNING, STOPPED, run_state
from lithowave.shots.folder import DESCRIPTION, OUTPUT
from lithowave.shots.requests import ReceivedRequests

REQUEST_INTERVAL = 0.25  # s, between two readings of the requests
PARENT_INTERVAL = 1.0  # s
LAST_LINES = 20  # of the output of a process that reports no error elsewhere
PARENT = "LITHOWAVE_PARENT"
"""Environment variable of the process of a shot: the process with which it ends."""


@dataclass(frozen=True)
class ShotTask:
    """One shot of a survey, for a worker on any machine that shares the file system.

    folder : of the survey. name : of the run folder of the shot. run_id : of the process of the survey. sharing :
    number of shots that share the cores of a machine, if `threads` is None. environment : of the process of the shot.
    """

    folder: Path
    name: str
    number: int
    run_id: str
    backend: str
    threads: int | None = None
    sharing: int = 1
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        """The run folder of the shot."""
        return self.folder / self.name

    def command(self) -> list[str]:
        """Return the command that runs the shot with this installation of lithowave."""
        threads = self.threads or (max(1, usable_cores() // self.sharing) if self.sharing > 1 else None)
        command = [sys.executable, "-m", "lithowave", "run", str(self.folder / DESCRIPTION), "--shot", str(self.number)]
        command += ["--output", str(self.folder), "--backend", self.backend]
        return [*command, "--threads", str(threads)] if threads else command


@dataclass(frozen=True)
class ShotOutcome:
    """The end of a shot. state : finished, stopped, failed, or lost if its process or its worker disappeared."""

    state: str
    error: str | None = None
    seconds: float = 0.0


def run_task(task: ShotTask) -> ShotOutcome:
    """Run a shot in a separate process, forward requests to it, and return its state when it has ended."""
    begin, requests = time.monotonic(), ReceivedRequests(task.folder, task.run_id)
    if not (task.folder / DESCRIPTION).is_file():
        error = f"{task.folder} does not exist on {platform.node()}; all workers need access to the survey folder"
        return ShotOutcome(FAILED, error)
    _wait_for_earlier_process(task.path, requests)
    requests.take()
    if requests.stopping:
        return ShotOutcome(STOPPED)
    task.path.mkdir(parents=True, exist_ok=True)
    with open(task.path / OUTPUT, "w", encoding="utf-8") as said:
        # In a separate process group, the shot receives Ctrl-C only once, through the requests.
        process = subprocess.Popen(
            task.command(), stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT,
            env=shot_environment(task.environment), process_group=0,
        )  # fmt: skip
    status = _wait(process, task.path, requests)
    state, error = _ending(task.path, status, requests.stopping)
    return ShotOutcome(state, error, time.monotonic() - begin)


def _wait_for_earlier_process(path: Path, requests: ReceivedRequests) -> None:
    """Wait until the process of a lost worker has written its checkpoint and released the run folder."""
    patience = time.monotonic() + 2.0 * HEARTBEAT_TIMEOUT
    while run_state(path).state == RUNNING and time.monotonic() < patience and not requests.stopping:
        time.sleep(REQUEST_INTERVAL)
        requests.take()


def _wait(process: subprocess.Popen, path: Path, requests: ReceivedRequests) -> int:
    while True:
        try:
            return process.wait(REQUEST_INTERVAL)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):  # Ctrl-C arrives through the requests
            for number in requests.take():
                # A shot before its time loop has no handler for SIGUSR2: the signal would end it.
                if number != signal.SIGUSR2 or (path / PROGRESS).exists():
                    process.send_signal(number)


def _ending(path: Path, status: int, stopping: bool) -> tuple[str, str | None]:
    """Return state and error of a shot whose process has ended."""
    if status == 0:
        return FINISHED, None
    if status < 0:
        name = signal.Signals(-status).name
        error = f"the process was ended by {name}" + (" (is there enough memory?)" if name == "SIGKILL" else "")
        return (STOPPED, None) if stopping else (LOST, error)
    found = run_state(path)
    if found.state == STOPPED:
        return STOPPED, None
    if found.state == FAILED and found.error:
        return FAILED, found.error
    with suppress(OSError):
        lines = (path / OUTPUT).read_text(encoding="utf-8", errors="replace").splitlines()[-LAST_LINES:]
        marked = [number for number, line in enumerate(lines) if line.startswith("error: ")]
        return FAILED, "\n".join(lines[marked[-1] :]).removeprefix("error: ") if marked else "\n".join(lines[-3:])
    return FAILED, f"the process ended with exit status {status}"


def shot_environment(more: dict[str, str]) -> dict[str, str]:
    """Return the environment of a shot: this installation of lithowave, its device, and no variables of MPI
    launchers."""
    launchers = {*SIZE_VARIABLES, *RANK_VARIABLES, *STEP_VARIABLES}
    kept = {name: value for name, value in os.environ.items() if name not in launchers}
    home = str(Path(__file__).resolve().parents[2])
    paths = [home, *filter(None, [kept.get("PYTHONPATH")])]
    return {**kept, "PYTHONPATH": os.pathsep.join(paths), PARENT: str(os.getpid()), **more}


def stop_with_parent() -> None:
    """Stop this process by SIGTERM, which writes a checkpoint, when the worker that started it disappears."""
    parent = os.environ.pop(PARENT, "")
    if not parent:
        return

    def watch() -> None:
        while os.getppid() == int(parent):
            time.sleep(PARENT_INTERVAL)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="lithowave-parent", daemon=True).start()
