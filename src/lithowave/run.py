"""From a description to a run folder: builds the parts, owns the time loop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from lithowave.backends import make_backend
from lithowave.errors import LithowaveError, OutputError, ResourceError
from lithowave.experiment.simulation import Simulation
from lithowave.output.attributes import attributes_of
from lithowave.output.checkpoint import State, read_checkpoint, write_checkpoint
from lithowave.output.recorders import Recorder, make_recorders, record_lag
from lithowave.output.run_folder import DESCRIPTION, RunFolder, Stopwatch, fingerprint, provenance, read_report
from lithowave.output.seismograms import Seismograms, load_seismograms
from lithowave.output.waveforms import check_names, write_miniseed, write_sac
from lithowave.progress import Progress
from lithowave.solvers import load_method
from lithowave.solvers.clock import Clock
from lithowave.watch import InstabilityWatch

WAVEFORM_WRITERS = {"miniseed": write_miniseed, "sac": write_sac}
RECORDER_NAMES = "seismograms"


@dataclass
class Result:
    """What a run left.

    directory : the run folder. report : content of run.json. complete : False where a signal stopped the run.
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
    show: Callable[[dict[str, Any]], None] | None = None,
    **overrides: Any,
) -> Result:
    """Run a simulation from the beginning.

    Parameters
    ----------
    simulation : the description.
    output : the run folder; overrides ``output.directory``.
    overwrite : replace another run in that folder.
    show : called with a dictionary about once a second: step, steps, time_s, rate_points_per_s, remaining_s, ...
    overrides : keys of ``compute`` and ``output`` by name (``backend="cpu"``, ``precision="double"``).

    Raises
    ------
    InputError, ResourceError : before any work. InstabilityError, OutputError : in the run; what was written stays.
    """
    simulation = simulation.with_overrides(_sorted_overrides(simulation, overrides, output))
    description = _description(simulation)
    plan = load_method(simulation.solver.method).plan(simulation)
    check_names(simulation.receiver_list(), simulation.output.formats)
    folder = RunFolder.create(Path(simulation.output.directory), description, overwrite)
    folder.write_report(**provenance(simulation.input_files()), plan=plan.summary(), exit_state="running")
    return _execute(simulation, plan, folder, fingerprint(description), None, show)


def restart_run(
    directory: str | Path, *, show: Callable[[dict[str, Any]], None] | None = None, threads: int | None = None
) -> Result:
    """Go on with a run that was stopped, from its last checkpoint; without one, from the beginning.

    The result is, bit for bit, that of a run that was never stopped.

    Raises
    ------
    OutputError : when the folder holds no run, its run is complete, or its files do not belong together.
    """
    path = Path(directory)
    report = read_report(path)
    if report.get("exit_state") == "finished":
        raise OutputError(f"{path}: this run is complete; there is nothing to restart.")
    description = (path / DESCRIPTION).read_text(encoding="utf-8")
    simulation = Simulation.from_file(path / DESCRIPTION, {"output.directory": str(path)})
    if threads is not None:
        simulation = simulation.with_overrides({"compute.threads": threads})
    plan = load_method(simulation.solver.method).plan(simulation)
    folder = RunFolder(path)
    folder.report = report
    state = read_checkpoint(path, fingerprint(description))
    begun = [*report.get("restarts", []), {"step": int(state["clock"]["step"]) if state else 0}]
    folder.write_report(restarts=begun, exit_state="running")
    return _execute(simulation, plan, folder, fingerprint(description), state, show)


def _execute(
    simulation: Simulation,
    plan: Any,
    folder: RunFolder,
    identity: str,
    state: State | None,
    show: Callable[[dict[str, Any]], None] | None,
) -> Result:
    """The way of the data: solver arrays, time loop, run folder."""
    stopwatch = Stopwatch()
    compute = simulation.compute
    backend = make_backend(compute.backend, compute.precision, compute.threads)
    require_memory(plan.memory_bytes(), backend.free_memory())
    solver = load_method(simulation.solver.method).Solver(plan, simulation, backend)
    schedule, attributes = plan.schedule, attributes_of(simulation)
    lag = record_lag(simulation.output.quantity, simulation.output.stress or simulation.output.pressure)
    clock = Clock(schedule.time_step, schedule.steps + lag)
    recorders = make_recorders(simulation, schedule, solver, folder.path, attributes, state)
    watch = InstabilityWatch(schedule, simulation.point_sources())
    keeper = CheckpointKeeper(simulation, folder, identity, recorders, watch)
    if state is not None:
        keeper.restore(solver, clock, state)
    progress = Progress(folder, clock, plan.point_count, show)
    folder.write_report(
        backend=backend.name, threads=backend.threads, setup_s=stopwatch(), precision=compute.precision
    )
    folder.log(f"step {clock.step} of {clock.steps}: begin; {plan.point_count} points")
    with _ending(folder, clock, stopwatch, recorders), stop_signals() as signals:
        take_first(recorders, solver, clock)
        loop_time = Stopwatch()
        first_step = clock.step
        while not clock.finished:
            solver.advance(clock.step)
            clock.tick()
            for recorder in recorders:
                if recorder.due(clock):
                    recorder.write(solver, clock)
            watch.check(solver, clock)
            progress.update(clock)
            if keeper.due(clock) or signals.pending:
                keeper.write(solver, clock)
                if signals.take() == "stop" and not clock.finished:
                    return _stopped(folder, clock, loop_time, stopwatch)
        elapsed = loop_time()
        for recorder in recorders:
            recorder.finish(solver)
    _write_waveforms(simulation, folder)
    rate = plan.point_count * (clock.step - first_step) / elapsed if clock.step > first_step else None
    folder.write_report(exit_state="finished", loop_s=elapsed, wall_s=stopwatch(), rate_points_per_s=rate)
    folder.log(f"step {clock.step}: complete, {elapsed:.1f} s in the time loop")
    folder.end_progress()
    return Result(folder.path, folder.report)


