"""Parts of the finite-difference solver: memory, interpolation, layers, denormal numbers, the plan."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

import lithowave as lw
from finite_difference_plans import plan_on_grid
from lithowave import InputError
from lithowave.solvers import make_schedule
from lithowave.solvers.finite_difference import line_weights, plan
from reference_backend import CPU
from verification_tools import make, record, relative_l2, velocities

PULSE = {"gaussian": {"sigma": 0.1, "delay": 0.6}}
MOMENT = {"xx": 1e15, "zz": 3e15, "xz": 2e15}


def half_space(spacing: float, source: list[float], receivers: list[list[float]], **changes: object) -> lw.Simulation:
    description = {
        "domain": {"x": [-800, 1600], "y": [-800, 1200], "z": [-1200, 0]},
        "material": {"homogeneous": {"vp": 3000, "vs": 1700, "rho": 2300}},
        "sources": [{"position": source, "moment_tensor": MOMENT, "time_function": PULSE}],
        "receivers": [{"network": "XX", "name": f"R{n}", "position": p} for n, p in enumerate(receivers)],
        "duration": 1.6,
        "solver": {"order": 4, "spacing": spacing, "max_frequency": 3.0},
        "output": {"sampling_interval": 0.01},
        **changes,
    }
    return lw.Simulation(**description)


def test_memory_of_a_point() -> None:
    bytes_per_point = plan_on_grid((200, 200, 200), 4, "single").memory_bytes() / 200**3
    record("memory", bytes_per_point_order_4=bytes_per_point, limit=56)
    assert bytes_per_point <= 56
    assert plan_on_grid((200, 200, 200), 8, "single").memory_bytes() / 200**3 <= 56


def line_of(position: float, last: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices and weights of a position."""
    lines = line_weights(np.array([position]), last)
    return lines.first[0] + np.arange(lines.count[0]), lines.used()[0]


@pytest.mark.parametrize("position", [3.3, 10.0, 0.4, 0.0, -0.5, 19.6, 20.0])
def test_weights_reproduce_polynomials(position: float) -> None:
    index, weight = line_of(position, 20)
    assert index.min() >= 0 and index.max() <= 20
    for power in range(4):
        assert weight @ (index - 10.0) ** power == pytest.approx((position - 10.0) ** power, rel=1e-9, abs=1e-9)


def test_a_point_at_the_surface_is_a_limit() -> None:
    """Receivers that approach the surface see what one on it sees."""
    receivers = [[500.0, 300.0, -depth] for depth in (0.0, 1e-6, 2.0)]
    data = velocities(half_space(60.0, [0.0, 0.0, -300.0], receivers))[1]
    assert relative_l2(data[1], data[0]) < 1e-5
    assert relative_l2(data[2], data[0]) < 0.02


def test_denormal_numbers_are_flushed() -> None:
    """Ahead of a front nothing lingers between zero and the smallest normal number, which would slow everything."""
    _, solver = make(half_space(60.0, [0.0, 0.0, -300.0], []))
    tiny = np.finfo(np.float32).tiny
    for field in solver.fields_by_name.values():
        field[...] = np.float32(1e-42)
    solver.advance(0)
    halo = solver.plan.halo
    inner = (slice(halo + 1, -halo - 2),) * 3
    for name, field in solver.fields_by_name.items():
        magnitude = np.abs(field[inner])
        assert ((magnitude == 0) | (magnitude >= tiny)).all(), name
    with np.errstate(all="raise"):  # and NumPy has its arithmetic back
        assert np.float32(1e-42) * np.float32(0.5) > 0


def test_largest_stable_step_is_stable_and_a_larger_one_is_not() -> None:
    """99.9% of the limit stays bounded, 102% grows: the limit is the limit."""
    growth = {}
    for fraction in (0.999, 1.02):
        simulation = half_space(50.0, [0, 0, -300], [], boundaries={"sides": "rigid", "bottom": "rigid"})
        limit = plan(simulation, CPU).schedule.limit
        simulation = simulation.with_overrides({"output.sampling_interval": None, "solver.safety": 1.0})
        the_plan, solver = make(simulation)
        scale = fraction * limit / the_plan.schedule.time_step
        solver.step.ratio = solver.backend.scalar(float(solver.step.ratio) * scale)
        generator = np.random.default_rng(3)
        halo = the_plan.halo
        for name in ("vx", "vy", "vz"):
            inner = solver.fields_by_name[name][(slice(halo + 1, -halo - 2),) * 3]
            inner[...] = generator.standard_normal(inner.shape)
        for step in range(300):
            solver.advance(step)
        growth[fraction] = solver.largest_velocity()
    assert growth[0.999] < 100
    assert growth[1.02] > 1e3


