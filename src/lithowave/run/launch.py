"""Launch of a run: makes the plan, the solver and the callbacks, and runs the time loop.

The self-checks of a run verify that each source and receiver is represented once, and that waves arrive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lithowave.backends import kernel_cache, make_backend
from lithowave.backends.cpu import host_threads_in_use, usable_cores
from lithowave.backends.interface import Backend
from lithowave.description.acquisition import Acquisition
from lithowave.description.simulation import MODEL_FILE, Simulation, recorded_yaml, stored_model
from lithowave.errors import (
    InputError,
    InstabilityError,
    LithowaveError,
    OutputError,
    ResourceError,
    interruption,
    issue_warning,
)
from lithowave.output.asdf import write_asdf
from lithowave.output.attributes import attributes_of
from lithowave.output.checkpoint import FILE_NAME as CHECKPOINT_FILE
from lithowave.output.checkpoint import Checkpoint, open_checkpoint
from lithowave.output.conversion import write_gridded_model
from lithowave.output.files import require_space
from lithowave.output.recorders import NOTHING, Recorder, SeismogramRecorder, WriterThread, make_recorders, record_lag
from lithowave.output.run_folder import (
    DESCRIPTION,
    NonRootRunFolder,
    RunFolder,
    Stopwatch,
    fingerprint,
    input_hashes,
    provenance,
    read_text,
)
from lithowave.output.segy import write_segy
from lithowave.output.seismograms import load_seismograms, mark_complete, read_seismograms
from lithowave.output.waveforms import check_names, require_packages, write_miniseed, write_sac
from lithowave.parallel.halo import Halo, device_index, ranks_sharing_cores, require_own_device
from lithowave.parallel.ranks import Note, Ranks, collective_call, make_ranks
from lithowave.process import phase, record_phases, recorded_phases
from lithowave.run.loop import (
    FIRST_STEP,
    Callback,
    CheckpointManager,
    InstabilityWatch,
    Integration,
    Onsets,
    OutputWatch,
    UserCallback,
    crossing_time,
    explain_zero_seismograms,
    user_callbacks,
)
from lithowave.run.machine_rates import load_rate
from lithowave.run.preparation import Preparation, prepare
from lithowave.run.progress import LoopTimes, Progress, ProgressCallback, loop_efficiency, rate_key
from lithowave.run.requirements import require_memory, require_room
from lithowave.run.signals import SignalHandler, SignalRequests, stop_signals
from lithowave.run.status import Result
from lithowave.solvers import load_method
from lithowave.solvers.interface import Clock, GatheredSolver, Plan, Solver, check_placement

if TYPE_CHECKING:
    from lithowave.json_types import Entries, ReadEntries


def checked_sources(acquisition: Acquisition, solver: Solver, ranks: Ranks) -> Onsets:
    """Compare the sources and receivers of all ranks with the description; return the onsets of the sources.

    Raises
    ------
    SelfCheckError : a receiver or source is missing, or is represented more than once.
    """
    sources, receivers = acquisition.sources, acquisition.receivers
    placement = solver.placement(sources, receivers).summed(ranks)
    check_placement(placement, sources, receivers)
    schedule = solver.plan.schedule
    return Onsets(sources, placement.totals, placement.acts, schedule.time_step, int(schedule.end / schedule.time_step))


def check_seismograms(
    simulation: Simulation,
    folder: RunFolder,
    recorder: SeismogramRecorder,
    onsets: Onsets,
    solver: GatheredSolver,
    clock: Clock,
) -> None:
    """Warn if all seismograms of a run that has ended at the time of the clock are zero.

    Raises
    ------
    SelfCheckError : all are zero, although a wave must have reached a receiver.
    """
    ranks = solver.ranks
    reached = replace(onsets, steps=min(onsets.steps, clock.step))

    def explained() -> str:
        if not ranks.is_root or recorder.moved or not simulation.receivers:
            return ""
        if (np.abs(read_seismograms(folder.path).data) > NOTHING).any():  # before a restart
            return ""
        return explain_zero_seismograms(reached, simulation, solver.plan.summary()["faces"])

    text = ranks.broadcast(collective_call(ranks, explained))
    if text:
        folder.write_report(warnings=[*folder.report.get("warnings", []), text])
        if ranks.is_root:
            folder.log(f"warning: {text}")
            issue_warning(text)


WAVEFORM_WRITERS: dict[str, Callable[..., list[Path]]] = {
    "miniseed": write_miniseed, "sac": write_sac, "segy": write_segy, "asdf": write_asdf,
}  # fmt: skip


@record_phases()
@host_threads_in_use()
def run_simulation(
    simulation: Simulation,
    output: str | Path | None = None,
    *,
    overwrite: bool = False,
    show: ProgressCallback | None = None,
    callbacks: Sequence[Callback] = (),
    **overrides: object,
) -> Result:
    """Run a simulation from step 0.

    Parameters
    ----------
    simulation : the validated description.
    output : the run folder; overrides ``output.directory``.
    overwrite : replace another run in that folder.
    show : function called a few times per second during the time loop with a dictionary: unit (points or elements),
        step, steps, time_s, end_s, elapsed_s, remaining_s, points and rate_points_per_s (or elements and
        rate_elements_per_s).
    callbacks : instances of subclasses of `lithowave.Callback`, called in this order after the steps at which they are
        due. They read the solution and may stop the run with ``clock.stop(reason)``. Such a run is complete: its files
        contain the samples up to this time, and run.json has ``exit_state`` "finished", ``stopped_by`` (the class of
        the callback), ``stop_reason``, ``stopped_at_step`` and ``stopped_at_time_s``.
    overrides : keys of ``compute`` and ``output`` by name (``backend="cpu"``, ``precision="double"``).

    Returns
    -------
    Result : the run folder and the content of run.json.

    Raises
    ------
    InputError, ResourceError : before the time loop: the description is invalid, the folder contains another run, or
        the machine lacks memory, disk space or a device.
    InstabilityError, OutputError, SelfCheckError : during the run, which then has failed; its files remain. An
        exception in a callback also ends the run as failed.
    RunInterrupted, RunKeyboardInterrupt : after a checkpoint, SIGTERM, SIGUSR1 or Ctrl-C has ended the run. They have
        the incomplete result and the path of the checkpoint. Python handles signals in the main thread only.
    """
    _refuse_survey(simulation)
    changes = dotted_overrides(simulation, overrides, output)
    if changes:
        simulation = simulation.with_overrides(changes)
    description, ranks = recorded_yaml(simulation), make_ranks()
    users = user_callbacks(callbacks, ranks)
    path = Path(simulation.output.directory or "")
    check_names(simulation.acquisition.receivers, simulation.output.formats)
    prepared = _prepared(simulation, ranks)
    summary, size = prepared.summary, prepared.outputs.outputs  # on all ranks, which compute them together
    if ranks.is_root and not overwrite:  # replacing a run frees its disk space
        require_space(path, size)
    with RunFolder.create(path, description, overwrite) if ranks.is_root else NonRootRunFolder(path, ranks) as folder:
        context = RunContext(prepared, ranks, folder, fingerprint(description), users)
        _record_begin(context, summary)
        _report_warnings(context)
        return _result(context, None, show)


def _refuse_survey(simulation: Simulation) -> None:
    if simulation.survey is not None:
        raise InputError(
            "survey", "the description has a survey", "allowed: a single shot",
            "call simulation.run() to run all shots, or simulation.shot(n).run() to run one",
        )  # fmt: skip


@record_phases()
@host_threads_in_use()
def restart_run(
    directory: str | Path,
    *,
    show: ProgressCallback | None = None,
    backend: str | None = None,
    threads: int | None = None,
    callbacks: Sequence[Callback] = (),
) -> Result:
    """Resume a stopped run from its last checkpoint; without a checkpoint, start it from step 0.

    On the same device and number of ranks, the result is bitwise identical to that of an uninterrupted run (spectral
    elements on a GPU: with ``compute.deterministic``); otherwise it is identical up to round-off.

    Parameters
    ----------
    directory : the run folder.
    show, callbacks : see `run_simulation`; a warning is issued if the callbacks differ from those of the stopped run.
    backend, threads : override those of the description.

    Returns
    -------
    Result : the run folder and the content of run.json.

    Raises
    ------
    InputError : the folder contains no run, its run is complete or running, or its input files have changed.
    OutputError : its files are damaged or do not belong together.
    ResourceError : the machine lacks memory or a device for the run.
    RunInterrupted, RunKeyboardInterrupt : see `run_simulation`.
    """
    path, ranks = Path(directory), make_ranks()
    users = user_callbacks(callbacks, ranks)
    with RunFolder.reopen(path) if ranks.is_root else NonRootRunFolder(path, ranks) as folder:
        folder.report = ranks.broadcast(folder.report)
        description = read_text(path / DESCRIPTION)
        if not folder.report.get("restartable", True):
            raise InputError(
                str(path), "the material of this run contains a Python function",
                "allowed for restarts: materials in a file", "run the simulation again",
            )
        changes = {"output.directory": str(path), "compute.backend": backend, "compute.threads": threads}
        changed = {key: value for key, value in changes.items() if value is not None}
        simulation = Simulation.from_file(path / DESCRIPTION, changed)
        _require_same_inputs(path, simulation, folder.report.get("inputs", {}))
        require_packages(simulation.output.formats, replaceable=False)
        prepared = _prepared(simulation, ranks, folder.report.get("plan"))
        checkpoint = open_checkpoint(path, fingerprint(description), ranks)
        folder.record_restart(checkpoint.step if checkpoint else 0)
        changed_callbacks = _changed_callbacks(folder.report.get("callbacks", []), users)
        context = RunContext(prepared, ranks, folder, fingerprint(description), users)
        _report_warnings(context, changed_callbacks)
        return _result(context, checkpoint, show)


@dataclass(frozen=True)
class RunContext:
    """The objects of a run. identity : fingerprint of the description. users : callbacks of the user."""

    prepared: Preparation
    ranks: Ranks
    folder: RunFolder
    identity: str
    users: Sequence[UserCallback] = ()

    @property
    def simulation(self) -> Simulation:
        """The description."""
        return self.prepared.simulation

    @property
    def plan(self) -> Plan:
        """The plan of this rank."""
        return self.prepared.plan

    @property
    def backend(self) -> Backend:
        """The device of this rank."""
        return self.prepared.backend


def _record_begin(context: RunContext, summary: Entries) -> None:
    """Write the model of a material from Python, and the entries of run.json about the run and its inputs.

    summary : of the plan.
    """
    simulation, folder, ranks = context.simulation, context.folder, context.ranks
    model = stored_model(simulation)
    if model is not None and ranks.is_root:
        write_gridded_model(folder.path / MODEL_FILE, model)
    ranks.barrier()  # on all ranks, the folder exists from here on
    restartable = not simulation.material.python_key or model is not None
    inputs = simulation.input_files() + ([] if model is None else [(folder.path / MODEL_FILE).resolve()])
    folder.write_report(**provenance(inputs), plan=summary, restartable=restartable, exit_state="running")
    if context.users:
        folder.write_report(callbacks=[user.name for user in context.users])


def _prepared(simulation: Simulation, ranks: Ranks, previous: ReadEntries | None = None) -> Preparation:
    """Return the preparation of this rank on its device, if the run fits into the memory.

    previous : the plan from the report of the resumed run.
    """
    compute = simulation.compute
    with phase("device"):
        backend = make_backend(
            compute.backend, compute.precision, compute.threads, lambda count: device_index(ranks, count),
            ranks_sharing_cores(ranks),
        )  # fmt: skip
    names = ranks.all_gather(backend.name)
    if len(set(names)) > 1:
        raise ResourceError(
            f"compute.backend: {names.count('cuda')} ranks have a CUDA device, {names.count('cpu')} ranks have none; "
            "set compute.backend to cpu, or to cuda for an error that states what is missing."
        )
    require_own_device(ranks, backend)
    if ranks.is_root:
        solver = simulation.solver
        orders = solver.degree, solver.order
        selection = kernel_cache.Selection(solver.method, compute.precision, orders, backend.own_memory)
        kernel_cache.start(selection, usable_cores() - 1)
    require_room(simulation, backend, ranks)
    with phase("kernels"):
        compile_ahead = getattr(load_method(simulation.solver.method), "compile_ahead", None)
        if compile_ahead is not None:
            compile_ahead(simulation.experiment, backend)
    prepared = prepare(simulation, backend, ranks, previous)
    require_memory(prepared.memory, backend, prepared.plan.memory_hint, ranks)
    return prepared


def _report_warnings(context: RunContext, others: Sequence[str] = ()) -> None:
    """Issue the warnings of a run, and others, and write them to its log and to run.json."""
    texts = [*context.prepared.warnings, *others]
    context.folder.write_report(warnings=texts)
    for text in texts if context.ranks.is_root else ():
        context.folder.log(f"warning: {text}")
        issue_warning(text)


def _changed_callbacks(before: list[str], users: Sequence[UserCallback]) -> list[str]:
    """Return a warning if a run is resumed with different callbacks."""
    now = [user.name for user in users]
    if now == before:
        return []
    lists = (", ".join(names) or "none" for names in (before, now))
    return ["callbacks: the run began with {}, but is resumed with {}.".format(*lists)]


def _require_same_inputs(path: Path, simulation: Simulation, before: dict[str, str]) -> None:
    """Refuse to resume a run whose input files have changed."""
    for name, digest in input_hashes(simulation.input_files()).items():
        if digest != before.get(name, digest):
            raise InputError(
                str(path), f"the input file {name} has changed since this run began",
                "a run can be resumed only with unchanged input files", "restore the file, or run the simulation again",
            )  # fmt: skip


def _result(context: RunContext, checkpoint: Checkpoint | None, show: ProgressCallback | None) -> Result:
    """Return the result of a run that no signal has ended.

    Raises
    ------
    RunInterrupted, RunKeyboardInterrupt : on all ranks, if one of them has received a signal.
    """
    with stop_signals() as signals:
        result = _execute(context, checkpoint, show, signals)
    received = [name for name in context.ranks.all_gather(signals.stopped_by) if name]
    if received:
        raise interruption(received[0], result, None if result.complete else result.directory / CHECKPOINT_FILE)
    return result


def _execute(
    context: RunContext, checkpoint: Checkpoint | None, show: ProgressCallback | None, signals: SignalHandler
) -> Result:
    """Make solver and callbacks, run the time loop, and complete the run folder."""
    stopwatch = Stopwatch()
    simulation, plan, backend, folder = context.simulation, context.plan, context.backend, context.folder
    schedule, output = plan.schedule, simulation.output
    clock = Clock(schedule.time_step, schedule.steps + record_lag(output.quantity, output.tensors))
    callbacks: list[Callback] = []
    with _ending(context, clock, stopwatch, callbacks):
        with Halo(context.ranks, backend, simulation.compute.transport) as halo:
            folder.write_report(**backend.facts(), **halo.facts())
            folder.log(device_text(folder.report))
            with phase("arrays"):
                local = load_method(simulation.solver.method).Solver(plan, simulation.experiment, backend, halo)
            solver = GatheredSolver(local, context.ranks, simulation.acquisition)
            parts = _make_callbacks(context, solver, checkpoint, show, signals, stopwatch, callbacks)
            if checkpoint is not None:
                parts.checkpoints.restore(solver, clock, checkpoint)
            integration = Integration(solver, clock, callbacks)
            with phase("begin of outputs"):
                integration.start()
            folder.write_report(setup_s=stopwatch(), **local.facts())
            folder.log(f"step {clock.step} of {clock.steps}: begin; {plan.unit_total} {plan.unit}")
            loop_time, first = Stopwatch(), clock.step
            try:
                integration.run()
            except InstabilityError:  # on all ranks: the records up to now are kept
                for recorder in parts.recorders:
                    recorder.keep(solver)
                raise
            if clock.interrupted_by is not None:
                folder.write_report(**parts.outputs.facts(loop_time()))
                return _interrupted(folder, clock, clock.interrupted_by, loop_time, stopwatch)
            for text in (text for recorder in parts.recorders for text in recorder.remarks):
                folder.log(text)
            backend.synchronize()
            elapsed, rate = loop_time(), parts.progress.rate(clock)
            folder.write_report(**parts.outputs.facts(elapsed))
            seismograms = parts.recorders[0]
            assert isinstance(seismograms, SeismogramRecorder)
            check_seismograms(simulation, folder, seismograms, parts.onsets, solver, clock)
        if context.ranks.is_root:
            mark_complete(folder.path)
            _write_waveforms(simulation, folder)
        _report_stop(context, clock)
        speed = {"unit": plan.unit, rate_key(plan.unit): rate, **_efficiency(context, elapsed, clock, first)}
        phases = recorded_phases().table()
        folder.write_report(exit_state="finished", loop_s=elapsed, wall_s=stopwatch(), phases=phases, **speed)
        folder.log(f"step {clock.step}: complete, {elapsed:.1f} s in the time loop")
    return Result(folder.path, folder.report)


class _Callbacks(NamedTuple):
    """Callbacks of a run that its beginning or its end uses. onsets : of the sources."""

    recorders: Sequence[Recorder]
    outputs: OutputWatch
    progress: Progress
    checkpoints: CheckpointManager
    onsets: Onsets


def _make_callbacks(
    context: RunContext, solver: GatheredSolver, checkpoint: Checkpoint | None, show: ProgressCallback | None,
    signals: SignalHandler, stopwatch: Stopwatch, callbacks: list[Callback],
) -> _Callbacks:  # fmt: skip
    """Make the callbacks of a run and add them to `callbacks`, which are closed also if one of them cannot be made."""
    simulation, ranks, folder, schedule = context.simulation, context.ranks, context.folder, context.plan.schedule
    outputs = OutputWatch(WriterThread())
    with phase("receivers"):
        recorders = make_recorders(
            simulation, schedule, solver, folder.path, attributes_of(simulation), checkpoint, outputs.jobs
        )
    callbacks += [*recorders, outputs, *context.users]  # closed in reverse order: the files after the jobs
    onsets = checked_sources(simulation.acquisition, solver.solver, ranks)
    watch = InstabilityWatch(schedule, onsets.sources, crossing_time(simulation), onsets=onsets)
    progress = Progress(folder, context.plan, show if ranks.is_root else None)
    interval = None if simulation.output.checkpoint is None else simulation.output.checkpoint.interval
    requests, device = SignalRequests(signals, ranks), context.backend.own_memory
    checkpoints = CheckpointManager(
        folder, context.identity, interval, recorders, watch, requests, outputs.jobs, device
    )
    watchdog = RankWatchdog(ranks, lambda step, text: folder.fail(step, text, stopwatch()))
    callbacks += [watch, progress, watchdog, checkpoints]
    return _Callbacks(recorders, outputs, progress, checkpoints, onsets)


def _efficiency(context: RunContext, loop_s: float, clock: Clock, first: int) -> Entries:
    """Return the entries of run.json on the efficiency of the loop from step `first` to the end; none on other ranks
    than the first, or without a step."""
    plan, simulation, report = context.plan, context.simulation, context.folder.report
    if not context.ranks.is_root or clock.step == first or loop_s <= 0.0:
        return {}
    outputs = report["outputs_s"] + report["waiting_for_outputs_s"]
    covered = min(clock.time, simulation.duration) - first * clock.time_step
    first_step = recorded_phases().seconds.get(FIRST_STEP, 0.0)
    times = LoopTimes(loop_s, first_step, outputs, clock.step - first, max(covered, 0.0))
    found = load_rate(simulation.solver.method, plan, context.backend)
    rate, origin = found or (None, None)
    more = {} if found is None else {"stored_rate": rate, "stored_rate_origin": origin}
    return loop_efficiency(plan, report["plan"], times, rate, context.ranks.size) | more


class RankWatchdog(Callback):
    """The callback that ends the run if a rank completes no step for a long time; see `Ranks.watch`."""

    def __init__(self, ranks: Ranks, note: Note) -> None:
        self.ranks, self.note = ranks, note

    def start(self, solver: GatheredSolver, clock: Clock) -> None:
        """Start the watchdog."""
        self.ranks.watch(self.note)

    def __call__(self, solver: GatheredSolver, clock: Clock) -> None:
        """Report the step."""
        self.ranks.note_step(clock.step)

    def close(self) -> None:
        """Stop the watchdog."""
        self.ranks.end_watch()


def device_text(facts: Entries) -> str:
    """Return one line of text about the device of a run."""
    versions = ", ".join(f"{name} {value}" for name, value in facts.get("cuda", {}).items() if value)
    more = f"{facts['threads']} threads" if "threads" in facts else versions
    if facts.get("ranks", 1) > 1:
        more += f"; {facts['ranks']} ranks, messages by {facts['transport']}"
    return f"on {facts['device']} ({facts['backend']}), {facts['precision']} precision; {more}"


@contextmanager
def _ending(context: RunContext, clock: Clock, stopwatch: Stopwatch, callbacks: list[Callback]) -> Iterator[None]:
    """Close the callbacks and record the end of the run in run.json, in every case.

    An instability ends all ranks: rank 0 records it, and no rank ends before its files are closed.
    """
    ranks, unstable = context.ranks, False
    try:
        yield
    except InstabilityError as problem:
        unstable = True
        if ranks.is_root:
            _fail(context, clock, stopwatch, str(problem))
        raise
    except MemoryError as problem:
        text = f"there is not enough memory for the arrays of this run ({problem})."
        _fail(context, clock, stopwatch, text)
        raise ResourceError(text) from problem
    except BaseException as problem:
        known = isinstance(problem, LithowaveError)
        text = str(problem) if known else f"{type(problem).__name__}: {problem}".rstrip(": ")
        _fail(context, clock, stopwatch, text)
        raise
    finally:
        with ExitStack() as stack:  # closes all, in reverse order, also if one raises an error
            if unstable:
                stack.callback(ranks.barrier)
            for callback in callbacks:
                stack.callback(callback.close)


def _fail(context: RunContext, clock: Clock, stopwatch: Stopwatch, text: str) -> None:
    """Record a failed run, after the end of its copies, which must not arrive in memory that has been released."""
    with suppress(OutputError):  # if the disk failed, the first error is reported
        context.folder.fail(clock.step, text, stopwatch())
    if context.ranks.size == 1:  # with several ranks, the device may wait for an ended rank
        with suppress(ResourceError):
            context.backend.synchronize()


def _interrupted(
    folder: RunFolder, clock: Clock, signal_name: str, loop_time: Stopwatch, stopwatch: Stopwatch
) -> Result:
    """Record a run that a signal has stopped after a checkpoint."""
    folder.log(f"step {clock.step}: stopped by {signal_name}, checkpoint written")
    folder.write_report(
        exit_state="stopped", stopped_by=signal_name, stopped_at_step=clock.step, loop_s=loop_time(),
        wall_s=stopwatch(),
    )  # fmt: skip
    return Result(folder.path, folder.report, complete=False)


def _report_stop(context: RunContext, clock: Clock) -> None:
    """If a callback has stopped the run, record its class, reason and step in the log and in run.json."""
    name = next((user.name for user in context.users if user.stopped), None)
    if name is None:
        return
    context.folder.log(f"step {clock.step}: stopped by {name}, t = {clock.time:.6g} s: {clock.stop_reason}")
    context.folder.write_report(
        stopped_by=name, stop_reason=clock.stop_reason, stopped_at_step=clock.step, stopped_at_time_s=clock.time
    )


def _write_waveforms(simulation: Simulation, folder: RunFolder) -> None:
    if simulation.output.formats:
        seismograms = load_seismograms(folder.path)
        for name in simulation.output.formats:
            places = seismograms.positions[:, :2].T
            more = {"ground": simulation.domain.surface_height(*places)} if name == "asdf" else {}
            WAVEFORM_WRITERS[name](seismograms, folder.path / name, **more)


def dotted_overrides(simulation: Simulation, overrides: Entries, output: str | Path | None) -> Entries:
    """Return keyword arguments as dotted keys of `compute` or `output`."""
    changes: Entries = {} if output is None else {"output.directory": str(output)}
    for name, value in overrides.items():
        part = "compute" if name in type(simulation.compute).model_fields else "output"
        changes[f"{part}.{name}"] = value
    return changes
