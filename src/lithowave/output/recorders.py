"""Recorders of seismograms, snapshots and peak motion: callbacks of the time loop that read the solver and write files.

`Sampling` computes samples of seismograms at any interval from values at steps, `SnapshotSteps` the steps of snapshots.

Output jobs are executed by a thread while the time loop continues. The recorders of a run share one thread:
`Deliveries` of each recorder start copies of fields to main memory, and the thread waits for the copies, converts the
fields and writes them. Jobs are executed in the order of submission, so that files do not depend on their timing. A
recorder has at most `MAX_PENDING` unfinished jobs; the time loop waits before it would start another one, so that the
memory of a run is bounded (`lithowave.run.requirements`).

In addition to the methods of a callback (`lithowave.run.loop.Callback`), recorders have `flush` and `sync`, after which
everything recorded so far is on disk and readable, and `state` and `restore` for checkpoints. They write by jobs
while the time loop continues.
"""

from __future__ import annotations

import math
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lithowave.description.receivers import component_turns
from lithowave.errors import OVERWRITE, OutputError
from lithowave.output.attributes import receiver_axes, sea_floor_attributes
from lithowave.output.checkpoint import Checkpoint
from lithowave.output.results import FILE_NAME as PEAK_FILE
from lithowave.output.results import MEASURES, write_peak_motion
from lithowave.output.seismograms import INCOMPLETE, SeismogramWriter, states_axes
from lithowave.output.snapshots import (
    JOINED_BY_RUNS,
    PartWriter,
    SnapshotHead,
    SnapshotWriter,
    join_snapshots,
    joined_bytes,
    new_snapshot_file,
    part_writer,
    parts_folder,
    remove_parts,
    remove_snapshots,
)
from lithowave.parallel.ranks import collective_section
from lithowave.process import phase
from lithowave.projection import turned
from lithowave.solvers.common.resampling import Resampling, combine
from lithowave.solvers.interface import Clock, GatheredSolver, PendingFields, Schedule, SnapshotGrid

if TYPE_CHECKING:
    from lithowave.description.outputs import Output, Snapshots
    from lithowave.description.simulation import Simulation
    from lithowave.json_types import Entries


ROWS = 64  # samples whose weights are computed at once
GROUPS = 4  # of them, whose weights are kept


