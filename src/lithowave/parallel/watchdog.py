"""A thread that acts when a run completes no step for a long time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Watchdog:
    """Timer that calls act(step, seconds) if no step is noted for `patience` seconds; step : the last noted step."""

    def __init__(self, patience: float, act: Callable[[int, float], None]) -> None:
        self.patience, self._act = patience, act
        self._noted, self._step = time.monotonic(), 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._wait, daemon=True)
        self._thread.start()

    def note(self, step: int) -> None:
        """Note that the run has completed this step."""
        self._noted, self._step = time.monotonic(), step

    def stop(self) -> None:
        """Stop watching."""
        self._stopped.set()
        self._thread.join()

    def _wait(self) -> None:
        while not self._stopped.wait(min(1.0, self.patience / 4)):
            silent = time.monotonic() - self._noted
            if silent > self.patience:
                self._act(self._step, silent)
                return
