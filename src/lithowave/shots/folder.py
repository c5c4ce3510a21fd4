"""The folder of a survey: its description, an index of its shots, and a run folder for each."""

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
from lithowave.errors import InputError, OutputError
from lithowave.output.hdf5 import writing
from lithowave.output.run_folder import LOG as RUN_LOG
from lithowave.output.run_folder import REPORT, existing_outputs, fingerprint, input_hashes, now
from lithowave.run.status import is_locked
from lithowave.version import __version__

DESCRIPTION, INDEX, LOG = "survey.yaml", "survey.json", "survey.log"
OUTPUT = "output.txt"  # in the folder of a shot: what its process said


class SurveyFolder:
    """A folder with the runs of a survey in it.

    index : content of survey.json: the shots with number, folder, name and position; failures by number of those that
    failed before they had a run folder.
    """

    def __init__(self, path: Path, index: dict[str, Any]) -> None:
        self.path, self.index = path, index
        self._held: Any = None

    @classmethod
    def open(cls, path: Path) -> SurveyFolder:
        """The folder of a survey that has begun.

        Raises
        ------
        InputError : it holds no survey. OutputError : survey.json is damaged.
        """
        try:
            return cls(path, json.loads((path / INDEX).read_text(encoding="utf-8")))
        except FileNotFoundError:
            raise InputError(str(path), f"holds no survey: it has no {INDEX}") from None
        except (OSError, json.JSONDecodeError) as error:
            raise OutputError(f"{path / INDEX}: cannot be read ({error}).") from error

    @classmethod
    def prepare(cls, simulation: Simulation, overwrite: bool = False) -> SurveyFolder:
        """The folder for a survey: made now, or that of the same survey, begun before.

        Raises
        ------
        InputError : when the folder holds another survey, or a run, and `overwrite` is not set. OutputError : when it
        cannot be written.
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
        got = f"the file {changed[0]} has changed since it began" if changed else "it has another description"
        raise InputError(
            "output.directory",
            f"{self.path} holds another survey ({got})",
            "A survey is never overwritten unless told so",
            "choose another folder (--output DIR), go on with that one (lithowave restart), or say --overwrite",
        )

    def write(self) -> None:
        """Write survey.json anew."""
        with writing(self.path / INDEX):
            _replace(self.path / INDEX, json.dumps(self.index, indent=2) + "\n")

    def shot_path(self, number: int) -> Path:
        """The run folder of a shot."""
        return self.path / self.index["shots"][number - 1]["folder"]

    def note_failure(self, number: int, error: str | None) -> None:
        """Keep the error of a shot that failed; None where it did not."""
        failures = self.index.setdefault("failures", {})
        before = failures.pop(str(number), None)
        if error is not None:
            failures[str(number)] = error
        if before != error:
            self.write()

    def log(self, line: str) -> None:
        """Append a line with the time of day to the log."""
        with writing(self.path / LOG), open(self.path / LOG, "a", encoding="utf-8") as log:
            log.write(f"{now().replace('T', ' ')} {line}\n")

    def remove_runs(self) -> None:
        """Remove the runs of all shots, whichever survey they were of."""
        for path in sorted(self.path.glob("shot_*")):
            if path.is_dir() and ((path / REPORT).exists() or (path / OUTPUT).exists()):
                with writing(path):
                    shutil.rmtree(path)

    def acquire_lock(self) -> None:
        """Lock the log against other processes that would go through the shots.

        Raises
        ------
        InputError : one does already.
        """
        with writing(self.path / LOG):
            self._held = open(self.path / LOG, "a", encoding="utf-8")
        try:
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise _busy(self.path) from None
        except OSError:
            pass  # a file system without locks

    def in_use(self) -> bool:
        """Whether a process goes through the shots now."""
        return is_locked(self.path / LOG)

    def close(self) -> None:
        """Let go of the folder."""
        if self._held is not None:
            self._held.close()
            self._held = None

    def __enter__(self) -> SurveyFolder:
        self.acquire_lock()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _busy(path: Path) -> InputError:
    return InputError(
        "output.directory",
        f"a survey is going on in {path}",
        "One at a time goes through its shots",
        "wait for it, stop it, or choose another folder (--output DIR)",
    )


def is_survey(path: Path) -> bool:
    """Whether a folder holds a survey."""
    return (path / INDEX).is_file()


def survey_fingerprint(description: str) -> str:
    """Hash by which a folder knows its survey; folder, device, threads, ranks and `at_once` do not count."""
    content = yaml.safe_load(description)
    content["survey"].pop("at_once", None)
    return hashlib.sha256(fingerprint(yaml.safe_dump(content)).encode()).hexdigest()


def _description(simulation: Simulation) -> str:
    if simulation.material.kind == "function":
        raise InputError(
            "material.function",
            "the shots of a survey run in processes of their own, which a Python function does not reach",
            "layers, homogeneous and file can be used",
            "or run simulation.shots() one by one",
        )
    return simulation.to_yaml()


def _refuse_run(path: Path) -> None:
    names = existing_outputs(path)
    if REPORT in names or RUN_LOG in names:
        raise InputError(
            "output.directory", f"{path} holds a run, not a survey", "", "choose another folder (--output DIR)"
        )
    if path.exists() and not path.is_dir():
        raise InputError("output.directory", f"{path} is a file", "expected a folder")


def _replace(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, path)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