class Sampling:
    """Samples at multiples of an interval, from values at steps that arrive in blocks.

    A sample between steps, or from which the error of the time steps is removed, is a sum over steps before and after
    it (`Resampling`), and is complete some steps later; the last samples of a run make do with fewer later steps.

    Parameters
    ----------
    schedule : time step, samples, and the frequency up to which the error of the steps is removed.
    averaged : True if the motion is a trapezoidal sum or a difference over two steps, like means of tensors.
    shapes : shapes of the values at one step, by name. first : step of the first value that will arrive; before it, all
    is at rest.
    """

    def __init__(
        self, schedule: Schedule, averaged: bool, shapes: Mapping[str, tuple[int, ...]], first: int = 0
    ) -> None:  # fmt: skip
        self.schedule, self.next = schedule, 0
        step, end, frequency = schedule.time_step, schedule.end, schedule.corrected_frequency
        self._tensors = None if schedule.sample_every else Resampling(step, end, frequency, averaged=True)
        self._motion = self._tensors if averaged or frequency is None else Resampling(step, end, frequency)
        count = 0 if self._tensors is None else self._tensors.length
        self.first = first - count  # step of the first value that is kept
        self.kept = {name: np.zeros((count, *shape)) for name, shape in shapes.items()}
        self._groups: dict[tuple[bool, int, int], tuple[np.ndarray, np.ndarray]] = {}

    def samples(self, values: dict[str, np.ndarray], last: int, every: int) -> dict[str, np.ndarray]:
        """Return the samples (times, ...) that values (steps, ...) complete.

        last : step of the last values. every : steps between two of them, 1 unless samples are on steps.
        """
        count = len(next(iter(values.values())))
        if self._tensors is None:
            return self._chosen(values, last - every * np.arange(count)[::-1])
        self.kept = {name: np.concatenate([self.kept[name], part]) for name, part in values.items()}
        places = self._places()
        complete = np.minimum(self._tensors.ends(places) - 1, self.schedule.steps) <= last
        return self._combined(places[complete], self.schedule.steps)

    def remaining(self) -> dict[str, np.ndarray]:
        """Return the samples up to the last step that has arrived."""
        if self._tensors is None:
            return {name: values[:0] for name, values in self.kept.items()}
        places = self._places()
        return self._combined(places[places <= self._last + 1e-6], self._last)

    @property
    def _last(self) -> int:
        """Step of the last value that has arrived."""
        return self.first + len(next(iter(self.kept.values()))) - 1

    def _places(self) -> np.ndarray:
        """Return the times of the samples that are not yet complete, in steps, up to the last step that has arrived."""
        interval = self.schedule.sampling_interval / self.schedule.time_step
        until = min(self.schedule.sample_count, math.floor((self._last + 1) / interval) + 1)
        return np.arange(self.next, until) * interval

    def _chosen(self, values: dict[str, np.ndarray], steps: np.ndarray) -> dict[str, np.ndarray]:
        """Return the values at the steps of samples."""
        every = self.schedule.sample_every
        wanted = (steps % every == 0) & (steps // every < self.schedule.sample_count) & (steps >= 0)
        return {name: part[wanted] for name, part in values.items()}

    def _combined(self, places: np.ndarray, last: int) -> dict[str, np.ndarray]:
        """Return the samples at places (n,) from steps up to the last one, and forget what no later one requires."""
        found, numbers = {}, self.next + np.arange(len(places))
        for name, values in self.kept.items():
            first, weights = self._weights(self._motion if name == "motion" else self._tensors, numbers, last)
            lines = np.ascontiguousarray(values, float).reshape(len(values), math.prod(values.shape[1:]))
            sums = np.empty((len(places), lines.shape[1]))
            combine(first - self.first, weights, lines, sums)
            found[name] = sums.reshape(len(places), *values.shape[1:])
        self.next += len(places)
        following = self.next * self.schedule.sampling_interval / self.schedule.time_step
        begin = int(self._tensors.ends(np.array([following]))[0]) - self._tensors.length
        spent = min(max(begin - self.first, 0), self._last + 1 - self.first)
        self.kept = {name: values[spent:] for name, values in self.kept.items()}
        self.first += spent
        return found

    def _weights(self, resampling: Resampling, numbers: np.ndarray, last: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the first steps and the weights of samples.

        They are computed for groups of samples that do not depend on the blocks, so that a restarted run computes the
        same ones.
        """
        firsts, rows = [np.zeros(0, np.int64)], [np.zeros((0, resampling.length))]
        for group in np.unique(numbers // ROWS):
            key = resampling.averaged, int(group), last
            if key not in self._groups:
                if len(self._groups) >= GROUPS:
                    self._groups.pop(next(iter(self._groups)))
                interval = self.schedule.sampling_interval / self.schedule.time_step
                places = (group * ROWS + np.arange(ROWS)) * interval
                self._groups[key] = resampling.weights(places, last=last)
            first, weights = self._groups[key]
            some = numbers[numbers // ROWS == group] % ROWS
            firsts.append(first[some])
            rows.append(weights[some])
        return np.concatenate(firsts), np.concatenate(rows)

    def state(self) -> dict[str, np.ndarray]:
        """Return the arrays that a restart requires."""
        return {"next": np.array(self.next), "first": np.array(self.first)} | {
            f"kept_{name}": values for name, values in self.kept.items()
        }

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Resume from a state."""
        self.next, self.first = int(state["next"]), int(state["first"])
        self.kept = {name.removeprefix("kept_"): values for name, values in state.items() if name.startswith("kept_")}


@dataclass(frozen=True)
class SnapshotSteps:
    """The steps of snapshots: those closest to multiples of the interval, from time 0 to the last sample; every step if
    the interval is shorter than one.

    The loop continues for some steps after the last sample, which seismograms need.
    """

    interval: float
    schedule: Schedule

    @property
    def _ratio(self) -> float:
        return max(1.0, self.interval / self.schedule.time_step)

    def until(self, step: int) -> int:
        """Return the number of snapshots up to a step."""
        return math.ceil((min(step, self.schedule.last_step) + 0.5) / self._ratio * (1.0 - 1e-12))

    def __len__(self) -> int:
        return self.until(self.schedule.last_step)

    def __contains__(self, step: int) -> bool:
        return step == 0 or self.until(step) > self.until(step - 1)


MAX_PENDING = 2  # jobs of one owner: one is being executed while the fields of the next one are computed
WAITING = "waiting for outputs"

Job = Callable[[], None]


class ImmediateJobs:
    """Executes each job when it is submitted."""

    def make_room(self, owner: object) -> None:
        """Wait until `owner` may submit a job.

        Raises
        ------
        Exception : the first error of a job.
        """

    def submit(self, owner: object, job: Job) -> None:
        """Execute a job after all jobs that were submitted before; see `make_room`."""
        job()

    def wait(self) -> None:
        """Wait until all jobs are complete; errors as in `make_room`."""

    def check(self) -> None:
        """Raise the first error of a job, if there is one."""

    def close(self) -> None:
        """Complete all jobs, without raising their errors."""


class WriterThread(ImmediateJobs):
    """Executes jobs in a thread, which starts with the first job. After an error, the remaining jobs are discarded."""

    def __init__(self) -> None:
        self._jobs: deque[tuple[object, Job]] = deque()  # the first one is being executed
        self._pending: Counter[int] = Counter()  # by the identity of the owner
        self._changed = threading.Condition()
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None
        self._closing = False

    def make_room(self, owner: object) -> None:
        """See `ImmediateJobs`."""
        self._wait_until(lambda: self._pending[id(owner)] < MAX_PENDING)

    def submit(self, owner: object, job: Job) -> None:
        """See `ImmediateJobs`."""
        self.make_room(owner)
        with self._changed:
            self._jobs.append((owner, job))
            self._pending[id(owner)] += 1
            self._changed.notify_all()
        if self._thread is None:
            self._thread = threading.Thread(target=self._execute, name="lithowave outputs", daemon=True)
            self._thread.start()

    def wait(self) -> None:
        """See `ImmediateJobs`."""
        self._wait_until(lambda: not self._jobs)

    def check(self) -> None:
        """See `ImmediateJobs`."""
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """See `ImmediateJobs`; the thread ends."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _wait_until(self, condition: Callable[[], bool]) -> None:
        with self._changed:
            if not condition() and self._error is None:
                with phase(WAITING):
                    self._changed.wait_for(lambda: condition() or self._error is not None)
        self.check()

    def _execute(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._jobs or self._closing)
                if not self._jobs:
                    return
                owner, job = self._jobs[0]
            error: BaseException | None = None
            try:
                if self._error is None:
                    job()
            except BaseException as problem:
                error = problem
            del job  # with the fields that it refers to
            with self._changed:
                self._error = self._error or error
                self._jobs.popleft()
                self._pending[id(owner)] -= 1
                self._changed.notify_all()


class Deliveries:
    """Fields on their way to one recorder, which writes them by jobs.

    Fields that ranks exchange are received by the time loop, one delivery later, when their copies are complete.

    Parameters
    ----------
    jobs : of the run. write : called with the fields (`PendingFields.arriving`), and with the arguments of `add`.
    """

    def __init__(self, jobs: ImmediateJobs, write: Callable[..., None]) -> None:
        self._jobs, self._write = jobs, write
        self._coming: tuple[PendingFields, tuple[object, ...]] | None = None  # to be received by the time loop

    def make_room(self) -> None:
        """Wait until memory for further fields is available; to be called before they are computed."""
        self._jobs.make_room(self)

    def add(self, coming: PendingFields, *arguments: object) -> None:
        """Write the fields when their copies are complete."""
        if coming.communicates:
            self.receive()
            self._coming = coming, arguments
        else:
            self._jobs.submit(self, lambda: self._write(coming.arriving(), *arguments))

    def receive(self) -> None:
        """Receive the fields that ranks exchange, after which all fields are being written."""
        if self._coming is not None:
            coming, arguments = self._coming
            self._coming = None
            self._jobs.submit(self, partial(self._write, coming.wait(), *arguments))


MAX_RECORDS = 256
NOTHING = 1e-36  # m/s (m, m/s^2): smaller values are round-off in single precision and count as zero
# Maximum number of points of a plane that several ranks gather on rank 0, which writes them: 24 MB of velocities. Other
# planes and volumes would keep all ranks waiting for one disk.
MAX_GATHERED_POINTS = 2_000_000
OUTPUTS = "outputs"  # the phase of the work for outputs in the time loop
COMPONENTS = {"velocity": 3, "stress": 6, "pressure": 1}


class Recorder:
    """The base class of recorders, with nothing to prepare, flush or save.

    remarks : lines for the log of a complete run. jobs : execute the writing.
    """

    remarks: tuple[str, ...] = ()
    jobs = ImmediateJobs()

    def due(self, clock: Clock) -> bool:
        """True if this step is recorded."""
        raise NotImplementedError

    def __call__(self, solver: GatheredSolver, clock: Clock) -> None:
        """Record this step."""
        raise NotImplementedError

    def start(self, solver: GatheredSolver, clock: Clock) -> None:
        """Record the first step of the loop, if it is due."""

    def deliver(self, solver: GatheredSolver) -> None:
        """Submit the writing of everything recorded so far."""

    def flush(self, solver: GatheredSolver) -> None:
        """Write everything recorded so far, and wait for it; an error on one rank is raised on all."""
        self.deliver(solver)
        with collective_section(solver.ranks):
            self.jobs.wait()

    def keep(self, solver: GatheredSolver) -> None:
        """Write everything recorded so far, of a run that is not continued."""
        self.flush(solver)

    def sync(self) -> None:
        """Wait until what was written has reached the disk: a checkpoint relies on it."""

    def state(self) -> dict[str, np.ndarray]:
        """Return the arrays that a restart requires."""
        return {}

    def restore(self, state: dict[str, np.ndarray], clock: Clock) -> None:
        """Resume from `state` at the step of the clock."""

    def finish(self, solver: GatheredSolver, clock: Clock) -> None:
        """Write the remaining data of a complete run."""

    def close(self) -> None:
        """Close files."""


def record_lag(quantity: str, with_stress: bool) -> int:
    """Return the delay of a sample in steps: central differences of acceleration, stress and strain need the next
    step."""
    return 1 if quantity == "acceleration" or with_stress else 0


def block_length(receiver_count: int) -> int:
    """Return the number of records stored on the device before they are copied to the host: at most 64 MB."""
    return max(1, min(MAX_RECORDS, (64 << 20) // max(1, receiver_count * 72)))


class SeismogramRecorder(Recorder):
    r"""Recorder of seismograms, from velocities at the receivers, stored on the device in blocks, to the output
    quantity at the times of the samples (`Resampling`).

    At step n, displacement is the trapezoidal sum, and acceleration is (v_{n+1} - v_{n-1}) / (2 dt). For methods that
    have stress and strain at half steps, these are the mean of the values half a step before and after. All are of
    second order in time, unless the error of the time steps is removed.

    turns : (n_receivers,) degrees, counterclockwise turn from the axes x and y to those of the components, such as true
    East and North; default: 0.
    """

    def __init__(
        self,
        writer: SeismogramWriter | NullWriter,
        schedule: Schedule,
        output: Output,
        receiver_count: int,
        capacity: int | None = None,
        jobs: ImmediateJobs | None = None,
        turns: np.ndarray | None = None,
    ) -> None:
        self.turns = np.zeros(receiver_count) if turns is None else turns
        self.writer, self.schedule, self.quantity = writer, schedule, output.quantity
        self.tensors, self.stress = output.tensors, output.stress
        self.pressure, self.strain = output.pressure, output.strain
        self.lag = record_lag(self.quantity, self.tensors)
        only_velocity = self.quantity == "velocity" and not self.tensors
        self.every = (schedule.sample_every or 1) if only_velocity else 1
        self.capacity = capacity or block_length(receiver_count)
        self.count, self.receiver_count = 0, receiver_count
        # The last two velocities, the displacement and the tensors before the block, initially at rest.
        self.carry = {
            "velocity": np.zeros((2, receiver_count, 3)),
            "displacement": np.zeros((receiver_count, 3)),
            "stress": np.zeros((receiver_count, 6)),
        }
        if self.strain:
            self.carry["strain"] = np.zeros((receiver_count, 6))
        if self.pressure:
            self.carry["pressure"] = np.zeros((receiver_count, 1))
        parts = {"stress": self.stress, "pressure": self.pressure, "strain": self.strain}
        shapes = {name: self.carry[name].shape for name, wanted in parts.items() if wanted}
        shapes["motion"] = (receiver_count, 3)
        self.sampling = Sampling(schedule, self.quantity != "velocity", shapes, 1 - self.lag)
        self.last_step, self.moved = 0, False  # moved : True if a written sample exceeds `NOTHING`
        self.staggered = True  # True if the tensors of the solver are at the half step before
        self.jobs = jobs or self.jobs
        self._deliveries = Deliveries(self.jobs, self._write)
        if writer.samples_written == 0 and self.lag == 0 and schedule.sample_every and receiver_count:
            self._append({"motion": np.zeros((1, receiver_count, 3))})

    def prepare(self, solver: GatheredSolver) -> None:
        """Allocate the records on the device."""
        self.staggered = solver.staggered
        solver.start_records(self.capacity, self.tensors)

    def due(self, clock: Clock) -> bool:
        """True at the samples if they are on steps, or at every step if integrals, differences or values between steps
        are needed."""
        return clock.step % self.every == 0

    def __call__(self, solver: GatheredSolver, clock: Clock) -> None:
        """Store a record on the device; when a block is full, start its copy."""
        solver.record(self.count)
        self.count += 1
        self.last_step = clock.step
        if self.count == self.capacity:
            self._start_copy(solver)

    def _start_copy(self, solver: GatheredSolver) -> None:
        """Start copying the stored records to the host, while the device continues."""
        if self.count:
            with phase(OUTPUTS):
                self._deliveries.make_room()
                steps = self.last_step - self.every * np.arange(self.count)[::-1]
                self._deliveries.add(solver.records(self.count), steps)
                self.count = 0

    def _write(self, records: dict[str, np.ndarray], steps: np.ndarray) -> None:
        """Convert a block, and write the samples that it completes."""
        if self.receiver_count:
            last = int(steps[-1]) - self.lag
            self._append(self.sampling.samples(self._converted(records), last, self.every))

    def _append(self, block: dict[str, np.ndarray]) -> None:
        """Write samples (times, receivers, components) after the last ones."""
        motion = block["motion"]
        if len(motion):
            self.moved |= bool((np.abs(motion) > NOTHING).any())
            block = {name: np.moveaxis(values, 0, 2) for name, values in block.items()}
            for name, values in block.items():
                block[name] = values[:, 0] if name == "pressure" else turned(values, self.turns)
            self.writer.write(self.writer.samples_written, block)

    def deliver(self, solver: GatheredSolver) -> None:
        """See `Recorder`."""
        self._start_copy(solver)
        self._deliveries.receive()

    def _converted(self, records: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return values (n, receivers, components) at the steps of records - lag; store the last for the next block."""
        velocity, dt = records["velocity"], self.schedule.time_step
        line = np.concatenate([self.carry["velocity"], velocity])  # entry n + 2 is that of record n
        if self.quantity == "velocity":
            motion = line[2 - self.lag : len(line) - self.lag]
        elif self.quantity == "displacement":
            increments = 0.5 * dt * (line[1:-1] + line[2:])
            displacement = np.cumsum(np.concatenate([self.carry["displacement"][None], increments]), axis=0)
            motion = displacement[1 - self.lag : len(displacement) - self.lag]
            self.carry["displacement"] = displacement[-1].copy()
        else:
            motion = (line[2:] - line[:-2]) / (2.0 * dt)
        block = {"motion": motion}
        if self.stress:
            block["stress"] = self._centred("stress", records)
        if self.pressure:
            records.setdefault("pressure", -records["stress"][..., :3].mean(axis=-1, keepdims=True))
            block["pressure"] = self._centred("pressure", records)
        if self.strain:
            block["strain"] = self._centred("strain", records)
        self.carry["velocity"] = line[-2:].copy()
        return block

    def _centred(self, name: str, records: dict[str, np.ndarray]) -> np.ndarray:
        """Return a tensor (n, n_receivers, 6) at the steps before the records, at the time of the velocities there."""
        around = np.concatenate([self.carry[name][None], records[name]])
        self.carry[name] = around[-1].copy()
        return 0.5 * (around[:-1] + around[1:]) if self.staggered else around[:-1]

    def keep(self, solver: GatheredSolver) -> None:
        """Write the last samples also."""
        self.flush(solver)
        with collective_section(solver.ranks):
            if self.receiver_count:
                self._append(self.sampling.remaining())

    def sync(self) -> None:
        """See `Recorder`."""
        self.writer.sync()

    def state(self) -> dict[str, np.ndarray]:
        """See `Recorder`; `flush` must be called before."""
        return {**self.carry, **self.sampling.state(), "samples": np.array(self.writer.samples_written)}

    def restore(self, state: dict[str, np.ndarray], clock: Clock) -> None:
        """Resume from `state`; the writer has been opened with this number of samples."""
        # The state is that of all receivers; ranks that write nothing have no receivers.
        if self.receiver_count:
            self.carry = {name: state[name] for name in self.carry}
            self.sampling.restore(state)
        self.last_step = clock.step

    def finish(self, solver: GatheredSolver, clock: Clock) -> None:
        """Write the last samples; the file of a run that a callback has stopped is truncated to the written samples."""
        self.keep(solver)
        if clock.stop_reason is not None:
            with collective_section(solver.ranks):
                self.writer.truncate()

    def close(self) -> None:
        """Close the file."""
        self.writer.close()


class SnapshotRecorder(Recorder):
    """Recorder of fields on a plane or in the volume at some steps, the first at time 0."""

    def __init__(
        self, writer: SnapshotWriter | PartWriter | NullWriter, snapshot: SnapshotGrid, fields: tuple[str, ...],
        steps: SnapshotSteps,
        jobs: ImmediateJobs | None = None,
    ) -> None:  # fmt: skip
        self.writer, self.snapshot, self.fields, self.steps = writer, snapshot, fields, steps
        self.jobs = jobs or self.jobs
        self._deliveries = Deliveries(self.jobs, lambda values, time: writer.write(time, values))

    def due(self, clock: Clock) -> bool:
        """True at the interval."""
        return clock.step in self.steps

    def start(self, solver: GatheredSolver, clock: Clock) -> None:
        """Record the snapshot at time 0, except in a restarted run, whose file contains it."""
        if clock.step == 0:
            self(solver, clock)

    def __call__(self, solver: GatheredSolver, clock: Clock) -> None:
        """Start copying one snapshot, which is appended while the device continues."""
        with phase(OUTPUTS):
            self._deliveries.make_room()
            self._deliveries.add(self._ask(solver), clock.time)

    def _ask(self, solver: GatheredSolver) -> PendingFields:
        return solver.fields(self.snapshot, self.fields)

    def deliver(self, solver: GatheredSolver) -> None:
        """See `Recorder`."""
        self._deliveries.receive()

    def finish(self, solver: GatheredSolver, clock: Clock) -> None:
        """Append the last snapshot."""
        self.flush(solver)

    def sync(self) -> None:
        """See `Recorder`."""
        self.writer.sync()

    def close(self) -> None:
        """Close the file."""
        self.writer.close()


class PartitionedSnapshotRecorder(SnapshotRecorder):
    """Recorder of snapshots of which each rank writes its own points; small files are joined when the run is complete.

    path : the joined file. joined : True to join the parts.
    """

    def __init__(
        self, writer: PartWriter, snapshot: SnapshotGrid, fields: tuple[str, ...], steps: SnapshotSteps,
        path: Path, joined: bool, jobs: ImmediateJobs | None = None,
    ) -> None:  # fmt: skip
        super().__init__(writer, snapshot, fields, steps, jobs)
        self.path, self.joined = path, joined

    def _ask(self, solver: GatheredSolver) -> PendingFields:
        return solver.local_fields(self.snapshot, self.fields)[1]

    def finish(self, solver: GatheredSolver, clock: Clock) -> None:
        """Append the last snapshot, and join the parts, or add a remark with the command that joins them."""
        self.flush(solver)
        with collective_section(solver.ranks):
            self.sync()
            self.close()
        if solver.ranks.is_root:
            problem = ""
            try:
                if self.joined:
                    join_snapshots(self.path)
                    remove_parts(self.path)
            except OutputError as error:  # the run has succeeded
                problem = f" ({error})"
            if not self.joined or problem:
                self.remarks = (
                    f"{self.path.name} consists of the parts that the ranks have written{problem}; "
                    f"`lithowave join {self.path.parent.parent}` joins them",
                )
        solver.ranks.barrier()


class PeakRecorder(Recorder):
    """Recorder of the peaks of velocity and displacement at the surface, over all steps."""

    def __init__(self, path: Path | None, attributes: Entries) -> None:
        self.path, self.attributes = path, attributes

    def due(self, clock: Clock) -> bool:
        """True at every step."""
        return clock.step > 0

    def __call__(self, solver: GatheredSolver, clock: Clock) -> None:
        """Update the peaks with the current velocities."""
        solver.update_peaks()

    def finish(self, solver: GatheredSolver, clock: Clock) -> None:
        """Write the maps."""
        peaks = solver.peaks()
        if self.path is None:
            return
        pgv, pgd = (dict(zip(MEASURES, peaks[name], strict=True)) for name in ("velocity", "displacement"))
        write_peak_motion(self.path, peaks["x"], peaks["y"], pgv, pgd, self.attributes)


class NullWriter:
    """The writer of recorders on ranks that write nothing."""

    samples_written = 0

    def write(self, *_parts: object) -> None:
        """Do nothing."""

    def sync(self) -> None:
        """Do nothing."""

    def truncate(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def snapshot_names(selections: Sequence[Snapshots]) -> list[str]:
    """Return the file names of snapshot selections: ``plane_z_0.vtkhdf``, ``volume.vtkhdf``; duplicates end in
    ``_2``."""
    names: list[str] = []
    for selection in selections:
        plane = selection.plane
        stem = "volume" if plane is None else f"plane_{plane.axis}_{plane.coordinate:zg}"
        stems = [stem, *(f"{stem}_{number}" for number in range(2, len(selections) + 1))]
        names.append(next(s for s in stems if f"{s}.vtkhdf" not in names) + ".vtkhdf")
    return names


def make_recorders(
    simulation: Simulation,
    schedule: Schedule,
    solver: GatheredSolver,
    folder: Path,
    attributes: Entries,
    checkpoint: Checkpoint | None = None,
    jobs: ImmediateJobs | None = None,
) -> list[Recorder]:
    """Return the recorders of the description, with new files or, after a checkpoint, with the existing files.

    All ranks have the same recorders, so that they read the solver at the same steps; except for snapshot parts, only
    those of rank 0 write files. solver : the `GatheredSolver`. jobs : executes their writing; default: at once.

    Raises
    ------
    OutputError : on all ranks, if one of them cannot create or resume a file.
    """
    output, jobs = simulation.output, jobs or ImmediateJobs()
    recorders: list[Recorder] = [_seismograms(simulation, schedule, solver, folder, attributes, checkpoint, jobs)]
    for selection, name in zip(output.snapshots, snapshot_names(output.snapshots), strict=True):
        path = folder / "snapshots" / name
        recorders.append(_snapshots(selection, schedule, solver, path, attributes, checkpoint, jobs))
    if output.peak_motion:
        solver.start_peaks()
        recorders.append(PeakRecorder(folder / PEAK_FILE if solver.ranks.is_root else None, attributes))
    return recorders


def _seismograms(
    simulation: Simulation,
    schedule: Schedule,
    solver: GatheredSolver,
    folder: Path,
    attributes: Entries,
    checkpoint: Checkpoint | None,
    jobs: ImmediateJobs,
) -> SeismogramRecorder:
    output, path, receivers = simulation.output, folder / "seismograms.h5", simulation.acquisition.receivers
    attributes = attributes | receiver_axes(attributes)
    attributes["time_dispersion_corrected_to"] = schedule.corrected_frequency
    attributes |= sea_floor_attributes([receivers[number].name for number in solver.sea_floor])
    capacity = block_length(len(receivers))  # the same on all ranks, which gather the records together
    writer: SeismogramWriter | NullWriter = NullWriter()
    with collective_section(solver.ranks):
        if not solver.ranks.is_root:
            receivers = []
        elif checkpoint is None:
            writer = SeismogramWriter(
                path, receivers, schedule.sampling_interval, schedule.sample_count, output.quantity,
                output.stress, output.pressure, attributes | INCOMPLETE, sources=simulation.acquisition.sources,
                precision=simulation.compute.precision, strain=output.strain,
            )  # fmt: skip
        else:
            _require_axes(path, simulation)
            writer = SeismogramWriter.resume(
                path, int(checkpoint.common["seismograms"]["samples"]), schedule.sample_count
            )
    turns = component_turns(receivers)
    recorder = SeismogramRecorder(writer, schedule, output, len(receivers), capacity, jobs, turns)
    recorder.prepare(solver)
    return recorder


def _require_axes(path: Path, simulation: Simulation) -> None:
    """Refuse to resume a run of an earlier version, in which true North was that of the grid."""
    points = *simulation.acquisition.sources, *simulation.acquisition.receivers
    if states_axes(path) or not component_turns(points).any():
        return
    raise OutputError(
        f"{path}: begun by an earlier version of lithowave, which took true North for that of the grid; run the "
        f"simulation again and replace the run ({OVERWRITE})."
    )


def _snapshots(
    selection: Snapshots,
    schedule: Schedule,
    solver: GatheredSolver,
    path: Path,
    attributes: Entries,
    checkpoint: Checkpoint | None,
    jobs: ImmediateJobs,
) -> SnapshotRecorder:
    steps = SnapshotSteps(selection.interval, schedule)
    snapshot, ranks, fields = solver.snapshot_grid(selection), solver.ranks, tuple(selection.fields)
    head = SnapshotHead(snapshot.origin, snapshot.spacing, snapshot.shape[::-1], fields, len(steps), attributes)
    in_parts = ranks.size > 1 and (min(snapshot.shape) > 1 or math.prod(snapshot.shape) > MAX_GATHERED_POINTS)
    if checkpoint is not None:  # as in the stopped run, on any number of ranks
        in_parts = ranks.broadcast(parts_folder(path).is_dir())
    if in_parts:
        kept = None if checkpoint is None else steps.until(checkpoint.step)
        part = part_writer(path, head, solver.snapshot_points(snapshot), ranks, kept)
        joined = joined_bytes(head) < JOINED_BY_RUNS
        return PartitionedSnapshotRecorder(part, snapshot, fields, steps, path, joined, jobs)
    writer: SnapshotWriter | NullWriter = NullWriter()
    with collective_section(ranks):
        if ranks.is_root and checkpoint is not None:
            writer = SnapshotWriter.resume(path, float(checkpoint.common["clock"]["time"]))
        elif ranks.is_root:
            remove_snapshots(path)
            writer = new_snapshot_file(path, head)
    return SnapshotRecorder(writer, snapshot, fields, steps, jobs)
