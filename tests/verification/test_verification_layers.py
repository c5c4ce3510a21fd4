"""What the absorbing layers of grids leave."""

from __future__ import annotations

import numpy as np
import pytest

import lithowave as lw
from verification_tools import draw, make, record


def kinetic_energy(solver: object) -> float:
    """Sum of |v|^2 over the points that lie in no layer."""
    grid, halo = solver.grid, solver.plan.halo
    inside = tuple(
        slice(s.start + halo, s.stop + halo) for s in (grid.interior(axis) for axis in (2, 1, 0))
    )
    return sum(float(np.sum(solver.fields_by_name[name][inside].astype(float) ** 2)) for name in ("vx", "vy", "vz"))


@pytest.mark.slow
def test_absorbing_layers_leave_nothing_and_do_not_grow() -> None:
    """Ten cells, vp/vs = 4, a long thin box along whose sides waves graze, 20,000 steps."""
    simulation = lw.Simulation(
        domain={"x": [0, 6000], "y": [0, 1500], "z": [-1500, 0]},
        boundaries={"top": "absorbing"},
        material={"homogeneous": {"vp": 4000, "vs": 1000, "rho": 2200}},
        sources=[
            {
                "position": [330, 210, -170],
                "moment_tensor": {"xx": 1e15, "yy": 2e15, "xz": 1.5e15},
                "time_function": {"gaussian": {"sigma": 0.25, "delay": 1.5}},
            }
        ],
        receivers=[],
        duration=300.0,
        solver={"order": 4, "spacing": 100.0, "max_frequency": 1.5},
        output={"sampling_interval": 0.015},
    )
    plan, solver = make(simulation)
    steps, energies, times = 20_000, [], []
    for step in range(steps):
        solver.advance(step)
        if step % 20 == 0 and (step < 2000 or step % 200 == 0):
            energies.append(kinetic_energy(solver))
            times.append((step + 1) * plan.schedule.time_step)
    energies, times = np.array(energies), np.array(times)
    # The slowest wave has crossed the box along its diagonal twice.
    left = energies[times > 3.0 + 2 * 6400 / 1000] / energies.max()
    record("absorbing_layers", cells=10, steps=steps, energy_left=float(left[0]), energy_at_end=float(left[-1]))

    def plot(figure: object) -> None:
        axis = figure.subplots()
        axis.loglog(times, energies / energies.max() + 1e-40)
        axis.axhline(2e-11, color="k", linewidth=0.8, linestyle="--")
        axis.set_xlabel("time (s)")
        axis.set_ylabel("energy in the box over its largest")
        axis.set_ylim(1e-20, 2)

    draw("absorbing_layers", plot)
    assert left.max() <= 2e-11
    half = len(left) // 2
    assert left[half:].max() <= left[:half].max() * 1.0001
