"""The run folder: its files, the provenance of a run, and the protection against overwriting."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Self

from lithowave.backends.cpu import processor_name
from lithowave.errors import OVERWRITE, InputError, OutputError
from lithowave.labels import first_names
from lithowave.output.files import RunEntries, read_entries, writing
from lithowave.version import __version__

if TYPE_CHECKING:
    from typing import TextIO

    from lithowave.json_types import Entries
    from lithowave.parallel.ranks import Ranks

DESCRIPTION, REPORT, LOG, PROGRESS = "simulation.yaml", "run.json", "log.txt", "progress.json"
MADE_BY_RUNS = (
    DESCRIPTION, REPORT, LOG, PROGRESS, "seismograms.h5", "peak_motion.h5", "snapshots", "checkpoint",
    "figures", "report.html", "miniseed", "sac", "segy", "asdf", "material_model.h5",
)  # fmt: skip
EXIT_KEYS = (
    "exit_state", "error", "failed_at_step", "stopped_by", "stopped_at_step", "setup_s", "loop_s", "wall_s", "phases",
    "outputs_s", "waiting_for_outputs_s", "output_share",
)  # fmt: skip
DEVICE = ("backend", "device", "precision", "threads", "cuda", "ranks", "mpi", "transport")
# Keys of `compute` that do not affect results. Stored descriptions may contain the removed keys overlap and patience.
PARALLEL = ("parts", "transport", "overlap", "patience")
PACKAGES = (
    "numpy", "numba", "llvmlite", "h5py", "pydantic", "pyproj", "obspy", "segyio", "cupy-cuda13x",
    "cupy-cuda12x", "mpi4py",
)  # fmt: skip


class LockedFolder:
    """A folder with a log, which a process locks against others that would write to the folder.

    The system releases the lock when the process ends in any way. log_name : of the log. busy : what is refused while
    another process has the lock, and what is allowed.
    """

    log_name: str
    busy: tuple[str, str]

    def __init__(self, path: Path) -> None:
        self.path = path
        self._held: TextIO | None = None

    def acquire_lock(self) -> None:
        """Lock the log.

        Raises
        ------
        InputError : another process has locked it. OutputError : it cannot be written.
        """
        with writing(self.path / self.log_name):
            self._held = open(self.path / self.log_name, "a", encoding="utf-8")
        try:
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise self.busy_error(self.path) from None
        except OSError:
            pass  # the file system has no locks

    @classmethod
    def busy_error(cls, path: Path) -> InputError:
        """Return the error of a folder that another process has locked."""
        what, allowed = cls.busy
        hint = "wait for it, stop it, or choose another folder (--output DIR)"
        return InputError("output.directory", f"{what} in {path}", allowed, hint)

    def close(self) -> None:
        """Release the lock."""
        if self._held is not None:
            release(self._held)
            self._held = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def log(self, line: str) -> None:
        """Append a line with date and time to the log."""
        path = self.path / self.log_name
        with writing(path), open(path, "a", encoding="utf-8") as log:
            log.write(f"{now().replace('T', ' ')} {line}\n")


class RunFolder(LockedFolder):
    """The folder of one run, which is locked from its creation until it is closed."""

    log_name = LOG
    busy = ("a run is running", "allowed: one run at a time per folder")

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.part = "part"  # ending of the files that replace others
        self.report: Entries = {}

    @classmethod
    def create(cls, path: Path, description: str, overwrite: bool) -> RunFolder:
        """Create the folder of a new run and write the resolved description to it.

        Raises
        ------
        InputError : the folder contains another run and `overwrite` is not set, or other files that a run would
        replace. OutputError : the folder cannot be written.
        """
        taken = existing_outputs(path)
        if taken and not overwrite:
            raise _taken(path, taken, "contains another run" if REPORT in taken else "contains files with these names")
        if taken and REPORT not in taken:
            raise _taken(path, taken, "is not a run folder, but contains files that a run would replace")
        if path.exists() and not path.is_dir():
            raise InputError("output.directory", f"{path} is a file", "expected a directory")
        folder = cls(path)
        with writing(path):
            path.mkdir(parents=True, exist_ok=True)
        folder.acquire_lock()
        try:
            folder._begin(description, taken)
        except OutputError:
            folder._withdraw()
            raise
        return folder

    def _begin(self, description: str, taken: list[str]) -> None:
        """Remove the previous run, and write the first files of the new run."""
        with writing(self.path):
            for name in taken:
                if name != LOG:
                    remove = shutil.rmtree if (self.path / name).is_dir() else os.unlink
                    remove(self.path / name)
            os.truncate(self.path / LOG, 0)
        self.write_report(exit_state="running")
        with writing(self.path):
            (self.path / DESCRIPTION).write_text(description, encoding="utf-8")

    def _withdraw(self) -> None:
        """Remove all files of a run that could not begin."""
        self.close()
        for name in (DESCRIPTION, REPORT, f".{REPORT}.part", LOG):
            (self.path / name).unlink(missing_ok=True)
        with suppress(OSError):
            self.path.rmdir()

    @classmethod
    def reopen(cls, path: Path) -> RunFolder:
        """Open the folder of a stopped run, and read its report.

        Raises
        ------
        InputError : the folder contains no run, or one that is complete or running.
        """
        missing = [name for name in (REPORT, DESCRIPTION) if not (path / name).is_file()]
        if missing:
            raise InputError(
                str(path),
                f"is not a run folder: {missing[0]} is missing",
                "expected a folder written by lithowave run",
            )
        folder = cls(path)
        folder.report = read_report(path)
        if folder.report.get("exit_state") == "finished":
            raise InputError(str(path), "the run is complete", "there is nothing to restart")
        folder.acquire_lock()
        return folder

    def record_restart(self, step: int) -> None:
        """Record in run.json that the run resumes from `step`, and the device and end of the part before."""
        part = {name: self.report.pop(name) for name in EXIT_KEYS + DEVICE if name in self.report}
        note = {"step": step, "time": now(), "before": part}
        restarts = [*self.report.get("restarts", []), note]
        self.write_report(restarts=restarts, host=platform.node(), exit_state="running")

    def write_report(self, **entries: object) -> None:
        """Add entries to run.json and rewrite it."""
        self.report.update(entries)
        self._replace(REPORT, self.report)

    def write_progress(self, entries: Entries) -> None:
        """Rewrite progress.json."""
        self._replace(PROGRESS, entries)

    def fail(self, step: int, what: str, seconds: float, **entries: object) -> None:
        """Record in log and run.json that the run failed."""
        self.log(f"step {step}: failed: {what}")
        self.write_report(exit_state="failed", error=what, failed_at_step=step, wall_s=seconds, **entries)

    def end_progress(self) -> None:
        """Remove progress.json, which exists only during the time loop."""
        (self.path / PROGRESS).unlink(missing_ok=True)

    def _replace(self, name: str, entries: Entries) -> None:
        temporary = self.path / f".{name}.{self.part}"
        with writing(self.path / name):
            temporary.write_text(json.dumps(entries, indent=2) + "\n", encoding="utf-8")
            os.replace(temporary, self.path / name)


class NonRootRunFolder(RunFolder):
    """The run folder on ranks other than 0: rank 0 writes the reports, and each rank its own failure."""

    def __init__(self, path: Path, ranks: Ranks) -> None:
        super().__init__(path)
        self.ranks = ranks

    def record_restart(self, step: int) -> None:
        """Do nothing: rank 0 records the restart."""

    def log(self, line: str) -> None:
        """Do nothing: rank 0 writes the log."""

    def write_report(self, **entries: object) -> None:
        """Store the entries in `report`."""
        self.report.update(entries)

    def write_progress(self, entries: Entries) -> None:
        """Do nothing: rank 0 writes the progress."""

    def end_progress(self) -> None:
        """Do nothing: rank 0 removes the progress."""

    def fail(self, step: int, what: str, seconds: float, **entries: object) -> None:
        """Record in log and run.json that the run failed on this rank."""
        folder = RunFolder(self.path)
        folder.part = f"part{self.ranks.rank}"  # other ranks may fail at the same time
        with suppress(OutputError):
            folder.report = read_report(self.path)
        folder.fail(step, what, seconds, failed_on_rank=self.ranks.rank, **entries)


def release(file: TextIO) -> None:
    """Close a locked file and release its lock, also if a process forked in the meantime has the file open."""
    with suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_UN)
    file.close()


def existing_outputs(path: Path) -> list[str]:
    """Return the names of files and folders of a run that a new run would replace."""
    return [name for name in MADE_BY_RUNS if (path / name).exists()]


def _taken(path: Path, names: list[str], how: str) -> InputError:
    hints = ["choose another folder (--output DIR, in Python output=DIR)"]
    if REPORT in names:
        hints += ["continue that run (lithowave restart DIR)", f"or replace it ({OVERWRITE})"]
    else:
        hints.append("or remove them yourself")
    return InputError(
        "output.directory", f"{path} {how} ({first_names(names)})", "runs are not overwritten by default",
        ", ".join(hints),
    )  # fmt: skip


def now() -> str:
    """Return the current UTC time, ISO 8601 to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_report(path: Path) -> Entries:
    """Return the content of run.json.

    Raises
    ------
    OutputError : run.json is missing or damaged.
    """
    try:
        return read_entries(path / REPORT, RunEntries)
    except FileNotFoundError as error:
        raise OutputError(f"{path}: is not a run folder: {REPORT} cannot be read, it does not exist.") from error


