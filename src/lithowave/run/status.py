"""The result of a run, and its state and progress as text, read from its folder also by other processes."""

from __future__ import annotations

import fcntl
import platform
import re
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from lithowave.errors import InputError, OutputError
from lithowave.output.checkpoint import FILE_NAME as CHECKPOINT
from lithowave.output.checkpoint import checkpoint_step
from lithowave.output.files import ProgressEntries, read_entries
from lithowave.output.results import PeakMotion, load_peak_motion
from lithowave.output.run_folder import DESCRIPTION, LOG, PROGRESS, REPORT, read_report
from lithowave.output.seismograms import Seismograms, load_seismograms
from lithowave.output.snapshots import FILE_SUFFIX, Snapshots, load_snapshots
from lithowave.run.check import duration_text
from lithowave.run.progress import rate_key, rate_text

if TYPE_CHECKING:
    from typing import TextIO

    from pandas import DataFrame

    from lithowave.json_types import Entries


@dataclass
class Result:
    """The result of a run.

    Attributes
    ----------
    directory : the run folder.
    report : content of run.json.
    complete : False in the result of a `RunInterrupted` or a `RunKeyboardInterrupt`: a signal stopped the run;
        ``report["stopped_by"]`` is then the name of the signal, and ``lithowave restart`` resumes the run. A run that a
        callback has stopped is complete.
    """

    directory: Path
    report: Entries
    complete: bool = True

    @property
    def warnings(self) -> list[str]:
        """Warnings about the accuracy of the run, as in run.json."""
        return self.report.get("warnings", [])

    @property
    def stop_reason(self) -> str | None:
        """The reason that a callback passed to ``clock.stop`` to stop the run before its last step; else None.

        ``report`` then contains the class of the callback (``stopped_by``), ``stopped_at_step`` and
        ``stopped_at_time_s``.
        """
        return self.report.get("stop_reason")

    @cached_property
    def seismograms(self) -> Seismograms:
        """The seismograms of the run, up to the time at which it ended."""
        return load_seismograms(self.directory)

    @cached_property
    def peak_motion(self) -> PeakMotion:
        """The maps of peak ground motion; OutputError if the run has none (``output.peak_motion``)."""
        return load_peak_motion(self.directory)

    def snapshots(self, index: int = 0) -> Snapshots:
        """Open the snapshots of one entry of ``output.snapshots``, in the order of their file names.

        Raises
        ------
        InputError : the run has no such snapshots.
        """
        files = sorted((self.directory / "snapshots").glob(f"*{FILE_SUFFIX}"))
        if not -len(files) <= index < len(files):
            raise InputError("snapshots", f"there is no set {index}", f"the run has {len(files)} sets of snapshots")
        return load_snapshots(files[index])

    def to_pandas(self) -> DataFrame:
        """Return a table of the receivers with their peak values: see `Seismograms.to_pandas`."""
        return self.seismograms.to_pandas()

    def __repr__(self) -> str:
        state = self.report.get("exit_state", "unknown state")
        wall, device = self.report.get("wall_s"), self.report.get("device")
        facts = [state, *([f"{wall:.3g} s"] if wall is not None else []), *([str(device)] if device else [])]
        if self.warnings:
            facts.append(f"{len(self.warnings)} warnings")
        return f"<Result in {self.directory}: {', '.join(facts)}>"


HEARTBEAT_TIMEOUT = 60.0  # s; progress.json is written every second
WAITING, RUNNING, FINISHED, FAILED, STOPPED, LOST = "waiting", "running", "finished", "failed", "stopped", "lost"
STOP_KEYS = ("stopped_by", "stop_reason", "stopped_at_step", "stopped_at_time_s")  # of a run stopped by a callback
CHECKPOINT_LINE = re.compile(r" step (\d+): (?:checkpoint|stopped by \w+, checkpoint written)$", re.MULTILINE)


@dataclass(frozen=True)
class RunState:
    """State and progress of a run.

    state : ``waiting`` (not started), ``running``, ``finished``, ``failed``, ``stopped`` (by a signal, with a
    checkpoint) or ``lost`` (the process ended without reporting an exit state). progress : content of progress.json of
    a running run. resumable_from : step of the last checkpoint, 0 without a checkpoint; None if the run cannot be
    restarted. facts : rate and times from run.json.
    """

    directory: Path
    state: str
    error: str | None = None
    resumable_from: int | None = None
    progress: Entries = field(default_factory=dict)
    facts: Entries = field(default_factory=dict)

    def as_dict(self) -> Entries:
        """Return all entries as plain values for JSON."""
        entries: Entries = {"directory": str(self.directory), "state": self.state}
        if self.error is not None:
            entries["error"] = self.error
        if self.resumable_from is not None:
            entries["resumable_from_step"] = self.resumable_from
        return entries | self.facts | self.progress

    def text(self) -> str:
        """Return the state in one line: state, facts and next command."""
        if self.state == RUNNING:
            return "running: " + (_progress_text(self.progress) or "preparing, no step completed")
        if self.state == FINISHED:
            return f"finished: {_finished_text(self.facts)}"
        if self.state == WAITING:
            return "waiting"
        if self.state == FAILED:
            text = f"failed{self._at()}: {(self.error or '').rstrip('.')}"
        elif self.state == STOPPED:
            text = f"stopped{self._at()}: by {self.facts.get('stopped_by', 'a signal')}"
        else:
            text = f"lost: the process ended without reporting an exit state{self.facts.get('doubt', '')}"
        return f"{text}; {self._next()}"

    def _next(self) -> str:
        if self.resumable_from is None:
            return "not restartable"
        command = f"`lithowave restart {quote(str(self.directory))}`"
        if not self.resumable_from:
            return f"no checkpoint, {command} starts from step 0"
        return f"{command} resumes from step {self.resumable_from}"

    def _at(self) -> str:
        step = self.facts.get("failed_at_step", self.facts.get("stopped_at_step"))
        return "" if step is None else f" at step {step}"


