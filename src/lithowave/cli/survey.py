"""Commands for surveys, and the state of runs and surveys."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import typer

from lithowave.cli.printing import json_text, print_error, print_note, print_text
from lithowave.cli.progress import print_run_summary, progress_display, report_partial_results, with_interruption
from lithowave.description.simulation import Simulation
from lithowave.errors import InputError, LithowaveError
from lithowave.run.check import duration_text
from lithowave.run.status import FINISHED, run_state
from lithowave.run.time_limit import exit_status

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from lithowave.json_types import Entries
    from lithowave.shots import SurveyResult

ARRAY = "SLURM_ARRAY_TASK_ID"


def shot_number(text: str) -> int:
    """Return the shot number from ``--shot``.

    Raises
    ------
    InputError : the text is not a shot number, or is ``array`` outside a job array.
    """
    if text == "array":
        text = os.environ.get(ARRAY, "")
        if not text:
            raise InputError("--shot", f"array requires {ARRAY}, which is not set", "use a shot number")
    if not text.isdigit():
        raise InputError("--shot", f"{text!r} is not a shot number", "expected an integer from 1, or array")
    return int(text)


def run_one_shot(simulation: Simulation, shot: str, overwrite: bool, located: AbstractContextManager[None]) -> Path:
    """Run one shot in this process, display its progress, and return its folder."""
    from lithowave.shots import run_shot
    from lithowave.shots.tasks import stop_with_parent

    stop_with_parent()
    with located:
        number = shot_number(shot)
        single = simulation.shot(number)
        folder = single.output.directory
        assert folder is not None
        if run_state(folder).state == FINISHED and not overwrite:
            run_shot(simulation, number)  # refuses the folder of another survey
            print_text(f"finished: shot {number}, computed earlier; add --overwrite to run it again")
            print_text(f"results: {folder}")
            return folder
        display = progress_display(f"{single.title}: to {folder}", single.output.progress_interval)
        with report_partial_results(folder), display as show:
            result = with_interruption(run_shot, simulation, number, overwrite=overwrite, show=show)
    print_run_summary(result)
    return folder


def run_all_shots(
    simulation: Simulation, overwrite: bool, located: AbstractContextManager[None], scheduler: str | None
) -> Path:
    """Run the shots that are not finished, on this machine or on the workers of a Dask scheduler, and return the folder
    of the survey."""
    from lithowave.shots import run_survey

    print_text(f"{simulation.title or 'survey'}: to {simulation.output.directory}")
    with located, _executor(scheduler) as executor:
        result = with_interruption(
            run_survey, simulation, overwrite=overwrite, show=print_shot_event, executor=executor
        )
    print_survey_summary(result)
    return result.directory


def restart_shots(directory: Path, backend: str | None, threads: int | None, scheduler: str | None) -> None:
    """Resume a survey."""
    from lithowave.shots import restart_survey

    print_text(str(directory))
    with _executor(scheduler) as executor:
        result = with_interruption(
            restart_survey, directory, show=print_shot_event, backend=backend, threads=threads, executor=executor
        )
    print_survey_summary(result)


def _executor(scheduler: str | None) -> AbstractContextManager[Executor | None]:
    """Return a context with the client of a Dask scheduler, or None."""
    if scheduler is None:
        return nullcontext()
    from lithowave.shots.tasks import dask_client

    return dask_client(scheduler)


def refuse_scheduler(scheduler: str | None, got: str) -> None:
    """Refuse a Dask scheduler for anything but all shots of a survey.

    Raises
    ------
    InputError : a scheduler is given.
    """
    if scheduler is not None:
        raise InputError("--scheduler", got, "allowed: all shots of a survey", "omit --scheduler")


def refuse_profile(profile: bool) -> None:
    """Refuse the times of phases for all shots of a survey.

    Raises
    ------
    InputError : they are requested.
    """
    if profile:
        allowed = "allowed: a single shot, or a description without a survey"
        raise InputError("--profile", "the description has a survey", allowed, "add --shot N, or omit --profile")


def print_shot_event(entries: Entries) -> None:
    """Print that a shot has started or ended."""
    name = f"shot {entries['shot']} of {entries['shots']}"
    if entries["event"] == "begin":
        print_text(f"{name}: running")
        return
    if entries["event"] == "lost":
        print_text(f"{name}: lost: {entries['error']}; it will be resumed")
        return
    counts = f"{entries['finished']} of {entries['shots']} finished"
    if entries["failed"]:
        counts += f", {entries['failed']} failed"
    if entries["remaining_s"]:
        counts += f", about {duration_text(entries['remaining_s'])} remaining"
    how = f"finished: in {duration_text(entries['seconds'])}" if entries["state"] == "finished" else entries["state"]
    print_text(f"{name}: {how}; {counts}")
    if entries["error"]:
        print_error(LithowaveError(f"{name}: {entries['error']}"))


def print_survey_summary(result: SurveyResult) -> None:
    """Print the state of a survey and the next command, and exit with the status of an incomplete survey."""
    folder = quote(str(result.directory))
    finished = sum(shot.state == "finished" for shot in result.shots)
    if result.stopped_by:
        print_text(f"stopped: by {result.stopped_by}, {finished} of {len(result.shots)} shots finished")
        print_text(f"next:    lithowave restart {folder}")
        raise typer.Exit(exit_status(result.stopped_by))
    if result.complete:
        print_text(f"finished: all {finished} shots")
        print_text(f"results: {result.directory}")
        print_text(f"next:    lithowave plot {folder}")
        return
    total, failures = len(result.shots), result.failures
    states = {number: shot.state for number, shot in enumerate(result.shots, 1) if shot.state != FINISHED}
    others = [f"{number} ({state})" for number, state in states.items() if number not in failures]
    texts = [f"{len(failures)} of {total} shots failed: {', '.join(map(str, failures))}."] if failures else []
    texts += [f"{len(others)} of {total} shots are not finished: {', '.join(others)}."] if others else []
    print_error(LithowaveError(" ".join(texts)))
    print_note(f"output:  {result.directory}/shot_.../output.txt; lithowave status {folder} lists all shots")
    print_note(f"next:    remove the cause, then lithowave restart {folder}")
    raise typer.Exit(1)


def plot_shots(directory: Path, output: Path | None, options: Entries) -> None:
    """Draw the figures of all finished shots, each into the folder of the shot, or into a folder of the same name in
    `output`."""
    from lithowave.figures import plot_run
    from lithowave.shots import state_of

    shots = state_of(directory).shots
    finished = [shot.directory for shot in shots if shot.state == FINISHED]
    if not finished:
        raise InputError(
            str(directory), f"none of the {len(shots)} shots of this survey is finished", "",
            f"run them with `lithowave restart {quote(str(directory))}`",
        )  # fmt: skip
    for path in finished:
        for figure in plot_run(path, None if output is None else output / path.name, **options):
            print_text(str(figure))
    if len(finished) < len(shots):
        print_text(f"{len(finished)} of {len(shots)} shots finished; the other shots have no figures")


def print_status(directory: Path, as_json: bool) -> None:
    """Print the state of a run or of a survey."""
    from lithowave.shots import state_of

    state = state_of(directory)
    if as_json:
        print_text(json_text(state.as_dict()))
        return
    lines = state.lines() if hasattr(state, "lines") else [state.text()]
    print_text(f"{directory}: {lines[0]}")
    for line in lines[1:]:
        print_text(f"  {line}")
