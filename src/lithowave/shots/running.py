"""Running the shots of a survey: one shot in this process, or all shots on an executor.

The shots on an executor are submitted, resumed if a worker was lost, and stopped by signals.
"""

from __future__ import annotations

import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from shlex import quote
from types import FrameType
from typing import TYPE_CHECKING, TypeVar

from lithowave.description.simulation import Simulation
from lithowave.errors import InputError, LithowaveError, ResourceError, interruption, issue_warning
from lithowave.output.run_folder import read_report
from lithowave.output.seismograms import Seismograms, load_seismograms
from lithowave.parallel.ranks import Ranks, make_ranks
from lithowave.run.launch import dotted_overrides, restart_run, run_simulation
from lithowave.run.loop import Callback
from lithowave.run.progress import ProgressCallback
from lithowave.run.signals import handled_by
from lithowave.run.status import (
    FAILED,
    FINISHED,
    HEARTBEAT_TIMEOUT,
    LOST,
    RUNNING,
    STOPPED,
    WAITING,
    Result,
    RunState,
    is_resumable,
    run_state,
)
from lithowave.shots.folder import DESCRIPTION, OUTPUT, SurveyFolder, shot_slots, survey_state
from lithowave.shots.tasks import LocalProcesses, SentRequests, ShotExecutor, ShotOutcome, ShotTask

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from distributed import Client


