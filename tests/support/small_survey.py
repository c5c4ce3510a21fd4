"""A survey of three shots of a fraction of a second each."""

from __future__ import annotations

from pathlib import Path

from small_run import SMALL

LINE = "{line: {start: [-200, 0, -300], end: [200, 0, -300], count: 3}}"


def survey_text(shots: str = LINE, more: str = "", *changes: tuple[str, str]) -> str:
    """The small description with a survey, without snapshots and peak motion; with texts exchanged."""
    begin, rest = SMALL.split("  snapshots:\n")
    text = begin + rest[rest.index("  checkpoint:") :]
    text = text.replace("duration: 0.8", f"survey:\n  shots: {shots}\n{more}duration: 0.8")
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    return text


def write_survey(folder: Path, shots: str = LINE, more: str = "", *changes: tuple[str, str]) -> Path:
    """The description of `survey_text` as a file."""
    path = folder / "survey.yaml"
    path.write_text(survey_text(shots, more, *changes), encoding="utf-8")
    return path