def test_the_time_step_follows_from_stability_alone() -> None:
    schedule = make_schedule(limit=0.0037, duration=1.0, safety=0.9, sampling_interval=0.01)
    assert schedule.time_step == 0.9 * 0.0037 and schedule.sampling_interval == 0.01
    assert schedule.sample_count == 101 and schedule.sample_every is None
    assert (schedule.last_step - 1) * schedule.time_step < 1.0 <= schedule.last_step * schedule.time_step
    given = make_schedule(limit=0.0037, duration=1.0, safety=0.9, time_step=0.003, sampling_interval=0.01)
    assert (given.time_step, given.sample_every, given.last_step, given.steps) == (0.003, None, 334, 338)
    even = make_schedule(limit=0.0037, duration=1.0, safety=0.9, time_step=0.0025, sampling_interval=0.01)
    assert (even.sample_every, even.steps) == (4, 400)
    corrected = make_schedule(0.0037, 1.0, 0.9, 0.0025, 0.01, corrected_frequency=5.0)
    assert (corrected.sample_every, corrected.last_step, corrected.steps) == (None, 400, 412)
    with pytest.raises(InputError, match="stability limit"):
        make_schedule(limit=0.0037, duration=1.0, safety=0.9, time_step=0.004)


def test_seismograms_state_the_correction_of_the_time_steps(tmp_path: Path) -> None:
    solver = {"order": 4, "spacing": 100.0, "max_frequency": 2.0}
    for corrected in (True, False):
        folder, changes = tmp_path / str(corrected), {"solver": solver | {"time_dispersion_correction": corrected}}
        simulation = half_space(100.0, [0, 0, -400], [[400, 300, 0]], duration=0.2, **changes)
        lw.run_simulation(simulation, folder)
        with h5py.File(folder / "seismograms.h5") as file:
            assert ("time_dispersion_corrected_to" in file.attrs) == corrected
            assert not corrected or 2.0 <= file.attrs["time_dispersion_corrected_to"] <= 6.0


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"boundaries": {"sides": "free"}}, "free is not available on this face"),
        ({"boundaries": {"x_max": "rigid"}, "domain": {"x": [-800, 1630], "y": [-800, 1200], "z": [-1200, 0]}},
         "rigid face lies between grid points"),
        ({"boundaries": {"sides": "rigid"}, "domain": {"x": [-100, 140], "y": [-800, 1200], "z": [-1200, 0]}},
         "extent has 5 grid points"),
    ],
)  # fmt: skip
def test_what_the_method_cannot_do_is_refused(changes: dict, text: str) -> None:
    with pytest.raises(InputError, match=text):
        plan(half_space(60.0, [0, 0, -300], [], **changes), CPU)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_predicted_memory_is_right_to_a_tenth() -> None:
    """Peak memory of a whole process against what `check` said."""
    code = """
import sys, tempfile
import lithowave as lw
simulation = lw.Simulation(
    domain={"x": [0, 15000], "y": [0, 15000], "z": [-15000, 0]},
    material={"homogeneous": {"vp": 5000, "vs": 2900, "rho": 2500}},
    sources=[{"position": [5000, 5000, -3000], "moment_tensor": {"xy": 1e15},
              "time_function": {"gaussian": {"sigma": 0.3, "delay": 2.0}}}],
    receivers=[{"network": "XX", "name": "A", "position": [7000, 7000, 0]}],
    duration=0.1, solver={"spacing": 100.0}, output={"sampling_interval": 0.01},
)
if sys.argv[1] == "check":
    print(simulation.check().memory_bytes)
else:
    with tempfile.TemporaryDirectory() as folder:
        simulation.run(output=folder + "/run")
    # not from getrusage, which counts what the parent had before this program began
    with open("/proc/self/status") as lines:
        print(next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM")))
"""
    figures = [
        int(subprocess.run([sys.executable, "-c", code, what], capture_output=True, text=True, check=True).stdout)
        for what in ("check", "run")
    ]
    record("memory_prediction", predicted=figures[0], measured=figures[1])
    assert figures[0] == pytest.approx(figures[1], rel=0.1)
