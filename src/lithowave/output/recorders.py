"""Recorders of seismograms, snapshots and peak motion: callbacks of the time loop that read the solver and write files.

In addition to the methods of a callback (`lithowave.run.callback.Callback`) they have `flush` and `sync`, after which
everything recorded so far is on disk and readable, and `state` and `restore` for checkpoints.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lithowave.errors import OutputError
from lithowave.output.checkpoint import Checkpoint
from lithowave.output.joining import JOINED_BY_RUNS, join_snapshots, joined_bytes, new_snapshot_file
from lithowave.output.peak_motion import FILE_NAME as PEAK_FILE
from lithowave.output.peak_motion import MEASURES, write_peak_motion
from lithowave.output.seismograms import SeismogramWriter
from lithowave.output.snapshot_parts import (
    PartWriter,
    SnapshotHead,
    part_writer,
    parts_folder,
    remove_parts,
    remove_snapshots,
)
from lithowave.output.snapshots import SnapshotWriter
from lithowave.parallel.collective import collective_section
from lithowave.solvers.clock import Clock, Schedule
from lithowave.solvers.gathered import GatheredSolver
from lithowave.solvers.interface import PendingFields, SnapshotGrid

if TYPE_CHECKING:
    from lithowave.description.outputs import Snapshots
    from lithowave.description.simulation import Simulation

MAX_RECORDS = 256
NOTHING = 1e-36  # m/s (m, m/s^2): what is not larger is round-off in single precision, and counts as zero
# Points of a snapshot of a plane that several ranks hand to the first one, which writes it: 24 MB of velocities. More,
# and volumes, would keep all waiting for one disk.
MAX_GATHERED_POINTS = 2_000_000
COMPONENTS = {"velocity": 3, "stress": 6, "pressure": 1}


class Recorder:
    """A recorder with nothing to prepare, to flush or to save.

    remarks : lines for the log of a complete run.
    """

    remarks: tuple[str, ...] = ()

    def due(self, clock: Clock) -> bool:
        """True if this step is to be recorded."""
        raise NotImplementedError

    def __call__(self, solver: GatheredSolver, clock: Clock) -> None:
        """Record this step."""
        raise NotImplementedError

    def start(self, solver: GatheredSolver, clock: Clock) -> None:
        """Record the first step of the loop, if it is due."""

    def flush(self, solver: GatheredSolver) -> None:
        """Write everything recorded so far."""

    def sync(self) -> None:
        """Wait until what was written has reached the disk: a checkpoint relies on it."""

    def state(self) -> dict[str, np.ndarray]:
        """What a restart needs."""
        return {}

    def restore(self, state: dict[str, np.ndarray], clock: Clock) -> None:
        """Go on from `state` at the clock's step."""

    def finish(self, solver: GatheredSolver, clock: Clock) -> None:
        """Write the rest; the run is complete."""

    def close(self) -> None:
        """Close files."""


def record_lag(quantity: str, with_stress: bool) -> int:
    """Steps after which a sample is known: acceleration, stress and strain are centred on it, so they lag."""
    return 1 if quantity == "acceleration" or with_stress else 0