def read_text(path: Path) -> str:
    """Return the content of a text file of a run folder.

    Raises
    ------
    OutputError : the file cannot be read, or is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OutputError(f"{path}: is damaged: {error}.") from error


def state_in_words(path: Path) -> str:
    """Return how the run in a folder, which is not complete, has ended, as far as run.json states it."""
    try:
        report = read_report(path)
    except OutputError:
        report = {}
    if report.get("exit_state") == "stopped":
        return f"stopped by {report.get('stopped_by', 'a signal')}"
    return "failed" if report.get("exit_state") == "failed" else "unfinished"


def fingerprint(description: str) -> str:
    """Return a hash of the description, without output folder, device, threads and ranks; it identifies checkpoints."""
    import yaml

    safe_loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # of libyaml, if it is installed
    content = yaml.load(description, Loader=safe_loader) or {}
    free = {"output": ("directory", "checkpoint"), "compute": ("backend", "threads", *PARALLEL)}
    for part, keys in free.items():
        for key in keys:
            (content.get(part) or {}).pop(key, None)
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()


def provenance(input_files: list[Path]) -> Entries:
    """Return versions, commit, hardware, command and hashes of the input files."""
    return {
        "lithowave": __version__,
        "commit": source_commit(),
        "python": platform.python_version(),
        "packages": dict(package_versions()),
        "host": platform.node(),
        "system": platform.platform(),
        "processor": processor_name(),
        "cores": os.cpu_count(),
        "command": sys.argv,
        "inputs": input_hashes(input_files),
        "started": now(),
    }


@cache  # a process keeps the packages that it has imported
def package_versions() -> dict[str, str]:
    """Return the versions of the installed packages that affect results."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def input_hashes(input_files: list[Path]) -> dict[str, str]:
    """Return the SHA-256 hashes of the input files by name."""
    return {str(path): file_hash(path) for path in input_files}


def file_hash(path: Path) -> str:
    """Return the SHA-256 hash of a file."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


@cache  # a process keeps the modules that it has imported
def source_commit() -> str | None:
    """Return the commit of the source tree, with ``+`` if it has changes; None for an installed package."""
    root = Path(__file__).resolve().parents[3]
    if not (root / ".git").exists():
        return None
    try:
        return _git(root, "rev-parse", "HEAD") + ("+" if _git(root, "status", "--porcelain", "-uno") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(root: Path, *words: str) -> str:
    command = ["git", *words]
    output = subprocess.run(command, cwd=root, capture_output=True, encoding="utf-8", timeout=10, check=True).stdout
    return output.strip()


class Stopwatch:
    """Wall time since the creation of the object, s."""

    def __init__(self) -> None:
        self._begin = time.perf_counter()

    def __call__(self) -> float:
        return time.perf_counter() - self._begin
