"""How far a run is, seen from outside through its folder."""

from __future__ import annotations

import fcntl
import json
import platform
import re
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lithowave.output.checkpoint import FILE_NAME as CHECKPOINT
from lithowave.output.run_folder import DESCRIPTION, LOG, PROGRESS, REPORT, read_report
from lithowave.run.check import duration_text
from lithowave.run.progress import rate_key, rate_text

HEARTBEAT_TIMEOUT = 60.0  # s; progress.json is written every second
WAITING, RUNNING, FINISHED, FAILED, STOPPED, LOST = "waiting", "running", "finished", "failed", "stopped", "lost"
STOP_KEYS = ("stopped_by", "stop_reason", "stopped_at_step", "stopped_at_time_s")  # of a run that a callback has ended
CHECKPOINT_LINE = re.compile(r" step (\d+): (?:checkpoint|stopped by \w+, checkpoint written)$", re.MULTILINE)


@dataclass(frozen=True)
class RunState:
    """How far one run is.

    state : ``waiting`` (not begun), ``running``, ``finished``, ``failed``, ``stopped`` (by a signal, with a checkpoint)
    or ``lost`` (its process is gone without a word). progress : content of progress.json while it runs.
    resumable_from : step of the last checkpoint, 0 for none; None where nothing is to be resumed. facts : of run.json:
    rate, times.
    """

    directory: Path
    state: str
    error: str | None = None
    resumable_from: int | None = None
    progress: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def remaining_s(self) -> float | None:
        """Time left of a run that goes on, s, if it is known."""
        return self.progress.get("remaining_s")

    def as_dict(self) -> dict[str, Any]:
        """All entries, for JSON."""
        entries: dict[str, Any] = {"directory": str(self.directory), "state": self.state}
        if self.error is not None:
            entries["error"] = self.error
        if self.resumable_from is not None:
            entries["resumable_from_step"] = self.resumable_from
        return entries | self.facts | self.progress

    def text(self) -> str:
        """Its state in a line."""
        if self.state == RUNNING:
            return "running: " + (_progress_text(self.progress) or "preparing, no step is done yet")
        if self.state == FINISHED:
            return f"finished: {_finished_text(self.facts)}"
        restartable = self.resumable_from is not None
        again = f"resumable from step {self.resumable_from}" if self.resumable_from else "to begin anew"
        if self.state == FAILED:
            return f"failed{self._at()}: {self.error}" + (f" ({again})" if restartable else "")
        if self.state == STOPPED:
            stopped = f"stopped by {self.facts.get('stopped_by', 'a signal')}{self._at()}"
            return stopped + (f"; {again}" if restartable else "; not restartable")
        if self.state == LOST:
            how = f"lithowave restart goes on ({again})" if restartable else "not restartable"
            return f"ended without a word; {how}{self.facts.get('doubt', '')}"
        return "waiting"

    def _at(self) -> str:
        step = self.facts.get("failed_at_step", self.facts.get("stopped_at_step"))
        return "" if step is None else f" at step {step}"


def run_state(path: Path) -> RunState:
    """How far the run in a folder is; ``waiting`` where none has begun."""
    if not (path / REPORT).is_file():
        return RunState(path, WAITING)
    report = read_report(path)
    state = report.get("exit_state", LOST)
    if state == FINISHED:
        return RunState(path, FINISHED, facts=_facts(report, "wall_s", "loop_s", "unit", *STOP_KEYS))
    if state == STOPPED:
        facts = _facts(report, "stopped_by", "stopped_at_step", "wall_s")
        return RunState(path, STOPPED, None, _resumable_from(path, report), facts=facts)
    if state == FAILED:
        facts = _facts(report, "failed_at_step", "failed_on_rank", "wall_s")
        return RunState(path, FAILED, report.get("error", ""), _resumable_from(path, report), facts=facts)
    progress = _read_progress(path)
    elsewhere = report.get("host") not in (None, platform.node())
    if is_locked(path / LOG) or (elsewhere and _age(path / PROGRESS) < HEARTBEAT_TIMEOUT):
        return RunState(path, RUNNING, progress=progress)
    doubt = ""
    if elsewhere:
        silent = duration_text(_age(path / LOG))
        doubt = f"; or it goes on on {report['host']}, of which nothing was heard for {silent}"
    return RunState(path, LOST, None, _resumable_from(path, report), facts={"doubt": doubt} if doubt else {})


def _resumable_from(path: Path, report: dict[str, Any]) -> int | None:
    """Step of the last checkpoint; None for a run that `restart` refuses, with a Python function as its material."""
    return last_checkpoint(path) if report.get("restartable", True) else None


def is_locked(path: Path) -> bool:
    """Whether a process of this machine holds the file against others."""
    try:
        with open(path, encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False  # not there, or a file system without locks
    return False


def last_checkpoint(path: Path) -> int:
    """Step of the last checkpoint, as the log tells it; 0 where there is none."""
    if not (path / CHECKPOINT).is_file():
        return 0
    with suppress(OSError):
        found = CHECKPOINT_LINE.findall((path / LOG).read_text(encoding="utf-8", errors="replace"))
        return int(found[-1]) if found else 0
    return 0


def is_resumable(path: Path) -> bool:
    """Whether a folder holds the beginning of a run that `restart` takes up."""
    return (path / REPORT).is_file() and (path / DESCRIPTION).is_file()


def _read_progress(path: Path) -> dict[str, Any]:
    with suppress(OSError, json.JSONDecodeError):
        return json.loads((path / PROGRESS).read_text(encoding="utf-8"))
    return {}


def _age(path: Path) -> float:
    """Seconds since a file was changed; infinite without one."""
    try:
        return max(0.0, time.time() - path.stat().st_mtime)
    except OSError:
        return float("inf")


def _facts(report: dict[str, Any], *names: str) -> dict[str, Any]:
    unit = report.get("unit")
    return {name: report[name] for name in (*names, *([rate_key(unit)] if unit else [])) if name in report}


def _finished_text(facts: dict[str, Any]) -> str:
    parts = [f"in {duration_text(facts['wall_s'])}" if "wall_s" in facts else ""]
    if unit := facts.get("unit"):
        parts.append(rate_text(facts[rate_key(unit)], unit) if facts.get(rate_key(unit)) else "")
    if "stop_reason" in facts:
        time = f"{facts['stopped_at_time_s']:.4g} s"
        parts.append(f"ended by {facts['stopped_by']} at t = {time}: {facts['stop_reason']}")
    return ", ".join(part for part in parts if part)


def _progress_text(progress: dict[str, Any]) -> str:
    if not progress.get("steps"):
        return ""
    step, steps = progress["step"], progress["steps"]
    parts = [f"step {step} of {steps} ({100.0 * step / steps:.0f}%)"]
    parts.append(f"t = {progress['time_s']:.4g} of {progress['end_s']:.4g} s")
    if rate := progress.get(rate_key(progress["unit"])):
        parts.append(rate_text(rate, progress["unit"]))
    if progress.get("remaining_s"):
        parts.append(f"{duration_text(progress['remaining_s'])} left")
    return ", ".join(parts)
