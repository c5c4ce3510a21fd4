"""The time loop, one for all methods and devices: advance, tick, callbacks.

Its callbacks: those of the user, which can stop a run on all ranks at the same step; the output watch, which ends a run
at once if an output job fails, and measures the share of outputs in the time loop; the instability watch, which ends a
run whose motion grows without a source, and reports where, when and why; and checkpoints, which are written at
intervals and on signals, and restored when a run is resumed.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from lithowave.description.domain import Domain
from lithowave.description.simulation import Simulation
from lithowave.description.sources import PointSource
from lithowave.errors import InputError, InstabilityError, SelfCheckError
from lithowave.output.checkpoint import Checkpoint, CheckpointWriter, State, remove_previous
from lithowave.output.recorders import NOTHING, OUTPUTS, WAITING, ImmediateJobs, Recorder, WriterThread
from lithowave.output.run_folder import RunFolder
from lithowave.parallel.ranks import Ranks
from lithowave.process import phase, recorded_phases
from lithowave.run.signals import SignalRequests
from lithowave.solvers.interface import Clock, GatheredSolver, Schedule

if TYPE_CHECKING:
    from lithowave.json_types import Entries


@runtime_checkable
class Callback(Protocol):
    """Work done by the time loop between steps; derive a class from this one and define ``__call__``.

    After each step the loop calls each callback that is due, in list order. Recorders, the instability watch,
    checkpoints and progress are callbacks; callbacks of the user are called after the recorders of the same step and
    before the others.

    A callback reads the solution from `solver` (:class:`lithowave.solvers.interface.GatheredSolver`):
    ``receiver_velocities()``, ``plane(axis, coordinate, field)``, ``largest_velocity()`` and ``acquisition``; and the
    time from `clock`: ``step``, ``steps``, ``time`` and ``time_step``. It stops the run with ``clock.stop(reason)``:
    the run is then complete at this step, and its files contain the samples up to this time.

    With several ranks, each rank has its own instance. `due` must return the same on all ranks, and all ranks must call
    the same methods of `solver` in the same order, since these exchange messages; their results are the same on all
    ranks. A run stops if any of its ranks calls ``clock.stop``.

    Checkpoints do not contain the state of callbacks: a restarted run creates them again and calls `start` at the step
    of the checkpoint.
    """

    def due(self, clock: Clock) -> bool:
        """True if the loop calls the callback after this step (default: after every step)."""
        return True

    @abstractmethod
    def __call__(self, solver: GatheredSolver, clock: Clock) -> None:
        """Do the work after a step."""

    def start(self, solver: GatheredSolver, clock: Clock) -> None:
        """Prepare, once before the first step of the loop."""

    def finish(self, solver: GatheredSolver, clock: Clock) -> None:
        """Finish, once after the last step; not called if the run fails or a signal stops it."""

    def close(self) -> None:
        """Release resources such as files, at the end of any run."""


class UserCallback:
    """A user's callback that stops the run on all ranks at the same step.

    stopped : True if this callback has stopped the run.
    """

    def __init__(self, callback: Callback, ranks: Ranks) -> None:
        self.callback, self.ranks = callback, ranks
        self.name = type(callback).__name__
        self.stopped = False

    def due(self, clock: Clock) -> bool:
        """See `Callback`; False after another callback has stopped the run."""
        return clock.stop_reason is None and self.callback.due(clock)

    def __call__(self, solver: GatheredSolver, clock: Clock) -> None:
        """Call the callback, and agree with the other ranks on whether the run ends."""
        self.callback(solver, clock)
        self._agree(clock)

    def start(self, solver: GatheredSolver, clock: Clock) -> None:
        """See `Callback`; a run that is stopped here makes no step."""
        before = clock.stop_reason
        self.callback.start(solver, clock)
        if before is None:
            self._agree(clock)

    def _agree(self, clock: Clock) -> None:
        """If the callback has stopped the run on some rank, stop it on all, for the reason of the first such rank."""
        reasons = [reason for reason in self.ranks.all_gather(clock.stop_reason) if reason is not None]
        if reasons:
            clock.stop_reason, self.stopped = reasons[0], True

    def finish(self, solver: GatheredSolver, clock: Clock) -> None:
        """See `Callback`."""
        self.callback.finish(solver, clock)

    def close(self) -> None:
        """See `Callback`."""
        self.callback.close()


def user_callbacks(callbacks: Sequence[Callback], ranks: Ranks) -> list[UserCallback]:
    """Return the callbacks of a user, ready for the loop.

    Raises
    ------
    InputError : one of them is not a `Callback`.
    """
    for index, callback in enumerate(callbacks):
        if isinstance(callback, type) or not isinstance(callback, Callback):
            what = f"the class {callback.__name__}" if isinstance(callback, type) else type(callback).__name__
            raise InputError(
                f"callbacks[{index}]", f"{what} is not a callback", "allowed: instances of a subclass of "
                "lithowave.Callback", "derive a class from it, define __call__(solver, clock), and pass an instance",
            )  # fmt: skip
    return [UserCallback(callback, ranks) for callback in callbacks]


FIRST_STEP = "first step"
"""Phase of the first step."""


@dataclass(frozen=True)
class Integration:
    """The time integration of one run. callbacks : called in this order after each step."""

    solver: GatheredSolver
    clock: Clock
    callbacks: Sequence[Callback]

    def start(self) -> None:
        """Prepare all callbacks."""
        for callback in self.callbacks:
            callback.start(self.solver, self.clock)

    def run(self) -> None:
        """Advance to the last step, or to the step at which a callback stops the run; then finish the callbacks.

        If a signal interrupted the clock, the callbacks are not finished, since a restart resumes the run.
        """
        solver, clock, callbacks = self.solver, self.clock, self.callbacks
        with phase(FIRST_STEP):  # which compiles kernels of the CPU
            self._step()
        with phase("other steps"):
            while not clock.finished:
                self._step()
        if clock.interrupted_by is None:
            for callback in callbacks:
                callback.finish(solver, clock)

    def _step(self) -> None:
        """Advance by one step, unless the clock is at the end."""
        if self.clock.finished:
            return
        self.solver.advance(self.clock.step)
        self.clock.tick()
        for callback in self.callbacks:
            if callback.due(self.clock):
                callback(self.solver, self.clock)


class OutputWatch(Callback):
    """The callback that checks the thread of output jobs after each step; when it is closed, all jobs are complete."""

    def __init__(self, jobs: WriterThread) -> None:
        self.jobs = jobs
        self._before = (0.0, 0.0)

    def start(self, solver: GatheredSolver, clock: Clock) -> None:
        """Begin to measure."""
        self._before = _seconds()

    def __call__(self, solver: GatheredSolver, clock: Clock) -> None:
        """Raise the error of a job, if one has failed."""
        self.jobs.check()

    def facts(self, loop_s: float) -> dict[str, float]:
        """Return the entries of run.json on a time loop of `loop_s` seconds.

        ``outputs_s`` : seconds in which the loop started copies of fields and converted those of several ranks.
        ``waiting_for_outputs_s`` : seconds in which it waited for jobs. ``output_share`` : fraction of both.
        """
        work, waiting = (now - before for now, before in zip(_seconds(), self._before, strict=True))
        share = (work + waiting) / loop_s if loop_s > 0 else 0.0
        return {
            "outputs_s": round(work, 6), "waiting_for_outputs_s": round(waiting, 6), "output_share": round(share, 4),
        }  # fmt: skip

    def close(self) -> None:
        """Complete all jobs."""
        self.jobs.close()


def _seconds() -> tuple[float, float]:
    seconds = recorded_phases().seconds
    return seconds.get(OUTPUTS, 0.0), seconds.get(WAITING, 0.0)


ACTED = 1e-6  # of the largest amplitude in the run: a source that has reached it has acted
SMALLEST = 1e-15  # N or N m / s: waves of weaker sources may vanish in single precision
STEPS = 5  # between the onset of a source and a velocity that differs from zero
SLOWER = 1.5  # upper limit of the arrival time over that along the straight ray, which may leave the subsurface
RAY_POINTS = 200
MAX_SOURCES = 100  # sources whose arrival times are compared
RADIATED = 1e-6  # |M g| over |M|, below which a moment tensor M radiates nothing in the direction g


@dataclass(frozen=True)
class Onsets:
    """The sources whose weights act, and the steps at which their time functions are evaluated.

    sources : all point sources. totals : (sources, 9) see `Placement`. acts : (sources,) see `Placement`.
    """

    sources: Sequence[PointSource]
    totals: np.ndarray
    acts: np.ndarray
    time_step: float
    steps: int

    def onset(self, number: int) -> float:
        """Time, s, of the first step at which a source has acted; infinite if it does not act in this run."""
        source = self.sources[number]
        if not self.acts[number] or source.time_function.support(ACTED)[0] > self.time_step * self.steps:
            return math.inf
        function = source.time_function.rate if source.force is None else source.time_function.amplitude
        values = np.abs(function(self.time_step * np.arange(self.steps + 1)))
        peak = values.max()
        if not peak * np.abs(self.totals[number]).max() * ACTED > SMALLEST:
            return math.inf
        return self.time_step * int(np.argmax(values >= ACTED * peak))

    def acted(self, time: float) -> tuple[PointSource, float] | None:
        """A source that has acted for some steps at this time, s, and its onset; None if there is none."""
        for number in np.flatnonzero(self.acts).tolist():
            if (onset := self.onset(number)) + STEPS * self.time_step <= time:
                return self.sources[number], onset
        return None

    def radiating(self) -> list[tuple[int, float]]:
        """Return up to 100 sources that act in this run, and their onsets."""
        found = ((int(number), self.onset(number)) for number in np.flatnonzero(self.acts)[:MAX_SOURCES])
        return [(number, onset) for number, onset in found if onset < math.inf]


def require_motion(onsets: Onsets, step: int) -> None:
    """Raise an error if a source has acted by this step, at which all velocities are zero.

    Raises
    ------
    SelfCheckError : a source has acted for some steps.
    """
    found = onsets.acted(step * onsets.time_step)
    if found is not None:
        (source, onset), time = found, step * onsets.time_step
        raise SelfCheckError(
            f"at step {step} (t = {time:.6g} s) all velocities are zero, although the source "
            f"{source.name or source.where} has acted since t = {onset:.6g} s."
        )


def explain_zero_seismograms(onsets: Onsets, simulation: Simulation, faces: Entries) -> str:
    """Return a warning if all seismograms of a run may be zero because no wave can have reached a receiver.

    Parameters
    ----------
    simulation : its receivers, material and domain.
    faces : boundary conditions from the summary of the plan.

    Raises
    ------
    SelfCheckError : a P wave must have reached a receiver.
    """
    end = onsets.steps * onsets.time_step
    positions = _free_positions(simulation, faces)
    earliest, latest = math.inf, math.inf
    for number, onset in onsets.radiating():
        distance = _distances(simulation.domain, onsets.sources[number], positions)
        if not np.isfinite(distance).any():
            continue
        nearest = int(np.argmin(distance))
        earliest = min(earliest, onset + distance[nearest] / simulation.material_extremes["vp_max"])
        ray = straight_time(simulation, onsets.sources[number].position, positions[nearest])
        latest = min(latest, onset + SLOWER * ray + STEPS * onsets.time_step)
    if latest < end:
        raise SelfCheckError(
            f"all seismograms are zero, although a P wave has reached a receiver by t = {latest:.6g} s; the "
            f"run ends at t = {end:.6g} s."
        )
    when = "no source acts in this run" if earliest == math.inf else f"the first P wave arrives after {earliest:.4g} s"
    return (
        f"duration: all seismograms are zero; {when} and the run ends at {end:.4g} s. Increase the duration, "
        "or check the positions of sources and receivers."
    )


def straight_time(simulation: Simulation, start: ArrayLike, end: ArrayLike) -> float:
    """Travel time, s, of a P wave along the straight line between two points, m."""
    start, end = (simulation.domain.cartesian(point) for point in (start, end))
    line = start + (end - start) * ((np.arange(RAY_POINTS) + 0.5) / RAY_POINTS)[:, None]
    if simulation.domain.chunk is not None:
        line = np.column_stack(simulation.domain.chunk.map.from_cartesian(line))
    try:
        speed = simulation.material.sample(*line.T)[0]
    except InputError:  # groups of a mesh, which only the mesh can locate
        speed = np.array(simulation.material_extremes["vp_min"])
    return float(np.linalg.norm(end - start) * np.mean(1.0 / speed))


def _distances(domain: Domain, source: PointSource, positions: np.ndarray) -> np.ndarray:
    """Return the distances (receivers,), m; infinite for receivers in directions without radiation."""
    arms = domain.cartesian(positions) - domain.cartesian(source.position)
    if domain.chunk is not None:  # to East, North and Up at the source
        arms = arms @ domain.chunk.map.axes(*np.array(source.position[:2])).T
    distance = np.linalg.norm(arms, axis=1)
    if source.moment is None:
        return distance
    xx, yy, zz, xy, xz, yz = source.moment
    tensor = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    radiated = np.linalg.norm(arms @ tensor, axis=1)
    return np.where(radiated > RADIATED * np.linalg.norm(tensor) * distance, distance, np.inf)


def _free_positions(simulation: Simulation, faces: Entries) -> np.ndarray:
    """Return the positions (receivers, 3), m, of the receivers that are not on a rigid face."""
    positions = simulation.acquisition.receiver_positions
    if "rigid" in faces:  # of a mesh file: anywhere
        return positions[:0]
    domain = simulation.domain
    for axis, letter in enumerate("xyz"):
        low, high = getattr(domain, letter)
        for side, end in (("min", low), ("max", high)):
            if faces.get(f"{letter}_{side}") == "rigid":
                positions = positions[np.abs(positions[:, axis] - end) > 1e-6 * (high - low)]
    return positions


CHECK_INTERVAL = 50  # steps
MAX_GROWTH = 1e3
# Growth of the maximum of a window over that of an earlier one, above a fraction of the maximum of the run, below which
# rounding errors matter. Every window contains the passage of the slowest wave through the domain.
WINDOW_GROWTH, NOISE = 10.0, 1e-4
STATE = ("largest", "window_end", "in_window", "quietest")


def crossing_time(simulation: Simulation) -> float:
    """Return the time, s, in which the slowest wave crosses the domain along its diagonal."""
    sides = [high - low for low, high in simulation.domain.bounds.values()]
    return math.hypot(*sides) / simulation.material_extremes["slowest"]


class InstabilityWatch(Callback):
    """The callback that inspects the largest velocity at intervals, and at the end.

    While the sources act, any finite velocity is allowed. After that, the energy of a passive medium cannot grow: an
    error is raised if the largest velocity exceeds 1000 times its previous maximum, which no focusing of waves can
    cause, or 10 times its maximum in an earlier window of time.

    Parameters
    ----------
    schedule : time step and stability limit, for the report.
    sources : point sources; growth is limited after the end of their time functions.
    window : length of the windows, s; see `crossing_time`.
    every : steps between two inspections.
    onsets : onsets of these sources; None: fields may remain zero.
    """

    def __init__(
        self,
        schedule: Schedule,
        sources: Sequence[PointSource],
        window: float = math.inf,
        every: int = CHECK_INTERVAL,
        onsets: Onsets | None = None,
    ) -> None:
        self.schedule, self.every, self.onsets = schedule, every, onsets
        self.sources_end = max((source.time_function.support()[1] for source in sources), default=0.0)
        self.largest = 0.0
        self.window, self.window_end = window, self.sources_end + window
        self.in_window, self.quietest = 0.0, math.inf  # maxima of the present window, and of the quietest one before

    def due(self, clock: Clock) -> bool:
        """True at the interval, and at the end."""
        return clock.step % self.every == 0 or clock.finished

    def __call__(self, solver: GatheredSolver, clock: Clock) -> None:
        """Inspect the fields."""
        self.inspect(solver, clock)

    def start(self, solver: GatheredSolver, clock: Clock) -> None:
        """Inspect the initial fields of the loop."""
        self.inspect(solver, clock)

    def inspect(self, solver: GatheredSolver, clock: Clock) -> None:
        """Compare the largest velocity with its previous maximum.

        Raises
        ------
        InstabilityError : the velocity is not finite, or has grown too much.
        SelfCheckError : sources have acted, but the velocity is zero everywhere.
        """
        now = solver.largest_velocity()
        without_source = clock.time > self.sources_end
        burst = without_source and self.largest > 0 and now > MAX_GROWTH * self.largest
        growth = now > self.limit
        if not math.isfinite(now) or burst or growth:
            raise InstabilityError(self._report(solver, clock, now, growth))
        self.largest = max(self.largest, now)
        if without_source:
            self._complete_window(clock, now)
        if self.largest <= NOTHING and self.onsets is not None:
            require_motion(self.onsets, clock.step)

    @property
    def limit(self) -> float:
        """The largest velocity, m/s, that is not growth; infinite before the end of the first window."""
        return max(WINDOW_GROWTH * self.quietest, NOISE * self.largest)

    def _complete_window(self, clock: Clock, now: float) -> None:
        """Add a value to the present window; begin the next one at its end."""
        self.in_window = max(self.in_window, now)
        if clock.time >= self.window_end:
            self.quietest = min(self.quietest, self.in_window)
            self.window_end, self.in_window = clock.time + self.window, 0.0

    def state(self) -> dict[str, np.ndarray]:
        """Return the maxima up to now, for a checkpoint: growth that began before a restart is found after it."""
        return {name: np.array(getattr(self, name)) for name in STATE}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Resume from a `state`."""
        for name in STATE:
            setattr(self, name, float(state[name]))

    def _report(self, solver: GatheredSolver, clock: Clock, now: float, slow: bool) -> str:
        seen = f"its previous maximum was {self.largest:.3g} m/s"
        if self.quietest < math.inf:
            seen += f"; in an earlier window of {self.window:.3g} s, after the sources, {self.quietest:.3g} m/s"
        what = (
            "the largest velocity is infinite or not a number"
            if not math.isfinite(now)
            else f"the largest velocity is {now:.3g} m/s"
        )
        fraction, of_plan = self.schedule.time_step / self.schedule.limit, solver.plan.instability_causes()
        if slow and not of_plan:
            remedy = "; try solver.safety: 0.5, or compute.precision: double against round-off"
        else:
            remedy = "; try solver.safety: 0.8" if fraction > 0.85 else ""
        step = (
            f"the time step ({self.schedule.time_step:.6g} s) is {100 * fraction:.3g}% of the stability limit{remedy}"
        )
        amplitude = "a source amplitude beyond the range of single precision: check its unit"
        causes = [*of_plan, step] if slow else [step, *of_plan, amplitude]
        return (
            f"unstable at step {clock.step} (t = {clock.time:.6g} s): {what} ({seen}); {solver.diagnose()}.\n"
            "Likely causes, most likely first:\n" + "\n".join(f"  - {cause}" for cause in causes)
        )


