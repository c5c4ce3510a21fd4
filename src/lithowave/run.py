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
from lithowave.errors import InputError, LithowaveError, OutputError, ResourceError
from lithowave.experiment.simulation import Simulation
from lithowave.memory import memory_needed, require_memory
from lithowave.output.attributes import attributes_of
from lithowave.output.checkpoint import State, read_checkpoint, write_checkpoint
from lithowave.output.hdf5 import require_space
from lithowave.output.recorders import Recorder, make_recorders, output_bytes, record_lag
from lithowave.output.run_folder import (
    DESCRIPTION,
    RunFolder,
    Stopwatch,
    fingerprint,
    input_hashes,
    provenance,
)
from lithowave.output.segy import write_segy
from lithowave.output.seismograms import Seismograms, load_seismograms
from lithowave.output.waveforms import check_names, write_miniseed, write_sac
from lithowave.progress import Progress, Show, rate_key
from lithowave.signals import stop_signals
from lithowave.solvers import load_method
from lithowave.solvers.clock import Clock
from lithowave.watch import InstabilityWatch

WAVEFORM_WRITERS = {"miniseed": write_miniseed, "sac": write_sac, "segy": write_segy}
FIRST_PART = "seismograms"
NO_DESCRIPTION = (
    "# The material was a Python function, which a file cannot hold: this run cannot be restarted.\n"
)


@dataclass
class Result:
    """What a run left.

    directory : the run folder. report : content of run.json. complete : False where a signal stopped the run;
    its name is then ``report["stopped_by"]``.
    """

    directory: Path
    report: dict[str, Any]
    complete: bool = True

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
    changes = _sorted_overrides(simulation, overrides, output)
    if changes:
        simulation = simulation.with_overrides(changes)
    description = _description(simulation)
    plan = load_method(simulation.solver.method).plan(simulation)
    check_names(simulation.receiver_list(), simulation.output.formats)
    backend, plan = _on_device(simulation, plan)
    if not overwrite:  # a run that is replaced makes room of its own
        points = [plan.raster_point_count(selection) for selection in simulation.output.snapshots]
        require_space(Path(simulation.output.directory), output_bytes(simulation, plan.schedule, points))
    with RunFolder.create(Path(simulation.output.directory), description, overwrite) as folder:
        folder.write_report(**provenance(simulation.input_files()), plan=plan.summary(), exit_state="running")
        for text in simulation.warnings():
            folder.log(f"warning: {text}")
        return _execute(simulation, plan, backend, folder, fingerprint(description), None, show)


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
    path = Path(directory)
    with RunFolder.reopen(path) as folder:
        description = (path / DESCRIPTION).read_text(encoding="utf-8")
        if description == NO_DESCRIPTION:
            raise InputError(
                str(path), "the material of this run was a Python function", "No file holds it", "run it anew"
            )
        simulation = Simulation.from_file(path / DESCRIPTION, {"output.directory": str(path)})
        changes = {"compute.backend": backend, "compute.threads": threads}
        simulation = simulation.with_overrides({key: value for key, value in changes.items() if value is not None})
        _require_same_inputs(path, simulation, folder.report.get("inputs", {}))
        plan = load_method(simulation.solver.method).plan(simulation)
        device, plan = _on_device(simulation, plan, folder.report.get("plan", {}).get("passes"))
        state = read_checkpoint(path, fingerprint(description))
        folder.begin_again(int(state["clock"]["step"]) if state else 0)
        return _execute(simulation, plan, device, folder, fingerprint(description), state, show)


def _on_device(simulation: Simulation, plan: Any, before: str | None = None) -> tuple[Any, Any]:
    """The device, and the plan on it, if the run fits into its memory."""
    compute = simulation.compute
    backend = make_backend(compute.backend, compute.precision, compute.threads)
    plan = plan.on(backend, simulation, before)
    require_memory(memory_needed(simulation, plan, backend), backend, plan.less_memory)
    return backend, plan


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


