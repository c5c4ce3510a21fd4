"""Requests of the process of a survey to its shots, on any machine: signals by name, in a file of the survey folder."""

from __future__ import annotations

import signal
import uuid
from contextlib import suppress
from pathlib import Path

from lithowave.output.hdf5 import writing

FILE = "survey.requests"
STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)


class SentRequests:
    """The requests of one process of a survey. run_id : identifies this process to its shots."""

    def __init__(self, folder: Path) -> None:
        self.path, self.run_id = folder / FILE, uuid.uuid4().hex
        with writing(self.path):
            self.path.write_text(f"{self.run_id}\n", encoding="utf-8")

    def send(self, number: int) -> None:
        """Request that each shot receives a signal."""
        with writing(self.path), open(self.path, "a", encoding="utf-8") as file:
            file.write(f"{signal.Signals(number).name}\n")

    def remove(self) -> None:
        """Remove the file, after all shots have ended."""
        with suppress(OSError):
            self.path.unlink()


class ReceivedRequests:
    """The requests that a shot receives. stopping : True if one of them stops the shot.

    If another process of the survey has begun since then, because the first one was lost, the shot is stopped too:
    the new process resumes it.
    """

    def __init__(self, folder: Path, run_id: str) -> None:
        self.path, self.run_id = folder / FILE, run_id
        self.stopping, self._count = False, 0

    def take(self) -> list[int]:
        """Return the signals requested since the last call."""
        try:
            run_id, *names = self.path.read_text(encoding="utf-8").split("\n")[:-1]
        except (OSError, ValueError):  # the file is missing or being written
            return []
        if run_id != self.run_id:
            names = [signal.SIGTERM.name]
        new = [signal.Signals[name] for name in names[self._count :]]
        self._count += len(new)
        self.stopping = self.stopping or any(number in STOPPING for number in new)
        return [int(number) for number in new]
