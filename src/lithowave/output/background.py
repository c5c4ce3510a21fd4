"""Output jobs, which a thread executes while the time loop continues.

The recorders of a run share one thread: `Deliveries` of each recorder start copies of fields to main memory, and the
thread waits for the copies, converts the fields and writes them. Jobs are executed in the order of submission, so that
files do not depend on their timing. A recorder has at most `MAX_PENDING` unfinished jobs; the time loop waits before it
would start another one, so that the memory of a run is bounded (`lithowave.run.memory`).
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from typing import Any

from lithowave.phases import phase
from lithowave.solvers.interface import PendingFields

MAX_PENDING = 2  # jobs of one owner: one is being executed while the fields of the next one are computed
WAITING = "waiting for outputs"

Job = Callable[[], None]


class ImmediateJobs:
    """Executes each job when it is submitted."""

    def make_room(self, owner: object) -> None:
        """Wait until `owner` may submit a job.

        Raises
        ------
        Exception : the first error of a job.
        """

    def submit(self, owner: object, job: Job) -> None:
        """Execute a job after all jobs that were submitted before; see `make_room`."""
        job()

    def wait(self) -> None:
        """Wait until all jobs are complete; errors as in `make_room`."""

    def check(self) -> None:
        """Raise the first error of a job, if there is one."""

    def close(self) -> None:
        """Complete all jobs, without raising their errors."""


class WriterThread(ImmediateJobs):
    """Executes jobs in a thread, which starts with the first job. After an error, the remaining jobs are discarded."""

    def __init__(self) -> None:
        self._jobs: deque[tuple[object, Job]] = deque()  # the first one is being executed
        self._pending: Counter[int] = Counter()  # by the identity of the owner
        self._changed = threading.Condition()
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None
        self._closing = False

    def make_room(self, owner: object) -> None:
        """See `ImmediateJobs`."""
        self._wait_until(lambda: self._pending[id(owner)] < MAX_PENDING)

    def submit(self, owner: object, job: Job) -> None:
        """See `ImmediateJobs`."""
        self.make_room(owner)
        with self._changed:
            self._jobs.append((owner, job))
            self._pending[id(owner)] += 1
            self._changed.notify_all()
        if self._thread is None:
            self._thread = threading.Thread(target=self._execute, name="lithowave outputs", daemon=True)
            self._thread.start()

    def wait(self) -> None:
        """See `ImmediateJobs`."""
        self._wait_until(lambda: not self._jobs)

    def check(self) -> None:
        """See `ImmediateJobs`."""
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """See `ImmediateJobs`; the thread ends."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _wait_until(self, condition: Callable[[], bool]) -> None:
        with self._changed:
            if not condition() and self._error is None:
                with phase(WAITING):
                    self._changed.wait_for(lambda: condition() or self._error is not None)
        self.check()

    def _execute(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._jobs or self._closing)
                if not self._jobs:
                    return
                owner, job = self._jobs[0]
            error: BaseException | None = None
            try:
                if self._error is None:
                    job()
            except BaseException as problem:
                error = problem
            del job  # with the fields that it refers to
            with self._changed:
                self._error = self._error or error
                self._jobs.popleft()
                self._pending[id(owner)] -= 1
                self._changed.notify_all()


class Deliveries:
    """Fields on their way to one recorder, which writes them by jobs.

    Fields that ranks exchange are received by the time loop, one delivery later, when their copies are complete.

    Parameters
    ----------
    jobs : of the run. write : called with the fields (`PendingFields.arriving`), and with the arguments of `add`.
    """

    def __init__(self, jobs: ImmediateJobs, write: Callable[..., None]) -> None:
        self._jobs, self._write = jobs, write
        self._coming: tuple[PendingFields, tuple[Any, ...]] | None = None  # to be received by the time loop

    def make_room(self) -> None:
        """Wait until memory for further fields is available; to be called before they are computed."""
        self._jobs.make_room(self)

    def add(self, coming: PendingFields, *arguments: Any) -> None:
        """Write the fields when their copies are complete."""
        if coming.communicates:
            self.receive()
            self._coming = coming, arguments
        else:
            self._jobs.submit(self, lambda: self._write(coming.arriving(), *arguments))

    def receive(self) -> None:
        """Receive the fields that ranks exchange, after which all fields are being written."""
        if self._coming is not None:
            coming, arguments = self._coming
            self._coming = None
            self._jobs.submit(self, partial(self._write, coming.wait(), *arguments))
