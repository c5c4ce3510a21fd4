"""Signals to a running simulation or survey: write a checkpoint, or write a checkpoint and stop."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from lithowave.parallel.ranks import Ranks
from lithowave.run.time_limit import take_early
from lithowave.solvers.interface import Clock

STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)


class SignalHandler:
    """Recorder of signals: SIGTERM, SIGINT and SIGUSR1 request a checkpoint and the end of the run, SIGUSR2 only a
    checkpoint.

    A second SIGINT (Ctrl-C) ends the run at once, without a checkpoint. SIGUSR1 announces a time limit, after which the
    run is resumed; it does not replace an earlier signal, which may be that of a user who cancels the run.
    """

    def __init__(self) -> None:
        self.pending = False
        self.stopped_by: str | None = None

    def receive(self, number: int, _frame: FrameType | None) -> None:
        """Record the request; the loop fulfills it after the step."""
        if number in STOPPING:
            if self.stopped_by and number == signal.SIGINT:
                raise KeyboardInterrupt
            if number != signal.SIGUSR1 or self.stopped_by is None:
                self.stopped_by = signal.Signals(number).name
        self.pending = True


@contextmanager
def stop_signals() -> Iterator[SignalHandler]:
    """Handle the signals inside the block; see `handled_by`."""
    signals = SignalHandler()
    with handled_by(signals.receive):
        yield signals


@contextmanager
def handled_by(receive: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Call a function for the signals inside the block, and for those deferred; restore the previous handlers.

    Python allows this in the main thread only: in other threads, signals have their usual effect.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # A handler that was not installed from Python (None) could not be restored: it remains.
    numbers = [number for number in (*STOPPING, signal.SIGUSR2) if signal.getsignal(number) is not None]
    before = {number: signal.signal(number, receive) for number in numbers}
    try:
        for number in take_early():
            receive(number, None)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class SignalRequests:
    """The requests of the signals to any rank, on which all ranks agree at the same step.

    stopped_by : name of the signal that ends the run. A single rank checks after each step; several ranks check about
    four times per second, at steps on which they agree.
    """

    def __init__(self, signals: SignalHandler, ranks: Ranks, interval: float = 0.25) -> None:
        self.signals, self.ranks, self.interval = signals, ranks, interval
        self.stopped_by: str | None = None
        self._next, self._looked = 0, (0, time.perf_counter())

    def pending(self, clock: Clock) -> bool:
        """True if a checkpoint is requested now. All ranks must call this method after the same steps."""
        if clock.step < self._next:
            return False
        step, before = self._looked
        now = time.perf_counter()
        own = (self.signals.pending, self.signals.stopped_by, (now - before) / max(1, clock.step - step))
        found = self.ranks.all_gather(own) if self.ranks.size > 1 else [own]
        self.signals.pending = False
        if self.ranks.size > 1:
            self._next = clock.step + max(1, round(self.interval / max(1e-9, *(seconds for _, _, seconds in found))))
            self._looked = (clock.step, now)
        names = sorted((name for _, name, _ in found if name), key="SIGUSR1".__eq__)
        self.stopped_by = names[0] if names else None
        return any(wanted for wanted, _, _ in found)


