"""A solver without physics, cut into parts among ranks: what it is asked for depends on step and place only."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import lithowave as lw
from checkpoints import write_checkpoint
from fake_ranks import on_ranks
from lithowave.description import Acquisition
from lithowave.output import ImmediateJobs, Recorder, make_recorders, open_checkpoint, record_lag
from lithowave.parallel import Ranks
from lithowave.solvers import Clock, GatheredSolver, PendingFields, Schedule, SnapshotGrid

STEP, STEPS, RECEIVERS = 0.01, 24, 5
SHAPE = (6, 5, 4)  # nx, ny, nz
SCHEDULE = Schedule(STEP, STEP, 2 * STEP, STEPS // 2 + 1)


class FakeSolver:
    """What a rank has: every so many of the points in no order, one of them on no rank; shares of the receivers."""

    staggered = True
    sea_floor = ()
    plan = None

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size, self.now = rank, size, 0
        self.share = 1.0 if size == 1 else 0.25  # of the receivers that the next rank has, too
        mine = [n for n in range(RECEIVERS) if n % size == rank]
        others = [n for n in range(RECEIVERS) if size > 1 and (n + 1) % size == rank]
        self.receiver_numbers = np.array(mine + others, int)
        self.weights = np.array([self.share] * len(mine) + [1.0 - self.share] * len(others))
        self.kept: dict[int, dict[str, np.ndarray]] = {}

    def start_records(self, capacity: int, stress: bool) -> None:
        self.capacity = capacity

    def record(self, slot: int) -> None:
        assert slot < self.capacity
        phase = np.sin(0.3 * self.now * (1.0 + self.receiver_numbers)) * self.weights
        self.kept[slot] = {"velocity": np.outer(phase, np.arange(1, 4)), "stress": np.outer(phase, np.arange(1, 7))}

    def records(self, count: int) -> PendingFields:
        block = {name: np.stack([self.kept[slot][name] for slot in range(count)]) for name in ("velocity", "stress")}
        return PendingFields({}, lambda _: block)

    def snapshot_grid(self, selection: Any) -> SnapshotGrid:
        flat = {"x": (1, *SHAPE[1:]), "y": (SHAPE[0], 1, SHAPE[2]), "z": (*SHAPE[:2], 1)}
        shape = SHAPE if selection.plane is None else flat[selection.plane.axis]
        return SnapshotGrid((1.0, 2.0, 3.0), (10.0, 20.0, 30.0), shape)

    def snapshot_points(self, snapshot: SnapshotGrid) -> np.ndarray:
        owners = np.random.default_rng(self.size).integers(0, self.size, int(np.prod(snapshot.shape)))
        owners[7] = -1  # outside the mesh
        if self.size == 4:
            owners[owners == 2] = 3  # a rank without points
        return np.flatnonzero(owners == self.rank)[::-1]

    def fields(self, snapshot: SnapshotGrid, names: tuple[str, ...]) -> PendingFields:
        points, now = self.snapshot_points(snapshot), self.now
        components = {"velocity": (3,), "stress": (6,), "pressure": ()}
        values = {}
        for name in names:
            pattern = np.arange(1.0, 1.0 + int(np.prod(components[name]))).reshape(components[name])
            values[name] = np.multiply.outer(np.cos(0.1 * now + points), pattern).astype(np.float32)
        return PendingFields({}, lambda _: values)

    def start_peaks(self) -> None:
        self.most = np.zeros(2)

    def update_peaks(self) -> None:
        self.most = np.maximum(self.most, [self.now, 0.5 * self.now])

    def peaks(self) -> dict[str, np.ndarray]:
        points = np.arange(self.rank, 12, self.size)
        names = ("velocity", "displacement")
        own = {name: self.most[n] * (np.arange(3)[:, None] + points) for n, name in enumerate(names)}
        return {"x": np.arange(4.0), "y": np.arange(3.0), "points": points, **own}


def simulation_of(snapshots: Any, **output: Any) -> Any:
    receivers = [
        SimpleNamespace(network="XX", station=f"S{n}", position=(float(n), 0.0, 0.0)) for n in range(RECEIVERS)
    ]
    return SimpleNamespace(
        output=lw.Output(snapshots=snapshots, **output),
        compute=SimpleNamespace(precision="double"),
        acquisition=Acquisition((), (tuple(receivers),)),
    )


def part_of_a_run(
    folder: Path,
    size: int,
    simulation: Any,
    until: int | None = None,
    beyond: int = 0,
    each_step: Callable[[int, list[Recorder]], None] = lambda *_: None,
    jobs: Callable[[], ImmediateJobs] = ImmediateJobs,
) -> list[tuple[str, ...]]:
    """Go on from the last checkpoint on so many ranks, to a checkpoint, and some steps further, or to the end.

    Returns the remarks of the recorders of the first rank.
    """

    def work(ranks: Ranks) -> list[tuple[str, ...]]:
        checkpoint = open_checkpoint(folder, "identity")
        own = FakeSolver(ranks.rank, ranks.size)
        solver = GatheredSolver(own, ranks, simulation.acquisition)
        output = simulation.output
        clock = Clock(STEP, STEPS + record_lag(output.quantity, output.tensors))
        own_jobs = jobs()
        recorders = make_recorders(simulation, SCHEDULE, solver, folder, {"title": "fake"}, checkpoint, own_jobs)
        try:
            if checkpoint is not None:
                clock.step = own.now = checkpoint.step
                for number, recorder in enumerate(recorders):
                    recorder.restore(checkpoint.common.get(f"recorder{number}", {}), clock)
            for recorder in recorders:
                recorder.start(solver, clock)
            end = clock.steps if until is None else until + beyond
            while clock.step < end:
                own.now += 1
                clock.tick()
                for recorder in recorders:
                    if recorder.due(clock):
                        recorder(solver, clock)
                each_step(ranks.rank, recorders)
                if clock.step == until:
                    common = {"clock": {"step": np.array(clock.step), "time": np.array(clock.time)}}
                    for number, recorder in enumerate(recorders):
                        recorder.flush(solver)
                        recorder.sync()
                        common[f"recorder{number}"] = recorder.state()
                    common["seismograms"] = common["recorder0"]
                    write_checkpoint(folder, common, {}, "identity", ranks)
            if until is None:
                for recorder in recorders:
                    recorder.finish(solver, clock)
            return [recorder.remarks for recorder in recorders]
        finally:
            own_jobs.close()
            for recorder in recorders:
                recorder.close()

    return on_ranks(size, work)[0]