def block_length(receiver_count: int) -> int:
    """Records that are kept on the device before they are brought to the host: at most 64 MB of them."""
    return max(1, min(MAX_RECORDS, (64 << 20) // max(1, receiver_count * 72)))


class SeismogramRecorder(Recorder):
    r"""Seismograms: from velocities at the receivers, kept on the device in blocks, to the quantity wanted.

    At step n: displacement is the trapezoidal sum, acceleration (v_{n+1} - v_{n-1}) / (2 dt); stress and strain, where
    the method has them at half steps, the mean of their values half a step before and after. All is of second order in
    time.
    """

    def __init__(
        self,
        writer: SeismogramWriter,
        schedule: Schedule,
        output: Any,
        receiver_count: int,
        capacity: int | None = None,
    ) -> None:
        self.writer, self.schedule, self.quantity = writer, schedule, output.quantity
        self.tensors, self.stress, self.pressure, self.strain = (
            output.tensors,
            output.stress,
            output.pressure,
            output.strain,
        )
        self.lag = record_lag(self.quantity, self.tensors)
        only_velocity = self.quantity == "velocity" and not self.tensors
        self.every = schedule.sample_every if only_velocity else 1
        self.capacity = capacity or block_length(receiver_count)
        self.count = 0
        # The last two velocities, the displacement and the tensors before the block, at rest in the beginning.
        self.carry = {
            "velocity": np.zeros((2, receiver_count, 3)),
            "displacement": np.zeros((receiver_count, 3)),
            "stress": np.zeros((receiver_count, 6)),
        }
        if self.strain:
            self.carry["strain"] = np.zeros((receiver_count, 6))
        self.last_step, self.moved = 0, False  # moved : whether a sample that was written exceeds `NOTHING`
        self.staggered = True  # whether the solver's tensors are those of half a step before
        self._coming: tuple[PendingFields, np.ndarray] | None = None  # a full block in transfer, and its steps
        if writer.samples_written == 0 and self.lag == 0:
            writer.write(0, {"motion": np.zeros((receiver_count, 3, 1))})

    def prepare(self, solver: GatheredSolver) -> None:
        """Make room on the device."""
        self.staggered = solver.staggered
        solver.start_records(self.capacity, self.tensors)

    def due(self, clock: Clock) -> bool:
        """At the samples, or at every step where integrals or differences are needed."""
        return clock.step % self.every == 0

    def __call__(self, solver: GatheredSolver, clock: Clock) -> None:
        """Keep a record on the device; when a block is full ask for it, and write the one asked for before."""
        solver.record(self.count)
        self.count += 1
        self.last_step = clock.step
        if self.count == self.capacity:
            self._ask(solver)

    def _ask(self, solver: GatheredSolver) -> None:
        """Begin to bring the records kept so far to the host, while the device goes on."""
        self._take()
        steps = self.last_step - self.every * np.arange(self.count)[::-1]
        self._coming = solver.records(self.count), steps
        self.count = 0

    def _take(self) -> None:
        """Convert and write the block that was asked for."""
        if self._coming is not None:
            coming, steps = self._coming
            self._coming = None
            block = self._converted(coming.wait(), steps)
            self.moved |= bool((np.abs(block["motion"]) > NOTHING).any())
            if block["motion"].shape[-1]:
                self.writer.write(self.writer.samples_written, block)

    def flush(self, solver: GatheredSolver) -> None:
        """Convert the records kept so far and write them."""
        if self.count:
            self._ask(solver)
        self._take()

    def _converted(self, records: dict[str, np.ndarray], steps: np.ndarray) -> dict[str, np.ndarray]:
        """Samples (n_receivers, components, n) at steps - lag; keeps the carry for the next block."""
        velocity, dt = records["velocity"], self.schedule.time_step
        wanted = (steps - self.lag) % self.schedule.sample_every == 0
        wanted &= (steps - self.lag) // self.schedule.sample_every < self.schedule.sample_count
        line = np.concatenate([self.carry["velocity"], velocity])  # entry n + 2 is that of record n
        increments = 0.5 * dt * (line[1:-1] + line[2:])
        displacement = np.cumsum(np.concatenate([self.carry["displacement"][None], increments]), axis=0)
        if self.quantity == "velocity":
            motion = line[2 - self.lag : len(line) - self.lag]
        elif self.quantity == "displacement":
            motion = displacement[1 - self.lag : len(displacement) - self.lag]
        else:
            motion = (line[2:] - line[:-2]) / (2.0 * dt)
        block = {"motion": np.moveaxis(motion[wanted], 0, 2)}
        if self.stress or self.pressure:
            stress = self._centred("stress", records)[..., wanted]
            block |= {"stress": stress} if self.stress else {}
            block |= {"pressure": -stress[:, :3].mean(axis=1)} if self.pressure else {}
        if self.strain:
            block["strain"] = self._centred("strain", records)[..., wanted]
        self.carry["velocity"], self.carry["displacement"] = line[-2:].copy(), displacement[-1].copy()
        return block

    def _centred(self, name: str, records: dict[str, np.ndarray]) -> np.ndarray:
        """(n_receivers, 6, n): a tensor at the steps before the records, of the time of the velocities there."""
        around = np.concatenate([self.carry[name][None], records[name]])
        self.carry[name] = around[-1].copy()
        tensor = 0.5 * (around[:-1] + around[1:]) if self.staggered else around[:-1]
        return np.moveaxis(tensor, 0, 2)

    def sync(self) -> None:
        """See `Recorder`."""
        self.writer.sync()

    def state(self) -> dict[str, np.ndarray]:
        """Call `flush` before."""
        return {**self.carry, "samples": np.array(self.writer.samples_written)}

    def restore(self, state: dict[str, np.ndarray], clock: Clock) -> None:
        """Go on from `state`; the writer has been opened with that number of samples."""
        # that of all receivers: ranks that write nothing have none of them
        self.carry = {name: state[name][..., : own.shape[-2], :] for name, own in self.carry.items()}
        self.last_step = clock.step

    def finish(self, solver: GatheredSolver, clock: Clock) -> None:
        """Write the last block; the file of a run that ends early holds no more than the samples written."""
        self.flush(solver)
        if clock.stop_reason is not None:
            with collective_section(solver.ranks):
                self.writer.truncate()

    def close(self) -> None:
        """Close the file."""
        self.writer.close()


class SnapshotRecorder(Recorder):
    """Fields on a plane or in the volume, every so many steps, the first at time 0, none after step `last`.

    The loop may go on for a step after the last sample, which seismograms of acceleration or stress need.
    """

    def __init__(
        self, writer: SnapshotWriter, snapshot: SnapshotGrid, fields: tuple[str, ...], every: int, last: int
    ) -> None:
        self.writer, self.snapshot, self.fields, self.every, self.last = writer, snapshot, fields, every, last
        self._coming: tuple[float, PendingFields] | None = None  # time and fields of a snapshot in transfer

    def due(self, clock: Clock) -> bool:
        """Every so many steps."""
        return clock.step % self.every == 0 and clock.step <= self.last

    def start(self, solver: GatheredSolver, clock: Clock) -> None:
        """Record the snapshot at time 0; a restarted run has it already."""
        if clock.step == 0:
            self(solver, clock)

    def __call__(self, solver: GatheredSolver, clock: Clock) -> None:
        """Ask for one snapshot, and append the one asked for before: the device goes on meanwhile."""
        coming = self._ask(solver)
        self.flush(solver)
        self._coming = clock.time, coming

    def _ask(self, solver: GatheredSolver) -> PendingFields:
        return solver.fields(self.snapshot, self.fields)

    def flush(self, solver: GatheredSolver) -> None:
        """Append the snapshot that was asked for."""
        if self._coming is not None:
            time, coming = self._coming
            self._coming = None
            self.writer.write(time, coming.wait())

    def finish(self, solver: GatheredSolver, clock: Clock) -> None:
        """Append the last one."""
        self.flush(solver)

    def sync(self) -> None:
        """See `Recorder`."""
        self.writer.sync()

    def close(self) -> None:
        """Close the file."""
        self.writer.close()


class PartitionedSnapshotRecorder(SnapshotRecorder):
    """Snapshots of which each rank writes its own points; what is small becomes one file when the run is complete.

    path : of that file. joined : whether it is to be made.
    """

    def __init__(
        self,
        writer: PartWriter,
        snapshot: SnapshotGrid,
        fields: tuple[str, ...],
        every: int,
        last: int,
        path: Path,
        joined: bool,
    ) -> None:
        super().__init__(writer, snapshot, fields, every, last)
        self.path, self.joined = path, joined

    def _ask(self, solver: GatheredSolver) -> PendingFields:
        return solver.local_fields(self.snapshot, self.fields)[1]

    def finish(self, solver: GatheredSolver, clock: Clock) -> None:
        """Append the last one, and join the parts, or tell how to."""
        with collective_section(solver.ranks):
            self.flush(solver)
            self.sync()
            self.close()
        if solver.ranks.is_root:
            problem = ""
            try:
                if self.joined:
                    join_snapshots(self.path)
                    remove_parts(self.path)
            except OutputError as error:  # the run itself is well
                problem = f" ({error})"
            if not self.joined or problem:
                self.remarks = (
                    f"{self.path.name} is in parts, as the ranks wrote them{problem}: lithowave join "
                    f"{self.path.parent.parent} makes one file of them",
                )
        solver.ranks.barrier()


class PeakRecorder(Recorder):
    """Peaks of velocity and displacement at the surface, over all steps."""

    def __init__(self, path: Path | None, attributes: dict[str, Any]) -> None:
        self.path, self.attributes = path, attributes

    def due(self, clock: Clock) -> bool:
        """Every step."""
        return clock.step > 0

    def __call__(self, solver: GatheredSolver, clock: Clock) -> None:
        """Update the peaks with the present velocities."""
        solver.update_peaks()

    def finish(self, solver: GatheredSolver, clock: Clock) -> None:
        """Write the maps."""
        peaks = solver.peaks()
        if self.path is None:
            return
        pgv, pgd = (dict(zip(MEASURES, peaks[name], strict=True)) for name in ("velocity", "displacement"))
        write_peak_motion(self.path, peaks["x"], peaks["y"], pgv, pgd, self.attributes)


class NullWriter:
    """What recorders write into on ranks that write nothing."""

    samples_written = 0

    def write(self, *_parts: Any) -> None:
        """Nothing."""

    def sync(self) -> None:
        """Nothing."""

    def truncate(self) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


def snapshot_steps(interval: float, schedule: Schedule) -> tuple[int, int]:
    """Steps between two snapshots (the interval in whole steps), and their number with that at time 0."""
    every = max(1, round(interval / schedule.time_step))
    return every, schedule.steps // every + 1


def snapshot_names(selections: Sequence[Any]) -> list[str]:
    """File names of snapshot selections: ``plane_z_0.vtkhdf``, ``volume.vtkhdf``; repeats have ``_2`` ..."""
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
    attributes: dict[str, Any],
    checkpoint: Checkpoint | None = None,
) -> list[Recorder]:
    """The recorders that the description asks for, on new files or (after a checkpoint) on those there.

    Each rank has them, so that all read the solver at the same steps; but for parts of snapshots only those of the
    first rank have something to write. solver : the `GatheredSolver`.

    Raises
    ------
    OutputError : on all ranks, when one of them cannot make a file or go on with it.
    """
    output = simulation.output
    recorders: list[Recorder] = [_seismograms(simulation, schedule, solver, folder, attributes, checkpoint)]
    for selection, name in zip(output.snapshots, snapshot_names(output.snapshots), strict=True):
        path = folder / "snapshots" / name
        recorders.append(_snapshots(selection, schedule, solver, path, attributes, checkpoint))
    if output.peak_motion:
        solver.start_peaks()
        recorders.append(PeakRecorder(folder / PEAK_FILE if solver.ranks.is_root else None, attributes))
    return recorders


def _seismograms(
    simulation: Simulation,
    schedule: Schedule,
    solver: GatheredSolver,
    folder: Path,
    attributes: dict[str, Any],
    checkpoint: Checkpoint | None,
) -> SeismogramRecorder:
    output, path, receivers = simulation.output, folder / "seismograms.h5", simulation.acquisition.receivers
    capacity = block_length(len(receivers))  # on all ranks the same: they ask for the records together
    writer: Any = NullWriter()
    with collective_section(solver.ranks):
        if not solver.ranks.is_root:
            receivers = []
        elif checkpoint is None:
            writer = SeismogramWriter(
                path, receivers, schedule.sampling_interval, schedule.sample_count, output.quantity,
                output.stress, output.pressure, attributes, sources=simulation.acquisition.sources,
                precision=simulation.compute.precision, strain=output.strain,
            )  # fmt: skip
        else:
            writer = SeismogramWriter.resume(
                path, int(checkpoint.common["seismograms"]["samples"]), schedule.sample_count
            )
    recorder = SeismogramRecorder(writer, schedule, output, len(receivers), capacity)
    recorder.prepare(solver)
    return recorder


def _snapshots(
    selection: Snapshots,
    schedule: Schedule,
    solver: GatheredSolver,
    path: Path,
    attributes: dict[str, Any],
    checkpoint: Checkpoint | None,
) -> SnapshotRecorder:
    every, count = snapshot_steps(selection.interval, schedule)
    snapshot, ranks, fields = solver.snapshot_grid(selection), solver.ranks, tuple(selection.fields)
    head = SnapshotHead(snapshot.origin, snapshot.spacing, snapshot.shape[::-1], fields, count, attributes)
    in_parts = ranks.size > 1 and (min(snapshot.shape) > 1 or math.prod(snapshot.shape) > MAX_GATHERED_POINTS)
    if checkpoint is not None:  # as the run began, on whatever number of ranks
        in_parts = ranks.broadcast(parts_folder(path).is_dir())
    if in_parts:
        kept = None if checkpoint is None else min(count, checkpoint.step // every + 1)
        part = part_writer(path, head, solver.snapshot_points(snapshot), ranks, kept)
        joined = joined_bytes(head) < JOINED_BY_RUNS
        return PartitionedSnapshotRecorder(part, snapshot, fields, every, schedule.steps, path, joined)
    writer: Any = NullWriter()
    with collective_section(ranks):
        if ranks.is_root and checkpoint is None:
            remove_snapshots(path)
            writer = new_snapshot_file(path, head)
        elif ranks.is_root:
            writer = SnapshotWriter.resume(path, float(checkpoint.common["clock"]["time"]))
    return SnapshotRecorder(writer, snapshot, fields, every, schedule.steps)


def output_bytes(simulation: Simulation, schedule: Schedule, snapshot_points: list[int]) -> int:
    """Bytes that the recorders will write, checkpoints aside."""
    output = simulation.output
    value = 4 if simulation.compute.precision == "single" else 8
    components = 3 + 6 * output.stress + output.pressure + 6 * output.strain
    total = len(simulation.acquisition.receivers) * components * schedule.sample_count * value
    for selection, points in zip(output.snapshots, snapshot_points, strict=True):
        _, count = snapshot_steps(selection.interval, schedule)
        per_point = sum(COMPONENTS[name] for name in selection.fields)
        thickness = (
            2 if selection.plane is not None and selection.plane.axis in "xy" else 1
        )  # see `snapshots.py`
        total += count * points * thickness * per_point * 4
    return int(math.ceil(total))
