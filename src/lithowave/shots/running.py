"""Running the shots of a survey: one shot in this process, or all shots in separate processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

from lithowave.description.simulation import Simulation
from lithowave.errors import InputError, LithowaveError, issue_warning
from lithowave.output.run_folder import PROGRESS, read_report
from lithowave.output.seismograms import Seismograms, load_seismograms
from lithowave.parallel.ranks import RANK_VARIABLES, SIZE_VARIABLES, Ranks, make_ranks
from lithowave.run.callback import Callback
from lithowave.run.launch import Result, restart_run, run_simulation
from lithowave.run.progress import ProgressCallback
from lithowave.run.status import FAILED, FINISHED, LOST, STOPPED, WAITING, RunState, is_resumable, run_state
from lithowave.shots.folder import DESCRIPTION, OUTPUT, SurveyFolder
from lithowave.shots.slots import ShotSlot, shot_slots
from lithowave.shots.state import survey_state

POLL_INTERVAL = 0.05  # s
LAST_LINES = 20  # of the output of a process that reports no error elsewhere

Outcome = TypeVar("Outcome")


@dataclass
class SurveyResult:
    """The result of a survey.

    Attributes
    ----------
    directory : the folder of the survey.
    shots : state of each shot, in order.
    stopped_by : name of the signal that stopped the survey, or None.
    """

    directory: Path
    shots: list[RunState]
    stopped_by: str | None = None

    @property
    def complete(self) -> bool:
        """True if all shots are finished."""
        return all(shot.state == FINISHED for shot in self.shots)

    @property
    def failures(self) -> dict[int, str]:
        """Errors of the failed shots by number, from 1."""
        return {
            number: shot.error or shot.text()
            for number, shot in enumerate(self.shots, start=1)
            if shot.state in (FAILED, LOST)
        }

    def seismograms(self, number: int) -> Seismograms:
        """Return the seismograms of a shot, numbered from 1."""
        return load_seismograms(self.shots[number - 1].directory)


def run_survey(
    simulation: Simulation,
    output: str | Path | None = None,
    *,
    overwrite: bool = False,
    show: ProgressCallback | None = None,
    callbacks: Sequence[Callback] = (),
    **overrides: Any,
) -> SurveyResult:
    """Run all unfinished shots of a survey, each in a separate process.

    A failed shot does not stop the others. SIGTERM and Ctrl-C are forwarded to the shots, which write checkpoints, and
    stop the survey; SIGUSR1 requests checkpoints from the shots.

    Parameters
    ----------
    simulation : a description with a survey.
    output : the folder of the survey; overrides ``output.directory``.
    overwrite : start all shots from step 0, and replace another survey in that folder.
    show : function called when a shot begins or ends with a dictionary: event (``begin``, ``end``), shot, shots,
        folder, state, error, seconds, finished, failed, running, remaining_s.
    callbacks : must be empty, since callbacks cannot be passed to the processes of the shots.
    overrides : keys of ``compute`` and ``output`` by name.

    Raises
    ------
    InputError : the description is invalid, or several ranks were started. OutputError : the folder cannot be written.
    """
    _refuse_ranks()
    if callbacks:
        raise InputError(
            "callbacks", "shots of a survey run in separate processes, to which a callback cannot be passed",
            "allowed: callbacks of a single shot", "run the shots sequentially: for shot in simulation.shots(): "
            "shot.run(callbacks=[...])",
        )  # fmt: skip
    changes = {} if output is None else {"output.directory": str(output)}
    for name, value in overrides.items():
        part = "compute" if name in type(simulation.compute).model_fields else "output"
        changes[f"{part}.{name}"] = value
    simulation = simulation.with_overrides(changes) if changes else simulation
    folder = SurveyFolder.prepare(simulation, overwrite)
    for text in simulation.warnings():
        issue_warning(text)
    return _go_through(simulation, folder, overwrite, show)


def restart_survey(
    directory: str | Path,
    *,
    show: ProgressCallback | None = None,
    backend: str | None = None,
    threads: int | None = None,
) -> SurveyResult:
    """Resume the unfinished shots of a survey; see `run_survey`.

    Raises
    ------
    InputError : the folder contains no survey, or all its shots are finished.
    """
    _refuse_ranks()
    path = Path(directory)
    SurveyFolder.open(path)
    changes = {"output.directory": str(path), "compute.backend": backend, "compute.threads": threads}
    given = {key: value for key, value in changes.items() if value is not None}
    simulation = Simulation.from_file(path / DESCRIPTION, given)
    folder = SurveyFolder.prepare(simulation)
    if all(shot.state == FINISHED for shot in survey_state(path).shots):
        raise InputError(str(path), "all shots of this survey are finished", "there is nothing to restart")
    return _go_through(simulation, folder, False, show)


def run_shot(
    simulation: Simulation, number: int, *, overwrite: bool = False, show: ProgressCallback | None = None
) -> Result:
    """Run one shot of a survey in this process, or on all ranks; resume it if it has a run folder.

    Parameters
    ----------
    number : of the shot, from 1. overwrite : start from step 0. show : see `lithowave.run.launch.run_simulation`.

    Raises
    ------
    InputError : the survey has no shot with this number, or as for a run.
    """
    shot, ranks = simulation.shot(number), make_ranks()
    path = Path(shot.output.directory)

    def prepared() -> tuple[str, bool]:
        SurveyFolder.prepare(simulation)
        return run_state(path).state, is_resumable(path)

    state, begun = on_root(ranks, prepared)
    if overwrite or not begun:
        return run_simulation(shot, overwrite=overwrite or state != WAITING, show=show)
    if state == FINISHED:
        return Result(path, read_report(path))
    return restart_run(path, show=show, backend=shot.compute.backend, threads=shot.compute.threads)


def on_root(ranks: Ranks, work: Callable[[], Outcome]) -> Outcome:
    """Return the result of `work` on rank 0 on all ranks; raise its error on all ranks."""
    outcome: Any = None
    if ranks.is_root:
        try:
            outcome = (work(), None)
        except LithowaveError as error:
            outcome = (None, error)
    value, error = ranks.broadcast(outcome)
    if error is not None:
        raise error
    return value


def _refuse_ranks() -> None:
    ranks = make_ranks()
    if ranks.size > 1:
        raise InputError(
            "survey",
            f"{ranks.size} ranks were started, but the shots of a survey run in separate processes",
            "allowed on several ranks: a single shot",
            "select a shot (--shot N), or start lithowave without mpiexec",
        )


@dataclass
class ShotProcess:
    """The process of a running shot. output : file with its output."""

    number: int
    path: Path
    slot: ShotSlot
    process: subprocess.Popen
    begin: float = field(default_factory=time.monotonic)

    @classmethod
    def begin_shot(cls, folder: SurveyFolder, number: int, slot: ShotSlot, backend: str) -> ShotProcess:
        """Start the process of a shot."""
        path = folder.shot_path(number)
        path.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "lithowave", "run", str(folder.path / DESCRIPTION), "--shot", str(number)]
        command += ["--output", str(folder.path), "--backend", backend]
        command += ["--threads", str(slot.threads)] if slot.threads else []
        with open(path / OUTPUT, "w", encoding="utf-8") as said:
            # In a separate process group, the shot receives Ctrl-C only once, from this process.
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, env=_environment(slot),
                process_group=0,
            )  # fmt: skip
        return cls(number, path, slot, process)

    def error(self, status: int) -> str | None:
        """Return the error of the shot; None if it finished or was stopped."""
        state = run_state(self.path)
        if status == 0 or state.state == STOPPED:
            return None
        if state.state == FAILED and state.error:
            return state.error
        if status < 0:
            name = signal.Signals(-status).name
            return f"the process was ended by {name}" + (" (is there enough memory?)" if name == "SIGKILL" else "")
        with suppress(OSError):
            lines = (self.path / OUTPUT).read_text(encoding="utf-8", errors="replace").splitlines()[-LAST_LINES:]
            marked = [number for number, line in enumerate(lines) if line.startswith("error: ")]
            return "\n".join(lines[marked[-1] :]).removeprefix("error: ") if marked else "\n".join(lines[-3:])
        return f"the process ended with exit status {status}"


def _environment(slot: ShotSlot) -> dict[str, str]:
    """Return the environment of a shot: this installation of lithowave, its device, and no variables of MPI
    launchers."""
    launchers = {*SIZE_VARIABLES, *RANK_VARIABLES}
    kept = {name: value for name, value in os.environ.items() if name not in launchers}
    home = str(Path(__file__).resolve().parents[2])
    paths = [home, *filter(None, [kept.get("PYTHONPATH")])]
    return {**kept, "PYTHONPATH": os.pathsep.join(paths), **slot.environment}


class SignalForwarder:
    """Recorder of signals for the shots. stopped_by : name of the signal that stops the survey."""

    def __init__(self) -> None:
        self.stopped_by: str | None = None
        self.pending: list[int] = []

    def receive(self, number: int, _frame: FrameType | None) -> None:
        """Record the signal; the loop forwards it."""
        if number == signal.SIGUSR1:
            self.pending.append(number)
        elif self.stopped_by is None:
            self.stopped_by = signal.Signals(number).name
            self.pending.append(signal.SIGTERM)
        elif number == signal.SIGINT:
            self.pending.append(signal.SIGINT)  # Ctrl-C twice: the shots end at once, without a checkpoint

    def pass_on(self, shots: list[ShotProcess]) -> None:
        """Send the recorded signals to the running shots."""
        while self.pending:
            number = self.pending.pop(0)
            for shot in shots:
                # A shot before its time loop has no handler for SIGUSR1: the signal would end it.
                if number != signal.SIGUSR1 or (shot.path / PROGRESS).exists():
                    shot.process.send_signal(number)


@contextmanager
def forwarding() -> Iterator[SignalForwarder]:
    """Handle the signals inside the block; Python allows this in the main thread only."""
    signals = SignalForwarder()
    if threading.current_thread() is not threading.main_thread():
        yield signals
        return
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
    before = {number: signal.signal(number, signals.receive) for number in numbers}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _go_through(
    simulation: Simulation, folder: SurveyFolder, overwrite: bool, show: ProgressCallback | None
) -> SurveyResult:
    """Fill all slots until all shots have run, or a signal arrives."""
    with folder, forwarding() as signals:
        if overwrite:
            folder.remove_runs()
        states = [shot.state for shot in survey_state(folder.path).shots]
        waiting = deque(number for number, state in enumerate(states, start=1) if state != FINISHED)
        free, running = deque(shot_slots(simulation)), []
        reporter = ShotReporter(folder, len(states), states.count(FINISHED), len(free), show)
        folder.log(f"{len(waiting)} of {len(states)} shots to do, {len(free)} at a time")
        try:
            while running or (waiting and not signals.stopped_by):
                while waiting and free and not signals.stopped_by:
                    number, slot = waiting.popleft(), free.popleft()
                    running.append(ShotProcess.begin_shot(folder, number, slot, simulation.compute.backend))
                    reporter.begin(running[-1], len(running))
                signals.pass_on(running)
                for shot in [shot for shot in running if shot.process.poll() is not None]:
                    running.remove(shot)
                    free.append(shot.slot)
                    reporter.end(shot, len(running), len(waiting))
                time.sleep(POLL_INTERVAL)
        finally:
            for shot in running:  # only after an error in this process
                shot.process.terminate()
        folder.log(f"stopped by {signals.stopped_by}" if signals.stopped_by else "all shots have run")
        return SurveyResult(folder.path, survey_state(folder.path).shots, signals.stopped_by)


class ShotReporter:
    """Reporter of the shots' progress to the log of the survey and to `show`."""

    def __init__(
        self, folder: SurveyFolder, count: int, finished: int, at_once: int, show: ProgressCallback | None
    ) -> None:
        self.folder, self.count, self.at_once, self.show = folder, count, at_once, show
        self.finished, self.failed = finished, 0
        self.durations: list[float] = []

    def begin(self, shot: ShotProcess, running: int) -> None:
        """Report that a shot has begun."""
        self.folder.log(f"shot {shot.number}: begin")
        self._tell("begin", shot, running, state="running")

    def end(self, shot: ShotProcess, running: int, waiting: int) -> None:
        """Report that a shot has ended."""
        status, seconds = shot.process.returncode, time.monotonic() - shot.begin
        error = shot.error(status)
        state = FINISHED if status == 0 else STOPPED if error is None else FAILED
        if error is not None and self._interrupted(shot, status):
            state, error = STOPPED, None
        self.folder.note_failure(shot.number, error)
        self.finished += state == FINISHED
        self.failed += state == FAILED
        if state == FINISHED:
            self.durations.append(seconds)
        left = None
        if self.durations and waiting + running:
            left = sum(self.durations) / len(self.durations) * -(-(waiting + running) // self.at_once)
        self.folder.log(f"shot {shot.number}: {state}{': ' + error if error else ''}")
        self._tell("end", shot, running, state=state, error=error, seconds=seconds, remaining_s=left)

    def _interrupted(self, shot: ShotProcess, status: int) -> bool:
        """True if a signal of this process ended the shot before it handled signals."""
        return status == -signal.SIGTERM and run_state(shot.path).state in (WAITING, LOST)

    def _tell(self, event: str, shot: ShotProcess, running: int, **more: Any) -> None:
        if self.show is not None:
            entries = {"event": event, "shot": shot.number, "shots": self.count, "folder": str(shot.path)}
            counts = {"finished": self.finished, "failed": self.failed, "running": running}
            self.show({**entries, **counts, **more})
