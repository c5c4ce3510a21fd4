"""Running the shots of a survey: one shot in this process, or all shots on an executor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from lithowave.description.simulation import Simulation
from lithowave.errors import InputError, LithowaveError, interruption, issue_warning
from lithowave.output.run_folder import read_report
from lithowave.output.seismograms import Seismograms, load_seismograms
from lithowave.parallel.ranks import Ranks, make_ranks
from lithowave.run.callback import Callback
from lithowave.run.launch import restart_run, run_simulation
from lithowave.run.progress import ProgressCallback
from lithowave.run.result import Result
from lithowave.run.status import FAILED, FINISHED, LOST, WAITING, RunState, is_resumable, run_state
from lithowave.shots.executors import LocalProcesses, ShotExecutor
from lithowave.shots.folder import DESCRIPTION, SurveyFolder
from lithowave.shots.progress import ShotReporter
from lithowave.shots.scheduling import ShotQueue, forwarding
from lithowave.shots.slots import shot_slots
from lithowave.shots.state import survey_state

MAX_SUBMITTED = 256
"""Maximum number of shots that an executor of another kind than `LocalProcesses` has at the same time."""

Outcome = TypeVar("Outcome")


@dataclass
class SurveyResult:
    """The result of a survey.

    Attributes
    ----------
    directory : the folder of the survey.
    shots : state of each shot, in order.
    stopped_by : name of the signal that stopped the survey, in the result of a `RunInterrupted` or a
        `RunKeyboardInterrupt`, or None.
    """

    directory: Path
    shots: list[RunState]
    stopped_by: str | None = None

    @property
    def complete(self) -> bool:
        """True if all shots are finished."""
        return all(shot.state == FINISHED for shot in self.shots)

    @property
    def failures(self) -> dict[int, str]:
        """Errors of the failed shots by number, from 1."""
        return {
            number: shot.error or shot.text()
            for number, shot in enumerate(self.shots, start=1)
            if shot.state in (FAILED, LOST)
        }

    def seismograms(self, number: int) -> Seismograms:
        """Return the seismograms of a shot, numbered from 1."""
        return load_seismograms(self.shots[number - 1].directory)


def run_survey(
    simulation: Simulation,
    output: str | Path | None = None,
    *,
    overwrite: bool = False,
    show: ProgressCallback | None = None,
    callbacks: Sequence[Callback] = (),
    executor: Any = None,
    **overrides: Any,
) -> SurveyResult:
    """Run all unfinished shots of a survey, each in a separate process.

    A failed shot does not stop the others. A shot whose process or worker disappears is resumed, at most three times
    in total. SIGTERM, SIGUSR1 and Ctrl-C stop the survey and its shots, which write checkpoints; SIGUSR2
    requests checkpoints from the shots. Python handles signals in the main thread only.

    Parameters
    ----------
    simulation : a description with a survey.
    output : the folder of the survey; overrides ``output.directory``.
    overwrite : start all shots from step 0, and replace another survey in that folder.
    show : function called when a shot begins, is lost or ends with a dictionary: event (``begin``, ``lost``, ``end``),
        shot, shots, folder, state, error, seconds, finished, failed, running, remaining_s.
    callbacks : must be empty, since callbacks cannot be passed to the processes of the shots.
    executor : runs the shots: a ``concurrent.futures.Executor`` (``ProcessPoolExecutor``, ``MPIPoolExecutor`` of
        mpi4py), a client of Dask Distributed, or a function that returns one of them, which is called again if the
        executor breaks. The workers require access to the survey folder. By default, the shots run on this machine,
        one per CUDA device or one with all cores, or ``survey.at_once`` at the same time.
    overrides : keys of ``compute`` and ``output`` by name.

    Raises
    ------
    InputError : the description is invalid, or several ranks were started. OutputError : the folder cannot be written.
    ResourceError : the executor is broken, or its Dask scheduler was lost.
    RunInterrupted : SIGTERM or SIGUSR1 has stopped the survey. RunKeyboardInterrupt : Ctrl-C has stopped it. Both have
        the incomplete result; the same call, or `restart_survey`, resumes the unfinished shots.
    """
    _refuse_ranks(executor)
    if callbacks:
        raise InputError(
            "callbacks", "shots of a survey run in separate processes, to which a callback cannot be passed",
            "allowed: callbacks of a single shot", "run the shots sequentially: for shot in simulation.shots(): "
            "shot.run(callbacks=[...])",
        )  # fmt: skip
    changes = {} if output is None else {"output.directory": str(output)}
    for name, value in overrides.items():
        part = "compute" if name in type(simulation.compute).model_fields else "output"
        changes[f"{part}.{name}"] = value
    simulation = simulation.with_overrides(changes) if changes else simulation
    folder = SurveyFolder.prepare(simulation, overwrite)
    for text in simulation.warnings():
        issue_warning(text)
    return _run_shots(simulation, folder, overwrite, show, executor)


def restart_survey(
    directory: str | Path,
    *,
    show: ProgressCallback | None = None,
    backend: str | None = None,
    threads: int | None = None,
    executor: Any = None,
) -> SurveyResult:
    """Resume the unfinished shots of a survey; see `run_survey`.

    Raises
    ------
    InputError : the folder contains no survey, or all its shots are finished.
    RunInterrupted, RunKeyboardInterrupt : see `run_survey`.
    """
    _refuse_ranks(executor)
    path = Path(directory)
    SurveyFolder.open(path)
    changes = {"output.directory": str(path), "compute.backend": backend, "compute.threads": threads}
    given = {key: value for key, value in changes.items() if value is not None}
    simulation = Simulation.from_file(path / DESCRIPTION, given)
    folder = SurveyFolder.prepare(simulation)
    if all(shot.state == FINISHED for shot in survey_state(path).shots):
        raise InputError(str(path), "all shots of this survey are finished", "there is nothing to restart")
    return _run_shots(simulation, folder, False, show, executor)


def run_shot(
    simulation: Simulation, number: int, *, overwrite: bool = False, show: ProgressCallback | None = None
) -> Result:
    """Run one shot of a survey in this process, or on all ranks; resume it if it has a run folder.

    Parameters
    ----------
    number : of the shot, from 1. overwrite : start from step 0. show : see `lithowave.run.launch.run_simulation`.

    Raises
    ------
    InputError : the survey has no shot with this number, or as for a run.
    """
    shot, ranks = simulation.shot(number), make_ranks()
    path = Path(shot.output.directory)

    def prepared() -> tuple[str, bool]:
        SurveyFolder.prepare(simulation)
        return run_state(path).state, is_resumable(path)

    state, begun = on_root(ranks, prepared)
    if overwrite or not begun:
        return run_simulation(shot, overwrite=overwrite or state != WAITING, show=show)
    if state == FINISHED:
        return Result(path, read_report(path))
    return restart_run(path, show=show, backend=shot.compute.backend, threads=shot.compute.threads)


def on_root(ranks: Ranks, work: Callable[[], Outcome]) -> Outcome:
    """Return the result of `work` on rank 0 on all ranks; raise its error on all ranks."""
    outcome: Any = None
    if ranks.is_root:
        try:
            outcome = (work(), None)
        except LithowaveError as error:
            outcome = (None, error)
    value, error = ranks.broadcast(outcome)
    if error is not None:
        raise error
    return value


def _refuse_ranks(executor: Any) -> None:
    """Refuse several ranks without an executor, which may consist of these ranks."""
    ranks = make_ranks() if executor is None else Ranks()
    if ranks.size > 1:
        raise InputError(
            "survey",
            f"{ranks.size} ranks were started, but the shots of a survey run in separate processes",
            "allowed on several ranks: a single shot",
            "select a shot (--shot N), start lithowave without mpiexec, or pass an mpi4py.futures.MPIPoolExecutor in "
            "Python",
        )


def _run_shots(
    simulation: Simulation, folder: SurveyFolder, overwrite: bool, show: ProgressCallback | None, given: Any
) -> SurveyResult:
    """Run the unfinished shots on an executor until all have ended, or a signal arrives."""
    with folder, forwarding() as signals:
        if overwrite:
            folder.remove_runs()
        states = [shot.state for shot in survey_state(folder.path).shots]
        to_do = [number for number, state in enumerate(states, start=1) if state != FINISHED]
        slots = shot_slots(simulation)
        executor = ShotExecutor(partial(LocalProcesses, slots) if given is None else given)
        assert simulation.survey is not None
        at_once = len(slots) if given is None else simulation.survey.at_once or MAX_SUBMITTED
        folder.log(f"{len(to_do)} of {len(states)} shots to do, at most {at_once} at a time")
        reporter = ShotReporter(folder, len(states), states.count(FINISHED), show)
        try:
            ShotQueue(simulation, folder, executor, reporter, signals).run(to_do, at_once)
        finally:
            executor.close()
        folder.log(f"stopped by {signals.stopped_by}" if signals.stopped_by else "all shots have run")
    result = SurveyResult(folder.path, survey_state(folder.path).shots, signals.stopped_by)
    if signals.stopped_by:
        raise interruption(signals.stopped_by, result)
    return result
