"""SIGUSR1, by which a batch system announces the time limit of a job: a checkpoint is written, and the run ends."""

from __future__ import annotations

import signal
from types import FrameType

RESUME_STATUS = 75
"""Exit status after SIGUSR1, EX_TEMPFAIL of sysexits.h: a checkpoint is written, and the run is to be resumed. The
status of a process that the signal has killed without a checkpoint (138) differs."""

_early: list[int] = []


def exit_status(signal_name: str) -> int:
    """Return the exit status of a run or a survey that a signal has stopped."""
    number = signal.Signals[signal_name]
    return RESUME_STATUS if number == signal.SIGUSR1 else 128 + number


def defer() -> None:
    """Record SIGUSR1, which would kill this process, until the run has a handler and can write a checkpoint."""
    signal.signal(signal.SIGUSR1, _record)


def take_early() -> list[int]:
    """Return the deferred signals, once."""
    signals = _early[:]
    _early.clear()
    return signals


def _record(number: int, _frame: FrameType | None) -> None:
    _early.append(number)
