"""Wishes that come as signals while a run goes on: a checkpoint, or a checkpoint and the end."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from lithowave.parallel.ranks import Ranks
from lithowave.solvers.clock import Clock

STOPPING = (signal.SIGTERM, signal.SIGINT)


class StopSignals:
    """SIGTERM and SIGINT ask for a checkpoint and the end; SIGUSR1 for a checkpoint only.

    Whoever types Ctrl-C a second time will not wait for the checkpoint: that ends the run at once.
    """

    def __init__(self) -> None:
        self.pending = False
        self.stopped_by: str | None = None

    def receive(self, number: int, _frame: FrameType | None) -> None:
        """Note the wish; the loop fulfils it after the step."""
        if number in STOPPING:
            if self.stopped_by and number == signal.SIGINT:
                raise KeyboardInterrupt
            self.stopped_by = signal.Signals(number).name
        self.pending = True


@contextmanager
def stop_signals() -> Iterator[StopSignals]:
    """Listen to the signals inside the block; only the main thread can."""
    signals = StopSignals()
    if threading.current_thread() is not threading.main_thread():
        yield signals
        return
    # A handler that was not installed from Python (None) could not be restored: it remains.
    numbers = [number for number in (*STOPPING, signal.SIGUSR1) if signal.getsignal(number) is not None]
    before = {number: signal.signal(number, signals.receive) for number in numbers}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Wishes:
    """What the signals of all ranks ask for, agreed on by all of them at the same step.

    stopped_by : name of the signal that ends the run. Ranks on their own look after each step; several do so some four
    times a second, at steps that they agree on.
    """

    def __init__(self, signals: StopSignals, ranks: Ranks, interval: float = 0.25) -> None:
        self.signals, self.ranks, self.interval = signals, ranks, interval
        self.stopped_by: str | None = None
        self._next, self._looked = 0, (0, time.perf_counter())

    def pending(self, clock: Clock) -> bool:
        """Whether a checkpoint is wanted now."""
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
        self.stopped_by = next((name for _, name, _ in found if name), None)
        return any(wanted for wanted, _, _ in found)
