"""Shots as tasks of executors: processes of this machine, or an object like `concurrent.futures.Executor`.

The worker of a task starts a process for the shot on its machine, and waits for it. The process of the survey sends
requests to its shots, on any machine: signals by name, in a file of the survey folder.
"""

from __future__ import annotations

import logging
import os
import platform
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from lithowave.backends.cpu import usable_cores
from lithowave.errors import InputError, MissingPackageError, ResourceError
from lithowave.output.files import writing
from lithowave.output.run_folder import PROGRESS
from lithowave.parallel.launchers import RANK_VARIABLES, SIZE_VARIABLES, STEP_VARIABLES
from lithowave.run.status import FAILED, FINISHED, HEARTBEAT_TIMEOUT, LOST, RUNNING, STOPPED, run_state
from lithowave.shots.folder import DESCRIPTION, OUTPUT, ShotSlot

if TYPE_CHECKING:
    from distributed import Client

FILE = "survey.requests"
STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)


class SentRequests:
    """The requests of one process of a survey. run_id : identifies this process to its shots."""

    def __init__(self, folder: Path) -> None:
        self.path, self.run_id = folder / FILE, uuid.uuid4().hex
        with writing(self.path):
            self.path.write_text(f"{self.run_id}\n", encoding="utf-8")

    def send(self, number: int) -> None:
        """Request that each shot receives a signal."""
        with writing(self.path), open(self.path, "a", encoding="utf-8") as file:
            file.write(f"{signal.Signals(number).name}\n")

    def remove(self) -> None:
        """Remove the file, after all shots have ended."""
        with suppress(OSError):
            self.path.unlink()


class ReceivedRequests:
    """The requests that a shot receives. stopping : True if one of them stops the shot.

    If another process of the survey has begun since then, because the first one was lost, the shot is stopped too:
    the new process resumes it.
    """

    def __init__(self, folder: Path, run_id: str) -> None:
        self.path, self.run_id = folder / FILE, run_id
        self.stopping, self._count = False, 0

    def take(self) -> list[int]:
        """Return the signals requested since the last call."""
        try:
            run_id, *names = self.path.read_text(encoding="utf-8").split("\n")[:-1]
        except (OSError, ValueError):  # the file is missing or being written
            return []
        if run_id != self.run_id:
            names = [signal.SIGTERM.name]
        new = [signal.Signals[name] for name in names[self._count :]]
        self._count += len(new)
        self.stopping = self.stopping or any(number in STOPPING for number in new)
        return [int(number) for number in new]


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


CONNECTION_TIMEOUT = 30.0  # s


class LocalProcesses(ThreadPoolExecutor):
    """Executor on this machine: one thread per slot, which waits for the process of a shot."""

    def __init__(self, slots: Sequence[ShotSlot]) -> None:
        super().__init__(len(slots), thread_name_prefix="lithowave-shot")
        self._slots: SimpleQueue[ShotSlot] = SimpleQueue()
        for slot in slots:
            self._slots.put(slot)

    def submit(self, function: Callable[[ShotTask], ShotOutcome], task: ShotTask) -> Future:
        """Run a shot in the next free slot."""
        return super().submit(self._in_slot, function, task)

    def _in_slot(self, function: Callable[[ShotTask], ShotOutcome], task: ShotTask) -> ShotOutcome:
        slot = self._slots.get()
        try:
            return function(replace(task, environment=slot.environment, threads=slot.threads, sharing=1))
        finally:
            self._slots.put(slot)