def run_state(path: Path) -> RunState:
    """Return the state of the run in a folder; ``waiting`` if no run has started there."""
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
        doubt = f", unless it still runs on {report['host']}, which last reported {silent} ago"
    return RunState(path, LOST, None, _resumable_from(path, report), facts={"doubt": doubt} if doubt else {})


def _resumable_from(path: Path, report: Entries) -> int | None:
    """Return the step of the last checkpoint; None if the run cannot be restarted (material from a function)."""
    return last_checkpoint(path) if report.get("restartable", True) else None


def is_locked(path: Path) -> bool:
    """True if a process of this machine holds a lock on the file."""
    try:
        with open(path, encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False  # missing file, or file system without locks
    return False


def last_checkpoint(path: Path) -> int:
    """Return the step of the last checkpoint, if it is damaged that of the log; 0 without a checkpoint."""
    if not (path / CHECKPOINT).is_file():
        return 0
    step = checkpoint_step(path)
    if step is not None:
        return step
    with suppress(OSError):
        found = CHECKPOINT_LINE.findall((path / LOG).read_text(encoding="utf-8", errors="replace"))
        return int(found[-1]) if found else 0
    return 0


def is_resumable(path: Path) -> bool:
    """True if a folder contains a run that `restart` can resume."""
    return (path / REPORT).is_file() and (path / DESCRIPTION).is_file()


def _read_progress(path: Path) -> Entries:
    with suppress(OSError, OutputError):
        return read_entries(path / PROGRESS, ProgressEntries)
    return {}


def _age(path: Path) -> float:
    """Return the time since the last change of a file, s; infinite if it does not exist."""
    try:
        return max(0.0, time.time() - path.stat().st_mtime)
    except OSError:
        return float("inf")


def _facts(report: Entries, *names: str) -> Entries:
    unit = report.get("unit")
    return {name: report[name] for name in (*names, *([rate_key(unit)] if unit else [])) if name in report}


def _finished_text(facts: Entries) -> str:
    parts = [f"in {duration_text(facts['wall_s'])}" if "wall_s" in facts else ""]
    if unit := facts.get("unit"):
        parts.append(rate_text(facts[rate_key(unit)], unit) if facts.get(rate_key(unit)) else "")
    if "stop_reason" in facts:
        time = f"{facts['stopped_at_time_s']:.4g} s"
        parts.append(f"stopped by {facts['stopped_by']} at t = {time}: {facts['stop_reason']}")
    return ", ".join(part for part in parts if part)


def _progress_text(progress: Entries) -> str:
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


WIDTH = 100


def begin_text(heading: str, entries: Entries) -> str:
    """Return the lines printed when a run begins or resumes."""
    begun = f"from step {entries['step']} (t = {entries['time_s']:.4g} s) " if entries["step"] else ""
    return (
        f"{heading}\n{entries[entries['unit']]:,} {entries['unit']}, {begun}{entries['steps']:,} steps "
        f"to t = {entries['end_s']:.4g} s; kernels are compiled on first use"
    )


def line_text(entries: Entries) -> str:
    """Return one line of progress."""
    share = 100.0 * entries["step"] / entries["steps"]
    return f"step {entries['step']} of {entries['steps']} ({share:.0f}%), {state_text(entries)}"


def state_text(entries: Entries) -> str:
    """Return simulated time, rate and remaining time."""
    parts = [f"t = {entries['time_s']:.4g} of {entries['end_s']:.4g} s"]
    if rate := rate_of(entries):
        parts.append(rate_text(rate, entries["unit"]))
    if entries["remaining_s"] and entries["step"] < entries["steps"]:
        parts.append(f"{duration_text(entries['remaining_s'])} remaining")
    return ", ".join(parts)


def rate_of(entries: Entries) -> float | None:
    """Return the points or elements updated per second; None if unknown."""
    return entries[rate_key(entries["unit"])]


class ProgressLine:
    """A function for `show` that updates one line, in terminals and Jupyter notebooks; else it prints the last line."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = sys.stdout if stream is None else stream
        notebook = type(self.stream).__module__.partition(".")[0] == "ipykernel"
        self.updates = notebook or bool(getattr(self.stream, "isatty", lambda: False)())

    def __call__(self, entries: Entries) -> None:
        """Show the progress."""
        finished = entries["step"] >= entries["steps"]
        if self.updates:
            self.stream.write("\r" + line_text(entries)[:WIDTH].ljust(WIDTH) + ("\n" if finished else ""))
        elif finished:
            self.stream.write(line_text(entries) + "\n")
        self.stream.flush()
