"""What receivers record besides velocity: displacement, acceleration, stress and pressure, at the right times."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import lithowave as lw
from exact_solutions.full_space import full_space_moment
from fake_solver import STEPS, part_of_a_run, simulation_of
from lithowave.output import (
    SeismogramRecorder,
    SeismogramWriter,
    load_peak_motion,
    load_seismograms,
    load_snapshots,
    read_seismograms,
    record_lag,
    recorders,
)
from lithowave.parallel import SINGLE_RANK
from lithowave.solvers import Clock, PendingFields, Schedule
from verification_tools import ABSORBING_TOP, record, relative_l2

VP, VS, RHO = 5000.0, 2900.0, 2600.0
SIGMA = 0.11
SOURCE, RECEIVER = [35.0, -60.0, 20.0], [700.0, 420.0, -530.0]
MOMENT = {"xx": 1.2e15, "yy": 0.4e15, "zz": 0.9e15, "xz": 0.8e15}


def experiment(**output: object) -> lw.Simulation:
    return lw.Simulation(
        domain={axis: [-1000, 1000] for axis in "xyz"},
        boundaries=ABSORBING_TOP,
        material={"homogeneous": {"vp": VP, "vs": VS, "rho": RHO}},
        sources=[
            {
                "position": SOURCE,
                "moment_tensor": MOMENT,
                "time_function": {"gaussian": {"sigma": SIGMA, "delay": 6 * SIGMA}},
            }
        ],
        receivers=[{"network": "XX", "name": "A", "position": RECEIVER}],
        duration=1.8,
        solver={"spacing": 62.5, "max_frequency": 3.5, "order": 4},
        compute={"precision": "single", "threads": 1},
        output={"sampling_interval": 0.02, **output},
    )


def run(folder: Path, **output: object) -> lw.Seismograms:
    return experiment(**output).run(output=folder).seismograms


def exact(place: np.ndarray, time: np.ndarray) -> np.ndarray:
    """Displacement (3, n) at a place."""
    source = experiment().point_sources()[0]
    return full_space_moment(place, SOURCE, source.moment, source.time_function.rate, time, VP, VS, RHO)


def exact_stress(time: np.ndarray) -> np.ndarray:
    """Stress (6, n) by differences of the exact displacement."""
    step = 2.0
    gradient = np.zeros((3, 3, time.size))
    for axis in range(3):
        offset = step * np.eye(3)[axis]
        gradient[axis] = (exact(RECEIVER + offset, time) - exact(RECEIVER - offset, time)) / (2 * step)
    mu = RHO * VS**2
    lam = RHO * VP**2 - 2 * mu
    trace = lam * (gradient[0, 0] + gradient[1, 1] + gradient[2, 2])
    shear = [mu * (gradient[a, b] + gradient[b, a]) for a, b in ((0, 1), (0, 2), (1, 2))]
    return np.stack([*(trace + 2 * mu * gradient[a, a] for a in range(3)), *shear])


@pytest.mark.parametrize("quantity", ["displacement", pytest.param("velocity", marks=pytest.mark.slow), "acceleration"])
def test_quantities_against_the_closed_form(tmp_path: Path, quantity: str) -> None:
    seismograms = run(tmp_path / "run", quantity=quantity)
    time = seismograms.time
    fine = np.linspace(0, time[-1], 16 * (time.size - 1) + 1)
    motion = exact(np.array(RECEIVER), fine)
    for _ in range(["displacement", "velocity", "acceleration"].index(quantity)):
        motion = np.gradient(motion, fine, axis=1, edge_order=2)
    error = relative_l2(seismograms.data[0], motion[:, ::16])
    record(f"recorded_{quantity}", relative_l2=error)
    assert error < 0.01


def test_stress_and_pressure_against_the_closed_form(tmp_path: Path) -> None:
    seismograms = run(tmp_path / "run", stress=True, pressure=True)
    stress = exact_stress(seismograms.time)
    errors = {
        "stress": relative_l2(seismograms.stress[0], stress),
        "pressure": relative_l2(seismograms.pressure[0], -stress[:3].mean(axis=0)),
    }
    record("recorded_stress_and_pressure", **errors)
    assert max(errors.values()) < 0.015
    # A sample half a step early or late, which is what a leapfrog scheme tempts to, would be seen.
    late = exact_stress(seismograms.time + 0.5 * 0.01)
    assert relative_l2(seismograms.stress[0], late) > 2 * errors["stress"]


@pytest.mark.parametrize("quantity", ["velocity", "acceleration"])
def test_snapshots_end_with_the_samples(tmp_path: Path, quantity: str) -> None:
    """A snapshot at every step, where the loop may go one step further for the last acceleration."""
    simulation = experiment(
        quantity=quantity, snapshots={"interval": 0.001, "plane": {"z": 0}, "stride": 8}
    ).with_overrides({"duration": 0.1})
    result = simulation.run(output=tmp_path / "run")
    steps, step = result.report["plan"]["steps"], result.report["plan"]["time_step_s"]
    with load_snapshots(tmp_path / "run" / "snapshots" / "plane_z_0.vtkhdf") as snapshots:
        last = int(np.ceil(0.1 / step))
        assert last < steps and len(snapshots) == last + 1
        assert snapshots.times == pytest.approx([n * step for n in range(last + 1)])


class Oscillation:
    """A solver whose tensors at a receiver are cosines of time; staggered : known half a step before the velocities."""

    step = 0.01
    ranks = SINGLE_RANK

    def __init__(self, staggered: bool) -> None:
        self.now, self.kept, self.with_stress, self.staggered = 0, {}, None, staggered

    def start_records(self, capacity: int, stress: bool) -> None:
        self.with_stress = stress

    def record(self, slot: int) -> None:
        phase = 3.0 * (self.now - 0.5 * self.staggered) * self.step
        size = np.cos(phase) if self.now > 0 else 0.0
        tensor = size * np.arange(1.0, 7.0)[None]
        self.kept[slot] = {"velocity": np.zeros((1, 3)), "stress": tensor, "strain": 1e-9 * tensor}

    def records(self, count: int) -> SimpleNamespace:
        names = ("velocity", "stress", "strain")
        block = {name: np.stack([self.kept[slot][name] for slot in range(count)]) for name in names}
        return PendingFields({}, lambda _: block)


@pytest.mark.parametrize("staggered", [True, False])
@pytest.mark.parametrize("stop", [None, 37])
@pytest.mark.parametrize("asked", [{"strain": True}, {"strain": True, "stress": True, "pressure": True}])
def test_strain_is_treated_as_stress_is(
    tmp_path: Path, asked: dict[str, bool], stop: int | None, staggered: bool
) -> None:
    """Values at the steps, or means of those half a step before and after, over blocks, and over a checkpoint."""
    output = lw.Output(**asked)
    assert output.tensors and record_lag("velocity", output.tensors) == 1
    schedule = Schedule(Oscillation.step, 1.0, 2 * Oscillation.step, 41)
    receiver = SimpleNamespace(network="XX", station="A", position=(0.0, 0.0, 0.0))
    path = tmp_path / "seismograms.h5"
    writer = SeismogramWriter(path, [receiver], 0.02, 41, "velocity", precision="double", **asked)
    solver, recorder = Oscillation(staggered), SeismogramRecorder(writer, schedule, output, 1)
    recorder.capacity = 7
    recorder.prepare(solver)
    assert solver.with_stress is True
    for solver.now in range(1, 82):
        clock = Clock(Oscillation.step, 81, solver.now)
        assert recorder.due(clock)
        recorder(solver, clock)
        if solver.now == stop:
            recorder.flush(solver)
            state = recorder.state()
            recorder.close()
            recorder = SeismogramRecorder(SeismogramWriter.resume(writer.path), schedule, output, 1)
            recorder.prepare(solver)
            recorder.restore(state, clock)
    recorder.finish(solver, clock)
    recorder.close()
    read = load_seismograms(tmp_path)
    smoothing = np.cos(1.5 * Oscillation.step) if staggered else 1.0  # of the mean of two
    exact = np.cos(3.0 * read.time) * smoothing * np.arange(1.0, 7.0)[:, None]
    np.testing.assert_allclose(read.strain[0][:, 1:], 1e-9 * exact[:, 1:], rtol=1e-9, atol=1e-20)
    if output.stress:
        np.testing.assert_allclose(read.stress[0][:, 1:], exact[:, 1:], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(read.pressure[0, 1:], -2.0 * exact[0, 1:], rtol=1e-9, atol=1e-12)
    else:
        assert read.stress is None and "strain" in recorder.state()


PLANE = {"interval": 0.05, "plane": {"z": 0}, "fields": ["velocity"]}
VOLUME = {"interval": 0.08, "volume": True, "fields": ["pressure", "stress"]}


def assert_same_output(first: Path, second: Path) -> None:
    """Seismograms to the rounding of shares that add up, what is not added to the bit."""
    s, t = read_seismograms(first), read_seismograms(second)
    assert len(s.time) == s.sample_count and len(t.time) == t.sample_count and s.names == t.names
    for name in ("data", "stress", "pressure"):
        one, other = getattr(s, name), getattr(t, name)
        assert (one is None) == (other is None)
        if one is not None:
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-14)
            assert abs(one).max() > 0.1
    peaks, others = load_peak_motion(first), load_peak_motion(second)
    # the loop goes on for a step where stress is asked for
    assert peaks.pgv["total"].shape == (3, 4) and peaks.pgv["total"][2, 3] in (13 * STEPS, 13 * (STEPS + 1))
    for name in ("pgv", "pgd"):
        for measure, values in getattr(peaks, name).items():
            assert np.array_equal(values, getattr(others, name)[measure])
    for path in (first / "snapshots").glob("*.vtkhdf"):
        with load_snapshots(path) as u, load_snapshots(second / "snapshots" / path.name) as v:
            assert u.times.tolist() == v.times.tolist() and len(u) > 3
            for step in range(len(u)):
                for field in u.fields:
                    assert np.array_equal(u.read(step, field), v.read(step, field), equal_nan=True)


@pytest.mark.parametrize("asked", [{}, {"stress": True, "pressure": True}, {"quantity": "displacement"}])
@pytest.mark.parametrize("sizes", [(2,), (5,), (3, 2), (4, 1), (1, 3)])
def test_any_number_of_ranks_writes_the_same(tmp_path: Path, monkeypatch, sizes, asked) -> None:
    """Receivers shared by two ranks, blocks of five records, and runs that go on on other numbers of ranks."""
    monkeypatch.setattr(recorders, "MAX_RECORDS", 5)
    simulation = simulation_of([PLANE, VOLUME], peak_motion=not sizes[1:], **asked)
    alone = simulation_of([PLANE, VOLUME], peak_motion=True, **asked)
    part_of_a_run(tmp_path / "one", 1, alone)
    for size in sizes[:-1]:
        part_of_a_run(tmp_path / "run", size, simulation, until=13, beyond=4)
    part_of_a_run(tmp_path / "run", sizes[-1], simulation)
    if sizes[1:]:  # the peaks of a run that goes on are of the state of its solver
        shutil.copy(tmp_path / "one" / "peak_motion.h5", tmp_path / "run")
    assert_same_output(tmp_path / "one", tmp_path / "run")