POLL_INTERVAL = 50  # steps between two inquiries of several ranks whether all have written their parts


@dataclass
class OpenCheckpoint:
    """A checkpoint that is being written. common : see `CheckpointWriter.complete`. written : True on this rank."""

    writer: CheckpointWriter
    common: State
    written: bool = False


class CheckpointManager(Callback):
    """The callback that writes checkpoints, and ends the loop after one if a signal requests it.

    A job writes a checkpoint while the time loop continues; then the loop completes it. If the fields are in main
    memory, the loop stores them itself, in the page cache of the system, and the job waits for the disk.

    Parameters
    ----------
    folder : the run folder.
    identity : fingerprint of the description.
    interval : simulated time between two checkpoints, s; None: only on signals.
    recorders, watch : callbacks whose states are part of a checkpoint.
    requests : signals that request checkpoints.
    jobs : executes the writing. copied : True if the state of the solver is a copy that later steps do not change.
    """

    def __init__(
        self,
        folder: RunFolder,
        identity: str,
        interval: float | None,
        recorders: Sequence[Recorder],
        watch: InstabilityWatch,
        requests: SignalRequests,
        jobs: ImmediateJobs,
        copied: bool,
    ) -> None:
        self.folder, self.identity, self.recorders = folder, identity, recorders
        self.watch, self.requests, self.jobs, self.copied = watch, requests, jobs, copied
        self.every = 0 if interval is None else checkpoint_steps(interval, watch.schedule)
        self._open: OpenCheckpoint | None = None
        self._wanted = False

    def due(self, clock: Clock) -> bool:
        """True at the interval, except at the end, when no work can be lost, and if a signal requests a checkpoint; and
        when an open checkpoint may be complete on all ranks."""
        at_interval = self.every > 0 and clock.step % self.every == 0 and not clock.finished
        self._wanted = at_interval or self.requests.pending(clock)
        return self._wanted or self._polls(clock)

    def _polls(self, clock: Clock) -> bool:
        if self._open is None:
            return False
        if self._open.writer.ranks.size == 1:
            return self._open.written
        return (clock.step - self._open.writer.step) % POLL_INTERVAL == 0

    def __call__(self, solver: GatheredSolver, clock: Clock) -> None:
        """Complete the open checkpoint, if there is one, and begin another one if it is due.

        The watch inspects the fields first, so that unstable fields are not stored.
        """
        if self._wanted:
            self.watch.inspect(solver, clock)
        with phase(OUTPUTS):
            if self._open is not None and (self._wanted or solver.ranks.smallest(float(self._open.written)) == 1.0):
                self._complete()
            if self._wanted:
                self._begin(solver, clock)
                if self.requests.stopped_by and not clock.finished:
                    self._complete()
                    clock.interrupt(self.requests.stopped_by)

    def _begin(self, solver: GatheredSolver, clock: Clock) -> None:
        """Start to write the samples before the checkpoint, the state, and wait for neither."""
        common: State = {
            "clock": {"step": np.array(clock.step), "time": np.array(clock.time)},
            "watch": self.watch.state(),
        }
        for recorder in self.recorders:
            recorder.deliver(solver)
        state, size = solver.solver.state(), solver.solver.plan.state_bytes()
        checkpoint = OpenCheckpoint(
            CheckpointWriter(self.folder.path, clock.step, state, size, self.identity, solver.ranks), common
        )
        if not self.copied:
            checkpoint.writer.store()
        self._open = checkpoint
        self.jobs.submit(self, lambda: self._write(checkpoint))

    def _write(self, checkpoint: OpenCheckpoint) -> None:
        """Write the checkpoint after the samples of all recorders, on which it relies."""
        for number, recorder in enumerate(self.recorders):
            recorder.sync()
            checkpoint.common[_group(number)] = recorder.state()
        if self.copied:
            checkpoint.writer.store()
        checkpoint.writer.sync()
        checkpoint.written = True

    def _complete(self) -> None:
        """Complete the open checkpoint, after the jobs up to now."""
        assert self._open is not None
        checkpoint = self._open
        if not checkpoint.written:
            self.jobs.wait()
        self._open = None
        checkpoint.writer.complete(checkpoint.common)
        self.folder.log(f"step {checkpoint.writer.step}: checkpoint")

    def finish(self, solver: GatheredSolver, clock: Clock) -> None:
        """Complete the open checkpoint; a complete run needs no previous one."""
        if self._open is not None:
            self._complete()
        if solver.ranks.is_root:
            remove_previous(self.folder.path)

    def close(self) -> None:
        """Complete the open checkpoint of a failed run, to resume from it; a failed rank cannot agree with others."""
        if self._open is not None and self._open.writer.ranks.size == 1:
            with suppress(Exception):  # the error of the run is reported
                self._complete()

    def restore(self, solver: GatheredSolver, clock: Clock, checkpoint: Checkpoint) -> None:
        """Set clock, watch, solver and recorders to the state of the checkpoint."""
        clock.step = checkpoint.step
        self.watch.restore(checkpoint.common["watch"])
        solver.solver.restore(checkpoint.pieces(solver.solver.state_selections()))
        for number, recorder in enumerate(self.recorders):
            recorder.restore(checkpoint.common.get(_group(number), {}), clock)


def checkpoint_steps(interval: float, schedule: Schedule) -> int:
    """Return the number of steps between two checkpoints."""
    return max(1, round(interval / schedule.time_step))


def checkpoint_count(simulation: Simulation, schedule: Schedule) -> int:
    """Return the number of checkpoints that a run writes at intervals."""
    checkpoint = simulation.output.checkpoint
    return 0 if checkpoint is None else (schedule.steps - 1) // checkpoint_steps(checkpoint.interval, schedule)


def _group(number: int) -> str:
    """Return the name of a recorder's arrays in a checkpoint; the first recorder is that of the seismograms."""
    return "seismograms" if number == 0 else f"recorder{number}"