class ShotReporter:
    """Reporter of the shots' progress to the log of the survey and to `show`."""

    def __init__(self, folder: SurveyFolder, count: int, finished: int, show: ProgressCallback | None) -> None:
        self.folder, self.count, self.show = folder, count, show
        self.finished, self.failed, self.running, self.most_running = finished, 0, 0, 1
        self.durations: list[float] = []

    def begin(self, number: int) -> None:
        """Report that a shot has begun."""
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        self.folder.log(f"shot {number}: begin")
        self._show("begin", number, state="running")

    def lost(self, number: int, outcome: ShotOutcome) -> None:
        """Report that a shot was lost and will be resumed."""
        self.running -= 1
        self.folder.log(f"shot {number}: lost: {outcome.error}; it will be resumed")
        self._show("lost", number, state=outcome.state, error=outcome.error)

    def end(self, number: int, outcome: ShotOutcome, to_do: int) -> None:
        """Report that a shot has ended. to_do : number of shots that have not ended."""
        self.running -= 1
        self.folder.note_failure(number, outcome.error)
        self.finished += outcome.state == FINISHED
        self.failed += outcome.state == FAILED
        if outcome.state == FINISHED:
            self.durations.append(outcome.seconds)
        left = None
        if self.durations and to_do:
            left = sum(self.durations) / len(self.durations) * -(-to_do // self.most_running)
        self.folder.log(f"shot {number}: {outcome.state}{': ' + outcome.error if outcome.error else ''}")
        more = {"state": outcome.state, "error": outcome.error, "seconds": outcome.seconds, "remaining_s": left}
        self._show("end", number, **more)

    def _show(self, event: str, number: int, **more: object) -> None:
        if self.show is not None:
            path = str(self.folder.shot_path(number))
            entries = {"event": event, "shot": number, "shots": self.count, "folder": path}
            counts = {"finished": self.finished, "failed": self.failed, "running": self.running}
            self.show({**entries, **counts, **more})


POLL_INTERVAL = 0.1  # s
STOP_PATIENCE = 10.0
"""Time, s, that a stopped survey waits for the worker of a shot that has ended; Ctrl-C may end the worker as well."""
MAX_ATTEMPTS = 3
"""How often a shot is started if its worker or its process disappears."""


class ReceivedSignals:
    """Recorder of signals for the shots. stopped_by : name of the signal that stops the survey."""

    def __init__(self) -> None:
        self.stopped_by: str | None = None
        self.pending: list[int] = []

    def receive(self, number: int, _frame: FrameType | None) -> None:
        """Record the signal; the queue forwards it."""
        if number == signal.SIGUSR2:
            self.pending.append(number)
        elif self.stopped_by is None:
            self.stopped_by = signal.Signals(number).name
            self.pending.append(signal.SIGTERM)
        elif number == signal.SIGINT:
            self.pending.append(signal.SIGINT)  # Ctrl-C twice: the shots end at once, without a checkpoint


@contextmanager
def forwarding() -> Iterator[ReceivedSignals]:
    """Handle the signals inside the block; see `handled_by`."""
    signals = ReceivedSignals()
    with handled_by(signals.receive):
        yield signals


@dataclass
class Attempt:
    """A submitted shot. A worker begins it by rewriting its output file, which changes `stamp`."""

    task: ShotTask
    count: int
    stamp: tuple[int, ...]
    begun: bool = False
    seen_running: float | None = None

    @classmethod
    def of(cls, task: ShotTask, count: int) -> Attempt:
        """Return the attempt number `count` at a shot."""
        return cls(task, count, _stamp(task.path / OUTPUT))

    def begins(self) -> bool:
        """True once, when a worker has begun the shot."""
        before, self.begun = self.begun, self.begun or _stamp(self.task.path / OUTPUT) != self.stamp
        return self.begun and not before

    def abandoned(self) -> bool:
        """True if the shot of a stopped survey has ended, but its worker does not report it."""
        now = time.monotonic()
        if self.seen_running is None or run_state(self.task.path).state == RUNNING:
            self.seen_running = now
        return now - self.seen_running > STOP_PATIENCE


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError:
        return ()
    return (found.st_ino, found.st_mtime_ns, found.st_size)


class ShotQueue:
    """The unfinished shots of a survey and the executor that runs them."""

    def __init__(
        self, simulation: Simulation, folder: SurveyFolder, executor: ShotExecutor, reporter: ShotReporter,
        signals: ReceivedSignals,
    ) -> None:  # fmt: skip
        self.compute, self.folder, self.executor = simulation.compute, folder, executor
        self.reporter, self.signals = reporter, signals
        self.requests = SentRequests(folder.path)
        self.waiting: deque[tuple[ShotTask, int]] = deque()
        self.pending: dict[Future, Attempt] = {}

    def run(self, numbers: Sequence[int], at_once: int) -> None:
        """Run the shots, at most `at_once` of them at the same time; return when all submitted shots have ended."""
        sharing = self.executor.shots_per_machine()
        self.waiting += [(self._task(number, sharing), 1) for number in numbers]
        try:
            while self.pending or (self.waiting and not self.signals.stopped_by):
                while self.waiting and len(self.pending) < at_once and not self.signals.stopped_by:
                    self._submit(*self.waiting.popleft())
                self._pass_on()
                done, _ = wait(self.pending, POLL_INTERVAL, FIRST_COMPLETED)
                if lost := self.executor.lost(done):
                    raise ResourceError(f"{lost}{self._remaining()}")
                self._report_begun()
                for future in done:
                    self._end(self.pending.pop(future), self._outcome(future))
                if self.signals.stopped_by:
                    self._leave_abandoned()
        except BaseException as error:
            self.requests.send(signal.SIGTERM)
            self._cancel()
            if isinstance(error, LithowaveError):
                self.folder.log(f"failed: {error}")
                self._wait_for_begun()
            raise
        self.requests.remove()

    def _task(self, number: int, sharing: int) -> ShotTask:
        name = self.folder.shot_path(number).name
        compute = self.compute
        return ShotTask(
            self.folder.path.resolve(), name, number, self.requests.run_id, compute.backend, compute.threads, sharing
        )

    def _submit(self, task: ShotTask, count: int) -> None:
        attempt = Attempt.of(task, count)
        entry = self.folder.index["shots"][task.number - 1]
        label = f"{task.name} ({entry['name']})" if entry["name"] else task.name
        self.pending[self.executor.submit(task, label)] = attempt

    def _pass_on(self) -> None:
        while self.signals.pending:
            self.requests.send(self.signals.pending.pop(0))
            self._report_begun()
            if self.signals.stopped_by:
                self._cancel()

    def _cancel(self) -> None:
        """Cancel the shots that no worker has begun. One that begins now reads the request and stops."""
        for future, attempt in list(self.pending.items()):
            if not attempt.begun and future.cancel():
                del self.pending[future]

    def _leave_abandoned(self) -> None:
        for future, attempt in list(self.pending.items()):
            if attempt.abandoned():
                future.cancel()
                del self.pending[future]
                self._end(attempt, ShotOutcome(STOPPED))

    def _wait_for_begun(self) -> None:
        """Wait until the begun shots, whose executor does not report their end, have written checkpoints."""
        self._report_begun()
        last = time.monotonic() + 2.0 * HEARTBEAT_TIMEOUT
        begun = [attempt for attempt in self.pending.values() if attempt.begun]
        while begun and time.monotonic() < last and not self.signals.stopped_by:
            for attempt in [one for one in begun if run_state(one.task.path).state != RUNNING]:
                begun.remove(attempt)
                found = run_state(attempt.task.path)
                ended = found.state in (FINISHED, FAILED)
                self._end(attempt, ShotOutcome(found.state, found.error) if ended else ShotOutcome(STOPPED))
            time.sleep(POLL_INTERVAL)

    def _remaining(self) -> str:
        return (
            "; the running shots are stopped and write checkpoints, and finished shots remain. Start a scheduler and "
            f"workers; then `lithowave restart {quote(str(self.folder.path))} --scheduler ADDRESS` resumes the survey."
        )

    def _report_begun(self) -> None:
        for attempt in self.pending.values():
            if attempt.begins():
                self.reporter.begin(attempt.task.number)

    @staticmethod
    def _outcome(future: Future) -> ShotOutcome:
        """Return the outcome of a shot, also if its worker or the executor failed."""
        try:
            return future.result()
        except BrokenExecutor as error:
            return ShotOutcome(LOST, f"its worker was lost ({error})")
        except CancelledError:
            return ShotOutcome(FAILED, "the executor has canceled the shot")
        except Exception as error:  # any error that the executor reports, such as KilledWorker of Dask
            return ShotOutcome(FAILED, f"the executor failed: {type(error).__name__}: {error}")

    def _end(self, attempt: Attempt, outcome: ShotOutcome) -> None:
        number = attempt.task.number
        if not attempt.begun:
            if outcome.state == STOPPED:
                return
            attempt.begun = True
            self.reporter.begin(number)
        if outcome.state == LOST and self.signals.stopped_by:
            outcome = ShotOutcome(STOPPED, None, outcome.seconds)
        if outcome.state == LOST and attempt.count < MAX_ATTEMPTS:
            self.reporter.lost(number, outcome)
            self.waiting.appendleft((attempt.task, attempt.count + 1))
            return
        if outcome.state == LOST:
            outcome = ShotOutcome(FAILED, f"{outcome.error}, {attempt.count} times", outcome.seconds)
        self.reporter.end(number, outcome, len(self.pending) + len(self.waiting))


MAX_SUBMITTED = 256
"""Maximum number of shots that an executor of another kind than `LocalProcesses` has at the same time."""

Outcome = TypeVar("Outcome")


@dataclass
class SurveyResult:
    """The result of a survey.

    Attributes
    ----------
    directory : the folder of the survey.
    shots : state of each shot, in order.
    stopped_by : name of the signal that stopped the survey, in the result of a `RunInterrupted` or a
        `RunKeyboardInterrupt`, or None.
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
    executor: Executor | Client | None = None,
    **overrides: object,
) -> SurveyResult:
    """Run all unfinished shots of a survey, each in a separate process.

    A failed shot does not stop the others. A shot whose process or worker disappears is resumed, at most three times
    in total. SIGTERM, SIGUSR1 and Ctrl-C stop the survey and its shots, which write checkpoints; SIGUSR2
    requests checkpoints from the shots. Python handles signals in the main thread only.

    Parameters
    ----------
    simulation : a description with a survey.
    output : the folder of the survey; overrides ``output.directory``.
    overwrite : start all shots from step 0, and replace another survey in that folder.
    show : function called when a shot begins, is lost or ends with a dictionary: event (``begin``, ``lost``, ``end``),
        shot, shots, folder, state, error, seconds, finished, failed, running, remaining_s.
    callbacks : must be empty, since callbacks cannot be passed to the processes of the shots.
    executor : runs the shots: a ``concurrent.futures.Executor`` (``ProcessPoolExecutor``, ``MPIPoolExecutor`` of
        mpi4py), a client of Dask Distributed, or a function that returns one of them, which is called again if the
        executor breaks. The workers require access to the survey folder. By default, the shots run on this machine,
        one per CUDA device or one with all cores, or ``survey.at_once`` at the same time.
    overrides : keys of ``compute`` and ``output`` by name.

    Raises
    ------
    InputError : the description is invalid, or several ranks were started. OutputError : the folder cannot be written.
    ResourceError : the executor is broken, or its Dask scheduler was lost.
    RunInterrupted : SIGTERM or SIGUSR1 has stopped the survey. RunKeyboardInterrupt : Ctrl-C has stopped it. Both have
        the incomplete result; the same call, or `restart_survey`, resumes the unfinished shots.
    """
    _refuse_ranks(executor)
    if callbacks:
        raise InputError(
            "callbacks", "shots of a survey run in separate processes, to which a callback cannot be passed",
            "allowed: callbacks of a single shot", "run the shots sequentially: for shot in simulation.shots(): "
            "shot.run(callbacks=[...])",
        )  # fmt: skip
    changes = dotted_overrides(simulation, overrides, output)
    simulation = simulation.with_overrides(changes) if changes else simulation
    folder = SurveyFolder.prepare(simulation, overwrite)
    for text in simulation.warnings():
        issue_warning(text)
    return _run_shots(simulation, folder, overwrite, show, executor)


def restart_survey(
    directory: str | Path,
    *,
    show: ProgressCallback | None = None,
    backend: str | None = None,
    threads: int | None = None,
    executor: Executor | Client | None = None,
) -> SurveyResult:
    """Resume the unfinished shots of a survey; see `run_survey`.

    Raises
    ------
    InputError : the folder contains no survey, or all its shots are finished.
    RunInterrupted, RunKeyboardInterrupt : see `run_survey`.
    """
    _refuse_ranks(executor)
    path = Path(directory)
    SurveyFolder.open(path)
    changes = {"output.directory": str(path), "compute.backend": backend, "compute.threads": threads}
    given = {key: value for key, value in changes.items() if value is not None}
    simulation = Simulation.from_file(path / DESCRIPTION, given)
    folder = SurveyFolder.prepare(simulation)
    if all(shot.state == FINISHED for shot in survey_state(path).shots):
        raise InputError(str(path), "all shots of this survey are finished", "there is nothing to restart")
    return _run_shots(simulation, folder, False, show, executor)


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
    outcome: tuple[Outcome | None, LithowaveError | None] | None = None
    if ranks.is_root:
        try:
            outcome = (work(), None)
        except LithowaveError as error:
            outcome = (None, error)
    value, error = ranks.broadcast(outcome)
    if error is not None:
        raise error
    return value


def _refuse_ranks(executor: Executor | Client | None) -> None:
    """Refuse several ranks without an executor, which may consist of these ranks."""
    ranks = make_ranks() if executor is None else Ranks()
    if ranks.size > 1:
        raise InputError(
            "survey",
            f"{ranks.size} ranks were started, but the shots of a survey run in separate processes",
            "allowed on several ranks: a single shot",
            "select a shot (--shot N), start lithowave without mpiexec, or pass an mpi4py.futures.MPIPoolExecutor in "
            "Python",
        )


def _run_shots(
    simulation: Simulation, folder: SurveyFolder, overwrite: bool, show: ProgressCallback | None,
    given: Executor | Client | None,
) -> SurveyResult:  # fmt: skip
    """Run the unfinished shots on an executor until all have ended, or a signal arrives."""
    with folder, forwarding() as signals:
        if overwrite:
            folder.remove_runs()
        states = [shot.state for shot in survey_state(folder.path).shots]
        to_do = [number for number, state in enumerate(states, start=1) if state != FINISHED]
        slots = shot_slots(simulation)
        executor = ShotExecutor(partial(LocalProcesses, slots) if given is None else given)
        assert simulation.survey is not None
        at_once = len(slots) if given is None else simulation.survey.at_once or MAX_SUBMITTED
        folder.log(f"{len(to_do)} of {len(states)} shots to do, at most {at_once} at a time")
        reporter = ShotReporter(folder, len(states), states.count(FINISHED), show)
        try:
            ShotQueue(simulation, folder, executor, reporter, signals).run(to_do, at_once)
        finally:
            executor.close()
        folder.log(f"stopped by {signals.stopped_by}" if signals.stopped_by else "all shots have run")
    result = SurveyResult(folder.path, survey_state(folder.path).shots, signals.stopped_by)
    if signals.stopped_by:
        raise interruption(signals.stopped_by, result)
    return result
