"""Processor time and memory of a call in a process of its own."""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Callable
from typing import Any

from lithowave import LithowaveError

MOST_MEMORY = 6 << 30  # of a call that fails the test, so that the machine survives it
PATIENCE = 20.0


def refusal_cost(call: Callable[[], Any]) -> tuple[str, float, float]:
    """The error of lithowave that a call raises (else what it does), its processor time, s, and its memory, MB."""
    receive, send = os.pipe()
    child = os.fork()
    if not child:
        os.close(receive)
        _call(call, send)
    os.close(send)
    with os.fdopen(receive, "r") as pipe:
        content = pipe.read()
    os.waitpid(child, 0)
    return _parts(content)


def _parts(content: str) -> tuple[str, float, float]:
    if not content:
        return "killed, or out of patience", PATIENCE, 0.0
    numbers, _, text = content.partition("\n")
    seconds, size = map(float, numbers.split())
    return text, seconds, size


def _call(call: Callable[[], Any], send: int) -> None:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    before, begin = _peak(), time.process_time()
    try:
        call()
        text = "not refused"
    except LithowaveError as error:
        text = str(error)
    except BaseException as error:
        text = f"traceback: {type(error).__name__}: {error}"
    seconds = time.process_time() - begin
    os.write(send, f"{seconds} {_peak() - before}\n{text[:2000]}".encode())
    os._exit(0)


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
