"""The folder of a survey: its description, an index of its shots, a run folder for each, and its state and progress.

Shots that run at the same time have slots: the device, or the number of threads, of each.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import shutil
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import yaml

from lithowave.backends import cpu
from lithowave.backends.cuda_driver import driver_library
from lithowave.description.simulation import Simulation
from lithowave.errors import OVERWRITE, InputError
from lithowave.output.files import SurveyEntries, read_entries, writing
from lithowave.output.run_folder import LOG as RUN_LOG
from lithowave.output.run_folder import REPORT, LockedFolder, existing_outputs, fingerprint, input_hashes, now
from lithowave.run.status import FAILED, FINISHED, LOST, RUNNING, STOPPED, WAITING, RunState, is_locked, run_state
from lithowave.version import __version__

if TYPE_CHECKING:
    from lithowave.json_types import Entries

DESCRIPTION, INDEX, LOG = "survey.yaml", "survey.json", "survey.log"
OUTPUT = "output.txt"  # in the folder of a shot: the output of its process


class SurveyFolder(LockedFolder):
    """A folder with the runs of a survey; the context locks it against other processes that run the shots.

    index : content of survey.json: number, folder, name and position of each shot; ``failures``: errors, by number, of
    shots that failed before they had a run folder.
    """

    log_name = LOG
    busy = ("a survey is running", "allowed: one process per survey folder")

    def __init__(self, path: Path, index: Entries) -> None:
        super().__init__(path)
        self.index = index

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
        wanted = {"fingerprint": survey_fingerprint(description), "inputs": input_hashes(simulation.input_files())}
        if (path / INDEX).exists() and not overwrite:
            folder = cls.open(path)
            folder._require_same(wanted)
            return folder
        if is_locked(path / LOG):
            raise cls.busy_error(path)
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

    def _require_same(self, wanted: Entries) -> None:
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

    def remove_runs(self) -> None:
        """Remove the runs of all shots, of any survey."""
        for path in sorted(self.path.glob("shot_*")):
            if path.is_dir() and ((path / REPORT).exists() or (path / OUTPUT).exists()):
                with writing(path):
                    shutil.rmtree(path)

    def __enter__(self) -> SurveyFolder:
        self.acquire_lock()
        return self


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


@dataclass(frozen=True)
class ShotSlot:
    """Resources of one shot. environment : of its process. threads : None leaves the number to the description."""

    environment: dict[str, str] = field(default_factory=dict)
    threads: int | None = None


def shot_slots(simulation: Simulation) -> list[ShotSlot]:
    """Return a slot for each shot that runs at the same time.

    By default there is one slot per CUDA device that the run may use, or one slot with all cores; ``survey.at_once``
    sets another number, and the slots then share devices or cores evenly.
    """
    assert simulation.survey is not None
    devices = [] if simulation.compute.backend == "cpu" else visible_devices()
    count = simulation.survey.at_once or max(1, len(devices))
    if devices:
        return [ShotSlot({"CUDA_VISIBLE_DEVICES": devices[number % len(devices)]}) for number in range(count)]
    threads = simulation.compute.threads or (max(1, cpu.usable_cores() // count) if count > 1 else None)
    return [ShotSlot({}, threads) for _ in range(count)]


def visible_devices() -> list[str]:
    """Return the CUDA devices that this process may use, as in CUDA_VISIBLE_DEVICES; empty without CuPy.

    The number of devices is read from the driver, which allocates no device memory.
    """
    library = driver_library() if find_spec("cupy") is not None else None
    if library is None:
        return []
    count = ctypes.c_int()
    if library.cuInit(0) != 0 or library.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return []
    listed = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = [str(number) for number in range(count.value)] if listed is None else listed.split(",")
    return [name.strip() for name in names[: count.value]]


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

    def as_dict(self) -> Entries:
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
    return SurveyState(path, labels, states, is_locked(path / LOG))
