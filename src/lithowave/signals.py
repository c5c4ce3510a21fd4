"""Wishes that come as signals while a run goes on: a checkpoint, or a checkpoint and the end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

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
    before = {number: signal.signal(number, signals.receive) for number in (*STOPPING, signal.SIGUSR1)}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
