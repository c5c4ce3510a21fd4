"""JSON files of run and survey folders, read with the types of the entries that lithowave uses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from lithowave.errors import OutputError

Number = int | float


class _Entries(BaseModel):
    """Entries with other entries between them; each may be missing if it has a default."""

    model_config = ConfigDict(extra="allow", strict=True)


class _Sources(_Entries):
    count: int = 0
    begin_s: Number = 0
    end_s: Number = 0
    depth_m: list[Number] = []
    frequency_hz: Number = 0
    moment_n_m: Number = 0
    moment_magnitude: Number = 0


class _Plan(_Entries):
    method: str = ""
    order: int | None = None
    degree: int | None = None
    passes: str = ""
    grid_points: list[int] = []
    spacing_m: Number | None = None
    element_count: int = 0
    element_size_m: tuple[Number, Number] | None = None
    degrees_of_freedom: int = 0
    steps: int = 0
    points_per_wavelength: Number | None = None
    time_step_s: Number | None = None
    time_step_limit_s: Number | None = None
    memory_bytes: Number | None = None
    sources: _Sources = _Sources()


class _Phase(_Entries):
    name: str
    wall_s: Number


class _Restart(_Entries):
    step: int
    time: str


class RunEntries(_Entries):
    """Entries of run.json."""

    exit_state: str = ""
    error: str = ""
    failed_at_step: int = 0
    stopped_by: str = ""
    stopped_at_step: int = 0
    stop_reason: str = ""
    stopped_at_time_s: Number = 0
    setup_s: Number = 0
    loop_s: Number = 0
    wall_s: Number = 0
    rate_points_per_s: Number | None = None
    rate_elements_per_s: Number | None = None
    unit: str = ""
    host: str = ""
    ranks: int = 1
    threads: int = 1
    precision: str = ""
    restartable: bool = True
    plan: _Plan = _Plan()
    phases: list[_Phase] = []
    restarts: list[_Restart] = []
    warnings: list[str] = []
    callbacks: list[str] = []
    command: list[str] = []
    inputs: dict[str, str] = {}
    packages: dict[str, str] = {}
    cuda: dict[str, Any] = {}


class ProgressEntries(_Entries):
    """Entries of progress.json."""

    step: int
    steps: int
    time_s: Number
    end_s: Number
    unit: str
    rate_points_per_s: Number | None = None
    rate_elements_per_s: Number | None = None
    remaining_s: Number | None = None


class _Shot(_Entries):
    shot: int
    folder: str
    name: str | None
    position: tuple[Number, Number, Number]


class SurveyEntries(_Entries):
    """Entries of survey.json."""

    shots: list[_Shot]
    fingerprint: str
    inputs: dict[str, str]
    failures: dict[str, str] = {}


def read_entries(path: Path, kind: type[BaseModel]) -> dict[str, Any]:
    """Return the content of a JSON file.

    Raises
    ------
    FileNotFoundError : the file is missing.
    OutputError : the file is damaged, or an entry has a wrong type.
    """
    try:
        text = path.read_text(encoding="utf-8")
        kind.model_validate_json(text)
        return json.loads(text)
    except FileNotFoundError:
        raise
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise OutputError(f"{path}: is damaged: {place and place + ': '}{first['msg']}.") from None
    except (OSError, ValueError, RecursionError) as error:  # ValueError: not UTF-8, or a number without end
        raise OutputError(f"{path}: is damaged: {error}.") from error
