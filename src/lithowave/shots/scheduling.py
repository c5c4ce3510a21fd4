"""The shots of a survey on an executor: submitted, resumed if a worker was lost, stopped by signals."""

from __future__ import annotations

import signal
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from types import FrameType

from lithowave.description.simulation import Simulation
from lithowave.errors import LithowaveError, ResourceError
from lithowave.run.status import FAILED, FINISHED, HEARTBEAT_TIMEOUT, LOST, RUNNING, STOPPED, run_state
from lithowave.run.stop_signals import handled_by
from lithowave.shots.executors import ShotExecutor
from lithowave.shots.folder import OUTPUT, SurveyFolder
from lithowave.shots.progress import ShotReporter
from lithowave.shots.requests import SentRequests
from lithowave.shots.task import ShotOutcome, ShotTask

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
