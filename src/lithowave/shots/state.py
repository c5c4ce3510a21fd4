"""State and progress of a survey, read from its folder by another process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

from lithowave.errors import InputError
from lithowave.output.run_folder import REPORT
from lithowave.run.status import FAILED, FINISHED, LOST, RUNNING, STOPPED, WAITING, RunState, run_state
from lithowave.shots.folder import SurveyFolder, is_survey

STATES = (FINISHED, RUNNING, STOPPED, FAILED, LOST, WAITING)


@dataclass(frozen=True)
class SurveyState:
    """State and progress of a survey. labels : names of its shots. alive : True if a process runs the shots now."""

    directory: Path
    labels: list[str]
    shots: list[RunState]
    alive: bool

    @property
    def counts(self) -> dict[str, int]:
        """Number of shots in each state."""
        states = [shot.state for shot in self.shots]
        return {state: states.count(state) for state in STATES if state in states}

    def as_dict(self) -> dict[str, Any]:
        """Return all entries as plain values for JSON."""
        shots = [{"shot": n, "label": label, **shot.as_dict()} for n, (label, shot) in enumerate(self._pairs(), 1)]
        return {"directory": str(self.directory), "alive": self.alive, "counts": self.counts, "shots": shots}

    def lines(self) -> list[str]:
        """Return a summary line, then one line per shot; consecutive finished or waiting shots share a line."""
        counted = ", ".join(f"{count} {state}" for state, count in self.counts.items())
        lines = [f"{len(self.shots)} shots: {counted}"]
        group: list[str] = []
        previous = ""
        for label, shot in self._pairs():
            text = shot.text() if shot.state not in (FINISHED, WAITING) else shot.state
            if group and text == previous and shot.state in (FINISHED, WAITING):
                group.append(label)
                continue
            lines += _grouped(group, previous)
            group, previous = [label], text
        lines += _grouped(group, previous)
        if not self.alive and set(self.counts) - {FINISHED, RUNNING}:
            lines.append(f"`lithowave restart {quote(str(self.directory))}` resumes the unfinished shots")
        return lines

    def _pairs(self) -> list[tuple[str, RunState]]:
        return list(zip(self.labels, self.shots, strict=True))


def _grouped(labels: list[str], text: str) -> list[str]:
    if not labels:
        return []
    return [f"{labels[0]}: {text}" if len(labels) == 1 else f"{labels[0]} to {labels[-1]}: {text}"]


def state_of(path: str | Path) -> RunState | SurveyState:
    """Return the state of the run or the survey in a folder.

    Raises
    ------
    InputError : the folder contains neither. OutputError : run.json cannot be read.
    """
    path = Path(path)
    if is_survey(path):
        return survey_state(path)
    if not (path / REPORT).is_file():
        got = "is not a run folder: run.json is missing" if path.exists() else "the folder does not exist"
        raise InputError(str(path), got, "expected a folder written by lithowave run")
    return run_state(path)


def survey_state(path: Path) -> SurveyState:
    """Return the state of each shot of a survey."""
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