class ShotExecutor:
    """The executor of a survey.

    given : an executor, a Dask client, or a function that returns one of them. An executor that the function returns is
    shut down at the end, and replaced if it breaks because a worker was lost.
    """

    def __init__(self, given: Executor | Client | None) -> None:
        self._make: Callable[[], Executor] | None = None
        if isinstance(given, type) or not hasattr(given, "submit"):
            if not callable(given):
                raise InputError(
                    "executor", f"{type(given).__name__} has no method submit",
                    "allowed: a concurrent.futures.Executor, a Dask client, or a function that returns one of them",
                )  # fmt: skip
            self._make = given
        self._executor: Executor = self._adapted(given if self._make is None else self._make())

    @staticmethod
    def _adapted(executor: Executor | Client | None) -> Executor:
        return executor.get_executor() if hasattr(executor, "get_executor") else executor

    @property
    def is_dask(self) -> bool:
        """True for an executor of Dask Distributed."""
        return type(self._executor).__module__.startswith("distributed.")

    def shots_per_machine(self) -> int:
        """Return the number of shots that may share the cores of a machine."""
        if self.is_dask:
            workers = self._executor._client.nthreads()  # type: ignore[attr-defined]
            hosts: Counter[str] = Counter()
            for address, threads in workers.items():
                hosts[urlsplit(address).hostname or ""] += threads
            return max(hosts.values(), default=1)
        for name in ("num_workers", "_max_workers"):  # of mpi4py.futures, and of concurrent.futures
            if isinstance(count := getattr(self._executor, name, None), int):
                return max(1, count)
        return 1

    def submit(self, task: ShotTask, label: str) -> Future:
        """Submit a shot; a broken executor is replaced.

        Raises
        ------
        ResourceError : the executor is broken and cannot be replaced.
        """
        # Dask treats tasks with equal keys as one task, also those of different surveys.
        more = {"key": f"{label}-{uuid.uuid4().hex}"} if self.is_dask else {}
        try:
            return self._executor.submit(run_task, task, **more)
        except BrokenExecutor as error:
            if self._make is None:
                raise ResourceError(
                    f"the executor of the survey is broken ({error}). Run the survey again with a new executor, which "
                    "resumes the unfinished shots, or pass a function that returns an executor."
                ) from error
        except (RuntimeError, OSError) as error:  # after a shutdown, or a lost connection
            raise ResourceError(
                f"the executor of the survey accepts no shots ({error}). Run the survey again with a new executor, "
                "which resumes the unfinished shots."
            ) from error
        self.close()
        self._executor = self._adapted(self._make())
        return self._executor.submit(run_task, task, **more)

    def lost(self, done: Iterable[Future]) -> str | None:
        """Return the error if the scheduler of Dask was lost, which cancels all shots; else None.

        done : futures that have ended. The client may have connected to another scheduler in the meantime, which does
        not have the shots.
        """
        if not self.is_dask:
            return None
        client = self._executor._client  # type: ignore[attr-defined]
        if client.status == "running" and not any(future.cancelled() for future in done):
            return None
        return f"the connection to the Dask scheduler {client._start_arg or ''} was lost".replace("  ", " ")

    def close(self) -> None:
        """Shut the executor down if a function has made it."""
        if self._make is not None:
            self._executor.shutdown(wait=True)


@contextmanager
def dask_client(scheduler: str) -> Iterator[Client]:
    """Connect to a Dask scheduler, by its address or by its scheduler file, inside the block.

    Raises
    ------
    MissingPackageError : Dask Distributed is not installed. ResourceError : the scheduler does not respond.
    """
    try:
        from distributed import Client
    except ImportError:
        raise MissingPackageError("distributed", "A survey on a Dask cluster", "dask") from None
    place = {"scheduler_file": scheduler} if Path(scheduler).is_file() else {"address": scheduler}
    try:
        client = Client(**place, timeout=CONNECTION_TIMEOUT)
    except (OSError, ValueError) as error:
        raise ResourceError(
            f"--scheduler {scheduler}: the Dask scheduler does not respond ({error}). Start one with `dask scheduler`, "
            "and workers with `dask worker ADDRESS --nthreads 1`."
        ) from error
    with client:
        try:
            yield client
        finally:
            if client.status != "running":  # the error is reported; Dask would add the traceback of each attempt
                logging.getLogger("distributed.client").setLevel(logging.CRITICAL + 1)
