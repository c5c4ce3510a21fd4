"""Progress of a survey: the log of the survey, and a function that displays it."""

from __future__ import annotations

from typing import Any

from lithowave.run.progress import ProgressCallback
from lithowave.run.status import FAILED, FINISHED
from lithowave.shots.folder import SurveyFolder
from lithowave.shots.task import ShotOutcome


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

    def _show(self, event: str, number: int, **more: Any) -> None:
        if self.show is not None:
            path = str(self.folder.shot_path(number))
            entries = {"event": event, "shot": number, "shots": self.count, "folder": path}
            counts = {"finished": self.finished, "failed": self.failed, "running": self.running}
            self.show({**entries, **counts, **more})