def take_first(recorders: list[Recorder], solver: Any, clock: Clock) -> None:
    """Snapshots of time 0: the seismograms have their first sample already."""
    if clock.step == 0:
        for recorder in recorders[1:]:
            if recorder.due(clock):
                recorder.write(solver, clock)


def require_memory(needed: int, free: int) -> None:
    """Refuse a run that does not fit, with figures."""
    if needed > free:
        raise ResourceError(
            f"the run needs {needed / 1e9:.2f} GB of memory for its arrays; {free / 1e9:.2f} GB are free. A coarser grid "
            "(solver.max_frequency, points_per_wavelength), a smaller domain, or single precision needs less."
        )


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
        """Flush the recorders, so that their files hold what the checkpoint counts on, and write the state."""
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
    return RECORDER_NAMES if number == 0 else f"recorder{number}"


@contextmanager
def _ending(
    folder: RunFolder, clock: Clock, stopwatch: Stopwatch, recorders: list[Recorder]
) -> Iterator[None]:
    """Close the files and tell run.json how it ended, whatever happens."""
    try:
        yield
    except BaseException as error:
        what = str(error) if isinstance(error, LithowaveError) else f"{type(error).__name__}: {error}"
        try:
            folder.log(f"step {clock.step}: failed: {what}")
            folder.write_report(exit_state="failed", error=what, failed_at_step=clock.step, wall_s=stopwatch())
            folder.end_progress()
        except OutputError:
            pass  # the disk may be what failed; the first error is the one to tell
        raise
    finally:
        for recorder in recorders:
            recorder.close()


def _stopped(folder: RunFolder, clock: Clock, loop_time: Stopwatch, stopwatch: Stopwatch) -> Result:
    folder.log(f"step {clock.step}: stopped by a signal, checkpoint written")
    folder.write_report(exit_state="stopped", stopped_at_step=clock.step, loop_s=loop_time(), wall_s=stopwatch())
    folder.end_progress()
    return Result(folder.path, folder.report, complete=False)


def _write_waveforms(simulation: Simulation, folder: RunFolder) -> None:
    if simulation.output.formats:
        seismograms = load_seismograms(folder.path)
        for name in simulation.output.formats:
            WAVEFORM_WRITERS[name](seismograms, folder.path / name)


class StopSignals:
    """SIGTERM and SIGINT ask for a checkpoint and the end; SIGUSR1 for a checkpoint only."""

    def __init__(self) -> None:
        self.pending: str | None = None

    def receive(self, number: int, _frame: Any) -> None:
        """Note the wish; the loop fulfils it after the step."""
        self.pending = "checkpoint" if number == signal.SIGUSR1 and self.pending != "stop" else "stop"

    def take(self) -> str | None:
        """The wish, which is then forgotten."""
        wish, self.pending = self.pending, None
        return wish


@contextmanager
def stop_signals() -> Iterator[StopSignals]:
    """Listen to the signals while the loop runs; only the main thread can."""
    signals = StopSignals()
    if threading.current_thread() is not threading.main_thread():
        yield signals
        return
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
    before = {number: signal.signal(number, signals.receive) for number in numbers}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _description(simulation: Simulation) -> str:
    """The resolved description; for a material given as a Python function, a note in its place."""
    if simulation.material.kind != "function":
        return simulation.to_yaml()
    return "# The material was a Python function, which a file cannot hold: this run cannot be restarted.\n"


def _sorted_overrides(
    simulation: Simulation, overrides: dict[str, Any], output: str | Path | None
) -> dict[str, Any]:
    """Keywords as dotted keys of `compute` or `output`."""
    sorted_keys: dict[str, Any] = {} if output is None else {"output.directory": str(output)}
    for name, value in overrides.items():
        part = "compute" if name in type(simulation.compute).model_fields else "output"
        sorted_keys[f"{part}.{name}"] = value
    return sorted_keys
