"""Run folders of an agreement: which of them contain the planned run, from an earlier call."""

from __future__ import annotations

from lithowave.agreement.planning import PlannedRun
from lithowave.description.writing import recorded_yaml
from lithowave.errors import OVERWRITE, InputError
from lithowave.output.run_folder import (
    DESCRIPTION,
    existing_outputs,
    fingerprint,
    input_hashes,
    read_report,
    read_text,
    source_commit,
)
from lithowave.run.status import WAITING, run_state
from lithowave.version import __version__

OTHER = "other"  # state of a folder with another run


def difference_from(run: PlannedRun) -> str:
    """Return how the run in the folder differs from the planned run; an empty text if it is the planned run."""
    report = read_report(run.directory)
    if run.simulation.material.python_key:
        return "the material contains Python objects, which cannot be compared"
    stored = read_text(run.directory / DESCRIPTION)
    if fingerprint(stored) != fingerprint(recorded_yaml(run.simulation)):
        return "with another description"
    if report.get("inputs", {}) != input_hashes(run.simulation.input_files()):
        return "with other contents of its input files"
    if (report.get("lithowave"), report.get("commit")) != (__version__, source_commit()):
        return "by another version of lithowave"
    return ""


def stored_state(run: PlannedRun) -> str:
    """Return the state of the planned run (see `lithowave.run.status`); ``other`` if the folder contains another."""
    if not existing_outputs(run.directory):
        return WAITING
    state = run_state(run.directory).state
    return OTHER if state == WAITING or difference_from(run) else state


def require_same(run: PlannedRun) -> None:
    """Refuse a folder that contains another run.

    Raises
    ------
    InputError : the folder contains another run, or files that a run would replace.
    """
    if stored_state(run) != OTHER:
        return
    known = run_state(run.directory).state != WAITING
    how = difference_from(run) if known else "files that a run would replace"
    raise InputError(
        "--output", f"{run.directory} contains another run ({how})" if known else f"{run.directory} contains {how}",
        "runs are not overwritten by default",
        f"choose another folder (--output DIR, in Python output=DIR), or replace these runs ({OVERWRITE})",
    )  # fmt: skip
