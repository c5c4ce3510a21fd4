"""State and progress of a survey, read from its folder by another process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lithowave.errors import InputError
from lithowave.output.run_folder import REPORT
from lithowave.run.status import FAILED, FINISHED, LOST, RUNNING, STOPPED, WAITING, RunState, run_state
from lithowave.shots.folder import SurveyFolder, is_survey

STATES = (FINISHED, RUNNING, STOPPED, FAILED, LOST, WAITING)
WORDS = {LOST: "ended without a word"}


@dataclass(frozen=True)
class SurveyState:
    """How far a survey is. labels : of its shots. alive : whether a process goes through the shots now."""

    directory: Path
    labels: list[str]
    shots: list[RunState]
    alive: bool

    @property
    def counts(self) -> dict[str, int]:
        """Shots in each state."""
        states = [shot.state for shot in self.shots]
        return {state: states.count(state) for state in STATES if state in states}

    def as_dict(self) -> dict[str, Any]:
        """All entries, for JSON."""
        shots = [{"shot": n, "label": label, **shot.as_dict()} for n, (label, shot) in enumerate(self._pairs(), 1)]
        return {"directory": str(self.directory), "alive": self.alive, "counts": self.counts, "shots": shots}

    def lines(self) -> list[str]:
        """Return a summary line, then one line per shot; consecutive finished or waiting shots share a line."""
        counted = ", ".join(f"{count} {WORDS.get(state, state)}" for state, count in self.counts.items())
        lines = [f"{len(self.shots)} shots: {counted}"]
        group: list[str] = []
        previous = ""
        for label, shot in self._pairs():
            text = shot.text() if shot.state not in (FINISHED, WAITING) else shot.state
            if group and text == previous and shot.state in (FINISHED, WAITING):
                group.append(label)
                continue
            told += _grouped(group, previous)
            group, previous = [label], text
        told += _grouped(group, previous)
        if not self.alive and set(self.counts) - {FINISHED, RUNNING}:
            told.append("what is not finished goes on with lithowave restart")
        return told

    def _pairs(self) -> list[tuple[str, RunState]]:
        return list(zip(self.labels, self.shots, strict=True))


def _grouped(labels: list[str], text: str) -> list[str]:
    if not labels:
        return []
    return [f"{labels[0]}: {text}" if len(labels) == 1 else f"{labels[0]} to {labels[-1]}: {text}"]


def state_of(path: str | Path) -> RunState | SurveyState:
    """How far the run or the survey in a folder is.

    Raises
    ------
    InputError : the folder holds neither. OutputError : run.json cannot be read.
    """
    path = Path(path)
    if is_survey(path):
        return survey_state(path)
    if not (path / REPORT).is_file():
        got = "is no run folder: it has no run.json" if path.exists() else "there is no such folder"
        raise InputError(str(path), got, "expected a folder that lithowave run made")
    return run_state(path)


def survey_state(path: Path) -> SurveyState:
    """How far each shot of a survey is."""
    folder = SurveyFolder.open(path)
    states = []
    for shot in folder.index["shots"]:
        state = run_state(path / shot["folder"])
        error = folder.index.get("failures", {}).get(str(shot["shot"]))
        if state.state == WAITING and error is not None:
            state = RunState(state.directory, FAILED, error, facts={})
        states.append(state)
    labels = [
        f"{shot['folder']} ({shot['name']})" if shot["name"] else shot["folder"] for shot in folder.index["shots"]
    ]
    return SurveyState(path, labels, states, folder.in_use())
