"""The run folder: what it holds, who made it, and that no run overwrites another."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from lithowave.errors import InputError, OutputError
from lithowave.output.hdf5 import writing
from lithowave.version import __version__

DESCRIPTION, REPORT, LOG, PROGRESS = "simulation.yaml", "run.json", "log.txt", "progress.json"
MADE_BY_RUNS = (
    DESCRIPTION, REPORT, LOG, PROGRESS, "seismograms.h5", "peak_motion.h5", "snapshots", "checkpoint", "figures",
    "miniseed", "sac",
)  # fmt: skip
PACKAGES = ("numpy", "numba", "h5py", "pydantic", "pyproj", "obspy", "cupy", "mpi4py")


class RunFolder:
    """A folder with one run in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.report: dict[str, Any] = {}

    @classmethod
    def create(cls, path: Path, description: str, overwrite: bool) -> RunFolder:
        """Make the folder for a new run and write the resolved description into it.

        Raises
        ------
        InputError : when another run is there and `overwrite` is not set.
        OutputError : when the folder cannot be written.
        """
        taken = [name for name in MADE_BY_RUNS if (path / name).exists()]
        if taken and not overwrite:
            raise InputError(
                "output.directory",
                f"{path} holds another run ({', '.join(taken[:3])}{', ...' if len(taken) > 3 else ''})",
                "A run is never overwritten unless told so",
                "choose another folder (--output DIR), continue that run (lithowave restart), or say --overwrite",
            )
        with writing(path):
            path.mkdir(parents=True, exist_ok=True)
            for name in taken:
                remove = shutil.rmtree if (path / name).is_dir() else os.unlink
                remove(path / name)
            (path / DESCRIPTION).write_text(description, encoding="utf-8")
        return cls(path)

    def log(self, line: str) -> None:
        """Append a line with the time of day to the log."""
        stamp = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")
        with writing(self.path / LOG), open(self.path / LOG, "a", encoding="utf-8") as log:
            log.write(f"{stamp} {line}\n")

    def write_report(self, **entries: Any) -> None:
        """Add entries to run.json and write it anew."""
        self.report.update(entries)
        self._replace(REPORT, self.report)

    def write_progress(self, entries: dict[str, Any]) -> None:
        """Write progress.json anew."""
        self._replace(PROGRESS, entries)

    def end_progress(self) -> None:
        """progress.json exists only while the run goes on."""
        (self.path / PROGRESS).unlink(missing_ok=True)

    def _replace(self, name: str, entries: dict[str, Any]) -> None:
        temporary = self.path / f".{name}.part"
        with writing(self.path / name):
            temporary.write_text(json.dumps(entries, indent=2) + "\n", encoding="utf-8")
            os.replace(temporary, self.path / name)


def read_report(path: Path) -> dict[str, Any]:
    """Content of run.json.

    Raises
    ------
    OutputError : where there is none, or it cannot be read.
    """
    try:
        return json.loads((path / REPORT).read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError) as error:
        raise OutputError(f"{path}: is no run folder: {REPORT} cannot be read ({error}).") from error


def fingerprint(description: str) -> str:
    """Hash by which a checkpoint knows its description; output folder and threads do not count."""
    import yaml

    content = yaml.safe_load(description) or {}
    for part, key in (("output", "directory"), ("output", "checkpoint"), ("compute", "threads")):
        (content.get(part) or {}).pop(key, None)
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()


def provenance(input_files: list[Path]) -> dict[str, Any]:
    """Versions, commit, hardware, command and hashes of the input files."""
    return {
        "lithowave": __version__,
        "commit": source_commit(),
        "python": platform.python_version(),
        "packages": package_versions(),
        "host": platform.node(),
        "system": platform.platform(),
        "processor": processor_name(),
        "cores": os.cpu_count(),
        "command": sys.argv,
        "inputs": {str(path): file_hash(path) for path in input_files},
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def package_versions() -> dict[str, str]:
    """Versions of the packages that matter for a result, those that are installed."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def file_hash(path: Path) -> str:
    """SHA-256 of a file's content."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def source_commit() -> str | None:
    """Commit of the source tree that this package runs from, with ``+`` where it has changes; None if installed."""
    root = Path(__file__).resolve().parents[3]
    if not (root / ".git").exists():
        return None
    try:
        run = {"cwd": root, "capture_output": True, "text": True, "timeout": 10, "check": True}
        commit = subprocess.run(["git", "rev-parse", "HEAD"], **run).stdout.strip()
        changed = subprocess.run(["git", "status", "--porcelain", "-uno"], **run).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
    return commit + ("+" if changed else "")


def processor_name() -> str:
    """The processor's model name, as far as the system tells it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


class Stopwatch:
    """Wall time since it was made, s."""

    def __init__(self) -> None:
        self._begin = time.perf_counter()

    def __call__(self) -> float:
        return time.perf_counter() - self._begin