def _execute(
    simulation: Simulation,
    plan: Any,
    backend: Any,
    folder: RunFolder,
    identity: str,
    state: State | None,
    show: Show | None,
) -> Result:
    """The way of the data: solver arrays, time loop, run folder."""
    stopwatch = Stopwatch()
    schedule, recorders = plan.schedule, []
    lag = record_lag(simulation.output.quantity, simulation.output.tensors)
    clock = Clock(schedule.time_step, schedule.steps + lag)
    with _ending(folder, clock, stopwatch, recorders), stop_signals() as signals:
        folder.write_report(**backend.facts())
        folder.log(device_text(folder.report))
        solver = load_method(simulation.solver.method).Solver(plan, simulation, backend)
        recorders += make_recorders(
            simulation, schedule, solver, folder.path, attributes_of(simulation), state
        )
        watch = InstabilityWatch(schedule, simulation.point_sources())
        keeper = CheckpointKeeper(simulation, folder, identity, recorders, watch)
        if state is not None:
            keeper.restore(solver, clock, state)
        watch.inspect(solver, clock)
        folder.write_report(setup_s=stopwatch(), **solver.facts())
        folder.log(f"step {clock.step} of {clock.steps}: begin; {plan.unit_total} {plan.unit}")
        loop_time = Stopwatch()
        progress = Progress(folder, clock, plan, show)
        progress.update(clock)
        take_first(recorders, solver, clock)
        while not clock.finished:
            solver.advance(clock.step)
            clock.tick()
            for recorder in recorders:
                if recorder.due(clock):
                    recorder.write(solver, clock)
            watch.check(solver, clock)
            progress.update(clock)
            if keeper.due(clock) or signals.pending:
                signals.pending = False
                keeper.write(solver, clock)
                if signals.stopped_by and not clock.finished:
                    return _stopped(folder, clock, signals.stopped_by, loop_time, stopwatch)
        elapsed, rate = loop_time(), progress.rate(clock)
        for recorder in recorders:
            recorder.finish(solver)
        _write_waveforms(simulation, folder)
        speed = {"unit": plan.unit, rate_key(plan.unit): rate}
        folder.write_report(exit_state="finished", loop_s=elapsed, wall_s=stopwatch(), **speed)
        folder.log(f"step {clock.step}: complete, {elapsed:.1f} s in the time loop")
    return Result(folder.path, folder.report)


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
    return f"on {facts['device']} ({facts['backend']}), {facts['precision']} precision; {more}"


@dataclass
class CheckpointKeeper:
    """Writes checkpoints when they are due, and brings one back."""

    simulation: Simulation
    folder: RunFolder
    identity: str
    recorders: list[Recorder]
    watch: InstabilityWatch
    every: int = field(init=False)

    def __post_init__(self) -> None:
        wanted = self.simulation.output.checkpoint
        step = self.watch.schedule.time_step
        self.every = max(1, round(wanted.interval / step)) if wanted else 0

    def due(self, clock: Clock) -> bool:
        """Every so many steps, but not at the end, when nothing is left to lose."""
        return self.every > 0 and clock.step % self.every == 0 and not clock.finished

    def write(self, solver: Any, clock: Clock) -> None:
        """Flush the recorders, so that their files hold what the checkpoint counts on, and write the state.

        Fields that have gone wrong are not kept: the watch looks at them first.
        """
        self.watch.inspect(solver, clock)
        state: State = {
            "clock": {
                "step": np.array(clock.step),
                "time": np.array(clock.time),
                "largest": np.array(self.watch.largest),
            },
            "solver": solver.state(),
        }
        for number, recorder in enumerate(self.recorders):
            recorder.flush(solver)
            recorder.sync()
            state[_part(number)] = recorder.state()
        write_checkpoint(self.folder.path, state, self.identity)
        self.folder.log(f"step {clock.step}: checkpoint")

    def restore(self, solver: Any, clock: Clock, state: State) -> None:
        """Bring the parts back to where the checkpoint was written."""
        clock.step = int(state["clock"]["step"])
        self.watch.largest = float(state["clock"]["largest"])
        solver.restore(state["solver"])
        for number, recorder in enumerate(self.recorders):
            recorder.restore(state.get(_part(number), {}), clock)


def _part(number: int) -> str:
    return FIRST_PART if number == 0 else f"recorder{number}"


@contextmanager
def _ending(
    folder: RunFolder, clock: Clock, stopwatch: Stopwatch, recorders: list[Recorder]
) -> Iterator[None]:
    """Close the files and tell run.json how it ended, whatever happens."""
    try:
        yield
    except BaseException as problem:
        error = problem
        if isinstance(problem, MemoryError):
            error = ResourceError(f"there is not enough memory for the arrays of this run ({problem}).")
        what = (
            str(error)
            if isinstance(error, LithowaveError)
            else f"{type(error).__name__}: {error}".rstrip(": ")
        )
        with suppress(OutputError):  # the disk may be what failed; the first error is the one to tell
            folder.log(f"step {clock.step}: failed: {what}")
            folder.write_report(
                exit_state="failed", error=what, failed_at_step=clock.step, wall_s=stopwatch()
            )
        if error is problem:
            raise
        raise error from problem
    finally:
        folder.end_progress()
        for recorder in recorders:
            recorder.close()


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


def _description(simulation: Simulation) -> str:
    """The resolved description; for a material given as a Python function, a note in its place."""
    return NO_DESCRIPTION if simulation.material.kind == "function" else simulation.to_yaml()


def _sorted_overrides(
    simulation: Simulation, overrides: dict[str, Any], output: str | Path | None
) -> dict[str, Any]:
    """Keywords as dotted keys of `compute` or `output`."""
    sorted_keys: dict[str, Any] = {} if output is None else {"output.directory": str(output)}
    for name, value in overrides.items():
        part = "compute" if name in type(simulation.compute).model_fields else "output"
        sorted_keys[f"{part}.{name}"] = value
    return sorted_keys
