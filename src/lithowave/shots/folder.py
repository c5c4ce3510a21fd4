"""The folder of a survey: its description, an index of its shots, and one run folder per shot."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from lithowave.description.simulation import Simulation
from lithowave.errors import OVERWRITE, InputError
from lithowave.output.hdf5 import writing
from lithowave.output.run_folder import LOG as RUN_LOG
from lithowave.output.run_folder import REPORT, existing_outputs, fingerprint, input_hashes, now, release
from lithowave.output.stored_entries import SurveyEntries, read_entries
from lithowave.run.status import is_locked
from lithowave.version import __version__

DESCRIPTION, INDEX, LOG = "survey.yaml", "survey.json", "survey.log"
OUTPUT = "output.txt"  # in the folder of a shot: the output of its process


class SurveyFolder:
    """A folder with the runs of a survey.

    index : content of survey.json: number, folder, name and position of each shot; ``failures``: errors, by number, of
    shots that failed before they had a run folder.
    """

    def __init__(self, path: Path, index: dict[str, Any]) -> None:
        self.path, self.index = path, index
        self._held: Any = None

    @classmethod
    def open(cls, path: Path) -> SurveyFolder:
        """Open the folder of an existing survey.

        Raises
        ------
        InputError : the folder contains no survey. OutputError : survey.json is damaged.
        """
        try:
            return cls(path, read_entries(path / INDEX, SurveyEntries))
        except FileNotFoundError:
            raise InputError(str(path), f"is not a survey folder: {INDEX} is missing") from None

    @classmethod
    def prepare(cls, simulation: Simulation, overwrite: bool = False) -> SurveyFolder:
        """Create the folder of a survey, or open that of the same survey.

        Raises
        ------
        InputError : the folder contains another survey or a run, and `overwrite` is not set. OutputError : it cannot be
        written.
        """
        path = Path(simulation.output.directory or "")
        _refuse_run(path)
        description = _description(simulation)
        wanted = {
            "fingerprint": survey_fingerprint(description),
            "inputs": input_hashes(simulation.input_files()),
        }
        if (path / INDEX).exists() and not overwrite:
            folder = cls.open(path)
            folder._require_same(wanted)
            return folder
        if is_locked(path / LOG):
            raise _busy(path)
        assert simulation.survey is not None
        shots = [
            {"shot": shot.number, "folder": shot.folder, "name": shot.name, "position": shot.position}
            for shot in simulation.survey.shot_list(simulation.domain)
        ]
        folder = cls(path, {"lithowave": __version__, "started": now(), **wanted, "shots": shots})
        with writing(path):
            path.mkdir(parents=True, exist_ok=True)
            _replace(path / DESCRIPTION, description)
        folder.write()
        return folder

    def _require_same(self, wanted: dict[str, Any]) -> None:
        now_there = wanted["inputs"]
        changed = [name for name, digest in self.index["inputs"].items() if now_there.get(name, digest) != digest]
        if self.index["fingerprint"] == wanted["fingerprint"] and not changed:
            return
        got = f"the file {changed[0]} has changed since then" if changed else "with another description"
        raise InputError(
            "output.directory",
            f"{self.path} contains another survey ({got})",
            "surveys are not overwritten by default",
            "choose another folder (--output DIR, in Python output=DIR), resume that survey (lithowave restart DIR), "
            f"or replace it ({OVERWRITE})",
        )

    def write(self) -> None:
        """Write survey.json."""
        with writing(self.path / INDEX):
            _replace(self.path / INDEX, json.dumps(self.index, indent=2) + "\n")

    def shot_path(self, number: int) -> Path:
        """Return the run folder of a shot."""
        return self.path / self.index["shots"][number - 1]["folder"]

    def note_failure(self, number: int, error: str | None) -> None:
        """Store the error of a failed shot; None removes it."""
        failures = self.index.setdefault("failures", {})
        before = failures.pop(str(number), None)
        if error is not None:
            failures[str(number)] = error
        if before != error:
            self.write()

    def log(self, line: str) -> None:
        """Append a line with date and time to the log."""
        with writing(self.path / LOG), open(self.path / LOG, "a", encoding="utf-8") as log:
            log.write(f"{now().replace('T', ' ')} {line}\n")

    def remove_runs(self) -> None:
        """Remove the runs of all shots, of any survey."""
        for path in sorted(self.path.glob("shot_*")):
            if path.is_dir() and ((path / REPORT).exists() or (path / OUTPUT).exists()):
                with writing(path):
                    shutil.rmtree(path)

    def acquire_lock(self) -> None:
        """Lock the log against other processes that run the shots.

        Raises
        ------
        InputError : another process runs them.
        """
        with writing(self.path / LOG):
            self._held = open(self.path / LOG, "a", encoding="utf-8")
        try:
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise _busy(self.path) from None
        except OSError:
            pass  # the file system has no locks

    def in_use(self) -> bool:
        """True if a process runs the shots now."""
        return is_locked(self.path / LOG)

    def close(self) -> None:
        """Release the lock."""
        if self._held is not None:
            release(self._held)
            self._held = None

    def __enter__(self) -> SurveyFolder:
        self.acquire_lock()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _busy(path: Path) -> InputError:
    return InputError(
        "output.directory",
        f"a survey is running in {path}",
        "allowed: one process per survey folder",
        "wait for it, stop it, or choose another folder (--output DIR)",
    )


def is_survey(path: Path) -> bool:
    """True if a folder contains a survey."""
    return (path / INDEX).is_file()


def survey_fingerprint(description: str) -> str:
    """Return a hash of the description of a survey, without folder, device, threads, ranks and `at_once`."""
    content = yaml.safe_load(description)
    content["survey"].pop("at_once", None)
    return hashlib.sha256(fingerprint(yaml.safe_dump(content)).encode()).hexdigest()


def _description(simulation: Simulation) -> str:
    key = simulation.material.python_key
    if key:
        what = "arrays in Python" if simulation.material.kind == "dataset" else "a Python function"
        raise InputError(
            key,
            f"shots of a survey run in separate processes, to which {what} cannot be passed",
            "allowed: layers, homogeneous and file",
            "or run the shots sequentially: for shot in simulation.shots(): shot.run()",
        )
    return simulation.to_yaml()


def _refuse_run(path: Path) -> None:
    names = existing_outputs(path)
    if REPORT in names or RUN_LOG in names:
        raise InputError(
            "output.directory", f"{path} contains a run, not a survey", "", "choose another folder (--output DIR)"
        )
    if path.exists() and not path.is_dir():
        raise InputError("output.directory", f"{path} is a file", "expected a directory")


def _replace(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, path)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
