"""From a description to a run folder: builds the parts, owns the time loop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from lithowave.backends import make_backend
from lithowave.description.simulation import Simulation
from lithowave.description.writing import recorded_yaml
from lithowave.errors import InputError, LithowaveError, OutputError, ResourceError, issue_warning
from lithowave.output.attributes import attributes_of
from lithowave.output.checkpoint import Checkpoint, State, open_checkpoint, write_checkpoint
from lithowave.output.hdf5 import require_space
from lithowave.output.recorders import NOTHING, Recorder, make_recorders, output_bytes, record_lag
from lithowave.output.run_folder import (
    DESCRIPTION,
    FollowingFolder,
    RunFolder,
    Stopwatch,
    fingerprint,
    input_hashes,
    provenance,
)
from lithowave.output.segy import write_segy
from lithowave.output.seismograms import Seismograms, load_seismograms
from lithowave.output.waveforms import check_names, require_packages, write_miniseed, write_sac
from lithowave.parallel.collective import agreed
from lithowave.parallel.halo import Halo, device_of, require_own_device, sharers_of_cores
from lithowave.parallel.ranks import Ranks, make_ranks
from lithowave.run.instability import InstabilityWatch
from lithowave.run.memory import memory_needed, require_memory
from lithowave.run.onsets import Onsets, explain_zero_seismograms
from lithowave.run.progress import Progress, Show, rate_key
from lithowave.run.stop_signals import Wishes, stop_signals
from lithowave.solvers import load_method
from lithowave.solvers.clock import Clock
from lithowave.solvers.gathered import GatheredSolver
from lithowave.solvers.placement import check_placement

WAVEFORM_WRITERS = {"miniseed": write_miniseed, "sac": write_sac, "segy": write_segy}
FIRST_PART = "seismograms"


@dataclass
class Result:
    """What a run left.

    directory : the run folder. report : content of run.json. complete : False where a signal stopped the run;
    its name is then ``report["stopped_by"]``.
    """

    directory: Path
    report: dict[str, Any]
    complete: bool = True

    @property
    def warnings(self) -> list[str]:
        """Warnings about the accuracy of the run, as they are in run.json."""
        return self.report.get("warnings", [])

    @cached_property
    def seismograms(self) -> Seismograms:
        """The seismograms of the run."""
        return load_seismograms(self.directory)


def run_simulation(
    simulation: Simulation,
    output: str | Path | None = None,
    *,
    overwrite: bool = False,
    show: Show | None = None,
    **overrides: Any,
) -> Result:
    """Run a simulation from the beginning.

    Parameters
    ----------
    simulation : the description.
    output : the run folder; overrides ``output.directory``.
    overwrite : replace another run in that folder.
    show : called a few times a second with a dictionary: unit (points or elements), step, steps, time_s, end_s,
    elapsed_s, remaining_s, points and rate_points_per_s (or elements, rate_elements_per_s); first when the time loop
    begins.
    overrides : keys of ``compute`` and ``output`` by name (``backend="cpu"``, ``precision="double"``).

    Raises
    ------
    InputError, ResourceError : before any work. InstabilityError, OutputError : in the run; what was written
    stays.
    """
    if simulation.survey is not None:
        raise InputError(
            "survey", "the description has many shots", "A run is of one",
            "simulation.run() makes all of them, simulation.shot(n).run() one",
        )  # fmt: skip
    changes = _sorted_overrides(simulation, overrides, output)
    if changes:
        simulation = simulation.with_overrides(changes)
    description, ranks = recorded_yaml(simulation), make_ranks()
    path = Path(simulation.output.directory)
    plan = load_method(simulation.solver.method).plan(simulation, ranks)
    check_names(simulation.acquisition.receivers, simulation.output.formats)
    backend, plan = _on_device(simulation, plan, ranks)
    if ranks.is_root and not overwrite:  # a run that is replaced makes room of its own
        points = [plan.raster_point_count(selection) for selection in simulation.output.snapshots]
        require_space(path, output_bytes(simulation, plan.schedule, points))
    summary = plan.summary()
    with RunFolder.create(path, description, overwrite) if ranks.is_root else FollowingFolder(path, ranks) as folder:
        ranks.barrier()  # the folder is there
        restartable = simulation.material.function is None
        inputs = simulation.input_files()
        folder.write_report(**provenance(inputs), plan=summary, restartable=restartable, exit_state="running")
        _report_warnings(simulation, plan, ranks, folder)
        parts = Parts(simulation, plan, ranks, backend, folder, fingerprint(description))
        return _execute(parts, None, show)


def restart_run(
    directory: str | Path, *, show: Show | None = None, backend: str | None = None, threads: int | None = None
) -> Result:
    """Go on with a run that was stopped, from its last checkpoint; without one, from the beginning.

    On the device on which it began the result is, bit for bit, that of a run that was never stopped (spectral elements
    on a GPU: with ``compute.deterministic``); on another one it agrees to rounding.

    Parameters
    ----------
    directory : the run folder. show : see `run_simulation`. backend, threads : in place of those in the description.

    Raises
    ------
    InputError : when the folder holds no run, its run is complete or still goes on, or files that it reads
    have changed. OutputError : when its files are damaged or do not belong together. ResourceError : when the
    device cannot take the run.
    """
    path, ranks = Path(directory), make_ranks()
    with RunFolder.reopen(path) if ranks.is_root else FollowingFolder(path, ranks) as folder:
        folder.report = ranks.broadcast(folder.report)
        description = (path / DESCRIPTION).read_text(encoding="utf-8")
        if not folder.report.get("restartable", True):
            raise InputError(
                str(path), "the material of this run was a Python function", "A file cannot hold it", "run it again"
            )
        simulation = Simulation.from_file(path / DESCRIPTION, {"output.directory": str(path)})
        changes = {"compute.backend": backend, "compute.threads": threads}
        simulation = simulation.with_overrides({key: value for key, value in changes.items() if value is not None})
        _require_same_inputs(path, simulation, folder.report.get("inputs", {}))
        require_packages(simulation.output.formats, replaceable=False)
        plan = load_method(simulation.solver.method).plan(simulation, ranks)
        device, plan = _on_device(simulation, plan, ranks, folder.report.get("plan", {}).get("passes"))
        checkpoint = open_checkpoint(path, fingerprint(description))
        folder.begin_again(checkpoint.step if checkpoint else 0)
        _report_warnings(simulation, plan, ranks, folder)
        return _execute(Parts(simulation, plan, ranks, device, folder, fingerprint(description)), checkpoint, show)


@dataclass(frozen=True)
class Parts:
    """What a run is made of. identity : of the description, for checkpoints."""

    simulation: Simulation
    plan: Any
    ranks: Ranks
    backend: Any
    folder: RunFolder
    identity: str


def _on_device(simulation: Simulation, plan: Any, ranks: Ranks, before: str | None = None) -> tuple[Any, Any]:
    """The device of this rank, and the plan on it, if the run fits into its memory."""
    compute = simulation.compute
    backend = make_backend(
        compute.backend, compute.precision, compute.threads, lambda count: device_of(ranks, count),
        sharers_of_cores(ranks),
    )  # fmt: skip
    names = ranks.all_gather(backend.name)
    if len(set(names)) > 1:
        raise ResourceError(
            f"some ranks have a CUDA device ({names.count('cuda')}), others none ({names.count('cpu')}): say "
            "compute.backend: cpu, or cuda to learn what is missing."
        )
    require_own_device(ranks, backend)
    plan = plan.on(backend, simulation, before)
    require_memory(memory_needed(simulation, plan, backend), backend, plan.less_memory, ranks)
    return backend, plan


def _report_warnings(simulation: Simulation, plan: Any, ranks: Ranks, folder: RunFolder) -> None:
    """Issue all warnings of a run, and write them to its log and to run.json."""
    texts = [*simulation.warnings(), *plan.warnings(simulation)]
    folder.write_report(warnings=texts)
    for text in texts if ranks.is_root else ():
        folder.log(f"warning: {text}")
        issue_warning(text)


def _require_same_inputs(path: Path, simulation: Simulation, before: dict[str, str]) -> None:
    """Refuse to go on with other input files than those the run began with."""
    for name, digest in input_hashes(simulation.input_files()).items():
        if digest != before.get(name, digest):
            raise InputError(
                str(path),
                f"the input file {name} has changed since this run began",
                "A run goes on only with the files that it began with",
                "bring the file back, or run the simulation anew",
            )


def _execute(parts: Parts, checkpoint: Checkpoint | None, show: Show | None) -> Result:
    """The way of the data: solver arrays, time loop, run folder."""
    stopwatch = Stopwatch()
    simulation, plan, ranks, backend, folder = parts.simulation, parts.plan, parts.ranks, parts.backend, parts.folder
    schedule, recorders = plan.schedule, []
    lag = record_lag(simulation.output.quantity, simulation.output.tensors)
    clock = Clock(schedule.time_step, schedule.steps + lag)
    with _ending(parts, clock, stopwatch, recorders), stop_signals() as signals:
        with Halo(ranks, backend, simulation.compute.transport, simulation.compute.overlap) as halo:
            folder.write_report(**backend.facts(), **halo.facts())
            folder.log(device_text(folder.report))
            own = load_method(simulation.solver.method).Solver(plan, simulation, backend, halo)
            solver = GatheredSolver(own, ranks, len(simulation.acquisition.receivers))
            recorders += make_recorders(
                simulation, schedule, solver, folder.path, attributes_of(simulation), checkpoint
            )
            onsets = checked_sources(simulation, own, ranks)
            watch = InstabilityWatch(schedule, onsets.sources, onsets=onsets)
            keeper = CheckpointKeeper(parts, recorders, watch, own)
            if checkpoint is not None:
                keeper.restore(clock, checkpoint)
            watch.inspect(solver, clock)
            folder.write_report(setup_s=stopwatch(), **own.facts())
            folder.log(f"step {clock.step} of {clock.steps}: begin; {plan.unit_total} {plan.unit}")
            loop_time = Stopwatch()
            progress = Progress(folder, clock, plan, show if ranks.is_root else None)
            progress.update(clock)
            wishes = Wishes(signals, ranks)
            ranks.watch(simulation.compute.patience, lambda step, text: folder.fail(step, text, stopwatch()))
            take_first(recorders, solver, clock)
            while not clock.finished:
                own.advance(clock.step)
                clock.tick()
                for recorder in recorders:
                    if recorder.due(clock):
                        recorder.write(solver, clock)
                watch.check(solver, clock)
                progress.update(clock)
                ranks.note_step(clock.step)
                if keeper.due(clock) or wishes.pending(clock):
                    keeper.write(solver, clock)
                    if wishes.stopped_by and not clock.finished:
                        return _stopped(folder, clock, wishes.stopped_by, loop_time, stopwatch)
            for recorder in recorders:
                recorder.finish(solver)
                for text in recorder.remarks:
                    folder.log(text)
            backend.synchronize()
            elapsed, rate = loop_time(), progress.rate(clock)
            check_seismograms(parts, recorders[0], onsets)
        if ranks.is_root:
            _write_waveforms(simulation, folder)
        speed = {"unit": plan.unit, rate_key(plan.unit): rate}
        folder.write_report(exit_state="finished", loop_s=elapsed, wall_s=stopwatch(), **speed)
        folder.log(f"step {clock.step}: complete, {elapsed:.1f} s in the time loop")
    ranks.barrier()
    return Result(folder.path, folder.report)


def checked_sources(simulation: Simulation, solver: Any, ranks: Ranks) -> Onsets:
    """Compare the sources and receivers of the solvers of all ranks with the description; return when sources act.

    Raises
    ------
    SelfCheckError : a receiver or source is missing, or is represented more than once.
    """
    sources, receivers = simulation.acquisition.sources, simulation.acquisition.receivers
    placement = solver.placement(sources, receivers).summed(ranks)
    check_placement(placement, sources, receivers)
    schedule = solver.plan.schedule
    return Onsets(sources, placement.totals, placement.acts, schedule.time_step, schedule.steps)


def check_seismograms(parts: Parts, recorder: Any, onsets: Onsets) -> None:
    """Warn if all seismograms are zero.

    Raises
    ------
    SelfCheckError : they are, and a wave must have reached a receiver.
    """
    simulation, ranks = parts.simulation, parts.ranks

    def explained() -> str:
        if not ranks.is_root or recorder.moved or not simulation.receivers:
            return ""
        if (np.abs(load_seismograms(parts.folder.path).data) > NOTHING).any():  # before a restart
            return ""
        return explain_zero_seismograms(onsets, simulation, parts.plan.summary()["faces"])

    text = ranks.broadcast(agreed(ranks, explained))
    if text:
        parts.folder.write_report(warnings=[*parts.folder.report.get("warnings", []), text])
        if ranks.is_root:
            parts.folder.log(f"warning: {text}")
            issue_warning(text)


def take_first(recorders: list[Recorder], solver: Any, clock: Clock) -> None:
    """Snapshots of time 0: the seismograms have their first sample already."""
    if clock.step == 0:
        for recorder in recorders[1:]:
            if recorder.due(clock):
                recorder.write(solver, clock)


def device_text(facts: dict[str, Any]) -> str:
    """A line about the device of a run."""
    versions = ", ".join(f"{name} {value}" for name, value in facts.get("cuda", {}).items() if value)
    more = f"{facts['threads']} threads" if "threads" in facts else versions
    if facts.get("ranks", 1) > 1:
        more += f"; {facts['ranks']} ranks, messages by {facts['transport']}"
    return f"on {facts['device']} ({facts['backend']}), {facts['precision']} precision; {more}"


@dataclass
class CheckpointKeeper:
    """Writes checkpoints when they are due, and brings one back. solver : that of this rank."""

    parts: Parts
    recorders: list[Recorder]
    watch: InstabilityWatch
    solver: Any
    every: int = field(init=False)

    def __post_init__(self) -> None:
        wanted = self.parts.simulation.output.checkpoint
        step = self.watch.schedule.time_step
        self.every = max(1, round(wanted.interval / step)) if wanted else 0

    def due(self, clock: Clock) -> bool:
        """Every so many steps, but not at the end, when nothing is left to lose."""
        return self.every > 0 and clock.step % self.every == 0 and not clock.finished

    def write(self, solver: GatheredSolver, clock: Clock) -> None:
        """Flush the recorders, so that their files hold what the checkpoint counts on, and write the state.

        Fields that have gone wrong are not kept: the watch looks at them first.
        """
        self.watch.inspect(solver, clock)
        common: State = {
            "clock": {
                "step": np.array(clock.step),
                "time": np.array(clock.time),
                "largest": np.array(self.watch.largest),
            },
        }
        for number, recorder in enumerate(self.recorders):
            recorder.flush(solver)
            recorder.sync()
            common[_part(number)] = recorder.state()
        write_checkpoint(self.parts.folder.path, common, self.solver.state(), self.parts.identity, self.parts.ranks)
        self.parts.folder.log(f"step {clock.step}: checkpoint")

    def restore(self, clock: Clock, checkpoint: Checkpoint) -> None:
        """Bring the parts back to where the checkpoint was written."""
        clock.step = checkpoint.step
        self.watch.largest = float(checkpoint.common["clock"]["largest"])
        self.solver.restore(checkpoint.pieces(self.solver.state_places()))
        for number, recorder in enumerate(self.recorders):
            recorder.restore(checkpoint.common.get(_part(number), {}), clock)


def _part(number: int) -> str:
    return FIRST_PART if number == 0 else f"recorder{number}"


@contextmanager
def _ending(parts: Parts, clock: Clock, stopwatch: Stopwatch, recorders: list[Recorder]) -> Iterator[None]:
    """Close the files and tell run.json how it ended, whatever happens."""
    try:
        yield
    except MemoryError as problem:
        text = f"there is not enough memory for the arrays of this run ({problem})."
        _fail(parts, clock, stopwatch, text)
        raise ResourceError(text) from problem
    except BaseException as problem:
        known = isinstance(problem, LithowaveError)
        _fail(parts, clock, stopwatch, str(problem) if known else f"{type(problem).__name__}: {problem}".rstrip(": "))
        raise
    finally:
        parts.ranks.end_watch()
        parts.folder.end_progress()
        for recorder in recorders:
            recorder.close()


def _fail(parts: Parts, clock: Clock, stopwatch: Stopwatch, text: str) -> None:
    """Record the end of a run that failed, after its last copies: a copy must not arrive in memory that is freed."""
    with suppress(OutputError):  # the disk may be what failed; the first error is the one to tell
        parts.folder.fail(clock.step, text, stopwatch())
    if parts.ranks.size == 1:  # otherwise the device may wait for a rank that has ended
        with suppress(ResourceError):
            parts.backend.synchronize()


def _stopped(
    folder: RunFolder, clock: Clock, signal_name: str, loop_time: Stopwatch, stopwatch: Stopwatch
) -> Result:
    folder.log(f"step {clock.step}: stopped by {signal_name}, checkpoint written")
    folder.write_report(
        exit_state="stopped",
        stopped_by=signal_name,
        stopped_at_step=clock.step,
        loop_s=loop_time(),
        wall_s=stopwatch(),
    )
    return Result(folder.path, folder.report, complete=False)


def _write_waveforms(simulation: Simulation, folder: RunFolder) -> None:
    if simulation.output.formats:
        seismograms = load_seismograms(folder.path)
        for name in simulation.output.formats:
            WAVEFORM_WRITERS[name](seismograms, folder.path / name)


def _sorted_overrides(
    simulation: Simulation, overrides: dict[str, Any], output: str | Path | None
) -> dict[str, Any]:
    """Keywords as dotted keys of `compute` or `output`."""
    sorted_keys: dict[str, Any] = {} if output is None else {"output.directory": str(output)}
    for name, value in overrides.items():
        part = "compute" if name in type(simulation.compute).model_fields else "output"
        sorted_keys[f"{part}.{name}"] = value
    return sorted_keys
